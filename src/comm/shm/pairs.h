/* pairs.h - messages between two ranks of one machine. */
#ifndef TRI_COMM_SHM_PAIRS_H
#define TRI_COMM_SHM_PAIRS_H

#include "comm/world/world.h"

/* Announces or looks for the message, and moves it. A send is done once its receiver has the data. TRI_DISAGREE,
 * recorded for all, when the two ends differ. At most TRI_SEGMENT_PAIR_ENTRIES sends from one rank to another are
 * announced at a time; further sends wait. */
tri_status tri__pair_progress(tri_group *group, tri_message *message, int *moved);
/* After a failure: returns once no thread of this process accesses the message's data any more. */
void tri__pair_cancel(tri_group *group, tri_message *message);

#endif
