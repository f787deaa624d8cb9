/* calibrate.c - `trident calibrate`: measures this machine and writes a hardware file for plan, simulate and choose. */
#include "cli/bench/models.h"
#include "cli/bench/bench_runs.h"
#include "cli/launch.h"

#include "base/topology.h"
#include "comm/start/join.h"
#include "report/text/text_table.h"
#include "study/calibrate/calibrate.h"

#include <unistd.h>

enum { STEPS = 30, TRIES = 3 }; /* of a short run; runs of which the fastest counts */
enum { RANKS_LEAST = 4 }; /* that links are measured between: more than the cores of a small machine is usual */

typedef struct options {
    double seconds;
} options;

typedef struct calibrating {
    const tri_settings *settings;
    const options *own;
    tri_launch launch;
    tri_arena arena;
    tri_hardware out;
    char path[TRI_PATH_MAX], date[32];
    double begun;
} calibrating;

const tri_option tri__calibrate_options[] = {
    TRI_OWN_ROW(options, "calibrate", REAL, seconds, .value = "55", .min = 1, .max = 3600,
                .help = "time to measure for, about; with little, large models are left out"),
    TRI_OWN_END(options)};

/* ---- Measuring ---- */

/* What nobody measures here is taken from the built-in hardware of the device. */
static tri_status begin_with(calibrating *c) {
    TRI_TRY(tri__arena_open(&c->arena, 1 << 20));
    TRI_TRY(tri__hardware_open(&c->arena, tri__hardware_of(c->settings->device), &c->out));
    c->out = (tri_hardware){.name = c->path, .near = c->out.near, .far = c->out.far, .copy = c->out.copy,
                            .overlap = c->out.overlap, .watts = c->out.watts, .ranks_per_node = c->out.ranks_per_node};
    return TRI_OK;
}

/* Links first, while all ranks are here. */
static tri_status measure_links(calibrating *c, tri_world *world, const tri_log *log) {
    int ranks = tri__settings_given(c->settings, &c->settings->nproc_per_node) && !world
                    ? (int)c->settings->nproc_per_node
                : tri__cores() > RANKS_LEAST ? tri__cores()
                                             : RANKS_LEAST;
    tri__say(log, TRI_LOG_INFO, "links: %d ranks of this machine%s", ranks, world ? ", and those of others" : "");
    return tri__calibrate_links(&c->arena, world, ranks, c->own->seconds / 5, &c->out);
}

static tri_status measure_machine(tri_cli *cli, calibrating *c, const tri_log *log) {
    const tri_device *device;
    TRI_TRY(tri__device_get(c->settings->device, &device));
    if (device->is_stub)
        return tri__fail(TRI_USAGE, "--device %s computes nothing that could be measured: take --device cpu",
                         device->name);
    const tri_calibration asked = {.device = device, .cores = device->async ? 0 : tri__cores(),
                                   .seconds = c->own->seconds * (device->async ? 0.9 : 0.75), .log = log,
                                   .stop = cli->stop};
    TRI_TRY(tri__calibrate_kernels(&asked, &c->arena, &c->out));
    c->out.ranks_per_node = device->async ? device->count() : asked.cores;
    if (!device->async) c->out.memory = (double)tri__memory_total();
    const tri_hardware measured = c->out; /* the host's copies and steps are not those of a GPU */
    tri_status status = tri__calibrate_host(&c->out);
    if (device->async) c->out.copy = measured.copy, c->out.host.step = measured.host.step;
    return status;
}

/* ---- Start-up and the time between steps, from short runs of `trident train` ---- */

/* Of a run: seconds from its start to its end, of them in steps; and when the first and the last step were reported. */
typedef struct run_times {
    double all, steps, first_step, first, last;
} run_times;

static tri_status take_event(void *to, const tri_json *event) {
    run_times *times = to;
    double at = tri__number_in(event, "ts"), took = tri__number_in(event, "step_ms") / 1e3;
    if (times->steps == 0) times->first = at, times->first_step = took;
    times->steps += took, times->last = at;
    return TRI_OK;
}

static tri_status run_once(const tri_cli *cli, const char *folder, int ranks, run_times *times) {
    TRI_OWNED(tri__run_line_drop) tri_run_line *l = tri__run_line_new(cli, folder, "run");
    tri__run_line_add(l, "--nproc-per-node=%d\t--global-batch-size=%d\t--max-steps=%d\t--threads=1\t--device=cpu",
                      ranks, tri__lab_models[0].samples, STEPS);
    tri_status status = tri__run_line_parse(l);
    *times = (run_times){0};
    double begin = tri__clock();
    if (status == TRI_OK) status = tri__run_line_start(cli, l);
    times->all = tri__clock() - begin;
    if (status == TRI_OK) status = tri__run_events(l->settings.output_dir, take_event, times);
    if (l) tri__bench_remove(l->settings.output_dir);
    return status;
}

/* The run that needed the least time outside its steps. */
static tri_status run_best(const tri_cli *cli, const char *folder, int ranks, run_times *best) {
    for (int i = 0; i < TRIES; i++) {
        run_times times;
        TRI_TRY(run_once(cli, folder, ranks, &times));
        if (i == 0 || times.all - times.steps < best->all - best->steps) *best = times;
    }
    return TRI_OK;
}

/* Sets host.start, host.rank_start and host.step: trains the smallest model of the benchmarks for a few steps, on one
 * rank and on two, as `trident train` does. Not for processes that a launcher started. */
static tri_status measure_start(const tri_cli *cli, tri_hardware *out) {
    char folder[TRI_PATH_MAX];
    run_times one, two;
    TRI_TRY(tri__bench_folder(cli, folder));
    tri_status status = tri__bench_write(&tri__lab_models[0], folder, tri__lab_models[0].samples * STEPS);
    if (status == TRI_OK) status = run_best(cli, folder, 1, &one);
    if (status == TRI_OK) status = run_best(cli, folder, 2, &two);
    tri__bench_remove(folder);
    TRI_TRY(status);
    out->host.step = fmax(0, (one.last - one.first - (one.steps - one.first_step)) / (STEPS - 1));
    out->host.start = fmax(0, one.all - one.steps - STEPS * out->host.step);
    out->host.rank_start = fmax(0, (two.all - two.steps) - (one.all - one.steps));
    return TRI_OK;
}

/* ---- Where figures come from ---- */

static void add_key(calibrating *c, struct tri_hardware_names *list, const char *key) {
    const char **more = tri__arena_alloc(&c->arena, ((size_t)list->n + 1) * sizeof *more);
    if (list->n) memcpy(more, list->at, (size_t)list->n * sizeof *more);
    more[list->n++] = key;
    list->at = more;
}

/* NVLink islands of the GPUs; between them the rate of copies is assumed. */
static void note_islands(calibrating *c) {
    tri_topology topology;
    tri__topology_read("", &topology);
    tri__topology_ask(&topology);
    int island = tri__topology_island(&topology);
    if (!island || topology.n_gpus != c->out.ranks_per_node) return; /* others are hidden from CUDA */
    c->out.islands = (struct tri_hardware_islands){island, c->out.near.latency, c->out.copy};
    add_key(c, &c->out.origin.assumed, "islands");
}

static tri_status say_origin(void *data) {
    calibrating *c = data;
    static const char *const always[] = {"f32_flops",      "half_flops",       "attention_share", "memory_bytes_per_s",
                                         "launch_seconds", "copy_bytes_per_s", "cores",           "peak_flops",
                                         "kernels",        "target",           "host"};
    tri_hardware_origin *o = &c->out.origin;
    const tri_device *device;
    time_t now = time(NULL);
    struct tm parts;
    int near = 0, far = 0;
    for (int i = 0; i < c->out.n_links; i++) {
        near |= c->out.link[i].nodes == 1 && c->out.link[i].ranks > 1;
        far |= c->out.link[i].nodes > 1;
    }
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) add_key(c, &o->measured, always[i]);
    if (c->out.n_links) add_key(c, &o->measured, "links");
    TRI_TRY(tri__device_get(c->settings->device, &device));
    static const char *const wires[2][2] = {{"near_latency", "near_bytes_per_s"}, {"far_latency", "far_bytes_per_s"}},
                             *const of_async[] = {"memory_bytes", "queue_seconds", "offload"};
    for (int w = 0; w < 2; w++)
        for (int k = 0; k < 2; k++)
            if (w ? far : near) add_key(c, &o->measured, wires[w][k]);
            else if (device->async && k == 1) add_key(c, &o->maker, wires[w][k]);
            else add_key(c, &o->assumed, wires[w][k]);
    for (int i = 0; device->async && i < 3; i++) add_key(c, &o->measured, of_async[i]);
    if (device->async) note_islands(c);
    if (device->async) add_key(c, &o->maker, "watts"); /* of the built-in hardware, as the links */
    strftime(c->date, sizeof c->date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
    if (!device->async) /* of others, measuring has set it */
        o->machine = tri__arena_print(&c->arena, "%d core%s of %s", tri__cores(), tri__cores() == 1 ? "" : "s",
                                      device->describe(NULL));
    o->date = c->date, o->version = tri_version();
    return TRI_OK;
}

/* ---- Showing ---- */

static void add_kernel(const tri_kernel_curve *c, int attends, tri_text_table *table) {
    for (int k = 0; k < c->n; k++) {
        const tri_kernel_point *p = &c->point[k];
        const double *of = p->size;
        double flops = attends ? 4 * of[0] * of[1] * of[2] * of[3] : 2 * of[0] * of[1] * of[2];
        if (!attends && (of[1] != of[2] || of[0] < 16)) continue; /* square ones stand for all */
        tri__text_table_add(table, "%s\t%s\t%d", attends ? "attention" : "product", tri__dtype_name(c->dtype),
                            c->threads);
        if (attends) tri__text_table_more(table, "%.0f tokens of %.0f, %.0f x %.0f", of[0], of[1], of[2], of[3]);
        else tri__text_table_more(table, "%.0f x %.0f x %.0f", of[0], of[1], of[2]);
        tri__text_table_more(table, "%.3f\t%.1f GFLOP/s\t%.1f %%", 1e3 * p->seconds, flops / p->seconds / 1e9,
                             100 * p->spread / p->seconds);
    }
}

static void add_links(const tri_hardware *h, tri_text_table *table) {
    char bytes[32];
    for (int i = 0; i < h->n_links; i++) {
        const tri_link_curve *c = &h->link[i];
        const tri_link_point *last = &c->point[c->n - 1];
        tri__text_table_add(table, "%s\t-\t-\t%d ranks, %d node%s, %s\t%.3f\t%.2f GB/s\t%.1f %%",
                            tri__link_kind_name(c->kind), c->ranks, c->nodes, c->nodes == 1 ? "" : "s",
                            tri__text_bytes(last->bytes, bytes), 1e3 * last->seconds,
                            last->bytes / last->seconds / 1e9, 100 * last->spread / last->seconds);
    }
}

static tri_status print_table(const tri_cli *cli, const calibrating *c) {
    const tri_hardware *h = &c->out;
    tri_text_table table = {0};
    int linear = tri__variant_find("linear"), attention = tri__variant_find("attention");
    tri__text_table_add(&table, "what\ttype\tthreads\tsize\tms\trate\tspread");
    for (int attends = 0; attends < 2; attends++)
        for (const tri_kernel_curve *c = h->kernel; c < h->kernel + h->n_kernels; c++)
            if (attends ? c->variant == attention : c->variant == linear && !c->adds) add_kernel(c, attends, &table);
    add_links(h, &table);
    tri_status status = tri__print_table(cli, &table);
    fprintf(cli->out,
            "\none thread: products %.1f GFLOP/s in fp32, %.1f with 16 bits; memory %.1f GB/s; shortest call %.2f us\n"
            "written to %s in %.0f s: plan, simulate and choose use it%s\n",
            h->f32 / 1e9, h->half / 1e9, h->bytes / 1e9, 1e6 * h->launch, c->path, tri__clock() - c->begun,
            c->settings->output ? " with --hardware" : " for this device");
    return status;
}

/* ---- From beginning to end ---- */

/* Fails before anything is measured where the file could not be written in the end. */
static tri_status choose_path(calibrating *c) {
    char folder[TRI_PATH_MAX];
    tri_kind kind;
    if (c->settings->output) TRI_TRY(tri__path_join(c->path, "", c->settings->output));
    else TRI_TRY(tri__cli_calibrated(c->settings->device, c->path));
    if (c->launch.rank > 0) return TRI_OK; /* rank 0 writes */
    if (c->settings->output) TRI_TRY(tri__output_check(c->settings, &(tri_output){.option = "-o", .path = c->path}));
    if (!c->settings->output && tri__is_folder(c->path))
        return tri__fail(TRI_IO, "cannot write %s: it is a folder", c->path);
    TRI_TRY(tri__path_kind(c->path, &kind));
    if (kind == TRI_KIND_OTHER) return TRI_OK;
    TRI_TRY(tri__path_parent(c->path, folder));
    return tri__folder_probe(folder, (int)getpid());
}

static tri_status write_results(const tri_cli *cli, const calibrating *c) {
    TRI_OWNED(tri__json_drop) tri_json *json = tri__hardware_json(&c->out);
    TRI_TRY(tri__json_deliver(c->path, json, c->settings->force || !c->settings->output));
    return c->settings->json ? tri__print_json(cli->out, json) : print_table(cli, c);
}

static tri_status calibrate(tri_cli *cli, calibrating *c, const tri_log *log) {
    tri_world *world = NULL;
    int joins = c->launch.launcher != TRI_LAUNCHER_NONE;
    const tri_ranks how = {.progress_timeout = c->settings->progress_timeout, .io_timeout = c->settings->io_timeout};
    TRI_TRY(choose_path(c));
    TRI_TRY(begin_with(c));
    if (joins) TRI_TRY(tri__world_join_launch(&how, &c->launch, &world));
    const tri_device *device = NULL;
    tri_status status = tri__device_get(c->settings->device, &device);
    if (status == TRI_OK && !device->async) status = measure_links(c, world, log); /* those of GPUs are not measured */
    int rank = world ? tri_world_rank(world) : 0, measures = !world || world->nodes.local_of[rank] == 0;
    if (joins) status = tri__rank_leave(tri__cli_parent(cli), &c->launch, world, status);
    if (status != TRI_OK || !measures) return status;
    TRI_TRY(measure_machine(cli, c, log)); /* all machines at once: they may be virtual ones that share a memory */
    if (rank) return TRI_OK;
    if (!joins && !device->async) TRI_TRY(measure_start(cli, &c->out)); /* which trains on the CPU */
    TRI_TRY(tri__arena_guard(say_origin, c));
    return write_results(cli, c);
}

tri_status tri__command_calibrate(tri_cli *cli, tri_command_call *call) {
    TRI_OWNED(tri__free_at) calibrating *c = calloc(1, sizeof *c);
    if (!c) return tri__fail(TRI_RESOURCE, "out of memory");
    *c = (calibrating){.settings = &call->settings, .own = call->own, .begun = tri__clock()};
    tri_status status = tri__launch_resolve(cli, &call->settings, &c->launch);
    if (status == TRI_OK) status = calibrate(cli, c, &call->log);
    tri__arena_close(&c->arena);
    return status;
}
