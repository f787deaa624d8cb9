/* gemm_int8.c - products of int8 matrices. A thread takes a tile of the result and computes it group of columns by
 * group of columns: sums in a buffer, then what becomes of them. Kernels that need panels get them in the thread's
 * buffers: the tile's rows of A in the L2 cache, one panel of B (rows of a weight matrix) in the L1 cache. Weights are
 * read once for every TILE_ROWS rows of A, so nothing is prepared for short products, and threads do not wait for each
 * other. */
#include "device/cpu/fast/product/gemm_int8.h"

#include "device/cpu/convert.h"
#include "device/cpu/fast/product/pack.h"
#include "device/cpu/fast/elementwise/simd_activation.h"
#include "device/cpu/fast/product/simd_quantized.h"

#include <stdlib.h>

/* Rows of a tile; bytes of k at a time; the most columns that are finished together, and such groups in a
 * tile. */
enum {
    TILE_ROWS = TRI_INT8_ROWS,
    BLOCK_BYTES = 3072,
    COLUMNS = TRI_INT8_COLUMNS,
    TILE_GROUPS = 4,
    MOST_SIDE = 32 /* rows or columns of a kernel that reads in place */
};

typedef struct plan {
    const tri_int8_gemm *g;
    const tri_int8_product *kernel;
    int64_t columns;                     /* finished together: whole panels */
} plan;

/* A thread's panels, too large for the stack of a thread. */
typedef struct panels {
    int8_t a[TILE_ROWS * BLOCK_BYTES] __attribute__((aligned(64)));
    int8_t b[COLUMNS * (BLOCK_BYTES + TRI_INT8_TAIL)] __attribute__((aligned(64)));
} panels;

/* A thread's buffers. */
typedef struct buffers {
    int32_t sum[TILE_ROWS * COLUMNS] __attribute__((aligned(64)));
    float value[TILE_ROWS * COLUMNS] __attribute__((aligned(64))); /* sums, scaled */
    float a_scale[TILE_ROWS], b_scale[COLUMNS], bias[COLUMNS];      /* zeros after their end */
    const int8_t *rows[TILE_ROWS];                                  /* of A, for kernels that read in place */
    panels *panel;                                                  /* for the others; NULL: there is no memory */
} buffers;

/* Element [row,column] of a matrix [m,n] of the type of the result. */
static void *at_element(const tri_int8_gemm *g, void *matrix, int64_t row, int64_t column) {
    return (char *)matrix + (size_t)(row * g->n + column) * tri__dtype_bytes(g->type);
}

static void round_row(tri_dtype type, int64_t n, float *x) {
    if (type == TRI_BF16)
        for (int64_t i = 0; i < n; i++) x[i] = tri__from_bf16(tri__to_bf16(x[i]));
    else if (type == TRI_F16)
        for (int64_t i = 0; i < n; i++) x[i] = tri__from_f16(tri__to_f16(x[i]));
}

/* Rows of results in own->value, [rows,COLUMNS]. */
static void finish(const plan *p, buffers *own, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const tri_int8_gemm *g = p->g;
    for (int64_t i = 0; i < rows; i++) {
        float *value = own->value + i * COLUMNS;
        if (g->h) tri__narrow(g->type, columns, value, at_element(g, g->h, row + i, column));
        if (g->activation) {
            round_row(g->type, columns, value);
            simd_act((tri_activation)(g->activation - 1), columns, value, value);
        }
        tri__narrow(g->type, columns, value, at_element(g, g->c, row + i, column));
    }
}

static void pack_a(const plan *p, buffers *own, int64_t row, int64_t rows, int64_t k0, int64_t k, int64_t padded) {
    const tri_int8_product *kernel = p->kernel;
    for (int64_t i = 0; i < rows; i += kernel->mr)
        kernel->pack_a(own->panel->a + i * padded * kernel->element, p->g->a + (row + i) * p->g->k + k0, p->g->k,
                       rows - i < kernel->mr ? rows - i : kernel->mr, k, padded);
}

/* Scales sums and adds biases, to y, which has row stride ld. */
static void scale(const buffers *own, int64_t rows, int64_t columns, float *y, int64_t ld) {
    for (int64_t i = 0; i < rows; i++)
        simd_scale_sums(columns, own->sum + i * COLUMNS, own->a_scale[i], own->b_scale, own->bias, y + i * ld);
}

/* Sums without panels, where there is no memory for them: the same bits, sums of integers have no order. */
static void by_numbers(const plan *p, buffers *own, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const tri_int8_gemm *g = p->g;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            int32_t sum = 0;
            for (int64_t k = 0; k < g->k; k++) sum += g->a[(row + i) * g->k + k] * g->b[(column + j) * g->k + k];
            own->sum[i * COLUMNS + j] = sum;
        }
}

/* `rows` rows and `columns` columns of sums, by panels, which are packed here, except those of A when `packed`. */
static void by_panels(const plan *p, buffers *own, int64_t row, int64_t rows, int64_t column, int64_t columns,
                      int packed) {
    const tri_int8_gemm *g = p->g;
    const tri_int8_product *kernel = p->kernel;
    int64_t block = BLOCK_BYTES / kernel->element;
    for (int64_t k0 = 0; k0 == 0 || k0 < g->k; k0 += block) {
        int64_t k = g->k - k0 < block ? g->k - k0 : block, padded = tri__round_up(k, kernel->step);
        if (!packed || g->k > block) pack_a(p, own, row, rows, k0, k, padded);
        for (int64_t j = 0; j < columns; j += kernel->nr) {
            const int8_t *from = g->b + (column + j) * g->k + k0;
            kernel->pack_b(own->panel->b, from, g->k, columns - j < kernel->nr ? columns - j : kernel->nr, k, padded);
            for (int64_t i = 0; i < rows; i += kernel->mr)
                kernel->run(padded / kernel->step, own->panel->a + i * padded * kernel->element, own->panel->b,
                            own->sum + i * COLUMNS + j, COLUMNS, k0 > 0);
        }
    }
}

/* Rows i to i + n - 1 of a matrix of k columns; rows from `exist` on are the last one again: nobody reads their sums.
 */
static void rows_at(const int8_t *matrix, int64_t k, int64_t i, int n, int64_t exist, const int8_t *rows[]) {
    for (int u = 0; u < n; u++) rows[u] = matrix + (i + u < exist ? i + u : exist - 1) * k;
}

/* The same in place; y has whole tiles of the kernel. */
static void in_place(const plan *p, buffers *own, int64_t rows, int64_t column, int64_t columns, float *y, int64_t ld) {
    const tri_int8_gemm *g = p->g;
    const tri_int8_product *kernel = p->kernel;
    const int8_t *b[MOST_SIDE];
    tri_int8_rows what = {
        .k = g->k, .rows = tri__round_up(rows, kernel->mr), .a = own->rows, .b = b, .a_scale = own->a_scale, .ld = ld};
    for (int64_t j = 0; j < columns; j += kernel->nr) {
        rows_at(g->b, g->k, column + j, kernel->nr, g->n, b);
        what.b_scale = own->b_scale + j, what.bias = own->bias + j, what.y = y + j;
        what.next = b[0] + kernel->nr * g->k;
        kernel->in_place(&what);
    }
}

/* Scales and biases of a group of columns; a missing bias is -0, which leaves every sum as it is. */
static void take_columns(const tri_int8_gemm *g, buffers *own, int64_t column, int64_t columns) {
    memset(own->b_scale, 0, sizeof own->b_scale);
    memcpy(own->b_scale, g->b_scale + column, (size_t)columns * sizeof *own->b_scale);
    for (int j = 0; j < COLUMNS; j++) own->bias[j] = -0.0f;
    if (g->bias)
        tri__widen(g->type, columns, (const char *)g->bias + (size_t)column * tri__dtype_bytes(g->type), own->bias);
}

static void tile(const plan *p, panels *panel, int64_t row, int64_t first, int64_t last) {
    const tri_int8_gemm *g = p->g;
    const tri_int8_product *kernel = p->kernel;
    buffers own;
    own.panel = panel;
    int64_t rows = g->m - row < TILE_ROWS ? g->m - row : TILE_ROWS;
    memset(own.a_scale, 0, sizeof own.a_scale);
    memcpy(own.a_scale, g->a_scale + row, (size_t)rows * sizeof *own.a_scale);
    if (kernel->in_place) rows_at(g->a, g->k, row, (int)tri__round_up(rows, kernel->mr), g->m, own.rows);
    if (kernel->begin) kernel->begin();
    for (int64_t column = first; column < last; column += p->columns) {
        int64_t columns = last - column < p->columns ? last - column : p->columns;
        int direct = g->type == TRI_F32 && !g->activation && rows % kernel->mr == 0 && columns % kernel->nr == 0;
        float *y = direct ? (float *)g->c + row * g->n + column : own.value;
        take_columns(g, &own, column, columns);
        if (kernel->in_place) in_place(p, &own, rows, column, columns, y, direct ? g->n : COLUMNS);
        else if (panel) by_panels(p, &own, row, rows, column, columns, column > first);
        else by_numbers(p, &own, row, rows, column, columns);
        if (!kernel->in_place) scale(&own, rows, columns, y, direct ? g->n : COLUMNS);
        if (!direct) finish(p, &own, row, rows, column, columns);
    }
    if (kernel->end) kernel->end();
}

void PER_ISA(tri__int8_gemm)(const tri_int8_gemm *g) {
    plan p = {.g = g, .kernel = g->kernel};
    p.columns = COLUMNS / g->kernel->nr * g->kernel->nr;
    int64_t width = TILE_GROUPS * p.columns, down = (g->m + TILE_ROWS - 1) / TILE_ROWS,
            across = (g->n + width - 1) / width;
#pragma omp parallel num_threads(g->threads)
    {
        panels *panel = g->kernel->in_place ? NULL : aligned_alloc(64, sizeof *panel);
#pragma omp for schedule(dynamic, 1)
        for (int64_t i = 0; i < down * across; i++) {
            int64_t first = i % across * width, last = first + width < g->n ? first + width : g->n;
            tile(&p, panel, i / across * TILE_ROWS, first, last);
        }
        free(panel);
    }
}
