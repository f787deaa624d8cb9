/* fuzz_number.h - a field's number is what its text is read as, to the bit. For fuzzers of binary tables. */
#ifndef TRI_FUZZ_NUMBER_H
#define TRI_FUZZ_NUMBER_H

#include "fuzz.h"

#include "data/table/reading.h"
#include "tests/lib/table_number.h"

#include <string.h>

static inline void fuzz_number(const tri_table *table, int64_t row, int column) {
    double value = 0, want = 0;
    table_cell cell = table_number(table, row, column, &value);
    tri_field_text field = tri__table_field(table, row, column); /* empty, if it cannot be decoded */
    if (cell == CELL_TEXT || !field.length) return;
    FUZZ_CHECK(cell == CELL_NUMBER);
    FUZZ_CHECK(tri__field_number(&(tri_reading){.decimal = '.'}, field, &want) == TRI_NUMBER_GOOD);
    FUZZ_CHECK(!memcmp(&value, &want, sizeof value));
}

#endif
