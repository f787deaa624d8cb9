/* stop.h - a request to end a run early and cleanly: a signal to any rank or to the launcher, or a job's deadline.
 * Ranks see it at different times: each rank's stop flag at the beginning of its update goes to all with the step's
 * control (train/control.c), so that all stop after the same step, this one or the next. */
#pragma once

#include "comm/world/world.h"

/* 1 when this rank knows that the run should end. stop and world may be NULL. need: seconds of a step and a checkpoint;
 * the run ends when less than 3 * need + 30 s are left before the deadline. */
int tri__stop_asked(const tri_stop *stop, const tri_world *world, double need);
/* The reason for messages, "SIGTERM" or "the job's end"; into out, which is returned. */
const char *tri__stop_text(const tri_stop *stop, char out[static 32]);
