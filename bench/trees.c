/* trees.c - our evaluation of boosted trees beside libxgboost's own predict: one thread each, in turn, same rows.
 *
 *   build/bench/trees [--rows N] [--features F] [--rounds R] [--depth D] */
#include "stack/trees.h"
#include "stack/xgboost.h"
#include "bench/measure.h"

#include <stdio.h>

enum { TRAINING = 20000, TIMES = 7 };

static int64_t number_of(int n, char **args, const char *name, int64_t otherwise) {
    for (int i = 1; i + 1 < n; i++)
        if (!strcmp(args[i], name)) return atoll(args[i + 1]);
    return otherwise;
}

static int fails(const tri_xgboost *x, int failed) {
    if (failed) fprintf(stderr, "libxgboost: %s\n", x->XGBGetLastError());
    return failed;
}

/* Numbers in [-1, 1), one in twenty missing. */
static float *make_rows(int64_t n, int features) {
    float *rows = malloc((size_t)(n * features) * sizeof *rows);
    uint64_t state = 88172645463325252u;
    for (int64_t i = 0; rows && i < n * features; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        rows[i] = state % 20 ? (float)(int64_t)state * 0x1p-63f : NAN;
    }
    return rows;
}

static tri_matrix matrix_of(float *rows, int64_t n, int features) {
    tri_matrix e = {.n = n, .n_dense = features, .dense = rows, .start = calloc((size_t)n + 1, 8), .n_classes = 2,
                    .y = calloc((size_t)n, 4), .weight = calloc((size_t)n, 4)};
    for (int64_t i = 0; i < n; i++) {
        const float *x = rows + i * features;
        float score = 0;
        for (int f = 0; f + 1 < features; f += 2) score += isnan(x[f]) ? 0.3f : x[f] * (isnan(x[f + 1]) ? 1 : x[f + 1]);
        e.y[i] = score > 0, e.weight[i] = 1;
    }
    return e;
}

static int by_value(const void *a, const void *b) { return bench_ascending(a, b); }

static double median(double *at) {
    qsort(at, TIMES, sizeof *at, by_value);
    return at[TIMES / 2];
}

int main(int argc, char **argv) {
    int64_t n = number_of(argc, argv, "--rows", 1000000);
    int features = (int)number_of(argc, argv, "--features", 40), depth = (int)number_of(argc, argv, "--depth", 6),
        rounds = (int)number_of(argc, argv, "--rounds", 200);
    tri_xgboost x;
    if (tri__xgboost_open(&x) != TRI_OK) {
        fprintf(stderr, "%s\n", tri_error());
        return 2;
    }
    float *rows = make_rows(n, features), *ours = malloc((size_t)n * sizeof *ours);
    tri_matrix train = matrix_of(rows, n < TRAINING ? n : TRAINING, features), all = matrix_of(rows, n, features);
    void *matrix[2] = {0}, *booster = NULL;
    char deep[8];
    snprintf(deep, sizeof deep, "%d", depth);
    const char *const params[][2] = {{"objective", "binary:logistic"}, {"tree_method", "hist"}, {"max_depth", deep},
                                     {"nthread", "1"}, {"verbosity", "0"}};
    if (tri__xgboost_matrix(&x, &train, features, &matrix[0]) != TRI_OK ||
        tri__xgboost_matrix(&x, &all, features, &matrix[1]) != TRI_OK ||
        fails(&x, x.XGBoosterCreate(matrix, 1, &booster)))
        return 1;
    for (int i = 0; i < 5; i++)
        if (fails(&x, x.XGBoosterSetParam(booster, params[i][0], params[i][1]))) return 1;
    for (int i = 0; i < rounds; i++)
        if (fails(&x, x.XGBoosterUpdateOneIter(booster, i, matrix[0]))) return 1;
    uint64_t length;
    const char *text;
    const float *theirs = NULL;
    tri_json *model = NULL;
    tri_trees trees;
    if (fails(&x, x.XGBoosterSaveModelToBuffer(booster, "{\"format\": \"json\"}", &length, &text)) ||
        tri__json_parse(text, (size_t)length, "model", TRI_DATA, &model) != TRI_OK ||
        tri__trees_parse(model, "model", &trees) != TRI_OK)
        return 1;
    double times[3][TIMES], most = 0;
    for (int t = 0; t < TIMES; t++) {
        double begin = bench_clock(1);
        /* the number of trees is named each time, and differs: libxgboost keeps its last answer */
        unsigned asked = (unsigned)(rounds - t % 2);
        if (fails(&x, x.XGBoosterPredict(booster, matrix[1], 0, asked, 0, &length, &theirs))) return 1;
        times[0][t] = bench_clock(1) - begin;
        begin = bench_clock(1);
        tri__trees_predict(&trees, rows, n, features, ours);
        times[1][t] = bench_clock(1) - begin;
        for (int64_t i = 0; i < n && t % 2 == 0; i++) most = fmax(most, (double)fabsf(ours[i] - theirs[i]));
        begin = bench_clock(1);
        for (int64_t i = 0; i < 10000; i++)
            tri__trees_predict(&trees, rows + i * 97 % n * features, 1, features, ours);
        times[2][t] = (bench_clock(1) - begin) / 10000;
    }
    double a = median(times[0]), b = median(times[1]);
    printf("%lld rows, %d features, %d trees of depth %d, libxgboost %s, one thread, medians of %d\n", (long long)n,
           features, trees.n, depth, x.version, TIMES);
    printf("libxgboost %.3f s   trident %.3f s   %.2f times   largest difference %.2g   one row %.2f us\n", a, b, a / b,
           most, 1e6 * median(times[2]));
    return a / b >= 1.5 && most <= 1e-6 ? 0 : 1;
}
