/* exec.h - binds a plan's programs to a device's memory and to the other ranks, and runs them. Knows operations,
 * nothing of models or strategies. */
#ifndef TRI_EXEC_EXEC_H
#define TRI_EXEC_EXEC_H

#include "device/device.h"
#include "program/program.h"

/* What one microbatch brings: row counts and the fields that `input` instructions copy in. */
typedef struct tri_feed {
    tri_counts counts;
    const void *field[TRI_FIELD_COUNT]; /* shapes: TRI_FIELDS in program/op.h */
} tri_feed;

typedef struct tri_exec tri_exec;

/* Programs of one plan: their parameters (and every slot of the same class and offset) share memory. One allocation per
 * memory class, zeroed; the arrays of `programs` must outlive the executor. guard: extra bytes after each class, for
 * tests. world: who the programs' transfers are with, and whose shared memory takes tri__programs_shared_bytes; it
 * outlives the executor, and all ranks open theirs in the same order. NULL when no program has transfers. folder: where
 * the device's offload memory is, when programs have classes there. */
tri_status tri__exec_open(const tri_device *device, const tri_program *const *programs, int n, int threads,
                          uint32_t seed, size_t guard, tri_world *world, const char *folder, tri_exec **out);
void tri__exec_close(tri_exec *exec);

/* A slot's memory, as the largest microbatch uses it. Where a device has memory of its own this is the host's copy of
 * it: there is one of weights, optimizer state and results. `push` brings a slot of it to the device, `pull` a class
 * back; results come with `finish`. NULL where the rank has nothing of the slot's class: it is empty, as all of
 * them. */
void *tri__exec_slot(const tri_exec *exec, int program, int slot);
tri_status tri__exec_push(tri_exec *exec, int program, int slot);
tri_status tri__exec_pull(tri_exec *exec, tri_mem mem);
/* Fills a slot where kernels see it; where that is not the host's copy, the copy stays as it is. */
tri_status tri__exec_fill(tri_exec *exec, int program, int slot, tri_make *make, void *maker);
/* The allocation of a class: its start, where kernels see it, and the bytes that the plan asked for (the guard
 * follows). */
void *tri__exec_memory(const tri_exec *exec, tri_mem mem, int64_t *bytes);
int64_t tri__exec_bytes(const tri_exec *exec); /* of all classes */
const char *tri__exec_describe(const tri_exec *exec); /* the device, for people */

/* Runs instructions [begin, end) of a program: all of them with 0 and n_instrs. feed[n_mb]; instructions of the whole
 * step take feed[0]. `times` [n_instrs], or NULL; they are there after tri__exec_finish. Fails when any rank does: then
 * nothing it wrote counts. Allocates nothing. An asynchronous device has then been told all of it, and may still
 * be at work. */
tri_status tri__exec_run(tri_exec *exec, int program, int begin, int end, uint32_t step, const tri_feed *feed,
                         tri_time *times);
/* Waits for all that runs began; the host's copy of results is what they left. Where kernels are done when they return:
 * nothing. */
tri_status tri__exec_finish(tri_exec *exec);
/* Algorithms chosen by timing, as tri_tuner has it; before anything is in memory. `kind` is NULL where there is nothing
 * to choose, and then the others are not called. `tune` adds what it lacks of the programs' products at their largest;
 * this rank alone. */
const char *tri__exec_kind(const tri_exec *exec);
tri_status tri__exec_tune(tri_exec *exec, tri_wisdom *wisdom);
void tri__exec_follow(tri_exec *exec, const tri_wisdom *wisdom);
/* Seconds that a device which runs on has worked since this was last asked; 0 of others. */
double tri__exec_worked(tri_exec *exec);
/* Bytes in use of the device's own memory, by all who share it; 0 where it is the host's. */
int64_t tri__exec_used(const tri_exec *exec);
/* Whether a run may still be going on when it returns. */
int tri__exec_runs_on(const tri_exec *exec);

/* The first instruction that posts a program's control, -1: it has none. Running it alone, with its wait, exchanges the
 * field control of `feed` (one microbatch) and touches no device; the sums are in the instruction's slot. Every rank
 * does so, or none, and not while a run is under way. */
int tri__exec_control_of(const tri_program *program);
tri_status tri__exec_control(tri_exec *exec, int program, const tri_feed *feed);

/* Runs the program again to its end, looking at every value written: *line is the first instruction whose output is not
 * finite and *slot what holds it, or -1. Updates of weights are not run. Every rank does so, or none: they run its
 * transfers too. */
tri_status tri__exec_find_bad(tri_exec *exec, int program, uint32_t step, const tri_feed *feed, int *line, int *slot);

#endif
