/* table.c - how fast a table is opened (all rows found, UTF-8 checked) and read (every field accessed once, as training
 * does: columns of a binary file that hold numbers by their numbers, some rows at once, all others by their text).
 *   table FILE [THREADS]      prints one JSON object. Without a file: says what it is for. */
#include "base/clock.h"
#include "data/table/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* CPU seconds of this process: on a shared machine, what a run would take alone. */
static double cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum { ROWS = 256 }; /* that training's columns are fitted on at once */

/* Reads every field; returns the bytes of texts. *numbers: how many; *sum: of one in each 256, to compare by. given
 * [columns]. */
static int64_t read_all(const tri_table *table, char *given, int64_t *numbers, double *sum) {
    int64_t rows = tri__table_rows(table), bytes = 0;
    int columns = tri__table_columns(table);
    double value[ROWS];
    *numbers = 0, *sum = 0;
    for (int64_t first = 0; first < rows; first += ROWS) {
        int64_t n = rows - first < ROWS ? rows - first : ROWS;
        for (int c = 0; c < columns; c++) {
            given[c] = (char)tri__table_numbers(table, first, n, c, value);
            if (given[c]) *numbers += n, *sum += isfinite(value[n / 2]) ? value[n / 2] : 0;
        }
        for (int64_t row = first; row < first + n; row++)
            for (int c = 0; c < columns; c++)
                if (!given[c]) bytes += (int64_t)tri__table_field(table, row, c).length;
        if (n == ROWS && first / ROWS % 16 == 15) tri__table_done(table, first - 15 * ROWS, 16 * ROWS);
    }
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
    char *given = calloc((size_t)tri__table_columns(table) + 1, 1);
    double sum;
    if (!given) return 1;
    int64_t numbers, bytes = read_all(table, given, &numbers, &sum);
    double read = tri__clock(), read_cpu = cpu();
    int failed = tri__table_check(table) != TRI_OK;
    printf("{\"rows\": %lld, \"columns\": %d, \"field_bytes\": %lld, \"numbers\": %lld, \"sum\": %.17g, ",
           (long long)tri__table_rows(table), tri__table_columns(table), (long long)bytes, (long long)numbers, sum);
    printf("\"open_seconds\": %.6f, \"read_seconds\": %.6f, \"open_cpu\": %.6f, \"read_cpu\": %.6f}\n",
           opened - start, read - opened, opened_cpu - start_cpu, read_cpu - opened_cpu);
    free(given);
    tri__table_close(table);
    return failed;
}
