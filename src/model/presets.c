/* presets.c - encoder architectures: those of known names, and those that a Hugging Face config.json describes. */
#include "base/limits.h"
#include "model/config.h"

#include <stddef.h>
#include <string.h>

/* Of encoders with num_experts. */
#define EXPERTS .experts_per_token = 1, .expert_capacity_factor = 1.25, .router_aux_loss_coef = 0.01, .expert_every = 2
#define BERT(vocab, hidden, layers, heads, inner) \
    { \
        .vocab_size = (vocab), .hidden_size = (hidden), .num_hidden_layers = (layers), .num_attention_heads = (heads), \
        .intermediate_size = (inner), .max_position_embeddings = 512, .type_vocab_size = 2, .pad_token_id = 0, \
        .hidden_dropout_prob = 0.1, .attention_probs_dropout_prob = 0.1, .initializer_range = 0.02, \
        .layer_norm_eps = 1e-12, EXPERTS \
    }
#define ROBERTA(hidden, layers, heads, inner) \
    { \
        .roberta = 1, .vocab_size = 50265, .hidden_size = (hidden), .num_hidden_layers = (layers), \
        .num_attention_heads = (heads), .intermediate_size = (inner), .max_position_embeddings = 514, \
        .type_vocab_size = 1, .pad_token_id = 1, .hidden_dropout_prob = 0.1, .attention_probs_dropout_prob = 0.1, \
        .initializer_range = 0.02, .layer_norm_eps = 1e-5, EXPERTS \
    }

static const struct {
    const char *name;
    tri_encoder encoder;
    const char *vocabulary; /* another name with the same vocabulary; NULL */
} presets[] = {
    {"bert-base-cased", BERT(28996, 768, 12, 12, 3072), NULL},
    {"bert-base-uncased", BERT(30522, 768, 12, 12, 3072), NULL},
    {"bert-large-cased", BERT(28996, 1024, 24, 16, 4096), "bert-base-cased"},
    {"roberta-base", ROBERTA(768, 12, 12, 3072), NULL},
    {"roberta-large", ROBERTA(1024, 24, 16, 4096), "roberta-base"},
};

/* Defaults of missing keys, as in transformers' BertConfig and RobertaConfig; parse_family sets RoBERTa's other
 * differences. */
static const tri_encoder class_defaults[2] = {BERT(30522, 768, 12, 12, 3072), BERT(50265, 768, 12, 12, 3072)};

int tri__encoder_preset(const char *name, tri_encoder *encoder) {
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (strcmp(name, presets[i].name) == 0) {
            *encoder = presets[i].encoder;
            return 1;
        }
    return 0;
}

const char *tri__encoder_vocabulary(const char *name) {
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (strcmp(name, presets[i].name) == 0) return presets[i].vocabulary;
    return NULL;
}

void tri__encoder_shrink(tri_encoder *e, int64_t layers, int64_t heads) {
    enum { WIDTH = 64, INNER = 256, HEADS = 4 };
    e->hidden_size = WIDTH, e->intermediate_size = INNER;
    e->num_hidden_layers = layers;
    e->num_attention_heads = heads > HEADS && WIDTH % heads == 0 ? heads : HEADS;
}

#define ROW(kind_, field_, min_, max_) \
    {.name = #field_, .kind = TRI_OPTION_##kind_, .offset = offsetof(tri_encoder, field_), .min = (min_), .max = (max_)}

static const tri_option rows[] = {
    ROW(INT, vocab_size, 1, TRI_LIMIT_VOCABULARY),
    ROW(INT, hidden_size, 1, 65536),
    ROW(INT, num_hidden_layers, 1, TRI_MAX_ENCODER_LAYERS),
    ROW(INT, num_attention_heads, 1, 1024),
    ROW(INT, intermediate_size, 1, 1 << 20),
    ROW(INT, max_position_embeddings, 1, 1 << 20),
    ROW(INT, type_vocab_size, 1, 1024),
    ROW(INT, pad_token_id, 0, TRI_LIMIT_VOCABULARY),
    ROW(REAL, hidden_dropout_prob, 0, 0.999),
    ROW(REAL, attention_probs_dropout_prob, 0, 0.999),
    ROW(REAL, initializer_range, 0, 10),
    ROW(REAL, layer_norm_eps, 1e-30, 1),
    {0}};

/* A key for which only one value is supported, or an alias of it. */
static tri_status require(const tri_json *json, const char *origin, const char *key, const char *value,
                          const char *same) {
    const tri_json *given = tri__json_get(json, key);
    if (!given || tri__json_is_null(given)) return TRI_OK;
    const char *text = tri__json_is_string(given) ? tri__json_string_value(given) : "not a string";
    if (strcmp(text, value) == 0 || (same && strcmp(text, same) == 0)) return TRI_OK;
    return tri__fail(TRI_USAGE, "%s: %s is \"%s\"; only \"%s\" is supported", origin, key, text, value);
}

static tri_status parse_family(const tri_json *json, const char *origin, tri_encoder *encoder) {
    const tri_json *type = tri__json_get(json, "model_type");
    int roberta = encoder->roberta;
    if (type) {
        const char *name = tri__json_is_string(type) ? tri__json_string_value(type) : "not a string";
        if (strcmp(name, "bert") && strcmp(name, "roberta"))
            return tri__fail(TRI_USAGE, "%s: model_type is \"%s\"; only \"bert\" and \"roberta\" are supported", origin,
                             name);
        roberta = name[0] == 'r';
    }
    if (encoder->vocab_size == 0) *encoder = class_defaults[roberta];
    if (roberta != encoder->roberta) encoder->roberta = roberta, encoder->pad_token_id = roberta;
    return TRI_OK;
}

tri_status tri__encoder_parse(const tri_json *json, const char *origin, tri_encoder *encoder) {
    TRI_TRY(require(json, origin, "hidden_act", "gelu", "gelu_python"));
    TRI_TRY(require(json, origin, "position_embedding_type", "absolute", NULL));
    if (tri__json_is_true(tri__json_get(json, "is_decoder")))
        return tri__fail(TRI_USAGE, "%s: is_decoder is true; only encoders are supported", origin);
    tri_encoder parsed = *encoder;
    TRI_TRY(parse_family(json, origin, &parsed));
    for (const tri_option *row = rows; row->name; row++) {
        const tri_json *value = tri__json_get(json, row->name);
        if (!value) continue;
        if (row->offset == offsetof(tri_encoder, pad_token_id) && tri__json_is_null(value)) {
            parsed.pad_token_id = -1;
            continue;
        }
        tri_status status = tri__option_set_json(row, &parsed, row->name, value);
        if (status != TRI_OK) return tri__fail_in(status, "%s", origin);
    }
    const tri_json *pattern = tri__json_get(json, "attention_pattern");
    if (pattern) {
        tri_status status = tri__pattern_parse(pattern, "attention_pattern", &parsed.pattern);
        if (status != TRI_OK) return tri__fail_in(status, "%s", origin);
    }
    tri_status status = tri__experts_parse(json, &parsed);
    if (status != TRI_OK) return tri__fail_in(status, "%s", origin);
    *encoder = parsed;
    return TRI_OK;
}

int tri__encoder_position_base(const tri_encoder *encoder) {
    return encoder->roberta ? (int)encoder->pad_token_id + 1 : 0;
}

int64_t tri__encoder_extend(tri_encoder *encoder, int64_t max_len) {
    int64_t base = tri__encoder_position_base(encoder), positions = encoder->max_position_embeddings - base;
    if (positions >= max_len || positions < 1) return 0;
    encoder->max_position_embeddings = base + max_len;
    return positions;
}

tri_status tri__encoder_check(const tri_encoder *encoder, const char *origin, int64_t max_len) {
    const tri_encoder *e = encoder;
    if (e->vocab_size < 1 || e->hidden_size < 1 || e->num_hidden_layers < 1 || e->num_attention_heads < 1 ||
        e->intermediate_size < 1 || e->max_position_embeddings < 1 || e->type_vocab_size < 1)
        return tri__fail(TRI_USAGE, "%s: an encoder's sizes must be above 0", origin);
    if (e->hidden_size % e->num_attention_heads)
        return tri__fail(TRI_USAGE, "%s: hidden_size %lld cannot be divided among %lld heads", origin,
                         (long long)e->hidden_size, (long long)e->num_attention_heads);
    if (e->pad_token_id < 0 && e->roberta)
        return tri__fail(TRI_USAGE,
                         "%s: pad_token_id is null, but positions of a roberta encoder count from pad_token_id + 1",
                         origin);
    if (e->pad_token_id >= e->vocab_size)
        return tri__fail(TRI_USAGE, "%s: pad_token_id %lld is outside a vocabulary of %lld", origin,
                         (long long)e->pad_token_id, (long long)e->vocab_size);
    int64_t positions = e->max_position_embeddings - tri__encoder_position_base(e);
    if (max_len > positions)
        return tri__fail(
            TRI_USAGE,
            "%s: max_sen_len %lld is beyond the encoder's %lld positions; take at most that, with --windows N "
            "--stride S for longer texts, or repeat the position embeddings: --extend-positions copy",
            origin, (long long)max_len, (long long)(positions < 0 ? 0 : positions));
    tri_status status = tri__pattern_check(&e->pattern, "attention_pattern", max_len, e->num_attention_heads);
    if (status == TRI_OK) status = tri__experts_check(e);
    return status == TRI_OK ? TRI_OK : tri__fail_in(status, "%s", origin);
}

tri_json *tri__encoder_json(const tri_encoder *encoder) {
    tri_json *json = encoder->roberta
                         ? tri__json_pack("{s:s, s:[s], s:i, s:i}", "model_type", "roberta", "architectures",
                                          "RobertaModel", "bos_token_id", 0, "eos_token_id", 2)
                         : tri__json_pack("{s:s, s:[s]}", "model_type", "bert", "architectures", "BertModel");
    tri__json_set_new(json, "hidden_act", tri__json_string("gelu"));
    tri__json_set_new(json, "position_embedding_type", tri__json_string("absolute"));
    for (const tri_option *row = rows; row->name; row++)
        tri__json_set_new(json, row->name, tri__option_json(row, encoder));
    if (encoder->pad_token_id < 0) tri__json_set_new(json, "pad_token_id", tri__json_null());
    if (encoder->pattern.mode != TRI_PATTERN_DENSE)
        tri__json_set_new(json, "attention_pattern", tri__pattern_json(&encoder->pattern));
    tri__experts_json(encoder, json);
    return json;
}
