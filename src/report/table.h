/* table.h - aligned tables for people: a header, rows, columns of numbers to the right. */
#ifndef TRI_REPORT_TABLE_H
#define TRI_REPORT_TABLE_H

#include "base/status.h"

#include <stdio.h>

typedef struct tri_text_table {
    char **row;     /* [n]; row 0 is the header; cells are separated by tabs */
    int n, capacity;
    int failed;     /* out of memory: said by print */
} tri_text_table;

/* Starts from a zeroed table; the first row added is the header. Cells are separated by tabs:
 * tri__text_table_add(&table, "%s\t%.1f", name, value). */
void tri__text_table_add(tri_text_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Neighbouring rows, the header aside, that differ only in a first cell become one: "0-3". */
void tri__text_table_fold(tri_text_table *table);
/* A column is right-aligned when each of its cells begins like a number or is "-". TRI_RESOURCE when a row was lost. */
tri_status tri__text_table_print(const tri_text_table *table, FILE *out, int color);
void tri__text_table_free(tri_text_table *table);

#endif
