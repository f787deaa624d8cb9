/* test_base.c - status, JSON limits, files, text, option rows, random numbers. */
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/library.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/option.h"
#include "base/random.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/test.h"

static void expect_error(tri_status got, tri_status want, const char *part) {
    if (got != want || !strstr(tri_error(), part))
        fail_msg("expected status %d and \"%s\"; got %d and \"%s\"", want, part, got, tri_error());
}

TEST(test_status) {
    expect_error(tri__fail(TRI_DATA, "row %d", 7), TRI_DATA, "row 7");
    expect_error(tri__fail_in(TRI_DATA, "file %s", "x.csv"), TRI_DATA, "file x.csv: row 7");
    char text[4096];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    tri__fail(TRI_DATA, "%s", text);
    tri__fail_in(TRI_DATA, "%s", text);
    assert_true(strlen(tri_error()) < sizeof text); /* cut, not overrun */
}

/* JSON: text, and a part of the message; NULL where it is accepted. */
static const struct {
    const char *text, *error;
} json_cases[] = {
    {"{}", NULL},
    {"{\"a\": [1, 2.5, \"x\", null, true, {\"b\": {}}]}", NULL},
    {"{\"a\": \"[[[[ \\\" {{{{ \\\\\"}", NULL}, /* brackets in strings do not nest */
    {"", "x.json:1:"},
    {" ", "x.json:1:"},
    {"[]", "x.json:1:1: an object"},
    {"{\"a\": 1, \"a\": 2}", "duplicate"},
    {"{\"a\": {\"b\": 1, \"b\": 1}}", "duplicate"},
    {"{\"a\": 1", "x.json:1:8"},
    {"{\"a\":\n  \"b", "x.json:2:"},
    {"{\"a\": \"b\\", "x.json:1:"},
    {"{\"a\": 1}\n}", "x.json:2:1"},
    {"{\"a\": 1,}", "x.json:1:9"},
    {"{\"a\": nan}", "x.json:1:"},
    {"{\"a\": 1e999}", "x.json:1:"},
    {"{\"a\": 99999999999999999999}", "x.json:1:"},
    {"{\"a\": \"\\u0000\"}", "x.json:1:"},
    {"{\"a\": \"\xff\"}", "x.json:1:"},
    {"{\"a\": \"\xed\xa0\x80\"}", "x.json:1:"},
};

static tri_status parse(const char *text, size_t length) {
    tri_json *root;
    tri_status status = tri__json_parse(text, length, "x.json", TRI_DATA, &root);
    assert_int_equal(status == TRI_OK, root != NULL);
    tri__json_decref(root);
    return status;
}

TEST(test_json) {
    for (size_t i = 0; i < sizeof json_cases / sizeof *json_cases; i++) {
        tri_status status = parse(json_cases[i].text, strlen(json_cases[i].text));
        if (json_cases[i].error) expect_error(status, TRI_DATA, json_cases[i].error);
        else assert_int_equal(status, TRI_OK);
    }
    expect_error(parse("{\"a\":\0 1}", 9), TRI_DATA, "x.json:1:");
    /* every cut of a good text is refused, and nothing reads past its end */
    const char *good = "{\"a\": [\"\\u00e9\\\"\", {\"b\": -1.5e3}]}";
    for (size_t length = 0; length < strlen(good); length++) {
        char *cut = malloc(length + 1); /* +1: malloc(0) may be NULL */
        memcpy(cut, good, length);
        char *exact = length ? realloc(cut, length) : cut;
        assert_int_equal(parse(exact, length), TRI_DATA);
        free(exact);
    }
}

TEST(test_json_limits) {
    size_t size = (size_t)TRI_LIMIT_STRING + 100;
    char *text = malloc(size);
    for (int depth = TRI_LIMIT_JSON_DEPTH - 1; depth <= TRI_LIMIT_JSON_DEPTH + 1; depth++) {
        size_t n = (size_t)sprintf(text, "{\"a\":");
        for (int i = 1; i < depth; i++) text[n++] = '[';
        for (int i = 1; i < depth; i++) text[n++] = ']';
        text[n++] = '}';
        if (depth <= TRI_LIMIT_JSON_DEPTH) assert_int_equal(parse(text, n), TRI_OK);
        else expect_error(parse(text, n), TRI_DATA, "x.json:1:69: nested deeper than 64");
    }
    for (int i = 0; i < 1000 * 1000; i++) text[i] = '[';
    expect_error(parse(text, 1000 * 1000), TRI_DATA, "nested deeper");
    for (int extra = 0; extra <= 1; extra++) {
        size_t n = (size_t)sprintf(text, "{\"a\":\n \"");
        memset(text + n, 'x', (size_t)(TRI_LIMIT_STRING + extra));
        n += (size_t)(TRI_LIMIT_STRING + extra);
        n += (size_t)sprintf(text + n, "\"}");
        if (!extra) assert_int_equal(parse(text, n), TRI_OK);
        else expect_error(parse(text, n), TRI_DATA, "x.json:2:2: a string of more than 1048576 bytes");
    }
    free(text);
}

static char folder[64];

static const char *in_folder(const char *name) {
    static char paths[4][TRI_PATH_MAX];
    static int next;
    char *out = paths[next++ % 4];
    assert_int_equal(tri__path_join(out, folder, name), TRI_OK);
    return out;
}

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/trident-base-%ld", (long)getpid());
    return mkdir(folder, 0700);
}

static int remove_folder(void **state) {
    (void)state;
    return tri__folder_remove(folder) == TRI_OK ? 0 : -1;
}

TEST_IN(test_files, make_folder, remove_folder) {
    int fd;
    char *text = NULL;
    size_t size = 0;
    alarm(20); /* a FIFO must not be waited for */
    assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
    expect_error(tri__file_open(in_folder("fifo"), &fd, &size), TRI_IO, "not a regular file");
    expect_error(tri__file_read(in_folder("fifo"), 10, &text, &size), TRI_IO, "not a regular file");
    expect_error(tri__file_write(in_folder("fifo"), "x", 1), TRI_IO, "not a regular file");
    expect_error(tri__file_open("/dev/zero", &fd, &size), TRI_IO, "not a regular file");
    alarm(0);
    expect_error(tri__file_open(in_folder("none"), &fd, &size), TRI_NOINPUT, "none: No such file");
    expect_error(tri__file_read(in_folder("none"), 10, &text, &size), TRI_NOINPUT, "none: No such file");
    expect_error(tri__file_open(folder, &fd, &size), TRI_IO, "is a folder");
    expect_error(tri__file_read(folder, 10, &text, &size), TRI_IO, "is a folder");
    expect_error(tri__file_write(folder, "x", 1), TRI_IO, "not a regular file");
    expect_error(tri__file_write(in_folder("none/x"), "x", 1), TRI_IO, "No such file");

    assert_int_equal(tri__file_write(in_folder("empty"), "", 0), TRI_OK);
    assert_int_equal(tri__file_read(in_folder("empty"), 0, &text, &size), TRI_OK);
    assert_int_equal(size, 0);
    assert_string_equal(text, "");
    free(text);

    assert_int_equal(tri__file_write(in_folder("a"), "hello", 5), TRI_OK);
    assert_int_equal(tri__file_write(in_folder("a"), "hello\0you", 9), TRI_OK); /* replaces */
    expect_error(tri__file_read(in_folder("a"), 8, &text, &size), TRI_DATA, "at most 8");
    assert_int_equal(tri__file_read(in_folder("a"), 9, &text, &size), TRI_OK);
    assert_int_equal(size, 9);
    assert_memory_equal(text, "hello\0you", 10);
    free(text);
    assert_int_equal(tri__file_open(in_folder("a"), &fd, &size), TRI_OK);
    assert_int_equal(size, 9);
    close(fd);
    assert_true(tri__is_file(in_folder("a")) && !tri__is_folder(in_folder("a")));
    assert_true(tri__is_folder(folder) && !tri__is_file(folder) && !tri__is_file(in_folder("none")));
    fd = open("/dev/full", O_WRONLY);
    expect_error(tri__write_all(fd, "x", 1, "here.txt"), TRI_IO, "here.txt: No space");
    close(fd);
}

TEST_IN(test_folders, make_folder, remove_folder) {
    assert_int_equal(tri__folder_make(in_folder("b/c/d")), TRI_OK);
    assert_int_equal(tri__folder_make(in_folder("b//c/d/")), TRI_OK);
    assert_int_equal(tri__file_write(in_folder("b/c/d/x"), "1", 1), TRI_OK);
    expect_error(tri__folder_make(in_folder("b/c/d/x")), TRI_IO, "a file has that name");
    expect_error(tri__folder_make(in_folder("b/c/d/x/y")), TRI_IO, "Not a directory");
    expect_error(tri__folder_make(""), TRI_USAGE, "path");
    assert_int_equal(tri__folder_sync(in_folder("b/c/d")), TRI_OK);
    expect_error(tri__folder_sync(in_folder("none")), TRI_NOINPUT, "none");
    expect_error(tri__folder_remove(in_folder("b/c")), TRI_IO, "b/c/d"); /* one level only */
    assert_true(tri__is_file(in_folder("b/c/d/x")));
    assert_int_equal(tri__folder_remove(in_folder("b/c/d")), TRI_OK);
    assert_int_equal(tri__folder_remove(in_folder("b/c")), TRI_OK);
    assert_int_equal(tri__folder_remove(in_folder("b")), TRI_OK);
    expect_error(tri__folder_remove(in_folder("b")), TRI_NOINPUT, "b");
    char out[TRI_PATH_MAX], big[TRI_PATH_MAX + 10];
    static const char *const joins[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"a", "/b", "/b"}, {"", "b", "b"}, {"/", "b", "/b"}, {NULL, "b", "b"}};
    for (size_t i = 0; i < sizeof joins / sizeof *joins; i++) {
        assert_int_equal(tri__path_join(out, joins[i][0], joins[i][1]), TRI_OK);
        assert_string_equal(out, joins[i][2]);
    }
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = 0;
    expect_error(tri__path_join(out, "a", big), TRI_USAGE, "too long");
    expect_error(tri__folder_make(big), TRI_USAGE, "4095");
}

TEST_IN(test_json_files, make_folder, remove_folder) {
    tri_json *value = tri__json_pack("{s:f, s:f, s:[i, i], s:s}", "third", (double)(1.0f / 3), "tiny", 1e-12, "list", 1,
                                     2, "e", "\xc3\xa9");
    assert_int_equal(tri__json_save(in_folder("v.json"), value), TRI_OK);
    tri_json *back;
    assert_int_equal(tri__json_load(in_folder("v.json"), TRI_USAGE, &back), TRI_OK);
    assert_true((float)tri__json_real_value(tri__json_get(back, "third")) == 1.0f / 3);
    assert_true(tri__json_real_value(tri__json_get(back, "tiny")) == 1e-12);
    assert_string_equal(tri__json_string_value(tri__json_get(back, "e")), "\xc3\xa9");
    char *line = tri__json_line(tri__json_get(back, "list"));
    assert_string_equal(line, "[1,2]");
    free(line);
    tri__json_decref(back);
    tri__json_decref(value);
    assert_int_equal(tri__file_write(in_folder("bad.json"), "{\n \"a\" 1}", 9), TRI_OK);
    expect_error(tri__json_load(in_folder("bad.json"), TRI_USAGE, &back), TRI_USAGE, "bad.json:2:");
    expect_error(tri__json_load(in_folder("none.json"), TRI_USAGE, &back), TRI_NOINPUT, "none.json");
    assert_null(back);
    assert_int_equal(truncate(in_folder("bad.json"), (off_t)TRI_LIMIT_JSON_FILE + 1), 0); /* sparse */
    expect_error(tri__json_load(in_folder("bad.json"), TRI_USAGE, &back), TRI_USAGE, "at most 100000000");
}

TEST(test_nearest) {
    static const char *const names[] = {"batch_size", "lr", "epochs", "output_dir", "max_sen_len", "global_batch_size"};
    static const char *const cases[][2] = {
        {"batch_size", "batch_size"}, {"batchsize", "batch_size"},  {"Batch-Size", "batch_size"},
        {"bacth-size", "batch_size"}, {"batch_sise", "batch_size"}, {"epoch", "epochs"},
        {"epocsh", "epochs"},         {"outptu-dir", "output_dir"}, {"lR", "lr"},
        {"lf", "lr"},                 {"x", NULL},                  {"", NULL},
        {"--", NULL},                 {"temperature", NULL},        {"max_seq_len", "max_sen_len"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *got = tri__text_nearest(cases[i][0], names, 6);
        if (!cases[i][1]) assert_null(got);
        else assert_string_equal(got ? got : "(none)", cases[i][1]);
    }
    char word[1000];
    memset(word, 'a', sizeof word - 1);
    word[sizeof word - 1] = 0;
    assert_null(tri__text_nearest(word, names, 6));
    assert_null(tri__text_nearest("batch", NULL, 0));
    static const char *const words[][2] = {
        {"run/checkpoint-12", "run/checkpoint-12"},
        {"--lr=1e-4", "--lr=1e-4"},
        {"", "''"},
        {"a b", "'a b'"},
        {"it's", "'it'\\''s'"},
        {"$x `y` \"z\"", "'$x `y` \"z\"'"},
        {"gr\xc3\xb6\xc3\x9f"
         "e",
         "gr\xc3\xb6\xc3\x9f"
         "e"},
        {"two\nlines", "$'two\\012lines'"},
        {"\xff'\\", "$'\\377\\047\\134'"},
        {"a\\b", "'a\\b'"},
        {"~", "'~'"},
        {"\xc2\x9b"
         "1m",
         "$'\\302\\2331m'"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char *quoted = tri__text_quoted(words[i][0]);
        assert_string_equal(quoted, words[i][1]);
        free(quoted);
    }
}

/* The code point of s[n] if it is one whole valid sequence, by encoding every candidate: no shared logic with the
 * decoder's checks. */
static int32_t decode_by_encoding(const unsigned char *s, int n) {
    if (n == 1) return s[0] < 128 ? s[0] : -1;
    int32_t code = n == 2 ? (s[0] - 192) * 64 + (s[1] - 128) : (s[0] - 224) * 4096 + (s[1] - 128) * 64 + (s[2] - 128);
    if (code < (n == 2 ? 128 : 2048) || code > (n == 2 ? 2047 : 65535) || code / 2048 == 27) return -1;
    int good = n == 2 ? s[0] == 192 + code / 64 && s[1] == 128 + code % 64
                      : s[0] == 224 + code / 4096 && s[1] == 128 + code / 64 % 64 && s[2] == 128 + code % 64;
    return good ? code : -1;
}

TEST(test_utf8) {
    unsigned char s[3];
    long valid[4] = {0};
    for (int n = 1; n <= 3; n++)
        for (int i = 0; i < 1 << (8 * n); i++) {
            for (int b = 0; b < n; b++) s[b] = (unsigned char)(i >> (8 * b));
            size_t at = 0;
            int32_t got = tri__utf8_next((const char *)s, (size_t)n, &at);
            /* the sequence that starts here may be shorter than n */
            int32_t want = -1;
            int length = 0;
            for (int m = 1; m <= n && want < 0; m++) want = decode_by_encoding(s, m), length = m;
            if (got != want || at != (want < 0 ? 1 : (size_t)length))
                fail_msg("%02x %02x %02x of %d: got %d, want %d", s[0], s[1], s[2], n, got, want);
            if (want >= 0 && length == n) valid[n]++;
        }
    assert_int_equal(valid[1], 128);
    assert_int_equal(valid[2], 2048 - 128);
    assert_int_equal(valid[3], 65536 - 2048 - 2048);
    static const struct {
        const char *text;
        int32_t code;
    } four[] = {{"\xf0\x90\x80\x80", 0x10000}, {"\xf4\x8f\xbf\xbf", 0x10FFFF}, {"\xf0\x9f\x98\x80", 0x1F600},
                {"\xf4\x90\x80\x80", -1},      {"\xf0\x8f\xbf\xbf", -1},       {"\xf5\x80\x80\x80", -1},
                {"\xf0\x9f\x98", -1},          {"\xf0\x9f\x98(", -1},          {"\xf8\x88\x80\x80", -1}};
    for (size_t i = 0; i < sizeof four / sizeof *four; i++) {
        size_t at = 0;
        assert_int_equal(tri__utf8_next(four[i].text, strlen(four[i].text), &at), four[i].code);
        assert_int_equal(at, four[i].code < 0 ? 1 : 4);
    }
    for (int32_t code = 0; code <= 0x10FFFF; code++) { /* there and back */
        if (code >= 0xD800 && code <= 0xDFFF) continue;
        char out[4];
        size_t at = 0, n = (size_t)tri__utf8_put(code, out);
        if (tri__utf8_next(out, n, &at) != code || at != n) fail_msg("U+%X", code);
    }
    size_t at = 1;
    assert_int_equal(tri__utf8_next("a", 1, &at), -1); /* at the end */
    assert_int_equal(at, 1);
}

TEST(test_numbers) {
    char out[32];
    static const struct {
        double value;
        const char *text;
    } bytes[] = {{0, "0 B"}, {1023, "1023 B"}, {1024, "1.0 KiB"}, {1.5 * (1 << 30), "1.5 GiB"}, {1048575, "1.0 MiB"}},
      seconds[] = {{0, "0.0 s"},      {12.34, "12.3 s"},  {59.94, "59.9 s"},   {59.96, "1m 00s"},
                   {187, "3m 07s"},   {3599.6, "1h 00m"}, {3720.0, "1h 02m"},  {1e300, "?"}};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
        assert_string_equal(tri__text_bytes(bytes[i].value, out), bytes[i].text);
    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++)
        assert_string_equal(tri__text_seconds(seconds[i].value, out), seconds[i].text);
    static const struct {
        int64_t value;
        const char *text;
    } sizes[] = {{0, "0"},
                 {4096, "4K"},
                 {4096, "4k"},
                 {1 << 20, "1M"},
                 {(int64_t)3 << 29, "1.5G"},
                 {(int64_t)2 << 40, "2T"},
                 {-1, ""},
                 {-1, "-4K"},
                 {-1, "4KB"},
                 {-1, "much"},
                 {-1, "1e300"},
                 {-1, "nan"}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        assert_int_equal(tri__text_size(sizes[i].text), sizes[i].value);
    static const struct {
        int64_t value;
        const char *text;
    } counts[] = {{0, "0"}, {999, "999"}, {1000, "1,000"}, {12345, "12,345"}, {-123456, "-123,456"},
                  {INT64_MIN, "-9,223,372,036,854,775,808"}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        assert_string_equal(tri__text_count(counts[i].value, out), counts[i].text);
    static const struct {
        const char *text;
        int width;
        const char *brief;
    } briefs[] = {{"", 5, ""},
                  {"fraud", 5, "fraud"},
                  {"frauds", 5, "fr..."},
                  {"a\tb\nc", 9, "a b c"},
                  {"\xff!", 9, "?!"},
                  {"übermäßig", 9, "übermäßig"},
                  {"übermäßig", 8, "überm..."},
                  {"0123456789012345678901234567890123", 99, "0123456789012345678901234567..."}}; /* out has 32 bytes */
    for (size_t i = 0; i < sizeof briefs / sizeof *briefs; i++)
        assert_string_equal(tri__text_brief(briefs[i].text, briefs[i].width, out, sizeof out), briefs[i].brief);
}

static void keep_line(void *context, tri_log_level level, const char *text) {
    snprintf(context, 64, "%d %s", level, text);
}

TEST(test_log_and_clock) {
    char line[64] = "";
    tri__say(NULL, TRI_LOG_INFO, "nothing");
    tri__say(&(tri_log){0}, TRI_LOG_INFO, "nothing");
    tri__say(&(tri_log){.say = keep_line, .context = line}, TRI_LOG_WARN, "%d rows", 3);
    assert_string_equal(line, "1 3 rows");
    double begin = tri__clock();
    assert_true(tri__clock() >= begin);
    assert_true(tri__clock_wall() > 1.6e9);
}

/* Known answers of Random123 (kat_vectors, philox4x32 10): counter, key, output. */
static const uint32_t philox_cases[][10] = {
    {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
    {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff,
     0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
    {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0,
     0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
};

TEST(test_random) {
    for (size_t i = 0; i < sizeof philox_cases / sizeof *philox_cases; i++) {
        const uint32_t *c = philox_cases[i];
        tri_random random = tri__philox(c[4], c[5], c[0], c[1], c[2], c[3]);
        assert_memory_equal(random.word, c + 6, sizeof random.word);
    }
    assert_int_equal(tri__random_id(""), 0x02cc5d05);
    assert_int_equal(tri__random_id("a"), 0x550d7456);
    assert_int_equal(tri__random_id("epoch"), 0x9aa0069f);
    assert_int_equal(tri__random_id("primary.embeddings.word_embeddings.weight"), 0xce0da4ae);
    tri_random word = {{0x11112222, 0x33334444, 0x55556666, 0x77778888}};
    for (unsigned lane = 0; lane < 8; lane++) /* low half first */
        assert_int_equal(tri__random_decision(&word, lane), 0x1111 * ((lane ^ 1) + 1));
    assert_int_equal(tri__random_threshold(0.1f), 6554);
    assert_true(tri__random_scale(0) == 1.0f && tri__random_scale(32768) == 2.0f);
}

/* Deviation 0.02, seed 42, id 12345, computed apart in Python. 32359342 draws the small word 24, which shows that 1 is
 * added to it; the last element needs more than 32 bits of counter. */
static const struct {
    int64_t element;
    float value;
} normal_cases[] = {
    {0, 0.00363453128f}, {1, 0.0524739847f}, {2, -0.0299596395f}, {3, 0.0163451768f}, {4, 0.00651517278f},
    {7, -0.022941621f}, {1000001, -0.00274048652f}, {32359342, 0.122120671f}, {32359343, 0.0160002485f},
    {((int64_t)1 << 34) + 2, -0.000364370382f},
};

TEST(test_normals) {
    for (size_t i = 0; i < sizeof normal_cases / sizeof *normal_cases; i++) {
        float got;
        tri__random_normal(42, 12345, 0.02f, normal_cases[i].element, 1, &got);
        assert_true(fabsf(got - normal_cases[i].value) <= 1e-8f);
    }
    enum { N = 100000 };
    float *all = malloc(N * sizeof *all), part[16];
    tri__random_normal(7, 1, 1.0f, 0, N, all);
    for (int begin = 0; begin < 9; begin++) /* any part equals that part of the whole */
        for (int n = 0; n <= 16; n++) {
            tri__random_normal(7, 1, 1.0f, begin, n, part);
            assert_memory_equal(part, all + begin, (size_t)n * sizeof *part);
        }
    double sum = 0, square = 0, fourth = 0;
    for (int i = 0; i < N; i++) sum += all[i], square += all[i] * all[i], fourth += pow(all[i], 4);
    assert_true(fabs(sum / N) < 0.015);         /* 4.7 standard errors */
    assert_true(fabs(square / N - 1) < 0.02);   /* 4.5 */
    assert_true(fabs(fourth / N - 3) < 0.15);   /* 4.8 */
    free(all);
}

/* A library that is not there, and one of libc's for which there is no memory. */
TEST(test_library) {
    const char *why = NULL;
    struct rlimit before, tight = {4096, 0};
    assert_null(tri__library_open("libtrident_none.so", 0, &why));
    assert_non_null(strstr(why, "libtrident_none.so"));
    assert_false(tri__library_no_memory(why));
    assert_false(tri__library_no_memory(NULL));
    if (getenv("TRI_SANITIZED")) return; /* their shadow memory is beyond any limit */
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    tight.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    void *library = tri__library_open("libBrokenLocale.so.1", 0, &why);
    int no_memory = !library && tri__library_no_memory(why);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_true(no_memory);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
