/* optimizer.h - the optimizers: rows of plan/optimizer/optimizers.def, and what the files of that folder share.
 *
 * A row's `emit` appends the instructions that bring this rank's part of each unit from its gradients to its new
 * weights. Before it, the update has summed the gradients' norm and found the clipping factor; after it, weights of
 * which each rank wrote a part are gathered. What is kept between steps are states, which the engine fills, saves and
 * resumes. */
#pragma once

#include "plan/pass.h"

typedef struct tri_updating {
    tri_pass *pass;
    tri_builder build;
    int hyper, coef;      /* slots: learning rate and bias corrections; the clipping factor */
    int control;          /* slot; -1: a single rank */
    void *own;            /* the optimizer's own, between its functions */
    int first;            /* the optimizer's first state: those of passes before the update precede it */
} tri_updating;

enum { TRI_OWN_STATES = 2 }; /* at most, of an optimizer that updates element by element */
typedef struct tri_optimizer {
    const char *name;     /* that of --optimizer */
    unsigned takes;       /* TRI_TAKES_BETAS, ... */
    const tri_hyper *hyper; /* [TRI_HYPERS] NULL: rate, momentum, variance, steps */
    void (*emit)(tri_updating *up);
    const char *mnemonic; /* of tri__emit_each's operation, with its states */
    struct {
        const char *name, *prefix;
    } state[TRI_OWN_STATES];
} tri_optimizer;

extern const tri_hyper tri__zero_one_hyper[];
const tri_optimizer *tri__optimizer_row(tri_optimizer_kind kind);

/* The update of an optimizer that is one operation on each run of elements. */
void tri__emit_each(tri_updating *up);
#define EACH(...)
#define OWN(name) void tri__emit_##name(tri_updating *up);
#define TRI_OPTIMIZER(id, word, takes, emits, ...) emits
#include "plan/optimizer/optimizers.def"
#undef OWN
#undef EACH

/* Adds a state that replicas hold together, each the elements state_part of a unit; returns its index. Its slots are
 * made by tri__state_slot. A state of another scope sets the ranges itself. */
int tri__add_state(tri_pass *pass, const char *name, const char *prefix);
/* Adds a state of one number for each parameter that decays, the same on all ranks of a stage; *slot: all of them,
 * [1, parameters that decay]. */
int tri__add_numbers(tri_pass *pass, tri_builder *build, const char *name, const char *prefix, int *slot);
/* Makes a state one of which each copy of the model has its own, and of which this rank holds the elements `held` of
 * copy `copy` of `copies`; or, of scope SHARED, other elements than the unit's states. Call it before
 * tri__state_slot. */
void tri__state_of_copies(tri_pass *pass, int state, tri_state_scope scope, int copy, int copies, tri_range *held);
/* The slot of a unit's state, of class `state`; made by the first call. */
int tri__state_slot(tri_pass *pass, tri_builder *build, int state, int unit);

/* The elements [begin, end) of one unit that this rank updates, all of which decay or none, at one rate. */
typedef struct tri_run {
    int unit;
    tri_range part;
    int decays;
    double rate;           /* factor of the learning rate */
} tri_run;
/* Calls `emit` for each run of each unit that is trained, in order, with the builder at the unit and the optimizer's
 * states made. */
void tri__each_run(tri_updating *up, void (*emit)(tri_updating *up, const tri_run *run));
/* Views of a run's elements; state: counted from the optimizer's first. */
int tri__run_weights(tri_updating *up, const tri_run *run);
int tri__run_gradient(tri_updating *up, const tri_run *run);
int tri__run_state(tri_updating *up, int state, const tri_run *run);
/* The same of a slot that holds the elements `held` of the run's unit. */
int tri__run_part(tri_updating *up, int slot, tri_range held, const tri_run *run);
/* Betas, epsilon, decay and rate of a run; those of its step alone. */
tri_attr tri__run_attr(const tri_updating *up, const tri_run *run);
tri_attr tri__run_step(const tri_updating *up, const tri_run *run);
/* Appends adamw for a run; the optimizer's first two states are the moments. */
void tri__run_adamw(tri_updating *up, const tri_run *run);

/* A view of elements `part` of a unit, in a slot that holds its elements `held`; the slot itself where they are all. */
int tri__update_part(tri_updating *up, int slot, tri_range held, tri_range part);
/* A slot without elements: a view of the first of these gradients, [n_units], that there is, else of weights. */
int tri__no_elements(tri_updating *up, const int *grad, const char *name);
/* Sums a slot in place over a group; group.most: takes the largest of each element. */
void tri__update_reduce(tri_updating *up, tri_attr group, int slot);

/* ---- average.c: averaged weights, what planning asks ---- */

/* TRI_USAGE where copies of the model take local steps: while they do there are no common weights to average. */
tri_status tri__average_check(const tri_plan_in *in);
/* For `update`, after the optimizer: the averages, and the state `live`. */
void tri__average_emit(tri_updating *up);

/* ---- pass_local.c: copies of the model that take local steps and synchronise every N steps, what other passes ask
 * ---- */

/* Whether the program is of such steps. */
int tri__takes_local_steps(const tri_pass *pass);
/* For `shard`, which has resolved hybrids: TRI_USAGE where there are no copies that could take them. */
tri_status tri__local_check(const tri_pass *pass);
/* For copies that take them, this one being `copy`: the state of each one's own weights; the slots of the anchor. */
void tri__local_weights(tri_pass *pass, int copy, int copies);
void tri__local_anchor(tri_pass *pass, tri_builder *build);
/* For `update`: clipping limits a copy's own gradients to this many times the norm that is asked for; 1: no local
 * steps. */
double tri__local_norm_factor(const tri_pass *pass);
/* For `update`: all copies apply a step or none does, whichever copy's norm (of `sums`, which this rank's copy has
 * used) is not finite. */
void tri__local_agree(tri_updating *up, int sums);
