/* device_time.c - each lane's times come in order, so that a lane walks through those of the other once. */
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
        double length = taken ? fmin(work, taken->begin - at) : work; /* until the other lane has it */
        if (length > 0) {
            *TRI_PUSH(arena, own->use, own->n, own->cap) = (struct tri_device_use){at, at + length};
            if (first) *begin = at;
            at += length, work -= length, first = 0;
        }
        if (work <= 0) return at;
        at = fmax(at, taken->end); /* `taken` is there: what comes after all is free without end */
    }
}
