/* lane_order.c - the bytes that both lanes touch, cut into pieces at the slots' borders. Two segment trees a lane keep
 * the last instruction that touched each piece and the last that wrote it. Instructions come in order, so every value
 * set is the largest yet: setting and querying take O(log pieces).
 *
 * One number a lane, `behind`, is enough: a lane that waits for an instruction is behind all earlier ones of the other,
 * too, since that lane runs in order. For the same reason only the last conflicting instruction has to be found. */
#include "program/lane_order.h"
#include "program/transfer.h"

_Static_assert(TRI_LANES == 2, "an instruction waits for one other lane");

/* A segment tree: the last instruction that set any of a range of pieces, as 1 + its index; 0: none. The children of
 * node k are 2k and 2k + 1; pieces are the leaves n, n + 1... */
typedef struct tree {
    int n;           /* a power of two */
    int32_t *whole;  /* [2n] the last that set the whole node */
    int32_t *any;    /* [2n] the last that set the node or anything below it */
} tree;

/* Pieces [begin, end) of all bytes. */
typedef struct pieces {
    int begin, end;
} pieces;

typedef struct border {
    tri_mem mem;
    int64_t at;
} border;

struct tri_lane_order {
    const tri_program *program;
    pieces *of;                    /* [n_slots] */
    tree touched[TRI_LANES], written[TRI_LANES];
    int behind[TRI_LANES];         /* the last instruction of the other lane that is ordered before this lane; -1 */
};

static int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }

static void set(tree *t, pieces at, int32_t value) {
    for (int l = at.begin + t->n, r = at.end + t->n; l < r; l /= 2, r /= 2) {
        if (l % 2) t->whole[l] = t->any[l] = value, l++;
        if (r % 2) r--, t->whole[r] = t->any[r] = value;
    }
    for (int l = (at.begin + t->n) / 2, r = (at.end - 1 + t->n) / 2; l > 0; l /= 2, r /= 2)
        t->any[l] = t->any[r] = value;
}

/* Nodes inside the range (any), and the ancestors of its two ends (whole). */
static int32_t last_of(const tree *t, pieces at) {
    int32_t last = 0;
    for (int l = at.begin + t->n, r = at.end + t->n; l < r; l /= 2, r /= 2) {
        if (l % 2) last = larger(last, t->any[l++]);
        if (r % 2) last = larger(last, t->any[--r]);
    }
    for (int l = at.begin + t->n, r = at.end - 1 + t->n; l > 0; l /= 2, r /= 2)
        last = larger(last, larger(t->whole[l], t->whole[r]));
    return last;
}

/* A slot that instructions touch, and from which lanes, a bit each. */
typedef struct touched {
    tri_slot_bytes at;
    int slot, lanes;
} touched;

static int compare(tri_mem mem_a, int64_t a, tri_mem mem_b, int64_t b) {
    if (mem_a != mem_b) return mem_a < mem_b ? -1 : 1;
    return a < b ? -1 : a > b;
}

static int by_begin(const void *a, const void *b) {
    const touched *x = a, *y = b;
    return compare(x->at.mem, x->at.begin, y->at.mem, y->at.begin);
}

static int rising(const void *a, const void *b) {
    const border *x = a, *y = b;
    return compare(x->mem, x->at, y->mem, y->at);
}

/* All non-empty slots that instructions touch, by their begin; returns how many. */
static int list_touched(const tri_program *program, const tri_slot_bytes *of, touched *out) {
    int n = 0;
    for (int s = 0; s < program->n_slots; s++) out[s] = (touched){of[s], s, 0};
    for (int i = 0; i < program->n_instrs; i++)
        for (int k = 0; k < TRI_MAX_ARGS; k++)
            if (program->instr[i].slot[k] >= 0) out[program->instr[i].slot[k]].lanes |= 1 << program->instr[i].lane;
    for (int s = 0; s < program->n_slots; s++)
        if (out[s].lanes && out[s].at.begin < out[s].at.end) out[n++] = out[s];
    qsort(out, (size_t)n, sizeof *out, by_begin);
    return n;
}

/* Keeps only slots in stretches of bytes that both lanes touch: the others need no waits. */
static int keep_common(touched *list, int n) {
    int kept = 0;
    for (int begin = 0, end; begin < n; begin = end) {
        int lanes = 0;
        int64_t until = list[begin].at.begin;
        for (end = begin; end < n && list[end].at.mem == list[begin].at.mem &&
                          (end == begin || list[end].at.begin < until);
             end++) {
            lanes |= list[end].lanes;
            if (list[end].at.end > until) until = list[end].at.end;
        }
        for (int i = begin; i < end && lanes == (1 << TRI_LANES) - 1; i++) list[kept++] = list[i];
    }
    return kept;
}

static int find_border(const border *borders, int n, tri_mem mem, int64_t at) {
    const border key = {mem, at};
    return (int)((const border *)bsearch(&key, borders, (size_t)n, sizeof key, rising) - borders);
}

/* The pieces of each slot, none where the lanes share no bytes; returns how many there are. */
static int cut(tri_arena *arena, const tri_program *program, const tri_slot_bytes *bytes, pieces *of) {
    touched *list = tri__arena_alloc(arena, (size_t)program->n_slots * sizeof *list);
    int n_list = keep_common(list, list_touched(program, bytes, list)), n = 0;
    border *borders = tri__arena_alloc(arena, 2 * (size_t)n_list * sizeof *borders);
    for (int i = 0; i < n_list; i++) {
        borders[2 * i] = (border){list[i].at.mem, list[i].at.begin};
        borders[2 * i + 1] = (border){list[i].at.mem, list[i].at.end};
    }
    qsort(borders, 2 * (size_t)n_list, sizeof *borders, rising);
    for (int i = 0; i < 2 * n_list; i++)
        if (i == 0 || rising(&borders[i], &borders[n - 1]) != 0) borders[n++] = borders[i];
    for (int i = 0; i < n_list; i++)
        of[list[i].slot] = (pieces){find_border(borders, n, list[i].at.mem, list[i].at.begin),
                                    find_border(borders, n, list[i].at.mem, list[i].at.end)};
    return n;
}

static tree new_tree(tri_arena *arena, int n) {
    size_t bytes = 2 * (size_t)n * sizeof(int32_t);
    return (tree){n, tri__arena_alloc(arena, bytes), tri__arena_alloc(arena, bytes)};
}

tri_lane_order *tri__lane_order_open(tri_arena *arena, const tri_program *program, const tri_slot_bytes *of) {
    tri_lane_order *order = tri__arena_alloc(arena, sizeof *order);
    order->program = program;
    order->of = tri__arena_alloc(arena, (size_t)program->n_slots * sizeof *order->of);
    int n_pieces = cut(arena, program, of, order->of), n = 1;
    while (n < n_pieces) n *= 2;
    for (int lane = 0; lane < TRI_LANES; lane++) {
        order->touched[lane] = new_tree(arena, n);
        order->written[lane] = new_tree(arena, n);
        order->behind[lane] = -1;
    }
    return order;
}

/* A transfer in flight may still write, or read, its slots at any time: others may do neither. But what is copied into
 * the class kept may be read meanwhile. */
static int writes(const tri_lane_order *order, const tri_instr *instr, int k) {
    int moves = tri__begins(instr->op) || tri__ends(instr->op);
    return (moves && !tri__is_keeping(order->program, instr)) ||
           tri__access_writes(tri__instr_row(instr)->arg[k].access);
}

/* A reader must be behind writers, a writer behind readers, too. */
int tri__lane_order_missing(const tri_lane_order *order, const tri_instr *instr) {
    int32_t last = 0;
    int other = !instr->lane;
    if (tri__ends(instr->op) && tri__is_keeping(order->program, instr)) return -1; /* the host waits, for its post */
    for (int k = 0; k < TRI_MAX_ARGS; k++) {
        if (instr->slot[k] < 0) continue;
        pieces at = order->of[instr->slot[k]];
        if (at.begin < at.end)
            last = larger(last, last_of(writes(order, instr, k) ? &order->touched[other] : &order->written[other], at));
    }
    return last - 1 > order->behind[instr->lane] ? last - 1 : -1;
}

void tri__lane_order_follow(tri_lane_order *order, int lane, int index) {
    order->behind[lane] = larger(order->behind[lane], index);
}

int tri__lane_order_behind(const tri_lane_order *order, int lane) { return order->behind[lane]; }

void tri__lane_order_add(tri_lane_order *order, const tri_instr *instr, int index) {
    for (int k = 0; k < TRI_MAX_ARGS; k++) {
        if (instr->slot[k] < 0) continue;
        pieces at = order->of[instr->slot[k]];
        if (at.begin == at.end) continue;
        set(&order->touched[instr->lane], at, index + 1);
        if (writes(order, instr, k)) set(&order->written[instr->lane], at, index + 1);
    }
}

/* Lanes exist, and each wait is for an earlier instruction of the other lane. */
static const char *check_each(const tri_program *program, int *line) {
    for (*line = 0; *line < program->n_instrs; ++*line) {
        const tri_instr *instr = &program->instr[*line];
        if (instr->lane < 0 || instr->lane >= TRI_LANES) return "no such lane%s";
        if (instr->await < -1 || instr->await >= *line ||
            (instr->await >= 0 && program->instr[instr->await].lane == instr->lane))
            return "it does not wait for an earlier instruction of the other lane%s";
    }
    return NULL;
}

const char *tri__lane_order_fault(tri_arena *arena, const tri_program *program, const tri_slot_bytes *of,
                                  const int *post, int *line, int *other) {
    const char *fault = check_each(program, line);
    if (fault || tri__program_lanes(program) == 1) return fault;
    tri_lane_order *order = tri__lane_order_open(arena, program, of);
    for (*line = 0; *line < program->n_instrs; ++*line) {
        const tri_instr *instr = &program->instr[*line];
        tri__lane_order_follow(order, instr->lane, instr->await);
        int begun = tri__ends(instr->op) && program->instr[post[*line]].lane != instr->lane ? post[*line] : -1;
        if (tri__runs_always(instr)) tri__lane_order_follow(order, instr->lane, begun); /* a gated wait may not run */
        *other = tri__lane_order_missing(order, instr);
        if (*other >= 0 && *other != begun) return "it shares bytes with %s, of the other lane, and may overtake it";
        tri__lane_order_add(order, instr, *line);
    }
    return NULL;
}
