/* json_pack.c - values by a template (json.h). A fault in a template is ours: TRI_ASSERT. All arguments are walked even after a failure, so
 * that values handed over are released. */
#include "base/json.h"

#include <stdarg.h>
#include <string.h>

typedef struct template {
    const char *at;
    va_list args;
} template;

/* The next character that means something. */
static char next(template *t) {
    t->at += strspn(t->at, " ,:");
    return *t->at ? *t->at++ : 0;
}

static int take(template *t, char c) { return *t->at == c ? t->at++, 1 : 0; }

static json_t *pack_value(template *t, int *skip);

static json_t *pack_list(template *t) {
    json_t *list = json_array();
    while (t->at += strspn(t->at, " ,"), !take(t, ']')) json_array_append_new(list, pack_value(t, &(int){0}));
    return list;
}

static json_t *pack_object(template *t) {
    json_t *object = json_object();
    for (char c; (c = next(t)) != '}';) {
        int skip = 0;
        TRI_ASSERT(c == 's');
        const char *key = va_arg(t->args, const char *);
        json_t *value = pack_value(t, &skip);
        if (!skip) json_object_set_new(object, key, value);
    }
    return object;
}

static json_t *pack_string(template *t, int *skip) {
    const char *text = va_arg(t->args, const char *);
    int or_null = take(t, '?');
    *skip = take(t, '*') && !text;
    return !text && or_null ? json_null() : json_string(text);
}

static json_t *pack_shared(template *t) {
    json_t *value = va_arg(t->args, json_t *);
    int or_null = take(t, '?');
    return !value && or_null ? json_null() : json_incref(value);
}

static json_t *pack_value(template *t, int *skip) {
    char c = next(t);
    switch (c) {
    case '{': return pack_object(t);
    case '[': return pack_list(t);
    case 's': return pack_string(t, skip);
    case 'i': return json_integer(va_arg(t->args, int));
    case 'I': return json_integer(va_arg(t->args, json_int_t));
    case 'f': return json_real(va_arg(t->args, double));
    case 'b': return json_boolean(va_arg(t->args, int));
    case 'n': return json_null();
    case 'o': return va_arg(t->args, json_t *);
    case 'O': return pack_shared(t);
    default: TRI_ASSERT(!"a template of JSON"); return NULL;
    }
}

json_t *json_pack(const char *format, ...) {
    template t = {.at = format};
    va_start(t.args, format);
    json_t *value = pack_value(&t, &(int){0});
    va_end(t.args);
    TRI_ASSERT(!*t.at);
    if (json_is_whole(value)) return value;
    json_decref(value);
    return NULL;
}
