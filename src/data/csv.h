/* csv.h - RFC 4180 tables: quoted fields with doubled quotes and line breaks, LF or CRLF, an optional byte-order mark. */
#ifndef TRI_DATA_CSV_H
#define TRI_DATA_CSV_H

#include "base/file.h"

/* A field of a row. Quoted fields are unescaped in the table's own memory. */
typedef struct tri_field_text {
    const char *text; /* [length] UTF-8, no 0 byte at its end */
    size_t length;
} tri_field_text;

typedef struct tri_csv tri_csv;

/* Reads the header and finds every row. TRI_DATA "file:line:column: what" for ragged or unterminated rows, invalid
 * UTF-8, NUL bytes, duplicate or empty header names (an unnamed first column is allowed), limits of base/limits.h. */
tri_status tri__csv_open(const char *path, tri_csv **out);
void tri__csv_close(tri_csv *csv);
const char *tri__csv_path(const tri_csv *csv);
int64_t tri__csv_rows(const tri_csv *csv);              /* without the header */
int tri__csv_columns(const tri_csv *csv);
const char *tri__csv_name(const tri_csv *csv, int column);
/* TRI_DATA naming the columns there are (and the nearest) when it is missing. */
tri_status tri__csv_find(const tri_csv *csv, const char *name, int *column);
tri_field_text tri__csv_field(const tri_csv *csv, int64_t row, int column);
/* Where a field starts: 1-based line and column (bytes) in the file. */
void tri__csv_where(const tri_csv *csv, int64_t row, int column, int64_t *line, int64_t *at);

#endif
