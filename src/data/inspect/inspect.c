/* inspect.c - runs an inspection: opens the tables and executes its steps in order. */
#include "data/inspect/inspect_parts.h"

const char *tri__split_name(int split) {
    static const char *const names[TRI_SPLITS] = {"train", "valid", "test"};
    return names[split];
}

const char *tri__inspect_kind_name(tri_inspect_kind kind) {
    static const char *const names[] = {"empty", "constant", "id", "numeric", "categorical", "text", "date", "amount",
                                        "boolean", "name", "code"};
    return names[kind];
}

const char *tri__inspect_role_name(tri_inspect_role role) {
    static const char *const names[] = {"", "label", "primary", "secondary", "tabular", "text"};
    return names[role];
}

tri_status tri__inspect_no_memory(const tri_inspector *in) {
    return tri__fail(TRI_RESOURCE, "%s: out of memory", in->out->split[in->out->base].path);
}

static tri_status open_tables(tri_inspector *in) {
    tri_inspection *out = in->out;
    tri_table_options options = {.threads = in->spec->threads, .separator = in->spec->separator,
                                 .bad_rows = in->spec->skip_bad_rows ? TRI_BAD_ROWS_SKIP : TRI_BAD_ROWS_FAIL,
                                 .budget = in->spec->memory ? in->spec->memory : TRI_INSPECT_MEMORY,
                                 .row_cost = TRI_INSPECT_ROW, .column_cost = TRI_INSPECT_FIELD,
                                 .tables = in->spec->tables};
    out->base = -1;
    for (int s = 0; s < TRI_SPLITS; s++) {
        const char *path = in->spec->path[s];
        if (!path || !*path) continue;
        TRI_TRY(tri__table_open(path, &options, &in->table[s]));
        out->split[s].path = strdup(path);
        if (!out->split[s].path) return tri__fail(TRI_RESOURCE, "%s: out of memory", path);
        const tri_bad_row *rows;
        int described;
        size_t used = tri__table_cost(in->table[s]);
        options.budget = used < options.budget - options.budget / 4 ? options.budget - used : options.budget / 4;
        out->split[s].rows = tri__table_rows(in->table[s]);
        out->split[s].cut = tri__table_cut(in->table[s]);
        out->split[s].bad = tri__table_bad(in->table[s], &rows, &described);
        out->split[s].separator = tri__table_separator(in->table[s]);
        out->split[s].recognised = tri__table_recognised(in->table[s]);
        if (out->base < 0) out->base = s;
    }
    TRI_ASSERT(out->base >= 0);
    return TRI_OK;
}

static tri_status name_columns(tri_inspector *in) {
    tri_inspection *out = in->out;
    const tri_table *base = in->table[out->base];
    int n = tri__table_columns(base);
    if (!(out->column = calloc((size_t)n + 1, sizeof *out->column))) return tri__inspect_no_memory(in);
    for (int s = 0; s < TRI_SPLITS; s++)
        if (in->table[s] && !(in->at[s] = malloc(((size_t)n + 1) * sizeof(int)))) return tri__inspect_no_memory(in);
    for (int c = 0; c < n; c++) {
        const char *name = tri__table_name(base, c), *unread = tri__table_unread(base, c);
        if (unread) TRI_TRY(tri__inspect_warn(in, "unread", -1, "column \"%s\" %s", name, unread));
        if (unread) continue;
        tri_inspect_column *column = &out->column[out->n_columns];
        column->rule = -1;
        if (!(column->name = strdup(name))) return tri__inspect_no_memory(in);
        for (int s = 0; s < TRI_SPLITS; s++)
            if (in->table[s]) in->at[s][out->n_columns] = tri__table_column(in->table[s], name);
        out->n_columns++;
    }
    return TRI_OK;
}

/* Detects the decimal mark over all of base's columns. If ambiguous, a point is assumed and a warning given: training
 * considers only the columns it uses. */
static tri_status find_reading(tri_inspector *in) {
    tri_inspection *out = in->out;
    const int *at = in->at[out->base];
    tri_decimal found = {.mark = in->spec->reading.decimal};
    in->reading = in->spec->reading;
    if (!found.mark)
        TRI_TRY(tri__decimal_find(in->table[out->base], at, out->n_columns, &in->reading.missing, &found));
    out->decimal = in->reading.decimal = found.mark, in->known_mark = found.known;
    if (!found.unclear) return TRI_OK;
    int column = found.comma >= 0 ? found.comma : found.point;
    const char *what = "numbers with commas before three digits, so they may be thousands: they are not read as "
                       "numbers; --decimal-mark comma reads them as fractions, point as thousands";
    if (found.comma < 0)
        what = "whole numbers, and numbers with points before three digits, which may be thousands: training asks for "
               "--decimal-mark point or comma";
    else if (found.point >= 0)
        what = "numbers with commas, other columns have numbers with points: they are not read as numbers; "
               "--decimal-mark comma reads them as fractions";
    return tri__inspect_warn(in, "unclear_decimal", column, "\"%s\" has %s", out->column[column].name, what);
}

static tri_status take_steps(tri_inspector *in) {
    TRI_TRY(open_tables(in));
    TRI_TRY(name_columns(in));
    TRI_TRY(find_reading(in));
    TRI_TRY(tri__inspect_columns(in));
    TRI_TRY(tri__inspect_roles(in));
    TRI_TRY(tri__inspect_numbers(in));
    TRI_TRY(tri__inspect_classes(in));
    TRI_TRY(tri__inspect_lengths(in));
    TRI_TRY(tri__inspect_rules(in));
    TRI_TRY(tri__inspect_warnings(in));
    for (int s = 0; s < TRI_SPLITS; s++)
        if (in->table[s]) TRI_TRY(tri__table_check(in->table[s])); /* fails if the file changed meanwhile */
    return TRI_OK;
}

static void close_inspector(tri_inspector *in) {
    for (int s = 0; s < TRI_SPLITS; s++) {
        TRI_FREE(in->klass[s], in->at[s]);
        tri__table_close(in->table[s]);
    }
    tri__inspect_free(in->out);
}

tri_status tri__inspect(const tri_inspect_spec *spec, tri_inspection **out) {
    TRI_OWNED(close_inspector) tri_inspector in = {.spec = spec};
    *out = NULL;
    TRI_TRY(TRI_NEW(in.out, 1, "an inspection"));
    in.out->label = in.out->primary = in.out->secondary = -1;
    in.out->majority = -1;
    TRI_TRY(take_steps(&in));
    *out = TRI_GIVE(in.out);
    return TRI_OK;
}

void tri__inspect_free(tri_inspection *inspection) {
    if (!inspection) return;
    for (int i = 0; i < inspection->n_warnings; i++) free(inspection->warning[i].text);
    for (int i = 0; i < inspection->n_classes; i++) free(inspection->classes[i].label);
    for (int c = 0; c < inspection->n_columns; c++)
        TRI_FREE(inspection->column[c].name, inspection->column[c].example, inspection->column[c].left_out,
                 inspection->column[c].reason);
    for (int s = 0; s < TRI_SPLITS; s++) free(inspection->split[s].path);
    TRI_FREE(inspection->warning, inspection->further, inspection->classes, inspection->column, inspection);
}
