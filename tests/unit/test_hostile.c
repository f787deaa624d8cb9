/* test_hostile.c - hostile files (faults F38, F39, F41): JSON that is deep, huge or malformed, read on a small stack;
 * names in an index or a manifest that lead outside the folder; pipes, devices, folders and links where files are
 * expected. Each is refused immediately with a message. tests/unit/test_foreign.c tests safetensors headers, fuzz/
 * random input. */
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/huggingface.h"
#include "checkpoint/checkpoint.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/test.h"

enum { STACK = 256 << 10, MILLION = 1000 * 1000 };

static char folder[] = "/tmp/trident-test-??????";

static int setup(void **state) {
    (void)state;
    memset(folder + strlen(folder) - 6, 'X', 6);
    alarm(getenv("TRI_SANITIZED") ? 500 : 100); /* a read that waits for a pipe would never end */
    return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    return tri__folder_remove(folder) == TRI_OK ? 0 : -1;
}

static const char *in_folder(const char *name, char path[static TRI_PATH_MAX]) {
    assert_int_equal(tri__path_join(path, folder, name), TRI_OK);
    return path;
}

static void expect(const char *what, tri_status status, tri_status want, const char *word) {
    if (status != want || (word && !strstr(tri_error(), word)))
        fail_msg("%.60s: status %d \"%.200s\", expected %d \"%s\"", what, status, status ? tri_error() : "", want,
                 word ? word : "");
}

/* `text` and how often `unit` follows it, then `end`. */
typedef struct made {
    const char *begin, *unit, *end;
    int64_t times;
    tri_status status;
    char *text;
    size_t length;
} made;

static void make(made *m) {
    size_t begin = strlen(m->begin), unit = strlen(m->unit), end = strlen(m->end);
    m->length = begin + unit * (size_t)m->times + end;
    m->text = malloc(m->length + 1);
    assert_non_null(m->text);
    memcpy(m->text, m->begin, begin);
    for (int64_t i = 0; i < m->times; i++) memcpy(m->text + begin + (size_t)i * unit, m->unit, unit);
    memcpy(m->text + begin + unit * (size_t)m->times, m->end, end + 1);
}

static void *parse(void *context) {
    made *m = context;
    tri_json *root;
    m->status = tri__json_parse(m->text, m->length, "x.json", TRI_DATA, &root);
    if (m->status == TRI_OK) tri__json_decref(root);
    return NULL;
}

/* On a stack as small as `ulimit -s 256` gives. */
static tri_status parse_small(made *m) {
    pthread_t thread;
    pthread_attr_t attributes;
    make(m);
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, STACK), 0);
    assert_int_equal(pthread_create(&thread, &attributes, parse, m), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
    free(m->text);
    return m->status;
}

TEST(huge_json) {
    static const made rows[] = {
        {"", "[", "", MILLION, TRI_DATA, NULL, 0},
        {"", "{\"a\":", "", MILLION, TRI_DATA, NULL, 0},
        {"{\"a\":", "[", "1]", 64, TRI_DATA, NULL, 0},
        {"{\"a\":", "[", "1", 63, TRI_DATA, NULL, 0},
        {"{\"a\":", "9", "}", MILLION, TRI_DATA, NULL, 0},
        {"{\"a\":0.", "9", "}", MILLION, TRI_OK, NULL, 0},
        {"{\"a\":1e", "9", "}", MILLION, TRI_DATA, NULL, 0},
        {"{\"", "a", "\":1}", (1 << 20) + 1, TRI_DATA, NULL, 0},
        {"{\"", "\\\\", "\":1}", MILLION, TRI_DATA, NULL, 0},
        {"{\"a\":[0", ",0", "]}", MILLION, TRI_OK, NULL, 0},
        {"{\"a\":\"", "\\ud83d\\ude00", "\"}", 10000, TRI_OK, NULL, 0},
        {"", " ", "{}", 10 * MILLION, TRI_OK, NULL, 0},
        {"{\"a\":[", "{},", "{}]}", 4 * MILLION, TRI_DATA, NULL, 0}, /* a gigabyte of empty objects */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        made m = rows[i];
        if (parse_small(&m) != rows[i].status) fail_msg("row %zu: status %d", i, m.status);
    }
}

TEST(million_keys) {
    enum { ROOM = 12 };
    char *text = malloc((size_t)MILLION * ROOM + 2);
    assert_non_null(text);
    size_t used = 0;
    text[used++] = '{';
    for (int i = 0; i < MILLION; i++) used += (size_t)sprintf(text + used, "%s\"%06x\":1", i ? "," : "", i);
    text[used++] = '}';
    tri_json *root;
    assert_int_equal(tri__json_parse(text, used, "x.json", TRI_DATA, &root), TRI_OK);
    assert_int_equal(tri__json_object_size(root), MILLION);
    tri__json_decref(root);
    text[used - 10] = 'e', text[used - 4] = '0'; /* the last key becomes another's */
    expect("a key twice", tri__json_parse(text, used, "x.json", TRI_DATA, &root), TRI_DATA, NULL);
    free(text);
}

TEST(malformed_json) {
    static const char *const rows[] = {
        "",
        " ",
        "{",
        "}",
        "{}}",
        "{}x",
        "[1]",
        "1",
        "\"a\"",
        "null",
        "{\"a\":NaN}",
        "{\"a\":Infinity}",
        "{\"a\":-Infinity}",
        "{\"a\":0x10}",
        "{\"a\":01}",
        "{\"a\":+1}",
        "{\"a\":.5}",
        "{\"a\":1.}",
        "{\"a\":1e}",
        "{\"a\":1e400}",
        "{\"a\":9223372036854775808}",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":\"\\udc00\"}",
        "{\"a\":\"\\ud800\\u0041\"}",
        "{\"a\":\"\\u0000\"}",
        "{\"\\u0000\":1}",
        "{\"a\":\"\\x41\"}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\xff\"}",
        "{\"a\":\"\xc0\x80\"}",
        "{\"a\":\"\xed\xa0\x80\"}",
        "{\"a\":\"\xf4\x90\x80\x80\"}",
        "\xef\xbb\xbf{}",
        "{'a':1}",
        "{a:1}",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "{\"a\":1 \"b\":2}",
        "{\"a\":1,\"a\":1}",
        "{\"a\":{\"b\":1,\"b\":2}}",
        "{\"a\":tru}",
        "{\"a\":True}",
        "// x\n{}",
        "{/**/}",
        "{\"a\":\"",
        "{\"a\":\"\\",
        "{\"a\":\"\\u12",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tri_json *root = NULL;
        char *exact = malloc(strlen(rows[i]) + 1); /* so that sanitizers see a read past its end */
        memcpy(exact, rows[i], strlen(rows[i]));
        expect(rows[i], tri__json_parse(exact, strlen(rows[i]), "x.json", TRI_DATA, &root), TRI_DATA, "x.json:");
        assert_null(root);
        free(exact);
    }
    tri_json *root;
    expect("a NUL byte", tri__json_parse("{\"a\":\0 1}", 9, "x.json", TRI_DATA, &root), TRI_DATA, NULL);
    expect("a NUL byte after a number", tri__json_parse("{\"a\":1\0}", 8, "x.json", TRI_DATA, &root), TRI_DATA, "NUL");
    expect("a NUL byte after", tri__json_parse("{}\0", 3, "x.json", TRI_DATA, &root), TRI_DATA, NULL);
}

/* What stands in the way: a pipe, a folder, links to itself, to a device, to nowhere. */
static void make_traps(void) {
    char path[TRI_PATH_MAX];
    unlink(in_folder("pipe", path));
    assert_int_equal(mkfifo(in_folder("pipe", path), 0600), 0);
    unlink(in_folder("loop", path));
    assert_int_equal(symlink("loop", in_folder("loop", path)), 0);
    unlink(in_folder("zero", path));
    assert_int_equal(symlink("/dev/zero", in_folder("zero", path)), 0);
    unlink(in_folder("nowhere", path));
    assert_int_equal(symlink("/nowhere/at/all", in_folder("nowhere", path)), 0);
}

static const struct {
    const char *name;   /* as JSON writes it */
    tri_status status;
    const char *word;
} names[] = {
    {"../a", TRI_DATA, "plain file name"},
    {"/etc/passwd", TRI_DATA, "plain file name"},
    {"a/../b", TRI_DATA, "plain file name"},
    {"a/b/c", TRI_DATA, "plain file name"},
    {"./a/b", TRI_DATA, "plain file name"},
    {"/", TRI_DATA, "plain file name"},
    {"a/", TRI_DATA, "plain file name"},
    {"/a", TRI_DATA, "plain file name"},
    {"", TRI_DATA, "plain file name"},
    {".", TRI_DATA, "plain file name"},
    {"..", TRI_DATA, "plain file name"},
    {"..\\\\a", TRI_DATA, "plain file name"},
    {"a\\nb", TRI_DATA, "plain file name"},
    {"a\\u007fb", TRI_DATA, "plain file name"},
    {"a\\u0000b", TRI_DATA, "u0000"},
    {"\xff", TRI_DATA, "is not UTF-8"},
    {"pipe", TRI_DATA, "not a regular file"},
    {"zero", TRI_DATA, "symbolic link"},
    {"loop", TRI_DATA, "symbolic link"},
    {"nowhere", TRI_DATA, "symbolic link"},
    {"missing", TRI_NOINPUT, "missing"},
};

static void write_text(const char *name, const char *text) {
    char path[TRI_PATH_MAX];
    assert_int_equal(tri__file_write(in_folder(name, path), text, strlen(text)), TRI_OK);
}

TEST(names_in_an_index) {
    char text[1024], long_name[300];
    tri_hf *hf;
    make_traps();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(text, sizeof text, "{\"weight_map\": {\"t\": \"%s\"}}", names[i].name);
        write_text("model.safetensors.index.json", text);
        expect(names[i].name, tri__hf_open(folder, &hf), names[i].status, names[i].word);
        assert_null(hf);
    }
    memset(long_name, 'x', sizeof long_name - 1);
    for (int length = 255; length <= 256; length++) { /* what a file system takes, and what none does */
        snprintf(text, sizeof text, "{\"weight_map\": {\"t\": \"%.*s\"}}", length, long_name);
        write_text("model.safetensors.index.json", text);
        expect("a long name", tri__hf_open(folder, &hf), length == 255 ? TRI_NOINPUT : TRI_DATA,
               length == 255 ? "xxx" : "plain file name");
    }
    char path[TRI_PATH_MAX];
    assert_int_equal(unlink(in_folder("model.safetensors.index.json", path)), 0);
}

TEST(names_in_a_manifest) {
    make_traps();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[1024];
        tri_json *manifest;
        snprintf(text, sizeof text, "{\"files\": [{\"name\": \"%s\", \"bytes\": 1, \"xxh3\": \"0\"}]}", names[i].name);
        tri_status status = tri__json_parse(text, strlen(text), "manifest.json", TRI_DATA, &manifest);
        if (status == TRI_OK) status = tri__manifest_check(folder, manifest, 0, 1);
        expect(names[i].name, status, names[i].status == TRI_NOINPUT ? TRI_DATA : names[i].status, names[i].word);
        tri__json_decref(manifest);
    }
}

TEST(traps_as_files) {
    static const char *const traps[] = {"pipe", "zero", "loop", "."};
    char path[TRI_PATH_MAX];
    make_traps();
    for (size_t i = 0; i < sizeof traps / sizeof *traps; i++) {
        tri_json *root;
        expect(traps[i], tri__json_load(in_folder(traps[i], path), TRI_USAGE, &root), TRI_IO, folder);
    }
}

/* A file of our own is not written where a link points, nor in the link's place; what a user names is written where it
 * leads. */
TEST(output_and_links) {
    char path[TRI_PATH_MAX], target[TRI_PATH_MAX], *text;
    size_t size;
    struct stat info;
    write_text("target", "kept");
    unlink(in_folder("link", path));
    assert_int_equal(symlink("target", in_folder("link", path)), 0);
    expect("a link", tri__file_write(path, "new", 3), TRI_IO, "a symbolic link");
    assert_int_equal(tri__file_read(in_folder("target", target), 10, &text, &size), TRI_OK);
    assert_string_equal(text, "kept");
    free(text);
    assert_int_equal(tri__file_deliver(path, "new", 3, 1), TRI_OK);
    assert_int_equal(tri__file_read(target, 10, &text, &size), TRI_OK);
    assert_string_equal(text, "new");
    free(text);
    assert_int_equal(lstat(path, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
}

int main(int argc, char **argv) { return run_listed(argc, argv, setup, teardown); }
