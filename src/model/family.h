/* family.h - the encoder families as a table: what they read from and write to a config.json, the names of their
 * tensors, and the functions that build them. A new family is a row of family.c; docs/extending/adding-a-model.md. */
#pragma once

#include "model/model.h"

/* A key of BERT's config.json and the family's name for it; NULL: the family has no such key, and its default holds. */
typedef struct tri_key_name {
    const char *bert, *own;
} tri_key_name;

/* A key of the family's config.json with a fixed value. */
typedef struct tri_fixed_key {
    const char *key, *value; /* the value is JSON */
    int checked;             /* any other value, except null, is refused */
    int written;
} tri_fixed_key;

/* An encoder's layers: the names of their tensors; and in what those of bert.c differ. */
typedef struct tri_layer_names {
    const char *layer;                /* before a layer's number: "encoder.layer." */
    const char *query, *key, *value;  /* in a layer, without .weight and .bias */
    const char *attention;            /* the dense layer after attention */
    const char *attention_norm;
    const char *inner, *outer;        /* the feed-forward layers, to intermediate_size and back */
    const char *norm;
    int attention_dropout;            /* hidden_dropout_prob after that dense layer, too */
    int widens_first;                 /* tables of another width are projected before their norm, without a bias */
} tri_layer_names;

extern const tri_layer_names tri__fusion_names; /* of the fusion's layers. fusion_layers.c */

/* Positions relative to each other (relative.c): none, MPNet's biases by distance, DeBERTa's vectors by distance. */
typedef enum tri_relative_kind { TRI_RELATIVE_NONE, TRI_RELATIVE_BIAS, TRI_RELATIVE_VECTORS } tri_relative_kind;

typedef struct tri_family_row {
    const char *type;         /* model_type of config.json */
    const char *architecture; /* transformers' class */
    const char *prefix;       /* of tensors in files of models with a head: "bert." */
    tri_encoder defaults;     /* of missing keys: those of transformers' configuration class */
    const tri_key_name *keys; /* that differ from BERT's; ends with a NULL name; NULL: none do */
    const tri_fixed_key *fixed; /* ends with a NULL key */
    const tri_option *own;    /* further keys, of tri_encoder; ends with a NULL name; NULL: none */
    int counts_from_pad;      /* positions: from pad_token_id + 1 on, pad tokens not counted; 0: from 0 on */
    int gated;                /* feed-forward layers have a second product to intermediate_size */
    int has_pooler;           /* transformers' class has pooler.dense; 0: one that is asked for is new */
    tri_relative_kind relative;
    const tri_layer_names *names;
    void (*params)(tri_network *model, int branch); /* NULL: it and forward are those of bert.c */
    void (*forward)(tri_forward *f, int branch); /* to tri__branch_pooling */
    /* Of its local layers; NULL: the encoder's, of all. */
    tri_pattern (*pattern)(const tri_encoder *e, int64_t *window);
    tri_status (*parse)(const tri_json *json, tri_encoder *e); /* keys that are not plain numbers; NULL: none */
    tri_status (*check)(const tri_encoder *e); /* values that this family cannot have; NULL: none */
    void (*write)(const tri_encoder *e, tri_json *json); /* the counterpart of parse; NULL */
} tri_family_row;

const tri_family_row *tri__family(const tri_encoder *encoder);
/* The row of a model_type; TRI_USAGE, with the list of those that there are. */
tri_status tri__family_find(const char *type, const char *origin, int *family);
/* The family's name for a key of BERT's; NULL: it has none. */
const char *tri__family_key(const tri_family_row *row, const char *bert);

/* For family.c: post-norm encoders. */
void tri__bert_params(tri_network *model, int branch);
void tri__bert_forward(tri_forward *f, int branch);
/* MPNet and DeBERTa: what relative-position attention cannot be combined with. relative.c */
tri_status tri__relative_check(const tri_encoder *e);
/* DeBERTa. deberta.c */
extern const tri_option tri__deberta_own[];
tri_status tri__deberta_parse(const tri_json *json, tri_encoder *e);
tri_status tri__deberta_check(const tri_encoder *e);
void tri__deberta_write(const tri_encoder *e, tri_json *json);
/* ModernBERT. modernbert.c, modernbert_keys.c */
extern const tri_key_name tri__modernbert_keys[];
extern const tri_option tri__modernbert_own[];
void tri__modernbert_params(tri_network *model, int branch);
void tri__modernbert_forward(tri_forward *f, int branch);
tri_pattern tri__modernbert_pattern(const tri_encoder *e, int64_t *window);
tri_status tri__modernbert_parse(const tri_json *json, tri_encoder *e);
tri_status tri__modernbert_check(const tri_encoder *e);
void tri__modernbert_write(const tri_encoder *e, tri_json *json);
