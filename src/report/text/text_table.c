/* text_table.c - pads columns to their widest cell, with two spaces between them. */
#include "report/text/text_table.h"

#include "data/text/unicode.h"

#include <ctype.h>

enum { COLUMNS = 32 };

void tri__text_table_add(tri_text_table *table, const char *format, ...) {
    if (!tri__grow(&table->row, &table->room, (size_t)table->n + 1, sizeof *table->row)) {
        table->failed = 1;
        return;
    }
    va_list args;
    va_start(args, format);
    char *text;
    if (vasprintf(&text, format, args) < 0) table->failed = 1;
    else table->row[table->n++] = text;
    va_end(args);
}

void tri__text_table_more(tri_text_table *table, const char *format, ...) {
    va_list args;
    char *cells, *joined;
    va_start(args, format);
    int n = vasprintf(&cells, format, args);
    va_end(args);
    table->failed |= n < 0 || !table->n;
    if (n < 0 || !table->n) return;
    char **row = &table->row[table->n - 1];
    if (asprintf(&joined, "%s\t%s", *row, cells) < 0) table->failed = 1;
    else free(*row), *row = joined;
    free(cells);
}

void tri__text_table_fold(tri_text_table *table) {
    int kept = 1;
    for (int r = 1, next; r < table->n; r = next) {
        char *first = table->row[r], *rest = strchr(first, '\t'), *joined;
        for (next = r + 1; rest && next < table->n; next++) {
            const char *other = strchr(table->row[next], '\t');
            if (!other || strcmp(rest, other)) break;
        }
        if (next > r + 1) {
            const char *last = table->row[next - 1];
            if (asprintf(&joined, "%.*s-%.*s%s", (int)(rest - first), first, (int)strcspn(last, "\t"), last, rest) < 0)
                table->failed = 1, joined = NULL;
            for (int gone = r; gone < next; gone++) free(table->row[gone]);
            table->row[kept++] = joined;
        } else table->row[kept++] = first;
    }
    if (table->n) table->n = kept;
}

/* The length of the cell at *at; advances *at to the next cell, NULL after the last. */
static size_t next_cell(const char **at) {
    size_t length = strcspn(*at, "\t");
    *at = (*at)[length] ? *at + length + 1 : NULL;
    return length;
}

/* Width on the screen. */
static int cell_width(const char *cell, size_t length) {
    int width = 0;
    for (size_t at = 0; at < length;) width += tri__char_width(tri__utf8_next(cell, length, &at));
    return width;
}

static int is_number(const char *cell, size_t length) {
    if (length == 0 || (length == 1 && *cell == '-')) return 1;
    size_t at = *cell == '-' || *cell == '+';
    return at < length && isdigit((unsigned char)cell[at]);
}

static void print_row(const char *row, const int *width, const int *right, FILE *out) {
    const char *at = row;
    for (int c = 0; at && c < COLUMNS; c++) {
        const char *cell = at;
        size_t length = next_cell(&at);
        int pad = width[c] - cell_width(cell, length);
        fprintf(out, "%s%*s%.*s", c ? "  " : "", right[c] ? pad : 0, "", (int)length, cell);
        if (!right[c] && at) fprintf(out, "%*s", pad, "");
    }
}

tri_status tri__text_table_print(const tri_text_table *table, FILE *out, int color) {
    int width[COLUMNS] = {0}, right[COLUMNS];
    if (table->failed) return tri__fail(TRI_RESOURCE, "no memory for a table");
    for (int c = 0; c < COLUMNS; c++) right[c] = table->n > 1;
    for (int r = 0; r < table->n; r++) {
        const char *at = table->row[r];
        for (int c = 0; at && c < COLUMNS; c++) {
            const char *cell = at;
            size_t length = next_cell(&at);
            int wide = cell_width(cell, length);
            if (wide > width[c]) width[c] = wide;
            if (r > 0 && !is_number(cell, length)) right[c] = 0;
        }
    }
    for (int r = 0; r < table->n; r++) {
        if (color && r == 0) fputs("\033[1m", out);
        print_row(table->row[r], width, right, out);
        fputs(color && r == 0 ? "\033[0m\n" : "\n", out);
    }
    return TRI_OK;
}

void tri__text_table_free(tri_text_table *table) {
    for (int r = 0; r < table->n; r++) free(table->row[r]);
    free(table->row);
    *table = (tri_text_table){0};
}
