/* check.h - proves that programs can run, alone and together. */
#pragma once

#include "program/classes.h"

/* One rank's program, or those of all ranks of the mesh in order. Each alone can run; all ranks together also: all
 * members of a group post the same transfers in the same order, every send has its receive, and nothing deadlocks.
 * TRI_INTERNAL, with rank, line and reason, at the first defect. */
tri_status tri__check(const tri_program *const *programs, int n);
/* The same for all ranks, given as classes: proven for every member, in time and memory linear in the classes. */
tri_status tri__check_all(const tri_classes *ranks);

/* The source of a program, for messages: writes "file:line" of a rank's instruction or slot (-1: neither) to `text` and
 * returns it. */
enum { TRI_ORIGIN_TEXT = 256 };
typedef struct tri_origin {
    const char *(*at)(const void *data, int rank, int instr, int slot, char text[static TRI_ORIGIN_TEXT]);
    const void *data;
} tri_origin;
/* tri__check_all of parsed programs: fails with TRI_DATA, and the message begins with the origin of the defect. */
tri_status tri__check_read(const tri_classes *ranks, const tri_origin *origin);

/* For check.c: the checks across ranks, on programs that passed alone. origin NULL: they were planned. */
tri_status tri__check_together(tri_arena *arena, const tri_classes *ranks, const tri_origin *origin);
