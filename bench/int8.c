/* int8.c - times dense layers of int8 factors beside the same layers in fp32 and bf16, alternately, in one process: the
 * rows of device "cpu", on the shapes of BERT encoders of 384 and 768 columns, for T tokens. Weights alternate between
 * copies that together exceed the L2 caches, as a model's layers do. Prints GOP/s (2 T O I in the time), medians over
 * the rounds; the share of a peak, if one is given; and the time of quantising x as a share of the product's.
 *
 *   int8 [--threads N] [--rounds R] [--tokens T] [--peak GOP/s] [--kernel NAME] */
#include "tests/lib/simd_sets.h"
#include "device/device.h"

#include "measure.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROUNDS = 201, COPIES = 8 };
enum { INT8, GELU, KERNEL, QUANTIZE, F32, BF16, WAYS };

static const struct {
    int out, in;
} layers[] = {{384, 384}, {1152, 384}, {1536, 384}, {384, 1536}, {768, 768}, {2304, 768}, {3072, 768}, {768, 3072}};
static const int tokens[] = {1, 16, 64, 128, 512, 4096};

typedef struct bench {
    int64_t T, O, I;
    tri_kernel_table table;
    tri_int8_gemm gemm;              /* with the kernel asked for */
    int8_t *q, *w[COPIES];           /* [T,I], [O,I] */
    float *s, *ws, *b, *x, *y;       /* [T], [O], [O], [T,I], [T,O] */
    float *w_f32[COPIES];            /* [O,I]; bf16 uses the same memory, as bf16 numbers */
    void *work;
    int threads, round;
} bench;

static void *take(size_t bytes) {
    void *memory;
    if (tri__device_find("cpu")->alloc(NULL, bytes, &memory) != TRI_OK) {
        fprintf(stderr, "int8: out of memory\n");
        exit(1);
    }
    return memory;
}

static void give(void *memory, size_t bytes) { tri__device_find("cpu")->free(NULL, memory, bytes); }

static size_t work_bytes(const bench *b) {
    int linear = tri__variant_find("linear");
    const tri_workspace *f32 = &b->table.work[linear][TRI_F32], *bf16 = &b->table.work[linear][TRI_BF16];
    int64_t halves = b->T * b->I + b->O * b->I + b->O + b->T * b->O;
    return (size_t)(tri__workspace_bytes(f32, b->T, b->O, 0) + tri__workspace_bytes(bf16, b->T, b->O, halves) + 64);
}

static void open_bench(bench *b) {
    size_t x = (size_t)(b->T * b->I), w = (size_t)(b->O * b->I), y = (size_t)(b->T * b->O);
    b->q = take(x), b->s = take((size_t)b->T * 4), b->ws = take((size_t)b->O * 4), b->b = take((size_t)b->O * 4);
    b->x = take(x * 4), b->y = take(y * 4), b->work = take(work_bytes(b));
    for (size_t i = 0; i < x; i++) b->q[i] = (int8_t)(i * 37 % 255 - 127), b->x[i] = (float)b->q[i] * 0.01f;
    for (int64_t i = 0; i < b->T; i++) b->s[i] = 0.01f;
    for (int64_t i = 0; i < b->O; i++) b->ws[i] = 0.001f, b->b[i] = 0.5f;
    for (int c = 0; c < COPIES; c++) {
        b->w[c] = take(w), b->w_f32[c] = take(w * 4);
        for (size_t i = 0; i < w; i++) b->w[c][i] = (int8_t)(i * 91 % 255 - 127), b->w_f32[c][i] = 0.001f * b->w[c][i];
    }
}

static void close_bench(bench *b) {
    size_t x = (size_t)(b->T * b->I), w = (size_t)(b->O * b->I), y = (size_t)(b->T * b->O);
    give(b->q, x), give(b->s, (size_t)b->T * 4), give(b->ws, (size_t)b->O * 4), give(b->b, (size_t)b->O * 4);
    give(b->x, x * 4), give(b->y, y * 4), give(b->work, work_bytes(b));
    for (int c = 0; c < COPIES; c++) give(b->w[c], w), give(b->w_f32[c], w * 4);
}

/* The operands that the variant of this name has, in order. */
static void run_row(const bench *b, const char *name, tri_dtype type, const tri_tensor *t, const uint8_t *dtype) {
    int variant = tri__variant_find(name);
    const tri_op_row *row = tri__variant_row(variant);
    tri_attr attr = {0};
    tri__variant_set(variant, &attr);
    tri_call call = {.op = row->op, .table = &b->table, .attr = &attr, .threads = b->threads, .work = b->work};
    for (int k = 0; k < row->n_args; k++)
        if (row->arg[k].access) call.t[k] = *t++, call.dtype[k] = *dtype++;
    b->table.run[variant][type](&call);
}

static void run(bench *b, int way) {
    int copy = b->round++ % COPIES;
    tri_tensor y = {b->y, b->T, b->O}, q = {b->q, b->T, b->I}, s = {b->s, b->T, 1}, w = {b->w[copy], b->O, b->I},
               ws = {b->ws, b->O, 1}, bias = {b->b, 1, b->O}, x = {b->x, b->T, b->I}, none = {0};
    tri_tensor wide = {b->w_f32[copy], b->O, b->I};
    uint8_t half = TRI_BF16;
    if (way == INT8)
        run_row(b, "linear_int8", TRI_F32, (tri_tensor[]){y, q, s, w, ws, bias},
                (uint8_t[]){TRI_F32, TRI_I8, TRI_F32, TRI_I8, TRI_F32, TRI_F32});
    else if (way == GELU)
        run_row(b, "linear_gelu_int8", TRI_F32, (tri_tensor[]){y, none, q, s, w, ws, bias},
                (uint8_t[]){TRI_F32, TRI_F32, TRI_I8, TRI_F32, TRI_I8, TRI_F32, TRI_F32});
    else if (way == KERNEL) {
        tri_int8_gemm g = {.m = b->T, .n = b->O, .k = b->I, .a = b->q, .b = b->w[copy], .a_scale = b->s,
                           .b_scale = b->ws, .bias = b->b, .c = b->y, .type = TRI_F32, .threads = b->threads,
                           .kernel = b->gemm.kernel};
        simd_set sets[SIMD_SETS_MOST];
        sets[find_sets(sets) - 1].int8_gemm(&g);
    } else if (way == QUANTIZE)
        run_row(b, "quantize_int8", TRI_F32, (tri_tensor[]){q, s, x, none},
                (uint8_t[]){TRI_I8, TRI_F32, TRI_F32, TRI_F32});
    else if (way == F32)
        run_row(b, "linear", TRI_F32, (tri_tensor[]){y, x, wide, bias}, (uint8_t[]){TRI_F32, TRI_F32, TRI_F32,
                TRI_F32});
    else
        run_row(b, "linear", TRI_BF16, (tri_tensor[]){y, x, wide, bias}, (uint8_t[]){half, half, half, half});
}

static void report(bench *b, int rounds, double peak) {
    static double seconds[WAYS][MOST_ROUNDS];
    double ops = 2.0 * (double)b->T * (double)b->O * (double)b->I;
    int repeat = ops > 2e8 ? 1 : (int)(2e8 / ops) + 1;
    if (repeat > 100) repeat = 100;
    open_bench(b);
    for (int round = -1; round < rounds; round++)
        for (int way = 0; way < WAYS; way++) {
            double begin = bench_clock(b->threads);
            for (int i = 0; i < repeat; i++) run(b, way);
            if (round >= 0) seconds[way][round] = (bench_clock(b->threads) - begin) / repeat;
        }
    printf("%4ld x %4ld x %4ld", (long)b->T, (long)b->O, (long)b->I);
    for (int way = 0; way < WAYS; way++) {
        qsort(seconds[way], (size_t)rounds, sizeof(double), bench_ascending);
        double median = seconds[way][rounds / 2];
        if (way == QUANTIZE) printf("  %7.1f %%", 100 * median / seconds[INT8][rounds / 2]);
        else printf("  %9.1f", ops / median / 1e9);
        if (way == INT8 && peak > 0) printf(" %3.0f %%", ops / median / 1e7 / peak);
    }
    printf("  %8.1f us\n", seconds[INT8][rounds / 2] * 1e6);
    fflush(stdout);
    close_bench(b);
}

int main(int argc, char **argv) {
    int threads = 2, rounds = 15;
    int64_t only = 0;
    double peak = 0;
    const tri_int8_product *list[TRI_INT8_PRODUCTS], *kernel = tri__int8_product();
    int n = tri__int8_products(list);
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--threads") == 0) threads = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--rounds") == 0) rounds = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--tokens") == 0) only = atoll(argv[i + 1]);
        else if (strcmp(argv[i], "--peak") == 0) peak = atof(argv[i + 1]);
        else if (strcmp(argv[i], "--kernel") == 0)
            for (int k = 0; k < n; k++)
                if (strcmp(list[k]->name, argv[i + 1]) == 0) kernel = list[k];
    }
    if (threads < 1 || rounds < 1 || rounds > MOST_ROUNDS)
        return fprintf(stderr, "int8: at least one thread and round, at most %d rounds\n", MOST_ROUNDS), 2;
    omp_set_num_threads(threads);
    bench b = {.threads = threads, .gemm.kernel = kernel};
    tri__device_find("cpu")->kernels(&b.table);
    printf("%s, %d threads, %d rounds; GOP/s\n%-18s  %9s%s  %9s  %9s  %9s  %9s  %9s\n", tri__int8_product()->name,
           threads, rounds, "   T x    O x    I", "int8", peak > 0 ? "      " : "", "gelu", kernel->name, "quantize",
           "fp32", "bf16");
    for (size_t t = 0; t < sizeof tokens / sizeof *tokens; t++)
        for (size_t l = 0; l < sizeof layers / sizeof *layers; l++) {
            if (only && tokens[t] != only) continue;
            b.T = tokens[t], b.O = layers[l].out, b.I = layers[l].in;
            report(&b, rounds, peak);
        }
    return 0;
}
