/* coded_report.h - says how a run sends less between replicas: what is coded (plan/pass_compress.c), who takes local
 * steps; and which products have 8-bit factors (plan/pass_fp8.c). */
#pragma once

#include "base/log.h"
#include "device/device.h"
#include "plan/plan.h"

/* Nothing where no code was asked for, no optimizer sends signs and no copies take local steps. train: the training
 * programs of all ranks. */
void tri__coding_say(const tri_plan_in *in, const tri_classes *train, const tri_log *log);
/* Nothing but where a run trains in FP8. device: NULL: one that is described in a file. */
void tri__products_say(const tri_plan_in *in, const tri_device *device, const tri_log *log);
