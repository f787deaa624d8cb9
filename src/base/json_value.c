/* json_value.c - JSON values in memory. Objects keep their members in an ordered list, and from 9 members on also a
 * hash index into it: open addressing, at most half full. A container that misses a value stays marked (json.h). */
#include "base/json.h"

struct tri_json {
    uint32_t refs;       /* FOREVER: a constant */
    uint8_t type, lost;
    union {
        tri_json_int integer;
        double real;
        struct { size_t length; char *text; } string;   /* text is stored after the value */
        struct { size_t n, room; tri_json **item; } list; /* item [n + 1], NULL the last; NULL where n is 0 */
        struct {
            size_t n, room, slots;
            tri_json_member *item;
            uint32_t *slot;
        } object; /* slot: 1 + index of a member; 0: empty */
    };
};

enum { FOREVER = UINT32_MAX, SEARCHED = 8, MOST_MEMBERS = INT32_MAX };

static const tri_json constants[] = {
    {.refs = FOREVER, .type = TRI_JSON_TRUE},
    {.refs = FOREVER, .type = TRI_JSON_FALSE},
    {.refs = FOREVER, .type = TRI_JSON_NULL},
};

static int is(const tri_json *value, tri_json_type type) { return value && value->type == type; }

static tri_json *make(tri_json_type type, size_t more) {
    tri_json *value = calloc(1, sizeof *value + more);
    if (value) value->refs = 1, value->type = type;
    return value;
}

tri_json *tri__json_object(void) { return make(TRI_JSON_OBJECT, 0); }
tri_json *tri__json_array(void) { return make(TRI_JSON_ARRAY, 0); }
tri_json *tri__json_null(void) { return (tri_json *)&constants[2]; }
tri_json *tri__json_boolean(int value) { return (tri_json *)&constants[!value]; }

tri_json *tri__json_stringn(const char *text, size_t length) {
    tri_json *value = make(TRI_JSON_STRING, length + 1);
    if (!value) return NULL;
    value->string.text = (char *)(value + 1);
    value->string.length = length;
    memcpy(value->string.text, text, length);
    return value;
}

tri_json *tri__json_string(const char *text) { return text ? tri__json_stringn(text, strlen(text)) : NULL; }

tri_json *tri__json_integer(tri_json_int number) {
    tri_json *value = make(TRI_JSON_INTEGER, 0);
    if (value) value->integer = number;
    return value;
}

tri_json *tri__json_real(double number) {
    if (!isfinite(number)) return tri__json_null();
    tri_json *value = make(TRI_JSON_REAL, 0);
    if (value) value->real = number;
    return value;
}

tri_json *tri__json_incref(tri_json *value) {
    if (value && value->refs != FOREVER) __atomic_fetch_add(&value->refs, 1, __ATOMIC_RELAXED);
    return value;
}

void tri__json_decref(tri_json *value) {
    if (!value || value->refs == FOREVER || __atomic_sub_fetch(&value->refs, 1, __ATOMIC_ACQ_REL)) return;
    if (value->type == TRI_JSON_ARRAY) {
        for (size_t i = 0; i < value->list.n; i++) tri__json_decref(value->list.item[i]);
        free(value->list.item);
    } else if (value->type == TRI_JSON_OBJECT) {
        for (size_t i = 0; i < value->object.n; i++) {
            free(value->object.item[i].key);
            tri__json_decref(value->object.item[i].value);
        }
        TRI_FREE(value->object.item, value->object.slot);
    }
    free(value);
}

int tri__json_typeof(const tri_json *value) { return value ? value->type : -1; }
int tri__json_is_object(const tri_json *value) { return is(value, TRI_JSON_OBJECT); }
int tri__json_is_array(const tri_json *value) { return is(value, TRI_JSON_ARRAY); }
int tri__json_is_string(const tri_json *value) { return is(value, TRI_JSON_STRING); }
int tri__json_is_integer(const tri_json *value) { return is(value, TRI_JSON_INTEGER); }
int tri__json_is_number(const tri_json *value) { return is(value, TRI_JSON_INTEGER) || is(value, TRI_JSON_REAL); }
int tri__json_is_true(const tri_json *value) { return is(value, TRI_JSON_TRUE); }
int tri__json_is_boolean(const tri_json *value) { return is(value, TRI_JSON_TRUE) || is(value, TRI_JSON_FALSE); }
int tri__json_is_null(const tri_json *value) { return is(value, TRI_JSON_NULL); }
const char *tri__json_string_value(const tri_json *value) {
    return is(value, TRI_JSON_STRING) ? value->string.text : NULL;
}
size_t tri__json_string_length(const tri_json *value) { return is(value, TRI_JSON_STRING) ? value->string.length : 0; }
tri_json_int tri__json_integer_value(const tri_json *value) { return is(value, TRI_JSON_INTEGER) ? value->integer : 0; }
double tri__json_real_value(const tri_json *value) { return is(value, TRI_JSON_REAL) ? value->real : 0; }
double tri__json_number_value(const tri_json *value) {
    return is(value, TRI_JSON_INTEGER) ? (double)value->integer : tri__json_real_value(value);
}

/* Marks `container`, if it is one, as incomplete, and releases the value that could not be added. */
static int lose(tri_json *container, tri_json *value) {
    if (is(container, TRI_JSON_OBJECT) || is(container, TRI_JSON_ARRAY)) container->lost = 1;
    tri__json_decref(value);
    return -1;
}

/* Seeded with the object's address, so that colliding keys cannot be prepared. */
static uint64_t hash_of(const tri_json *object, const char *key) {
    return tri__hash64((uint64_t)(uintptr_t)object, key, strlen(key));
}

static void put_slot(tri_json *object, size_t at) {
    size_t mask = object->object.slots - 1, i = (size_t)object->object.item[at].hash & mask;
    while (object->object.slot[i]) i = (i + 1) & mask;
    object->object.slot[i] = (uint32_t)at + 1;
}

/* Builds an index of `slots` entries over all members; 0 if out of memory: the old index stays. */
static int index_members(tri_json *object, size_t slots) {
    uint32_t *slot = calloc(slots, sizeof *slot);
    if (!slot) return 0;
    free(object->object.slot);
    object->object.slot = slot, object->object.slots = slots;
    for (size_t i = 0; i < object->object.n; i++) put_slot(object, i);
    return 1;
}

/* The index of the member with that key; n if there is none. */
static size_t find(const tri_json *object, const char *key, uint64_t hash) {
    const tri_json_member *item = object->object.item;
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

tri_json *tri__json_get(const tri_json *object, const char *key) {
    if (!is(object, TRI_JSON_OBJECT) || !key || !object->object.n) return NULL;
    size_t at = find(object, key, hash_of(object, key));
    return at < object->object.n ? object->object.item[at].value : NULL;
}

/* Appends a member. All memory is allocated before anything changes. */
static int add_member(tri_json *object, const char *key, uint64_t hash, tri_json *value) {
    size_t n = object->object.n, slots = object->object.slots;
    TRI_OWNED(tri__free_at) char *copy = n < MOST_MEMBERS ? strdup(key) : NULL;
    if (copy && tri__grow(&object->object.item, &object->object.room, n + 2, sizeof(tri_json_member)) &&
        (n < SEARCHED || 2 * (n + 1) <= slots || index_members(object, slots ? 2 * slots : 4 * SEARCHED))) {
        object->object.item[n] = (tri_json_member){TRI_GIVE(copy), value, hash};
        object->object.item[++object->object.n].key = NULL;
        if (object->object.slots) put_slot(object, n);
        return 0;
    }
    return lose(object, value);
}

int tri__json_set_new(tri_json *object, const char *key, tri_json *value) {
    if (!is(object, TRI_JSON_OBJECT) || !key || !value || object == value) return lose(object, value);
    uint64_t hash = hash_of(object, key);
    size_t at = find(object, key, hash);
    if (at == object->object.n) return add_member(object, key, hash, value);
    tri__json_decref(object->object.item[at].value);
    object->object.item[at].value = value;
    return 0;
}

int tri__json_set(tri_json *object, const char *key, const tri_json *value) {
    return tri__json_set_new(object, key, tri__json_incref((tri_json *)value));
}

int tri__json_set_filled(tri_json *object, const char *key, tri_json *container) {
    if (!container || container->lost || tri__json_size(container) || tri__json_object_size(container))
        return tri__json_set_new(object, key, container);
    tri__json_decref(container);
    return 0;
}

int tri__json_update(tri_json *object, const tri_json *other) {
    int failed = !is(other, TRI_JSON_OBJECT) || other->lost ? lose(object, NULL) : 0;
    tri__json_members(other, m) failed |= tri__json_set(object, m->key, m->value);
    return failed;
}

/* Moves all later members forward by one; the index is rebuilt in place. */
int tri__json_del(tri_json *object, const char *key) {
    size_t at = is(object, TRI_JSON_OBJECT) ? find(object, key, hash_of(object, key)) : 0;
    if (!is(object, TRI_JSON_OBJECT) || at == object->object.n) return -1;
    tri_json_member *item = object->object.item;
    free(item[at].key);
    tri__json_decref(item[at].value);
    memmove(item + at, item + at + 1, (object->object.n-- - at) * sizeof *item); /* and the one that ends them */
    if (object->object.slots) memset(object->object.slot, 0, object->object.slots * sizeof *object->object.slot);
    for (size_t i = 0; object->object.slots && i < object->object.n; i++) put_slot(object, i);
    return 0;
}

size_t tri__json_object_size(const tri_json *object) { return is(object, TRI_JSON_OBJECT) ? object->object.n : 0; }
const tri_json_member *tri__json_first(const tri_json *object) {
    static const tri_json_member none;
    return tri__json_object_size(object) ? object->object.item : &none;
}

size_t tri__json_size(const tri_json *array) { return is(array, TRI_JSON_ARRAY) ? array->list.n : 0; }
tri_json *tri__json_at(const tri_json *array, size_t at) {
    return at < tri__json_size(array) ? array->list.item[at] : NULL;
}

tri_json *const *tri__json_begin(const tri_json *array) {
    static tri_json *const none;
    return tri__json_size(array) ? array->list.item : &none;
}

int tri__json_append_new(tri_json *array, tri_json *value) {
    if (!is(array, TRI_JSON_ARRAY) || !value || array == value ||
        !tri__grow(&array->list.item, &array->list.room, array->list.n + 2, sizeof value))
        return lose(array, value);
    array->list.item[array->list.n++] = value;
    array->list.item[array->list.n] = NULL;
    return 0;
}

tri_json *tri__json_strings(char *const *text, int n) {
    tri_json *list = tri__json_array();
    for (int i = 0; i < n; i++) tri__json_append_new(list, tri__json_string(text[i]));
    return list;
}

int tri__json_append(tri_json *array, const tri_json *value) {
    return tri__json_append_new(array, tri__json_incref((tri_json *)value));
}

int tri__json_extend(tri_json *array, const tri_json *other) {
    int failed = !is(other, TRI_JSON_ARRAY) || other->lost ? lose(array, NULL) : 0;
    for (size_t i = 0, n = tri__json_size(other); i < n; i++) failed |= tri__json_append(array, other->list.item[i]);
    return failed;
}

int tri__json_is_whole(const tri_json *value) {
    if (!value || value->lost) return 0;
    for (size_t i = 0, n = tri__json_size(value); i < n; i++)
        if (!tri__json_is_whole(value->list.item[i])) return 0;
    for (size_t i = 0, n = tri__json_object_size(value); i < n; i++)
        if (!tri__json_is_whole(value->object.item[i].value)) return 0;
    return 1;
}

/* The same, but the containers in it are copies. */
static tri_json *copy_of(const tri_json *value) {
    tri_json *copy;
    switch (value->type) {
    case TRI_JSON_STRING: return tri__json_stringn(value->string.text, value->string.length);
    case TRI_JSON_INTEGER: return tri__json_integer(value->integer);
    case TRI_JSON_REAL: return tri__json_real(value->real);
    case TRI_JSON_ARRAY:
        copy = tri__json_array();
        for (size_t i = 0; i < value->list.n; i++) tri__json_append_new(copy, copy_of(value->list.item[i]));
        return copy;
    case TRI_JSON_OBJECT:
        copy = tri__json_object();
        for (size_t i = 0; i < value->object.n; i++)
            tri__json_set_new(copy, value->object.item[i].key, copy_of(value->object.item[i].value));
        return copy;
    default: return (tri_json *)value;
    }
}

tri_json *tri__json_whole(tri_json *value) {
    if (tri__json_is_whole(value)) return value;
    tri__json_decref(value);
    return NULL;
}

tri_json *tri__json_deep_copy(const tri_json *value) {
    return tri__json_is_whole(value) ? tri__json_whole(copy_of(value)) : NULL;
}

int tri__json_equal(const tri_json *a, const tri_json *b) {
    if (!a || !b || a->type != b->type || a->lost || b->lost) return 0;
    switch (a->type) {
    case TRI_JSON_STRING:
        return a->string.length == b->string.length && !memcmp(a->string.text, b->string.text, a->string.length);
    case TRI_JSON_INTEGER: return a->integer == b->integer;
    case TRI_JSON_REAL: return a->real == b->real;
    case TRI_JSON_ARRAY:
        for (size_t i = 0; i < a->list.n && a->list.n == b->list.n; i++)
            if (!tri__json_equal(a->list.item[i], b->list.item[i])) return 0;
        return a->list.n == b->list.n;
    case TRI_JSON_OBJECT:
        for (size_t i = 0; i < a->object.n && a->object.n == b->object.n; i++)
            if (!tri__json_equal(a->object.item[i].value, tri__json_get(b, a->object.item[i].key))) return 0;
        return a->object.n == b->object.n;
    default: return 1;
    }
}
