/* lab.c - `trident bench lab`: one model, every layout of its parallelism, one line each.
 *
 * A configuration with random weights and a table of texts of equal length are written to a temporary folder. Each
 * layout then trains on them as `trident train` does, on CPUs with one thread per rank; memory and transfers are read
 * from the run folder's summary.json, times from its metrics.jsonl. A layout that does not fit is refused before it
 * starts, or is killed by the system if other processes take the memory meanwhile; its line says so. */
#include "cli/bench/bench.h"
#include "cli/bench/bench_runs.h"
#include "cli/bench/models.h"

#include "study/study.h"

#include <signal.h>

typedef enum kind { ALONE /* one rank, the reference for the others */, DATA, PIPELINE, TENSOR } kind;

static const struct layout {
    const char *name, *title, *options[3]; /* options end with NULL */
    kind kind;
} layouts[] = {
    {"one", "one rank", {NULL}, ALONE},
    {"ddp", "DDP", {"--shard=none"}, DATA},
    {"zero1", "ZeRO-1", {"--shard=zero1"}, DATA},
    {"zero2", "ZeRO-2", {"--shard=zero2"}, DATA},
    {"zero3", "ZeRO-3", {"--shard=zero3"}, DATA},
    {"zero3_no_prefetch", "ZeRO-3, no prefetch", {"--shard=zero3", "--prefetch=0"}, DATA},
    {"zero3_recompute", "ZeRO-3, recomputation", {"--shard=zero3", "--recompute=full"}, DATA},
    {"zero3_offload", "ZeRO-3, offload", {"--shard=zero3", "--offload=optimizer"}, DATA},
    {"pipeline", "pipeline, 1F1B", {"--schedule=1f1b"}, PIPELINE},
    {"tensor", "tensor", {NULL}, TENSOR},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static const char *const kinds[] = {"all_gather", "reduce_scatter", "all_reduce", "recv"};
/* RUN_SECONDS: timeout without progress: generating large weights takes long. */
enum { KINDS = sizeof kinds / sizeof *kinds, RUN_SECONDS = 300 };

/* The result of a layout. Bytes are those of the rank with the most; seconds and shares are means over ranks and timed
 * steps. */
typedef struct result {
    int ran;
    char refusal[1024];
    double states; /* bytes of weights, gradients and optimizer state */
    double planned, offload, allocated, held, max_rss;  /* bytes; planned and allocated without offload memory */
    double device; /* GPU bytes in use, divided by the ranks that share it; 0: no GPU */
    tri_run_steps steps;
    double rate, efficiency;                           /* samples/s of all ranks; efficiency 0: no reference */
    struct { double seconds, exposed; } kind[KINDS];   /* of a step */
} result;

typedef struct lab {
    tri_cli *cli;
    const tri_settings *asked;
    const tri_bench_options *options;
    const tri_bench_model *model;
    int n, sharing;            /* ranks; ranks per GPU */
    int chosen[LAYOUTS];
    int64_t steps;             /* of a run, warm-up included */
    int64_t samples;           /* of a rank's step */
    char folder[TRI_PATH_MAX];
    result result[LAYOUTS];
} lab;

/* ---- One layout as a command line ---- */

static void add_run(const lab *b, tri_run_line *l, int n) {
    int threads = b->sharing && tri__cores() > b->n ? tri__cores() / b->n : 1; /* on GPUs, to generate weights alone */
    tri__run_line_add(l, "--nproc-per-node=%d\t--global-batch-size=%lld\t--threads=%d\t--max-steps=%lld", n,
                      (long long)(n * b->samples), threads, (long long)b->steps);
    tri__run_line_add(l, "--profile=wait=%d,active=%lld\t--bind-cores=%s\t--progress-timeout=%d\t--json",
                      TRI_LAB_WARMUP, (long long)(b->steps - TRI_LAB_WARMUP), b->n <= tri__cores() ? "core" : "none",
                      RUN_SECONDS);
    tri__run_line_add(l, "--device=%s\t--precision=%s", b->asked->device, tri__settings_computing(b->asked));
    if (b->asked->memory_limit) tri__run_line_add(l, "--memory-limit=%s", b->asked->memory_limit);
}

static tri_run_line *line_of(const lab *b, const struct layout *layout) {
    int n = layout->kind == ALONE ? 1 : b->n;
    tri_run_line *l = tri__run_line_new(b->cli, b->folder, layout->name);
    add_run(b, l, n);
    if (layout->kind == PIPELINE) tri__run_line_add(l, "--pp-size=%d\t--num-microbatches=%d", n, 2 * n);
    if (layout->kind == TENSOR) tri__run_line_add(l, "--tp-size=%d", n);
    for (int i = 0; layout->options[i]; i++) tri__run_line_add(l, "%s", layout->options[i]);
    return l;
}

/* ---- What a run left behind ---- */

static void raise_to(double *most, double value) { *most = fmax(*most, value); }

static void take_planned(const tri_json *ranks, result *r) {
    tri__json_items(ranks, rank) {
        const tri_json *bytes = tri__json_get(rank, "bytes");
        raise_to(&r->states, tri__number_in(bytes, tri__mem_name(TRI_MEM_PARAM)) +
                                 tri__number_in(bytes, tri__mem_name(TRI_MEM_GRAD)) +
                                 tri__number_in(bytes, tri__mem_name(TRI_MEM_STATE)));
        raise_to(&r->offload, tri__number_in(rank, "offload_bytes"));
        raise_to(&r->planned, tri__number_in(bytes, "total") - tri__number_in(rank, "offload_bytes"));
    }
}

static tri_status read_summary(const char *folder, result *r) {
    TRI_OWNED(tri__json_drop) tri_json *summary = NULL;
    TRI_TRY(tri__run_summary(folder, &summary));
    const tri_json *ranks = tri__json_get(summary, "ranks");
    double n = (double)tri__json_size(ranks);
    tri__json_items(ranks, rank) {
        const tri_json *transfers = tri__json_get(rank, "transfers");
        raise_to(&r->allocated, tri__number_in(rank, "allocated_bytes") - tri__number_in(rank, "offload_bytes"));
        raise_to(&r->held, tri__number_in(rank, "held_bytes"));
        raise_to(&r->max_rss, tri__number_in(rank, "max_rss_bytes"));
        raise_to(&r->device, tri__number_in(rank, "device_bytes"));
        for (int k = 0; k < KINDS; k++) {
            r->kind[k].seconds += tri__number_in(tri__json_get(transfers, kinds[k]), "seconds") / n;
            r->kind[k].exposed += tri__number_in(tri__json_get(transfers, kinds[k]), "exposed_seconds") / n;
        }
    }
    return n > 0 ? TRI_OK : tri__fail(TRI_INTERNAL, "%s/summary.json: has no ranks", folder);
}

/* ---- Running ---- */

/* The plan's bytes, whether or not they fit. */
static tri_status plan(tri_settings *settings, result *r) {
    TRI_OWNED(tri__json_drop) tri_json *facts = NULL;
    TRI_OWNED(tri__free_at) char *program = NULL;
    char *limit = settings->memory_limit;
    settings->memory_limit = NULL;
    tri_status status = tri__study_plan(settings, NULL, &facts, &program);
    settings->memory_limit = limit;
    if (status == TRI_OK) take_planned(tri__json_get(facts, "ranks"), r);
    return status;
}

static tri_status run(const lab *b, tri_run_line *l, result *r) {
    const tri_settings *settings = &l->settings;
    TRI_TRY(plan(&l->settings, r));
    tri_status status = tri__run_line_start(b->cli, l);
    if (status == TRI_OK) status = read_summary(settings->output_dir, r);
    if (status == TRI_OK) status = tri__run_steps(settings->output_dir, TRI_LAB_WARMUP, &r->steps);
    tri__bench_remove(settings->output_dir);
    if (status == TRI_RESOURCE) { /* of a GPU's memory, after its ranks had begun */
        snprintf(r->refusal, sizeof r->refusal, "%s", tri_error());
        return TRI_OK;
    }
    if (b->sharing) r->device /= settings->nproc_per_node < b->sharing ? (double)settings->nproc_per_node : b->sharing;
    if ((int)status == 128 + SIGKILL) { /* the other layouts may still fit */
        snprintf(r->refusal, sizeof r->refusal, "a rank was killed, as systems do when memory runs out; --memory-limit "
                 "refuses such a layout beforehand");
        return TRI_OK;
    }
    TRI_TRY(status);
    r->ran = 1;
    r->rate = (double)settings->global_batch_size / r->steps.seconds;
    if (b->result[0].ran) r->efficiency = r->rate / ((double)settings->nproc_per_node * b->result[0].rate);
    return TRI_OK;
}

static tri_status run_layout(lab *b, int which) {
    if (!b->asked->quiet) fprintf(b->cli->err, "%s ...\n", layouts[which].title);
    TRI_OWNED(tri__run_line_drop) tri_run_line *l = line_of(b, &layouts[which]);
    TRI_TRY(tri__run_line_parse(l));
    return run(b, l, &b->result[which]);
}

/* ---- Telling ---- */

/* What limits a layout: the largest share of its step, or memory if it does not fit. */
static const char *binds(const result *r) {
    double talking = r->steps.moving + r->steps.idle, computing = 1 - talking - r->steps.loading;
    if (!r->ran) return "memory";
    if (computing >= talking && computing >= r->steps.loading) return "compute";
    return talking >= r->steps.loading ? "communication" : "loading";
}

static tri_status print_json(const lab *b, int which) {
    const result *r = &b->result[which];
    tri_json *o = tri__json_pack("{s:s, s:s, s:i, s:b, s:s, s:f, s:f}", "model", b->model->name, "layout",
                                 layouts[which].name, "ranks", layouts[which].kind == ALONE ? 1 : b->n, "fits", r->ran,
                                 "binds", binds(r), "planned_bytes", r->planned, "offload_bytes", r->offload);
    if (!r->ran) tri__json_set_new(o, "refusal", tri__json_string(r->refusal));
    if (r->ran) {
        tri__merge_new(o, tri__json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "allocated_bytes", r->allocated,
                                         "held_bytes", r->held, "max_rss_bytes", r->max_rss, "step_ms",
                                         1e3 * r->steps.seconds, "samples_per_second", r->rate, "loader_share",
                                         r->steps.loading, "comm_share", r->steps.moving, "idle_share", r->steps.idle));
        if (r->efficiency > 0) tri__json_set_new(o, "efficiency", tri__json_real(r->efficiency));
        if (r->device > 0) tri__json_set_new(o, "device_bytes", tri__json_real(r->device));
        for (int k = 0; k < KINDS; k++)
            tri__json_set_new(o, kinds[k], tri__json_pack("{s:f, s:f}", "ms", 1e3 * r->kind[k].seconds, "exposed_ms",
                                                          1e3 * r->kind[k].exposed));
    }
    return tri__bench_json(b->cli, o);
}

static tri_json *row_of(const char *name, int ranks, const result *r) {
    double seconds = r->ran ? r->steps.seconds : 1;
    return tri__json_pack("{s:s, s:s, s:i, s:s, s:b, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, "
                          "s:s}", "model", "", "hardware", "", "ranks", ranks, "layout", name, "fits", r->ran,
                          "memory_bytes", r->planned, "state_bytes", r->states, "step_seconds", r->steps.seconds,
                          "samples_per_second", r->rate, "times", ranks * r->efficiency, "efficiency", r->efficiency,
                          "gather", r->kind[0].seconds / seconds, "reduce_scatter", r->kind[1].seconds / seconds,
                          "all_reduce", r->kind[2].seconds / seconds, "recv", r->kind[3].seconds / seconds,
                          "held_bytes", r->device > 0 ? r->device : r->held, "exposed", r->steps.moving, "waiting",
                          r->steps.idle, "note", r->ran ? binds(r) : r->refusal);
}

/* The rows as a table; takes their reference. */
static tri_status print_table(const lab *b, const char *title, tri_json *rows) {
    tri_json *table = tri__json_pack("{s:s, s:s, s:o}", "title", title, "rule", "x one device: samples/s against a run "
                                     "of one rank with as many samples as each rank of the layout has; efficiency: "
                                     "that by the ranks; shares of a step", "rows", rows);
    return tri__layout_table_print(b->cli, b->asked, table);
}

static tri_status print_results(const lab *b) {
    const tri_bench_model *m = b->model;
    tri_json *rows = tri__json_array();
    const char *title = TRI_TEXT(256, "%d layers x %d, %d ranks, %d x %d tokens each", m->layers, m->width, b->n,
                                 m->samples, m->tokens);
    for (int i = 0; i < LAYOUTS; i++)
        if (b->chosen[i])
            tri__json_append_new(rows, row_of(layouts[i].title, layouts[i].kind == ALONE ? 1 : b->n, &b->result[i]));
    return print_table(b, title, rows);
}

/* ---- A configuration and data of the user's ---- */

/* A run on `ranks` of them: what the configuration says of a layout is not what is compared. */
static tri_run_line *line_by_hand(const lab *b, const tri_layout_words *layout, int which, int *ranks) {
    static const char *const alone[] = {"pp-size=1", "tp-size=1", "cp-size=1",    "ep-size=1",   "dp-size=0",
                                        "shard=none", "quiet",    "save-every=0", "resume=never"};
    tri_run_line *l = tri__run_line_new(b->cli, NULL, NULL);
    tri__run_line_add(l, "--config=%s", b->asked->config);
    tri__run_line_add(l, "--data-path=%s", b->asked->data_path);
    tri__run_line_add(l, "--output-dir=%s/%d", b->folder, which);
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) tri__run_line_add(l, "--%s", alone[i]);
    for (int i = 0; i < layout->n; i++) (void)sscanf(layout->word[i], "--world-size=%d", ranks);
    add_run(b, l, *ranks);
    for (int i = 0; i < layout->n; i++) tri__run_line_add(l, "%s", layout->word[i]);
    return l;
}

/* One layout; one that cannot be planned is a row that says why. The first is the run of one rank. */
static tri_status run_by_hand(lab *b, const tri_layout_words *layout, int which, tri_json *rows) {
    int ranks = which ? b->n : 1;
    result r = {0};
    if (!b->asked->quiet) fprintf(b->cli->err, "%s ...\n", layout->name);
    TRI_OWNED(tri__run_line_drop) tri_run_line *l = line_by_hand(b, layout, which, &ranks);
    tri_status status = tri__run_line_parse(l);
    if (status == TRI_OK) status = run(b, l, &r);
    if (status == TRI_USAGE && which) snprintf(r.refusal, sizeof r.refusal, "%s", tri_error()), status = TRI_OK;
    if (!which) r.efficiency = 1, b->result[0] = r;
    tri__json_append_new(rows, row_of(layout->name, ranks, &r));
    return status;
}

static tri_status run_config(lab *b) {
    TRI_OWNED(tri__json_drop) tri_json *rows = tri__json_array();
    char *usual = (char *)"ddp; zero1; zero2; zero3";
    const tri_texts *asked = &b->options->layouts, all = {.at = &usual, .n = 1};
    tri_layout_words layout = {.name = "one device"};
    if (strcmp(asked->at[0], "all") == 0) asked = &all;
    TRI_TRY(run_by_hand(b, &layout, 0, rows));
    for (int i = 0, found = 1; found; i++) {
        TRI_TRY(tri__layout_words(asked, i, &layout, &found));
        if (found) TRI_TRY(run_by_hand(b, &layout, i + 1, rows));
    }
    return print_table(b, TRI_TEXT(TRI_PATH_MAX + 32, "Layouts of %s, measured", b->asked->config), TRI_GIVE(rows));
}

/* ---- From beginning to end ---- */

static tri_status run_all(lab *b) {
    TRI_TRY(tri__bench_write(b->model, b->folder, b->n * b->model->samples * b->steps));
    for (int i = 0; i < LAYOUTS; i++) {
        if (b->chosen[i]) TRI_TRY(run_layout(b, i));
        if (b->chosen[i] && b->asked->json) TRI_TRY(print_json(b, i));
    }
    return b->asked->json ? TRI_OK : print_results(b);
}

/* Whether the model has enough heads (tp) and layers (pp, with embeddings and head) for the number of ranks. */
static int is_possible(const lab *b, const struct layout *layout) {
    return layout->kind == TENSOR ? b->model->heads % b->n == 0
                                  : layout->kind != PIPELINE || b->model->layers + 2 >= b->n;
}

static const char *layout_name(int i) { return layouts[i].name; }

static tri_status prepare(lab *b, tri_settings *settings) {
    TRI_TRY(tri__bench_ranks(settings, &b->n));
    int gpus = strcmp(settings->device, "cuda") ? 0 : tri__gpus();
    if (gpus) b->sharing = (b->n + gpus - 1) / gpus;
    b->samples = settings->config ? settings->batch_size : b->model->samples;
    if (settings->config && tri__settings_given(settings, &settings->global_batch_size))
        b->samples = settings->global_batch_size >= b->n ? settings->global_batch_size / b->n : 1;
    TRI_TRY(tri__bench_steps(settings, TRI_LAB_WARMUP, b->model->timed, &b->steps));
    if (settings->config && !settings->data_path)
        return tri__fail(TRI_USAGE, "bench lab --config needs --data-path, what to train on");
    TRI_TRY(tri__layout_table_check(settings));
    if (settings->config) return TRI_OK;
    const char *unknown = tri__bench_names(&b->options->layouts, LAYOUTS, layout_name, b->chosen);
    if (unknown)
        return tri__fail(TRI_USAGE, "--layouts %s: no such layout; `trident bench --help all` names them", unknown);
    for (int i = 0; i < LAYOUTS; i++) b->chosen[i] &= is_possible(b, &layouts[i]);
    return TRI_OK;
}

tri_status tri__bench_lab(tri_cli *cli, tri_settings *settings, const tri_bench_options *options) {
    TRI_TRY(tri__bench_alone(cli, settings, "lab", "layout"));
    TRI_OWNED(tri__free_at) lab *b = calloc(1, sizeof *b); /* large */
    if (!b) return tri__fail(TRI_RESOURCE, "out of memory");
    *b = (lab){.cli = cli, .asked = settings, .options = options, .model = &tri__lab_models[options->lab_model]};
    TRI_TRY(prepare(b, settings));
    TRI_TRY(tri__bench_folder(cli, b->folder));
    tri_status status = settings->config ? run_config(b) : run_all(b);
    tri__bench_remove(b->folder);
    return status;
}
