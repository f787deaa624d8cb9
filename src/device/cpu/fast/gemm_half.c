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

/* Rows of `from` are rows of the panel: from[i,c] with row stride ld, rows [n] says which; n of width exist. */
static void pack_rows(const plan *p, uint16_t *to, int width, int group, const uint16_t *from, const int32_t *rows,
                      int64_t ld, int64_t n) {
    for (int64_t at = 0; at < p->k; at += group)
        for (int i = 0; i < width; i++, to += group) {
            const uint16_t *row = from + (i < n ? listed(rows, i) : 0) * ld + at;
            int whole = i < n && at + group <= p->g->k;
            if (whole && group == 2) memcpy(to, row, 4);
            else if (whole && group == 4) memcpy(to, row, 8);
            else if (whole) memcpy(to, row, (size_t)group * sizeof *to);
            else
                for (int c = 0; c < group; c++) to[c] = i < n && at + c < p->g->k ? row[c] : 0;
        }
}

/* Columns of `from` are rows of the panel: from[c,i] with row stride ld; n of width exist. */
static void pack_columns(const plan *p, uint16_t *to, int width, int group, const uint16_t *from, int64_t ld,
                         int64_t n) {
    for (int64_t at = 0; at < p->k; at += group, to += width * group)
        for (int c = 0; c < group; c++) {
            const uint16_t *row = from + (at + c < p->g->k ? listed(p->g->terms, at + c) : 0) * ld;
            int64_t exist = at + c < p->g->k ? n : 0;
            for (int i = 0; i < width; i++) to[i * group + c] = i < exist ? row[i] : 0;
        }
}

/* Panel `i` of a matrix with n panel rows, those of `rows` if given; `along`: its k is contiguous. */
static void pack(const plan *p, uint16_t *panels, int width, int group, const uint16_t *from, const int32_t *rows,
                 int along, int64_t n, int64_t i) {
    int64_t begin = i * width, exist = n - begin < width ? n - begin : width;
    uint16_t *to = panels + begin * p->k;
    if (along && rows) pack_rows(p, to, width, group, from, rows + begin, p->g->k, exist);
    else if (along) pack_rows(p, to, width, group, from + begin * p->g->k, NULL, p->g->k, exist);
    else pack_columns(p, to, width, group, from + begin, n, exist);
}

/* Row `i` of the result, from column j on: n sums. */
static void finish_row(const plan *p, float *sum, int64_t i, int64_t j, int64_t n) {
    const tri_half_gemm *g = p->g;
    int64_t at = listed(g->rows, i) * g->n + j;
    float *wide = g->wide ? (float *)g->c + at : NULL;            /* [n] */
    uint16_t *half = g->c && !g->wide ? (uint16_t *)g->c + at : NULL;
    for (int64_t c = 0; g->add && c < n; c++) sum[c] += wide ? wide[c] : tri__from_bf16(half[c]);
    if (wide) memcpy(wide, sum, (size_t)n * sizeof *sum);
    for (int64_t c = 0; half && c < n; c++) half[c] = tri__to_bf16(sum[c]);
    if (!g->activated) return;
    for (int64_t c = 0; c < n; c++) sum[c] = tri__from_bf16(tri__to_bf16(sum[c]));
    p->simd->gelu(n, sum, sum);
    for (int64_t c = 0; c < n; c++) g->activated[at + c] = tri__to_bf16(sum[c]);
}

static void tile(const plan *p, int64_t row, int64_t column) {
    const tri_half_gemm *g = p->g;
    const tri_half_product *k = p->kernel;
    float sum[TILE_ROWS * TILE_COLUMNS] __attribute__((aligned(64))); /* [rows, TILE_COLUMNS] */
    int64_t rows = g->m - row < p->tile_rows ? g->m - row : p->tile_rows;
    int64_t columns = g->n - column < p->tile_columns ? g->n - column : p->tile_columns;
    for (int64_t i = 0; i < tri__round_up(rows, k->mr); i++)
        for (int64_t j = 0; j < TILE_COLUMNS; j++)
            sum[i * TILE_COLUMNS + j] = g->bias && j < columns ? tri__from_bf16(g->bias[column + j]) : 0;
    if (k->begin) k->begin();
    for (int64_t at = 0; at < p->k; at += k->k_block) {
        int64_t steps = (p->k - at < k->k_block ? p->k - at : k->k_block) / k->step;
        for (int64_t j = 0; j < columns; j += k->nr)
            for (int64_t i = 0; i < rows; i += k->mr)
                k->run(steps, p->a + (row + i) * p->k + at * k->mr, p->b + (column + j) * p->k + at * k->nr,
                       sum + i * TILE_COLUMNS + j, TILE_COLUMNS);
    }
    if (k->end) k->end();
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
            pack(&p, p.a, mr, p.kernel->a_group, g->a, g->rows, !g->a_turned, g->m, i);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < b_panels; i++) pack(&p, p.b, nr, p.kernel->b_group, g->b, NULL, g->b_turned, g->n, i);
#pragma omp for schedule(dynamic, 1)
        for (int64_t i = 0; i < down * across; i++) tile(&p, i / across * p.tile_rows, i % across * p.tile_columns);
    }
}
