/* reference.c - of a column whose missing numbers are filled, training's are counted by its statistics. */
#include "data/dataset/reference.h"

#include "data/dataset/field_values.h"

enum { SAMPLE = 16384 }; /* rows, evenly spaced, that are counted */

/* What stands for a missing value; of categories it is that of rare values and those that training did not have. */
static float filled(const tri_column_stats *stats) {
    if (stats->category) return (float)stats->n_categories;
    float number = (float)tri__column_transform(stats, stats->fill);
    return stats->n_edges ? tri__edges_place(stats, number) : number;
}

float tri__reference_value(const tri_column_stats *stats, const tri_reading *reading, const float *numbers,
                           const tri_field_text *field) {
    int k = 0, n = stats->n_categories;
    float sum = 0;
    if (stats->category && stats->vectors) k = (int)*numbers;
    while (stats->category && !stats->vectors && k < n && numbers[k] == 0) k++;
    for (int i = 0; !stats->category && i < stats->width; i++) sum += fabsf(numbers[i]);
    float value = stats->category ? (float)k : stats->width > 1 ? sum : *numbers;
    if (!stats->category && (stats->width > 1 ? sum == 0 : value == TRI_COLUMN_MISSING)) return NAN;
    return field && value == filled(stats) && tri__field_missing(reading, *field) ? NAN : value;
}

tri_status tri__reference_make(const tri_preprocess *p, tri_bin_set *out) {
    for (int c = 0; c < p->n_columns; c++) { /* a date's parts are columns of one name */
        const tri_column_stats *stats = &p->column[c];
        int is_date = stats->read_as.kind == TRI_FORM_DATE;
        char name[256];
        snprintf(name, sizeof name, is_date ? "%.200s (%s)" : "%.250s", stats->name,
                 tri__date_part_names[stats->read_as.part]);
        TRI_TRY(tri__bins_add(name, stats->category ? stats->n_categories + 1 : 0, out));
        if (!stats->category && (stats->width > 1 || stats->vectors)) continue;
        out->at[c].missing = stats->missing, out->at[c].filled = filled(stats);
    }
    for (int t = 0; t < (int)(sizeof p->text / sizeof *p->text) && p->text[t].n; t++)
        TRI_TRY(tri__bins_add(p->text[t].at[0], 0, out));
    return TRI_OK;
}

tri_status tri__reference_fit(const tri_dataset *data, const tri_preprocess *p, tri_json **out) {
    TRI_OWNED(tri__free_at) float *numbers = NULL, *values = NULL; /* [width]; [rows, set.n] */
    TRI_OWNED(tri__bins_free) tri_bin_set set = {0};
    int64_t step = (data->n + SAMPLE - 1) / SAMPLE, rows = 0;
    TRI_TRY(tri__reference_make(p, &set));
    TRI_TRY(TRI_NEW(numbers, p->width + 1, "a reference"));
    TRI_TRY(TRI_NEW(values, (int64_t)set.n * SAMPLE + 1, "a reference"));
    float *to = values;
    for (int64_t row = 0; row < data->n; row += step, rows++) {
        const float *at = numbers;
        TRI_TRY(tri__dataset_numbers(data, row, numbers));
        for (int c = 0; c < p->n_columns; at += p->column[c++].width)
            *to++ = tri__reference_value(&p->column[c], &p->reading, at, NULL);
        for (int t = 0; t < data->n_texts; t++)
            *to++ = (float)(data->text[t].start[row + 1] - data->text[t].start[row]);
    }
    return tri__bins_fit(&set, values, rows, data->n, out);
}
