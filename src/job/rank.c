/* rank.c - joining, regrouping and leaving, under our supervisor, MPI or torchrun; and the failure, said once. */
#include "job/failure.h"
#include "job/ranks.h"

#include "comm/link/link.h"
#include "comm/link/regroup.h"
#include "comm/mpi/mpi.h"
#include "comm/start/join.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Ranks are executed as /proc/self/exe, a name that does not identify the process. */
static void set_name(int rank) { prctl(PR_SET_NAME, TRI_TEXT(16, "trident:%d", rank)); }

/* Seconds in which the ranks of the next world meet. The supervisor sees before that who is missing, and makes
 * another. */
static double meet_seconds(double progress_timeout) { return 5 + 2 * progress_timeout; }

/* A supervised rank that cannot join writes the reason to the control page, unless there already is one; the supervisor
 * prints it. page: file descriptor of the shared memory. */
static void report_no_join(const tri_parent *parent, const tri_launch *launch, int page, tri_status status) {
    tri_segment segment;
    TRI_KEEP_WORDS();
    if (tri__segment_attach(page, &segment) != TRI_OK) return;
    if (!atomic_load(&segment.control->abort))
        tri__control_fail(segment.control, launch->rank, status, "%s", tri_error());
    tri__segment_close(&segment);
    *parent->reported = 1;
}

/* Under our supervisor. A rank of an elastic run that cannot join, or that was started to join later, waits for the
 * next world. */
static tri_status join_own(const tri_parent *parent, const tri_settings *settings, const tri_ranks *how,
                           const tri_launch *launch, tri_world **world) {
    tri_status status = TRI_OK;
    tri_words words = {0};
    int again = 0;
    set_name(launch->rank);
    if (launch->fd >= 0) {
        int page = fcntl(launch->fd, F_DUPFD_CLOEXEC, 0);
        status = tri__world_join_launch(how, launch, world);
        if (status != TRI_OK && page >= 0) report_no_join(parent, launch, page, status); /* closes it */
        else if (page >= 0) close(page);
    }
    if (*world || launch->socket < 0 || status == TRI_STOPPED) return status;
    tri__words_keep(&words);
    tri_status next =
        tri__regroup_next(launch->socket, meet_seconds(settings->progress_timeout), launch->stop, world, &again);
    if (again) set_name((*world)->rank);
    if (again || next != TRI_OK) return next;
    tri__words_restore(&words);
    return status;
}

tri_status tri__rank_join(const tri_parent *parent, const tri_settings *settings, const tri_launch *launch,
                          tri_world **world) {
    const tri_ranks how = {.progress_timeout = settings->progress_timeout, .io_timeout = settings->io_timeout};
    *world = NULL;
    if (launch->socket >= 0) fcntl(launch->socket, F_SETFD, FD_CLOEXEC);
    return launch->launcher == TRI_LAUNCHER_OWN ? join_own(parent, settings, &how, launch, world)
                                                : tri__world_join_launch(&how, launch, world);
}

/* Ranks of an MPI job with ULFM. The rank that failed ends, and with it only its process; a failure that would recur
 * ends the job. */
static tri_status regroup_mpi(const tri_parent *parent, const tri_settings *settings, const tri_launch *launch,
                              tri_status status, tri_world *old, tri_world **world, int *again) {
    tri_failure failure;
    tri_words words;
    tri_ranks asked = {.progress_timeout = settings->progress_timeout, .io_timeout = settings->io_timeout}, how;
    tri_mpi_next next = {parent->fit, (void *)settings, (int)settings->min_ranks, 0};
    TRI_TRY(tri__ranks_resolve(&asked, &how));
    if (status == TRI_OK && tri__link_leave(old) == TRI_OK) return tri__rank_leave(parent, launch, old, status);
    int failed = tri__control_failure(old->segment.control, &failure);
    int crash = failed && tri__is_crash(failure.code, 0) && tri__mpi_can_end(old, &failure);
    if (!crash) old->outlives = 0;
    if (!crash || failure.rank == old->rank) return tri__rank_leave(parent, launch, old, status);
    tri__words_keep(&words);
    tri_status joined = tri__mpi_next(old, &how, launch, &next, world, again);
    if (*again || joined != (tri_status)TRI_KILLED) return joined;
    *parent->reported = 1; /* that too few are left */
    tri__words_restore(&words);
    if (status == TRI_OK) status = joined;
    tri_verdict verdict = {.code = (int)status, .failed = 1, .failure = failure, .ended = tri__clock_wall()};
    if (next.first) tri__error_write(settings->output_dir, &verdict);
    return status;
}

tri_status tri__rank_regroup(const tri_parent *parent, const tri_settings *settings, const tri_launch *launch,
                             tri_status status, tri_world **world, int *again) {
    tri_world *old = *world;
    tri_words words;
    *world = NULL, *again = 0;
    if (old && old->outlives) return regroup_mpi(parent, settings, launch, status, old, world, again);
    if (!old || launch->socket < 0 || (status != TRI_OK && old->failed != status && !old->regroups))
        return tri__rank_leave(parent, launch, old, status);
    double seconds = meet_seconds(old->segment.control->progress_timeout);
    tri__words_keep(&words);
    tri_world_close(old);
    tri_status next = tri__regroup_next(launch->socket, seconds, launch->stop, world, again);
    if (*again) set_name((*world)->rank);
    *parent->reported = next == TRI_OK || next == TRI_STOPPED; /* by the supervisor */
    if (*again || next != TRI_OK) return next;
    tri__words_restore(&words);
    return status;
}

/* Writes torchrun's error-file format, which torchrun prints as the root cause. */
static void write_elastic(const char *path, tri_status status) {
    TRI_KEEP_WORDS();
    const char *time = TRI_TEXT(32, "%lld", (long long)tri__clock_wall());
    TRI_OWNED(tri__json_drop) tri_json *object =
        tri__json_pack("{s:{s:s, s:i, s:{s:s, s:s}}}", "message", "message", tri_error(), "errorCode", (int)status,
                       "extraInfo", "py_callstack", "", "timestamp", time);
    if (object) tri__json_save(path, object);
}

/* Once all ranks leave in order, all is done: MPI_Finalize, which waits for ranks and daemons, and has hung, is
 * bounded. */
static void end_bounded(const tri_parent *parent, tri_world *world, tri_status status) {
    enum { SECONDS = 10 };
    tri_words words;
    tri__words_keep(&words);
    int in_order = tri__link_leave(world) == TRI_OK;
    tri__words_restore(&words);
    if (!in_order) return;
    parent->report(parent->log.context, status);
    parent->end(SECONDS, (int)status);
}

tri_status tri__rank_leave(const tri_parent *parent, const tri_launch *launch, tri_world *world, tri_status status) {
    if (!world) return status;
    if (status == TRI_STOPPED) *parent->reported = launch->launcher == TRI_LAUNCHER_OWN || world->rank != 0;
    else if (status != TRI_OK) {
        parent->reply(TRI_SIGNAL_SILENT);
        int torchrun = launch->launcher == TRI_LAUNCHER_TORCHRUN;
        const char *elastic = torchrun ? parent->lookup("TORCHELASTIC_ERROR_FILE") : NULL;
        if (world->failed != status) tri_world_fail(world, status, tri_error());
        if (elastic && *elastic) write_elastic(elastic, status);
        *parent->reported = !tri__failure_speaks(world);
        if (!*parent->reported) (void)tri__world_check(world); /* its words name rank and machine */
        parent->report(parent->log.context, status);
    }
    if (world->link && (status == TRI_OK || status == TRI_STOPPED)) end_bounded(parent, world, status);
    if (status == TRI_OK && world->link) { /* MPI ends a job by the exit codes of all its ranks */
        status = tri__world_leave(world);
        *parent->reported = status != TRI_OK; /* by the rank that failed */
        return status;
    }
    tri_world_close(world);
    return status;
}

tri_status tri__rank_refuse(const tri_parent *parent, tri_status status) {
    tri_launch launch;
    tri_words words;
    if (status == TRI_STOPPED) return status;
    parent->reply(TRI_SIGNAL_SILENT); /* of mpirun, once the first rank has ended: the failure is what is said */
    tri__words_keep(&words);
    int found = tri__launch_detect(parent->lookup, &launch) == TRI_OK;
    tri__words_restore(&words);
    launch.stop = parent->stop;
    if (found && tri__launcher_has_mpi(launch.launcher) && launch.size > 1)
        *parent->reported = !tri__mpi_refuse(&launch, status);
    return status;
}
