/* work.h - the work of a collective once all inputs have arrived, as segments that any member can do, in any order and
 * in parts: each has sources, destinations and length. An element is reduced completely, in the group's order, by the
 * member that does its segment. */
#pragma once

#include "comm/world/world.h"

typedef struct tri_work {
    const tri_pending *p;      /* kind, type, reduction, counts */
    const char *const *in;     /* [n] inputs; read if the kind has one */
    char *const *out;          /* [n] outputs; NULL: none on that member */
} tri_work;

int tri__work_segments(const tri_work *work);
/* Elements of segment s. */
int64_t tri__work_length(const tri_work *work, int s);
/* Does elements first to first + length - 1 of segment s. */
void tri__work_do(const tri_work *work, int s, int64_t first, int64_t length);
void tri__work_do_all(const tri_work *work);
