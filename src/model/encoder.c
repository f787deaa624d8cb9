/* encoder.c - an encoder's architecture from a Hugging Face config.json, its checks, and a config.json of it. */
#include "model/family.h"

/* Keys of all families, by BERT's names. */
static const tri_option rows[] = {
    TRI_ENCODER_KEY(INT, vocab_size, 1, TRI_LIMIT_VOCABULARY), TRI_ENCODER_KEY(INT, hidden_size, 1, 65536),
    TRI_ENCODER_KEY(INT, num_hidden_layers, 1, TRI_MAX_ENCODER_LAYERS),
    TRI_ENCODER_KEY(INT, num_attention_heads, 1, 1024), TRI_ENCODER_KEY(INT, intermediate_size, 1, 1 << 20),
    TRI_ENCODER_KEY(INT, max_position_embeddings, 1, 1 << 20), TRI_ENCODER_KEY(INT, type_vocab_size, 0, 1024),
    TRI_ENCODER_KEY(INT, pad_token_id, 0, TRI_LIMIT_VOCABULARY), TRI_ENCODER_KEY(REAL, hidden_dropout_prob, 0, 0.999),
    TRI_ENCODER_KEY(REAL, attention_probs_dropout_prob, 0, 0.999), TRI_ENCODER_KEY(REAL, initializer_range, 0, 10),
    TRI_ENCODER_KEY(REAL, layer_norm_eps, 1e-30, 1), {0}};

/* Keys of which only one value is supported. */
static tri_status check_fixed(const tri_fixed_key *fixed, const tri_json *json) {
    TRI_OWNED(tri__json_drop) tri_json *value = NULL;
    TRI_TRY(tri__json_parse_any(fixed->value, strlen(fixed->value), fixed->key, TRI_USAGE, &value));
    const tri_json *given = tri__json_get(json, fixed->key);
    if (given && !tri__json_is_null(given) && !tri__json_equal(given, value)) {
        TRI_OWNED(tri__free_at) char *text = tri__json_line(given);
        char brief[80];
        return tri__fail(TRI_USAGE, "%s is %s; only %s is supported", fixed->key,
                         tri__text_brief(text ? text : "another value", sizeof brief - 1, brief, sizeof brief),
                         fixed->value);
    }
    return TRI_OK;
}

static tri_status parse_activation(const tri_json *json, const char *key, tri_encoder *e) {
    const tri_json *given = tri__json_get(json, key);
    if (!given) given = tri__json_get(json, "hidden_act");
    if (!given || tri__json_is_null(given)) return TRI_OK;
    const char *text = tri__json_is_string(given) ? tri__json_string_value(given) : "not a string";
    char list[256] = "", names[128];
    for (int act = 0; act < TRI_ACTIVATION_COUNT; act++) {
        char *save = NULL;
        snprintf(names, sizeof names, "%s", tri__activations[act].config);
        for (char *name = strtok_r(names, " ", &save); name; name = strtok_r(NULL, " ", &save)) {
            e->act = (tri_activation)act;
            if (strcmp(text, name) == 0) return TRI_OK;
            tri__text_append(list, sizeof list, ", ", "%s", name);
        }
    }
    return tri__fail(TRI_USAGE, "%s is \"%s\"; supported are %s", key, text, list);
}

static tri_status parse_family(const tri_json *json, const char *origin, tri_encoder *e) {
    const tri_json *type = tri__json_get(json, "model_type");
    int family = e->family;
    if (type)
        TRI_TRY(tri__family_find(tri__json_is_string(type) ? tri__json_string_value(type) : "not a string", origin,
                                 &family));
    if (e->vocab_size && family == e->family) return TRI_OK;
    e->family = family;
    *e = tri__family(e)->defaults;
    e->family = family;
    return TRI_OK;
}

/* A key under the family's own name or, as in transformers, under BERT's. */
static tri_status parse_row(const tri_option *row, const char *own, const tri_json *json, tri_encoder *e) {
    const tri_json *value = own ? tri__json_get(json, own) : NULL;
    if (own && !value) value = tri__json_get(json, own = row->name);
    if (!value) return TRI_OK;
    if (row->offset == offsetof(tri_encoder, pad_token_id) && tri__json_is_null(value)) {
        e->pad_token_id = -1;
        return TRI_OK;
    }
    return tri__option_set_json(row, e, own, value);
}

static tri_status parse_keys(const tri_json *json, tri_encoder *e) {
    const tri_family_row *family = tri__family(e);
    for (const tri_fixed_key *fixed = family->fixed; fixed && fixed->key; fixed++)
        if (fixed->checked) TRI_TRY(check_fixed(fixed, json));
    TRI_TRY(parse_activation(json, tri__family_key(family, "hidden_act"), e));
    for (const tri_option *row = rows; row->name; row++)
        TRI_TRY(parse_row(row, tri__family_key(family, row->name), json, e));
    for (const tri_option *row = family->own; row && row->name; row++) TRI_TRY(parse_row(row, row->name, json, e));
    if (family->parse) TRI_TRY(family->parse(json, e));
    const tri_json *pattern = tri__json_get(json, "attention_pattern");
    if (pattern) TRI_TRY(tri__pattern_parse(pattern, "attention_pattern", &e->pattern));
    return tri__experts_parse(json, e);
}

tri_status tri__encoder_parse(const tri_json *json, const char *origin, tri_encoder *encoder) {
    tri_encoder parsed = *encoder;
    TRI_TRY(parse_family(json, origin, &parsed));
    tri_status status = parse_keys(json, &parsed);
    if (status != TRI_OK) return tri__fail_in(status, "%s", origin);
    *encoder = parsed;
    return TRI_OK;
}

int64_t tri__encoder_embedding(const tri_encoder *e) { return e->embedding_size ? e->embedding_size : e->hidden_size; }

int64_t tri__encoder_positions(const tri_encoder *encoder) {
    int none = tri__family(encoder)->relative == TRI_RELATIVE_VECTORS && !encoder->position_biased_input;
    return none ? 0 : encoder->max_position_embeddings;
}

int tri__encoder_position_base(const tri_encoder *e) {
    return tri__family(e)->counts_from_pad ? (int)e->pad_token_id + 1 : 0;
}

int64_t tri__encoder_extend(tri_encoder *encoder, int64_t max_len) {
    int64_t base = tri__encoder_position_base(encoder), positions = encoder->max_position_embeddings - base;
    if (positions >= max_len || positions < 1) return 0;
    if (encoder->max_relative_positions < 0) /* DeBERTa: what all distances beyond it share does not change */
        encoder->max_relative_positions = encoder->max_position_embeddings;
    encoder->max_position_embeddings = base + max_len;
    return positions;
}

static tri_status check_sizes(const tri_encoder *e, const char *origin) {
    const tri_family_row *family = tri__family(e);
    if (e->vocab_size < 1 || e->hidden_size < 1 || e->num_hidden_layers < 1 || e->num_attention_heads < 1 ||
        e->intermediate_size < 1 || e->max_position_embeddings < 1)
        return tri__fail(TRI_USAGE, "%s: an encoder's sizes must be above 0", origin);
    if (e->type_vocab_size < 1 && family->defaults.type_vocab_size > 0)
        return tri__fail(TRI_USAGE, "%s: type_vocab_size is 0; a %s encoder has at least 1", origin, family->type);
    if (e->hidden_size % e->num_attention_heads)
        return tri__fail(TRI_USAGE, "%s: %s %lld cannot be divided among %lld heads", origin,
                         tri__family_key(family, "hidden_size"), (long long)e->hidden_size,
                         (long long)e->num_attention_heads);
    if (e->pad_token_id < 0 && family->counts_from_pad)
        return tri__fail(TRI_USAGE, "%s: pad_token_id is null, but positions of a %s encoder count from "
                         "pad_token_id + 1", origin, family->type);
    if (e->pad_token_id >= e->vocab_size)
        return tri__fail(TRI_USAGE, "%s: pad_token_id %lld is outside a vocabulary of %lld", origin,
                         (long long)e->pad_token_id, (long long)e->vocab_size);
    return TRI_OK;
}

tri_status tri__encoder_check(const tri_encoder *encoder, const char *origin, int64_t max_len) {
    const tri_encoder *e = encoder;
    const tri_family_row *family = tri__family(e);
    TRI_TRY(check_sizes(e, origin));
    int64_t positions = e->max_position_embeddings - tri__encoder_position_base(e);
    if (max_len > positions)
        return tri__fail(TRI_USAGE, "%s: max_sen_len %lld is beyond the encoder's %lld positions; take at most that, "
                         "with --windows N --stride S for longer texts, or repeat the position embeddings: "
                         "--extend-positions copy", origin, (long long)max_len,
                         (long long)(positions < 0 ? 0 : positions));
    tri_status status = tri__pattern_check(&e->pattern, "attention_pattern", max_len, e->num_attention_heads);
    if (status == TRI_OK) status = tri__experts_check(e);
    if (status == TRI_OK && family->check) status = family->check(e);
    return status == TRI_OK ? TRI_OK : tri__fail_in(status, "%s", origin);
}

/* Keys in the order of transformers' files: what it is, then fixed values, then numbers. */
tri_json *tri__encoder_json(const tri_encoder *encoder) {
    const tri_family_row *family = tri__family(encoder);
    tri_json *json = tri__json_pack("{s:s, s:[s]}", "model_type", family->type, "architectures", family->architecture),
             *value;
    const char *act = tri__family_key(family, "hidden_act");
    const char *names = tri__activations[encoder->act].config;
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(names, " "), names);
    tri__json_set_new(json, act, tri__json_string(name));
    for (const tri_fixed_key *fixed = family->fixed; fixed && fixed->key; fixed++)
        if (fixed->written) { /* NULL without memory: the object is then incomplete */
            (void)tri__json_parse_any(fixed->value, strlen(fixed->value), fixed->key, TRI_USAGE, &value);
            tri__json_set_new(json, fixed->key, value);
        }
    for (const tri_option *row = rows; row->name; row++) {
        const char *own = tri__family_key(family, row->name);
        if (own) tri__json_set_new(json, own, tri__option_json(row, encoder));
    }
    if (encoder->pad_token_id < 0) tri__json_set_new(json, "pad_token_id", tri__json_null());
    for (const tri_option *row = family->own; row && row->name; row++)
        tri__json_set_new(json, row->name, tri__option_json(row, encoder));
    if (family->write) family->write(encoder, json);
    if (encoder->pattern.mode != TRI_PATTERN_DENSE)
        tri__json_set_new(json, "attention_pattern", tri__pattern_json(&encoder->pattern));
    tri__experts_json(encoder, json);
    return json;
}
