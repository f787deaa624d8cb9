/* product_amx.c - the bf16 product kernel for x86-64 with AMX: four tiles of 16 x 16 sums. A tile of A is 16 rows of 32
 * of k, unchanged; one of B has pairs of k interleaved. Every thread configures the tiles before its first product and
 * releases them after its last. */
#if defined(__x86_64__)

#include "base/for_isa.h"
#include "device/cpu/fast/product/gemm_half.h"
#include "device/cpu/fast/product/gemm_int8.h"

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

TRI_FOR_ISA("amx-tile,amx-bf16,avx512bw,avx512vl")

#include "device/cpu/fast/product/amx_sums.h"
#include "device/cpu/fast/product/pack_half_avx512.h"

enum { ROWS = TRI_AMX_ROWS, K = 32, MR = 2 * ROWS, NR = 2 * ROWS, ROW_BYTES = 64 };

/* In the layout of LDTILECFG. */
typedef struct tile_shapes {
    uint8_t palette, start, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_shapes;

/* Not on the stack: gcc's intrinsic declares a read of only 8 bytes, and stores to the rest would be optimised away. */
static const tile_shapes shapes = {
    .palette = 1,
#define EIGHT(x) x, x, x, x, x, x, x, x
    .row_bytes = {EIGHT(ROW_BYTES)},
    .rows = {EIGHT(ROWS)},
};

void tri__amx_begin(void) { _tile_loadconfig(&shapes); }

void tri__amx_end(void) { _tile_release(); }

/* a [MR,K] each step, with stride ld_a; steps are a_step apart. b [steps,K / 2,NR,2]. Tiles 0 to 3 are sums, 4 and 5 of
 * A, 6 and 7 of B. */
static inline __attribute__((always_inline)) void product_any(int64_t steps, const uint16_t *a, int64_t ld_a,
                                                              int64_t a_step, const uint16_t *b, float *c, int64_t ld,
                                                              int add) {
    int64_t row_a = ld_a * (int64_t)sizeof *a;
    tri__amx_sums_load(c, ld, add);
    for (; steps > 0; steps--, a += a_step, b += NR * K) {
        _tile_loadd(4, a, row_a);
        _tile_loadd(6, b, 2 * ROW_BYTES);
        _tile_loadd(7, b + K, 2 * ROW_BYTES);
        _tile_loadd(5, a + ROWS * ld_a, row_a);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    tri__amx_sums_store(c, ld);
}

static void product(int64_t steps, const uint16_t *a, const uint16_t *b, float *c, int64_t ld, int add) {
    product_any(steps, a, K, MR * K, b, c, ld, add);
}

static void product_rows(int64_t steps, const uint16_t *a, int64_t ld_a, const uint16_t *b, float *c, int64_t ld,
                         int add) {
    product_any(steps, a, ld_a, K, b, c, ld, add);
}

static void pack_a_rows(const tri_half_panel *p, uint16_t *to) {
    for (int i = 0; i < MR; i++)
        for (int64_t at = 0; at < p->padded; at += K) {
            __mmask32 exist = first_halves(i < p->n ? p->k - at : 0);
            _mm512_storeu_si512(to + at * MR + i * K, _mm512_maskz_loadu_epi16(exist, p->from + i * p->ld + at));
        }
}

static void pack_a_columns(const tri_half_panel *p, uint16_t *to) {
    for (int64_t at = 0; at < p->padded; at += K)
        for (int half = 0; half < 2; half++, to += ROWS * K) {
            __m512i r[16];
#pragma GCC unroll 16
            for (int u = 0; u < 16; u++) {
                _mm_prefetch((const char *)(p->from + (at + K + 16 * half + u) * p->ld), _MM_HINT_T0);
                r[u] = pairs(p, at + 2 * u, ROWS * half);
            }
            transpose16(r);
#pragma GCC unroll 16
            for (int u = 0; u < 16; u++) _mm512_storeu_si512(to + u * K, r[u]);
        }
}

TRI_FOR_ISA_END

const tri_half_product tri__half_product_amx = {
    .name = "amx", .mr = MR, .nr = NR, .a_group = K, .b_group = 2, .step = K, .k_block = 384,
    .begin = tri__amx_begin, .end = tri__amx_end, .run = product, .run_rows = product_rows,
    .a_rows = pack_a_rows, .a_columns = pack_a_columns,
    .b_rows = pack_pairs_of_rows, .b_columns = pack_pairs_of_columns};

/* Bit `kind` of what the CPU says about tiles; 0 also where the system refuses them, which it enables only for
 * processes that request them. */
static int granted(unsigned kind) {
    enum { LEAF = 7, TILE = 1 << 24, ASK = 0x1023, TILE_DATA = 18 };
    unsigned eax = 0, ebx, ecx = 0, edx;
    __asm__("cpuid" : "=a"(eax), "=b"(ebx), "=c"(ecx), "=d"(edx) : "a"(0), "c"(0));
    if (eax < LEAF) return 0;
    __asm__("cpuid" : "=a"(eax), "=b"(ebx), "=c"(ecx), "=d"(edx) : "a"(LEAF), "c"(0));
    return (edx & TILE) && (edx & kind) && syscall(SYS_arch_prctl, ASK, TILE_DATA) == 0;
}

int tri__amx_granted(void) { return tri__half_vectors() && granted(1u << 22); }
int tri__amx_int8_granted(void) { return granted(1u << 25) && __builtin_cpu_supports("avx512bw"); }

#endif
