/* device.c - finds a device by its name, builds kernel tables, and describes a device to the planner. */
#include "device/device.h"

#include "device/cpu/cpu.h"
#include "device/null/null.h"

#include <string.h>

#define DEVICES(X) X(cpu) X(reference) X(null) X(timed)

static const tri_device *const devices[] = {
#define X(name) &tri__device_##name,
    DEVICES(X)
#undef X
};

const tri_device *tri__device_find(const char *name) {
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        if (strcmp(devices[i]->name, name) == 0) return devices[i];
    return NULL;
}

const char *tri__device_names(void) {
#define X(name) ", " #name
    return &DEVICES(X)[2];
#undef X
}

void tri__kernel_table_add(tri_kernel_table *table, const tri_kernel_row *rows) {
    for (; rows->run; rows++) {
        table->run[rows->op][rows->dtype] = rows->run;
        table->work[rows->op][rows->dtype] = rows->work;
    }
}

void tri__device_target(const tri_device *device, tri_target *target) {
    tri_kernel_table table;
    device->kernels(&table);
    *target = (tri_target){.name = device->name, .granule = 1, .flops = device->flops, .bytes = device->bytes};
    for (int op = 0; op < TRI_OP_COUNT; op++) {
        for (int dtype = 0; dtype < TRI_DTYPE_COUNT; dtype++) {
            target->has[op][dtype] = table.run[op][dtype] != NULL;
            target->work[op][dtype] = table.work[op][dtype];
        }
    }
}
