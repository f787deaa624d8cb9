/* mpi.h - joining the ranks that an MPI launcher started, and MPI's own collectives for comparison. */
#ifndef TRI_COMM_MPI_MPI_H
#define TRI_COMM_MPI_MPI_H

#include "comm/start/environment.h"
#include "comm/world/world.h"

/* Loads the plug-in, starts MPI, finds out which ranks share a machine and gives those one segment: MPI carries only
 * traffic between machines. Once per process. `how` with its defaults filled in. TRI_USAGE: no plug-in, or the launcher
 * does not match the MPI; TRI_RESOURCE: not enough shared memory, ours or MPI's. */
tri_status tri__mpi_join(const tri_ranks *how, const tri_launch *launch, tri_world **world);
/* MPI's own blocking collective on all ranks, for benchmarks: f32, sum, equal counts. TRI_USAGE for others, and in a
 * world without MPI. */
tri_status tri__mpi_native(tri_world *world, const tri_collective *what);

#endif
