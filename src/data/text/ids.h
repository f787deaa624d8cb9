/* ids.h - where ids go: an array with an end. More than it holds are counted, not kept. */
#ifndef TRI_DATA_TEXT_IDS_H
#define TRI_DATA_TEXT_IDS_H

#include <stdint.h>

typedef struct tri_ids {
    int32_t *at;     /* [room] */
    int64_t n, room;
} tri_ids;

static inline void tri__ids_put(tri_ids *ids, int32_t id) {
    if (ids->n < ids->room) ids->at[ids->n] = id;
    ids->n++;
}

#endif
