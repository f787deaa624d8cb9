/* forms.h - option values with a syntax: each has one function that parses it, or fails with TRI_USAGE, naming the
 * option and what is expected. */
#pragma once

#include "base/option.h"

/* --separator: "auto" or NULL (0: recognise it), "comma", "semicolon", "tab", "pipe", or the character itself. */
tri_status tri__separator_parse(const char *text, char *separator);

/* --memory-limit: "8G" in bytes; NULL: 0, no limit. */
tri_status tri__memory_limit_parse(const char *text, int64_t *bytes);

/* --profile: "wait=1,warmup=1,active=3", PyTorch's words for steps to skip, to run without recording, and to record. */
typedef struct tri_profile_steps {
    int64_t wait, warmup, active;
} tri_profile_steps;
tri_status tri__profile_parse(const char *text, tri_profile_steps *out);

/* --layer-drop: "theta=0.5,gamma=0.001"; "none": theta is 0. gamma is -1 where it is left out. */
tri_status tri__layer_drop_parse(const char *text, double *theta, double *gamma);

/* --freeze: "embeddings", and the first layers of each encoder as "layers=N" or "layers=all", INT64_MAX. */
tri_status tri__freeze_parse(const tri_texts *texts, int *embeddings, int64_t *layers);
/* --average-weights: "ema" or "ema:0.999" (a decay), "last:3" (epochs); "none": both are 0. */
typedef struct tri_average_form {
    double decay;   /* of an exponential average; 0: it is another */
    int64_t epochs; /* whose ends are averaged; 0: it is another */
} tri_average_form;
tri_status tri__average_parse(const char *text, tri_average_form *out);
/* --threshold: what the threshold of the positive class is chosen for, or the threshold itself.
 *
 *   f1              the highest F1; of equal ones the lowest threshold
 *   precision=P     the lowest threshold with at least this precision: the greatest recall that has it
 *   recall=R        the highest threshold with at least this recall
 *   cost=A:B        the lowest mean cost, where a false positive costs A, a false negative B; of equal ones the lowest
 *   a number        the threshold, from 0 to 1
 *   none            the likeliest class is the label */
typedef enum tri_threshold_kind {
    TRI_THRESHOLD_NONE, TRI_THRESHOLD_F1, TRI_THRESHOLD_PRECISION,
    TRI_THRESHOLD_RECALL, TRI_THRESHOLD_COST, TRI_THRESHOLD_NUMBER
} tri_threshold_kind;
typedef struct tri_threshold {
    tri_threshold_kind kind;
    double value;                          /* PRECISION, RECALL, NUMBER */
    double false_positive, false_negative; /* COST */
} tri_threshold;
tri_status tri__threshold_parse(const char *text, tri_threshold *out); /* NULL: none */
enum { TRI_THRESHOLD_TEXT = 64 };
/* The text that is parsed to it. */
const char *tri__threshold_text(const tri_threshold *threshold, char out[static TRI_THRESHOLD_TEXT]);
/* --split: "0.8,0.1,0.1", shares for training, validation and test, which add up to 1; two: no test, 0. */
tri_status tri__split_parse(const char *text, double share[static 3]);

enum { TRI_STDOUT = 1, TRI_STDERR = 2 };
/* --redirects, --tee (option): "3" for all n ranks of a machine, or "0:3,1:2" for some; bits as above. */
tri_status tri__streams_parse(const char *option, const char *text, int n, uint8_t out[static TRI_RANKS_PER_NODE]);
/* --local-ranks-filter: the ranks to show, "0,2", as 0 in `hidden`; "" shows all. */
tri_status tri__streams_filter(const char *option, const char *text, int n, uint8_t hidden[static TRI_RANKS_PER_NODE]);
