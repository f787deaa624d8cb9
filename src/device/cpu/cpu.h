/* cpu.h - inside the CPU device: the lists of reference rows, one per operation family, each in a file of its name. */
#pragma once

#include "device/device.h"

#define TRI_CPU_FAMILIES(X) \
    X(embed) X(norm) X(dropout) X(linear) X(activation) X(rope) X(attention) X(attention_part) X(heads) \
    X(pool) X(experts) X(fusion) X(loss) X(update) X(optimizer) \
    X(outer) X(quantized) X(fp8) X(coded) X(columns)

#define X(family) extern const tri_kernel_row tri__cpu_##family##_reference[];
TRI_CPU_FAMILIES(X)
#undef X

/* Adds 16-bit rows for every operation that has an fp32 row. half.c */
void tri__cpu_half_rows(tri_kernel_table *table);
/* Operations composed of other rows of the table, which must be complete. */
void tri__cpu_part_rows(tri_kernel_table *table);
/* Those of FP8 training, likewise. reference/fp8.c */
void tri__cpu_fp8_parts(tri_kernel_table *table);
/* The row that tri__cpu_half_rows adds for the call's operation: the fallback of rows that do not handle every call. */
void tri__cpu_half_row(const tri_call *call);

/* Host memory with the interface of tri_device; also used by devices that compute nothing. The context is NULL. */
tri_status tri__cpu_open(const tri_core *core, int local, size_t inputs, void **context);
void tri__cpu_close(void *context);
tri_status tri__cpu_room(const tri_core *core, int local, int64_t *bytes);
tri_status tri__cpu_alloc(void *context, size_t bytes, void **out);
tri_status tri__cpu_alloc_second(void *context, const char *folder, size_t bytes, void **out);
void tri__cpu_free(void *context, void *memory, size_t bytes);
#define TRI_CPU_MEMORY \
    .granule = 1, .open = tri__cpu_open, .close = tri__cpu_close, .room = tri__cpu_room, .alloc = tri__cpu_alloc, \
    .alloc_offload = tri__cpu_alloc_second, .free = tri__cpu_free

extern const tri_device tri__device_cpu, tri__device_reference;
