/* trident.h - the public interface of libtrident: plan, check, train, evaluate and save Trimodal BERT classifiers.
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
    TRI_USAGE = 2,       /* wrong option, wrong configuration, or something this build cannot do */
    TRI_DATA = 65,       /* an input file's content is wrong */
    TRI_NOINPUT = 66,    /* an input file or folder is missing */
    TRI_INTERNAL = 70,   /* a bug in Trident */
    TRI_RESOURCE = 71,   /* out of memory, descriptors or processes */
    TRI_BUSY = 73,       /* the output folder is in use by another run */
    TRI_IO = 74,         /* reading or writing failed */
    TRI_STOPPED = 75,    /* stopped early; a checkpoint is saved; run again */
    TRI_DISAGREE = 76,   /* ranks disagree */
    TRI_NOTFINITE = 79   /* a number became infinite or undefined */
} tri_status;

/* The text of this thread's last call that returned a tri_status: why it failed, "" when it succeeded. Functions that
 * return none (closing, freeing, asking) leave it as it is. Valid until the thread's next call. */
TRI_API const char *tri_error(void);
TRI_API const char *tri_version(void);

/* ---- Plans ----
 *
 * A plan holds every rank's programs: the instructions of a step, and the size and place of every buffer. Planning
 * runs nothing and needs no device, so any mesh can be planned, printed and proved on a laptop.
 *
 *     tri_plan_open(n, options, &plan);                options as of `trident plan`: "--world-size=16", ...
 *     tri_plan_check(plan);                            all ranks' programs fit together
 *     tri_plan_print(plan, 3, TRI_TRAIN, &text);
 *     tri_plan_close(plan);
 *
 * examples/plan.c is that program. */
typedef struct tri_plan tri_plan;

typedef enum tri_program_kind {
    TRI_TRAIN, /* one training step */
    TRI_INFER, /* one forward pass */
    TRI_START, /* before the first step: weights cast and gathered */
    TRI_PROGRAMS
} tri_program_kind;

typedef struct tri_rank_facts {
    int64_t bytes;        /* that the rank allocates: the plan is the allocation */
    int64_t instructions; /* of a training step */
    double flops;         /* of a training step whose microbatches are all as large as the largest */
} tri_rank_facts;

TRI_API tri_status tri_plan_open(int n_options, const char *const *options, tri_plan **plan);
TRI_API void tri_plan_close(tri_plan *plan); /* accepts NULL */
TRI_API int tri_plan_size(const tri_plan *plan); /* ranks */
TRI_API tri_status tri_plan_rank(tri_plan *plan, int rank, tri_rank_facts *out);
/* A rank's program as text, which `trident check` and tri_check read; the caller frees it. */
TRI_API tri_status tri_plan_print(tri_plan *plan, int rank, tri_program_kind kind, char **text);
/* Proves the programs of all ranks: each can run alone, transfers match, and nothing deadlocks. */
TRI_API tri_status tri_plan_check(tri_plan *plan);
/* The same of printed programs: n files, which hold the programs of all ranks of a mesh. TRI_DATA, with file:line and
 * the cause, at the first thing that is wrong. */
TRI_API tri_status tri_check(int n, const char *const *paths);

/* ---- Training ----
 *
 * A session holds the data, model, plan and memory of one run. Everything a step needs is allocated when it opens.
 *
 *     tri_session *session;
 *     tri_session_open(n, options, &session);         options as of `trident train`: "--config=run.json", ...
 *     for (int more; tri_next_batch(session, &more) == TRI_OK && more;) {
 *         tri_forward_backward(session, &loss);        gradients of the whole global batch
 *         tri_update(session);                         clip, AdamW, learning-rate schedule
 *     }
 *     tri_evaluate(session, &scores);
 *     tri_save(session, folder, sizeof folder);
 *     tri_session_close(session);
 *
 * examples/loop.c is that program, and its losses are those of `trident train`. */
typedef struct tri_session tri_session;
typedef struct tri_world tri_world; /* one rank's place among many: trident_comm.h */

/* What the last step was. */
typedef struct tri_step {
    int64_t step, steps;        /* taken so far; of the whole run */
    double epoch;               /* passes over the data so far */
    double loss, learning_rate, grad_norm;
    int64_t samples, tokens;    /* of the step's global batch */
    double flops;               /* of the step, counted from its program */
    int64_t mem_bytes;          /* what the plan allocated */
} tri_step;

typedef struct tri_result {
    int64_t rows;
    double loss, log_loss, accuracy, f1_macro;
    double pr_auc, average_precision, roc_auc; /* of tri_positive_label; beyond two classes means over all */
} tri_result;

TRI_API tri_status tri_session_open(int n_options, const char *const *options, tri_session **session);
/* The same as one rank of many: every rank of the world joins with the same options. Losses are those of the whole
 * global batch, the same on all ranks and, but for rounding, for any number of them. */
TRI_API tri_status tri_session_join(tri_world *world, int n_options, const char *const *options, tri_session **session);
TRI_API void tri_session_close(tri_session *session); /* accepts NULL */
/* Makes the next global batch current. *more is 0 after the last one of the last epoch (or --max-steps). */
TRI_API tri_status tri_next_batch(tri_session *session, int *more);
/* TRI_NOTFINITE, naming step and tensor, when the loss or a gradient is not finite: weights are then unchanged. */
TRI_API tri_status tri_forward_backward(tri_session *session, double *loss);
TRI_API tri_status tri_update(tri_session *session);
TRI_API tri_status tri_step_metrics(const tri_session *session, tri_step *out);
/* On the validation file; TRI_USAGE when there is none. */
TRI_API tri_status tri_evaluate(tri_session *session, tri_result *out);
/* The label that figures of two classes belong to, valid until the session is closed; NULL beyond two. */
TRI_API const char *tri_positive_label(const tri_session *session);
/* Commits checkpoint-<step> in the output folder; its path into `folder`. */
TRI_API tri_status tri_save(tri_session *session, char *folder, size_t size);

#ifdef __cplusplus
}
#endif
#endif
