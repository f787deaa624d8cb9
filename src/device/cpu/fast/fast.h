/* fast.h - the kernel rows written for speed. They override plain rows; what the CPU has decides at run time which
 * instructions they use. Results do not depend on the number of threads, to the bit. */
#ifndef TRI_DEVICE_CPU_FAST_FAST_H
#define TRI_DEVICE_CPU_FAST_FAST_H

#include "device/device.h"

void tri__cpu_fast_rows(tri_kernel_table *table);      /* fp32 */
void tri__cpu_fast_half_rows(tri_kernel_table *table); /* bf16: over those of half.c, whose scratch space they use */
/* The instructions used: "neon", "avx2", ... */
const char *tri__cpu_fast_name(void);

#endif
