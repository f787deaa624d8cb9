/* test_messages.c - sends and receives; misuse, which is refused before anything starts; peers that leave; failures
 * while other operations are in flight. */
#include "base/clock.h"
#include "base/status.h"
#include "comm/world/segment.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "tests/lib/test.h"
#include "tests/lib/comm_cases.h"

static tri_status run_ranks(int n, int forks, tri_rank_main *body, void *argument) {
    tri_ranks how = {.n = n, .forks = forks, .heap_bytes = 8 << 20};
    return tri_ranks_run(&how, body, argument);
}

static void run_well(int n, int forks, tri_rank_main *body, void *argument) {
    tri_status status = run_ranks(n, forks, body, argument);
    if (status != TRI_OK)
        fail_msg("%d ranks as %s: status %d: %s", n, forks ? "processes" : "threads", (int)status, tri_error());
}

static int32_t value(int from, int to, int k, int64_t i) {
    return (int32_t)(from * 1000003 + to * 10007 + k * 101 + i);
}

static const int64_t counts[] = {0, 1, 64, 65, 100, 5000, 100000};
enum { COUNTS = sizeof counts / sizeof *counts };

/* Round a ring, in memory of one's own and in the heap. */
static tri_status ring(tri_world *world, void *argument) {
    (void)argument;
    int n = tri_world_size(world), me = tri_world_rank(world), next = (me + 1) % n, before = (me + n - 1) % n;
    tri_group *group = tri_group_world(world);
    for (int k = 0; k < 2 * COUNTS; k++) {
        int64_t count = counts[k % COUNTS];
        size_t bytes = (size_t)count * 4 + 4;
        int32_t *in, *out = malloc(bytes);
        if (k % 2) TRI_TRY(tri_heap_alloc(world, bytes, (void **)&in));
        else in = malloc(bytes);
        for (int64_t i = 0; i < count; i++) in[i] = value(me, next, k, i);
        tri_collective send = {.kind = TRI_SEND, .dtype = TRI_I32, .root = next, .tag = k, .in = in, .count = count};
        tri_request request;
        TRI_TRY(tri_post(group, &send, &request));
        TRI_TRY(tri_recv(group, out, count, TRI_I32, before, k));
        TRI_TRY(tri_wait(world, request));
        for (int64_t i = 0; i < count; i++)
            if (out[i] != value(before, me, k, i))
                return tri__fail(TRI_INTERNAL, "message %d of %lld: wrong at %lld", k, (long long)count, (long long)i);
        if (k % 2) tri_heap_free(world, in);
        else free(in);
        free(out);
    }
    return TRI_OK;
}

TEST(messages_round_a_ring) {
    for (int n = 2; n <= 5; n++) run_well(n, 0, ring, NULL);
    run_well(2, 1, ring, NULL);
    run_well(4, 1, ring, NULL);
}

/* More sends than entries; received in order, waited for in the other; in two groups whose messages do not mix. */
static tri_status many(tri_world *world, void *argument) {
    (void)argument;
    enum { MANY = 3 * TRI_SEGMENT_PAIR_ENTRIES };
    int me = tri_world_rank(world), swapped[] = {1, 0}, data[2][MANY];
    tri_request request[2][MANY];
    tri_group *group[2] = {tri_group_world(world)};
    TRI_TRY(tri_group_make(world, 2, swapped, &group[1]));
    for (int i = 0; i < MANY; i++)
        for (int g = 0; g < 2; g++) {
            int peer = 1 - tri_group_rank(group[g]);
            tri_collective what = {.kind = me ? TRI_RECV : TRI_SEND,
                                   .dtype = TRI_I32,
                                   .root = peer,
                                   .tag = g,
                                   .in = &data[g][i],
                                   .out = &data[g][i],
                                   .count = 1};
            data[g][i] = me ? -1 : 1000 * g + i;
            TRI_TRY(tri_post(group[g], &what, &request[g][i]));
        }
    for (int i = MANY; i-- > 0;)
        for (int g = 0; g < 2; g++) {
            TRI_TRY(tri_wait(world, request[g][i]));
            if (data[g][i] != 1000 * g + i)
                return tri__fail(TRI_INTERNAL, "message %d of group %d: got %d", i, g, data[g][i]);
        }
    return TRI_OK;
}

TEST(more_than_the_entries_hold) {
    run_well(2, 0, many, NULL);
    run_well(2, 1, many, NULL);
}

/* A rank that only posts, and looks at what its peer has taken, never waits. */
static tri_status post_only(tri_world *world, void *argument) {
    enum { MANY = 3 * TRI_SEGMENT_PAIR_ENTRIES };
    _Atomic int *taken = argument;
    tri_group *group = tri_group_world(world);
    int32_t data[MANY];
    tri_request request[MANY];
    for (int i = 0; i < MANY && tri_world_rank(world); i++, ++*taken)
        TRI_TRY(tri_recv(group, &data[i], 1, TRI_I32, 0, 0));
    if (tri_world_rank(world)) return TRI_OK;
    for (int i = 0; i < MANY; i++) {
        tri_collective send = {.kind = TRI_SEND, .dtype = TRI_I32, .root = 1, .in = &data[i], .count = 1};
        double begun = tri__clock();
        while (*taken <= i - TRI_SEGMENT_PAIR_ENTRIES && tri__clock() - begun < 20) sched_yield();
        if (*taken <= i - TRI_SEGMENT_PAIR_ENTRIES)
            return tri__fail(TRI_INTERNAL, "the peer has taken %d messages of %d", *taken, i);
        data[i] = i;
        TRI_TRY(tri_post(group, &send, &request[i]));
    }
    for (int i = 0; i < MANY; i++) TRI_TRY(tri_wait(world, request[i]));
    return TRI_OK;
}

/* Posting a send makes room for it: a receiver does not wait for its sender to wait for something. */
TEST(posting_is_enough) {
    _Atomic int taken = 0;
    run_well(2, 0, post_only, &taken);
}

/* A collective between a send's two ends does not hold it up: a wait moves everything. */
static tri_status crossed(tri_world *world, void *argument) {
    (void)argument;
    int me = tri_world_rank(world), peer = 1 - me;
    tri_group *group = tri_group_world(world);
    static const int64_t count = 5000;
    int32_t *in = calloc((size_t)count, 4), *out = calloc((size_t)count, 4);
    tri_collective operation[3] = {{.kind = TRI_SEND, .dtype = TRI_I32, .root = peer, .in = in, .count = count},
                                   {.kind = TRI_RECV, .dtype = TRI_I32, .root = peer, .out = out, .count = count},
                                   {.kind = TRI_BARRIER}};
    tri_request request[3];
    for (int k = 0; k < 3; k++) {
        int which = me ? 2 - k : k;
        TRI_TRY(tri_post(group, &operation[which], &request[which]));
    }
    for (int k = 0; k < 3; k++) TRI_TRY(tri_wait(world, request[me ? k : 2 - k]));
    free(in);
    free(out);
    return TRI_OK;
}

TEST(waits_in_any_order) {
    run_well(2, 0, crossed, NULL);
    run_well(2, 1, crossed, NULL);
}

/* ---- Misuse ---- */

static tri_status refused(tri_status got, const char *what) {
    return got == TRI_USAGE ? TRI_OK : tri__fail(TRI_INTERNAL, "%s: status %d, not TRI_USAGE", what, (int)got);
}

static tri_status refused_post(tri_group *group, tri_collective what, const char *which) {
    tri_request request = 99;
    TRI_TRY(refused(tri_post(group, &what, &request), which));
    return request == 0 ? TRI_OK : tri__fail(TRI_INTERNAL, "%s left a request", which);
}

static tri_status refuse_operations(tri_group *group) {
    float a[64], b[64];
    int64_t negative[] = {1, -1}, huge[] = {INT64_MAX, INT64_MAX}, some[] = {1, 2};
    int me = tri_group_rank(group);
    tri_collective good = {.kind = TRI_ALL_REDUCE, .dtype = TRI_F32, .in = a, .out = b, .count = 8}, bad = good;
    TRI_TRY(refused(tri_post(NULL, &good, &(tri_request){0}), "no group"));
    TRI_TRY(refused(tri_post(group, NULL, &(tri_request){0}), "no operation"));
    TRI_TRY(refused(tri_post(group, &good, NULL), "no request"));
    TRI_TRY(refused_post(group, (bad = good, bad.kind = TRI_COLLECTIVE_COUNT, bad), "kind"));
    TRI_TRY(refused_post(group, (bad = good, bad.kind = (tri_collective_kind)-1, bad), "kind below 0"));
    TRI_TRY(refused_post(group, (bad = good, bad.dtype = TRI_DTYPE_COUNT, bad), "dtype"));
    TRI_TRY(refused_post(group, (bad = good, bad.reduction = TRI_REDUCTION_COUNT, bad), "reduction"));
    TRI_TRY(refused_post(group, (bad = good, bad.count = -1, bad), "count"));
    TRI_TRY(refused_post(group, (bad = good, bad.count = INT64_MAX, bad), "huge count"));
    TRI_TRY(refused_post(group, (bad = good, bad.in = NULL, bad), "no input"));
    TRI_TRY(refused_post(group, (bad = good, bad.out = NULL, bad), "no output"));
    TRI_TRY(refused_post(group, (bad = good, bad.out = a + 1, bad), "overlap"));
    TRI_TRY(refused_post(group, (bad = good, bad.in = (char *)a + 1, bad), "not aligned"));
    TRI_TRY(refused_post(group, (bad = good, bad.counts = some, bad), "counts of an all_reduce"));
    TRI_TRY(refused_post(group, (bad = good, bad.kind = TRI_REDUCE, bad.root = 2, bad), "root"));
    TRI_TRY(refused_post(group, (bad = good, bad.kind = TRI_BROADCAST, bad.root = -1, bad), "root below 0"));
    TRI_TRY(
        refused_post(group, (bad = good, bad.kind = TRI_ALL_GATHER, bad.counts = negative, bad), "negative counts"));
    TRI_TRY(refused_post(group, (bad = good, bad.kind = TRI_ALL_GATHER, bad.counts = huge, bad), "huge counts"));
    TRI_TRY(refused_post(group, (bad = good, bad.kind = TRI_ALL_GATHER, bad.in = b + 8 * (1 - me), bad),
                         "another's part of the output"));
    TRI_TRY(refused_post(group, (bad = good, bad.kind = TRI_SEND, bad.root = me, bad), "send to itself"));
    TRI_TRY(refused_post(group, (bad = good, bad.kind = TRI_RECV, bad.root = 5, bad), "receive from nobody"));
    return refused(tri_send(group, NULL, 3, TRI_F32, 1 - me, 0), "send of nothing");
}

static tri_status refuse_groups(tri_world *world) {
    tri_group *group;
    int twice[] = {0, 0}, foreign[] = {1 - tri_world_rank(world)}, outside[] = {0, 2}, three[] = {0, 1, 2};
    TRI_TRY(refused(tri_group_make(world, 2, twice, &group), "a rank twice"));
    TRI_TRY(refused(tri_group_make(world, 1, foreign, &group), "a group without this rank"));
    TRI_TRY(refused(tri_group_make(world, 2, outside, &group), "a rank that does not exist"));
    TRI_TRY(refused(tri_group_make(world, 3, three, &group), "more ranks than there are"));
    TRI_TRY(refused(tri_group_make(world, 0, three, &group), "no ranks"));
    TRI_TRY(refused(tri_group_make(world, 1, NULL, &group), "no list"));
    return refused(tri_group_make(NULL, 1, three, &group), "no world");
}

static tri_status refuse_requests(tri_world *world, tri_group *group) {
    int done;
    float x = 1, y;
    tri_collective what = {.kind = TRI_ALL_REDUCE, .dtype = TRI_F32, .in = &x, .out = &y, .count = 1};
    tri_request request, second;
    TRI_TRY(tri_post(group, &what, &request));
    TRI_TRY(refused(tri_post(group, &what, &second), "a buffer that belongs to an operation under way"));
    TRI_TRY(refused(tri_wait(world, 0), "wait for 0"));
    TRI_TRY(refused(tri_wait(world, request + 1), "a foreign request"));
    TRI_TRY(refused(tri_wait(world, request + 2000), "a request of the future"));
    TRI_TRY(refused(tri_wait(NULL, request), "no world"));
    TRI_TRY(refused(tri_test(world, request, NULL), "no answer"));
    TRI_TRY(tri_wait(world, request));
    TRI_TRY(refused(tri_wait(world, request), "waited for twice"));
    TRI_TRY(refused(tri_test(world, request, &done), "tested after a wait"));
    return y == 2 ? TRI_OK : tri__fail(TRI_INTERNAL, "1 + 1 is %g", (double)y);
}

/* Only one rank misuses: nothing began, so the other notices nothing. */
static tri_status misuse(tri_world *world, void *argument) {
    (void)argument;
    tri_group *group = tri_group_world(world);
    for (int who = 0; who < 2; who++) {
        if (tri_world_rank(world) == who) {
            TRI_TRY(refuse_operations(group));
            TRI_TRY(refuse_groups(world));
        }
        TRI_TRY(refuse_requests(world, group));
        comm_case one = {.what = {.kind = TRI_ALL_GATHER, .dtype = TRI_F64, .count = 700}, .seed = 3};
        TRI_TRY(comm_run(world, group, &one));
    }
    return TRI_OK;
}

TEST(misuse_is_refused_and_nothing_began) {
    run_well(2, 0, misuse, NULL);
    run_well(2, 1, misuse, NULL);
}

/* ---- Peers that leave ---- */

static tri_status left_alone(tri_world *world, void *argument) {
    int kind = *(const int *)argument, data[2000] = {0};
    if (tri_world_rank(world) == 1) return TRI_OK;
    tri_collective what = {
        .kind = (tri_collective_kind)kind, .dtype = TRI_I32, .root = 1, .in = data, .out = data, .count = 2000};
    tri_request request;
    TRI_TRY(tri_post(tri_group_world(world), &what, &request));
    return tri_wait(world, request);
}

TEST(a_peer_that_left_ends_the_wait) {
    static const int kinds[] = {TRI_SEND, TRI_RECV, TRI_ALL_REDUCE, TRI_BARRIER};
    for (size_t i = 0; i < 8; i++) {
        double begin = tri__clock();
        assert_int_equal(run_ranks(2, i % 2, left_alone, (void *)(uintptr_t)&kinds[i / 2]), TRI_DISAGREE);
        assert_non_null(strstr(tri_error(), "rank 1: left"));
        assert_true(tri__clock() - begin < 5);
    }
}

static tri_status leaves_early(tri_world *world, void *argument) {
    (void)argument;
    static float data[2][4];
    tri_collective what = {.kind = TRI_ALL_REDUCE,
                           .dtype = TRI_F32,
                           .in = data[tri_world_rank(world)],
                           .out = data[tri_world_rank(world)],
                           .count = 4};
    tri_request request;
    TRI_TRY(tri_post(tri_group_world(world), &what, &request));
    return tri_world_rank(world) ? TRI_OK : tri_wait(world, request);
}

TEST(leaving_with_operations_under_way_is_a_failure) {
    assert_int_equal(run_ranks(2, 0, leaves_early, NULL), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "not waited for"));
    assert_non_null(strstr(tri_error(), "all_reduce sum f32 x 4"));
}

/* ---- Failures while others are at work: buffers are the caller's again when a wait has returned ---- */

/* Given back to the system, so that a late reader or writer dies. */
enum { MUCH = 2 << 20 }; /* elements */
static float *map_much(void) {
    return mmap(NULL, MUCH * sizeof(float), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
}

static tri_status fails_meanwhile(tri_world *world, void *argument) {
    int round = *(const int *)argument;
    double begin;
    int me = tri_world_rank(world), n = tri_world_size(world);
    float *data = map_much(), *message = map_much();
    if (data == MAP_FAILED || message == MAP_FAILED) return tri__fail(TRI_RESOURCE, "no memory");
    tri_collective what = {.kind = TRI_ALL_REDUCE, .dtype = TRI_F32, .in = data, .out = data, .count = MUCH};
    tri_collective pass = {.kind = me == n - 1 ? TRI_SEND : TRI_RECV,
                           .dtype = TRI_F32,
                           .root = me ? 0 : n - 1,
                           .in = message,
                           .out = message,
                           .count = MUCH};
    tri_request request[2];
    tri_status status = tri_barrier(tri_group_world(world));
    for (int k = 0; k < 2 && status == TRI_OK; k++) {
        int which = (k + round) % 2;
        if (!which) status = tri_post(tri_group_world(world), &what, &request[0]);
        else if (me != 1) status = tri_post(tri_group_world(world), &pass, &request[1]);
    }
    for (begin = tri__clock(); me == n - 1 && tri__clock() - begin < 1e-4 * (round / 2);) {}
    if (me == n - 1) tri_world_fail(world, TRI_IO, "the disk is full");
    if (status == TRI_OK) status = tri_wait(world, request[0]);
    if (status == TRI_OK && me != 1) status = tri_wait(world, request[1]);
    munmap(data, MUCH * sizeof *data);
    munmap(message, MUCH * sizeof *message);
    return tri_barrier(tri_group_world(world));
}

TEST(nobody_touches_buffers_after_a_failure) {
    for (int round = 0; round < 40; round++) {
        assert_int_equal(run_ranks(3, 0, fails_meanwhile, &round), TRI_IO);
        assert_non_null(strstr(tri_error(), "rank 2: the disk is full"));
    }
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
