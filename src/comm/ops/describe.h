/* describe.h - operations in words, for messages, and whether those of two members match. */
#pragma once

#include "comm/world/world.h"

/* "all_reduce sum f32 x 1024 (group of 4, operation 17)" for messages. */
void tri__describe(const tri_descriptor *what, int group_size, char *out, size_t size);
uint64_t tri__describe_pack(const tri_descriptor *what);                 /* kind, dtype, reduction, count in one word */
void tri__describe_unpack(uint64_t packed, char *out, size_t size);
/* Whether two members' operations match; also for the two ends of a send and its receive. */
int tri__describe_same(const tri_descriptor *a, const tri_descriptor *b);
/* Two that do not: the failure of `blamed`, for all ranks. ends: they are a send and its receive; other: the member
 * that asked for `theirs`. Returns it. */
tri_status tri__disagree(tri_group *group, int blamed, int ends, const tri_descriptor *mine, int other,
                         const tri_descriptor *theirs);
const char *tri__collective_name(int kind);                              /* "all_reduce" */

/* ---- accept.c: validation of a user's operation ---- */

/* Fills in a record that is zeroed except for `bare`: descriptor (without its sequence), buffers (none if bare),
 * counts. TRI_USAGE with a message for an invalid operation; there is nothing to undo then. */
tri_status tri__accept(tri_group *group, const tri_collective *what, tri_pending *pending);
