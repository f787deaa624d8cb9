/* fusion.c - the head: concatenated branches, perhaps scaled by gates, or a norm of what layers of attention made of
 * them (fusion_layers.c); linear, ReLU, dropout, linear; class-weighted cross-entropy, or the loss of numbers. */
#include "model/model.h"

/* With biases of 1 gates begin near sigmoid(1) = 0.73, whatever the branches are. */
static const float GATE_DEVIATION = 0.02f;

static const double EPS = 1e-5;

/* "fusion" alone means all units of it (--stages). */
static const char *unit_of(const tri_network *model) { return model->tokens ? "fusion.head" : "fusion"; }

static int64_t fused_width(const tri_network *model) {
    return model->tokens ? model->common : model->common * (model->n_texts + (model->n_columns > 0));
}

void tri__fusion_params(tri_network *model) {
    int64_t width = fused_width(model), gated = model->is_gated ? width : 0, normed = model->tokens ? width : 0;
    const tri_param_row rows[] = {
        TRI_WEIGHT("dense.weight", model->fusion, width, 1.0f / sqrtf((float)width), WHOLE),
        TRI_WEIGHT("output.weight", model->n_classes, model->fusion, 1.0f / sqrtf((float)model->fusion), WHOLE),
        TRI_BIAS("dense.bias", model->fusion, WHOLE), TRI_BIAS("output.bias", model->n_classes, WHOLE),
        TRI_WEIGHT("gate.weight", width, gated, GATE_DEVIATION, WHOLE), TRI_GAIN("gate.bias", gated, WHOLE),
        TRI_GAIN("norm.weight", normed, WHOLE), TRI_BIAS("norm.bias", normed, WHOLE)};
    if (model->tokens) tri__fusion_layer_params(model);
    tri__model_unit(model, "%s", unit_of(model));
    tri__model_params(model, "fusion.", rows, 8);
}

/* x * sigmoid(gates), where all branches together decide on each element's gate. */
static int forward_gates(tri_forward *f, int x) {
    const tri_rows samples = {.sym = TRI_SYM_N};
    int64_t width = fused_width(f->model);
    int z = tri__forward_linear(f, x, samples, width, width, "gate", "fusion.gate");
    int y = tri__forward_slot(f, samples, width, "gated");
    TRI_BUILD(&f->build, gate, (tri_attr){0}, y, x, z);
    return y;
}

/* Slots side by side, as many at a time as the operation takes: `split` rows of the result for each sample. The only
 * one as it is. */
static int side_by_side(tri_forward *f, const int *slot, int n, int split) {
    const tri_program *program = f->build.program;
    int x = slot[0];
    for (int k = 1; k < n; k += 2) {
        int b = slot[k], c = k + 1 < n ? slot[k + 1] : -1, is_last = k + 2 >= n;
        int64_t width = program->slot[x].cols + program->slot[b].cols + (c < 0 ? 0 : program->slot[c].cols);
        tri_rows rows = {.sym = TRI_SYM_N, .mul = is_last && split > 1 ? split : 0};
        int y = tri__forward_slot(f, rows, width / (rows.mul ? rows.mul : 1),
                                  is_last ? "concat" : tri__arena_print(f->build.arena, "concat%d", k / 2));
        TRI_BUILD(&f->build, concat, (tri_attr){0}, y, x, b, c);
        x = y;
    }
    return x;
}

void tri__fusion_forward(tri_forward *f, const int *branch, int n) {
    const tri_network *m = f->model;
    const tri_rows samples = {.sym = TRI_SYM_N}, one = {.add = 1};
    tri__build_unit(&f->build, m->tokens ? "fusion.layer.0" : unit_of(m));
    int x = side_by_side(f, branch, n, m->tokens);
    if (m->tokens) x = tri__fusion_layers(f, x);
    tri__build_unit(&f->build, unit_of(m));
    if (m->tokens) x = tri__forward_norm(f, x, samples, m->common, EPS, "norm", "fusion.norm");
    if (m->is_gated) x = forward_gates(f, x);
    int h = tri__forward_linear(f, x, samples, m->fusion, fused_width(m), "dense", "fusion.dense");
    int relu = tri__forward_activation(f, h, samples, m->fusion, TRI_ACTIVATION_RELU);
    int kept = tri__forward_dropout(f, relu, samples, m->fusion, m->fusion_dropout, TRI_FIELD_keyn, "dropout");
    int logits = tri__forward_linear(f, kept, samples, m->n_classes, m->fusion, "logits", "fusion.output");

    int labels = tri__forward_input(f, TRI_FIELD_labels), cw = tri__forward_input(f, TRI_FIELD_class_weights);
    int inv = tri__forward_input(f, TRI_FIELD_loss_inv);
    /* The host reads the loss after a step and the probabilities after a prediction. */
    f->loss = tri__build_slot(&f->build, TRI_MEM_RESULT, TRI_F64, one, 1, "loss");
    f->probs = tri__build_slot(&f->build, f->training ? TRI_MEM_ACT : TRI_MEM_RESULT, TRI_F32, samples, m->n_classes,
                               m->is_number ? "values" : "probs");
    tri_attr form = {.weighted = f->training && m->is_weighted};
    int weights = form.weighted ? tri__forward_input(f, TRI_FIELD_row_weights) : -1;
    if (m->is_number) {
        form.loss = f->loss_form.kind, form.delta = (float)f->loss_form.delta;
        TRI_BUILD(&f->build, regress, form, f->loss, f->probs, logits, labels, cw, inv, weights);
        return;
    }
    /* Only training has another form: a validation's loss is comparable whatever was minimised. */
    if (f->training) form.smoothing = (float)f->loss_form.smoothing, form.gamma = (float)f->loss_form.gamma;
    TRI_BUILD(&f->build, cross_entropy, form, f->loss, f->probs, logits, labels, cw, inv, weights);
}
