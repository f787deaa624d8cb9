/* launch.c - starting ranks on this machine, or joining those that a launcher started. */
#include "cli/launch.h"

#include "comm/mpi/mpi.h"
#include "engine/accept_settings.h"
#include "report/sinks/sinks.h"

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
    tri__tell_machines(tri__cli_parent(cli), settings);
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
    static const char *const before[] = {[TRI_LOG_INFO] = "trident: ", [TRI_LOG_WARN] = "trident: warning: ",
                                         [TRI_LOG_PLAIN] = "", [TRI_LOG_FAILURE] = "trident: "};
    const char *erase = cli->err_terminal && level != TRI_LOG_PLAIN ? "\r\033[K" : "";
    int red = cli->err_color && level == TRI_LOG_FAILURE;
    fprintf(cli->err, "%s%s%s\n", erase, red ? "\033[31mtrident:\033[0m " : before[level], text);
}

static void report_now(void *context, tri_status status) {
    tri__cli_report(context, status);
    fflush(NULL);
}

const tri_parent *tri__cli_parent(tri_cli *cli) {
    cli->parent = (tri_parent){.argv = cli->argv, .environment = cli->environment, .lookup = cli->lookup,
                               .out = fileno(cli->out), .err = fileno(cli->err), .stop = cli->stop,
                               .reloads = cli->reloads, .reported = &cli->reported,
                               .log = {.say = say, .context = cli}, .report = report_now, .reply = tri__signals_say,
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

tri_status tri__launch_start(tri_cli *cli, const tri_settings *settings, const char *folder, size_t heap_bytes) {
    TRI_TRY(tri__cli_alone(cli, "--nproc-per-node above 1"));
    tri_signal_words words = settings->save_every || settings->save_steps ? TRI_SIGNAL_RANKS : TRI_SIGNAL_RANKS_UNSAVED;
    const char *stopping = folder                       ? tri__signals_text(words)
                           : cli->stop && !cli->reloads ? tri__signals_text(TRI_SIGNAL_ROWS)
                                                        : NULL,
               *early = folder ? tri__signals_text(TRI_SIGNAL_EARLY) : stopping;
    const tri_supervised what = {.heap_bytes = heap_bytes, .stopping = stopping, .stopping_early = early};
    return tri__start_ranks(tri__cli_parent(cli), settings, folder, what);
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
    if (*tri__mesh_advice(&mesh, world->segment.n, "machine", advice)) fprintf(cli->err, "%s\n", advice);
    return TRI_OK;
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
    int gpus = strcmp(settings->device, "cuda") ? 0 : tri__gpus();
    if (gpus == 0 || world->segment.n <= gpus) return;
    const char *host = TRI_TEXT(32, "trident-%d", launch->rank); /* stays the same when the world changes */
    setenv("NCCL_HOSTID", host, 0);
    if (world->nodes.n == 1) setenv("NCCL_SOCKET_IFNAME", "lo", 0);
}

tri_status tri__launch_join(tri_cli *cli, tri_settings *settings, const tri_launch *launch, tri_world **world) {
    const tri_parent *parent = tri__cli_parent(cli);
    *world = NULL;
    if (launch->launcher == TRI_LAUNCHER_NONE) return TRI_OK;
    tri_status status = tri__rank_join(parent, settings, launch, world);
    if (status != TRI_OK || !*world) return status;
    if (settings->layout == TRI_LAYOUT_AUTO && launch->launcher != TRI_LAUNCHER_OWN) {
        status = tri__cli_layout(cli, settings, launch, *world);
        if (status != TRI_OK) return tri__rank_leave(parent, launch, *world, status);
    }
    if (settings->elastic) (*world)->outlives = tri__mpi_outlives(*world);
    tri__launch_threads(cli, settings, *world);
    prepare_gpu(settings);
    share_gpus(settings, launch, *world);
    if ((*world)->rank != 0 || (*world)->generation || settings->quiet) return TRI_OK;
    status = print_start(cli, settings, launch, *world);
    return status == TRI_OK ? TRI_OK : tri__rank_leave(parent, launch, *world, status);
}

tri_status tri__launch_infer(tri_cli *cli, tri_settings *settings, tri_infer_run *run, void *context) {
    tri_launch launch;
    tri_world *world;
    tri_sink sink = {0};
    tri_log log = tri__sink_log(&sink);
    tri_status status = tri__launch_resolve(cli, settings, &launch);
    if (status == TRI_OK) status = tri__infer_accept(settings);
    if (status != TRI_OK) return tri__rank_refuse(tri__cli_parent(cli), status);
    if (tri__launch_starts(settings, &launch)) return tri__launch_start(cli, settings, NULL, 0);
    TRI_TRY(tri__launch_join(cli, settings, &launch, &world));
    int rank = world ? tri_world_rank(world) : 0;
    status = tri__cli_progress(cli, settings->quiet || rank, &sink);
    if (status == TRI_OK) status = run(cli, settings, world, rank, &log, context);
    if (status == TRI_STOPPED && world) tri_world_fail(world, status, tri_error()); /* others may wait for this rank */
    tri__progress_close(&sink);
    return tri__rank_leave(tri__cli_parent(cli), &launch, world, status);
}
