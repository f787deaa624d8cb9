/* choices.h - what the user chooses among and the planner has enumerators for. Each list, or table of rows, makes the
 * enumerators here and the option's words in settings/options.def, so that the two are in one order. */
#pragma once

#include "base/option.h"

/* What the replicas of the data-parallel axis shard: each row also shards what the rows before it do. */
#define TRI_SHARD_KINDS(X) \
    X(TRI_SHARD_NONE, "none")   /* nothing: gradients are all-reduced */ \
    X(TRI_SHARD_ZERO1, "zero1") /* the optimizer's state */ \
    X(TRI_SHARD_ZERO2, "zero2") /* gradients: each microbatch's are reduce-scattered to their owners */ \
    X(TRI_SHARD_ZERO3, "zero3") /* weights: gathered before their use */ \
    X(TRI_SHARD_HYBRID, "hybrid") /* all that, within runs of `size` replicas */
typedef enum tri_shard_kind { TRI_SHARD_KINDS(TRI_ENUMERATOR) } tri_shard_kind;

#define TRI_RECOMPUTE_KINDS(X) \
    X(TRI_RECOMPUTE_NONE, "none") X(TRI_RECOMPUTE_SELECTIVE, "selective") X(TRI_RECOMPUTE_FULL, "full")
typedef enum tri_recompute { TRI_RECOMPUTE_KINDS(TRI_ENUMERATOR) } tri_recompute;

/* What offload memory may hold, by memory class (program/classes.h). */
#define TRI_OFFLOAD_WORDS(X) \
    X(TRI_MEM_STATE, "optimizer") X(TRI_MEM_GRAD, "gradients") X(TRI_MEM_PARAM, "params") X(TRI_MEM_ACT, "activations")

/* The hyper-parameters that an optimizer has. */
enum {
    TRI_TAKES_BETAS = 1,      /* --adam-beta1, --adam-beta2, --adam-eps: it divides by the gradients' magnitude */
    TRI_TAKES_MOMENTUM = 2,   /* --momentum, --nesterov */
    TRI_TAKES_FULL_STEPS = 4, /* --full-steps: then its momentum travels as signs */
    TRI_TAKES_INTERVALS = 8   /* --var-freeze-step, ...: its momentum travels as signs between growing intervals */
};

typedef enum tri_optimizer_kind {
#define TRI_OPTIMIZER(id, ...) TRI_##id,
#include "plan/optimizer/optimizers.def"
} tri_optimizer_kind;

typedef enum tri_schedule_kind {
#define TRI_SCHEDULE(id, ...) TRI_SCHEDULE_##id,
#include "plan/schedule/schedules.def"
    TRI_SCHEDULE_COUNT
} tri_schedule_kind;
