/* field_values.c - fields as categories, and a row of numbers and categories as the model's numbers. */
#include "data/dataset/field_values.h"

#include "data/dataset/quantile.h"

const char *tri__field_words(const tri_table *table, int64_t row, int column, const char *what, char *out,
                             size_t size) {
    char quoted[64];
    snprintf(out, size, "%s in column \"%s\" %s", tri__field_quoted(tri__table_field(table, row, column), quoted),
             tri__table_name(table, column), what);
    return out;
}

tri_status tri__field_fail(const tri_table *table, int64_t row, int column, const char *what) {
    char text[1800], place[TRI_PLACE_BYTES];
    TRI_TRY(tri__table_check(table)); /* a field that could not be read is empty, which may be what is wrong */
    return tri__fail(TRI_DATA, "%s: %s", tri__table_place(table, row, column, place),
                     tri__field_words(table, row, column, what, text, sizeof text));
}

static int compare(const char *known, tri_field_text field) {
    size_t length = strlen(known), least = length < field.length ? length : field.length;
    int order = least ? memcmp(known, field.text, least) : 0;
    return order ? order : (length > field.length) - (length < field.length);
}

/* The index of a text in a sorted list, or where it would be inserted. */
static int find(char *const *list, int n, tri_field_text text, int *there) {
    int low = 0, high = n;
    *there = 0;
    while (low < high && !*there) {
        int middle = low + (high - low) / 2, order = compare(list[middle], text);
        if (order == 0) low = middle, *there = 1;
        else if (order < 0) low = middle + 1;
        else high = middle;
    }
    return low;
}

int tri__values_add(tri_values *values, tri_field_text text) {
    int there, at = find(values->at, values->n, text, &there);
    if (there) return 0;
    TRI_OWNED(tri__free_at) char *copy = strndup(text.text, text.length);
    if (!copy || !tri__grow(&values->at, &values->room, (size_t)values->n + 1, sizeof *values->at)) return -1;
    memmove(values->at + at + 1, values->at + at, (size_t)(values->n++ - at) * sizeof *values->at);
    values->at[at] = TRI_GIVE(copy);
    return 1;
}

void tri__values_free(tri_values *values) {
    for (int i = 0; i < values->n; i++) free(values->at[i]);
    free(values->at);
    *values = (tri_values){0};
}

double tri__column_transform(const tri_column_stats *stats, double value) {
    if (stats->transform == TRI_TRANSFORM_STANDARD) return (value - stats->mean) / stats->deviation;
    if (stats->transform == TRI_TRANSFORM_LOG) return (log1p(value) - stats->mean) / stats->deviation;
    if (stats->transform == TRI_TRANSFORM_QUANTILE_NORMAL)
        return tri__quantile_normal(value, stats->quantile, stats->n_quantiles);
    return value;
}

int tri__column_category(const tri_column_stats *stats, const tri_reading *reading, tri_field_text field) {
    char out[TRI_CANONICAL_BYTES];
    char **list = stats->form ? stats->form : stats->category;
    int n = stats->n_categories, there;
    tri_field_text form = tri__field_canonical(reading, field, out);
    int at = find(list, n, form, &there), end = at;
    if (!there || !stats->form) return there ? at : n;
    while (at && compare(list[at - 1], form) == 0) at--;
    while (end < n && compare(list[end], form) == 0) end++;
    if (end - at == 1) return stats->of_form[at];
    for (; at < end; at++) /* the table had several spellings: only the same one is it */
        if (compare(stats->category[stats->of_form[at]], tri__field_trim(field)) == 0) return stats->of_form[at];
    return n;
}

/* The number of a field that may be missing. */
static tri_number take_number(const tri_column_stats *stats, tri_number number, double value, float *numbers) {
    if (number == TRI_NUMBER_MISSING && stats->vectors && stats->missing)
        return *numbers = TRI_COLUMN_MISSING, TRI_NUMBER_GOOD;
    if (number == TRI_NUMBER_MISSING) value = stats->fill, number = TRI_NUMBER_GOOD;
    if (number != TRI_NUMBER_GOOD) return number;
    *numbers = (float)tri__column_transform(stats, value);
    if (!isfinite(*numbers)) return TRI_NUMBER_TOO_LARGE;
    if (stats->n_edges) *numbers = tri__edges_place(stats, *numbers);
    return TRI_NUMBER_GOOD;
}

tri_number tri__column_numbers(const tri_column_stats *stats, const tri_reading *reading, tri_field_text field,
                               float *numbers) {
    if (stats->category) {
        int category = tri__column_category(stats, reading, field);
        for (int k = 0; k < stats->width; k++) numbers[k] = (float)(stats->vectors ? category : k == category);
        return TRI_NUMBER_GOOD;
    }
    if (tri__column_is_text(stats)) {
        char form[TRI_CANONICAL_BYTES];
        if (tri__field_missing(reading, field)) field.length = 0;
        tri__grams_count(tri__field_canonical(reading, field, form), stats->width, numbers);
        return TRI_NUMBER_GOOD;
    }
    double value = 0;
    tri_number number = tri__form_number(&stats->read_as, reading, field, &value);
    return take_number(stats, number, value, numbers);
}

/* A table's field as the column's numbers. */
static tri_number row_numbers(const tri_fields *fields, int c, int64_t row, float *numbers) {
    const tri_column_stats *stats = &fields->preprocess->column[c];
    const tri_reading *reading = &fields->preprocess->reading;
    int column = fields->column[c];
    double value = 0;
    if (tri__column_is_text(stats))
        return tri__column_numbers(stats, reading, tri__table_field(fields->table, row, column), numbers);
    tri_number number;
    tri__form_numbers(fields->table, row, 1, column, &stats->read_as, reading, &number, &value);
    return take_number(stats, number, value, numbers);
}

/* 0: the table lacks a column. */
static int find_labels(const tri_table *table, const tri_preprocess *preprocess, tri_fields *out) {
    if (!out->several) return tri__table_find(table, preprocess->label_name, &out->label) == TRI_OK;
    for (int c = 0; c < preprocess->n_classes; c++)
        if (tri__table_find(table, preprocess->label[c], &out->several[c]) != TRI_OK) return 0;
    out->label = out->several[0];
    return 1;
}

tri_status tri__fields_find(const tri_table *table, const tri_preprocess *preprocess, int need_labels,
                            tri_fields *out) {
    TRI_OWNED(tri__fields_free) tri_fields made = {.table = table, .preprocess = preprocess, .label = -1};
    *out = (tri_fields){.label = -1};
    size_t texts = 0, columns = (size_t)preprocess->n_columns;
    for (int t = 0; t < TRI_TEXTS_MAX; t++) texts += (size_t)preprocess->text[t].n;
    int several = preprocess->separator && !*preprocess->separator;
    size_t labels = several ? (size_t)preprocess->n_classes : 0;
    int *next = made.column = malloc((columns + texts + labels + 1) * sizeof *made.column);
    if (!next) return tri__fail(TRI_RESOURCE, "%s: out of memory", tri__table_path(table));
    if (several) made.several = next + columns + texts;
    next += columns;
    for (int t = 0; t < TRI_TEXTS_MAX; next += preprocess->text[t++].n) {
        made.text[t] = next;
        for (int i = 0; i < preprocess->text[t].n; i++)
            TRI_TRY(tri__table_find(table, preprocess->text[t].at[i], &next[i]));
    }
    if (!find_labels(table, preprocess, &made)) made.label = -1;
    if (need_labels && made.label < 0) return TRI_DATA;
    for (int c = 0; c < preprocess->n_columns; c++)
        TRI_TRY(tri__table_find(table, preprocess->column[c].name, &made.column[c]));
    *out = made, made.column = NULL;
    return TRI_OK;
}

void tri__fields_free(tri_fields *fields) {
    free(fields->column);
    *fields = (tri_fields){.label = -1};
}

int tri__fields_numbers(const tri_fields *fields, int64_t row, float *numbers, tri_bad_field *bad) {
    for (int c = 0; c < fields->preprocess->n_columns; c++) {
        const tri_column_stats *stats = &fields->preprocess->column[c];
        tri_number number = row_numbers(fields, c, row, numbers);
        if (number != TRI_NUMBER_GOOD) {
            *bad = (tri_bad_field){fields->column[c],
                                   tri__number_words(&stats->read_as, number, &fields->preprocess->reading)};
            return 0;
        }
        numbers += stats->width;
    }
    return 1;
}

int tri__joined_add(tri_joined *joined, tri_field_text field) {
    if (!field.length) return 1;
    size_t need = joined->used + 1 + field.length;
    if (!tri__grow(&joined->at, &joined->room, need, 1)) return 0;
    if (joined->used) joined->at[joined->used++] = ' ';
    memcpy(joined->at + joined->used, field.text, field.length);
    joined->used += field.length;
    return 1;
}

tri_field_text tri__fields_join(const tri_table *table, int64_t row, const int *columns, int n, tri_joined *joined) {
    if (n == 1) return tri__table_field(table, row, columns[0]);
    joined->used = 0;
    for (int i = 0; i < n; i++)
        if (!tri__joined_add(joined, tri__table_field(table, row, columns[i]))) return (tri_field_text){NULL, 1, 0};
    return (tri_field_text){joined->used ? joined->at : "", joined->used, 0};
}

tri_field_text tri__fields_text(const tri_fields *fields, int64_t row, int text, tri_joined *joined) {
    return tri__fields_join(fields->table, row, fields->text[text], fields->preprocess->text[text].n, joined);
}
