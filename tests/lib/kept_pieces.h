/* kept_pieces.h - pieces laid out one after another in an area of replicated state, and their copy, as a plan's
 * instructions make it. */
#ifndef TESTS_KEPT_PIECES_H
#define TESTS_KEPT_PIECES_H

#include "checkpoint/memory.h"

#include <string.h>

static inline const tri_piece *kept_piece(const tri_memory_pieces *p, int i) {
    return i < p->n_weights ? &p->weights[i] : &p->optimizer[i - p->n_weights];
}

static inline size_t kept_bytes(const tri_piece *piece) {
    return (size_t)(piece->slice.end - piece->slice.begin) * tri__dtype_bytes(piece->dtype);
}

/* at [n_weights + n_optimizer] */
static inline void kept_lay_out(tri_memory_pieces *p, size_t *at) {
    p->at = at, p->bytes = 0;
    for (int i = 0; i < p->n_weights + p->n_optimizer; i++) {
        at[i] = p->bytes;
        p->bytes += (kept_bytes(kept_piece(p, i)) + 63) / 64 * 64;
    }
}

static inline void kept_copy(void *area, int copy, const tri_memory_pieces *p) {
    size_t bytes;
    char *to = tri__memory_data(area, copy, &bytes);
    for (int i = 0; i < p->n_weights + p->n_optimizer; i++)
        memcpy(to + p->at[i], kept_piece(p, i)->data, kept_bytes(kept_piece(p, i)));
}

#endif
