/* table_rows.c - the columns of a model found in a table. */
#include "serve/infer/table_rows.h"

#include "engine/inputs.h"
#include "serve/infer/ensemble.h"

static tri_status no_memory(void) { return tri__fail(TRI_RESOURCE, "out of memory for a table's columns"); }

static tri_status open_table(const tri_settings *asked, const tri_log *log, tri_table_rows *rows) {
    char path[TRI_PATH_MAX];
    if (asked->part != TRI_PART_ASKED_ALL) {
        TRI_TRY(tri__ensemble_refuse(asked->checkpoint, "--part"));
        return tri__part_rows(asked, log, &rows->table, &rows->row, &rows->n);
    }
    tri_table_options options = {.threads = tri__threads(asked), .bad_rows = (tri_bad_rows)asked->bad_rows,
                                 .tables = asked->tables};
    TRI_TRY(tri__separator_parse(asked->separator, &options.separator));
    TRI_TRY(tri__data_scored(asked->data_path, path));
    return tri__table_open(path, &options, &rows->table);
}

tri_status tri__table_rows_find(tri_table_rows *rows) {
    if (!rows->row) rows->n = tri__table_rows(rows->table);
    while (tri__model_column(rows->model, rows->n_columns)) rows->n_columns++;
    rows->column = malloc((size_t)rows->n_columns * sizeof *rows->column);
    if (!rows->column) return no_memory();
    for (int c = 0; c < rows->n_columns; c++)
        TRI_TRY(tri__table_find(rows->table, tri__model_column(rows->model, c), &rows->column[c]));
    return TRI_OK;
}

/* The index of a column among those that the model reads. */
static int index_of(const tri_table_rows *rows, const char *name) {
    int c = 0;
    while (strcmp(tri__model_column(rows->model, c), name)) c++;
    return c;
}

static void add_input(tri_table_rows *rows, int is_text, char *const *names, int n) {
    const tri_input *last = rows->n_inputs ? &rows->input[rows->n_inputs - 1] : NULL;
    tri_input *input = &rows->input[rows->n_inputs++];
    *input = (tri_input){.name = names[0], .is_text = is_text, .first = last ? last->first + last->n : 0, .n = n};
    for (int k = 0; k < n; k++) rows->member[input->first + k] = index_of(rows, names[k]);
}

static tri_status find_inputs(tri_table_rows *rows) {
    const tri_model_facts *f = rows->facts;
    size_t inputs = (size_t)(f->n_texts + f->n_columns), members = (size_t)f->n_columns;
    for (int t = 0; t < f->n_texts; t++) members += (size_t)f->text[t].n;
    rows->input = malloc(inputs * sizeof *rows->input), rows->member = malloc(members * sizeof *rows->member);
    if (!rows->input || !rows->member) return no_memory();
    for (int t = 0; t < f->n_texts; t++) add_input(rows, 1, f->text[t].at, f->text[t].n);
    for (int c = 0; c < f->n_columns; c++) add_input(rows, 0, &f->column[c]->name, 1);
    return TRI_OK;
}

tri_status tri__table_rows_open(const tri_settings *asked, const tri_log *log, tri_table_rows *rows) {
    *rows = (tri_table_rows){0};
    TRI_TRY(open_table(asked, log, rows));
    TRI_TRY(tri__model_open(asked, NULL, log, &rows->model));
    rows->facts = tri__model_facts(rows->model);
    int members = rows->facts->members;
    if (members > 1) tri__say(log, TRI_LOG_INFO, "%s: the mean of %d members", asked->checkpoint, members);
    else tri__say(log, TRI_LOG_INFO, "%s", rows->facts->path);
    TRI_TRY(tri__table_rows_find(rows));
    return find_inputs(rows);
}

void tri__table_rows_close(tri_table_rows *rows) {
    tri__model_close(rows->model);
    tri__table_close(rows->table);
    TRI_FREE(rows->row, rows->column, rows->input, rows->member);
    *rows = (tri_table_rows){0};
}

tri_status tri__table_rows_done(const tri_table_rows *rows, int64_t first, int64_t n) {
    int64_t from = tri__table_row(rows, first);
    tri__table_done(rows->table, from, tri__table_row(rows, first + n - 1) + 1 - from);
    return tri__table_check(rows->table);
}

void tri__table_rows_take(const tri_table_rows *rows, int64_t row, tri_column_value *value) {
    for (int c = 0; c < rows->n_columns; c++) {
        tri_field_text field = tri__table_field(rows->table, tri__table_row(rows, row), rows->column[c]);
        value[c] = (tri_column_value){tri__model_column(rows->model, c), field.text, field.length, field.number};
    }
}
