/* fuzz_tokenizer_config.c - the files beside a vocabulary: tokenizer_config.json, special_tokens_map.json and
 * added_tokens.json, each up to a 0 byte. What is read is saved, and read again as the same tokenizer. */
#include "fuzz.h"

#include "base/file.h"
#include "data/text/tokenizer.h"

#include <string.h>

enum { MAX_LEN = 32 };
static const char vocabulary[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\na\n##s\n<\nx\n>\n[\n]\n";
static const char text[] = "The a[MASK] <x> the [CLS] as <X>  b";

/* The next part of the input into a file; {} where there is none. */
static void put(const char *name, const uint8_t **data, size_t *size) {
    const uint8_t *end = *size ? memchr(*data, 0, *size) : NULL;
    size_t used = end ? (size_t)(end - *data) : *size;
    fuzz_hold(name, used ? (const void *)*data : "{}", used ? used : 2);
    used += end != NULL;
    *data += used, *size -= used;
}

static int encode(const tri_tokenizer *tokenizer, int32_t ids[static MAX_LEN]) {
    int n = tri__tokenizer_encode(tokenizer, text, sizeof text - 1, MAX_LEN, ids);
    FUZZ_CHECK(n >= 0 && n <= MAX_LEN);
    for (int i = 0; i < n; i++) FUZZ_CHECK(ids[i] >= 0 && ids[i] < tri__tokenizer_size(tokenizer));
    return n;
}

static void check_saved(const tri_tokenizer *tokenizer) {
    char folder[TRI_PATH_MAX];
    int32_t ids[MAX_LEN], again[MAX_LEN];
    tri_tokenizer *saved;
    FUZZ_CHECK(tri__path_join(folder, fuzz_folder(), "saved") == TRI_OK);
    FUZZ_CHECK(tri__tokenizer_save(tokenizer, folder) == TRI_OK);
    FUZZ_CHECK(tri__tokenizer_load(folder, &saved) == TRI_OK);
    FUZZ_CHECK(tri__tokenizer_hash(saved) == tri__tokenizer_hash(tokenizer));
    int n = encode(tokenizer, ids);
    FUZZ_CHECK(encode(saved, again) == n && !memcmp(ids, again, (size_t)n * sizeof *ids));
    tri__tokenizer_free(saved);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tri_tokenizer *tokenizer;
    fuzz_hold("vocab.txt", vocabulary, sizeof vocabulary - 1);
    put("tokenizer_config.json", &data, &size);
    put("special_tokens_map.json", &data, &size);
    put("added_tokens.json", &data, &size);
    tri_status status = tri__tokenizer_load(fuzz_folder(), &tokenizer);
    FUZZ_CHECK(status == TRI_OK ? tokenizer != NULL
                                : status == TRI_DATA || status == TRI_USAGE || status == TRI_NOINPUT);
    if (tokenizer) check_saved(tokenizer);
    tri__tokenizer_free(tokenizer);
    return 0;
}
