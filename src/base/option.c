/* option.c - reads and writes the fields that option rows describe. Every kind has one function that reads text and one
 * that reads JSON; a field changes only if its value was accepted. */
#include "base/option.h"

#include <ctype.h>
#include <errno.h>

enum { LIST_MAX = 100 * 1000 }; /* items of a list, as TRI_LIMIT_COLUMNS */

static void *field(const tri_option *row, const void *of) { return (char *)of + row->offset; }

/* Whether `a` equals the first n bytes of `b`; dashes equal underscores, and case is optionally ignored. */
static int same_word(const char *a, const char *b, size_t n, int any_case) {
    if (strlen(a) != n) return 0;
    for (size_t i = 0; i < n; i++) {
        int x = a[i] == '-' ? '_' : (unsigned char)a[i], y = b[i] == '-' ? '_' : (unsigned char)b[i];
        if (any_case ? tolower(x) != tolower(y) : x != y) return 0;
    }
    return 1;
}

static tri_status no_memory(const char *origin) {
    return tri__fail(TRI_RESOURCE, "%s: no memory for the value", origin);
}

int tri__option_truth(const char *word) {
    static const char *const words[] = {"false", "true", "no", "yes", "0", "1", "off", "on"};
    for (int i = 0; i < 8; i++)
        if (strcasecmp(word, words[i]) == 0) return i & 1;
    return -1;
}

static tri_status set_bool(const char *origin, int *into, const char *text) {
    int truth = tri__option_truth(text);
    if (truth < 0) return tri__fail(TRI_USAGE, "%s: expected true or false, not \"%s\"", origin, text);
    *into = truth;
    return TRI_OK;
}

static tri_status check_range(const tri_option *row, const char *origin, double value, const char *text) {
    if (row->min == 0 && row->max == 0) return TRI_OK;
    if (value >= row->min && value <= row->max) return TRI_OK;
    if (isinf(row->max))
        return tri__fail(TRI_USAGE, "%s: %s is out of range; expected %.15g or more", origin, text, row->min);
    return tri__fail(TRI_USAGE, "%s: %s is out of range; expected %.15g to %.15g", origin, text, row->min, row->max);
}

/* Decimal, finite. */
static int read_real(const char *text, double *value) {
    char *end;
    size_t n = strspn(text, "+-.0123456789eE");
    *value = strtod(text, &end);
    return n > 0 && text[n] == 0 && end == text + n && isfinite(*value);
}

static tri_status set_real(const tri_option *row, const char *origin, double *into, const char *text) {
    double value;
    if (!read_real(text, &value)) return tri__fail(TRI_USAGE, "%s: expected a number, not \"%s\"", origin, text);
    TRI_TRY(check_range(row, origin, value, text));
    *into = value;
    return TRI_OK;
}

/* The check's message is prefixed with the option as on the command line. */
static tri_status set_string(const tri_option *row, const char *origin, char **into, const char *text) {
    if (!*text) return tri__fail(TRI_USAGE, "%s: the value is empty", origin);
    tri_status status = row->check ? row->check(text) : TRI_OK;
    if (status != TRI_OK) return origin[0] == '-' ? status : tri__fail_in(status, "%s", origin);
    char *copy = strdup(text);
    if (!copy) return no_memory(origin);
    free(*into);
    *into = copy;
    return TRI_OK;
}

/* One item of "none|zero1|NO_SHARD=none" at *at: its name [*name, *name + *n), and the choice it is an alias of, or
 * NULL. Advances *at; 0 at the end. */
static int next_choice(const char **at, const char **name, size_t *n, const char **of, size_t *of_n) {
    if (!**at) return 0;
    size_t length = strcspn(*at, "|"), equal = strcspn(*at, "=|");
    *name = *at, *n = equal;
    *of = equal < length ? *at + equal + 1 : NULL;
    *of_n = equal < length ? length - equal - 1 : 0;
    *at += length + ((*at)[length] == '|');
    return 1;
}

/* Whether `text` is one of the row's words for numbers, which need not be in its range. */
static int is_number_word(const tri_option *row, int64_t *into, const char *text) {
    const char *name, *of;
    size_t n, of_n;
    for (const char *at = row->choices ? row->choices : ""; next_choice(&at, &name, &n, &of, &of_n);)
        if (same_word(text, name, n, 1)) {
            *into = strtoll(of, NULL, 10);
            return 1;
        }
    return 0;
}

static tri_status set_int(const tri_option *row, const char *origin, int64_t *into, const char *text) {
    const char *digits = text + (text[0] == '-');
    size_t n = strspn(digits, "0123456789");
    if (is_number_word(row, into, text)) return TRI_OK;
    errno = 0;
    long long value = strtoll(text, NULL, 10);
    if (n == 0 || digits[n]) return tri__fail(TRI_USAGE, "%s: expected a whole number, not \"%s\"", origin, text);
    if (errno) return tri__fail(TRI_USAGE, "%s: %s is too large", origin, text);
    TRI_TRY(check_range(row, origin, (double)value, text));
    *into = value;
    return TRI_OK;
}

/* The index among the choices without aliases; -1 if there is none. */
static int find_choice(const char *choices, const char *text, size_t length) {
    const char *name, *of;
    size_t n, of_n;
    char copy[64];
    if (length >= sizeof copy) return -1;
    memcpy(copy, text, length);
    copy[length] = 0;
    int index = 0;
    for (const char *at = choices; next_choice(&at, &name, &n, &of, &of_n); index += !of)
        if (same_word(copy, name, n, 1)) return of ? find_choice(choices, of, of_n) : index;
    return -1;
}

/* "none, zero1 or zero2", into `out`, which is returned. */
static const char *list_choices(const char *choices, char out[static 256]) {
    const char *name, *of;
    size_t n, of_n;
    int count = 0, seen = 0;
    for (const char *at = choices; next_choice(&at, &name, &n, &of, &of_n);) count += !of;
    out[0] = 0;
    for (const char *at = choices; next_choice(&at, &name, &n, &of, &of_n);)
        if (!of) tri__text_append(out, 256, ++seen == count ? " or " : ", ", "%.*s", (int)n, name);
    return out;
}

static tri_status not_a_choice(const tri_option *row, const char *origin, const char *text, size_t length) {
    return tri__fail(TRI_USAGE, "%s: expected %s, not \"%.*s\"", origin,
                     list_choices(row->choices, (char[256]){0}), (int)length, text);
}

static tri_status set_choice(const tri_option *row, const char *origin, int *into, const char *text) {
    int index = find_choice(row->choices, text, strlen(text));
    if (index < 0) return not_a_choice(row, origin, text, strlen(text));
    *into = index;
    return TRI_OK;
}

/* The name of a choice by its index, not 0-terminated; *n: its length. */
static const char *choice_name(const tri_option *row, int index, size_t *n) {
    const char *name, *of;
    size_t of_n;
    for (const char *at = row->choices; next_choice(&at, &name, n, &of, &of_n);)
        if (!of && index-- == 0) return name;
    return NULL;
}

const char *tri__option_word(const tri_option *row, int index, char out[static TRI_OPTION_FLAG]) {
    size_t n = 0;
    const char *name = choice_name(row, index, &n);
    snprintf(out, TRI_OPTION_FLAG, "%.*s", (int)n, name ? name : "");
    return out;
}

void tri__texts_free(tri_texts *texts) {
    for (int i = 0; i < texts->n; i++) free(texts->at[i]);
    free(texts->at);
    *texts = (tri_texts){0};
}

int tri__texts_has(const tri_texts *texts, const char *text) {
    return tri__text_index(text, (const char *const *)texts->at, texts->n) >= 0;
}

tri_status tri__texts_push(tri_texts *texts, char *text) {
    char **at = text ? realloc(texts->at, ((size_t)texts->n + 1) * sizeof *at) : NULL;
    if (at) {
        texts->at = at, at[texts->n++] = text;
        return TRI_OK;
    }
    free(text);
    return tri__fail(TRI_RESOURCE, "out of memory while reading options");
}

/* Appends the `length` bytes at `text`, or, if the row has choices, the name of the matching choice. */
static tri_status add_text(const tri_option *row, const char *origin, tri_texts *texts, const char *text,
                           size_t length) {
    if (row->kind == TRI_OPTION_TEXTS && row->choices) {
        int index = find_choice(row->choices, text, length);
        if (index < 0) return not_a_choice(row, origin, text, length);
        text = choice_name(row, index, &length);
    }
    if (texts->n == LIST_MAX) return tri__fail(TRI_USAGE, "%s: more than %d items", origin, LIST_MAX);
    return tri__texts_push(texts, strndup(text, length));
}

/* Once all of a list is right, it is appended to another, or changes places with it. */
static tri_status take_texts(tri_texts *into, tri_texts *list, int appends) {
    tri_texts before = *into;
    for (int i = 0; i < list->n && appends; i++) TRI_TRY(tri__texts_push(into, strdup(list->at[i])));
    if (!appends) *into = *list, *list = before;
    return TRI_OK;
}

static tri_status set_texts(const tri_option *row, const char *origin, tri_texts *into, const char *text) {
    TRI_OWNED(tri__texts_free) tri_texts list = {0};
    for (const char *at = text; *text; at++) {
        const char *begin = at + strspn(at, " "), *end = at += strcspn(at, ",");
        while (end > begin && end[-1] == ' ') end--;
        if (end <= begin) return tri__fail(TRI_USAGE, "%s: an empty item in \"%s\"", origin, text);
        TRI_TRY(add_text(row, origin, &list, begin, (size_t)(end - begin)));
        if (!*at) break;
    }
    return take_texts(into, &list, row->repeats);
}

/* Whether `text` is one of the words that stand for a list, which is then set. */
static int is_list_word(const tri_option *row, tri_reals *into, const char *text) {
    int index = row->choices ? find_choice(row->choices, text, strlen(text)) : -1;
    if (index < 0) return 0;
    free(into->at);
    *into = (tri_reals){.word = index + 1};
    return 1;
}

/* An item that is neither a number nor a word for all of them. */
static tri_status set_item(const tri_option *row, const char *origin, double *into, const char *text) {
    double value;
    if (!row->choices || read_real(text, &value)) return set_real(row, origin, into, text);
    return tri__fail(TRI_USAGE, "%s: expected numbers, or %s, not \"%s\"", origin,
                     list_choices(row->choices, (char[256]){0}), text);
}

static tri_status set_reals(const tri_option *row, const char *origin, tri_reals *into, const char *text) {
    TRI_OWNED(tri__texts_free) tri_texts items = {0};
    if (is_list_word(row, into, text)) return TRI_OK;
    TRI_TRY(set_texts(row, origin, &items, text));
    TRI_OWNED(tri__free_at) double *at = calloc((size_t)items.n + 1, sizeof *at);
    if (!at) return no_memory(origin);
    for (int i = 0; i < items.n; i++) TRI_TRY(set_item(row, origin, &at[i], items.at[i]));
    free(into->at);
    *into = (tri_reals){.at = TRI_GIVE(at), .n = items.n};
    return TRI_OK;
}

/* Without the underscores between digits, as Python writes 100_000_000. */
static const char *plain_number(const char *text, char out[static 64]) {
    size_t n = 0;
    for (const char *c = text; *c && n < 63; c++)
        if (*c != '_' || c == text || !isdigit((unsigned char)c[-1]) || !isdigit((unsigned char)c[1])) out[n++] = *c;
    out[n] = 0;
    return strlen(text) < 64 ? out : text;
}

tri_status tri__option_set_text(const tri_option *row, void *into, const char *origin, const char *text) {
    void *to = field(row, into);
    char number[64];
    if (row->kind == TRI_OPTION_INT || row->kind == TRI_OPTION_REAL) text = plain_number(text, number);
    switch (row->kind) {
    case TRI_OPTION_BOOL: return set_bool(origin, to, text);
    case TRI_OPTION_INT: return set_int(row, origin, to, text);
    case TRI_OPTION_REAL: return set_real(row, origin, to, text);
    case TRI_OPTION_TEXT: return set_string(row, origin, to, text);
    case TRI_OPTION_CHOICE: return set_choice(row, origin, to, text);
    case TRI_OPTION_TEXTS: return set_texts(row, origin, to, text);
    case TRI_OPTION_REALS: return set_reals(row, origin, to, text);
    case TRI_OPTION_OBJECT: break;
    }
    return tri__fail(TRI_USAGE, "%s: an object is expected, which only the configuration file can give", origin);
}

static tri_status expected(const char *origin, const char *what, const tri_json *value) {
    static const char *const names[] = {"an object", "a list", "a string", "a whole number",
                                        "a number",  "true",   "false",    "null"}; /* by tri_json_type */
    if (tri__json_is_number(value) && !tri__json_is_integer(value))
        return tri__fail(TRI_USAGE, "%s: expected %s, not %.9g", origin, what, tri__json_number_value(value));
    return tri__fail(TRI_USAGE, "%s: expected %s, not %s", origin, what, names[tri__json_typeof(value)]);
}

static tri_status texts_from_json(const tri_option *row, const char *origin, tri_texts *into, const tri_json *value) {
    TRI_OWNED(tri__texts_free) tri_texts list = {0};
    if (row->pairs && tri__json_is_string(value)) return set_texts(row, origin, into, tri__json_string_value(value));
    if (row->pairs && tri__json_is_object(value)) { /* {"a": "b"}: the list "a=b" */
        TRI_OWNED(tri__json_drop) tri_json *pairs = tri__json_array();
        tri__json_members(value, m) {
            const char *is = tri__json_string_value(m->value);
            tri__json_append_new(pairs, tri__json_string(TRI_TEXT(1024, "%s=%s", m->key, is ? is : "")));
        }
        return texts_from_json(row, origin, into, pairs);
    }
    if (!tri__json_is_array(value)) return expected(origin, "a list of strings", value);
    tri__json_items(value, item) {
        if (!tri__json_is_string(item)) return expected(origin, "a list of strings", item);
        TRI_TRY(add_text(row, origin, &list, tri__json_string_value(item), tri__json_string_length(item)));
    }
    return take_texts(into, &list, 0);
}

static tri_status real_from_json(const tri_option *row, const char *origin, double *into, const tri_json *value) {
    if (!tri__json_is_number(value)) return expected(origin, "a number", value);
    double number = tri__json_number_value(value);
    TRI_TRY(check_range(row, origin, number, TRI_TEXT(40, "%.9g", number)));
    *into = number;
    return TRI_OK;
}

static tri_status reals_from_json(const tri_option *row, const char *origin, tri_reals *into, const tri_json *value) {
    size_t n = tri__json_size(value);
    if (row->choices && tri__json_is_string(value)) return set_reals(row, origin, into, tri__json_string_value(value));
    if (!tri__json_is_array(value)) return expected(origin, "a list of numbers", value);
    if (n > LIST_MAX) return tri__fail(TRI_USAGE, "%s: more than %d items", origin, LIST_MAX);
    TRI_OWNED(tri__free_at) double *at = calloc(n + 1, sizeof *at);
    if (!at) return no_memory(origin);
    for (size_t i = 0; i < n; i++) TRI_TRY(real_from_json(row, origin, &at[i], tri__json_at(value, i)));
    free(into->at);
    *into = (tri_reals){.at = TRI_GIVE(at), .n = (int)n};
    return TRI_OK;
}

static tri_status int_from_json(const tri_option *row, const char *origin, int64_t *into, const tri_json *value) {
    if (tri__json_is_string(value) && is_number_word(row, into, tri__json_string_value(value))) return TRI_OK;
    if (!tri__json_is_integer(value)) return expected(origin, "a whole number", value);
    return set_int(row, origin, into, TRI_TEXT(32, "%lld", tri__json_integer_value(value)));
}

/* null unsets the option, if it can be unset: a text that has a default is never NULL, and gets it back. */
static tri_status null_from_json(const tri_option *row, void *into, const char *origin, const tri_json *value) {
    if (row->kind != TRI_OPTION_TEXT && row->kind != TRI_OPTION_OBJECT) return expected(origin, "a value", value);
    if (row->value) return tri__option_set_text(row, into, origin, row->value);
    tri__options_free((const tri_option[2]){*row}, into);
    return TRI_OK;
}

tri_status tri__option_set_json(const tri_option *row, void *into, const char *origin, const tri_json *value) {
    void *to = field(row, into);
    if (tri__json_is_null(value)) return null_from_json(row, into, origin, value);
    switch (row->kind) {
    case TRI_OPTION_BOOL:
        if (!tri__json_is_boolean(value)) return expected(origin, "true or false", value);
        *(int *)to = tri__json_is_true(value);
        return TRI_OK;
    case TRI_OPTION_INT: return int_from_json(row, origin, to, value);
    case TRI_OPTION_REAL: return real_from_json(row, origin, to, value);
    case TRI_OPTION_TEXT:
    case TRI_OPTION_CHOICE:
        if (!tri__json_is_string(value)) return expected(origin, "a string", value);
        return tri__option_set_text(row, into, origin, tri__json_string_value(value));
    case TRI_OPTION_TEXTS: return texts_from_json(row, origin, to, value);
    case TRI_OPTION_REALS: return reals_from_json(row, origin, to, value);
    case TRI_OPTION_OBJECT: break;
    }
    if (!tri__json_is_object(value)) return expected(origin, "an object", value);
    tri_json *copy = tri__json_deep_copy(value);
    if (!copy) return no_memory(origin);
    tri__json_decref(*(tri_json **)to);
    *(tri_json **)to = copy;
    return TRI_OK;
}

static tri_json *choice_json(const tri_option *row, int index) {
    size_t n;
    const char *name = choice_name(row, index, &n);
    return name ? tri__json_stringn(name, n) : tri__json_null();
}

tri_json *tri__option_json(const tri_option *row, const void *from) {
    const void *at = field(row, from);
    const tri_texts *texts = at;
    const tri_reals *reals = at;
    switch (row->kind) {
    case TRI_OPTION_BOOL: return tri__json_boolean(*(const int *)at);
    case TRI_OPTION_INT: return tri__json_integer(*(const int64_t *)at);
    case TRI_OPTION_REAL: return tri__json_real(*(const double *)at);
    case TRI_OPTION_TEXT: return *(char *const *)at ? tri__json_string(*(char *const *)at) : tri__json_null();
    case TRI_OPTION_CHOICE: return choice_json(row, *(const int *)at);
    case TRI_OPTION_OBJECT:
        return *(tri_json *const *)at ? tri__json_deep_copy(*(tri_json *const *)at) : tri__json_null();
    case TRI_OPTION_TEXTS: return tri__json_strings(texts->at, texts->n);
    case TRI_OPTION_REALS: break;
    }
    if (reals->word) return choice_json(row, reals->word - 1);
    tri_json *list = tri__json_array();
    for (int i = 0; i < reals->n; i++) tri__json_append_new(list, tri__json_real(reals->at[i]));
    return list;
}

const char *tri__option_typed(const tri_json *value, char between, char out[static TRI_OPTION_TYPED]) {
    double number = tri__json_number_value(value);
    int is_whole = fabs(number) < 1e15 && number == trunc(number);
    size_t n = 0;
    if (tri__json_is_string(value)) return tri__json_string_value(value);
    if (tri__json_is_boolean(value)) return tri__json_is_true(value) ? "true" : "false";
    if (tri__json_is_number(value)) n = (size_t)snprintf(out, TRI_OPTION_TYPED, is_whole ? "%.0f" : "%.9g", number);
    tri__json_each(value, i, item) {
        if (!tri__json_is_string(item) || n >= TRI_OPTION_TYPED) return NULL;
        n += (size_t)snprintf(out + n, TRI_OPTION_TYPED - n, "%.*s%s", i > 0, &between, tri__json_string_value(item));
    }
    return n && n < TRI_OPTION_TYPED ? out : NULL;
}

static const size_t field_bytes[] = {
    [TRI_OPTION_BOOL] = sizeof(int),         [TRI_OPTION_INT] = sizeof(int64_t),
    [TRI_OPTION_REAL] = sizeof(double),      [TRI_OPTION_TEXT] = sizeof(char *),
    [TRI_OPTION_CHOICE] = sizeof(int),       [TRI_OPTION_TEXTS] = sizeof(tri_texts),
    [TRI_OPTION_REALS] = sizeof(tri_reals),  [TRI_OPTION_OBJECT] = sizeof(tri_json *)};

tri_status tri__options_init(const tri_option *rows, void *into) {
    tri_status status = TRI_OK;
    for (const tri_option *row = rows; row->name; row++) memset(field(row, into), 0, field_bytes[row->kind]);
    for (const tri_option *row = rows; row->name && status == TRI_OK; row++)
        if (row->value) status = tri__option_set_text(row, into, row->name, row->value);
    TRI_ASSERT(status == TRI_OK || status == TRI_RESOURCE); /* defaults in our tables are valid */
    if (status != TRI_OK) tri__options_free(rows, into);
    return status;
}

int tri__option_is_default(const tri_option *row, const void *from) {
    union {
        int word;
        int64_t whole;
        double real;
    } usual = {.whole = 0};
    const void *at = field(row, from);
    tri_option alone = *row; /* in a struct of its own */
    if (row->kind == TRI_OPTION_TEXT) {
        const char *text = *(char *const *)at;
        return text && row->value ? !strcmp(text, row->value) : !text && !row->value;
    }
    TRI_ASSERT(row->kind <= TRI_OPTION_CHOICE);
    alone.offset = 0;
    if (row->value) TRI_ASSERT(tri__option_set_text(&alone, &usual, row->name, row->value) == TRI_OK);
    return !memcmp(at, &usual, field_bytes[row->kind]);
}

void tri__options_free(const tri_option *rows, void *into) {
    for (const tri_option *row = rows; row->name; row++) {
        void *at = field(row, into);
        if (row->kind == TRI_OPTION_TEXT) free(*(char **)at);
        if (row->kind == TRI_OPTION_TEXTS) tri__texts_free(at);
        if (row->kind == TRI_OPTION_REALS) free(((tri_reals *)at)->at);
        if (row->kind == TRI_OPTION_OBJECT) tri__json_decref(*(tri_json **)at);
        memset(at, 0, field_bytes[row->kind]);
    }
}

const tri_option *tri__option_find(const tri_option *rows, const char *name) {
    for (const tri_option *row = rows; row->name; row++)
        if (same_word(row->name, name, strlen(name), 0) || (row->alias && same_word(row->alias, name, strlen(name), 0)))
            return row;
    return NULL;
}

int tri__option_listed(const tri_option *row, const char *command) {
    size_t n = strlen(command);
    if (strcmp(command, "config") == 0) return row->effect > TRI_EFFECT_UNRECORDED;
    if (strcmp(command, "sweep") == 0 && tri__option_listed(row, "train")) return 1;
    for (const char *at = row->commands; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == n && strncmp(at, command, n) == 0) return 1;
    return 0;
}

const char *tri__option_flag(const char *name, char out[static TRI_OPTION_FLAG]) {
    snprintf(out, TRI_OPTION_FLAG, "--%s", name);
    for (char *c = out; *c; c++)
        if (*c == '_') *c = '-';
    return out;
}
