/* meet.h - which posts of different ranks are one transfer (a meeting): the k-th post of each member of a group. Sends
 * and receives are counted for each pair of ranks. One rank of each role posts for all of them (program/roles.h). */
#pragma once

#include "program/roles.h"
#include "program/transfer.h"

typedef struct tri_meeting {
    int role, line;    /* the first post: role, instruction */
    int n_roles, left; /* roles among its members; how many have not posted it yet */
    const int *roles;  /* [n_roles]; of a pair: sender, receiver */
    const int *n_members; /* [n_roles] how many members of a group have each role */
    const struct tri_channel *channel;
    int number; /* among the transfers of its group */
} tri_meeting;

typedef struct tri_meetings {
    tri_arena *arena;
    const tri_classes *ranks;
    const tri_roles *roles;
    const tri_program **program; /* [roles] of the role's first rank, except for shifts */
    tri_meeting *at;
    int n, cap;
    struct tri_channel **channel; /* [spans * roles] each role's group; NULL: not listed yet */
    struct tri_channel **pairs;   /* [roles] by the sender; NULL: none */
} tri_meetings;

/* roles: those of the ranks. */
void tri__meetings_open(tri_meetings *meetings, tri_arena *arena, const tri_classes *ranks, const tri_roles *roles);
/* Records the next post of a role, instruction `line` of its program; returns the index of its meeting. A new meeting
 * gets the highest index. */
int tri__meetings_post(tri_meetings *meetings, int role, int line);
int tri__meetings_absent(const tri_meetings *meetings, int index); /* a role that has not posted it; -1 */
/* The members, [*n] in the group's order, of one of the groups that a meeting represents; of a pair: sender,
 * receiver. */
const int *tri__meeting_members(const tri_meeting *meeting, int *n);
