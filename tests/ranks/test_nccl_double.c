/* test_nccl_double.c - the double of NCCL (tests/lib/nccl_double.h) without a GPU: results, the order of streams, what
 * it refuses, and how a group ends. Ranks are threads; once, processes. */
#include "tests/lib/nccl_host.h"
#include "tests/lib/nccl_double.h"
#include "tests/lib/test.h"

#include "base/clock.h"
#include "comm/ops/reduce.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 8, LARGE = 300000 };

typedef struct rank {
    int n, me;
    nccl_id id;
    nccl_comm *comm;
    gpu_stream *stream;
    pthread_t thread;
    void (*run)(struct rank *r);
} rank;

/* As cmocka's, but of a thread or process beside the test's own. */
#define give_out(...) (fprintf(stderr, __VA_ARGS__), fprintf(stderr, " (line %d)\n", __LINE__), abort())
#define must(...) \
    if (!(__VA_ARGS__)) give_out("not so: %s", #__VA_ARGS__)

/* ---- Jobs ---- */

static int outcome(rank *r, int error) {
    while (error == NCCL_IN_PROGRESS) {
        must(ncclCommGetAsyncError(r->comm, &error) == NCCL_OK);
        usleep(100);
    }
    return error;
}

static void join(rank *r) {
    const nccl_config config = {.size = sizeof config, .magic = 0xcafebeef, .version = 21400};
    r->stream = host_stream_open();
    int error = ncclCommInitRankConfig(&r->comm, r->n, r->id, r->me, &config);
    must(outcome(r, error) == NCCL_OK);
}

static void leave(rank *r) {
    host_stream_finish(r->stream);
    must(outcome(r, ncclCommFinalize(r->comm)) == NCCL_OK);
    must(ncclCommDestroy(r->comm) == NCCL_OK);
    host_stream_close(r->stream);
}

/* After an error: what was queued lets go of the stream. */
static void give_up(rank *r) {
    must(ncclCommAbort(r->comm) == NCCL_OK);
    host_stream_close(r->stream);
}

static void *thread(void *argument) {
    rank *r = argument;
    join(r);
    r->run(r);
    return NULL;
}

static void run(int n, void (*what)(rank *r)) {
    rank r[MOST];
    nccl_id id;
    must(ncclGetUniqueId(&id) == NCCL_OK);
    for (int k = 0; k < n; k++) {
        r[k] = (rank){.n = n, .me = k, .id = id, .run = what};
        must(pthread_create(&r[k].thread, NULL, thread, &r[k]) == 0);
    }
    for (int k = 0; k < n; k++) must(pthread_join(r[k].thread, NULL) == 0);
}

/* The state that a transfer ends in, within 10 s; then its words are *words. */
static int wait_error(rank *r, const char **words) {
    int state = NCCL_OK;
    for (double begun = tri__clock(); tri__clock() - begun < 10; usleep(200)) {
        must(ncclCommGetAsyncError(r->comm, &state) == NCCL_OK);
        if (state != NCCL_OK && state != NCCL_IN_PROGRESS) break;
    }
    *words = ncclGetLastError(r->comm);
    return state;
}

#define HAS(text, part) \
    if (!strstr(text, part)) give_out("\"%s\" does not say \"%s\"", text, part)

/* ---- Results ---- */

/* Element i of rank k: numbers whose sum depends on the order. */
static float value(int k, size_t i) { return (float)((i * 2654435761u + (unsigned)k * 40503u) % 10007) * 1.37e-3f - 5; }

static void fill(float *x, size_t n, int k) {
    for (size_t i = 0; i < n; i++) x[i] = value(k, i);
}

/* [count] elements that begin at `from`, summed over the ranks as the transports of the CPU do. */
static void expect_sum(const float *got, size_t from, size_t count, int n) {
    float *in[MOST], *sum = malloc((count + 1) * sizeof *sum);
    void *out = sum;
    for (int k = 0; k < n; k++) {
        in[k] = malloc((from + count + 1) * sizeof **in);
        fill(in[k], from + count, k);
        in[k] += from;
    }
    tri__reduce(TRI_F32, TRI_SUM, n, (const void *const *)in, 1, &out, (int64_t)count);
    must(!memcmp(got, sum, count * sizeof *sum));
    for (int k = 0; k < n; k++) free(in[k] - from);
    free(sum);
}

static void use(rank *r, int error) {
    error = outcome(r, error);
    if (error) give_out("rank %d: %s: %s", r->me, ncclGetErrorString(error), ncclGetLastError(r->comm));
}

static void reduce_all(rank *r, size_t count) {
    float *x = malloc((count + 1) * sizeof *x), *y = malloc((count + 1) * sizeof *y);
    fill(x, count, r->me);
    use(r, ncclAllReduce(x, y, count, NCCL_F32, NCCL_SUM, r->comm, r->stream));
    use(r, ncclReduce(x, r->me == r->n - 1 ? y + count : NULL, count ? 1 : 0, NCCL_F32, NCCL_SUM, r->n - 1, r->comm,
                      r->stream));
    host_stream_finish(r->stream);
    expect_sum(y, 0, count, r->n);
    if (r->me == r->n - 1 && count) expect_sum(y + count, 0, 1, r->n);
    use(r, ncclAllReduce(x, x, count, NCCL_F32, NCCL_SUM, r->comm, r->stream)); /* in place */
    host_stream_finish(r->stream);
    expect_sum(x, 0, count, r->n);
    free(x);
    free(y);
}

static void reduce_scatter(rank *r, size_t count) {
    size_t n = (size_t)r->n, me = (size_t)r->me;
    float *x = malloc((n * count + 1) * sizeof *x), *y = malloc((count + 1) * sizeof *y);
    fill(x, n * count, r->me);
    use(r, ncclReduceScatter(x, y, count, NCCL_F32, NCCL_SUM, r->comm, r->stream));
    use(r, ncclReduceScatter(x, x + me * count, count, NCCL_F32, NCCL_SUM, r->comm, r->stream));
    host_stream_finish(r->stream);
    expect_sum(y, me * count, count, r->n);
    expect_sum(x + me * count, me * count, count, r->n);
    free(x);
    free(y);
}

static void gather(rank *r, size_t count) {
    size_t n = (size_t)r->n, me = (size_t)r->me;
    float *x = malloc((count + 1) * sizeof *x), *y = malloc((n * count + 1) * sizeof *y);
    for (int in_place = 0; in_place < 2; in_place++) {
        float *from = in_place ? y + me * count : x;
        fill(from, count, r->me);
        use(r, ncclAllGather(from, y, count, NCCL_F32, r->comm, r->stream));
        host_stream_finish(r->stream);
        for (int k = 0; k < r->n; k++)
            for (size_t i = 0; i < count; i++)
                if (!(y[(size_t)k * count + i] == value(k, i))) give_out("gather: rank %d, element %zu", k, i);
    }
    use(r, ncclBroadcast(r->me == 0 ? (const float *)y : NULL, x, count, NCCL_F32, 0, r->comm, r->stream));
    host_stream_finish(r->stream);
    for (size_t i = 0; i < count; i++) must(x[i] == value(0, i));
    free(x);
    free(y);
}

/* Part k to rank k, its own part too. */
static void exchange(rank *r, size_t count) {
    size_t n = (size_t)r->n;
    float *x = malloc((n * count + 1) * sizeof *x), *y = malloc((n * count + 1) * sizeof *y);
    fill(x, n * count, r->me);
    for (int turn = 0; turn < 2; turn++) {
        must(ncclGroupStart() == NCCL_OK);
        for (int k = 0; k < r->n; k++) {
            must(ncclSend(x + (size_t)k * count, count, NCCL_F32, k, r->comm, r->stream) == NCCL_OK);
            must(ncclRecv(y + (size_t)k * count, count, NCCL_F32, k, r->comm, r->stream) == NCCL_OK);
        }
        use(r, ncclGroupEnd());
    }
    host_stream_finish(r->stream);
    for (int k = 0; k < r->n; k++)
        for (size_t i = 0; i < count; i++)
            if (!(y[(size_t)k * count + i] == value(k, (size_t)r->me * count + i))) give_out("exchange: from %d", k);
    free(x);
    free(y);
}

/* Shards of different lengths: a broadcast, or a sum, for each, in one group. */
static void uneven(rank *r) {
    float x[64], y[64];
    fill(x, 64, r->me);
    must(ncclGroupStart() == NCCL_OK);
    for (int k = 0, at = 0; k < r->n; at += k + 1, k++)
        must(ncclReduce(x + at, k == r->me ? y + at : NULL, (size_t)k + 1, NCCL_F32, NCCL_SUM, k, r->comm,
                                    r->stream) == NCCL_OK);
    use(r, ncclGroupEnd());
    must(ncclGroupStart() == NCCL_OK);
    for (int k = 0, at = 0; k < r->n; at += k + 1, k++)
        must(ncclBroadcast(y + at, y + at, (size_t)k + 1, NCCL_F32, k, r->comm, r->stream) == NCCL_OK);
    use(r, ncclGroupEnd());
    host_stream_finish(r->stream);
    expect_sum(y, 0, (size_t)(r->n * (r->n + 1) / 2), r->n);
}

static void other_types(rank *r) {
    int32_t most[3] = {r->me, -r->me, 7}, *in = most;
    uint16_t half = 0x3f80; /* 1 */
    use(r, ncclAllReduce(in, most, 3, NCCL_I32, NCCL_MAX, r->comm, r->stream));
    use(r, ncclAllReduce(&half, &half, 1, NCCL_BF16, NCCL_SUM, r->comm, r->stream));
    host_stream_finish(r->stream);
    must(most[0] == r->n - 1);
    must(most[1] == 0);
    must(half == (const uint16_t[]){0, 0x3f80, 0x4000, 0x4040, 0x4080, 0, 0, 0, 0x4100}[r->n]);
}

static void everything(rank *r) {
    static const size_t counts[] = {0, 1, 7, 4096, LARGE};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (counts[i] == LARGE && r->n > 4) continue;
        reduce_all(r, counts[i]);
        reduce_scatter(r, counts[i] / 4);
        gather(r, counts[i] / 4);
        exchange(r, counts[i] / 4);
    }
    uneven(r);
    other_types(r);
    leave(r);
}

/* Runs ranks 1 .. n - 1 in processes of their own, with RANK and NCCL_DOUBLE set, and rank 0 here. */
static void run_apart(int n, const char *fault, void (*what)(rank *r)) {
    nccl_id id;
    pid_t child[MOST];
    int status;
    must(ncclGetUniqueId(&id) == NCCL_OK);
    for (int k = 1; k < n; k++)
        if ((child[k] = fork()) == 0) {
            char text[16];
            snprintf(text, sizeof text, "%d", k);
            setenv("RANK", text, 1);
            setenv("NCCL_DOUBLE", fault, 1);
            rank r = {.n = n, .me = k, .id = id};
            alarm(60);
            join(&r);
            what(&r);
            _exit(0);
        }
    rank r = {.n = n, .me = 0, .id = id};
    join(&r);
    what(&r);
    for (int k = 1; k < n; k++) {
        must(waitpid(child[k], &status, 0) == child[k]);
        must(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    }
}

FIRST_TEST(processes_meet) { run_apart(3, "", everything); }

/* A rank that dies says nothing; the other can still leave. */
static void dies(rank *r) {
    float x = 1;
    use(r, ncclAllReduce(&x, &x, 1, NCCL_F32, NCCL_SUM, r->comm, r->stream));
    host_stream_finish(r->stream);
    if (r->me) raise(SIGKILL);
    use(r, ncclAllReduce(&x, &x, 1, NCCL_F32, NCCL_SUM, r->comm, r->stream));
    give_up(r);
}

FIRST_TEST(a_rank_dies) { run_apart(2, "", dies); }

/* The second operation of rank 1 is spoiled; all hear of it. */
static void spoiled(rank *r, int code, const char *said) {
    float x[4] = {0};
    const char *words;
    for (int i = 0; i < 3; i++) outcome(r, ncclAllReduce(x, x, 4, NCCL_F32, NCCL_SUM, r->comm, r->stream));
    must(wait_error(r, &words) == code);
    HAS(words, said);
    give_up(r);
}

static void spoils_count(rank *r) { spoiled(r, NCCL_USAGE, "of 3 x float32"); }
static void spoils_later(rank *r) { spoiled(r, NCCL_SYSTEM, "a fault that the test asked for, later"); }
static void spoils_end(rank *r) { spoiled(r, NCCL_SYSTEM, "has waited 0.5 s in all_reduce number 2"); }

static void spoils_call(rank *r) {
    float x[4] = {0};
    outcome(r, ncclAllReduce(x, x, 4, NCCL_F32, NCCL_SUM, r->comm, r->stream));
    host_stream_finish(r->stream);
    int error = ncclAllReduce(x, x, 4, NCCL_F32, NCCL_SUM, r->comm, r->stream);
    must(r->me ? error == NCCL_SYSTEM : error == NCCL_OK || error == NCCL_REMOTE /* it has left already */);
    const char *words;
    if (r->me) HAS(ncclGetLastError(NULL), "a fault that the test asked for");
    if (error == NCCL_OK) must(wait_error(r, &words) == NCCL_REMOTE); /* it stays: who left would be heard first */
    give_up(r);
}

FIRST_TEST(faults_spoil_an_operation) {
    run_apart(2, "fault=count rank=1 at=2", spoils_count);
    run_apart(2, "fault=async rank=1 at=2", spoils_later);
    run_apart(2, "fault=error rank=1 at=2", spoils_call);
    run_apart(2, "fault=stall rank=1 at=2 patience=0.5", spoils_end);
}

TEST(results_of_1) { run(1, everything); }
TEST(results_of_2) { run(2, everything); }
TEST(results_of_4) { run(4, everything); }
TEST(results_of_8) { run(8, everything); }

/* ---- Streams ---- */

static atomic_int may_come, has_looked;

/* The first rank's call returns and its stream waits; its host goes on. What comes before in the stream is sent, what
 * comes after sees the result. */
static void in_order(rank *r) {
    float x[4] = {9, 9, 9, 9}, y[4] = {0}, z[4] = {0};
    const float mine[4] = {1, 2, 3, (float)r->me};
    uint32_t there = 0;
    use(r, ncclAllReduce(x, x, 4, NCCL_F32, NCCL_SUM, r->comm, r->stream)); /* the first needs both hosts */
    if (r->me == 1)
        while (!atomic_load(&has_looked)) usleep(100);
    gpu_copy(x, mine, sizeof x, r->stream);
    use(r, ncclAllReduce(x, y, 4, NCCL_F32, NCCL_SUM, r->comm, r->stream));
    gpu_copy(z, y, sizeof z, r->stream);
    gpu_write(&there, 1, r->stream);
    if (r->me == 0) {
        usleep(50000);
        must(__atomic_load_n(&there, __ATOMIC_ACQUIRE) == 0);
        atomic_store(&has_looked, 1);
    }
    host_stream_finish(r->stream);
    must(z[0] == 2 && z[1] == 4 && z[2] == 6 && z[3] == 1);
    leave(r);
}

TEST(transfers_are_in_the_order_of_streams) {
    atomic_store(&has_looked, 0);
    run(2, in_order);
}

/* The next test, and that of inputs in flight, are of programs that race: ThreadSanitizer would say so. */
#ifdef __SANITIZE_THREAD__
#define SKIP_RACE() skip()
#else
#define SKIP_RACE() (void)0
#endif

/* What is read before it has come is not a number. */
static void too_early(rank *r) {
    float x[2] = {1, 2}, y[2] = {3, 4};
    uint32_t there = 0;
    use(r, ncclAllReduce(x, x, 2, NCCL_F32, NCCL_SUM, r->comm, r->stream));
    host_stream_finish(r->stream);
    if (r->me == 1)
        while (!atomic_load(&may_come)) usleep(100);
    if (r->me == 0) {
        use(r, ncclAllReduce(x, y, 1, NCCL_F32, NCCL_SUM, r->comm, r->stream));
        usleep(50000);
        uint32_t bits;
        __atomic_load((const uint32_t *)(const void *)&y[0], &bits, __ATOMIC_ACQUIRE);
        must(bits == UINT32_MAX);
        must(y[1] == 4); /* and no more than what will come */
        atomic_store(&may_come, 1);
    } else {
        use(r, ncclAllReduce(x, y, 1, NCCL_F32, NCCL_SUM, r->comm, r->stream));
    }
    gpu_write(&there, 1, r->stream);
    host_stream_finish(r->stream);
    must(y[0] == 4);
    leave(r);
}

TEST(outputs_are_poisoned_until_they_come) {
    SKIP_RACE();
    atomic_store(&may_come, 0);
    run(2, too_early);
}

/* A send ends when it has been received. */
static void sends(rank *r) {
    float x = 5, y = 0;
    uint32_t sent = 0;
    if (r->me == 0) use(r, ncclSend(&x, 1, NCCL_F32, 1, r->comm, r->stream));
    else use(r, ncclRecv(&y, 1, NCCL_F32, 0, r->comm, r->stream));
    host_stream_finish(r->stream);
    if (r->me == 0) {
        use(r, ncclSend(&x, 1, NCCL_F32, 1, r->comm, r->stream));
        gpu_write(&sent, 1, r->stream);
        usleep(50000);
        must(__atomic_load_n(&sent, __ATOMIC_ACQUIRE) == 0);
        atomic_store(&may_come, 1);
    } else {
        while (!atomic_load(&may_come)) usleep(100);
        use(r, ncclRecv(&y, 1, NCCL_F32, 0, r->comm, r->stream));
    }
    host_stream_finish(r->stream);
    must(r->me == 0 || y == 5);
    leave(r);
}

TEST(a_send_waits_for_its_receive) {
    atomic_store(&may_come, 0);
    run(2, sends);
}

/* ---- Errors ---- */

static void expect_words(rank *r, int code, const char *one, const char *other) {
    const char *words;
    must(wait_error(r, &words) == code);
    HAS(words, one);
    HAS(words, other);
    give_up(r);
}

static void other_count(rank *r) {
    static float x[MOST][8], y[MOST][8];
    ncclAllReduce(x[r->me], y[r->me], r->me == 2 ? 7 : 8, NCCL_F32, NCCL_SUM, r->comm, r->stream);
    expect_words(r, NCCL_USAGE, "all_reduce number 1 of 8 x float32, sum", "all_reduce number 1 of 7 x float32, sum");
}

static void other_type(rank *r) {
    static float x[MOST][8];
    ncclAllReduce(x[r->me], x[r->me], 4, r->me ? NCCL_I32 : NCCL_F32, NCCL_SUM, r->comm, r->stream);
    expect_words(r, NCCL_USAGE, "of 4 x float32", "of 4 x int32");
}

/* Two operations the other way round. */
static void other_order(rank *r) {
    static float x[MOST][8], y[MOST][8];
    for (int turn = 0; turn < 2; turn++) {
        if (turn == r->me % 2) ncclAllReduce(x[r->me], x[r->me], 8, NCCL_F32, NCCL_SUM, r->comm, r->stream);
        else ncclBroadcast(y[r->me], y[r->me], 8, NCCL_F32, 0, r->comm, r->stream);
    }
    expect_words(r, NCCL_USAGE, "all_reduce number 1", "broadcast number 1");
}

static void other_message(rank *r) {
    static float x[8], y[8];
    if (r->me == 0) ncclSend(x, 8, NCCL_F32, 1, r->comm, r->stream);
    else ncclRecv(y, 6, NCCL_F32, 0, r->comm, r->stream);
    expect_words(r, NCCL_USAGE, "recv number 1 of 6 x float32, peer 0", "send number 1 of 8 x float32, peer 1");
}

TEST(members_that_differ_are_told) {
    run(4, other_count);
    run(2, other_type);
    run(2, other_order);
    run(8, other_order);
    run(2, other_message);
}

/* The input changes while the other rank has not come. */
static void changes(rank *r) {
    static uint32_t x[MOST][4];
    gpu_stream *beside = host_stream_open();
    use(r, ncclAllReduce(x[r->me], x[r->me], 4, NCCL_I32, NCCL_SUM, r->comm, r->stream));
    host_stream_finish(r->stream);
    if (r->me == 0) {
        static uint32_t y[4];
        use(r, ncclAllReduce(x[0], y, 4, NCCL_I32, NCCL_SUM, r->comm, r->stream));
        usleep(50000);
        gpu_fill(x[0], 1, 4, beside);
        host_stream_finish(beside);
        atomic_store(&may_come, 1);
    } else {
        while (!atomic_load(&may_come)) usleep(100);
        ncclAllReduce(x[1], x[1], 4, NCCL_I32, NCCL_SUM, r->comm, r->stream);
        ncclAllReduce(x[1], x[1], 4, NCCL_I32, NCCL_SUM, r->comm, r->stream);
    }
    host_stream_close(beside);
    expect_words(r, NCCL_USAGE, "the input of rank 0's all_reduce number 2", "has changed while it was in flight");
}

TEST(inputs_in_flight_are_watched) {
    SKIP_RACE();
    atomic_store(&may_come, 0);
    run(2, changes);
}

static void refused(rank *r) {
    float x[8] = {0}, y[8];
    gpu_stream *other = host_stream_open();
    int error = ncclAllReduce(x, x + 1, 4, NCCL_F32, NCCL_SUM, r->comm, r->stream);
    must(error == NCCL_ARGUMENT);
    HAS(ncclGetLastError(NULL), "overlap");
    if (r->me) must(ncclAllGather(x, x, 4, NCCL_F32, r->comm, r->stream) == NCCL_ARGUMENT);
    use(r, ncclAllGather(x + r->me * 4, x, 4, NCCL_F32, r->comm, r->stream));
    must(ncclAllReduce(x, y, 4, NCCL_F32, NCCL_SUM, r->comm, other) == NCCL_USAGE);
    HAS(ncclGetLastError(NULL), "on another stream");
    must(ncclAllReduce(NULL, y, 4, NCCL_F32, NCCL_SUM, r->comm, r->stream) == NCCL_ARGUMENT);
    HAS(ncclGetLastError(NULL), "is not the GPU's");
    must(ncclAllReduce(x, y, 4, 77, NCCL_SUM, r->comm, r->stream) == NCCL_ARGUMENT);
    must(ncclSend(x, 4, NCCL_F32, 2, r->comm, r->stream) == NCCL_ARGUMENT);
    must(ncclGroupEnd() == NCCL_USAGE);
    must(ncclGroupStart() == NCCL_OK);
    ncclSend(x, 1, NCCL_F32, 0, r->comm, r->stream);
    ncclSend(x, 1, NCCL_F32, 0, r->comm, r->stream);
    must(ncclGroupEnd() == NCCL_USAGE);
    host_stream_close(other);
    leave(r);
}

TEST(wrong_calls_are_refused) { run(2, refused); }

/* One rank leaves while the others wait for it. */
static void goes(rank *r) {
    static float x[MOST];
    const char *words;
    int error = outcome(r, ncclAllReduce(&x[r->me], &x[r->me], 1, NCCL_F32, NCCL_SUM, r->comm, r->stream));
    must(error == NCCL_OK || (r->me != 1 && error == NCCL_REMOTE)); /* it may have left before they look */
    if (error == NCCL_OK) host_stream_finish(r->stream);
    if (r->me != 1) {
        ncclAllReduce(&x[r->me], &x[r->me], 1, NCCL_F32, NCCL_SUM, r->comm, r->stream);
        must(wait_error(r, &words) == NCCL_REMOTE);
        HAS(words, "rank 1 has left");
        must(ncclAllReduce(&x[r->me], &x[r->me], 1, NCCL_F32, NCCL_SUM, r->comm, r->stream) == NCCL_REMOTE);
    }
    give_up(r);
}

/* One rank ends the communicator, though another asks for more. */
static void ends(rank *r) {
    static float x[MOST];
    const char *words;
    use(r, ncclAllReduce(&x[r->me], &x[r->me], 1, NCCL_F32, NCCL_SUM, r->comm, r->stream));
    if (r->me == 0) {
        leave(r);
        return;
    }
    ncclAllReduce(&x[r->me], &x[r->me], 1, NCCL_F32, NCCL_SUM, r->comm, r->stream);
    must(wait_error(r, &words) == NCCL_REMOTE);
    HAS(words, r->n == 2 ? "rank 0 has left" : "has left");
    give_up(r);
}

TEST(those_who_wait_hear_who_left) {
    run(4, goes);
    run(2, ends);
    run(4, ends);
}

/* Groups of pairs are left by each rank in an order of its own: the end waits for nobody. */
static void ring(rank *r) {
    static nccl_id ids[MOST];
    static atomic_int made;
    rank to = {.n = 2, .me = 0}, from = {.n = 2, .me = 1};
    float x = (float)r->me, y = -1;
    must(ncclGetUniqueId(&ids[r->me]) == NCCL_OK);
    atomic_fetch_add(&made, 1);
    while (atomic_load(&made) < r->n) usleep(100);
    to.id = ids[r->me], from.id = ids[(r->me + r->n - 1) % r->n];
    for (int k = 0; k < 2; k++) join(k == r->me % 2 ? &to : &from);
    must(ncclRecv(&y, 1, NCCL_F32, 0, from.comm, from.stream) != NCCL_USAGE);
    must(ncclSend(&x, 1, NCCL_F32, 1, to.comm, to.stream) != NCCL_USAGE);
    leave(&to);
    leave(&from);
    must(y == (float)((r->me + r->n - 1) % r->n));
    leave(r);
}

TEST(rings_are_left_in_any_order) { run(4, ring); }

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
