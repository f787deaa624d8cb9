/* memory.h - a checkpoint in shared memory: each rank has an area with two copies of its pieces, in turn those of the
 * last step and of the one before (comm/world/kept.h says of which). What one mesh wrote any other reads, as from a
 * folder.
 *
 *   head | table: the rows of a manifest, as text | state: 2 copies x 2 texts | data: 2 copies
 *
 * A copy has two texts of its state, so that one can be replaced while the other is in force. */
#pragma once

#include "checkpoint/checkpoint.h"

/* What a rank keeps; borrowed. For an area: how far behind the beginning of a copy's data each piece begins, weights
 * first, and the bytes of a copy. */
typedef struct tri_memory_pieces {
    const tri_piece *weights, *optimizer;
    int n_weights, n_optimizer;
    const size_t *at; /* [n_weights + n_optimizer] */
    size_t bytes;
} tri_memory_pieces;

/* Where an area lies in a shared file. */
typedef struct tri_memory_area {
    const void *base; /* mapped; NULL: none */
    size_t bytes;
    int fd;           /* the file */
    uint64_t at;      /* in the file */
} tri_memory_area;

/* Bytes of an area for these pieces. TRI_RESOURCE when out of memory. */
tri_status tri__memory_size(int rank, const tri_memory_pieces *pieces, size_t *bytes);
/* Writes head and table into a zeroed area of that size. */
tri_status tri__memory_format(void *area, size_t bytes, int rank, const tri_memory_pieces *pieces);
/* Where the data of copy 0 or 1 begins, and its bytes: copy 1 follows copy 0. */
void *tri__memory_data(void *area, int copy, size_t *bytes);
/* The state of that copy, as a manifest has it: in force when this returns. TRI_RESOURCE when its text has no room. */
tri_status tri__memory_state(void *area, int copy, const tri_json *state);

/* ---- Bringing an area elsewhere ---- */

enum { TRI_MEMORY_STATE = 1 << 18 }; /* bytes of the longest text of a state */

/* An area consists of its beginning (head, table, room for texts of its state) and two copies of the data. */
typedef struct tri_memory_extent {
    size_t begin, data;   /* bytes of the beginning, of a copy's data */
    uint64_t data_at[2];  /* where the data of each copy are */
} tri_memory_extent;
/* TRI_DATA if the area is not as it should be. */
tri_status tri__memory_extent(const tri_memory_area *area, tri_memory_extent *out);
/* The text of a copy's state that is in force, [*bytes]. */
const char *tri__memory_text(const void *area, int copy, size_t *bytes);
/* Puts one there, and into force. At most TRI_MEMORY_STATE bytes. */
void tri__memory_put_text(void *area, int copy, const char *text, size_t bytes);
/* Of an area's beginning, followed by the data of one copy only, makes an area: both its copies are that one. */
void tri__memory_pack(void *area, const tri_memory_extent *extent);

/* Opens a copy of all n areas, whose state is in the first, as a checkpoint of `step`. config: as of a checkpoint;
 * taken over. TRI_DATA if an area is not as it should be. */
tri_status tri__memory_open(const tri_memory_area *areas, int n, int copy, int64_t step, tri_json *config,
                            tri_checkpoint **out);
