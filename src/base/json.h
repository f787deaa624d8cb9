/* json.h - JSON values and files, with our limits (depth 64, strings of 1 MiB) and errors with file, line and column.
 *
 * Any call can run out of memory, and this never goes unnoticed. Constructors return NULL. A list or an object that
 * misses a value, because the value was NULL or the container could not grow, is marked incomplete; neither it nor
 * anything that contains it is ever written as text. So builders need not check each call: writing the document fails
 * (TRI_RESOURCE), and code that only reads values in memory calls tri__json_is_whole.
 *
 * Strings are bytes. Bytes that are not UTF-8 (file names may contain any) are written as in Python's surrogateescape:
 * byte 0xNN as \uDCNN, which is read back as the byte. Numbers that are not finite become null. */
#pragma once

#include "base/base.h"

typedef struct tri_json tri_json;
typedef long long tri_json_int;
typedef enum tri_json_type {
    TRI_JSON_OBJECT, TRI_JSON_ARRAY, TRI_JSON_STRING, TRI_JSON_INTEGER, TRI_JSON_REAL,
    TRI_JSON_TRUE, TRI_JSON_FALSE, TRI_JSON_NULL
} tri_json_type;

/* New references; NULL: out of memory. Values are reference-counted; counting is thread-safe, changing a value is
 * not. */
tri_json *tri__json_object(void);
tri_json *tri__json_array(void);
tri_json *tri__json_string(const char *text);                  /* NULL for NULL */
tri_json *tri__json_stringn(const char *text, size_t length);
tri_json *tri__json_integer(tri_json_int value);
tri_json *tri__json_real(double value);
tri_json *tri__json_boolean(int value);
tri_json *tri__json_null(void);
tri_json *tri__json_strings(char *const *text, int n);
/* Copies the whole tree; NULL also if it is incomplete. */
tri_json *tri__json_deep_copy(const tri_json *value);
/* By a template: {s:X, ...} and [X, ...] nest; X is s a string, i an int, I a tri_json_int, f a double, b a boolean, n
 * null, o a value whose reference is taken over, O one that is shared. If the argument is NULL, s? and O? give null and
 * s* omits the member. NULL: out of memory; values for `o` are then released too. */
tri_json *tri__json_pack(const char *format, ...);
tri_json *tri__json_incref(tri_json *value);
void tri__json_decref(tri_json *value); /* accepts NULL */
static inline void tri__json_drop(tri_json **at) { tri__json_decref(*at); }

/* A tri_json_type, or -1 for NULL. The is_ functions return 0 for NULL. */
int tri__json_typeof(const tri_json *value);
int tri__json_is_object(const tri_json *value);
int tri__json_is_array(const tri_json *value);
int tri__json_is_string(const tri_json *value);
int tri__json_is_integer(const tri_json *value);
int tri__json_is_number(const tri_json *value);
int tri__json_is_true(const tri_json *value);
int tri__json_is_boolean(const tri_json *value);
int tri__json_is_null(const tri_json *value);
const char *tri__json_string_value(const tri_json *value);     /* NULL if it is not a string */
size_t tri__json_string_length(const tri_json *value);
tri_json_int tri__json_integer_value(const tri_json *value);     /* 0 if it is not an integer */
double tri__json_real_value(const tri_json *value);            /* 0 if it is not a real number */
double tri__json_number_value(const tri_json *value);          /* of either kind */
int tri__json_equal(const tri_json *a, const tri_json *b);
/* 1: the whole tree is complete; 0 also for NULL. */
int tri__json_is_whole(const tri_json *value);
/* The value if it is complete; else NULL, and its reference is released. */
tri_json *tri__json_whole(tri_json *value);

/* Members keep the order in which they were first set. -1 on failure, which marks the object incomplete; `_new` takes
 * over the value's reference even then. */
tri_json *tri__json_get(const tri_json *object, const char *key); /* borrowed; NULL when absent */
/* A member's number, whole number and text; 0, 0 and NULL where there is none. */
static inline double tri__number_in(const tri_json *object, const char *key) {
    return tri__json_number_value(tri__json_get(object, key));
}
static inline tri_json_int tri__whole_in(const tri_json *object, const char *key) {
    return tri__json_integer_value(tri__json_get(object, key));
}
static inline const char *tri__text_in(const tri_json *object, const char *key) {
    return tri__json_string_value(tri__json_get(object, key));
}
int tri__json_set(tri_json *object, const char *key, const tri_json *value);
int tri__json_set_new(tri_json *object, const char *key, tri_json *value);
/* The same, but an empty, complete list or object is omitted. */
int tri__json_set_filled(tri_json *object, const char *key, tri_json *container);
int tri__json_update(tri_json *object, const tri_json *other);
int tri__json_del(tri_json *object, const char *key);
typedef struct tri_json_member {
    char *key;
    tri_json *value;
    uint64_t hash; /* of the key */
} tri_json_member;
const tri_json_member *tri__json_first(const tri_json *object); /* its members, then one whose key is NULL */
size_t tri__json_object_size(const tri_json *object);

tri_json *tri__json_at(const tri_json *array, size_t at); /* borrowed; NULL past the end */
size_t tri__json_size(const tri_json *array);
tri_json *const *tri__json_begin(const tri_json *array); /* its items, then NULL */
int tri__json_append(tri_json *array, const tri_json *value);
int tri__json_append_new(tri_json *array, tri_json *value);
int tri__json_extend(tri_json *array, const tri_json *other);

/* Each item of a list, each member of an object; what is neither has none. The name is declared here. Nothing may be
 * added to the list or object meanwhile; members may get other values. */
#define tri__json_items(array, value) \
    for (tri_json *const *at_ = tri__json_begin(array), *value; ((value) = *at_) != NULL; at_++)
#define tri__json_members(object, member) \
    for (const tri_json_member *member = tri__json_first(object); member->key; member++)
/* An item with its number, both declared here; the list may grow. */
#define tri__json_each(array, index, value) \
    for (size_t index = 0, once_ = 1; once_; once_ = 0) \
        for (tri_json *value; ((value) = tri__json_at((array), index)) != NULL; index++)

/* Text format: blanks per level (INDENT 0: one line, with blanks between members unless COMPACT), digits of real
 * numbers (0: 17). */
enum { TRI_JSON_COMPACT = 1 << 5, TRI_JSON_ENSURE_ASCII = 1 << 6, TRI_JSON_SORT_KEYS = 1 << 7 };
#define TRI_JSON_INDENT(n) ((n) & 31)
#define TRI_JSON_REAL_PRECISION(n) (((n) & 31) << 11)
/* The caller frees it. NULL: out of memory, or the value is incomplete. */
char *tri__json_text(const tri_json *value, unsigned flags);
/* One line, no newline at its end, 9 significant digits; the caller frees it. NULL as above. */
char *tri__json_line(const tri_json *value);

/* The root must be an object. Duplicate keys are refused. Syntax errors are TRI_USAGE or TRI_DATA, as given by `bad`;
 * TRI_RESOURCE if out of memory. */
tri_status tri__json_load(const char *path, tri_status bad, tri_json **out);
tri_status tri__json_parse(const char *text, size_t length, const char *name, tri_status bad, tri_json **out);
/* The same, but an integer that does not fit in 64 bits becomes a real number: transformers writes 10^30 for "no
 * limit". */
tri_status tri__json_parse_wide(const char *text, size_t length, const char *name, tri_status bad, tri_json **out);
/* The same for a root of any kind; strings that are not keys may hold U+0000. */
tri_status tri__json_parse_any(const char *text, size_t length, const char *name, tri_status bad, tri_json **out);
/* A place in the text of a file, from {text, length} on. */
typedef struct tri_json_lines {
    const char *text;
    size_t length, i;
    int line, depth, any; /* lines before it; open brackets; 1: finds keys of every depth, 0: the root's */
} tri_json_lines;
/* The line, from 1, of the next key of this name, which the place then is behind; 0: not found verbatim (it may be
 * escaped). */
int tri__json_line_of(tri_json_lines *at, const char *key);
/* Numbers with 9 significant digits, so that a float round-trips. Replaces the file atomically. */
tri_status tri__json_save(const char *path, const tri_json *value);
/* The same to a user's path, as tri__file_deliver. */
tri_status tri__json_deliver(const char *path, const tri_json *value, int replaces);
