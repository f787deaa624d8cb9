/* decision.h - from a model's probabilities to an answer: a temperature makes them honest, a threshold turns that of
 * the positive class into a label. Both are fitted to the validation rows of a run and kept in its checkpoints, as
 * "decision" of the manifest's state; what predicts applies them by tri__decision_apply and tri__decision_class. */
#pragma once

#include "score/numbers.h"
#include "score/reliability.h"
#include "settings/forms.h"

typedef struct tri_decision {
    double temperature; /* 1: probabilities stay as the model gives them */
    int has_threshold;  /* two classes only; 0: the label is the likeliest class */
    double threshold;   /* a row is of class `positive` from this probability on */
    int positive;       /* with a threshold; else -1 */
    tri_conformal interval; /* of a number */
    const float *from;  /* [labels] of several: the probability from which each is one of a row's; borrowed; NULL */
} tri_decision;

/* Temperature 1, no threshold. */
tri_decision tri__decision_plain(void);

/* probs [n, n_classes] become softmax(log(probs) / temperature), in double; a probability of 0 counts as the smallest
 * normal float. Temperature 1 changes no bit. What is not finite stays so. */
void tri__decision_apply(const tri_decision *decision, float *probs, int64_t n, int n_classes);
/* The class of a row [n_classes] of such probabilities: by the threshold, else the likeliest, the first of equal ones.
 * decision NULL: without a threshold. */
int tri__decision_class(const tri_decision *decision, const float *probs, int n_classes);

/* The labels [n] of a row, joined by the separator. */
void tri__decision_labels(const tri_decision *decision, const char *const *label, int n, const float *probs,
                          const char *separator, tri_buffer *out);

enum { TRI_TEMPERATURE_MAX = 10 }; /* temperatures are from 1 / 10 to 10 */
#define TRI_TEMPERATURE_SEPARATED_MIN 0.01 /* where every row is right: from here to 1 */

/* Why a fit has its temperature. */
typedef enum tri_temperature_end {
    TRI_TEMPERATURE_NONE,      /* not asked for: 1 */
    TRI_TEMPERATURE_FOUND,     /* the minimum of the log loss */
    TRI_TEMPERATURE_BOUNDED,   /* the minimum is beyond the range */
    /* Each row's label is its likeliest class: the loss falls without end. The minimum as if one in n + 2 rows were of
     * its runner-up; at most 1. */
    TRI_TEMPERATURE_SEPARATED,
    TRI_TEMPERATURE_FLAT       /* all temperatures are equally good: 1 */
} tri_temperature_end;

/* What is fitted to: the probabilities of a validation, as the model gives them. All borrowed. */
typedef struct tri_decision_spec {
    const float *probs;    /* [n, n_classes] */
    const int32_t *labels; /* [n] */
    int64_t n;
    int n_classes, positive; /* of two, else -1 */
    int scale;               /* 1: fit a temperature */
    tri_threshold threshold; /* what it is chosen for; TRI_THRESHOLD_NONE: none is */
} tri_decision_spec;

/* A decision and what it does to the rows that it was fitted to. */
typedef struct tri_decision_fit {
    tri_decision decision;
    tri_temperature_end end;
    double log_loss[2], ece[2], brier[2]; /* before and after the temperature */
    tri_threshold chosen_for;
    int reached;                          /* 0: no threshold has the precision asked for: the highest is taken */
    double precision, recall, f1, cost;   /* of the positive class at the threshold; cost: mean of a row */
} tri_decision_fit;

/* Minimises the sum of -log softmax(log p / T)[label] over T, which is convex in 1 / T: Newton's steps on the
 * derivative, inside a bracket. Then chooses the threshold among the calibrated probabilities of the positive class;
 * ties: settings/forms.h. Where no row is of that class, there is none. */
tri_status tri__decision_fit(const tri_decision_spec *spec, tri_decision_fit *out);

/* {temperature, fit, threshold, positive, chosen_for, step, rows, ...}; label [n_classes]. A new reference. */
tri_json *tri__decision_json(const tri_decision_fit *fit, const tri_decision_spec *spec, char *const *label,
                             int64_t step);
/* Of numbers: {interval, width, rows, step}. */
tri_json *tri__decision_interval_json(const tri_conformal *conformal, int64_t rows, int64_t step);
/* Whether label c, of probability p, is one of a row's. */
static inline int tri__decision_has(const tri_decision *decision, int c, float p) {
    return p >= (decision->from ? decision->from[c] : 0.5f);
}
/* Of several labels: a threshold for each, from [labels], for `how`, by the known targets of probs and targets [rows,
 * labels]; 0.5 where a label has none. */
tri_status tri__thresholds_fit(const float *probs, const float *targets, int64_t rows, int labels,
                               const tri_threshold *how, float *from);
/* {thresholds, chosen_for, rows, step}, and back. */
tri_json *tri__thresholds_json(const float *from, int labels, const tri_threshold *how, int64_t rows, int64_t step);
tri_status tri__thresholds_parse(const tri_json *object, const char *path, int labels, float *from);
/* Reads such an object of the checkpoint `path`; NULL or JSON null: the plain decision. TRI_DATA naming the member. */
tri_status tri__decision_parse(const tri_json *object, const char *path, char *const *label, int n_classes,
                               tri_decision *out);
