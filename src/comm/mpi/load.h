/* load.h - the parts of joining that precede MPI's start. */
#pragma once

#include "comm/launchers/environment.h"
#include "comm/mpi/plugin.h"

/* Searches next to the program or library, in ../lib, and in the system's library path: the plug-in for the launcher's
 * MPI if there is one for each MPI, else libtrident_mpi.so. Never unloaded: MPI cannot start twice in a process. */
tri_status tri__mpi_load(const char *launcher, tri_mpi_kind kind, const tri_mpi_plugin **plugin);
/* Each plug-in that loads, for users: "Open MPI 5.0.11 with ULFM (libtrident_mpi.so), MPICH 4.0.2 (...)"; ""
 * when none does. MPI is not started. */
void tri__mpi_list(char *out, size_t size);
/* Whether the MPI that the launcher's plug-in was built with has ULFM, so that ranks can outlive one that dies if the
 * job is started for that; 0 when no plug-in loads. MPI is not started. */
int tri__mpi_has_ulfm(tri_mpi_kind kind);
/* The argument of `srun --mpi` for ranks of this MPI, given what a plug-in was built with: "pmix" for Open MPI, "pmi2"
 * for MPICH. */
const char *tri__mpi_srun_type(const char *built_with);
/* MPI keeps its own shared memory in `folder` ("/dev/shm"): TRI_RESOURCE with required and available when `ranks` ranks
 * would exceed it. */
tri_status tri__mpi_check_shared(const char *folder, int ranks);
