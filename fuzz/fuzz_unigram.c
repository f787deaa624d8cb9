/* fuzz_unigram.c - a Unigram tokenizer.json made of the input's parts, and a text to encode:
 *   flags (2 bytes), number of units (1), the units: index (1) and value (4 bytes), of a trie of 64 to 512 units, as
 *   the largest index needs;
 *   replacements, to a byte 0xFF; the vocabulary's JSON, to a 0 byte; the text.
 * The character map is written as base64, or, by a flag, the replacements in its place as they are. */
#include "fuzz.h"

#include "base/json.h"
#include "data/text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LEN = 64, TEXT_MAX = 300, UNITS = 512, JSON_MAX = 1 << 16, BLOB_MAX = 2048 };
enum { /* flags */
    WIDE = 1,        /* every other index is 256 larger */
    RAW = 2,         /* the map is not encoded */
    FALLBACK = 4,
    NO_MAP = 8,
    METASPACE = 16,
    BLANKS = 32,     /* WhitespaceSplit */
    NO_SPLIT = 64,
    FIRST = 128,
    REPLACE = 256,
    REGEX = 512,
    NMT = 1024,
    PREPEND = 2048,
    UNKNOWN = 12     /* shift of the 4 bits of unk_id */
};

typedef struct input {
    const uint8_t *at;
    size_t size;
} input;

/* The input up to a byte, without it; all of it if there is none. */
static input until(input *in, uint8_t byte) {
    const uint8_t *end = in->size ? memchr(in->at, byte, in->size) : NULL;
    input part = {in->at, end ? (size_t)(end - in->at) : in->size};
    in->at += part.size + (end != NULL), in->size -= part.size + (end != NULL);
    return part;
}

static void encode64(const uint8_t *data, size_t n, char *out) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        uint32_t bits = (uint32_t)data[i] << 16 | (i + 1 < n ? (uint32_t)data[i + 1] << 8 : 0) |
                        (i + 2 < n ? (uint32_t)data[i + 2] : 0);
        for (size_t k = 0; k < 4; k++) *out++ = i + k > n ? '=' : letters[bits >> (18 - 6 * k) & 63];
    }
    *out = 0;
}

/* The map's text for the JSON; the caller frees it. */
static char *map_text(input *in, int flags) {
    uint32_t unit[1 + UNITS] = {0};
    size_t units = 64, n = in->size ? in->at[0] : 0;
    if (in->size) in->at++, in->size--;
    for (; n && in->size >= 5; n--, in->at += 5, in->size -= 5) {
        size_t index = in->at[0] + (n & 1 && flags & WIDE ? 256u : 0u);
        memcpy(&unit[1 + index], in->at + 1, 4);
        while (index >= units) units *= 2;
    }
    unit[0] = (uint32_t)(4 * units);
    input blob = until(in, 0xFF);
    if (blob.size > BLOB_MAX) blob.size = BLOB_MAX;
    if (flags & RAW) {
        tri_json *text = tri__json_stringn((const char *)blob.at, blob.size);
        char *written = text ? tri__json_text(text, TRI_JSON_COMPACT) : NULL;
        tri__json_decref(text);
        return written ? written : strdup("\"\"");
    }
    uint8_t data[4 + 4 * UNITS + BLOB_MAX];
    memcpy(data, unit, 4 + 4 * units);
    if (blob.size) memcpy(data + 4 + 4 * units, blob.at, blob.size);
    char *text = malloc(2 * sizeof data);
    FUZZ_CHECK(text != NULL);
    text[0] = '"';
    encode64(data, 4 + 4 * units + blob.size, text + 1);
    strcat(text, "\"");
    return text;
}

/* Writes the file; what remains of the input is the text. */
static void write_file(input *in) {
    static char json[JSON_MAX];
    int flags = 0;
    for (int i = 0; i < 2 && in->size; i++, in->at++, in->size--) flags |= in->at[0] << 8 * i;
    char *map = map_text(in, flags);
    input vocabulary = until(in, 0);
    size_t n = (size_t)snprintf(
        json, sizeof json,
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[%s%s%s%s%s%s{\"type\":\"Strip\"}]},\"pre_tokenizer\":"
        "{\"type\":\"Sequence\",\"pretokenizers\":[%s{\"type\":\"%s\",\"replacement\":\"\xE2\x96\x81\","
        "\"prepend_scheme\":\"%s\",\"split\":%s}]},\"model\":{\"type\":\"Unigram\",\"unk_id\":%d,\"byte_fallback\":%s,"
        "\"vocab\":%.*s}}",
        flags & NO_MAP ? "" : "{\"type\":\"Precompiled\",\"precompiled_charsmap\":", flags & NO_MAP ? "" : map,
        flags & NO_MAP ? "" : "},", flags & NMT ? "{\"type\":\"Nmt\"}," : "",
        flags & PREPEND ? "{\"type\":\"Prepend\",\"prepend\":\"a\"}," : "",
        !(flags & REPLACE) ? ""
        : flags & REGEX    ? "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\"b\"},"
                           : "{\"type\":\"Replace\",\"pattern\":{\"String\":\"ab\"},\"content\":\"ba \"},",
        flags & BLANKS ? "{\"type\":\"WhitespaceSplit\"}," : "", flags & METASPACE ? "Metaspace" : "Whitespace",
        flags & FIRST ? "first" : "always", flags & NO_SPLIT ? "false" : "true", flags >> UNKNOWN & 15,
        flags & FALLBACK ? "true" : "false", (int)(vocabulary.size < 4096 ? vocabulary.size : 4096), vocabulary.at);
    free(map);
    fuzz_hold("tokenizer.json", json, n < sizeof json ? n : sizeof json - 1);
}

static int encode(const tri_tokenizer *tokenizer, const char *text, size_t length, int32_t ids[static MAX_LEN]) {
    int n = tri__tokenizer_encode(tokenizer, text, length, MAX_LEN, ids);
    FUZZ_CHECK(n >= 0 && n <= MAX_LEN);
    for (int i = 0; i < n; i++)
        FUZZ_CHECK(ids[i] >= 0 && ids[i] < tri__tokenizer_size(tokenizer) && tri__tokenizer_piece(tokenizer, ids[i]));
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, size};
    int32_t first[MAX_LEN], again[MAX_LEN];
    tri_tokenizer *tokenizer;
    write_file(&in);
    tri_status status = tri__tokenizer_load(fuzz_folder(), &tokenizer);
    FUZZ_CHECK(status == TRI_OK ? tokenizer != NULL : status == TRI_DATA || status == TRI_USAGE);
    if (!tokenizer) return 0;
    size_t length = in.size < TEXT_MAX ? in.size : TEXT_MAX;
    int n = encode(tokenizer, (const char *)in.at, length, first);
    FUZZ_CHECK(encode(tokenizer, (const char *)in.at, length, again) == n); /* words that the cache knows */
    FUZZ_CHECK(!memcmp(first, again, (size_t)n * sizeof *first));
    tri__tokenizer_free(tokenizer);
    return 0;
}
