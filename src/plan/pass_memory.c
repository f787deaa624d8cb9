/* pass_memory.c - pass: from lifetimes to offsets. The plan is the allocation: the peak that it prints is the memory
 * used.
 *
 * Weights, gradients, state and results never share memory. Activations, gathered weights, transfer buffers and staging
 * slots do, by lifetime: each in turn gets the lowest offset that overlaps no slot placed before it and alive at the
 * same time. A wait names the slots of its transfer, so they live until then.
 *
 * With two lanes, reuse of activations' memory must not add waits: slots of instructions that may run concurrently,
 * given the waits for data dependencies (pass_lanes.c), count as alive at the same time. */
#include "plan/pass.h"

enum { ALIGN = 64 }; /* bytes: a cache line, and the widest vector */
static const double GAPS = 1.05; /* of the bytes alive at once: above this another order is tried */

enum { EACH = TRI_LANES }; /* as a lane: slots that both lanes use */

typedef struct life {
    int slot, first, last;   /* instructions, inclusive */
    int lane, from, to;      /* its lane; instructions of the other lane that may run while it is alive */
    int64_t bytes;
} life;

static int64_t align(int64_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

static int larger_first(const void *a, const void *b) {
    const life *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->slot < y->slot ? -1 : 1;
}

static int earlier_first(const void *a, const void *b) {
    const life *x = a, *y = b;
    return x->first != y->first ? x->first - y->first : larger_first(a, b);
}

/* Instructions [from[i], to[i]] of the other lane may run concurrently with instruction i: it is behind those before,
 * and those after are behind it. */
typedef struct beside {
    int *from, *to; /* [n_instrs] */
} beside;

static beside find_beside(const tri_pass *pass) {
    const tri_program *program = pass->program;
    int n = program->n_instrs, passed[TRI_LANES] = {0, 0}; /* instructions of a lane before this one have their `to` */
    beside out = {tri__arena_alloc(pass->arena, (size_t)n * sizeof *out.from),
                  tri__arena_alloc(pass->arena, (size_t)n * sizeof *out.to)};
    for (int i = 0; i < n; i++) {
        int lane = program->instr[i].lane;
        out.from[i] = pass->behind[i] + 1;
        out.to[i] = n - 1;
        for (int *at = &passed[!lane]; *at <= pass->behind[i]; ++*at)
            if (program->instr[*at].lane != lane) out.to[*at] = i - 1;
    }
    return out;
}

/* Lifetimes of a class's slots; returns how many. */
static int find_lives(const tri_pass *pass, tri_mem mem, life *lives) {
    const tri_program *program = pass->program;
    int by_lane = mem == TRI_MEM_ACT && pass->behind;
    beside beside = by_lane ? find_beside(pass) : (struct beside){0};
    for (int s = 0; s < program->n_slots; s++) lives[s] = (life){.slot = s, .first = -1};
    for (int i = 0; i < program->n_instrs; i++) {
        int lane = by_lane ? program->instr[i].lane : 0, from = by_lane ? beside.from[i] : i,
            to = by_lane ? beside.to[i] : i;
        for (int k = 0; k < TRI_MAX_ARGS; k++) {
            if (program->instr[i].slot[k] < 0) continue;
            life *at = &lives[tri__slot_root(program, program->instr[i].slot[k])];
            if (at->first < 0) *at = (life){.slot = at->slot, .first = i, .lane = lane, .from = from, .to = to};
            at->last = i;
            if (at->lane != lane) at->lane = EACH;
            if (from < at->from) at->from = from;
            if (to > at->to) at->to = to;
        }
    }
    int n = 0, last = 0;
    for (int s = 0; s < program->n_slots; s++) {
        if (program->slot[s].mem != mem || program->slot[s].parent >= 0 || lives[s].first < 0) continue;
        life kept = lives[s];
        kept.bytes = align(tri__slot_bytes(&program->slot[s], &program->max));
        lives[n++] = kept;
        if (kept.last > last) last = kept.last;
    }
    for (int i = 0; i < n; i++) /* what follows has none of them alive, and differs between ranks */
        if (lives[i].to > last) lives[i].to = last;
    return n;
}

/* A placed lifetime: instructions, and bytes of the class. */
typedef struct placed {
    int first, last, lane;
    int64_t begin, end;
} placed;

enum { LEVELS = 7, FINEST = 64, SHELVES = 2 * FINEST + LEVELS }; /* FINEST: 2 to the power LEVELS - 1 */

typedef struct shelf {
    placed *at; /* by begin */
    int n, cap;
} shelf;

/* All placed lifetimes. Time is cut into tiles, those of a level twice as long as those of the level before, the last
 * one is all of it. A lifetime is in the tile where it begins, of the first level whose tiles are as long as it is: so
 * it is compared only with those around it. */
typedef struct space {
    tri_arena *arena;
    int each;                    /* instructions of a tile of the first level */
    shelf tile[LEVELS][FINEST];
} space;

static int live_together(const placed *other, const life *want) {
    if (other->lane == want->lane && want->lane != EACH)
        return other->first <= want->last && want->first <= other->last;
    return other->first <= want->to && want->from <= other->last;
}

/* The lowest bytes that are free while `want` lives: each overlap pushes it past that slot's end, until there is none.
 */
static int64_t lowest_fit(const space *space, const life *want) {
    const shelf *shelves[SHELVES];
    int n = 0, next[SHELVES], lifted = 1;
    int64_t at = 0;
    for (int level = 0, each = space->each; level < LEVELS; level++, each *= 2)
        for (int t = want->from >= each ? want->from / each - 1 : 0; t <= want->to / each; t++)
            if (space->tile[level][t].n) next[n] = 0, shelves[n++] = &space->tile[level][t];
    while (lifted) {
        lifted = 0;
        for (int i = 0; i < n; i++)
            for (; next[i] < shelves[i]->n && shelves[i]->at[next[i]].begin < at + want->bytes; next[i]++) {
                const placed *other = &shelves[i]->at[next[i]];
                if (!live_together(other, want) || other->end <= at) continue;
                at = other->end;
                lifted = 1;
            }
    }
    return at;
}

static void put_on(tri_arena *arena, shelf *shelf, placed place) {
    int at = 0;
    for (int step = shelf->n; step > 0;) { /* the first that begins after it */
        int half = step / 2;
        if (shelf->at[at + half].begin > place.begin) step = half;
        else at += half + 1, step -= half + 1;
    }
    TRI_PUSH(arena, shelf->at, shelf->n, shelf->cap);
    memmove(shelf->at + at + 1, shelf->at + at, (size_t)(shelf->n - 1 - at) * sizeof *shelf->at);
    shelf->at[at] = place;
}

static void take(space *space, placed place) {
    int level = 0, each = space->each;
    while (place.last - place.first >= each) level++, each *= 2;
    put_on(space->arena, &space->tile[level][place.first / each], place);
}

/* Equal buffers of the largest slot's size, where that takes less: slots of similar sizes, such as gathered blocks,
 * leave gaps otherwise. As many buffers as slots are alive at once. `lives` is sorted larger_first. */
static void place_in_buffers(tri_pass *pass, tri_mem mem, life *lives, int n) {
    tri_program *program = pass->program;
    int64_t each = n ? lives[0].bytes : 0, most = each ? (program->bytes[mem] - 1) / each : 0; /* buffers */
    int *until = tri__arena_alloc(pass->arena, (size_t)most * sizeof *until); /* last instruction of its slot */
    int *buffer = tri__arena_alloc(pass->arena, (size_t)n * sizeof *buffer), used = 0;
    qsort(lives, (size_t)n, sizeof *lives, earlier_first);
    for (int i = 0; i < n; i++) {
        int b = 0;
        while (b < used && until[b] >= lives[i].first) b++;
        if (b == most) return;
        if (b == used) used++;
        until[b] = lives[i].last;
        buffer[i] = b;
    }
    for (int i = 0; i < n; i++) program->slot[lives[i].slot].offset = buffer[i] * each;
    program->bytes[mem] = used * each;
}

static int same_lives(const life *a, const life *b, int n) {
    const size_t from = offsetof(life, first); /* slots may have other numbers, in the same order */
    for (int i = 0; i < n; i++)
        if (memcmp((const char *)&a[i] + from, (const char *)&b[i] + from, sizeof *a - from) != 0) return 0;
    return 1;
}

/* Reuses the offsets of another program with the same lifetimes, as those of other ranks mostly are. */
static int place_as_before(tri_pass *pass, tri_mem mem, const life *lives, int n) {
    const tri_places *known = pass->places;
    if (!known || known->n[mem] != n || !same_lives(known->lives[mem], lives, n)) return 0;
    for (int i = 0; i < n; i++) pass->program->slot[lives[i].slot].offset = known->offset[mem][i];
    pass->program->bytes[mem] = known->bytes[mem];
    return 1;
}

/* `found`: [n] lifetimes in the order of larger_first, in the arena of pass->places. */
static void remember(tri_pass *pass, tri_mem mem, life *found, int n) {
    tri_places *known = pass->places;
    known->lives[mem] = found, known->n[mem] = n, known->bytes[mem] = pass->program->bytes[mem];
    known->offset[mem] = tri__arena_alloc(known->arena, (size_t)n * sizeof *known->offset[mem]);
    for (int i = 0; i < n; i++) known->offset[mem][i] = pass->program->slot[found[i].slot].offset;
}

/* Gives each slot, in the order of `lives`, the lowest offset that fits; returns the bytes needed. */
static int64_t place_in_turn(tri_pass *pass, const life *lives, int n) {
    tri_program *program = pass->program;
    space space = {.arena = pass->arena, .each = program->n_instrs / FINEST + 1};
    int64_t bytes = 0;
    for (int i = 0; i < n; i++) {
        int64_t offset = lowest_fit(&space, &lives[i]), end = offset + lives[i].bytes;
        program->slot[lives[i].slot].offset = offset;
        take(&space, (placed){lives[i].first, lives[i].last, lives[i].lane, offset, end});
        if (end > bytes) bytes = end;
    }
    return bytes;
}

/* Bytes alive at the worst moment: no plan takes less. */
static int64_t most_alive(const tri_pass *pass, const life *lives, int n) {
    int64_t *change = tri__arena_alloc(pass->arena, ((size_t)pass->program->n_instrs + 1) * sizeof *change), now = 0,
            most = 0;
    for (int i = 0; i < n; i++) change[lives[i].first] += lives[i].bytes, change[lives[i].last + 1] -= lives[i].bytes;
    for (int i = 0; i < pass->program->n_instrs; i++) {
        now += change[i];
        if (now > most) most = now;
    }
    return most;
}

/* Ways to place the slots of a class. */
typedef enum way { LARGEST_FIRST, EARLIEST_FIRST, LANES_APART } way;

/* LANES_APART: largest first, and the lanes share no byte. Leaves `lives` in the order of larger_first. */
static int64_t place_by(tri_pass *pass, way way, life *lives, int n) {
    life *wide = lives;
    if (way == EARLIEST_FIRST) qsort(lives, (size_t)n, sizeof *lives, earlier_first);
    if (way == LANES_APART) {
        wide = tri__arena_alloc(pass->arena, (size_t)n * sizeof *wide);
        memcpy(wide, lives, (size_t)n * sizeof *wide);
        for (int i = 0; i < n; i++) wide[i].from = 0, wide[i].to = pass->program->n_instrs - 1;
    }
    int64_t bytes = place_in_turn(pass, wide, n);
    if (way == EARLIEST_FIRST) qsort(lives, (size_t)n, sizeof *lives, larger_first);
    return bytes;
}

/* Places slots (sorted largest first) in the way that takes the fewest bytes. */
static void place_again(tri_pass *pass, tri_mem mem, life *lives, int n) {
    int64_t *bytes = &pass->program->bytes[mem];
    way best = LARGEST_FIRST, last = mem == TRI_MEM_ACT && pass->behind ? LANES_APART : EARLIEST_FIRST;
    for (way way = EARLIEST_FIRST; way <= last; way++) {
        int64_t takes = place_by(pass, way, lives, n);
        if (takes < *bytes) *bytes = takes, best = way;
    }
    if (best != last) place_by(pass, best, lives, n);
}

static int has_class(const tri_program *program, tri_mem mem) {
    for (int s = 0; s < program->n_slots; s++)
        if (program->slot[s].mem == mem) return 1;
    return 0;
}

/* Largest first mostly leaves the fewest gaps, but not in the long rounds of some schedules. */
static void place_by_lifetime(tri_pass *pass, tri_mem mem) {
    tri_program *program = pass->program;
    if (!has_class(program, mem)) return;
    life *lives = tri__arena_alloc(pass->arena, (size_t)program->n_slots * sizeof *lives);
    int n = find_lives(pass, mem, lives);
    qsort(lives, (size_t)n, sizeof *lives, larger_first);
    if (place_as_before(pass, mem, lives, n)) return;
    life *found = pass->places ? tri__arena_alloc(pass->places->arena, (size_t)n * sizeof *found) : NULL;
    if (found) memcpy(found, lives, (size_t)n * sizeof *found);
    program->bytes[mem] = place_by(pass, LARGEST_FIRST, lives, n);
    if ((double)program->bytes[mem] > GAPS * (double)most_alive(pass, lives, n)) place_again(pass, mem, lives, n);
    if (mem != TRI_MEM_ACT || !pass->behind) place_in_buffers(pass, mem, lives, n);
    if (found) remember(pass, mem, found, n);
}

/* Scratch space: one slot, with room for the largest workspace in each lane. */
static void place_work(tri_pass *pass) {
    tri_program *program = pass->program;
    int64_t bytes = 0;
    for (int i = 0; i < program->n_instrs; i++) {
        const tri_instr *instr = &program->instr[i];
        if (tri__op_queue(instr->op) != TRI_QUEUE_COMPUTE) continue;
        int variant = tri__variant((tri_op)instr->op, &instr->attr);
        const tri_workspace *work = &pass->in->target->work[variant][tri__instr_dtype(program, instr)];
        int k0 = 0;
        while (instr->slot[k0] < 0) k0++;
        const tri_slot *first = &program->slot[instr->slot[k0]];
        int64_t halves = 0;
        for (int k = 0; k < TRI_MAX_ARGS; k++)
            if (instr->slot[k] >= 0 && tri__dtype_bytes(program->slot[instr->slot[k]].dtype) == 2)
                halves += tri__slot_bytes(&program->slot[instr->slot[k]], &program->max) / 2;
        int64_t need = tri__workspace_bytes(work, tri__slot_rows(first, &program->max), first->cols, halves);
        if (need > bytes) bytes = need;
    }
    bytes = align(bytes) * tri__program_lanes(program);
    tri_builder b = {.arena = pass->arena, .program = program, .unit = -1, .mb = -1};
    int slot = TRI_BUILD_FLAT(&b, TRI_MEM_WORK, TRI_U8, bytes, "work");
    program->slot[slot].offset = 0;
    program->bytes[TRI_MEM_WORK] = bytes;
}

/* Offsets and sums of sizes are counted in 64 bits: all slots together, one after another, must stay far below that. */
static tri_status check_sizes(const tri_program *program, const tri_counts *max) {
    const double most = 0x1p56; /* 64 PiB; workspaces are a few times a slot's size */
    char a[32];
    double bytes = 0;
    for (int s = 0; s < program->n_slots; s++) {
        const tri_slot *slot = &program->slot[s];
        if (slot->parent < 0)
            bytes += (double)tri__slot_rows(slot, max) * (double)slot->cols * (double)tri__dtype_bytes(slot->dtype);
    }
    if (bytes < most) return TRI_OK;
    return tri__fail(TRI_RESOURCE,
                     "the buffers of rank %d come to %s, more than any machine has: take a smaller --batch-size, a "
                     "shorter --max-sen-len, "
                     "or a smaller model",
                     program->rank, tri__text_bytes(bytes, a));
}

tri_status tri__pass_memory(tri_pass *pass) {
    tri_program *program = pass->program;
    const tri_counts *max = &program->max;
    TRI_TRY(check_sizes(program, max));
    program->offload = pass->in->offload;
    for (int s = 0; s < program->n_slots; s++) {
        tri_slot *slot = &program->slot[s];
        if (slot->parent >= 0) continue;
        slot->offset = tri__mem_is_reused(slot->mem) ? 0 : program->bytes[slot->mem];
        if (tri__mem_is_reused(slot->mem)) continue; /* placed by lifetime, if anything uses it */
        program->bytes[slot->mem] += align(tri__slot_bytes(slot, max));
    }
    program->bytes[TRI_MEM_KEPT] *= 2; /* two halves, in turn */
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++)
        if (tri__mem_is_reused((tri_mem)mem)) place_by_lifetime(pass, (tri_mem)mem);
    place_work(pass);
    return TRI_OK;
}
