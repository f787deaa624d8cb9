/* reliability.c - expected calibration error, Brier score, reliability table. */
#include "score/reliability.h"

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

void tri__reliability(const float *probs, const int32_t *labels, int64_t n, int n_classes, int positive,
                      tri_reliability *out) {
    *out = (tri_reliability){0};
    for (int64_t i = 0; i < n; i++) {
        tri_reliability_row row = tri__reliability_row(probs + i * n_classes, labels[i], n_classes, positive);
        tri_reliability_bin *bin = &out->bin[row.bin];
        bin->rows++, bin->confidence += (double)row.confidence, bin->accuracy += row.best == labels[i];
        out->brier += row.brier;
    }
    out->brier /= (double)n;
    for (int k = 0; k < TRI_RELIABILITY_BINS; k++) {
        tri_reliability_bin *bin = &out->bin[k];
        if (bin->rows <= 0) continue;
        bin->confidence /= bin->rows;
        bin->accuracy /= bin->rows;
        out->ece += bin->rows / (double)n * fabs(bin->accuracy - bin->confidence);
    }
}

/* ---- interval ---- */

/* What errors are drawn from. */
typedef struct drawn {
    const tri_reliability *r;
    const float *normal; /* [draws, TRI_RELIABILITY_BINS] */
    int64_t draws;
    double rows, direction[TRI_RELIABILITY_BINS]; /* of accuracy - confidence, for an error of 1 */
} drawn;

/* The shares of draws whose error is at most, and at least, r->ece, where the true one is `error`; returns the true one
 * with accuracies kept within 0 and 1. */
static double draw_errors(const drawn *d, double error, double share[static 2]) {
    double gap[TRI_RELIABILITY_BINS], spread[TRI_RELIABILITY_BINS], size = 0;
    int64_t below = 0, above = 0;
    for (int k = 0; k < TRI_RELIABILITY_BINS; k++) {
        const tri_reliability_bin *bin = &d->r->bin[k];
        double n = bin->rows, accuracy = fmin(fmax(bin->confidence + error * d->direction[k], 0), 1);
        double p = (accuracy * n + 0.5) / (n + 1); /* so that bins without errors vary, too */
        gap[k] = n / d->rows * (accuracy - bin->confidence);
        spread[k] = n > 0 ? n / d->rows * sqrt(p * (1 - p) / n) : 0;
        size += fabs(gap[k]);
    }
    for (int64_t i = 0; i < d->draws; i++) {
        double sum = 0;
        for (int k = 0; k < TRI_RELIABILITY_BINS; k++)
            sum += fabs(gap[k] + spread[k] * (double)d->normal[i * TRI_RELIABILITY_BINS + k]);
        below += sum <= d->r->ece, above += sum >= d->r->ece;
    }
    share[0] = (double)below / (double)d->draws, share[1] = (double)above / (double)d->draws;
    return size;
}

/* The smallest error that r->ece is not unusually large for (side 1), or the largest that it is not unusually small for
 * (side 0). */
static double end_of(const drawn *d, int side) {
    double share[2], low = 0, high = 1;
    (void)draw_errors(d, side ? 0 : 1, share);
    if (share[side] >= 0.025) return draw_errors(d, side ? 0 : 1, share);
    for (int step = 0; step < 30; step++) {
        double middle = 0.5 * (low + high);
        (void)draw_errors(d, middle, share);
        if ((share[side] >= 0.025) == side) high = middle;
        else low = middle;
    }
    return draw_errors(d, side ? high : low, share);
}

tri_interval tri__reliability_interval(const tri_reliability *r, const float *normal, int64_t draws) {
    drawn d = {.r = r, .normal = normal, .draws = draws};
    for (int k = 0; k < TRI_RELIABILITY_BINS; k++) {
        const tri_reliability_bin *bin = &r->bin[k];
        d.rows += bin->rows;
        d.direction[k] = r->ece > 0 ? (bin->accuracy - bin->confidence) / r->ece : -1;
    }
    return (tri_interval){fmin(end_of(&d, 1), r->ece), fmax(end_of(&d, 0), r->ece)};
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
