/* table_numbers.h - a table's numbers compared with the reading of its texts. For tests of binary tables. */
#ifndef TRI_TESTS_TABLE_NUMBERS_H
#define TRI_TESTS_TABLE_NUMBERS_H

#include "tests/lib/table_number.h"

/* 0 if the number of a field is another than that of `text`, to the bit, or there is one where the text has none. */
int table_number_agrees(const tri_table *table, int64_t row, int column, tri_field_text text);

/* Compares a pass over all fields with those of `texts`. Returns how many have a number. */
int64_t table_numbers_compare(const tri_table *table, const tri_table *texts, const char *name);

/* Whether a column's fields are given as numbers, but for infinity: 1, 0; -1: some are, some are not. */
int table_has_numbers(const tri_table *table, int column);

/* `number` is what the text reads as. */
void expect_number(double number, char *text, size_t n);

#endif
