/* meet.h - which posts of different ranks are one transfer: the k-th post of a group's member meets the k-th of each
 * other member. What goes from one rank to another is counted for itself. One rank of each role posts for all ranks of
 * it (program/roles.h). */
#ifndef TRI_PROGRAM_MEET_H
#define TRI_PROGRAM_MEET_H

#include "program/roles.h"
#include "program/transfer.h"

typedef struct tri_meeting {
    int role, line;    /* who posted it first: role, instruction */
    int n_roles, left; /* roles among its members; those that have not posted it */
    const int *roles;  /* [n_roles]; of a pair: sender, receiver */
    const struct tri_channel *channel;
    int number; /* among the transfers of its group */
} tri_meeting;

typedef struct tri_meetings {
    tri_arena *arena;
    const tri_classes *ranks;
    const tri_roles *roles;
    const tri_program **program; /* [roles] of the role's first rank, but for what shifts */
    tri_meeting *at;
    int n, cap;
    struct tri_channel **channel; /* [spans * roles] of each role's group; NULL: not yet listed */
    struct tri_channel **pairs;   /* [roles] by the sender, NULL without */
} tri_meetings;

/* roles: those of the ranks. */
void tri__meetings_open(tri_meetings *meetings, tri_arena *arena, const tri_classes *ranks, const tri_roles *roles);
/* Takes the next post of a role, instruction `line` of its program; returns the index of its meeting. New ones come
 * last. */
int tri__meetings_post(tri_meetings *meetings, int role, int line);
int tri__meetings_absent(const tri_meetings *meetings, int index); /* a role that has not posted it; -1 */
/* The ranks that meet in one of the groups that a meeting stands for, [*n] in the group's order; of a pair: sender,
 * receiver. */
const int *tri__meeting_members(const tri_meeting *meeting, int *n);

#endif
