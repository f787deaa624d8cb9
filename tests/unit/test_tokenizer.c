/* test_tokenizer.c - WordPiece folders: truncation, configurations, bad vocabularies, time, training. Ids:
 * test_tokenizer_golden.c */
#include "base/clock.h"
#include "base/file.h"
#include "data/text/tokenizer.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/test.h"

static char root[64]; /* a folder for folders */

static int make_root(void **state) {
    (void)state;
    snprintf(root, sizeof root, "/tmp/trident-tokenizer-%ld", (long)getpid());
    return mkdir(root, 0700);
}

static int remove_root(void **state) {
    (void)state;
    static const char *const folders[] = {"cased", "plain", "uncased", "config", "copy",
                                          "bad",   "empty", "trained", "again"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", root, folders[i]);
        if (tri__is_folder(path)) tri__folder_remove(path);
    }
    return rmdir(root);
}

/* root/name, with a vocab.txt and, when config is not NULL, a tokenizer_config.json. */
static const char *make_folder(const char *name, const char *vocabulary, size_t size, const char *config) {
    static char folder[128];
    char path[192];
    snprintf(folder, sizeof folder, "%s/%s", root, name);
    if (tri__is_folder(folder)) assert_int_equal(tri__folder_remove(folder), TRI_OK);
    assert_int_equal(tri__folder_make(folder), TRI_OK);
    snprintf(path, sizeof path, "%s/vocab.txt", folder);
    if (vocabulary) assert_int_equal(tri__file_write(path, vocabulary, size), TRI_OK);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
    if (config) assert_int_equal(tri__file_write(path, config, strlen(config)), TRI_OK);
    return folder;
}

static tri_tokenizer *load(const char *folder) {
    tri_tokenizer *tokenizer;
    if (tri__tokenizer_load(folder, &tokenizer) != TRI_OK) fail_msg("%s", tri_error());
    return tokenizer;
}

static const char small[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\nA\n\xC3\xA9\ne\n";

TEST(cuts_to_max_len) {
    tri_tokenizer *tokenizer = load(make_folder("cased", small, sizeof small - 1, NULL));
    int32_t ids[8] = {[3] = -7};
    assert_int_equal(tri__tokenizer_encode(tokenizer, "a a a a", 7, 3, ids), 3);
    assert_int_equal(ids[0], 2);
    assert_int_equal(ids[1], 5);
    assert_int_equal(ids[2], 3);
    assert_int_equal(ids[3], -7);
    assert_int_equal(tri__tokenizer_encode(tokenizer, "a a", 3, 2, ids), 2);
    assert_int_equal(ids[1], 3);
    /* "abx" is unknown as a whole, also when only its first piece would fit */
    assert_int_equal(tri__tokenizer_encode(tokenizer, "abx", 3, 3, ids), 3);
    assert_int_equal(ids[1], 1);
    assert_int_equal(tri__tokenizer_encode(tokenizer,
                                           "a\xFF"
                                           "b\xC3",
                                           4, 8, ids),
                     4); /* bytes that are no UTF-8 vanish */
    assert_int_equal(ids[2], 6);
    tri__tokenizer_free(tokenizer);
}

TEST(reads_the_configuration) {
    static const struct {
        const char *folder, *config, *describe;
        int32_t upper, accent; /* ids of "A" and of e with an acute accent */
    } cases[] = {
        {"cased", NULL, "WordPiece, 10 pieces, cased (assumed", 7, 8},
        {"uncased", NULL, "WordPiece, 10 pieces, uncased (assumed", 5, 9},
        {"plain", NULL, "WordPiece, 10 pieces, uncased (assumed", 5, 9},
        {"cased", "{}", "WordPiece, 10 pieces, uncased", 5, 9},
        {"uncased", "{\"do_lower_case\": false}", "WordPiece, 10 pieces, cased", 7, 8},
        {"config", "{\"do_lower_case\": true, \"strip_accents\": false}", "WordPiece, 10 pieces, uncased, accents kept",
         5, 8},
        {"config", "{\"do_lower_case\": false, \"strip_accents\": true}",
         "WordPiece, 10 pieces, cased, accents stripped", 7, 9},
        {"config", "{\"unk_token\": {\"content\": \"a\"}, \"strip_accents\": null}", "WordPiece, 10 pieces, uncased", 5,
         9},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_tokenizer *tokenizer = load(make_folder(cases[i].folder, small, sizeof small - 1, cases[i].config));
        const char *describe = tri__tokenizer_describe(tokenizer);
        if (strncmp(describe, cases[i].describe, strlen(cases[i].describe))) fail_msg("%zu: %s", i, describe);
        int32_t ids[8];
        assert_int_equal(tri__tokenizer_encode(tokenizer, "A \xC3\xA9", 4, 8, ids), 4);
        assert_int_equal(ids[1], cases[i].upper);
        assert_int_equal(ids[2], cases[i].accent);
        tri__tokenizer_free(tokenizer);
    }
}

TEST(refuses_bad_folders) {
    static const struct {
        const char *vocabulary;
        size_t size;
        const char *config, *want;
    } cases[] = {
        {"[UNK]\n[CLS]\n", 0, NULL, "special token [SEP] is missing"},
        {"[CLS]\n[SEP]\n", 0, NULL, "special token [UNK] is missing"},
        {"[UNK]\n[CLS]\n[SEP]\na\n\nb\n", 0, NULL, "vocab.txt:5: empty line"},
        {"[UNK]\n[CLS]\n[SEP]\na\n##a\n##a\n", 0, NULL, "vocab.txt:6: piece \"##a\" is already in line 5"},
        {"[UNK]\n[CLS]\n[SEP]\na\xFF\n", 0, NULL, "vocab.txt:4: invalid UTF-8 byte 0xff"},
        {"[UNK]\n[CLS]\n[SEP]\na\0b\n", 22, NULL, "vocab.txt:4: NUL byte"},
        {"\n", 1, NULL, "vocab.txt:1: empty line"},
        {"\xEF\xBB\xBF", 3, NULL, "vocab.txt:1: the vocabulary is empty"},
        {small, 0, "{\"do_lower_case\": 1}", "do_lower_case must be true or false"},
        {small, 0, "{\"cls_token\": 1}", "cls_token must be a text"},
        {small, 0, "{\"cls_token\": \"<s>\"}", "special token <s> is missing"},
        {small, 0, "{", "tokenizer_config.json:1"},
    };
    tri_tokenizer *tokenizer;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *vocabulary = cases[i].vocabulary;
        make_folder("bad", vocabulary, cases[i].size ? cases[i].size : strlen(vocabulary), cases[i].config);
        char folder[128];
        snprintf(folder, sizeof folder, "%s/bad", root);
        assert_int_equal(tri__tokenizer_load(folder, &tokenizer), TRI_DATA);
        assert_null(tokenizer);
        if (!strstr(tri_error(), cases[i].want))
            fail_msg("%zu: \"%s\" does not say \"%s\"", i, tri_error(), cases[i].want);
    }
    assert_int_equal(tri__tokenizer_load("/tmp/no/such/folder", &tokenizer), TRI_NOINPUT);
    char path[192];
    const char *folder = make_folder("empty", NULL, 0, NULL);
    assert_int_equal(tri__tokenizer_load(folder, &tokenizer), TRI_NOINPUT);
    snprintf(path, sizeof path, "%s/vocab.json", folder);
    assert_int_equal(tri__file_write(path, "{}", 2), TRI_OK);
    assert_int_equal(tri__tokenizer_load(folder, &tokenizer), TRI_DATA);
}

TEST(comes_back_from_a_folder) {
    char copy[128];
    snprintf(copy, sizeof copy, "%s/copy", root);
    tri_tokenizer *first = load(
        make_folder("config", small, sizeof small - 1,
                    "{\"do_lower_case\": false, \"strip_accents\": true, \"sep_token\": \"e\"}"));
    assert_int_equal(tri__tokenizer_save(first, copy), TRI_OK);
    tri_tokenizer *second = load(copy);
    assert_string_equal(tri__tokenizer_describe(first), tri__tokenizer_describe(second));
    assert_int_equal(tri__tokenizer_size(first), tri__tokenizer_size(second));
    for (int i = 0; i < tri__tokenizer_size(first); i++)
        assert_string_equal(tri__tokenizer_piece(first, i), tri__tokenizer_piece(second, i));
    int32_t a[16], b[16];
    const char *text = "A ab \xC3\xA9 [MASK] zz";
    int n = tri__tokenizer_encode(first, text, strlen(text), 16, a);
    assert_int_equal(tri__tokenizer_encode(second, text, strlen(text), 16, b), n);
    assert_memory_equal(a, b, (size_t)n * sizeof *a);
    assert_int_equal(a[n - 1], 9);
    tri__tokenizer_free(first);
    tri__tokenizer_free(second);
}

TEST(takes_linear_time) {
    size_t size = 1000000;
    char *text = malloc(size);
    int32_t *ids = malloc((size + 2) * sizeof *ids);
    tri_tokenizer *tokenizer = load(make_folder("uncased", small, sizeof small - 1, NULL));
    double begin = tri__clock();
    memset(text, 'a', size);
    assert_int_equal(tri__tokenizer_encode(tokenizer, text, size, (int)size, ids), 3);
    for (size_t i = 0; i + 1 < size; i += 2) memcpy(text + i, "\xCC\x81", 2); /* nothing but accents */
    assert_int_equal(tri__tokenizer_encode(tokenizer, text, size, (int)size, ids), 2);
    memset(text, '[', size);
    assert_int_equal(tri__tokenizer_encode(tokenizer, text, size, (int)size + 2, ids), (int)size + 2);
    memset(text, 'b', size);
    for (size_t i = 0; i < size; i += 100) text[i] = 'a';
    for (size_t i = 99; i < size; i += 100) text[i] = ' ';
    assert_int_equal(tri__tokenizer_encode(tokenizer, text, size, (int)size + 2, ids), 10000 * 99 + 2);
    assert_true(tri__clock() - begin < 20); /* well under a second; room for sanitizers on a busy machine */
    tri__tokenizer_free(tokenizer);
    free(text);
    free(ids);
}

TEST(learns_a_vocabulary) {
    static const char *const texts[] = {"low low low low low lower lower newest newest newest newest newest newest",
                                        "Widest widest WIDEST", "caf\xC3\xA9 caf\xC3\xA9"};
    char first[128], again[128], path[192], *one, *two;
    size_t size, other;
    snprintf(first, sizeof first, "%s/trained", root);
    snprintf(again, sizeof again, "%s/again", root);
    assert_int_equal(tri__wordpiece_train(texts, 3, 6, 1, first), TRI_USAGE);
    assert_int_equal(tri__wordpiece_train(texts, 3, 80, 1, first), TRI_OK);
    assert_int_equal(tri__wordpiece_train(texts, 3, 80, 1, again), TRI_OK);
    snprintf(path, sizeof path, "%s/vocab.txt", first);
    assert_int_equal(tri__file_read(path, 1 << 20, &one, &size), TRI_OK);
    snprintf(path, sizeof path, "%s/vocab.txt", again);
    assert_int_equal(tri__file_read(path, 1 << 20, &two, &other), TRI_OK);
    assert_int_equal(size, other);
    assert_memory_equal(one, two, size);
    /* 13 letters begin, 10 continue; then pairs by count: ##e ##s 9, ##es ##t 9, l ##o 7, lo ##w 7, n ##e 6, ##w ##est
     * 6, ... */
    static const char want[] =
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nc\nd\ne\nf\ni\nl\nn\no\nr\ns\nt\nw\n"
        "##a\n##d\n##e\n##f\n##i\n##o\n##r\n##s\n##t\n##w\n##es\n##est\nlo\nlow\nne\n##west\nnewest\n";
    if (strncmp(one, want, sizeof want - 1)) fail_msg("%s", one);
    free(one);
    free(two);
    tri_tokenizer *tokenizer = load(first);
    assert_true(tri__tokenizer_size(tokenizer) <= 80);
    int32_t ids[16];
    for (int i = 0; i < 3; i++) { /* every word is one piece now */
        int n = tri__tokenizer_encode(tokenizer, texts[i], strlen(texts[i]), 16, ids);
        int words = 1;
        for (const char *c = texts[i]; *c; c++) words += *c == ' ';
        assert_int_equal(n, words + 2);
        for (int k = 0; k < n; k++) assert_int_not_equal(ids[k], 1);
    }
    tri__tokenizer_free(tokenizer);
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_root, remove_root); }
