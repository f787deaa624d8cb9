/* ranks.c - tri_ranks_run, and ranks as threads of this process. */
#include "comm/start/ranks.h"

static const double WATCH_SECONDS = 0.1;

tri_status tri__ranks_one(const tri_ranks_job *job, int local) {
    tri_world *world;
    tri_control *control = job->segment.control;
    tri_status status = tri__world_open(&job->segment, local, NULL, NULL, NULL, &world);
    if (status != TRI_OK) {
        tri__control_fail(control, control->rank_of[local], status, "%s", tri_error());
        return status;
    }
    world->kept = 1; /* main may close it; it is closed below in any case */
    tri__world_doing(world, TRI_DOING_USER, -1);
    status = job->main(world, job->argument);
    /* A failure from the control page is recorded already. */
    if (status != TRI_OK && status != world->failed)
        tri__control_fail(control, control->rank_of[local], status, "%s", tri_error());
    tri_world_close(world);
    free(world);
    return status;
}

typedef struct rank_thread {
    const tri_ranks_job *job;
    int local;
    pthread_t thread;
    _Atomic uint32_t *running; /* futex: threads that have not ended */
} rank_thread;

static void *run_thread(void *context) {
    rank_thread *own = context;
    tri__ranks_one(own->job, own->local);
    atomic_fetch_sub(own->running, 1);
    tri__futex_wake(own->running);
    return NULL;
}

static tri_status run_threads(tri_ranks_job *job) {
    int n = job->segment.n, started = 0;
    tri_control *control = job->segment.control;
    _Atomic uint32_t running = (uint32_t)n;
    rank_thread *ranks = calloc((size_t)n, sizeof *ranks);
    tri_seen *seen = calloc(TRI_RANKS_PER_NODE, sizeof *seen);
    if (!ranks || !seen) tri__control_fail(control, -1, TRI_RESOURCE, "out of memory for %d ranks", n);
    for (int failed = !ranks || !seen; !failed && started < n; started += !failed) {
        ranks[started] = (rank_thread){.job = job, .local = started, .running = &running};
        failed = pthread_create(&ranks[started].thread, NULL, run_thread, &ranks[started]);
        if (failed)
            tri__control_fail(control, -1, TRI_RESOURCE, "cannot start the thread of rank %d of %d: %s", started, n,
                              strerror(failed));
    }
    uint32_t never = (uint32_t)(n - started);
    for (uint32_t left; seen && (left = atomic_load(&running)) > never;) {
        tri__control_watch(control, seen, NULL, -1);
        tri__futex_wait(&running, left, WATCH_SECONDS);
    }
    for (int i = 0; i < started; i++) pthread_join(ranks[i].thread, NULL);
    free(seen);
    free(ranks);
    return tri__control_status(control);
}

tri_status tri_ranks_run(const tri_ranks *how, tri_rank_main *main, void *argument) {
    tri_ranks resolved;
    tri_ranks_job job = {.main = main, .argument = argument};
    if (!how || !main) return tri__fail(TRI_USAGE, "tri_ranks_run needs a number of ranks and a function");
    TRI_TRY(tri__ranks_resolve(how, &resolved));
    tri_segment_spec spec = tri__ranks_spec(&resolved, resolved.n, !resolved.forks);
    TRI_TRY(tri__segment_create(&spec, &job.segment));
    tri_status status = resolved.forks ? tri__ranks_forks(&job) : run_threads(&job);
    tri__segment_close(&job.segment);
    return tri__done(status);
}
