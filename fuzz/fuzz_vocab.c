/* fuzz_vocab.c - vocabularies: a vocab.txt, or a vocab.json when it begins with {, up to the first 0 byte; then a text
 * to encode. */
#include "fuzz.h"

#include "data/text/wordpiece.h"

#include <stdlib.h>
#include <string.h>

static tri_status read_vocabulary(const char *data, size_t size, tri_vocabulary *out) {
    if (!size || data[0] != '{') return tri__vocabulary_read_lines("input", data, size, "##", out);
    tri_json *root;
    tri_status status = tri__json_parse(data, size, "input", TRI_DATA, &root);
    if (status == TRI_OK) status = tri__vocabulary_read_json("input", root, size, "##", out);
    tri__json_decref(root);
    return status;
}

/* Every piece is found under its id. */
static void check_pieces(const tri_vocabulary *vocabulary) {
    for (int id = 0; id < vocabulary->n; id++) {
        const char *piece = vocabulary->text + vocabulary->start[id];
        FUZZ_CHECK(strlen(piece) == vocabulary->length[id]);
        if (*piece) FUZZ_CHECK(tri__vocabulary_named(vocabulary, piece) == id);
    }
}

/* The pieces of a word, put together again, are the word. */
static void check_word(const tri_vocabulary *vocabulary, const char *word, size_t length) {
    tri_wordpiece model = {.unknown = vocabulary->n, .max_chars = 100};
    int32_t found[400];
    tri_ids ids = {.at = found, .room = 400};
    tri__wordpiece_encode(&model, vocabulary, word, length, &ids);
    FUZZ_CHECK(ids.n >= (length > 0) && ids.n <= 400);
    size_t at = 0;
    for (int i = 0; i < ids.n; i++) {
        if (found[i] == vocabulary->n) {
            FUZZ_CHECK(ids.n == 1);
            return;
        }
        size_t skip = i ? 2 : 0, bytes = vocabulary->length[found[i]] - skip;
        const char *piece = vocabulary->text + vocabulary->start[found[i]] + skip;
        FUZZ_CHECK(bytes <= length - at && !memcmp(piece, word + at, bytes));
        at += bytes;
    }
    FUZZ_CHECK(at == length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    size_t used = end ? (size_t)(end - data) : size;
    tri_vocabulary vocabulary = {0};
    tri_status status = read_vocabulary((const char *)data, used, &vocabulary);
    FUZZ_CHECK(status == TRI_OK || status == TRI_DATA);
    if (status == TRI_OK) check_pieces(&vocabulary);
    if (end && status == TRI_OK) check_word(&vocabulary, (const char *)end + 1, size - used - 1);
    tri__vocabulary_free(&vocabulary);
    return 0;
}
