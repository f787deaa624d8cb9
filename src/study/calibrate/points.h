/* points.h - times of instructions, gathered by kernel and size: the points of curves. */
#ifndef TRI_STUDY_CALIBRATE_POINTS_H
#define TRI_STUDY_CALIBRATE_POINTS_H

#include "device/timing.h"
#include "program/program.h"
#include "sim/hardware.h"

typedef struct tri_sample {
    int variant;
    tri_dtype dtype;
    int threads, adds;
    tri_code code;
    double size[TRI_SIZES];
    double seconds, spread;    /* sums over instructions */
    int n;
} tri_sample;

/* Zeroed: none. */
typedef struct tri_samples {
    tri_sample *at;
    int n, cap;
} tri_samples;

/* Adds the instructions of a program that ran `steps` times; times: [steps][n_instrs]. An instruction counts with its
 * median, so that what else happened meanwhile does not; instructions of equal size count with their mean, because
 * some find their operands in a cache and others do not. Not thread-safe. */
tri_status tri__samples_add(tri_samples *samples, const tri_program *program, const tri_counts *counts, int threads,
                            const tri_time *times, int steps);
/* Adds one call by its times, [n], which are sorted. */
tri_status tri__samples_put(tri_samples *samples, const tri_sample *like, double *seconds, int n);
/* The curves of all samples, in order of operation, type, threads and size; in the arena. */
void tri__samples_curves(tri_samples *samples, tri_arena *arena, tri_hardware *out);
/* The rates of large calls, from the curves of one thread: f32, half, attention, bytes, launch, and the peaks of all
 * cores. */
void tri__curves_rates(tri_hardware *out);
/* Sets the tiles of products that several threads divide among them. */
void tri__curves_tiles(tri_hardware *out);
void tri__samples_free(tri_samples *samples);

#endif
