/* nccl_double.h - a double of NCCL for ranks that share one GPU, or none: the functions of nccl.h that the CUDA plug-in
 * calls, over memory that processes share. It keeps NCCL's promises (an operation takes effect in the order of its
 * stream, groups start together, communicators need not block) and checks what NCCL does not:
 *
 *   - all members of a communicator ask for the same operations in the same order (kind, count, type, reduction, root),
 *     and a send for what its receive expects
 *   - a communicator stays on one stream; buffers are the device's, and do not overlap but in place
 *   - what is sent does not change until it has been; what is to be received is not a number until it has been
 *   - a send ends only when it has been received, and the first use of a connection needs both hosts
 *
 * An error has words, which all members of the communicator get. Sums are in the order of ranks, by the functions of
 * Trident's own transports, so that they have the bits of these.
 *
 * NCCL_DOUBLE="fault=KIND rank=R at=N patience=SECONDS", in the environment, makes rank R (of the job: RANK) spoil the
 * N-th operation of each communicator: KIND is count (it asks for one element less), error (the call fails), async (the
 * communicator does, later) or stall (it never ends). An operation that waits longer than `patience` fails, and says
 * for what. */
#ifndef TESTS_NCCL_DOUBLE_H
#define TESTS_NCCL_DOUBLE_H

#include "tests/lib/nccl_gpu.h"

/* As in nccl.h. */
enum { NCCL_OK, NCCL_GPU_ERROR, NCCL_SYSTEM, NCCL_INTERNAL, NCCL_ARGUMENT, NCCL_USAGE, NCCL_REMOTE, NCCL_IN_PROGRESS };
enum { NCCL_I8, NCCL_U8, NCCL_I32, NCCL_U32, NCCL_I64, NCCL_U64, NCCL_F16, NCCL_F32, NCCL_F64, NCCL_BF16 };
enum { NCCL_SUM, NCCL_PRODUCT, NCCL_MAX, NCCL_MIN, NCCL_AVERAGE };
typedef struct nccl_id {
    char bytes[128];
} nccl_id;
typedef struct nccl_comm nccl_comm;
typedef struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking; /* 0: calls return NCCL_IN_PROGRESS. A NULL configuration blocks, too */
} nccl_config;

#define NCCL_API __attribute__((visibility("default")))
NCCL_API int ncclGetVersion(int *version);
NCCL_API int ncclGetUniqueId(nccl_id *id);
NCCL_API int ncclCommInitRankConfig(nccl_comm **comm, int n, nccl_id id, int me, const nccl_config *config);
NCCL_API int ncclCommGetAsyncError(nccl_comm *comm, int *state);
NCCL_API int ncclCommFinalize(nccl_comm *comm);
NCCL_API int ncclCommDestroy(nccl_comm *comm);
NCCL_API int ncclCommAbort(nccl_comm *comm);
NCCL_API int ncclGroupStart(void);
NCCL_API int ncclGroupEnd(void);
NCCL_API int ncclAllReduce(const void *in, void *out, size_t count, int type, int how, nccl_comm *comm, gpu_stream *s);
NCCL_API int ncclAllGather(const void *in, void *out, size_t count, int type, nccl_comm *comm, gpu_stream *s);
NCCL_API int ncclReduceScatter(const void *in, void *out, size_t count, int type, int how, nccl_comm *comm,
                               gpu_stream *s);
NCCL_API int ncclBroadcast(const void *in, void *out, size_t count, int type, int root, nccl_comm *comm, gpu_stream *s);
NCCL_API int ncclReduce(const void *in, void *out, size_t count, int type, int how, int root, nccl_comm *comm,
                        gpu_stream *s);
NCCL_API int ncclSend(const void *in, size_t count, int type, int peer, nccl_comm *comm, gpu_stream *s);
NCCL_API int ncclRecv(void *out, size_t count, int type, int peer, nccl_comm *comm, gpu_stream *s);
NCCL_API const char *ncclGetErrorString(int error);
NCCL_API const char *ncclGetLastError(nccl_comm *comm);

#endif
