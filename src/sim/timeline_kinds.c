/* timeline_kinds.c - steps of several kinds: each is the timeline of the programs without the instructions of other
 * kinds, and the mean is that over the run's steps.
 *
 * Where steps leave layers out, there are too many different ones: the timeline is that of the expected step, in which
 * each instruction takes its time multiplied by the share of steps in which it runs. Beside it, the steps with all
 * layers open and with all of them closed are timed. */
#include "sim/timeline_parts.h"

/* Which instructions of layers that steps leave out a timeline has: those of both cases; or of one case. */
typedef enum layers { EXPECTED, ALL_OPEN, ALL_CLOSED } layers;

static int is_timed(const tri_instr *instr, uint32_t kind, layers which) {
    if (instr->gates && !(instr->gates & kind)) return 0;
    return which == EXPECTED || !instr->layer || (instr->layer > 0) == (which == ALL_OPEN);
}

/* A program's instructions of one kind. Whoever waits for one that is left out waits for the last of its lane before it
 * that runs: the executor lets those that are left out signal at their places. */
static tri_program *program_of(tri_arena *arena, const tri_program *from, uint32_t kind, layers which) {
    tri_program *p = tri__arena_alloc(arena, sizeof *p);
    int *last = tri__arena_alloc(arena, (size_t)from->n_instrs * sizeof *last); /* of its lane, up to it; -1 */
    int n = 0, in_lane[TRI_LANES] = {-1, -1};
    *p = *from;
    p->gates = 0;
    if (which != EXPECTED) p->n_layers = 0;
    p->instr = tri__arena_alloc(arena, (size_t)from->n_instrs * sizeof *p->instr);
    for (int i = 0; i < from->n_instrs; i++) {
        tri_instr instr = from->instr[i];
        if (is_timed(&instr, kind, which)) {
            if (instr.await >= 0) instr.await = last[instr.await];
            instr.gates = 0;
            if (which != EXPECTED) instr.layer = 0;
            in_lane[instr.lane] = n;
            p->instr[n++] = instr;
        }
        last[i] = in_lane[instr.lane];
    }
    p->n_instrs = p->cap_instrs = n;
    return p;
}

static tri_classes classes_of(tri_arena *arena, const tri_classes *from, uint32_t kind, layers which) {
    tri_classes ranks = *from;
    size_t bytes = (size_t)from->n * sizeof *ranks.at;
    ranks.at = memcpy(tri__arena_alloc(arena, bytes), from->at, bytes);
    for (int i = 0; i < ranks.n; i++) {
        int shared = i && from->at[i].program->instr == from->at[i - 1].program->instr;
        tri_program *p = program_of(arena, from->at[i].program, kind, which);
        if (shared) p->instr = ranks.at[i - 1].program->instr; /* roles.c looks at each list once */
        ranks.at[i].program = p;
    }
    return ranks;
}

/* The mean over kinds of the step with all layers open, or with all closed. */
static tri_status time_layers(tri_arena *arena, const tri_classes *ranks, const tri_costs *costs, layers which,
                              double *seconds) {
    const tri_program *first = ranks->at[0].program;
    uint32_t kind[TRI_GATE_COUNT];
    int n = first->n_layers ? tri__program_kinds(first, kind) : 0;
    *seconds = 0;
    for (int i = 0; i < n; i++) {
        size_t mark = arena->used;
        tri_timeline line;
        const tri_classes of = classes_of(arena, ranks, kind[i], which);
        TRI_TRY(tri__timeline_one(arena, &of, costs, &line));
        *seconds += tri__kind_share(first, kind[i]) * line.seconds;
        tri__arena_rewind(arena, mark);
    }
    return TRI_OK;
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
        const tri_classes of = first->gates ? classes_of(arena, ranks, kind[i], EXPECTED) : *ranks;
        TRI_TRY(tri__timeline_one(arena, &of, costs, &line));
        time[i] = (tri_kind_time){kind[i], tri__kind_share(first, kind[i]), line.seconds};
        mean += time[i].share * line.seconds;
        if (i == drawn) *out = line;
        else tri__arena_rewind(arena, mark);
    }
    out->mean = mean, out->n_kinds = first->gates ? n : 0, out->drawn = kind[drawn];
    memcpy(out->kind, time, sizeof time);
    TRI_TRY(time_layers(arena, ranks, costs, ALL_OPEN, &out->all_open));
    return time_layers(arena, ranks, costs, ALL_CLOSED, &out->all_closed);
}
