/* exec.h - binds a plan's programs to a device's memory and to the other ranks, and runs them. It handles operations
 * and is independent of models and strategies. */
#pragma once

#include "device/device.h"
#include "program/program.h"

/* The input of one microbatch: row counts and the fields that `input` instructions copy in. */
typedef struct tri_feed {
    tri_counts counts;
    tri_open_gates gates;               /* of the first: what is open in the step */
    const void *field[TRI_FIELD_COUNT]; /* shapes: TRI_FIELDS in program/op.h */
} tri_feed;

typedef struct tri_exec tri_exec;

typedef struct tri_exec_spec {
    const tri_device *device;
    const tri_program *const *program; /* [n] of one plan; they outlive the executor */
    int n, threads;      /* threads: 0 is 1 */
    uint32_t seed;
    size_t guard;        /* extra bytes after each class of memory, for tests */
    /* the ranks of the programs' transfers, which outlives the executor; memory that peers access comes from this
     * rank's heap in it. NULL: no program has transfers */
    tri_world *world;
    const char *folder;  /* of the device's offload memory, when programs have classes there */
} tri_exec_spec;

/* Parameters (and all slots of the same class and offset) of the programs share memory: one zeroed allocation a class.
 * All ranks open their executors in the same order. */
tri_status tri__exec_open(const tri_exec_spec *spec, tri_exec **out);
void tri__exec_close(tri_exec *exec);

/* A slot's memory, sized for the largest microbatch. If the device has separate memory, this is the host's copy, which
 * exists for weights, optimizer state and results. `push` copies a slot to the device, `pull` copies a class back;
 * `finish` copies results. NULL if the rank has no memory of the slot's class: all its slots are empty. */
void *tri__exec_slot(const tri_exec *exec, int program, int slot);
tri_status tri__exec_push(tri_exec *exec, int program, int slot);
tri_status tri__exec_pull(tri_exec *exec, tri_mem mem);
/* Fills a slot in the memory that kernels use; a separate host copy is not changed. */
tri_status tri__exec_fill(tri_exec *exec, int program, int slot, tri_make *make, void *maker);
/* Gives the class kept its memory, from byte `at` of the host's memory area [bytes] on; no instruction that copies
 * there may run before. Step n writes what the step before left to half (n - 1) & 1 of it. *direct 0: the device cannot
 * copy there, and copies take a way through other memory. */
tri_status tri__exec_keep_in(tri_exec *exec, void *area, size_t bytes, size_t at, int *direct);
/* The allocation of a class: its start in the memory that kernels use, and the bytes that the plan requested (the guard
 * follows). */
void *tri__exec_memory(const tri_exec *exec, tri_mem mem, int64_t *bytes);
int64_t tri__exec_bytes(const tri_exec *exec); /* of all classes */
const char *tri__exec_describe(const tri_exec *exec); /* the device, for people */

/* Runs instructions [begin, end) of a program: 0 and n_instrs run all. feed[n_mb]; instructions of the whole step use
 * feed[0]. Instructions that are not open by feed[0].gates are left out. `times` [n_instrs], or NULL; valid
 * after tri__exec_finish; of an instruction that is left out, begin = end. Fails when any rank fails; the outputs are
 * then invalid. Allocates nothing. On an asynchronous device everything has been queued on return and may still be in
 * flight. */
tri_status tri__exec_run(tri_exec *exec, int program, int begin, int end, uint32_t step, const tri_feed *feed,
                         tri_time *times);
/* The next runs with `times` also note, of each instruction's seconds, those that the rank waited for others in the
 * hosts' transfers: idle [n_instrs]. NULL: no longer. */
void tri__exec_note_idle(tri_exec *exec, double *idle);
/* The device begins what is queued from now on only after so many seconds: `times` of the next run then contain no
 * waiting for the host, which takes longer to queue a short kernel than the device to run it. A no-op on synchronous
 * devices. */
void tri__exec_hold(tri_exec *exec, double seconds);
/* Waits for all queued runs; the host's copy of results is then current. A no-op on synchronous devices. */
tri_status tri__exec_finish(tri_exec *exec);
/* Algorithms chosen by timing (tri_tuner), before memory holds any data. `kind` is NULL if there is nothing to choose,
 * and then the others must not be called. `tune` adds the programs' products, at their largest shapes, that the wisdom
 * lacks; for this rank only. */
const char *tri__exec_kind(const tri_exec *exec);
tri_status tri__exec_tune(tri_exec *exec, tri_wisdom *wisdom);
void tri__exec_follow(tri_exec *exec, const tri_wisdom *wisdom);
/* Seconds that an asynchronous device has worked since the last call; 0 for others. */
double tri__exec_worked(tri_exec *exec);
/* The device's clock and power now, also while a run is in flight and from another thread; 0: unknown. */
int tri__exec_gauge(tri_exec *exec, tri_gauge *out);
/* Bytes in use of the device's own memory, by all processes; 0 if it uses the host's memory. */
int64_t tri__exec_used(const tri_exec *exec);
/* Whether a run may still be in flight after tri__exec_run returns. */
int tri__exec_runs_on(const tri_exec *exec);
/* Whether runs can be given `times`: not on an asynchronous device that has no marks. */
int tri__exec_can_time(const tri_exec *exec);

/* The first instruction that posts a program's control; -1 if there is none. tri__exec_control runs it and its wait
 * alone: it exchanges the control field of `feed` (one microbatch) without using the device, and leaves the sums in the
 * instruction's slot. Every rank calls it or none does, and not while a run is in flight. */
int tri__exec_control_of(const tri_program *program);
tri_status tri__exec_control(tri_exec *exec, int program, const tri_feed *feed);

/* Reruns the whole program and checks every value written: *line is the first instruction with a non-finite output and
 * *slot the slot that holds it, or -1. Weight updates are skipped. Every rank calls it or none does, since transfers
 * run too. */
tri_status tri__exec_find_bad(tri_exec *exec, int program, uint32_t step, const tri_feed *feed, int *line, int *slot);
