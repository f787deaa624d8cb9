/* program.h - one rank's instructions for one step: fixed-size records over slots.
 *
 * A slot is a matrix: rows (constant, or a count bound for each microbatch) by columns. The memory pass gives it an
 * offset in the one allocation of its class. A slot with a parent is a view of a range of the parent's elements:
 * the parameters of a unit are views of one flat slot. */
#pragma once

#include "base/arena.h"
#include "layout/mesh.h"
#include "layout/texts.h"
#include "program/target.h"

/* Row counts that are known only when a microbatch is bound. */
typedef enum tri_sym {
    TRI_SYM_NONE,
    TRI_SYM_T0,    /* tokens of the primary text; of both where they share an encoder, W0 and X0 likewise */
    TRI_SYM_T1,    /* tokens of the secondary text */
    TRI_SYM_N,     /* samples */
    TRI_SYM_W0,    /* windows of the primary text; 0 in a model whose sequences are its samples */
    TRI_SYM_W1,    /* windows of the secondary text */
    TRI_SYM_X0,    /* rows of the primary text's experts, all of one layer; 0 in a model without */
    TRI_SYM_X1,    /* the same of the secondary text */
    TRI_SYM_COUNT
} tri_sym;

typedef struct tri_rows {
    tri_sym sym;
    int64_t add; /* rows = count(sym) * mul / div + add; count(TRI_SYM_NONE) is 0 */
    int div;     /* ranks that split the rows evenly: counts are multiples of it; 0 is 1 */
    int mul;     /* rows of each one that is counted; 0 is 1 */
} tri_rows;

static inline int tri__same_rows(tri_rows a, tri_rows b) {
    return a.sym == b.sym && a.add == b.add && a.div == b.div && a.mul == b.mul;
}

/* Row counts of one microbatch, and of a step's largest (which size the slots). */
typedef struct tri_counts {
    int64_t of[TRI_SYM_COUNT];      /* [TRI_SYM_NONE] is 0 */
    double squares[TRI_SYM_COUNT];  /* T0, T1: sum over sequences of length squared, for costs */
    /* of the largest: tokens of each text's shortest sequence; 0: any. For planning alone: a program has none */
    int64_t shortest[2];
} tri_counts;

typedef enum tri_mem {
    TRI_MEM_PARAM,   /* weights */
    TRI_MEM_GRAD,    /* gradients of weights */
    TRI_MEM_STATE,   /* optimizer state */
    TRI_MEM_ACT,     /* activations, their gradients, inputs: memory is reused by lifetime */
    TRI_MEM_GATHER,  /* weights gathered from their shards: memory is reused by lifetime */
    TRI_MEM_COMM,    /* gradients on their way to their owners: memory is reused by lifetime */
    /* copies of what is in offload memory, for kernels that cannot access it: memory is reused by lifetime */
    TRI_MEM_STAGING,
    TRI_MEM_RESULT,  /* small values that the host sets or reads: never reused */
    TRI_MEM_HOST,    /* records that hosts exchange: always in host memory, never reused */
    /* replicated state, in memory that outlives the rank: what the step before left of weights and optimizer state. Two
     * halves, written in turn by the number of the step; slots are in one */
    TRI_MEM_KEPT,
    TRI_MEM_WORK,    /* kernels' scratch space: one slot */
    TRI_MEM_COUNT
} tri_mem;

typedef struct tri_slot {
    const char *name;
    tri_dtype dtype;
    tri_mem mem;
    tri_rows rows;
    int64_t cols;
    int unit;            /* index of units[]; -1 none */
    int parent;          /* the slot this is a view of; -1 none */
    int64_t parent_at;   /* first element in the parent */
    int64_t offset;      /* bytes into its class's allocation; -1 until the memory pass; views: from the parent */
} tri_slot;

/* Kinds of steps, where steps differ: every rank knows a step's kind before it, and exactly one is open. An instruction
 * with gates runs only in steps of these kinds. */
#define TRI_GATES(X)                                                                                   \
    X(full, "gradients are summed in full")                                                            \
    X(turn, "the first step after those, which brings the momentum to every replica")                  \
    X(signs, "momentum travels as signs")                                                              \
    X(variance, "gradients are summed in full, also for the variance")                                 \
    X(alone, "replicas step without exchanging anything but figures")                                  \
    X(sync, "replicas synchronise after local steps")
typedef enum tri_gate {
#define X(name, text) TRI_GATE_##name,
    TRI_GATES(X)
#undef X
    TRI_GATE_COUNT
} tri_gate;
#define TRI_GATE(name) (1u << TRI_GATE_##name)

/* A layer that some steps leave out: it has a gate, which every rank knows to be open or closed before the step. What a
 * closed layer leaves behind is its input. Gates are independent of each other. */
typedef struct tri_layer_gate {
    const char *name; /* of its unit: primary.layer.3 */
    double keep;      /* share of all steps in which it is open, for costs */
} tri_layer_gate;
enum { TRI_MAX_LAYERS = 128 }; /* of a program */

/* What is open in a step: its kind, and the gates of its layers. */
typedef struct tri_open_gates {
    uint32_t kind;                        /* one bit; 0: all steps are the same */
    uint64_t closed[TRI_MAX_LAYERS / 64]; /* bit k % 64 of word k / 64: the gate of layer k is closed */
} tri_open_gates;

typedef struct tri_instr {
    uint16_t op;                /* tri_op */
    uint16_t acc;               /* bit k: operand k is added to, not overwritten */
    int16_t unit;               /* index of units[]; -1 none */
    int16_t mb;                 /* microbatch; -1: the whole step */
    int32_t slot[TRI_MAX_ARGS]; /* in the order of the operation's row; -1 where left out */
    int32_t lane;               /* which of TRI_LANES queues it runs on, where a device has several */
    uint32_t gates;             /* the kinds of steps in which it runs, TRI_GATE or-ed; 0: all */
    /* runs only where the gate of layer k is open: k + 1; only where it is closed: -(k + 1); 0: in both cases */
    int32_t layer;
    /* the earlier instruction of the other lane that must be done before it; -1: none, or one before it in its lane
     * waits already */
    int32_t await;
    tri_attr attr;
} tri_instr;

/* The row of an instruction's variant. */
static inline const tri_op_row *tri__instr_row(const tri_instr *instr) {
    return tri__op_row((tri_op)instr->op, &instr->attr);
}

/* The slot of an operand by its name: TRI_SLOT(instr, norm, x), where instr is a norm. */
#define TRI_SLOT(instr, op, name) ((instr)->slot[TRI_ARG(op, name)])

typedef struct tri_program {
    const char *title;     /* model and kind: "trimodal train" */
    tri_mesh mesh;
    int rank, n_mb;
    tri_counts max;        /* per microbatch; sizes the slots */
    int64_t bytes[TRI_MEM_COUNT]; /* the allocation of each class; set by the memory pass */
    uint32_t gates;        /* kinds of steps that occur, TRI_GATE or-ed; 0: all steps are the same */
    double share[TRI_GATE_COUNT]; /* of all steps, for costs; they sum to 1 where there are kinds */
    tri_layer_gate *layer; /* layers that some steps leave out; the same on all ranks */
    int n_layers, cap_layers;
    unsigned offload;      /* classes in the device's offload memory, 1 << tri_mem or-ed */
    const char **unit;
    tri_slot *slot;
    tri_instr *instr;
    int n_units, n_slots, n_instrs;
    int cap_units, cap_slots, cap_instrs;
} tri_program;

static inline int tri__layer_is_open(const tri_open_gates *now, int layer) {
    return !(now->closed[layer / 64] >> (layer % 64) & 1);
}
/* Whether an instruction reads, or writes, its operand k, which may be left out. */
static inline int tri__reads(const tri_instr *instr, int k) {
    return instr->slot[k] >= 0 && tri__access_reads(tri__instr_row(instr)->arg[k].access);
}
static inline int tri__writes(const tri_instr *instr, int k) {
    return instr->slot[k] >= 0 && tri__access_writes(tri__instr_row(instr)->arg[k].access);
}
/* Whether an instruction is part of a copy of replicated state: the post, or the wait for it. */
static inline int tri__is_keeping(const tri_program *program, const tri_instr *instr) {
    return (instr->op == TRI_OP_copy_post || instr->op == TRI_OP_copy_wait) &&
           program->slot[TRI_SLOT(instr, copy_post, y)].mem == TRI_MEM_KEPT;
}
/* Whether an instruction runs in a step. */
static inline int tri__is_open(const tri_instr *instr, const tri_open_gates *now) {
    if (instr->gates && !(instr->gates & now->kind)) return 0;
    if (!instr->layer) return 1;
    return instr->layer > 0 ? tri__layer_is_open(now, instr->layer - 1) : !tri__layer_is_open(now, -instr->layer - 1);
}
/* Whether two instructions run in the same steps. */
static inline int tri__same_gates(const tri_instr *a, const tri_instr *b) {
    return a->gates == b->gates && a->layer == b->layer;
}
/* Whether an instruction runs in every step. */
static inline int tri__runs_always(const tri_instr *instr) { return !instr->gates && !instr->layer; }
static inline void tri__close_layer(tri_open_gates *now, int layer) {
    now->closed[layer / 64] |= (uint64_t)1 << (layer % 64);
}
/* The gate of a unit: the one of its name, or of the layer whose experts it is; -1: none. */
int tri__layer_find(const tri_program *program, const char *name);
/* The steps that a proof of a program looks at, one after the other: for each kind, all layers open, all closed, and
 * each closed alone. Returns 0 when there is no case `index`. */
int tri__program_case(const tri_program *program, int index, tri_open_gates *now);
const char *tri__gate_name(tri_gate gate);
int tri__gate_find(const char *name); /* -1: none */
/* The kinds of a program's steps, one bit each; returns how many. Where all steps are the same there is one, 0. */
int tri__program_kinds(const tri_program *program, uint32_t kind[static TRI_GATE_COUNT]);
double tri__kind_share(const tri_program *program, uint32_t kind); /* of all steps */
const char *tri__mem_name(tri_mem mem);
/* Whether tables of all classes list one: those that most programs lack only where there are bytes. */
static inline int tri__mem_is_listed(tri_mem mem, int64_t bytes) { return mem != TRI_MEM_KEPT || bytes; }
/* Whether values of a class outlive the step: weights and optimizer state. */
static inline int tri__mem_lasts(tri_mem mem) { return mem == TRI_MEM_PARAM || mem == TRI_MEM_STATE; }
/* Whether memory of a class goes to other slots after a slot's last use. */
static inline int tri__mem_is_reused(tri_mem mem) {
    return mem == TRI_MEM_ACT || mem == TRI_MEM_GATHER || mem == TRI_MEM_COMM || mem == TRI_MEM_STAGING;
}
const char *tri__sym_name(tri_sym sym);
/* Token counts rounded up to a multiple of `granule`: padding rows belong to no sequence. */
tri_counts tri__counts_rounded(const tri_counts *counts, int granule);
/* Of samples whose texts have so many tokens each, in so many windows (0: not counted, unless an encoder reads several
 * texts). */
tri_counts tri__counts_of(const tri_readers *readers, int n_texts, int64_t samples, int64_t tokens, int64_t windows);
/* Rows and bytes of a slot when the row counts are `counts`. */
int64_t tri__slot_rows(const tri_slot *slot, const tri_counts *counts);
int64_t tri__slot_bytes(const tri_slot *slot, const tri_counts *counts);
/* The slot that owns the memory: the slot itself or its outermost parent. */
int tri__slot_root(const tri_program *program, int slot);
/* Where a slot begins: elements from the begin of its root; and bytes into its class's allocation. */
int64_t tri__slot_begin(const tri_program *program, int slot);
int64_t tri__slot_offset(const tri_program *program, int slot);
int tri__program_find(const tri_program *program, const char *slot_name); /* -1 */
int64_t tri__program_bytes(const tri_program *program);                   /* of all classes */
int64_t tri__program_offload_bytes(const tri_program *program);           /* of classes in offload memory */
int tri__program_lanes(const tri_program *program);                       /* lanes that instructions use */

/* Binds the dim letters of an instruction to extents, for the row counts `counts`. Fails where two operands
 * disagree. */
tri_status tri__instr_dims(const tri_program *program, const tri_instr *instr, const tri_counts *counts,
                           tri_dims *dims);
/* The type of the kernel row that runs an instruction: 16-bit where any operand without a fixed type is, else f32. */
tri_dtype tri__instr_dtype(const tri_program *program, const tri_instr *instr);
/* The cost of one instruction. */
tri_cost tri__instr_cost(const tri_program *program, const tri_instr *instr, const tri_counts *counts);
/* The share of all steps in which the gate of an instruction's layer lets it run. */
double tri__layer_share(const tri_program *program, const tri_instr *instr);
/* The share of all steps in which an instruction runs. */
double tri__instr_share(const tri_program *program, const tri_instr *instr);
/* The sum over a program whose microbatches are all as large as the largest: of the mean step, where kinds differ. */
tri_cost tri__program_cost(const tri_program *program);
