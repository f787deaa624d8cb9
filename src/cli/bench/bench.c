/* bench.c - `trident bench WHAT`: measures this machine. */
#include "cli/bench/bench.h"
#include "cli/launch.h"

#include "base/sort.h"

static const struct {
    const char *name;
    tri_status (*run)(tri_cli *cli, tri_settings *settings, const tri_bench_options *options);
} benches[] = {
    {"comm", tri__bench_comm}, {"lab", tri__bench_lab}, {"step", tri__bench_step}, {"pipeline", tri__bench_pipeline},
    {"serve", tri__bench_serve},
};

#define ROW(kind, field, ...) TRI_OWN_ROW(tri_bench_options, "bench", kind, field, __VA_ARGS__)
const tri_option tri__bench_options[] = {
    ROW(TEXTS, op, .value = "all_reduce",
        .help = "what to measure: all, or some of all_reduce, reduce_scatter, all_gather, broadcast, reduce, gather, "
                "scatter, all_to_all, sendrecv, barrier"),
    ROW(TEXTS, sizes, .value = "4K,64K,1M,4M,25M,100M", .help = "bytes of an operation: 4K is 4096"),
    ROW(TEXTS, cases, .value = "tiny",
        .help = "step: models and batches to time, of tiny, minilm, base128, base512, base512real, large512, oneb, "
                "bert, distilbert, electra, mpnet, modernbert, deberta; "
                "serve: MODEL:ROWSxTOKENS or MODEL:ROWSxmixed, of the models tiny, minilm, base, large"),
    ROW(TEXT, lengths, .help = "serve: a file with the token counts of a row a line, for mixed cases"),
    ROW(TEXT, http,
        .help = "serve: load a server over loopback: of this run, or at this address, http://127.0.0.1:8080"),
    ROW(INT, clients, .value = "64", .min = 1, .max = 10000, .help = "serve --http: connections at once"),
    ROW(REAL, rate, .value = "0", .min = 0, .max = 1e7,
        .help = "serve --http: requests a second, at random times (open loop); 0: each client's next follows its last"),
    ROW(REAL, seconds, .value = "5", .min = 0.001, .max = 1e6,
        .help = "serve --http: how long requests are sent; comm: time of each operation and size"),
    ROW(INT, requests, .value = "0", .min = 0, .max = 1e12, .help = "serve --http: at most so many requests; 0: any"),
    ROW(CHOICE, lab_model, .value = "small", .choices = "tiny|small|large|deep|oneb",
        .help = "lab: tiny takes seconds, small about a minute; large has 1.07 billion parameters: too many for DDP in "
                "24 GiB; oneb 1.28 billion, for GPUs; deep: that of pipeline, small and of 8 layers"),
    ROW(TEXTS, layouts, .value = "all",
        .help = "lab: all, or some of one, ddp, zero1, zero2, zero3, zero3_no_prefetch, zero3_recompute, "
                "zero3_offload, pipeline, tensor"),
    ROW(TEXTS, schedules, .value = "all", .help = "pipeline: all, or some of gpipe, 1f1b, interleaved, zb-h1, zbv"),
    TRI_OWN_END(tri_bench_options)};

tri_status tri__bench_ranks(tri_settings *settings, int *n) {
    if (!tri__settings_given(settings, &settings->nproc_per_node)) settings->nproc_per_node = TRI_NPROC_CORES;
    TRI_TRY(tri__settings_ranks(settings));
    *n = (int)settings->nproc_per_node;
    if (!tri__settings_given(settings, &settings->nproc_per_node) && *n < 2) *n = 2;
    return TRI_OK;
}

double tri__bench_median(double *values, int64_t n) {
    tri__sort_doubles(values, n);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double tri__bench_cpu(int of_thread) {
    struct timespec now;
    clock_gettime(of_thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

const char *tri__bench_names(const tri_texts *asked, int n, const char *(*name)(int i), int *chosen) {
    for (int k = 0; k < asked->n; k++) {
        int all = strcmp(asked->at[k], "all") == 0, known = all;
        for (int i = 0; i < n; i++) {
            int named = strcmp(asked->at[k], name(i)) == 0;
            chosen[i] |= named || all;
            known |= named;
        }
        if (!known) return asked->at[k];
    }
    return NULL;
}

tri_status tri__bench_alone(tri_cli *cli, tri_settings *settings, const char *bench, const char *what) {
    tri_launch launch;
    TRI_TRY(tri__launch_resolve(cli, settings, &launch));
    if (launch.launcher == TRI_LAUNCHER_NONE) return TRI_OK;
    return tri__fail(TRI_USAGE, "bench %s starts its own ranks, one %s after another: run it without a launcher", bench,
                     what);
}

tri_status tri__bench_steps(const tri_settings *settings, int warmup, int timed, int64_t *steps) {
    *steps = settings->max_steps ? settings->max_steps : warmup + timed;
    if (*steps > warmup) return TRI_OK;
    return tri__fail(TRI_USAGE, "--max-steps %lld: the first %d are warm-up; take more", (long long)*steps, warmup);
}

tri_status tri__bench_json(const tri_cli *cli, tri_json *result) {
    tri_status status = tri__print_json_new(cli->out, result);
    fflush(cli->out);
    return status;
}

tri_json *tri__bench_operations(const double *by_op) {
    tri_json *out = tri__json_object();
    for (int v = 0; v < tri__variant_count(); v++)
        if (by_op[v] > 0) tri__json_set_new(out, tri__variant_row(v)->name, tri__json_real(1e3 * by_op[v]));
    return out;
}

tri_status tri__command_bench(tri_cli *cli, tri_command_call *call) {
    const char *what = call->n_words ? call->words[0] : "";
    for (size_t i = 0; i < sizeof benches / sizeof *benches; i++)
        if (strcmp(benches[i].name, what) == 0) return benches[i].run(cli, &call->settings, call->own);
    return tri__fail(TRI_USAGE, "there is no bench \"%s\"; there are `trident bench comm`, `lab`, `step`, `pipeline` "
                     "and `serve`", what);
}
