/* offload_copies.c - copies between a device and pinned host memory, as offload memory uses them. */
#include "study/calibrate/calibrate_parts.h"

enum { BYTES = 256 << 20, SHORT = 4096, TRIES = 5 };

/* The fastest of a few: the queue's own time is in all of them. */
static tri_status time_copy(const tri_device *device, void *context, void *to, const void *from, size_t bytes, int out,
                            double *seconds) {
    *seconds = INFINITY;
    for (int i = 0; i < TRIES; i++) {
        double begin = tri__clock();
        device->offload->copy_post(context, to, from, bytes, out, 0);
        device->offload->copy_wait(context, 0);
        TRI_TRY(device->async->finish(context));
        *seconds = fmin(*seconds, tri__clock() - begin);
    }
    return TRI_OK;
}

static tri_status time_all(const tri_device *device, void *context, void *near, void *far, tri_hardware *out) {
    double in, back, least;
    TRI_TRY(time_copy(device, context, near, far, SHORT, 0, &least));
    TRI_TRY(time_copy(device, context, near, far, BYTES, 0, &in));
    TRI_TRY(time_copy(device, context, far, near, BYTES, 1, &back));
    out->copy = BYTES / fmax(in - least, 1e-9);
    out->offload = (struct tri_hardware_offload){out->copy, BYTES / fmax(back - least, 1e-9), least};
    return TRI_OK;
}

tri_status tri__calibrate_copies(const tri_device *device, tri_hardware *out) {
    void *context, *near = NULL, *far = NULL;
    TRI_TRY(device->open(&tri__core, 0, 0, &context));
    tri_status status = device->alloc(context, BYTES, &near);
    if (status == TRI_OK) status = device->alloc_offload(context, NULL, BYTES, &far);
    if (status == TRI_OK) status = time_all(device, context, near, far, out);
    device->free(context, near, BYTES);
    device->free(context, far, BYTES);
    device->close(context);
    return status;
}
