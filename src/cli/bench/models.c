/* models.c - models as rows; from a row a vocabulary of one-token words, a table of texts from them, and the model's
 * configuration. */
#include "cli/bench/models.h"

#include "base/file.h"
#include "model/family.h"

const tri_bench_model tri__lab_models[] = {
    {"tiny", "", 1, 2, 64, 4, 300, 2, 16, 0, "bert", 3},
    {"small", "", 1, 4, 512, 8, 2000, 4, 96, 0, "bert", 5},
    /* 1.07 billion parameters: two ranks need 33.2 GiB by DDP, 18.5 GiB by ZeRO-3 */
    {"large", "", 1, 20, 2048, 16, 28996, 2, 128, 0, "bert", 2},
    /* `deep` is that of bench pipeline; `oneb` is bench step's: 1.28 billion parameters, 46 GiB in bf16 on one GPU */
    {"deep", "", 1, 8, 64, 4, 300, 4, 64, 0, "bert", 5},
    {"oneb", "", 1, 24, 2048, 16, 28996, 16, 1024, 0, "bert", 2},
    {0},
};

#define REAL ", 64 texts of up to 512 tokens, 27 % real"
const tri_bench_model tri__step_models[] = {
    {"tiny", "2 x (2 layers x 64), 4 x 16 tokens", 2, 2, 64, 4, 300, 4, 16, 0, "bert", 0},
    {"minilm", "2 x (6 layers x 384), 32 texts of up to 256 tokens, 27 % real", 2, 6, 384, 12, 28996, 32, 256, 1,
     "bert", 0},
    {"base128", "2 x bert-base, 256 x 128 tokens", 2, 12, 768, 12, 28996, 256, 128, 0, "bert", 0},
    {"base512", "2 x bert-base, 64 x 512 tokens", 2, 12, 768, 12, 28996, 64, 512, 0, "bert", 0},
    {"base512real", "2 x bert-base" REAL, 2, 12, 768, 12, 28996, 64, 512, 1, "bert", 0},
    {"large512", "2 x bert-large, 32 x 512 tokens", 2, 24, 1024, 16, 28996, 32, 512, 0, "bert", 0},
    {"oneb", "one encoder, 24 layers x 2048, 16 x 1024 tokens", 1, 24, 2048, 16, 28996, 16, 1024, 0, "bert", 0},
    {"bert", "1 x bert-base" REAL, 1, 12, 768, 12, 28996, 64, 512, 1, "bert", 0},
    {"distilbert", "1 x distilbert-base" REAL, 1, 6, 768, 12, 28996, 64, 512, 1, "distilbert", 0},
    {"electra", "1 x electra-base" REAL, 1, 12, 768, 12, 28996, 64, 512, 1, "electra", 0},
    {"mpnet", "1 x mpnet-base" REAL, 1, 12, 768, 12, 28996, 64, 512, 1, "mpnet", 0},
    {"modernbert", "1 x modernbert-base" REAL, 1, 22, 768, 12, 50368, 64, 512, 1, "modernbert", 0},
    {"deberta", "1 x deberta-v3-base" REAL, 1, 12, 768, 12, 28996, 64, 512, 1, "deberta-v2", 0},
    {0},
};

const tri_bench_model tri__serve_models[] = {
    {"tiny", "2 x (2 layers x 64)", 2, 2, 64, 4, 2000, 0, 512, 1, "bert", 0},
    {"minilm", "2 x (6 layers x 384)", 2, 6, 384, 12, 30522, 0, 512, 1, "bert", 0},
    {"base", "bert-base", 1, 12, 768, 12, 30522, 0, 512, 1, "bert", 0},
    {"large", "bert-large", 1, 24, 1024, 16, 30522, 0, 512, 1, "bert", 0},
    {0},
};

const tri_bench_model *tri__bench_model(const tri_bench_model *models, const char *name, size_t length) {
    for (; models->name; models++)
        if (strlen(models->name) == length && memcmp(models->name, name, length) == 0) return models;
    return NULL;
}

const char *tri__bench_model_names(const tri_bench_model *models, char out[static 256]) {
    int n = 0;
    for (; models->name; models++) n += snprintf(out + n, 256 - (size_t)n, "%s%s", n ? ", " : "", models->name);
    return out;
}

/* ---- texts ---- */

static const char *const specials[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
enum { SPECIALS = sizeof specials / sizeof *specials };

static tri_status save(const char *folder, const char *name, tri_buffer *text) {
    char path[TRI_PATH_MAX];
    tri_status status = text->failed ? tri__fail(TRI_RESOURCE, "no memory to write %s", name)
                                     : tri__path_join(path, folder, name);
    if (status == TRI_OK) status = tri__file_write(path, text->text, text->size);
    tri__buffer_free(text);
    return status;
}

static tri_status write_vocabulary(const char *folder, int n) {
    tri_buffer out = {0};
    for (int i = 0; i < n; i++)
        if (i < SPECIALS) tri__buffer_put(&out, "%s\n", specials[i]);
        else tri__buffer_put(&out, "word%d\n", i);
    return save(folder, "vocab.txt", &out);
}

/* A power of evenly spread numbers in 0..1 gives few long texts and many short ones, with mean 1 / 3.7. */
int tri__bench_tokens(const tri_bench_model *m, int64_t k) {
    double even = fmod(((double)k + 0.5) * 0.6180339887498949, 1);
    int length = (int)(m->tokens * pow(even, 2.7));
    return !m->ragged ? m->tokens : length < 4 ? 4 : length;
}

/* `tokens` tokens, [CLS] and [SEP] included. *random: generator state, carried from text to text. */
static void put_text(tri_buffer *out, int tokens, int vocabulary, uint32_t *random) {
    for (int i = 0; i < tokens - 2; i++) {
        *random = *random * 1664525u + 1013904223u;
        tri__buffer_put(out, "%sword%d", i ? " " : "",
                        SPECIALS + (int)((*random >> 8) % (uint32_t)(vocabulary - SPECIALS)));
    }
    tri__buffer_add(out, ",", 1);
}

/* Labels alternate. */
static tri_status write_table(const tri_bench_model *m, const char *folder, int64_t rows) {
    tri_buffer out = {0};
    uint32_t random = 1;
    tri__buffer_put(&out, "first,%s%slabel\n", m->texts > 1 ? "second," : "", m->timed ? "" : "a,b,c,");
    for (int64_t row = 0; row < rows; row++) {
        for (int text = 0; text < m->texts; text++)
            put_text(&out, tri__bench_tokens(m, row * m->texts + text), m->vocabulary, &random);
        if (!m->timed) tri__buffer_put(&out, "%d,%d,%d,", (int)(row % 7), (int)(row % 11), (int)(row % 13));
        tri__buffer_put(&out, "%d\n", (int)(row % 2));
    }
    return save(folder, "train.csv", &out);
}

/* ---- the configuration ---- */

/* Keys of version 3 that are not its class's defaults. */
static const char deberta[] = "{\"type_vocab_size\": 0, \"relative_attention\": true, \"position_buckets\": 256, "
    "\"norm_rel_ebd\": \"layer_norm\", \"share_att_key\": true, \"pos_att_type\": [\"p2c\", \"c2p\"], "
    "\"position_biased_input\": false, \"max_relative_positions\": -1}";

static tri_status encoder_json(const tri_bench_model *m, tri_json **out) {
    tri_encoder encoder = {0};
    TRI_OWNED(tri__json_drop) tri_json *more = NULL;
    TRI_TRY(tri__family_find(m->family, "bench", &encoder.family));
    const tri_family_row *row = tri__family(&encoder);
    int inner = row->gated ? m->width * 3 / 2 : 4 * m->width, before = row->counts_from_pad ? 2 : 0;
    const struct {
        const char *key;
        int value;
    } sizes[] = {{"vocab_size", m->vocabulary},         {"hidden_size", m->width},
                 {"num_hidden_layers", m->layers},      {"num_attention_heads", m->heads},
                 {"intermediate_size", inner},          {"max_position_embeddings", m->tokens + before}};
    *out = tri__json_pack("{s:s}", "model_type", m->family);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        tri__json_set_new(*out, tri__family_key(row, sizes[i].key), tri__json_integer(sizes[i].value));
    if (strcmp(m->family, "deberta-v2") != 0) return TRI_OK;
    TRI_TRY(tri__json_parse(deberta, strlen(deberta), "bench", TRI_INTERNAL, &more));
    tri__json_update(*out, more);
    return TRI_OK;
}

tri_status tri__bench_config(const tri_bench_model *m, const char *folder, const char *vocab) {
    TRI_OWNED(tri__json_drop) tri_json *encoder = NULL;
    TRI_PATH(path, folder, "config.json");
    TRI_TRY(encoder_json(m, &encoder));
    TRI_OWNED(tri__json_drop) tri_json *config =
        tri__json_pack("{s:s, s:s, s:s, s:O, s:i, s:i, s:i, s:f}", "label_name", "label", "primary_text_name", "first",
                       "primary_tokenizer", vocab, "primary_encoder", encoder, "hidden_common_dim", m->timed ? 64 : 256,
                       "fusion_hidden_dim", m->timed ? 64 : 128, "max_sen_len", m->tokens, "lr", 1e-4);
    if (!m->timed) tri__json_set_new(config, "tab_field_list", tri__json_pack("[s,s,s]", "a", "b", "c"));
    if (m->texts > 1) {
        tri__json_set_new(config, "secondary_text_name", tri__json_string("second"));
        tri__json_set(config, "secondary_encoder", encoder);
    }
    return tri__json_save(path, config);
}

tri_status tri__bench_write(const tri_bench_model *m, const char *folder, int64_t rows) {
    TRI_PATH(vocab, folder, "vocab");
    TRI_PATH(data, folder, "data");
    TRI_TRY(tri__folder_make(vocab));
    TRI_TRY(tri__folder_make(data));
    TRI_TRY(write_vocabulary(vocab, m->vocabulary));
    TRI_TRY(write_table(m, data, rows));
    return tri__bench_config(m, folder, vocab);
}
