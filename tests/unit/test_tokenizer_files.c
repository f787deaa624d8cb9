/* test_tokenizer_files.c - tokenizers from vocab.json with merges.txt and from tokenizer.json: hostile files are
 * refused with file and reason, hostile texts take linear time, hashes distinguish tokenizers, and several threads give
 * the ids of one. */
#include "base/file.h"
#include "data/text/tokenizer.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/test.h"

static char folder[64];

static int forget(void **state) {
    (void)state;
    return tri__is_folder(folder) ? (int)tri__folder_remove(folder) : 0;
}

static int make_folder(void **state) {
    snprintf(folder, sizeof folder, "/tmp/trident-tokenizer-files-%ld", (long)getpid());
    forget(state);
    return (int)tri__folder_make(folder);
}

static void put(const char *name, const char *text) {
    char path[TRI_PATH_MAX];
    assert_int_equal(tri__path_join(path, folder, name), TRI_OK);
    assert_int_equal(tri__file_write(path, text, strlen(text)), TRI_OK);
}

static tri_tokenizer *load(void) {
    tri_tokenizer *tokenizer;
    if (tri__tokenizer_load(folder, &tokenizer) != TRI_OK) fail_msg("%s", tri_error());
    return tokenizer;
}

static void refuses(size_t row, tri_status want, const char *text) {
    tri_tokenizer *tokenizer;
    assert_int_equal(tri__tokenizer_load(folder, &tokenizer), want);
    assert_null(tokenizer);
    if (!strstr(tri_error(), text)) fail_msg("%zu: \"%s\" does not say \"%s\"", row, tri_error(), text);
}

#define VOCABULARY "{\"<s>\": 0, \"</s>\": 1, \"a\": 2, \"b\": 3, \"ab\": 4, \"\\u0120\": 5}"

TEST(refuses_bad_vocabularies_and_merges) {
    static const struct {
        const char *vocabulary, *merges, *config;
        tri_status status;
        const char *want;
    } rows[] = {
        {"{\"a\": 2147483648}", "", NULL, TRI_DATA, "vocab.json: the id of \"a\" is 2147483648"},
        {"{\"a\": -1}", "", NULL, TRI_DATA, "vocab.json: the id of \"a\" is -1"},
        {"{\"a\": 999999}", "", NULL, TRI_DATA, "vocab.json: the id of \"a\" is 999999"},
        {"{\"a\": 1.0}", "", NULL, TRI_DATA, "vocab.json: the id of \"a\" must be a whole number"},
        {"{\"a\": 1, \"b\": 1}", "", NULL, TRI_DATA, "vocab.json: id 1 belongs to \"a\" and to \"b\""},
        {"{\"a\": 1, \"a\": 2}", "", NULL, TRI_DATA, "vocab.json:1"},
        {"{\"\": 1}", "", NULL, TRI_DATA, "vocab.json: id 1 has an empty piece"},
        {"{\"a\\u0000b\": 1}", "", NULL, TRI_DATA, "vocab.json:1"},
        {"{}", "", NULL, TRI_DATA, "vocab.json: the vocabulary must be an object"},
        {"[1]", "", NULL, TRI_DATA, "vocab.json:1:1: an object"},
        {VOCABULARY, "#version: 0.2\na x\n", NULL, TRI_DATA, "merges.txt:2: \"x\" is not a piece"},
        {VOCABULARY, "<0x-1> a\n", NULL, TRI_DATA, "merges.txt:1: \"<0x-1>\" is not a piece"},
        {VOCABULARY, "a b\nb a\n", NULL, TRI_DATA, "merges.txt:2: \"b\" and \"a\" do not make a piece"},
        {VOCABULARY, "ab ab\n", NULL, TRI_DATA, "merges.txt:1: \"ab\" and \"ab\" do not make a piece"},
        {VOCABULARY, "a b\na b\n", NULL, TRI_DATA, "merges.txt:2: \"a\" and \"b\" are merged already, by merge 1"},
        {VOCABULARY, " a\n", NULL, TRI_DATA, "merges.txt:1: a merge takes two pieces"},
        {VOCABULARY, "a\n", NULL, TRI_DATA, "merges.txt:1: \"a\" should be two pieces"},
        {VOCABULARY, "a b a\n", NULL, TRI_DATA, "merges.txt:1: \"a b a\" should be two pieces"},
        {VOCABULARY, "a b\n\n", NULL, TRI_DATA, "merges.txt:2: \"\" should be two pieces"},
        {VOCABULARY, "a b\n", "{\"add_prefix_space\": 1}", TRI_DATA, "add_prefix_space must be true or false"},
        {VOCABULARY, "a b\n", "{\"sep_token\": \"<sep>\"}", TRI_DATA, "special token <sep> is missing"},
        {VOCABULARY, "a b\n", "{\"tokenizer_class\": \"GPT2Tokenizer\", \"add_bos_token\": true}", TRI_USAGE,
         "add_bos_token"},
        {VOCABULARY, "a b\n", "{\"added_tokens_decoder\": {\"8\": {\"content\": \"<x>\"}}}", TRI_DATA,
         "tokenizer_config.json: the added token \"<x>\" should have the id 6"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        make_folder(state);
        put("vocab.json", rows[i].vocabulary);
        put("merges.txt", rows[i].merges);
        if (rows[i].config) put("tokenizer_config.json", rows[i].config);
        refuses(i, rows[i].status, rows[i].want);
    }
    make_folder(state);
    put("vocab.json", VOCABULARY);
    refuses(0, TRI_NOINPUT, "merges.txt");
}

#define PIECES "\"vocab\": {\"[UNK]\": 0, \"a\": 1, \"##b\": 2}"
#define WORDPIECE \
    "\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"[UNK]\", \"continuing_subword_prefix\": \"##\", " PIECES "}"
#define BYTES "\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}"

TEST(refuses_bad_tokenizer_json) {
    static const struct {
        const char *text;
        tri_status status;
        const char *want;
    } rows[] = {
        {"{", TRI_DATA, "tokenizer.json:1"},
        {"{}", TRI_DATA, "there is no model"},
        {"{\"model\": {\"type\": \"WordLevel\"}}", TRI_USAGE,
         "model WordLevel is not known here; known are WordPiece, BPE and Unigram"},
        {"{\"model\": {\"vocab\": {}}}", TRI_USAGE, "model without a type"},
        {"{\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"?\", " PIECES "}}", TRI_DATA,
         "the unknown token \"?\" is missing"},
        {"{\"model\": {\"type\": \"WordPiece\", \"max_input_chars_per_word\": 100000, " PIECES "}}", TRI_DATA,
         "max_input_chars_per_word"},
        {"{\"model\": {\"type\": \"BPE\", " BYTES "}}", TRI_DATA, "model.merges must be an array"},
        {"{\"model\": {\"type\": \"BPE\", \"merges\": [[\"a\", \"c\"]], " BYTES "}}", TRI_DATA,
         "merge 1: \"c\" is not a piece"},
        {"{\"model\": {\"type\": \"BPE\", \"merges\": [\"a b\", 1], " BYTES "}}", TRI_DATA,
         "merge 2: a merge should be"},
        {"{\"model\": {\"type\": \"BPE\", \"merges\": [], \"dropout\": 0.1, " BYTES "}}", TRI_USAGE, "dropout"},
        {"{\"model\": {\"type\": \"BPE\", \"merges\": [], \"byte_fallback\": true, " BYTES "}}", TRI_USAGE,
         "byte_fallback"},
        {"{\"model\": {\"type\": \"BPE\", \"merges\": [], \"end_of_word_suffix\": \"</w>\", " BYTES "}}", TRI_USAGE,
         "end_of_word_suffix"},
        {"{\"model\": {\"type\": \"BPE\", \"merges\": [], \"unk_token\": \"<unk>\", " BYTES "}}", TRI_DATA,
         "\"<unk>\" is missing"},
        {"{\"normalizer\": {\"type\": \"ByteLevel\"}, " WORDPIECE "}", TRI_USAGE,
         "normalizer ByteLevel is not known here"},
        {"{\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFD\"}, {\"type\": "
         "\"Other\"}]}, " WORDPIECE "}",
         TRI_USAGE, "normalizer Other"},
        {"{\"normalizer\": {}, " WORDPIECE "}", TRI_DATA, "normalizer has no type"},
        {"{\"pre_tokenizer\": {\"type\": \"Digits\"}, " WORDPIECE "}", TRI_USAGE,
         "pre_tokenizer Digits is not known here"},
        {"{\"pre_tokenizer\": {\"type\": \"ByteLevel\"}, " WORDPIECE "}", TRI_USAGE, "WordPiece does not go with"},
        {"{\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"ByteLevel\"}, {\"type\": "
         "\"Whitespace\"}]}, " WORDPIECE "}",
         TRI_USAGE, "ByteLevel must be the last"},
        {"{\"pre_tokenizer\": {\"type\": \"Punctuation\", \"behavior\": \"Odd\"}, " WORDPIECE "}", TRI_USAGE,
         "behavior Odd"},
        {"{\"post_processor\": {\"type\": \"Magic\"}, " WORDPIECE "}", TRI_USAGE,
         "post_processor Magic is not known here"},
        {"{\"post_processor\": {\"type\": \"BertProcessing\", \"cls\": [\"a\", 7], \"sep\": [\"a\", 1]}, " WORDPIECE
         "}",
         TRI_DATA, "cls must be [token, id]"},
        {"{\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [], \"pair\": []}, " WORDPIECE "}",
         TRI_DATA, "a template has A once"},
        {"{\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"x\", "
         "\"type_id\": "
         "0}}]}, " WORDPIECE "}",
         TRI_DATA, "no ids for \"x\""},
        {"{\"added_tokens\": [{\"id\": 9, \"content\": \"x\"}], " WORDPIECE "}", TRI_DATA,
         "the added token \"x\" should have the id 3"},
        {"{\"added_tokens\": [{\"id\": 2147483648, \"content\": \"a\"}], " WORDPIECE "}", TRI_DATA,
         "the added token \"a\" should have the id 1"},
        {"{\"added_tokens\": [{\"id\": 3, \"content\": \"\"}], " WORDPIECE "}", TRI_DATA, "empty content"},
        {"{\"added_tokens\": 1, " WORDPIECE "}", TRI_DATA, "added_tokens must be an array"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        make_folder(state);
        put("tokenizer.json", rows[i].text);
        refuses(i, rows[i].status, rows[i].want);
    }
}

TEST(reads_files_without_types) {
    make_folder(state);
    put("tokenizer.json", "{\"model\": {\"unk_token\": \"[UNK]\", \"max_input_chars_per_word\": 100, "
                          "\"continuing_subword_prefix\": \"##\", " PIECES "}}");
    tri_tokenizer *tokenizer = load();
    int32_t ids[8];
    assert_int_equal(tri__tokenizer_encode(tokenizer, "ab", 2, 8, ids), 2);
    assert_int_equal(ids[1], 2);
    assert_string_equal(tri__tokenizer_describe(tokenizer), "WordPiece, 3 pieces, by tokenizer.json");
    tri__tokenizer_free(tokenizer);
}

#define PIECE "[\"<unk>\", 0], [\"a\", -1.5], [\"\xE2\x96\x81\", -2]"
#define UNIGRAM(rest) "{\"model\": {\"type\": \"Unigram\", \"unk_id\": 0, " rest "}}"

TEST(refuses_bad_unigram) {
    static const struct {
        const char *text;
        tri_status status;
        const char *want;
    } rows[] = {
        {UNIGRAM("\"vocab\": []"), TRI_DATA, "tokenizer.json: the vocabulary must be an array"},
        {UNIGRAM("\"vocab\": {\"a\": 0}"), TRI_DATA, "the vocabulary must be an array"},
        {UNIGRAM("\"vocab\": [[\"a\"]]"), TRI_DATA, "id 0 must be [piece, score]"},
        {UNIGRAM("\"vocab\": [[\"a\", \"1\"]]"), TRI_DATA, "id 0 must be [piece, score]"},
        {UNIGRAM("\"vocab\": [[\"a\", NaN]]"), TRI_DATA, "tokenizer.json:1:"},
        {UNIGRAM("\"vocab\": [[\"a\", 1e999]]"), TRI_DATA, "tokenizer.json:1:"},
        {UNIGRAM("\"vocab\": [" PIECE ", [\"\", -1]]"), TRI_DATA, "id 3 has a piece of 0 bytes"},
        {UNIGRAM("\"vocab\": [" PIECE ", [\"a\", -1]]"), TRI_DATA, "piece \"a\" has ids 1 and 3"},
        {"{\"model\": {\"type\": \"Unigram\", \"unk_id\": 3, \"vocab\": [" PIECE "]}}", TRI_DATA,
         "unk_id must be an id of the vocabulary, 0 to 2"},
        {"{\"model\": {\"type\": \"Unigram\", \"unk_id\": null, \"vocab\": [" PIECE "]}}", TRI_DATA, "unk_id"},
        {UNIGRAM("\"nbest_size\": 64, \"vocab\": [" PIECE "]"), TRI_USAGE, "nbest_size of Unigram"},
        {"{\"pre_tokenizer\": {\"type\": \"ByteLevel\"}, \"model\": {\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": "
         "[" PIECE "]}}",
         TRI_USAGE, "Unigram does not go with"},
        {"{\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"__\"}}", TRI_DATA, "one character"},
        {"{\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": \"no\"}}", TRI_DATA,
         "prepend_scheme of Metaspace"},
        {"{\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"_\", \"add_prefix_space\": false}}",
         TRI_DATA, "add_prefix_space of Metaspace is false"},
        {"{\"normalizer\": {\"type\": \"Nmt\"}, \"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"_\", "
         "\"prepend_scheme\": \"first\"}}",
         TRI_USAGE, "\"first\" of Metaspace after a normalizer"},
        {"{\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"Regex\": \"a+\"}, \"content\": \"\"}}", TRI_USAGE,
         "the regular expression a+ of Replace"},
        {"{\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \"\"}, \"content\": \"b\"}}", TRI_DATA,
         "the pattern of Replace"},
        {"{\"normalizer\": {\"type\": \"Precompiled\"}}", TRI_DATA, "precompiled_charsmap must be a text"},
        {"{\"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": \"AAA\"}}", TRI_DATA, "not base64"},
        {"{\"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": \"AA=A\"}}", TRI_DATA, "not base64"},
        {"{\"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": \"AAB=\"}}", TRI_DATA, "not base64"},
        {"{\"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": \"////fwAA\"}}", TRI_DATA,
         "has 6 bytes, but says that its trie has 2147483647"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        make_folder(state);
        put("tokenizer.json", rows[i].text);
        refuses(i, rows[i].status, rows[i].want);
    }
    make_folder(state);
    put("spm.model", "");
    put("config.json", "{\"model_type\": \"deberta-v2\"}");
    refuses(0, TRI_NOINPUT, "AutoTokenizer.from_pretrained('/tmp/trident-tokenizer-files-");
}

/* A folder with a character map of 256 units, of which these are not 0, and the replacements "x" and "". */
static void put_map(const uint32_t (*units)[2], size_t n) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned char data[4 + 1024 + 3] = {[1] = 4, [1028] = 'x'};
    char text[2048] = "{\"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": \"",
         *at = text + strlen(text);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < 4; k++) data[4 + 4 * units[i][0] + (size_t)k] = (unsigned char)(units[i][1] >> 8 * k);
    for (size_t i = 0; i < 1029; i += 3) /* a multiple of 3 */
        for (int k = 0; k < 4; k++)
            *at++ = letters[((uint32_t)data[i] << 16 | (uint32_t)data[i + 1] << 8 | data[i + 2]) >> (18 - 6 * k) & 63];
    strcpy(at, "\"}, \"model\": {\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"<unk>\", 0], [\"x\", -1]]}}");
    make_folder(NULL);
    put("tokenizer.json", text);
}

#define UNIT(label, leaf, offset) ((uint32_t)(label) | (uint32_t)(leaf) << 8 | (uint32_t)(offset) << 10)
#define MAP(...) put_map((const uint32_t[][2]){__VA_ARGS__}, sizeof((const uint32_t[][2]){__VA_ARGS__}) / 8)

TEST(follows_every_path_of_a_map) {
    int32_t ids[8];
    MAP({0, UNIT(0, 0, 1)}, {0x60, UNIT('a', 1, 0x40)}, {0x20, 1u << 31}); /* a: x */
    tri_tokenizer *tokenizer = load();
    assert_int_equal(tri__tokenizer_encode(tokenizer, "a", 1, 8, ids), 1);
    assert_int_equal(ids[0], 1);
    assert_int_equal(tri__tokenizer_encode(tokenizer, "ba\xCC\x81", 4, 8, ids), 2); /* the accent goes with a */
    assert_int_equal(ids[1], 1);
    tri__tokenizer_free(tokenizer);
    MAP({0, UNIT(0, 0, 1)}, {0x60, UNIT('a', 0, 0x61)});
    refuses(1, TRI_DATA, "tokenizer.json: precompiled_charsmap: the trie has a cycle, at unit 1");
    MAP({0, UNIT(0, 0, 1)}, {0x60, UNIT('a', 0, 0x400)});
    refuses(2, TRI_DATA, "the trie leads outside of itself, to unit 1120 of 256");
    MAP({0, UNIT(0, 0, 0x3FFFFF)});
    refuses(3, TRI_DATA, "the trie leads outside of itself");
    MAP({0, UNIT(0, 0, 1)}, {0x60, UNIT('a', 1, 0x40)}, {0x20, 1u << 31 | 2});
    refuses(4, TRI_DATA, "a replacement begins at byte 2, where there is none");
}

static uint64_t hash_of(const char *vocabulary, const char *merges, const char *config) {
    make_folder(NULL);
    put("vocab.json", vocabulary);
    put("merges.txt", merges);
    put("tokenizer_config.json", config);
    tri_tokenizer *tokenizer = load();
    uint64_t hash = tri__tokenizer_hash(tokenizer);
    tri__tokenizer_free(tokenizer);
    return hash;
}

TEST(hashes_tell_tokenizers_apart) {
    static const char *const merges[] = {"a b\n", "", "a b\nab ab\n", "ab ab\na b\n"};
    static const char vocabulary[] = "{\"<s>\": 0, \"</s>\": 1, \"a\": 2, \"b\": 3, \"ab\": 4, \"abab\": 5}";
    static const char moved[] = "{\"<s>\": 0, \"</s>\": 1, \"b\": 2, \"a\": 3, \"ab\": 4, \"abab\": 5}";
    uint64_t hash[6];
    for (int i = 0; i < 4; i++) hash[i] = hash_of(vocabulary, merges[i], "{}");
    hash[4] = hash_of(moved, merges[0], "{}");
    hash[5] = hash_of(vocabulary, merges[0], "{\"add_prefix_space\": true}");
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < i; k++) assert_true(hash[i] != hash[k]);
    assert_true(hash[0] == hash_of(vocabulary, merges[0], "{}"));
}

/* All bytes, and pieces of 2, 4, ... 256 times a, with their merges. */
static void make_byte_level(void) {
    char *vocabulary = malloc(1 << 16), merges[2048] = "#version: 0.2\n", *v = vocabulary, *m = merges + strlen(merges);
    v += sprintf(v, "{\"<s>\": 0, \"</s>\": 1");
    for (int byte = 0; byte < 256; byte++) {
        int plain = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
        int code = plain ? byte : 256 + (byte <= 32 ? byte : byte == 173 ? 67 : byte - 94);
        v += sprintf(v, ", \"\\u%04x\": %d", code, byte + 2);
    }
    for (int length = 2, id = 258; length <= 256; length *= 2, id++) {
        char word[257];
        memset(word, 'a', (size_t)length);
        word[length] = 0;
        v += sprintf(v, ", \"%s\": %d", word, id);
        m += sprintf(m, "%.*s %.*s\n", length / 2, word, length / 2, word);
    }
    strcpy(v, "}");
    make_folder(NULL);
    put("vocab.json", vocabulary);
    put("merges.txt", merges);
    free(vocabulary);
}

/* Seconds of this process: others' work on the machine does not count. */
static double cpu(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SLOWER = 30 };
#else
enum { SLOWER = 1 };
#endif

static double time_of(const tri_tokenizer *tokenizer, const char *unit, size_t size) {
    char *text = malloc(size);
    int32_t *ids = malloc((2 * size + 16) * sizeof *ids);
    for (size_t i = 0, n = strlen(unit); i < size; i++) text[i] = unit[i % n];
    double begin = cpu();
    assert_true(tri__tokenizer_encode(tokenizer, text, size, (int)(2 * size + 16), ids) > 0);
    double seconds = cpu() - begin;
    free(text);
    free(ids);
    return seconds;
}

TEST(takes_linear_time) {
    static const char *const units[] = {"a",   "aaab", "a ", " ",           "\n",
                                        "'s",  "!",    "1",  "\xCC\x81",    "a\xCC\x81\xCC\xA7",
                                        "<s>", "<",    "<s", "\xE4\xB8\xAD"};
    make_byte_level();
    tri_tokenizer *tokenizer = load();
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        double few = time_of(tokenizer, units[i], 100000), many = time_of(tokenizer, units[i], 1000000);
        if (many > 1.0 * SLOWER || many > 40 * few + 0.05 * SLOWER)
            fail_msg("\"%s\": 100,000 bytes take %.3f s, 1,000,000 %.3f s", units[i], few, many);
    }
    tri__tokenizer_free(tokenizer);
    /* marks are sorted, not bubbled */
    make_folder(NULL);
    put("tokenizer.json", "{\"normalizer\": {\"type\": \"NFC\"}, " WORDPIECE "}");
    tokenizer = load();
    assert_true(time_of(tokenizer, "\xCC\x95\xCC\xA7\xCC\x81", 999999) < 1.0 * SLOWER);
    tri__tokenizer_free(tokenizer);
    /* one word, one cluster, or many */
    MAP({0, UNIT(0, 0, 1)}, {0x60, UNIT('a', 1, 0x40)}, {0x20, 1u << 31});
    tokenizer = load();
    static const char *const clusters[] = {"a", "ab ", "\xCC\x81", "\xE0\xA4\x95\xE0\xA5\x8D", "\xC2\xA9\xE2\x80\x8D"};
    for (size_t i = 0; i < sizeof clusters / sizeof *clusters; i++)
        assert_true(time_of(tokenizer, clusters[i], 999999) < 1.0 * SLOWER);
    tri__tokenizer_free(tokenizer);
}

enum { THREADS = 4, TEXTS = 2000, IDS = 64 };

typedef struct worker {
    const tri_tokenizer *tokenizer;
    int32_t ids[TEXTS][IDS];
    int n[TEXTS];
} worker;

static void *encode_all(void *to) {
    worker *w = to;
    for (int i = 0; i < TEXTS; i++) {
        char text[64];
        snprintf(text, sizeof text, "%.*s word%d aa%d a%d", i % 9, "aaaaaaaaa", i % 300, i % 70, i);
        w->n[i] = tri__tokenizer_encode(w->tokenizer, text, strlen(text), IDS, w->ids[i]);
    }
    return NULL;
}

TEST(threads_agree) {
    make_byte_level();
    tri_tokenizer *shared = load(), *alone = load();
    worker *w = calloc(THREADS + 1, sizeof *w);
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++) {
        w[i].tokenizer = shared;
        assert_int_equal(pthread_create(&thread[i], NULL, encode_all, &w[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    w[THREADS].tokenizer = alone;
    encode_all(&w[THREADS]);
    for (int i = 0; i < THREADS; i++) {
        assert_memory_equal(w[i].n, w[THREADS].n, sizeof w->n);
        assert_memory_equal(w[i].ids, w[THREADS].ids, sizeof w->ids);
    }
    free(w);
    tri__tokenizer_free(shared);
    tri__tokenizer_free(alone);
}

/* What does not fit is cut, special tokens last. */
TEST(cuts_to_any_length) {
    make_byte_level();
    tri_tokenizer *tokenizer = load();
    int32_t ids[16];
    for (int max_len = 1; max_len < 10; max_len++) {
        ids[max_len] = -7;
        int n = tri__tokenizer_encode(tokenizer, "bcd", 3, max_len, ids);
        assert_int_equal(n, max_len < 5 ? max_len : 5);
        assert_int_equal(ids[max_len], -7);
        assert_int_equal(ids[0], 0);
        if (max_len > 1) assert_int_equal(ids[n - 1], 1);
    }
    assert_int_equal(tri__tokenizer_encode(tokenizer, "", 0, 16, ids), 2);
    tri__tokenizer_free(tokenizer);
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_folder, forget); }
