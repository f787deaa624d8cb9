/* inspect_numbers.c - a label of numbers: whether it is one, and how its values lie in each table. */
#include "data/inspect/inspect_parts.h"

#include "base/sort.h"

/* Amounts rather than classes: fractions, or more of them than classes usually are. */
static int is_number(const tri_inspect_column *c) {
    enum { MOST = 20 };
    int numeric = c->kind == TRI_INSPECT_AMOUNT || (c->kind == TRI_INSPECT_NUMERIC && c->numbers == c->filled);
    return numeric && c->distinct > (c->whole ? MOST : 2);
}

static tri_status read_numbers(tri_inspector *in, int split) {
    const tri_value_form *form = &in->out->column[in->out->label].form.form;
    tri_inspect_numbers *out = &in->out->numbers[split];
    int64_t rows = in->out->split[split].rows, n = 0;
    double mean = 0, squares = 0;
    TRI_OWNED(tri__free_at) double *number = malloc((size_t)rows * sizeof *number + 1);
    if (!number) return tri__inspect_no_memory(in);
    for (int64_t row = 0; row < rows; row++) {
        tri_field_text field = tri__inspect_field(in, split, row, in->out->label);
        if (tri__form_number(form, &in->reading, field, &number[n]) == TRI_NUMBER_GOOD) {
            double off = number[n++] - mean;
            mean += off / (double)n;
            squares += off * (number[n - 1] - mean);
        }
        tri__rows_passed(in->table[split], row);
    }
    tri__sort_doubles(number, n);
    *out = (tri_inspect_numbers){.rows = n, .mean = mean, .deviation = n ? sqrt(squares / (double)n) : 0};
    for (int i = 0; n && i < TRI_INSPECT_QUARTILES; i++) out->at[i] = number[(n - 1) * i / (TRI_INSPECT_QUARTILES - 1)];
    return TRI_OK;
}

tri_status tri__inspect_numbers(tri_inspector *in) {
    tri_inspection *out = in->out;
    if (out->label < 0) return TRI_OK;
    out->is_number = in->spec->is_number < 0 ? is_number(&out->column[out->label]) : in->spec->is_number;
    for (int s = 0; s < TRI_SPLITS; s++)
        if (out->is_number && in->table[s] && in->at[s][out->label] >= 0) TRI_TRY(read_numbers(in, s));
    return TRI_OK;
}
