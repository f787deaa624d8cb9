/* inspect_tables.c - an inspection as tables: columns, rows and missing values, label balance, padding, warnings. */
#include "cli/inspect.h"

#include "report/text/text_table.h"

enum { CLASSES_SHOWN = 20, NAME_CHARS = 40 };

/* A column's name in a cell. */
static const char *cell(const char *name, char out[static NAME_CHARS * 4 + 4]) {
    return *name ? tri__text_brief(name, NAME_CHARS, out, NAME_CHARS * 4 + 4) : strcpy(out, "(unnamed)");
}

static void add_column(tri_text_table *table, const tri_inspection *in, const tri_inspect_column *c) {
    char name[NAME_CHARS * 4 + 4], tokens[64] = "\t\t", distinct[32];
    int64_t rows = in->split[in->base].rows;
    if (c->lengths.rows)
        snprintf(tokens, sizeof tokens, "%d\t%d\t%d", c->lengths.median, c->lengths.p95, c->lengths.max);
    int also = c->candidate && c->role != TRI_INSPECT_LABEL;
    tri__text_table_add(table, "%s\t%s\t%s%s\t%.1f %%\t%s\t%s\t%s", cell(c->name, name),
                        tri__inspect_kind_name(c->kind), tri__inspect_role_name(c->role),
                        !also ? "" : c->role ? ", or label" : "label?",
                        rows ? 100.0 * (double)c->filled / (double)rows : 0.0,
                        tri__text_count(c->distinct, distinct), tokens, c->example);
}

static tri_status print_columns(const tri_cli *cli, const tri_inspection *in) {
    tri_text_table table = {0};
    char rows[32];
    int estimated = 0;
    int64_t measured = 0;
    for (int c = 0; c < in->n_columns; c++)
        if (in->column[c].lengths.rows)
            estimated |= in->column[c].lengths.estimated, measured = in->column[c].lengths.rows;
    const char *about = estimated ? "~" : "";
    tri__text_table_add(&table, "column\tkind\tpart\tfilled\tdistinct\t%smedian\t%sp95\t%smax\texample", about, about,
                        about);
    for (int c = 0; c < in->n_columns; c++) add_column(&table, in, &in->column[c]);
    fprintf(cli->out, "%s: %s%s rows, %d columns\n\n", in->split[in->base].path,
            in->split[in->base].cut ? "the first " : "", tri__text_count(in->split[in->base].rows, rows),
            in->n_columns);
    tri_status status = tri__print_table(cli, &table);
    if (estimated)
        fputs("\nmedian, p95, max: tokens of a text, estimated by its words; --tokenizer DIR, or --config and "
              "--models-dir, count them\n", cli->out);
    else if (measured) fputs("\nmedian, p95, max: tokens of a text, those around it included\n", cli->out);
    if (measured && measured < in->split[in->base].rows)
        fprintf(cli->out, "lengths are of %s evenly spaced rows\n", tri__text_count(measured, rows));
    return status;
}

/* A table after an empty line, unless it has only its header; frees it. */
static tri_status print_below(const tri_cli *cli, tri_text_table *table) {
    if (table->n > 1 || table->failed) {
        fputc('\n', cli->out);
        return tri__print_table(cli, table);
    }
    tri__text_table_free(table);
    return TRI_OK;
}

/* Columns that are not used, and why. */
static tri_status print_left_out(const tri_cli *cli, const tri_inspection *in) {
    tri_text_table table = {0};
    char name[NAME_CHARS * 4 + 4];
    tri__text_table_add(&table, "left out\tbecause");
    for (int c = 0; c < in->n_columns; c++)
        if (in->column[c].left_out)
            tri__text_table_add(&table, "%s\t%s", cell(in->column[c].name, name), in->column[c].left_out);
    return print_below(cli, &table);
}

/* Columns that are not written as plain numbers, or are of many values, and how they are read. */
static tri_status print_forms(const tri_cli *cli, const tri_inspection *in) {
    tri_text_table table = {0};
    char name[NAME_CHARS * 4 + 4], words[TRI_FORM_WORDS];
    tri__text_table_add(&table, "column\tread as");
    for (int c = 0; c < in->n_columns; c++) {
        const tri_form_found *found = &in->column[c].form;
        const char *reason = in->column[c].reason;
        char parts[96] = "";
        int has_form = tri__inspect_has_form(&in->column[c]);
        if (!(has_form || reason) || in->column[c].role != TRI_INSPECT_TABULAR) continue;
        for (int p = 0; p < TRI_DATE_PARTS; p++)
            if (found->parts >> p & 1) tri__text_append(parts, sizeof parts, ", ", "%s", tri__date_part_names[p]);
        tri__text_table_add(&table, "%s\t%s%s%s%s%s", cell(in->column[c].name, name),
                            has_form ? tri__form_words(&found->form, words) : "categories", *parts ? ": " : "", parts,
                            reason ? ": " : "", reason ? reason : "");
    }
    return print_below(cli, &table);
}

static tri_status print_splits(const tri_cli *cli, const tri_inspection *in) {
    tri_text_table table = {0};
    char name[NAME_CHARS * 4 + 4], count[32];
    tri__text_table_add(&table, "missing in");
    for (int s = 0; s < TRI_SPLITS; s++)
        if (in->split[s].path) tri__text_table_more(&table, "%s", tri__split_name(s));
    for (int c = 0; c <= in->n_columns; c++) { /* the last row: of how many */
        const tri_inspect_column *column = c < in->n_columns ? &in->column[c] : NULL;
        int64_t missing = !column;
        for (int s = 0; s < TRI_SPLITS && column; s++) missing |= in->split[s].path ? column->missing[s] : 0;
        if (!missing) continue;
        tri__text_table_add(&table, "%s", column ? cell(column->name, name) : "of rows");
        for (int s = 0; s < TRI_SPLITS; s++) {
            int64_t n = column ? column->missing[s] : in->split[s].rows;
            if (in->split[s].path) tri__text_table_more(&table, "%s", n < 0 ? "-" : tri__text_count(n, count));
        }
    }
    return print_below(cli, &table);
}

static const char *guess(const tri_inspection *in) {
    return in->label_given ? "" : " (a guess; --label-name names another)";
}

static tri_status print_numbers(const tri_cli *cli, const tri_inspection *in) {
    tri_text_table table = {0};
    char name[NAME_CHARS * 4 + 4], count[32];
    if (!in->is_number) return TRI_OK;
    tri__text_table_add(&table, "%s\trows\tmean\tdeviation\tleast\t25 %%\tmedian\t75 %%\tmost",
                        cell(in->column[in->label].name, name));
    for (int s = 0; s < TRI_SPLITS; s++) {
        const tri_inspect_numbers *n = &in->numbers[s];
        if (!in->split[s].path) continue;
        tri__text_table_add(&table, "%s\t%s\t%.5g\t%.5g", tri__split_name(s), tri__text_count(n->rows, count), n->mean,
                            n->deviation);
        for (int i = 0; i < TRI_INSPECT_QUARTILES; i++) tri__text_table_more(&table, "%.5g", n->at[i]);
    }
    fprintf(cli->out, "\nlabel, numbers%s:\n", guess(in));
    return tri__print_table(cli, &table);
}

static tri_status print_classes(const tri_cli *cli, const tri_inspection *in) {
    if (in->label < 0 || in->is_number) return TRI_OK;
    tri_text_table table = {0};
    char name[NAME_CHARS * 4 + 4], count[32];
    const int64_t *missing = in->column[in->label].missing;
    tri__text_table_add(&table, "%s", cell(in->column[in->label].name, name));
    for (int s = 0; s < TRI_SPLITS; s++)
        if (in->split[s].path) tri__text_table_more(&table, "%s\tshare", tri__split_name(s));
    for (int i = 0; i < in->n_classes && i < CLASSES_SHOWN; i++) {
        tri__text_table_add(&table, "%s", cell(in->classes[i].label, name));
        for (int s = 0; s < TRI_SPLITS; s++) {
            double rows = (double)(in->split[s].rows - (missing[s] > 0 ? missing[s] : 0));
            if (in->split[s].path)
                tri__text_table_more(&table, "%s\t%.2f %%", tri__text_count(in->classes[i].rows[s], count),
                                     rows > 0 ? 100.0 * (double)in->classes[i].rows[s] / rows : 0.0);
        }
    }
    fprintf(cli->out, "\nlabel%s:\n", guess(in));
    TRI_TRY(tri__print_table(cli, &table));
    if (in->n_classes > CLASSES_SHOWN) fprintf(cli->out, "... %d classes in all\n", in->n_classes);
    return TRI_OK;
}

static tri_status print_padding(const tri_cli *cli, const tri_inspection *in) {
    tri_text_table table = {0};
    char name[NAME_CHARS * 4 + 4];
    tri__text_table_add(&table, "padding would waste\tin batches of %d\tto %d tokens", TRI_INSPECT_BATCH,
                        TRI_INSPECT_LONG);
    for (int c = 0; c < in->n_columns; c++) {
        const tri_inspect_lengths *l = &in->column[c].lengths;
        if (l->rows)
            tri__text_table_add(&table, "%s\t%.1f %%\t%.1f %%", cell(in->column[c].name, name), 100 * l->waste_batch,
                                100 * l->waste_long);
    }
    return print_below(cli, &table);
}

tri_status tri__inspect_print(const tri_cli *cli, const tri_inspection *in) {
    TRI_TRY(print_columns(cli, in));
    TRI_TRY(print_forms(cli, in));
    TRI_TRY(print_left_out(cli, in));
    TRI_TRY(print_splits(cli, in));
    TRI_TRY(print_numbers(cli, in));
    TRI_TRY(print_classes(cli, in));
    TRI_TRY(print_padding(cli, in));
    if (in->n_warnings) fputc('\n', cli->out);
    for (int i = 0; i < in->n_warnings; i++)
        fprintf(cli->out, cli->out_color ? "\033[33mwarning:\033[0m %s\n" : "warning: %s\n", in->warning[i].text);
    return TRI_OK;
}
