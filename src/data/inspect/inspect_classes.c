/* inspect_classes.c - the label's values in class order, how many rows each has, and every row's class. */
#include "data/dataset/field_values.h"
#include "data/inspect/inspect_parts.h"

/* A value of base's label column. */
typedef struct value {
    tri_field_text text;
    double number;
    int64_t entry; /* of the tally */
} value;

/* Integers in numeric order, like class numbers; texts in byte order. */
static int by_number(const void *a, const void *b) {
    double x = ((const value *)a)->number, y = ((const value *)b)->number;
    return (x > y) - (x < y);
}

static int by_text(const void *a, const void *b) {
    tri_field_text x = ((const value *)a)->text, y = ((const value *)b)->text;
    int order = memcmp(x.text, y.text, x.length < y.length ? x.length : y.length);
    return order ? order : (x.length > y.length) - (x.length < y.length);
}

/* Equal labels have equal keys: "1" and "1.0" are one class, as training sees them. */
static uint64_t label_key(const tri_inspector *in, tri_field_text field) {
    char form[TRI_CANONICAL_BYTES];
    return tri__inspect_hash(tri__field_canonical(&in->reading, field, form));
}

static tri_status add_class(tri_inspector *in, tri_field_text label) {
    tri_inspection *out = in->out;
    tri_inspect_class *made = &out->classes[out->n_classes];
    char form[TRI_CANONICAL_BYTES];
    label = tri__field_canonical(&in->reading, label, form);
    made->label = strndup(label.text, label.length);
    if (!made->label) return tri__inspect_no_memory(in);
    out->n_classes++;
    return TRI_OK;
}

/* Base's classes, in order. klass [entries of the tally]: each value's class. */
static tri_status order_classes(tri_inspector *in, const tri_tally *tally, int32_t *klass) {
    tri_inspection *out = in->out;
    int64_t n = tally->n < TRI_INSPECT_CLASSES ? tally->n : TRI_INSPECT_CLASSES;
    TRI_OWNED(tri__free_at) value *values = calloc((size_t)n + 1, sizeof *values);
    if (!values) return tri__inspect_no_memory(in);
    for (int64_t i = 0; i < n; i++) {
        tri_field_text text = tri__inspect_field(in, out->base, tally->entry[i].first, out->label);
        values[i] = (value){.text = text, .entry = i};
        (void)tri__field_number(&in->reading, text, &values[i].number);
    }
    qsort(values, (size_t)n, sizeof *values, out->column[out->label].kind == TRI_INSPECT_NUMERIC ? by_number : by_text);
    for (int64_t i = 0; i < n; i++) {
        klass[values[i].entry] = (int32_t)i;
        TRI_TRY(add_class(in, values[i].text));
    }
    out->n_base_classes = out->n_classes;
    return TRI_OK;
}

/* The class of every row of a table; values that base does not have are added up to the limit. */
static tri_status read_labels(tri_inspector *in, int split, tri_tally *tally, int32_t *klass) {
    tri_inspection *out = in->out;
    int64_t rows = tri__table_rows(in->table[split]);
    in->klass[split] = malloc((size_t)rows * sizeof(int32_t) + 1);
    if (!in->klass[split]) return tri__inspect_no_memory(in);
    for (int64_t row = 0; row < rows; row++) {
        tri_field_text field = tri__inspect_field(in, split, row, out->label);
        int missing = tri__inspect_missing(in, out->label, field);
        int64_t entry = missing ? -1 : tri__tally_find(tally, label_key(in, field));
        if (entry < 0 && !missing && split != out->base && out->n_classes < 2 * TRI_INSPECT_CLASSES) {
            entry = tri__tally_add(tally, label_key(in, field), row);
            if (entry < 0) return tri__inspect_no_memory(in);
            klass[entry] = out->n_classes;
            TRI_TRY(add_class(in, field));
        }
        in->klass[split][row] = entry < 0 ? -1 : klass[entry];
        if (entry >= 0 && klass[entry] >= 0) out->classes[klass[entry]].rows[split]++;
        tri__rows_passed(in->table[split], row);
    }
    return TRI_OK;
}

/* Whether cells, of which `tally` has the different ones, hold several labels: one in ten has the separator, and its
 * parts are fewer than the different cells. */
static tri_status find_several(tri_inspector *in, const tri_tally *cells) {
    static const char *const separators[] = {";", "|", ","};
    enum { MANY = 10, LONGEST = 60 };
    tri_inspection *out = in->out;
    for (int s = 0; s < 3 && !out->n_several; s++) {
        TRI_OWNED(tri__tally_free) tri_tally parts = {0};
        int64_t filled = 0, with = 0, too_long = 0;
        for (const struct tri_tally_entry *e = cells->entry; e < cells->entry + cells->n && parts.n <= cells->n; e++) {
            tri_field_text cell = tri__inspect_field(in, out->base, e->first, out->label), part;
            int n = 0;
            for (; tri__label_next(separators[s], &cell, &part); n++) {
                too_long += part.length > LONGEST;
                if (tri__tally_add(&parts, label_key(in, part), e->first) < 0) return tri__inspect_no_memory(in);
            }
            filled += e->count, with += n > 1 ? e->count : 0;
        }
        if (too_long || MANY * with < filled || parts.n >= cells->n || parts.n < 2) continue;
        out->n_several = (int)parts.n, out->several[0] = *separators[s];
    }
    return TRI_OK;
}

tri_status tri__inspect_classes(tri_inspector *in) {
    tri_inspection *out = in->out;
    if (out->label < 0 || out->is_number) return TRI_OK;
    TRI_OWNED(tri__tally_free) tri_tally tally = {0};
    for (int64_t row = 0; row < out->split[out->base].rows; row++) {
        tri_field_text field = tri__inspect_field(in, out->base, row, out->label);
        if (!tri__inspect_missing(in, out->label, field) && tri__tally_add(&tally, label_key(in, field), row) < 0)
            return tri__inspect_no_memory(in);
        tri__rows_passed(in->table[out->base], row);
    }
    if (out->column[out->label].kind != TRI_INSPECT_NUMERIC) TRI_TRY(find_several(in, &tally));
    size_t room = (size_t)tally.n + 2 * TRI_INSPECT_CLASSES;
    TRI_OWNED(tri__free_at) int32_t *klass = malloc(room * sizeof *klass);
    out->classes = calloc(2 * TRI_INSPECT_CLASSES, sizeof *out->classes);
    if (!klass || !out->classes) return tri__inspect_no_memory(in);
    memset(klass, -1, room * sizeof *klass);
    TRI_TRY(order_classes(in, &tally, klass));
    TRI_TRY(read_labels(in, out->base, &tally, klass));
    for (int s = 0; s < TRI_SPLITS; s++)
        if (s != out->base && in->table[s] && in->at[s][out->label] >= 0) TRI_TRY(read_labels(in, s, &tally, klass));
    return TRI_OK;
}
