/* family.c - the table of encoder families. */
#include "model/family.h"

/* ---- What families have in common ---- */

/* Of encoders with num_experts. */
#define EXPERTS .experts_per_token = 1, .expert_capacity_factor = 1.25, .router_aux_loss_coef = 0.01, .expert_every = 2
/* Defaults of BertConfig that many classes share, and those of base models among them. */
#define COMMON \
    .max_position_embeddings = 512, .hidden_dropout_prob = 0.1, .attention_probs_dropout_prob = 0.1, \
    .initializer_range = 0.02, .layer_norm_eps = 1e-12, EXPERTS
#define BASE .hidden_size = 768, .num_attention_heads = 12, .intermediate_size = 3072

/* Names of layers that all but DistilBERT have. */
#define LAYER \
    .layer = "encoder.layer.", .inner = "intermediate.dense", .outer = "output.dense", .norm = "output.LayerNorm", \
    .attention_dropout = 1

static const tri_layer_names bert_names = {LAYER, .query = "attention.self.query", .key = "attention.self.key",
                                           .value = "attention.self.value", .attention = "attention.output.dense",
                                           .attention_norm = "attention.output.LayerNorm"};

static const tri_fixed_key bert_fixed[] = {{"position_embedding_type", "\"absolute\"", .checked = 1, .written = 1},
                                           {"is_decoder", "false", .checked = 1}, {0}};

/* ---- RoBERTa ---- */

static const tri_fixed_key roberta_fixed[] = {{"bos_token_id", "0", .written = 1}, {"eos_token_id", "2", .written = 1},
                                              {"position_embedding_type", "\"absolute\"", .checked = 1, .written = 1},
                                              {"is_decoder", "false", .checked = 1}, {0}};

/* ---- DistilBERT ---- */

static const tri_layer_names distilbert_names = {.layer = "transformer.layer.", .query = "attention.q_lin",
                                                 .key = "attention.k_lin", .value = "attention.v_lin",
                                                 .attention = "attention.out_lin", .attention_norm = "sa_layer_norm",
                                                 .inner = "ffn.lin1", .outer = "ffn.lin2", .norm = "output_layer_norm"};

static const tri_key_name distilbert_keys[] = {
    {"hidden_size", "dim"}, {"num_hidden_layers", "n_layers"}, {"num_attention_heads", "n_heads"},
    {"intermediate_size", "hidden_dim"}, {"hidden_dropout_prob", "dropout"},
    {"attention_probs_dropout_prob", "attention_dropout"}, {"hidden_act", "activation"}, {"type_vocab_size", NULL},
    {"layer_norm_eps", NULL}, {0}};

/* Sinusoidal positions are not trained. */
static const tri_fixed_key distilbert_fixed[] = {{"sinusoidal_pos_embds", "false", .checked = 1, .written = 1}, {0}};

/* ---- ELECTRA ---- */

static const tri_option electra_keys[] = {TRI_ENCODER_KEY(INT, embedding_size, 1, 65536), {0}};

/* ---- MPNet ---- */

static const tri_layer_names mpnet_names = {LAYER, .query = "attention.attn.q", .key = "attention.attn.k",
                                            .value = "attention.attn.v", .attention = "attention.attn.o",
                                            .attention_norm = "attention.LayerNorm"};

static const tri_key_name mpnet_keys[] = {{"type_vocab_size", NULL}, {0}};

/* transformers reads 32 rows, whatever this says. */
static const tri_option mpnet_own[] = {TRI_ENCODER_KEY(INT, relative_attention_num_buckets, 32, 65536), {0}};

static const tri_fixed_key mpnet_fixed[] = {{"pad_token_id", "1", .checked = 1}, {"bos_token_id", "0", .written = 1},
                                            {"eos_token_id", "2", .written = 1}, {0}};

/* ---- DeBERTa ---- */

static const tri_layer_names deberta_names = {
    LAYER, .query = "attention.self.query_proj", .key = "attention.self.key_proj", .value = "attention.self.value_proj",
    .attention = "attention.output.dense", .attention_norm = "attention.output.LayerNorm", .widens_first = 1};

/* ---- ModernBERT ---- */

static const tri_layer_names modernbert_names = {
    .layer = "layers.", .query = "attn.Wqkv", .attention = "attn.Wo", .attention_norm = "attn_norm",
    .inner = "mlp.Wi", .outer = "mlp.Wo", .norm = "mlp_norm"};

/* ---- The table ---- */

static const tri_family_row rows[] = {
    {.type = "bert", .architecture = "BertModel", .prefix = "bert.",
     .defaults = {COMMON, BASE, .vocab_size = 30522, .num_hidden_layers = 12, .type_vocab_size = 2},
     .fixed = bert_fixed, .has_pooler = 1, .names = &bert_names},
    {.type = "roberta", .architecture = "RobertaModel", .prefix = "roberta.",
     .defaults = {COMMON, BASE, .vocab_size = 50265, .num_hidden_layers = 12, .type_vocab_size = 2, .pad_token_id = 1},
     .fixed = roberta_fixed, .counts_from_pad = 1, .has_pooler = 1, .names = &bert_names},
    {.type = "distilbert", .architecture = "DistilBertModel", .prefix = "distilbert.",
     .defaults = {COMMON, BASE, .vocab_size = 30522, .num_hidden_layers = 6}, .keys = distilbert_keys,
     .fixed = distilbert_fixed, .names = &distilbert_names},
    {.type = "electra", .architecture = "ElectraModel", .prefix = "electra.",
     .defaults = {COMMON, .vocab_size = 30522, .hidden_size = 256, .embedding_size = 128, .num_hidden_layers = 12,
                  .num_attention_heads = 4, .intermediate_size = 1024, .type_vocab_size = 2},
     .fixed = bert_fixed, .own = electra_keys, .names = &bert_names},
    {.type = "xlm-roberta", .architecture = "XLMRobertaModel", .prefix = "roberta.",
     .defaults = {COMMON, BASE, .vocab_size = 30522, .num_hidden_layers = 12, .type_vocab_size = 2, .pad_token_id = 1},
     .fixed = roberta_fixed, .counts_from_pad = 1, .has_pooler = 1, .names = &bert_names},
    {.type = "mpnet", .architecture = "MPNetModel", .prefix = "mpnet.",
     .defaults = {COMMON, BASE, .vocab_size = 30527, .num_hidden_layers = 12, .pad_token_id = 1,
                  .relative_attention_num_buckets = 32},
     .keys = mpnet_keys, .fixed = mpnet_fixed, .own = mpnet_own, .counts_from_pad = 1, .has_pooler = 1,
     .relative = TRI_RELATIVE_BIAS, .names = &mpnet_names, .check = tri__relative_check},
    {.type = "deberta-v2", .architecture = "DebertaV2Model", .prefix = "deberta.",
     .defaults = {.vocab_size = 128100, .hidden_size = 1536, .num_hidden_layers = 24, .num_attention_heads = 24,
                  .intermediate_size = 6144, .max_position_embeddings = 512, .hidden_dropout_prob = 0.1,
                  .attention_probs_dropout_prob = 0.1, .initializer_range = 0.02, .layer_norm_eps = 1e-7,
                  .position_biased_input = 1, .position_buckets = -1, .max_relative_positions = -1, EXPERTS},
     .own = tri__deberta_own, .relative = TRI_RELATIVE_VECTORS, .names = &deberta_names, .parse = tri__deberta_parse,
     .check = tri__deberta_check, .write = tri__deberta_write},
    {.type = "modernbert", .architecture = "ModernBertModel", .prefix = "model.",
     .defaults = {.vocab_size = 50368, .hidden_size = 768, .num_hidden_layers = 22, .num_attention_heads = 12,
                  .intermediate_size = 1152, .max_position_embeddings = 8192, .pad_token_id = 50283,
                  .initializer_range = 0.02, .layer_norm_eps = 1e-5, .local_attention = 128,
                  .global_rope_theta = 160000, .local_rope_theta = 10000, .global_attn_every_n_layers = 3, EXPERTS},
     .keys = tri__modernbert_keys, .own = tri__modernbert_own, .gated = 1, .names = &modernbert_names,
     .params = tri__modernbert_params, .forward = tri__modernbert_forward, .pattern = tri__modernbert_pattern,
     .parse = tri__modernbert_parse, .check = tri__modernbert_check, .write = tri__modernbert_write}};

enum { COUNT = sizeof rows / sizeof rows[0] };

const tri_family_row *tri__family(const tri_encoder *encoder) { return &rows[encoder->family]; }

tri_status tri__family_find(const char *type, const char *origin, int *family) {
    char list[256] = "";
    for (int i = 0; i < COUNT; i++) {
        size_t used = strlen(list);
        *family = i;
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
