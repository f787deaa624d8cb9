/* space.h - the layouts that a search goes through. */
#ifndef TRI_STUDY_CHOOSE_SPACE_H
#define TRI_STUDY_CHOOSE_SPACE_H

#include "study/choose/choose.h"

enum { TRI_RECOMPUTES = 3, TRI_OFFLOAD_LEVELS = 5 };

/* Layouts that differ only in how they save memory: recomputation, then offloading. More of either only adds time. */
typedef struct tri_savings {
    int recompute[TRI_RECOMPUTES], n_recompute;
    unsigned offload[TRI_OFFLOAD_LEVELS];
    int n_offload;
} tri_savings;

typedef struct tri_space {
    tri_layout *at; /* [n] without savings: with the first of each list */
    int n, cap;
    tri_savings savings;
} tri_space;

/* All layouts of `world` ranks that keep what the settings give; the simpler first. In the arena. offloads: whether
 * offloading is searched too. */
void tri__space_list(tri_arena *arena, const tri_chooser *chooser, int world, int64_t global_batch, unsigned precisions,
                     int offloads, tri_space *out);

#endif
