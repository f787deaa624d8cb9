/* json.c - JSON by jansson, behind one linear scan for our limits: jansson itself would recurse 2,048 deep and knows no
 * limit of a string's length, or of memory: "{}," is 3 bytes of text and over 200 bytes of memory. */
#include "base/json.h"

#include "base/file.h"
#include "base/limits.h"

#include <stdlib.h>
#include <string.h>

/* Where the scan stands, as people count: from 1. */
typedef struct place {
    int line, column;
} place;

static void step(place *at, char c) {
    if (c == '\n') at->line++, at->column = 1;
    else if (((unsigned char)c & 0xC0) != 0x80) at->column++; /* a character, not each byte of it */
}

/* Bytes that jansson allocates, at most, for what such a character begins: an object, a list, another member (a string under a key). Long
 * strings take at most what their text does, twice. */
enum { OBJECT_BYTES = 320, LIST_BYTES = 144, MEMBER_BYTES = 192 };
static int64_t memory_of(char c) { return c == '{' ? OBJECT_BYTES : c == '[' ? LIST_BYTES : c == ',' ? MEMBER_BYTES : 0; }

static tri_status check_limits(const char *text, size_t length, const char *name, tri_status bad) {
    place at = {1, 1};
    int depth = 0;
    int64_t memory = 0;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (c == '{' || c == '[') depth++;
        else if (c == '}' || c == ']') depth--;
        if (depth > TRI_LIMIT_JSON_DEPTH)
            return tri__fail(bad, "%s:%d:%d: nested deeper than %d", name, at.line, at.column, TRI_LIMIT_JSON_DEPTH);
        if (c == 0) return tri__fail(bad, "%s:%d:%d: a NUL byte", name, at.line, at.column); /* jansson overlooks it after a number */
        memory += memory_of(c);
        if (memory > TRI_LIMIT_JSON_MEMORY)
            return tri__fail(bad, "%s:%d:%d: so many values that they would take more than %d MB of memory", name, at.line, at.column,
                             TRI_LIMIT_JSON_MEMORY / 1000000);
        if (c == '"') {
            place start = at;
            size_t first = i + 1;
            for (step(&at, c), i++; i < length && text[i] != '"'; i++) {
                if (text[i] == '\\') step(&at, text[i++]);
                if (i < length) step(&at, text[i]);
                if (i - first >= TRI_LIMIT_STRING)
                    return tri__fail(bad, "%s:%d:%d: a string of more than %d bytes", name, start.line, start.column,
                                     TRI_LIMIT_STRING);
            }
            c = '"';
        }
        step(&at, c);
    }
    return TRI_OK;
}

tri_status tri__json_parse(const char *text, size_t length, const char *name, tri_status bad, json_t **out) {
    *out = NULL;
    if (length > TRI_LIMIT_JSON_FILE)
        return tri__fail(bad, "%s has %zu bytes of JSON; at most %d are accepted", name, length, TRI_LIMIT_JSON_FILE);
    TRI_TRY(check_limits(text, length, name, bad));
    json_error_t error;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!root && json_error_code(&error) == json_error_out_of_memory)
        return tri__fail(TRI_RESOURCE, "no memory to parse %s", name);
    if (!root) return tri__fail(bad, "%s:%d:%d: %s", name, error.line, error.column, error.text);
    if (!json_is_object(root)) {
        json_decref(root);
        return tri__fail(bad, "%s:1:1: an object {...} is expected", name);
    }
    *out = root;
    return TRI_OK;
}

tri_status tri__json_load(const char *path, tri_status bad, json_t **out) {
    *out = NULL;
    char *text;
    size_t size;
    tri_status status = tri__file_read(path, TRI_LIMIT_JSON_FILE, &text, &size);
    if (status != TRI_OK) return status == TRI_DATA ? bad : status;
    status = tri__json_parse(text, size, path, bad, out);
    free(text);
    return status;
}

tri_status tri__json_save(const char *path, const json_t *value) {
    char *text = json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    if (!text) return tri__fail(TRI_RESOURCE, "no memory to write %s", path);
    size_t length = strlen(text);
    text[length] = '\n'; /* in place of the 0 byte, which is not written */
    tri_status status = tri__file_write(path, text, length + 1);
    free(text);
    return status;
}

char *tri__json_line(const json_t *value) { return json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9)); }
