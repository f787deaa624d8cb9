/* loss_scale.h - the loss scale for fp16: lowered when a gradient overflows, raised after many steps without overflow.
 *
 * A step: feed TRI_FIELD_loss_scale = &state.scale with every microbatch; run the program; read the `apply` slot, which
 * is the same on all ranks; call tri__loss_scale_next. A step that was not applied changed no weight, moment or master:
 * its hyper (the count of steps in 1 - beta^t) is reused for the next one. Both fields are saved in checkpoints. */
#pragma once

#include "base/base.h"

typedef struct tri_loss_scale {
    float scale;
    int32_t good;   /* steps applied since the scale last changed */
} tri_loss_scale;

tri_loss_scale tri__loss_scale_start(void);
/* After a step. TRI_NOTFINITE when the gradients overflow even at the smallest scale: then the loss scale is not the
 * cause. */
tri_status tri__loss_scale_next(tri_loss_scale *state, int applied);
