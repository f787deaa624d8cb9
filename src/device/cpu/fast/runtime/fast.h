/* fast.h - the kernel rows written for speed. They override plain rows; which instructions they use is decided at run
 * time by the CPU's features. Results are bitwise independent of the number of threads. */
#pragma once

#include "device/device.h"

void tri__cpu_fast_rows(tri_kernel_table *table);
/* Those that replace rows of half.c, whose scratch space they use (TRI_AS_HALF). */
void tri__cpu_fast_half_rows(tri_kernel_table *table);
/* The instruction set used: "neon", "avx2", ... */
const char *tri__cpu_fast_name(void);
