/* device_time.c - each lane's intervals are in order, so a lane walks through the other's once. */
#include "sim/device_time.h"

#include <math.h>

_Static_assert(TRI_LANES == 2, "a kernel goes around those of one other lane");

double tri__device_time_take(tri_device_time *time, tri_arena *arena, int lane, double work, double *begin) {
    struct tri_device_lane *own = &time->lane[lane];
    const struct tri_device_lane *other = &time->lane[!lane];
    double at = *begin;
    if (work <= 0) return at;
    for (int first = 1;; own->next++) {
        const struct tri_device_use *taken = own->next < other->n ? &other->use[own->next] : NULL;
        double length = taken ? fmin(work, taken->begin - at) : work; /* until the other lane takes the device */
        if (length > 0) {
            *TRI_PUSH(arena, own->use, own->n, own->cap) = (struct tri_device_use){at, at + length};
            if (first) *begin = at;
            at += length, work -= length, first = 0;
        }
        if (work <= 0) return at;
        at = fmax(at, taken->end); /* `taken` is not NULL: after the last interval the device is free */
    }
}
