/* decide.c - the decision of a run: temperature and threshold, fitted to each validation on the lead, which has its
 * probabilities. Loss and other figures of a validation stay those of the model's own probabilities. */
#include "engine/inputs.h"
#include "score/answers.h"
#include "train/session.h"

/* What a threshold does to the validation rows, or why there is none. */
static void say_threshold(const tri_session *s, const tri_decision_fit *fit) {
    const char *asked = s->settings->threshold, *label = s->preprocess->label[s->positive];
    if (!fit->decision.has_threshold)
        tri__say(&s->log, TRI_LOG_WARN, "--threshold %s: no validation row is of the positive label, %s: there is no "
                 "threshold, and the likeliest class is predicted", asked, label);
    else if (!fit->reached)
        tri__say(&s->log, TRI_LOG_WARN,
                 "--threshold %s: no threshold has that precision on the %lld validation rows; the highest, %.4f at a "
                 "recall of %.4f, is taken", asked, (long long)s->valid->n, fit->precision, fit->recall);
}

/* A threshold for each label: as asked, or for its F1. */
static tri_status decide_labels(tri_session *s, const float *probs, tri_threshold *how) {
    TRI_OWNED(tri__free_at) float *from = NULL;
    int n = s->preprocess->n_classes;
    if (!s->settings->threshold) how->kind = TRI_THRESHOLD_F1;
    if (how->kind == TRI_THRESHOLD_NONE) return TRI_OK;
    TRI_TRY(TRI_NEW(from, n, "thresholds"));
    TRI_TRY(tri__thresholds_fit(probs, s->valid->targets, s->valid->n, n, how, from));
    s->decision = tri__thresholds_json(from, n, how, s->valid->n, s->at.step);
    return tri__json_is_whole(s->decision) ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

static tri_status decide(tri_session *s, const float *probs) {
    const tri_settings *set = s->settings;
    tri_decision_spec spec = {.probs = probs, .labels = s->valid->labels, .n = s->valid->n,
                              .n_classes = s->engine.model.n_classes, .positive = s->positive,
                              .scale = set->calibration == TRI_CALIBRATION_TEMPERATURE};
    tri_decision_fit fit;
    tri_conformal around;
    TRI_TRY(tri__threshold_parse(set->threshold, &spec.threshold));
    tri__json_decref(s->decision);
    s->decision = NULL;
    if (s->preprocess->separator) return decide_labels(s, probs, &spec.threshold);
    if (s->preprocess->target) {
        TRI_TRY(tri__conformal_fit(probs, s->valid->targets, spec.n, spec.n_classes, set->interval, &around));
        if (set->interval > 0 && !around.share)
            tri__say(&s->log, TRI_LOG_WARN, "--interval %g: %lld validation rows are too few to promise it: there are "
                     "no intervals", set->interval, (long long)spec.n);
        if (around.share) s->decision = tri__decision_interval_json(&around, spec.n, s->at.step);
        return !around.share || tri__json_is_whole(s->decision) ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
    }
    if (!spec.scale && spec.threshold.kind == TRI_THRESHOLD_NONE) return TRI_OK;
    TRI_TRY(tri__decision_fit(&spec, &fit));
    if (spec.threshold.kind != TRI_THRESHOLD_NONE) say_threshold(s, &fit);
    s->decision = tri__decision_json(&fit, &spec, s->preprocess->label, s->at.step);
    return tri__json_is_whole(s->decision) ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

/* Keeps what the answers to the validation rows are. */
static tri_status keep_answers(tri_session *s, const float *probs) {
    const tri_preprocess *p = s->preprocess;
    int64_t rows = s->valid->n;
    int outputs = s->engine.model.n_classes, is_number = tri__preprocess_is_number(p);
    TRI_OWNED(tri__free_at) float *answers = NULL, *from = NULL;
    tri_decision decision;
    const tri_answer_form form = {.n = is_number ? 1 : outputs, .is_number = is_number, .label = p->label,
                                  .several = p->separator != NULL, .decision = &decision};
    TRI_TRY(TRI_NEW(answers, rows * outputs + 1, "answers"));
    TRI_TRY(TRI_NEW(from, outputs, "thresholds"));
    memcpy(answers, probs, (size_t)(rows * outputs) * sizeof *answers);
    TRI_TRY(tri__decision_parse(form.several ? NULL : s->decision, "", p->label, outputs, &decision));
    decision.from = from;
    if (form.several) TRI_TRY(tri__thresholds_parse(s->decision, "", outputs, from));
    if (is_number) {
        const tri_number_set set = tri__inputs_numbers(s->settings, p);
        tri__number_sort(&set, answers, rows);
        for (int64_t i = 0; i < rows; i++) answers[i] = (float)tri__number_point(&set, answers + i * outputs);
    } else tri__decision_apply(&decision, answers, rows, outputs);
    tri__json_decref(s->answers);
    return tri__answers_fit(&form, answers, rows, &s->answers);
}

tri_status tri__session_decide(tri_session *s, const float *probs) {
    TRI_TRY(decide(s, probs));
    return keep_answers(s, probs);
}

tri_status tri__session_check_decision(const tri_session *s) {
    tri_threshold asked;
    TRI_TRY(tri__threshold_parse(s->settings->threshold, &asked));
    if (asked.kind != TRI_THRESHOLD_NONE)
        return tri__fail(TRI_USAGE,
                         "--threshold %s: it is chosen on a validation table, and there is none next to the training "
                         "data: add valid.csv, or leave it out and give predict a number", s->settings->threshold);
    if (s->settings->calibration == TRI_CALIBRATION_TEMPERATURE)
        tri__say(&s->log, TRI_LOG_INFO, "no temperature is fitted: probabilities stay the model's own");
    return TRI_OK;
}
