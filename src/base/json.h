/* json.h - JSON values and files, with our limits (depth 64, strings of 1 MiB) and errors that say file, line, column.
 *
 * Memory can be short at any call, and no shortage is lost. What makes a value returns NULL; a list or an object that had to do without a
 * value, because that was NULL or its own memory did not suffice, remembers it, and no text is ever made of it or of anything that holds
 * it. So builders need not check each call: whoever writes the document finds out (TRI_RESOURCE); whoever only reads what was built in
 * memory asks json_is_whole.
 *
 * Strings are bytes. Those that are not UTF-8 (names of files may be anything) are written as Python's surrogateescape does: each such byte
 * 0xNN as \uDCNN; they are read back as the byte. A number that is not finite becomes null. */
#ifndef TRI_BASE_JSON_H
#define TRI_BASE_JSON_H

#include "base/status.h"

#include <stddef.h>

typedef struct json_t json_t;
typedef long long json_int_t;
typedef enum json_type { JSON_OBJECT, JSON_ARRAY, JSON_STRING, JSON_INTEGER, JSON_REAL, JSON_TRUE, JSON_FALSE, JSON_NULL } json_type;

/* New references; NULL: no memory. Values are counted; the count may be changed from several threads, the value may not. */
json_t *json_object(void);
json_t *json_array(void);
json_t *json_string(const char *text);                  /* NULL for NULL */
json_t *json_stringn(const char *text, size_t length);
json_t *json_integer(json_int_t value);
json_t *json_real(double value);
json_t *json_boolean(int value);
json_t *json_null(void);
/* The whole tree is copied; NULL also when something of it was lost. */
json_t *json_deep_copy(const json_t *value);
/* By a template: {s:X, ...} and [X, ...] nest; X is s a string, i an int, I a json_int_t, f a double, b a truth value, n null,
 * o a value that is taken over, O one that is shared. s? and O? stand for null when NULL, s* for no member at all. NULL: no memory, and
 * then values for `o` are released too. */
json_t *json_pack(const char *format, ...);
json_t *json_incref(json_t *value);
void json_decref(json_t *value); /* accepts NULL */

/* -1 where a value is of another kind, or NULL. */
int json_typeof(const json_t *value);
int json_is_object(const json_t *value);
int json_is_array(const json_t *value);
int json_is_string(const json_t *value);
int json_is_integer(const json_t *value);
int json_is_number(const json_t *value);
int json_is_true(const json_t *value);
int json_is_boolean(const json_t *value);
int json_is_null(const json_t *value);
const char *json_string_value(const json_t *value);     /* NULL when it is not a string */
size_t json_string_length(const json_t *value);
json_int_t json_integer_value(const json_t *value);     /* 0 when it is not an integer */
double json_real_value(const json_t *value);            /* 0 when it is not a real number */
double json_number_value(const json_t *value);          /* of either kind */
int json_equal(const json_t *a, const json_t *b);
/* 1: nothing in it was lost; 0 also for NULL. */
int json_is_whole(const json_t *value);

/* Members keep the order in which they were first set. -1 on failure, which the object remembers; `_new` takes the value over in any case. */
json_t *json_object_get(const json_t *object, const char *key); /* borrowed; NULL when absent */
int json_object_set(json_t *object, const char *key, const json_t *value);
int json_object_set_new(json_t *object, const char *key, json_t *value);
/* The same, but a list or an object with nothing in it, and nothing lost, is left out. */
int json_object_set_filled(json_t *object, const char *key, json_t *container);
int json_object_update(json_t *object, const json_t *other);
int json_object_del(json_t *object, const char *key);
size_t json_object_size(const json_t *object);
const char *json_object_key(const json_t *object, size_t at); /* NULL past the end */
json_t *json_object_value(const json_t *object, size_t at);

json_t *json_array_get(const json_t *array, size_t at); /* borrowed; NULL past the end */
size_t json_array_size(const json_t *array);
int json_array_append(json_t *array, const json_t *value);
int json_array_append_new(json_t *array, json_t *value);
int json_array_extend(json_t *array, const json_t *other);

#define json_array_foreach(array, index, value) \
    for ((index) = 0; ((value) = json_array_get((array), (index))) != NULL; (index)++)
#define json_object_foreach(object, key, value)                                                                   \
    for (size_t at_ = 0; ((key) = json_object_key((object), at_)) != NULL && ((value) = json_object_value((object), at_)) != NULL; at_++)

/* How text is made: blanks for each level (INDENT 0: one line, with blanks between members unless COMPACT), digits of real numbers (0: 17). */
enum { JSON_COMPACT = 1 << 5, JSON_ENSURE_ASCII = 1 << 6, JSON_SORT_KEYS = 1 << 7, JSON_ENCODE_ANY = 0 };
#define JSON_INDENT(n) ((n) & 31)
#define JSON_REAL_PRECISION(n) (((n) & 31) << 11)
/* The caller frees it. NULL: no memory now, or something of the value was lost. */
char *json_dumps(const json_t *value, unsigned flags);
/* One line, no newline at its end, 9 significant digits; the caller frees it. NULL as above. */
char *tri__json_line(const json_t *value);

/* The root must be an object. Duplicate keys are refused. Syntax errors are TRI_USAGE or TRI_DATA, as `bad` says; TRI_RESOURCE when there
 * is no memory for the values. */
tri_status tri__json_load(const char *path, tri_status bad, json_t **out);
tri_status tri__json_parse(const char *text, size_t length, const char *name, tri_status bad, json_t **out);
/* The same for a root of any kind; strings that are not keys may hold U+0000. */
tri_status tri__json_parse_any(const char *text, size_t length, const char *name, tri_status bad, json_t **out);
/* Numbers with 9 significant digits, so that a float comes back the same. Written beside, then renamed. */
tri_status tri__json_save(const char *path, const json_t *value);

#endif
