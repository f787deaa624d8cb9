/* cost.c - a roofline for kernels. */
#include "sim/cost.h"

#include <math.h>
#include <string.h>

enum { PHASES = 3 }; /* forward, gradients of inputs, of weights */

static double flops_of(const tri_hardware *h, const tri_program *program, const tri_instr *instr) {
    double rate = tri__instr_dtype(program, instr) == TRI_F32 ? h->f32 : h->half;
    int attends = instr->op == TRI_OP_attention || instr->op == TRI_OP_attention_din ||
                  instr->op == TRI_OP_attention_din_db;
    return attends ? rate * h->attention : rate;
}

/* Seconds that an operation occupies the device, without the minimum of a launch. */
static double work_of(const tri_hardware *h, const tri_program *program, const tri_instr *instr,
                      const tri_counts *counts) {
    tri_cost cost = tri__instr_cost(program, instr, counts);
    return fmax(cost.flops / flops_of(h, program, instr), cost.bytes / h->bytes);
}

static double seconds_of(const tri_hardware *h, const tri_program *program, const tri_instr *instr,
                         const tri_counts *counts) {
    tri_queue queue = tri__op_queue(instr->op);
    if (queue == TRI_QUEUE_COMM || instr->op == TRI_OP_copy_wait) return 0;
    tri_cost cost = tri__instr_cost(program, instr, counts);
    if (instr->op == TRI_OP_copy_post) cost.bytes /= 2; /* one memory is read, the other written */
    if (queue == TRI_QUEUE_COPY) return h->launch + cost.bytes / h->copy;
    return fmax(h->launch, work_of(h, program, instr, counts));
}

/* 0 forward, 1 gradients of inputs, 2 of weights; -1: other. */
static int phase_of(const tri_instr *instr) {
    tri_op_phase phase = tri__op_row(instr->op)->phase;
    return phase == TRI_PHASE_F ? 0 : phase == TRI_PHASE_B ? 1 : phase == TRI_PHASE_W ? 2 : -1;
}

/* Scales a unit's seconds so that its first microbatch takes the measured time. */
static void scale_unit(const tri_program *program, const tri_unit_seconds *measured, double *seconds) {
    const double want[PHASES] = {measured->forward, measured->input, measured->weight};
    double have[PHASES] = {0};
    int first = -1;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < program->n_instrs; i++) {
            const tri_instr *instr = &program->instr[i];
            int phase = phase_of(instr);
            if (phase < 0 || instr->unit < 0 || strcmp(program->unit[instr->unit], measured->unit) != 0) continue;
            if (first < 0) first = instr->mb;
            if (pass == 0) have[phase] += instr->mb == first ? seconds[i] : 0;
            else if (have[phase] > 0) seconds[i] *= want[phase] / have[phase];
        }
}

double *tri__program_seconds(tri_arena *arena, const tri_program *program, const tri_costs *costs) {
    double *seconds = tri__arena_alloc(arena, (size_t)program->n_instrs * sizeof *seconds);
    for (int i = 0; i < program->n_instrs; i++) {
        const tri_instr *instr = &program->instr[i];
        seconds[i] = seconds_of(costs->hardware, program, instr, tri__costs_counts(costs, program, instr));
    }
    for (int u = 0; u < costs->n_measured; u++) scale_unit(program, &costs->measured[u], seconds);
    return seconds;
}

double tri__instr_work(const tri_program *program, const tri_instr *instr, double seconds, const tri_costs *costs) {
    double work = work_of(costs->hardware, program, instr, tri__costs_counts(costs, program, instr));
    return work > 0 ? seconds * work / fmax(costs->hardware->launch, work) : 0;
}
