/* drift.h - what a model reads and answers, counted in the bins of training and validation (data/dataset/reference.h,
 * score/answers.h): of the last rows, so that a change shows however long a server runs. */
#pragma once

#include "score/answers.h"
#include "serve/infer/model.h"
#include "serve/infer/model_checkpoint.h"

enum { TRI_DRIFT_WINDOW = 16384 }; /* rows: counted are the last ones, from half as many up to all of them */
typedef int64_t tri_bin_counts[TRI_BINS + 1];

struct tri_drift {
    tri_bin_set bins;        /* of columns, texts, answers; counts of training */
    int n_columns, n_inputs;
    int64_t most;            /* rows of a half; set it before rows are added, if at all */
    tri_answer_form form;    /* borrows of the model */
    pthread_mutex_t lock;    /* guards all below */
    float *value;            /* [bins.n] of a row's answers */
    tri_bin_counts *half[2]; /* [bins.n] */
    int64_t rows[2];
};

/* Of a model's first member; *out NULL: it was trained before these were kept. Of several members, and of a
 * stacked head, answers are not those that were kept, and not compared. */
tri_status tri__drift_open(const tri_opened *opened, const tri_decision *decision, int members, tri_drift **out);
void tri__drift_close(tri_drift *drift); /* accepts NULL */
/* Counts answered rows; thread-safe, like reading. */
void tri__drift_add(tri_drift *drift, const tri_encoded *encoded);

/* Of one variable. */
typedef struct tri_drift_of {
    const tri_bins *bins;        /* of training */
    const char *kind;            /* "column", "text", "answer" */
    tri_bin_counts count;
    int64_t rows;
    double psi, by_chance;       /* NaN: there are too few rows */
} tri_drift_of;
/* Variable `at`, from 0 on; 0: there are no more. */
int tri__drift_read(tri_drift *drift, int at, tri_drift_of *out);
