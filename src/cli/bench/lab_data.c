/* lab_data.c - a vocabulary of one-token words, texts of equal length from these words, and the configuration of one
 * encoder or of two equal ones. */
#include "cli/bench/lab_data.h"

#include "base/json.h"
#include "cli/bench/made_texts.h"

#include <string.h>

const tri_lab_model tri__lab_models[] = {
    {.name = "tiny",
     .layers = 2,
     .width = 64,
     .heads = 4,
     .vocabulary = 300,
     .samples = 2,
     .tokens = 16,
     .warmup = 1,
     .timed = 3},
    {.name = "small",
     .layers = 4,
     .width = 512,
     .heads = 8,
     .vocabulary = 2000,
     .samples = 4,
     .tokens = 96,
     .warmup = 1,
     .timed = 5},
    /* 1.07 billion parameters: two ranks need 33.2 GiB by DDP, 18.5 GiB by ZeRO-3 */
    {.name = "large",
     .layers = 20,
     .width = 2048,
     .heads = 16,
     .vocabulary = 28996,
     .samples = 2,
     .tokens = 128,
     .warmup = 1,
     .timed = 2},
    /* `deep` is that of bench pipeline; `oneb` is bench step's: 1.28 billion parameters, 46 GiB in bf16 on one GPU */
    {.name = "deep",
     .layers = 8,
     .width = 64,
     .heads = 4,
     .vocabulary = 300,
     .samples = 4,
     .tokens = 64,
     .warmup = 1,
     .timed = 5},
    {.name = "oneb",
     .layers = 24,
     .width = 2048,
     .heads = 16,
     .vocabulary = 28996,
     .samples = 16,
     .tokens = 1024,
     .warmup = 1,
     .timed = 2},
};

/* Labels alternate. */
static tri_status write_table(const tri_lab_model *m, int texts, const char *folder, int64_t rows) {
    char path[TRI_PATH_MAX];
    FILE *out;
    uint32_t random = 1;
    TRI_TRY(tri__made_open(folder, "train.csv", path, &out));
    fputs(texts > 1 ? "text,other,label\n" : "text,label\n", out);
    for (int64_t row = 0; row < rows; row++) {
        for (int text = 0; text < texts; text++) {
            tri__made_text(out, m->tokens, m->vocabulary, &random);
            fputc(',', out);
        }
        fprintf(out, "%d\n", (int)(row % 2));
    }
    return tri__made_close(out, path);
}

static tri_status write_config(const tri_lab_model *m, int texts, const char *folder, const char *vocab) {
    char path[TRI_PATH_MAX];
    tri_json *encoder = tri__json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i}", "model_type", "bert", "vocab_size",
                                       m->vocabulary, "hidden_size", m->width, "num_hidden_layers", m->layers,
                                       "num_attention_heads", m->heads, "intermediate_size", 4 * m->width,
                                       "max_position_embeddings", m->tokens);
    tri_json *config = tri__json_pack("{s:s, s:s, s:s, s:O, s:i, s:i, s:b, s:i, s:i, s:f}", "label_name", "label",
                                      "primary_text_name", "text", "primary_tokenizer", vocab, "primary_encoder",
                                      encoder, "hidden_common_dim", 64, "fusion_hidden_dim", 64, "is_binary", 1,
                                      "num_classes", 2, "max_sen_len", m->tokens, "lr", 1e-4);
    if (config && texts > 1) {
        tri__json_set_new(config, "secondary_text_name", tri__json_string("other"));
        tri__json_set(config, "secondary_encoder", encoder);
    }
    tri_status status = config ? tri__path_join(path, folder, "config.json") : tri__fail(TRI_RESOURCE, "out of memory");
    if (status == TRI_OK) status = tri__json_save(path, config);
    tri__json_decref(encoder);
    tri__json_decref(config);
    return status;
}

tri_status tri__lab_write(const tri_lab_model *model, int texts, const char *folder, int64_t rows) {
    char vocab[TRI_PATH_MAX], data[TRI_PATH_MAX];
    TRI_TRY(tri__made_folders(folder, model->vocabulary, vocab, data));
    TRI_TRY(write_table(model, texts, data, rows));
    return write_config(model, texts, folder, vocab);
}
