/* figures.h - planned and measured figures of ranks, as JSON. */
#ifndef TRI_TRAIN_RECORD_FIGURES_H
#define TRI_TRAIN_RECORD_FIGURES_H

#include "train/record/recorder.h"

/* tri__programs_json of every rank's training program, with measured figures: allocated_bytes, held_bytes,
 * max_rss_bytes, device_bytes, loader_share, comm_share and idle_share of all steps and, of recorded steps, transfers.
 * Every rank calls it; *ranks is an array (new
 * reference) on the lead, NULL elsewhere. */
tri_status tri__ranks_json(const tri_session *session, const tri_recorder *recorder, tri_json **ranks);
/* The tree of modules (train/record/profile.h) of the whole model, its layers folded: flops and seconds of one step,
 * summed over ranks. Every rank calls it, once, after the last profile; as above. NULL if no step was recorded. */
tri_status tri__modules_of_all(const tri_session *session, tri_recorder *recorder, tri_json **modules);

#endif
