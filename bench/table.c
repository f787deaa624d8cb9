/* table.c - how fast a table is opened (all rows found, UTF-8 checked) and read (every field accessed once, as training
 * does: columns of a binary file that hold numbers by their numbers, all others by their text).
 *   table FILE [THREADS]      prints one JSON object. Without a file: says what it is for. */
#include "base/clock.h"
#include "data/table/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* CPU seconds of this process: on a shared machine, what a run would take alone. */
static double cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Reads every field; returns the bytes of texts. *sum: of the numbers, so that they are needed. */
static int64_t read_all(const tri_table *table, double *sum, int64_t *numbers) {
    int64_t rows = tri__table_rows(table), bytes = 0;
    int columns = tri__table_columns(table);
    char *is_number = calloc((size_t)columns + 1, 1);
    if (!is_number) exit(1);
    for (int c = 0; c < columns && rows; c++) is_number[c] = tri__table_number(table, 0, c, sum) != TRI_CELL_TEXT;
    *sum = 0, *numbers = 0;
    for (int64_t row = 0; row < rows; row++) {
        for (int c = 0; c < columns; c++) {
            double value;
            if (!is_number[c]) bytes += (int64_t)tri__table_field(table, row, c).length;
            else if (tri__table_number(table, row, c, &value) == TRI_CELL_NUMBER) *sum += value, ++*numbers;
        }
        if (row % 4096 == 4095) tri__table_done(table, row - 4095, 4096);
    }
    free(is_number);
    return bytes;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        puts("table: run bench/table.py, which makes the file and compares");
        return 0;
    }
    tri_table_options options = {.threads = argc > 2 ? atoi(argv[2]) : 1};
    tri_table *table;
    double start = tri__clock(), start_cpu = cpu();
    if (tri__table_open(argv[1], &options, &table) != TRI_OK) {
        fprintf(stderr, "table: %s\n", tri_error());
        return 1;
    }
    double opened = tri__clock(), opened_cpu = cpu();
    double sum;
    int64_t numbers, bytes = read_all(table, &sum, &numbers);
    double read = tri__clock(), read_cpu = cpu();
    int failed = tri__table_check(table) != TRI_OK;
    printf("{\"rows\": %lld, \"columns\": %d, \"field_bytes\": %lld, \"numbers\": %lld, \"sum\": %.17g, ",
           (long long)tri__table_rows(table), tri__table_columns(table), (long long)bytes, (long long)numbers, sum);
    printf("\"open_seconds\": %.6f, \"read_seconds\": %.6f, \"open_cpu\": %.6f, \"read_cpu\": %.6f}\n",
           opened - start, read - opened, opened_cpu - start_cpu, read_cpu - opened_cpu);
    tri__table_close(table);
    return failed;
}
