/* fp8_layers.c - says which dense layers FP8 training takes, and which it leaves in bf16. */
#include "engine/fp8_layers.h"

#include <stdio.h>

void tri__products_say(const tri_plan_in *in, const tri_device *device, const tri_log *log) {
    int all = 0, taken = 0, ragged = 0;
    const char *first = NULL;
    char rest[300] = "";
    if (!in->fp8) return;
    for (int i = 0; i < in->model->n_params; i++) {
        const tri_param *param = &in->model->param[i];
        tri_fp8_weight weight = tri__fp8_weight(in->model, in->mesh.tp, param);
        all += weight != TRI_FP8_NONE, taken += weight == TRI_FP8_TAKEN && !tri__is_exempt(in, param->name);
        ragged += weight == TRI_FP8_RAGGED;
        if (weight == TRI_FP8_RAGGED && !first) first = param->name;
    }
    if (first)
        snprintf(rest, sizeof rest,
                 ", and so do %d weights of which a dim, or a rank's share of it, is not a multiple of 16: %s%s",
                 ragged, first, ragged > 1 ? ", ..." : "");
    tri__say(log, TRI_LOG_INFO,
             "fp8: %d of the %d weights in the encoders' layers are multiplied in 8 bits; the first and the last layer "
             "of each encoder stay in bf16%s",
             taken, all, rest);
    if (device && !device->async && !device->is_stub)
        tri__say(log, TRI_LOG_INFO,
                 "fp8 on --device %s is an emulation: it rounds as a GPU does and is slower than bf16", device->name);
}
