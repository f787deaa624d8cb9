/* plugin.h - the interface between Trident and the MPI plug-in: one table, exported as `tri_mpi_plugin_table`. */
#pragma once

#include "comm/link/remote.h"

enum { TRI_MPI_PLUGIN_VERSION = 4 };
#define TRI_MPI_PLUGIN_NAME "libtrident_mpi.so"

typedef struct tri_mpi_plugin {
    int version;
    const char *built_with; /* "Open MPI 4.1.4" */
    tri_remote remote;
    /* MPI_Init_thread(FUNNELED): once per process. */
    int (*open)(void **state, int *rank, int *size);
    /* Gathers from all ranks: all[size][bytes] in rank order. Waits for them while go_on(context) is not 0; then -1,
     * and only close or shrink may follow, both before mine and all are freed. */
    int (*gather)(void *state, const void *mine, void *all, int bytes, int (*go_on)(void *context), void *context);
    /* MPI's own blocking collective over all ranks, f32 sums, for comparison: name as "all_reduce"; count as in
     * tri_collective. -1: unknown name. */
    int (*native)(void *state, const char *name, const void *in, void *out, int64_t count, int root);
    /* NULL: this MPI has no ULFM. Whether ranks of this job outlive one that dies: it was started for that. */
    int (*outlives)(void *state);
    /* NULL with outlives. Interrupts the ranks that still communicate, waits until every rank of the job calls this or
     * is dead, at most `seconds`, and goes on with those that are left, in the same order. No request is in flight
     * then. After an error only close may follow. */
    int (*shrink)(void *state, double seconds, int *rank, int *size);
    /* NULL with outlives. After shrink: the world is of the first `members` ranks; the others only leave with them. */
    void (*limit)(void *state, int members);
} tri_mpi_plugin;
