/* kind.h - the properties of each kind of operation: its name, and the buffer sizes of each member. */
#pragma once

#include "trident_comm.h"

/* Elements of a buffer: none, `count`, this member's shard, or all shards. */
typedef enum tri_buffer_extent {
    TRI_EXTENT_NONE, TRI_EXTENT_COUNT, TRI_EXTENT_SHARD, TRI_EXTENT_ALL
} tri_buffer_extent;

typedef struct tri_kind_row {
    const char *name;          /* "all_reduce" */
    tri_buffer_extent in, out;
    int in_root, out_root;     /* 1: on the root only */
    int rooted;                /* 1: root is used */
    int reduces;               /* 1: reduction is used */
    int uneven;                /* 1: counts may differ between members */
} tri_kind_row;

const tri_kind_row *tri__kind(int kind);
/* Elements of member m's buffer in a group of n. shard [n + 1]: first element of each shard; NULL: all are `count`
 * long. */
int64_t tri__extent(tri_buffer_extent extent, int n, int64_t count, const int64_t *shard, int m);
