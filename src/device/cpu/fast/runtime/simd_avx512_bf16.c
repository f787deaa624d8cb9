/* simd_avx512_bf16.c - the same with AVX512-BF16, whose instruction rounds to bf16. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512bf16,avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bf16,avx2,fma")
#endif

#define TRI_SIMD_BF16
#include "device/cpu/fast/runtime/simd_avx512.h"

const tri_simd tri__simd_avx512_bf16 = TRI_SIMD_TABLE("avx512", .product_rows = product_rows, .tile_rows = 128,
                                                      .tile_columns = 384, .a_stays = 1);

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
