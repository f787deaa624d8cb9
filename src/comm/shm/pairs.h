/* pairs.h - messages between two ranks of one machine. */
#pragma once

#include "comm/world/world.h"

/* Announces or looks for the message, and moves it. A send is done once its receiver has the data. TRI_DISAGREE,
 * recorded for all, when the two ends differ. At most TRI_SEGMENT_PAIR_ENTRIES sends from one rank to another are
 * announced at a time; further sends wait. */
tri_status tri__pair_progress(tri_group *group, tri_message *message, int *moved);
/* Of a message that lends memory and has been received: around accesses to that memory; 0: the sender has taken it
 * back after a failure. */
int tri__pair_hold(tri_message *message);
void tri__pair_let(tri_message *message);
/* The end of the loan: then the send is done. */
void tri__pair_return(tri_group *group, tri_message *message);
/* After a failure: returns once no thread of this process accesses the message's data any more. */
void tri__pair_cancel(tri_group *group, tri_message *message);
