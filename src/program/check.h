/* check.h - proves that programs can run, alone and together. */
#ifndef TRI_PROGRAM_CHECK_H
#define TRI_PROGRAM_CHECK_H

#include "program/classes.h"

/* One rank's program of a step, or those of all ranks of the mesh in order. Alone: each can run. Together also: all
 * members of a group post the same transfers in the same order, sends meet receives, and waiting ends. TRI_INTERNAL,
 * with rank, line and reason, at the first defect. */
tri_status tri__check(const tri_program *const *programs, int n);
/* The same of all ranks, told in classes: proven for every member, in time and memory that grow with the classes. */
tri_status tri__check_all(const tri_classes *ranks);

/* Where programs come from, for messages: "file:line" of a rank's instruction or slot, [-1: of neither], into `text`,
 * which is returned. */
enum { TRI_ORIGIN_TEXT = 256 };
typedef struct tri_origin {
    const char *(*at)(const void *data, int rank, int instr, int slot, char text[static TRI_ORIGIN_TEXT]);
    const void *data;
} tri_origin;
/* tri__check_all of programs that were read: TRI_DATA, and the message begins with the origin of what is broken. */
tri_status tri__check_read(const tri_classes *ranks, const tri_origin *origin);

/* For check.c: the second part, on programs that passed the first. origin NULL: they were planned. */
tri_status tri__check_together(const tri_classes *ranks, const tri_origin *origin);

#endif
