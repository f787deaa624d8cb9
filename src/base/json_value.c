/* json_value.c - JSON values in memory. Objects keep their members in a list, in order, and from 9 members on an index into it: open
 * addressing, at most half full. A container that lost a value stays marked (json.h). */
#include "base/json.h"

#include "base/hash.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct member {
    char *key;
    json_t *value;
    uint64_t hash;
} member;

struct json_t {
    uint32_t refs;       /* FOREVER: a constant */
    uint8_t type, lost;
    union {
        json_int_t integer;
        double real;
        struct { size_t length; char *text; } string;   /* text lies behind the value */
        struct { size_t n, room; json_t **item; } list;
        struct { size_t n, room, slots; member *item; uint32_t *slot; } object; /* slot: 1 + a member; 0: empty */
    };
};

enum { FOREVER = UINT32_MAX, SEARCHED = 8, MOST_MEMBERS = INT32_MAX };

static const json_t constants[] = {
    {.refs = FOREVER, .type = JSON_TRUE}, {.refs = FOREVER, .type = JSON_FALSE}, {.refs = FOREVER, .type = JSON_NULL},
};

static int is(const json_t *value, json_type type) { return value && value->type == type; }

static json_t *make(json_type type, size_t more) {
    json_t *value = calloc(1, sizeof *value + more);
    if (value) value->refs = 1, value->type = type;
    return value;
}

json_t *json_object(void) { return make(JSON_OBJECT, 0); }
json_t *json_array(void) { return make(JSON_ARRAY, 0); }
json_t *json_null(void) { return (json_t *)&constants[2]; }
json_t *json_boolean(int value) { return (json_t *)&constants[!value]; }

json_t *json_stringn(const char *text, size_t length) {
    json_t *value = make(JSON_STRING, length + 1);
    if (!value) return NULL;
    value->string.text = (char *)(value + 1);
    value->string.length = length;
    memcpy(value->string.text, text, length);
    return value;
}

json_t *json_string(const char *text) { return text ? json_stringn(text, strlen(text)) : NULL; }

json_t *json_integer(json_int_t number) {
    json_t *value = make(JSON_INTEGER, 0);
    if (value) value->integer = number;
    return value;
}

json_t *json_real(double number) {
    if (!isfinite(number)) return json_null();
    json_t *value = make(JSON_REAL, 0);
    if (value) value->real = number;
    return value;
}

json_t *json_incref(json_t *value) {
    if (value && value->refs != FOREVER) __atomic_fetch_add(&value->refs, 1, __ATOMIC_RELAXED);
    return value;
}

void json_decref(json_t *value) {
    if (!value || value->refs == FOREVER || __atomic_sub_fetch(&value->refs, 1, __ATOMIC_ACQ_REL)) return;
    if (value->type == JSON_ARRAY) {
        for (size_t i = 0; i < value->list.n; i++) json_decref(value->list.item[i]);
        free(value->list.item);
    } else if (value->type == JSON_OBJECT) {
        for (size_t i = 0; i < value->object.n; i++) {
            free(value->object.item[i].key);
            json_decref(value->object.item[i].value);
        }
        free(value->object.item);
        free(value->object.slot);
    }
    free(value);
}

int json_typeof(const json_t *value) { return value ? value->type : -1; }
int json_is_object(const json_t *value) { return is(value, JSON_OBJECT); }
int json_is_array(const json_t *value) { return is(value, JSON_ARRAY); }
int json_is_string(const json_t *value) { return is(value, JSON_STRING); }
int json_is_integer(const json_t *value) { return is(value, JSON_INTEGER); }
int json_is_number(const json_t *value) { return is(value, JSON_INTEGER) || is(value, JSON_REAL); }
int json_is_true(const json_t *value) { return is(value, JSON_TRUE); }
int json_is_boolean(const json_t *value) { return is(value, JSON_TRUE) || is(value, JSON_FALSE); }
int json_is_null(const json_t *value) { return is(value, JSON_NULL); }
const char *json_string_value(const json_t *value) { return is(value, JSON_STRING) ? value->string.text : NULL; }
size_t json_string_length(const json_t *value) { return is(value, JSON_STRING) ? value->string.length : 0; }
json_int_t json_integer_value(const json_t *value) { return is(value, JSON_INTEGER) ? value->integer : 0; }
double json_real_value(const json_t *value) { return is(value, JSON_REAL) ? value->real : 0; }
double json_number_value(const json_t *value) { return is(value, JSON_INTEGER) ? (double)value->integer : json_real_value(value); }

/* Marks a container, if it is one, and lets go of the value that it does not get. */
static int lose(json_t *container, json_t *value) {
    if (is(container, JSON_OBJECT) || is(container, JSON_ARRAY)) container->lost = 1;
    json_decref(value);
    return -1;
}

/* Room for one more of `size` bytes each, doubling; 0 when there is no memory, and then all is as before. */
static int grow(void **items, size_t n, size_t *room, size_t size) {
    if (n < *room) return 1;
    size_t wanted = *room ? 2 * *room : 4;
    void *larger = reallocarray(*items, wanted, size);
    if (!larger) return 0;
    *items = larger, *room = wanted;
    return 1;
}

/* Seeded by the place of the object in memory, so that nobody can prepare keys that collide. */
static uint64_t hash_of(const json_t *object, const char *key) { return tri__hash64((uint64_t)(uintptr_t)object, key, strlen(key)); }

static void put_slot(json_t *object, size_t at) {
    size_t mask = object->object.slots - 1, i = (size_t)object->object.item[at].hash & mask;
    while (object->object.slot[i]) i = (i + 1) & mask;
    object->object.slot[i] = (uint32_t)at + 1;
}

/* An index of `slots` entries over all members; 0 when there is no memory, and then the old one stays. */
static int index_members(json_t *object, size_t slots) {
    uint32_t *slot = calloc(slots, sizeof *slot);
    if (!slot) return 0;
    free(object->object.slot);
    object->object.slot = slot, object->object.slots = slots;
    for (size_t i = 0; i < object->object.n; i++) put_slot(object, i);
    return 1;
}

/* The member of that key; n when there is none. */
static size_t find(const json_t *object, const char *key, uint64_t hash) {
    const member *item = object->object.item;
    size_t n = object->object.n;
    if (!object->object.slots) {
        for (size_t i = 0; i < n; i++)
            if (item[i].hash == hash && !strcmp(item[i].key, key)) return i;
        return n;
    }
    for (size_t mask = object->object.slots - 1, i = (size_t)hash & mask; object->object.slot[i]; i = (i + 1) & mask) {
        size_t at = object->object.slot[i] - 1;
        if (item[at].hash == hash && !strcmp(item[at].key, key)) return at;
    }
    return n;
}

json_t *json_object_get(const json_t *object, const char *key) {
    if (!is(object, JSON_OBJECT) || !key || !object->object.n) return NULL;
    size_t at = find(object, key, hash_of(object, key));
    return at < object->object.n ? object->object.item[at].value : NULL;
}

/* A member at the end. Memory is had before anything changes. */
static int add_member(json_t *object, const char *key, uint64_t hash, json_t *value) {
    size_t n = object->object.n, slots = object->object.slots;
    char *copy = n < MOST_MEMBERS ? strdup(key) : NULL;
    if (copy && grow((void **)&object->object.item, n, &object->object.room, sizeof(member)) &&
        (n < SEARCHED || 2 * (n + 1) <= slots || index_members(object, slots ? 2 * slots : 4 * SEARCHED))) {
        object->object.item[n] = (member){copy, value, hash};
        object->object.n++;
        if (object->object.slots) put_slot(object, n);
        return 0;
    }
    free(copy);
    return lose(object, value);
}

int json_object_set_new(json_t *object, const char *key, json_t *value) {
    if (!is(object, JSON_OBJECT) || !key || !value || object == value) return lose(object, value);
    uint64_t hash = hash_of(object, key);
    size_t at = find(object, key, hash);
    if (at == object->object.n) return add_member(object, key, hash, value);
    json_decref(object->object.item[at].value);
    object->object.item[at].value = value;
    return 0;
}

int json_object_set(json_t *object, const char *key, const json_t *value) {
    return json_object_set_new(object, key, json_incref((json_t *)value));
}

int json_object_set_filled(json_t *object, const char *key, json_t *container) {
    if (!container || container->lost || json_array_size(container) || json_object_size(container))
        return json_object_set_new(object, key, container);
    json_decref(container);
    return 0;
}

int json_object_update(json_t *object, const json_t *other) {
    int failed = !is(other, JSON_OBJECT) || other->lost ? lose(object, NULL) : 0;
    const char *key;
    const json_t *value;
    json_object_foreach(other, key, value) failed |= json_object_set(object, key, value);
    return failed;
}

/* Takes all members after it one place forward; the index is made anew in its own memory. */
int json_object_del(json_t *object, const char *key) {
    size_t at = is(object, JSON_OBJECT) ? find(object, key, hash_of(object, key)) : 0;
    if (!is(object, JSON_OBJECT) || at == object->object.n) return -1;
    member *item = object->object.item;
    free(item[at].key);
    json_decref(item[at].value);
    memmove(item + at, item + at + 1, (--object->object.n - at) * sizeof *item);
    if (object->object.slots) memset(object->object.slot, 0, object->object.slots * sizeof *object->object.slot);
    for (size_t i = 0; object->object.slots && i < object->object.n; i++) put_slot(object, i);
    return 0;
}

size_t json_object_size(const json_t *object) { return is(object, JSON_OBJECT) ? object->object.n : 0; }
const char *json_object_key(const json_t *object, size_t at) { return at < json_object_size(object) ? object->object.item[at].key : NULL; }
json_t *json_object_value(const json_t *object, size_t at) { return at < json_object_size(object) ? object->object.item[at].value : NULL; }
size_t json_array_size(const json_t *array) { return is(array, JSON_ARRAY) ? array->list.n : 0; }
json_t *json_array_get(const json_t *array, size_t at) { return at < json_array_size(array) ? array->list.item[at] : NULL; }

int json_array_append_new(json_t *array, json_t *value) {
    if (!is(array, JSON_ARRAY) || !value || array == value || !grow((void **)&array->list.item, array->list.n, &array->list.room, sizeof value))
        return lose(array, value);
    array->list.item[array->list.n++] = value;
    return 0;
}

int json_array_append(json_t *array, const json_t *value) { return json_array_append_new(array, json_incref((json_t *)value)); }

int json_array_extend(json_t *array, const json_t *other) {
    int failed = !is(other, JSON_ARRAY) || other->lost ? lose(array, NULL) : 0;
    for (size_t i = 0, n = json_array_size(other); i < n; i++) failed |= json_array_append(array, other->list.item[i]);
    return failed;
}

int json_is_whole(const json_t *value) {
    if (!value || value->lost) return 0;
    for (size_t i = 0, n = json_array_size(value); i < n; i++)
        if (!json_is_whole(value->list.item[i])) return 0;
    for (size_t i = 0, n = json_object_size(value); i < n; i++)
        if (!json_is_whole(value->object.item[i].value)) return 0;
    return 1;
}

/* The same, but the containers in it are copies. */
static json_t *copy_of(const json_t *value) {
    json_t *copy;
    switch (value->type) {
    case JSON_STRING: return json_stringn(value->string.text, value->string.length);
    case JSON_INTEGER: return json_integer(value->integer);
    case JSON_REAL: return json_real(value->real);
    case JSON_ARRAY:
        copy = json_array();
        for (size_t i = 0; i < value->list.n; i++) json_array_append_new(copy, copy_of(value->list.item[i]));
        return copy;
    case JSON_OBJECT:
        copy = json_object();
        for (size_t i = 0; i < value->object.n; i++)
            json_object_set_new(copy, value->object.item[i].key, copy_of(value->object.item[i].value));
        return copy;
    default: return (json_t *)value;
    }
}

json_t *json_deep_copy(const json_t *value) {
    json_t *copy = json_is_whole(value) ? copy_of(value) : NULL;
    if (json_is_whole(copy)) return copy;
    json_decref(copy);
    return NULL;
}

int json_equal(const json_t *a, const json_t *b) {
    if (!a || !b || a->type != b->type || a->lost || b->lost) return 0;
    switch (a->type) {
    case JSON_STRING: return a->string.length == b->string.length && !memcmp(a->string.text, b->string.text, a->string.length);
    case JSON_INTEGER: return a->integer == b->integer;
    case JSON_REAL: return a->real == b->real;
    case JSON_ARRAY:
        for (size_t i = 0; i < a->list.n && a->list.n == b->list.n; i++)
            if (!json_equal(a->list.item[i], b->list.item[i])) return 0;
        return a->list.n == b->list.n;
    case JSON_OBJECT:
        for (size_t i = 0; i < a->object.n && a->object.n == b->object.n; i++)
            if (!json_equal(a->object.item[i].value, json_object_get(b, a->object.item[i].key))) return 0;
        return a->object.n == b->object.n;
    default: return 1;
    }
}
