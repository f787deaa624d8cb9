/* bins.c - bins of quantiles; Siddiqi, Credit Risk Scorecards, 2006 has the stability index. */
#include "base/bins.h"

#include "base/sort.h"

enum { TENTHS = 10 };

tri_status tri__bins_add(const char *name, int of, tri_bin_set *set) {
    size_t room = (size_t)set->n;
    if (!tri__grow(&set->at, &room, (size_t)set->n + 1, sizeof *set->at))
        return tri__fail(TRI_RESOURCE, "out of memory for bins");
    tri_bins *b = &set->at[set->n++];
    *b = (tri_bins){.of = of, .n = of < TRI_BINS ? of : TRI_BINS};
    for (int k = 0; k < b->n - 1; k++) b->edge[k] = (float)((int64_t)(k + 1) * (of - 1) / (b->n - 1) - 1);
    b->name = strdup(name);
    return b->name ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory for bins");
}

void tri__bins_free(tri_bin_set *set) {
    for (int f = 0; f < set->n; f++) free(set->at[f].name);
    free(set->at);
    *set = (tri_bin_set){0};
}

int tri__bins_at(const tri_bins *bins, float value) {
    int k = isnan(value) ? bins->n : 0;
    while (k < bins->n - 1 && value > bins->edge[k]) k++;
    return k;
}

/* Counts sorted values. Those below the least and above the largest have bins of their own; edges that many equal
 * values share are one. */
static void count(tri_bins *b, const double *values, int64_t n) {
    if (!b->of) b->n = 1;
    if (!b->of && n) b->edge[b->n++ - 1] = nextafterf((float)values[0], -INFINITY);
    for (int k = 1; k <= TENTHS && n && !b->of; k++) {
        float at = (float)values[(n - 1) * k / TENTHS];
        if (at > b->edge[b->n - 2]) b->edge[b->n++ - 1] = at;
    }
    for (int64_t i = 0; i < n; i++) b->count[tri__bins_at(b, (float)values[i])]++;
}

static tri_json *list_of(const tri_bin_set *set) {
    tri_json *list = tri__json_array();
    for (const tri_bins *b = set->at; b < set->at + set->n; b++) {
        tri_json *edges = tri__json_array(), *counts = tri__json_array();
        for (int k = 0; k < b->n - 1; k++) tri__json_append_new(edges, tri__json_real((double)b->edge[k]));
        for (int k = 0; k <= b->n; k++) tri__json_append_new(counts, tri__json_integer(b->count[k]));
        tri__json_append_new(list, tri__json_pack("{s:s, s:o, s:o}", "name", b->name, "edges", edges, "counts",
                                                  counts));
    }
    return list;
}

tri_status tri__bins_fit(tri_bin_set *set, const float *values, int64_t rows, int64_t whole, tri_json **out) {
    TRI_OWNED(tri__free_at) double *known = NULL;
    TRI_TRY(TRI_NEW(known, rows + 1, "bins"));
    for (int f = 0; f < set->n; f++) {
        tri_bins *b = &set->at[f];
        int64_t n = 0;
        for (int64_t i = 0; i < rows; i++)
            if (!isnan(values[i * set->n + f])) known[n++] = (double)values[i * set->n + f];
        tri__sort_doubles(known, n);
        count(b, known, n);
        int64_t *from = &b->count[tri__bins_at(b, b->filled)], filled = b->missing * rows / (whole + !whole),
                moved = filled < *from ? filled : *from;
        *from -= moved, b->count[b->n] += moved + rows - n;
    }
    *out = tri__json_whole(list_of(set));
    return *out ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory for bins");
}

static int parse(const tri_json *object, tri_bins *b) {
    const tri_json *edges = tri__json_get(object, "edges"), *counts = tri__json_get(object, "counts");
    const char *name = tri__text_in(object, "name");
    size_t n = tri__json_size(counts), was = (size_t)b->n;
    if (!name || strcmp(name, b->name) || n < 2 || n > TRI_BINS + 1 || tri__json_size(edges) != n - 2) return 0;
    b->n = (int)n - 1;
    for (size_t k = 0; k < n; k++) {
        const tri_json *count = tri__json_at(counts, k), *edge = tri__json_at(edges, k);
        b->count[k] = tri__json_integer_value(count);
        if (!tri__json_is_integer(count) || b->count[k] < 0 || b->count[k] > (int64_t)1 << 53) return 0;
        if (edge) b->edge[k] = (float)tri__json_number_value(edge);
        if (edge && (!tri__json_is_number(edge) || (k && !(b->edge[k] > b->edge[k - 1])))) return 0;
    }
    return !b->of || n - 1 == was;
}

tri_status tri__bins_parse(const tri_json *list, const char *path, int first, tri_bin_set *set) {
    int good = tri__json_size(list) == (size_t)(set->n - first);
    for (int f = first; f < set->n && good; f++) good = parse(tri__json_at(list, (size_t)(f - first)), &set->at[f]);
    return good ? TRI_OK : tri__fail(TRI_DATA, "%s: reference and answers of its manifest's state must be the bins of "
                                     "what it reads and answers", path);
}

static double sum_of(const int64_t *count, int n) {
    double sum = 0;
    for (int k = 0; k < n; k++) sum += (double)count[k];
    return sum;
}

double tri__bins_psi(const int64_t *expected, const int64_t *actual, int n, double *by_chance) {
    double before = sum_of(expected, n), now = sum_of(actual, n), psi = 0, some = 0;
    for (int k = 0; k < n; k++) {
        double e = fmax((double)expected[k] / before, 1e-4), a = fmax((double)actual[k] / now, 1e-4);
        psi += (a - e) * log(a / e), some += expected[k] > 0 || actual[k] > 0;
    }
    *by_chance = (some - 1) * (1 / before + 1 / now);
    return before > 0 && now > 0 ? psi : NAN;
}
