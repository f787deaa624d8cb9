/* layer_gates.c - the schedule of layer dropping, and its gates. */
#include "plan/layer_gates.h"
#include "model/family.h"
#include "plan/step_kinds.h"

static const double DEFAULT_GAMMA = 0.001, GAMMA_STEPS = 100; /* gamma * steps, where these are known */
enum { COUNTER = 3 }; /* the last word of a gate's counter: other purposes have others (base/random.h) */

void tri__layer_drop_resolve(tri_layer_drop *how) {
    if (how->theta > 0 && how->gamma < 0) how->gamma = how->steps ? GAMMA_STEPS / (double)how->steps : DEFAULT_GAMMA;
}

double tri__layer_theta(const tri_layer_drop *how, int64_t step) {
    return (1 - how->theta) * exp(-how->gamma * (double)step) + how->theta;
}

double tri__layer_keep(const tri_layer_drop *how, int64_t layer, int64_t layers, int64_t step) {
    return 1 - (double)layer / (double)layers * (1 - tri__layer_theta(how, step));
}

/* exp(-gamma t), summed over the steps: a geometric series. */
double tri__layer_keep_mean(const tri_layer_drop *how, int64_t layer, int64_t layers) {
    double steps = how->steps ? (double)how->steps : TRI_TYPICAL_STEPS;
    double ratio = -expm1(-how->gamma), mean = ratio > 0 ? -expm1(-how->gamma * steps) / ratio / steps : 1;
    return 1 - (double)layer / (double)layers * (1 - how->theta) * (1 - mean);
}

int tri__layer_gate(uint32_t seed, int64_t step, const char *name, double keep) {
    char text[160];
    snprintf(text, sizeof text, "gate %s", name);
    tri_random random = tri__philox(seed, tri__random_id(text), (uint32_t)step, 0, 0, COUNTER);
    return (double)random.word[0] < keep * 4294967296.0; /* 2^32: always, if keep is 1 */
}

void tri__layer_gates_step(const tri_layer_drop *how, const tri_network *model, uint32_t seed, int64_t step,
                           tri_open_gates *now, float *scale) {
    int gate = 0;
    for (int text = 0; text < model->n_encoders; text++) {
        int64_t layers = model->encoder[text].num_hidden_layers;
        for (int64_t layer = 1; layer <= layers; layer++, gate++) {
            char name[128];
            double keep = how->theta > 0 ? tri__layer_keep(how, layer, layers, step) : 1;
            snprintf(name, sizeof name, "%s.layer.%lld", tri__branch_name(text), (long long)layer - 1);
            scale[gate] = (float)(1 / keep);
            if (how->theta > 0 && !tri__layer_gate(seed, step, name, keep)) tri__close_layer(now, gate);
        }
    }
}

double tri__layers_open(const tri_layer_drop *how, const tri_network *model, int text, const tri_open_gates *now) {
    int64_t layers = model->encoder[text].num_hidden_layers;
    if (!(how->theta > 0)) return (double)layers;
    double open = 0;
    int first = 0; /* gate of the encoder's first layer */
    for (int before = 0; before < text; before++) first += (int)model->encoder[before].num_hidden_layers;
    for (int64_t layer = 1; layer <= layers; layer++)
        open += now ? tri__layer_is_open(now, first + (int)layer - 1) : tri__layer_keep_mean(how, layer, layers);
    return open;
}

tri_status tri__layer_gates_set(tri_arena *arena, const tri_layer_drop *how, const tri_network *model,
                                tri_program *program) {
    if (!(how->theta > 0)) return TRI_OK;
    if (tri__model_layers(model) > TRI_MAX_LAYERS)
        return tri__fail(TRI_USAGE, "--layer-drop: the encoders have %lld layers, and gates are for %d at most",
                         (long long)tri__model_layers(model), TRI_MAX_LAYERS);
    for (int text = 0; text < model->n_encoders; text++) {
        int64_t layers = model->encoder[text].num_hidden_layers;
        if (model->distances[text].rows)
            return tri__fail(TRI_USAGE,
                             "--layer-drop: layers of the %s encoder, a %s model, hand a table of distances to each "
                             "other, so that none can be left out; take --layer-drop none",
                             tri__branch_name(text), tri__family(&model->encoder[text])->type);
        for (int64_t layer = 1; layer <= layers; layer++)
            *TRI_PUSH(arena, program->layer, program->n_layers, program->cap_layers) = (tri_layer_gate){
                tri__arena_print(arena, "%s.layer.%lld", tri__branch_name(text), (long long)layer - 1),
                tri__layer_keep_mean(how, layer, layers)};
    }
    return TRI_OK;
}
