/* tri__json_pack.c - builds values from a template (json.h). An invalid template is a bug: TRI_ASSERT. All arguments
 * are read even after a failure, so that references taken over are released. */
#include "base/json.h"

typedef struct template {
    const char *at;
    va_list args;
} template;

/* The next significant character. */
static char next(template *t) {
    t->at += strspn(t->at, " ,:");
    return *t->at ? *t->at++ : 0;
}

static int take(template *t, char c) { return *t->at == c ? t->at++, 1 : 0; }

static tri_json *pack_value(template *t, int *skip);

static tri_json *pack_list(template *t) {
    tri_json *list = tri__json_array();
    while (t->at += strspn(t->at, " ,"), !take(t, ']')) tri__json_append_new(list, pack_value(t, &(int){0}));
    return list;
}

static tri_json *pack_object(template *t) {
    tri_json *object = tri__json_object();
    for (char c; (c = next(t)) != '}';) {
        int skip = 0;
        TRI_ASSERT(c == 's');
        const char *key = va_arg(t->args, const char *);
        tri_json *value = pack_value(t, &skip);
        if (!skip) tri__json_set_new(object, key, value);
    }
    return object;
}

static tri_json *pack_string(template *t, int *skip) {
    const char *text = va_arg(t->args, const char *);
    int or_null = take(t, '?');
    *skip = take(t, '*') && !text;
    return !text && or_null ? tri__json_null() : tri__json_string(text);
}

static tri_json *pack_shared(template *t) {
    tri_json *value = va_arg(t->args, tri_json *);
    int or_null = take(t, '?');
    return !value && or_null ? tri__json_null() : tri__json_incref(value);
}

static tri_json *pack_value(template *t, int *skip) {
    char c = next(t);
    switch (c) {
    case '{': return pack_object(t);
    case '[': return pack_list(t);
    case 's': return pack_string(t, skip);
    case 'i': return tri__json_integer(va_arg(t->args, int));
    case 'I': return tri__json_integer(va_arg(t->args, tri_json_int));
    case 'f': return tri__json_real(va_arg(t->args, double));
    case 'b': return tri__json_boolean(va_arg(t->args, int));
    case 'n': return tri__json_null();
    case 'o': return va_arg(t->args, tri_json *);
    case 'O': return pack_shared(t);
    default: TRI_ASSERT(!"a template of JSON"); return NULL;
    }
}

tri_json *tri__json_pack(const char *format, ...) {
    template t = {.at = format};
    va_start(t.args, format);
    tri_json *value = pack_value(&t, &(int){0});
    va_end(t.args);
    TRI_ASSERT(!*t.at);
    return tri__json_whole(value);
}
