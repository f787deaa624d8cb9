/* request_rows.c - rows of column values from the body of a request. In JSON a value is a string, a number, true, false
 * or, for a missing one, null, as in a table of JSON lines. CSV is what is a table in a file (data/table), its fields
 * separated by commas: an empty field is a missing value, and empty lines at the end are none. */
#include "serve/server/server_parts.h"

#include "data/table/value_text.h"

enum { NUMBER = 32 }; /* bytes of a number's text */

void tri__row_set_free(tri_row_set *rows) {
    TRI_FREE(rows->row, rows->value, rows->text);
    tri__json_decref(rows->document);
    tri__table_close(rows->table);
    *rows = (tri_row_set){0};
}

/* A number or truth value as the text that a binary table has for it. */
static size_t put_number(const tri_json *value, char *out) {
    if (tri__json_is_boolean(value)) return tri__boolean_text(tri__json_is_true(value), out);
    if (tri__json_is_integer(value)) return tri__integer_text(tri__json_integer_value(value), out);
    return tri__double_text(tri__json_real_value(value), out);
}

/* Rows, and values and numbers in them. */
static tri_status count(const tri_json *list, const char *where, const char *text_column, size_t *values,
                        size_t *numbers) {
    *values = *numbers = 0;
    tri__json_each(list, i, item) {
        int is_text = tri__json_is_string(item) && text_column;
        *values += is_text;
        if (is_text) continue;
        if (!tri__json_is_object(item))
            return tri__fail(TRI_USAGE, "%s, row %zu: an object {\"column\": value, ...} is expected%s", where, i + 1,
                             text_column ? ", or a text" : "");
        tri__json_members(item, m) {
            if (tri__json_is_object(m->value) || tri__json_is_array(m->value))
                return tri__fail(TRI_USAGE, "%s, row %zu, column \"%.100s\": %s; a text, a number, true, false or null "
                                 "is expected", where, i + 1, m->key,
                                 tri__json_is_array(m->value) ? "a list" : "an object");
            ++*values;
            *numbers += tri__json_is_number(m->value) || tri__json_is_boolean(m->value);
        }
    }
    return TRI_OK;
}

static void fill_value(const tri_json *value, const char *column, char **text, tri_column_value *out) {
    *out = (tri_column_value){.column = column};
    if (tri__json_is_string(value)) {
        out->value = tri__json_string_value(value), out->length = tri__json_string_length(value);
    } else if (!tri__json_is_null(value)) {
        out->value = *text, out->length = put_number(value, *text), out->number = tri__json_is_number(value);
        *text += NUMBER;
    }
}

tri_status tri__rows_of_json(const tri_json *list, const char *where, const char *text_column, tri_row_set *out) {
    size_t values, numbers, n = tri__json_size(list);
    *out = (tri_row_set){0};
    TRI_TRY(count(list, where, text_column, &values, &numbers));
    *out = (tri_row_set){.row = malloc((n + 1) * sizeof *out->row), .n = (int64_t)n,
                      .value = malloc((values + 1) * sizeof *out->value), .text = malloc(numbers * NUMBER + 1),
                      .document = tri__json_incref((tri_json *)list)};
    if (!out->row || !out->value || !out->text) {
        tri__row_set_free(out);
        return tri__fail(TRI_RESOURCE, "out of memory for %zu rows", n);
    }
    tri_column_value *to = out->value;
    char *text = out->text;
    tri__json_each(list, i, item) {
        tri_row *row = &out->row[i];
        row->value = to;
        if (tri__json_is_string(item)) fill_value(item, text_column, &text, to++);
        else tri__json_members(item, m) fill_value(m->value, m->key, &text, to++);
        row->n = (int)(to - row->value);
    }
    return TRI_OK;
}

/* The rows of a body as a JSON list; blank lines are left out. */
static tri_status read_lines(const char *body, size_t length, tri_json *list) {
    int line = 1;
    for (size_t at = 0; at < length; line++) {
        const char *begin = body + at, *end = memchr(begin, '\n', length - at);
        size_t n = end ? (size_t)(end - begin) : length - at;
        tri_json *object;
        at += n + 1;
        while (n && memchr(" \t\r", begin[n - 1], 3)) n--;
        if (!n) continue;
        TRI_TRY(tri__json_parse(begin, n, TRI_TEXT(32, "line %d", line), TRI_DATA, &object));
        if (tri__json_append_new(list, object)) return tri__fail(TRI_RESOURCE, "out of memory");
    }
    return TRI_OK;
}

tri_status tri__rows_of_lines(const char *body, size_t length, tri_row_set *out) {
    TRI_OWNED(tri__json_drop) tri_json *list = tri__json_array();
    *out = (tri_row_set){0};
    if (!list) return tri__fail(TRI_RESOURCE, "out of memory");
    TRI_TRY(read_lines(body, length, list));
    return tri__rows_of_json(list, "JSON lines", NULL, out);
}

/* ---- CSV ---- */

static tri_status take_rows(const tri_table *table, tri_row_set *out) {
    int columns = tri__table_columns(table);
    int64_t rows = tri__table_rows(table);
    out->row = malloc(((size_t)rows + 1) * sizeof *out->row);
    out->value = malloc(((size_t)rows * (size_t)columns + 1) * sizeof *out->value);
    if (!out->row || !out->value) return tri__fail(TRI_RESOURCE, "out of memory");
    tri_column_value *to = out->value;
    for (; out->n < rows; out->n++) {
        out->row[out->n] = (tri_row){.value = to, .n = columns};
        for (int c = 0; c < columns; c++, to++) {
            tri_field_text field = tri__table_field(table, out->n, c);
            *to = (tri_column_value){.column = tri__table_name(table, c), .value = field.length ? field.text : NULL,
                                     .length = field.length};
        }
    }
    return TRI_OK;
}

tri_status tri__rows_of_csv(const char *body, size_t length, tri_row_set *out) {
    const tri_table_options options = {.separator = ',', .keep = SIZE_MAX}; /* the body may go, the rows stay */
    *out = (tri_row_set){0};
    while (length && (body[length - 1] == '\n' || body[length - 1] == '\r')) length--;
    tri_status status = tri__table_open_bytes("CSV", body, length, &options, &out->table);
    if (status == TRI_OK) status = take_rows(out->table, out);
    if (status != TRI_OK) tri__row_set_free(out);
    return status;
}

void tri__ask_free(tri_ask *ask) {
    tri__row_set_free(&ask->rows);
    free(ask->id);
    *ask = (tri_ask){0};
}
