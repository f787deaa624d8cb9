/* groups.c - values are counted by hash; the frequent ones become groups. */
#include "serve/infer/groups.h"

#include "base/sort.h"
#include "data/dataset/quantile.h"
#include "data/inspect/inspect_parts.h"

enum { MOST = 100, MOST_VALUES = 20, QUARTERS = 4 };

/* What a column has. */
typedef struct values {
    const tri_table *table;
    const int64_t *row; /* [n] */
    int64_t n;
    int column;
    const tri_reading *reading;
    tri_tally tally;    /* out->of has each row's entry, -1: empty */
    double *number;     /* [n] of values that are there */
    double edge[QUARTERS + 1];
    int is_cut;         /* entries are quarters */
    tri_grouped *out;
} values;

/* Counts the values. *numeric: all are numbers. */
static tri_status count(values *v, int *numeric) {
    *numeric = 1;
    for (int64_t i = 0; i < v->n; i++) {
        char form[TRI_CANONICAL_BYTES];
        tri_field_text field = tri__table_field(v->table, v->row[i], v->column);
        int64_t entry = -1;
        if (!tri__field_missing(v->reading, field)) {
            *numeric &= tri__field_number(v->reading, field, &v->number[i]) == TRI_NUMBER_GOOD;
            field = tri__field_canonical(v->reading, field, form);
            entry = tri__tally_add(&v->tally, tri__inspect_hash(field), v->row[i]);
            if (entry < 0) return tri__fail(TRI_RESOURCE, "out of memory for the values of \"%s\"", v->out->column);
        }
        v->out->of[i] = (int32_t)entry;
        tri__rows_passed(v->table, v->row[i]);
    }
    return tri__table_check(v->table);
}

/* Makes entries of quarters: from the least number, or above a quartile, up to the next. */
static tri_status cut(values *v) {
    TRI_OWNED(tri__free_at) double *sorted = NULL;
    int64_t m = 0;
    TRI_TRY(TRI_NEW(sorted, v->n, "quartiles"));
    for (int64_t i = 0; i < v->n; i++)
        if (v->out->of[i] >= 0) sorted[m++] = v->number[i];
    tri__sort_doubles(sorted, m);
    tri__quantiles_at(sorted, m, QUARTERS + 1, v->edge);
    v->tally.n = QUARTERS, v->is_cut = 1;
    for (int q = 0; q < QUARTERS; q++) v->tally.entry[q].count = 0;
    for (int64_t i = 0; i < v->n; i++) {
        int32_t *of = &v->out->of[i], q = 0;
        if (*of < 0) continue;
        while (q < QUARTERS - 1 && v->number[i] > v->edge[q + 1]) q++;
        v->tally.entry[*of = q].count++;
    }
    return TRI_OK;
}

static int by_rows(const void *a, const void *b) {
    const struct tri_tally_entry *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count) - (x->count > y->count)
                                : (x->first > y->first) - (x->first < y->first);
}

static char *name_of(const values *v, const struct tri_tally_entry *entry, int number) {
    char form[TRI_CANONICAL_BYTES], *name = NULL;
    const double *edge = &v->edge[v->is_cut ? number : 0];
    if (v->is_cut) return asprintf(&name, "%s%.8g to %.8g", number ? "above " : "", edge[0], edge[1]) < 0 ? NULL : name;
    tri_field_text field = tri__table_field(v->table, entry->first, v->column);
    field = tri__field_canonical(v->reading, field, form);
    name = strndup(field.text, field.length);
    tri__table_done(v->table, entry->first, 1);
    return name;
}

static tri_status add_group(tri_grouped *out, char *name) {
    if (!name) return tri__fail(TRI_RESOURCE, "out of memory for the groups of \"%s\"", out->column);
    out->group[out->n++].name = name;
    return TRI_OK;
}

static tri_status make_groups(values *v) {
    static const char *const rest_name[] = {"(empty)", "(rare)"};
    int32_t rest[] = {-1, -1};
    tri_grouped *out = v->out;
    TRI_OWNED(tri__free_at) int32_t *group = NULL; /* of each entry; -1: rare */
    TRI_TRY(TRI_NEW(group, v->tally.n + 1, "groups"));
    TRI_TRY(TRI_NEW(out->group, MOST + 2, "groups"));
    for (int64_t e = 0; e < v->tally.n; e++) v->tally.entry[e].hash = (uint64_t)e; /* which outlasts the order */
    if (!v->is_cut && v->tally.n) qsort(v->tally.entry, (size_t)v->tally.n, sizeof *v->tally.entry, by_rows);
    for (int64_t e = 0; e < v->tally.n; e++) {
        const struct tri_tally_entry *entry = &v->tally.entry[e];
        int is_kept = entry->count >= TRI_GROUP_LEAST && out->n < MOST;
        group[entry->hash] = is_kept ? out->n : -1;
        if (is_kept) TRI_TRY(add_group(out, name_of(v, entry, (int)e)));
    }
    for (int64_t i = 0; i < v->n; i++) {
        int is_there = out->of[i] >= 0;
        int32_t to = is_there ? group[out->of[i]] : -1;
        if (to < 0 && rest[is_there] < 0) {
            rest[is_there] = out->n;
            TRI_TRY(add_group(out, strdup(rest_name[is_there])));
        }
        out->of[i] = to < 0 ? rest[is_there] : to;
        out->group[out->of[i]].rows++;
    }
    return tri__table_check(v->table);
}

tri_status tri__grouped_read(const tri_table *table, const int64_t *row, int64_t n, int column,
                            const tri_reading *reading, tri_grouped *out) {
    TRI_OWNED(tri__free_at) double *number = NULL;
    values v = {.table = table, .row = row, .n = n, .column = column, .reading = reading, .out = out};
    int is_numeric;
    *out = (tri_grouped){.column = strdup(tri__table_name(table, column))};
    if (!out->column) return tri__fail(TRI_RESOURCE, "out of memory for a column's name");
    TRI_TRY(TRI_NEW(number, n + 1, "the values of a column"));
    TRI_TRY(TRI_NEW(out->of, n + 1, "the groups of rows"));
    v.number = number;
    tri_status status = count(&v, &is_numeric);
    if (status == TRI_OK && is_numeric && v.tally.n > MOST_VALUES) status = cut(&v);
    if (status == TRI_OK) status = make_groups(&v);
    tri__tally_free(&v.tally);
    return status;
}

tri_status tri__evaluation_bootstrap(const tri_scored_rows *rows, const tri_label_set *classes, int64_t resamples,
                                     int threads, tri_evaluation *out) {
    tri_group_scores whole = {.rows = rows->n};
    if (classes->numbers) {
        TRI_TRY(tri__rows_score(rows, classes, resamples, threads, &whole));
        out->inside = rows->inside ? whole.figure[TRI_NUMBER_INTERVALS] : NAN;
        out->intervals = whole.intervals;
    } else {
        TRI_TRY(tri__bootstrap(rows->probs, rows->labels, rows->n, classes, resamples, threads, &out->intervals));
        for (int f = 0; f < TRI_FIGURES; f++) whole.figure[f] = tri__figure_of(&out->scores, (tri_figure)f);
        whole.intervals = out->intervals;
    }
    for (int i = 0; i < out->n_by; i++)
        TRI_TRY(tri__grouped_score(&out->by[i], rows, classes, &whole, resamples, threads));
    return TRI_OK;
}
