/* loss_scale.c - dynamic loss scaling (Micikevicius et al., 2018), with the constants of PyTorch's GradScaler. */
#include "train/loss_scale.h"

enum { GOOD_STEPS = 2000 }; /* before the scale is doubled */
static const float START = 65536, LEAST = 1, MOST = 0x1p100f;

tri_loss_scale tri__loss_scale_start(void) { return (tri_loss_scale){.scale = START}; }

tri_status tri__loss_scale_next(tri_loss_scale *state, int applied) {
    if (!applied) {
        if (state->scale <= LEAST)
            return tri__fail(TRI_NOTFINITE, "gradients are not finite although the loss is not scaled any more; try "
                                            "--precision bf16 or a lower lr");
        state->scale = state->scale / 2 > LEAST ? state->scale / 2 : LEAST;
        state->good = 0;
        return TRI_OK;
    }
    if (++state->good == GOOD_STEPS) {
        if (state->scale < MOST) state->scale *= 2;
        state->good = 0;
    }
    return TRI_OK;
}
