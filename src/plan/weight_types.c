/* weight_types.c - the weights behind a program's views: which parameter begins there, whether it may be in 8 bits, and
 * the type that weights are kept in. The passes forward, precision, quantize and fp8 ask here instead of each other. */
#include "plan/pass.h"

int tri__forward_param(const tri_pass *pass, const tri_program *from, int view) {
    const tri_network *model = pass->model;
    const tri_slot *s = &from->slot[view];
    int u = 0;
    while (pass->forward.unit_slot[u] != s->parent) u++;
    int i = model->unit[u].first;
    while (model->param[i].at != s->parent_at) i++;
    TRI_ASSERT(i < model->unit[u].first + model->unit[u].n);
    return i;
}

tri_dtype tri__weights_dtype(const tri_pass *pass) {
    int gathers = pass->serving && pass->in->quantize != TRI_F32 && pass->sharding.kind >= TRI_SHARD_ZERO3;
    return gathers ? TRI_F32 : pass->in->precision;
}

int tri__is_exempt(const tri_plan_in *in, const char *name) { return tri__texts_has(&in->float_layers, name); }

/* Whether a weight is quantised: all parameters that its view spans, such as query, key and value, or none. */
int tri__is_quantized(const tri_pass *pass, int view) {
    const tri_network *model = pass->in->model;
    const tri_slot *s = &pass->program->slot[view];
    int i = tri__forward_param(pass, pass->program, view);
    for (int64_t left = s->rows.add * s->cols; left > 0; left -= model->param[i++].count)
        if (tri__is_exempt(pass->in, model->param[i].name)) return 0;
    return 1;
}
