/* csv_rows.c - rows of column values from CSV (RFC 4180): the first line names the columns. Requests are small, so
 * this reads a body in memory in one pass; tables in files are read by data/table. An empty field is a missing
 * value. */
#include "serve/server/server_parts.h"

#include <stdlib.h>
#include <string.h>

/* Fields are decoded to `text`, each ended by a 0 byte, and so never take more room than they had. */
typedef struct scan {
    const char *body;
    size_t length, at;
    int line;
    char *text;                 /* where the next field goes */
} scan;

static tri_status bad(const scan *s, const char *why) { return tri__fail(TRI_DATA, "CSV, line %d: %s", s->line, why); }

/* The quote stands at body[at]. */
static tri_status quoted_field(scan *s) {
    int begun = s->line;
    for (s->at++; s->at < s->length; s->at++) {
        char c = s->body[s->at];
        if (c == '"' && s->at + 1 < s->length && s->body[s->at + 1] == '"') s->at++;
        else if (c == '"') {
            s->at++;
            if (s->at == s->length || memchr(",\r\n", s->body[s->at], 3)) return TRI_OK;
            return bad(s, "text after a closing quote; a quote inside a field is written twice");
        }
        s->line += c == '\n';
        if (c == 0) return bad(s, "a NUL byte");
        *s->text++ = c;
    }
    s->line = begun;
    return bad(s, "a quoted field that does not end");
}

static tri_status plain_field(scan *s) {
    for (; s->at < s->length && !strchr(",\r\n", s->body[s->at]); s->at++) {
        if (s->body[s->at] == '"') return bad(s, "a quote inside a field that does not begin with one");
        *s->text++ = s->body[s->at];
    }
    return s->at < s->length && s->body[s->at] == 0 ? bad(s, "a NUL byte") : TRI_OK; /* strchr finds it too */
}

/* Reads a field; *last: the line ends with it. */
static tri_status field(scan *s, char **begin, size_t *size, int *last) {
    *begin = s->text;
    TRI_TRY(s->at < s->length && s->body[s->at] == '"' ? quoted_field(s) : plain_field(s));
    *size = (size_t)(s->text - *begin);
    *s->text++ = 0;
    *last = s->at >= s->length || s->body[s->at] != ',';
    if (s->at >= s->length) return TRI_OK;
    if (s->body[s->at] == '\r' && s->at + 1 < s->length && s->body[s->at + 1] == '\n') s->at++;
    s->line += *last;
    s->at++;
    return TRI_OK;
}

/* The header into names [*columns], allocated. A column that is named twice is refused when rows are encoded. */
static tri_status header(scan *s, char ***names, int *columns) {
    int last = 0, room = 0;
    size_t size;
    for (*columns = 0; !last; ++*columns) {
        if (*columns == room) {
            char **more = realloc(*names, (size_t)(room = 2 * room + 8) * sizeof **names);
            if (!more) return tri__fail(TRI_RESOURCE, "out of memory");
            *names = more;
        }
        TRI_TRY(field(s, &(*names)[*columns], &size, &last));
        if (!size) return bad(s, "a column without a name; the first line names the columns");
    }
    return TRI_OK;
}

/* At most as many rows as there are lines. */
static int64_t count_lines(const char *body, size_t length) {
    int64_t n = 1;
    for (size_t i = 0; i < length; i++) n += body[i] == '\n' || body[i] == '\r';
    return n;
}

static int at_blank_line(const scan *s) { return strchr("\r\n", s->body[s->at]) && s->body[s->at]; }

static tri_status rows(scan *s, char *const *names, int columns, tri_row_set *out) {
    tri_column_value *to = out->value;
    while (s->at < s->length) {
        if (at_blank_line(s)) {
            s->line += s->body[s->at++] == '\n';
            continue;
        }
        int last = 0, n = 0;
        out->row[out->n] = (tri_row){.value = to, .n = columns};
        for (; !last; n++) {
            char *text;
            size_t size;
            TRI_TRY(field(s, &text, &size, &last));
            if (n < columns)
                *to++ = (tri_column_value){.column = names[n], .value = size ? text : NULL, .length = size};
        }
        if (n != columns)
            return tri__fail(TRI_DATA, "CSV, row %lld: %d fields; the first line names %d columns",
                             (long long)out->n + 1, n, columns);
        out->n++;
    }
    return TRI_OK;
}

tri_status tri__rows_of_csv(const char *body, size_t length, tri_row_set *out) {
    char **names = NULL;
    int columns = 0;
    int64_t lines = count_lines(body, length);
    if (length >= 3 && !memcmp(body, "\xEF\xBB\xBF", 3)) body += 3, length -= 3; /* a byte order mark */
    size_t commas = 1;
    for (size_t i = 0; i < length; i++) commas += body[i] == ',';
    *out = (tri_row_set){.text = malloc(length + commas + (size_t)lines + 2),
                      .row = malloc((size_t)lines * sizeof *out->row),
                      .value = malloc((commas + (size_t)lines) * sizeof *out->value)};
    scan s = {.body = body, .length = length, .line = 1, .text = out->text};
    tri_status status = out->text && out->row && out->value ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
    if (status == TRI_OK) status = header(&s, &names, &columns);
    if (status == TRI_OK) status = rows(&s, names, columns, out);
    free(names);
    if (status != TRI_OK) tri__row_set_free(out);
    return status;
}
