/* fast.h - the kernel rows written for speed. They override plain rows; which instructions they use is decided at run
 * time by the CPU's features. Results are bitwise independent of the number of threads. */
#ifndef TRI_DEVICE_CPU_FAST_RUNTIME_FAST_H
#define TRI_DEVICE_CPU_FAST_RUNTIME_FAST_H

#include "device/device.h"

void tri__cpu_fast_rows(tri_kernel_table *table);      /* fp32 */
void tri__cpu_fast_half_rows(tri_kernel_table *table); /* bf16: override rows of half.c, whose scratch space they use */
/* Of these, the dense layers of experts and attention, and those that need no instructions for bf16. */
void tri__cpu_linear_experts_half(tri_kernel_table *table);
void tri__cpu_attention_half(tri_kernel_table *table);
void tri__cpu_norm_half(tri_kernel_table *table);
void tri__cpu_sums_half(tri_kernel_table *table);
void tri__cpu_optimizer_half(tri_kernel_table *table);
/* The instruction set used: "neon", "avx2", ... */
const char *tri__cpu_fast_name(void);

#endif
