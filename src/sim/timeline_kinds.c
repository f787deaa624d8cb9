/* timeline_kinds.c - steps of several kinds: each is the timeline of the programs without the instructions of other
 * kinds, and the mean is that over the run's steps. */
#include "sim/timeline_parts.h"

#include <string.h>

/* A program's instructions of one kind. Whoever waits for one that is left out waits for the last of its lane before it
 * that runs: the executor lets those that are left out signal at their places. */
static tri_program *program_of(tri_arena *arena, const tri_program *from, uint32_t kind) {
    tri_program *p = tri__arena_alloc(arena, sizeof *p);
    int *last = tri__arena_alloc(arena, (size_t)from->n_instrs * sizeof *last); /* of its lane, up to it; -1 */
    int n = 0, in_lane[TRI_LANES] = {-1, -1};
    *p = *from;
    p->gates = 0;
    p->instr = tri__arena_alloc(arena, (size_t)from->n_instrs * sizeof *p->instr);
    for (int i = 0; i < from->n_instrs; i++) {
        tri_instr instr = from->instr[i];
        if (tri__is_open(&instr, kind)) {
            if (instr.await >= 0) instr.await = last[instr.await];
            instr.gates = 0;
            in_lane[instr.lane] = n;
            p->instr[n++] = instr;
        }
        last[i] = in_lane[instr.lane];
    }
    p->n_instrs = p->cap_instrs = n;
    return p;
}

static tri_classes classes_of(tri_arena *arena, const tri_classes *from, uint32_t kind) {
    tri_classes ranks = *from;
    size_t bytes = (size_t)from->n * sizeof *ranks.at;
    ranks.at = memcpy(tri__arena_alloc(arena, bytes), from->at, bytes);
    for (int i = 0; i < ranks.n; i++) {
        int shared = i && from->at[i].program->instr == from->at[i - 1].program->instr;
        tri_program *p = program_of(arena, from->at[i].program, kind);
        if (shared) p->instr = ranks.at[i - 1].program->instr; /* roles.c looks at each list once */
        ranks.at[i].program = p;
    }
    return ranks;
}

tri_status tri__timeline(tri_arena *arena, const tri_classes *ranks, const tri_costs *costs, tri_timeline *out) {
    const tri_program *first = ranks->at[0].program;
    uint32_t kind[TRI_GATE_COUNT];
    int n = tri__program_kinds(first, kind), drawn = 0;
    tri_kind_time time[TRI_GATE_COUNT];
    double mean = 0;
    for (int i = 1; i < n; i++)
        if (tri__kind_share(first, kind[i]) > tri__kind_share(first, kind[drawn])) drawn = i;
    for (int i = 0; i < n; i++) {
        size_t mark = arena->used;
        tri_timeline line;
        const tri_classes of = first->gates ? classes_of(arena, ranks, kind[i]) : *ranks;
        TRI_TRY(tri__timeline_one(arena, &of, costs, &line));
        time[i] = (tri_kind_time){kind[i], tri__kind_share(first, kind[i]), line.seconds};
        mean += time[i].share * line.seconds;
        if (i == drawn) *out = line;
        else tri__arena_rewind(arena, mark);
    }
    out->mean = mean, out->n_kinds = first->gates ? n : 0, out->drawn = kind[drawn];
    memcpy(out->kind, time, sizeof time);
    return TRI_OK;
}
