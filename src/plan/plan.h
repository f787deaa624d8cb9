/* plan.h - from a model to one rank's programs. Pure arithmetic: no device, no file, no clock.
 *
 * Reading the passes in the order of passes.c is reading how Trident works; each is one file of this folder and turns
 * tri_pass.program into the next. The first work on one microbatch as a template; `schedule` unrolls it. */
#ifndef TRI_PLAN_PLAN_H
#define TRI_PLAN_PLAN_H

#include "layout/shard.h"
#include "model/model.h"
#include "plan/schedule/schedule.h"
#include "program/classes.h"
#include "program/target.h"
#include "program/transfer.h"

/* What the replicas of the data-parallel axis share out among themselves: each row also what the rows before it do. */
typedef enum tri_shard_kind {
    TRI_SHARD_NONE,    /* nothing: gradients are summed over all replicas */
    TRI_SHARD_ZERO1,   /* the optimizer's state */
    TRI_SHARD_ZERO2,   /* gradients: each microbatch's go to their owners */
    TRI_SHARD_ZERO3,   /* weights: gathered before their use */
    TRI_SHARD_HYBRID   /* all that, within runs of `size` replicas */
} tri_shard_kind;
typedef enum tri_reshard { TRI_RESHARD_AUTO, TRI_RESHARD_YES, TRI_RESHARD_NO } tri_reshard;
typedef enum tri_wrap { TRI_WRAP_LAYER, TRI_WRAP_SIZE } tri_wrap;

typedef struct tri_sharding {
    tri_shard_kind kind;
    int size;                 /* hybrid: replicas that hold one copy; divides dp */
    double bucket_mb;         /* gradients that are summed by one transfer; 0: 25. The first bucket has at most 1 */
    int prefetch;             /* weights gathered ahead of those in use: blocks */
    tri_reshard reshard; /* whether weights go after the forward pass; auto: unless they are needed again at once */
    tri_wrap wrap;            /* blocks: a unit each, or units in a row joined until they have wrap_min_params */
    int64_t wrap_min_params;
} tri_sharding;

typedef enum tri_recompute { TRI_RECOMPUTE_NONE, TRI_RECOMPUTE_SELECTIVE, TRI_RECOMPUTE_FULL } tri_recompute;

/* Branches may lie side by side, each handing on to the fusion stage directly; or all stages form a row, and what goes
 * further than the next stage is handed on by those between. */
typedef enum tri_shape_kind { TRI_SHAPE_CHAIN, TRI_SHAPE_BRANCH } tri_shape_kind;

/* How mesh.pp ranks share out the units of the model. */
typedef struct tri_staging {
    tri_schedule_kind schedule;
    tri_shape_kind shape;
    int chunks;                  /* stages of a rank; 0: as few as the schedule allows */
    tri_texts stages; /* [pp * chunks] the units of each stage: "primary.embeddings primary.layer.0-5"; none: balanced
                         by cost */
    const tri_stage_time *time;  /* [model->n_units] measured, for balancing; NULL: by FLOPs and bytes */
} tri_staging;

typedef struct tri_plan_in {
    const tri_model *model;
    tri_mesh mesh;
    int rank;
    int n_mb;                    /* microbatches of a training step */
    tri_counts max, max_infer;   /* the largest microbatch of training, of prediction */
    const tri_target *target;
    double beta1, beta2, adam_eps, weight_decay, max_grad_norm;
    tri_sharding sharding;       /* zeroed: none */
    tri_staging staging;
    int sequence_parallel;       /* with mesh.tp > 1: norms, dropout and residuals on shards of the tokens */
    tri_recompute recompute;
    tri_dtype precision;         /* f32, bf16 or f16: of weights, activations and their gradients */
    tri_dtype reduce_dtype;      /* of gradients of weights, as they are summed and kept */
    unsigned offload;            /* classes that go to offload memory, 1 << tri_mem or-ed */
} tri_plan_in;

/* A program and the slots that the host sets or reads. */
typedef struct tri_planned {
    tri_program *program;
    int *param, *m, *v;          /* [n_units] flat slots; m and v: training only */
    int *master;                 /* [n_units] weights in fp32, beside m and v, where param has fewer bits; else NULL */
    tri_range *param_part;       /* [n_units] the unit's elements that param holds, from its first element on */
    tri_range *state_part;       /* [n_units] the same of m and v; training only */
    tri_range *save_part; /* [n_units] those that this rank writes to a checkpoint: part of both; all ranks' make up the
                             unit */
    int loss,
        probs; /* loss: of training, over all replicas, on every rank; probs: -1 where this rank's stages have none */
    int norm, apply;             /* training only */
    int scale;                   /* of the loss; training in fp16 only, else -1 */
    int update;                  /* training only: the first instruction of the update */
} tri_planned;

typedef struct tri_rank_plan {
    const tri_model *model;      /* what this rank holds: indices of units below are its */
    tri_planned train, infer;
    tri_program *start;          /* weights from what the host filled in; its slots lie where the others have them */
} tri_rank_plan;

/* Token counts of a microbatch are rounded up to a multiple of it before they are bound: of each rank that has a share
 * of the tokens, and of multiples of the target's granule where one rank's kernels are short. There a run's time is
 * that of queueing, which a device saves for repeated shapes, and added rows take none. Maxima of tri_plan_in
 * need not be multiples. */
int tri__plan_granule(const tri_plan_in *in);

/* TRI_USAGE when the target lacks a kernel the model needs. `train` 0: no training program. */
tri_status tri__plan(tri_arena *arena, const tri_plan_in *in, int train, tri_rank_plan *plan);
/* The program of in->rank as it stands after a pass, of training or of evaluation. *ran: whether the plan needed that
 * pass. */
typedef struct tri_pass_row tri_pass_row;
tri_status tri__plan_until(tri_arena *arena, const tri_plan_in *in, int train, const tri_pass_row *last, int *ran,
                           tri_program **program);
/* The programs of all ranks of in->mesh: the same as planned one by one, but ranks that differ by a rule are planned
 * and kept once. out: [TRI_PROGRAMS]; without `train` there are no classes of TRI_TRAIN. in->rank does not count. */
tri_status tri__plan_ranks(tri_arena *arena, const tri_plan_in *in, int train, tri_classes *out);
#define TRI_PLAN_ARENA ((size_t)1 << 20) /* bytes that arenas for plans begin with */

typedef struct tri_stages tri_stages; /* plan/pipeline/stage.h */

/* Where the memory pass put slots of the classes that are reused, for programs whose slots live alike. Only an arena:
 * nothing yet. */
typedef struct tri_places {
    tri_arena *arena;
    void *lives[TRI_MEM_COUNT];       /* as the memory pass has them, [n] */
    int64_t *offset[TRI_MEM_COUNT];   /* [n] */
    int64_t bytes[TRI_MEM_COUNT];
    int n[TRI_MEM_COUNT];
} tri_places;

/* What passes hand on. A pass reads what the rows before it in tri__passes set, and nothing else; what only one pass
 * needs is not here. */
typedef struct tri_pass {
    /* Given. */
    tri_arena *arena;
    const tri_plan_in *in;
    const tri_stages *stages; /* of the pipeline; one, where there is none. Read by fuse, schedule, update */
    int training;             /* 0: the forward program */
    tri_places *places;       /* found for other ranks. Read and set by memory; NULL: none are kept */
    /* What every pass turns into the next. */
    tri_program *program;
    tri_planned out;       /* its slots that the host sets or reads, except `program`: each pass keeps them right */
    const tri_model
        *model; /* what this rank holds of in->model: all of it, until tensor and schedule take their parts */
    /* From one pass to later ones. */
    tri_forward forward;   /* what the model left behind. Set by forward, tensor; read by backward, schedule */
    int *unit_grad;        /* [n_units] flat gradients of each unit. Set by backward, schedule, shard; read by
                            * tensor_sums, update. NULL without training */
    const int *unit_stage; /* [n_units] whose parts of a rank's work they are. Set by schedule, read by shard */
    tri_range *grad_part;  /* [n_units] the unit's elements that unit_grad holds, from its first element on. Set by
                            * shard, read by tensor_sums, update */
    tri_range *own;        /* [n_units] the unit's elements whose norm and update are this rank's. Set by shard, read by
                            * update */
    tri_sharding sharding; /* as asked for, but for hybrids that are another kind. Set by shard, read by update */
    tri_attr group;        /* who shares a unit out, as transfers name it. Set by shard, read by update */
    int n_shards;          /* ranks of that group. Set by shard, read by update */
    int *behind;           /* [n_instrs] the last instruction of the other lane that is done before each; -1. Set by
                            * lanes, read by memory; NULL: one lane */
} tri_pass;

/* What ranks that share a pass's result have in common: ranks.c runs each scope once for them. */
typedef enum tri_scope {
    TRI_SCOPE_TENSOR,   /* the place on the tp axis. The program is one microbatch's, a template */
    TRI_SCOPE_STAGE,    /* the place on the pp axis, too */
    TRI_SCOPE_REPLICA   /* each rank by itself */
} tri_scope;

struct tri_pass_row {
    const char *name, *does; /* does: one line */
    tri_scope scope;
    int (*when)(const tri_pass *pass); /* 0: the program stays as it is. NULL: always */
    const char *needs;                 /* `when` in words; NULL: always */
    tri_status (*run)(tri_pass *pass);
};

/* passes.c: in the order in which they run; the last row has no name. */
extern const tri_pass_row tri__passes[];
const tri_pass_row *tri__pass_find(const char *name); /* NULL */
/* Runs the passes of one scope; only those up to row `last`, unless that is NULL. */
tri_status tri__passes_run(tri_pass *pass, tri_scope scope, const tri_pass_row *last);

/* What all ranks' plans begin with: `asked` with row counts rounded, and the stages. */
tri_status tri__plan_resolve(tri_arena *arena, const tri_plan_in *asked, tri_plan_in *in, tri_stages *stages);

tri_status tri__pass_forward(tri_pass *pass);
tri_status tri__pass_tensor(tri_pass *pass);
tri_status tri__pass_backward(tri_pass *pass);
tri_status tri__pass_recompute(tri_pass *pass);
tri_status tri__pass_fuse(tri_pass *pass);
tri_status tri__pass_prune(tri_pass *pass);
tri_status tri__pass_tensor_lower(tri_pass *pass);
tri_status tri__pass_turns(tri_pass *pass);
tri_status tri__pass_schedule(tri_pass *pass);
tri_status tri__pass_shard(tri_pass *pass);
tri_status tri__pass_tensor_sums(tri_pass *pass);
tri_status tri__pass_update(tri_pass *pass);
tri_status tri__pass_precision(tri_pass *pass);
tri_status tri__pass_offload(tri_pass *pass);
tri_status tri__pass_lanes(tri_pass *pass);
tri_status tri__pass_memory(tri_pass *pass);
tri_status tri__pass_waits(tri_pass *pass);

/* The encoder that a unit is of; -1: none. */
int tri__unit_encoder(const tri_program *program, int unit);

/* For a pass that has come to `shard`: *n ranks share a unit out; at the places where begins[place], [*n], is not 0, a
 * run of places begins whose plans differ only in where their shards begin: each shard is as far behind the one before
 * it as that is large. */
tri_status tri__shard_runs(const tri_pass *pass, int *n, uint8_t **begins);

/* The start program that goes with a pass that has come to its end: of training, or of prediction where that is all. */
tri_status tri__plan_start(const tri_pass *from, tri_program **out);
/* Appends what the update and the start program share: weights that all ranks hold and each wrote a part of (zero1,
 * zero2): the parts go to all, a block at a time. Weights that are shards stay so. */
void tri__gather_parts(tri_pass *pass);
/* TRI_USAGE when the target lacks a kernel of the program. */
tri_status tri__check_kernels(const tri_pass *pass);

/* Of elements `part` of a unit, those that this rank answers for among the ranks of its tp group that hold them alike:
 * the first has all. */
tri_range tri__tensor_once(const tri_pass *pass, int unit, tri_range part);

#endif
