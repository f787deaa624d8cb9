/* nccl.c - transfers among GPUs by NCCL, which is loaded when a group is first made: a run on one GPU does not need
 * it.
 *
 * A transfer is queued on its group's stream, after the kernels queued so far; its wait delays the kernels that follow,
 * never the host. Sums are NCCL's: not in rank order, so that other numbers of ranks may round differently.
 *
 * Communicators are nonblocking: a call that depends on other ranks (making a group, the first use of a connection,
 * leaving) returns while a thread of NCCL works on it, and is polled until it is done or poll returns an error. */
#include "device/cuda/runtime/cuda.h"

#include <dlfcn.h>
#include <time.h>

/* The declarations of nccl.h that are used: the header is not needed to build. */
typedef struct nccl_id {
    char bytes[TRI_GROUP_NAME];
} nccl_id;
typedef struct nccl_comm nccl_comm;
typedef struct nccl_config { /* as of 2.14: later versions use defaults for newer fields */
    size_t size;
    unsigned magic, version;
    int blocking;
} nccl_config;
enum {
    NCCL_SUM = 0,
    NCCL_MAX = 2,
    NCCL_INT32 = 2,
    NCCL_INT64 = 4,
    NCCL_SUCCESS = 0,
    NCCL_CUDA = 1,
    NCCL_INTERNAL = 3,
    NCCL_IN_PROGRESS = 7
};
static const double LEAVE_SECONDS = 5; /* nothing is lost then: all transfers were waited for */

#define NCCL_FUNCTIONS(X) \
    X(GetUniqueId, (nccl_id *)) \
    X(CommInitRankConfig, (nccl_comm **, int, nccl_id, int, nccl_config *)) \
    X(CommGetAsyncError, (nccl_comm *, int *)) \
    X(CommFinalize, (nccl_comm *)) \
    X(CommDestroy, (nccl_comm *)) \
    X(CommAbort, (nccl_comm *)) \
    X(GroupStart, (void)) \
    X(GroupEnd, (void)) \
    X(AllReduce, (const void *, void *, size_t, int, int, nccl_comm *, cudaStream_t)) \
    X(AllGather, (const void *, void *, size_t, int, nccl_comm *, cudaStream_t)) \
    X(ReduceScatter, (const void *, void *, size_t, int, int, nccl_comm *, cudaStream_t)) \
    X(Broadcast, (const void *, void *, size_t, int, int, nccl_comm *, cudaStream_t)) \
    X(Reduce, (const void *, void *, size_t, int, int, int, nccl_comm *, cudaStream_t)) \
    X(Send, (const void *, size_t, int, int, nccl_comm *, cudaStream_t)) \
    X(Recv, (void *, size_t, int, int, nccl_comm *, cudaStream_t))

typedef struct tri_nccl {
#define X(name, arguments) int(*name) arguments;
    NCCL_FUNCTIONS(X)
#undef X
    const char *(*GetErrorString)(int), *(*GetLastError)(nccl_comm *);
} tri_nccl;

typedef struct group {
    nccl_comm *comm;
    cudaStream_t stream;
    int n, me;
    const tri_wait_poll *poll;
    int error;                 /* the first of a transfer; no more are queued then */
    tri_status ended;          /* poll's error; TRI_OK */
} group;

static tri_status load(tri_cuda *c) {
    if (c->nccl) return TRI_OK;
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return c->core->fail(
            TRI_USAGE,
            "several ranks on GPUs need NCCL, which does not load (%s): install libnccl2, or name its folder in "
            "LD_LIBRARY_PATH",
            dlerror());
    tri_nccl *nccl = calloc(1, sizeof *nccl);
    if (!nccl) return c->core->fail(TRI_RESOURCE, "out of memory");
    int missing = 0;
#define X(name, arguments) missing |= !(*(void **)&nccl->name = dlsym(library, "nccl" #name));
    NCCL_FUNCTIONS(X)
#undef X
    missing |= !(*(void **)&nccl->GetErrorString = dlsym(library, "ncclGetErrorString"));
    missing |= !(*(void **)&nccl->GetLastError = dlsym(library, "ncclGetLastError"));
    if (!missing) return c->nccl = nccl, TRI_OK;
    free(nccl);
    return c->core->fail(TRI_USAGE, "libnccl.so.2 lacks functions of NCCL 2.14 or later: install a newer one");
}

static tri_status fail(const tri_cuda *c, int error, nccl_comm *comm, const char *what) {
    const char *more = c->nccl->GetLastError(comm);
    return c->core->fail(TRI_INTERNAL, "NCCL cannot %s: %s%s%s", what, c->nccl->GetErrorString(error),
                         more && *more ? "; " : "", more ? more : "");
}

/* The result of a call that may still be in progress. */
static int outcome(const tri_cuda *c, group *g, int error) {
    while (error == NCCL_SUCCESS || error == NCCL_IN_PROGRESS) {
        int state = NCCL_SUCCESS;
        error = c->nccl->CommGetAsyncError(g->comm, &state);
        if (error == NCCL_SUCCESS && state != NCCL_IN_PROGRESS) return state;
        if (error == NCCL_SUCCESS && (g->ended = g->poll->ask(g->poll->argument)) != TRI_OK) return NCCL_INTERNAL;
    }
    return error;
}

tri_status tri__nccl_name(void *context, char *name) {
    tri_cuda *c = context;
    nccl_id id;
    TRI_TRY(load(c));
    int error = c->nccl->GetUniqueId(&id);
    if (error) return fail(c, error, NULL, "name a group");
    memcpy(name, id.bytes, sizeof id.bytes);
    return TRI_OK;
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

/* Performs the setup of a pair's first transfer: connections need both ends at once, and within a step one host would
 * wait for the other. */
static int connect_pair(const tri_cuda *c, group *g) {
    void *byte = NULL;
    cudaError_t state = cudaErrorNotReady;
    if (cudaMalloc(&byte, 1) != cudaSuccess) return NCCL_CUDA;
    int error = g->me == 0 ? c->nccl->Send(byte, 1, type_of(TRI_U8), 1, g->comm, g->stream)
                           : c->nccl->Recv(byte, 1, type_of(TRI_U8), 0, g->comm, g->stream);
    error = outcome(c, g, error);
    while (!error && (state = cudaStreamQuery(g->stream)) == cudaErrorNotReady)
        if ((g->ended = g->poll->ask(g->poll->argument)) != TRI_OK) error = NCCL_INTERNAL;
    if (error) return error; /* the byte may still be in use: it is leaked until the process ends */
    cudaFree(byte);
    return state == cudaSuccess ? NCCL_SUCCESS : NCCL_CUDA;
}

static void free_group(group *g) {
    if (g->stream) cudaStreamDestroy(g->stream);
    free(g);
}

tri_status tri__nccl_join(void *context, const char *name, int n, int me, int oneway, const tri_wait_poll *poll,
                          void **out) {
    tri_cuda *c = context;
    nccl_id id;
    nccl_config config = {.size = sizeof config, .magic = 0xcafebeef, .version = 21400, .blocking = 0};
    *out = NULL;
    TRI_TRY(load(c));
    group *g = calloc(1, sizeof *g);
    if (!g) return c->core->fail(TRI_RESOURCE, "out of memory");
    *g = (group){.n = n, .me = me, .poll = poll};
    memcpy(id.bytes, name, sizeof id.bytes);
    int error = c->nccl->CommInitRankConfig(&g->comm, n, id, me, &config);
    if (g->comm) error = outcome(c, g, error);
    if (!error && !c->ready && cudaEventCreateWithFlags(&c->ready, cudaEventDisableTiming) != cudaSuccess)
        error = NCCL_CUDA;
    if (!error && cudaStreamCreateWithFlags(&g->stream, cudaStreamNonBlocking) != cudaSuccess) error = NCCL_CUDA;
    if (!error && oneway) error = connect_pair(c, g);
    if (!error) return *out = g, TRI_OK;
    tri_status status = g->ended != TRI_OK ? g->ended : fail(c, error, g->comm, "make a group");
    if (g->comm) c->nccl->CommAbort(g->comm);
    free_group(g);
    return status;
}

/* A group being left in a separate thread: a transfer of one may be stuck behind that of another. */
typedef struct leaving {
    const tri_cuda *cuda;
    group *group;
    pthread_t thread;
} leaving;

static void *abort_group(void *argument) {
    const leaving *l = argument;
    l->cuda->nccl->CommAbort(l->group->comm);
    return NULL;
}

/* A thread that does not return in time is abandoned until the process ends. */
static void abort_groups(const tri_cuda *c, void *const *groups, int n) {
    leaving *all = calloc((size_t)n, sizeof *all);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)LEAVE_SECONDS;
    for (int i = 0; i < n && all; i++) {
        all[i] = (leaving){.cuda = c, .group = groups[i]};
        if (pthread_create(&all[i].thread, NULL, abort_group, &all[i])) all[i].group = NULL;
    }
    int back = 1;
    for (int i = 0; i < n && all; i++) {
        if (!all[i].group) continue;
        if (pthread_timedjoin_np(all[i].thread, NULL, &until) == 0) free_group(all[i].group);
        else back = 0;
    }
    if (back) free(all);
}

static int is_over(const tri_cuda *c, group *g, double begun) {
    int state = NCCL_SUCCESS, error = c->nccl->CommGetAsyncError(g->comm, &state);
    return error || state != NCCL_IN_PROGRESS || g->poll->ask(g->poll->argument) != TRI_OK ||
           tri__clock() - begun > LEAVE_SECONDS;
}

/* Members leave together or, after a timeout, alone. */
void tri__nccl_leave(void *context, void *const *groups, int n, int abort) {
    tri_cuda *c = context;
    double begun = tri__clock();
    int clean = !abort;
    for (int i = 0; i < n && clean; i++) {
        group *g = groups[i];
        int state = c->nccl->CommFinalize(g->comm);
        if (state == NCCL_SUCCESS || state == NCCL_IN_PROGRESS) {
            while (!is_over(c, g, begun)) {}
            if (c->nccl->CommGetAsyncError(g->comm, &state) != NCCL_SUCCESS) state = NCCL_INTERNAL;
        }
        clean = state == NCCL_SUCCESS;
    }
    if (!clean) {
        abort_groups(c, groups, n);
        return;
    }
    for (int i = 0; i < n; i++) {
        group *g = groups[i];
        c->nccl->CommDestroy(g->comm);
        free_group(g);
    }
}

tri_status tri__nccl_check(void *context, void *of) {
    tri_cuda *c = context;
    group *g = of;
    int state = NCCL_SUCCESS;
    if (g->ended != TRI_OK) return TRI_OK; /* another rank's failure, which is known */
    if (!g->error && (g->error = c->nccl->CommGetAsyncError(g->comm, &state)) == NCCL_SUCCESS &&
        state != NCCL_IN_PROGRESS)
        g->error = state;
    return g->error ? fail(c, g->error, g->comm, "go on with a transfer") : TRI_OK;
}

void tri__nccl_close(tri_cuda *c) {
    for (int i = 0; i < c->n_posted; i++) cudaEventDestroy(c->posted[i].begin), cudaEventDestroy(c->posted[i].end);
    if (c->ready) cudaEventDestroy(c->ready);
    free(c->posted);
    free(c->nccl);
}

static int are_equal(const int64_t *counts, int n) {
    for (int i = 1; i < n; i++)
        if (counts[i] != counts[0]) return 0;
    return 1;
}

/* Shards of unequal length: one broadcast, or one sum, for each. */
static int each_shard(const tri_cuda *c, const group *g, const tri_collective *w, int type, size_t width, int gathers) {
    const char *from = w->in;
    char *to = w->out;
    size_t at = 0;
    int error = c->nccl->GroupStart();
    for (int k = 0; k < g->n && !error; at += (size_t)w->counts[k++] * width) {
        size_t count = (size_t)w->counts[k];
        if (count && gathers)
            error = c->nccl->Broadcast(k == g->me ? w->in : to + at, to + at, count, type, k, g->comm, g->stream);
        else if (count)
            error = c->nccl->Reduce(from + at, k == g->me ? w->out : NULL, count, type, NCCL_SUM, k, g->comm,
                                    g->stream);
    }
    int end = c->nccl->GroupEnd();
    return error ? error : end;
}

/* Part k of `in` to member k; this member's own part too. */
static int exchange(const tri_cuda *c, const group *g, const tri_collective *w, int type, size_t width) {
    size_t count = (size_t)w->count, bytes = count * width;
    int error = c->nccl->GroupStart();
    for (int k = 0; k < g->n && !error && count; k++) {
        const char *from = (const char *)w->in + (size_t)k * bytes;
        error = c->nccl->Send(from, count, type, k, g->comm, g->stream);
        if (!error) error = c->nccl->Recv((char *)w->out + (size_t)k * bytes, count, type, k, g->comm, g->stream);
    }
    int end = c->nccl->GroupEnd();
    return error ? error : end;
}

static int queue(const tri_cuda *c, const group *g, const tri_collective *w) {
    const tri_nccl *nccl = c->nccl;
    int type = type_of(w->dtype);
    size_t count = (size_t)(w->counts ? w->counts[g->me] : w->count), width = tri__dtype_bytes(w->dtype);
    int even = !w->counts || are_equal(w->counts, g->n);
    switch (w->kind) {
    case TRI_ALL_REDUCE:
        /* Maxima are of sizes (row_max, lamb_refresh): as integers these have the same order, and NaN, which NCCL would
         * drop, wins. */
        return w->reduction == TRI_MAX
                   ? nccl->AllReduce(w->in, w->out, count, w->dtype == TRI_F64 ? NCCL_INT64 : NCCL_INT32, NCCL_MAX,
                                     g->comm, g->stream)
                   : nccl->AllReduce(w->in, w->out, count, type, NCCL_SUM, g->comm, g->stream);
    case TRI_BROADCAST: return nccl->Broadcast(w->in, w->out, count, type, w->root, g->comm, g->stream);
    case TRI_SEND: return nccl->Send(w->in, count, type, w->root, g->comm, g->stream);
    case TRI_RECV: return nccl->Recv(w->out, count, type, w->root, g->comm, g->stream);
    case TRI_ALL_GATHER:
        return even ? nccl->AllGather(w->in, w->out, count, type, g->comm, g->stream)
                    : each_shard(c, g, w, type, width, 1);
    case TRI_REDUCE_SCATTER:
        return even ? nccl->ReduceScatter(w->in, w->out, count, type, NCCL_SUM, g->comm, g->stream)
                    : each_shard(c, g, w, type, width, 0);
    case TRI_ALL_TO_ALL: return exchange(c, g, w, type, width);
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
    group *g = to;
    if (!has_event(c, number)) {
        tri__cuda_note(c, cudaErrorMemoryAllocation, "a transfer's event");
        return;
    }
    tri__cuda_note(c, cudaEventRecord(c->ready, c->compute), "a transfer");
    tri__cuda_note(c, cudaStreamWaitEvent(g->stream, c->ready, 0), "a transfer");
    if (c->marking) tri__cuda_note(c, cudaEventRecord(c->posted[number].begin, g->stream), "a transfer");
    if (!g->error && g->ended == TRI_OK)
        g->error = outcome(c, g, queue(c, g, what)); /* launched: the event below follows it */
    tri__cuda_note(c, cudaEventRecord(c->posted[number].end, g->stream), "a transfer");
}

void tri__nccl_wait(void *context, int number) {
    tri_cuda *c = context;
    if (number < c->n_posted)
        tri__cuda_note(c, cudaStreamWaitEvent(c->compute, c->posted[number].end, 0), "a transfer's wait");
}

void tri__nccl_time(void *context, int number, tri_time *time) {
    tri_cuda *c = context;
    if (number < c->n_posted) tri__cuda_time(c, c->posted[number].begin, c->posted[number].end, time);
}
