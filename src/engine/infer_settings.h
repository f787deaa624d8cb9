/* infer_settings.h - the settings of inference: those that a model was trained with, and what is asked for now. */
#pragma once

#include "checkpoint/checkpoint.h"
#include "settings/settings.h"

/* The settings in a checkpoint are untrusted: TRI_DATA when they are of no model, or do not fit its weights. */
tri_status tri__settings_check(const tri_settings *model, const tri_checkpoint *checkpoint);

/* Replaces in the settings of a model (its config.json) everything that does not belong to the model: mesh, device,
 * threads, batches, files. The precision is
 *
 *   --precision fp32|bf16|fp16               that, and --quantize (none unless given)
 *   --precision int8|fp8, or only --quantize that type of the products; all else in the computing type of a model that
 *                                            was trained for such products or stored so, else fp32, on a GPU bf16
 *   neither                                  as the model was trained or stored if it has quantised products, else fp32
 *
 * TRI_USAGE when --precision and --quantize contradict each other. */
tri_status tri__settings_infer(tri_settings *model, const tri_settings *asked);
