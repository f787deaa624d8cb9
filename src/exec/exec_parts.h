/* exec_parts.h - shared by the parts of the executor: a bound program, and the calls between bind.c, run.c, queue.c,
 * keep.c, diagnose.c and control.c. */
#pragma once

#include "exec/replay.h"
#include "exec/transfer.h"

/* An instruction bound to memory: everything that is the same for all steps. */
typedef struct tri_bound {
    tri_kernel *run;               /* NULL: not a kernel, run.c handles it */
    tri_call call;
    tri_bound_transfer *transfer;  /* of a post or its wait; NULL */
    int copy;                      /* number of a copy to or from offload memory, the same for its post and its wait */
    int signal; /* number, from 1 on, that its lane signals when it is done; 0: no other lane waits for it */
} tri_bound;

/* The memory of the class kept (keep.c). */
typedef struct tri_keep {
    char *at;                      /* [2 halves] */
    void *pinned;                  /* what the device was told to copy to; NULL: it copies to `staged` [half] */
    char *staged;
    char *to;                      /* the half that copies in flight go to; NULL: none are */
} tri_keep;

struct tri_exec {
    const tri_device *device;
    void *context;              /* the device's */
    tri_kernel_table *table;
    tri_world *world;           /* NULL: one rank */
    const tri_program *const *program;
    tri_bound **bound;              /* [n] arrays of n_instrs */
    uint8_t *in_lanes;          /* [n] 1: both the program and the device have several lanes */
    tri_replay replay;
    tri_group_table groups;
    uint64_t marks;             /* of progress, queued */
    tri_bound_transfer *transfer;
    int64_t *counts;            /* of all transfers */
    unsigned shared;            /* classes in shared memory, one bit each */
    int n, threads;
    int64_t bytes[TRI_MEM_COUNT];
    size_t guard;
    char *memory[TRI_MEM_COUNT];
    char *host[TRI_MEM_COUNT];  /* address on the host: the same, a copy, or NULL: an asynchronous device needs none */
    tri_time *times;            /* of a run that is in flight; NULL */
    int n_times, timed;         /* their number; their program */
    tri_open_gates times_of;    /* what was open in their step */
    double *idle;               /* tri__exec_note_idle; NULL */
    tri_keep keep;
};

/* bind.c: whether the host has a separate copy of a class. */
int tri__exec_has_copy(const tri_exec *exec, int mem);

/* run.c: one instruction; the bytes that an input instruction copies; the microbatch of an instruction. */
tri_status tri__exec_run_one(tri_exec *exec, int program, int i, uint32_t step, const tri_feed *feed);
const char *tri__exec_input_of(const tri_program *p, const tri_instr *instr, const tri_feed *feed, size_t *bytes);
const tri_feed *tri__exec_feed_of(const tri_instr *instr, const tri_feed *feed);
/* Whether an instruction runs in this step. */
int tri__exec_opens(const tri_exec *exec, int program, int i, const tri_feed *feed);

/* control.c: fills in this rank's record of a control_post. */
void tri__exec_bring_record(const tri_bound *control, const tri_feed *feed);

/* queue.c, for asynchronous devices: begins a run; queues the whole run; waits until the device is idle. */
void tri__exec_start(const tri_exec *exec, int program, int begin, int end, uint32_t step, const tri_feed *feed);
tri_status tri__exec_queue(tri_exec *exec, int program, int begin, int end, uint32_t step, const tri_feed *feed,
                           tri_time *times);
tri_status tri__exec_await(tri_exec *exec, int compared);

/* keep.c: one copy into the class kept, or the wait for it; the end, with whatever is in flight. */
tri_status tri__exec_keep(tri_exec *exec, int program, int i, uint32_t step);
void tri__exec_keep_close(tri_exec *exec);
