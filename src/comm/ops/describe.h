/* describe.h - operations in words, for messages, and whether those of two members match. */
#ifndef TRI_COMM_OPS_DESCRIBE_H
#define TRI_COMM_OPS_DESCRIBE_H

#include "comm/world/transport.h"

/* "all_reduce sum f32 x 1024 (group of 4, operation 17)" for messages. */
void tri__describe(const tri_descriptor *what, int group_size, char *out, size_t size);
uint64_t tri__describe_pack(const tri_descriptor *what);                 /* kind, dtype, reduction, count in one word */
void tri__describe_unpack(uint64_t packed, char *out, size_t size);
/* Whether two members' operations match; also for the two ends of a send and its receive. */
int tri__describe_same(const tri_descriptor *a, const tri_descriptor *b);
const char *tri__collective_name(int kind);                              /* "all_reduce" */

#endif
