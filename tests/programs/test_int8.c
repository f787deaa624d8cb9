/* test_int8.c - products of int8 matrices with every kernel that this CPU has, and the fast rows of quantisation,
 * against the plain rows: the same bits in fp32, over ragged shapes and extreme factors, which would saturate an
 * intermediate sum of 16 bits; for any number of threads; and for a row whatever rows are beside it. */
#include "device/device.h"
#include "numbers/float16.h"
#include "numbers/quantized.h"

#include <math.h>

#include "tests/lib/test.h"

#include "tests/lib/simd_sets.h"

enum { GUARD = 64, GUARD_BYTE = 0xA5 }; /* bytes after each result */

static const tri_dtype types[] = {TRI_F32, TRI_BF16, TRI_F16};
static const tri_int8_product *kernels[TRI_INT8_PRODUCTS];
static int n_kernels;
static tri_kernel_table cpu, reference;
static simd_set sets[SIMD_SETS_MOST], *best;

static int find_kernels(void **state) {
    (void)state;
    n_kernels = tri__int8_products(kernels);
    best = &sets[find_sets(sets) - 1];
    tri__device_find("cpu")->kernels(&cpu);
    tri__device_find("reference")->kernels(&reference);
    return 0;
}

/* A block of just that size, so that a reader beyond it is caught by a sanitizer. */
static void *block(size_t bytes) {
    void *memory = malloc(bytes + !bytes);
    assert_non_null(memory);
    return memory;
}

static uint32_t hashed(uint32_t x) {
    x = (x ^ x >> 16) * 0x7FEB352Du;
    x = (x ^ x >> 15) * 0x846CA68Bu;
    return x ^ x >> 16;
}

enum { MIXED, HIGHEST, OPPOSED }; /* uniform; all 127; 127 against -127 */

static int8_t *factors(int64_t n, int kind, uint32_t seed) {
    int8_t *to = block((size_t)n);
    for (int64_t i = 0; i < n; i++)
        to[i] = (int8_t)(kind == MIXED ? (int)(hashed((uint32_t)i + seed) % 255) - 127
                                       : kind == OPPOSED && seed == 1 ? -127 : 127);
    return to;
}

static float *floats(int64_t n, uint32_t seed, float low, float high) {
    float *to = block((size_t)n * sizeof *to);
    for (int64_t i = 0; i < n; i++) to[i] = low + (high - low) * (float)(hashed((uint32_t)i + seed) >> 8) * 0x1p-24f;
    return to;
}

/* n numbers rounded to a type. */
static void *typed(tri_dtype type, int64_t n, const float *from) {
    void *to = block((size_t)n * tri__dtype_bytes(type));
    for (int64_t i = 0; i < n; i++)
        if (type == TRI_F32) ((float *)to)[i] = from[i];
        else ((uint16_t *)to)[i] = type == TRI_BF16 ? tri__to_bf16(from[i]) : tri__to_f16(from[i]);
    return to;
}

static double value_of(tri_dtype type, const void *x, int64_t i) {
    if (type == TRI_F32) return ((const float *)x)[i];
    uint16_t half = ((const uint16_t *)x)[i];
    return type == TRI_BF16 ? tri__from_bf16(half) : tri__from_f16(half);
}

typedef struct layer {
    int64_t m, n, k;
    int kind, bias, gelu, h;
    tri_dtype type;
    int8_t *a, *b;
    float *a_scale, *b_scale, *wide_bias;
    void *rounded_bias;
    size_t bytes; /* of the result */
} layer;

static void open_layer(layer *l) {
    l->a = factors(l->m * l->k, l->kind, 1), l->b = factors(l->n * l->k, l->kind, 7777);
    l->a_scale = floats(l->m, 3, 1e-3f, 2e-2f), l->b_scale = floats(l->n, 4, 1e-3f, 2e-2f);
    l->wide_bias = floats(l->n, 5, -1, 1);
    l->rounded_bias = typed(l->type, l->n, l->wide_bias);
    l->bytes = (size_t)(l->m * l->n) * tri__dtype_bytes(l->type);
}

static void close_layer(layer *l) {
    free(l->a), free(l->b), free(l->a_scale), free(l->b_scale), free(l->wide_bias), free(l->rounded_bias);
}

static void *result(const layer *l) {
    char *to = block(l->bytes + GUARD);
    memset(to, 0xFF, l->bytes); /* what is not written is NaN */
    memset(to + l->bytes, GUARD_BYTE, GUARD);
    return to;
}

static void check_guard(const layer *l, const void *x) {
    for (int i = 0; i < GUARD; i++) assert_int_equal(((const uint8_t *)x)[l->bytes + (size_t)i], GUARD_BYTE);
}

/* The reference row's results: y, and h. */
static void run_reference(const layer *l, void *y, void *h) {
    OPERANDS(linear);
    tri_attr attr = {.activation = l->gelu ? 1 + TRI_ACTIVATION_GELU : 0, .factors = TRI_FACTORS_INT8};
    tri_call call = {.op = TRI_OP_linear, .table = &reference, .attr = &attr, .threads = 1};
    tri_tensor q = {l->a, l->m, l->k}, s = {l->a_scale, l->m, 1}, w = {l->b, l->n, l->k}, ws = {l->b_scale, l->n, 1},
               b = {l->bias ? l->rounded_bias : NULL, 1, l->n};
    call.t[ARG(y)] = (tri_tensor){y, l->m, l->n}, call.dtype[ARG(y)] = (uint8_t)l->type;
    if (l->gelu) call.t[ARG(h)] = (tri_tensor){h, l->m, l->n}, call.dtype[ARG(h)] = (uint8_t)l->type;
    call.t[ARG(x)] = q, call.dtype[ARG(x)] = TRI_I8;
    call.t[ARG(s)] = s, call.dtype[ARG(s)] = TRI_F32;
    call.t[ARG(w)] = w, call.dtype[ARG(w)] = TRI_I8;
    call.t[ARG(ws)] = ws, call.dtype[ARG(ws)] = TRI_F32;
    call.t[ARG(b)] = b, call.dtype[ARG(b)] = (uint8_t)l->type;
    reference.run[tri__variant(call.op, call.attr)][l->type](&call);
}

static void run_kernel(const layer *l, const tri_int8_product *kernel, int threads, int64_t first, int64_t m, void *y,
                       void *h) {
    tri_int8_gemm g = {.m = m, .n = l->n, .k = l->k, .a = l->a + first * l->k, .b = l->b,
                       .a_scale = l->a_scale + first, .b_scale = l->b_scale, .bias = l->bias ? l->rounded_bias : NULL,
                       .c = y, .h = l->h ? h : NULL, .activation = l->gelu ? 1 + TRI_ACTIVATION_GELU : 0,
                       .type = l->type, .threads = threads, .kernel = kernel};
    best->int8_gemm(&g);
}

/* GELU has the tolerance of fast rows, in 16 bits one unit in the last place; everything else is equal to the bit. */
static void compare(const layer *l, const tri_int8_product *kernel, const void *got, const void *want, int exact) {
    double step = l->type == TRI_F32 ? 1e-5 : l->type == TRI_BF16 ? 0x1p-7 : 0x1p-10;
    for (int64_t i = 0; i < l->m * l->n; i++) {
        double a = value_of(l->type, got, i), b = value_of(l->type, want, i);
        if (exact ? a == b : fabs(a - b) <= step * fabs(b) + 1e-5) continue;
        fail_msg("%s: %dx%dx%d, type %d, kind %d: element %d is %.9g, not %.9g", kernel->name, (int)l->m, (int)l->n,
                 (int)l->k, (int)l->type, l->kind, (int)i, a, b);
    }
}

static void try_layer(layer l) {
    open_layer(&l);
    void *want = result(&l), *want_h = result(&l);
    run_reference(&l, want, want_h);
    for (int i = 0; i < n_kernels; i++) {
        void *y[2] = {result(&l), result(&l)}, *h[2] = {result(&l), result(&l)};
        for (int t = 0; t < 2; t++) {
            run_kernel(&l, kernels[i], 1 + 2 * t, 0, l.m, y[t], h[t]);
            check_guard(&l, y[t]), check_guard(&l, h[t]);
        }
        compare(&l, kernels[i], y[0], want, !l.gelu);
        if (l.gelu && l.h) compare(&l, kernels[i], h[0], want_h, 1);
        assert_memory_equal(y[0], y[1], l.bytes);
        assert_memory_equal(h[0], h[1], l.bytes);
        for (int t = 0; t < 2; t++) free(y[t]), free(h[t]);
    }
    free(want), free(want_h);
    close_layer(&l);
}

static void try_types(int64_t m, int64_t n, int64_t k) {
    for (int at = 0; at < 3; at++) {
        tri_dtype type = types[at];
        try_layer((layer){.m = m, .n = n, .k = k, .type = type, .bias = 1});
        try_layer((layer){.m = m, .n = n, .k = k, .type = type});
        try_layer((layer){.m = m, .n = n, .k = k, .type = type, .bias = 1, .gelu = 1, .h = 1});
        try_layer((layer){.m = m, .n = n, .k = k, .type = type, .bias = 1, .gelu = 1});
    }
}

TEST(test_ragged) {
    static const int rows[] = {1, 2, 7, 8, 9, 33, 65}, columns[] = {1, 5, 12, 13, 50, 200}, depths[] = {1, 7, 16, 33};
    for (int m = 0; m < 7; m++)
        for (int n = 0; n < 6; n++)
            for (int k = 0; k < 4; k++)
                try_layer((layer){.m = rows[m], .n = columns[n], .k = depths[k], .type = TRI_F32, .bias = 1});
    try_types(3, 5, 7);
    try_types(17, 101, 70);
    try_types(66, 61, 129);
}

/* Every number of rows up to some tiles of the kernels. */
TEST(test_each_number_of_rows) {
    for (int m = 1; m <= 33; m++) try_layer((layer){.m = m, .n = 37, .k = 65, .type = TRI_F32, .bias = 1});
}

/* Sums of 16 bits would saturate or wrap, in pairs or in all; those of 32 bits do not. */
TEST(test_extreme_factors) {
    static const int depths[] = {2, 64, 1000, 3072, 4096};
    for (int kind = HIGHEST; kind <= OPPOSED; kind++)
        for (int k = 0; k < 5; k++)
            try_layer((layer){.m = 9, .n = 33, .k = depths[k], .kind = kind, .type = TRI_F32, .bias = 1});
}

/* More blocks of k than one, the last one short. */
TEST(test_deep) {
    try_layer((layer){.m = 10, .n = 50, .k = 3079, .type = TRI_F32, .bias = 1});
    try_layer((layer){.m = 67, .n = 30, .k = 6200, .type = TRI_F32});
}

/* No columns of k: the bias alone. */
TEST(test_no_depth) {
    try_layer((layer){.m = 5, .n = 14, .k = 0, .type = TRI_F32, .bias = 1});
}

TEST(test_rows_do_not_depend_on_others) {
    for (int at = 0; at < 3; at++) {
        tri_dtype type = types[at];
        layer l = {.m = 70, .n = 53, .k = 75, .type = type, .bias = 1, .gelu = 1};
        size_t row = (size_t)l.n * tri__dtype_bytes(type);
        open_layer(&l);
        for (int i = 0; i < n_kernels; i++) {
            char *all = result(&l), *alone = result(&l);
            run_kernel(&l, kernels[i], 1, 0, l.m, all, NULL);
            for (int64_t t = 0; t < l.m; t += 3) {
                run_kernel(&l, kernels[i], 1, t, 1, alone, NULL);
                assert_memory_equal(alone, all + (size_t)t * row, row);
            }
            free(all), free(alone);
        }
        close_layer(&l);
    }
}

/* q, s and m of a row in both tables. */
static void try_quantize(tri_dtype type, int64_t rows, int64_t cols, const float *values, const float *maxima,
                         int64_t n_maxima) {
    tri_attr attr = {.factors = TRI_FACTORS_INT8};
    void *x = typed(type, rows * cols, values);
    int8_t *q[2];
    float *s[2], *most[2];
    for (int i = 0; i < 2; i++) {
        const tri_kernel_table *table = i ? &cpu : &reference;
        q[i] = block((size_t)(rows * cols)), s[i] = block((size_t)rows * 4), most[i] = block((size_t)rows * 4);
        tri_call call = {.op = TRI_OP_quantize, .table = table, .attr = &attr, .threads = 2,
                         .t = {{q[i], rows, cols}, {s[i], rows, 1}, {x, rows, cols}, {(void *)(uintptr_t)maxima,
                               n_maxima, 1}},
                         .dtype = {TRI_I8, TRI_F32, (uint8_t)type, TRI_F32}};
        table->run[tri__variant(call.op, call.attr)][type](&call);
        call = (tri_call){.op = TRI_OP_row_max, .table = table, .attr = &attr, .threads = 2,
                          .t = {{most[i], rows, 1}, {x, rows, cols}}, .dtype = {TRI_F32, (uint8_t)type}};
        table->run[tri__variant(call.op, call.attr)][type](&call);
    }
    assert_memory_equal(q[0], q[1], (size_t)(rows * cols));
    for (int64_t t = 0; t < rows; t++) {
        assert_true(s[0][t] == s[1][t] || (isnan(s[0][t]) && isnan(s[1][t])));
        assert_true(most[0][t] == most[1][t] || (isnan(most[0][t]) && isnan(most[1][t])));
    }
    for (int i = 0; i < 2; i++) free(q[i]), free(s[i]), free(most[i]);
    free(x);
}

TEST(test_quantize) {
    static const int widths[] = {1, 3, 4, 15, 16, 17, 33, 64, 100, 384, 1025, 2500};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (int at = 0; at < 3; at++) {
        tri_dtype type = types[at];
        int64_t rows = 7, n = rows * widths[w];
            float *x = floats(n, 11, -3, 3), *maxima = floats(3 * rows, 12, 0, 4);
            try_quantize(type, rows, widths[w], x, NULL, 0);
            try_quantize(type, rows, widths[w], x, maxima, 3 * rows);
            /* Multiples of half a step are ties; the row's end is its largest. */
            for (int64_t i = 0; i < n; i++) x[i] = (float)(i % 255 - 127) * 0.5f;
            x[widths[w] - 1] = -127;
            try_quantize(type, rows, widths[w], x, NULL, 0);
            /* A row of zeros, of tiny numbers, and rows that are not finite. */
            for (int64_t i = 0; i < widths[w]; i++) x[i] = 0, x[widths[w] + i] = 1e-40f;
            x[2 * widths[w]] = NAN, x[4 * widths[w] - 1] = INFINITY, x[4 * widths[w]] = -INFINITY;
            x[6 * widths[w] - 1] = -NAN;
            try_quantize(type, rows, widths[w], x, NULL, 0);
            free(x), free(maxima);
        }
}

int main(int argc, char **argv) { return run_listed(argc, argv, find_kernels, NULL); }
