/* decision.c - temperature scaling (Guo et al., On Calibration of Modern Neural Networks, 2017), with smoothed targets
 * where every row is right (Platt, Probabilistic Outputs for Support Vector Machines, 1999), and thresholds. */
#include "score/decision.h"

#include "score/areas.h"

static const double tiny = 0x1p-126; /* the smallest normal float */

tri_decision tri__decision_plain(void) { return (tri_decision){.temperature = 1, .positive = -1}; }

/* What is not a number stays so. */
static double log_of(float p) { return log((double)p < tiny ? tiny : (double)p); }

void tri__decision_apply(const tri_decision *decision, float *probs, int64_t n, int n_classes) {
    double inverse = 1 / decision->temperature;
    if (decision->temperature == 1) return;
    for (int64_t i = 0; i < n; i++, probs += n_classes) {
        float most = probs[0];
        double sum = 0;
        for (int c = 1; c < n_classes; c++)
            if (probs[c] > most) most = probs[c];
        double top = log_of(most);
        for (int c = 0; c < n_classes; c++) sum += exp((log_of(probs[c]) - top) * inverse);
        for (int c = 0; c < n_classes; c++) probs[c] = (float)(exp((log_of(probs[c]) - top) * inverse) / sum);
    }
}

int tri__decision_class(const tri_decision *decision, const float *probs, int n_classes) {
    int best = 0;
    if (decision && decision->has_threshold)
        return (double)probs[decision->positive] >= decision->threshold ? decision->positive : !decision->positive;
    for (int c = 1; c < n_classes; c++)
        if (probs[c] > probs[best]) best = c;
    return best;
}

void tri__decision_labels(const tri_decision *decision, const char *const *label, int n, const float *probs,
                          const char *separator, tri_buffer *out) {
    for (int c = 0, some = 0; c < n; c++) {
        if (!tri__decision_has(decision, c, probs[c])) continue;
        if (some++) tri__buffer_add(out, separator, strlen(separator));
        tri__buffer_add(out, label[c], strlen(label[c]));
    }
}

/* ---- temperature ---- */

/* Value, and first and second derivative by b = 1 / T, of the mean log loss of softmax(b * log p). */
typedef struct slope {
    double value, first, second;
} slope;

/* The likeliest class other than the label. */
static int runner_up(const float *row, int n_classes, int label) {
    int best = !label;
    for (int c = 0; c < n_classes; c++)
        if (c != label && row[c] > row[best]) best = c;
    return best;
}

/* doubt: the share of each row's target that is the runner-up's instead of the label's. */
static slope slope_at(const tri_decision_spec *s, double doubt, double b) {
    slope sum = {0};
    for (int64_t i = 0; i < s->n; i++) {
        const float *row = s->probs + i * s->n_classes;
        double top = log_of(row[0]), total = 0, mean = 0, square = 0;
        for (int c = 1; c < s->n_classes; c++) top = fmax(top, log_of(row[c]));
        for (int c = 0; c < s->n_classes; c++) {
            double z = log_of(row[c]) - top, e = exp(b * z);
            total += e, mean += e * z, square += e * z * z;
        }
        double own = log_of(row[s->labels[i]]) - top;
        if (doubt > 0) own += doubt * (log_of(row[runner_up(row, s->n_classes, s->labels[i])]) - top - own);
        mean /= total, square /= total;
        sum.value += log(total) - b * own;
        sum.first += mean - own, sum.second += square - mean * mean;
    }
    double n = (double)s->n;
    return (slope){sum.value / n, sum.first / n, sum.second / n};
}

/* Whether every row's label is its likeliest class, and in some row the only one: the loss then falls without end. */
static int is_separated(const tri_decision_spec *s) {
    int strictly = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const float *row = s->probs + i * s->n_classes;
        for (int c = 0; c < s->n_classes; c++) {
            if (row[c] > row[s->labels[i]]) return 0;
            strictly |= row[c] < row[s->labels[i]];
        }
    }
    return strictly;
}

/* The zero of the first derivative, which rises with b, in [low, high]. */
static double find_zero(const tri_decision_spec *s, double doubt, double low, double high) {
    double b = 1;
    for (int step = 0; step < 200; step++) {
        slope at = slope_at(s, doubt, b);
        if (at.first == 0) return b;
        if (at.first < 0) low = b;
        else high = b;
        double next = at.second > 0 ? b - at.first / at.second : low;
        if (!(next > low && next < high)) next = 0.5 * (low + high);
        if (fabs(next - b) <= 1e-13 * b) return next;
        b = next;
    }
    return b;
}

/* Of rows that are all right: as if one in n + 2 were wrong. They give no reason for a temperature above 1. */
static double fit_separated(const tri_decision_spec *s) {
    const double doubt = 1 / ((double)s->n + 2), high = 1 / TRI_TEMPERATURE_SEPARATED_MIN;
    if (slope_at(s, doubt, 1).first >= 0) return 1;
    return slope_at(s, doubt, high).first <= 0 ? 1 / high : 1 / find_zero(s, doubt, 1, high);
}

static double fit_temperature(const tri_decision_spec *s, tri_temperature_end *end) {
    const double low = 1.0 / TRI_TEMPERATURE_MAX, high = TRI_TEMPERATURE_MAX;
    slope here = slope_at(s, 0, 1);
    *end = TRI_TEMPERATURE_FLAT;
    if (here.first == 0 && here.second == 0) return 1;
    *end = TRI_TEMPERATURE_SEPARATED;
    if (is_separated(s)) return fit_separated(s);
    *end = TRI_TEMPERATURE_BOUNDED;
    if (slope_at(s, 0, low).first >= 0) return 1 / low;
    if (slope_at(s, 0, high).first <= 0) return 1 / high;
    *end = TRI_TEMPERATURE_FOUND;
    return 1 / find_zero(s, 0, low, high);
}

/* ---- threshold ---- */

/* Rows from a threshold on: those of the positive class, all. */
typedef struct counts {
    int64_t hits, called;
} counts;

static double cost_of(const tri_threshold *how, counts at, int64_t positives) {
    return (double)(at.called - at.hits) * how->false_positive + (double)(positives - at.hits) * how->false_negative;
}

/* Whether the next lower threshold is taken instead of the best so far; its tie goes to the lower one. */
static int is_better(const tri_threshold *how, counts next, counts best, int64_t positives, int *reached) {
    switch (how->kind) {
    case TRI_THRESHOLD_F1: /* fractions of whole numbers, compared exactly */
        return (__int128)next.hits * (best.called + positives) >= (__int128)best.hits * (next.called + positives);
    case TRI_THRESHOLD_PRECISION:
        if ((double)next.hits / (double)next.called >= how->value) return *reached = 1;
        return !*reached && (__int128)next.hits * best.called >= (__int128)best.hits * next.called;
    case TRI_THRESHOLD_RECALL:
        return (double)best.hits / (double)positives < how->value;
    case TRI_THRESHOLD_COST:
        return cost_of(how, next, positives) <= cost_of(how, best, positives);
    default:
        return 0;
    }
}

/* points: the calibrated probabilities of the positive class, falling. */
static void choose(const tri_decision_spec *s, const tri_curve_point *points, tri_decision_fit *out) {
    const tri_threshold *how = &s->threshold;
    int64_t positives = 0;
    counts at = {0}, best = {0};
    for (int64_t i = 0; i < s->n; i++) positives += points[i].hit;
    if (!positives) return;
    float threshold = nextafterf(points[0].score, INFINITY); /* no row is called positive */
    out->reached = how->kind != TRI_THRESHOLD_PRECISION;
    for (int64_t i = 0; i < s->n;) {
        float score = points[i].score;
        for (; i < s->n && points[i].score == score; i++) at.hits += points[i].hit, at.called++;
        if (is_better(how, at, best, positives, &out->reached)) best = at, threshold = score;
    }
    out->decision.has_threshold = 1;
    out->decision.threshold = (double)threshold, out->decision.positive = s->positive;
    out->precision = best.called ? (double)best.hits / (double)best.called : NAN;
    out->recall = (double)best.hits / (double)positives;
    out->f1 = 2 * (double)best.hits / (double)(best.called + positives);
    out->cost = how->kind == TRI_THRESHOLD_COST ? cost_of(how, best, positives) / (double)s->n : NAN;
}

tri_status tri__decision_fit(const tri_decision_spec *s, tri_decision_fit *out) {
    size_t elements = (size_t)s->n * (size_t)s->n_classes;
    tri_reliability reliability;
    TRI_ASSERT(s->n > 0 && (s->threshold.kind == TRI_THRESHOLD_NONE || s->positive >= 0));
    *out = (tri_decision_fit){.decision = tri__decision_plain(), .chosen_for = s->threshold};
    TRI_OWNED(tri__free_at) float *probs = malloc(elements * sizeof *probs); /* [n, n_classes], calibrated */
    TRI_OWNED(tri__free_at) tri_curve_point *points = malloc((size_t)s->n * sizeof *points);
    if (!probs || !points) return tri__fail(TRI_RESOURCE, "no memory to calibrate %lld rows", (long long)s->n);
    if (s->scale) out->decision.temperature = fit_temperature(s, &out->end);
    tri__reliability(s->probs, s->labels, s->n, s->n_classes, s->positive, &reliability);
    out->ece[0] = reliability.ece, out->brier[0] = reliability.brier;
    out->log_loss[0] = slope_at(s, 0, 1).value;
    out->log_loss[1] = slope_at(s, 0, 1 / out->decision.temperature).value;
    memcpy(probs, s->probs, elements * sizeof *probs);
    tri__decision_apply(&out->decision, probs, s->n, s->n_classes);
    tri__reliability(probs, s->labels, s->n, s->n_classes, s->positive, &reliability);
    out->ece[1] = reliability.ece, out->brier[1] = reliability.brier;
    if (s->threshold.kind == TRI_THRESHOLD_NONE) return TRI_OK;
    tri__curve_sort(probs, s->labels, s->n, s->n_classes, s->positive, points);
    choose(s, points, out);
    return TRI_OK;
}

tri_status tri__thresholds_fit(const float *probs, const float *targets, int64_t rows, int labels,
                               const tri_threshold *how, float *from) {
    TRI_OWNED(tri__free_at) float *p = NULL;       /* [rows, 2] */
    TRI_OWNED(tri__free_at) int32_t *class = NULL; /* [rows] */
    TRI_TRY(TRI_NEW(p, 2 * rows + 1, "thresholds"));
    TRI_TRY(TRI_NEW(class, rows + 1, "thresholds"));
    for (int c = 0; c < labels; c++) {
        tri_decision_spec spec = {.probs = p, .labels = class, .n_classes = 2, .positive = 1, .threshold = *how};
        tri_decision_fit fit = {0};
        for (int64_t i = 0; i < rows; i++) {
            float target = targets[i * labels + c], there = probs[i * labels + c];
            if (!isnan(target)) p[2 * spec.n] = 1 - there, p[2 * spec.n + 1] = there, class[spec.n++] = target > 0;
        }
        if (spec.n) TRI_TRY(tri__decision_fit(&spec, &fit));
        from[c] = fit.decision.has_threshold ? (float)fit.decision.threshold : 0.5f;
    }
    return TRI_OK;
}

/* ---- as JSON ---- */

tri_json *tri__decision_json(const tri_decision_fit *fit, const tri_decision_spec *s, char *const *label,
                             int64_t step) {
    static const char *const ends[] = {"none", "found", "bounded", "separated", "flat"};
    const tri_decision *d = &fit->decision;
    char words[TRI_THRESHOLD_TEXT];
    int asked = fit->chosen_for.kind != TRI_THRESHOLD_NONE;
    tri_json *all = tri__json_pack(
        "{s:f, s:s, s:f, s:s?, s:s?, s:I, s:I, s:[f, f], s:[f, f], s:[f, f]}", "temperature", d->temperature, "fit",
        ends[fit->end], "threshold", d->has_threshold ? d->threshold : NAN, "positive",
        d->has_threshold ? label[d->positive] : NULL, "chosen_for",
        asked ? tri__threshold_text(&fit->chosen_for, words) : NULL, "step", (tri_json_int)step, "rows",
        (tri_json_int)s->n, "log_loss", fit->log_loss[0], fit->log_loss[1], "ece", fit->ece[0], fit->ece[1], "brier",
        fit->brier[0], fit->brier[1]);
    if (!all || !d->has_threshold) return all;
    tri__json_set_new(all, "reached", tri__json_boolean(fit->reached));
    tri__json_set_new(all, "precision", tri__json_real(fit->precision));
    tri__json_set_new(all, "recall", tri__json_real(fit->recall));
    tri__json_set_new(all, "f1", tri__json_real(fit->f1));
    if (isfinite(fit->cost)) tri__json_set_new(all, "cost", tri__json_real(fit->cost));
    return all;
}

tri_json *tri__decision_interval_json(const tri_conformal *conformal, int64_t rows, int64_t step) {
    return tri__json_pack("{s:f, s:f, s:I, s:I}", "interval", conformal->share, "width", conformal->width, "step",
                          (tri_json_int)step, "rows", (tri_json_int)rows);
}

tri_json *tri__thresholds_json(const float *from, int labels, const tri_threshold *how, int64_t rows, int64_t step) {
    char words[TRI_THRESHOLD_TEXT];
    tri_json *each = tri__json_array();
    for (int c = 0; c < labels; c++) tri__json_append_new(each, tri__json_real((double)from[c]));
    return tri__json_pack("{s:o, s:s, s:I, s:I}", "thresholds", each, "chosen_for", tri__threshold_text(how, words),
                          "rows", (tri_json_int)rows, "step", (tri_json_int)step);
}

static tri_status bad(const char *path, const char *what) {
    return tri__fail(TRI_DATA, "%s/manifest.json: state.decision: %s", path, what);
}

tri_status tri__thresholds_parse(const tri_json *object, const char *path, int labels, float *from) {
    const tri_json *each = tri__json_get(object, "thresholds");
    for (int c = 0; c < labels; c++) from[c] = 0.5f;
    if (!each) return TRI_OK;
    if (tri__json_size(each) != (size_t)labels) return bad(path, "it has not a threshold for each label");
    for (int c = 0; c < labels; c++) {
        const tri_json *one = tri__json_at(each, (size_t)c);
        from[c] = (float)tri__json_number_value(one);
        if (!tri__json_is_number(one) || !(from[c] >= 0 && from[c] <= 2))
            return bad(path, "one of its thresholds is not a probability");
    }
    return TRI_OK;
}

tri_status tri__decision_parse(const tri_json *object, const char *path, char *const *label, int n_classes,
                               tri_decision *out) {
    *out = tri__decision_plain();
    if (!object || tri__json_is_null(object)) return TRI_OK;
    if (!tri__json_is_object(object)) return bad(path, "it is not an object");
    const tri_json *temperature = tri__json_get(object, "temperature"), *at = tri__json_get(object, "threshold");
    const char *positive = tri__text_in(object, "positive");
    const tri_json *share = tri__json_get(object, "interval"), *width = tri__json_get(object, "width");
    if (share) {
        out->interval = (tri_conformal){tri__json_number_value(share), tri__json_number_value(width)};
        int good = tri__json_is_number(width) && isfinite(out->interval.width) && out->interval.share > 0 &&
                   out->interval.share < 1;
        return good ? TRI_OK : bad(path, "its interval is not a share with a width");
    }
    out->temperature = tri__json_number_value(temperature);
    if (!tri__json_is_number(temperature) || !isfinite(out->temperature) || out->temperature < 1e-3 ||
        out->temperature > 1e3)
        return bad(path, "its temperature is not a number from 0.001 to 1000");
    if (!at || tri__json_is_null(at)) return TRI_OK;
    out->threshold = tri__json_number_value(at);
    if (!tri__json_is_number(at) || !(out->threshold >= 0 && out->threshold <= 2))
        return bad(path, "its threshold is not a probability");
    if (n_classes != 2) return bad(path, "it has a threshold, which only models of two classes have");
    for (int c = 0; c < n_classes && positive; c++)
        if (strcmp(label[c], positive) == 0) out->positive = c;
    if (out->positive < 0) return bad(path, "its positive label is not one of the model's");
    out->has_threshold = 1;
    return TRI_OK;
}
