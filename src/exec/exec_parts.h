/* exec_parts.h - what the parts of the executor share: a bound program, and the calls between bind.c, run.c, queue.c,
 * diagnose.c and control.c. */
#ifndef TRI_EXEC_EXEC_PARTS_H
#define TRI_EXEC_EXEC_PARTS_H

#include "exec/exec.h"
#include "exec/replay.h"
#include "exec/transfer.h"

/* An instruction bound to memory: what does not change from step to step. */
typedef struct tri_bound {
    tri_kernel *run;               /* NULL: done here */
    tri_call call;
    tri_bound_transfer *transfer;  /* of a post and of its wait; NULL */
    int copy;                      /* number of a copy between memories, of its post and of its wait */
    int signal;                    /* that its lane gives when it is done, from 1 on; 0: no other waits for it */
} tri_bound;

struct tri_exec {
    const tri_device *device;
    void *context;              /* the device's */
    tri_kernel_table *table;
    tri_world *world;           /* NULL: one rank */
    const tri_program *const *program;
    tri_bound **bound;              /* [n] arrays of n_instrs */
    uint8_t *in_lanes;          /* [n] 1: the program has several lanes, and so has the device */
    tri_replay replay;
    tri_group_table groups;
    tri_bound_transfer *transfer;
    int64_t *counts;            /* of all transfers */
    unsigned shared;            /* classes in shared memory, a bit each */
    int n, threads;
    int64_t bytes[TRI_MEM_COUNT];
    size_t guard;
    char *memory[TRI_MEM_COUNT];
    char
        *host[TRI_MEM_COUNT]; /* as the host reaches it: the same, or a copy; NULL: an asynchronous device needs none */
    tri_time *times;            /* of a run that is not finished; NULL */
    int n_times, timed;         /* how many; of which program */
};

/* bind.c: a slot's memory as kernels see it; whether the host has a copy of a class elsewhere. */
void *tri__exec_slot_memory(const tri_exec *exec, int program, int slot);
int tri__exec_has_copy(const tri_exec *exec, int mem);

/* run.c: one instruction; what an input instruction copies of its microbatch; the microbatch of an instruction. */
tri_status tri__exec_run_one(tri_exec *exec, int program, int i, uint32_t step, const tri_feed *feed);
const char *tri__exec_input_of(const tri_program *p, const tri_instr *instr, const tri_feed *feed, size_t *bytes);
const tri_feed *tri__exec_feed_of(const tri_instr *instr, const tri_feed *feed);

/* control.c: what this rank tells the others in a control_post. */
void tri__exec_bring_record(const tri_bound *control, const tri_feed *feed);

/* queue.c, of an asynchronous device: begins a run; the whole run, only queued; waits until the device is done.
 */
void tri__exec_start(const tri_exec *exec, int program, int begin, int end, uint32_t step, const tri_feed *feed);
tri_status tri__exec_queue(tri_exec *exec, int program, int begin, int end, uint32_t step, const tri_feed *feed,
                           tri_time *times);
tri_status tri__exec_await(tri_exec *exec, int compared);

#endif
