/* built_ranks.h - programs of a few ranks, built instruction by instruction, for tests of the simulator. */
#ifndef TESTS_BUILT_RANKS_H
#define TESTS_BUILT_RANKS_H

#include "sim/timeline.h"
#include "tests/lib/tiny.h"

enum { MOST = 8 }; /* ranks */

typedef struct ranks {
    tri_arena arena;
    tri_builder b[MOST];
    const tri_program *program[MOST];
    int world;
    tri_timeline line;
} ranks;

static inline void open_ranks(ranks *r, tri_mesh mesh, int n_mb) {
    *r = (ranks){.world = tri__mesh_world(&mesh)};
    OK(tri__arena_open(&r->arena, (size_t)1 << 30));
    for (int i = 0; i < r->world; i++) {
        tri_program *p = tri__program_new(&r->arena, "test");
        p->mesh = mesh, p->rank = i, p->n_mb = n_mb;
        r->program[i] = p;
        r->b[i] = (tri_builder){.arena = &r->arena, .program = p};
        tri__build_unit(&r->b[i], "unit");
    }
}

static inline void close_ranks(ranks *r) { tri__arena_close(&r->arena); }

#endif
