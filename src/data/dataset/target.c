/* target.c - a label's field as the target of a number, and back. */
#include "data/dataset/target.h"

#include "data/dataset/field_values.h"

#include <math.h>

int tri__label_read(const tri_preprocess *preprocess, tri_field_text field, int32_t *out) {
    const tri_column_stats *stats = preprocess->target;
    float target;
    double value;
    if (!stats) return (*out = tri__labels_class(preprocess, field)) >= 0;
    *out = 0;
    if (tri__form_number(&stats->read_as, &preprocess->reading, field, &value) != TRI_NUMBER_GOOD) return 0;
    if (stats->transform == TRI_TRANSFORM_LOG && value <= -1) return 0;
    if (tri__column_numbers(stats, &preprocess->reading, field, &target) != TRI_NUMBER_GOOD) return 0;
    memcpy(out, &target, sizeof target);
    return 1;
}

const char *tri__label_fault(const tri_preprocess *preprocess, tri_field_text field, char *out, size_t size) {
    const tri_column_stats *stats = preprocess->target;
    double value = 0;
    if (!stats) return tri__label_words(preprocess, field, out, size);
    tri_number number = tri__form_number(&stats->read_as, &preprocess->reading, field, &value);
    if (number == TRI_NUMBER_MISSING)
        return "is missing; every row needs a number to learn (--bad-rows skip leaves such rows out)";
    if (number == TRI_NUMBER_GOOD && stats->transform == TRI_TRANSFORM_LOG && value <= -1)
        return "is not above -1, as target_transform log needs it to be";
    return tri__number_words(&stats->read_as, number == TRI_NUMBER_GOOD ? TRI_NUMBER_TOO_LARGE : number,
                             &preprocess->reading);
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
