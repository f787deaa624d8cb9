/* parquet.c - a Parquet file as a table. */
#include "data/table/parquet.h"

static void free_file(void *state) {
    tri_parquet *file = state;
    for (int64_t i = 0; i < file->groups; i++) free(file->group[i].chunk);
    pthread_mutex_destroy(&file->lock);
    TRI_FREE(file->group, file->column_of, file->column, file->scratch.window, file->scratch.page.at, file);
}

/* A column that some row group has in a form that is not read cannot be used. */
static tri_status refuse_columns(tri_table *table, tri_parquet *file) {
    char why[512];
    for (int c = 0; c < table->columns; c++)
        for (int64_t g = 0; g < file->groups && file->column[c].leaf >= 0; g++) {
            if (!tri__parquet_refused(table, &file->group[g], c, why, sizeof why)) continue;
            file->column[c].leaf = -1;
            if (!(table->unread[c] = strdup(why))) return tri__table_no_memory(table);
        }
    return TRI_OK;
}

static tri_status open_parquet(tri_table *table) {
    tri_parquet *file = calloc(1, sizeof *file);
    if (file) pthread_mutex_init(&file->lock, NULL);
    TRI_TRY(tri__columns_begin(table, file));
    TRI_TRY(tri__parquet_footer(table, file));
    return refuse_columns(table, file);
}

const tri_format tri__format_parquet = {TRI_COLUMN_TABLE, .endings = " .parquet .pq", .magic = "PAR1",
                                        .called = "a Parquet file", .open = open_parquet, .load = tri__parquet_load,
                                        .has_numbers = tri__parquet_has_numbers, .free = free_file};
