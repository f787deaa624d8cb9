/* pipeline.c - `trident bench pipeline`: one model of two encoders, every schedule and shape, one line each.
 *
 * Each is a run of `trident train` on a generated table. Its summary.json has the time that microbatches took to flow
 * through the pipeline, the measured bubble, and the bubble of a step simulated with the measured times. On the device
 * "timed" stages sleep for as long as they would compute, so that a pipeline of eight can be measured on two cores. */
#include "cli/bench/bench.h"
#include "cli/bench/bench_runs.h"
#include "cli/bench/models.h"

#include "plan/schedule/schedule.h"
#include "report/text/text_table.h"

enum { STAGES = 4 /* default */, MODEL_SMALL = 1, MODEL_DEEP = 3 /* indices into tri__lab_models */ };
static const char *const shapes[] = {"auto", "chain", "branch"}; /* indexed by TRI_SHAPE_ASKED */

/* Seconds and shares are means over the timed steps; `step` is a median. */
typedef struct result {
    double step;           /* seconds */
    double flow;           /* seconds from the first forward to the last gradient */
    double bubble, predicted; /* share of the ranks' time spent not computing: measured; simulated */
    double activations;    /* planned bytes of the rank with the most */
} result;

typedef struct layout {
    tri_schedule_kind schedule;
    int shape;             /* TRI_SHAPE_ASKED_CHAIN or _BRANCH */
    result result;
} layout;

typedef struct pipeline {
    tri_cli *cli;
    const tri_settings *asked;
    const tri_bench_options *options;
    const char *device;
    tri_bench_model model;
    int stages, microbatches;
    int64_t steps;         /* of a run, warm-up included */
    char folder[TRI_PATH_MAX];
    layout layout[2 * TRI_SCHEDULE_COUNT];
    int n;
} pipeline;

/* ---- What to measure ---- */

static void add_schedule(pipeline *b, tri_schedule_kind schedule) {
    int asked = b->asked->pipeline_shape;
    for (int shape = TRI_SHAPE_ASKED_CHAIN; shape <= TRI_SHAPE_ASKED_BRANCH; shape++) {
        if (asked != TRI_SHAPE_ASKED_AUTO && asked != shape) continue;
        if (shape == TRI_SHAPE_ASKED_BRANCH && tri__schedule_row(schedule)->chain) continue;
        b->layout[b->n++] = (layout){.schedule = schedule, .shape = shape};
    }
}

static const char *schedule_name(int i) { return tri__schedule_row((tri_schedule_kind)i)->name; }

static tri_status list_layouts(pipeline *b) {
    int wanted[TRI_SCHEDULE_COUNT] = {0};
    char all[TRI_SCHEDULE_NAMES];
    const char *unknown = tri__bench_names(&b->options->schedules, TRI_SCHEDULE_COUNT, schedule_name, wanted);
    if (unknown)
        return tri__fail(TRI_USAGE, "--schedules %s: no such schedule; there are %s, and all", unknown,
                         tri__schedule_names(0, all));
    for (int k = 0; k < TRI_SCHEDULE_COUNT; k++)
        if (wanted[k]) add_schedule(b, (tri_schedule_kind)k);
    return b->n ? TRI_OK
                : tri__fail(TRI_USAGE, "--pipeline-shape branch: the schedules asked for are for stages in a row");
}

/* ---- One run ---- */

static tri_run_line *line_of(const pipeline *b, const layout *at) {
    int bound = b->stages <= tri__cores() && strcmp(b->device, "cpu") == 0;
    tri_run_line *l = tri__run_line_new(b->cli, b->folder, "run");
    tri__run_line_add(l, "--device=%s\t--nproc-per-node=%d\t--pp-size=%d", b->device, b->stages, b->stages);
    tri__run_line_add(l, "--schedule=%s\t--pipeline-shape=%s", tri__schedule_row(at->schedule)->name,
                      shapes[at->shape]);
    tri__run_line_add(l, "--num-microbatches=%d\t--batch-size=%d", b->microbatches, b->microbatches * b->model.samples);
    tri__run_line_add(l, "--max-steps=%lld\t--bind-cores=%s\t--threads=1\t--json", (long long)b->steps,
                      bound ? "core" : "none");
    return l;
}

static tri_status read_summary(const char *folder, result *r) {
    TRI_OWNED(tri__json_drop) tri_json *summary = NULL;
    TRI_TRY(tri__run_summary(folder, &summary));
    const tri_json *told = tri__json_get(summary, "pipeline");
    r->flow = tri__number_in(told, "flow_seconds");
    r->bubble = tri__number_in(told, "bubble");
    r->predicted = tri__number_in(told, "predicted_bubble");
    tri__json_items(tri__json_get(summary, "ranks"), rank)
        r->activations = fmax(r->activations, tri__number_in(tri__json_get(rank, "bytes"), "act"));
    return r->flow > 0 ? TRI_OK : tri__fail(TRI_INTERNAL, "%s/summary.json: has no pipeline", folder);
}

static tri_status run_layout(const pipeline *b, layout *at) {
    tri_run_steps steps;
    if (!b->asked->quiet)
        fprintf(b->cli->err, "%s, %s ...\n", tri__schedule_row(at->schedule)->name, shapes[at->shape]);
    TRI_OWNED(tri__run_line_drop) tri_run_line *l = line_of(b, at);
    tri_status status = tri__run_line_parse(l);
    if (status == TRI_OK) status = tri__run_line_start(b->cli, l);
    if (status == TRI_OK) status = read_summary(l->settings.output_dir, &at->result);
    if (status == TRI_OK) status = tri__run_steps(l->settings.output_dir, TRI_LAB_WARMUP, &steps);
    if (status == TRI_OK) at->result.step = steps.seconds;
    if (l) tri__bench_remove(l->settings.output_dir);
    return status;
}

/* ---- Telling ---- */

/* 0 if no bubble is predicted: there is no ratio then. */
static double ratio_of(const result *r) { return r->predicted > 0 ? r->bubble / r->predicted : 0; }

static tri_status print_json(const pipeline *b, const layout *at) {
    const result *r = &at->result;
    tri_json *o = tri__json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:f, s:f, s:f}", "model", b->model.name,
                                 "device", b->device, "schedule", tri__schedule_row(at->schedule)->name, "shape",
                                 shapes[at->shape], "stages", b->stages, "microbatches", b->microbatches, "step_ms",
                                 1e3 * r->step, "flow_ms", 1e3 * r->flow, "bubble", r->bubble, "predicted_bubble",
                                 r->predicted, "activation_bytes", r->activations);
    if (r->predicted > 0) tri__json_set_new(o, "ratio", tri__json_real(ratio_of(r)));
    return tri__bench_json(b->cli, o);
}

static tri_status print_table(const pipeline *b) {
    const tri_bench_model *m = &b->model;
    tri_text_table table = {0};
    fprintf(b->cli->out, "2 encoders of %d layers x %d, %d stages on device %s, %d microbatches of %d x %d tokens\n\n",
            m->layers, m->width, b->stages, b->device, b->microbatches, m->samples, m->tokens);
    tri__text_table_add(&table, "schedule\tshape\tstep ms\tflow ms\tbubble\tpredicted\tratio\tactivations");
    for (int i = 0; i < b->n; i++) {
        const result *r = &b->layout[i].result;
        char bytes[32], ratio[32] = "-";
        if (r->predicted > 0) snprintf(ratio, sizeof ratio, "%.2f", ratio_of(r));
        tri__text_table_add(&table, "%s\t%s\t%.1f\t%.1f\t%.1f %%\t%.1f %%\t%s\t%s",
                            tri__schedule_row(b->layout[i].schedule)->name, shapes[b->layout[i].shape], 1e3 * r->step,
                            1e3 * r->flow, 100 * r->bubble, 100 * r->predicted, ratio,
                            tri__text_bytes(r->activations, bytes));
    }
    return tri__print_table(b->cli, &table);
}

/* ---- From beginning to end ---- */

static tri_status run_all(pipeline *b) {
    TRI_TRY(tri__bench_write(&b->model, b->folder, b->microbatches * b->model.samples * b->steps));
    for (int i = 0; i < b->n; i++) {
        TRI_TRY(run_layout(b, &b->layout[i]));
        if (b->asked->json) TRI_TRY(print_json(b, &b->layout[i]));
    }
    return b->asked->json ? TRI_OK : print_table(b);
}

static tri_status resolve(pipeline *b) {
    const tri_settings *s = b->asked;
    b->device = tri__settings_given(s, &s->device) ? s->device : "timed";
    int model = strcmp(b->device, "timed") == 0 ? MODEL_DEEP : MODEL_SMALL;
    b->model = tri__lab_models[tri__settings_given(s, &b->options->lab_model) ? b->options->lab_model : model];
    b->model.texts = 2;
    b->stages = tri__settings_given(s, &s->pp_size) ? (int)s->pp_size : STAGES;
    b->microbatches = tri__settings_given(s, &s->num_microbatches) ? (int)s->num_microbatches : 2 * b->stages;
    if (b->stages < 2) return tri__fail(TRI_USAGE, "--pp-size %d: a pipeline has two stages at least", b->stages);
    TRI_TRY(tri__bench_steps(s, TRI_LAB_WARMUP, b->model.timed, &b->steps));
    return list_layouts(b);
}

tri_status tri__bench_pipeline(tri_cli *cli, tri_settings *settings, const tri_bench_options *options) {
    pipeline b = {.cli = cli, .asked = settings, .options = options};
    TRI_TRY(tri__bench_alone(cli, settings, "pipeline", "schedule"));
    TRI_TRY(resolve(&b));
    TRI_TRY(tri__bench_folder(cli, b.folder));
    tri_status status = run_all(&b);
    tri__bench_remove(b.folder);
    return status;
}
