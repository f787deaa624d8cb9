/* json_read.c - RFC 8259 with our limits (limits.h). A first scan bounds the memory needed before any is allocated:
 * "{}," is 3 bytes of text but hundreds in memory. The parse then checks depth and string lengths. Also refused:
 * duplicate keys, U+0000, numbers out of range (64-bit integers, doubles). */
#include "base/json.h"

#include <errno.h>
#include <locale.h>

/* Upper bounds of the bytes of memory per object, list, and member (a value under a key). Long strings need at most
 * twice the bytes of their text. */
enum { OBJECT_BYTES = 304, LIST_BYTES = 176, MEMBER_BYTES = 160 };
static int64_t memory_of(char c) {
    return c == '{' ? OBJECT_BYTES : c == '[' ? LIST_BYTES : c == ',' ? MEMBER_BYTES : 0;
}

typedef struct reader {
    const char *text, *name;
    size_t length, at;
    tri_status bad, status;
    int depth, nul;    /* nul: \u0000 is accepted in strings that are not keys */
    int wide;          /* an integer that does not fit in 64 bits becomes a real number */
    tri_buffer string; /* the one being read */
} reader;

/* Records a fault, unless there already is one: name:line:column, from 1, of the byte at `at`. Returns NULL. */
__attribute__((format(printf, 3, 4))) static tri_json *fault(reader *r, size_t at, const char *format, ...) {
    int line = 1, column = 1;
    char why[256];
    if (r->status != TRI_OK) return NULL;
    for (size_t i = 0; i < at; i++) {
        if (r->text[i] == '\n') line++, column = 1;
        else if (((unsigned char)r->text[i] & 0xC0) != 0x80) column++; /* counts characters, not bytes */
    }
    TRI_FORMAT(why, sizeof why, format);
    r->status = tri__fail(r->bad, "%s:%d:%d: %s", r->name, line, column, why);
    return NULL;
}

static tri_json *shortage(reader *r) {
    if (r->status == TRI_OK) r->status = tri__fail(TRI_RESOURCE, "no memory to parse %s", r->name);
    return NULL;
}

static int peek(const reader *r) { return r->at < r->length ? (unsigned char)r->text[r->at] : -1; }

static void blanks(reader *r) {
    while (r->at < r->length && memchr(" \t\n\r", r->text[r->at], 4)) r->at++;
}

static tri_json *unexpected(reader *r, const char *expected) {
    int byte = peek(r);
    if (byte < 0) return fault(r, r->at, "the text ends where %s is expected", expected);
    if (byte == 0) return fault(r, r->at, "a NUL byte where %s is expected", expected);
    if (byte > 32 && byte < 127) return fault(r, r->at, "'%c' where %s is expected", byte, expected);
    return fault(r, r->at, "byte 0x%02x where %s is expected", (unsigned)byte, expected);
}

static int bounded(reader *r) {
    int64_t memory = 0;
    for (size_t i = 0; i < r->length; i++) {
        memory += memory_of(r->text[i]);
        if (memory > TRI_LIMIT_JSON_MEMORY)
            return fault(r, i, "so many values that they would take more than %d MB of memory",
                         TRI_LIMIT_JSON_MEMORY / 1000000),
                   0;
        if (r->text[i] == '"')
            for (i++; i < r->length && r->text[i] != '"'; i++) i += r->text[i] == '\\';
    }
    return 1;
}

static int keep(reader *r, const char *bytes, size_t n) {
    tri__buffer_add(&r->string, bytes, n);
    return r->string.failed ? shortage(r), 0 : 1;
}

/* \u and four digits, with the backslash at text[at]: a character, a surrogate pair for one beyond 0xFFFF, or a byte
 * (json.h). */
static int unicode_escape(reader *r) {
    size_t at = r->at;
    int code = tri__text_hex4(r->text + at + 2, r->length - at - 2), low = -1;
    char bytes[4];
    r->at += 6;
    if (code < 0) return fault(r, at, "\\u without four hexadecimal digits"), 0;
    if (code == 0 && !r->nul) return fault(r, at, "\\u0000 in a string"), 0;
    if (code >= 0xDC80 && code <= 0xDCFF) return keep(r, &(char){(char)(code & 0xFF)}, 1);
    if (code >= 0xD800 && code < 0xDC00 && r->at + 1 < r->length && r->text[r->at] == '\\' &&
        r->text[r->at + 1] == 'u') {
        low = tri__text_hex4(r->text + r->at + 2, r->length - r->at - 2);
        if (low >= 0xDC00 && low <= 0xDFFF) code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00), r->at += 6;
    }
    if (code >= 0xD800 && code <= 0xDFFF) return fault(r, at, "half of a surrogate pair"), 0;
    return keep(r, bytes, (size_t)tri__utf8_put(code, bytes));
}

static int escape(reader *r) {
    static const char named[] = "\"\"\\\\//b\bf\fn\nr\rt\t"; /* the letter after a backslash, and its meaning */
    int letter = r->at + 1 < r->length ? r->text[r->at + 1] : 0;
    if (letter == 'u') return unicode_escape(r);
    for (const char *c = named; letter && *c; c += 2)
        if (letter == *c) return r->at += 2, keep(r, c + 1, 1);
    return fault(r, r->at, "a backslash before what cannot be escaped"), 0;
}

/* Reads a string, with its quote at text[at], into r->string, 0-terminated. */
static int read_string(reader *r) {
    size_t start = r->at++;
    r->string.size = 0;
    if (!keep(r, "", 0)) return 0;
    while (peek(r) != '"') {
        size_t from = r->at;
        int byte = peek(r);
        if (byte < 0) return fault(r, r->at, "the text ends inside a string"), 0;
        if (byte < 0x20) return fault(r, r->at, byte ? "a control character in a string" : "a NUL byte"), 0;
        if (byte == '\\') {
            if (!escape(r)) return 0;
        } else {
            while (byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\') r->at++, byte = peek(r);
            if (r->at == from && tri__utf8_next(r->text, r->length, &r->at) < 0)
                return fault(r, from, "byte 0x%02x is not UTF-8", (unsigned)byte), 0;
            if (!keep(r, r->text + from, r->at - from)) return 0;
        }
        if (r->at - start - 1 > TRI_LIMIT_STRING)
            return fault(r, start, "a string of more than %d bytes", TRI_LIMIT_STRING), 0;
    }
    r->at++;
    return 1;
}

static size_t digits(reader *r) {
    size_t from = r->at;
    while (peek(r) >= '0' && peek(r) <= '9') r->at++;
    return r->at - from;
}

/* text: a 0-terminated copy of the number. */
static tri_json *number_of(reader *r, size_t start, char *text, int real) {
    errno = 0;
    if (!real) {
        tri_json_int integer = strtoll(text, NULL, 10);
        if (!errno) return tri__json_integer(integer);
        if (!r->wide) return fault(r, start, "an integer that does not fit in 64 bits");
    }
    char *point = strchr(text, '.');
    if (point) *point = *localeconv()->decimal_point;
    double number = strtod(text, NULL);
    return isfinite(number) ? tri__json_real(number) : fault(r, start, "a number that is too large for a double");
}

/* -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)? */
static tri_json *read_number(reader *r) {
    size_t start = r->at, whole;
    int real = 0;
    if (peek(r) == '-') r->at++;
    whole = r->at;
    if (!digits(r)) return unexpected(r, "a digit");
    if (r->text[whole] == '0' && r->at > whole + 1) return fault(r, whole, "a number with a leading zero");
    if (peek(r) == '.') {
        real = 1, r->at++;
        if (!digits(r)) return unexpected(r, "a digit");
    }
    if (peek(r) == 'e' || peek(r) == 'E') {
        real = 1, r->at++;
        if (peek(r) == '+' || peek(r) == '-') r->at++;
        if (!digits(r)) return unexpected(r, "a digit");
    }
    char usual[64];
    size_t length = r->at - start;
    char *text = length < sizeof usual ? usual : malloc(length + 1);
    if (!text) return NULL;
    memcpy(text, r->text + start, length);
    text[length] = 0;
    tri_json *number = number_of(r, start, text, real);
    if (text != usual) free(text);
    return number;
}

static tri_json *read_word(reader *r) {
    static const struct { const char *word; int type; } words[] = {{"true", 1}, {"false", 0}, {"null", -1}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i].word);
        if (r->length - r->at < n || memcmp(r->text + r->at, words[i].word, n) != 0) continue;
        r->at += n;
        return words[i].type < 0 ? tri__json_null() : tri__json_boolean(words[i].type);
    }
    return unexpected(r, "a value");
}

static tri_json *read_value(reader *r);

/* Reads what follows a member or an item: 1 a comma, 0 the end, -1 a fault. */
static int goes_on(reader *r, char end) {
    blanks(r);
    int byte = peek(r);
    if (byte != ',' && byte != end) return unexpected(r, end == '}' ? "',' or '}'" : "',' or ']'"), -1;
    r->at++;
    return byte == ',';
}

/* Reads the opening bracket; 1 if the container is empty. */
static int is_empty(reader *r, char end) {
    r->at++;
    blanks(r);
    if (peek(r) != end) return 0;
    r->at++;
    return 1;
}

static int read_item(reader *r, tri_json *list) {
    tri_json *value = read_value(r);
    return value && !tri__json_append_new(list, value);
}

static int read_member(reader *r, tri_json *object) {
    blanks(r);
    if (peek(r) != '"') return unexpected(r, "a key in quotes"), 0;
    size_t at = r->at;
    if (!read_string(r)) return 0;
    if (strlen(r->string.text) != r->string.size) return fault(r, at, "\\u0000 in a key"), 0;
    if (tri__json_get(object, r->string.text)) return fault(r, at, "duplicate key \"%.100s\"", r->string.text), 0;
    TRI_OWNED(tri__free_at) char *key = strdup(r->string.text);
    blanks(r);
    if (!key) shortage(r);
    else if (peek(r) != ':') unexpected(r, "':'");
    else r->at++;
    tri_json *value = r->status == TRI_OK ? read_value(r) : NULL;
    return value && !tri__json_set_new(object, key, value);
}

static tri_json *read_container(reader *r, int byte) {
    if (++r->depth > TRI_LIMIT_JSON_DEPTH) return fault(r, r->at, "nested deeper than %d", TRI_LIMIT_JSON_DEPTH);
    int is_object = byte == '{';
    char end = is_object ? '}' : ']';
    tri_json *all = is_object ? tri__json_object() : tri__json_array();
    int more = all && !is_empty(r, end);
    while (more > 0 && (is_object ? read_member(r, all) : read_item(r, all))) more = goes_on(r, end);
    r->depth--;
    if (all && more == 0) return all;
    tri__json_decref(all);
    return shortage(r); /* unless there is a fault */
}

static tri_json *read_value(reader *r) {
    blanks(r);
    int byte = peek(r);
    tri_json *value;
    if (byte == '{' || byte == '[') value = read_container(r, byte);
    else if (byte == '"') value = read_string(r) ? tri__json_stringn(r->string.text, r->string.size) : NULL;
    else if (byte == '-' || (byte >= '0' && byte <= '9')) value = read_number(r);
    else value = read_word(r);
    return value ? value : shortage(r); /* unless there is a fault */
}

static tri_status read_text(reader *r, tri_json **out) {
    *out = NULL;
    if (r->length > TRI_LIMIT_JSON_FILE)
        return tri__fail(r->bad, "%s has %zu bytes of JSON; at most %d are accepted", r->name, r->length,
                         TRI_LIMIT_JSON_FILE);
    tri_json *root = bounded(r) ? read_value(r) : NULL;
    blanks(r);
    if (root && r->at < r->length) unexpected(r, "the end");
    tri__buffer_free(&r->string);
    if (r->status == TRI_OK) *out = root;
    else tri__json_decref(root);
    return r->status;
}

tri_status tri__json_parse_any(const char *text, size_t length, const char *name, tri_status bad, tri_json **out) {
    reader r = {.text = text, .length = length, .name = name, .bad = bad, .status = TRI_OK, .nul = 1};
    return read_text(&r, out);
}

static tri_status read_root(reader *r, tri_json **out) {
    TRI_TRY(read_text(r, out));
    if (tri__json_is_object(*out)) return TRI_OK;
    tri__json_decref(*out);
    *out = NULL;
    return tri__fail(r->bad, "%s:1:1: an object {...} is expected", r->name);
}

tri_status tri__json_parse(const char *text, size_t length, const char *name, tri_status bad, tri_json **out) {
    reader r = {.text = text, .length = length, .name = name, .bad = bad, .status = TRI_OK};
    return read_root(&r, out);
}

tri_status tri__json_parse_wide(const char *text, size_t length, const char *name, tri_status bad, tri_json **out) {
    reader r = {.text = text, .length = length, .name = name, .bad = bad, .status = TRI_OK, .wide = 1};
    return read_root(&r, out);
}
