/* live.c - live bytes by class: differences at the first and after the last use of each slot, then their sums. */
#include "program/live.h"

/* A slot that owns memory: 1 + its first and last instruction; 0: not used. */
typedef struct tri_slot_life {
    int first, last;
} tri_slot_life;

static tri_slot_life *lives_of(tri_arena *arena, const tri_program *p) {
    tri_slot_life *life = tri__arena_alloc(arena, (size_t)p->n_slots * sizeof *life);
    for (int i = 0; i < p->n_instrs; i++)
        for (int k = 0; k < TRI_MAX_ARGS; k++) {
            if (p->instr[i].slot[k] < 0) continue;
            tri_slot_life *of = &life[tri__slot_root(p, p->instr[i].slot[k])];
            if (!of->first) of->first = i + 1;
            of->last = i + 1;
        }
    return life;
}

int64_t *tri__program_live(tri_arena *arena, const tri_program *p) {
    const tri_slot_life *life = lives_of(arena, p);
    int64_t *live = tri__arena_alloc(arena, (size_t)p->n_instrs * TRI_MEM_COUNT * sizeof *live);
    for (int s = 0; s < p->n_slots; s++) {
        const tri_slot *slot = &p->slot[s];
        if (!life[s].first || !tri__mem_is_reused(slot->mem)) continue;
        int64_t bytes = tri__slot_bytes(slot, &p->max);
        live[(int64_t)(life[s].first - 1) * TRI_MEM_COUNT + (int)slot->mem] += bytes;
        if (life[s].last < p->n_instrs) live[(int64_t)life[s].last * TRI_MEM_COUNT + (int)slot->mem] -= bytes;
    }
    for (int i = 0; i < p->n_instrs; i++)
        for (int mem = 0; mem < TRI_MEM_COUNT; mem++) {
            int64_t *now = &live[(int64_t)i * TRI_MEM_COUNT + mem];
            if (!tri__mem_is_reused((tri_mem)mem)) *now = p->bytes[mem];
            else if (i) *now += now[-TRI_MEM_COUNT];
        }
    return live;
}
