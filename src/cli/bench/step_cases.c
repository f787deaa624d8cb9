/* step_cases.c - a vocabulary of one-token words, a table of texts from them, and the model's configuration. */
#include "cli/bench/step_cases.h"

#include "base/json.h"
#include "cli/bench/made_texts.h"
#include "model/family.h"

#include <math.h>
#include <string.h>

#define REAL ", 64 texts of up to 512 tokens, 27 % real"
/* name, what, texts, layers, width, heads, vocabulary, samples, tokens, ragged, family */
#define CASES(X)                                                                                                       \
    X("tiny", "2 x (2 layers x 64), 4 x 16 tokens", 2, 2, 64, 4, 300, 4, 16, 0, "bert")                                \
    X("minilm", "2 x (6 layers x 384), 32 texts of up to 256 tokens, 27 % real", 2, 6, 384, 12, 28996, 32, 256, 1,     \
      "bert")                                                                                                          \
    X("base128", "2 x bert-base, 256 x 128 tokens", 2, 12, 768, 12, 28996, 256, 128, 0, "bert")                        \
    X("base512", "2 x bert-base, 64 x 512 tokens", 2, 12, 768, 12, 28996, 64, 512, 0, "bert")                          \
    X("base512real", "2 x bert-base" REAL, 2, 12, 768, 12, 28996, 64, 512, 1, "bert")                                  \
    X("large512", "2 x bert-large, 32 x 512 tokens", 2, 24, 1024, 16, 28996, 32, 512, 0, "bert")                       \
    X("oneb", "one encoder, 24 layers x 2048, 16 x 1024 tokens", 1, 24, 2048, 16, 28996, 16, 1024, 0, "bert")          \
    X("bert", "1 x bert-base" REAL, 1, 12, 768, 12, 28996, 64, 512, 1, "bert")                                         \
    X("distilbert", "1 x distilbert-base" REAL, 1, 6, 768, 12, 28996, 64, 512, 1, "distilbert")                        \
    X("electra", "1 x electra-base" REAL, 1, 12, 768, 12, 28996, 64, 512, 1, "electra")                                \
    X("mpnet", "1 x mpnet-base" REAL, 1, 12, 768, 12, 28996, 64, 512, 1, "mpnet")                                      \
    X("modernbert", "1 x modernbert-base" REAL, 1, 22, 768, 12, 50368, 64, 512, 1, "modernbert")                       \
    X("deberta", "1 x deberta-v3-base" REAL, 1, 12, 768, 12, 28996, 64, 512, 1, "deberta-v2")

static const tri_step_case cases[] = {
#define X(...) {__VA_ARGS__},
    CASES(X)
#undef X
};

const char *tri__step_case_names(void) {
#define X(name, ...) ", " name
    return &CASES(X)[2];
#undef X
}

const tri_step_case *tri__step_case_find(const char *name) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(cases[i].name, name) == 0) return &cases[i];
    return NULL;
}

/* Tokens of the k-th text: a power of evenly spread numbers in 0..1 gives few long texts and many short ones, with mean
 * 1 / 3.7. */
static int length_of(const tri_step_case *at, int64_t k) {
    double even = fmod(((double)k + 0.5) * 0.6180339887498949, 1);
    int length = (int)(at->tokens * pow(even, 2.7));
    return !at->ragged ? at->tokens : length < 4 ? 4 : length;
}

static tri_status write_table(const tri_step_case *at, const char *folder, int64_t rows) {
    char path[TRI_PATH_MAX];
    FILE *out;
    uint32_t random = 1;
    TRI_TRY(tri__made_open(folder, "train.csv", path, &out));
    fprintf(out, "first,%sa,b,c,label\n", at->texts > 1 ? "second," : "");
    for (int64_t row = 0; row < rows; row++) {
        for (int text = 0; text < at->texts; text++) {
            tri__made_text(out, length_of(at, row * at->texts + text), at->vocabulary, &random);
            fputc(',', out);
        }
        fprintf(out, "%d,%d,%d,%d\n", (int)(row % 7), (int)(row % 11), (int)(row % 13), (int)(row % 2));
    }
    return tri__made_close(out, path);
}

/* Keys of version 3 that are not its class's defaults. */
static const char deberta[] =
    "{\"type_vocab_size\": 0, \"relative_attention\": true, \"position_buckets\": 256, "
    "\"norm_rel_ebd\": \"layer_norm\", \"share_att_key\": true, \"pos_att_type\": [\"p2c\", \"c2p\"], "
    "\"position_biased_input\": false, \"max_relative_positions\": -1}";

static tri_status encoder_json(const tri_step_case *at, tri_json **out) {
    tri_encoder encoder = {0};
    tri_json *more = NULL;
    TRI_TRY(tri__family_find(at->family, "bench", &encoder.family));
    const tri_family_row *row = tri__family(&encoder);
    int inner = row->gated ? at->width * 3 / 2 : 4 * at->width, before = row->counts_from_pad ? 2 : 0;
    const struct {
        const char *key;
        int value;
    } sizes[] = {{"vocab_size", at->vocabulary},         {"hidden_size", at->width},
                 {"num_hidden_layers", at->layers},      {"num_attention_heads", at->heads},
                 {"intermediate_size", inner},           {"max_position_embeddings", at->tokens + before}};
    tri_json *json = tri__json_pack("{s:s}", "model_type", at->family);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        tri__json_set_new(json, tri__family_key(row, sizes[i].key), tri__json_integer(sizes[i].value));
    tri_status status = TRI_OK;
    if (strcmp(at->family, "deberta-v2") == 0) {
        status = tri__json_parse(deberta, strlen(deberta), "bench", TRI_INTERNAL, &more);
        if (status == TRI_OK) tri__json_update(json, more);
        tri__json_decref(more);
    }
    *out = json;
    return status;
}

static tri_status write_config(const tri_step_case *at, const char *folder, const char *vocab) {
    char path[TRI_PATH_MAX];
    tri_json *encoder;
    TRI_TRY(encoder_json(at, &encoder));
    tri_json *config = tri__json_pack("{s:s, s:s, s:[s,s,s], s:s, s:o, s:i, s:i, s:f, s:b, s:i, s:i, s:f}",
                                      "label_name", "label", "primary_text_name", "first", "tab_field_list", "a", "b",
                                      "c", "primary_tokenizer", vocab, "primary_encoder", encoder,
                                      "hidden_common_dim", 256, "fusion_hidden_dim", 128, "fusion_dropout", 0.1,
                                      "is_binary", 1, "num_classes", 2, "max_sen_len", at->tokens, "lr", 1e-4);
    if (config && at->texts > 1) {
        tri__json_set_new(config, "secondary_text_name", tri__json_string("second"));
        tri__json_set_new(config, "secondary_tokenizer", tri__json_string(vocab));
        tri__json_set(config, "secondary_encoder", encoder);
    }
    tri_status status = config ? tri__path_join(path, folder, "config.json") : tri__fail(TRI_RESOURCE, "out of memory");
    if (status == TRI_OK) status = tri__json_save(path, config);
    tri__json_decref(config);
    return status;
}

tri_status tri__step_case_write(const tri_step_case *at, const char *folder, int batches) {
    char vocab[TRI_PATH_MAX], data[TRI_PATH_MAX];
    TRI_TRY(tri__made_folders(folder, at->vocabulary, vocab, data));
    TRI_TRY(write_table(at, data, (int64_t)batches * at->samples));
    return write_config(at, folder, vocab);
}
