/* test_cgroup.c - limits of control groups, from made /proc and /sys trees: containers, systemd, Slurm, both versions
 * and mixtures. */
#include "base/cgroup.h"
#include "base/file.h"
#include "base/machine.h"

#include <limits.h>

#include "tests/lib/test.h"

#define GIB ((int64_t)1 << 30)

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

/* A file below the root, with its folders. */
static void put(const char *path, const char *text) {
    char whole[512], parent[512];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    strcpy(parent, whole);
    *strrchr(parent, '/') = 0;
    assert_int_equal(tri__folder_make(parent), TRI_OK);
    assert_int_equal(tri__file_write(whole, text, strlen(text)), TRI_OK);
}

#define V2 "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1 \
    "20 1 0:30 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n" \
    "34 20 0:31 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n" \
    "35 20 0:32 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n" \
    "36 20 0:33 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n" \
    "37 20 0:34 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"

TEST_IN(nothing_limits_nothing, setup, teardown) {
    tri_cgroup none = tri__cgroup_read(root);
    assert_true(none.memory_limit == INT64_MAX && none.memory_free == INT64_MAX);
    assert_true(none.cpus == 0 && none.oom_kills == 0);
    put("/proc/self/cgroup", "0::/user.slice\n");
    put("/proc/self/mountinfo", V2 "garbage\n- - -\n\n1 2 3 4 5 -\n");
    put("/sys/fs/cgroup/user.slice/memory.max", "max\n");
    put("/sys/fs/cgroup/user.slice/memory.current", "1048576\n");
    put("/sys/fs/cgroup/user.slice/cpu.max", "max 100000\n");
    none = tri__cgroup_read(root);
    assert_true(none.memory_limit == INT64_MAX && none.memory_free == INT64_MAX && none.cpus == 0);
}

/* A systemd user session: the limit is that of a slice above the own group. */
TEST_IN(a_slice_above_counts, setup, teardown) {
    put("/proc/self/cgroup", "0::/user.slice/user-1000.slice/session-3.scope\n");
    put("/proc/self/mountinfo", "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n" V2);
    put("/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope/memory.max", "max\n");
    put("/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope/memory.current", "1000000\n");
    put("/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope/memory.events", "low 0\nhigh 0\nmax 7\noom 2\n"
                                                                                   "oom_kill 3\n");
    put("/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/user.slice/user-1000.slice/memory.max", "4294967296\n");
    put("/sys/fs/cgroup/user.slice/user-1000.slice/memory.current", "3221225472\n");
    put("/sys/fs/cgroup/user.slice/user-1000.slice/memory.stat", "anon 1\nfile 2\ninactive_anon 9\n"
                                                                 "inactive_file 1073741824\nactive_file 536870912\n");
    put("/sys/fs/cgroup/user.slice/user-1000.slice/cpu.max", "250000 100000\n");
    put("/sys/fs/cgroup/user.slice/memory.max", "8589934592\n");
    put("/sys/fs/cgroup/user.slice/memory.current", "3221225472\n");
    put("/sys/fs/cgroup/user.slice/cpu.max", "400000 100000\n");
    tri_cgroup got = tri__cgroup_read(root);
    assert_int_equal(got.memory_limit, 4 * GIB);
    assert_int_equal(got.memory_free, 4 * GIB - 3 * GIB + GIB + GIB / 2); /* file pages can be dropped */
    assert_true(got.cpus == 2.5);
    assert_int_equal(got.oom_kills, 3);
}

/* Docker, Podman and Kubernetes with version 2: a namespace of their own, or the host's path. */
TEST_IN(a_container_sees_its_own, setup, teardown) {
    put("/proc/self/cgroup", "0::/\n");
    put("/proc/self/mountinfo", V2);
    put("/sys/fs/cgroup/memory.max", "2147483648");
    put("/sys/fs/cgroup/memory.current", "2147483648");
    put("/sys/fs/cgroup/cpu.max", "50000 100000\n");
    tri_cgroup got = tri__cgroup_read(root);
    assert_int_equal(got.memory_limit, 2 * GIB);
    assert_int_equal(got.memory_free, 0);
    assert_true(got.cpus == 0.5);
    put("/proc/self/cgroup", "0::/kubepods/pod1/abc/inner\n");
    put("/proc/self/mountinfo", "30 25 0:26 /kubepods/pod1/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    put("/sys/fs/cgroup/inner/memory.max", "1073741824\n");
    put("/sys/fs/cgroup/inner/memory.current", "1024\n");
    put("/sys/fs/cgroup/inner/cpu.max", "800000 100000\n");
    got = tri__cgroup_read(root);
    assert_int_equal(got.memory_limit, 2 * GIB); /* it has least room */
    assert_int_equal(got.memory_free, 0);
    assert_true(got.cpus == 0.5);
    put("/proc/self/cgroup", "0::/../../elsewhere\n"); /* a group outside of the namespace: what is mounted counts */
    assert_int_equal(tri__cgroup_read(root).memory_limit, 2 * GIB);
}

/* Slurm with version 1: task inside step inside job; the job has the limits. */
TEST_IN(a_slurm_step_of_version_1, setup, teardown) {
    put("/proc/self/cgroup", "11:cpuset:/slurm/uid_7/job_5/step_0\n5:memory:/slurm/uid_7/job_5/step_0/task_1\n"
                             "3:cpu,cpuacct:/slurm/uid_7/job_5\n1:name=systemd:/init.scope\n0::/init.scope\n");
    put("/proc/self/mountinfo", V1);
    const char *const memory[] = {"/slurm/uid_7/job_5/step_0/task_1", "/slurm/uid_7/job_5/step_0", "/slurm/uid_7",
                                  "/slurm", ""};
    for (int i = 0; i < 5; i++) {
        char path[256];
        snprintf(path, sizeof path, "/sys/fs/cgroup/memory%s/memory.limit_in_bytes", memory[i]);
        put(path, "9223372036854771712\n");
        snprintf(path, sizeof path, "/sys/fs/cgroup/memory%s/memory.usage_in_bytes", memory[i]);
        put(path, "77777\n");
    }
    put("/sys/fs/cgroup/memory/slurm/uid_7/job_5/memory.limit_in_bytes", "3221225472\n");
    put("/sys/fs/cgroup/memory/slurm/uid_7/job_5/memory.usage_in_bytes", "2147483648\n");
    put("/sys/fs/cgroup/memory/slurm/uid_7/job_5/memory.stat", "cache 5\ninactive_file 7\ntotal_inactive_file 4096\n"
                                                               "total_active_file 8192\n");
    put("/sys/fs/cgroup/memory/slurm/uid_7/job_5/step_0/task_1/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n"
                                                                                    "oom_kill 1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/slurm/uid_7/job_5/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/slurm/uid_7/job_5/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/slurm/uid_7/cpu.cfs_quota_us", "300000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/slurm/uid_7/cpu.cfs_period_us", "100000\n");
    tri_cgroup got = tri__cgroup_read(root);
    assert_int_equal(got.memory_limit, 3 * GIB);
    assert_int_equal(got.memory_free, GIB + 4096 + 8192);
    assert_int_equal(got.oom_kills, 1);
    assert_true(got.cpus == 3);
}

TEST_IN(nonsense_is_no_limit, setup, teardown) {
    char deep[6000] = "0::";
    for (int i = 0; i < 1400; i++) strcat(deep, "/abc");
    const char *const groups[] = {"", "0", "0:", "0::", "::\n:\n", "0::relative\n", deep, "\n\n0::/a\n"};
    put("/proc/self/mountinfo", V2 V1);
    put("/sys/fs/cgroup/a/memory.max", "-5\n");
    put("/sys/fs/cgroup/a/memory.current", "none\n");
    put("/sys/fs/cgroup/a/cpu.max", "0 0\n");
    put("/sys/fs/cgroup/cpu.max", "100000\n"); /* no period */
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        put("/proc/self/cgroup", groups[i]);
        tri_cgroup got = tri__cgroup_read(root);
        assert_true(got.memory_limit == INT64_MAX && got.memory_free == INT64_MAX && got.cpus == 0);
    }
}

/* This process's own limits, whatever they are, bind what it may use. */
TEST(own_limits_bind) {
    tri_cgroup own = tri__cgroup_read("");
    assert_true(tri__cores() >= 1 && tri__cores() <= tri__cores_limit());
    if (!own.cpus) assert_int_equal(tri__cores_limit(), INT_MAX);
    if (own.memory_limit < INT64_MAX) assert_true(tri__memory_available() <= own.memory_limit);
    assert_int_equal(tri__memory_limit(), own.memory_limit);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
