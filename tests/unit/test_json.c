/* test_json.c - JSON values, their text, and out of memory at every single allocation: the right text or TRI_RESOURCE,
 * never another text, never "damaged", no leaks. */
#include "base/json.h"
#include "base/limits.h"

#include <locale.h>
#include <math.h>

#include "tests/lib/test.h"
#include "tests/lib/json_text.h"

/* The allocation that fails, counted from 1; 0: none. Sanitizers bring their own malloc; there nothing fails. */
static volatile long countdown, live;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void __libc_free(void *);
#pragma GCC visibility push(default) /* so that libc calls them too */
static int fails(void) { return countdown > 0 && --countdown == 0; }
static void *counted(void *p) { return live += p != NULL, p; }
void *malloc(size_t n) { return fails() ? NULL : counted(__libc_malloc(n)); }
void *calloc(size_t n, size_t size) { return fails() ? NULL : counted(__libc_calloc(n, size)); }
void *realloc(void *p, size_t n) { return fails() ? NULL : p ? __libc_realloc(p, n) : counted(__libc_realloc(p, n)); }
void *reallocarray(void *p, size_t n, size_t size) { return realloc(p, n * size); }
void free(void *p) { live -= p != NULL, __libc_free(p); }
#pragma GCC visibility pop
#endif

static void expect_text(tri_json *value, unsigned flags, const char *want) {
    char *text = tri__json_text(value, flags);
    assert_non_null(text);
    assert_string_equal(text, want);
    free(text);
}

TEST(objects_keep_their_order) {
    enum { N = 3000 };
    tri_json *object = tri__json_object();
    char key[32];
    for (int i = 0; i < N; i++) {
        snprintf(key, sizeof key, "key %d", i * 7919 % N);
        assert_int_equal(tri__json_set_new(object, key, tri__json_integer(i)), 0);
    }
    for (int i = 0; i < N; i += 2) { /* replaced in their place, or gone */
        snprintf(key, sizeof key, "key %d", i);
        if (i % 4) assert_int_equal(tri__json_set_new(object, key, tri__json_boolean(1)), 0);
        else assert_int_equal(tri__json_del(object, key), 0);
    }
    assert_int_equal(tri__json_del(object, "key 0"), -1);
    assert_int_equal(tri__json_object_size(object), N - (N + 3) / 4);
    int last = -1, seen = 0;
    tri__json_members(object, m) {
        assert_ptr_equal(tri__json_get(object, m->key), m->value);
        if (tri__json_is_integer(m->value))
            assert_true(tri__json_integer_value(m->value) > last), last = (int)tri__json_integer_value(m->value);
        seen++;
    }
    assert_int_equal(seen, tri__json_object_size(object));
    assert_null(tri__json_get(object, "key"));
    tri__json_decref(object);
}

TEST(texts_of_values) {
    static const char text[] = "{\"b\":[1,-2,1.5,true,false,null,\"x\"],\"a\":{},\"c\":[]}";
    tri_json *value = json_of(text);
    expect_text(value, TRI_JSON_COMPACT, text);
    expect_text(value, 0, "{\"b\": [1, -2, 1.5, true, false, null, \"x\"], \"a\": {}, \"c\": []}");
    expect_text(value, TRI_JSON_COMPACT | TRI_JSON_SORT_KEYS,
                "{\"a\":{},\"b\":[1,-2,1.5,true,false,null,\"x\"],\"c\":[]}");
    tri__json_del(value, "b");
    expect_text(value, TRI_JSON_INDENT(1), "{\n \"a\": {},\n \"c\": []\n}");
    tri__json_decref(value);
    static const struct { double number; int digits; const char *text;
    } reals[] = {
        {1, 9, "1.0"},
        {1e20, 9, "1e20"},
        {1e-7, 9, "1e-7"},
        {0.1, 9, "0.1"},
        {0.1, 17, "0.10000000000000001"},
        {0.1, 0, "0.10000000000000001"},
        {-1.5e300, 9, "-1.5e300"},
        {1.0f / 3, 9, "0.333333343"},
        {100000, 9, "100000.0"},
        {NAN, 9, "null"},
        {INFINITY, 9, "null"},
    };
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        value = tri__json_real(reals[i].number);
        expect_text(value, (unsigned)TRI_JSON_REAL_PRECISION(reals[i].digits), reals[i].text);
        tri__json_decref(value);
    }
    value = tri__json_string("\"\\/\b\f\n\r\t\x01\x7f\xc3\xa9\xf0\x9f\x98\x80");
    expect_text(value, 0, "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\x7f\xc3\xa9\xf0\x9f\x98\x80\"");
    expect_text(value, TRI_JSON_ENSURE_ASCII, "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\x7f\\u00E9\\uD83D\\uDE00\"");
    tri__json_decref(value);
}

/* Names of files are bytes. Those that are not UTF-8 come back as they were, and the text is UTF-8. */
TEST(bytes_come_back) {
    static const char path[] = "runs/caf\xe9/\xff\xc3\xa9\xed\xa0\x80"; /* latin-1, no character, é, a surrogate */
    tri_json *value = tri__json_pack("{s:s}", path, path), *back;
    expect_text(value, TRI_JSON_COMPACT,
                "{\"runs/caf\\uDCE9/\\uDCFF\xc3\xa9\\uDCED\\uDCA0\\uDC80\":\"runs/caf\\uDCE9/"
                "\\uDCFF\xc3\xa9\\uDCED\\uDCA0\\uDC80\"}");
    char *text = tri__json_line(value);
    assert_int_equal(tri__json_parse(text, strlen(text), "x", TRI_DATA, &back), TRI_OK);
    assert_true(tri__json_equal(value, back));
    assert_string_equal(tri__json_string_value(tri__json_get(back, path)), path);
    free(text);
    tri__json_decref(value);
    tri__json_decref(back);
}

/* Text, and a part of the message; NULL where it is accepted. */
static const struct { const char *text, *error; } cases[] = {
    {" \t\r\n{\"a\" : [ ] , \"b\" : -0 }\n", NULL},
    {"{\"a\":1e5,\"b\":1E+5,\"c\":-0.0e-0,\"d\":9223372036854775807,\"e\":-9223372036854775808,\"f\":1e-400}", NULL},
    {"{\"\":\"\\u00e9\\ud83d\\ude00\\/\\b\"}", NULL},
    {"{\"a\":9223372036854775808}", "x:1:6: an integer that does not fit"},
    {"{\"a\":1e400}", "x:1:6: a number that is too large"},
    {"{\"a\":01}", "leading zero"},
    {"{\"a\":+1}", "x:1:6: '+' where a value is expected"},
    {"{\"a\":.5}", "a value is expected"},
    {"{\"a\":1.}", "x:1:8: '}' where a digit is expected"},
    {"{\"a\":1e}", "a digit is expected"},
    {"{\"a\":-}", "a digit is expected"},
    {"{\"a\":tru}", "a value is expected"},
    {"{\"a\":truee}", "',' or '}' is expected"},
    {"{\"a\" 1}", "':' is expected"},
    {"{a:1}", "a key in quotes is expected"},
    {"{,}", "a key in quotes is expected"},
    {"{\"a\":[1,]}", "a value is expected"},
    {"{\"a\":[1 2]}", "',' or ']' is expected"},
    {"{\"a\":1}}", "x:1:8: '}' where the end is expected"},
    {"{\"a\":1} // x", "the end is expected"},
    {"\xef\xbb\xbf{}", "byte 0xef where a value is expected"},
    {"{\"a\":\"\t\"}", "a control character"},
    {"{\"a\":\"\\x\"}", "cannot be escaped"},
    {"{\"a\":\"\\u12g4\"}", "four hexadecimal digits"},
    {"{\"a\":\"\\ud83d\"}", "half of a surrogate pair"},
    {"{\"a\":\"\\ud83d\\u0041\"}", "half of a surrogate pair"},
    {"{\"a\":\"\\udc00\"}", "half of a surrogate pair"},
    {"{\"a\":\"\\u0000\"}", "\\u0000 in a string"},
    {"{\"\xc3\xa9\":1,\n\"\xc3\xa9\xc3\xa9\":x}", "x:2:6: 'x' where a value"},
    {"{\"a\":\"\xc0\xaf\"}", "x:1:7: byte 0xc0 is not UTF-8"},
    {"{\"a\":1,\"b\":2,\"a\":3}", "x:1:14: duplicate key \"a\""},
};

TEST(every_text_gets_its_verdict) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n = strlen(cases[i].text);
        char *exact = malloc(n); /* a sanitizer sees a byte read past it */
        memcpy(exact, cases[i].text, n);
        tri_json *value;
        tri_status status = tri__json_parse(exact, n, "x", TRI_USAGE, &value);
        free(exact);
        assert_int_equal(status, cases[i].error ? TRI_USAGE : TRI_OK);
        if (cases[i].error && !strstr(tri_error(), cases[i].error)) fail_msg("%s: %s", cases[i].text, tri_error());
        tri__json_decref(value);
    }
}

/* In a locale with a comma, where there is one, numbers keep their point. */
TEST(numbers_know_no_locale) {
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8")) skip();
    tri_json *value = json_of("[1.5]");
    assert_true(tri__json_number_value(tri__json_at(value, 0)) == 1.5);
    expect_text(value, TRI_JSON_COMPACT, "[1.5]");
    tri__json_decref(value);
    setlocale(LC_NUMERIC, "C");
}

static tri_json *built(void) {
    tri_json *list = tri__json_array(), *object = tri__json_object();
    for (int i = 0; i < 20; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        tri__json_append_new(
            list, tri__json_pack("{s:i, s:[s, f], s:s?, s:s*}", "i", i, "l", "x", 0.5, "n", NULL, "gone", NULL));
        tri__json_set_new(object, key, tri__json_string(key));
    }
    tri__json_set(object, "again", list);
    tri__json_set_new(object, "list", list);
    tri__json_set_filled(object, "empty", tri__json_array());
    tri__json_set_new(object, "copy", tri__json_deep_copy(object));
    tri_json *more = tri__json_pack("{s:{s:n}}", "more", "than");
    tri__json_update(object, more);
    tri__json_decref(more);
    return object;
}

/* Nobody checks anything while building; the text says it. */
TEST(no_shortage_is_lost) {
    tri_json *value = built();
    char *want = tri__json_line(value);
    assert_non_null(want);
    tri__json_decref(value);
    long before = live;
    int failed = 0, n = 1;
    for (;; n++) {
        countdown = n;
        value = built();
        int all = countdown > 0;
        countdown = 0;
        char *text = tri__json_line(value);
        assert_int_equal(tri__json_is_whole(value), text != NULL);
        if (text) assert_string_equal(text, want);
        failed += !text;
        free(text);
        tri__json_decref(value);
        assert_int_equal(live, before);
        if (all || n > 10000) break;
    }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(n > 300);
    assert_int_equal(failed, n - 1); /* each one counts */
#endif
    free(want);
}

TEST(a_shortage_is_not_damage) {
    tri_json *value = built(), *back;
    char *text = tri__json_line(value), *again;
    tri__json_decref(value);
    long before = live;
    for (int n = 1;; n++) {
        countdown = n;
        tri_status status = tri__json_parse(text, strlen(text), "x", TRI_DATA, &back);
        int all = countdown > 0;
        countdown = 0;
        assert_int_equal(status, all ? TRI_OK : TRI_RESOURCE);
        if (status == TRI_RESOURCE) assert_string_equal(tri_error(), "no memory to parse x");
        assert_int_equal(status == TRI_OK, back != NULL);
        again = back ? tri__json_line(back) : NULL;
        if (again) assert_string_equal(again, text);
        free(again);
        tri__json_decref(back);
        assert_int_equal(live, before);
        if (all) break;
    }
    for (int n = 1;; n++) { /* writing */
        value = json_of(text);
        countdown = n;
        again = tri__json_line(value);
        int all = countdown > 0;
        countdown = 0;
        assert_int_equal(all, again != NULL);
        free(again);
        tri__json_decref(value);
        if (all) break;
    }
    free(text);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
