/* device_time.h - the time of one device, shared by the kernels of two lanes.
 *
 * A kernel occupies the device for as long as its operations and memory traffic take at full rate, and its lane for at
 * least the time of a launch. So the other lane can use the device time that short kernels leave, and two long kernels
 * at once take as long as one after the other. */
#ifndef TRI_SIM_DEVICE_TIME_H
#define TRI_SIM_DEVICE_TIME_H

#include "base/arena.h"
#include "program/target.h"

/* Zeroed: the device is free. */
typedef struct tri_device_time {
    struct tri_device_lane {
        struct tri_device_use {
            double begin, end;
        } *use;             /* intervals of the device that the lane's kernels have, in order */
        int n, cap;
        int next;           /* the other lane's first interval that may end after this lane's last */
    } lane[TRI_LANES];
} tri_device_time;

/* Gives a kernel that its lane reaches at *begin (not before its earlier ones) `work` seconds of the device: the first
 * that the other lane has left. Moves *begin to their begin and returns their end. */
double tri__device_time_take(tri_device_time *time, tri_arena *arena, int lane, double work, double *begin);

#endif
