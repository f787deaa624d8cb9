/* nccl.c - transfers among GPUs by NCCL, which is loaded when a group is first made: a run on one GPU does without it.
 *
 * A transfer is queued on the stream of communication, after the kernels queued so far; its wait holds back the kernels that follow, never
 * the host. Sums are NCCL's own: not in rank order, so that other numbers of ranks may round otherwise. */
#include "device/cuda/cuda.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* nccl.h's own, as far as it is used: the header need not be there to build. */
typedef struct nccl_id {
    char bytes[TRI_GROUP_NAME];
} nccl_id;
typedef struct nccl_comm nccl_comm;
enum { NCCL_SUM = 0 };

#define NCCL_FUNCTIONS(X)                                                                                                                  \
    X(GetUniqueId, (nccl_id *))                                                                                                            \
    X(CommInitRank, (nccl_comm **, int, nccl_id, int))                                                                                     \
    X(CommDestroy, (nccl_comm *))                                                                                                          \
    X(CommAbort, (nccl_comm *))                                                                                                            \
    X(GroupStart, (void))                                                                                                                  \
    X(GroupEnd, (void))                                                                                                                    \
    X(AllReduce, (const void *, void *, size_t, int, int, nccl_comm *, cudaStream_t))                                                      \
    X(AllGather, (const void *, void *, size_t, int, nccl_comm *, cudaStream_t))                                                           \
    X(ReduceScatter, (const void *, void *, size_t, int, int, nccl_comm *, cudaStream_t))                                                  \
    X(Broadcast, (const void *, void *, size_t, int, int, nccl_comm *, cudaStream_t))                                                      \
    X(Reduce, (const void *, void *, size_t, int, int, int, nccl_comm *, cudaStream_t))                                                    \
    X(Send, (const void *, size_t, int, int, nccl_comm *, cudaStream_t))                                                                   \
    X(Recv, (void *, size_t, int, int, nccl_comm *, cudaStream_t))

typedef struct tri_nccl {
#define X(name, arguments) int(*name) arguments;
    NCCL_FUNCTIONS(X)
#undef X
    const char *(*GetErrorString)(int);
} tri_nccl;

typedef struct group {
    nccl_comm *comm;
    int n, me;
} group;

static tri_status load(tri_cuda *c) {
    if (c->nccl) return TRI_OK;
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return c->core->fail(TRI_USAGE, "several ranks on GPUs need NCCL, which does not load (%s): install libnccl2, or name its folder in "
                             "LD_LIBRARY_PATH", dlerror());
    tri_nccl *nccl = calloc(1, sizeof *nccl);
    if (!nccl) return c->core->fail(TRI_RESOURCE, "out of memory");
    int missing = 0;
#define X(name, arguments) missing |= !(*(void **)&nccl->name = dlsym(library, "nccl" #name));
    NCCL_FUNCTIONS(X)
#undef X
    missing |= !(*(void **)&nccl->GetErrorString = dlsym(library, "ncclGetErrorString"));
    if (!missing) return c->nccl = nccl, TRI_OK;
    free(nccl);
    return c->core->fail(TRI_USAGE, "libnccl.so.2 lacks functions of NCCL 2.7 or later: install a newer one");
}

static tri_status fail(tri_cuda *c, int error, const char *what) {
    return c->core->fail(TRI_INTERNAL, "NCCL cannot %s: %s", what, c->nccl->GetErrorString(error));
}

tri_status tri__nccl_name(void *context, char *name) {
    tri_cuda *c = context;
    nccl_id id;
    TRI_TRY(load(c));
    int error = c->nccl->GetUniqueId(&id);
    if (error) return fail(c, error, "name a group");
    memcpy(name, id.bytes, sizeof id.bytes);
    return TRI_OK;
}

tri_status tri__nccl_join(void *context, const char *name, int n, int me, void **out) {
    tri_cuda *c = context;
    nccl_id id;
    *out = NULL;
    TRI_TRY(load(c));
    group *g = calloc(1, sizeof *g);
    if (!g) return c->core->fail(TRI_RESOURCE, "out of memory");
    *g = (group){.n = n, .me = me};
    memcpy(id.bytes, name, sizeof id.bytes);
    int error = c->nccl->CommInitRank(&g->comm, n, id, me);
    if (!error && !c->ready) error = cudaEventCreateWithFlags(&c->ready, cudaEventDisableTiming) != cudaSuccess;
    if (error) {
        free(g);
        return fail(c, error, "make a group");
    }
    *out = g;
    return TRI_OK;
}

void tri__nccl_leave(void *context, void *out, int abort) {
    tri_cuda *c = context;
    group *g = out;
    if (!g) return;
    if (abort) c->nccl->CommAbort(g->comm);
    else c->nccl->CommDestroy(g->comm);
    free(g);
}

void tri__nccl_close(tri_cuda *c) {
    for (int i = 0; i < c->n_posted; i++) cudaEventDestroy(c->posted[i].begin), cudaEventDestroy(c->posted[i].end);
    if (c->ready) cudaEventDestroy(c->ready);
    free(c->posted);
    free(c->nccl);
}

/* ncclDataType_t */
static int type_of(tri_dtype dtype) {
    switch (dtype) {
    case TRI_F32: return 7;
    case TRI_BF16: return 9;
    case TRI_F16: return 6;
    case TRI_F64: return 8;
    case TRI_I32: return 2;
    case TRI_I64: return 4;
    default: return 1; /* bytes */
    }
}

static int are_equal(const int64_t *counts, int n) {
    for (int i = 1; i < n; i++)
        if (counts[i] != counts[0]) return 0;
    return 1;
}

/* Shards of unequal length: one broadcast, or one sum, for each. */
static int gather_uneven(const tri_cuda *c, const group *g, const tri_collective *w, int type, size_t width) {
    char *to = w->out;
    int error = c->nccl->GroupStart();
    for (int k = 0; k < g->n && !error; to += (size_t)w->counts[k] * width, k++)
        if (w->counts[k]) error = c->nccl->Broadcast(k == g->me ? w->in : to, to, (size_t)w->counts[k], type, k, g->comm, c->comm);
    int end = c->nccl->GroupEnd();
    return error ? error : end;
}

static int scatter_uneven(const tri_cuda *c, const group *g, const tri_collective *w, int type, size_t width) {
    const char *from = w->in;
    int error = c->nccl->GroupStart();
    for (int k = 0; k < g->n && !error; from += (size_t)w->counts[k] * width, k++)
        if (w->counts[k]) error = c->nccl->Reduce(from, k == g->me ? w->out : NULL, (size_t)w->counts[k], type, NCCL_SUM, k, g->comm, c->comm);
    int end = c->nccl->GroupEnd();
    return error ? error : end;
}

static int queue(const tri_cuda *c, const group *g, const tri_collective *w) {
    const tri_nccl *nccl = c->nccl;
    int type = type_of(w->dtype);
    size_t count = (size_t)(w->counts ? w->counts[g->me] : w->count), width = tri__dtype_bytes(w->dtype);
    int even = !w->counts || are_equal(w->counts, g->n);
    switch (w->kind) {
    case TRI_ALL_REDUCE: return nccl->AllReduce(w->in, w->out, count, type, NCCL_SUM, g->comm, c->comm);
    case TRI_BROADCAST: return nccl->Broadcast(w->in, w->out, count, type, w->root, g->comm, c->comm);
    case TRI_SEND: return nccl->Send(w->in, count, type, w->root, g->comm, c->comm);
    case TRI_RECV: return nccl->Recv(w->out, count, type, w->root, g->comm, c->comm);
    case TRI_ALL_GATHER:
        return even ? nccl->AllGather(w->in, w->out, count, type, g->comm, c->comm) : gather_uneven(c, g, w, type, width);
    case TRI_REDUCE_SCATTER:
        return even ? nccl->ReduceScatter(w->in, w->out, count, type, NCCL_SUM, g->comm, c->comm) : scatter_uneven(c, g, w, type, width);
    default: return -1;
    }
}

static int has_event(tri_cuda *c, int number) {
    if (number < c->n_posted) return 1;
    int n = number + 1 + number / 2;
    void *more = realloc(c->posted, (size_t)n * sizeof *c->posted);
    if (!more) return 0;
    c->posted = more;
    for (; c->n_posted < n; c->n_posted++) {
        if (cudaEventCreate(&c->posted[c->n_posted].begin) != cudaSuccess) break;
        if (cudaEventCreate(&c->posted[c->n_posted].end) == cudaSuccess) continue;
        cudaEventDestroy(c->posted[c->n_posted].begin);
        break;
    }
    return number < c->n_posted;
}

void tri__nccl_post(void *context, void *to, const tri_collective *what, int number) {
    tri_cuda *c = context;
    if (!has_event(c, number)) {
        tri__cuda_note(c, cudaErrorMemoryAllocation, "a transfer's event");
        return;
    }
    tri__cuda_note(c, cudaEventRecord(c->ready, c->compute), "a transfer");
    tri__cuda_note(c, cudaStreamWaitEvent(c->comm, c->ready, 0), "a transfer");
    if (c->marking) tri__cuda_note(c, cudaEventRecord(c->posted[number].begin, c->comm), "a transfer");
    if (queue(c, to, what)) tri__cuda_note(c, cudaErrorUnknown, "a transfer of NCCL");
    tri__cuda_note(c, cudaEventRecord(c->posted[number].end, c->comm), "a transfer");
}

void tri__nccl_wait(void *context, int number) {
    tri_cuda *c = context;
    if (number < c->n_posted) tri__cuda_note(c, cudaStreamWaitEvent(c->compute, c->posted[number].end, 0), "a transfer's wait");
}

void tri__nccl_time(void *context, int number, tri_time *time) {
    tri_cuda *c = context;
    if (number < c->n_posted) tri__cuda_time(c, c->posted[number].begin, c->posted[number].end, time);
}
