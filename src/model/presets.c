/* presets.c - encoders of known names. */
#include "model/family.h"

/* Sizes of large and base models, and what RoBERTa's and DeBERTa-v3's have in common. */
#define LARGE \
    ", \"hidden_size\": 1024, \"num_hidden_layers\": 24, \"num_attention_heads\": 16, \"intermediate_size\": 4096"
#define ROBERTA ", \"max_position_embeddings\": 514, \"type_vocab_size\": 1, \"layer_norm_eps\": 1e-5"

#define BASE ", \"hidden_size\": 768, \"num_attention_heads\": 12, \"intermediate_size\": 3072"
#define DEBERTA_V3 \
    "\"model_type\": \"deberta-v2\", \"vocab_size\": 128100, \"type_vocab_size\": 0, \"pos_att_type\": \"p2c|c2p\", " \
    "\"relative_attention\": true, \"share_att_key\": true, \"position_biased_input\": false, " \
    "\"position_buckets\": 256, \"norm_rel_ebd\": \"layer_norm\""

/* What a model's config.json has, except what its family has by default. */
static const struct {
    const char *name, *config;
    const char *vocabulary; /* another name with the same vocabulary; NULL */
} presets[] = {
    {"bert-base-cased", "{\"model_type\": \"bert\", \"vocab_size\": 28996}", NULL},
    {"bert-base-uncased", "{\"model_type\": \"bert\"}", NULL},
    {"bert-base-multilingual-cased", "{\"model_type\": \"bert\", \"vocab_size\": 119547}", NULL},
    {"bert-large-cased", "{\"model_type\": \"bert\", \"vocab_size\": 28996" LARGE "}", "bert-base-cased"},
    {"bert-large-uncased", "{\"model_type\": \"bert\"" LARGE "}", "bert-base-uncased"},
    {"all-MiniLM-L6-v2",
     "{\"model_type\": \"bert\", \"hidden_size\": 384, \"num_hidden_layers\": 6, \"intermediate_size\": 1536}",
     "bert-base-uncased"},
    {"roberta-base", "{\"model_type\": \"roberta\"" ROBERTA "}", NULL},
    {"roberta-large", "{\"model_type\": \"roberta\"" ROBERTA LARGE "}", "roberta-base"},
    {"distilroberta-base", "{\"model_type\": \"roberta\", \"num_hidden_layers\": 6" ROBERTA "}", "roberta-base"},
    {"distilbert-base-uncased", "{\"model_type\": \"distilbert\"}", "bert-base-uncased"},
    {"distilbert-base-cased", "{\"model_type\": \"distilbert\", \"vocab_size\": 28996}", "bert-base-cased"},
    {"distilbert-base-multilingual-cased", "{\"model_type\": \"distilbert\", \"vocab_size\": 119547}",
     "bert-base-multilingual-cased"},
    {"electra-small-discriminator", "{\"model_type\": \"electra\"}", "bert-base-uncased"},
    {"electra-base-discriminator",
     "{\"model_type\": \"electra\", \"embedding_size\": 768" BASE "}", "bert-base-uncased"},
    {"electra-large-discriminator", "{\"model_type\": \"electra\", \"embedding_size\": 1024" LARGE "}",
     "bert-base-uncased"},
    {"xlm-roberta-base", "{\"model_type\": \"xlm-roberta\", \"vocab_size\": 250002" ROBERTA "}", NULL},
    {"xlm-roberta-large", "{\"model_type\": \"xlm-roberta\", \"vocab_size\": 250002" ROBERTA LARGE "}",
     "xlm-roberta-base"},
    {"mpnet-base", "{\"model_type\": \"mpnet\", \"max_position_embeddings\": 514, \"layer_norm_eps\": 1e-5}", NULL},
    {"all-mpnet-base-v2", "{\"model_type\": \"mpnet\", \"max_position_embeddings\": 514, \"layer_norm_eps\": 1e-5}",
     "mpnet-base"},
    {"deberta-v3-base", "{" DEBERTA_V3 BASE ", \"num_hidden_layers\": 12}", NULL},
    {"deberta-v3-small", "{" DEBERTA_V3 BASE ", \"num_hidden_layers\": 6}", "deberta-v3-base"},
    {"deberta-v3-xsmall",
     "{" DEBERTA_V3 ", \"hidden_size\": 384, \"num_hidden_layers\": 12, \"num_attention_heads\": 6, "
     "\"intermediate_size\": 1536}", "deberta-v3-base"},
    {"deberta-v3-large", "{" DEBERTA_V3 LARGE "}", "deberta-v3-base"},
    {"ModernBERT-base", "{\"model_type\": \"modernbert\"}", NULL},
    {"ModernBERT-large",
     "{\"model_type\": \"modernbert\", \"hidden_size\": 1024, \"num_hidden_layers\": 28, \"num_attention_heads\": 16, "
     "\"intermediate_size\": 2624}", "ModernBERT-base"}};

/* By its name, or as ORGANISATION/name; the organisation is not compared. */
static int find(const char *name) {
    int n = sizeof presets / sizeof *presets;
    const char *slash = strchr(name, '/');
    if (slash && slash > name && name[0] != '.' && !strchr(slash + 1, '/')) name = slash + 1;
    for (int i = 0; i < n; i++)
        if (strcmp(name, presets[i].name) == 0) return i;
    return -1;
}

int tri__encoder_preset(const char *name, tri_encoder *encoder) {
    int at = find(name);
    TRI_OWNED(tri__json_drop) tri_json *json = NULL;
    if (at < 0 || tri__json_parse(presets[at].config, strlen(presets[at].config), name, TRI_USAGE, &json) != TRI_OK)
        return 0;
    tri_encoder parsed = {0};
    int known = tri__encoder_parse(json, name, &parsed) == TRI_OK;
    if (known) *encoder = parsed;
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
