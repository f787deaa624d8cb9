/* roles.h - ranks that behave alike, whatever goes on between ranks.
 *
 * Two ranks have the same role when they are of one class (program/classes.h), and in every kind of group that any
 * program posts transfers in, their groups have ranks of the same roles at the same places; where one rank sends to
 * another, they also have the same place themselves.
 *
 * Why one rank of each role stands for all: let ranks of a role always step together. By induction they are then at the
 * same instruction and have posted the same: a transfer has been posted by all of its members exactly when every role
 * among them has posted it, and that is the case for all groups of the same roles at once. Nothing in a run of
 * transfers is a choice, as one rank's step never takes away what another waits for; so whether all ranks come to their
 * ends does not depend on the order in which they step, and this order shows it. */
#ifndef TRI_PROGRAM_ROLES_H
#define TRI_PROGRAM_ROLES_H

#include "program/classes.h"

/* A kind of group, as the attributes of transfers have it. */
typedef struct tri_group_span {
    tri_attr attr; /* axes, within, across; the rest is 0 */
    int pairs;     /* one member sends to another in it */
} tri_group_span;

typedef struct tri_roles {
    int n;
    int *of;              /* [world] role of each rank: numbered in the order of their first ranks */
    int *rank;            /* [n] the first rank of each */
    tri_group_span *span; /* all that the programs have */
    int n_spans, cap_spans;
} tri_roles;

/* per_node > 0: groups also have to be alike in which of their ranks share a machine, of `per_node` ranks in a row. */
void tri__roles_find(tri_roles *roles, tri_arena *arena, const tri_classes *ranks, int per_node);
int tri__roles_span(const tri_roles *roles, const tri_attr *attr); /* the index of its span */

#endif
