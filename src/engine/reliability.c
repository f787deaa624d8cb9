/* reliability.c - expected calibration error, Brier score, reliability table. */
#include "engine/reliability.h"

#include <math.h>

tri_reliability_row tri__reliability_row(const float *probs, int label, int n_classes, int positive) {
    tri_reliability_row row = {0};
    for (int c = 0; c < n_classes; c++) {
        double miss = (double)probs[c] - (c == label);
        if (positive < 0 || c == positive) row.brier += miss * miss;
        if (probs[c] > probs[row.best]) row.best = c;
    }
    row.confidence = probs[row.best];
    row.bin = (int)ceil((double)row.confidence * TRI_RELIABILITY_BINS) - 1;
    if (row.bin < 0) row.bin = 0;
    if (row.bin >= TRI_RELIABILITY_BINS) row.bin = TRI_RELIABILITY_BINS - 1; /* rounding gives a little above 1 */
    return row;
}

void tri__reliability_end(tri_reliability *r) {
    double rows = 0;
    for (int k = 0; k < TRI_RELIABILITY_BINS; k++) rows += r->bin[k].rows;
    r->brier /= rows;
    r->ece = 0;
    for (int k = 0; k < TRI_RELIABILITY_BINS; k++) {
        tri_reliability_bin *bin = &r->bin[k];
        if (bin->rows <= 0) continue;
        bin->confidence /= bin->rows;
        bin->accuracy /= bin->rows;
        r->ece += bin->rows / rows * fabs(bin->accuracy - bin->confidence);
    }
}

void tri__reliability(const float *probs, const int32_t *labels, int64_t n, int n_classes, int positive,
                      tri_reliability *out) {
    *out = (tri_reliability){0};
    for (int64_t i = 0; i < n; i++) {
        tri_reliability_row row = tri__reliability_row(probs + i * n_classes, labels[i], n_classes, positive);
        tri__reliability_add(out, row.bin, (double)row.confidence, row.best == labels[i], row.brier, 1);
    }
    tri__reliability_end(out);
}

tri_json *tri__reliability_json(const tri_reliability *r) {
    tri_json *list = tri__json_array();
    for (int k = 0; k < TRI_RELIABILITY_BINS; k++)
        if (r->bin[k].rows > 0)
            tri__json_append_new(
                list, tri__json_pack("{s:f, s:f, s:I, s:f, s:f}", "from", k / (double)TRI_RELIABILITY_BINS, "to",
                                     (k + 1) / (double)TRI_RELIABILITY_BINS, "rows", (tri_json_int)r->bin[k].rows,
                                     "confidence", r->bin[k].confidence, "accuracy", r->bin[k].accuracy));
    return list;
}
