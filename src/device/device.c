/* device.c - finds a device by its name, builds kernel tables, and describes a device to the planner. */
#include "device/device.h"

#include "device/cpu/cpu.h"
#include "device/null/null.h"
#include "device/plugin.h"

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

const tri_core tri__core = {.fail = tri__fail};

tri_status tri__device_check(const char *name) {
    if (tri__device_find(name) || strcmp(name, "cuda") == 0 || strcmp(name, "auto") == 0) return TRI_OK;
    return tri__fail(TRI_USAGE, "--device %s: there are %s, cuda where its plug-in is, and auto", name,
                     tri__device_names());
}

tri_status tri__device_get(const char *name, const tri_device **device) {
    TRI_TRY(tri__device_check(name));
    *device = tri__device_find(name);
    return *device ? TRI_OK : tri__device_load(device);
}

tri_status tri__device_target(const tri_device *device, tri_target *target) {
    tri_kernel_table *table = malloc(sizeof *table);
    if (!table) return tri__fail(TRI_RESOURCE, "out of memory");
    device->kernels(table);
    *target = (tri_target){.name = device->name,
                           .granule = device->granule,
                           .short_flops = device->short_flops,
                           .ahead = device->ahead,
                           .lanes = device->lanes,
                           .mask_tokens = device->mask_tokens,
                           .flops = device->flops,
                           .bytes = device->bytes};
    for (int v = 0; v < TRI_VARIANTS; v++) {
        for (int dtype = 0; dtype < TRI_DTYPE_COUNT; dtype++) {
            target->has[v][dtype] = table->run[v][dtype] != NULL;
            target->work[v][dtype] = table->work[v][dtype];
        }
    }
    free(table);
    return TRI_OK;
}
