/* work.h - what a collective has to do once all inputs are there, as segments that can be done by anyone in any order
 * and in parts: each names its sources, destinations and length. An element is reduced whole, in the group's order, by
 * whoever has its segment. */
#ifndef TRI_COMM_SHM_WORK_H
#define TRI_COMM_SHM_WORK_H

#include "comm/ops/transport.h"

typedef struct tri_work {
    int kind, n, root;
    tri_dtype dtype;
    tri_reduction reduction;
    int64_t count;             /* of each member, where shards are equal */
    const int64_t *shard;      /* [n + 1] first element of each shard; NULL: all are `count` long */
    const char *const *in;     /* [n] inputs; read where the kind has one */
    char *const *out;          /* [n] outputs; NULL: not wanted here */
} tri_work;

int tri__work_segments(const tri_work *work);
/* Elements of segment s. */
int64_t tri__work_length(const tri_work *work, int s);
/* Does elements first to first + length - 1 of segment s. */
void tri__work_do(const tri_work *work, int s, int64_t first, int64_t length);
void tri__work_do_all(const tri_work *work);

#endif
