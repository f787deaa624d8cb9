/* load.h - the parts of joining that come before MPI runs. */
#ifndef TRI_COMM_MPI_LOAD_H
#define TRI_COMM_MPI_LOAD_H

#include "comm/start/environment.h"
#include "comm/mpi/plugin.h"

/* Beside the program or the library, ../lib, and where the system looks: the plug-in of the launcher's MPI where there
 * is one for each, else libtrident_mpi.so. Never unloaded: MPI cannot start twice in a process. */
tri_status tri__mpi_load(const char *launcher, tri_mpi_kind kind, const tri_mpi_plugin **plugin);
/* Each plug-in that loads, for people: "Open MPI 4.1.4 (libtrident_mpi.so), MPICH 4.0.2 (libtrident_mpi_mpich.so)"; ""
 * when none does. MPI is not started. */
void tri__mpi_list(char *out, size_t size);
/* What `srun --mpi` must be told for ranks of this MPI, by what a plug-in was built with: "pmix" for Open MPI, "pmi2"
 * for MPICH. */
const char *tri__mpi_srun_type(const char *built_with);
/* MPI keeps shared memory of its own in `folder` ("/dev/shm"): TRI_RESOURCE with need and available when `ranks` ranks
 * would run out of it. */
tri_status tri__mpi_check_shared(const char *folder, int ranks);

#endif
