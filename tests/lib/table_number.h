/* table_number.h - a field where a number is wanted. For tests and fuzzers of binary tables. */
#ifndef TRI_TESTS_TABLE_NUMBER_H
#define TRI_TESTS_TABLE_NUMBER_H

#include "data/table/table.h"

#include <math.h>

typedef enum table_cell { CELL_TEXT, CELL_EMPTY, CELL_NUMBER } table_cell;
static inline table_cell table_number(const tri_table *table, int64_t row, int column, double *value) {
    double number;
    if (!tri__table_numbers(table, row, 1, column, &number) || isinf(number)) return CELL_TEXT;
    if (isnan(number)) return CELL_EMPTY;
    *value = number;
    return CELL_NUMBER;
}

#endif
