/* plan.h - from a model to one rank's programs. Pure arithmetic: no device, no file, no clock.
 *
 * Reading the passes in the order of plan.c is reading how Trident works; each is one file of this folder and turns
 * tri_pass.program into the next. The first work on one microbatch as a template; `schedule` unrolls it. */
#ifndef TRI_PLAN_PLAN_H
#define TRI_PLAN_PLAN_H

#include "model/model.h"
#include "program/target.h"

typedef enum tri_recompute { TRI_RECOMPUTE_NONE, TRI_RECOMPUTE_SELECTIVE, TRI_RECOMPUTE_FULL } tri_recompute;

typedef struct tri_plan_in {
    const tri_model *model;
    tri_mesh mesh;
    int rank;
    int n_mb;                    /* microbatches of a training step */
    tri_counts max, max_infer;   /* the largest microbatch of training, of prediction */
    const tri_target *target;
    double beta1, beta2, adam_eps, weight_decay, max_grad_norm;
    tri_recompute recompute;
    tri_dtype precision;         /* f32, bf16 or f16: of weights, activations and their gradients */
    tri_dtype reduce_dtype;      /* of gradients of weights, as they are summed and kept */
} tri_plan_in;

/* A program and the slots that the host sets or reads. */
typedef struct tri_planned {
    tri_program *program;
    int *param, *m, *v;          /* [n_units] flat slots; m and v: training only */
    int *master;                 /* [n_units] weights in fp32, beside m and v, where param has fewer bits; else NULL */
    int loss, probs;
    int norm, apply;             /* training only */
    int scale;                   /* of the loss; training in fp16 only, else -1 */
} tri_planned;

typedef struct tri_plan {
    tri_planned train, infer;
} tri_plan;

/* TRI_USAGE when the target lacks a kernel the model needs. `train` 0: only the forward program. */
tri_status tri__plan(tri_arena *arena, const tri_plan_in *in, int train, tri_plan *plan);

/* What passes share. */
typedef struct tri_pass {
    tri_arena *arena;
    const tri_plan_in *in;
    tri_program *program;
    tri_forward forward;   /* what the model left behind */
    int *grad;             /* [cap_grad] the gradient slot of each slot; -1. Set by backward */
    int *unit_grad;        /* [n_units] flat gradients of each unit. Set by backward */
    tri_planned out;
} tri_pass;

void tri__pass_forward(tri_pass *pass, int training);
void tri__pass_backward(tri_pass *pass);
tri_status tri__pass_precision(tri_pass *pass);
void tri__pass_recompute(tri_pass *pass);
void tri__pass_fuse(tri_pass *pass);
void tri__pass_prune(tri_pass *pass);
void tri__pass_schedule(tri_pass *pass, int n_mb);
void tri__pass_update(tri_pass *pass);
void tri__pass_memory(tri_pass *pass, const tri_counts *max);

#endif
