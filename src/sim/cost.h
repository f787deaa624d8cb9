/* cost.h - seconds of instructions on described hardware. */
#ifndef TRI_SIM_COST_H
#define TRI_SIM_COST_H

#include "program/transfer.h"
#include "sim/hardware.h"

/* Seconds that all operations of a unit took for one microbatch: forward, gradients of inputs, gradients of weights. */
typedef struct tri_unit_seconds {
    const char *unit;
    double forward, input, weight;
} tri_unit_seconds;

/* What timing needs in addition to programs. */
typedef struct tri_costs {
    const tri_hardware *hardware;
    const tri_counts *counts;           /* row counts of a microbatch; NULL: of the largest */
    const tri_unit_seconds *measured;   /* [n_measured] measured units; the others are computed from the hardware's
                                           figures */
    int n_measured;
    int threads;                        /* of each rank, where curves differ by threads; 0: as the hardware's cores and
                                           ranks of a node give them */
} tri_costs;

/* Seconds of each instruction that computes or copies, [n_instrs]; 0 for transfers. The larger of the time to compute
 * and the time to move the operands through memory. The operations of a measured unit share its time in proportion to
 * these. */
double *tri__program_seconds(tri_arena *arena, const tri_program *program, const tri_costs *costs);

/* Of the seconds of an instruction that computes, those in which the device is in use: fewer if the launch takes
 * longer. */
double tri__instr_work(const tri_program *program, const tri_instr *instr, double seconds, const tri_costs *costs);

/* Seconds of a transfer among `members`, [n] ranks, of `bytes` in all; by kind:
 *   all_reduce                   the faster of a ring, 2(n-1) steps of bytes/n, and a tree, 2 log2(n) steps of bytes
 *   all_gather, reduce_scatter   a ring, n-1 steps of bytes/n
 *   broadcast                    a tree whose steps overlap: log2(n) latencies, and the bytes once
 *   send                         one latency and the bytes
 * Members of one node share their links to other nodes. */
double tri__transfer_seconds(const tri_hardware *hardware, tri_collective_kind kind, const int *members, int n,
                             double bytes);

#endif
