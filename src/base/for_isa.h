/* for_isa.h - functions for an instruction set that the rest of the build does without: those that stand between
 * TRI_FOR_ISA("avx2") and TRI_FOR_ISA_END, inline ones of headers that are included there too. */
#pragma once

#define TRI_PRAGMA(...) _Pragma(#__VA_ARGS__)
#if defined(__clang__)
#define TRI_FOR_ISA(isa) TRI_PRAGMA(clang attribute push(__attribute__((target(isa))), apply_to = function))
#define TRI_FOR_ISA_END TRI_PRAGMA(clang attribute pop)
#else
#define TRI_FOR_ISA(isa) TRI_PRAGMA(GCC push_options) TRI_PRAGMA(GCC target(isa))
#define TRI_FOR_ISA_END TRI_PRAGMA(GCC pop_options)
#endif
