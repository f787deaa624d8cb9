/* mpi.h - joining the ranks that an MPI launcher started. */
#ifndef TRI_COMM_MPI_MPI_H
#define TRI_COMM_MPI_MPI_H

#include "comm/environment.h"
#include "comm/world.h"

/* `how` with its defaults filled in. */
tri_status tri__mpi_join(const tri_ranks *how, const tri_launch *launch, tri_world **world);

#endif
