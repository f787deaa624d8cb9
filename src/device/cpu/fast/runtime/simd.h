/* simd.h - vectors of the instruction set that a file is compiled for (isa.h). A result depends on the contents of a
 * range only, never on how ranges are assigned to threads. */
#pragma once

#include "device/cpu/fast/runtime/isa.h"

/* A serial kernel on a range, for rows to call. It is compiled by itself: which products and sums a compiler fuses, and
 * so a result's last bits, must not depend on the row. */
#ifdef __clang__
#define SIMD static __attribute__((noinline))
#else
#define SIMD static __attribute__((noipa))
#endif
#pragma GCC diagnostic ignored "-Wunused-function" /* a file needs some of a header's kernels */

#if defined(TRI_ISA_neon)
#include "device/cpu/fast/runtime/simd_neon.h"
#elif defined(TRI_ISA_sse2)
#include "device/cpu/fast/runtime/simd_sse2.h"
#elif defined(TRI_ISA_avx2)
#include "device/cpu/fast/runtime/simd_avx2.h"
#else
#include "device/cpu/fast/runtime/simd_avx512.h"
#endif
