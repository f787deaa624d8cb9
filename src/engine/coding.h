/* coding.h - says what of a run's transfers between replicas is coded (plan/pass_compress.c). */
#ifndef TRI_ENGINE_CODING_H
#define TRI_ENGINE_CODING_H

#include "base/log.h"
#include "plan/plan.h"

/* Nothing where no code was asked for, and no optimizer sends signs. train: the training programs of all ranks. */
void tri__coding_say(const tri_plan_in *in, const tri_classes *train, const tri_log *log);

#endif
