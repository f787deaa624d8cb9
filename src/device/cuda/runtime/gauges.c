/* gauges.c - clock and power as NVML tells them. The library belongs to the driver; without it there are none. */
#include "device/cuda/runtime/cuda.h"

#include <dlfcn.h>

/* NVML's own, which need no header: results, the clock of the multiprocessors, and reasons for a lower clock. */
enum {
    NVML_SUCCESS = 0,
    NVML_CLOCK_SM = 1,
    BY_POWER = 0x04 | 0x80, /* software limit; the supply's brake */
    BY_HEAT = 0x20 | 0x40,
    BY_OTHER = 0x08 | 0x10 /* hardware, of either kind; GPUs that keep step with each other */
};

typedef struct nvml_device nvml_device;
#define NVML_FUNCTIONS(X) \
    X(Init_v2, (void)) \
    X(DeviceGetHandleByPciBusId_v2, (const char *, nvml_device **)) \
    X(DeviceGetClockInfo, (nvml_device *, int, unsigned *)) \
    X(DeviceGetTotalEnergyConsumption, (nvml_device *, unsigned long long *)) \
    X(DeviceGetEnforcedPowerLimit, (nvml_device *, unsigned *)) \
    X(DeviceGetCurrentClocksThrottleReasons, (nvml_device *, unsigned long long *))

struct tri_nvml {
    nvml_device *device; /* NULL: it cannot be read */
#define X(name, arguments) int(*name) arguments;
    NVML_FUNCTIONS(X)
#undef X
};

static int found(struct tri_nvml *n) {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL); /* never unloaded */
    if (!library) return 0;
    int missing = 0;
#define X(name, arguments) missing |= !(*(void **)&n->name = dlsym(library, "nvml" #name));
    NVML_FUNCTIONS(X)
#undef X
    return !missing && n->Init_v2() == NVML_SUCCESS;
}

static struct tri_nvml *opened(tri_cuda *c) {
    char bus[32]; /* NVML numbers the GPUs in its own order */
    if (c->nvml) return c->nvml;
    c->nvml = calloc(1, sizeof *c->nvml);
    if (!c->nvml || !found(c->nvml)) return c->nvml;
    if (cudaDeviceGetPCIBusId(bus, sizeof bus, c->device) != cudaSuccess ||
        c->nvml->DeviceGetHandleByPciBusId_v2(bus, &c->nvml->device) != NVML_SUCCESS)
        c->nvml->device = NULL;
    return c->nvml;
}

int tri__cuda_gauge(void *context, tri_gauge *out) {
    struct tri_nvml *n = opened(context);
    unsigned mhz = 0, milliwatts = 0;
    unsigned long long reasons = 0, millijoules = 0;
    if (!n || !n->device || n->DeviceGetClockInfo(n->device, NVML_CLOCK_SM, &mhz) != NVML_SUCCESS) return 0;
    if (n->DeviceGetTotalEnergyConsumption(n->device, &millijoules) != NVML_SUCCESS) millijoules = 0;
    if (n->DeviceGetEnforcedPowerLimit(n->device, &milliwatts) != NVML_SUCCESS) milliwatts = 0;
    if (n->DeviceGetCurrentClocksThrottleReasons(n->device, &reasons) != NVML_SUCCESS) reasons = 0;
    *out = (tri_gauge){.clock_mhz = mhz,
                       .joules = (double)millijoules / 1e3,
                       .limit_w = milliwatts / 1e3,
                       .throttle = (reasons & BY_POWER ? TRI_THROTTLE_POWER : 0) |
                                   (reasons & BY_HEAT ? TRI_THROTTLE_HEAT : 0) |
                                   (reasons & BY_OTHER ? TRI_THROTTLE_OTHER : 0)};
    return 1;
}

void tri__cuda_gauges_close(tri_cuda *cuda) { free(cuda->nvml); }
