/* cpu.h - inside the CPU device: the lists of reference rows, one an operation family, each in a file of its name. */
#ifndef TRI_DEVICE_CPU_CPU_H
#define TRI_DEVICE_CPU_CPU_H

#include "device/device.h"

#define TRI_CPU_FAMILIES(X) \
    X(embed) X(norm) X(dropout) X(linear) X(activation) X(attention) X(pool) X(fusion) X(loss) X(update)

#define X(family) extern const tri_kernel_row tri__cpu_##family##_reference[];
TRI_CPU_FAMILIES(X)
#undef X

/* Adds rows of 16-bit types for every operation that has one of fp32. half.c */
void tri__cpu_half_rows(tri_kernel_table *table);
/* The row that it adds for dense layers and their gradients, for rows that cannot take every call. */
void tri__cpu_half_linear(const tri_call *call);

/* Memory of this machine, as tri_device has it; also that of devices which compute nothing. */
tri_status tri__cpu_alloc(size_t bytes, void **out);
tri_status tri__cpu_alloc_second(const char *folder, size_t bytes, void **out);
void tri__cpu_free(void *memory, size_t bytes);

extern const tri_device tri__device_cpu, tri__device_reference;

#endif
