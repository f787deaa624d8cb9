/* deberta.c - the keys of a DeBERTa-v2 or -v3 encoder's config.json, and what of them can be honoured. Its layers are
 * those of bert.c, its attention that of relative.c. */
#include "model/family.h"

const tri_option tri__deberta_own[] = {
    TRI_ENCODER_KEY(BOOL, relative_attention, 0, 1), TRI_ENCODER_KEY(BOOL, share_att_key, 0, 1),
    TRI_ENCODER_KEY(BOOL, position_biased_input, 0, 1), TRI_ENCODER_KEY(INT, position_buckets, -1, 65536),
    TRI_ENCODER_KEY(INT, max_relative_positions, -1, 1 << 20), {0}};

/* attr.terms of disentangled attention, by their names. */
static int term_of(const char *name) { return strcmp(name, "c2p") == 0 ? 1 : strcmp(name, "p2c") == 0 ? 2 : 0; }

static tri_status add_terms(const char *text, tri_encoder *e) {
    char copy[64], *save = NULL;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *name = strtok_r(copy, "| ", &save); name; name = strtok_r(NULL, "| ", &save)) {
        for (char *c = name; *c; c++) *c = (char)(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
        if (!term_of(name)) return tri__fail(TRI_USAGE, "pos_att_type has \"%s\"; supported are c2p and p2c", name);
        e->pos_att_type |= term_of(name);
    }
    return TRI_OK;
}

/* "p2c|c2p", or a list of them. */
static tri_status parse_terms(const tri_json *json, tri_encoder *e) {
    const tri_json *given = tri__json_get(json, "pos_att_type");
    if (!given || tri__json_is_null(given)) return TRI_OK;
    e->pos_att_type = 0;
    if (tri__json_is_string(given)) return add_terms(tri__json_string_value(given), e);
    if (!tri__json_is_array(given)) return tri__fail(TRI_USAGE, "pos_att_type is not a text or a list of texts");
    for (size_t i = 0; i < tri__json_size(given); i++) {
        const tri_json *term = tri__json_at(given, i);
        TRI_TRY(add_terms(tri__json_is_string(term) ? tri__json_string_value(term) : "not a text", e));
    }
    return TRI_OK;
}

static tri_status parse_norm(const tri_json *json, tri_encoder *e) {
    const tri_json *given = tri__json_get(json, "norm_rel_ebd");
    if (!given || tri__json_is_null(given)) return TRI_OK;
    const char *text = tri__json_is_string(given) ? tri__json_string_value(given) : "not a text";
    e->norm_rel_ebd = strcmp(text, "layer_norm") == 0;
    if (e->norm_rel_ebd || strcmp(text, "none") == 0) return TRI_OK;
    return tri__fail(TRI_USAGE, "norm_rel_ebd is \"%s\"; supported are layer_norm and none", text);
}

/* A key that must be absent, or have one value. */
static tri_status refuse(const tri_json *json, const char *key, int64_t only, const char *why) {
    const tri_json *given = tri__json_get(json, key);
    if (!given || tri__json_is_null(given)) return TRI_OK;
    if (tri__json_is_integer(given) && tri__json_integer_value(given) == only) return TRI_OK;
    TRI_OWNED(tri__free_at) char *text = tri__json_line(given);
    char brief[80];
    return tri__fail(TRI_USAGE, "%s is %s; only %lld is supported: %s", key,
                     tri__text_brief(text ? text : "another value", sizeof brief - 1, brief, sizeof brief),
                     (long long)only, why);
}

tri_status tri__deberta_parse(const tri_json *json, tri_encoder *e) {
    static const tri_option width = TRI_ENCODER_KEY(INT, embedding_size, 1, 65536);
    const tri_json *embedding = tri__json_get(json, "embedding_size");
    TRI_TRY(parse_terms(json, e));
    TRI_TRY(parse_norm(json, e));
    if (embedding && !tri__json_is_null(embedding))
        TRI_TRY(tri__option_set_json(&width, e, "embedding_size", embedding));
    if (e->embedding_size == e->hidden_size) e->embedding_size = 0;
    const tri_json *kernel = tri__json_get(json, "conv_kernel_size");
    if (kernel && tri__json_is_integer(kernel) && tri__json_integer_value(kernel) > 0)
        TRI_TRY(refuse(json, "conv_kernel_size", 0, "a convolution after the first layer is not"));
    int64_t heads = e->num_attention_heads > 0 ? e->num_attention_heads : 1;
    return refuse(json, "attention_head_size", e->hidden_size / heads, "hidden_size / num_attention_heads");
}

tri_status tri__deberta_check(const tri_encoder *e) {
    int64_t reach = e->max_relative_positions > 0 ? e->max_relative_positions : e->max_position_embeddings;
    if (!e->relative_attention)
        return tri__fail(TRI_USAGE,
                         "relative_attention is false; only true is supported: without it, take a bert encoder");
    if (!e->share_att_key)
        return tri__fail(TRI_USAGE, "share_att_key is false; only true, as DeBERTa-v3 has it, is supported");
    if (!e->pos_att_type) return tri__fail(TRI_USAGE, "pos_att_type is empty; supported are c2p, p2c and both");
    if (e->position_buckets > 0 && (e->position_buckets < 2 || reach - 1 <= e->position_buckets / 2))
        return tri__fail(TRI_USAGE, "position_buckets is %lld with distances of up to %lld (max_relative_positions, or "
                         "where that is -1 max_position_embeddings): half the buckets must be at least 1 and below "
                         "these", (long long)e->position_buckets, (long long)reach);
    TRI_TRY(tri__relative_check(e));
    if (e->num_experts)
        return tri__fail(TRI_USAGE, "num_experts is %lld; a deberta-v2 encoder has no experts here: leave it out",
                         (long long)e->num_experts);
    return TRI_OK;
}

void tri__deberta_write(const tri_encoder *e, tri_json *json) {
    tri_json *terms = tri__json_array();
    if (e->pos_att_type & 2) tri__json_append_new(terms, tri__json_string("p2c"));
    if (e->pos_att_type & 1) tri__json_append_new(terms, tri__json_string("c2p"));
    tri__json_set_filled(json, "pos_att_type", terms);
    tri__json_set_new(json, "norm_rel_ebd", tri__json_string(e->norm_rel_ebd ? "layer_norm" : "none"));
    if (e->embedding_size) tri__json_set_new(json, "embedding_size", tri__json_integer(e->embedding_size));
}
