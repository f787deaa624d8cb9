/* family.c - the table of encoder families. */
#include "model/family.h"

#include <stdio.h>
#include <string.h>

/* ---- What families have in common ---- */

/* Of encoders with num_experts. */
#define EXPERTS .experts_per_token = 1, .expert_capacity_factor = 1.25, .router_aux_loss_coef = 0.01, .expert_every = 2
/* Defaults of BertConfig, and of the classes that were made from it. */
#define DEFAULTS(family_, vocab_, types_, pad_) \
    { \
        .family = TRI_FAMILY_##family_, .vocab_size = (vocab_), .hidden_size = 768, .num_hidden_layers = 12, \
        .num_attention_heads = 12, .intermediate_size = 3072, .max_position_embeddings = 512, \
        .type_vocab_size = (types_), .pad_token_id = (pad_), .hidden_dropout_prob = 0.1, \
        .attention_probs_dropout_prob = 0.1, .initializer_range = 0.02, .layer_norm_eps = 1e-12, EXPERTS \
    }

static const tri_layer_names bert_names = {.layer = "encoder.layer.",
                                           .query = "attention.self.query",
                                           .key = "attention.self.key",
                                           .value = "attention.self.value",
                                           .attention = "attention.output.dense",
                                           .attention_norm = "attention.output.LayerNorm",
                                           .inner = "intermediate.dense",
                                           .outer = "output.dense",
                                           .norm = "output.LayerNorm"};

static const tri_fixed_key bert_fixed[] = {{"position_embedding_type", "\"absolute\"", .checked = 1, .written = 1},
                                           {"is_decoder", "false", .checked = 1},
                                           {0}};

/* ---- RoBERTa ---- */

static const tri_fixed_key roberta_fixed[] = {{"bos_token_id", "0", .written = 1},
                                              {"eos_token_id", "2", .written = 1},
                                              {"position_embedding_type", "\"absolute\"", .checked = 1, .written = 1},
                                              {"is_decoder", "false", .checked = 1},
                                              {0}};

/* ---- The table ---- */

static const tri_family_row rows[TRI_FAMILY_COUNT] = {
    [TRI_FAMILY_BERT] = {.type = "bert",
                         .architecture = "BertModel",
                         .prefix = "bert.",
                         .defaults = DEFAULTS(BERT, 30522, 2, 0),
                         .fixed = bert_fixed,
                         .has_pooler = 1,
                         .names = &bert_names,
                         .params = tri__bert_params,
                         .forward = tri__bert_forward},
    [TRI_FAMILY_ROBERTA] = {.type = "roberta",
                            .architecture = "RobertaModel",
                            .prefix = "roberta.",
                            .defaults = DEFAULTS(ROBERTA, 50265, 2, 1),
                            .fixed = roberta_fixed,
                            .counts_from_pad = 1,
                            .has_pooler = 1,
                            .names = &bert_names,
                            .params = tri__bert_params,
                            .forward = tri__bert_forward},
};

const tri_family_row *tri__family(const tri_encoder *encoder) { return &rows[encoder->family]; }

tri_status tri__family_find(const char *type, const char *origin, tri_family *family) {
    char list[256] = "";
    for (int i = 0; i < TRI_FAMILY_COUNT; i++) {
        size_t used = strlen(list);
        *family = (tri_family)i;
        if (strcmp(type, rows[i].type) == 0) return TRI_OK;
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", rows[i].type);
    }
    return tri__fail(TRI_USAGE, "%s: model_type is \"%s\"; supported are %s", origin, type, list);
}

const char *tri__family_key(const tri_family_row *row, const char *bert) {
    for (const tri_key_name *key = row->keys; key && key->bert; key++)
        if (strcmp(key->bert, bert) == 0) return key->own;
    return bert;
}
