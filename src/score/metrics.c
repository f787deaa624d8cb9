/* metrics.c - scores of predicted probabilities, in O(n log n) for each class. Same as scikit-learn's
 * precision_recall_curve, average_precision_score, roc_auc_score, precision_recall_fscore_support. */
#include "score/metrics.h"

#include "numbers/number_loss.h"
#include "score/areas.h"

/* Of the positive class, or the mean over all. probs [n, classes], labels [n]; points [n] is scratch. */
static void score_areas(const float *probs, const int32_t *labels, tri_curve_point *points, tri_scores *out) {
    double sum[TRI_AREAS] = {0}, *const to[TRI_AREAS] = {&out->pr_auc, &out->average_precision, &out->roc_auc};
    int count[TRI_AREAS] = {0}, only = out->positive;
    for (int class = only < 0 ? 0 : only; class < (only < 0 ? out->n_classes : only + 1); class++) {
        double area[TRI_AREAS];
        tri__curve_sort(probs, labels, out->rows, out->n_classes, class, points);
        tri__curve_areas(points, out->rows, NULL, area);
        for (int a = 0; a < TRI_AREAS; a++)
            if (!isnan(area[a])) sum[a] += area[a], count[a]++;
    }
    for (int a = 0; a < TRI_AREAS; a++) *to[a] = count[a] ? sum[a] / count[a] : NAN;
}

/* From counts of each class: rows with the label, rows predicted, rows with both; 0 / 0 counts as 0. A class that is
 * neither any row's label nor its prediction is excluded from the mean. */
static void score_classes(const int64_t *called, const int64_t *right, tri_scores *out) {
    double f1_sum = 0;
    int64_t all_right = 0;
    int present = 0;
    for (int c = 0; c < out->n_classes; c++) {
        double hit = (double)right[c];
        out->precision[c] = called[c] ? hit / (double)called[c] : 0;
        out->recall[c] = out->support[c] ? hit / (double)out->support[c] : 0;
        int64_t either = called[c] + out->support[c];
        out->f1[c] = either ? 2 * hit / (double)either : 0;
        f1_sum += out->f1[c];
        present += either > 0;
        all_right += right[c];
    }
    out->f1_macro = f1_sum / present, out->accuracy = (double)all_right / (double)out->rows;
}

/* Losses and counts. A probability of 0 counts as the smallest float, so that the loss is finite. */
static void score_rows(const float *probs, const int32_t *labels, const tri_label_set *classes, int64_t *called,
                       int64_t *right, tri_scores *out) {
    double loss = 0, weights = 0, log_loss = 0;
    for (int64_t i = 0; i < out->rows; i++) {
        const float *row = probs + i * out->n_classes; /* [n_classes] */
        int label = labels[i], best = tri__decision_class(classes->decision, row, out->n_classes);
        double weight = classes->weights ? classes->weights[label] : 1;
        double loss_i = -log(fmax((double)row[label], 0x1p-126));
        loss += weight * loss_i, weights += weight, log_loss += loss_i;
        out->support[label]++, called[best]++, right[label] += best == label;
        if (out->confusion) out->confusion[label * out->n_classes + best]++;
    }
    out->loss = loss / weights, out->log_loss = log_loss / (double)out->rows;
}

/* Counts rows by the last threshold that a probability reaches, then sums from the highest threshold down. */
static void count_above(const float *probs, const int32_t *labels, tri_scores *out) {
    for (int64_t i = 0; i < out->rows; i++)
        for (int c = 0; c < out->n_classes; c++) {
            double p = fmin(fmax((double)probs[i * out->n_classes + c], 0), 1);
            int last = (int)(p * (TRI_THRESHOLDS - 1));
            out->above[(c * TRI_THRESHOLDS + last) * 2 + (labels[i] != c)]++;
        }
    for (int c = 0; c < out->n_classes; c++) {
        int64_t(*count)[2] = (int64_t(*)[2])(out->above + c * TRI_THRESHOLDS * 2);
        for (int k = TRI_THRESHOLDS - 2; k >= 0; k--) count[k][0] += count[k + 1][0], count[k][1] += count[k + 1][1];
    }
}

/* Allocates the per-class arrays and copies the names. 0 when out of memory. */
static int make_classes(const tri_label_set *classes, tri_scores *out) {
    size_t n = (size_t)classes->n;
    out->label = calloc(n, sizeof *out->label);
    out->f1 = calloc(3 * n, sizeof *out->f1), out->support = calloc(n, sizeof *out->support);
    int with_matrix = !classes->numbers && classes->n <= TRI_CONFUSION_MAX,
        with_curves = !classes->numbers && classes->n <= TRI_CURVES_MAX;
    if (with_matrix) out->confusion = calloc(n * n, sizeof *out->confusion);
    if (with_curves) out->above = calloc(n * TRI_THRESHOLDS * 2, sizeof *out->above);
    if (!out->label || !out->f1 || !out->support || (with_matrix && !out->confusion) || (with_curves && !out->above))
        return 0;
    out->precision = out->f1 + n, out->recall = out->precision + n;
    for (size_t c = 0; c < n; c++)
        if (!(out->label[c] = strdup(classes->label[c]))) return 0;
    return 1;
}

static tri_status check_rows(const float *probs, const int32_t *labels, int64_t n, const tri_label_set *classes) {
    if (n < 1) return tri__fail(TRI_DATA, "there are no rows to score");
    for (int64_t i = 0; i < n; i++) {
        TRI_ASSERT(labels[i] >= 0 && labels[i] < classes->n);
        for (int c = 0; c < classes->n; c++)
            if (!isfinite(probs[i * classes->n + c]))
                return tri__fail(TRI_NOTFINITE, "the probability of class %s in row %lld is not finite",
                                 classes->label[c], (long long)i + 1);
    }
    return TRI_OK;
}

static tri_status score_several(const float *probs, const int32_t *labels, const tri_label_set *classes,
                                tri_scores *out) {
    if (out->rows < 1) return tri__fail(TRI_DATA, "there are no rows to score");
    out->n_classes = classes->n;
    for (int64_t i = 0; i < out->rows * classes->n; i++)
        if (!isfinite(probs[i]))
            return tri__fail(TRI_NOTFINITE, "the probability of label %s in row %lld is not finite",
                             classes->label[i % classes->n], (long long)(i / classes->n) + 1);
    tri_status status = make_classes(classes, out) ? tri__label_scores(probs, (const float *)(const void *)labels,
                                                                       classes->numbers, out)
                                                   : tri__fail(TRI_RESOURCE, "no memory to score labels");
    if (status != TRI_OK) tri__scores_free(out);
    return status;
}

tri_status tri__scores(const float *probs, const int32_t *labels, int64_t n, const tri_label_set *classes,
                       tri_scores *out) {
    if (classes->numbers) {
        *out = (tri_scores){.rows = n, .positive = -1, .is_number = 1, .log_loss = NAN, .accuracy = NAN,
                            .f1_macro = NAN, .pr_auc = NAN, .average_precision = NAN, .roc_auc = NAN};
        if (classes->numbers->loss == TRI_NUMBER_BINARY) return score_several(probs, labels, classes, out);
        return tri__number_scores(probs, (const float *)(const void *)labels, n, classes->numbers, &out->numbers,
                                  &out->loss);
    }
    *out = (tri_scores){.rows = n, .n_classes = classes->n, .positive = classes->positive};
    TRI_ASSERT(classes->n >= 2 && classes->positive < 2 && (classes->positive < 0) == (classes->n > 2));
    TRI_TRY(check_rows(probs, labels, n, classes));
    TRI_OWNED(tri__free_at) tri_curve_point *points = malloc((size_t)n * sizeof *points);
    TRI_OWNED(tri__free_at) int64_t *counts = calloc(2 * (size_t)classes->n, sizeof *counts); /* called, then right */
    if (!points || !counts || !make_classes(classes, out)) {
        tri__scores_free(out);
        return tri__fail(TRI_RESOURCE, "no memory to score %lld rows", (long long)n);
    }
    score_rows(probs, labels, classes, counts, counts + classes->n, out);
    score_classes(counts, counts + classes->n, out);
    score_areas(probs, labels, points, out);
    tri__reliability(probs, labels, n, classes->n, classes->positive, &out->reliability);
    if (out->above) count_above(probs, labels, out);
    return TRI_OK;
}

void tri__scores_free(tri_scores *scores) {
    for (int c = 0; scores->label && c < scores->n_classes; c++) free(scores->label[c]);
    TRI_FREE(scores->label, scores->confusion, scores->above, scores->f1, scores->support);
    *scores = (tri_scores){0};
}

const char *tri__scores_positive(const tri_scores *scores) {
    return scores->label && scores->positive >= 0 ? scores->label[scores->positive] : NULL;
}

static tri_json *classes_json(const tri_scores *s) {
    tri_json *all = tri__json_object();
    for (int c = 0; c < s->n_classes; c++)
        tri__json_set_new(all, s->label[c],
                          tri__json_pack("{s:I, s:f, s:f, s:f}", "rows", (tri_json_int)s->support[c], "precision",
                                         s->precision[c], "recall", s->recall[c], "f1", s->f1[c]));
    return all;
}

static tri_json *confusion_json(const tri_scores *scores) {
    tri_json *all = tri__json_object();
    for (int label = 0; label < scores->n_classes; label++) {
        tri_json *one = tri__json_object();
        for (int c = 0; c < scores->n_classes; c++)
            tri__json_set_new(one, scores->label[c],
                              tri__json_integer(scores->confusion[label * scores->n_classes + c]));
        tri__json_set_new(all, scores->label[label], one);
    }
    return all;
}

static tri_json *numbers_json(const tri_scores *s, const char *loss) {
    tri_json *all = tri__json_pack("{s:f}", loss, s->loss);
    const char *name;
    double value;
    for (int at = 0; tri__number_figure(&s->numbers, &at, &name, &value);)
        tri__json_set_new(all, name, tri__json_real(value));
    return all;
}

/* Undefined values (an area of a class without rows) are null. */
tri_json *tri__scores_json(const tri_scores *s) {
    if (s->is_number) {
        tri_json *numbers = numbers_json(s, "loss");
        if (s->n_classes) tri__json_set_new(numbers, "labels", classes_json(s));
        tri__json_set_new(numbers, "rows", tri__json_integer(s->rows));
        return numbers;
    }
    tri_json *per_class = tri__json_object();
    for (int c = 0; c < s->n_classes; c++) tri__json_set_new(per_class, s->label[c], tri__json_real(s->f1[c]));
    tri_json *all = tri__json_pack("{s:f, s:f, s:{s:f, s:o}, s:f, s:f, s:f, s:f, s:s?, s:o}", "loss", s->loss,
                                   "accuracy", s->accuracy, "f1", "macro", s->f1_macro, "per_class", per_class,
                                   "pr_auc", s->pr_auc, "average_precision", s->average_precision, "roc_auc",
                                   s->roc_auc, "log_loss", s->log_loss, "positive_label", tri__scores_positive(s),
                                   "classes", classes_json(s));
    if (s->confusion) tri__json_set_new(all, "confusion", confusion_json(s));
    tri__json_set_new(all, "rows", tri__json_integer(s->rows));
    tri__json_set_new(all, "ece", tri__json_real(s->reliability.ece));
    tri__json_set_new(all, "brier", tri__json_real(s->reliability.brier));
    tri__json_set_new(all, "reliability", tri__reliability_json(&s->reliability));
    return all;
}

tri_json *tri__scores_figures(const tri_scores *s) {
    if (s->is_number) return numbers_json(s, "valid_loss");
    return tri__json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:s?}", "valid_loss", s->loss, "accuracy", s->accuracy,
                          "f1_macro", s->f1_macro, "pr_auc", s->pr_auc, "average_precision", s->average_precision,
                          "roc_auc", s->roc_auc, "positive_label", tri__scores_positive(s));
}
