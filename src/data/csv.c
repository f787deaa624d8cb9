/* csv.c - RFC 4180 in one pass over a mapped file. A field is a span of the map; only quoted fields with doubled quotes
 * are copied, unescaped, into a second block that can never need more bytes than the file has. Lines and columns are
 * counted when an error needs them, so reading pays nothing for them. A quote inside an unquoted field is data, as in
 * Python's table; a carriage return outside quotes must end a line. */
#include "data/table.h"

#include "base/limits.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tri_table {
    char *path;
    tri_map map;
    const char *begin, *end;  /* of the content, the byte-order mark left out */
    int columns;
    char **name;              /* [columns] */
    int64_t rows, room;       /* room: rows that row and field have space for */
    const char **row;         /* [rows] where each begins */
    tri_field_text *field;    /* [rows, columns] */
    char *copy;               /* unescaped fields, copied bytes of them; NULL until the first */
    size_t copied;
};

/* One field as it stands in the file. */
typedef struct span {
    const char *begin, *end;  /* without its quotes */
    const char *next;         /* the first byte after the field and its separator or line end */
    int doubled;              /* quotes inside, each written twice */
    int last;                 /* of its row */
} span;

static void locate(const tri_table *table, const char *at, int64_t *line, int64_t *column) {
    const char *start = table->begin;
    *line = 1;
    for (const char *feed; start < at && (feed = memchr(start, '\n', (size_t)(at - start))); start = feed + 1) ++*line;
    *column = at - start + 1;
}

static tri_status fail_at(const tri_table *table, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static tri_status fail_at(const tri_table *table, const char *at, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    int64_t line, column;
    locate(table, at, &line, &column);
    return tri__fail(TRI_DATA, "%s:%lld:%lld: %s", table->path, (long long)line, (long long)column, text);
}

static tri_status no_memory(const tri_table *table) {
    return tri__fail(TRI_RESOURCE, "%s: out of memory while reading a table of %zu bytes", table->path, table->map.size);
}

/* NUL bytes and invalid UTF-8, wherever they stand; eight ASCII bytes at a time. */
static tri_status check_bytes(const tri_table *table) {
    size_t length = (size_t)(table->end - table->begin), at = 0;
    while (at < length) {
        uint64_t word;
        if (length - at >= 8) {
            memcpy(&word, table->begin + at, 8);
            /* Neither a high bit nor a zero byte; with high bits absent the subtraction test is exact. */
            if (!((word | (word - 0x0101010101010101u)) & 0x8080808080808080u)) {
                at += 8;
                continue;
            }
        }
        const char *byte = table->begin + at;
        if (*byte == 0) return fail_at(table, byte, "NUL byte; is this a text file?");
        if (tri__utf8_next(table->begin, length, &at) < 0)
            return fail_at(table, byte, "invalid UTF-8 byte 0x%02x; save the file as UTF-8", (unsigned char)*byte);
    }
    return TRI_OK;
}

/* The line end at `at`: its length, 0 when there is none. The end of the file is one of length 0, so ask for it first. */
static int line_end(const char *at, const char *end) {
    if (*at == '\n') return 1;
    return *at == '\r' && end - at > 1 && at[1] == '\n' ? 2 : 0;
}

static tri_status too_long(const tri_table *table, const char *row) {
    return fail_at(table, row, "row is longer than %d MiB", TRI_LIMIT_CSV_ROW >> 20);
}

static tri_status finish_field(const tri_table *table, const char *at, span *out) {
    if (at == table->end) {
        out->last = 1, out->next = at;
    } else if (*at == ',') {
        out->last = 0, out->next = at + 1;
    } else {
        int bytes = line_end(at, table->end);
        if (bytes == 0 && *at == '\r')
            return fail_at(table, at, "carriage return without a line feed; quote the field or use LF or CRLF line ends");
        if (bytes == 0) return fail_at(table, at, "characters after the closing quote; quotes inside a field are doubled");
        out->last = 1, out->next = at + bytes;
    }
    return TRI_OK;
}

static tri_status scan_quoted(const tri_table *table, const char *row, const char *at, span *out) {
    const char *limit = table->end - row > TRI_LIMIT_CSV_ROW ? row + TRI_LIMIT_CSV_ROW : table->end;
    const char *open = at++;
    out->begin = at, out->doubled = 0;
    for (;;) {
        const char *quote = at < limit ? memchr(at, '"', (size_t)(limit - at)) : NULL;
        if (!quote && limit < table->end)
            return fail_at(table, open, "quoted field is not closed within %d MiB, the longest row; it begins here",
                           TRI_LIMIT_CSV_ROW >> 20);
        if (!quote) return fail_at(table, open, "quoted field is never closed; it begins here");
        if (quote + 1 < table->end && quote[1] == '"') {
            out->doubled++;
            at = quote + 2;
            continue;
        }
        out->end = quote;
        return finish_field(table, quote + 1, out);
    }
}

static tri_status scan_field(const tri_table *table, const char *row, const char *at, span *out) {
    if (at < table->end && *at == '"') return scan_quoted(table, row, at, out);
    out->begin = at, out->doubled = 0;
    while (at < table->end && *at != ',' && *at != '\n' && *at != '\r') at++;
    if (at - row > TRI_LIMIT_CSV_ROW) return too_long(table, row);
    out->end = at;
    return finish_field(table, at, out);
}

/* The text of a field; one with doubled quotes is copied. */
static tri_status take_field(tri_table *table, const span *found, tri_field_text *out) {
    size_t length = (size_t)(found->end - found->begin);
    *out = (tri_field_text){found->begin, length};
    if (!found->doubled) return TRI_OK;
    if (!table->copy && !(table->copy = malloc(table->map.size))) return no_memory(table);
    char *to = table->copy + table->copied;
    *out = (tri_field_text){to, length - (size_t)found->doubled};
    for (const char *from = found->begin; from < found->end; from++) {
        *to++ = *from;
        if (*from == '"') from++;
    }
    table->copied += out->length;
    return TRI_OK;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static tri_status check_names(const tri_table *table, const char **where) {
    for (int c = 1; c < table->columns; c++)
        if (!table->name[c][0]) return fail_at(table, where[c], "column %d has no name; only the first may have none", c + 1);
    char **sorted = malloc((size_t)table->columns * sizeof *sorted);
    if (!sorted) return no_memory(table);
    memcpy(sorted, table->name, (size_t)table->columns * sizeof *sorted);
    qsort(sorted, (size_t)table->columns, sizeof *sorted, by_text);
    const char *twice = NULL;
    for (int i = 1; i < table->columns && !twice; i++)
        if (!strcmp(sorted[i], sorted[i - 1])) twice = sorted[i];
    free(sorted);
    if (!twice) return TRI_OK;
    int seen = 0, c = 0;
    for (;; c++)
        if (!strcmp(table->name[c], twice) && seen++) break;
    return fail_at(table, where[c], "column name \"%.80s\" stands twice in the header", twice);
}

/* Doubles an array of `element` bytes when count reaches room. */
static void *grow(void *array, int64_t count, int64_t *room, size_t element) {
    if (count < *room) return array;
    int64_t more = *room ? *room * 2 : 16;
    size_t bytes;
    if (__builtin_mul_overflow((size_t)more, element, &bytes)) return NULL;
    void *larger = realloc(array, bytes);
    if (larger) *room = more;
    return larger;
}

static tri_status read_header(tri_table *table, const char **next) {
    const char **where = NULL; /* [columns] */
    int64_t room_where = 0, room_name = 0;
    tri_status status = TRI_OK;
    span found = {.next = table->begin};
    do {
        const char *at = found.next;
        if (table->columns == TRI_LIMIT_COLUMNS) {
            status = fail_at(table, at, "more than %d columns", TRI_LIMIT_COLUMNS);
            goto done;
        }
        if ((status = scan_field(table, table->begin, at, &found)) != TRI_OK) goto done;
        tri_field_text text;
        if ((status = take_field(table, &found, &text)) != TRI_OK) goto done;
        const char **grown = grow(where, table->columns, &room_where, sizeof *where);
        if (grown) where = grown;
        char **names = grown ? grow(table->name, table->columns, &room_name, sizeof *names) : NULL;
        if (names) table->name = names;
        char *copy = names ? strndup(text.text, text.length) : NULL;
        if (!copy) {
            status = no_memory(table);
            goto done;
        }
        where[table->columns] = at;
        table->name[table->columns++] = copy;
    } while (!found.last);
    *next = found.next;
    status = check_names(table, where);
done:
    free(where);
    return status;
}

/* Only line ends from here to the end of the file? */
static int blank_to_end(const tri_table *table, const char *at) {
    while (at < table->end) {
        int bytes = line_end(at, table->end);
        if (!bytes) return 0;
        at += bytes;
    }
    return 1;
}

static tri_status make_room(tri_table *table) {
    if (table->rows < table->room) return TRI_OK;
    int64_t more = table->room ? table->room * 2 : 64;
    size_t bytes;
    if (__builtin_mul_overflow((size_t)more, (size_t)table->columns * sizeof *table->field, &bytes)) return no_memory(table);
    tri_field_text *fields = realloc(table->field, bytes);
    if (!fields) return no_memory(table);
    table->field = fields;
    const char **rows = realloc(table->row, (size_t)more * sizeof *rows);
    if (!rows) return no_memory(table);
    table->row = rows;
    table->room = more;
    return TRI_OK;
}

static tri_status read_row(tri_table *table, const char *row, const char **next) {
    TRI_TRY(make_room(table));
    tri_field_text *field = table->field + table->rows * table->columns;
    int64_t n = 0;
    span found = {.next = row};
    do {
        TRI_TRY(scan_field(table, row, found.next, &found));
        if (n < table->columns) TRI_TRY(take_field(table, &found, &field[n]));
        n++;
    } while (!found.last);
    if (found.next - row > TRI_LIMIT_CSV_ROW) return too_long(table, row);
    if (n != table->columns)
        return fail_at(table, row, "row has %lld field%s, the header has %d", (long long)n, n == 1 ? "" : "s", table->columns);
    table->row[table->rows++] = row;
    *next = found.next;
    return TRI_OK;
}

static tri_status read_table(tri_table *table) {
    table->begin = table->map.data, table->end = table->map.data + table->map.size;
    if (table->map.size >= 3 && !memcmp(table->begin, "\xEF\xBB\xBF", 3)) table->begin += 3;
    if (table->begin == table->end) return fail_at(table, table->begin, "the file is empty; a header row was expected");
    TRI_TRY(check_bytes(table));
    const char *at = table->begin;
    TRI_TRY(read_header(table, &at));
    while (at < table->end) {
        if (table->columns > 1 && (*at == '\n' || *at == '\r') && blank_to_end(table, at)) break;
        TRI_TRY(read_row(table, at, &at));
    }
    return TRI_OK;
}

tri_status tri__table_open(const char *path, const tri_table_options *options, tri_table **out) {
    (void)options;
    *out = NULL;
    tri_table *table = calloc(1, sizeof *table);
    if (!table || !(table->path = strdup(path))) {
        free(table);
        return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    }
    tri_status status = tri__file_map(path, &table->map);
    if (status == TRI_OK) status = read_table(table);
    if (status == TRI_OK) *out = table;
    else tri__table_close(table);
    return status;
}

void tri__table_close(tri_table *table) {
    if (!table) return;
    for (int c = 0; c < table->columns; c++) free(table->name[c]);
    free(table->name);
    free(table->row);
    free(table->field);
    free(table->copy);
    tri__file_unmap(&table->map);
    free(table->path);
    free(table);
}

const char *tri__table_path(const tri_table *table) { return table->path; }
int64_t tri__table_rows(const tri_table *table) { return table->rows; }
int tri__table_columns(const tri_table *table) { return table->columns; }

const char *tri__table_name(const tri_table *table, int column) {
    TRI_ASSERT(column >= 0 && column < table->columns);
    return table->name[column];
}

tri_status tri__table_find(const tri_table *table, const char *name, int *column) {
    for (int c = 0; c < table->columns; c++)
        if (!strcmp(table->name[c], name)) {
            *column = c;
            return TRI_OK;
        }
    enum { SHOWN = 30 };
    char list[1200];
    int used = 0, c = 0;
    for (; c < table->columns && c < SHOWN && used < (int)sizeof list - 120; c++)
        used += snprintf(list + used, sizeof list - (size_t)used, "%s%.60s", c ? ", " : "", table->name[c]);
    if (c < table->columns) snprintf(list + used, sizeof list - (size_t)used, " and %d more", table->columns - c);
    const char *nearest = tri__text_nearest(name, (const char *const *)table->name, table->columns);
    return tri__fail(TRI_DATA, "%s: there is no column \"%.80s\"%s%.80s%s; its columns are: %s", table->path, name,
                     nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "", list);
}

tri_field_text tri__table_field(const tri_table *table, int64_t row, int column) {
    TRI_ASSERT(row >= 0 && row < table->rows && column >= 0 && column < table->columns);
    return table->field[row * table->columns + column];
}

void tri__table_where(const tri_table *table, int64_t row, int column, int64_t *line, int64_t *at) {
    TRI_ASSERT(row >= 0 && row < table->rows && column >= 0 && column < table->columns);
    const char *start = table->row[row];
    for (span found; column > 0; column--, start = found.next)
        TRI_ASSERT(scan_field(table, table->row[row], start, &found) == TRI_OK);
    locate(table, start, line, at);
}

tri_status tri__table_check(const tri_table *table) {
    (void)table;
    return TRI_OK;
}

void tri__table_done(const tri_table *table, int64_t first, int64_t count) {
    TRI_ASSERT(first >= 0 && count >= 0 && first + count <= table->rows);
}

int64_t tri__table_bad(const tri_table *table, const tri_bad_row **rows, int *described) {
    (void)table;
    *rows = NULL, *described = 0;
    return 0;
}
