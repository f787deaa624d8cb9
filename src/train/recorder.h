/* recorder.h - records each instruction of some steps, and the wait for their batch. */
#ifndef TRI_TRAIN_RECORDER_H
#define TRI_TRAIN_RECORDER_H

#include "program/transfer.h"
#include "train/session.h"

/* Seconds of transfers: from post to the end of the wait, overlapping ones counted once; and those spent inside posts
 * and waits, when nothing was computed. */
typedef struct tri_transfer_time {
    double seconds, exposed;
} tri_transfer_time;

typedef struct tri_recorder {
    int64_t wait, warmup, active;  /* steps: skipped, warm-up, recorded; active 0: no profile */
    int64_t seen;                  /* steps so far */
    tri_time *times;               /* [n_instrs] of the current step */
    tri_span *spans;               /* [active * (n_instrs + 1)] */
    int64_t n_spans;
    tri_transfer_time transfer[TRI_COLLECTIVE_COUNT]; /* of all recorded steps */
    int64_t kept;                  /* steps recorded so far */
    double origin, begin;          /* of span times; of the current step: on tri__clock */
} tri_recorder;

/* text: "wait=1,warmup=1,active=3"; NULL: no profile. */
tri_status tri__recorder_open(tri_recorder *recorder, const char *text, tri_session *session);
void tri__recorder_close(tri_recorder *recorder);
/* Before and after each step. After the last active one the PROFILE event is emitted. */
void tri__recorder_before(tri_recorder *recorder, tri_session *session);
tri_status tri__recorder_after(tri_recorder *recorder, tri_session *session);

#endif
