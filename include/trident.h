/* trident.h - the public interface of libtrident: plan, check, train, evaluate, save and use Trimodal BERT
 * classifiers.
 * Groups of ranks and their collectives are in trident_comm.h.
 *
 * Every function that can fail returns a tri_status; tri_error() has the text of this thread's last failure.
 * The library never prints and never exits. A status is also the exit code of the `trident` command. */
#ifndef TRIDENT_H
#define TRIDENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRI_API __attribute__((visibility("default")))

typedef enum tri_status {
    TRI_OK = 0,
    TRI_USAGE = 2,       /* wrong option or configuration, or a feature this build lacks */
    TRI_DATA = 65,       /* an input file has invalid content */
    TRI_NOINPUT = 66,    /* an input file or folder is missing */
    TRI_INTERNAL = 70,   /* a bug in Trident */
    TRI_RESOURCE = 71,   /* out of memory, descriptors or processes */
    TRI_BUSY = 73,       /* an output is in use or exists already, or too many rows wait for a model */
    TRI_IO = 74,         /* reading or writing failed */
    TRI_STOPPED = 75,    /* stopped early; a checkpoint is saved: run again to continue. Or a model is being closed */
    TRI_DISAGREE = 76,   /* ranks disagree */
    TRI_NOTFINITE = 79   /* a number became infinite or NaN */
} tri_status;

/* Why this thread's last call that returned a tri_status failed; "" if it succeeded. Functions that do not return a
 * tri_status (close, free, getters) leave it unchanged. The string is valid until the thread's next call. */
TRI_API const char *tri_error(void);
TRI_API const char *tri_version(void);

/* ---- Plans ----
 *
 * A plan holds every rank's programs: the instructions of a step, and the size and offset of every buffer. Planning
 * executes nothing and needs no device, so the plan of any mesh can be made, printed and checked on a laptop.
 *
 *     tri_plan_open(n, options, &plan);                options of `trident plan`: "--world-size=16", ...
 *     tri_plan_check(plan);                            all ranks' programs match, none deadlocks
 *     tri_plan_print(plan, 3, TRI_TRAIN, &text);
 *     tri_plan_close(plan);
 *
 * examples/plan.c is a complete program. */
typedef struct tri_plan tri_plan;

typedef enum tri_program_kind {
    TRI_TRAIN, /* one training step */
    TRI_INFER, /* one forward pass */
    TRI_START, /* before the first step: casts and gathers weights */
    TRI_EXCHANGE, /* around a validation: weights and their averages change places; empty without --average-weights */
    TRI_PROGRAMS
} tri_program_kind;

typedef struct tri_rank_facts {
    int64_t bytes;        /* allocated by the rank: exactly what its plan says */
    int64_t instructions; /* of a training step */
    double flops;         /* of a training step in which every microbatch has the largest size */
} tri_rank_facts;

TRI_API tri_status tri_plan_open(int n_options, const char *const *options, tri_plan **plan);
TRI_API void tri_plan_close(tri_plan *plan); /* accepts NULL */
TRI_API int tri_plan_size(const tri_plan *plan); /* ranks */
TRI_API tri_status tri_plan_rank(tri_plan *plan, int rank, tri_rank_facts *out);
/* A rank's program as text, in the format that `trident check` and tri_check read. The caller frees *text. */
TRI_API tri_status tri_plan_print(tri_plan *plan, int rank, tri_program_kind kind, char **text);
/* Proves that every rank's programs are valid, that transfers match between ranks, and that nothing deadlocks. */
TRI_API tri_status tri_plan_check(tri_plan *plan);
/* The same for printed programs: n files that together hold the programs of all ranks of a mesh. The first error found
 * is TRI_DATA with file:line and the cause. */
TRI_API tri_status tri_check(int n, const char *const *paths);

/* ---- Training ----
 *
 * A session holds the data, model, plan and memory of one run. All memory that a step needs is allocated when the
 * session opens.
 *
 *     tri_session *session;
 *     tri_session_open(n, options, &session);          options of `trident train`: "--config=run.json", ...
 *     for (int more; tri_next_batch(session, &more) == TRI_OK && more;) {
 *         tri_forward_backward(session, &loss);        gradients of the whole global batch
 *         tri_update(session);                         clip, optimizer, learning-rate schedule
 *     }
 *     tri_evaluate(session, &scores);
 *     tri_save(session, folder, sizeof folder);
 *     tri_session_close(session);
 *
 * examples/loop.c is a complete program; its losses equal those of `trident train`. The optimizer is that of
 * --optimizer. A new one is a file of src/plan/optimizer/, with its states and the instructions of its step, and a row
 * of src/plan/optimizer.c: docs/extending/adding-an-optimizer.md. */
typedef struct tri_session tri_session;
typedef struct tri_world tri_world; /* one rank's connection to all others: trident_comm.h */

/* Figures of the last step. */
typedef struct tri_step {
    int64_t step, steps;        /* steps taken so far; steps of the whole run */
    double epoch;               /* passes over the data so far */
    double loss, learning_rate, grad_norm;
    int64_t samples, tokens;    /* of the step's global batch */
    double flops;               /* of the step, counted from its program */
    int64_t mem_bytes;          /* memory that the plan allocated */
} tri_step;

typedef struct tri_result {
    int64_t rows;
    double loss, log_loss, accuracy, f1_macro;
    double pr_auc, average_precision, roc_auc; /* two classes: of tri_positive_label; more: mean over classes */
} tri_result;

TRI_API tri_status tri_session_open(int n_options, const char *const *options, tri_session **session);
/* The same as one rank of a world: every rank joins with the same options. Losses are those of the whole global batch:
 * equal on all ranks and, except for rounding, independent of the number of ranks. */
TRI_API tri_status tri_session_join(tri_world *world, int n_options, const char *const *options, tri_session **session);
TRI_API void tri_session_close(tri_session *session); /* accepts NULL */
/* Makes the next global batch current. *more is 0 when there is none: the last epoch (or --max-steps) is complete. */
TRI_API tri_status tri_next_batch(tri_session *session, int *more);
/* TRI_NOTFINITE, naming step and tensor, if the loss or a gradient is not finite; weights are then unchanged. */
TRI_API tri_status tri_forward_backward(tri_session *session, double *loss);
TRI_API tri_status tri_update(tri_session *session);
TRI_API tri_status tri_step_metrics(const tri_session *session, tri_step *out);
/* Evaluates on the validation file; TRI_USAGE if there is none. Fits temperature and threshold to it as `trident train`
 * does; checkpoints that are saved later have them. */
TRI_API tri_status tri_evaluate(tri_session *session, tri_result *out);
/* With two classes, the label that pr_auc, average_precision and roc_auc belong to; otherwise NULL. Valid until the
 * session is closed. */
TRI_API const char *tri_positive_label(const tri_session *session);
/* Commits checkpoint-<step> in the output folder and writes its path to `folder` (may be NULL) of `size` bytes. */
TRI_API tri_status tri_save(tri_session *session, char *folder, size_t size);

/* ---- Prediction ----
 *
 *     tri_model *model;
 *     tri_model_open(n, options, &model);              options of `trident predict`: "--checkpoint=run", ...
 *     tri_column_value values[] = {{"Review Text", "Lovely", 6, 0}, {"Age", "33.5", 4, 1}};
 *     tri_row row = {values, 2};
 *     tri_model_predict(model, &row, 1, probabilities);   [1, tri_model_classes(model)]
 *     tri_model_close(model);
 *
 * Any number of threads may predict with one model at once: their rows share batches. A row's probabilities never
 * depend on the rows it is batched with. examples/predict.c is a complete program. */
typedef struct tri_model tri_model;

/* A value of one column, as text. */
typedef struct tri_column_value {
    const char *column;     /* its name in the training table */
    const char *value;      /* UTF-8, [length], not 0-terminated; NULL: missing */
    size_t length;
    int number;             /* 1: a number with a decimal point; 0: as in the training table, which may have commas */
} tri_column_value;

/* Columns that are left out are missing values: an empty text, or the number stored for missing ones. */
typedef struct tri_row {
    const tri_column_value *value; /* [n] */
    int n;
} tri_row;

TRI_API tri_status tri_model_open(int n_options, const char *const *options, tri_model **model);
TRI_API void tri_model_close(tri_model *model); /* accepts NULL; no thread may be predicting */
TRI_API int tri_model_classes(const tri_model *model);
TRI_API const char *tri_model_label(const tri_model *model, int index); /* of class index: 0 to classes - 1 */
/* The columns that the model reads: texts first. NULL beyond the last. */
TRI_API const char *tri_model_column(const tri_model *model, int index);
/* probabilities [n, classes]. TRI_DATA for a value that cannot be read (row and column named), TRI_USAGE for an unknown
 * column (the nearest named). Rows of several calls are computed together. */
TRI_API tri_status tri_model_predict(tri_model *model, const tri_row *rows, int64_t n, float *probabilities);
/* The class of a row's probabilities [classes]: by the model's threshold, or else the most probable; -1: the model does
 * not predict classes. */
TRI_API int tri_model_decide(const tri_model *model, const float *probabilities);
/* Of a model of several labels: the probability from which label index is one of a row's. NAN: there is none. */
TRI_API float tri_model_threshold(const tri_model *model, int index);

#ifdef __cplusplus
}
#endif
#endif
