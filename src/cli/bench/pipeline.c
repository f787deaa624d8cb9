/* pipeline.c - `trident bench pipeline`: one model of two encoders, every schedule and shape, one line each.
 *
 * Each is a run of `trident train` on a generated table. Its summary.json has the time that microbatches took to flow
 * through the pipeline, the measured bubble, and the bubble of a step simulated with the measured times. On the device
 * "timed" stages sleep for as long as they would compute, so that a pipeline of eight can be measured on two cores. */
#include "cli/bench/bench.h"
#include "cli/bench/runs.h"
#include "cli/bench/lab_data.h"
#include "cli/launch.h"

#include "base/machine.h"
#include "base/text.h"
#include "plan/schedule/schedule.h"
#include "report/text/text_table.h"
#include "study/study.h"

#include <stdlib.h>
#include <string.h>

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
    const tri_lab_model *model;
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

static tri_status list_layouts(pipeline *b) {
    const tri_texts *names = &b->options->schedules;
    int wanted[TRI_SCHEDULE_COUNT] = {0};
    char all[TRI_SCHEDULE_NAMES];
    for (int i = 0; i < names->n; i++) {
        int found = strcmp(names->at[i], "all") == 0;
        for (int k = 0; k < TRI_SCHEDULE_COUNT; k++) {
            int is = strcmp(names->at[i], tri__schedule_row((tri_schedule_kind)k)->name) == 0;
            wanted[k] |= is || strcmp(names->at[i], "all") == 0;
            found |= is;
        }
        if (!found)
            return tri__fail(TRI_USAGE, "--schedules %s: no such schedule; there are %s, and all", names->at[i],
                             tri__schedule_names(0, all));
    }
    for (int k = 0; k < TRI_SCHEDULE_COUNT; k++)
        if (wanted[k]) add_schedule(b, (tri_schedule_kind)k);
    return b->n ? TRI_OK
                : tri__fail(TRI_USAGE, "--pipeline-shape branch: the schedules asked for are for stages in a row");
}

/* ---- One run ---- */

static const char *const always[] = {"--threads=1", "--save-every=0", "--resume=never", "--json", "--quiet"};
enum { ALWAYS = sizeof always / sizeof *always };

static void line_of(const pipeline *b, const layout *at, tri_run_line *l) {
    int bound = b->stages <= tri__cores() && strcmp(b->device, "cpu") == 0;
    tri__run_line_add(l, "%s", b->cli->argv[0]);
    tri__run_line_add(l, "train");
    tri__run_line_add(l, "--config=%s/config.json", b->folder);
    tri__run_line_add(l, "--data-path=%s/data", b->folder);
    tri__run_line_add(l, "--output-dir=%s/run", b->folder);
    tri__run_line_add(l, "--device=%s", b->device);
    tri__run_line_add(l, "--nproc-per-node=%d", b->stages);
    tri__run_line_add(l, "--pp-size=%d", b->stages);
    tri__run_line_add(l, "--schedule=%s", tri__schedule_row(at->schedule)->name);
    tri__run_line_add(l, "--pipeline-shape=%s", shapes[at->shape]);
    tri__run_line_add(l, "--num-microbatches=%d", b->microbatches);
    tri__run_line_add(l, "--batch-size=%d", b->microbatches * b->model->samples);
    tri__run_line_add(l, "--max-steps=%lld", (long long)b->steps);
    tri__run_line_add(l, "--bind-cores=%s", bound ? "core" : "none");
    for (int i = 0; i < ALWAYS; i++) tri__run_line_add(l, "%s", always[i]);
}

static tri_status read_summary(const char *folder, result *r) {
    char path[TRI_PATH_MAX];
    tri_json *summary, *rank;
    size_t i;
    TRI_TRY(tri__path_join(path, folder, "summary.json"));
    TRI_TRY(tri__json_load(path, TRI_DATA, &summary));
    const tri_json *told = tri__json_get(summary, "pipeline");
    r->flow = tri__number_of(told, "flow_seconds");
    r->bubble = tri__number_of(told, "bubble");
    r->predicted = tri__number_of(told, "predicted_bubble");
    tri__json_each(tri__json_get(summary, "ranks"), i, rank) {
        double bytes = tri__number_of(tri__json_get(rank, "bytes"), "act");
        if (bytes > r->activations) r->activations = bytes;
    }
    tri__json_decref(summary);
    return r->flow > 0 ? TRI_OK : tri__fail(TRI_INTERNAL, "%s: has no pipeline", path);
}

static tri_status run(const pipeline *b, tri_run_line *l, tri_settings *settings, result *r) {
    tri_run_steps steps;
    tri_status status = tri__study_prepare(settings, b->cli->stop);
    if (status == TRI_OK) status = tri__run_line_start(b->cli, l, settings);
    if (status == TRI_OK) status = read_summary(settings->output_dir, r);
    if (status == TRI_OK) status = tri__run_steps(settings->output_dir, b->model->warmup, &steps);
    if (status == TRI_OK) r->step = steps.seconds;
    tri__bench_remove(settings->output_dir);
    return status;
}

static tri_status run_layout(const pipeline *b, layout *at) {
    tri_settings settings;
    int n_words;
    tri_run_line *l = calloc(1, sizeof *l);
    if (!l) return tri__fail(TRI_RESOURCE, "out of memory");
    if (!b->asked->quiet)
        fprintf(b->cli->err, "%s, %s ...\n", tri__schedule_row(at->schedule)->name, shapes[at->shape]);
    line_of(b, at, l);
    tri_status status = tri__settings_init(&settings);
    if (status == TRI_OK)
        status = tri__settings_parse(&settings, "train", l->n - 2, (const char *const *)l->argv + 2, NULL, 0, &n_words);
    if (status == TRI_OK) status = run(b, l, &settings, &at->result);
    tri__settings_free(&settings);
    free(l);
    return status;
}

/* ---- Telling ---- */

/* 0 if no bubble is predicted: there is no ratio then. */
static double ratio_of(const result *r) { return r->predicted > 0 ? r->bubble / r->predicted : 0; }

static tri_status print_json(const pipeline *b, const layout *at) {
    const result *r = &at->result;
    tri_json *o = tri__json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:f, s:f, s:f}", "model", b->model->name,
                                 "device", b->device, "schedule", tri__schedule_row(at->schedule)->name, "shape",
                                 shapes[at->shape], "stages", b->stages, "microbatches", b->microbatches, "step_ms",
                                 1e3 * r->step, "flow_ms", 1e3 * r->flow, "bubble", r->bubble, "predicted_bubble",
                                 r->predicted, "activation_bytes", r->activations);
    if (o && r->predicted > 0) tri__json_set_new(o, "ratio", tri__json_real(ratio_of(r)));
    tri_status status = tri__print_json_new(b->cli->out, o);
    fflush(b->cli->out);
    return status;
}

static tri_status print_table(const pipeline *b) {
    const tri_lab_model *m = b->model;
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

static tri_status make_inputs(pipeline *b) {
    TRI_TRY(tri__bench_folder(b->cli, b->folder));
    return tri__lab_write(b->model, 2, b->folder, b->microbatches * b->model->samples * b->steps);
}

static tri_status run_all(pipeline *b) {
    tri_status status = make_inputs(b);
    for (int i = 0; i < b->n && status == TRI_OK; i++) {
        status = run_layout(b, &b->layout[i]);
        if (status == TRI_OK && b->asked->json) status = print_json(b, &b->layout[i]);
    }
    if (status == TRI_OK && !b->asked->json) status = print_table(b);
    if (b->folder[0]) tri__bench_remove(b->folder);
    return status;
}

static tri_status resolve(pipeline *b) {
    const tri_settings *s = b->asked;
    b->device = tri__settings_given(s, &s->device) ? s->device : "timed";
    int model = strcmp(b->device, "timed") == 0 ? MODEL_DEEP : MODEL_SMALL;
    b->model = &tri__lab_models[tri__settings_given(s, &b->options->lab_model) ? b->options->lab_model : model];
    b->stages = tri__settings_given(s, &s->pp_size) ? (int)s->pp_size : STAGES;
    b->microbatches = tri__settings_given(s, &s->num_microbatches) ? (int)s->num_microbatches : 2 * b->stages;
    b->steps = s->max_steps ? s->max_steps : b->model->warmup + b->model->timed;
    if (b->stages < 2) return tri__fail(TRI_USAGE, "--pp-size %d: a pipeline has two stages at least", b->stages);
    if (b->steps <= b->model->warmup)
        return tri__fail(TRI_USAGE, "--max-steps %lld: the first %d are warm-up; take more", (long long)b->steps,
                         b->model->warmup);
    return list_layouts(b);
}

tri_status tri__bench_pipeline(tri_cli *cli, tri_settings *settings, const tri_bench_options *options) {
    tri_launch launch;
    TRI_TRY(tri__launch_resolve(cli, settings, &launch));
    if (launch.launcher != TRI_LAUNCHER_NONE)
        return tri__fail(TRI_USAGE,
                         "bench pipeline starts its own ranks, one schedule after another: run it without a launcher");
    pipeline *b = calloc(1, sizeof *b);
    if (!b) return tri__fail(TRI_RESOURCE, "out of memory");
    *b = (pipeline){.cli = cli, .asked = settings, .options = options};
    tri_status status = resolve(b);
    if (status == TRI_OK) status = run_all(b);
    free(b);
    return status;
}
