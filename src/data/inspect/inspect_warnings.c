/* inspect_warnings.c - warnings before training: columns that give the label away or carry no information, rows that
 * two tables share, labels that are missing, rare or unknown, texts that will be truncated. */
#include "data/inspect/inspect_parts.h"

#include "data/text/unicode.h"

tri_status tri__inspect_warn(tri_inspector *in, const char *what, int column, const char *format, ...) {
    tri_inspection *out = in->out;
    tri_inspect_warning *grown = realloc(out->warning, (size_t)(out->n_warnings + 1) * sizeof *grown);
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (grown && vasprintf(&text, format, args) < 0) text = NULL;
    va_end(args);
    if (grown) out->warning = grown;
    if (!text) return tri__inspect_no_memory(in);
    grown[out->n_warnings++] = (tri_inspect_warning){.what = what, .column = column, .text = text};
    return TRI_OK;
}

int tri__inspect_warned(const tri_inspection *inspection, const char *what) {
    for (int i = 0; i < inspection->n_warnings; i++)
        if (strcmp(inspection->warning[i].what, what) == 0) return 1;
    return 0;
}

/* Warns if a rule is right on nine rows in ten, and wrong at most half as often as always predicting the most frequent
 * class. */
static tri_status warn_deciding(tri_inspector *in) {
    tri_inspection *out = in->out;
    for (int c = 0; c < out->n_columns; c++) {
        const tri_inspect_column *column = &out->column[c];
        if (column->rule < 0.9 || column->rule <= out->majority || 1 - column->rule > (1 - out->majority) / 2) continue;
        TRI_TRY(tri__inspect_warn(in, "decides_label", c, "\"%s\" alone gives the label of %.1f %% of the rows%s%s "
                                  "(the most frequent class: %.1f %%); leave it out if it is not known when you "
                                  "predict", column->name, 100 * column->rule, out->scored == out->base ? "" : " of ",
                                  out->scored == out->base ? "" : tri__split_name(out->scored), 100 * out->majority));
    }
    return TRI_OK;
}

/* A row's hash over all columns that every table has, except keys. */
static uint64_t hash_row(const tri_inspector *in, int split, int64_t row, const uint8_t *counts) {
    uint64_t hash = 0;
    for (int c = 0; c < in->out->n_columns; c++) {
        if (!counts[c]) continue;
        char form[TRI_CANONICAL_BYTES];
        tri_field_text field = tri__table_field(in->table[split], row, in->at[split][c]);
        field = tri__field_canonical(&in->reading, field, form); /* tables may have different formats */
        hash = tri__hash64(hash, field.text, field.length);
    }
    return hash;
}

/* Names of the ignored columns, as "but ..."; "" if there are none. */
static void name_keys(const tri_inspection *out, const uint8_t *counts, char *text, size_t size) {
    text[0] = 0;
    for (int c = 0; c < out->n_columns; c++)
        if (!counts[c])
            tri__text_append(text, size, ", ", "%s%s", *text ? "" : " but ",
                             out->column[c].name[0] ? out->column[c].name : "the first");
}

/* Rows of the second table that the first has too. */
static int64_t count_shared(const tri_tally *first, const tri_tally *second) {
    int64_t shared = 0;
    for (int64_t i = 0; i < second->n; i++)
        if (tri__tally_find(first, second->entry[i].hash) >= 0) shared += second->entry[i].count;
    return shared;
}

/* Rows that two tables share; text: by that column, or -1: by all but `keys`. */
static tri_status warn_shared(tri_inspector *in, const tri_tally *seen, int text, const char *keys) {
    for (int a = 0; a < TRI_SPLITS; a++)
        for (int b = a + 1; b < TRI_SPLITS; b++) {
            int64_t shared = count_shared(&seen[a], &seen[b]);
            char many[32], all[32];
            const char *first = tri__split_name(a), *second = tri__split_name(b);
            if (!shared) continue;
            tri__text_count(shared, many), tri__text_count(in->out->split[b].rows, all);
            TRI_TRY(text < 0 ? tri__inspect_warn(in, "duplicate_rows", -1, "%s of %s rows of %s equal a row of %s in "
                                                 "every column%s", many, all, second, first, keys)
                             : tri__inspect_warn(in, "duplicate_texts", text, "%s of %s rows of %s have a \"%s\" that "
                                                 "also appears in %s", many, all, second, in->out->column[text].name,
                                                 first));
        }
    return TRI_OK;
}

static tri_status warn_rows(tri_inspector *in, const tri_tally *seen, const uint8_t *counts) {
    tri_inspection *out = in->out;
    char keys[300], many[32], all[32];
    name_keys(out, counts, keys, sizeof keys);
    TRI_TRY(warn_shared(in, seen, -1, keys));
    int64_t again = out->split[out->base].rows - seen[out->base].n;
    if (again)
        TRI_TRY(tri__inspect_warn(in, "repeated_rows", -1, "%s of %s rows of %s equal an earlier one in every column%s",
                                  tri__text_count(again, many), tri__text_count(out->split[out->base].rows, all),
                                  tri__split_name(out->base), keys));
    return TRI_OK;
}

/* Fills seen [TRI_SPLITS] with the rows' hashes, or with those of one text column's filled fields. */
static tri_status tally_rows(tri_inspector *in, const uint8_t *counts, int text, tri_tally *seen) {
    for (int s = 0; s < TRI_SPLITS; s++) {
        if (!in->table[s] || (text >= 0 && in->at[s][text] < 0)) continue;
        for (int64_t row = 0; row < tri__table_rows(in->table[s]); row++) {
            if (row) tri__rows_passed(in->table[s], row - 1);
            tri_field_text field = text < 0 ? (tri_field_text){0} : tri__inspect_field(in, s, row, text);
            if (text >= 0 && !field.length) continue;
            uint64_t hash = text < 0 ? hash_row(in, s, row, counts) : tri__inspect_hash(field);
            if (tri__tally_add(&seen[s], hash, row) < 0) return tri__inspect_no_memory(in);
        }
    }
    return TRI_OK;
}

static void end_tallies(tri_tally (*seen)[TRI_SPLITS]) {
    for (int s = 0; s < TRI_SPLITS; s++) tri__tally_free(&(*seen)[s]);
}

static tri_status warn_duplicates(tri_inspector *in) {
    tri_inspection *out = in->out;
    TRI_OWNED(end_tallies) tri_tally seen[TRI_SPLITS] = {0};
    TRI_OWNED(tri__free_at) uint8_t *counts = malloc((size_t)out->n_columns + 1);
    int any = 0;
    if (!counts) return tri__inspect_no_memory(in);
    for (int c = 0; c < out->n_columns; c++) {
        counts[c] = !(out->column[c].kind == TRI_INSPECT_ID && out->column[c].key);
        for (int s = 0; s < TRI_SPLITS; s++) counts[c] &= !in->table[s] || in->at[s][c] >= 0;
        any |= counts[c];
    }
    if (!any) return TRI_OK;
    TRI_TRY(tally_rows(in, counts, -1, seen));
    return warn_rows(in, seen, counts);
}

static tri_status warn_texts(tri_inspector *in) {
    tri_inspection *out = in->out;
    TRI_OWNED(end_tallies) tri_tally seen[TRI_SPLITS] = {0};
    if (out->primary < 0) return TRI_OK;
    TRI_TRY(tally_rows(in, NULL, out->primary, seen));
    return warn_shared(in, seen, out->primary, "");
}

/* The first of `bad` values of a column of numbers that are none. */
static tri_status warn_bad_numbers(tri_inspector *in, int c, int64_t bad) {
    tri_inspection *out = in->out;
    const tri_inspect_column *column = &out->column[c];
    double value;
    int64_t row = 0;
    char place[TRI_PLACE_BYTES];
    while (tri__form_number(&column->form.form, &in->reading, tri__inspect_field(in, out->base, row, c), &value) <=
           TRI_NUMBER_GOOD)
        row++;
    const char *wanted = column->kind == TRI_INSPECT_AMOUNT ? "amounts" : "decimal numbers";
    if (column->kind == TRI_INSPECT_DATE) wanted = "dates";
    return tri__inspect_warn(in, "bad_numbers", c, "\"%s\": %lld of %lld values are not %s, the first at %s; training "
                             "refuses them", column->name, (long long)bad, (long long)column->filled, wanted,
                             tri__table_place(in->table[out->base], row, in->at[out->base][c], place));
}

static tri_status warn_column(tri_inspector *in, int c) {
    tri_inspection *out = in->out;
    const tri_inspect_column *column = &out->column[c];
    if (column->kind == TRI_INSPECT_EMPTY && out->split[out->base].rows)
        TRI_TRY(tri__inspect_warn(in, "empty", c, "\"%s\" has no value in any row", column->name));
    if (column->kind == TRI_INSPECT_CONSTANT)
        TRI_TRY(tri__inspect_warn(in, "constant", c, "\"%s\" is the same in every row: it says nothing", column->name));
    if (column->distinct == 1 && column->marked)
        TRI_TRY(tri__inspect_warn(in, "one_value", c, "\"%s\" has one value beside texts that count as missing "
                                  "(--missing): if they are values, leave them out of --missing, or name labels in "
                                  "label_list", column->name));
    int64_t bad = column->kind == TRI_INSPECT_NUMERIC ? column->filled - column->numbers : 0;
    if (tri__inspect_has_form(column)) bad = column->form.wrong;
    if (bad) TRI_TRY(warn_bad_numbers(in, c, bad));
    for (int s = 0; s < TRI_SPLITS; s++)
        if (column->missing[s] < 0)
            TRI_TRY(tri__inspect_warn(in, "missing_column", c, "\"%s\" is not in %s", column->name,
                                      out->split[s].path));
    if (column->lengths.n_long) {
        char many[32];
        TRI_TRY(tri__inspect_warn(in, "long_texts", c,
                                  "%s texts of \"%s\" (%.1f %%) have %smore than %d tokens and will be cut",
                                  tri__text_count(column->lengths.n_long, many), column->name,
                                  100.0 * (double)column->lengths.n_long / (double)column->lengths.rows,
                                  column->lengths.estimated ? "probably " : "", TRI_INSPECT_LONG));
    }
    return TRI_OK;
}

/* Columns of the other tables that base does not have. */
static tri_status warn_further(tri_inspector *in) {
    tri_inspection *out = in->out;
    for (int s = 0; s < TRI_SPLITS; s++)
        for (int c = 0; s != out->base && in->table[s] && c < tri__table_columns(in->table[s]); c++) {
            const char *name = tri__table_name(in->table[s], c);
            int known = 0;
            for (int i = 0; i < out->n_columns; i++) known |= strcmp(name, out->column[i].name) == 0;
            if (!known)
                TRI_TRY(tri__inspect_warn(in, "missing_column", -1, "\"%s\" of %s is not in %s", name,
                                          out->split[s].path, out->split[out->base].path));
        }
    return TRI_OK;
}

/* A guess among several columns that could be the label as well, by their names too: those are named. */
static tri_status warn_candidates(tri_inspector *in) {
    enum { SHOWN = 8 };
    const tri_inspection *out = in->out;
    char names[SHOWN * 48 + 32] = "";
    int others = 0;
    for (int c = 0; c < out->n_columns; c++) {
        if (c == out->label || !out->column[c].candidate ||
            out->column[c].candidate < out->column[out->label].candidate)
            continue;
        if (others++ < SHOWN) tri__text_append(names, sizeof names, ", ", "\"%.40s\"", out->column[c].name);
    }
    if (out->label_given || !others) return TRI_OK;
    return tri__inspect_warn(in, "several_labels", out->label,
                             "the label is a guess: \"%s\"; %s%s could be it as well: name it with --label-name",
                             out->column[out->label].name, names, others > SHOWN ? ", ..." : "");
}

/* A label in lower case; the caller frees it. NULL: out of memory. */
static char *lower_case(const char *label) {
    size_t length = strlen(label), at = 0, used = 0;
    char *made = malloc(8 * length + 1); /* a code point becomes at most two, of four bytes each */
    while (made && at < length) {
        int32_t code = tri__utf8_next(label, length, &at), to[2];
        int n = code < 0 ? 0 : tri__char_lower(code, to);
        for (int i = 0; i < n; i++) used += (size_t)tri__utf8_put(to[i], made + used);
    }
    if (made) made[used] = 0;
    return made;
}

/* Two labels that are the same but for capitals are two classes to training. */
static tri_status warn_case(tri_inspector *in) {
    const tri_inspection *out = in->out;
    TRI_OWNED(tri__tally_free) tri_tally seen = {0};
    for (int i = 0; i < out->n_classes; i++) {
        TRI_OWNED(tri__free_at) char *lower = lower_case(out->classes[i].label);
        if (!lower) return tri__inspect_no_memory(in);
        uint64_t hash = tri__inspect_hash((tri_field_text){.text = lower, .length = strlen(lower)});
        int64_t before = tri__tally_find(&seen, hash);
        if (before < 0 && tri__tally_add(&seen, hash, i) < 0) return tri__inspect_no_memory(in);
        if (before >= 0)
            TRI_TRY(tri__inspect_warn(in, "label_case", out->label, "the labels \"%.40s\" and \"%.40s\" differ only in "
                                      "upper and lower case, and are two classes: write them alike if they mean the "
                                      "same", out->classes[seen.entry[before].first].label, out->classes[i].label));
    }
    return TRI_OK;
}

static tri_status warn_labels(tri_inspector *in) {
    enum { UNEVEN = 4 };
    tri_inspection *out = in->out;
    char many[32];
    if (out->label < 0)
        return tri__inspect_warn(in, "no_label", -1, "no column looks like a label: name it with --label-name");
    const tri_inspect_column *label = &out->column[out->label];
    if (out->several[0])
        return tri__inspect_warn(in, "label_cells", out->label, "many cells of \"%s\" hold several of %d "
                                 "labels, with \"%s\" between them: learn them with --task multilabel", label->name,
                                 out->n_several, out->several);
    if (out->n_several) return TRI_OK;
    TRI_TRY(warn_candidates(in));
    TRI_TRY(warn_case(in));
    for (int s = 0; s < TRI_SPLITS; s++)
        if (label->missing[s] > 0)
            TRI_TRY(tri__inspect_warn(in, "missing_labels", out->label, "%s rows of %s have no \"%s\": train and eval "
                                      "stop at the first; fill them in, or leave them out with --bad-rows skip",
                                      tri__text_count(label->missing[s], many), tri__split_name(s), label->name));
    for (int i = out->n_base_classes; i < out->n_classes; i++)
        for (int s = 0; s < TRI_SPLITS; s++)
            if (out->classes[i].rows[s])
                TRI_TRY(tri__inspect_warn(in, "unknown_label", out->label, "%s rows of %s have the label \"%.40s\", "
                                          "which %s does not have", tri__text_count(out->classes[i].rows[s], many),
                                          tri__split_name(s), out->classes[i].label, tri__split_name(out->base)));
    int64_t least = INT64_MAX, most = 0;
    const char *rare = "";
    for (int i = 0; i < out->n_base_classes; i++) {
        int64_t rows = out->classes[i].rows[out->base];
        if (rows < least) least = rows, rare = out->classes[i].label;
        most = rows > most ? rows : most;
    }
    if (out->n_base_classes > 1 && most >= UNEVEN * least)
        TRI_TRY(tri__inspect_warn(in, "imbalance", out->label, "the classes are uneven: \"%.40s\" has %.1f %% of the "
                                  "rows, the largest %.1f %%; look at F1 and PR AUC rather than accuracy (--best-by "
                                  "pr_auc), or set class_weights to balanced", rare, 100.0 * (double)least /
                                  (double)label->filled, 100.0 * (double)most / (double)label->filled));
    return TRI_OK;
}

/* Training needs rows to validate on. */
static tri_status warn_parts(tri_inspector *in) {
    enum { TRAIN, VALID, TEST };
    if (!in->table[TRAIN] || in->table[VALID]) return TRI_OK;
    if (in->table[TEST])
        return tri__inspect_warn(in, "no_validation", -1, "there is no validation table: train takes rows of %s for it "
                                 "with --split 0.9,0.1", in->out->split[TRAIN].path);
    return tri__inspect_warn(in, "no_validation", -1,
                             "there is one table: train takes rows of it for validation and test with --split "
                             "0.8,0.1,0.1 --stratify; rows that belong together, as of one customer, need --group-by");
}

tri_status tri__inspect_warnings(tri_inspector *in) {
    tri_inspection *out = in->out;
    for (int s = 0; s < TRI_SPLITS; s++)
        if (out->split[s].bad)
            TRI_TRY(tri__inspect_warn(in, "bad_rows", -1, "%lld rows of %s cannot be read and were left out",
                                      (long long)out->split[s].bad, out->split[s].path));
    for (int s = 0; s < TRI_SPLITS; s++) {
        char rows[32];
        if (out->split[s].cut)
            TRI_TRY(tri__inspect_warn(in, "first_rows", -1, "only the first %s rows of %s are described: what is kept "
                                      "of more would take too much memory; --memory-limit allows more",
                                      tri__text_count(out->split[s].rows, rows), out->split[s].path));
    }
    TRI_TRY(warn_labels(in));
    TRI_TRY(warn_parts(in));
    TRI_TRY(warn_deciding(in));
    if (out->primary < 0)
        TRI_TRY(tri__inspect_warn(in, "no_text", -1,
                                  "no column looks like a text; a model needs one: name it with --primary-text-name"));
    TRI_TRY(warn_duplicates(in));
    TRI_TRY(warn_texts(in));
    for (int c = 0; c < out->n_columns; c++) TRI_TRY(warn_column(in, c));
    return warn_further(in);
}
