/* plan.h - from a model to one rank's programs: what callers give and get. Pure arithmetic: no device, no file, no
 * clock.
 *
 * To learn how Trident works, read the passes in the order of passes.def; each is one file of this folder and turns
 * tri_pass.program into the next (pass.h). The first ones work on the template of one microbatch, which `schedule`
 * unrolls. */
#pragma once

#include "numbers/coded.h"
#include "model/model.h"
#include "plan/schedule/schedule.h"
#include "program/classes.h"

typedef enum tri_reshard { TRI_RESHARD_AUTO, TRI_RESHARD_YES, TRI_RESHARD_NO } tri_reshard;
typedef enum tri_wrap { TRI_WRAP_LAYER, TRI_WRAP_SIZE } tri_wrap;

typedef struct tri_sharding {
    tri_shard_kind kind;
    int size;                 /* hybrid: replicas that hold one copy; divides dp */
    double bucket_mb;         /* gradients summed by one transfer, in MB; 0: 25. The first bucket has at most 1 */
    int prefetch;             /* blocks of weights gathered ahead of the one in use */
    /* whether gathered weights are dropped after the forward pass; auto: unless they are needed again at once */
    tri_reshard reshard;
    tri_wrap wrap;            /* blocks: a unit each, or units in a row joined until they have wrap_min_params */
    int64_t wrap_min_params;
} tri_sharding;

/* How gradients and weights travel between replicas (numbers/coded.h). */
typedef struct tri_compression {
    tri_code gradients, weights;
    int feedback;             /* 1: what coding loses of gradients is added to the next step's */
    /* replicas of a machine, which exchange in full: only the exchange between machines is coded. 0, 1: every exchange
     * is; -1: not as many on all machines, an error */
    int within;
} tri_compression;

/* The optimizer, and which steps are of which kind (step_kinds.c). */
typedef struct tri_optimizing {
    tri_optimizer_kind kind;
    double beta1, beta2, eps, weight_decay; /* sgd: beta1 is the momentum */
    int nesterov;             /* sgd */
    int64_t steps;            /* of the run; 0: unknown */
    int64_t full_steps;       /* 1-bit: steps before signs travel */
    int64_t var_freeze_step, var_update_scaler, local_step_scaler, local_step_clipper; /* 0/1 Adam's intervals */
    int64_t met;              /* 0/1 Adam: copies met after so many steps whatever the interval: a shorter run's end */
    int64_t sync_every;       /* replicas take local steps, and synchronise every N steps; 1: no local ones */
    double outer_lr, outer_momentum; /* of the step that they take together */
    double inner_lr_factor;   /* multiplies the learning rate of those that they take alone */
} tri_optimizing;

/* Whether averages of the weights are kept, which are evaluated and saved in their place (average.c). */
typedef enum tri_averaging {
    TRI_AVERAGE_NONE,
    TRI_AVERAGE_EMA,   /* exponential: what steps that are applied leave */
    TRI_AVERAGE_LAST   /* of ends of epochs, whether the step there is applied or not */
} tri_averaging;

/* Progressive layer dropping (layer_gates.h). Zeroed: none. */
typedef struct tri_layer_drop {
    double theta;             /* the share of layers that is kept in the end, at the deepest layer; 0: no dropping */
    double gamma;             /* how fast it is reached; negative: by the number of steps */
    int64_t steps;            /* of the run; 0: unknown */
} tri_layer_drop;

/* Branches may run side by side, each sending to the fusion stage directly; or all stages form a chain, where values
 * for later stages are forwarded by those between. */
typedef enum tri_shape_kind { TRI_SHAPE_CHAIN, TRI_SHAPE_BRANCH } tri_shape_kind;

/* How mesh.pp ranks divide the units of the model into stages. */
typedef struct tri_staging {
    tri_schedule_kind schedule;
    tri_shape_kind shape;
    int chunks;                  /* stages of a rank; 0: as few as the schedule allows */
    tri_texts stages; /* [pp * chunks] the units of each stage: "primary.embeddings primary.layer.0-5"; none: balanced
                         by cost */
    const tri_stage_time *time;  /* [model->n_units] measured, for balancing; NULL: by FLOPs and bytes */
} tri_staging;

typedef struct tri_plan_in {
    const tri_network *model;
    tri_mesh mesh;
    int rank;
    int n_mb;                    /* microbatches of a training step */
    int n_mb_infer;              /* those of a forward program; 0 is 1 */
    int fed; /* 1: inputs of a forward program come from rank 0, which tells the others what to do */
    tri_counts max, max_infer;   /* the largest microbatch of training, of prediction */
    const tri_target *target;
    tri_optimizing optimizer;
    tri_compression compression; /* zeroed: none */
    double max_grad_norm;
    tri_sharding sharding;       /* zeroed: none */
    tri_staging staging;
    int sequence_parallel;       /* with mesh.tp > 1: norms, dropout and residuals on shards of the tokens */
    int ring;                    /* with mesh.cp > 1: attention by a ring of keys and values; 0: exchange of heads */
    tri_recompute recompute;
    tri_layer_drop layer_drop;   /* of training */
    tri_loss_form loss;          /* of training; zeroed: cross-entropy */
    tri_averaging average;       /* of training */
    tri_dtype precision;         /* f32, bf16 or f16: of weights, activations and their gradients */
    int fp8;                     /* 1: the encoders' products in training have 8-bit factors; precision is bf16 */
    tri_dtype quantize;          /* of the encoders' products: f32 (none), i8 or f8_e4m3 */
    tri_texts float_layers;      /* weights whose products are not quantised */
    tri_dtype reduce_dtype;      /* of gradients of weights, as they are summed and kept */
    unsigned offload;            /* classes in offload memory, 1 << tri_mem or-ed */
    /* 1: a training step begins with copies of the state into memory that outlives the rank */
    int replicate;
} tri_plan_in;

/* What is kept between steps beside the weights: saved as tensors whose names begin with `prefix`. */
typedef enum tri_state_scope {
    TRI_STATE_SHARED,    /* replicas hold the same numbers, or shards of them: each element is saved once */
    /* each copy of the model has its own, whose sum matters: saved as [copies, shape of the parameter]. On another
     * number of copies, each gets its part of the sum */
    TRI_STATE_SUMMED,
    TRI_STATE_AVERAGED   /* the same, but their mean matters: on another number of copies, each gets it */
} tri_state_scope;
/* What it is to begin with where a checkpoint lacks it: of a run with other settings (--allow-change). */
typedef enum tri_state_absent {
    TRI_ABSENT_REFUSED,  /* the run does not begin: it would not be this optimizer's */
    TRI_ABSENT_ZERO,
    TRI_ABSENT_WEIGHTS   /* the weights; in a new run too */
} tri_state_absent;
typedef struct tri_state {
    const char *name;    /* its slots' names begin with it: "m" */
    const char *prefix;  /* "exp_avg." */
    tri_state_scope scope;
    int *slot;           /* [n_units] flat slots, in fp32; -1: none yet, or the unit is frozen */
    tri_range *held;     /* [n_units] the range of the unit's elements that the slot holds */
    tri_range *save;     /* [n_units] those that this rank writes to a checkpoint */
    tri_shape each;      /* n > 0: so many numbers for some of the unit's parameters; ranges are of all of these */
    const uint8_t *has;  /* [n_params] 1: for this one */
    int copy, copies;    /* beyond SHARED: this rank's copy, of how many */
    tri_state_absent absent;
} tri_state;
enum { TRI_MAX_STATES = 12 };

/* What the numbers of the field hyper are, which the host sets for each step. */
typedef enum tri_hyper {
    TRI_HYPER_RATE,     /* the learning rate */
    TRI_HYPER_MOMENTUM, /* 1 - beta1^t: t steps have updated the momentum, this one included */
    TRI_HYPER_VARIANCE, /* 1 - beta2^s: s have updated the variance */
    TRI_HYPER_STEPS,    /* 1 - beta2^t */
    TRI_HYPER_SHARE     /* of the learning rates of the steps until copies synchronise, this step's part */
} tri_hyper;
enum { TRI_HYPERS = 4 };

/* A program and the slots that the host sets or reads. */
typedef struct tri_planned {
    tri_program *program;
    int *param;                  /* [n_units] flat slots */
    int *master;                 /* [n_units] master weights in fp32, where param is 16-bit; else NULL */
    /* [n_units] where evaluations and checkpoints show other weights than are trained (averages; the anchor of local
     * steps): these, in fp32, with the ranges of shared states; -1: the unit is not trained. Else NULL */
    int *shown;
    /* [n_units] the same elements of the weights that are trained, or of their masters: a state; -1, NULL likewise */
    int *live;
    tri_state state[TRI_MAX_STATES]; /* training only */
    int n_states;
    const tri_hyper *hyper;      /* [TRI_HYPERS] training only */
    int copy, copies;            /* where copies of the model take local steps: this rank's, of how many; else 0 */
    tri_range *param_part;       /* [n_units] the range of the unit's elements that param holds */
    tri_range *state_part;       /* [n_units] the same of masters and shared states; training only */
    /* [n_units] those that this rank writes to a checkpoint: in both ranges; over all ranks they cover the unit once */
    tri_range *save_part;
    int loss;  /* of training, over all replicas, on every rank; without the balancing loss of experts */
    /* training only: for each layer with experts its balancing loss and how many tokens had no place, over all
     * replicas, on every rank; -1: none */
    int experts;
    int probs; /* prediction: [replicas, microbatches, most samples, classes], of all of them on every rank */
    int norm, apply;             /* training only */
    int scale;                   /* of the loss; training in fp16 only, else -1 */
    int update;                  /* training only: the first instruction of the update */
    /* the first after the posts of copies of replicated state, the first of their waits; without copies: 0, and
     * `update` */
    int posted, waited;
} tri_planned;

/* Where the host fills in weights of fewer bits that have no masters: unit by unit, in fp32, through slots of the start
 * program that share memory. After each, its instructions put them into the slots used for computing. */
typedef struct tri_filling {
    /* [n_units] the unit's elements param_part; -1: this rank holds none. NULL: weights, or their masters, are filled
     * in place */
    int *slot;
    int *end;  /* [n_units] the unit's instructions begin at the end of those of the unit before */
} tri_filling;

typedef struct tri_rank_plan {
    const tri_network *model;      /* this rank's share of the model: unit indices below refer to it */
    tri_planned train, infer;
    /* prepares the weights that the host filled in; its slots have the same offsets as in the others */
    tri_program *start;
    tri_filling filling;
    /* around an evaluation: `live` and `shown` change places, and weights are again prepared; run a second time, it
     * puts them back. Empty where nothing is shown */
    tri_program *exchange;
} tri_rank_plan;

/* Token counts of a microbatch are rounded up to a multiple of it before they are bound: of the number of ranks that
 * split the tokens, and of the target's granule where one rank's kernels are short. Short kernels take as long as their
 * launch, which a device saves for repeated shapes, so padding rows cost nothing. Maxima of tri_plan_in need not be
 * multiples. */
int tri__plan_granule(const tri_plan_in *in);
/* Rows of a microbatch of these counts in a plan: tokens rounded up to its granule, or those of a ring's runs; and of
 * experts, where they are not counted, as many as there may be. */
tri_counts tri__plan_counts(const tri_plan_in *in, const tri_counts *counts);
/* Rows of experts, where they are not counted: as many as there may be. */
void tri__plan_experts(const tri_network *model, tri_counts *counts);
/* Makes rows of experts the same for all replicas that share experts: as many as the one with the most has. counts:
 * [replicas, n_mb] microbatches. */
void tri__plan_share_rows(const tri_plan_in *in, tri_counts *counts, int n_mb);
/* Ranks of a ring that share each sequence; 0: none. */
int tri__plan_ring(const tri_plan_in *in);

typedef struct tri_pass tri_pass;   /* plan/pass.h */
typedef struct tri_least tri_least; /* plan/least.h */
typedef void tri_least_pass(const tri_plan_in *in, tri_least *least);
/* Which ranks share a pass's result: all_ranks.c runs each scope once for them. */
typedef enum tri_scope {
    TRI_SCOPE_TENSOR,   /* ranks of one place on the tp axis. The program is the template of one microbatch */
    TRI_SCOPE_STAGE,    /* ranks that also share the place on the pp axis */
    TRI_SCOPE_REPLICA   /* each rank by itself */
} tri_scope;

typedef struct tri_pass_row {
    const char *name, *does; /* does: one line */
    tri_scope scope;
    int (*when)(const tri_pass *pass); /* 0: the program stays as it is */
    const char *needs;                 /* `when` in words; NULL: always */
    tri_status (*run)(tri_pass *pass);
    tri_least_pass *least;             /* what it adds to a step at least; NULL: nothing that bounds know */
} tri_pass_row;

/* In the order in which they run; the last row has no name. */
extern const tri_pass_row tri__passes[];
const tri_pass_row *tri__pass_find(const char *name); /* NULL */

/* TRI_USAGE when the target lacks a kernel the model needs. `train` 0: no training program. */
tri_status tri__plan(tri_arena *arena, const tri_plan_in *in, int train, tri_rank_plan *plan);
/* The program of in->rank after a pass: of training, of evaluation beside training, or of a plan that only serves.
 * *ran: whether the plan needed that pass. */
typedef enum tri_plan_part { TRI_PART_TRAIN, TRI_PART_INFER, TRI_PART_SERVE } tri_plan_part;
tri_status tri__plan_until(tri_arena *arena, const tri_plan_in *in, tri_plan_part part, const tri_pass_row *last,
                           int *ran, tri_program **program);
/* The programs of all ranks of in->mesh: the same as planned one by one, but members of a class are planned and kept
 * once. out: [TRI_PROGRAMS]; without `train` there are no classes of TRI_TRAIN. in->rank is ignored. */
tri_status tri__plan_ranks(tri_arena *arena, const tri_plan_in *in, int train, tri_classes *out);
/* The same for some kinds of programs, 1 << tri_program_kind or-ed; the start program only with that of its side:
 * training where there is training, else prediction. */
tri_status tri__plan_kinds(tri_arena *arena, const tri_plan_in *in, int train, unsigned kinds, tri_classes *out);
/* The same for training, for figures only: memory, traffic and times. Ranks that differ in where their parts of weights
 * begin, but not in how large they are, have the program of one of them. */
tri_status tri__plan_figures(tri_arena *arena, const tri_plan_in *in, unsigned kinds, tri_classes *out);
#define TRI_PLAN_ARENA ((size_t)1 << 20) /* initial size of arenas for plans, in bytes */

typedef struct tri_stages tri_stages; /* plan/pipeline/stage.h */

/* What FP8 training does with a parameter, of which `tp` ranks have a share each. */
typedef enum tri_fp8_weight {
    TRI_FP8_NONE,    /* not the weight of a dense layer of an encoder */
    TRI_FP8_AT_END,  /* of the first or the last layer */
    TRI_FP8_RAGGED,  /* a dim of a rank's share is not a multiple of 16 */
    TRI_FP8_TAKEN
} tri_fp8_weight;
tri_fp8_weight tri__fp8_weight(const tri_network *model, int tp, const tri_param *param);
/* Whether --float-layers names a parameter. */
int tri__is_exempt(const tri_plan_in *in, const char *name);
/* Whether the encoders have a queue of kernels each. */
int tri__plan_lanes(const tri_plan_in *in);
