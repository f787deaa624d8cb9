/* products.c - says which dense layers FP8 training takes, and which it leaves in bf16. */
#include "engine/products.h"

#include <stdio.h>
#include <string.h>

static int is_left_out(const tri_plan_in *in, const char *name) {
    for (int i = 0; i < in->float_layers.n; i++)
        if (strcmp(in->float_layers.at[i], name) == 0) return 1;
    return 0;
}

void tri__products_say(const tri_plan_in *in, const tri_device *device, const tri_log *log) {
    int all = 0, taken = 0, ragged = 0;
    const char *first = NULL;
    char rest[300] = "";
    if (!in->fp8) return;
    for (int i = 0; i < in->model->n_params; i++) {
        const tri_param *param = &in->model->param[i];
        tri_fp8_weight weight = tri__fp8_weight(in->model, in->mesh.tp, param);
        all += weight != TRI_FP8_NONE, taken += weight == TRI_FP8_TAKEN && !is_left_out(in, param->name);
        ragged += weight == TRI_FP8_RAGGED;
        if (weight == TRI_FP8_RAGGED && !first) first = param->name;
    }
    if (first)
        snprintf(rest, sizeof rest, ", and %d of which a dim, or a rank's share of it, is not a multiple of 16: %s%s",
                 ragged, first, ragged > 1 ? ", ..." : "");
    tri__say(log, TRI_LOG_INFO,
             "fp8: products of %d of %d weights in the encoders' layers; in bf16 stay the first and the last layer of "
             "each%s",
             taken, all, rest);
    if (device && !device->async && !device->is_stub)
        tri__say(log, TRI_LOG_INFO,
                 "fp8 on --device %s is an emulation: it rounds as a GPU does and is slower than bf16", device->name);
}
