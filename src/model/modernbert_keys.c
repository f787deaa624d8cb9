/* modernbert_keys.c - the keys of ModernBERT's config.json, in the forms of transformers 4.48 and of transformers 5:
 * global_attn_every_n_layers or layer_types, two numbers or rope_parameters. Both are written. */
#include "model/family.h"

const tri_key_name tri__modernbert_keys[] = {{"hidden_act", "hidden_activation"},
                                             {"hidden_dropout_prob", "embedding_dropout"},
                                             {"attention_probs_dropout_prob", "attention_dropout"},
                                             {"layer_norm_eps", "norm_eps"}, {"type_vocab_size", NULL}, {0}};

const tri_option tri__modernbert_own[] = {TRI_ENCODER_KEY(REAL, mlp_dropout, 0, 0.999),
                                          TRI_ENCODER_KEY(BOOL, attention_bias, 0, 0),
                                          TRI_ENCODER_KEY(BOOL, mlp_bias, 0, 0), TRI_ENCODER_KEY(BOOL, norm_bias, 0, 0),
                                          TRI_ENCODER_KEY(INT, local_attention, 2, 1 << 20), {0}};

/* Keys that may be null. */
static const tri_option thetas[] = {TRI_ENCODER_KEY(REAL, global_rope_theta, 1, 1e12),
                                    TRI_ENCODER_KEY(REAL, local_rope_theta, 1, 1e12)};
static const tri_option every = TRI_ENCODER_KEY(INT, global_attn_every_n_layers, 1, TRI_MAX_ENCODER_LAYERS);

static const char *const types[] = {"full_attention", "sliding_attention"};

static int is_given(const tri_json *value) { return value && !tri__json_is_null(value); }

/* layer_types: a list of the names above, one a layer. */
static tri_status parse_types(const tri_json *value, tri_encoder *e) {
    if (!tri__json_is_array(value) || (int64_t)tri__json_size(value) != e->num_hidden_layers)
        return tri__fail(TRI_USAGE, "layer_types is not a list of as many entries as num_hidden_layers, %lld",
                         (long long)e->num_hidden_layers);
    e->global_attn_every_n_layers = 0;
    memset(e->local_layer, 0, sizeof e->local_layer);
    for (int64_t i = 0; i < e->num_hidden_layers; i++) {
        const char *text = tri__json_string_value(tri__json_at(value, (size_t)i));
        int local = text && strcmp(text, types[1]) == 0;
        if (!local && (!text || strcmp(text, types[0]) != 0))
            return tri__fail(TRI_USAGE, "layer_types: entry %lld is \"%s\"; supported are %s and %s", (long long)i,
                             text ? text : "not a string", types[0], types[1]);
        if (local) e->local_layer[i / 64] |= (uint64_t)1 << i % 64;
    }
    for (int64_t n = 1; n <= e->num_hidden_layers; n++) { /* a plain rhythm holds for other numbers of layers, too */
        int64_t i = 0;
        while (i < e->num_hidden_layers && (int)(e->local_layer[i / 64] >> i % 64 & 1) == (i % n != 0)) i++;
        if (i < e->num_hidden_layers) continue;
        e->global_attn_every_n_layers = n;
        memset(e->local_layer, 0, sizeof e->local_layer);
        break;
    }
    return TRI_OK;
}

/* rope_parameters: an object of a layer type's objects, of which only rope_theta may differ from the default. */
static tri_status parse_rope(const tri_json *value, tri_encoder *e) {
    for (int k = 0; k < 2; k++) {
        const tri_json *of = tri__json_get(value, types[k]), *type = tri__json_get(of, "rope_type"),
                       *theta = tri__json_get(of, "rope_theta");
        if (is_given(type) && (!tri__json_is_string(type) || strcmp(tri__json_string_value(type), "default") != 0))
            return tri__fail(TRI_USAGE, "rope_parameters: rope_type of %s is \"%s\"; only \"default\" is supported",
                             types[k], tri__json_is_string(type) ? tri__json_string_value(type) : "not a string");
        if (is_given(theta)) TRI_TRY(tri__option_set_json(&thetas[k], e, "rope_theta", theta));
    }
    return TRI_OK;
}

tri_status tri__modernbert_parse(const tri_json *json, tri_encoder *e) {
    const tri_json *value;
    for (int k = 0; k < 2; k++) {
        value = tri__json_get(json, thetas[k].name);
        if (is_given(value)) TRI_TRY(tri__option_set_json(&thetas[k], e, thetas[k].name, value));
        else if (value && k == 1) e->local_rope_theta = e->global_rope_theta; /* as in transformers 4 */
    }
    if (is_given(tri__json_get(json, "rope_scaling")))
        return tri__fail(TRI_USAGE, "rope_scaling is given; only plain rotary positions are supported: null");
    value = tri__json_get(json, "rope_parameters");
    if (is_given(value)) TRI_TRY(parse_rope(value, e));
    value = tri__json_get(json, every.name);
    if (is_given(value)) TRI_TRY(tri__option_set_json(&every, e, every.name, value));
    value = tri__json_get(json, "layer_types");
    return is_given(value) ? parse_types(value, e) : TRI_OK;
}

tri_status tri__modernbert_check(const tri_encoder *e) {
    if (e->hidden_size / e->num_attention_heads % 2)
        return tri__fail(TRI_USAGE, "hidden_size %lld and %lld heads: rotary positions turn pairs of a head's columns, "
                         "of which there are %lld; take an even number", (long long)e->hidden_size,
                         (long long)e->num_attention_heads, (long long)(e->hidden_size / e->num_attention_heads));
    if (e->num_experts)
        return tri__fail(TRI_USAGE, "num_experts %lld: feed-forward layers of a modernbert encoder are gated, and are "
                         "not made into experts; leave it out", (long long)e->num_experts);
    if (e->pattern.mode != TRI_PATTERN_DENSE)
        return tri__fail(TRI_USAGE, "attention_pattern, mode %s: layers of a modernbert encoder have patterns of their "
                         "own; change local_attention or layer_types instead", tri__pattern_mode_name(e->pattern.mode));
    return TRI_OK;
}

void tri__modernbert_write(const tri_encoder *e, tri_json *json) {
    tri_json *list = tri__json_array(), *rope = tri__json_object();
    for (int64_t i = 0; i < e->num_hidden_layers; i++)
        tri__json_append_new(list, tri__json_string(types[tri__encoder_is_local(e, i)]));
    tri__json_set_new(json, "layer_types", list);
    if (e->global_attn_every_n_layers) tri__json_set_new(json, every.name, tri__option_json(&every, e));
    for (int k = 0; k < 2; k++) {
        tri__json_set_new(rope, types[k], tri__json_pack("{s:s, s:o}", "rope_type", "default", "rope_theta",
                                                         tri__option_json(&thetas[k], e)));
        tri__json_set_new(json, thetas[k].name, tri__option_json(&thetas[k], e));
    }
    tri__json_set_new(json, "rope_parameters", rope);
}
