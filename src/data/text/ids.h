/* ids.h - a bounded output array for ids. Ids beyond its capacity are counted, not stored. */
#pragma once

#include <stdint.h>

typedef struct tri_ids {
    int32_t *at;     /* [room] */
    int64_t n, room;
} tri_ids;

static inline void tri__ids_put(tri_ids *ids, int32_t id) {
    if (ids->n < ids->room) ids->at[ids->n] = id;
    ids->n++;
}
