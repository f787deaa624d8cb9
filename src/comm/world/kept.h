/* kept.h - a rank's state in the shared memory, where it outlives the rank (--replicate-state): two copies in turn, of
 * the last step and of the one before. A rank begins to overwrite the older one only after all ranks have completed the
 * newer, since a control all-reduce lies between; so, from the first step on, there always is a step of which every
 * rank's copy is complete, whenever ranks die. */
#pragma once

#include "comm/world/world.h"

/* This rank's area, in its heap: what is in it is the caller's. bytes 0: none from now on. */
void tri__kept_place(tri_world *world, const void *area, size_t bytes);
/* Around the writing of the copy of `step`, number step & 1: from `begin` to `end` that copy counts for no step. */
void tri__kept_begin(tri_world *world, int64_t step);
void tri__kept_end(tri_world *world, int64_t step);

/* The newest step of which every rank of the segment has a complete copy; -1: none. */
int64_t tri__kept_step(const tri_segment *segment);
/* A rank's area, within the segment; NULL: it has none. Its contents are as a rank that may have died left them. */
const void *tri__kept_area(const tri_segment *segment, int local, size_t *bytes);

/* ---- Several machines: each rank's area has a copy on another one ---- */

/* An area in this rank's heap that is a copy of another rank's. */
typedef struct tri_held tri_held;

/* For a world rank's area of so many bytes: zeroed. Both are the world's. TRI_RESOURCE when memory is short. */
tri_status tri__kept_hold(tri_world *world, int rank, size_t bytes, tri_held **held);
void *tri__held_area(tri_held *held);
/* Around the writing of the copy of `step`, as tri__kept_begin and tri__kept_end. */
void tri__held_begin(tri_held *held, int64_t step);
void tri__held_end(tri_held *held, int64_t step);

/* What the machine of a segment has of a world rank's state, its own or held: the area with the newer step; NULL: none.
 * kept: the steps of its two copies, plus 1, as in the control page. */
const void *tri__kept_find(const tri_segment *segment, int rank, size_t *bytes, int64_t kept[static 2]);
