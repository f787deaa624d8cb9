/* stop.h - a request to end a run early and in good order: a signal on any rank or on the launcher, or a job's end that
 * comes near. Ranks hear of it at different moments: what each knows when its update begins goes to all with the step's
 * control (train/control.c), so that they stop after the same step, this one or the next. */
#ifndef TRI_TRAIN_STOP_H
#define TRI_TRAIN_STOP_H

#include "base/stop.h"
#include "comm/world/world.h"

/* What this rank knows of it: 1 when the run should end. stop and world may be NULL. need: seconds that a step and a
 * checkpoint take; so many, three times, are left before the deadline, and half a minute more. */
int tri__stop_asked(const tri_stop *stop, const tri_world *world, double need);
/* "SIGTERM", "the job's end", for words; into out, which is returned. */
const char *tri__stop_text(const tri_stop *stop, char out[static 32]);

#endif
