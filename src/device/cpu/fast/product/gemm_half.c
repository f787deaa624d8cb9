/* gemm_half.c - products of bf16 by packed panels (as gemm_packed.c). Threads pack both matrices, synchronise, and take
 * tiles of the result. A tile's sums stay in fp32 in its own buffer until all of k is added: then they are rounded,
 * once. */
#include "device/cpu/fast/product/gemm_half.h"

#include "device/cpu/fast/product/pack.h"
#include "device/cpu/fast/product/simd_finish.h"
#include "numbers/float16.h"

/* Sums of SUM_ROWS rows of a tile are rounded together, while they are in the L1 cache. fp32 results are summed in
 * place, in larger tiles, as their k is long: panels of a block of k stay in the L2 cache. Each element is summed in
 * the same order in tiles of any size. */
enum { TILE_ROWS = 96, TILE_COLUMNS = 128, SUM_ROWS = 32, WIDE_ROWS = 192, WIDE_COLUMNS = 384, KERNEL_MOST = 32,
       TRANSPOSED_ROWS = 64 /* of k; a multiple of each kernel's step */ };

typedef struct plan {
    const tri_half_gemm *g;
    const tri_half_product *kernel;
    int64_t k;                           /* padded */
    int64_t tile_rows, tile_columns;
    int64_t in_place;                    /* rows of A that are read where they are */
    uint16_t *a, *b;                     /* panels, [k / group, width, group] each */
} plan;

static int64_t panel_elements(const plan *p, int64_t n, int width) { return tri__round_up(n, width) * p->k; }

static int64_t tiles_of(const tri_half_gemm *g, int64_t rows, int64_t columns) {
    return ((g->m + rows - 1) / rows) * ((g->n + columns - 1) / columns);
}

static plan make_plan(const tri_half_gemm *g) {
    plan p = {.g = g, .kernel = tri__half_product()};
    p.k = tri__round_up(g->k, p.kernel->step);
    int64_t rows = g->wide ? WIDE_ROWS : TILE_ROWS, columns = g->wide ? WIDE_COLUMNS : TILE_COLUMNS;
    if (tiles_of(g, rows, columns) < 2 * g->threads) columns = TILE_COLUMNS;
    if (tiles_of(g, rows, columns) < 2 * g->threads) rows = TILE_ROWS;
    p.tile_rows = rows / p.kernel->mr * p.kernel->mr;
    p.tile_columns = columns / p.kernel->nr * p.kernel->nr;
    if (p.kernel->run_rows && !g->a_transposed && !g->rows && g->k == p.k) p.in_place = g->m - g->m % p.kernel->mr;
    p.a = g->work;
    p.b = p.a + tri__round_up(panel_elements(&p, g->m, p.kernel->mr), 32);
    return p;
}

int64_t PER_ISA(tri__half_gemm_work)(const tri_half_gemm *g) {
    plan p = make_plan(g);
    return 2 * (tri__round_up(panel_elements(&p, g->m, p.kernel->mr), 32) + panel_elements(&p, g->n, p.kernel->nr));
}

int PER_ISA(tri__half_gemm_fits_any)(const tri_half_gemm *g) {
    int64_t of_row = 4 * (g->k + g->n), of_weights = 4 * g->k * g->n;
    tri_half_gemm one = *g;
    one.m = 1;
    return PER_ISA(tri__half_gemm_work)(&one) <= of_row + of_weights &&
           2 * tri__round_up(g->k, tri__half_product()->step) <= of_row;
}

static int64_t listed(const int32_t *list, int64_t i) { return list ? list[i] : i; }

/* One of the two matrices. */
typedef struct side {
    int is_b, along;           /* along: its k is contiguous */
    const uint16_t *from;
    const int32_t *rows;       /* those of a matrix along k; NULL: all */
    int64_t n;                 /* panel rows */
    int width;
} side;

/* Panel `i`, from k0 on, `size` of k. */
static void pack(const plan *p, const side *s, int64_t i, int64_t k0, int64_t size) {
    const tri_half_gemm *g = p->g;
    int64_t begin = i * s->width, ld = s->along ? g->k : s->n, exist = s->n - begin, left = g->k - k0;
    tri_half_panel panel = {.is_b = s->is_b, .transposed = !s->along, .ld = ld, .k = left < size ? left : size,
                            .n = exist < s->width ? exist : s->width, .padded = p->k - k0 < size ? p->k - k0 : size};
    if (s->along) {
        panel.list = s->rows ? s->rows + begin : NULL;
        panel.from = s->from + (s->rows ? 0 : begin * ld) + k0;
    } else {
        panel.list = g->terms ? g->terms + k0 : NULL;
        panel.from = s->from + begin + (g->terms ? 0 : k0 * ld);
    }
    tri__half_pack(p->kernel, &panel, (s->is_b ? p->b : p->a) + begin * p->k + k0 * s->width);
}

/* How many pieces of work packing is, and one of them: a panel, or all panels of some rows of a matrix that is
 * transposed, so that its rows are read whole. */
static int64_t pieces(const plan *p, const side *s) {
    return s->along ? (s->n + s->width - 1) / s->width : (p->k + TRANSPOSED_ROWS - 1) / TRANSPOSED_ROWS;
}
static void pack_piece(const plan *p, const side *s, int64_t i) {
    if (s->along) pack(p, s, i, 0, p->k);
    for (int64_t panel = 0; !s->along && panel * s->width < s->n; panel++)
        pack(p, s, panel, i * TRANSPOSED_ROWS, TRANSPOSED_ROWS);
}

/* Row `i` of a bf16 result, from column j on: n sums. */
static void finish_row(const plan *p, const float *sum, int64_t i, int64_t j, int64_t n) {
    const tri_half_gemm *g = p->g;
    int64_t at = listed(g->rows, i) * g->n + j;
    tri_half_row row = {.bias = g->bias ? g->bias + j : NULL, .y = g->c ? (uint16_t *)g->c + at : NULL, .add = g->add,
                        .act = g->act, .activated = g->activated ? g->activated + at : NULL,
                        .slope_at = g->slope_at ? g->slope_at + at : NULL};
    PER_ISA(tri__finish_half)(&row, n, sum);
}

/* Blocks of k, of A's rows and of B's columns of a tile into c, with row stride ld; c is added to after the first block
 * of k, or from the first. */
static void tile_sums(const plan *p, int64_t row, int64_t column, int64_t rows, int64_t columns, float *c, int64_t ld,
                      int add) {
    const tri_half_product *k = p->kernel;
    for (int64_t at = 0; at < p->k; at += k->k_block) {
        int64_t steps = (p->k - at < k->k_block ? p->k - at : k->k_block) / k->step;
        for (int64_t j = 0; j < columns; j += k->nr)
            for (int64_t i = 0; i < rows; i += k->mr) {
                const uint16_t *b = p->b + (column + j) * p->k + at * k->nr;
                if (row + i < p->in_place)
                    k->run_rows(steps, p->g->a + (row + i) * p->k + at, p->k, b, c + i * ld + j, ld, add || at > 0);
                else
                    k->run(steps, p->a + (row + i) * p->k + at * k->mr, b, c + i * ld + j, ld, add || at > 0);
            }
    }
}

/* The part of `slope_at` that a tile's rows need: rows are far apart, and each part is too short for the hardware to
 * foresee the next. Inline: gcc removes calls of functions that only prefetch. */
static inline __attribute__((always_inline)) void prefetch_slopes(const plan *p, int64_t row, int64_t column,
                                                                  int64_t rows, int64_t columns) {
    enum { LINE = 32 }; /* elements */
    const tri_half_gemm *g = p->g;
    for (int64_t i = 0; g->slope_at && i < rows; i++)
        for (int64_t j = 0; j < columns; j += LINE)
            __builtin_prefetch(g->slope_at + listed(g->rows, row + i) * g->n + column + j);
}

static void half_tile(const plan *p, int64_t row, int64_t column, int64_t rows, int64_t columns) {
    float sum[SUM_ROWS * TILE_COLUMNS] __attribute__((aligned(64)));
    int64_t step = SUM_ROWS / p->kernel->mr * p->kernel->mr;
    for (int64_t i = 0; i < rows; i += step) {
        int64_t some = rows - i < step ? rows - i : step;
        if (p->k == 0) memset(sum, 0, sizeof sum);
        prefetch_slopes(p, row + i, column, some, columns);
        tile_sums(p, row + i, column, some, columns, sum, TILE_COLUMNS, 0);
        for (int64_t u = 0; u < some; u++) finish_row(p, sum + u * TILE_COLUMNS, row + i + u, column, columns);
    }
}

/* Part of an fp32 tile at the result's edge, by one kernel tile in a buffer. */
static void wide_edge(const plan *p, int64_t row, int64_t column, int64_t rows, int64_t columns) {
    const tri_half_gemm *g = p->g;
    float sum[KERNEL_MOST * KERNEL_MOST] = {0}, *c = (float *)g->c + row * g->n + column;
    for (int64_t i = 0; g->add && i < rows; i++)
        memcpy(sum + i * KERNEL_MOST, c + i * g->n, (size_t)columns * sizeof *c);
    tile_sums(p, row, column, rows, columns, sum, KERNEL_MOST, 1);
    for (int64_t i = 0; i < rows; i++) memcpy(c + i * g->n, sum + i * KERNEL_MOST, (size_t)columns * sizeof *c);
}

static void wide_tile(const plan *p, int64_t row, int64_t column, int64_t rows, int64_t columns) {
    const tri_half_gemm *g = p->g;
    int mr = p->kernel->mr, nr = p->kernel->nr;
    int64_t whole_rows = p->k ? rows / mr * mr : 0, whole_columns = p->k ? columns / nr * nr : 0;
    tile_sums(p, row, column, whole_rows, whole_columns, (float *)g->c + row * g->n + column, g->n, g->add);
    for (int64_t i = 0; i < rows; i += mr)
        for (int64_t j = i < whole_rows ? whole_columns : 0; j < columns; j += nr)
            wide_edge(p, row + i, column + j, rows - i < mr ? rows - i : mr, columns - j < nr ? columns - j : nr);
}

static void tile(const plan *p, int64_t row, int64_t column) {
    int64_t rows = p->g->m - row < p->tile_rows ? p->g->m - row : p->tile_rows;
    int64_t columns = p->g->n - column < p->tile_columns ? p->g->n - column : p->tile_columns;
    if (p->kernel->begin) p->kernel->begin();
    (p->g->wide ? wide_tile : half_tile)(p, row, column, rows, columns);
    if (p->kernel->end) p->kernel->end();
}

void PER_ISA(tri__half_gemm)(const tri_half_gemm *g) {
    plan p = make_plan(g);
    const side a = {.along = !g->a_transposed, .from = g->a, .rows = g->rows, .n = g->m, .width = p.kernel->mr};
    const side b = {.is_b = 1, .along = g->b_transposed, .from = g->b, .n = g->n, .width = p.kernel->nr};
    int64_t down = (g->m + p.tile_rows - 1) / p.tile_rows, across = (g->n + p.tile_columns - 1) / p.tile_columns;
#pragma omp parallel num_threads(g->threads)
    {
#pragma omp for schedule(static) nowait
        for (int64_t i = p.in_place / a.width; i < pieces(&p, &a); i++) pack_piece(&p, &a, i);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < pieces(&p, &b); i++) pack_piece(&p, &b, i);
#pragma omp for schedule(dynamic, 1)
        for (int64_t i = 0; i < down * across; i++) tile(&p, i / across * p.tile_rows, i % across * p.tile_columns);
    }
}
