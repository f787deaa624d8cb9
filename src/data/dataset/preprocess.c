/* preprocess.c - fits the preprocessing of columns into numbers and labels. Statistics are computed in double, in row
 * order; the standard deviation is that of the population. A row that is bad in any column is ignored in all. Faults in
 * the data are reported with file, line and column. */
#include "data/dataset/preprocess.h"

#include "base/hash.h"
#include "base/sort.h"
#include "data/dataset/field_values.h"
#include "data/dataset/quantile.h"
#include "data/dataset/tally.h"

/* A fit in progress. */
typedef struct fit {
    const tri_table *table;
    const tri_preprocess_spec *spec;
    int threads;
    tri_preprocess *made;
    uint8_t *bad;     /* [rows] */
    uint8_t *part;    /* [rows] tri_rows_for; NULL: all rows are for training */
    int *place;       /* [spec->columns.n], column indices in the table */
    struct source {
        int categorical;
        tri_value_form form;
        unsigned parts; /* of a date */
    } *source;        /* [spec->columns.n] what each column is */
    char known_mark;  /* of decimals, by numbers that can be read in one way only; 0: none */
} fit;

static tri_status no_memory(const char *what) { return tri__fail(TRI_RESOURCE, "%s: out of memory", what); }

/* The median of n > 0 sorted values; for even n, the mean of the middle two. */
static double median(const double *sorted, int64_t n) {
    return n % 2 ? sorted[n / 2] : sorted[n / 2 - 1] / 2 + sorted[n / 2] / 2;
}

/* Moments and quantiles of a filled column. values [n + missing]: n sorted numbers; their sum is `total`. */
static tri_status fit_values(const fit *f, tri_column_stats *stats, double *values, int64_t n, double total) {
    double rows = (double)(n + stats->missing), squares = 0;
    const double fills[] = {median(values, n), total / (double)n, 0}; /* by tri_missing */
    stats->fill = fills[f->spec->missing];
    stats->mean = (total + stats->fill * (double)stats->missing) / rows;
    for (int64_t i = 0; i < n; i++) squares += (values[i] - stats->mean) * (values[i] - stats->mean);
    squares += (stats->fill - stats->mean) * (stats->fill - stats->mean) * (double)stats->missing;
    int constant = values[0] == values[n - 1] && (!stats->missing || stats->fill == values[0]);
    if (constant) stats->mean = values[0];
    stats->deviation = constant || squares == 0 ? 1 : sqrt(squares / rows);
    int as_is = stats->transform == TRI_TRANSFORM_NONE;
    if (!isfinite(as_is ? (double)(float)stats->fill : stats->deviation + fabs(stats->mean)))
        return tri__fail(TRI_DATA, "%s: the numbers of column \"%s\" are too large to %s", tri__table_path(f->table),
                         stats->name, as_is ? "be used as they are" : "standardise");
    if (stats->transform != TRI_TRANSFORM_QUANTILE_NORMAL) return TRI_OK;
    for (int64_t i = 0; i < stats->missing; i++) values[n + i] = stats->fill;
    tri__sort_doubles(values, n + stats->missing);
    if (!(stats->quantile = malloc(TRI_QUANTILES_MAX * sizeof *stats->quantile)))
        return no_memory(tri__table_path(f->table));
    stats->n_quantiles = tri__quantiles_fit(values, n + stats->missing, stats->quantile);
    return TRI_OK;
}

/* Some rows of a column as numbers. */
enum { PART = 256 };
typedef struct numbers {
    tri_number number[PART];
    double value[PART];
} numbers;

/* Reads rows from `first` on, up to `end`. Returns how many. */
static int64_t read_part(const fit *f, int column, const tri_value_form *form, int64_t first, int64_t end,
                         numbers *out) {
    int64_t n = end - first < PART ? end - first : PART;
    tri__form_numbers(f->table, first, n, column, form, &f->made->reading, out->number, out->value);
    return n;
}

/* Bins of n > 0 sorted numbers: of what the transform, which does not change their order, makes of them. */
static tri_status fit_bins(const fit *f, tri_column_stats *stats, double *values, int64_t n) {
    for (int64_t i = 0; i < n; i++) values[i] = tri__column_transform(stats, values[i]);
    return tri__edges_fit(values, n, f->spec->bins, stats);
}

static tri_status fit_numeric(const fit *f, tri_column_stats *stats, int column) {
    int64_t rows = tri__table_rows(f->table), n = 0;
    int binned = f->spec->vectors == TRI_VECTORS_PIECEWISE;
    double total = 0;
    TRI_OWNED(tri__free_at) double *values = malloc((size_t)(binned ? 2 * rows : rows) * sizeof *values);
    if (!values) return no_memory(tri__table_path(f->table));
    numbers part;
    for (int64_t first = 0, some; first < rows; first += some) {
        some = read_part(f, column, &stats->read_as, first, rows, &part);
        for (int64_t i = 0; i < some; i++) {
            if (!f->bad[first + i] && part.number[i] == TRI_NUMBER_MISSING) stats->missing++;
            else if (!f->bad[first + i])
                total += values[n++] = f->spec->transform == TRI_TRANSFORM_LOG ? log1p(part.value[i]) : part.value[i];
        }
        tri__rows_passed(f->table, first + some - 1);
    }
    stats->width = 1, stats->transform = f->spec->transform, stats->vectors = f->spec->vectors;
    if (n == 0)
        return tri__fail(TRI_DATA, "%s: column \"%s\" has no number in any row; leave it out of tab_field_list",
                         tri__table_path(f->table), stats->name);
    tri__sort_doubles(values, n);
    if (binned) memcpy(values + rows, values, (size_t)n * sizeof *values); /* missing ones are no part of bins */
    TRI_TRY(fit_values(f, stats, values, n, total));
    return binned ? fit_bins(f, stats, values + rows, n) : TRI_OK;
}

static int most_categories(const fit *f) { return f->spec->vectors ? TRI_CATEGORY_ROWS_MAX : TRI_CATEGORIES_MAX; }

static tri_status too_many(const fit *f, const tri_column_stats *stats, int column) {
    char what[480], more[240];
    snprintf(more, sizeof more, "%s; min_category_rows joins rare values, hashed_field_list takes names and codes",
             f->spec->vectors ? "" : ", or set tabular to embedded (up to 65536)");
    snprintf(what, sizeof what, "is not a number, and the column has more than %d different values, too many for "
             "categories: leave it out of tab_field_list, or leave missing numbers empty%s", most_categories(f), more);
    for (int64_t row = 0; row < tri__table_rows(f->table); row++) {
        double value;
        tri_number number;
        tri__form_numbers(f->table, row, 1, column, &(tri_value_form){0}, &f->made->reading, &number, &value);
        if (!f->bad[row] && number == TRI_NUMBER_NONE) return tri__field_fail(f->table, row, column, what);
    }
    return tri__fail(TRI_DATA, "%s: column \"%s\" has more than %d different values, too many for categories: leave it "
                     "out of cat_field_list%s", tri__table_path(f->table), stats->name, most_categories(f), more);
}

/* The frequent first; of equals, the one that comes first. */
static int by_count(const void *a, const void *b) {
    const struct tri_tally_entry *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    return (x->first > y->first) - (x->first < y->first);
}

/* The frequent ones of the values that were counted, and how many are not. */
static tri_status take_frequent(const fit *f, tri_column_stats *stats, int column, tri_tally *counts, tri_values *to) {
    if (counts->n) qsort(counts->entry, (size_t)counts->n, sizeof *counts->entry, by_count);
    for (int64_t i = 0; i < counts->n && counts->entry[i].count >= f->spec->min_rows && i < most_categories(f); i++) {
        char form[TRI_CANONICAL_BYTES];
        tri_field_text value = tri__table_field(f->table, counts->entry[i].first, column);
        if (tri__values_add(to, tri__field_canonical(&f->made->reading, value, form)) < 0)
            return no_memory(tri__table_path(f->table));
    }
    stats->joined = counts->n - to->n;
    return to->n || !counts->n ? TRI_OK
                               : tri__fail(TRI_DATA, "%s: column \"%s\" has no value in %lld rows (min_category_rows): "
                                           "leave it out of tab_field_list, or list it in hashed_field_list",
                                           tri__table_path(f->table), stats->name, (long long)f->spec->min_rows);
}

static tri_status no_value(const fit *f, const tri_column_stats *stats) {
    return tri__fail(TRI_DATA, "%s: column \"%s\" has no value in any row; leave it out of tab_field_list",
                     tri__table_path(f->table), stats->name);
}

static tri_status fit_categories(const fit *f, tri_column_stats *stats, int column) {
    TRI_OWNED(tri__values_free) tri_values found = {0};
    TRI_OWNED(tri__tally_free) tri_tally counts = {0};
    for (int64_t row = 0; row < tri__table_rows(f->table); row++) {
        char form[TRI_CANONICAL_BYTES];
        tri_field_text value = tri__field_trim(tri__table_field(f->table, row, column));
        int missing = tri__field_missing(&f->made->reading, value), added = 1;
        stats->missing += missing && !f->bad[row];
        if (missing || f->bad[row]) value.length = 0;
        if (value.length > TRI_CATEGORY_BYTES)
            return tri__field_fail(f->table, row, column,
                                   "is too long for a category: leave the column out of tab_field_list");
        if (value.length) value = tri__field_canonical(&f->made->reading, value, form);
        if (value.length && f->spec->min_rows > 1)
            added = tri__tally_add(&counts, tri__hash64(0, value.text, value.length), row) >= 0;
        else if (value.length) added = tri__values_add(&found, value) >= 0;
        if (!added) return no_memory(tri__table_path(f->table));
        if (found.n > most_categories(f)) return too_many(f, stats, column);
        tri__rows_passed(f->table, row);
    }
    if (f->spec->min_rows > 1) TRI_TRY(take_frequent(f, stats, column, &counts, &found));
    if (found.n == 0) return no_value(f, stats);
    stats->category = found.at, stats->n_categories = found.n;
    found = (tri_values){0};
    stats->vectors = f->spec->vectors, stats->transform = TRI_TRANSFORM_NONE;
    stats->width = stats->vectors ? 1 : stats->n_categories + 1;
    return TRI_OK;
}

/* Texts that are hashed have no statistics. */
static tri_status fit_hashed(const fit *f, tri_column_stats *stats, int column) {
    int64_t rows = tri__table_rows(f->table), good = 0;
    for (int64_t row = 0; row < rows; row++) {
        good += !f->bad[row];
        stats->missing += !f->bad[row] &&
                          tri__field_missing(&f->made->reading, tri__table_field(f->table, row, column));
        tri__rows_passed(f->table, row);
    }
    stats->width = stats->read_as.buckets, stats->transform = TRI_TRANSFORM_NONE, stats->vectors = f->spec->vectors;
    return stats->missing < good ? TRI_OK : no_value(f, stats);
}

/* Counts of a column's values, of its numbers (too large and infinite ones too), and of values that are not usable. */
typedef struct tally {
    int64_t filled, numbers, wrong;
} tally;

static int is_held_out(const fit *f, int64_t row) { return f->part && f->part[row] != TRI_ROWS_TRAIN; }

static tally count_numbers(const fit *f, int column, const tri_value_form *form) {
    enum { STRIDE = 4096 };
    const tri_table *table = f->table;
    int64_t rows = tri__table_rows(table), filled = 0, good = 0, wrong = 0;
    for (int64_t first = 0; first < rows; first += STRIDE) {
        int64_t end = first + STRIDE < rows ? first + STRIDE : rows;
#pragma omp parallel for num_threads(f->threads) reduction(+ : filled, good, wrong)
        for (int64_t at = first; at < end; at += PART) {
            numbers part;
            int64_t n = read_part(f, column, form, at, end, &part);
            for (int64_t i = 0; i < n; i++) {
                tri_number number = part.number[i];
                if (is_held_out(f, at + i)) continue;
                filled += number != TRI_NUMBER_MISSING;
                good += number != TRI_NUMBER_MISSING && number != TRI_NUMBER_NONE;
                wrong += number != TRI_NUMBER_MISSING && number != TRI_NUMBER_GOOD;
            }
        }
        tri__table_done(table, first, end - first);
    }
    return (tally){filled, good, wrong};
}

/* Marks the rows without a valid number. */
static tri_status mark_wrong(const fit *f, int column, const tri_value_form *form) {
    for (int64_t row = 0; row < tri__table_rows(f->table); row++) {
        double value;
        tri_number number;
        tri__form_numbers(f->table, row, 1, column, form, &f->made->reading, &number, &value);
        int wrong = number != TRI_NUMBER_MISSING && number != TRI_NUMBER_GOOD && !is_held_out(f, row);
        if (wrong && f->spec->bad_rows == TRI_BAD_ROWS_FAIL)
            return tri__field_fail(f->table, row, column, tri__number_words(form, number, &f->made->reading));
        if (wrong) f->bad[row] = 1;
        tri__rows_passed(f->table, row);
    }
    return TRI_OK;
}

/* Determines whether a column is categorical, and if not, how its values are written. */
static tri_status find_kind(const fit *f, const char *name, int column, struct source *out) {
    out->categorical = tri__texts_has(&f->spec->categorical, name);
    if (tri__texts_has(&f->spec->hashed, name))
        out->form = (tri_value_form){.kind = TRI_FORM_HASHED, .buckets = f->spec->buckets};
    if (out->categorical || out->form.kind) return TRI_OK;
    if (tri__texts_has(&f->spec->boolean, name)) {
        out->form.kind = TRI_FORM_BOOLEAN;
        return mark_wrong(f, column, &out->form);
    }
    tally count = count_numbers(f, column, &out->form);
    if (!count.wrong) return TRI_OK;
    tri_form_found found;
    tri_form_spec spec = {.reading = &f->made->reading, .decimal = f->spec->reading.decimal, .hint = f->known_mark,
                          .order = f->spec->date_order, .part = f->part};
    TRI_TRY(tri__form_find(f->table, column, &spec, &found));
    if (found.why[0]) return tri__fail(TRI_DATA, "%s: column \"%s\" %s", tri__table_path(f->table), name, found.why);
    out->form = found.form, out->parts = found.parts;
    if (found.form.kind == TRI_FORM_PLAIN) out->categorical = 10 * count.numbers < 9 * count.filled;
    return out->categorical ? TRI_OK : mark_wrong(f, column, &out->form);
}

static tri_status copy_text(const char *from, char **to) {
    *to = strdup(from);
    return *to ? TRI_OK : no_memory(from);
}

static tri_status copy_texts(const tri_texts *from, tri_texts *to) {
    TRI_TRY(TRI_NEW(to->at, from->n + 1, "preprocessing"));
    for (; to->n < from->n; to->n++) TRI_TRY(copy_text(from->at[to->n], &to->at[to->n]));
    return TRI_OK;
}

/* Copies the names and checks that the table has them. */
static tri_status fit_names(fit *f, int *label) {
    const tri_preprocess_spec *spec = f->spec;
    TRI_TRY(copy_text(spec->label_name, &f->made->label_name));
    for (int t = 0; t < tri__preprocess_texts(spec->text); t++) {
        TRI_TRY(copy_texts(&spec->text[t], &f->made->text[t]));
        for (int i = 0, column; i < spec->text[t].n; i++)
            TRI_TRY(tri__table_find(f->table, spec->text[t].at[i], &column));
    }
    if (!spec->separator || *spec->separator) TRI_TRY(tri__table_find(f->table, spec->label_name, label));
    for (int c = 0; c < spec->columns.n; c++) TRI_TRY(tri__table_find(f->table, spec->columns.at[c], &f->place[c]));
    return TRI_OK;
}

/* Sets how fields are read: as requested, or with the decimal mark detected in numeric columns. */
static tri_status fit_reading(fit *f) {
    tri_reading *reading = &f->made->reading;
    tri_decimal found;
    TRI_TRY(copy_texts(&f->spec->reading.missing, &reading->missing));
    reading->decimal = f->spec->reading.decimal;
    if (reading->decimal) return TRI_OK;
    TRI_TRY(tri__decimal_find(f->table, f->place, f->spec->columns.n, &reading->missing, &found));
    reading->decimal = found.mark, f->known_mark = found.known;
    if (!found.unclear) return TRI_OK;
    int comma = found.comma >= 0;
    if (found.point < 0 || !comma)
        return tri__fail(TRI_DATA,
                         "%s: the numbers of column \"%s\" have a %s before three digits%s, so it may mark a fraction "
                         "or thousands: use --decimal-mark %s if it is a fraction, --decimal-mark %s if it is not",
                         tri__table_path(f->table), tri__table_name(f->table, comma ? found.comma : found.point),
                         comma ? "comma" : "point", comma ? "" : " or none", comma ? "comma" : "point",
                         comma ? "point" : "comma");
    return tri__fail(TRI_DATA,
                     "%s: column \"%s\" has decimal commas, column \"%s\" decimal points: write all numbers one way, "
                     "or choose one with --decimal-mark and leave the other column out of tab_field_list",
                     tri__table_path(f->table), tri__table_name(f->table, found.comma),
                     tri__table_name(f->table, found.point));
}

/* Classes come from all rows, since every part has all of them; the columns are fitted on the rows for training. */
static tri_status hold_out(fit *f) {
    int64_t rows = tri__table_rows(f->table);
    if (!f->spec->parts) return TRI_OK;
    if (!(f->part = malloc((size_t)rows + 1))) return no_memory(tri__table_path(f->table));
    TRI_TRY(tri__division_find(f->table, f->spec->parts, f->made, f->part));
    for (int64_t row = 0; row < rows; row++) f->bad[row] |= is_held_out(f, row);
    return TRI_OK;
}

/* A column of the table, or one part of its dates, as a column of the model. */
static tri_status fit_column(fit *f, int c, int part) {
    const struct source *from = &f->source[c];
    tri_column_stats *stats = &f->made->column[f->made->n_columns++];
    TRI_TRY(copy_text(f->spec->columns.at[c], &stats->name));
    stats->read_as = from->form, stats->read_as.part = (tri_date_part)part;
    TRI_TRY(from->categorical                     ? fit_categories(f, stats, f->place[c])
            : from->form.kind == TRI_FORM_HASHED ? fit_hashed(f, stats, f->place[c])
                                                 : fit_numeric(f, stats, f->place[c]));
    return tri__preprocess_widen(f->made, stats);
}

/* Rows whose label is not what it should be are bad. */
static tri_status mark_labels(fit *f) {
    TRI_OWNED(tri__fields_free) tri_fields fields = {0};
    TRI_TRY(tri__fields_find(f->table, f->made, 1, &fields));
    for (int64_t row = 0; row < tri__table_rows(f->table); row++) {
        char text[1100];
        if (!tri__label_read(&fields, row, NULL)) {
            tri_bad_field bad = tri__label_fault(&fields, row, text, sizeof text);
            if (f->spec->bad_rows == TRI_BAD_ROWS_FAIL) return tri__field_fail(f->table, row, bad.column, bad.what);
            f->bad[row] = 1;
        }
        tri__rows_passed(f->table, row);
    }
    return TRI_OK;
}

/* Several labels. */
static tri_status fit_several(fit *f, int column) {
    tri_column_stats *stats = f->made->target;
    TRI_TRY(copy_text(f->spec->label_name, &stats->name));
    TRI_TRY(copy_text(f->spec->separator, &f->made->separator));
    stats->transform = TRI_TRANSFORM_NONE, stats->deviation = 1, stats->width = f->spec->n_classes;
    TRI_TRY(tri__labels_several(f->table, column, f->spec, f->made));
    TRI_TRY(mark_labels(f));
    TRI_TRY(hold_out(f));
    TRI_OWNED(tri__fields_free) tri_fields fields = {0};
    TRI_TRY(tri__fields_find(f->table, f->made, 1, &fields));
    for (int c = 0; fields.several && c < f->made->n_classes; c++)
        for (int64_t row = 0; row < tri__table_rows(f->table); row++)
            stats->missing += !f->bad[row] && tri__field_missing(&f->made->reading,
                                                                 tri__table_field(f->table, row, fields.several[c]));
    return TRI_OK;
}

/* The label's column as a number to learn: every row needs one, and what is not one is bad. */
static tri_status fit_target(fit *f, int column) {
    tri_preprocess_spec own = *f->spec;
    struct source from = {0};
    tri_column_stats *stats = f->made->target;
    TRI_TRY(copy_text(f->spec->label_name, &stats->name));
    stats->transform = f->spec->target == TRI_TRANSFORM_LOG ? TRI_TRANSFORM_LOG : TRI_TRANSFORM_NONE;
    stats->deviation = 1; /* until it is fitted */
    TRI_TRY(find_kind(f, f->spec->label_name, column, &from));
    if (from.categorical || from.form.kind == TRI_FORM_DATE)
        return tri__fail(TRI_DATA, "%s: column \"%s\" has %s, and task %s learns numbers: name another label, or learn "
                         "its classes with task classification", tri__table_path(f->table), f->spec->label_name,
                         from.categorical ? "values that are not numbers" : "dates",
                         f->spec->level ? "quantiles" : "regression");
    stats->read_as = from.form;
    TRI_TRY(mark_labels(f));
    TRI_TRY(hold_out(f));
    own.transform = f->spec->target, own.vectors = TRI_VECTORS_NONE, own.columns = (tri_texts){0};
    fit with = *f;
    with.spec = &own;
    TRI_TRY(fit_numeric(&with, stats, column));
    for (int i = 0; i < f->spec->n_classes; i++) {
        const char *name = f->spec->level ? TRI_TEXT(32, "q%g", f->spec->level[i]) : f->spec->label_name;
        TRI_TRY(copy_text(name, &f->made->label[i]));
    }
    return tri__labels_forms(f->made);
}

static tri_status run(fit *f) {
    int64_t rows = tri__table_rows(f->table), good = 0;
    int label, columns = f->spec->columns.n;
    TRI_TRY(fit_names(f, &label));
    if (rows == 0) return tri__fail(TRI_DATA, "%s: there are no rows below the header", tri__table_path(f->table));
    TRI_TRY(fit_reading(f));
    int positive; /* fail now, not after tokenising */
    if (f->spec->separator) TRI_TRY(fit_several(f, label));
    else if (f->spec->is_number) TRI_TRY(fit_target(f, label));
    else TRI_TRY(tri__labels_fit(f->table, label, f->spec, f->bad, f->made));
    if (f->spec->positive_label) TRI_TRY(tri__preprocess_positive(f->made, f->spec->positive_label, &positive));
    if (!f->spec->is_number) TRI_TRY(hold_out(f));
    for (int c = 0; c < columns; c++) TRI_TRY(find_kind(f, f->spec->columns.at[c], f->place[c], &f->source[c]));
    for (int64_t row = 0; row < rows; row++) good += !f->bad[row];
    if (!good)
        return tri__fail(TRI_DATA, "%s: no row has a label and numbers that can be read", tri__table_path(f->table));
    for (int c = 0; c < columns; c++)
        for (int part = 0; part < TRI_DATE_PARTS; part++)
            if (f->source[c].form.kind == TRI_FORM_DATE ? f->source[c].parts >> part & 1 : !part)
                TRI_TRY(fit_column(f, c, part));
    f->made->embedding = f->spec->vectors;
    TRI_TRY(tri__vectors_make(f->made));
    return tri__table_check(f->table);
}

static void end_fit(fit *f) {
    TRI_FREE(f->part, f->bad, f->place, f->source);
    tri__preprocess_free(f->made);
}

tri_status tri__preprocess_fit(const tri_table *table, const tri_preprocess_spec *spec, int threads,
                               tri_preprocess **out) {
    TRI_ASSERT(spec->n_classes >= 1 && spec->text[0].n >= 1 && threads >= 1);
    *out = NULL;
    size_t columns = (size_t)spec->columns.n;
    TRI_OWNED(end_fit) fit f = {.table = table, .spec = spec, .threads = threads};
    TRI_TRY(TRI_NEW(f.made, 1, "preprocessing"));
    TRI_TRY(TRI_NEW(f.bad, tri__table_rows(table) + 1, "preprocessing"));
    TRI_TRY(TRI_NEW(f.place, columns + 1, "preprocessing"));
    TRI_TRY(TRI_NEW(f.source, columns + 1, "preprocessing"));
    TRI_TRY(TRI_NEW(f.made->column, columns * TRI_DATE_PARTS + 1, "preprocessing"));
    TRI_TRY(TRI_NEW(f.made->label, spec->n_classes, "preprocessing"));
    if (spec->is_number) TRI_TRY(TRI_NEW(f.made->target, 1, "preprocessing"));
    f.made->n_classes = spec->n_classes;
    TRI_TRY(run(&f));
    *out = TRI_GIVE(f.made);
    return TRI_OK;
}

void tri__preprocess_read_as(tri_preprocess *preprocess, char decimal, tri_date_order order) {
    if (decimal) preprocess->reading.decimal = decimal;
    if (decimal && preprocess->target) preprocess->target->read_as.mark = decimal;
    for (int c = 0; c < preprocess->n_columns; c++) {
        if (decimal) preprocess->column[c].read_as.mark = decimal;
        if (order) preprocess->column[c].read_as.order = order;
    }
}

int tri__preprocess_learns(const tri_preprocess *p, const char *column) {
    if (p->separator && !*p->separator) return tri__texts_has(&(tri_texts){p->label, p->n_classes}, column);
    return strcmp(p->label_name, column) == 0;
}

static void free_texts(char **at, int n) {
    for (int i = 0; at && i < n; i++) free(at[i]);
    free(at);
}

static void free_column(tri_column_stats *stats) {
    free_texts(stats->category, stats->n_categories);
    free_texts(stats->form, stats->n_categories);
    TRI_FREE(stats->of_form, stats->quantile, stats->edge, stats->name);
}

void tri__preprocess_free(tri_preprocess *preprocess) {
    if (!preprocess) return;
    for (int c = 0; preprocess->column && c < preprocess->n_columns; c++) free_column(&preprocess->column[c]);
    if (preprocess->target) free_column(preprocess->target);
    free(preprocess->target);
    free_texts(preprocess->label, preprocess->n_classes);
    for (int t = 0; t < TRI_TEXTS_MAX; t++) free_texts(preprocess->text[t].at, preprocess->text[t].n);
    free_texts(preprocess->reading.missing.at, preprocess->reading.missing.n);
    TRI_FREE((void *)preprocess->vectors.at, preprocess->column, preprocess->label_form);
    TRI_FREE(preprocess->label_name, preprocess->separator, preprocess);
}

int tri__preprocess_next(const tri_preprocess *preprocess, int c) {
    int next = c + 1;
    if (preprocess->column[c].read_as.kind != TRI_FORM_DATE) return next;
    while (next < preprocess->n_columns && !strcmp(preprocess->column[next].name, preprocess->column[c].name)) next++;
    return next;
}

/* One column of the table: "age: numeric, 3 missing". */
static void describe_column(const tri_preprocess *preprocess, int c, tri_buffer *out) {
    const tri_column_stats *stats = &preprocess->column[c];
    int n_bins = stats->n_edges - 1, date = stats->read_as.kind == TRI_FORM_DATE;
    char form[TRI_FORM_WORDS];
    tri__buffer_put(out, "%.80s: ", stats->name);
    if (stats->category)
        tri__buffer_put(out, "%d categor%s", stats->n_categories, stats->n_categories == 1 ? "y" : "ies");
    else if (stats->read_as.kind == TRI_FORM_PLAIN) tri__buffer_put(out, "numeric");
    else tri__buffer_put(out, "%s", tri__form_words(&stats->read_as, form));
    for (int i = c; date && i < tri__preprocess_next(preprocess, c); i++)
        tri__buffer_put(out, "%s %s", i > c ? "," : " as", tri__date_part_names[preprocess->column[i].read_as.part]);
    if (stats->joined)
        tri__buffer_put(out, ", %lld rare value%s joined", (long long)stats->joined, stats->joined == 1 ? "" : "s");
    if (stats->n_edges && !date) tri__buffer_put(out, ", %d bin%s", n_bins, n_bins > 1 ? "s" : "");
    if (stats->missing) tri__buffer_put(out, ", %lld missing", (long long)stats->missing);
}

char *tri__preprocess_describe(const tri_preprocess *preprocess) {
    enum { SHOWN = 12 };
    tri_buffer out = {0};
    size_t size;
    int c = 0, sources = 0, all = 0, categorical = 0, missing = 0;
    for (int i = 0; i < preprocess->n_columns; i = tri__preprocess_next(preprocess, i)) sources++;
    if (!sources) tri__buffer_put(&out, "no columns");
    for (int shown = 0; shown < (sources > SHOWN + 1 ? SHOWN : sources); shown++) {
        if (shown) tri__buffer_put(&out, "; ");
        describe_column(preprocess, c, &out);
        c = tri__preprocess_next(preprocess, c);
    }
    for (; c < preprocess->n_columns; c = tri__preprocess_next(preprocess, c), all++) {
        categorical += preprocess->column[c].category != NULL;
        missing += preprocess->column[c].missing > 0;
    }
    if (all)
        tri__buffer_put(&out, "; and %d more: %d numeric, %d of categories, %d with missing values", all,
                        all - categorical, categorical, missing);
    return tri__buffer_take(&out, &size);
}
