/* table_numbers.c - see table_numbers.h. */
#include "tests/lib/table_numbers.h"

#include "data/table/reading.h"
#include "tests/lib/test.h"

int table_number_agrees(const tri_table *table, int64_t row, int column, tri_field_text text) {
    double value = 0, want = 0;
    table_cell cell = table_number(table, row, column, &value);
    tri_number number = tri__field_number(&(tri_reading){.decimal = '.'}, text, &want);
    if (cell == CELL_EMPTY) return number == TRI_NUMBER_MISSING;
    return cell == CELL_TEXT || (number == TRI_NUMBER_GOOD && !memcmp(&value, &want, sizeof value));
}

/* Rows at once have the numbers of each, wherever a range begins and ends. */
static void table_ranges_compare(const tri_table *table, int column, const char *name) {
    int64_t rows = tri__table_rows(table);
    double *value = malloc((size_t)rows * sizeof *value);
    assert_non_null(value);
    for (int64_t size = rows; size > 0; size = size / 3)
        for (int64_t first = 0; first < rows; first += size) {
            int64_t n = rows - first < size ? rows - first : size;
            int given = tri__table_numbers(table, first, n, column, value);
            for (int64_t i = 0; i < n; i++) {
                double one = 0;
                table_cell cell = table_number(table, first + i, column, &one);
                int same = !given || isinf(value[i]) ? cell == CELL_TEXT
                           : isnan(value[i])         ? cell == CELL_EMPTY
                                                     : cell == CELL_NUMBER && !memcmp(&one, &value[i], sizeof one);
                if (!same) fail_msg("%s: row %d of %d at once", name, (int)(first + i), (int)n);
            }
        }
    tri__table_done(table, 0, rows);
    free(value);
}

int64_t table_numbers_compare(const tri_table *table, const tri_table *texts, const char *name) {
    int64_t found = 0;
    for (int64_t row = 0; row < tri__table_rows(table); row++) {
        for (int c = 0; c < tri__table_columns(table); c++) {
            double value;
            if (tri__table_unread(table, c)) continue;
            tri_field_text text = tri__table_field(texts, row, c);
            if (!table_number_agrees(table, row, c, text))
                fail_msg("%s: row %d, column %s: another number than \"%.*s\"", name, (int)row,
                         tri__table_name(table, c), (int)text.length, text.text);
            found += table_number(table, row, c, &value) == CELL_NUMBER;
        }
        tri__table_done(table, row, 1);
    }
    for (int c = 0; c < tri__table_columns(table); c++) table_ranges_compare(table, c, name);
    return found;
}

int table_has_numbers(const tri_table *table, int column) {
    int64_t numbers = 0, texts = 0;
    for (int64_t row = 0; row < tri__table_rows(table); row++) {
        double value;
        tri_field_text field = tri__table_field(table, row, column);
        int infinite = field.length && field.text[field.length - 1] == 'f';
        if (infinite) assert_int_equal(table_number(table, row, column, &value), CELL_TEXT);
        else if (table_number(table, row, column, &value) == CELL_TEXT) texts++;
        else numbers++;
    }
    return numbers && texts ? -1 : numbers > 0;
}

void expect_number(double number, char *text, size_t n) {
    text[n] = 0;
    double want = n ? strtod(text, NULL) : 0;
    if (n ? memcmp(&number, &want, sizeof want) != 0 : !isnan(number)) fail_msg("%s became %.17g", text, number);
}
