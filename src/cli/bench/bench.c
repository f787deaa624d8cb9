/* bench.c - `trident bench WHAT`: measures this machine. */
#include "cli/bench/bench.h"

#include "program/op.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    tri_status (*run)(tri_cli *cli, tri_settings *settings, const tri_bench_options *options);
} benches[] = {
    {"comm", tri__bench_comm},
    {"lab", tri__bench_lab},
    {"step", tri__bench_step},
    {"pipeline", tri__bench_pipeline},
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
    {0}};

tri_status tri__bench_ranks(tri_settings *settings, int *n) {
    if (!tri__settings_given(settings, &settings->nproc_per_node)) settings->nproc_per_node = TRI_NPROC_CORES;
    TRI_TRY(tri__settings_ranks(settings));
    *n = (int)settings->nproc_per_node;
    if (!tri__settings_given(settings, &settings->nproc_per_node) && *n < 2) *n = 2;
    return TRI_OK;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double tri__bench_median(double *values, int64_t n) {
    qsort(values, (size_t)n, sizeof *values, by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

tri_json *tri__bench_operations(const double *by_op) {
    tri_json *out = tri__json_object();
    for (int v = 0; v < tri__variant_count(); v++)
        if (by_op[v] > 0) tri__json_set_new(out, tri__variant_row(v)->name, tri__json_real(1e3 * by_op[v]));
    return out;
}

tri_status tri__command_bench(tri_cli *cli, int n, const char *const *args) {
    tri_settings settings;
    tri_bench_options own;
    const char *words[1];
    int n_words = 0;
    tri_status status = tri__cli_own_settings(&settings, "bench", &own, n, args, words, 1, &n_words);
    if (status == TRI_OK) {
        status = tri__fail(TRI_USAGE,
                           "there is no bench \"%s\"; there are `trident bench comm`, `lab`, `step`, `pipeline` and "
                           "`serve`",
                           n_words ? words[0] : "");
        for (size_t i = 0; n_words && i < sizeof benches / sizeof *benches; i++)
            if (strcmp(benches[i].name, words[0]) == 0) status = benches[i].run(cli, &settings, &own);
    }
    tri__settings_free(&settings);
    return status;
}
