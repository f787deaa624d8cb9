/* config.h - a model's description: keys of the configuration file and of an encoder's config.json. */
#pragma once

#include "base/option.h"
#include "numbers/capacity.h"
#include "layout/texts.h"
#include "model/pattern.h"
#include "program/op.h"

typedef enum tri_pooling { TRI_POOLING_POOLER, TRI_POOLING_CLS, TRI_POOLING_MEAN } tri_pooling;

enum { TRI_TABULAR_PLAIN, TRI_TABULAR_EMBEDDED };
enum { TRI_NUMERIC_PIECEWISE, TRI_NUMERIC_PERIODIC };
enum { TRI_FUSION_CONCAT, TRI_FUSION_GATED, TRI_FUSION_COLUMNS };
enum { TRI_EXTEND_NO, TRI_EXTEND_COPY }; /* extend_positions */
enum { TRI_TASK_CLASSES, TRI_TASK_NUMBER, TRI_TASK_QUANTILES, TRI_TASK_LABELS }; /* task */
enum { TRI_QUANTILE_LEVELS_MAX = 99 };

typedef struct tri_model_config {
#define TRI_OPTION(kind, field, ...) TRI_FIELD_##kind field;
#include "model/keys.def"
#undef TRI_OPTION
} tri_model_config;

extern const tri_option tri__model_options[];

/* Texts, their encoders, and which of these reads each. */
int tri__model_texts(const tri_model_config *config);
int tri__model_encoders(const tri_model_config *config);
tri_readers tri__model_readers(const tri_model_config *config);
/* Sets what text_list says of the first two texts and of share_encoders (NULL: it is given). A list of two says no
 * more, and is emptied. TRI_USAGE. */
tri_status tri__model_take_texts(tri_model_config *config, int shares_given);
/* Outputs of the last layer: classes, one number, or a number for each level or label. */
int64_t tri__model_outputs(const tri_model_config *config);
/* Of task multilabel, what separates the labels of a cell, "" where each has a column; NULL: another task. */
const char *tri__model_separator(const tri_model_config *config);
/* Whether columns of the table become vectors. */
int tri__model_has_vectors(const tri_model_config *config);
/* The levels of task quantiles: those given, or the default's. */
tri_reals tri__model_levels(const tri_model_config *config);

/* Checks is_binary against num_classes, the length of class_weights, required names. TRI_USAGE. */
tri_status tri__model_config_check(const tri_model_config *config);

enum { TRI_MAX_ENCODER_LAYERS = 1024, TRI_MAX_EXPERTS = 1024 };

/* An encoder's architecture. */
typedef struct tri_encoder {
    int family;            /* its row in model/family.c; 0: BERT */
    tri_activation act;    /* hidden_act */
    int64_t vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size;
    int64_t max_position_embeddings, type_vocab_size; /* the latter 0: no token types */
    int64_t embedding_size;  /* ELECTRA, DeBERTa: width of the tables; 0: hidden_size */
    /* -1: none. Its word row and, where positions count from it, the position row of that number begin as zeros and are
     * not trained. */
    int64_t pad_token_id;
    double hidden_dropout_prob, attention_probs_dropout_prob, initializer_range, layer_norm_eps;
    tri_pattern pattern;   /* attention_pattern: which keys a query attends to */
    int64_t num_experts;   /* of each feed-forward layer that is a mixture; 0: none */
    int64_t experts_per_token;
    double expert_capacity_factor, router_aux_loss_coef;
    int64_t expert_every;  /* expert_layers: each layer whose number, from 1, is a multiple of it; 0: expert_layer */
    uint64_t expert_layer[TRI_MAX_ENCODER_LAYERS / 64]; /* bit k % 64 of word k / 64: layer k, from 0 */
    int64_t relative_attention_num_buckets; /* MPNet: rows of its table */
    /* DeBERTa's */
    int relative_attention, share_att_key;
    int position_biased_input; /* 0: no table of positions */
    int64_t position_buckets;  /* of each sign; below 1: each distance has its own */
    int64_t max_relative_positions; /* below 1: max_position_embeddings */
    int pos_att_type;          /* attr.terms of disentangled attention */
    int norm_rel_ebd;          /* 1: a norm of the table of distances */
    /* ModernBERT's */
    double mlp_dropout;
    int attention_bias, mlp_bias, norm_bias;
    int64_t local_attention; /* of local layers: tokens on both sides of a query, together */
    double global_rope_theta, local_rope_theta;
    /* Layers whose number, from 0, is a multiple of it are global; 0: local_layer. */
    int64_t global_attn_every_n_layers;
    uint64_t local_layer[TRI_MAX_ENCODER_LAYERS / 64]; /* as expert_layer */
} tri_encoder;

/* The option row of a key of config.json that is a field of tri_encoder. */
#define TRI_ENCODER_KEY(kind_, field_, min_, max_) \
    {.name = #field_, .kind = TRI_OPTION_##kind_, .offset = offsetof(tri_encoder, field_), .min = (min_), .max = (max_)}

/* The architecture of a known name (bert-base-cased, ...); 0 when unknown. */
int tri__encoder_preset(const char *name, tri_encoder *encoder);
/* Another known name with the same vocabulary, for one without a folder; NULL. */
const char *tri__encoder_vocabulary(const char *name);
/* Shrinks an encoder to width 64, `layers` layers and, where that divides 64, at least `heads` heads. */
void tri__encoder_shrink(tri_encoder *encoder, int64_t layers, int64_t heads);
/* Overrides *encoder with keys of a config.json; another model_type than its own begins with that family's defaults.
 * Unknown keys are ignored; an unknown model_type or activation, or a value that cannot be honoured: TRI_USAGE. */
tri_status tri__encoder_parse(const tri_json *json, const char *origin, tri_encoder *encoder);
/* encoder_keys.c. TRI_USAGE, with the right name, if a key of the object looks like a misspelt one of this encoder. */
tri_status tri__encoder_check_keys(const tri_json *json, const char *origin, const tri_encoder *encoder);
/* Gives the position table at least max_len usable rows; returns how many it had, 0 if those were enough. */
int64_t tri__encoder_extend(tri_encoder *encoder, int64_t max_len);
/* Checks divisibility by heads, max_len within the position table, sizes above 0, the pattern of attention. */
tri_status tri__encoder_check(const tri_encoder *encoder, const char *origin, int64_t max_len);
tri_json *tri__encoder_json(const tri_encoder *encoder); /* as a Hugging Face config.json */
/* Whether a layer's feed-forward layer is a mixture of experts; and how many tokens these take. */
int tri__encoder_has_experts(const tri_encoder *encoder, int64_t layer);
tri_capacity tri__encoder_capacity(const tri_encoder *encoder);
int64_t tri__encoder_expert_layers(const tri_encoder *encoder); /* how many */
/* For the files of this folder: the keys of experts. experts.c */
tri_status tri__experts_parse(const tri_json *json, tri_encoder *encoder);
tri_status tri__experts_check(const tri_encoder *encoder);
void tri__experts_json(const tri_encoder *encoder, tri_json *json);
/* DeBERTa: rows of each sign in the table of distances; 0: other families. */
int64_t tri__encoder_span(const tri_encoder *encoder);
/* Rows of the position table; 0: it has none. */
int64_t tri__encoder_positions(const tri_encoder *encoder);
/* Width of the tables of embeddings. */
int64_t tri__encoder_embedding(const tri_encoder *encoder);
/* Whether a layer attends to the encoder's blocks alone, where it has some; else to all keys. */
int tri__encoder_is_local(const tri_encoder *encoder, int64_t layer);
/* Rows of the position table before the first usable one: 0, or pad_token_id + 1, the last of them for pad tokens. */
int tri__encoder_position_base(const tri_encoder *encoder);
