/* recorder.h - records each instruction of some steps, and the wait for their batch: sums for profile-rank<r>.json
 * (train/record/profile.h) in every run, and with --profile each instruction for the trace. */
#ifndef TRI_TRAIN_RECORD_RECORDER_H
#define TRI_TRAIN_RECORD_RECORDER_H

#include "program/transfer.h"
#include "train/record/clocks.h"
#include "train/record/modules.h"
#include "train/session.h"

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
void tri__recorder_before(tri_recorder *recorder, tri_session *session);
tri_status tri__recorder_after(tri_recorder *recorder, tri_session *session);
/* After the last step: compares the clocks again and emits the event with them, and with the shares. Every rank calls
 * it. */
tri_status tri__recorder_finish(tri_recorder *recorder, tri_session *session);

#endif
