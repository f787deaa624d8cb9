/* roles.h - ranks that behave alike, transfers included.
 *
 * Two ranks have the same role when they are of one class (program/classes.h) and, in every kind of group in which any
 * program posts transfers, their groups have ranks of the same roles at the same places; in groups with sends, the two
 * ranks also have the same place.
 *
 * Why one rank of each role represents all: let the ranks of a role always step together. By induction they are at the
 * same instruction and have posted the same transfers: all members have posted a transfer exactly when every role among
 * them has, and this holds for all groups of the same roles at once. Execution is deterministic: one rank's step never
 * disables what another waits for. So whether all ranks finish does not depend on the order of steps, and checking this
 * one order is enough. */
#pragma once

#include "program/classes.h"

/* A kind of group, as attributes of transfers describe it. */
typedef struct tri_group_span {
    tri_attr attr; /* axes, within, across; the rest is 0 */
    int pairs;     /* used by sends and receives */
} tri_group_span;

typedef struct tri_roles {
    int n;
    int *of;              /* [world] role of each rank: numbered in the order of their first ranks */
    int *rank;            /* [n] the first rank of each */
    tri_group_span *span; /* all spans of the programs */
    int n_spans, cap_spans;
} tri_roles;

/* What else tells ranks apart. Zeroed: nothing. */
typedef struct tri_role_facts {
    /* > 0: groups must also agree in which of their ranks share a machine, which has `per_node` consecutive ranks */
    int per_node;
    int per_island;      /* > 0: likewise of islands inside a machine, which have so many */
    int whole_nodes;     /* 1: machines must have ranks of the same roles at the same places */
    const void *replica; /* [dp] facts of `bytes` bytes about each replica, which must be the same; NULL */
    size_t bytes;
} tri_role_facts;
void tri__roles_find(tri_roles *roles, tri_arena *arena, const tri_classes *ranks, const tri_role_facts *facts);
int tri__roles_span(const tri_roles *roles, const tri_attr *attr); /* the index of its span */
