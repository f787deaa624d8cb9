/* text_table.h - aligned text tables: a header, rows, numbers right-aligned. */
#pragma once

#include "base/base.h"

typedef struct tri_text_table {
    char **row;     /* [n]; row 0 is the header; cells are separated by tabs */
    int n;
    size_t room;
    int failed;     /* out of memory: print returns it */
} tri_text_table;

/* Starts from a zeroed table; the first row added is the header. Cells are separated by tabs:
 * tri__text_table_add(&table, "%s\t%.1f", name, value). */
void tri__text_table_add(tri_text_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Further cells of the row added last. */
void tri__text_table_more(tri_text_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Merges neighbouring rows (not the header) that differ only in the first cell: "0-3". */
void tri__text_table_fold(tri_text_table *table);
/* A column is right-aligned if each of its cells begins like a number or is "-". TRI_RESOURCE if a row was lost. */
tri_status tri__text_table_print(const tri_text_table *table, FILE *out, int color);
void tri__text_table_free(tri_text_table *table);
