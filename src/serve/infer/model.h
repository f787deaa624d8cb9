/* model.h - a model opened for prediction: rows of column values in, probabilities out; any number of threads at once.
 *
 *   open      checkpoint, settings, vocabularies, preprocessing; then plan, memory, weights
 *   encode    a row's texts become token ids, its columns numbers (on the caller's thread)
 *   submit    encoded rows wait in a bounded queue; the model's own thread joins them to packed batches, by a budget of
 *             tokens and a deadline, runs the program and calls back */
#pragma once

#include "data/dataset/unseen.h"
#include "score/decision.h"
#include "settings/settings.h"

typedef struct tri_crew tri_crew; /* serve/infer/crew.h */
typedef struct tri_drift tri_drift; /* serve/infer/drift.h */

/* Batching and its limits; 0: the default. */
typedef struct tri_batching {
    int64_t max_batch_tokens;   /* tokens of both texts in one batch; 16384 */
    double max_wait;            /* seconds that the first row of a batch may wait for others; 0: only while the model is
                                   busy */
    int64_t max_batch_rows;     /* rows in one batch; 512 */
    int64_t queue_rows;         /* rows that may wait; beyond them a submission is refused with TRI_BUSY; 4096 */
    int polite;                 /* 1: the opening thread gives way to running models: for a reload */
    tri_crew *crew;             /* the other ranks that compute; NULL: none */
} tri_batching;

/* asked: checkpoint, device, precision, mesh, threads, as for predict. TRI_DATA, TRI_NOINPUT for a folder that is
 * damaged, of another version or missing. Any thread may call it, also while other models run. batching NULL: the
 * defaults. */
tri_status tri__model_open(const tri_settings *asked, const tri_batching *batching, const tri_log *log,
                           tri_model **out);
/* Refuses new submissions (TRI_STOPPED), answers those that wait, then closes; accepts NULL. */
void tri__model_close(tri_model *model);

/* Facts for /info and pages. Valid until the model is closed. */
typedef struct tri_model_facts {
    const char *path;           /* of the checkpoint; of an ensemble the first member's */
    int members;                /* whose probabilities are averaged; 1: no ensemble */
    int64_t step;               /* of training */
    const char *precision;      /* "fp32", "bf16", "fp16", "int8", "fp8" */
    const char *device;
    int max_len;                /* tokens of one text */
    int n_texts, n_columns, n_classes;
    const tri_texts *text;      /* [n_texts] columns joined to each text */
    const tri_column_stats *const *column; /* [n_columns] tabular columns of a table */
    int attends;                /* tri__model_attention tells of attention */
    int is_number;              /* an answer is n_classes numbers of these names, not probabilities of classes */
    const char *separator;      /* several labels, each with a probability: what is between those of a row; NULL */
    const char *const *label;   /* [n_classes] */
    int positive;               /* class; -1 */
    const tri_decision *decision; /* the temperature of its probabilities, the threshold of its labels */
    int64_t parameters, bytes;  /* of all members of an ensemble; bytes: memory of the plan */
    const tri_preprocess *preprocess;
    tri_drift *drift;           /* of what it has answered; NULL: it has no reference */
} tri_model_facts;
const tri_model_facts *tri__model_facts(const tri_model *model);

const char *tri__model_column(const tri_model *model, int index); /* of those it reads, texts first; NULL beyond */

/* Encoded rows, owned by whoever holds them until they are submitted. */
typedef struct tri_encoded tri_encoded;
typedef enum tri_overlong { TRI_OVERLONG_TRUNCATE, TRI_OVERLONG_REFUSE } tri_overlong;
/* TRI_DATA: a bad value ("row 2, column \"Age\": ..."), invalid UTF-8, or with REFUSE a text longer than max_len;
 * TRI_USAGE: an unknown column, with the nearest name. Thread-safe. */
tri_status tri__model_encode(const tri_model *model, const tri_row *rows, int64_t n, tri_overlong overlong,
                             tri_encoded **out);
int64_t tri__encoded_rows(const tri_encoded *encoded);
int64_t tri__encoded_tokens(const tri_encoded *encoded);
const tri_unseen *tri__encoded_unseen(const tri_encoded *encoded); /* [n_columns] of the facts; NULL: none */
/* The ids of text `text` of a row; returns how many. */
int tri__encoded_ids(const tri_encoded *encoded, int64_t row, int text, const int32_t **ids);
void tri__encoded_free(tri_encoded *encoded); /* accepts NULL */

/* What a submission gets: status TRI_OK and probs [rows, classes], or the reason. Called on the model's thread: must be
 * short. */
typedef struct tri_answer {
    tri_status status;
    const char *error;          /* "" with TRI_OK */
    const float *probs;         /* [rows, classes]; valid during the call */
    double queued, computed;    /* seconds */
    int64_t batch_rows, batch_tokens; /* of the batch that had its last row */
} tri_answer;
typedef void tri_answered(void *context, const tri_answer *answer);
/* Takes `encoded` unless it fails: TRI_BUSY: the queue is full; TRI_STOPPED: the model is closing; TRI_USAGE: more rows
 * than may ever wait. */
tri_status tri__model_submit(tri_model *model, tri_encoded *encoded, tri_answered *answered, void *context);

/* Encodes (long texts are truncated), submits, waiting where the queue is full, and waits for probs [n, classes]. */
tri_status tri__model_predict(tri_model *model, const tri_row *rows, int64_t n, float *probs);

/* Of the last batch's first row, once it is computed, by a model whose facts say so: how much the primary text's token
 * attends in the fusion's last layer to each token, a text or a column, [tokens]; the mean of heads and members. */
void tri__model_attention(const tri_model *model, float *out);

typedef struct tri_model_load {
    int64_t queued_rows, running_rows;
} tri_model_load;
void tri__model_load(const tri_model *model, tri_model_load *out); /* for metrics; thread-safe */
