/* vocab.c - `trident vocab`: learns a WordPiece vocabulary from texts, and writes a tokenizer folder. */
#include "cli/read_texts.h"

#include "data/text/tokenizer.h"

typedef struct options {
    int64_t size;
    int lower_case;
} options;

#define ROW(kind, field, ...) TRI_OWN_ROW(options, "vocab", kind, field, __VA_ARGS__)
const tri_option tri__vocab_options[] = {
    ROW(INT, size, .value = "30000", .min = 7, .max = 1e7, .help = "most pieces of the vocabulary"),
    ROW(BOOL, lower_case, .value = "false", .help = "lower-case texts and strip accents, now and when it is used"),
    TRI_OWN_END(options)};

/* All texts, one after another, a 0 byte after each. */
typedef struct corpus {
    tri_buffer data;
    int64_t n;
} corpus;

static tri_status collect(void *to, const tri_text_batch *batch) {
    corpus *c = to;
    for (int i = 0; i < batch->n; i++) {
        const char *at = batch->data.text + batch->start[i], *end = at + tri__batch_length(batch, i);
        for (const char *stop; at < end; at = stop + 1) { /* BERT ignores 0 bytes */
            stop = memchr(at, 0, (size_t)(end - at));
            if (!stop) stop = end;
            tri__buffer_add(&c->data, at, (size_t)(stop - at));
        }
        tri__buffer_add(&c->data, "", 1);
    }
    if (c->data.failed) return tri__fail(TRI_RESOURCE, "out of memory for the texts; learn from fewer of them");
    c->n += batch->n;
    return TRI_OK;
}

static tri_status train(const corpus *c, const options *own, const char *output) {
    TRI_OWNED(tri__free_at) const char **texts = malloc(((size_t)c->n + 1) * sizeof *texts);
    const char *at = c->data.text;
    if (!texts) return tri__fail(TRI_RESOURCE, "out of memory for the texts; learn from fewer of them");
    for (int64_t i = 0; i < c->n; i++) texts[i] = at, at += strlen(at) + 1;
    return tri__wordpiece_train(texts, c->n, (int)own->size, own->lower_case, output);
}

static tri_status report(tri_cli *cli, const tri_settings *settings, const corpus *c) {
    TRI_OWNED(tri__tokenizer_drop) tri_tokenizer *tokenizer = NULL;
    char texts[32], bytes[32];
    TRI_TRY(tri__tokenizer_load(settings->output, &tokenizer));
    if (settings->json)
        return tri__print_json_new(cli->out, tri__json_pack("{s:s, s:i, s:I}", "folder", settings->output, "pieces",
                                                            tri__tokenizer_size(tokenizer), "texts",
                                                            (tri_json_int)c->n));
    fprintf(cli->out, "%s: %s, learnt from %s texts, %s\n", settings->output, tri__tokenizer_describe(tokenizer),
            tri__text_count(c->n, texts), tri__text_bytes((double)(c->data.size - (size_t)c->n), bytes));
    return TRI_OK;
}

/* A folder of another tokenizer keeps its vocabulary. */
static tri_status check_output(const tri_settings *settings, const tri_texts_from *from) {
    static const char *const names[] = {"vocab.txt", "tokenizer_config.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        TRI_PATH(path, settings->output, names[i]);
        const tri_output output = {.option = "-o", .path = path, .words = from->file, .n_words = from->n};
        if (tri__is_file(path)) TRI_TRY(tri__output_check(settings, &output));
    }
    return TRI_OK;
}

tri_status tri__command_vocab(tri_cli *cli, tri_command_call *call) {
    const tri_settings *settings = &call->settings;
    tri_texts_from from;
    corpus c = {0};
    TRI_TRY(tri__texts_from(call, &from));
    if (!settings->output) return tri__fail(TRI_USAGE, "vocab needs -o: the folder to write");
    TRI_TRY(check_output(settings, &from));
    tri_status status = tri__texts_read(&from, collect, &c);
    if (status == TRI_OK) status = train(&c, call->own, settings->output);
    if (status == TRI_OK) status = report(cli, settings, &c);
    tri__buffer_free(&c.data);
    return status;
}
