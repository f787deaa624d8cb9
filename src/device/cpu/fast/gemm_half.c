/* gemm_half.c - products of bf16 by packed panels (as gemm_packed.c). Threads pack both matrices, synchronise, and take
 * tiles of the result. A tile's sums stay in fp32 in its own buffer until all of k is added: then they are rounded,
 * once. */
#include "device/cpu/fast/gemm_half.h"

#include "device/cpu/fast/pack.h"
#include "device/cpu/fast/simd.h"
#include "layout/float16.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
enum { HAS_BF16 = 1 << 14 }; /* of AT_HWCAP2 */
#endif

enum { TILE_ROWS = 96, TILE_COLUMNS = 128 };

const tri_half_product *tri__half_product(void) {
#if defined(__x86_64__)
    if (tri__amx_granted()) return &tri__half_product_amx;
    if (__builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512f")) return &tri__half_product_avx512;
#elif defined(__aarch64__)
    if (getauxval(AT_HWCAP2) & HAS_BF16) return &tri__half_product_bfmmla;
#endif
    return NULL;
}

typedef struct plan {
    const tri_half_gemm *g;
    const tri_half_product *kernel;
    const tri_simd *simd;
    int64_t k;                           /* padded */
    int64_t tile_rows, tile_columns;
    uint16_t *a, *b;                     /* panels, [k / group, width, group] each */
} plan;

static int64_t panel_elements(const plan *p, int64_t n, int width) { return tri__round_up(n, width) * p->k; }

static plan make_plan(const tri_half_gemm *g) {
    plan p = {.g = g, .kernel = tri__half_product(), .simd = tri__simd()};
    p.k = tri__round_up(g->k, p.kernel->step);
    p.tile_rows = TILE_ROWS / p.kernel->mr * p.kernel->mr;
    p.tile_columns = TILE_COLUMNS / p.kernel->nr * p.kernel->nr;
    p.a = g->work;
    p.b = p.a + tri__round_up(panel_elements(&p, g->m, p.kernel->mr), 32);
    return p;
}

int64_t tri__half_gemm_work(const tri_half_gemm *g) {
    plan p = make_plan(g);
    return 2 * (tri__round_up(panel_elements(&p, g->m, p.kernel->mr), 32) + panel_elements(&p, g->n, p.kernel->nr));
}

static int64_t listed(const int32_t *list, int64_t i) { return list ? list[i] : i; }

/* Panel `i` of A or B, with n panel rows, those of `rows` if given; `along`: its k is contiguous. */
static void pack(const plan *p, int is_b, const uint16_t *from, const int32_t *rows, int along, int64_t n, int64_t i) {
    int width = is_b ? p->kernel->nr : p->kernel->mr;
    int64_t begin = i * width, ld = along ? p->g->k : n;
    tri_half_panel panel = {.is_b = is_b, .turned = !along, .ld = ld, .n = n - begin < width ? n - begin : width,
                            .k = p->g->k, .padded = p->k};
    panel.list = !along ? p->g->terms : rows ? rows + begin : NULL;
    panel.from = !along ? from + begin : rows ? from : from + begin * ld;
    tri__half_pack(p->kernel, &panel, (is_b ? p->b : p->a) + begin * p->k);
}

/* Row `i` of the result, from column j on: n sums. */
static void finish_row(const plan *p, float *sum, int64_t i, int64_t j, int64_t n) {
    const tri_half_gemm *g = p->g;
    int64_t at = listed(g->rows, i) * g->n + j;
    float *wide = g->wide ? (float *)g->c + at : NULL;            /* [n] */
    uint16_t *half = g->c && !g->wide ? (uint16_t *)g->c + at : NULL;
    uint16_t kept[TILE_COLUMNS];
    if (g->bias) p->simd->widen_add(n, g->bias + j, sum);
    if (g->add && half) p->simd->widen_add(n, half, sum);
    for (int64_t c = 0; g->add && wide && c < n; c++) sum[c] += wide[c];
    if (wide) memcpy(wide, sum, (size_t)n * sizeof *sum);
    if (wide) return;
    if (!half) half = kept;
    p->simd->narrow(n, sum, half);
    if (!g->activated) return;
    p->simd->widen(n, half, sum);
    p->simd->gelu(n, sum, sum);
    p->simd->narrow(n, sum, g->activated + at);
}

static void tile(const plan *p, int64_t row, int64_t column) {
    const tri_half_gemm *g = p->g;
    const tri_half_product *k = p->kernel;
    float sum[TILE_ROWS * TILE_COLUMNS] __attribute__((aligned(64))); /* [rows, TILE_COLUMNS] */
    int64_t rows = g->m - row < p->tile_rows ? g->m - row : p->tile_rows;
    int64_t columns = g->n - column < p->tile_columns ? g->n - column : p->tile_columns;
    if (k->begin) k->begin();
    for (int64_t at = 0; at < p->k; at += k->k_block) {
        int64_t steps = (p->k - at < k->k_block ? p->k - at : k->k_block) / k->step;
        for (int64_t j = 0; j < columns; j += k->nr)
            for (int64_t i = 0; i < rows; i += k->mr)
                k->run(steps, p->a + (row + i) * p->k + at * k->mr, p->b + (column + j) * p->k + at * k->nr,
                       sum + i * TILE_COLUMNS + j, TILE_COLUMNS, at > 0);
    }
    if (k->end) k->end();
    if (p->k == 0) memset(sum, 0, sizeof sum);
    for (int64_t i = 0; i < rows; i++) finish_row(p, sum + i * TILE_COLUMNS, row + i, column, columns);
}

void tri__half_gemm(const tri_half_gemm *g) {
    plan p = make_plan(g);
    int mr = p.kernel->mr, nr = p.kernel->nr;
    int64_t a_panels = (g->m + mr - 1) / mr, b_panels = (g->n + nr - 1) / nr;
    int64_t down = (g->m + p.tile_rows - 1) / p.tile_rows, across = (g->n + p.tile_columns - 1) / p.tile_columns;
#pragma omp parallel num_threads(g->threads)
    {
#pragma omp for schedule(static) nowait
        for (int64_t i = 0; i < a_panels; i++)
            pack(&p, 0, g->a, g->rows, !g->a_turned, g->m, i);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < b_panels; i++) pack(&p, 1, g->b, NULL, g->b_turned, g->n, i);
#pragma omp for schedule(dynamic, 1)
        for (int64_t i = 0; i < down * across; i++) tile(&p, i / across * p.tile_rows, i % across * p.tile_columns);
    }
}
