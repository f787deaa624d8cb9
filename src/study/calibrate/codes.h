/* codes.h - times of coding and expanding numbers for their way between ranks (numbers/coded.h). */
#ifndef TRI_STUDY_CALIBRATE_CODES_H
#define TRI_STUDY_CALIBRATE_CODES_H

#include "device/device.h"
#include "study/calibrate/points.h"

/* One of several ranks that do the same at the same time. */
typedef struct tri_code_timing {
    const tri_device *device;    /* of this host's memory */
    int rank, ranks, threads;
    double seconds;              /* that it may take, about; the largest sizes are left out where it is short */
    int *sizes;                  /* shared: rank 0 says how many sizes are timed */
    tri_status *status;          /* this rank's */
    int (*go_on)(void *crew);    /* all ranks wait for each other here; 0: the status of one is not TRI_OK */
    void *crew;
} tri_code_timing;

/* samples: NULL, or where this rank's times are added. Sets the status. */
void tri__time_codes(const tri_code_timing *timing, tri_samples *samples);

#endif
