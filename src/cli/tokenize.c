/* tokenize.c - `trident tokenize`: prints one line of token ids per text, in order. Threads share a batch of texts. */
#include "cli/read_texts.h"

#include "data/text/tokenizer.h"
#include "engine/model_folder.h"

typedef struct options {
    int64_t max_len;
    int pieces;
} options;

#define ROW(kind, field, ...) TRI_OWN_ROW(options, "tokenize", kind, field, __VA_ARGS__)
const tri_option tri__tokenize_options[] = {
    ROW(INT, max_len, .value = "0", .min = 0, .max = 1 << 28, .help = "most ids of a text, special tokens too; 0: all"),
    ROW(BOOL, pieces, .value = "false", .help = "print pieces, not ids"), TRI_OWN_END(options)};

typedef struct job {
    tri_cli *cli;
    tri_tokenizer *tokenizer;
    const tri_settings *settings;
    const options *own;
    int threads;
    int64_t texts, ids;
} job;

/* One text's ids; the caller frees them. Without --max-len the buffer fits all ids: normalisation expands a byte to at
 * most 11. */
static int32_t *encode(const job *j, const char *text, size_t length, int *n) {
    int64_t room = j->own->max_len ? j->own->max_len : 11 * (int64_t)length + 256;
    int32_t *ids = malloc((size_t)room * sizeof *ids);
    *n = ids ? tri__tokenizer_encode(j->tokenizer, text, length, (int)room, ids) : -1;
    int32_t *cut = *n > 0 ? realloc(ids, (size_t)*n * sizeof *ids) : NULL;
    return cut ? cut : ids;
}

static void print_plain(const job *j, const int32_t *ids, int n) {
    for (int i = 0; i < n; i++) {
        if (i) fputc(' ', j->cli->out);
        if (j->own->pieces) fputs(tri__tokenizer_piece(j->tokenizer, ids[i]), j->cli->out);
        else fprintf(j->cli->out, "%d", ids[i]);
    }
    fputc('\n', j->cli->out);
}

static tri_status print_json(const job *j, const int32_t *ids, int n) {
    TRI_OWNED(tri__json_drop) tri_json *line = tri__json_object(),
                                       *numbers = tri__json_array(), *pieces = tri__json_array();
    int failed = !line;
    for (int i = 0; i < n; i++) {
        failed |= tri__json_append_new(numbers, tri__json_integer(ids[i]));
        if (j->own->pieces)
            failed |= tri__json_append_new(pieces, tri__json_string(tri__tokenizer_piece(j->tokenizer, ids[i])));
    }
    failed |= tri__json_set(line, "ids", numbers) || (j->own->pieces && tri__json_set(line, "pieces", pieces));
    if (failed) return tri__fail(TRI_RESOURCE, "out of memory while printing JSON");
    return tri__print_json(j->cli->out, line);
}

static tri_status take(void *to, const tri_text_batch *batch) {
    job *j = to;
    TRI_OWNED(tri__free_at) int32_t **ids = calloc((size_t)batch->n, sizeof *ids);
    TRI_OWNED(tri__free_at) int *count = calloc((size_t)batch->n, sizeof *count);
    int failed = !ids || !count;
    if (!failed) {
#pragma omp parallel for schedule(dynamic, 64) num_threads(j->threads) reduction(| : failed)
        for (int i = 0; i < batch->n; i++) {
            ids[i] = encode(j, batch->data.text + batch->start[i], tri__batch_length(batch, i), &count[i]);
            failed |= count[i] < 0;
        }
    }
    tri_status status = failed ? tri__fail(TRI_RESOURCE, "out of memory while tokenising") : TRI_OK;
    for (int i = 0; i < batch->n && status == TRI_OK; i++) {
        if (j->settings->json) status = print_json(j, ids[i], count[i]);
        else print_plain(j, ids[i], count[i]);
        j->ids += count[i];
    }
    j->texts += batch->n;
    for (int i = 0; ids && i < batch->n; i++) free(ids[i]);
    return status;
}

tri_status tri__command_tokenize(tri_cli *cli, tri_command_call *call) {
    const tri_settings *settings = &call->settings;
    char folder[TRI_PATH_MAX], texts[32], ids[32], seconds[32];
    tri_texts_from from;
    int there;
    TRI_TRY(tri__texts_from(call, &from));
    if (!settings->tokenizer)
        return tri__fail(TRI_USAGE, "which tokenizer? e.g. `trident tokenize --tokenizer models/bert-base-cased`");
    TRI_TRY(tri__folder_there(settings->tokenizer, &there));
    if (there) TRI_TRY(tri__path_join(folder, "", settings->tokenizer));
    else TRI_TRY(tri__model_folder(settings, settings->tokenizer, "--tokenizer", folder));
    job j = {.cli = cli, .settings = settings, .own = call->own, .threads = from.threads};
    TRI_TRY(tri__tokenizer_load(folder, &j.tokenizer));
    double begin = tri__clock();
    tri_status status = tri__texts_read(&from, take, &j);
    if (status == TRI_OK && !settings->quiet)
        fprintf(cli->err, "%s: %s texts, %s ids in %s\n", tri__tokenizer_describe(j.tokenizer),
                tri__text_count(j.texts, texts), tri__text_count(j.ids, ids),
                tri__text_seconds(tri__clock() - begin, seconds));
    tri__tokenizer_free(j.tokenizer);
    return status;
}
