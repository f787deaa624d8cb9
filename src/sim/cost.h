/* cost.h - seconds of instructions on described hardware. */
#pragma once

#include "program/transfer.h"
#include "sim/transfer_time.h"

/* Seconds that all operations of a unit took for one microbatch: forward, gradients of inputs, gradients of weights. */
typedef struct tri_unit_seconds {
    const char *unit;
    double forward, input, weight;
} tri_unit_seconds;

/* What timing needs in addition to programs. */
typedef struct tri_costs {
    const tri_hardware *hardware;
    /* [n_counts] row counts of microbatches; NULL: each counts as the program's largest */
    const tri_counts *counts;
    /* 1: the same for all; n_mb: of each microbatch of one replica; in a timeline also dp * n_mb: of each replica's */
    int n_counts;
    /* [n_measured] measured units; the others are computed from the hardware's figures */
    const tri_unit_seconds *measured;
    int n_measured;
    /* of each rank, where curves differ by threads; 0: as the hardware's cores and ranks of a node give them */
    int threads;
} tri_costs;

/* The row counts of an instruction's microbatch. Instructions of the whole step have those of the first, as the
 * executor binds them. */
static inline const tri_counts *tri__costs_counts(const tri_costs *costs, const tri_program *program,
                                                  const tri_instr *instr) {
    if (!costs->counts) return &program->max;
    return &costs->counts[costs->n_counts <= 1 || instr->mb < 0 ? 0 : instr->mb];
}

/* Seconds of each instruction that computes or copies, [n_instrs]; 0 for transfers. The larger of the time to compute
 * and the time to move the operands through memory. The operations of a measured unit share its time in proportion to
 * these. */
double *tri__program_seconds(tri_arena *arena, const tri_program *program, const tri_costs *costs);

/* Of the seconds of an instruction that computes, those in which the device is in use: fewer if the launch takes
 * longer. */
double tri__instr_work(const tri_program *program, const tri_instr *instr, double seconds, const tri_costs *costs);
