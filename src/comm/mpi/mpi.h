/* mpi.h - joining the ranks that an MPI launcher started, and MPI's own collectives for comparison. */
#pragma once

#include "comm/launchers/environment.h"
#include "comm/world/world.h"

/* Loads the plug-in, starts MPI, finds out which ranks share a machine and gives those one segment: MPI carries only
 * traffic between machines. Once per process. `how` with its defaults filled in. TRI_USAGE: no plug-in, or the launcher
 * does not match the MPI; TRI_RESOURCE: not enough shared memory, ours or MPI's. */
tri_status tri__mpi_join(const tri_ranks *how, const tri_launch *launch, tri_world **world);
/* A rank that fails with `status` and tri_error() before it could join tells the others, which then fail, too. The
 * failure is the same on all ranks, and names those that failed; returns whether this rank is the one to say so. */
int tri__mpi_refuse(const tri_launch *launch, tri_status status);
/* Whether the ranks of this world outlive one that dies, so that tri__mpi_next can follow: MPI has ULFM, and the job
 * was started for that. */
int tri__mpi_outlives(const tri_world *world);

/* Whether the rank that a failure names is dead, ends by itself, or hangs beside others of its machine, which kill it:
 * the others could not go on before it has ended. */
int tri__mpi_can_end(const tri_world *world, const tri_failure *failure);

/* For the next world: how many of `alive` ranks the best mesh uses, and its stages and replicas; 0: none can go on. */
typedef struct tri_mpi_next {
    int (*fit)(void *context, int alive, int32_t *stages, int32_t *replicas);
    void *context;
    int min_ranks; /* with fewer the run ends */
    int first;     /* set: whether this is the first of the ranks that are left */
} tri_mpi_next;
/* After a rank's death made `old` (with outlives set) fail: closes it, waits until every rank of the job does the same
 * or is dead, and makes the next world of those that are left. A rank that hangs is killed by those of its machine.
 * *again 1: *world is the next one, and has the memory in which ranks of this machine kept their state. *again 0: the
 * run ended without this rank, which the mesh had no place for (TRI_OK); too few are left (TRI_KILLED); a stop, or
 * this rank's own failure; or a rank neither leaves nor dies, because it hangs and is alone on its machine, or that
 * cannot be reached: then the job is ended. how: with its defaults filled in. */
tri_status tri__mpi_next(tri_world *old, const tri_ranks *how, const tri_launch *launch, tri_mpi_next *next,
                         tri_world **world, int *again);
/* MPI's own blocking collective on all ranks, for benchmarks: f32, sum, equal counts. TRI_USAGE for others, and in a
 * world without MPI. */
tri_status tri__mpi_native(tri_world *world, const tri_collective *what);
