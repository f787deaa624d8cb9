/* table.c - how fast a table is opened (all rows found, UTF-8 checked) and read (every field accessed once).
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
    int64_t rows = tri__table_rows(table), bytes = 0;
    int columns = tri__table_columns(table);
    for (int64_t row = 0; row < rows; row++) {
        for (int c = 0; c < columns; c++) bytes += (int64_t)tri__table_field(table, row, c).length;
        if (row % 4096 == 4095) tri__table_done(table, row - 4095, 4096);
    }
    double read = tri__clock(), read_cpu = cpu();
    int failed = tri__table_check(table) != TRI_OK;
    printf("{\"rows\": %lld, \"columns\": %d, \"field_bytes\": %lld, \"open_seconds\": %.6f, \"read_seconds\": %.6f, "
           "\"open_cpu\": %.6f, \"read_cpu\": %.6f}\n",
           (long long)rows, columns, (long long)bytes, opened - start, read - opened, opened_cpu - start_cpu,
           read_cpu - opened_cpu);
    tri__table_close(table);
    return failed;
}
