/* columns.c - columns of the table as vectors (Gorishniy et al., "On Embeddings for Numerical Features in Tabular Deep
 * Learning", 2022): numbers by bins or by sines of learned frequencies through a dense layer of each column and a ReLU,
 * categories by a row of a table, hashed names by a sum of rows. What fits columns to data is
 * data/dataset/vectors.c. */
#include "model/model.h"

void tri__columns_make(tri_network *model, const tri_model_config *config, const tri_column *column) {
    const tri_column assumed = {.kind = config->numeric_embedding == TRI_NUMERIC_PERIODIC ? TRI_COLUMN_PERIODIC
                                                                                          : TRI_COLUMN_PIECEWISE,
                                .count = (int32_t)config->numeric_bins};
    tri_column_tables *to = &model->columns;
    *to = (tri_column_tables){.dim = model->tokens ? model->common : config->column_dim,
                              .frequencies = config->numeric_frequencies, .scale = config->frequency_scale};
    to->word = tri__arena_alloc(model->arena, ((size_t)model->n_columns + 1) * TRI_COLUMN_WORDS * sizeof *to->word);
    for (int c = 0, at = 0; c < model->n_columns; c++) {
        const tri_column *of = column ? &column[c] : &assumed;
        int periodic = of->kind == TRI_COLUMN_PERIODIC;
        int32_t *word = to->word + c * TRI_COLUMN_WORDS;
        word[TRI_COLUMN_KIND] = of->kind;
        int looks_up = tri__column_looks_up(word);
        int64_t count = periodic ? 2 * to->frequencies : of->count, *rows = looks_up ? &to->categories : &to->numbers;
        word[TRI_COLUMN_FIRST] = (int32_t)*rows;
        word[TRI_COLUMN_COUNT] = (int32_t)count;
        word[TRI_COLUMN_ROWS] = (int32_t)count + of->has_missing;
        word[TRI_COLUMN_NUMBER] = (int32_t)(periodic ? to->periodic++ : 0);
        word[TRI_COLUMN_AT] = at;
        at += of->kind == TRI_COLUMN_HASHED ? of->count : 1;
        *rows += word[TRI_COLUMN_ROWS];
        if (!looks_up && count > to->widest) to->widest = count;
    }
    if (!to->periodic) to->frequencies = 0;
}

static float inverse_root(int64_t n) { return 1.0f / sqrtf((float)n); }

int64_t tri__columns_params(tri_network *model) {
    const tri_column_tables *of = &model->columns;
    const tri_param_row rows[] = {
        TRI_WEIGHT("numbers.weight", of->numbers, of->dim, inverse_root(of->widest), WHOLE),
        TRI_WEIGHT("frequencies.weight", of->periodic, of->frequencies, (float)of->scale, WHOLE),
        TRI_WEIGHT("categories.weight", of->categories, of->dim, inverse_root(of->dim), WHOLE),
        {"columns.bias", model->n_columns, of->dim, TRI_INIT_ZERO, 0, TRI_SHARE_WHOLE}};
    tri__model_params(model, "tabular.", rows, 4);
    return model->n_columns * of->dim;
}

/* A table of parameters; -1: the model has none of its columns. */
static int table(tri_forward *f, const char *label, const char *name, int64_t rows, int64_t cols) {
    return rows ? tri__forward_weight(f, label, name, rows, cols) : -1;
}

int tri__columns_forward(tri_forward *f, int x) {
    const tri_column_tables *of = &f->model->columns;
    int64_t C = f->model->n_columns;
    int words = tri__forward_input(f, TRI_FIELD_columns);
    int numbers = table(f, "numbers.w", "tabular.numbers.weight", of->numbers, of->dim);
    int categories = table(f, "categories.w", "tabular.categories.weight", of->categories, of->dim);
    int bias = table(f, "columns.b", "tabular.columns.bias", C, of->dim);
    int frequency = table(f, "frequencies.w", "tabular.frequencies.weight", of->periodic, of->frequencies);
    int y = tri__forward_slot(f, (tri_rows){.sym = TRI_SYM_N}, C * of->dim, "columns");
    TRI_BUILD(&f->build, columns, (tri_attr){0}, y, x, words, numbers, categories, bias, frequency);
    return y;
}
