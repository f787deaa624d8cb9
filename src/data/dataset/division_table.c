/* division_table.c - the parts of a table: labels and groups are read, rows divided, and classes counted. */

#include "data/dataset/field_values.h"

/* What is read of a table. */
typedef struct read {
    int32_t *class;  /* [rows] */
    uint64_t *group; /* [rows] */
    uint16_t *at;    /* [rows] */
    int64_t *count;  /* [parts, classes] */
} read;

/* Rows without a value are groups of their own. Equal values are one group in every format; runs from before version 4
 * of the preprocessing were divided by the texts. */
static uint64_t hash_group(const tri_preprocess *preprocess, tri_field_text field, int64_t row) {
    char form[TRI_CANONICAL_BYTES];
    field = preprocess->as_spelt ? tri__field_trim(field) : tri__field_canonical(&preprocess->reading, field, form);
    return field.length ? tri__hash64(0, field.text, field.length) : tri__hash64(1, &row, sizeof row);
}

static tri_status read_rows(const tri_table *table, const tri_division *spec, const tri_preprocess *preprocess,
                            read *r) {
    int group = -1;
    TRI_OWNED(tri__fields_free) tri_fields fields = {0};
    TRI_TRY(tri__fields_find(table, preprocess, 1, &fields));
    if (spec->group_by && tri__table_find(table, spec->group_by, &group) != TRI_OK)
        return tri__fail_in(TRI_DATA, "--group-by");
    for (int64_t row = 0; row < tri__table_rows(table); row++) {
        int32_t class = 0;
        r->class[row] = tri__label_read(&fields, row, preprocess->target ? NULL : &class) ? class : -1;
        if (group >= 0) r->group[row] = hash_group(preprocess, tri__table_field(table, row, group), row);
        tri__rows_passed(table, row);
    }
    return tri__table_check(table);
}

/* What to try where a part has no row of a class that has `rows`. */
static const char *advice(const tri_division *spec, int64_t rows, char out[static 400]) {
    int parts = tri__division_count(spec);
    if (rows < parts)
        snprintf(out, 400, "a class needs a row for each of %d %s: add rows of it, join it with another class, or "
                           "leave its rows out", parts, spec->folds ? "folds" : "parts");
    else if (spec->group_by)
        snprintf(out, 400, "rows with the same \"%.100s\" stay together (--group-by): take %sanother --split-seed or "
                           "%s", spec->group_by, spec->stratify ? "" : "--stratify, ",
                 spec->folds ? "fewer --folds" : "larger shares");
    else snprintf(out, 400, "--stratify gives every part rows of each class");
    return out;
}

/* Every class of the table must be in every part. */
static tri_status check_classes(const tri_table *table, const tri_division *spec, const tri_preprocess *preprocess,
                                read *r) {
    int parts = tri__division_count(spec), classes = preprocess->n_classes;
    int64_t n = 0;
    for (int64_t row = 0; row < tri__table_rows(table); row++)
        if (r->class[row] >= 0) r->count[r->at[row] * classes + r->class[row]]++, n++;
    for (int c = 0; c < classes; c++) {
        int64_t rows = 0;
        int without = -1;
        for (int p = parts - 1; p >= 0; p--) {
            rows += r->count[p * classes + c];
            if (!r->count[p * classes + c]) without = p;
        }
        if (!rows || without < 0) continue;
        char where[32], have[32], all[32], words[400];
        if (spec->folds) snprintf(where, sizeof where, "in fold %d", without + 1);
        else snprintf(where, sizeof where, "for %s", tri__rows_for((tri_rows_for)without));
        return tri__fail(TRI_DATA, "%s: the split leaves no row of class \"%.40s\" %s: it has %s of %s rows; %s",
                         tri__table_path(table), preprocess->label[c], where, tri__text_count(rows, have),
                         tri__text_count(n, all), advice(spec, rows, words));
    }
    return TRI_OK;
}

static uint8_t part_of(const tri_division *spec, uint16_t at) {
    if (at == TRI_FOLDS_MAX) return TRI_ROWS_NONE;
    if (!spec->folds) return (uint8_t)at;
    return at == spec->fold ? TRI_ROWS_VALID : TRI_ROWS_TRAIN;
}

/* Folds of a part: rows of the other parts are marked, and have no class from then on. */
static tri_status leave_out(const tri_division *spec, const tri_division_rows *all, read *r, uint8_t *part) {
    tri_division outer = *spec;
    memset(part, TRI_ROWS_TRAIN, (size_t)all->n);
    if (!spec->folds || !(spec->share[TRI_ROWS_TRAIN] > 0)) return TRI_OK;
    outer.folds = 0;
    TRI_TRY(tri__division_make(&outer, all, r->at));
    for (int64_t row = 0; row < all->n; row++)
        if (r->at[row] == TRI_ROWS_VALID || r->at[row] == TRI_ROWS_TEST) part[row] = TRI_ROWS_TEST, r->class[row] = -1;
    return TRI_OK;
}

static void end_read(read *r) { TRI_FREE(r->class, r->group, r->at, r->count); }

tri_status tri__division_find(const tri_table *table, const tri_division *spec, const tri_preprocess *preprocess,
                           uint8_t *part) {
    size_t rows = (size_t)tri__table_rows(table), classes = (size_t)preprocess->n_classes;
    TRI_OWNED(end_read) read r = {.class = malloc((rows + 1) * sizeof *r.class),
                                  .group = malloc((rows + 1) * sizeof *r.group),
                                  .at = malloc((rows + 1) * sizeof *r.at),
                                  .count = calloc((size_t)tri__division_count(spec) * classes + 1, sizeof *r.count)};
    if (!r.class || !r.group || !r.at || !r.count)
        return tri__fail(TRI_RESOURCE, "%s: out of memory", tri__table_path(table));
    TRI_TRY(read_rows(table, spec, preprocess, &r));
    const tri_division_rows all = {.n = (int64_t)rows, .class = r.class, .n_classes = (int)classes,
                                   .group = spec->group_by ? r.group : NULL};
    TRI_TRY(leave_out(spec, &all, &r, part));
    TRI_TRY(tri__division_make(spec, &all, r.at));
    TRI_TRY(check_classes(table, spec, preprocess, &r));
    for (size_t row = 0; row < rows; row++)
        if (part[row] != TRI_ROWS_TEST) part[row] = part_of(spec, r.at[row]);
    return TRI_OK;
}
