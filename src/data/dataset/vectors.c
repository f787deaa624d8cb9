/* vectors.c - columns that become vectors: bins of numbers (piecewise linear encoding; Gorishniy et al., "On Embeddings
 * for Numerical Features in Tabular Deep Learning", 2022), and what a model has to know of each column.
 *
 *   edges   of the transformed numbers of the training rows: their different values, if these are at most bins + 1,
 *           else their quantiles 0, 1/bins, ..., 1, as numpy.quantile computes them; rounded to floats; equal ones are
 *           one. A constant column has the bin from its value x to x + max(1, |x|)
 *   place   k + the share of bin k below x. Before the first edge and behind the last one the outer bins go on, by the
 *           width of one at most: a value far beyond those of training counts as one a bin's width beyond */
#include "data/dataset/preprocess.h"

#include "data/dataset/quantile.h"

tri_status tri__edges_fit(const double *sorted, int64_t n, int bins, tri_column_stats *stats) {
    stats->edge = malloc(((size_t)bins + 2) * sizeof *stats->edge);
    if (!stats->edge) return tri__fail(TRI_RESOURCE, "column \"%s\": out of memory", stats->name);
    int64_t different = 0;
    for (int64_t i = 0; i < n && different <= bins + 1; i++) {
        if (i && sorted[i] == sorted[i - 1]) continue;
        if (different <= bins) stats->edge[different] = sorted[i];
        different++;
    }
    int room = different <= bins ? (int)different : bins + 1;
    if (different > bins + 1) tri__quantiles_at(sorted, n, room, stats->edge);
    double *edge = stats->edge;
    for (int i = 0; i < room; i++) {
        double x = (double)(float)fmin(fmax(edge[i], -FLT_MAX), FLT_MAX); /* beyond: its row is refused */
        if (stats->n_edges == 0 || x > edge[stats->n_edges - 1]) edge[stats->n_edges++] = x;
    }
    if (stats->n_edges == 1) edge[stats->n_edges++] = edge[0] + fmax(1, fabs(edge[0]));
    return TRI_OK;
}

float tri__edges_place(const tri_column_stats *stats, float x) {
    const double *edge = stats->edge;
    int low = 0, high = stats->n_edges - 2; /* the bin is in [low, high] */
    while (low < high) {
        int middle = low + (high - low + 1) / 2;
        if (edge[middle] <= x) low = middle;
        else high = middle - 1;
    }
    double place = low + (x - edge[low]) / (edge[low + 1] - edge[low]);
    return (float)fmin(fmax(place, -1), stats->n_edges);
}

tri_status tri__preprocess_widen(tri_preprocess *p, const tri_column_stats *stats) {
    enum { MOST = 1 << 24 };
    p->width += stats->width;
    if (p->width <= MOST) return TRI_OK;
    return tri__fail(TRI_DATA, "column \"%s\": with it a row has %d numbers; at most %d are possible", stats->name,
                     p->width, MOST);
}

tri_status tri__vectors_make(tri_preprocess *p) {
    p->vectors = (tri_columns){.n = p->width, .n_at = p->n_columns};
    if (!p->embedding) return TRI_OK;
    tri_column *at;
    TRI_TRY(TRI_NEW(at, p->n_columns + 1, "the columns"));
    for (int c = 0; c < p->n_columns; c++) {
        const tri_column_stats *stats = &p->column[c];
        if (stats->category) at[c] = (tri_column){.kind = TRI_COLUMN_CATEGORY, .count = stats->n_categories};
        else if (stats->read_as.kind == TRI_FORM_HASHED) at[c] = (tri_column){TRI_COLUMN_HASHED, stats->width, 0};
        else if (p->embedding == TRI_VECTORS_PERIODIC) at[c].kind = TRI_COLUMN_PERIODIC;
        else at[c] = (tri_column){.kind = TRI_COLUMN_PIECEWISE, .count = stats->n_edges - 1};
        at[c].has_missing = at[c].kind < TRI_COLUMN_CATEGORY && stats->missing > 0;
    }
    p->vectors.at = at;
    return TRI_OK;
}
