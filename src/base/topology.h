/* topology.h - where cores and GPUs are inside this machine: NUMA nodes, PCIe switches, NVLink islands. From sysfs
 * (which hwloc reads, too) and from the driver's libnvidia-ml. */
#pragma once

#include <sched.h>

enum { TRI_NUMA_MAX = 64, TRI_GPUS_MAX = 64, TRI_PCI_ADDRESS = 16 };

typedef struct tri_gpu_place {
    char address[TRI_PCI_ADDRESS]; /* "0000:17:00.0" */
    char above[TRI_PCI_ADDRESS];   /* the PCIe switch, or without one the root port, that it hangs from */
    int numa;                      /* index of its NUMA node; -1: unknown */
    int island;                    /* GPUs of one island reach each other by NVLink */
} tri_gpu_place;

typedef struct tri_topology {
    int n_numa, n_gpus, n_islands;
    struct tri_numa {
        int number;
        char list[64];             /* "0-15,32-47", shortened */
        cpu_set_t cores;
    } numa[TRI_NUMA_MAX];
    tri_gpu_place gpu[TRI_GPUS_MAX]; /* in the order of their addresses, as the driver numbers them */
} tri_topology;

/* root: "" for this machine; for tests a folder that has sys/ in it. Each GPU is an island. */
void tri__topology_read(const char *root, tri_topology *out);
/* Asks the driver of this machine for NVLinks, and joins what they link. Loads its library, which stays. */
void tri__topology_ask(tri_topology *t);
/* Joins GPUs into islands: those that `linked` says are linked, directly or through others. */
void tri__topology_join(tri_topology *t, int (*linked)(void *context, const char *a, const char *b), void *context);
/* The GPUs of each island, where all have as many in a row and there are several; 0: none, or one, or uneven. */
int tri__topology_island(const tri_topology *t);
/* The share of rank `i` of `n` in the cores of `allowed`: cores of one NUMA node as far as they go; if the ranks take
 * `gpus` GPUs, one after the other, those beside its GPU. */
void tri__topology_cores(const tri_topology *t, const cpu_set_t *allowed, int gpus, int i, int n, cpu_set_t *out);
