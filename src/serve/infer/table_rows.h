/* table_rows.h - a model, and a table's rows as it takes them: for commands that change rows before they predict. */
#pragma once

#include "serve/infer/model.h"

/* What a model takes as one thing: a text, with all its columns, or a tabular column. */
typedef struct tri_input {
    const char *name;  /* of its first column */
    int is_text;
    int first, n;      /* of tri_table_rows.member: its columns */
} tri_input;

typedef struct tri_table_rows {
    tri_model *model;
    const tri_model_facts *facts;
    tri_table *table;
    int64_t n, *row;   /* rows: how many, and which of the table's; NULL: all */
    int n_columns;     /* that the model reads */
    int *column;       /* [n_columns] of the table */
    tri_input *input;  /* [n_inputs] texts, then tabular columns */
    int n_inputs;
    int *member;       /* indices of `column`, input by input */
} tri_table_rows;

/* Opens asked->checkpoint and the table asked->data_path (of a folder: its test file, else its validation file; with
 * asked->part the training table, of which the run made parts).
 * Whatever it returns, the caller closes `rows`. */
tri_status tri__table_rows_open(const tri_settings *asked, const tri_log *log, tri_table_rows *rows);
/* Finds the model's columns, and all rows, once model and table are open. */
tri_status tri__table_rows_find(tri_table_rows *rows);
void tri__table_rows_close(tri_table_rows *rows); /* accepts a zeroed one */
/* Which row of the table is row i. */
static inline int64_t tri__table_row(const tri_table_rows *rows, int64_t i) { return rows->row ? rows->row[i] : i; }
/* Rows [first, first + n), n > 0, are not needed any more. TRI_IO: the file was damaged meanwhile. */
tri_status tri__table_rows_done(const tri_table_rows *rows, int64_t first, int64_t n);
/* The fields of a row: value [n_columns], whose texts are valid until tri__table_rows_done of it. */
void tri__table_rows_take(const tri_table_rows *rows, int64_t row, tri_column_value *value);
