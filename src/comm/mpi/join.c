/* join.c - this build has no MPI plug-in. */
#include "comm/mpi/mpi.h"

tri_status tri__mpi_join(const tri_ranks *how, const tri_launch *launch, tri_world **world) {
    (void)how;
    *world = NULL;
    return tri__fail(TRI_USAGE, "%s started this process, and this build has no MPI plug-in", tri__launcher_text(launch->launcher));
}
