/* step.c - `trident bench step`: a training step of each case on one device, compared with its matrix-product rate.
 *
 * A configuration with random weights and its table are written to a temporary folder; then steps run as in `trident
 * train`, but in this process. MFU counts only real tokens and the model's nominal FLOPs (engine/cost/mfu.h). */
#include "cli/bench/bench.h"
#include "cli/bench/models.h"
#include "cli/bench/bench_runs.h"
#include "engine/cost/ceiling.h"
#include "cli/bench/step_gauges.h"

#include "engine/accept_settings.h"
#include "report/text/text_table.h"
#include "sim/timeline.h"
#include "train/session.h"

enum { WARMUP = 5, TIMED = 20, BATCHES = 4 /* generated, and used in rotation */ };

typedef struct result {
    double step, mean, least;        /* seconds: median, mean, minimum */
    double worked;                   /* seconds per step from the device's first work to its last; 0: it is the host */
    double opened, first;            /* from opening the run to its first batch; to the end of its first step */
    double waited, host;             /* seconds per step: waiting for the batch; until all but the update was queued */
    double flops, rate, mfu;         /* FLOPs of a step and MFU as defined above; rate: samples/s */
    double executed;                 /* FLOPs of all operations of a step */
    int64_t tokens;                  /* of the median step, both texts */
    double planned, used; /* bytes: planned; decrease of the device's free memory, 0 if unknown */
    double by_op[TRI_VARIANTS];      /* seconds in one additional, instrumented step */
    double loss[2];                  /* of the first and the last step */
    tri_json *each;                  /* {steps_ms, clocks, if they were read} */
    double predicted;                /* seconds: simulated, median of the same steps; 0 without --hardware */
} result;

typedef struct bench {
    tri_cli *cli;
    const tri_settings *asked;
    const tri_bench_options *options;
    const tri_bench_model *at;
    const tri_device *device;
    double ceiling;                  /* FLOPs a second */
    const tri_hardware *hardware;    /* to predict with; NULL */
    int64_t steps;                   /* including warm-up */
    char folder[TRI_PATH_MAX];
} bench;

/* ---- A case as a run ---- */

static tri_run_line *line_of(const bench *b) {
    static const char *const recomputes[] = {TRI_RECOMPUTE_KINDS(TRI_NAMED)};
    tri_run_line *l = tri__run_line_new(b->cli, b->folder, "run");
    long long steps = (long long)b->steps + 1; /* + 1: the instrumented step */
    tri__run_line_add(l, "--batch-size=%d\t--max-steps=%lld\t--epochs=%lld\t--seed=1\t--threads=%lld", b->at->samples,
                      steps, steps, (long long)b->asked->threads);
    tri__run_line_add(l, "--device=%s\t--precision=%s", b->asked->device, tri__settings_computing(b->asked));
    tri__run_line_add(l, "--recompute=%s\t--layer-drop=%s", recomputes[b->asked->recompute], b->asked->layer_drop);
    if (b->asked->tune_products) tri__run_line_add(l, "--tune-products");
    if (b->asked->memory_limit) tri__run_line_add(l, "--memory-limit=%s", b->asked->memory_limit);
    for (int i = 0; i < b->asked->offload.n; i++) tri__run_line_add(l, "--offload=%s", b->asked->offload.at[i]);
    return l;
}

/* ---- Steps ---- */

static tri_status one_step(tri_session *s, double *host) {
    int more;
    double begin = tri__clock();
    TRI_TRY(tri_next_batch(s, &more));
    TRI_ASSERT(more);
    TRI_TRY(tri_forward_backward(s, NULL));
    *host = tri__clock() - begin - s->waited;
    return tri_update(s);
}

/* A step's program, timed with the row counts that its batch had. */
typedef struct predicting {
    const tri_session *session;
    const tri_hardware *hardware;
    double *seconds;
} predicting;

static tri_status predict(tri_arena *arena, void *data) {
    const predicting *p = data;
    const tri_engine *engine = &p->session->engine;
    const tri_program *program = engine->plan.train.program;
    tri_counts *counts = tri__arena_alloc(arena, (size_t)engine->n_mb * sizeof *counts);
    tri_classes ranks;
    tri_timeline line;
    for (int mb = 0; mb < engine->n_mb; mb++) counts[mb] = p->session->feed[mb].counts;
    tri_costs costs = {.hardware = p->hardware, .counts = counts, .n_counts = engine->n_mb, .threads = engine->threads};
    TRI_TRY(tri__classes_list(&ranks, arena, &program, 1));
    TRI_TRY(tri__timeline(arena, &ranks, &costs, &line));
    *p->seconds = line.seconds + p->hardware->host.step;
    return TRI_OK;
}

/* {"steps_ms": [...]} of the timed steps when[n] and, where clocks are read, their clocks and what else was read. */
static tri_json *tell_each(const tri_gauge_watch *watch, const tri_time *when, int64_t n) {
    tri_json *each = tri__json_object(), *ms = tri__json_array(), *mhz = tri__json_array();
    for (int64_t i = 0; i < n; i++) {
        tri__json_append_new(ms, tri__json_real(1e3 * (when[i].end - when[i].begin)));
        tri__json_append_new(mhz, tri__json_real(tri__gauge_clock(watch, when[i].begin, when[i].end)));
    }
    tri__json_set_new(each, "steps_ms", ms);
    if (watch) tri__json_set_new(each, "steps_mhz", mhz);
    else tri__json_decref(mhz);
    tri__gauge_tell(watch, when[0].begin, when[n - 1].end, each);
    return each;
}

/* The steps after the warm-up: when[i], and the simulated seconds of each. */
static tri_status take_steps(const bench *b, tri_session *s, double begun, tri_time *when, double *simulated,
                             result *r) {
    for (int64_t i = 0; i < b->steps; i++) {
        double begin = tri__clock(), host = 0;
        TRI_TRY(one_step(s, &host));
        double end = tri__clock();
        if (i == 0) r->first = end - begun, r->loss[0] = s->last.loss;
        if (i < WARMUP) continue;
        when[i - WARMUP] = (tri_time){begin, end};
        predicting p = {s, b->hardware, &simulated[i - WARMUP]};
        if (b->hardware) TRI_TRY(tri__arena_scratch(predict, &p));
        r->flops += s->model_flops, r->executed += s->last.flops, r->tokens += s->last.tokens;
        r->host += host, r->waited += s->waited, r->worked += s->worked, r->mean += end - begin;
    }
    r->loss[1] = s->last.loss;
    return TRI_OK;
}

static tri_status time_steps(const bench *b, tri_session *s, double begun, result *r) {
    TRI_OWNED(tri__free_at) double *times = NULL;
    TRI_OWNED(tri__free_at) tri_time *when = NULL;
    TRI_OWNED(tri__free_at) tri_gauge_watch *watch = NULL;
    int64_t n = b->steps - WARMUP;
    TRI_TRY(TRI_NEW(times, 2 * b->steps, "times"));
    TRI_TRY(TRI_NEW(when, b->steps, "times"));
    TRI_TRY(tri__gauge_watch(s->engine.exec, &watch));
    tri_status status = take_steps(b, s, begun, when, times + b->steps, r);
    tri__gauge_stop(watch);
    TRI_TRY(status);
    for (int64_t i = 0; i < n; i++) times[i] = when[i].end - when[i].begin;
    double each = 1 / (double)n, sum = r->mean;
    r->step = tri__bench_median(times, n), r->least = times[0];
    if (b->hardware) r->predicted = tri__bench_median(times + b->steps, n);
    r->mfu = b->ceiling > 0 && sum > 0 ? r->flops / sum / b->ceiling : 0;
    r->rate = sum > 0 ? (double)(n * b->at->samples) / sum : 0;
    r->tokens /= n, r->host *= each, r->waited *= each, r->flops *= each, r->executed *= each, r->worked *= each;
    r->mean *= each, r->each = tell_each(watch, when, n);
    return TRI_OK;
}

/* Runs one additional step with a time mark at each instruction. */
static tri_status mark_step(tri_session *s, result *r) {
    const tri_program *p = s->engine.plan.train.program;
    double host;
    TRI_TRY(TRI_NEW(s->times, (size_t)p->n_instrs + 1, "times"));
    tri_status status = one_step(s, &host);
    for (int i = 0; i < p->n_instrs && status == TRI_OK; i++)
        r->by_op[tri__variant((tri_op)p->instr[i].op, &p->instr[i].attr)] += s->times[i].end - s->times[i].begin;
    free(s->times);
    s->times = NULL;
    return status;
}

static tri_status run(const bench *b, result *r) {
    TRI_OWNED(tri__run_line_drop) tri_run_line *l = line_of(b);
    tri_session *s = NULL;
    int64_t before = 0, after = 0;
    tri_status status = tri__run_line_parse(l);
    if (status == TRI_OK && b->device->async) status = b->device->room(&tri__core, 0, &before);
    double begun = tri__clock();
    if (status == TRI_OK) status = tri__session_open(&l->settings, NULL, NULL, NULL, &s);
    r->opened = tri__clock() - begun;
    if (status == TRI_OK) status = time_steps(b, s, begun, r);
    if (status == TRI_OK) status = mark_step(s, r);
    if (status == TRI_OK && b->device->async) status = b->device->room(&tri__core, 0, &after);
    if (s) r->planned = (double)tri__exec_bytes(s->engine.exec);
    r->used = (double)(before - after);
    tri_session_close(s);
    return status;
}

/* ---- Telling ---- */

static tri_status print_json(const bench *b, const result *r) {
    tri_json *o = tri__json_pack(
        "{s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:f, s:f, s:f, s:f, s:f, s:f, "
        "s:o}",
        "case", b->at->name, "device", b->asked->device, "what", b->at->what, "step_ms", 1e3 * r->step, "step_ms_mean",
        1e3 * r->mean, "step_ms_min", 1e3 * r->least, "device_ms", 1e3 * r->worked, "batch_ms", 1e3 * r->waited,
        "queue_ms", 1e3 * r->host, "open_seconds", r->opened, "first_step_seconds", r->first, "samples_per_second",
        r->rate, "mfu", r->mfu, "ceiling_tflops", b->ceiling / 1e12, "tokens", (tri_json_int)r->tokens, "step_tflop",
        r->flops / 1e12, "executed_tflop", r->executed / 1e12, "planned_bytes", r->planned, "device_bytes", r->used,
        "loss_first", r->loss[0], "loss_last", r->loss[1], "operations_ms", tri__bench_operations(r->by_op));
    tri__json_update(o, r->each);
    if (b->hardware)
        tri__merge_new(o, tri__json_pack("{s:s, s:f, s:f}", "hardware", b->hardware->name, "predicted_ms",
                                         1e3 * r->predicted, "prediction_error", r->predicted / r->step - 1));
    return tri__bench_json(b->cli, o);
}

static void add_row(const bench *b, const result *r, tri_text_table *table) {
    char planned[32], used[32] = "-", predicted[48] = "-", clock[48] = "-";
    if (b->hardware)
        snprintf(predicted, sizeof predicted, "%.2f (%+.1f %%)", 1e3 * r->predicted,
                 100 * (r->predicted / r->step - 1));
    tri__text_bytes(r->planned, planned);
    if (r->used > 0) tri__text_bytes(r->used, used);
    double mhz = tri__json_real_value(tri__json_get(r->each, "clock_mhz")),
           watts = tri__json_real_value(tri__json_get(r->each, "power_w"));
    if (mhz > 0) snprintf(clock, sizeof clock, "%.0f, %.0f", mhz, watts);
    tri__text_table_add(table, "%s\t%s\t%.2f\t%.1f\t%.1f %%\t%.2f\t%s\t%s\t%s\t%.2f\t%s", b->at->name, b->at->what,
                        1e3 * r->step, r->rate, 100 * r->mfu, r->first, planned, used, predicted, 1e3 * r->mean, clock);
}

/* ---- From beginning to end ---- */

static tri_status run_case(bench *b, tri_text_table *table) {
    result r = {0};
    if (!b->asked->quiet) fprintf(b->cli->err, "%s: %s ...\n", b->at->name, b->at->what);
    TRI_TRY(tri__bench_folder(b->cli, b->folder));
    tri_status status = tri__bench_write(b->at, b->folder, BATCHES * b->at->samples);
    if (status == TRI_OK) status = run(b, &r);
    tri__bench_remove(b->folder);
    if (status == TRI_OK && b->asked->json) status = print_json(b, &r);
    else if (status == TRI_OK) add_row(b, &r, table);
    tri__json_decref(r.each);
    return status;
}

static tri_status run_cases(bench *b) {
    char names[256];
    TRI_OWNED(tri__text_table_free) tri_text_table table = {0};
    tri__text_table_add(&table,
                        "case\twhat\tms a step\tsamples/s\tMFU\tfirst step, s\tplanned\tof the device\tpredicted\tmean"
                        "\tMHz, W");
    for (int i = 0; i < b->options->cases.n; i++) {
        const char *name = b->options->cases.at[i];
        b->at = tri__bench_model(tri__step_models, name, strlen(name));
        if (!b->at) return tri__fail(TRI_USAGE,
                                     "--cases %s: there are %s", name, tri__bench_model_names(tri__step_models, names));
        TRI_TRY(run_case(b, &table));
    }
    if (!b->asked->json) {
        fprintf(b->cli->out, "%s; a large product reaches %.1f TFLOP/s\n\n", b->asked->device, b->ceiling / 1e12);
        TRI_TRY(tri__text_table_print(&table, b->cli->out, b->cli->out_color));
    }
    return TRI_OK;
}

tri_status tri__bench_step(tri_cli *cli, tri_settings *settings, const tri_bench_options *options) {
    static const tri_dtype dtypes[] = {[TRI_PRECISION_FP32] = TRI_F32, [TRI_PRECISION_BF16] = TRI_BF16,
                                       [TRI_PRECISION_FP16] = TRI_F16, [TRI_PRECISION_FP8] = TRI_BF16};
    bench b = {.cli = cli, .asked = settings, .options = options};
    TRI_TRY(tri__bench_steps(settings, WARMUP, TIMED, &b.steps));
    TRI_TRY(tri__accept_precision(settings));
    TRI_TRY(tri__device_get(settings->device, &b.device));
    if (b.device->is_stub)
        return tri__fail(TRI_USAGE, "--device %s computes nothing, so there is no step to time: take --device cpu",
                         settings->device);
    int threads = settings->threads ? (int)settings->threads : tri__cores();
    tri_ceiling_product product = {dtypes[settings->precision], b.device->async ? 8192 : 1024, threads, 3, 10, 0};
    TRI_TRY(tri__ceiling(b.device, &product, &b.ceiling));
    TRI_OWNED(tri__arena_close) tri_arena arena = {0};
    tri_hardware hardware;
    if (settings->hardware) {
        TRI_TRY(tri__arena_open(&arena, 0));
        TRI_TRY(tri__hardware_open(&arena, settings->hardware, &hardware));
        b.hardware = &hardware;
    }
    return run_cases(&b);
}
