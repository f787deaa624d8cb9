/* device_time.h - the time of one device, shared by the kernels of two lanes.
 *
 * A kernel takes the device for as long as its operations and its memory traffic take at full rate, and its lane for at
 * least the time of a launch: what short kernels leave of the device is there for the other lane, and two long ones at
 * once take as long as one after the other. */
#ifndef TRI_SIM_DEVICE_TIME_H
#define TRI_SIM_DEVICE_TIME_H

#include "base/arena.h"
#include "program/target.h"

/* Zeroed: all of it is free. */
typedef struct tri_device_time {
    struct tri_device_lane {
        struct tri_device_use {
            double begin, end;
        } *use;             /* the device's time that kernels of the lane have, in order */
        int n, cap;
        int next;           /* of the other lane's: the first that may lie behind this lane's last */
    } lane[TRI_LANES];
} tri_device_time;

/* A kernel of a lane that comes to it at *begin, never before one that it was asked for earlier, and that needs the
 * device for `work` seconds: takes the first that the other lane has left, moves *begin to the first of them, and
 * returns the end of the last. */
double tri__device_time_take(tri_device_time *time, tri_arena *arena, int lane, double work, double *begin);

#endif
