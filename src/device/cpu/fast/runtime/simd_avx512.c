/* simd_avx512.c - the serial kernels for x86-64 with AVX-512 F and DQ. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx2,fma")
#endif

#include "device/cpu/fast/runtime/simd_avx512.h"

const tri_simd tri__simd_avx512 = TRI_SIMD_TABLE("avx512", .product_rows = product_rows, .tile_rows = 128,
                                                 .tile_columns = 384, .a_stays = 1);

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
