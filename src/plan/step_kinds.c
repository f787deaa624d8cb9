/* step_kinds.c - kinds of steps, counted in closed form: runs have any number of steps. */
#include "plan/step_kinds.h"

int tri__is_onebit(tri_optimizer_kind kind) {
    return (tri__optimizer_takes(kind) & (TRI_TAKES_FULL_STEPS | TRI_TAKES_INTERVALS)) != 0;
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t steps_of(const tri_optimizing *how) { return how->steps ? how->steps : TRI_TYPICAL_STEPS; }

int64_t tri__variance_window(const tri_optimizing *how) { return llround(1 / (1 - how->beta2)); }

void tri__step_kinds_resolve(tri_optimizing *how, int64_t warmup) {
    int64_t steps = steps_of(how), fifth = (steps + 4) / 5;
    if (!how->full_steps) how->full_steps = larger(fifth, larger(warmup, tri__variance_window(how)));
    if (!how->var_freeze_step) how->var_freeze_step = larger((steps + 1) / 2, warmup);
}

/* 0/1 Adam: whether a run comes that far. */
static int steps_alone(const tri_optimizing *how) {
    return how->local_step_clipper > 1 &&
           (!how->steps || how->steps - how->var_freeze_step > how->local_step_scaler);
}

uint32_t tri__step_gates(const tri_optimizing *how) {
    unsigned takes = tri__optimizer_takes(how->kind);
    if (takes & TRI_TAKES_FULL_STEPS) return TRI_GATE(full) | TRI_GATE(turn) | TRI_GATE(signs);
    if (takes & TRI_TAKES_INTERVALS)
        return TRI_GATE(variance) | TRI_GATE(signs) |
               (steps_alone(how) ? TRI_GATE(alone) | TRI_GATE(sync) : 0);
    return how->sync_every > 1 ? TRI_GATE(alone) | TRI_GATE(sync) : 0;
}

/* ---- 0/1 Adam. Steps count from 1 here, as in the paper: copies synchronise in a step that the interval divides ----
 */

/* Of steps 1 .. n, those that update the variance. The last of an interval's var_update_scaler updates begins the next
 * interval, twice as long. */
static int64_t variance_until(const tri_optimizing *how, int64_t n) {
    int64_t count = 0, at = 0;
    n = smaller(n, how->var_freeze_step);
    for (int64_t each = 1; each <= n; each *= 2) {
        int64_t first = (at / each + 1) * each, last = first + (how->var_update_scaler - 1) * each;
        if (first > n) return count;
        if (last >= n) return count + 1 + (n - first) / each;
        count += how->var_update_scaler;
        at = last;
    }
    return count;
}

/* Of steps 1 .. n, those after var_freeze_step whose momentum travels. */
static int64_t syncs_until(const tri_optimizing *how, int64_t n) {
    int64_t count = 0, at = how->var_freeze_step;
    for (int64_t each = 1; at < n; each *= 2) {
        int longest = 2 * each > how->local_step_clipper;
        int64_t end = longest ? n : smaller(n, at + how->local_step_scaler);
        count += end / each - at / each; /* multiples of it */
        at = end;
    }
    if (how->steps && n >= how->steps && how->steps > how->var_freeze_step) { /* the last one, whatever its interval */
        tri_optimizing endless = *how;
        endless.steps = 0;
        if (syncs_until(&endless, how->steps) == syncs_until(&endless, how->steps - 1)) count++;
    }
    return count;
}

/* Of those, the ones at an interval of one step. */
static int64_t together_until(const tri_optimizing *how, int64_t n) {
    if (how->local_step_clipper == 1) return syncs_until(how, n);
    return larger(0, smaller(n - how->var_freeze_step, how->local_step_scaler));
}

static int64_t zero_one_until(const tri_optimizing *how, uint32_t gate, int64_t n) {
    int64_t frozen = smaller(n, how->var_freeze_step), variance = variance_until(how, n),
            syncs = syncs_until(how, n), together = together_until(how, n);
    if (gate == TRI_GATE(variance)) return variance;
    if (gate == TRI_GATE(signs)) return frozen - variance + together;
    return gate == TRI_GATE(sync) ? syncs - together : n - frozen - syncs;
}

/* ---- All ---- */

static int64_t onebit_until(const tri_optimizing *how, uint32_t gate, int64_t n) {
    int64_t full = smaller(n, how->full_steps), turn = n > how->full_steps;
    return gate == TRI_GATE(full) ? full : gate == TRI_GATE(turn) ? turn : n - full - turn;
}

static int64_t sync_until(const tri_optimizing *how, uint32_t gate, int64_t n) {
    int64_t syncs = n / how->sync_every + (how->steps && n >= how->steps && how->steps % how->sync_every != 0);
    return gate == TRI_GATE(sync) ? syncs : n - syncs;
}

int64_t tri__steps_of_kind(const tri_optimizing *how, uint32_t gate, int64_t step) {
    uint32_t gates = tri__step_gates(how);
    if (!gates) return step;
    if (!(gates & gate)) return 0;
    if (gates & TRI_GATE(full)) return onebit_until(how, gate, step);
    return gates & TRI_GATE(variance) ? zero_one_until(how, gate, step) : sync_until(how, gate, step);
}

uint32_t tri__step_gate(const tri_optimizing *how, int64_t step) {
    uint32_t gates = tri__step_gates(how);
    for (int gate = 0; gate < TRI_GATE_COUNT; gate++)
        if (gates >> gate & 1 &&
            tri__steps_of_kind(how, 1u << gate, step + 1) > tri__steps_of_kind(how, 1u << gate, step))
            return 1u << gate;
    return 0;
}

uint32_t tri__sum_gates(const tri_optimizing *how) {
    return tri__is_onebit(how->kind) ? tri__step_gates(how) & (TRI_GATE(full) | TRI_GATE(variance)) : 0;
}

int64_t tri__variance_steps(const tri_optimizing *how, int64_t step) {
    uint32_t gates = tri__step_gates(how);
    if (gates & TRI_GATE(full)) return tri__steps_of_kind(how, TRI_GATE(full), step);
    return gates & TRI_GATE(variance) ? tri__steps_of_kind(how, TRI_GATE(variance), step) : step;
}

void tri__step_window(const tri_optimizing *how, int64_t step, int64_t *begin, int64_t *end) {
    uint32_t meets = how->kind == TRI_ZERO_ONE_ADAM ? TRI_GATE(alone) | TRI_GATE(sync) : 0;
    *begin = step, *end = step + 1;
    if (!(tri__step_gate(how, step) & meets)) return;
    while (*begin > how->met && tri__step_gate(how, *begin - 1) == TRI_GATE(alone)) --*begin;
    while (tri__step_gate(how, *end - 1) == TRI_GATE(alone)) ++*end;
}

void tri__step_kinds_set(const tri_optimizing *how, tri_program *program) {
    int64_t steps = steps_of(how);
    program->gates = tri__step_gates(how);
    for (int gate = 0; gate < TRI_GATE_COUNT; gate++)
        program->share[gate] = program->gates >> gate & 1
                                   ? (double)tri__steps_of_kind(how, 1u << gate, steps) / (double)steps
                                   : 0;
}
