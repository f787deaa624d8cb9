/* kernels.c - times kernel rows one by one, on the shapes of a training step of two 6-layer, 384-wide encoders (12
 * heads of 32, 1536 in between) with 16 sequences of 128 tokens each, and adds them up to a step. Prints the time of a
 * call (median, and the best of the repetitions), GFLOP/s, GB/s of operands, ns per element of the largest operand, and
 * the share of the closer of two limits measured at the start: the rate of a product in the second-level cache, or
 * the rate of adding in memory (a cached tensor may exceed it). Times are taken as in bench/measure.h.
 *
 *   kernels [--threads N] [--device cpu|reference] [--seconds S a row] [OPERATION ...] */
#include "device/device.h"
#include "tests/lib/simd_sets.h"

#include "measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct shape {
    const char *op, *dims;
    int calls;      /* in a step */
    unsigned acc;
} shape;

enum { TOKENS = 2048, LENGTH = 128, HEADS = 12 };

static const shape shapes[] = {
    {"embed", "T=2048 H=384 V=28996 P=512 Y=2", 2, 0},
    {"norm", "T=2048 H=384", 2, 0},
    {"dropout", "T=2048 H=384", 2, 0},
    {"linear", "T=2048 O=1152 I=384", 12, 0},
    {"attention", "T=2048 H=384 D=1152 A=12 S=17", 12, 0},
    {"linear", "T=2048 O=384 I=384", 12, 0},
    {"dropout_add_norm", "T=2048 H=384", 24, 0},
    {"linear_gelu", "T=2048 O=1536 I=384", 12, 0},
    {"linear", "T=2048 O=384 I=1536", 12, 0},
    {"dropout_add_norm_din", "T=2048 H=384", 26, 0},
    {"norm_dw", "T=2048 H=384", 0, 0},
    {"linear_dw", "T=2048 O=384 I=1536", 12, 0},
    {"bias_dw", "T=2048 O=384", 0, 0},
    {"linear_gelu_din", "T=2048 O=384 I=1536", 12, 0},
    {"linear_din", "T=2048 O=384 I=1536", 0, 0},
    {"gelu_din_db", "T=2048 H=1536", 0, 0},
    {"gelu_din", "T=2048 H=1536", 0, 0},
    {"linear_din", "T=2048 O=1536 I=384", 12, 1},
    {"linear_dw", "T=2048 O=1536 I=384", 12, 0},
    {"bias_dw", "T=2048 O=1536", 0, 0},
    {"linear_din", "T=2048 O=384 I=384", 12, 0},
    {"linear_dw", "T=2048 O=384 I=384", 12, 0},
    {"attention_din_db", "T=2048 H=384 D=1152 A=12 S=17", 12, 0},
    {"attention_din", "T=2048 H=384 D=1152 A=12 S=17", 0, 0},
    {"linear_din", "T=2048 O=1152 I=384", 12, 1},
    {"linear_dw", "T=2048 O=1152 I=384", 12, 0},
    {"bias_dw", "T=2048 O=1152", 0, 0},
    {"dropout_din", "T=2048 H=384", 2, 0},
    {"norm_din", "T=2048 H=384", 0, 0},
    {"embed_dw", "T=2048 H=384 V=28996 P=512 Y=2", 2, 0},
    {"sumsq", "K=44000000", 1, 0},
    {"adamw", "K=44000000", 1, 0},
    {"adam", "K=44000000", 0, 0}, /* other optimizers */
    {"sgd", "K=44000000", 0, 0},
    {"lamb_moments", "K=44000000", 0, 0},
    {"lamb_step", "K=44000000", 0, 0},
    {"gelu", "T=2048 H=1536", 0, 0},
    {"tanh", "T=16 H=384", 2, 0},
    {"add", "T=2048 H=384", 0, 0},
    {"add_din", "T=2048 H=384", 0, 0},
    {"attention_first", "N=16 T=2048 H=384 D=1152 A=12 S=17", 0,
     0}, /* of the last layer, which is counted as if it made all rows */
    {"attention_first_din", "N=16 T=2048 H=384 D=1152 A=12 S=17", 0, 0},
};

typedef struct bench {
    tri_call call;
    tri_attr attr;
    size_t bytes[TRI_MAX_ARGS], all_bytes, work_bytes;
    double flops;
    int64_t largest; /* elements */
} bench;

static int64_t extent(const char *dims, char letter) {
    for (const char *at = dims; at; at = strchr(at, ' '), at = at ? at + 1 : NULL)
        if (at[0] == letter) return strtoll(at + 2, NULL, 10);
    return letter == '1' || letter == '2' || letter == '4' ? letter - '0' : 0;
}

static void fill(const char *name, tri_tensor *t, size_t element) {
    int64_t n = t->rows * t->cols;
    float *real = t->data;
    double *wide = t->data;
    int32_t *whole = t->data;
    for (int64_t i = 0; i < n; i++) {
        double noise = (double)((uint64_t)i * 2654435761u % 10007) / 5003.5 - 1;
        if (element == 8) wide[i] = 1;
        else if (strcmp(name, "ids") == 0) whole[i] = (int32_t)((uint64_t)i * 2654435761u % 28996);
        else if (strcmp(name, "pos") == 0) whole[i] = (int32_t)(i % LENGTH);
        else if (strcmp(name, "key") == 0) whole[i] = (int32_t)(i % 2 ? i / 2 % LENGTH : i / 2 / LENGTH);
        else if (strcmp(name, "seq") == 0) whole[i] = (int32_t)(i * LENGTH);
        else if (strcmp(name, "apply") == 0) whole[i] = 1;
        else if (strcmp(name, "hyper") == 0) real[i] = 0.001f;
        else if (strcmp(name, "lse") == 0) real[i] = 5;
        else real[i] = (float)(strcmp(name, "v") == 0 || strcmp(name, "rstd") == 0 ? noise * noise : noise);
    }
}

static void *take(const tri_device *device, size_t bytes) {
    void *memory;
    if (device->alloc(NULL, bytes, &memory) != TRI_OK) {
        fprintf(stderr, "kernels: out of memory\n");
        exit(1);
    }
    return memory;
}

static void open_bench(bench *b, const shape *at, const tri_device *device, const tri_kernel_table *table,
                       int threads) {
    int variant = tri__variant_find(at->op);
    const tri_op_row *row = tri__variant_row(variant);
    *b = (bench){.attr = {.p = 0.1f,
                          .eps = 1e-12f,
                          .id = 7,
                          .heads = HEADS,
                          .max_len = LENGTH,
                          .beta1 = 0.9f,
                          .beta2 = 0.999f,
                          .decay = 0.01f}};
    tri__variant_set(variant, &b->attr);
    tri_dims dims = {{0}};
    for (char letter = 'A'; letter <= 'Z'; letter++) dims.of[letter - 'A'] = (double)extent(at->dims, letter);
    dims.of['Q' - 'A'] = (double)TOKENS * LENGTH;
    b->flops = row->flops(&dims, row);
    for (int k = 0; k < row->n_args; k++) {
        tri_tensor *t = &b->call.t[k];
        if (!row->arg[k].access) continue;
        t->rows = extent(at->dims, row->arg[k].dims[0]);
        t->cols = extent(at->dims, row->arg[k].dims[2]);
        size_t element = tri__dtype_bytes(row->arg[k].dtype < 0 ? TRI_F32 : (tri_dtype)row->arg[k].dtype);
        b->bytes[k] = (size_t)(t->rows * t->cols) * element;
        t->data = take(device, b->bytes[k]);
        fill(row->arg[k].name, t, element);
        int gathered = row->arg[k].access == TRI_ACCESS_G;
        int twice = row->arg[k].access == TRI_ACCESS_U || (at->acc >> k & 1);
        b->all_bytes += gathered ? (size_t)TOKENS * (size_t)t->cols * 4 : b->bytes[k] * (twice ? 2 : 1);
        if (!gathered && t->rows * t->cols > b->largest) b->largest = t->rows * t->cols;
    }
    const tri_workspace *work = &table->work[variant][TRI_F32];
    b->work_bytes = (size_t)tri__workspace_bytes(work, b->call.t[0].rows, b->call.t[0].cols, 0);
    b->call.work = take(device, b->work_bytes);
    b->call.op = row->op;
    b->call.acc = at->acc, b->call.attr = &b->attr, b->call.seed = 1, b->call.step = 2, b->call.threads = threads;
}

static void close_bench(bench *b, const tri_device *device) {
    for (int k = 0; k < TRI_MAX_ARGS; k++) device->free(NULL, b->call.t[k].data, b->bytes[k]);
    device->free(NULL, b->call.work, b->work_bytes);
}

/* Median seconds of a call; the best to *best. */
static double time_call(tri_kernel *run, const tri_call *call, double seconds, double *best) {
    enum { MOST = 400 };
    double sample[MOST], end;
    int n = 0;
    run(call);
    end = bench_clock(call->threads) + seconds;
    do {
        double begin = bench_clock(call->threads);
        run(call);
        sample[n++] = bench_clock(call->threads) - begin;
    } while (n < MOST && (n < 3 || bench_clock(call->threads) < end));
    qsort(sample, (size_t)n, sizeof *sample, bench_ascending);
    *best = sample[0];
    return sample[n / 2];
}

/* One core's limits per second: fp32 operations in a product, bytes read and written by y += x. */
static void find_limits(const tri_device *device, double *flops, double *bytes) {
    enum { SIDE = 384, CALLS = 20, TRIES = 20 };
    simd_set sets[SIMD_SETS_MOST], *best = &sets[find_sets(sets) - 1];
    size_t half = (size_t)64 << 20;
    char *memory = take(device, 2 * half);
    float *a = (float *)(void *)memory;
    tri_gemm g = {.m = SIDE, .n = SIDE, .k = SIDE, .a = a, .b = a + SIDE * SIDE, .c = a + 2 * SIDE * SIDE, .threads = 1,
                  .work = a + 3 * SIDE * SIDE};
    float *restrict y = a, *restrict x = a + half / sizeof *x;
    *flops = *bytes = 0;
    memset(memory, 0, 2 * half);
    for (int i = 0; i < TRIES; i++) {
        double begin = bench_clock(1);
        for (int k = 0; k < CALLS; k++) best->gemm(&g);
        *flops = fmax(*flops, 2.0 * SIDE * SIDE * SIDE * CALLS / (bench_clock(1) - begin));
        begin = bench_clock(1);
        for (size_t k = 0; k < half / sizeof *x; k++) y[k] += x[k];
        *bytes = fmax(*bytes, 3.0 * (double)half / (bench_clock(1) - begin));
    }
    device->free(NULL, memory, 2 * half);
}

static int wanted(const char *op, char **names, int n) {
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], op) == 0) return 1;
    return n == 0;
}

int main(int argc, char **argv) {
    int threads = 2, at = 1;
    double seconds = 0.2, step = 0, step_best = 0, products = 0, flops = 0, peak_flops, peak_bytes;
    const char *name = "cpu";
    for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
        if (strcmp(argv[at], "--threads") == 0) threads = atoi(argv[at + 1]);
        else if (strcmp(argv[at], "--seconds") == 0) seconds = atof(argv[at + 1]);
        else if (strcmp(argv[at], "--device") == 0) name = argv[at + 1];
        else return fprintf(stderr, "kernels: unknown option %s\n", argv[at]), 64;
    }
    const tri_device *device = tri__device_find(name);
    if (!device) return fprintf(stderr, "kernels: no device '%s'; there are %s\n", name, tri__device_names()), 64;
    tri_kernel_table table;
    device->kernels(&table);
    find_limits(device, &peak_flops, &peak_bytes);
    printf("device %s (%s), %d threads; a core: %.0f GFLOP/s, %.1f GB/s\n", name, device->describe(NULL), threads,
           peak_flops / 1e9, peak_bytes / 1e9);
    printf("%-22s %-32s %9s %9s %8s %7s %7s %6s %9s\n", "operation", "shape", "median us", "best us", "GFLOP/s", "GB/s",
           "ns/el", "limit", "ms a step");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (!wanted(shapes[i].op, argv + at, argc - at)) continue;
        bench b;
        double best;
        open_bench(&b, &shapes[i], device, &table, threads);
        double time = time_call(table.run[tri__variant_find(shapes[i].op)][TRI_F32], &b.call, seconds, &best);
        double by_flops = b.flops / time / (threads * peak_flops),
               by_bytes = (double)b.all_bytes / time / (threads * peak_bytes);
        double share = shapes[i].calls * time * 1e3;
        step += share, step_best += shapes[i].calls * best * 1e3, flops += shapes[i].calls * b.flops;
        if (strncmp(shapes[i].op, "linear", 6) == 0) products += share;
        printf("%-22s %-32s %9.1f %9.1f %8.1f %7.1f %7.3f %5.0f%% %9.2f\n", shapes[i].op, shapes[i].dims, time * 1e6,
               best * 1e6, b.flops / time / 1e9, (double)b.all_bytes / time / 1e9, time / (double)b.largest * 1e9,
               100 * fmax(by_flops, by_bytes), share);
        fflush(stdout);
        close_bench(&b, device);
    }
    printf("a step: %.1f ms (best %.1f), of it dense layers %.1f; %.1f GFLOP, %.1f GFLOP/s, %.2f samples/s\n", step,
           step_best, products, flops / 1e9, flops / step / 1e6, TOKENS / LENGTH / step * 1e3);
    return 0;
}
