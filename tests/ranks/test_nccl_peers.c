/* test_nccl_peers.c - transfers among GPUs (src/device/cuda/runtime/nccl.c) without a GPU, over the double of NCCL: the
 * part of CUDA that this file needs stands here, with streams that are threads. Ranks are threads. */
#include "tests/lib/nccl_host.h"
#include "tests/lib/test.h"

#include "device/device.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

/* ---- Of CUDA, and of cuda.h ---- */

#define TRI_DEVICE_CUDA_RUNTIME_CUDA_H /* with headers of CUDA: not needed here */
enum { cudaSuccess, cudaErrorMemoryAllocation = 2, cudaErrorNotReady = 600 };
enum { cudaEventDisableTiming = 2, cudaStreamNonBlocking = 1 };
typedef int cudaError_t;
typedef gpu_stream *cudaStream_t;
typedef struct event {
    uint32_t word, times; /* reached; recorded */
} *cudaEvent_t;

typedef struct tri_cuda {
    cudaStream_t compute;
    const tri_core *core;
    struct tri_nccl *nccl;
    struct {
        cudaEvent_t begin, end;
    } *posted;
    int n_posted, marking;
    cudaEvent_t ready;
    cudaError_t error;
} tri_cuda;

static void tri__cuda_note(tri_cuda *c, cudaError_t error, const char *where) {
    (void)where;
    if (error && !c->error) c->error = error;
}

static void tri__cuda_time(tri_cuda *c, cudaEvent_t begin, cudaEvent_t end, tri_time *time) {
    (void)c, (void)begin, (void)end, (void)time;
}

static cudaError_t cudaMalloc(void **out, size_t bytes) { return *out = malloc(bytes), cudaSuccess; }
static void cudaFree(void *memory) { free(memory); }
static cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, int flags) {
    return (void)flags, *s = host_stream_open(), cudaSuccess;
}
static void cudaStreamDestroy(cudaStream_t s) { host_stream_close(s); }
static cudaError_t cudaStreamQuery(cudaStream_t s) { return host_stream_finish(s), cudaSuccess; }
static cudaError_t cudaEventCreate(cudaEvent_t *e) {
    return (*e = calloc(1, sizeof **e)) ? cudaSuccess : cudaErrorMemoryAllocation;
}
static cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, int flags) { return (void)flags, cudaEventCreate(e); }
static void cudaEventDestroy(cudaEvent_t e) { free(e); }
static cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) { return gpu_write(&e->word, ++e->times, s); }
static cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, int flags) {
    return (void)flags, gpu_wait(&e->word, e->times, s);
}

/* The double stands in this program; in place of the library that is loaded. */
static void *symbol_of(const char *name);
#define dlopen(name, flags) ((void *)name)
#define dlsym(library, name) symbol_of(name)
#define nccl_id plugin_id
#define nccl_comm plugin_comm
#define nccl_config plugin_config
/* Its functions, which cuda.h declares. */
tri_status tri__nccl_name(void *context, char *name);
tri_status tri__nccl_join(void *context, const char *name, int n, int me, int oneway, const tri_wait_poll *poll,
                          void **group);
void tri__nccl_leave(void *context, void *const *groups, int n, int abort);
tri_status tri__nccl_check(void *context, void *group);
void tri__nccl_post(void *context, void *group, const tri_collective *what, int number);
void tri__nccl_wait(void *context, int number);
void tri__nccl_time(void *context, int number, tri_time *time);
void tri__nccl_close(tri_cuda *cuda);
#undef fail /* cmocka's */
#include "device/cuda/runtime/nccl.c"
#undef nccl_id
#undef nccl_comm
#undef nccl_config
#undef NCCL_FUNCTIONS

#define SYMBOLS(X) \
    X(GetUniqueId) \
    X(CommInitRankConfig) \
    X(CommGetAsyncError) \
    X(CommFinalize) \
    X(CommDestroy) \
    X(CommAbort) \
    X(GroupStart) \
    X(GroupEnd) \
    X(AllReduce) \
    X(AllGather) \
    X(ReduceScatter) \
    X(Broadcast) \
    X(Reduce) \
    X(Send) \
    X(Recv) \
    X(GetErrorString) \
    X(GetLastError)
#define X(name) extern char nccl##name[];
SYMBOLS(X)
#undef X

static void *symbol_of(const char *name) {
#define X(one) \
    if (!strcmp(name, "nccl" #one)) return nccl##one;
    SYMBOLS(X)
#undef X
    return NULL;
}

/* ---- Ranks ---- */

enum { N = 4, TURNS = 40, VALUES = 32 };
#define give_out(...) (fprintf(stderr, __VA_ARGS__), fprintf(stderr, " (line %d)\n", __LINE__), abort())
#define must(...) \
    if (!(__VA_ARGS__)) give_out("not so: %s", #__VA_ARGS__)

static char names[1 + N][TRI_GROUP_NAME]; /* of all ranks; of the pair that begins at each */
static pthread_barrier_t all;
static atomic_int gives_up;               /* 1: as a rank that has heard of another's failure */

static tri_status ask(void *argument) {
    (void)argument;
    usleep(10);
    return atomic_load(&gives_up) ? TRI_STOPPED : TRI_OK;
}

static const tri_wait_poll poll = {.ask = ask};

typedef struct rank {
    int me, previous;
    tri_cuda cuda;
    void *group[3]; /* all; the pair to the next rank; that from the previous one */
    void (*run)(struct rank *r);
    pthread_t thread;
} rank;

static void join_groups(rank *r) {
    tri_cuda *c = &r->cuda;
    if (r->me == 0) must(tri__nccl_name(c, names[0]) == TRI_OK);
    must(tri__nccl_name(c, names[1 + r->me]) == TRI_OK);
    pthread_barrier_wait(&all);
    must(tri__nccl_join(c, names[0], N, r->me, 0, &poll, &r->group[0]) == TRI_OK);
    for (int k = 0; k < 2; k++) { /* both ends of a pair at once */
        int to = k == r->me % 2;
        must(tri__nccl_join(c, names[1 + (to ? r->me : r->previous)], 2, !to, 1, &poll, &r->group[to ? 1 : 2]) ==
             TRI_OK);
    }
}

static void *thread(void *argument) {
    rank *r = argument;
    r->cuda.core = &tri__core;
    r->cuda.compute = host_stream_open();
    join_groups(r);
    r->run(r);
    host_stream_close(r->cuda.compute);
    tri__nccl_close(&r->cuda);
    must(r->cuda.error == cudaSuccess);
    return NULL;
}

static void run(void (*what)(rank *r)) {
    rank r[N] = {0};
    pthread_barrier_init(&all, NULL, N);
    for (int k = 0; k < N; k++) {
        r[k] = (rank){.me = k, .previous = (k + N - 1) % N, .run = what};
        must(pthread_create(&r[k].thread, NULL, thread, &r[k]) == 0);
    }
    for (int k = 0; k < N; k++) must(pthread_join(r[k].thread, NULL) == 0);
    pthread_barrier_destroy(&all);
}

/* Every kind of transfer, queued as programs do, without a wait of the host. */
static void transfers(rank *r, int turn) {
    static const int64_t counts[N] = {3, 5, 0, 4}, even[N] = {8, 8, 8, 8};
    tri_cuda *c = &r->cuda;
    float x[VALUES], sum[VALUES] = {0}, shard[VALUES] = {0}, whole[VALUES] = {0}, rows[8], turned[8], got = -1;
    float sent = (float)(r->me * 100 + turn);
    int32_t most = r->me;
    const tri_collective post[] = {
        {.kind = TRI_ALL_REDUCE, .dtype = TRI_F32, .in = x, .out = sum, .count = VALUES},
        {.kind = TRI_REDUCE_SCATTER, .dtype = TRI_F32, .in = sum, .out = shard, .counts = counts},
        {.kind = TRI_ALL_GATHER, .dtype = TRI_F32, .in = shard, .out = whole, .counts = counts},
        {.kind = TRI_ALL_TO_ALL, .dtype = TRI_F32, .in = rows, .out = turned, .count = 2},
        {.kind = TRI_ALL_REDUCE, .reduction = TRI_MAX, .dtype = TRI_F32, .in = &most, .out = &most, .count = 1},
        {.kind = TRI_REDUCE_SCATTER, .dtype = TRI_F32, .in = x, .out = x + 8 * r->me, .counts = even},
        {.kind = TRI_ALL_GATHER, .dtype = TRI_F32, .in = x + 8 * r->me, .out = x, .counts = even},
        {.kind = TRI_BROADCAST, .dtype = TRI_F32, .in = x, .out = x, .count = 1, .root = 2},
    };
    const int n = sizeof post / sizeof *post;
    for (int i = 0; i < VALUES; i++) x[i] = (float)(r->me + i);
    for (int i = 0; i < 8; i++) rows[i] = (float)(r->me * 100 + i);
    tri__nccl_post(c, r->group[2],
                   &(tri_collective){.kind = TRI_RECV, .dtype = TRI_F32, .out = &got, .count = 1, .root = 0}, n);
    tri__nccl_post(c, r->group[1],
                   &(tri_collective){.kind = TRI_SEND, .dtype = TRI_F32, .in = &sent, .count = 1, .root = 1}, n + 1);
    for (int i = 0; i < n; i++) {
        tri__nccl_post(c, r->group[0], &post[i], i);
        tri__nccl_wait(c, i);
    }
    tri__nccl_wait(c, n);
    tri__nccl_wait(c, n + 1);
    host_stream_finish(c->compute);
    for (int k = 0; k < 3; k++) must(tri__nccl_check(c, r->group[k]) == TRI_OK);
    for (int i = 0; i < VALUES; i++) must(sum[i] == (float)(N * i + 6) && (i == 0 || x[i] == sum[i]));
    for (int i = 0; i < 12; i++) must(whole[i] == N * sum[i]);
    for (int i = 0; i < 8; i++) must(turned[i] == (float)(i / 2 * 100 + r->me * 2 + i % 2));
    must(got == (float)(r->previous * 100 + turn) && most == N - 1);
}

static void in_turn(rank *r) {
    for (int turn = 0; turn < TURNS; turn++) transfers(r, turn);
    double begun = tri__clock();
    tri__nccl_leave(&r->cuda, r->group, 3, 0);
    must(tri__clock() - begun < 4); /* not the time limit of ranks that wait for each other */
}

TEST(transfers_of_every_kind) { run(in_turn); }

/* A rank asks for another length: all ranks hear of it. */
static void differs(rank *r) {
    float x[8] = {0};
    tri_status status = TRI_OK;
    transfers(r, 0);
    tri__nccl_post(&r->cuda, r->group[0],
                   &(tri_collective){.kind = TRI_ALL_REDUCE, .dtype = TRI_F32, .in = x, .out = x,
                                     .count = r->me == 2 ? 7 : 8}, 0);
    for (double begun = tri__clock(); status == TRI_OK && tri__clock() - begun < 10; usleep(200))
        status = tri__nccl_check(&r->cuda, r->group[0]);
    must(status == TRI_INTERNAL);
    must(strstr(tri_error(), "NCCL cannot go on with a transfer: invalid usage; rank "));
    must(strstr(tri_error(), " of 7 x float32, sum") && strstr(tri_error(), " of 8 x float32, sum"));
    tri__nccl_leave(&r->cuda, r->group, 3, 1);
}

TEST(ranks_that_differ) { run(differs); }

/* One rank does not come: the others leave in bounded time, and what was queued lets go of their streams. */
static void stays_away(rank *r) {
    float x = 1;
    transfers(r, 0);
    if (r->me) {
        tri__nccl_post(&r->cuda, r->group[0],
                       &(tri_collective){.kind = TRI_ALL_REDUCE, .dtype = TRI_F32, .in = &x, .out = &x, .count = 1}, 0);
        tri__nccl_wait(&r->cuda, 0);
    }
    pthread_barrier_wait(&all);
    double begun = tri__clock();
    tri__nccl_leave(&r->cuda, r->group, 3, 1);
    must(tri__clock() - begun < 4);
}

TEST(a_rank_stays_away) { run(stays_away); }

/* A group of which a member never comes is given up as soon as another rank's failure is known. */
TEST(a_group_is_given_up) {
    tri_cuda c = {.core = &tri__core};
    char name[TRI_GROUP_NAME];
    void *group;
    must(tri__nccl_name(&c, name) == TRI_OK);
    atomic_store(&gives_up, 1);
    must(tri__nccl_join(&c, name, 2, 0, 0, &poll, &group) == TRI_STOPPED);
    must(group == NULL);
    atomic_store(&gives_up, 0);
    tri__nccl_close(&c);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
