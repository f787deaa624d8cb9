/* division.c - divides rows into parts. Rows and groups are shuffled by sorting hashes of (seed, row), (seed, group).
 * Largest remainders and the order in which classes are dealt are those of scikit-learn's splitters, so that counts
 * agree; which rows a part gets differs. Groups: greedy, as in StratifiedGroupKFold, by the change of Pearson's
 * chi-squared. */
#include "data/dataset/division.h"

const char *tri__rows_for(tri_rows_for part) {
    static const char *const names[] = {"training", "validation", "test"};
    return names[part];
}

int tri__division_count(const tri_division *spec) {
    return spec->folds ? spec->folds : spec->share[TRI_ROWS_TEST] > 0 ? 3 : 2;
}

static double share_of(const tri_division *of, int part) { return of->folds ? 1.0 / of->folds : of->share[part]; }

tri_json *tri__division_json(const tri_division *spec) {
    return tri__json_pack("{s:[f, f, f], s:i, s:i, s:b, s:s*, s:I}", "shares", spec->share[0], spec->share[1],
                          spec->share[2], "folds", spec->folds, "fold", spec->fold, "stratify", spec->stratify,
                          "group_by", spec->group_by, "seed", (tri_json_int)spec->seed);
}

/* A row, in the order in which rows are dealt. */
typedef struct item {
    uint64_t group, key;
    int64_t row;
    int32_t class;
} item;

typedef struct division {
    const tri_division *spec;
    int parts, n_classes;
    item *item;      /* [n] rows that have a class */
    int64_t n;
    int64_t *total;  /* [n_classes] rows of each */
    uint16_t *at;
} division;

static int by_key(const void *a, const void *b) {
    const item *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static int by_class(const void *a, const void *b) {
    const item *x = a, *y = b;
    return x->class != y->class ? x->class - y->class : by_key(a, b);
}

static int by_group(const void *a, const void *b) {
    const item *x = a, *y = b;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static tri_status no_memory(void) { return tri__fail(TRI_RESOURCE, "out of memory while a table is split"); }

/* Whole numbers near the quotas [n], whose sum is `sum`: rounded down, and one more where the remainder is largest (of
 * equal ones the first). */
static void apportion(const double *quota, int n, int64_t sum, int64_t *out) {
    int64_t given = 0;
    for (int i = 0; i < n; i++) given += out[i] = (int64_t)quota[i];
    for (; given < sum; given++) {
        int most = 0;
        for (int i = 1; i < n; i++)
            if (quota[i] - (double)out[i] > quota[most] - (double)out[most] + 1e-9) most = i;
        out[most]++;
    }
}

/* sizes [parts] */
static void find_sizes(const division *d, int64_t *sizes) {
    double quota[TRI_ROWS_PARTS] = {0};
    for (int p = 0; p < d->parts; p++) quota[p] = d->spec->share[p] * (double)d->n;
    apportion(quota, d->parts, d->n, sizes);
}

/* A class that has a row for each part gets one in each, from the part in which it has the most. */
static void spread(const division *d, int64_t (*count)[TRI_ROWS_PARTS]) {
    for (int c = 0; c < d->n_classes; c++)
        for (int p = 0; p < d->parts && d->total[c] >= d->parts; p++) {
            int most = 0;
            for (int q = 1; q < d->parts; q++)
                if (count[c][q] > count[c][most]) most = q;
            if (!count[c][p]) count[c][p]++, count[c][most]--;
        }
}

/* count [n_classes]: rows of each class in each part. */
static tri_status count_strata(const division *d, const int64_t *sizes, int64_t (*count)[TRI_ROWS_PARTS]) {
    size_t classes = (size_t)d->n_classes;
    int64_t rows = d->n;
    TRI_OWNED(tri__free_at) double *quota = calloc(classes, sizeof *quota);
    TRI_OWNED(tri__free_at) int64_t *left = malloc(classes * sizeof *left), *drawn = calloc(classes, sizeof *drawn);
    if (!quota || !left || !drawn) return no_memory();
    memcpy(left, d->total, classes * sizeof *left);
    for (int p = d->parts - 1; p > 0; p--) {
        for (size_t c = 0; c < classes; c++) quota[c] = (double)left[c] / (double)rows * (double)sizes[p];
        apportion(quota, d->n_classes, sizes[p], drawn);
        for (size_t c = 0; c < classes; c++) count[c][p] = drawn[c], left[c] -= drawn[c];
        rows -= sizes[p];
    }
    for (size_t c = 0; c < classes; c++) count[c][0] = left[c];
    spread(d, count);
    return TRI_OK;
}

/* Deals `n` items from `first` on: as many to each part as it gets. */
static void deal(const division *d, int64_t first, const int64_t *sizes) {
    int64_t i = first;
    for (int p = 0; p < d->parts; p++)
        for (int64_t k = 0; k < sizes[p]; k++) d->at[d->item[i++].row] = (uint16_t)p;
}

static tri_status divide_rows(const division *d) {
    int64_t sizes[TRI_ROWS_PARTS];
    TRI_OWNED(tri__free_at) int64_t (*count)[TRI_ROWS_PARTS] = NULL;
    qsort(d->item, (size_t)d->n, sizeof *d->item, d->spec->stratify ? by_class : by_key);
    for (int64_t i = 0; d->spec->folds && i < d->n; i++) d->at[d->item[i].row] = (uint16_t)(i % d->parts);
    if (d->spec->folds) return TRI_OK;
    find_sizes(d, sizes);
    if (!d->spec->stratify) return deal(d, 0, sizes), TRI_OK;
    if (!(count = calloc((size_t)d->n_classes, sizeof *count))) return no_memory();
    TRI_TRY(count_strata(d, sizes, count));
    for (int64_t c = 0, first = 0; c < d->n_classes; first += d->total[c++]) deal(d, first, count[c]);
    return TRI_OK;
}

/* ---- groups ---- */

typedef struct group {
    int64_t first, n; /* items */
    uint64_t key;
    int big;          /* dealt before the others, by size */
} group;

static int by_turn(const void *a, const void *b) {
    const group *x = a, *y = b;
    if (x->big != y->big) return y->big - x->big;
    if (x->big && x->n != y->n) return x->n > y->n ? -1 : 1;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

/* The groups of the items, which are sorted by group; in the order in which they are dealt. */
static int64_t find_groups(const division *d, group *groups) {
    double least = (double)d->n;
    int64_t n = 0;
    for (int p = 0; p < d->parts; p++) least = fmin(least, share_of(d->spec, p) * (double)d->n);
    for (int64_t i = 0; i < d->n; i++)
        if (i && d->item[i].group == d->item[i - 1].group) groups[n - 1].n++;
        else groups[n++] = (group){i, 1, tri__hash64(d->spec->seed, &d->item[i].group, sizeof d->item[i].group), 0};
    for (int64_t g = 0; g < n; g++) groups[g].big = 4 * (double)groups[g].n > least;
    qsort(groups, (size_t)n, sizeof *groups, by_turn);
    return n;
}

/* What is counted apart: the class, or nothing. */
static int kind_of(const division *d, const item *i) { return d->spec->stratify ? i->class : 0; }

/* The part where the group raises chi-squared least. have [parts, kinds]: rows so far; own [kinds]: of the group, all 0
 * before and after; total [kinds] of the table. */
static int choose_part(const division *d, const group *g, int kinds, const double *have, double *own,
                       const double *total) {
    int best = 0;
    double least = INFINITY;
    for (int64_t i = g->first; i < g->first + g->n; i++) own[kind_of(d, &d->item[i])]++;
    for (int p = 0; p < d->parts; p++) {
        double change = 0;
        for (int k = 0; k < kinds; k++) {
            double wanted = share_of(d->spec, p) * total[k];
            if (own[k] > 0) change += own[k] * (2 * (have[p * kinds + k] - wanted) + own[k]) / wanted;
        }
        if (change < least) least = change, best = p;
    }
    for (int64_t i = g->first; i < g->first + g->n; i++) own[kind_of(d, &d->item[i])] = 0;
    return best;
}

static tri_status divide_groups(const division *d) {
    int kinds = d->spec->stratify ? d->n_classes : 1;
    TRI_OWNED(tri__free_at) group *groups = malloc(((size_t)d->n + 1) * sizeof *groups);
    TRI_OWNED(tri__free_at) double *have = calloc((size_t)(d->parts + 2) * (size_t)kinds, sizeof *have);
    if (!groups || !have) return no_memory();
    double *own = have + d->parts * kinds, *total = own + kinds;
    qsort(d->item, (size_t)d->n, sizeof *d->item, by_group);
    for (int64_t i = 0; i < d->n; i++) total[kind_of(d, &d->item[i])]++;
    int64_t n = find_groups(d, groups);
    for (int64_t g = 0; g < n; g++) {
        int part = choose_part(d, &groups[g], kinds, have, own, total);
        for (int64_t i = groups[g].first; i < groups[g].first + groups[g].n; i++) {
            d->at[d->item[i].row] = (uint16_t)part;
            have[part * kinds + kind_of(d, &d->item[i])]++;
        }
    }
    return TRI_OK;
}

tri_status tri__division_make(const tri_division *spec, const tri_division_rows *rows, uint16_t *at) {
    TRI_OWNED(tri__free_at) item *items = malloc(((size_t)rows->n + 1) * sizeof *items);
    TRI_OWNED(tri__free_at) int64_t *total = calloc((size_t)rows->n_classes + 1, sizeof *total);
    if (!items || !total) return no_memory();
    division d = {.spec = spec, .parts = tri__division_count(spec), .n_classes = rows->n_classes, .item = items,
                  .total = total, .at = at};
    for (int64_t row = 0; row < rows->n; row++) {
        at[row] = TRI_FOLDS_MAX;
        if (rows->class[row] < 0) continue;
        d.item[d.n++] = (item){.group = rows->group ? rows->group[row] : 0, .row = row, .class = rows->class[row],
                               .key = tri__hash64(spec->seed, &row, sizeof row)};
        d.total[rows->class[row]]++;
    }
    if (!d.n) return TRI_OK;
    return rows->group ? divide_groups(&d) : divide_rows(&d);
}
