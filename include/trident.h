/* trident.h - the public interface of libtrident: train, evaluate and save Trimodal BERT classifiers.
 *
 * Every function returns a tri_status; the words that go with a failure are in tri_error(), kept per thread.
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
    TRI_INTERNAL = 70,   /* a defect of Trident */
    TRI_RESOURCE = 71,   /* out of memory, descriptors or processes */
    TRI_BUSY = 73,       /* the output folder is in use by another run */
    TRI_IO = 74,         /* reading or writing failed */
    TRI_STOPPED = 75,    /* stopped early; a checkpoint is saved; run again */
    TRI_DISAGREE = 76,   /* ranks disagree */
    TRI_NOTFINITE = 79   /* a number became infinite or undefined */
} tri_status;

/* The text of this thread's last failure; "" when there was none. Valid until the thread's next failing call. */
TRI_API const char *tri_error(void);
TRI_API const char *tri_version(void);

/* A training session: data, model, plan and memory of one run. Everything a step needs is allocated when it opens.
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
    double loss, log_loss, accuracy, f1_macro, pr_auc, roc_auc;
} tri_result;

TRI_API tri_status tri_session_open(int n_options, const char *const *options, tri_session **session);
TRI_API void tri_session_close(tri_session *session); /* accepts NULL */
/* Makes the next global batch current. *more is 0 after the last one of the last epoch (or --max-steps). */
TRI_API tri_status tri_next_batch(tri_session *session, int *more);
/* TRI_NOTFINITE, naming step and tensor, when the loss or a gradient is not finite: weights are then unchanged. */
TRI_API tri_status tri_forward_backward(tri_session *session, double *loss);
TRI_API tri_status tri_update(tri_session *session);
TRI_API tri_status tri_step_metrics(const tri_session *session, tri_step *out);
/* On the validation file; TRI_USAGE when there is none. */
TRI_API tri_status tri_evaluate(tri_session *session, tri_result *out);
/* Commits checkpoint-<step> in the output folder; its path into `folder`. */
TRI_API tri_status tri_save(tri_session *session, char *folder, size_t size);

#ifdef __cplusplus
}
#endif
#endif
