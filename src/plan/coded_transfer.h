/* coded_transfer.h - a transfer between replicas that is made of several, its legs, so that numbers travel in a code
 * (numbers/coded.h). Each leg is posted; where it has ended the next one is posted:
 *
 *   within   reduce_scatter among replicas of a machine, in full              where `within` names them
 *   sum      pack, all_to_all; unpack_sum into this member's part             without a code: reduce_scatter
 *   gather   pack this member's part, all_gather; unpack the parts of all     without a code: all_gather
 *   spread   all_gather among replicas of a machine, in full                  where `within` names them
 *
 * A reduce_scatter is the leg sum alone, an all_reduce sum and gather, an all_gather gather alone. Who owns the
 * transfer decides when its legs end, and what else happens between them. Every member, the owner of a part too, has
 * the decoded numbers in the end. */
#pragma once

#include "numbers/coded.h"
#include "program/builder.h"

typedef enum tri_coded_leg { TRI_LEG_WITHIN, TRI_LEG_SUM, TRI_LEG_GATHER, TRI_LEG_SPREAD, TRI_LEG_DONE } tri_coded_leg;

typedef struct tri_coded_transfer {
    tri_code code;           /* NONE: in full */
    /* axes, within, across: who exchanges in the code; who in full before and after, no axes: nobody */
    tri_attr group, within;
    int n, place;            /* members of `group`; this one's place */
    int64_t row;             /* bytes of a coded part */
    int gathers;             /* 1: all members get the sum */
    /* slots: all elements; those that `group` exchanges, part of `whole`; of these, the ones that this member sums */
    int whole, part, own;
    int error, error_sum;    /* slots: what coding lost of `part`, of `own`; -1: it is not kept */
    int apply;               /* slot: whether anything changes; -1: it does */
    tri_coded_leg leg;             /* in flight */
    tri_ends ends;           /* of its transfer */
} tri_coded_transfer;

/* A transfer of a slot among a group; the other slots, which are -1, are to be set. */
tri_coded_transfer tri__coded_open(const tri_builder *to, tri_code code, tri_attr group, int part);
/* Posts the first leg: within or sum, where `sums`; else gather. Instructions have the unit, the microbatch and the
 * gates of `to`. */
void tri__coded_begin(tri_builder *to, tri_coded_transfer *t, int sums);
/* Waits for the leg in flight and decodes it; returns which one it was. */
tri_coded_leg tri__coded_end(tri_builder *to, const tri_coded_transfer *t);
/* Posts the leg after it. */
void tri__coded_next(tri_builder *to, tri_coded_transfer *t);
