/* rows.c - the fast rows of an instruction set: those of files that are compiled for it, and of those that are compiled
 * once. The Makefile finds their names (TRI_FAST_ROWS). */
#include "device/cpu/fast/runtime/isa.h"

#include "device/cpu/fast/runtime/call.h"

#define X(family) extern TRI_FAST_ROWS(family);
TRI_SIMD_FAMILIES(X)
#undef X
#define X(family) extern const tri_kernel_row tri__cpu_##family##_fast[];
TRI_PLAIN_FAMILIES(X)
#undef X

const tri_kernel_row *const PER_ISA(tri__cpu_fast_lists)[] = {
#define X(family) PER_ISA(tri__cpu_##family##_fast),
    TRI_SIMD_FAMILIES(X)
#undef X
#define X(family) tri__cpu_##family##_fast,
    TRI_PLAIN_FAMILIES(X)
#undef X
    NULL};
