/* calibrate.h - measures this machine: its kernels, by running programs of small models. */
#ifndef TRI_STUDY_CALIBRATE_CALIBRATE_H
#define TRI_STUDY_CALIBRATE_CALIBRATE_H

#include "base/log.h"
#include "base/stop.h"
#include "device/device.h"
#include "program/program.h"
#include "sim/hardware.h"

typedef struct tri_calibration {
    const tri_device *device;
    int cores;             /* that ranks share; 0: the device is asynchronous, and one rank has it alone */
    double seconds;        /* that measuring may take, about */
    const tri_log *log;    /* progress */
    const tri_stop *stop;  /* NULL: nobody asks */
} tri_calibration;

/* Sets the device's name, target, cores, curves of kernels, rates and peaks; in the arena. Models of several widths,
 * numbers of tokens and lengths train for a few steps, and the instructions of their programs are timed; on a CPU by
 * ranks of 1, 2, 4, ... threads that use all cores together. Where time is short, large models are left out. */
tri_status tri__calibrate_kernels(const tri_calibration *calibration, tri_arena *arena, tri_hardware *out);

/* ---- one model (calibrate_model.c) ---- */

typedef struct tri_trial_case {
    int width, heads, inner;    /* of the encoder; inner: of its feed-forward part */
    int layers, words;
    int texts;                  /* each with such an encoder; 0 is 1 */
    int tokens, length;         /* of a microbatch; the mean of its sequences. Tokens are about that where ragged */
    double ragged;              /* exponent of exponentially distributed lengths; 0: all are equally long */
    int microbatches;
    tri_dtype precision, quantize;
} tri_trial_case;

typedef struct tri_trial tri_trial;
/* Plans, checks, binds to memory and sets weights. */
tri_status tri__trial_open(const tri_device *device, const tri_trial_case *at, int threads, tri_trial **out);
/* One training step. times: [n_instrs] of the program, NULL. */
tri_status tri__trial_step(tri_trial *trial, tri_time *times);
/* The same in parts, for asynchronous devices; times are valid after `finish`. tri__trial_run_step is a step as a run
 * makes it: its update is queued separately. `hold`: as tri__exec_hold. `queueing`: seconds in which the host queues an
 * instruction that is not part of a graph; each call leaves out another number of instructions at the end. */
tri_status tri__trial_queue(tri_trial *trial, tri_time *times);
tri_status tri__trial_finish(tri_trial *trial);
tri_status tri__trial_run_step(tri_trial *trial);
void tri__trial_hold(tri_trial *trial, double seconds);
tri_status tri__trial_queueing(tri_trial *trial, int without, double *seconds);
const char *tri__trial_machine(const tri_trial *trial); /* the device, for people */
const tri_program *tri__trial_program(const tri_trial *trial);
const tri_counts *tri__trial_counts(const tri_trial *trial); /* of each microbatch */
void tri__trial_close(tri_trial *trial); /* accepts NULL */
double tri__trial_flops(const tri_trial_case *at);           /* of a step, about */
double tri__trial_bytes(const tri_trial_case *at);           /* of memory, about */

#endif
