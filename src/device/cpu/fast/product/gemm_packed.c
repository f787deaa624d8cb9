/* gemm_packed.c - products by packed panels and a kernel in registers (Goto and van de Geijn, 2008). For each block of
 * k, threads pack both matrices, synchronise, and take tiles of the result. In a tile one panel, of A or of B, stays in
 * the L1 cache and the tile's panels of the other in L2. If those are B's, consecutive tiles are below one another, so
 * that a thread's next tile finds them there.
 * Rows of A that are contiguous in k need no packing if the kernel can read them in place, which saves up to a fifth of
 * the time when the result is narrow. A panel of B that only one tile uses is packed by that tile, into the L1 cache,
 * just before its use: with few rows, reading B once is most of the work. Rows that do not take part are left out when
 * panels are packed; where the rows of a panel of A are not consecutive, they are gathered first, and its results
 * distributed from a buffer. */
#include "device/cpu/fast/product/gemm.h"
#include "device/cpu/fast/elementwise/simd_activation.h"
#include "device/cpu/fast/product/pack.h"
#include "device/cpu/fast/product/simd_product.h"

/* Most panels packed together; number of tiles that balances the threads; minimum rows of a tile. */
enum { GROUP = 8, ENOUGH_TILES = 24, FEW_ROWS = 32,
       LINE = 16 /* floats of a cache line */ };

typedef struct plan {
    const tri_gemm *g;
    int64_t block;                 /* k per block, padded */
    int64_t tile_rows, tile_columns, tiles_down, tiles_across;
    int64_t rows_in_place;         /* number of rows of A, in whole panels, that are read in place */
    int packs_b;                   /* 1: a tile packs its panels of B one after another, in the place of its first */
    float *a, *b;                  /* panels: [m / MR, block, MR], [n / NR, block, NR] */
} plan;

static int64_t blocks_of(int64_t n, int64_t size) { return n > size ? (n + size - 1) / size : 1; }

/* Number of tiles vertically. If a panel of A stays in cache, all of B is read for each panel, so tiles may be low. */
static int64_t tiles_down(const tri_gemm *g, int64_t across) {
    int64_t down = blocks_of(g->m, PACKED_ROWS), wanted = (ENOUGH_TILES + across - 1) / across,
            most = blocks_of(g->m, FEW_ROWS);
    if (!A_STAYS || wanted <= down) return down;
    return wanted < most ? wanted : most;
}

static plan make_plan(const tri_gemm *g) {
    plan p = {.g = g};
    int64_t blocks = blocks_of(g->k, TRI_GEMM_BLOCK);
    p.block = tri__round_up((g->k + blocks - 1) / blocks, TRI_KERNEL_STEP);
    p.tiles_across = blocks_of(g->n, PACKED_COLUMNS);
    p.tiles_down = tiles_down(g, p.tiles_across);
    p.packs_b = !A_STAYS && p.tiles_down == 1 && g->b_transposed;
    p.tile_rows = tri__round_up((g->m + p.tiles_down - 1) / p.tiles_down, MR);
    p.tile_columns = tri__round_up((g->n + p.tiles_across - 1) / p.tiles_across, NR);
    if (READS_ROWS && !g->a_transposed && g->k % TRI_KERNEL_STEP == 0) p.rows_in_place = g->m / MR * MR;
    p.a = g->work;
    p.b = p.a + tri__round_up(tri__round_up(g->m, MR) * p.block, 16);
    return p;
}

static int64_t row_of(const tri_gemm *g, int64_t i) { return g->rows ? g->rows[i] : i; }

/* 1: the n rows from the i-th on are consecutive. */
static int consecutive(const tri_gemm *g, int64_t i, int64_t n) {
    return !g->rows || g->rows[i + n - 1] - g->rows[i] == n - 1;
}

/* The panel of A from the i-th row on is read where it is. */
static int in_place(const plan *p, int64_t i) {
    return i < p->rows_in_place && consecutive(p->g, i, MR);
}

/* The panel of n rows of A from the i-th on, for k from k0. */
static void pack_rows_of_a(const plan *p, int64_t i, int64_t n, int64_t k0, int64_t size) {
    const tri_gemm *g = p->g;
    float *to = p->a + i * p->block, gathered[MR * TRI_GEMM_BLOCK];
    const float *from = g->a + row_of(g, i) * g->k + k0;
    int64_t ld = g->k;
    if (!consecutive(g, i, n)) {
        for (int64_t r = 0; r < n; r++)
            memcpy(gathered + r * size, g->a + row_of(g, i + r) * g->k + k0, (size_t)size * sizeof *gathered);
        from = gathered, ld = size;
    }
    tri__pack_rows(to, MR, from, ld, n, size, tri__round_up(size, TRI_KERNEL_STEP), 1);
}

/* Rows `begin`, where a panel begins, to `end` - 1 of A for k from k0. */
static void pack_a(const plan *p, int64_t begin, int64_t end, int64_t k0, int64_t size) {
    const tri_gemm *g = p->g;
    int64_t ld = g->ld_a ? g->ld_a : g->m;
    if (g->a_transposed)
        tri__pack_columns(p->a + begin * p->block, MR, MR * p->block, g->a + begin + (g->terms ? 0 : k0 * ld), ld,
                          g->terms ? g->terms + k0 : NULL, end - begin, size, tri__round_up(size, TRI_KERNEL_STEP));
    for (int64_t at = begin; at < end && !g->a_transposed; at += MR)
        if (!in_place(p, at)) pack_rows_of_a(p, at, end - at < MR ? end - at : MR, k0, size);
}

/* The same of columns of B. */
static void pack_b(const plan *p, int64_t begin, int64_t end, int64_t k0, int64_t size) {
    const tri_gemm *g = p->g;
    int64_t padded = tri__round_up(size, TRI_KERNEL_STEP);
    if (!g->b_transposed)
        tri__pack_columns(p->b + begin * p->block, NR, NR * p->block, g->b + begin + (g->terms ? 0 : k0 * g->n), g->n,
                          g->terms ? g->terms + k0 : NULL, end - begin, size, padded);
    for (int64_t at = begin; at < end && g->b_transposed; at += NR)
        tri__pack_rows(p->b + at * p->block, NR, g->b + at * g->k + k0, g->k, end - at < NR ? end - at : NR, size,
                       padded, 1);
}

/* The kernel's initial values: for the first block the bias or zero, otherwise c. */
static const float *start_of(const tri_gemm *g, int64_t k0, int64_t row, int64_t column, int64_t *ld) {
    *ld = 0;
    if (k0 == 0 && !g->add) return g->bias ? g->bias + column : NULL;
    *ld = g->n;
    return g->c + row_of(g, row) * g->n + column;
}

/* The panel of B from this column on, in a tile that begins at column0. */
static float *panel_of(const plan *p, int64_t column, int64_t column0) {
    return p->b + (p->packs_b ? column0 : column) * p->block;
}

static void multiply(const plan *p, int64_t k0, int64_t size, int64_t row, const float *b, const float *init,
                     int64_t ld_init, float *c, int64_t ld) {
    const tri_gemm *g = p->g;
    if (in_place(p, row))
        product_rows(size, g->a + row_of(g, row) * g->k + k0, g->k, b, init, ld_init, c, ld);
    else product(size, p->a + row * p->block, b, init, ld_init, c, ld);
}

/* A kernel tile that extends beyond the edge of c, or has rows that are not consecutive, uses a buffer. */
static void edge(const plan *p, int64_t k0, int64_t size, int64_t row, int64_t column, const float *b) {
    const tri_gemm *g = p->g;
    int64_t rows = g->m - row < MR ? g->m - row : MR, columns = g->n - column < NR ? g->n - column : NR, ld;
    const float *start = start_of(g, k0, row, column, &ld);
    float buffer[MR * NR];
    memset(buffer, 0, sizeof buffer);
    for (int64_t i = 0; start && i < rows; i++)
        memcpy(buffer + i * NR, start + (row_of(g, row + i) - row_of(g, row)) * ld, (size_t)columns * 4);
    multiply(p, k0, size, row, b, start ? buffer : NULL, NR, buffer, NR);
    for (int64_t i = 0; i < rows; i++)
        memcpy(g->c + row_of(g, row + i) * g->n + column, buffer + i * NR, (size_t)columns * 4);
}

static void kernel_tile(const plan *p, int64_t k0, int64_t size, int64_t row, int64_t column, const float *b) {
    const tri_gemm *g = p->g;
    int64_t ld;
    if (row + MR > g->m || column + NR > g->n || !consecutive(g, row, MR)) {
        edge(p, k0, size, row, column, b);
        return;
    }
    const float *start = start_of(g, k0, row, column, &ld);
    multiply(p, k0, size, row, b, start, ld, g->c + row_of(g, row) * g->n + column, g->n);
}

/* One panel of B stays in L1. If B exceeds the L2 cache, each kernel call prefetches part of its next panel. */
static void by_columns(const plan *p, int64_t k0, int64_t size, int64_t row0, int64_t row1, int64_t column0,
                       int64_t column1) {
    const tri_gemm *g = p->g;
    int64_t calls = (row1 - row0 + MR - 1) / MR, real = g->k - k0 < size ? g->k - k0 : size;
    int64_t share = p->tiles_across <= 2 ? 0 : tri__round_up(NR * p->block / calls + 1, LINE); /* floats */
    for (int64_t column = column0; column < column1; column += NR) {
        float *b = panel_of(p, column, column0);
        if (p->packs_b)
            tri__pack_rows(b, NR, g->b + column * g->k + k0, g->k, g->n - column < NR ? g->n - column : NR, real, size,
                           1);
        for (int64_t row = row0, call = 0; row < row1; row += MR, call++) {
            for (int64_t i = 0; !p->packs_b && i < share; i += LINE)
                __builtin_prefetch(b + NR * p->block + call * share + i);
            kernel_tile(p, k0, size, row, column, b);
        }
    }
}

/* One panel of A stays in L1. */
static void by_rows(const plan *p, int64_t k0, int64_t size, int64_t row0, int64_t row1, int64_t column0,
                    int64_t column1) {
    for (int64_t row = row0; row < row1; row += MR)
        for (int64_t column = column0; column < column1; column += NR)
            kernel_tile(p, k0, size, row, column, panel_of(p, column, column0));
}

static void tile(const plan *p, int64_t index, int64_t k0, int64_t size) {
    const tri_gemm *g = p->g;
    int64_t down = A_STAYS ? index % p->tiles_down : index / p->tiles_across;
    int64_t across = A_STAYS ? index / p->tiles_down : index % p->tiles_across;
    int64_t row0 = down * p->tile_rows, column0 = across * p->tile_columns;
    int64_t row1 = row0 + p->tile_rows < g->m ? row0 + p->tile_rows : g->m;
    int64_t column1 = column0 + p->tile_columns < g->n ? column0 + p->tile_columns : g->n;
    (A_STAYS ? by_rows : by_columns)(p, k0, tri__round_up(size, TRI_KERNEL_STEP), row0, row1, column0,
                                              column1);
    if (g->activated && k0 + size >= g->k)
        for (int64_t i = row0; i < row1; i++) {
            int64_t at = row_of(g, i) * g->n + column0;
            simd_act(g->act, column1 - column0, g->c + at, g->activated + at);
        }
}

/* Rows or columns that a thread packs at a time, in panels of `width`: as many for each thread. */
static int64_t group_of(int64_t n, int width, int threads) {
    int64_t panels = blocks_of(n, width), turns = blocks_of(panels, (int64_t)GROUP * threads) * threads;
    return (panels + turns - 1) / turns * width;
}

void PER_ISA(tri__gemm)(const tri_gemm *g) {
    plan p = make_plan(g);
    int64_t tiles = p.tiles_down * p.tiles_across, blocks = blocks_of(g->k, TRI_GEMM_BLOCK);
    int64_t first = g->rows ? 0 : p.rows_in_place, rows = group_of(g->m - first, MR, g->threads);
    int64_t columns = group_of(g->n, NR, g->threads);
#pragma omp parallel num_threads(g->threads)
    for (int64_t block = 0; block < blocks; block++) {
        int64_t k0 = block * p.block, size = g->k - k0 < p.block ? g->k - k0 : p.block;
#pragma omp for schedule(static) nowait
        for (int64_t i = first; i < g->m; i += rows) pack_a(&p, i, i + rows < g->m ? i + rows : g->m, k0, size);
#pragma omp for schedule(static)
        for (int64_t i = p.packs_b ? g->n : 0; i < g->n; i += columns)
            pack_b(&p, i, i + columns < g->n ? i + columns : g->n, k0, size);
#pragma omp for schedule(dynamic, 1)
        for (int64_t i = 0; i < tiles; i++) tile(&p, i, k0, size);
    }
}
