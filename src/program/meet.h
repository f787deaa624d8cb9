/* meet.h - which posts of different ranks are one transfer: the k-th post of a group's member meets the k-th of each other member. What goes
 * from one rank to another is counted for itself. */
#ifndef TRI_PROGRAM_MEET_H
#define TRI_PROGRAM_MEET_H

#include "program/transfer.h"

typedef struct tri_meeting {
    int rank, line;              /* who posted it first: rank, instruction */
    int n, left;                 /* members; those that have not posted it */
    const int *members;          /* [n] ranks in the group's order; of a pair: sender, receiver */
    const struct tri_channel *channel;
    int number;                  /* among the transfers of its group */
} tri_meeting;

typedef struct tri_meetings {
    tri_arena *arena;
    const tri_program *const *program; /* [world] of all ranks of one mesh, in order */
    int world;
    tri_meeting *at;
    int n, cap;
    struct tri_span *span;       /* distinct groups: axes, within, across */
    int n_spans, cap_spans;
    struct tri_channel **pairs;  /* [world] by the sender, NULL without */
} tri_meetings;

void tri__meetings_open(tri_meetings *meetings, tri_arena *arena, const tri_program *const *programs, int world);
/* Takes the next post of a rank, instruction `line` of its program; returns the index of its meeting. New ones come last. */
int tri__meetings_post(tri_meetings *meetings, int rank, int line);
int tri__meetings_absent(const tri_meetings *meetings, int index); /* a rank that has not posted it; -1 */

#endif
