/* figures.h - what ranks planned and what they took, as JSON. */
#ifndef TRI_TRAIN_FIGURES_H
#define TRI_TRAIN_FIGURES_H

#include "train/recorder.h"

/* A program's facts: rank, instructions, slots, flops and traffic_bytes of a step, bytes of each class, second_bytes
 * (those in second memory), sent_bytes of each kind of collective. New reference; NULL when out of memory. */
tri_json *tri__program_json(const tri_program *program);
/* That of each rank, [world]: ranks of one class share what is the same. */
tri_json *tri__programs_json(const tri_classes *all);
/* The same of every rank's training program, with what it took: allocated_bytes, held_bytes, max_rss_bytes,
 * device_bytes and, of recorded steps, transfers. Every rank calls it; *ranks is an array (new reference) on the lead,
 * NULL elsewhere. */
tri_status tri__ranks_json(const tri_session *session, const tri_recorder *recorder, tri_json **ranks);

#endif
