/* fuzz_merges.c - a merges.txt, up to the first 0 byte, over a vocabulary of all bytes and all words of a, b and c up
 * to four letters; then a word, encoded and compared with merging done the plain way. */
#include "fuzz.h"

#include "base/text.h"
#include "data/text/bpe.h"
#include "data/text/pre_tokenize.h"

#include <string.h>

enum { PIECES = 256 + 9 + 27 + 81, WORD_MAX = 64 }; /* bytes of the word; what is longer is cut */

static tri_vocabulary vocabulary;

static void make_vocabulary(void) {
    if (vocabulary.n) return;
    FUZZ_CHECK(tri__vocabulary_open(&vocabulary, PIECES, 4096, "") == TRI_OK);
    int32_t id = 0;
    for (int byte = 0; byte < 256; byte++) {
        char utf8[4];
        int bytes = tri__utf8_put(tri__byte_level_char((unsigned char)byte), utf8);
        FUZZ_CHECK(tri__vocabulary_add(&vocabulary, id++, utf8, (size_t)bytes) == -1);
    }
    for (size_t length = 2, count = 9; length <= 4; length++, count *= 3)
        for (size_t number = 0; number < count; number++) {
            char word[4];
            for (size_t i = 0, rest = number; i < length; i++, rest /= 3) word[i] = "abc"[rest % 3];
            FUZZ_CHECK(tri__vocabulary_add(&vocabulary, id++, word, length) == -1);
        }
    FUZZ_CHECK(id == PIECES);
}

/* The first pair by rank, leftmost, again and again. */
static int merge_plainly(const tri_bpe *model, int32_t *ids, int n) {
    for (;;) {
        const tri_merge *best = NULL;
        int at = 0;
        for (int i = 0; i + 1 < n; i++) {
            const tri_merge *merge = tri__merge_find(model, ids[i], ids[i + 1]);
            if (merge->left >= 0 && (!best || merge->rank < best->rank)) best = merge, at = i;
        }
        if (!best) return n;
        ids[at] = best->id;
        memmove(ids + at + 1, ids + at + 2, (size_t)(n - at - 2) * sizeof *ids);
        n--;
    }
}

static void check_word(const tri_bpe *model, const char *word, size_t length) {
    int32_t found[WORD_MAX], plain[WORD_MAX];
    tri_ids ids = {.at = found, .room = WORD_MAX};
    tri_scratch scratch = {0};
    FUZZ_CHECK(tri__bpe_encode(model, &vocabulary, word, length, &scratch, &ids) == TRI_OK);
    FUZZ_CHECK(ids.n <= (int64_t)length);
    tri__scratch_free(&scratch);
    for (size_t i = 0; i < length; i++) plain[i] = model->byte_id[(unsigned char)word[i]];
    int n = merge_plainly(model, plain, (int)length);
    FUZZ_CHECK(n == ids.n && !memcmp(plain, found, (size_t)n * sizeof *plain));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    make_vocabulary();
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    size_t used = end ? (size_t)(end - data) : size;
    tri_bpe model;
    tri_status status = tri__bpe_read_lines("input", (const char *)data, used, 1, &vocabulary, &model);
    FUZZ_CHECK(status == TRI_OK || status == TRI_DATA);
    if (end && status == TRI_OK)
        check_word(&model, (const char *)end + 1, size - used - 1 < WORD_MAX ? size - used - 1 : WORD_MAX);
    tri__bpe_free(&model);
    return 0;
}
