/* test_topology.c - nodes, switches and islands from made /sys trees, and which cores ranks get. */
#include "base/file.h"
#include "base/topology.h"

#include <stdlib.h>
#include <unistd.h>

#include "tests/lib/test.h"

static char root[64];

static int setup(void **state) {
    (void)state;
    strcpy(root, "/tmp/trident-test-??????");
    memset(root + strlen(root) - 6, 'X', 6);
    return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    return tri__folder_remove_all(root) == TRI_OK ? 0 : -1;
}

static void put(const char *path, const char *text) {
    char whole[512], parent[TRI_PATH_MAX];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    assert_int_equal(tri__path_parent(whole, parent), TRI_OK);
    assert_int_equal(tri__folder_make(parent), TRI_OK);
    assert_int_equal(tri__file_write(whole, text, strlen(text)), TRI_OK);
}

/* A GPU below a root port, with a switch or without. */
static void put_gpu(const char *address, const char *above, const char *node) {
    char path[256], link[256], target[256];
    snprintf(path, sizeof path, "/sys/devices/%s/%s/numa_node", above, address);
    put(path, node);
    put("/sys/bus/pci/drivers/nvidia/bind", "");
    for (int i = 0; i < 2; i++) {
        const char *folder = i ? "/sys/bus/pci/drivers/nvidia" : "/sys/bus/pci/devices";
        snprintf(path, sizeof path, "%s%s", root, folder);
        assert_int_equal(tri__folder_make(path), TRI_OK);
        snprintf(link, sizeof link, "%s%s/%s", root, folder, address);
        snprintf(target, sizeof target, "%s/sys/devices/%s/%s", root, above, address);
        assert_int_equal(symlink(target, link), 0);
    }
}

/* Two sockets of 4 cores and their siblings, 4 GPUs: two behind a switch, two at ports of their own. */
static void put_machine(void) {
    put("/sys/devices/system/node/node0/cpulist", "0-3,8-11\n");
    put("/sys/devices/system/node/node2/cpulist", "4-7,12-15\n");
    put("/sys/devices/system/node/node3/cpulist", "\n"); /* memory only */
    put_gpu("0000:18:00.0", "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0", "0\n");
    put_gpu("0000:19:00.0", "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0", "0\n");
    put_gpu("0000:9a:00.0", "pci0000:97/0000:97:01.0", "2\n");
    put_gpu("0000:ca:00.0", "pci0000:c7/0000:c7:01.0", "2\n");
}

TEST_IN(a_machine_without_sysfs_has_nothing, setup, teardown) {
    tri_topology t;
    cpu_set_t all, got;
    tri__topology_read(root, &t);
    assert_int_equal(t.n_numa + t.n_gpus + t.n_islands, 0);
    CPU_ZERO(&all);
    for (size_t i = 4; i < 7; i++) CPU_SET(i, &all);
    for (int i = 0; i < 4; i++) { /* more ranks than cores share some */
        tri__topology_cores(&t, &all, 0, i, 4, &got);
        assert_int_equal(CPU_COUNT(&got), 1);
    }
    tri__topology_cores(&t, &all, 2, 0, 1, &got); /* GPUs that sysfs does not show */
    assert_true(CPU_EQUAL(&got, &all));
}

TEST_IN(nodes_switches_and_gpus_are_found, setup, teardown) {
    tri_topology t;
    put_machine();
    tri__topology_read(root, &t);
    assert_int_equal(t.n_numa, 2);
    assert_string_equal(t.numa[1].list, "4-7,12-15");
    assert_int_equal(CPU_COUNT(&t.numa[0].cores), 8);
    assert_int_equal(t.n_gpus, 4);
    const char *const above[] = {"0000:16:00.0", "0000:16:00.0", "0000:97:01.0", "0000:c7:01.0"};
    for (int i = 0; i < 4; i++) {
        assert_string_equal(t.gpu[i].above, above[i]);
        assert_int_equal(t.gpu[i].numa, i / 2);
        assert_int_equal(t.gpu[i].island, i);
    }
}

static int same_node(void *context, const char *a, const char *b) {
    const char *except = context;
    return (a[5] == '1') == (b[5] == '1') && (!except || (strcmp(a, except) && strcmp(b, except)));
}

TEST_IN(linked_gpus_are_islands, setup, teardown) {
    tri_topology t;
    put_machine();
    tri__topology_read(root, &t);
    assert_int_equal(tri__topology_island(&t), 1);
    tri__topology_join(&t, same_node, NULL);
    assert_int_equal(t.n_islands, 2);
    assert_int_equal(t.gpu[3].island, 1);
    assert_int_equal(tri__topology_island(&t), 2);
    tri__topology_read(root, &t);
    tri__topology_join(&t, same_node, "0000:9a:00.0"); /* one has lost its links: islands of 2, 1, 1 */
    assert_int_equal(t.n_islands, 3);
    assert_int_equal(tri__topology_island(&t), 0);
}

TEST_IN(ranks_get_cores_of_one_node, setup, teardown) {
    tri_topology t;
    cpu_set_t all, got, seen;
    put_machine();
    tri__topology_read(root, &t);
    CPU_ZERO(&all);
    CPU_ZERO(&seen);
    for (size_t i = 0; i < 16; i++) CPU_SET(i, &all);
    for (int i = 0; i < 4; i++) { /* by number alone, the second rank would have cores of both nodes */
        tri__topology_cores(&t, &all, 0, i, 4, &got);
        assert_int_equal(CPU_COUNT(&got), 4);
        for (size_t core = 0; core < 16; core++)
            if (CPU_ISSET(core, &got)) assert_true(CPU_ISSET(core, &t.numa[i / 2].cores));
        CPU_OR(&seen, &seen, &got);
    }
    assert_true(CPU_EQUAL(&seen, &all));
}

TEST_IN(ranks_get_cores_beside_their_gpu, setup, teardown) {
    tri_topology t;
    cpu_set_t all, got, other;
    put_machine();
    tri__topology_read(root, &t);
    CPU_ZERO(&all);
    for (size_t i = 0; i < 16; i++) CPU_SET(i, &all);
    tri__topology_cores(&t, &all, 4, 2, 3, &got); /* the only rank of the second node */
    assert_true(CPU_EQUAL(&got, &t.numa[1].cores));
    tri__topology_cores(&t, &all, 4, 0, 3, &got);
    tri__topology_cores(&t, &all, 4, 1, 3, &other);
    assert_int_equal(CPU_COUNT(&got) + CPU_COUNT(&other), 8);
    CPU_OR(&got, &got, &other);
    assert_true(CPU_EQUAL(&got, &t.numa[0].cores));
    CPU_ZERO(&all); /* none of the allowed ones is beside it */
    CPU_SET(1, &all);
    tri__topology_cores(&t, &all, 4, 3, 4, &got);
    assert_true(CPU_EQUAL(&got, &all));
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
