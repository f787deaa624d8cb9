/* trial.h - one layout, planned and simulated; and what the search tries beside exact layouts. */
#ifndef TRI_STUDY_CHOOSE_TRIAL_H
#define TRI_STUDY_CHOOSE_TRIAL_H

#include "study/choose/bound.h"
#include "study/choose/space.h"

typedef struct tri_layout_trial {
    const tri_chooser *chooser;
    tri_choose_room room;
    int64_t global_batch;
    tri_candidate of;   /* its layout; the rest is filled in. seconds 0: it does not fit */
    tri_layout_rows rows;
    double beat;        /* seconds: slower, it is not reported */
    double deadline;    /* tri__clock() after which it is not begun, nor after a signal: TRI_STOPPED; 0: none */
    int planned;        /* microbatches of the longest plan that was made: fewer than the layout's where those of a few
                           give the same figures */
    tri_status status;
    char words[TRI_ERROR_BYTES]; /* of a failure */
} tri_layout_trial;

/* Tries the i-th of some trials, `context`; by any thread. */
void tri__layout_try(void *context, int i);

/* choose_coded.c: where ranks of the first choice wait for bytes, fills in out->coded: layouts with fewer bytes, by
 * each way the fastest. Only those that are faster than the first choice. */
tri_status tri__choose_coded(tri_arena *arena, const tri_chooser *chooser, const tri_space *space, tri_bounds *bounds,
                             int threads, tri_choice *out);

#endif
