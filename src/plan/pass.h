/* pass.h - what passes share: the state that they hand on, and functions that several of them call. A pass is a row of
 * passes.def and a file pass_NAME.c with the function tri__pass_NAME. docs/extending/adding-a-pass.md */
#pragma once

#include "plan/pipeline/stage.h"
#include "program/lane_order.h"

/* Offsets that the memory pass found, to be reused for programs with the same lifetimes. Set only `arena` to begin with
 * none. */
typedef struct tri_places {
    tri_arena *arena;
    void *lives[TRI_MEM_COUNT];       /* [n] the memory pass's lifetimes */
    int64_t *offset[TRI_MEM_COUNT];   /* [n] */
    int64_t bytes[TRI_MEM_COUNT];
    int n[TRI_MEM_COUNT];
} tri_places;

/* A stretch of a unit's elements that has left the unit's flat slot, in a plan that only serves: a quantised weight, or
 * an embedding table that keeps fp32. */
typedef struct tri_stored {
    int unit;
    int64_t begin, rows, cols; /* from the unit's begin */
    int slot, scale;           /* scale -1: not quantised */
    uint32_t axes;             /* ranks along them have its other columns; 0: none */
} tri_stored;

/* A slot that holds gradients of a bucket: units whose gradients one transfer sums (blocks, where they are sharded). */
typedef struct tri_bucket_slot {
    int slot, bucket;
} tri_bucket_slot;

/* The state between passes. A pass reads only what the rows before it in passes.def set; state of a single pass is not
 * here. */
struct tri_pass {
    /* Given. */
    tri_arena *arena;
    const tri_plan_in *in;
    const tri_stages *stages; /* of the pipeline, or a single one. Read by fuse, schedule, update */
    int training;             /* 0: the forward program */
    int serving;              /* 1: the forward program of a plan without training: weights are only read */
    tri_places *places;       /* offsets found for other ranks. Read and set by memory; NULL: not kept */
    /* Rewritten by every pass. */
    tri_program *program;
    tri_planned out;       /* slots that the host sets or reads (`program` unused): each pass keeps them up to date */
    const tri_network *model; /* this rank's share of in->model: all of it until tensor and schedule reduce it */
    /* From one pass to later ones. */
    tri_forward forward;   /* slots of the forward list. Set by forward, tensor; read by backward, schedule */
    /* [n_units] flat gradients of each unit; -1: it is frozen. Set by backward, schedule, shard; read by tensor_sums,
     * update. NULL without training */
    int *unit_grad;
    const int *unit_stage; /* [n_units] stage of each unit. Set by schedule, read by shard */
    /* [n_units] the range of the unit's elements that unit_grad holds. Set by shard, read by tensor_sums, update */
    tri_range *grad_part;
    /* [n_units] the unit's elements that this rank owns (norm, update). Set by shard, read by update */
    tri_range *own;
    tri_sharding sharding; /* as requested, with hybrids resolved. Set by shard, read by update */
    /* replicas whose parts of all units together are one copy of the model, as attributes of transfers. Set by shard,
     * read by update */
    tri_attr group;
    int n_shards;          /* ranks of that group. Set by shard, read by update */
    /* [n_units] the block, sharded as a whole, of each unit. These five set by shard, read by tensor_sums, update */
    int *block_of;
    /* 1-bit optimizers: [n_units] gradients before they are summed over copies of the model; with shards of gradients
     * (hybrid) after their sum within a run. NULL: other optimizers */
    int *local_grad;
    tri_range *local_part; /* [n_units] the range of the unit's elements that local_grad holds */
    tri_attr copies;       /* the group that sums them, as attributes of transfers */
    int n_copies;          /* ranks of that group */
    /* [n_units] the bucket of each unit's gradients; -1: it is frozen. These four set by shard, read by compress */
    int *unit_bucket;
    int64_t *unit_at;      /* [n_units] where its elements begin in the bucket */
    tri_bucket_slot *bucket_slot; /* [n_bucket_slots] */
    int n_bucket_slots, cap_bucket_slots;
    /* [n_units] what coding has lost of gradients, this step's included: the state `error`, once `update` commits it;
     * -1: no part of the unit is coded. Both set by compress, read by tensor_sums, update. NULL: no error feedback */
    int *error_new;
    int error;
    /* [n_units] 1: gradients from a rank's own tokens are summed over the tp axis already. Set by compress, read by
     * tensor_sums; NULL: none */
    uint8_t *tokens_summed;
    /* [n_stored] weights with slots of their own, by unit and place. Set by quantize, read by start */
    tri_stored *stored;
    int n_stored;
    /* [n_instrs] the last instruction of the other lane that is done before each; -1. Set by lanes, read by memory;
     * NULL: one lane */
    int *behind;
};

/* n numbers of slots, or of anything else, all -1: none yet. */
static inline int *tri__none_yet(tri_arena *arena, int64_t n) {
    return memset(tri__arena_alloc(arena, (size_t)n * sizeof(int)), -1, (size_t)n * sizeof(int));
}
/* This rank's shard of `count` elements among the ranks of a group. */
static inline tri_range tri__group_shard(const tri_pass *pass, int64_t count, tri_attr group) {
    const tri_mesh *mesh = &pass->in->mesh;
    return tri__shard(count, tri__transfer_size(mesh, &group), tri__transfer_place(mesh, pass->in->rank, &group));
}
/* A view, named with a label, of elements `part` of a unit or a bucket, in a slot that holds its elements `held`; the
 * slot itself where they are all. */
int tri__build_part(tri_builder *to, int slot, tri_range held, tri_range part, const char *label);
/* The axes among these along which there are several ranks. */
static inline uint32_t tri__long_axes(const tri_mesh *mesh, uint32_t among) {
    for (int axis = 0; axis < TRI_AXIS_COUNT; axis++)
        if (mesh->size[axis] == 1) among &= ~TRI_AXIS_SET(axis);
    return among;
}

/* Runs the passes of one scope; only those up to row `last`, unless that is NULL. */
tri_status tri__passes_run(tri_pass *pass, tri_scope scope, const tri_pass_row *last);

/* The input common to all ranks' plans: `asked` with row counts rounded, and the stages. */
tri_status tri__plan_resolve(tri_arena *arena, const tri_plan_in *asked, tri_plan_in *in, tri_stages *stages);

#define TRI_PASS(name, ...) tri_status tri__pass_##name(tri_pass *pass);
#include "plan/passes.def"

/* weight_types.c, for `forward`, whose slots `from` has: the parameter that a view begins at. */
int tri__forward_param(const tri_pass *pass, const tri_program *from, int view);
/* For `forward`: marks the operations whose factors are to be quantised (attr.bits). */
void tri__mark_quantized(tri_pass *pass);
/* For `forward`: marks those of FP8 training; TRI_USAGE where the model has none. */
tri_status tri__mark_fp8(tri_pass *pass);
/* For `forward`: whether a weight may be quantised: none of its parameters is in float_layers. */
int tri__is_quantized(const tri_pass *pass, int view);
/* The type of weights as they are kept, and as they are gathered. */
tri_dtype tri__weights_dtype(const tri_pass *pass);
/* An 8-bit factor: numbers, and the scale of each row. */
typedef struct tri_factor {
    int q, s; /* slots; -1: none */
} tri_factor;
/* Appends instructions that quantise slot x by rows; `axes`: ranks along them, which have its other columns, take part.
 */
void tri__build_quantize(tri_builder *to, tri_dtype dtype, int x, uint32_t axes, tri_factor into);

/* Sets the waits of two lanes, whose slots occupy the bytes `of`. behind [n_instrs], or NULL: the last instruction of
 * the other lane that is done before each; -1. */
void tri__find_waits(const tri_pass *pass, const tri_slot_bytes *of, int *behind);
/* The encoder that a unit belongs to; -1: none. */
int tri__unit_encoder(const tri_program *program, int unit);

/* For a pass that has reached `shard`: *n ranks shard a unit; where begins[place], [*n], is not 0, a run of places
 * begins whose plans differ only in where their (consecutive, equal) shards begin. */
tri_status tri__shard_runs(const tri_pass *pass, int *n, uint8_t **begins);

/* The ranks that hold the same share of a unit: they sum its gradients and shard its state, or with hybrid all that is
 * sharded. */
typedef struct tri_sharers {
    tri_attr group; /* as attributes of transfers */
    int n, place;   /* its ranks; this one's place */
} tri_sharers;
tri_sharers tri__unit_sharers(const tri_pass *pass, int unit);
/* Whether two units have the same ones: else no transfer may have both. */
int tri__same_sharers(const tri_pass *pass, int unit, int other);

/* The ranges of units that are trained; those of frozen ones are empty. */
tri_range *tri__trained_parts(const tri_pass *pass, tri_range *part);
/* Whether an optimizer treats neighbouring parameters alike: one instruction then has both. */
int tri__same_run(const tri_param *a, const tri_param *b);

/* in->rank among those that share the parameters of each unit. */
tri_holder tri__plan_holder(const tri_plan_in *in);

/* The start program for a finished pass: of training, or of prediction where there is no training. */
tri_status tri__plan_start(const tri_pass *from, tri_program **out, tri_filling *filling);
/* The exchange program for a finished pass, likewise. */
tri_status tri__plan_exchange(const tri_pass *from, tri_program **out);
/* Common to the update and the start program: all-gathers, block by block, weights that all ranks hold and of which
 * each wrote a part (zero1, zero2): of the update those that are trained. Sharded weights stay sharded. */
void tri__gather_parts(tri_pass *pass, int frozen_too);
/* TRI_USAGE when the target lacks a kernel of the program. */
tri_status tri__check_kernels(const tri_pass *pass);

/* The elements of `part` of a unit that this rank counts and saves, among the ranks of its tp group that hold the same
 * ones: the first rank has all. */
tri_range tri__tensor_once(const tri_pass *pass, int unit, tri_range part);
