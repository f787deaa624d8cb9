/* trident_comm.h - groups of ranks and their collectives: the public interface beneath a training session.
 *
 * A rank is one member of a job: a process or a thread. Each rank has its own tri_world, which no other thread may use.
 * Groups are ordered lists of ranks. tri_post starts an operation and tri_wait completes it; the blocking functions do
 * both. All members of a group must post the same collectives in the same order: descriptors are compared before any
 * data moves, and a mismatch is TRI_DISAGREE on all members.
 *
 * The first failure of any rank (an error, a crash, a hang, a mismatch) ends every wait on every rank with that rank's
 * status and text. Each element is reduced by one rank in group order, so results are bitwise reproducible regardless
 * of timing.
 *
 * Buffers from tri_heap_alloc are shared: peers read and write them directly. Any other memory works too, but is copied
 * through the heap (not when ranks are threads). examples/ranks.c is a complete program. */
#ifndef TRIDENT_COMM_H
#define TRIDENT_COMM_H

#include "trident.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tri_group tri_group;
typedef uint64_t tri_request;           /* a posted operation; 0: none */

#define TRI_DTYPES(X) /* name, name in programs, bytes per element */ \
    X(F32, f32, 4)      \
    X(F64, f64, 8)      \
    X(BF16, bf16, 2)    \
    X(F16, f16, 2)      \
    X(I32, i32, 4)      \
    X(I64, i64, 8)      \
    X(U8, u8, 1)        \
    X(I8, i8, 1)        \
    X(F8_E4M3, f8, 1)   \
    X(F8_E5M2, f8e5, 1)
typedef enum tri_dtype {
#define X(upper, lower, bytes) TRI_##upper,
    TRI_DTYPES(X)
#undef X
    TRI_DTYPE_COUNT
} tri_dtype;

/* f32, f64 and integers accumulate in their own type; bf16, f16 and f8 accumulate in f32 and are rounded once. Integers
 * wrap around, and their average is rounded towards zero. */
typedef enum tri_reduction { TRI_SUM, TRI_AVERAGE, TRI_MIN, TRI_MAX, TRI_PRODUCT, TRI_REDUCTION_COUNT } tri_reduction;

/* How ranks are started or joined. Zeroed members mean their defaults. */
typedef struct tri_ranks {
    int n;                      /* ranks to start */
    int forks;                  /* 0: threads of this process; 1: forks of it (call before starting any thread) */
    size_t heap_bytes;          /* limit of a rank's shared heap; 0: the machine's memory */
    double progress_timeout;    /* seconds without progress after which a rank counts as hung; 0: 30; at least 0.25 */
    double io_timeout;          /* seconds that one file call may take instead; 0: 600; at least 0.25 */
} tri_ranks;
typedef tri_status tri_rank_main(tri_world *world, void *argument);
/* Runs main on n ranks and waits for all of them. Returns TRI_OK if all did, else the first failure, with its text in
 * tri_error(). */
TRI_API tri_status tri_ranks_run(const tri_ranks *how, tri_rank_main *main, void *argument);
/* Joins the ranks that a launcher started. `lookup`, usually getenv, is called for RANK, WORLD_SIZE, LOCAL_RANK,
 * LOCAL_WORLD_SIZE and MASTER_PORT, and for the variables of Open MPI, MPICH and Slurm. Without a launcher the world
 * has one rank. */
TRI_API tri_status tri_world_join(const tri_ranks *how, char *(*lookup)(const char *name), tri_world **world);
/* Leaves the world. Peers that still wait for this rank get an error, so close after the last operation. Accepts
 * NULL. */
TRI_API void tri_world_close(tri_world *world);
TRI_API int tri_world_rank(const tri_world *world);
TRI_API int tri_world_size(const tri_world *world);
/* Reports that this rank has failed: every wait on every rank returns `status` and the text. If several ranks fail, the
 * first failure is kept. */
TRI_API void tri_world_fail(tri_world *world, tri_status status, const char *text);

TRI_API tri_status tri_heap_alloc(tri_world *world, size_t bytes, void **memory); /* zeroed, aligned to 4096 */
TRI_API void tri_heap_free(tri_world *world, void *memory);                      /* accepts NULL */

/* All ranks of the world, in order. Valid until the world is closed. */
TRI_API tri_group *tri_group_world(tri_world *world);
/* `ranks` lists the members in any order, each once, including this rank. Every member must make the group; groups of
 * the same ranks must be made in the same order on all of them. Does not block. Valid until the world is closed. */
TRI_API tri_status tri_group_make(tri_world *world, int n, const int *ranks, tri_group **group);
TRI_API int tri_group_rank(const tri_group *group); /* this rank's index in the group */
TRI_API int tri_group_size(const tri_group *group);

/* For each kind: the elements of `in` and `out` on member m of n. [counts m] is counts[m], or `count` if counts is
 * NULL; [all] is the sum over members. `in` may equal `out` where both hold the same elements; for gathers, `in` may be
 * this member's part of `out`; for scatters, `out` may be this member's part of `in`. Otherwise they must not
 * overlap. */
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
    TRI_ALL_TO_ALL,      /* in, out [n * count]: part k of in goes to member k, part k of out comes from it */
    TRI_BARRIER,
    TRI_COLLECTIVE_COUNT
} tri_collective_kind;

typedef struct tri_collective {
    tri_collective_kind kind;
    tri_dtype dtype;
    tri_reduction reduction;    /* reducing kinds only */
    int root;                   /* index in the group: the root, or the peer of a send or receive */
    int tag;                    /* must be equal for a send and its receive */
    const void *in;
    void *out;
    int64_t count;
    const int64_t *counts;      /* [n], the same on every member, read only during the call; or NULL */
} tri_collective;

/* Starts an operation, which owns its buffers until it has been waited for. TRI_USAGE for invalid arguments: nothing is
 * started. */
TRI_API tri_status tri_post(tri_group *group, const tri_collective *what, tri_request *request);
/* Completes an operation. Operations may be waited for in any order, each once (TRI_USAGE after that). */
TRI_API tri_status tri_wait(tri_world *world, tri_request request);
/* Like tri_wait, but never blocks: *done is 1 if the operation is complete, else 0. */
TRI_API tri_status tri_test(tri_world *world, tri_request request, int *done);

/* Blocking: post and wait. With in = NULL, all-reduce and reduce work in place on `out`. */
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
