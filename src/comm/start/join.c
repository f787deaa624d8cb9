/* join.c - tri_world_join: our supervisor's ranks inherit the shared memory, those of torchrun (or started by hand) get
 * it in a rendezvous, those of an MPI launcher join through MPI; a process without a launcher is a world of one. */
#include "comm/start/join.h"

#include "comm/mpi/mpi.h"
#include "comm/launchers/rendezvous.h"
#include "comm/ops/watcher.h"

/* Seconds: processes start one after another, however short the progress timeout is. */
static const double MEET_LEAST = 5;

static double meet_seconds(const tri_ranks *how) {
    return how->progress_timeout > MEET_LEAST ? how->progress_timeout : MEET_LEAST;
}

/* A world that owns its mapping; the segment is closed on failure. */
static tri_status open_owned(tri_segment *segment, int local, tri_world **world) {
    tri_status status = tri__world_open(segment, local, NULL, NULL, NULL, world);
    if (status == TRI_OK) (*world)->owns_segment = 1;
    else tri__segment_close(segment);
    return status;
}

/* Waits for the other ranks; a rank that cannot continue fails all of them. */
static tri_status go_on(tri_status status, const tri_ranks *how, const tri_launch *launch, tri_world **world) {
    if (status == TRI_OK) status = tri__world_meet(*world, meet_seconds(how), launch->stop);
    if (status == TRI_OK) return TRI_OK;
    tri__world_abandon(world, status);
    return status;
}

static tri_status join_alone(const tri_ranks *how, tri_world **world) {
    tri_segment segment;
    tri_segment_spec spec = tri__ranks_spec(how, 1, 1);
    TRI_TRY(tri__segment_create(&spec, &segment));
    return open_owned(&segment, 0, world);
}

static tri_status join_own(const tri_ranks *how, const tri_launch *launch, tri_world **world) {
    tri_segment segment;
    TRI_TRY(tri__segment_attach(launch->fd, &segment));
    if (segment.n != launch->local_size || segment.control->world != launch->size) {
        tri_status status = tri__fail(TRI_DISAGREE,
                                      "the launcher says %d ranks here and %d in all, its shared memory %d and %d",
                                      launch->local_size, launch->size, segment.n, segment.control->world);
        tri__segment_close(&segment);
        return status;
    }
    TRI_TRY(open_owned(&segment, launch->local, world));
    tri_status status = TRI_OK;
    if ((*world)->rank != launch->rank)
        status = tri__fail(TRI_DISAGREE, "the launcher says rank %d, its shared memory rank %d", launch->rank,
                           (*world)->rank);
    return go_on(status, how, launch, world);
}

/* On one machine the local rank is the rank, whatever LOCAL_RANK says. */
static tri_status join_torchrun(const tri_ranks *how, const tri_launch *launch, tri_world **world) {
    char key[TRI_RUN_ID_BYTES + 16];
    tri_segment segment;
    if (launch->local_size != launch->size)
        return tri__fail(
            TRI_USAGE,
            "%d ranks in all and %d on this machine: several machines need MPI; start with `mpirun -np %d` or "
            "`srun --mpi=pmix -n %d` (--mpi=pmi2 for MPICH)",
            launch->size, launch->local_size, launch->size, launch->size);
    snprintf(key, sizeof key, "%d.%s", launch->port, launch->run);
    tri_rendezvous meeting = {.key = key, .local = launch->rank, .n = launch->size, .seconds = meet_seconds(how),
                           .stop = launch->stop, .log = &launch->log};
    tri_segment_spec spec = tri__ranks_spec(how, launch->size, 0);
    TRI_TRY(tri__rendezvous(&meeting, &spec, &segment));
    TRI_TRY(open_owned(&segment, launch->rank, world));
    return go_on(tri__watcher_open(*world, &launch->log), how, launch, world);
}

tri_status tri__world_join_launch(const tri_ranks *how, const tri_launch *launch, tri_world **world) {
    tri_ranks resolved;
    *world = NULL;
    TRI_TRY(tri__ranks_resolve(how, &resolved));
    if (launch->launcher == TRI_LAUNCHER_OWN) return join_own(&resolved, launch, world);
    if (tri__launcher_has_mpi(launch->launcher)) return tri__mpi_join(&resolved, launch, world);
    return launch->launcher == TRI_LAUNCHER_TORCHRUN && launch->size > 1 ? join_torchrun(&resolved, launch, world)
                                                                         : join_alone(&resolved, world);
}

tri_status tri_world_join(const tri_ranks *how, char *(*lookup)(const char *name), tri_world **world) {
    tri_launch launch;
    *world = NULL;
    TRI_TRY(tri__launch_detect(lookup, &launch));
    return tri__done(tri__world_join_launch(how, &launch, world));
}
