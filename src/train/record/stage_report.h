/* stage_report.h - where a pipeline's time went: measured for each unit and rank during training, reported at its
 * end. */
#pragma once

#include "train/session.h"

typedef struct tri_stage_clock {
    tri_time *times;       /* [n_instrs] of the current step; NULL: no pipeline */
    int *unit_of;          /* [units of the program] index of the whole model's unit; -1 */
    tri_stage_time *unit;  /* [units of the whole model] seconds of all microbatches and counted steps */
    uint8_t *turned;       /* [n_mb] 1: backward has begun in the current step */
    int64_t seen, steps;   /* steps so far; counted ones: all but the first, which is cold */
    double busy, moving, waiting,
        span;          /* seconds of the counted steps: computing, in transfers, idle in them, in all */
    /* sums over the counted steps: when the first and the last instruction of a microbatch computed; tri__clock */
    double begin, end;
} tri_stage_clock;

/* Without a pipeline this and the functions below do nothing. */
tri_status tri__stage_clock_open(tri_stage_clock *clock, const tri_session *session);
void tri__stage_clock_close(tri_stage_clock *clock);
/* Before and after each step; `seconds`: the step's. */
void tri__stage_clock_before(tri_stage_clock *clock, tri_session *session);
void tri__stage_clock_after(tri_stage_clock *clock, const tri_session *session, double seconds);

/* When the run has ended, on every rank. On the lead *pipeline is an object (new reference): shape, schedule,
 * microbatches; bubble, the measured share of the ranks' time in which nothing was computed, and predicted_bubble, the
 * same share of the programs' timeline with the measured times; flow_seconds from the first forward to the last
 * gradient, without the update; stages with busy_seconds, waiting_seconds and communication_seconds of a step;
 * better_stages, also logged, where the slowest is over 1.2 times the mean and another cut is faster. Writes
 * stage_profile.json to the run folder, for --stage-profile. NULL elsewhere and without a pipeline. */
tri_status tri__pipeline_json(const tri_session *session, const tri_stage_clock *clock, tri_json **pipeline);
