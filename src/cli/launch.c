/* launch.c - starting ranks on this machine, or joining those that a launcher started. */
#include "cli/launch.h"
#include "job/failure.h"
#include "cli/signals.h"
#include "cli/sinks.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/machine.h"
#include "comm/link/link.h"
#include "comm/mpi/mpi.h"
#include "comm/start/join.h"
#include "comm/link/regroup.h"
#include "engine/accept_settings.h"
#include "job/rank_process.h"
#include "report/sinks/sinks.h"
#include "settings/forms.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- who starts ---- */

int tri__launch_starts(const tri_settings *settings, const tri_launch *launch) {
    return launch->launcher == TRI_LAUNCHER_NONE && settings->nproc_per_node > 1;
}

int tri__launch_speaks(char *(*lookup)(const char *name)) {
    tri_launch launch;
    if (tri__launch_detect(lookup, &launch) != TRI_OK || launch.launcher == TRI_LAUNCHER_NONE) return 1;
    return launch.launcher != TRI_LAUNCHER_OWN && launch.rank == 0;
}

/* The option that requests more than one machine. */
static const char *asks_for_machines(const tri_settings *s) {
    enum { STATIC };
    if (s->nodes > 1) return "--nnodes above 1";
    if (s->standalone) return NULL;
    if (s->rdzv_endpoint) return "--rdzv-endpoint";
    if (s->rdzv_conf) return "--rdzv-conf";
    if (s->rdzv_backend != STATIC) return "--rdzv-backend";
    return s->node_rank > 0 ? "--node-rank above 0" : NULL;
}

static tri_status need_mpi(tri_cli *cli, const tri_settings *settings, const char *what) {
    tri__print_machines(cli, settings);
    return tri__fail(TRI_USAGE,
                     "%s: ranks on several machines communicate through MPI; start them as in the lines above", what);
}

static tri_status check_transport(const tri_settings *settings, const tri_launch *launch) {
    enum { AUTO, SHM, MPI };
    if (settings->transport == MPI && !tri__launcher_has_mpi(launch->launcher))
        return tri__fail(
            TRI_USAGE,
            "--transport mpi: no MPI launcher started this process; use mpirun or srun, or leave the option out");
    if (settings->transport == SHM && launch->nodes > 1)
        return tri__fail(
            TRI_USAGE,
            "--transport shm: shared memory does not reach from one machine to another; leave the option out");
    return TRI_OK;
}

static void say(void *context, tri_log_level level, const char *text) {
    tri_cli *cli = context;
    const char *kind = level == TRI_LOG_WARN ? "warning: " : "";
    fprintf(cli->err, "%strident: %s%s\n", cli->err_terminal ? "\r\033[K" : "", kind, text);
}

static void print_line(void *context, tri_log_level level, const char *line) {
    (void)level;
    fprintf(((tri_cli *)context)->err, "%s\n", line);
}

static void print_failure(void *context, const char *text) {
    tri_cli *cli = context;
    const char *erase = cli->err_terminal ? "\r\033[K" : "";
    fprintf(cli->err, cli->err_color ? "%s\033[31mtrident:\033[0m %s\n" : "%strident: %s\n", erase, text);
}

static void report_now(void *cli, tri_status status) {
    tri__cli_report(cli, status);
    fflush(NULL);
}

const tri_parent *tri__cli_parent(tri_cli *cli) {
    cli->parent = (tri_parent){.argv = cli->argv, .environment = cli->environment, .lookup = cli->lookup,
                               .out = fileno(cli->out), .err = fileno(cli->err), .stop = cli->stop,
                               .reloads = cli->reloads, .reported = &cli->reported,
                               .lines = {.say = print_line, .context = cli}, .log = {.say = say, .context = cli},
                               .fail = print_failure, .report = report_now, .cli = cli, .reply = tri__signals_say,
                               .end = tri__signals_end, .pause = tri__signals_pause, .fit = tri__elastic_fit};
    return &cli->parent;
}

tri_status tri__launch_resolve(tri_cli *cli, tri_settings *settings, tri_launch *launch) {
    tri_status status = tri__launch_detect(cli->lookup, launch);
    int starts_here = tri__settings_given(settings, &settings->nproc_per_node) && settings->nproc_per_node > 1;
    launch->stop = cli->stop;
    launch->log = (tri_log){.say = say, .context = cli};
    launch->reported = &cli->reported;
    if (status != TRI_OK && !(launch->batch && starts_here)) return status;
    /* A launcher started a single process, and that one starts the ranks. */
    if (launch->size == 1 && starts_here && launch->launcher != TRI_LAUNCHER_OWN) launch->launcher = TRI_LAUNCHER_NONE;
    const char *machines = asks_for_machines(settings);
    if (launch->launcher == TRI_LAUNCHER_NONE) {
        if (machines) return need_mpi(cli, settings, machines);
        return check_transport(settings, launch);
    }
    /* The supervisor has already checked this, and it sees all cores of the machine. */
    if (launch->launcher == TRI_LAUNCHER_OWN) {
        tri__settings_forget(settings, &settings->world_size);
        tri__settings_forget(settings, &settings->nproc_per_node);
    }
    TRI_TRY(tri__settings_launched(settings, launch->size, launch->local_size));
    if (launch->nodes > 1 && !tri__launcher_has_mpi(launch->launcher))
        return need_mpi(cli, settings, "WORLD_SIZE above LOCAL_WORLD_SIZE");
    return check_transport(settings, launch);
}

/* ---- starting ---- */

static tri_status read_logs(const tri_settings *s, const char *folder, char path[static TRI_PATH_MAX],
                            tri_rank_logs *logs) {
    int n = (int)s->nproc_per_node;
    logs->run = s->rdzv_id;
    TRI_TRY(tri__streams_parse("--redirects", s->redirects ? s->redirects : "0", n, logs->redirect));
    TRI_TRY(tri__streams_parse("--tee", s->tee ? s->tee : "0", n, logs->tee));
    TRI_TRY(tri__streams_filter("--local-ranks-filter", s->local_ranks_filter ? s->local_ranks_filter : "", n,
                                logs->hidden));
    if (s->log_dir) TRI_TRY(tri__path_join(path, "", s->log_dir));
    else TRI_TRY(tri__path_join(path, folder ? folder : ".", "logs"));
    logs->folder = path;
    return TRI_OK;
}

/* The disk that does not answer may be the run's own: a child writes there, and is waited for no longer than this. */
static void write_error_beside(const char *folder, const tri_verdict *verdict) {
    static const double SECONDS = 2;
    pid_t child = fork(), ended = 0;
    if (child < 0) return;
    if (child == 0) {
        tri__error_write(folder, verdict);
        _exit(0);
    }
    for (double begin = tri__clock(); ended == 0 && tri__clock() - begin < SECONDS;) {
        ended = waitpid(child, NULL, WNOHANG);
        if (ended == 0) tri__clock_sleep(tri__clock() + 0.01);
    }
    if (ended == 0) kill(child, SIGKILL);
}

static tri_status show(tri_cli *cli, const char *folder, const tri_verdict *v) {
    if (!v->failed) {
        const char *name = v->stopped ? sigabbrev_np(v->stopped) : NULL;
        if (v->code == 0) return TRI_OK;
        if (v->code == TRI_STOPPED && v->committed >= 0)
            return tri__fail(TRI_STOPPED, "stopped; the state of step %lld is saved: run again to continue",
                             (long long)v->committed);
        if (v->code == TRI_STOPPED) return tri__fail(TRI_STOPPED, "stopped; run again");
        return tri__fail((tri_status)v->code, "stopped by signal %d (SIG%s)", v->stopped, name ? name : "?");
    }
    char *text = tri__verdict_text(v);
    const char *erase = cli->err_terminal ? "\r\033[K" : "";
    fprintf(cli->err, cli->err_color ? "%s\033[31mtrident:\033[0m %s\n" : "%strident: %s\n", erase,
            text ? text : v->failure.text);
    free(text);
    if (v->hung && v->code == TRI_IO) write_error_beside(folder, v);
    else tri__error_write(folder, v);
    cli->reported = 1;
    return tri__fail((tri_status)v->code, "%s", v->failure.text);
}

static tri_status start_once(tri_cli *cli, const tri_settings *settings, const char *folder, tri_supervised *what,
                             tri_verdict *verdict) {
    TRI_TRY(tri__stop_check(cli->stop, "no rank ran"));
    fflush(cli->out);
    fflush(cli->err);
    TRI_TRY(tri__supervise(what, verdict));
    if (verdict->logs[0] && !settings->quiet) fprintf(cli->err, "logs of the ranks are in %s\n", verdict->logs);
    return show(cli, folder, verdict);
}

/* Ranks of a server that die are started again, however often: at once, or after a pause that doubles where the last
 * start did not live long. Gives up where they die as soon as they start. */
static int serves_again(const tri_cli *cli, double lived, int *in_row) {
    static const double STEADY = 60; /* seconds */
    enum { MOST = 5 };
    if (lived > STEADY) *in_row = 0;
    if (*in_row == MOST) {
        fprintf(cli->err, "trident: %d starts in a row ended within %.0f s: the server is not started again\n",
                MOST + 1, STEADY);
        return 0;
    }
    int pause = *in_row ? 1 << (*in_row - 1) : 0;
    ++*in_row;
    if (pause) fprintf(cli->err, "trident: the server starts again in %d s\n", pause);
    else fprintf(cli->err, "trident: the server starts again\n");
    return !pause || !tri__signals_pause(pause) || !tri__stop_signalled(cli->stop);
}

tri_status tri__launch_start(tri_cli *cli, const tri_settings *settings, const char *folder, size_t heap_bytes) {
    static const char *const resume[][2] = {{TRI_RESUME_VARIABLE, "auto"}};
    char logs[TRI_PATH_MAX];
    tri_log log = {.say = say, .context = cli};
    tri_signal_words words = settings->save_every || settings->save_steps ? TRI_SIGNAL_RANKS : TRI_SIGNAL_RANKS_UNSAVED;
    const char *stopping = folder                       ? tri__signals_text(words)
                           : cli->stop && !cli->reloads ? tri__signals_text(TRI_SIGNAL_ROWS)
                                                        : NULL;
    tri_supervised what = {.argv = cli->argv,
                           .environment = cli->environment,
                           .n = (int)settings->nproc_per_node,
                           .heap_bytes = heap_bytes,
                           .progress_timeout = settings->progress_timeout,
                           .io_timeout = settings->io_timeout,
                           .bind_cores = settings->bind_cores,
                           .out = fileno(cli->out),
                           .err = fileno(cli->err),
                           .stop = cli->stop,
                           .log = &log,
                           .reloads = cli->reloads,
                           .stopping = stopping,
                           .stopping_early = folder ? tri__signals_text(TRI_SIGNAL_EARLY) : stopping,
                           .elastic = settings->elastic,
                           .max_restarts = settings->max_restarts,
                           .min_ranks = (int)settings->min_ranks,
                           .fit = tri__elastic_fit,
                           .fit_context = (void *)settings,
                           .logs.elastic = settings->elastic};
    char **resuming = NULL; /* the environment once a checkpoint is committed */
    int in_row = 0;
    tri_status status = read_logs(settings, folder, logs, &what.logs);
    for (int64_t restarts = 0, again = status == TRI_OK; again;) {
        tri_verdict verdict = {0};
        double begun = tri__clock();
        status = start_once(cli, settings, folder, &what, &verdict);
        again = verdict.failed && !verdict.stopped && tri__is_crash(verdict.code, verdict.hung);
        if (again && cli->reloads) again = serves_again(cli, tri__clock() - begun, &in_row);
        else if (again) again = restarts++ < settings->max_restarts;
        if (again && !cli->reloads)
            fprintf(cli->err, "trident: start %lld of %lld\n", (long long)restarts + 1,
                    (long long)settings->max_restarts + 1);
        if (again && verdict.committed >= 0 && !resuming) {
            resuming = tri__environment_with(cli->environment, resume, 1);
            if (resuming) what.environment = resuming;
            else status = tri__fail(TRI_RESOURCE, "out of memory while starting again"), again = 0;
        }
        if (again) cli->reported = 0;
        tri__verdict_free(&verdict);
    }
    free(resuming);
    return status;
}

/* ---- being a rank ---- */

/* This rank's share of the cores available to all ranks of the machine. */
static int fair_threads(const tri_world *world) {
    int own = tri__cores(), share = tri__control_cores(world->segment.control) / world->segment.n;
    return share < 1 ? 1 : share > own ? own : share;
}

/* torchrun sets OMP_NUM_THREADS to 1 if the user has not set it. */
void tri__launch_threads(tri_cli *cli, tri_settings *settings, const tri_world *world) {
    const char *asked = cli->lookup("OMP_NUM_THREADS"), *elastic = cli->lookup("TORCHELASTIC_RUN_ID");
    if (settings->threads) return;
    int n = asked ? atoi(asked) : 0, by_torchrun = n == 1 && elastic && *elastic;
    settings->threads = n > 0 && !by_torchrun ? n : fair_threads(world);
    if (by_torchrun && settings->threads > 1 && world->rank == 0 && !settings->quiet && !world->generation)
        fprintf(cli->err,
                "threads    %lld: torchrun's OMP_NUM_THREADS=1 is ignored; --threads sets another number\n",
                (long long)settings->threads);
}

static tri_status print_start(tri_cli *cli, const tri_settings *s, const tri_launch *launch, const tri_world *world) {
    tri_mesh mesh;
    char advice[TRI_MESH_ADVICE];
    TRI_TRY(tri__settings_mesh(s, &mesh));
    const char *between = world->nodes.n > 1 ? ", mpi between machines" : "";
    fprintf(cli->err, "launcher   %s: %d ranks, %d on this machine\n", tri__launcher_text(launch->launcher),
            world->size, world->segment.n);
    fprintf(cli->err, "mesh       pp=%d tp=%d ", mesh.pp, mesh.tp);
    if (mesh.cp > 1) fprintf(cli->err, "cp=%d ", mesh.cp);
    fprintf(cli->err, "dp=%d", tri__mesh_readers(&mesh));
    fprintf(cli->err, mesh.ep > 1 ? " ep=%d\n" : "\n", mesh.ep);
    if (!cli->reloads) /* batches of a server are counted in tokens */
        fprintf(cli->err, "batch      %lld on each replica, %lld in all\n", (long long)s->batch_size,
                (long long)tri__settings_global_batch(s));
    fprintf(cli->err, "transport  shm%s\n", between);
    fprintf(cli->err, "device     %s, %lld thread%s a rank\n", s->device, (long long)s->threads,
            s->threads == 1 ? "" : "s");
    if (*tri__mesh_advice(&mesh, world->segment.n, advice)) fprintf(cli->err, "%s\n", advice);
    return TRI_OK;
}

/* A supervised rank that cannot join writes the reason to the control page, unless there already is one; the supervisor
 * prints it. page: file descriptor of the shared memory. */
static void report_no_join(tri_cli *cli, const tri_launch *launch, int page, tri_status status) {
    tri_segment segment;
    tri_words words;
    tri__words_keep(&words);
    if (tri__segment_attach(page, &segment) == TRI_OK) {
        if (!atomic_load(&segment.control->abort))
            tri__control_fail(segment.control, launch->rank, status, "%s", words.text);
        tri__segment_close(&segment);
        cli->reported = 1;
    }
    tri__words_restore(&words);
}

/* Transfers of several groups wait concurrently for other ranks and for the kernels before them, so each queue needs
 * its own hardware connection to the GPU (CUDA's default is 8). In a pipeline, whose ranks wait for each other in both
 * directions, kernels must not be loaded lazily: loading synchronises with everything in flight, including transfers
 * that wait for what this rank sends next, a deadlock. CUDA reads both settings from the environment when it starts. */
static void prepare_gpu(const tri_settings *settings) {
    if (strcmp(settings->device, "cuda")) return;
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    if (settings->pp_size > 1) setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

/* NCCL refuses two ranks of one host on the same GPU. If a machine has more ranks than GPUs, as in tests, each rank
 * claims to be a separate host and communicates over loopback. NCCL takes this only from the environment. */
static void share_gpus(const tri_settings *settings, const tri_launch *launch, const tri_world *world) {
    char host[32];
    int gpus = strcmp(settings->device, "cuda") ? 0 : tri__gpus();
    if (gpus == 0 || world->segment.n <= gpus) return;
    snprintf(host, sizeof host, "trident-%d", launch->rank); /* stays the same when the world changes */
    setenv("NCCL_HOSTID", host, 0);
    if (world->nodes.n == 1) setenv("NCCL_SOCKET_IFNAME", "lo", 0);
}

/* Ranks are executed as /proc/self/exe, a name that does not identify the process. */
static void set_name(int rank) {
    char name[16];
    snprintf(name, sizeof name, "trident:%d", rank);
    prctl(PR_SET_NAME, name);
}

/* Seconds in which the ranks of the next world meet. The supervisor sees before that who is missing, and makes
 * another. */
static double meet_seconds(double progress_timeout) { return 5 + 2 * progress_timeout; }

/* Under our supervisor. A rank of an elastic run that cannot join, or that was started to join later, waits for the
 * next world. */
static tri_status join_own(tri_cli *cli, const tri_settings *settings, const tri_ranks *how, const tri_launch *launch,
                           tri_world **world) {
    tri_status status = TRI_OK;
    tri_words words = {0};
    int again = 0;
    set_name(launch->rank);
    if (launch->fd >= 0) {
        int page = fcntl(launch->fd, F_DUPFD_CLOEXEC, 0);
        status = tri__world_join_launch(how, launch, world);
        if (status != TRI_OK && page >= 0) report_no_join(cli, launch, page, status); /* closes it */
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

tri_status tri__launch_join(tri_cli *cli, tri_settings *settings, const tri_launch *launch, size_t heap_bytes,
                            tri_world **world) {
    *world = NULL;
    if (launch->launcher == TRI_LAUNCHER_NONE) return TRI_OK;
    int own = launch->launcher == TRI_LAUNCHER_OWN;
    tri_ranks how = {.heap_bytes = heap_bytes,
                     .progress_timeout = settings->progress_timeout,
                     .io_timeout = settings->io_timeout};
    if (launch->socket >= 0) fcntl(launch->socket, F_SETFD, FD_CLOEXEC);
    tri_status status =
        own ? join_own(cli, settings, &how, launch, world) : tri__world_join_launch(&how, launch, world);
    if (status != TRI_OK || !*world) return status;
    if (settings->layout == TRI_LAYOUT_AUTO && !own) {
        status = tri__cli_layout(cli, settings, launch, *world);
        if (status != TRI_OK) return tri__launch_leave(cli, launch, *world, status);
    }
    if (settings->elastic) (*world)->outlives = tri__mpi_outlives(*world);
    tri__launch_threads(cli, settings, *world);
    prepare_gpu(settings);
    share_gpus(settings, launch, *world);
    if ((*world)->rank != 0 || (*world)->generation || settings->quiet) return TRI_OK;
    status = print_start(cli, settings, launch, *world);
    return status == TRI_OK ? TRI_OK : tri__launch_leave(cli, launch, *world, status);
}

/* Ranks of an MPI job with ULFM. The rank that failed ends, and with it only its process; a failure that would recur
 * ends the job. */
static tri_status regroup_mpi(tri_cli *cli, const tri_settings *settings, const tri_launch *launch, tri_status status,
                              tri_world *old, tri_world **world, int *again) {
    tri_failure failure;
    tri_words words;
    tri_ranks asked = {.progress_timeout = settings->progress_timeout, .io_timeout = settings->io_timeout}, how;
    tri_mpi_next next = {tri__elastic_fit, (void *)settings, (int)settings->min_ranks, 0};
    TRI_TRY(tri__ranks_resolve(&asked, &how));
    if (status == TRI_OK && tri__link_leave(old) == TRI_OK) return tri__launch_leave(cli, launch, old, status);
    int failed = tri__control_failure(old->segment.control, &failure);
    int crash = failed && tri__is_crash(failure.code, 0) && tri__mpi_can_end(old, &failure);
    if (!crash) old->outlives = 0;
    if (!crash || failure.rank == old->rank) return tri__launch_leave(cli, launch, old, status);
    tri__words_keep(&words);
    tri_status joined = tri__mpi_next(old, &how, launch, &next, world, again);
    if (*again || joined != (tri_status)TRI_KILLED) return joined;
    cli->reported = 1; /* that too few are left */
    tri__words_restore(&words);
    if (status == TRI_OK) status = joined;
    tri_verdict verdict = {.code = (int)status, .failed = 1, .failure = failure, .ended = tri__clock_wall()};
    if (next.first) tri__error_write(settings->output_dir, &verdict);
    return status;
}

tri_status tri__launch_regroup(tri_cli *cli, const tri_settings *settings, const tri_launch *launch, tri_status status,
                               tri_world **world, int *again) {
    tri_world *old = *world;
    tri_words words;
    *world = NULL, *again = 0;
    if (old && old->outlives) return regroup_mpi(cli, settings, launch, status, old, world, again);
    if (!old || launch->socket < 0 || (status != TRI_OK && old->failed != status && !old->regroups))
        return tri__launch_leave(cli, launch, old, status);
    double seconds = meet_seconds(old->segment.control->progress_timeout);
    tri__words_keep(&words);
    tri_world_close(old);
    tri_status next = tri__regroup_next(launch->socket, seconds, launch->stop, world, again);
    if (*again) set_name((*world)->rank);
    cli->reported = next == TRI_OK || next == TRI_STOPPED; /* by the supervisor */
    if (*again || next != TRI_OK) return next;
    tri__words_restore(&words);
    return status;
}

/* Writes torchrun's error-file format, which torchrun prints as the root cause. */
static void write_elastic(const char *path, tri_status status) {
    char time[32];
    tri_words words;
    tri__words_keep(&words);
    snprintf(time, sizeof time, "%lld", (long long)tri__clock_wall());
    tri_json *object = tri__json_pack("{s:{s:s, s:i, s:{s:s, s:s}}}", "message", "message", words.text, "errorCode",
                                      (int)status, "extraInfo", "py_callstack", "", "timestamp", time);
    if (object) tri__json_save(path, object);
    tri__json_decref(object);
    tri__words_restore(&words);
}

/* Once all ranks leave in order, all is done: MPI_Finalize, which waits for ranks and daemons, and has hung, is
 * bounded. */
static void end_bounded(tri_cli *cli, tri_world *world, tri_status status) {
    enum { SECONDS = 10 };
    tri_words words;
    tri__words_keep(&words);
    int in_order = tri__link_leave(world) == TRI_OK;
    tri__words_restore(&words);
    if (!in_order) return;
    report_now(cli, status);
    tri__signals_end(SECONDS, (int)status);
}

tri_status tri__launch_leave(tri_cli *cli, const tri_launch *launch, tri_world *world, tri_status status) {
    if (!world) return status;
    if (status == TRI_STOPPED) cli->reported = launch->launcher == TRI_LAUNCHER_OWN || world->rank != 0;
    else if (status != TRI_OK) {
        tri__signals_say(TRI_SIGNAL_SILENT);
        const char *elastic = launch->launcher == TRI_LAUNCHER_TORCHRUN ? cli->lookup("TORCHELASTIC_ERROR_FILE") : NULL;
        if (world->failed != status) tri_world_fail(world, status, tri_error());
        if (elastic && *elastic) write_elastic(elastic, status);
        cli->reported = !tri__failure_speaks(world);
        if (!cli->reported) (void)tri__world_check(world); /* its words name rank and machine */
        report_now(cli, status);
    }
    if (world->link && (status == TRI_OK || status == TRI_STOPPED)) end_bounded(cli, world, status);
    if (status == TRI_OK && world->link) { /* MPI ends a job by the exit codes of all its ranks */
        status = tri__world_leave(world);
        cli->reported = status != TRI_OK; /* by the rank that failed */
        return status;
    }
    tri_world_close(world);
    return status;
}

tri_status tri__launch_refuse(tri_cli *cli, tri_status status) {
    tri_launch launch;
    tri_words words;
    if (status == TRI_STOPPED) return status;
    tri__signals_say(TRI_SIGNAL_SILENT); /* of mpirun, once the first rank has ended: the failure is what is said */
    tri__words_keep(&words);
    int found = tri__launch_detect(cli->lookup, &launch) == TRI_OK;
    tri__words_restore(&words);
    launch.stop = cli->stop;
    if (found && tri__launcher_has_mpi(launch.launcher) && launch.size > 1)
        cli->reported = !tri__mpi_refuse(&launch, status);
    return status;
}

tri_status tri__launch_infer(tri_cli *cli, tri_settings *settings, tri_infer_run *run, void *context) {
    tri_launch launch;
    tri_world *world;
    tri_sink sink = {0};
    tri_log log = tri__sink_log(&sink);
    tri_words words;
    tri_status status = tri__launch_resolve(cli, settings, &launch);
    if (status == TRI_OK) status = tri__infer_accept(settings);
    if (status != TRI_OK) return tri__launch_refuse(cli, status);
    if (tri__launch_starts(settings, &launch)) return tri__launch_start(cli, settings, NULL, 0);
    TRI_TRY(tri__launch_join(cli, settings, &launch, 0, &world));
    int rank = world ? tri_world_rank(world) : 0;
    status = tri__cli_progress(cli, settings->quiet || rank, &sink);
    if (status == TRI_OK) status = run(cli, settings, world, rank, &log, context);
    tri__words_keep(&words);
    tri__progress_close(&sink);
    tri__words_restore(&words);
    return tri__launch_leave(cli, &launch, world, status);
}
