/* recorder.h - records each instruction of some steps, and the wait for their batch: sums for profile-rank<r>.json
 * (train/record/profile.h) in every run, and with --profile each instruction for the trace. */
#pragma once

#include "train/session.h"

/* ---- machines' clocks compared with rank 0's (clocks.c) ---- Ranks of one machine share a clock. */

/* Seconds to add to this rank's tri__clock for rank 0's, wrong by at most `uncertainty`. 0 and 0 on rank 0's
 * machine. */
typedef struct tri_clock_offset {
    double offset, uncertainty;
} tri_clock_offset;

/* Every rank of the world calls it. One rank of each machine exchanges messages with rank 0, one machine after the
 * other, and takes the exchange with the shortest round trip. *zero: one instant, the same for all ranks, on this
 * rank's tri__clock. world NULL: one rank. */
tri_status tri__clocks_compare(tri_world *world, tri_clock_offset *out, double *zero);

/* ---- FLOPs and time by module: units of the model, and in each of them families of operations (modules.c) ---- */

typedef struct tri_module_time {
    double flops, seconds;
} tri_module_time;

/* time [(n_units + 1) * TRI_OPS_COUNT] by unit of the whole model, the last for operations of no unit. */
typedef struct tri_modules {
    const tri_network *model;
    tri_module_time *time;
    int *unit_of;             /* [program's units + 1] the model's unit; n_units for none, which -1 + 1 stands for */
} tri_modules;

tri_status tri__modules_open(tri_modules *modules, const tri_network *model, const tri_program *program);
void tri__modules_close(tri_modules *modules);
void tri__modules_add(tri_modules *modules, const tri_instr *instr, double flops, double seconds);
/* The tree of train/record/profile.h: `time` as above, each divided by `n`; parameters of `held`, the whole model or a
 * rank's part of it. Units without parameters and time are left out. folded: all layers of a branch are one node,
 * `layers`. New reference. */
tri_json *tri__modules_json(const tri_network *model, const tri_network *held, const tri_module_time *time, double n,
                            int folded);

/* ---- recorded steps ---- */

/* Kinds of transfers: the collectives, and two more. */
enum { TRI_TRANSFER_CONTROL = TRI_COLLECTIVE_COUNT, TRI_TRANSFER_COPY, TRI_TRANSFER_KINDS };
const char *tri__transfer_name(int kind);
int tri__transfer_kind(const tri_instr *post);

/* Sums over recorded steps; profile.h says what each is. */
typedef struct tri_op_time {
    int64_t calls;
    double seconds, flops, bytes;
} tri_op_time;

typedef struct tri_transfer_time {
    int64_t count;
    double bytes, seconds, exposed, waiting;
} tri_transfer_time;

/* Seconds of steps, and of these: waiting for batches, moving data in transfers, waiting for other ranks. */
typedef struct tri_shares {
    int64_t steps;
    double seconds, loader, transfers, waiting;
} tri_shares;

typedef struct tri_recorder {
    tri_session *session;
    const tri_program *program; /* of training */
    int64_t first, active;  /* steps of this process before the first recorded one; recorded steps */
    int64_t seen, kept;     /* steps so far; recorded so far */
    int traced;             /* 1: --profile, so spans are kept */
    tri_json *profile;      /* train/record/profile.h; NULL: not recorded yet, or this rank writes none */
    double written;         /* when it was last emitted, on tri__clock */
    tri_shares shares;      /* of all steps of this process */
    int async;              /* 1: the device computes while the host goes on */
    tri_time *times;        /* [n_instrs] of the current step */
    double *idle;           /* [n_instrs] of its seconds, those waiting for other ranks */
    int *partner;           /* [n_instrs] the wait of a post, the post of a wait; -1 */
    tri_op_time op[TRI_VARIANTS]; /* by variant */
    tri_modules modules;
    tri_transfer_time transfer[TRI_TRANSFER_KINDS];
    double seconds, loader; /* of recorded steps; of these, waiting for batches */
    tri_clock_offset clock; /* measured when the recorder was opened */
    double zero;            /* time 0 of the shared clock, on this rank's tri__clock */
    int64_t first_step, last_step; /* recorded, as events number them */
    int64_t of_kind[TRI_GATE_COUNT]; /* recorded steps of each kind; all 0: the program has no kinds */
    double begin, end, waited; /* of the current step: on tri__clock; seconds waiting for its batch before `begin` */
    tri_span *spans;        /* [active * (n_instrs + 1)] when traced */
    int64_t n_spans;
    int64_t *live;          /* [n_instrs * TRI_MEM_COUNT] tri__program_live, when traced */
    const char *classes[TRI_MEM_COUNT];
    double origin;          /* of span times: on tri__clock */
} tri_recorder;

/* text: "wait=1,warmup=1,active=3"; NULL: a few steps after the first of this process. Every rank calls it. */
tri_status tri__recorder_open(tri_recorder *recorder, const char *text, tri_session *session);
void tri__recorder_close(tri_recorder *recorder);
/* Before and after each step. After the last active one the PROFILE event is emitted. */
void tri__recorder_before(tri_recorder *recorder);
tri_status tri__recorder_after(tri_recorder *recorder);
/* After the last step: compares the clocks again and emits the event with them, and with the shares. Every rank calls
 * it. */
tri_status tri__recorder_finish(tri_recorder *recorder);

/* ---- planned and measured figures of ranks, as JSON (figures.c) ---- */

/* tri__programs_json of every rank's training program, with measured figures: allocated_bytes, held_bytes,
 * max_rss_bytes, device_bytes, loader_share, comm_share and idle_share of all steps and, of recorded steps, transfers.
 * Every rank calls it; *ranks is an array (new
 * reference) on the lead, NULL elsewhere. */
tri_status tri__ranks_json(const tri_session *session, const tri_recorder *recorder, tri_json **ranks);
/* The tree of modules (train/record/profile.h) of the whole model, its layers folded: flops and seconds of one step,
 * summed over ranks. Every rank calls it, once, after the last profile; as above. NULL if no step was recorded. */
tri_status tri__modules_of_all(const tri_session *session, tri_recorder *recorder, tri_json **modules);
