/* topology.c - reads sysfs: nodes and their cores, GPUs and what they hang from; asks the driver for NVLinks. */
#include "base/topology.h"

#include "base/file.h"

#include <dlfcn.h>

/* "0-3,8" into a set. */
static void parse_list(const char *text, cpu_set_t *out) {
    char *end;
    CPU_ZERO(out);
    for (;; text = end + 1) {
        long first = strtol(text, &end, 10), last = first;
        if (end == text) return;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        for (long core = first; core <= last && core < CPU_SETSIZE; core++) CPU_SET((size_t)core, out);
        if (*end != ',') return;
    }
}

static int number_of(const char *path) {
    char text[32];
    tri__file_start(path, text, sizeof text);
    return *text ? atoi(text) : -1;
}

static void read_nodes(const char *root, tri_topology *out) {
    for (int number = 0; number < 4 * TRI_NUMA_MAX && out->n_numa < TRI_NUMA_MAX; number++) {
        char path[TRI_PATH_MAX], list[4096];
        snprintf(path, sizeof path, "%s/sys/devices/system/node/node%d/cpulist", root, number);
        tri__file_start(path, list, sizeof list);
        list[strcspn(list, "\n")] = 0;
        if (!*list) continue; /* not there, or memory without cores */
        struct tri_numa *node = &out->numa[out->n_numa++];
        node->number = number;
        snprintf(node->list, sizeof node->list, "%.*s%s", 59, list, strlen(list) > 59 ? "..." : "");
        parse_list(list, &node->cores);
    }
}

/* .../pci0000:15/<root port>[/<switch's upstream port>/<downstream port>]/<GPU> */
static void read_gpu(const char *root, const char *address, tri_topology *out) {
    char link[TRI_PATH_MAX], real[TRI_PATH_MAX], *parts[32], *save = NULL;
    int n = 0, first = 0;
    tri_gpu_place *gpu = &out->gpu[out->n_gpus];
    snprintf(link, sizeof link, "%s/sys/bus/pci/devices/%s", root, address);
    if (!tri__path_real(link, real)) return;
    *gpu = (tri_gpu_place){.numa = -1, .island = out->n_gpus};
    snprintf(gpu->address, sizeof gpu->address, "%.15s", address);
    for (char *part = strtok_r(real, "/", &save); part && n < 32; part = strtok_r(NULL, "/", &save)) {
        if (strncmp(part, "pci", 3) == 0 && strchr(part, ':')) first = n + 1;
        parts[n++] = part;
    }
    int ports = n - 1 - first; /* between the root and the GPU */
    if (first && ports > 0) snprintf(gpu->above, sizeof gpu->above, "%.15s", parts[first + (ports > 2)]);
    snprintf(link, sizeof link, "%s/sys/bus/pci/devices/%s/numa_node", root, address);
    int number = number_of(link);
    for (int i = 0; i < out->n_numa; i++)
        if (out->numa[i].number == number) gpu->numa = i;
    out->n_gpus++;
}

typedef struct nvml_device nvml_device;
#define NVML_FUNCTIONS(X) \
    X(Init_v2, (void)) \
    X(DeviceGetHandleByPciBusId_v2, (const char *, nvml_device **)) \
    X(DeviceGetP2PStatus, (nvml_device *, nvml_device *, int, int *))
typedef struct nvml {
#define X(name, arguments) int(*name) arguments;
    NVML_FUNCTIONS(X)
#undef X
} nvml;

/* Whether two GPUs read each other's memory by NVLink, over an NVSwitch or not. */
static int linked_by_nvlink(void *context, const char *a, const char *b) {
    enum { P2P_NVLINK = 2 };
    const nvml *n = context;
    nvml_device *one, *other;
    int status = 1;
    return !n->DeviceGetHandleByPciBusId_v2(a, &one) && !n->DeviceGetHandleByPciBusId_v2(b, &other) &&
           !n->DeviceGetP2PStatus(one, other, P2P_NVLINK, &status) && status == 0;
}

void tri__topology_ask(tri_topology *out) {
    void *library = out->n_gpus > 1 ? dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL) : NULL; /* stays loaded */
    nvml n;
    int missing = 0;
    if (!library) return;
#define X(name, arguments) missing |= !(*(void **)&n.name = dlsym(library, "nvml" #name));
    NVML_FUNCTIONS(X)
#undef X
    if (!missing && n.Init_v2() == 0) tri__topology_join(out, linked_by_nvlink, &n);
}

void tri__topology_read(const char *root, tri_topology *out) {
    TRI_OWNED(tri__names_free) tri_names names = {0};
    *out = (tri_topology){0};
    read_nodes(root, out);
    const char *path = TRI_TEXT(TRI_PATH_MAX, "%s/sys/bus/pci/drivers/nvidia", root);
    TRI_KEEP_WORDS();
    if (tri__folder_list(path, &names) == TRI_OK) /* sorted */
        for (int i = 0; i < names.n && out->n_gpus < TRI_GPUS_MAX; i++)
            if (strchr(names.name[i], ':')) read_gpu(root, names.name[i], out);
    out->n_islands = out->n_gpus;
}

void tri__topology_join(tri_topology *t, int (*linked)(void *context, const char *a, const char *b), void *context) {
    for (int a = 0; a < t->n_gpus; a++)
        for (int b = a + 1; b < t->n_gpus; b++) {
            int from = t->gpu[b].island, to = t->gpu[a].island;
            if (from == to || !linked(context, t->gpu[a].address, t->gpu[b].address)) continue;
            for (int i = 0; i < t->n_gpus; i++)
                if (t->gpu[i].island == from) t->gpu[i].island = to;
        }
    int number[TRI_GPUS_MAX];
    t->n_islands = 0;
    memset(number, -1, sizeof number);
    for (int i = 0; i < t->n_gpus; i++) {
        int *at = &number[t->gpu[i].island];
        if (*at < 0) *at = t->n_islands++;
        t->gpu[i].island = *at;
    }
}

int tri__topology_island(const tri_topology *t) {
    int size = t->n_islands > 1 ? t->n_gpus / t->n_islands : 0;
    for (int i = 0; i < t->n_gpus && size; i++)
        if (t->gpu[i].island != i / size || t->n_gpus % size) return 0;
    return size;
}

/* The cores of `from` that follow one another in the order of nodes: the i-th of n shares, at least one core. */
static void take_share(const tri_topology *t, const cpu_set_t *from, int i, int n, cpu_set_t *out) {
    int k = CPU_COUNT(from), first = (int)((int64_t)i * k / n), last = (int)((int64_t)(i + 1) * k / n), seen = 0;
    cpu_set_t rest = *from, here;
    if (last == first) last = first + 1;
    CPU_ZERO(out);
    for (int node = 0; node <= t->n_numa; node++) { /* the last: cores of no node */
        if (node < t->n_numa) CPU_AND(&here, &rest, &t->numa[node].cores);
        else here = rest;
        for (size_t core = 0; core < CPU_SETSIZE; core++)
            if (CPU_ISSET(core, &here) && seen++ >= first && seen <= last) CPU_SET(core, out);
        CPU_XOR(&rest, &rest, &here);
    }
}

void tri__topology_cores(const tri_topology *t, const cpu_set_t *allowed, int gpus, int i, int n, cpu_set_t *out) {
    int place = 0, beside = 0, node = gpus > 0 && gpus <= t->n_gpus ? t->gpu[i % gpus].numa : -1;
    cpu_set_t near;
    if (node >= 0) CPU_AND(&near, allowed, &t->numa[node].cores);
    if (node < 0 || !CPU_COUNT(&near)) {
        take_share(t, allowed, i, n, out);
        return;
    }
    for (int rank = 0; rank < n; rank++) {
        int shares = t->gpu[rank % gpus].numa == node;
        beside += shares, place += shares && rank < i;
    }
    take_share(t, &near, place, beside, out);
}
