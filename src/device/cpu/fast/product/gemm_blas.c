/* gemm_blas.c - products by the linked BLAS, BLIS or OpenBLAS: our threads take tiles, and the BLAS runs each tile on
 * one thread. (Its own threads synchronise at spinning barriers, which are slow when cores are shared.) */
#include "device/cpu/fast/product/gemm.h"

#include <string.h>

enum { ROW_MAJOR = 101, PLAIN = 111, TURNED = 112, TILE_ROWS = 128, TILE_COLUMNS = 512 };

void cblas_sgemm(int order, int turn_a, int turn_b, int m, int n, int k, float alpha, const float *a, int lda,
                 const float *b, int ldb, float beta, float *c, int ldc);
void openblas_set_num_threads(int threads) __attribute__((weak));
void bli_thread_set_num_threads(int64_t threads) __attribute__((weak));

static void tile(const tri_gemm *g, int64_t row, int64_t column) {
    int64_t rows = g->m - row < TILE_ROWS ? g->m - row : TILE_ROWS;
    int64_t columns = g->n - column < TILE_COLUMNS ? g->n - column : TILE_COLUMNS;
    const float *a = g->a_turned ? g->a + row : g->a + row * g->k;
    const float *b = g->b_turned ? g->b + column * g->k : g->b + column;
    float *c = g->c + row * g->n + column;
    if (g->bias)
        for (int64_t i = 0; i < rows; i++) memcpy(c + i * g->n, g->bias + column, (size_t)columns * 4);
    cblas_sgemm(ROW_MAJOR, g->a_turned ? TURNED : PLAIN, g->b_turned ? TURNED : PLAIN, (int)rows, (int)columns,
                (int)g->k, 1, a, (int)(g->a_turned ? g->m : g->k), b, (int)(g->b_turned ? g->k : g->n),
                g->add || g->bias ? 1.0f : 0.0f, c, (int)g->n);
    if (g->activated)
        for (int64_t i = 0; i < rows; i++)
            g->simd->act(TRI_ACTIVATION_GELU, columns, c + i * g->n, g->activated + (row + i) * g->n + column);
}

void tri__gemm_blas(const tri_gemm *g) {
    int64_t down = (g->m + TILE_ROWS - 1) / TILE_ROWS, across = (g->n + TILE_COLUMNS - 1) / TILE_COLUMNS;
    if (openblas_set_num_threads) openblas_set_num_threads(1);
    if (bli_thread_set_num_threads) bli_thread_set_num_threads(1);
#pragma omp parallel for schedule(dynamic, 1) num_threads(g->threads)
    for (int64_t i = 0; i < down * across; i++) tile(g, i / across * TILE_ROWS, i % across * TILE_COLUMNS);
}
