/* bins.h - how variables are distributed: how many of their values are in each bin. Kept with a model as JSON; other
 * rows are compared with it by the population stability index. */
#pragma once

#include "base/json.h"

enum { TRI_BINS = 20 }; /* most of them */

/* Bin k has values above edge k - 1, up to edge k. */
typedef struct tri_bins {
    char *name;                 /* of the variable; owned */
    int of;                     /* values are 0, 1, ..., of - 1; 0: any numbers */
    int64_t missing;            /* in fitting: how many values of all rows are `filled`, since they are missing */
    float filled;
    int n;                      /* bins; missing values are in one more, at n */
    float edge[TRI_BINS];       /* [n - 1] rising */
    int64_t count[TRI_BINS + 1]; /* [n + 1] */
} tri_bins;

/* The variables of a row. */
typedef struct tri_bin_set {
    tri_bins *at; /* [n] */
    int n;
} tri_bin_set;

/* Adds a variable without counts; with its bins where it has `of` values: the last one has its own. */
tri_status tri__bins_add(const char *name, int of, tri_bin_set *out);
void tri__bins_free(tri_bin_set *set); /* accepts a zeroed one */
int tri__bins_at(const tri_bins *bins, float value); /* NaN: missing */
/* Counts values [rows, n], NaN where one is missing, of rows evenly taken of `whole` ones: bins of numbers hold about
 * equally many. out: a list of {name, edges, counts}, the last count of missing values; a new reference. */
tri_status tri__bins_fit(tri_bin_set *set, const float *values, int64_t rows, int64_t whole, tri_json **out);
/* Such a list of these variables from `first` on, whatever was read; TRI_DATA naming `path`. */
tri_status tri__bins_parse(const tri_json *list, const char *path, int first, tri_bin_set *set);

/* The sum of (a - e) ln(a / e) over shares a and e of bins [n]; a share counts as at least 1e-4. NaN: no rows.
 * by_chance: its mean for rows of one distribution, (bins - 1) (1 / rows + 1 / rows), of bins that have some. */
double tri__bins_psi(const int64_t *expected, const int64_t *actual, int n, double *by_chance);
