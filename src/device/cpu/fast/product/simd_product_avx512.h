/* simd_product_avx512.h - the product kernel of AVX-512, in assembly: gcc 12 moves some of its 24 accumulators through
 * memory. It reaches 200 of 205 GFLOP/s per core with its panels in the L2 cache. Two things come from further away and
 * are prefetched: a panel of B, which exceeds the L1 cache, a few steps ahead; and the rows of c, one after another
 * during the first two thirds of the steps, as all of them at once would occupy the L1 cache's fill buffers. */
#pragma once

/* Row i of the tile is in zmm(8 + 3 i) to zmm(10 + 3 i). */
#define ZERO(v0, v1, v2)                                                                                         \
    "vpxorq %%zmm" #v0 ", %%zmm" #v0 ", %%zmm" #v0 "\n\tvpxorq %%zmm" #v1 ", %%zmm" #v1 ", %%zmm" #v1 "\n\t"     \
    "vpxorq %%zmm" #v2 ", %%zmm" #v2 ", %%zmm" #v2 "\n\t"
#define ADD(v0, v1, v2)                                                                                          \
    "vaddps (%[init]), %%zmm" #v0 ", %%zmm" #v0 "\n\tvaddps 64(%[init]), %%zmm" #v1 ", %%zmm" #v1 "\n\t"         \
    "vaddps 128(%[init]), %%zmm" #v2 ", %%zmm" #v2 "\n\tadd %[init_bytes], %[init]\n\t"
#define STORE(v0, v1, v2)                                                                                        \
    "vmovups %%zmm" #v0 ", (%[c])\n\tvmovups %%zmm" #v1 ", 64(%[c])\n\tvmovups %%zmm" #v2 ", 128(%[c])\n\t"     \
    "add %[c_bytes], %[c]\n\t"
#define TILE(row)                                                                                                \
    row(8, 9, 10) row(11, 12, 13) row(14, 15, 16) row(17, 18, 19) row(20, 21, 22) row(23, 24, 25)                \
    row(26, 27, 28) row(29, 30, 31)
#define ROW(at, a, v0, v1, v2)                                                                                   \
    "vbroadcastss " at ", %%zmm" #a "\n\tvfmadd231ps %%zmm" #a ", %%zmm0, %%zmm" #v0 "\n\t"                      \
    "vfmadd231ps %%zmm" #a ", %%zmm1, %%zmm" #v1 "\n\tvfmadd231ps %%zmm" #a ", %%zmm2, %%zmm" #v2 "\n\t"
#define AHEAD(at) "prefetcht0 1536 + " #at "(%[b])\n\t" /* 8 steps */
/* Rows 0, 1, 2, 4 and 6 of A are addressed relative to row 0, the others relative to row 3. */
#define STEP(at, b0, b1, b2)                                                                                     \
    "vmovups " #b0 "(%[b]), %%zmm0\n\tvmovups " #b1 "(%[b]), %%zmm1\n\tvmovups " #b2 "(%[b]), %%zmm2\n\t"       \
    ROW(#at "(%[a])", 3, 8, 9, 10) AHEAD(b0) ROW(#at "(%[a], %[row])", 4, 11, 12, 13)                            \
    ROW(#at "(%[a], %[row], 2)", 5, 14, 15, 16) AHEAD(b1) ROW(#at "(%[a3])", 6, 17, 18, 19)                      \
    ROW(#at "(%[a], %[row], 4)", 7, 20, 21, 22) AHEAD(b2) ROW(#at "(%[a3], %[row], 2)", 3, 23, 24, 25)           \
    ROW(#at "(%[a], %[row3], 2)", 4, 26, 27, 28) ROW(#at "(%[a3], %[row], 4)", 5, 29, 30, 31)
/* c = init + a b, where columns of A in a group of steps are at 0, at1, at2 and at3 bytes. `part` groups follow the
 * prefetch of each of the `rows` rows of c, then the rest. */
#define PRODUCT(at1, at2, at3, group)                                                                            \
    __asm__ volatile(TILE(ZERO) "test %[rows], %[rows]\n\t"                                                      \
                     "jz 3f\n"                                                                                   \
                     "1:\n\t"                                                                                    \
                     "prefetchw (%[next])\n\tprefetchw 64(%[next])\n\tprefetchw 128(%[next])\n\t"                \
                     "prefetchw 188(%[next])\n\tadd %[c_bytes], %[next]\n\t"                                     \
                     "mov %[part], %[count]\n\tsub %[part], %[steps]\n\t"                                        \
                     ".p2align 5\n"                                                                              \
                     "2:\n\t" STEP(0, 0, 64, 128) STEP(at1, 192, 256, 320) STEP(at2, 384, 448, 512)              \
                     STEP(at3, 576, 640, 704)                                                                    \
                     "add $" #group ", %[a]\n\tadd $" #group ", %[a3]\n\tadd $768, %[b]\n\t"                     \
                     "dec %[count]\n\tjnz 2b\n\t"                                                                \
                     "dec %[rows]\n\tjg 1b\n\tjl 4f\n"                                                           \
                     "3:\n\t"                                                                                    \
                     "mov %[steps], %[count]\n\ttest %[count], %[count]\n\tjnz 2b\n"                             \
                     "4:\n\t"                                                                                    \
                     "test %[init], %[init]\n\tjz 5f\n\t" TILE(ADD) "5:\n\t" TILE(STORE)                         \
                     : [a] "+r"(a), [a3] "+r"(a3), [b] "+r"(b), [init] "+r"(init), [c] "+r"(c),                  \
                       [steps] "+r"(steps), [rows] "+r"(rows), [next] "+r"(next), [count] "=&r"(count)           \
                     : [row] "r"(row), [row3] "r"(3 * row), [init_bytes] "rm"(ld_init * 4),                      \
                       [c_bytes] "rm"(ld * 4), [part] "rm"(part)                                                 \
                     : "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10",  \
                       "zmm11", "zmm12", "zmm13", "zmm14", "zmm15", "zmm16", "zmm17", "zmm18", "zmm19", "zmm20", \
                       "zmm21", "zmm22", "zmm23", "zmm24", "zmm25", "zmm26", "zmm27", "zmm28", "zmm29", "zmm30", \
                       "zmm31", "cc", "memory")

static void product(int64_t k, const float *a, const float *b, const float *init, int64_t ld_init, float *c,
                    int64_t ld) {
    int64_t row = sizeof *a, steps = k / TRI_KERNEL_STEP, part = steps / (MR * 3 / 2), rows = part ? MR : 0, count;
    const float *a3 = a + 3, *next = c;
    PRODUCT(32, 64, 96, 128);
}

#define TRI_SIMD_OWN_PRODUCT_ROWS
static void product_rows(int64_t k, const float *a, int64_t ld_a, const float *b, const float *init, int64_t ld_init,
                         float *c, int64_t ld) {
    int64_t row = ld_a * (int64_t)sizeof *a, steps = k / TRI_KERNEL_STEP, part = steps / (MR * 3 / 2),
            rows = part ? MR : 0, count;
    const float *a3 = a + 3 * ld_a, *next = c;
    PRODUCT(4, 8, 12, 16);
}
