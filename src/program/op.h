/* op.h - the operations, as a table made from ops.def.
 *
 * An instruction is an operation with attributes. Some attributes multiply an operation: which activation follows a
 * product, which factors it has. Each combination is a *variant*, with a mnemonic, operands, costs and kernels of its
 * own; variant.c makes their rows from those of ops.def. Whoever prints, checks, counts or runs an instruction asks for
 * the row of its variant; whoever rewrites programs sets attributes. */
#pragma once

#include "layout/dtype.h"

typedef enum tri_op {
#define TRI_OP(name, ...) TRI_OP_##name,
#include "program/ops.def"
    TRI_OP_COUNT
} tri_op;

/* TRI_ARG(norm, x): the index of operand x of operation norm, a constant. Computed by offsetof in a struct with one
 * byte an operand. */
#define TRI_ARG(op, name) ((int)offsetof(struct tri_args_##op, name))
#define R(name, ...) name
#define Ro(name, ...) name
#define G(name, ...) name
#define Go(name, ...) name
#define W(name, ...) name
#define Wo(name, ...) name
#define A(name, ...) name
#define Ao(name, ...) name
#define U(name, ...) name
#define Uo(name, ...) name
#define TRI_OP(op, phase, flops, adjoint, formula, row, ...) struct tri_args_##op { char __VA_ARGS__; };
#include "program/ops.def"
#undef R
#undef Ro
#undef G
#undef Go
#undef W
#undef Wo
#undef A
#undef Ao
#undef U
#undef Uo

typedef enum tri_op_phase {
    TRI_PHASE_I, TRI_PHASE_F, TRI_PHASE_B, TRI_PHASE_W, TRI_PHASE_U, TRI_PHASE_T, TRI_PHASE_M
} tri_op_phase;

/* Where an operation runs: kernels, the transport, copies from the host and from offload memory. */
typedef enum tri_queue { TRI_QUEUE_COMPUTE, TRI_QUEUE_COMM, TRI_QUEUE_COPY } tri_queue;

typedef enum tri_access {
    TRI_ACCESS_NONE,  /* ends an operand list */
    TRI_ACCESS_R,     /* read */
    TRI_ACCESS_G,     /* read, only gathered rows */
    TRI_ACCESS_W,     /* write */
    TRI_ACCESS_A,     /* write or accumulate */
    TRI_ACCESS_U      /* read and write */
} tri_access;

enum { TRI_MAX_ARGS = 14, TRI_DTYPE_COMPUTE = -1, TRI_DTYPE_ANY = -2, TRI_DTYPE_F8 = -3 };

typedef struct tri_operand {
    const char *name;
    tri_access access; /* TRI_ACCESS_NONE: this variant has no such operand */
    int optional;
    int dtype;         /* a tri_dtype, TRI_DTYPE_COMPUTE, _ANY or _F8 */
    const char *dims;  /* "T,H" */
} tri_operand;

/* What the values of attributes say about a variant. Operands and kernels depend on these alone. */
#define TRI_FACTS(X)                                                     \
    X(ACT, "an activation is part of the operation")                     \
    X(RESULT, "its slope is computed from the result")                   \
    X(DB, "the gradient of a bias is summed on the way")                 \
    X(BACK, "the same for a gradient: of an operation that is its own adjoint") \
    X(JOIN, "parts become whole again")                                  \
    X(MEAN, "of all rows, not of the first")                             \
    X(SPARSE, "attention to the keys of present blocks alone")           \
    X(FIRST, "attention of each sequence's first token alone")           \
    X(RELATIVE, "scores depend on the distance of query and key")        \
    X(BIAS, "which adds a number to them")                               \
    X(BITS, "dropout's decisions are kept as bits")                      \
    X(QUANT, "factors have 8 bits, and a scale for each row")            \
    X(FP8, "these are floating-point numbers")                           \
    X(SCALED, "of FP8 training: factors, or the first result, have 8 bits and one scale") \
    X(EXPERTS, "runs of rows have weights of their own")\
    X(INT8, "of rows as quantised to int8")                              \
    X(ALONE, "a norm of one tensor, without dropout and residual")       \
    X(BALANCE, "of a layer's balancing sums")                            \
    X(WEIGHT, "the gradient of a weight, of an operation that is its own adjoint") \
    X(COUPLED, "decay is part of the gradient")                          \
    X(COPY, "writes a copy of fewer bits")                               \
    X(FROZEN, "with a frozen variance")                                  \
    X(SUM, "the sum over rows")                                          \
    X(SENT, "adds to what is sent")                                      \
    X(OWN, "of a replica that takes local steps")                                 \
    X(MEET, "of replicas that synchronise")                              \
    X(WEIGHTED, "rows have weights")
enum {
#define X(name, text) TRI_BIT_##name,
    TRI_FACTS(X)
#undef X
};
typedef enum tri_fact {
    TRI_FACT_NONE,
#define X(name, text) TRI_FACT_##name = 1 << TRI_BIT_##name,
    TRI_FACTS(X)
#undef X
} tri_fact;

/* The extents of the dim letters, as bound by one instruction's operands. */
typedef struct tri_dims {
    double of[26]; /* by letter; 0 where unbound */
} tri_dims;

/* Families of operations, by which profiles sum times. */
typedef enum tri_op_family {
    TRI_OPS_ELEMENTWISE, /* activations, dropout, sums, pooling, casts, the loss */
    TRI_OPS_ATTENTION,
    TRI_OPS_PRODUCTS,
    TRI_OPS_NORMS,
    TRI_OPS_EMBEDDING,
    TRI_OPS_UPDATE,      /* all of phase U */
    TRI_OPS_COUNT
} tri_op_family;

/* How ranks that share layers split an operation of the forward pass (plan/pass_tensor.c). */
typedef enum tri_op_split {
    TRI_SPLIT_NONE,      /* whole operands, whole results */
    TRI_SPLIT_SAME,      /* results are placed as the operands that are read */
    TRI_SPLIT_COLUMNS,   /* each rank has its heads, or its columns; or all of them, where it reads all */
    TRI_SPLIT_PRODUCT,   /* by the share of its weight w: by rows whole -> columns, by columns columns -> a sum */
    TRI_SPLIT_TABLE,     /* by the share of its table: whole -> columns, or a sum where ranks have some of the rows */
    TRI_SPLIT_POOL       /* columns -> columns, all else whole */
} tri_op_split;

/* What limits an operation's arithmetic where no curve times it. */
typedef enum tri_op_rate {
    TRI_RATE_TYPE,       /* products of its element type, of FP8 training (tri__row_is_fp8), or what `like` has */
    TRI_RATE_ATTENTION   /* the share of them that attention reaches; of first tokens alone TRI_RATE_TYPE */
} tri_op_rate;

/* What attr.part counts; ranks that share tokens set it (plan/pass_context.c). */
typedef enum tri_op_part {
    TRI_PART_NONE,
    TRI_PART_TOKENS,     /* runs of all tokens' rows; the operand tri__row_run is one of them */
    TRI_PART_ROWS,       /* runs of another operand's rows; tri__row_run is one of them */
    TRI_PART_KEYS,       /* runs of a ring: that of the keys; attr.run is that of the queries, 0 for first tokens */
    TRI_PART_ALL,        /* runs of a ring, of which it uses all */
    TRI_PART_HEADS       /* runs of columns: the rank's own heads */
} tri_op_part;

/* What attention adds to the products of queries and keys. */
typedef enum tri_score { TRI_SCORE_DOT, TRI_SCORE_BIASED, TRI_SCORE_DISENTANGLED } tri_score;

/* A product of 8-bit factors with a scale each, of the time that it takes in bf16, where it was not measured: 0.48 to
 * 0.57 in steps of base512, large512 and oneb on an H200. */
#define TRI_FP8_TIME 0.53

/* Activations: activation.def. */
typedef enum tri_activation {
#define TRI_ACTIVATION(NAME, ...) TRI_ACTIVATION_##NAME,
#include "program/activation.def"
    TRI_ACTIVATION_COUNT
} tri_activation;

typedef struct tri_activation_row {
    const char *name;
    double flops, slope; /* of an element, forward and backward */
    int by_result;       /* 1: the slope is computed from the result */
    const char *config;  /* names in a config.json, separated by spaces; the first is written */
} tri_activation_row;
extern const tri_activation_row tri__activations[TRI_ACTIVATION_COUNT];

/* What a dense layer multiplies: numbers of the computing type, or of 8 bits with a scale for each row, or for all (FP8
 * training). */
typedef enum tri_factors { TRI_FACTORS_PLAIN, TRI_FACTORS_INT8, TRI_FACTORS_FP8, TRI_FACTORS_SCALED } tri_factors;

/* What is known of a variant of an operation. */
typedef struct tri_op_row tri_op_row;
struct tri_op_row {
    const char *name;              /* the mnemonic; "": the operation has no such variant */
    tri_op op;
    unsigned facts;                /* tri_fact or-ed */
    const tri_activation_row *act; /* the one that is part of it; NULL: none */
    tri_op_phase phase;
    double (*flops)(const tri_dims *dims, const tri_op_row *row);
    const char *adjoint, *formula;
    tri_operand arg[TRI_MAX_ARGS]; /* an operand has the same place in all variants of an operation */
    int n_args;

    tri_op_family family;
    tri_op_split split;
    int like;            /* a variant: where this one was not measured it takes `times` as long as that, which does */
    double times;        /* the same kind of work; -1: as none */
    tri_op_rate rate;
    tri_op_part part;
    int lowered;         /* 1: to transfers, before a program runs */
    int elementwise;     /* 1: treats operands of any shape element by element; others those with the dims 1,K */
    int decodes;         /* 1: its output is what coded bytes of other ranks stand for */
};

/* An operand's matrix: [rows, cols] of dtype. */
typedef struct tri_extent {
    int64_t rows, cols;
    tri_dtype dtype;
    int there; /* 0: omitted */
} tri_extent;

/* Floating point operations and bytes moved. */
typedef struct tri_cost {
    double flops, bytes;
} tri_cost;

typedef struct tri_attr tri_attr;
/* Binds the dim letters to the operands' extents, [TRI_MAX_ARGS]; the caller sets Q. Returns the first operand that
 * does not fit those before it, or -1. */
int tri__op_bind(const tri_op_row *row, const tri_extent *arg, tri_dims *dims);
/* The cost of one call; acc: bit k: operand k is added to. */
tri_cost tri__op_cost(const tri_op_row *row, const tri_extent *arg, unsigned acc, const tri_dims *dims);
int tri__row_arg(const tri_op_row *row, const char *name); /* the operand's index; -1: the variant has none */
int tri__row_run(const tri_op_row *row);                /* the operand that is a run of rows, by attr.part; -1 */
int tri__row_is_flat(const tri_op_row *row, int k);     /* operand k is treated element by element */
int tri__row_is_fp8(const tri_op_row *row);             /* a product of FP8 training */
tri_op_family tri__op_family(tri_op op);
tri_queue tri__op_queue(tri_op op);
int tri__op_is_lowered(tri_op op);                      /* lowered to transfers before a program runs */
int tri__access_reads(tri_access access);               /* R, G, U */
int tri__access_writes(tri_access access);              /* W, A, U */

/* An instruction's attributes. A field that its operation does not use is 0. The first ones choose a variant: they are
 * printed as part of the mnemonic. */
struct tri_attr {
    int32_t activation; /* act, linear and their gradients: 1 + the tri_activation that is part of it; 0: none */
    int32_t sums;       /* act_din, attention_din: 1: sums the gradient of a bias, too; unpack: 1: the sum over rows */
    int32_t back;       /* operations that are their own adjoints: 1: of a gradient */
    int32_t join;       /* heads: 1: the parts become whole again */
    int32_t mean;       /* pool: 1: of all rows of a sequence; 0: the first */
    int32_t sparse;     /* attention: 1: to the keys of present blocks alone */
    int32_t first;      /* attention: 1: of each sequence's first token alone */
    int32_t score;      /* attention: a tri_score */
    int32_t mask;       /* attention: 1: keeps dropout's decisions as bits */
    int32_t scaled;     /* attention, norm and their gradients: 1: the first result is in 8 bits, for FP8 training */
    int32_t factors;    /* linear and its gradients, quantize: a tri_factors */
    int32_t experts;    /* linear and its gradients: 1: each run of rows has an expert's weights */
    int32_t residual;   /* norm, norm_din: 1: fused with dropout and a residual */
    int32_t int8;       /* embed: 1: of rows as quantised to int8 */
    int32_t balance;    /* zero: 1: a layer's balancing sums */
    int32_t coupled;    /* adamw: 1: decay is part of the gradient */
    int32_t copy;       /* adamw: 1: writes a copy, too */
    int32_t frozen;     /* lamb_step: 1: that of 1-bit LAMB */
    int32_t sent;       /* momentum: 1: its part of the next one is added to what is sent; 2: its own */
    int32_t meet;       /* adamw_frozen: 1: from the weights of the last synchronisation */
    int32_t most;       /* all_reduce_post: 1: the largest, not the sum */
    float p;            /* dropout probability */
    float eps;          /* norm, adamw */
    uint32_t id; /* the logical operation, for random numbers: xxh32 of its name; transfers: the same on every member */
    int32_t bits;       /* linear, embed and their gradients until pass quantize: 8 where factors are quantised */
    int32_t heads;      /* attention: heads that this rank holds */
    int32_t head0;      /* attention: global number of the first of them */
    int32_t row0;       /* embed: number of the first word that this rank holds */
    int32_t pad;        /* embed: 1 + the padding word, whose row gets no gradient; 0: none */
    int32_t pad_position; /* embed: 1 + the row of the position table that gets no gradient; 0: none */
    /* input, tokens_own, tokens_whole_din, pool: which run of rows, each as long as the output (pool: as x); heads_own:
     * which run of columns; attention_part: which run has the keys */
    int32_t part;
    int32_t run;        /* attention_part: which run has the queries */
    /* heads: 3 where a row is query, key and value, else 1; linear of experts: an expert's runs of rows, 0: 1 */
    int32_t groups;
    int32_t max_len;    /* attention: max_sen_len, for random numbers */
    int32_t block;      /* sparse attention: tokens of a block */
    float keys;         /* the same: of a query, on average, in a sequence of max_sen_len, for costs */
    int32_t window;     /* the same: a query's furthest key, in tokens; 0: all keys of present blocks */
    int32_t buckets;    /* relative attention: of distances, both signs (numbers/distance.h) */
    int32_t reach;      /* the same: the distance from which on all share the last bucket */
    int32_t terms;      /* disentangled attention: 1 query to position, 2 key to position, 3 both */
    float theta;        /* rope: the base of its wavelengths */
    int32_t act;        /* gated: a tri_activation */
    int32_t field;      /* input: a tri_field */
    float max_norm;     /* clip */
    float beta1, beta2; /* optimizers; sgd: beta1 is the momentum */
    float decay;        /* optimizers: weight decay of these elements; 0 for those that do not decay */
    int32_t nesterov;   /* sgd, outer_step: 1: the momentum is applied ahead */
    int32_t code;       /* pack, unpack: a tri_code */
    /* momentum, outer_step: replicas or copies whose numbers are summed; heads: ranks that divide the heads;
     * attention_part, pool: ranks of a ring (layout/runs.h); linear of experts: experts */
    int32_t members;
    /* optimizers: these elements' factor of the learning rate, 0: 1; outer_step: its learning rate; balance: the factor
     * of the balancing loss */
    float rate;
    float smoothing;    /* cross_entropy: the share of a label that all classes get alike; 0: none */
    int32_t weighted;   /* cross_entropy: 1: rows have weights */
    float gamma;        /* cross_entropy: focal loss, its power; 0: none. At most one of the two */
    int32_t loss;       /* regress: a tri_number_loss */
    float delta;        /* regress: of Huber's loss */
    /* transfers: the group's axes of the mesh, TRI_AXIS_SET or-ed (program/transfer.h). With bits: ranks along them
     * have the other columns of the factors */
    uint32_t axes;
    int32_t within;     /* transfers: only the run of this many places of that group that contains this rank; 0: all */
    int32_t across;     /* transfers: only places of that group at this stride; 0: all */
    int32_t root;       /* broadcast: the place that has the data; send and recv: the peer's place */
};

/* The factor of the learning rate of an optimizer's operation. */
static inline float tri__rate_factor(const tri_attr *attr) { return attr->rate > 0 ? attr->rate : 1; }

/* The inputs of a microbatch. N samples; T tokens of the branch. */
#define TRI_FIELDS(X)                                                                              \
    X(ids0, "token ids [T0,1] i32")                                                                \
    X(pos0, "rows of the position table [T0,1] i32")                                               \
    X(key0, "random-number key of each token [T0,2] i32: data row, place in its sequence")         \
    X(seq0, "first token of each sequence, and T0 [N+1,1], where texts are windowed [W0+1,1] i32")   \
    X(ids1, "the same for the secondary text") X(pos1, "") X(key1, "") X(seq1, "")                 \
    X(numbers, "tabular columns, preprocessed [N,F] f32")                                          \
    X(labels, "class indices [N,1] i32; of numbers targets f32, of several labels [N,C]")         \
    X(keyn, "random-number key of each sample [N,2] i32: data row, 0")                             \
    X(class_weights, "[1,classes] f32; of quantiles their levels")                                 \
    X(loss_inv, "1 / sum of the global batch's label weights [1,1] f64")                           \
    X(hyper, "learning rate, 1 - beta1^t, 1 - beta2^s, 1 - beta2^t; s: updates of v [1,4] f32; 0/1 Adam's last is "  \
             "this step's share of the rates until copies meet")                                                   \
    X(loss_scale, "factor of the loss, and so of gradients, with fp16 [1,1] f32")                  \
    X(control, "a rank's record of the step's control [1,TRI_TOLD_COUNT] f64, or order [1,K]")       \
    X(weights, "a unit's weights, which the host has filled into the slot itself [1,K] f32")         \
    X(copy_inv, "1 / sum of the label weights of this copy's samples, 0 if that is 0 [1,1] f64")     \
    X(win0, "first window of each sample's primary text, and their end [N+1,1] i32")                 \
    X(keyw0, "random-number key of each window's first token [W0,2] i32")                            \
    X(win1, "the same for the secondary text") X(keyw1, "")                                          \
    X(blocks0, "present blocks of attention [K,1] i32 (layout/blocks.h), the same for all microbatches") \
    X(blocks1, "the same for the secondary text")                                                          \
    X(layer_scale, "1 / the probability that a layer is kept, of all layers [1,layers] f32")                \
    X(places0, "first place of each sequence in an expert's rows, and their number; rows as seq0 i32")      \
    X(places1, "the same for the secondary text")                                                           \
    X(balance_inv0, "1 / sequences of the primary text in the global batch [1,1] f64")                      \
    X(balance_inv1, "the same for the secondary text")                                                      \
    X(keyd0, "random-number key of each row of the table of distances [B,2] i32: the row, 0")               \
    X(keyd1, "the same for the secondary text")                                                             \
    X(average, "how far averaged weights go towards the weights in this step, 0 to 1 [1,1] f32")            \
    X(columns, "words of the table's columns [C,6] i32 (layout/columns.h), the same for all microbatches") \
    X(row_weights, "factors of the samples' losses [N,1] f32")                                              \
    X(seqf, "first token of each sample in the fusion's layers, and their number [N+1,1] i32")               \
    X(keyf, "random-number key of each of these tokens [N*C,2] i32: data row, place in its sample") \
    X(win2, "as win0, of the third text") X(win3, "") X(win4, "") X(win5, "") X(win6, "") X(win7, "")        \
    X(win8, "") X(win9, "") X(win10, "") X(win11, "") X(win12, "") X(win13, "") X(win14, "") X(win15, "")

typedef enum tri_field {
#define X(name, text) TRI_FIELD_##name,
    TRI_FIELDS(X)
#undef X
    TRI_FIELD_COUNT
} tri_field;

/* The windows of a text. */
static inline tri_field tri__field_windows(int text) {
    return text == 0 ? TRI_FIELD_win0 : text == 1 ? TRI_FIELD_win1 : (tri_field)(TRI_FIELD_win2 + text - 2);
}

/* The columns of the field control. Every rank knows the sums over all ranks when the step ends. */
typedef enum tri_told {
    TRI_TOLD_STOP,    /* 1: this rank was asked to end the run */
    TRI_TOLD_FLOPS,   /* of the step */
    TRI_TOLD_LOADER,  /* share of the time since the last control spent waiting for the batch ... */
    TRI_TOLD_COMM,    /* ... in transfers: moving data ... */
    TRI_TOLD_IDLE,    /* ... and waiting for other ranks */
    TRI_TOLD_COUNT
} tri_told;

/* The columns of the record that a server's rank 0 sends: what it wants (a tri_order of engine/server_ranks.h) and a
 * number with it, then for each part of the batch its row counts, TRI_SYM_COUNT of them. */
typedef enum tri_ordered { TRI_ORDERED_WHAT, TRI_ORDERED_VALUE, TRI_ORDERED_PARTS } tri_ordered;

#include "program/variant.h"
