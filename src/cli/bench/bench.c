/* bench.c - `trident bench WHAT`: measures this machine. */
#include "cli/bench/bench.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    tri_status (*run)(tri_cli *cli, tri_settings *settings);
} benches[] = {
    {"comm", tri__bench_comm},
    {"lab", tri__bench_lab},
    {"step", tri__bench_step},
    {"pipeline", tri__bench_pipeline},
};

tri_status tri__bench_ranks(tri_settings *settings, int *n) {
    if (!settings->given.nproc_per_node) settings->nproc_per_node = TRI_NPROC_CORES;
    TRI_TRY(tri__settings_ranks(settings));
    *n = (int)settings->nproc_per_node;
    if (!settings->given.nproc_per_node && *n < 2) *n = 2;
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

tri_status tri__command_bench(tri_cli *cli, int n, const char *const *args) {
    tri_settings settings;
    const char *words[1];
    int n_words = 0;
    tri_status status = tri__cli_settings(&settings, "bench", n, args, words, 1, &n_words);
    if (status == TRI_OK) {
        status = tri__fail(TRI_USAGE,
                           "there is no bench \"%s\"; there are `trident bench comm`, `lab`, `step` and `pipeline`",
                           n_words ? words[0] : "");
        for (size_t i = 0; n_words && i < sizeof benches / sizeof *benches; i++)
            if (strcmp(benches[i].name, words[0]) == 0) status = benches[i].run(cli, &settings);
    }
    tri__settings_free(&settings);
    return status;
}
