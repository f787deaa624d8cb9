/* trident_comm.h - groups of ranks and their collectives: the public interface below a training session.
 *
 * A rank is one member of a job: a process, or a thread, with its own tri_world, which no other thread uses. Groups are
 * ordered lists of ranks. Operations are posted and waited for; the blocking forms do both in one call. All members of
 * a group post the same collectives in the same order; descriptors are compared before any data moves, and a
 * difference is TRI_DISAGREE on all of them.
 *
 * The first failure of any rank (an error, a death, a hang, a mismatch) ends every wait of every rank with that rank's
 * status and text. Each element is reduced in the group's order in one place, so results are bitwise the same whatever
 * the timing.
 *
 * Buffers from tri_heap_alloc are shared: peers read and write them directly. Any other memory works too and is copied
 * through the heap (between threads there is no difference). examples/ranks.c is a whole program. */
#ifndef TRIDENT_COMM_H
#define TRIDENT_COMM_H

#include "trident.h"

#ifdef __cplusplus
extern "C" {
#endif

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
    int forks; /* 0: threads of this process; 1: forks of it; call before it starts threads */
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
