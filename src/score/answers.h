/* answers.h - a model's answers as variables (base/bins.h): the class, or whether each label is there, or the number;
 * and of probabilities the confidence: the largest, of several labels that of the one that is least certain. */
#pragma once

#include "base/bins.h"
#include "score/decision.h"

/* How rows [n] are read; all borrowed. */
typedef struct tri_answer_form {
    int n;                  /* numbers of a row: probabilities, or first the one that is predicted */
    int is_number, several; /* several: any number of labels */
    char *const *label;     /* [n] */
    const tri_decision *decision;
} tri_answer_form;

tri_status tri__answers_make(const tri_answer_form *form, tri_bin_set *out);
void tri__answer_values(const tri_answer_form *form, const float *row, float *value);
/* A list for checkpoints of answers [rows, n]; a new reference. */
tri_status tri__answers_fit(const tri_answer_form *form, const float *answers, int64_t rows, tri_json **out);
