/* fuzz_tokenizer_json.c - a tokenizer.json, up to the first 0 byte; then a text to encode. */
#include "fuzz.h"

#include "data/text/tokenizer.h"

#include <string.h>

enum { MAX_LEN = 64, TEXT_MAX = 300 }; /* ids; bytes of the text, which is cut */

static void check_ids(const tri_tokenizer *tokenizer, const int32_t *ids, int n) {
    FUZZ_CHECK(n >= 0 && n <= MAX_LEN);
    for (int i = 0; i < n; i++)
        FUZZ_CHECK(ids[i] >= 0 && ids[i] < tri__tokenizer_size(tokenizer) && tri__tokenizer_piece(tokenizer, ids[i]));
}

/* Words that the cache knows give the same ids again. */
static void check_text(const tri_tokenizer *tokenizer, const char *text, size_t length) {
    int32_t first[MAX_LEN], again[MAX_LEN];
    int n = tri__tokenizer_encode(tokenizer, text, length, MAX_LEN, first);
    check_ids(tokenizer, first, n);
    FUZZ_CHECK(tri__tokenizer_encode(tokenizer, text, length, MAX_LEN, again) == n);
    FUZZ_CHECK(!memcmp(first, again, (size_t)n * sizeof *first));
    FUZZ_CHECK(tri__tokenizer_encode(tokenizer, text, length, 1, first) <= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    size_t used = end ? (size_t)(end - data) : size;
    fuzz_hold("tokenizer.json", data, used);
    tri_tokenizer *tokenizer;
    tri_status status = tri__tokenizer_load(fuzz_folder(), &tokenizer);
    FUZZ_CHECK(status == TRI_OK ? tokenizer != NULL : status == TRI_DATA || status == TRI_USAGE);
    size_t length = end ? size - used - 1 : 0;
    if (tokenizer) check_text(tokenizer, end ? (const char *)end + 1 : "", length < TEXT_MAX ? length : TEXT_MAX);
    tri__tokenizer_free(tokenizer);
    return 0;
}
