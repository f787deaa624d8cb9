/* timing.h - when queued work ran, on an asynchronous device's own clock. */
#pragma once

/* When an instruction ran: seconds on tri__clock. */
typedef struct tri_time {
    double begin, end;
} tri_time;

typedef struct tri_timing {
    /* Marks a point between queued kernels; after `finish`, times[i] spans mark i to mark i + 1, for i < n, if both
     * were made. */
    void (*mark)(void *context, int index);
    void (*times)(void *context, int n, tri_time *times);
    /* After `finish`: when the transfer of that number ran, if marks were made around its post. */
    void (*transfer_time)(void *context, int number, tri_time *time);
    /* Seconds of work since the last call: the sum of intervals from the first work queued to the `finish` that waited
     * for it. */
    double (*busy_seconds)(void *context);
    /* Keeps what is queued from now on from running for so long, so that the host gets ahead: marks then measure the
     * device alone. NULL: marks never wait for the host. */
    void (*hold)(void *context, double seconds);
} tri_timing;
