/* serve.c - `trident bench serve`: latency and throughput of the forward-only program alone, on batches whose tokens
 * are given; weights are random. A pass runs every batch of the case once. */
#include "cli/bench/bench.h"
#include "cli/bench/bench_runs.h"
#include "cli/bench/serve_cases.h"

#include "engine/infer_settings.h"
#include "engine/evaluate.h"
#include "report/text/text_table.h"

enum { WARMUP = 1, PASSES = 3, MOST_PASSES = 1 << 14 };
static const double LONG_ENOUGH = 0.5; /* seconds of passes, at least PASSES */

typedef struct result {
    double *times, *passes;        /* [runs], [passes]: seconds of each batch, of all batches */
    int64_t runs;
    double pass, cpu;              /* seconds of all batches: median over passes; least CPU time of a pass */
    double median, least, late;    /* seconds of a batch; late: 99 of 100 took at most this */
    double opened;                 /* seconds until the model was ready */
    int64_t rows, tokens;          /* of a pass; tokens of all texts */
    double planned;                /* bytes */
    double by_op[TRI_VARIANTS];    /* seconds of one additional, instrumented pass */
} result;

typedef struct bench {
    tri_cli *cli;
    const tri_settings *asked;
    tri_settings settings;         /* of the case's model, with what was asked for */
    tri_serve_case at;
    tri_assets assets;
    tri_engine engine;
    tri_feed *feed;                /* [batches] */
    char folder[TRI_PATH_MAX];
} bench;

/* ---- The model ---- */

static void largest(const tri_serve_case *at, tri_counts *max) {
    *max = (tri_counts){0};
    for (int64_t i = 0; i < at->batches; i++) {
        const tri_micro *m = &at->batch[i];
        const int64_t of[] = {0, m->tokens[0], m->tokens[1], m->n};
        for (int sym = TRI_SYM_T0; sym <= TRI_SYM_N; sym++) {
            double squares = sym < TRI_SYM_N ? m->squares[sym - TRI_SYM_T0] : 0;
            if (of[sym] > max->of[sym]) max->of[sym] = of[sym];
            if (squares > max->squares[sym]) max->squares[sym] = squares;
        }
    }
}

static tri_status open_model(bench *b) {
    static const double one = 1;
    tri_place place;
    tri_counts max;
    tri_engine *engine = &b->engine;
    TRI_TRY(tri__bench_config(b->at.model, b->folder, "bert-base-uncased")); /* a tokenizer that is not used */
    TRI_PATH(config, b->folder, "config.json");
    TRI_TRY(tri__settings_config(&b->settings, config));
    TRI_TRY(tri__settings_infer(&b->settings, b->asked));
    TRI_TRY(tri__assets_open(&b->settings, 0, NULL, &b->assets));
    TRI_TRY(tri__place_make(&b->settings, NULL, 1, 0, &place));
    largest(&b->at, &max);
    tri_columns columns = {.n = TRI_SERVE_COLUMNS};
    TRI_TRY(tri__engine_plan(&(tri_engine_spec){.settings = &b->settings, .place = &place, .assets = &b->assets,
                                                .columns = columns, .max = &max, .max_infer = &max}, engine));
    TRI_TRY(tri__engine_bind(engine, NULL));
    TRI_TRY(tri__engine_init(engine, &b->assets, NULL));
    TRI_TRY(tri__engine_upload(engine));
    TRI_TRY(TRI_NEW(b->feed, b->at.batches, "batches"));
    for (int64_t i = 0; i < b->at.batches; i++) tri__feed(&b->at.batch[i], engine, &one, NULL, &b->feed[i]);
    return TRI_OK;
}

static tri_status run_batch(bench *b, int64_t i, tri_time *times) {
    TRI_TRY(tri__exec_run(b->engine.exec, b->engine.infer, 0, b->engine.plan.infer.program->n_instrs, 0, &b->feed[i],
                          times));
    return tri__exec_finish(b->engine.exec);
}

/* ---- Timing ---- */

static tri_status time_passes(bench *b, result *r) {
    int64_t batches = b->at.batches, most = b->asked->max_steps ? b->asked->max_steps : MOST_PASSES;
    double begun = tri__clock();
    int64_t n = 0;
    TRI_TRY(TRI_NEW(r->times, most * batches, "batches"));
    TRI_TRY(TRI_NEW(r->passes, most, "batches"));
    r->cpu = INFINITY;
    for (; n < most && (b->asked->max_steps || n < PASSES || tri__clock() - begun < LONG_ENOUGH); n++) {
        double begin = tri__clock(), before = begin;
        clock_t used = clock();
        for (int64_t i = 0; i < batches; i++) {
            TRI_TRY(run_batch(b, i, NULL));
            double now = tri__clock();
            r->times[r->runs++] = now - before;
            before = now;
        }
        r->passes[n] = before - begin;
        r->cpu = fmin(r->cpu, (double)(clock() - used) / CLOCKS_PER_SEC);
    }
    r->pass = tri__bench_median(r->passes, n);
    return TRI_OK;
}

/* One additional pass with a time mark at each instruction. */
static tri_status mark_pass(bench *b, result *r) {
    const tri_program *p = b->engine.plan.infer.program;
    TRI_OWNED(tri__free_at) tri_time *times = calloc((size_t)p->n_instrs + 1, sizeof *times);
    if (!times) return tri__fail(TRI_RESOURCE, "out of memory");
    for (int64_t i = 0; i < b->at.batches; i++) {
        TRI_TRY(run_batch(b, i, times));
        for (int k = 0; k < p->n_instrs; k++)
            r->by_op[tri__variant((tri_op)p->instr[k].op, &p->instr[k].attr)] += times[k].end - times[k].begin;
    }
    return TRI_OK;
}

static tri_status run(bench *b, result *r) {
    double begun = tri__clock();
    TRI_TRY(open_model(b));
    r->opened = tri__clock() - begun;
    for (int i = 0; i < WARMUP; i++)
        for (int64_t k = 0; k < b->at.batches; k++) TRI_TRY(run_batch(b, k, NULL));
    TRI_TRY(time_passes(b, r));
    TRI_TRY(mark_pass(b, r));
    r->median = tri__bench_median(r->times, r->runs); /* sorts them */
    r->least = r->times[0], r->late = r->times[(r->runs - 1) * 99 / 100];
    r->planned = (double)tri__exec_bytes(b->engine.exec);
    for (int64_t i = 0; i < b->at.batches; i++)
        r->rows += b->at.batch[i].n, r->tokens += b->at.batch[i].tokens[0] + b->at.batch[i].tokens[1];
    return TRI_OK;
}

/* ---- Telling ---- */

static tri_status print_json(const bench *b, const result *r) {
    tri_json *o = tri__json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "case",
        b->at.name, "device", b->settings.device, "precision", tri__settings_products(&b->settings), "computing",
        tri__settings_computing(&b->settings), "rows", (tri_json_int)r->rows, "tokens", (tri_json_int)r->tokens,
        "batches", (tri_json_int)b->at.batches, "runs", (tri_json_int)r->runs, "pass_ms", 1e3 * r->pass, "cpu_ms",
        1e3 * r->cpu, "batch_ms", 1e3 * r->median, "batch_ms_min", 1e3 * r->least, "batch_ms_p99", 1e3 * r->late,
        "rows_per_second", (double)r->rows / r->pass, "tokens_per_second", (double)r->tokens / r->pass, "open_seconds",
        r->opened, "planned_bytes", r->planned, "operations_ms", tri__bench_operations(r->by_op));
    return tri__bench_json(b->cli, o);
}

static void add_row(const bench *b, const result *r, tri_text_table *table) {
    char planned[32];
    tri__text_bytes(r->planned, planned);
    tri__text_table_add(table, "%s\t%s\t%s\t%.1f\t%.2f\t%.2f\t%.2f\t%.1f\t%.0f\t%s", b->at.name, b->at.model->what,
                        tri__settings_products(&b->settings), (double)r->tokens / (double)r->rows, 1e3 * r->median,
                        1e3 * r->least, 1e3 * r->late, (double)r->rows / r->pass, (double)r->tokens / r->pass, planned);
}

/* ---- From beginning to end ---- */

static tri_status run_in_folder(bench *b, result *r) {
    TRI_TRY(tri__bench_folder(b->cli, b->folder));
    tri_status status = tri__settings_init(&b->settings);
    if (status == TRI_OK) status = run(b, r);
    free(b->feed);
    b->feed = NULL;
    tri__engine_close(&b->engine);
    tri__assets_close(&b->assets);
    tri__bench_remove(b->folder);
    return status;
}

static tri_status run_case(bench *b, const tri_bench_options *options, const char *name, tri_text_table *table) {
    result r = {0};
    tri_status status = tri__serve_case_open(name, options->lengths, &b->at);
    if (status == TRI_OK && !b->asked->quiet) fprintf(b->cli->err, "%s: %s ...\n", name, b->at.model->what);
    if (status == TRI_OK) status = run_in_folder(b, &r);
    if (status == TRI_OK && b->asked->json) status = print_json(b, &r);
    else if (status == TRI_OK) add_row(b, &r, table);
    tri__settings_free(&b->settings);
    tri__serve_case_close(&b->at);
    TRI_FREE(r.times, r.passes);
    return status;
}

tri_status tri__bench_serve(tri_cli *cli, tri_settings *settings, const tri_bench_options *options) {
    static const char *const usual[] = {"minilm:1x16", "minilm:1x128", "minilm:32x128", "minilm:32xmixed"};
    TRI_OWNED(tri__text_table_free) tri_text_table table = {0};
    if (options->http) return tri__bench_serve_http(cli, settings, options);
    if (settings->checkpoint) return tri__bench_host(cli, settings);
    TRI_OWNED(tri__free_at) bench *b = calloc(1, sizeof *b); /* large */
    if (!b) return tri__fail(TRI_RESOURCE, "out of memory");
    b->cli = cli, b->asked = settings;
    int given = tri__settings_given(settings, &options->cases), n = given ? options->cases.n : 4;
    tri__text_table_add(&table, "case\tmodel\tprecision\ttokens a row\tms a batch\tleast\tp99\trows/s\ttokens/s\t"
                                "planned");
    for (int i = 0; i < n; i++) TRI_TRY(run_case(b, options, given ? options->cases.at[i] : usual[i], &table));
    return !settings->json ? tri__text_table_print(&table, cli->out, cli->out_color) : TRI_OK;
}
