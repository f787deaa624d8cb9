/* async.h - kernels of an asynchronous device, and what the device needs beside them. */
#ifndef TRI_STUDY_CALIBRATE_ASYNC_H
#define TRI_STUDY_CALIBRATE_ASYNC_H

#include "study/calibrate/calibrate.h"
#include "study/calibrate/points.h"

/* Seconds and bytes a second. */
typedef struct tri_async_figures {
    double launch;             /* of each kernel's time, what another lane can use */
    double queue;              /* of the host, to queue an instruction */
    double step;               /* of a step, beside its replayed program */
    double in, back, latency;  /* copies from and to pinned host memory; of a short one */
    double memory;             /* bytes of the device that are free for a run */
    char machine[128];         /* the device, for people */
} tri_async_figures;

/* Adds the times of models of many sizes, as they are in captured graphs. */
tri_status tri__calibrate_async(const tri_calibration *asked, tri_samples *samples, tri_async_figures *figures);
/* Sets in, back and latency. */
tri_status tri__calibrate_copies(const tri_device *device, tri_async_figures *figures);

#endif
