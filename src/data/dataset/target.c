/* target.c - what is learned of a row: the class of its label, a number, or several labels; and numbers back. */
#include "data/dataset/target.h"

#include "data/dataset/field_values.h"

/* Whether a label that has a column of its own is there. 0: the field does not say. */
static int read_flag(const tri_preprocess *preprocess, tri_field_text field, float *out) {
    char form[TRI_CANONICAL_BYTES];
    *out = NAN;
    if (tri__field_missing(&preprocess->reading, field)) return 1;
    field = tri__field_canonical(&preprocess->reading, field, form);
    int there = (field.length == 1 && *field.text == '1') || (field.length == 4 && !memcmp(field.text, "true", 4)),
        none = (field.length == 1 && *field.text == '0') || (field.length == 5 && !memcmp(field.text, "false", 5));
    *out = (float)there;
    return there || none;
}

/* out [n_classes]; *bad, *label: the column that is at fault, and of a cell the label that is not known. */
static int read_several(const tri_fields *fields, int64_t row, float *out, int *bad, tri_field_text *label) {
    const tri_preprocess *p = fields->preprocess;
    float flag;
    *bad = fields->label;
    for (int c = 0; c < p->n_classes && fields->several; c++) {
        *bad = fields->several[c];
        if (!read_flag(p, tri__table_field(fields->table, row, *bad), &flag)) return 0;
        if (out) out[c] = flag;
    }
    if (fields->several) return 1;
    tri_field_text cell = tri__table_field(fields->table, row, fields->label);
    if (out) memset(out, 0, (size_t)p->n_classes * sizeof *out);
    if (tri__field_missing(&p->reading, cell)) return 1;
    while (tri__label_next(p->separator, &cell, label)) {
        int class = tri__labels_class(p, *label);
        if (class < 0) return 0;
        if (out) out[class] = 1;
    }
    return 1;
}

int tri__label_read(const tri_fields *fields, int64_t row, int32_t *out) {
    const tri_preprocess *p = fields->preprocess;
    const tri_column_stats *stats = p->target;
    float target;
    double value;
    int bad;
    tri_field_text label;
    if (p->separator) return read_several(fields, row, (float *)out, &bad, &label);
    tri_field_text field = tri__table_field(fields->table, row, fields->label);
    if (!stats) {
        int32_t class = tri__labels_class(p, field);
        if (out) *out = class;
        return class >= 0;
    }
    if (out) *out = 0;
    if (tri__form_number(&stats->read_as, &p->reading, field, &value) != TRI_NUMBER_GOOD) return 0;
    if (stats->transform == TRI_TRANSFORM_LOG && value <= -1) return 0;
    if (tri__column_numbers(stats, &p->reading, field, &target) != TRI_NUMBER_GOOD) return 0;
    if (out) memcpy(out, &target, sizeof target);
    return 1;
}

static const char *number_fault(const tri_preprocess *p, tri_field_text field) {
    const tri_column_stats *stats = p->target;
    double value = 0;
    tri_number number = tri__form_number(&stats->read_as, &p->reading, field, &value);
    if (number == TRI_NUMBER_MISSING)
        return "is missing; every row needs a number to learn (--bad-rows skip leaves such rows out)";
    if (number == TRI_NUMBER_GOOD && stats->transform == TRI_TRANSFORM_LOG && value <= -1)
        return "is not above -1, as target_transform log needs it to be";
    return tri__number_words(&stats->read_as, number == TRI_NUMBER_GOOD ? TRI_NUMBER_TOO_LARGE : number, &p->reading);
}

tri_bad_field tri__label_fault(const tri_fields *fields, int64_t row, char *text, size_t size) {
    const tri_preprocess *p = fields->preprocess;
    char words[900], quoted[64];
    tri_field_text field = tri__table_field(fields->table, row, fields->label), label;
    tri_bad_field bad = {.column = fields->label, .what = text};
    if (!p->separator) bad.what = p->target ? number_fault(p, field) : tri__label_words(p, field, text, size);
    else if (!read_several(fields, row, NULL, &bad.column, &label) && fields->several)
        bad.what = "does not say whether the row has this label: 1 or 0, true or false, or empty where it is not known";
    else snprintf(text, size, "has the label %s, which %s", tri__field_quoted(label, quoted),
                  tri__label_words(p, label, words, sizeof words));
    return bad;
}

/* The value whose rank among the quantiles is u; linear between them. */
static double at_rank(const tri_column_stats *stats, double u) {
    int last = stats->n_quantiles - 1, below = (int)(u * last);
    if (below >= last) return stats->quantile[last];
    return stats->quantile[below] + (u * last - below) * (stats->quantile[below + 1] - stats->quantile[below]);
}

double tri__target_value(const void *of, double transformed) {
    const tri_column_stats *stats = of;
    switch (stats->transform) {
    case TRI_TRANSFORM_STANDARD: return stats->mean + stats->deviation * transformed;
    case TRI_TRANSFORM_LOG: return expm1(stats->mean + stats->deviation * transformed);
    case TRI_TRANSFORM_QUANTILE_NORMAL: return at_rank(stats, erfc(-transformed / sqrt(2)) / 2);
    default: return transformed;
    }
}
