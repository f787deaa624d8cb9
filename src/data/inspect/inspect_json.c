/* inspect_json.c - an inspection as one JSON object; docs/guide/inspecting.md lists its keys. */
#include "data/inspect/inspect.h"

/* A share with four digits: equal on every machine, and more would be noise. */
static tri_json *share(double value) { return tri__json_real((double)(int64_t)(value * 10000 + 0.5) / 10000); }

static const char *name_of(const tri_inspection *in, int c) { return c < 0 ? NULL : in->column[c].name; }

static tri_json *splits_json(const tri_inspection *in) {
    tri_json *all = tri__json_object();
    for (int s = 0; s < TRI_SPLITS; s++) {
        char separator[2] = {in->split[s].separator, 0};
        if (in->split[s].path)
            tri__json_set_new(all, tri__split_name(s),
                              tri__json_pack("{s:s, s:I, s:b, s:I, s:s}", "path", in->split[s].path, "rows",
                                             (tri_json_int)in->split[s].rows, "more_rows", in->split[s].cut, "bad_rows",
                                             (tri_json_int)in->split[s].bad, "separator", separator));
    }
    return all;
}

static tri_json *missing_json(const tri_inspection *in, const tri_inspect_column *column) {
    tri_json *missing = tri__json_object();
    for (int s = 0; s < TRI_SPLITS; s++)
        if (in->split[s].path)
            tri__json_set_new(missing, tri__split_name(s),
                              column->missing[s] < 0 ? tri__json_null() : tri__json_integer(column->missing[s]));
    return missing;
}

static tri_json *column_json(const tri_inspection *in, const tri_inspect_column *column) {
    tri_json *row = tri__json_pack(
        "{s:s, s:s, s:s?, s:b, s:I, s:I, s:s, s:o}", "name", column->name, "kind", tri__inspect_kind_name(column->kind),
        "role", column->role ? tri__inspect_role_name(column->role) : NULL, "label_candidate", column->candidate > 0,
        "filled", (tri_json_int)column->filled, "distinct", (tri_json_int)column->distinct, "example", column->example,
        "missing", missing_json(in, column));
    const tri_inspect_lengths *l = &column->lengths;
    if (l->rows)
        tri__json_set_new(row, "tokens",
                          tri__json_pack("{s:i, s:i, s:i, s:I, s:b, s:I, s:o, s:o}", "median", l->median, "p95", l->p95,
                                         "max", l->max, "over_512", (tri_json_int)l->n_long, "estimated", l->estimated,
                                         "rows", (tri_json_int)l->rows, "padding_batch_32", share(l->waste_batch),
                                         "padding_512", share(l->waste_long)));
    char words[TRI_FORM_WORDS];
    if (tri__inspect_has_form(column))
        tri__json_set_new(row, "form", tri__json_string(tri__form_words(&column->form.form, words)));
    if (column->reason) tri__json_set_new(row, "reason", tri__json_string(column->reason));
    if (column->left_out) tri__json_set_new(row, "left_out", tri__json_string(column->left_out));
    if (column->rule >= 0) tri__json_set_new(row, "label_accuracy", share(column->rule));
    return row;
}

static tri_json *classes_json(const tri_inspection *in) {
    tri_json *all = tri__json_array();
    for (int i = 0; i < in->n_classes; i++) {
        tri_json *row = tri__json_pack("{s:s}", "label", in->classes[i].label);
        for (int s = 0; s < TRI_SPLITS; s++)
            if (in->split[s].path)
                tri__json_set_new(row, tri__split_name(s), tri__json_integer(in->classes[i].rows[s]));
        tri__json_append_new(all, row);
    }
    return all;
}

static tri_json *numbers_json(const tri_inspection *in) {
    tri_json *all = tri__json_object();
    for (int s = 0; s < TRI_SPLITS; s++) {
        const tri_inspect_numbers *n = &in->numbers[s];
        if (!in->split[s].path) continue;
        tri_json *row = tri__json_pack("{s:I, s:f, s:f, s:[]}", "rows", (tri_json_int)n->rows, "mean", n->mean,
                                       "deviation", n->deviation, "quartiles");
        for (int i = 0; i < TRI_INSPECT_QUARTILES; i++)
            tri__json_append_new(tri__json_get(row, "quartiles"), tri__json_real(n->at[i]));
        tri__json_set_new(all, tri__split_name(s), row);
    }
    return all;
}

static tri_json *warnings_json(const tri_inspection *in) {
    tri_json *all = tri__json_array();
    for (int i = 0; i < in->n_warnings; i++) {
        const tri_inspect_warning *w = &in->warning[i];
        tri__json_append_new(all, tri__json_pack("{s:s, s:s?, s:s}", "what", w->what, "column", name_of(in, w->column),
                                             "text", w->text));
    }
    return all;
}

tri_json *tri__inspect_texts(const tri_inspection *in) {
    tri_json *names = tri__json_array();
    for (int t = 0; t < in->n_texts; t++) tri__json_append_new(names, tri__json_string(in->column[in->text[t]].name));
    return names;
}

tri_json *tri__inspect_json(const tri_inspection *in) {
    tri_json *columns = tri__json_array();
    for (int c = 0; c < in->n_columns; c++) tri__json_append_new(columns, column_json(in, &in->column[c]));
    tri_json *all = tri__json_pack(
        "{s:o, s:s, s:o, s:s?, s:s?, s:s?, s:b, s:b, s:o, s:o}", "splits", splits_json(in), "described",
        tri__split_name(in->base), "columns", columns, "label", name_of(in, in->label), "primary_text",
        name_of(in, in->primary), "secondary_text", name_of(in, in->secondary), "label_guessed",
        in->label >= 0 && !in->label_given, "texts_guessed", in->primary >= 0 && !in->texts_given, "classes",
        classes_json(in), "warnings", warnings_json(in));
    tri_json *further = tri__json_array();
    if (all && in->n_texts > 2) tri__json_set_new(all, "text_list", tri__inspect_texts(in));
    for (int i = 0; i < in->n_further; i++)
        tri__json_append_new(further, tri__json_string(in->column[in->further[i]].name));
    if (all && in->n_further) tri__json_set(all, "secondary_text_list", further);
    tri__json_decref(further);
    if (all) tri__json_set_new(all, "decimal_mark", tri__json_stringn(&in->decimal, 1));
    if (all && in->is_number) tri__json_set_new(all, "numbers", numbers_json(in));
    if (all && in->majority >= 0) tri__json_set_new(all, "majority", share(in->majority));
    return all;
}
