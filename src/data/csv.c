/* csv.c - RFC 4180 in one pass over a mapped file. A field is a span of the map; only quoted fields with doubled quotes
 * are copied, unescaped, into a second block that can never need more bytes than the file has. Lines and columns are
 * counted when an error needs them, so reading pays nothing for them. A quote inside an unquoted field is data, as in
 * Python's csv; a carriage return outside quotes must end a line. */
#include "data/csv.h"

#include "base/limits.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tri_csv {
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

static void locate(const tri_csv *csv, const char *at, int64_t *line, int64_t *column) {
    const char *start = csv->begin;
    *line = 1;
    for (const char *feed; start < at && (feed = memchr(start, '\n', (size_t)(at - start))); start = feed + 1) ++*line;
    *column = at - start + 1;
}

static tri_status fail_at(const tri_csv *csv, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static tri_status fail_at(const tri_csv *csv, const char *at, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    int64_t line, column;
    locate(csv, at, &line, &column);
    return tri__fail(TRI_DATA, "%s:%lld:%lld: %s", csv->path, (long long)line, (long long)column, text);
}

static tri_status no_memory(const tri_csv *csv) {
    return tri__fail(TRI_RESOURCE, "%s: out of memory while reading a table of %zu bytes", csv->path, csv->map.size);
}

/* NUL bytes and invalid UTF-8, wherever they stand; eight ASCII bytes at a time. */
static tri_status check_bytes(const tri_csv *csv) {
    size_t length = (size_t)(csv->end - csv->begin), at = 0;
    while (at < length) {
        uint64_t word;
        if (length - at >= 8) {
            memcpy(&word, csv->begin + at, 8);
            /* Neither a high bit nor a zero byte; with high bits absent the subtraction test is exact. */
            if (!((word | (word - 0x0101010101010101u)) & 0x8080808080808080u)) {
                at += 8;
                continue;
            }
        }
        const char *byte = csv->begin + at;
        if (*byte == 0) return fail_at(csv, byte, "NUL byte; is this a text file?");
        if (tri__utf8_next(csv->begin, length, &at) < 0)
            return fail_at(csv, byte, "invalid UTF-8 byte 0x%02x; save the file as UTF-8", (unsigned char)*byte);
    }
    return TRI_OK;
}

/* The line end at `at`: its length, 0 when there is none. The end of the file is one of length 0, so ask for it first. */
static int line_end(const char *at, const char *end) {
    if (*at == '\n') return 1;
    return *at == '\r' && end - at > 1 && at[1] == '\n' ? 2 : 0;
}

static tri_status too_long(const tri_csv *csv, const char *row) {
    return fail_at(csv, row, "row is longer than %d MiB", TRI_LIMIT_CSV_ROW >> 20);
}

static tri_status finish_field(const tri_csv *csv, const char *at, span *out) {
    if (at == csv->end) {
        out->last = 1, out->next = at;
    } else if (*at == ',') {
        out->last = 0, out->next = at + 1;
    } else {
        int bytes = line_end(at, csv->end);
        if (bytes == 0 && *at == '\r')
            return fail_at(csv, at, "carriage return without a line feed; quote the field or use LF or CRLF line ends");
        if (bytes == 0) return fail_at(csv, at, "characters after the closing quote; quotes inside a field are doubled");
        out->last = 1, out->next = at + bytes;
    }
    return TRI_OK;
}

static tri_status scan_quoted(const tri_csv *csv, const char *row, const char *at, span *out) {
    const char *limit = csv->end - row > TRI_LIMIT_CSV_ROW ? row + TRI_LIMIT_CSV_ROW : csv->end;
    const char *open = at++;
    out->begin = at, out->doubled = 0;
    for (;;) {
        const char *quote = at < limit ? memchr(at, '"', (size_t)(limit - at)) : NULL;
        if (!quote && limit < csv->end)
            return fail_at(csv, open, "quoted field is not closed within %d MiB, the longest row; it begins here",
                           TRI_LIMIT_CSV_ROW >> 20);
        if (!quote) return fail_at(csv, open, "quoted field is never closed; it begins here");
        if (quote + 1 < csv->end && quote[1] == '"') {
            out->doubled++;
            at = quote + 2;
            continue;
        }
        out->end = quote;
        return finish_field(csv, quote + 1, out);
    }
}

static tri_status scan_field(const tri_csv *csv, const char *row, const char *at, span *out) {
    if (at < csv->end && *at == '"') return scan_quoted(csv, row, at, out);
    out->begin = at, out->doubled = 0;
    while (at < csv->end && *at != ',' && *at != '\n' && *at != '\r') at++;
    if (at - row > TRI_LIMIT_CSV_ROW) return too_long(csv, row);
    out->end = at;
    return finish_field(csv, at, out);
}

/* The text of a field; one with doubled quotes is copied. */
static tri_status take_field(tri_csv *csv, const span *found, tri_field_text *out) {
    size_t length = (size_t)(found->end - found->begin);
    *out = (tri_field_text){found->begin, length};
    if (!found->doubled) return TRI_OK;
    if (!csv->copy && !(csv->copy = malloc(csv->map.size))) return no_memory(csv);
    char *to = csv->copy + csv->copied;
    *out = (tri_field_text){to, length - (size_t)found->doubled};
    for (const char *from = found->begin; from < found->end; from++) {
        *to++ = *from;
        if (*from == '"') from++;
    }
    csv->copied += out->length;
    return TRI_OK;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static tri_status check_names(const tri_csv *csv, const char **where) {
    for (int c = 1; c < csv->columns; c++)
        if (!csv->name[c][0]) return fail_at(csv, where[c], "column %d has no name; only the first may have none", c + 1);
    char **sorted = malloc((size_t)csv->columns * sizeof *sorted);
    if (!sorted) return no_memory(csv);
    memcpy(sorted, csv->name, (size_t)csv->columns * sizeof *sorted);
    qsort(sorted, (size_t)csv->columns, sizeof *sorted, by_text);
    const char *twice = NULL;
    for (int i = 1; i < csv->columns && !twice; i++)
        if (!strcmp(sorted[i], sorted[i - 1])) twice = sorted[i];
    free(sorted);
    if (!twice) return TRI_OK;
    int seen = 0, c = 0;
    for (;; c++)
        if (!strcmp(csv->name[c], twice) && seen++) break;
    return fail_at(csv, where[c], "column name \"%.80s\" stands twice in the header", twice);
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

static tri_status read_header(tri_csv *csv, const char **next) {
    const char **where = NULL; /* [columns] */
    int64_t room_where = 0, room_name = 0;
    tri_status status = TRI_OK;
    span found = {.next = csv->begin};
    do {
        const char *at = found.next;
        if (csv->columns == TRI_LIMIT_COLUMNS) {
            status = fail_at(csv, at, "more than %d columns", TRI_LIMIT_COLUMNS);
            goto done;
        }
        if ((status = scan_field(csv, csv->begin, at, &found)) != TRI_OK) goto done;
        tri_field_text text;
        if ((status = take_field(csv, &found, &text)) != TRI_OK) goto done;
        const char **grown = grow(where, csv->columns, &room_where, sizeof *where);
        if (grown) where = grown;
        char **names = grown ? grow(csv->name, csv->columns, &room_name, sizeof *names) : NULL;
        if (names) csv->name = names;
        char *copy = names ? strndup(text.text, text.length) : NULL;
        if (!copy) {
            status = no_memory(csv);
            goto done;
        }
        where[csv->columns] = at;
        csv->name[csv->columns++] = copy;
    } while (!found.last);
    *next = found.next;
    status = check_names(csv, where);
done:
    free(where);
    return status;
}

/* Only line ends from here to the end of the file? */
static int blank_to_end(const tri_csv *csv, const char *at) {
    while (at < csv->end) {
        int bytes = line_end(at, csv->end);
        if (!bytes) return 0;
        at += bytes;
    }
    return 1;
}

static tri_status make_room(tri_csv *csv) {
    if (csv->rows < csv->room) return TRI_OK;
    int64_t more = csv->room ? csv->room * 2 : 64;
    size_t bytes;
    if (__builtin_mul_overflow((size_t)more, (size_t)csv->columns * sizeof *csv->field, &bytes)) return no_memory(csv);
    tri_field_text *fields = realloc(csv->field, bytes);
    if (!fields) return no_memory(csv);
    csv->field = fields;
    const char **rows = realloc(csv->row, (size_t)more * sizeof *rows);
    if (!rows) return no_memory(csv);
    csv->row = rows;
    csv->room = more;
    return TRI_OK;
}

static tri_status read_row(tri_csv *csv, const char *row, const char **next) {
    TRI_TRY(make_room(csv));
    tri_field_text *field = csv->field + csv->rows * csv->columns;
    int64_t n = 0;
    span found = {.next = row};
    do {
        TRI_TRY(scan_field(csv, row, found.next, &found));
        if (n < csv->columns) TRI_TRY(take_field(csv, &found, &field[n]));
        n++;
    } while (!found.last);
    if (found.next - row > TRI_LIMIT_CSV_ROW) return too_long(csv, row);
    if (n != csv->columns)
        return fail_at(csv, row, "row has %lld field%s, the header has %d", (long long)n, n == 1 ? "" : "s", csv->columns);
    csv->row[csv->rows++] = row;
    *next = found.next;
    return TRI_OK;
}

static tri_status read_table(tri_csv *csv) {
    csv->begin = csv->map.data, csv->end = csv->map.data + csv->map.size;
    if (csv->map.size >= 3 && !memcmp(csv->begin, "\xEF\xBB\xBF", 3)) csv->begin += 3;
    if (csv->begin == csv->end) return fail_at(csv, csv->begin, "the file is empty; a header row was expected");
    TRI_TRY(check_bytes(csv));
    const char *at = csv->begin;
    TRI_TRY(read_header(csv, &at));
    while (at < csv->end) {
        if (csv->columns > 1 && (*at == '\n' || *at == '\r') && blank_to_end(csv, at)) break;
        TRI_TRY(read_row(csv, at, &at));
    }
    return TRI_OK;
}

tri_status tri__csv_open(const char *path, tri_csv **out) {
    *out = NULL;
    tri_csv *csv = calloc(1, sizeof *csv);
    if (!csv || !(csv->path = strdup(path))) {
        free(csv);
        return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
    }
    tri_status status = tri__file_map(path, &csv->map);
    if (status == TRI_OK) status = read_table(csv);
    if (status == TRI_OK) *out = csv;
    else tri__csv_close(csv);
    return status;
}

void tri__csv_close(tri_csv *csv) {
    if (!csv) return;
    for (int c = 0; c < csv->columns; c++) free(csv->name[c]);
    free(csv->name);
    free(csv->row);
    free(csv->field);
    free(csv->copy);
    tri__file_unmap(&csv->map);
    free(csv->path);
    free(csv);
}

const char *tri__csv_path(const tri_csv *csv) { return csv->path; }
int64_t tri__csv_rows(const tri_csv *csv) { return csv->rows; }
int tri__csv_columns(const tri_csv *csv) { return csv->columns; }

const char *tri__csv_name(const tri_csv *csv, int column) {
    TRI_ASSERT(column >= 0 && column < csv->columns);
    return csv->name[column];
}

tri_status tri__csv_find(const tri_csv *csv, const char *name, int *column) {
    for (int c = 0; c < csv->columns; c++)
        if (!strcmp(csv->name[c], name)) {
            *column = c;
            return TRI_OK;
        }
    enum { SHOWN = 30 };
    char list[1200];
    int used = 0, c = 0;
    for (; c < csv->columns && c < SHOWN && used < (int)sizeof list - 120; c++)
        used += snprintf(list + used, sizeof list - (size_t)used, "%s%.60s", c ? ", " : "", csv->name[c]);
    if (c < csv->columns) snprintf(list + used, sizeof list - (size_t)used, " and %d more", csv->columns - c);
    const char *nearest = tri__text_nearest(name, (const char *const *)csv->name, csv->columns);
    return tri__fail(TRI_DATA, "%s: there is no column \"%.80s\"%s%.80s%s; its columns are: %s", csv->path, name,
                     nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "", list);
}

tri_field_text tri__csv_field(const tri_csv *csv, int64_t row, int column) {
    TRI_ASSERT(row >= 0 && row < csv->rows && column >= 0 && column < csv->columns);
    return csv->field[row * csv->columns + column];
}

void tri__csv_where(const tri_csv *csv, int64_t row, int column, int64_t *line, int64_t *at) {
    TRI_ASSERT(row >= 0 && row < csv->rows && column >= 0 && column < csv->columns);
    const char *start = csv->row[row];
    for (span found = {0}; column > 0; column--, start = found.next)
        TRI_ASSERT(scan_field(csv, csv->row[row], start, &found) == TRI_OK);
    locate(csv, start, line, at);
}
