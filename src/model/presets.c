/* presets.c - encoders of known names. */
#include "model/family.h"

#include <string.h>

/* What a model's config.json has, except what its family has by default. */
static const struct {
    const char *name, *config;
    const char *vocabulary; /* another name with the same vocabulary; NULL */
} presets[] = {
    {"bert-base-cased", "{\"model_type\": \"bert\", \"vocab_size\": 28996}", NULL},
    {"bert-base-uncased", "{\"model_type\": \"bert\"}", NULL},
    {"bert-large-cased",
     "{\"model_type\": \"bert\", \"vocab_size\": 28996, \"hidden_size\": 1024, \"num_hidden_layers\": 24, "
     "\"num_attention_heads\": 16, \"intermediate_size\": 4096}",
     "bert-base-cased"},
    {"roberta-base",
     "{\"model_type\": \"roberta\", \"max_position_embeddings\": 514, \"type_vocab_size\": 1, "
     "\"layer_norm_eps\": 1e-5}",
     NULL},
    {"roberta-large",
     "{\"model_type\": \"roberta\", \"hidden_size\": 1024, \"num_hidden_layers\": 24, \"num_attention_heads\": 16, "
     "\"intermediate_size\": 4096, \"max_position_embeddings\": 514, \"type_vocab_size\": 1, "
     "\"layer_norm_eps\": 1e-5}",
     "roberta-base"},
};

static int find(const char *name) {
    int n = sizeof presets / sizeof *presets;
    for (int i = 0; i < n; i++)
        if (strcmp(name, presets[i].name) == 0) return i;
    return -1;
}

int tri__encoder_preset(const char *name, tri_encoder *encoder) {
    int at = find(name);
    tri_json *json;
    if (at < 0 || tri__json_parse(presets[at].config, strlen(presets[at].config), name, TRI_USAGE, &json) != TRI_OK)
        return 0;
    tri_encoder parsed = {0};
    int known = tri__encoder_parse(json, name, &parsed) == TRI_OK;
    if (known) *encoder = parsed;
    tri__json_decref(json);
    return known;
}

const char *tri__encoder_vocabulary(const char *name) {
    int at = find(name);
    return at < 0 ? NULL : presets[at].vocabulary;
}

void tri__encoder_shrink(tri_encoder *e, int64_t layers, int64_t heads) {
    enum { WIDTH = 64, INNER = 256, HEADS = 4 };
    if (e->embedding_size) e->embedding_size = e->embedding_size == e->hidden_size ? WIDTH : WIDTH / 2;
    e->hidden_size = WIDTH, e->intermediate_size = INNER;
    e->num_hidden_layers = layers;
    e->num_attention_heads = heads > HEADS && WIDTH % heads == 0 ? heads : HEADS;
}
