/* experts.c - feed-forward layers that are mixtures of experts: their keys in an encoder's description, parameters, and
 * operations.
 *
 * A router gives each token a probability for each expert; the token goes through the most probable one or two, and
 * their outputs are added, weighted (Fedus et al., 2021; Lepikhin et al., 2020). Experts take so many tokens of each
 * sequence (numbers/capacity.h). A token without a place gets 0, so that the residual connection passes it on. */
#include "model/family.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* ---- Keys ---- */

static const tri_option rows[] = {
    TRI_ENCODER_KEY(INT, num_experts, 0, TRI_MAX_EXPERTS), TRI_ENCODER_KEY(INT, experts_per_token, 0, TRI_MAX_EXPERTS),
    TRI_ENCODER_KEY(REAL, expert_capacity_factor, 0, 1e6), TRI_ENCODER_KEY(REAL, router_aux_loss_coef, 0, 1e6), {0}};

static int has_layer(const tri_encoder *e, int64_t k) { return (int)(e->expert_layer[k / 64] >> k % 64 & 1); }

/* "every N", or a list of layers. */
static tri_status parse_layers(const tri_json *value, tri_encoder *e) {
    static const char begin[] = "every ";
    const char *text = tri__json_string_value(value);
    char *end = NULL;
    long every = text && tri__text_begins(text, begin) ? strtol(text + sizeof begin - 1, &end, 10) : 0;
    e->expert_every = 0;
    memset(e->expert_layer, 0, sizeof e->expert_layer);
    if (every > 0 && every <= TRI_MAX_ENCODER_LAYERS && !*end) {
        e->expert_every = every;
        return TRI_OK;
    }
    if (!tri__json_is_array(value))
        return tri__fail(TRI_USAGE, "expert_layers: give a list of layers, as [1, 3], or \"every N\", N from 1 on");
    for (size_t i = 0; i < tri__json_size(value); i++) {
        const tri_json *layer = tri__json_at(value, i);
        long long k = tri__json_is_integer(layer) ? (long long)tri__json_integer_value(layer) : -1;
        if (k < 0 || k >= TRI_MAX_ENCODER_LAYERS)
            return tri__fail(TRI_USAGE, "expert_layers: entry %zu is not the number of a layer, which count from 0", i);
        if (has_layer(e, k)) return tri__fail(TRI_USAGE, "expert_layers holds layer %lld twice", k);
        e->expert_layer[k / 64] |= (uint64_t)1 << k % 64;
    }
    return TRI_OK;
}

tri_status tri__experts_parse(const tri_json *json, tri_encoder *e) {
    const tri_json *layers = tri__json_get(json, "expert_layers");
    const char *given = layers ? "expert_layers" : NULL;
    for (const tri_option *row = rows; row->name; row++) {
        const tri_json *value = tri__json_get(json, row->name);
        if (value) TRI_TRY(tri__option_set_json(row, e, row->name, value));
        if (value) given = row->name;
    }
    if (given && !e->num_experts && !tri__json_get(json, "num_experts"))
        return tri__fail(TRI_USAGE, "%s is given, but num_experts is not: the layers would have no experts", given);
    return layers ? parse_layers(layers, e) : TRI_OK;
}

tri_status tri__experts_check(const tri_encoder *e) {
    if (!e->num_experts) return TRI_OK;
    if (e->experts_per_token < 1 || e->experts_per_token > 2)
        return tri__fail(TRI_USAGE, "experts_per_token is %lld; a token goes through 1 expert or 2",
                         (long long)e->experts_per_token);
    if (e->experts_per_token > e->num_experts)
        return tri__fail(TRI_USAGE, "experts_per_token is %lld, but num_experts is %lld",
                         (long long)e->experts_per_token, (long long)e->num_experts);
    if (!(e->expert_capacity_factor > 0))
        return tri__fail(TRI_USAGE, "expert_capacity_factor is %g: experts would take no tokens; 1.25 is usual, and "
                         "%lld drops none", e->expert_capacity_factor, (long long)e->num_experts);
    for (int64_t k = e->num_hidden_layers; k < TRI_MAX_ENCODER_LAYERS; k++)
        if (has_layer(e, k))
            return tri__fail(TRI_USAGE, "expert_layers holds layer %lld, but the encoder's layers are 0 to %lld",
                             (long long)k, (long long)e->num_hidden_layers - 1);
    if (!tri__encoder_expert_layers(e))
        return tri__fail(TRI_USAGE, "num_experts is %lld, but expert_layers names none of the encoder's %lld layers; "
                         "leave num_experts out for a dense model", (long long)e->num_experts,
                         (long long)e->num_hidden_layers);
    return TRI_OK;
}

void tri__experts_json(const tri_encoder *e, tri_json *json) {
    if (!e->num_experts) return;
    for (const tri_option *row = rows; row->name; row++) tri__json_set_new(json, row->name, tri__option_json(row, e));
    tri_json *layers = tri__json_array();
    for (int64_t k = 0; k < e->num_hidden_layers; k++)
        if (tri__encoder_has_experts(e, k)) tri__json_append_new(layers, tri__json_integer((tri_json_int)k));
    tri__json_set_new(json, "expert_layers", layers);
}

int tri__encoder_has_experts(const tri_encoder *e, int64_t layer) {
    if (!e->num_experts) return 0;
    return e->expert_every ? (layer + 1) % e->expert_every == 0 : has_layer(e, layer);
}

int64_t tri__encoder_expert_layers(const tri_encoder *e) {
    int64_t n = 0;
    for (int64_t k = 0; k < e->num_hidden_layers; k++) n += tri__encoder_has_experts(e, k);
    return n;
}

tri_capacity tri__encoder_capacity(const tri_encoder *e) {
    return (tri_capacity){e->num_experts, e->experts_per_token, e->expert_capacity_factor};
}

/* ---- Parameters ---- */

int64_t tri__model_expert_layers(const tri_network *model) {
    int64_t n = 0;
    for (int text = 0; text < model->n_encoders; text++) n += tri__encoder_expert_layers(&model->encoder[text]);
    return n;
}

int64_t tri__model_active(const tri_network *model) {
    int64_t active = model->n_elements;
    for (int i = 0; i < model->n_params; i++) {
        const tri_param *param = &model->param[i];
        int text = tri__text_begins(param->name, tri__branch_name(1));
        if (param->experts)
            active -= param->count / param->experts * (param->experts - model->encoder[text].experts_per_token);
    }
    return active;
}

/* The experts of a layer are a unit. Names are those of a dense layer with "experts." in front, and their first dim
 * counts experts. */
void tri__experts_params(tri_network *model, int branch, int64_t layer) {
    const tri_encoder *e = &model->encoder[branch];
    const tri_layer_names *n = tri__family(e)->names;
    int64_t H = e->hidden_size, I = e->intermediate_size, E = e->num_experts;
    float d = (float)e->initializer_range;
    tri_arena *arena = model->arena;
    const tri_param_row params[] = {
        TRI_WEIGHT(tri__arena_print(arena, "%s.weight", n->inner), I, H, d, ROWS),
        TRI_WEIGHT(tri__arena_print(arena, "%s.weight", n->outer), H, I, d, COLS),
        TRI_BIAS(tri__arena_print(arena, "%s.bias", n->inner), I, COLS),
        TRI_BIAS(tri__arena_print(arena, "%s.bias", n->outer), H, WHOLE)};
    tri__model_unit(model, "%s.layer.%lld.experts", tri__branch_name(branch), (long long)layer);
    const char *prefix = tri__arena_print(arena, "%s.%s%lld.experts.", tri__branch_name(branch), n->layer,
                                          (long long)layer);
    model->unit[model->n_units - 1].experts = E;
    tri__model_params(model, prefix, params, COUNT(params));
}

/* ---- Operations ---- */

/* What route writes. */
typedef struct routed {
    int probs, choice, weight, from;
} routed;

static int integers(tri_forward *f, tri_rows of, int64_t cols, const char *label) {
    return tri__build_slot(&f->build, TRI_MEM_ACT, TRI_I32, of, cols, "%s.%s", f->build.program->unit[f->build.unit],
                           label);
}

static routed route(tri_forward *f, const tri_mixture *m, int x, const char *prefix) {
    const tri_encoder *e = &f->model->encoder[m->branch];
    int64_t E = e->num_experts, K = e->experts_per_token;
    int logits = tri__forward_slot(f, m->rows, E, "router");
    int w = tri__forward_weight(f, "router.w", tri__arena_print(f->build.arena, "%s.router.weight", prefix), E,
                                e->hidden_size);
    TRI_BUILD_VARIANT(&f->build, linear, (tri_attr){0}, logits, x, w, -1);
    routed to = {.probs = tri__forward_slot(f, m->rows, E, "router.probs"),
                 .choice = integers(f, m->rows, K, "router.choice"),
                 .weight = tri__forward_slot(f, m->rows, K, "router.weight"),
                 .from = integers(f, m->places, 1, "router.from")};
    int places = tri__forward_input(f, m->branch ? TRI_FIELD_places1 : TRI_FIELD_places0);
    TRI_BUILD(&f->build, route, (tri_attr){0}, to.choice, to.weight, to.from, to.probs, logits, m->seq, places);
    return to;
}

/* The balancing loss and the count of dropped tokens: the next pair of numbers of the results. */
static int figures(tri_forward *f) {
    const tri_rows one = {.add = 1};
    int64_t n = tri__model_expert_layers(f->model);
    const char *unit = f->build.program->unit[f->build.unit];
    if (f->experts < 0) f->experts = tri__build_slot(&f->build, TRI_MEM_RESULT, TRI_F64, one, 2 * n, "experts");
    return tri__build_view(&f->build, f->experts, 2 * f->n_balanced++, 1, 2, "experts.%s", unit);
}

static void balance(tri_forward *f, const tri_mixture *m, const routed *to) {
    if (!f->training) return;
    int sums = figures(f), gate = f->build.layer;
    int inv = tri__forward_input(f, m->branch ? TRI_FIELD_balance_inv1 : TRI_FIELD_balance_inv0);
    tri_attr attr = {.rate = (float)f->model->encoder[m->branch].router_aux_loss_coef};
    TRI_BUILD(&f->build, balance, attr, sums, to->probs, to->choice, to->from, m->seq, inv);
    f->build.layer = -gate;
    if (gate) TRI_BUILD(&f->build, zero, (tri_attr){.balance = 1}, sums);
    f->build.layer = gate;
}

/* y = x w^T + b of each expert; `name` is the logical name without .weight / .bias. */
static int dense(tri_forward *f, const tri_mixture *m, int x, int from, int64_t out, int64_t in, const char *label,
                 const char *name) {
    tri_arena *arena = f->build.arena;
    int64_t E = f->model->encoder[m->branch].num_experts;
    int y = tri__forward_slot(f, m->places, out, label);
    int w = tri__forward_weight(f, tri__arena_print(arena, "%s.w", label), tri__arena_print(arena, "%s.weight", name),
                                E * out, in);
    int b = tri__forward_weight(f, tri__arena_print(arena, "%s.b", label), tri__arena_print(arena, "%s.bias", name), E,
                                out);
    TRI_BUILD_VARIANT(&f->build, linear, ((tri_attr){.experts = 1, .members = (int32_t)E}), y, x, w, b, from);
    return y;
}

int tri__experts_forward(tri_forward *f, const tri_mixture *m, int x, const char *prefix) {
    const tri_encoder *e = &f->model->encoder[m->branch];
    tri_arena *arena = f->build.arena;
    int64_t H = e->hidden_size, I = e->intermediate_size;
    const tri_layer_names *n = tri__family(e)->names;
    const char *unit = f->build.program->unit[f->build.unit];
    routed to = route(f, m, x, prefix);
    balance(f, m, &to);
    int sent = tri__forward_slot(f, m->places, H, "dispatched");
    TRI_BUILD(&f->build, dispatch, (tri_attr){0}, sent, x, to.choice, to.from);

    tri__build_unit(&f->build, tri__arena_print(arena, "%s.experts", unit));
    int h = dense(f, m, sent, to.from, I, H, "ff1", tri__arena_print(arena, "%s.experts.%s", prefix, n->inner));
    int act = tri__forward_activation(f, h, m->places, I, e->act);
    int made = dense(f, m, act, to.from, H, I, "ff2", tri__arena_print(arena, "%s.experts.%s", prefix, n->outer));

    tri__build_unit(&f->build, unit);
    int y = tri__forward_slot(f, m->rows, H, "combined");
    TRI_BUILD(&f->build, combine, (tri_attr){0}, y, made, to.choice, to.weight, to.from);
    return y;
}
