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

/* The text of this thread's last call that returned a tri_status: why it failed, "" when it succeeded. Functions that
 * return none (closing, freeing, asking) leave it as it is. Valid until the thread's next call. */
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
typedef struct tri_world tri_world; /* one rank's place among many: see below */

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

/* ---- Ranks that talk ----
 *
 * A rank is one member of a job: a process or a thread with a tri_world of its own, which only it uses. Groups are
 * ordered lists of ranks. Operations are posted and waited for; the blocking forms are both in one call. All members of
 * a group post the same collectives in the same order; what each asks for is compared before any data moves, and a
 * difference is TRI_DISAGREE on all.
 *
 * The first failure of any rank (an error, a death, a hang, a mismatch) ends every wait of every rank with that rank's
 * status and words. Every element is reduced in the group's order in one place: results are the same to the bit
 * whatever the timing.
 *
 * Buffers from tri_heap_alloc are shared: peers read and write them directly. Any other memory works too and is copied
 * through the heap (between threads there is no difference). examples/ranks.c is a whole program. */
typedef struct tri_group tri_group;
typedef uint64_t tri_request;           /* of a posted operation; 0 is none */

#define TRI_DTYPES(X) /* name, name in programs, bytes an element */ \
    X(F32, f32, 4)      \
    X(F64, f64, 8)      \
    X(BF16, bf16, 2)    \
    X(F16, f16, 2)      \
    X(I32, i32, 4)      \
    X(I64, i64, 8)      \
    X(U8, u8, 1)
typedef enum tri_dtype {
#define X(upper, lower, bytes) TRI_##upper,
    TRI_DTYPES(X)
#undef X
    TRI_DTYPE_COUNT
} tri_dtype;

/* Sums of f32, f64 and integers are taken in their own type, bf16 and f16 in f32 and rounded once; integers wrap
 * around, and their average is rounded towards zero. */
typedef enum tri_reduction { TRI_SUM, TRI_AVERAGE, TRI_MIN, TRI_MAX, TRI_PRODUCT, TRI_REDUCTION_COUNT } tri_reduction;

/* How ranks are started or found. Zeroed: the defaults. */
typedef struct tri_ranks {
    int n;                      /* ranks to start */
    int forks; /* 0: threads of this process; 1: forks of it, before anything else of it runs threads */
    size_t heap_bytes;          /* most that a rank's shared heap may grow to; 0: the machine's memory */
    double progress_timeout;    /* seconds without progress after which a rank counts as hung; 0: 30; at least 0.25 */
} tri_ranks;
typedef tri_status tri_rank_main(tri_world *world, void *argument);
/* Runs main on n ranks and waits for all. The first failure of any rank, in words too; TRI_OK when all returned
 * TRI_OK. */
TRI_API tri_status tri_ranks_run(const tri_ranks *how, tri_rank_main *main, void *argument);
/* Joins the ranks that a launcher started: `lookup` is getenv (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
 * MASTER_PORT; those of Open MPI, MPICH and Slurm). A process that was not launched is a world of one rank. */
TRI_API tri_status tri_world_join(const tri_ranks *how, char *(*lookup)(const char *name), tri_world **world);
/* Leaves. Others that still wait for this rank get an error, so close after the last operation. Accepts NULL. */
TRI_API void tri_world_close(tri_world *world);
TRI_API int tri_world_rank(const tri_world *world);
TRI_API int tri_world_size(const tri_world *world);
/* This rank fails: every wait of every rank returns `status` and the text. The first failure of all ranks is kept. */
TRI_API void tri_world_fail(tri_world *world, tri_status status, const char *text);

TRI_API tri_status tri_heap_alloc(tri_world *world, size_t bytes, void **memory); /* zeroed, aligned to 4096 */
TRI_API void tri_heap_free(tri_world *world, void *memory);                      /* accepts NULL */

/* All ranks of the world, in order. Valid until the world is closed. */
TRI_API tri_group *tri_group_world(tri_world *world);
/* Ranks of the world in any order, each once, this one among them. Every member makes the group, in the same order
 * among groups of the same ranks; nobody waits. Valid until the world is closed. */
TRI_API tri_status tri_group_make(tri_world *world, int n, const int *ranks, tri_group **group);
TRI_API int tri_group_rank(const tri_group *group); /* this rank's place in it */
TRI_API int tri_group_size(const tri_group *group);

/* kind: what `in` and `out` hold on member m of n, in elements. "counts" are counts[m], or `count` for every m when it
 * is NULL; `all` is their sum. in may equal out where both hold the same (for gathers: in may be its own part of out;
 * for scatters: out its own part of in); otherwise they do not overlap. */
typedef enum tri_collective_kind {
    TRI_SEND,            /* in [count], to member root */
    TRI_RECV,            /* out [count], from member root */
    TRI_BROADCAST,       /* in [count] on root; out [count] on all */
    TRI_ALL_REDUCE,      /* in [count]; out [count] */
    TRI_REDUCE,          /* in [count]; out [count] on root */
    TRI_ALL_GATHER,      /* in [counts m]; out [all] */
    TRI_GATHER,          /* in [counts m]; out [all] on root */
    TRI_SCATTER,         /* in [all] on root; out [counts m] */
    TRI_REDUCE_SCATTER,  /* in [all]; out [counts m] */
    TRI_ALL_TO_ALL,      /* in [n * count]; out [n * count]: part k goes to member k, part k comes from it */
    TRI_BARRIER,
    TRI_COLLECTIVE_COUNT
} tri_collective_kind;

typedef struct tri_collective {
    tri_collective_kind kind;
    tri_dtype dtype;
    tri_reduction reduction;    /* of the reducing kinds */
    int root;                   /* a place in the group: root, or the other end of a send or receive */
    int tag;                    /* of a send and its receive: must be equal */
    const void *in;
    void *out;
    int64_t count;
    const int64_t *counts;      /* [n] on every member alike, read during the call only; or NULL */
} tri_collective;

/* Begins an operation; buffers belong to it until it was waited for. Misuse is TRI_USAGE, and nothing began. */
TRI_API tri_status tri_post(tri_group *group, const tri_collective *what, tri_request *request);
/* Ends it. Operations may be waited for in any order; a request can be ended once (TRI_USAGE after that). */
TRI_API tri_status tri_wait(tri_world *world, tri_request request);
/* *done 1: it has ended, as by tri_wait. Never blocks. */
TRI_API tri_status tri_test(tri_world *world, tri_request request, int *done);

/* Post and wait. in = NULL of an all_reduce, reduce or broadcast: in place. */
TRI_API tri_status tri_send(tri_group *group, const void *in, int64_t count, tri_dtype dtype, int to, int tag);
TRI_API tri_status tri_recv(tri_group *group, void *out, int64_t count, tri_dtype dtype, int from, int tag);
TRI_API tri_status tri_broadcast(tri_group *group, void *data, int64_t count, tri_dtype dtype, int root);
TRI_API tri_status tri_all_reduce(tri_group *group, const void *in, void *out, int64_t count, tri_dtype dtype,
                                  tri_reduction reduction);
TRI_API tri_status tri_reduce(tri_group *group, const void *in, void *out, int64_t count, tri_dtype dtype,
                              tri_reduction reduction, int root);
TRI_API tri_status tri_all_gather(tri_group *group, const void *in, void *out, int64_t count, const int64_t *counts,
                                  tri_dtype dtype);
TRI_API tri_status tri_gather(tri_group *group, const void *in, void *out, int64_t count, const int64_t *counts,
                              tri_dtype dtype, int root);
TRI_API tri_status tri_scatter(tri_group *group, const void *in, void *out, int64_t count, const int64_t *counts,
                               tri_dtype dtype, int root);
TRI_API tri_status tri_reduce_scatter(tri_group *group, const void *in, void *out, int64_t count, const int64_t *counts,
                                      tri_dtype dtype, tri_reduction reduction);
TRI_API tri_status tri_all_to_all(tri_group *group, const void *in, void *out, int64_t count, tri_dtype dtype);
TRI_API tri_status tri_barrier(tri_group *group);

#ifdef __cplusplus
}
#endif
#endif
