/* fp8_layers.h - says which products of a run have 8-bit factors (plan/pass_fp8.c). */
#ifndef TRI_ENGINE_FP8_LAYERS_H
#define TRI_ENGINE_FP8_LAYERS_H

#include "base/log.h"
#include "device/device.h"
#include "plan/plan.h"

/* Nothing but where a run trains in FP8. device: NULL: one that is described in a file. */
void tri__products_say(const tri_plan_in *in, const tri_device *device, const tri_log *log);

#endif
