/* test_relay.c - collectives of groups with several members on a host: the bits of shared memory for every placement of
 * ranks; through a host's card exactly the bytes that layout/hosts.h counts, which are the fewest of both ways; a rank
 * that fails in the middle leaves nobody's buffers in use. Hosts are segments of this process, linked by
 * fake_remote.h. */
#include "base/clock.h"
#include "comm/link/link.h"
#include "comm/world/group.h"
#include "layout/hosts.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/collective_program.h"
#include "tests/lib/fake_remote.h"
#include "comm/ops/describe.h"

enum { HEAP = 48 << 20 };

typedef struct job job;
typedef tri_status act(tri_world *world, job *job);

struct job {
    int n, node_of[FAKE_RANKS], local_of[FAKE_RANKS], hosts;
    fake_hub hub;
    tri_segment segment[FAKE_RANKS];
    tri_nodes nodes;
    act *act;
    tri_collective what;               /* of act_one */
    uint64_t digest[FAKE_RANKS];
    tri_status status[FAKE_RANKS];
    char words[FAKE_RANKS][400];
};

typedef struct one {
    job *job;
    int rank;
} one;

static void *rank_thread(void *context) {
    one *me = context;
    job *job = me->job;
    int rank = me->rank;
    tri_world *world;
    tri_status status = tri__world_open(&job->segment[job->node_of[rank]], job->local_of[rank], &job->nodes,
                                        &fake_remote, &job->hub.state[rank], &world);
    if (status == TRI_OK) status = job->act(world, job);
    if (status != TRI_OK) snprintf(job->words[rank], sizeof job->words[0], "%s", tri_error());
    if (status != TRI_OK && world) tri_world_fail(world, status, tri_error());
    job->status[rank] = status;
    tri_world_close(world);
    return NULL;
}

/* A rank for each digit of `placement`: its host. */
static job *make_job(const char *placement, act *act) {
    job *job = calloc(1, sizeof *job);
    job->n = (int)strlen(placement), job->act = act;
    fake_hub_open(&job->hub, job->n);
    for (int r = 0; r < job->n; r++) {
        job->node_of[r] = placement[r] - '0';
        if (job->node_of[r] >= job->hosts) job->hosts = job->node_of[r] + 1;
    }
    for (int h = 0; h < job->hosts; h++) {
        int ranks[FAKE_RANKS], n = 0;
        for (int r = 0; r < job->n; r++)
            if (job->node_of[r] == h) job->local_of[r] = n, ranks[n++] = r;
        tri_segment_spec spec = {
            .n = n, .world = job->n, .world_rank = ranks, .heap_bytes = HEAP, .progress_timeout = 20, .flat = 1};
        assert_int_equal(tri__segment_create(&spec, &job->segment[h]), TRI_OK);
    }
    job->nodes = (tri_nodes){.node_of = job->node_of, .local_of = job->local_of, .n = job->hosts};
    return job;
}

static void run(job *job) {
    one each[FAKE_RANKS];
    pthread_t thread[FAKE_RANKS];
    for (int r = 0; r < job->n; r++) {
        each[r] = (one){job, r};
        assert_int_equal(pthread_create(&thread[r], NULL, rank_thread, &each[r]), 0);
    }
    for (int r = 0; r < job->n; r++) pthread_join(thread[r], NULL);
    for (int h = 0; h < job->hosts; h++) tri__segment_close(&job->segment[h]);
    fake_hub_close(&job->hub);
}

/* ---- Bits ---- */

/* Every kind, type and reduction, each large enough to go in many chunks; even and uneven shards; three in flight. */
static tri_status large(tri_world *world, uint64_t *digest) {
    static const tri_collective_kind kinds[] = {TRI_ALL_REDUCE, TRI_REDUCE_SCATTER, TRI_ALL_GATHER, TRI_BROADCAST,
                                                TRI_REDUCE};
    enum { AT_ONCE = 3, COUNT = 24000 };
    tri_group *all = tri_group_world(world);
    int n = tri_world_size(world), rank = tri_world_rank(world), cases = 5 * TRI_DTYPE_COUNT;
    size_t room = (size_t)n * COUNT * 8;
    char *in[AT_ONCE], *out[AT_ONCE];
    tri_status status = TRI_OK;
    for (int k = 0; k < AT_ONCE; k++) in[k] = malloc(room), out[k] = malloc(room);
    for (int first = 0; first < cases && status == TRI_OK; first += AT_ONCE) {
        tri_request request[AT_ONCE];
        int64_t counts[AT_ONCE][FAKE_RANKS];
        for (int k = 0; k < AT_ONCE && first + k < cases && status == TRI_OK; k++) {
            int number = first + k;
            tri_collective what = {.kind = kinds[number % 5], .dtype = (tri_dtype)(number / 5),
                                   .reduction = (tri_reduction)(number % TRI_REDUCTION_COUNT), .root = number % n,
                                   .in = in[k], .out = out[k], .count = COUNT - 7 * number};
            for (int m = 0; m < n; m++) counts[k][m] = COUNT * ((m + number) % 3) / 2;
            if (number % 2 && (what.kind == TRI_REDUCE_SCATTER || what.kind == TRI_ALL_GATHER)) what.counts = counts[k];
            if (number % 3 == 0 && (what.kind == TRI_ALL_REDUCE || what.kind == TRI_BROADCAST)) what.out = in[k];
            memset(in[k], 0, room);
            memset(out[k], 0, room);
            program_fill(what.dtype, in[k], n * COUNT, (uint64_t)(100 * number + rank));
            status = tri_post(all, &what, &request[k]);
        }
        for (int k = AT_ONCE - 1; k >= 0 && status == TRI_OK; k--) {
            if (first + k >= cases) continue;
            status = tri_wait(world, request[k]);
            *digest = fake_sum(in[k], (int64_t)room) ^ fake_sum(out[k], (int64_t)room) * 3 ^ *digest * 5;
        }
    }
    for (int k = 0; k < AT_ONCE; k++) free(in[k]), free(out[k]);
    return status;
}

static tri_status both(tri_world *world, uint64_t *digest) {
    *digest = 0;
    if (tri_world_size(world) == 5) TRI_TRY(program_run(world, tri_group_make, 1, digest));
    return large(world, digest);
}

static tri_status act_bits(tri_world *world, job *job) { return both(world, &job->digest[tri_world_rank(world)]); }
static tri_status near_bits(tri_world *world, void *digest) {
    return both(world, (uint64_t *)digest + tri_world_rank(world));
}

static void every_placement_gives_the_bits_of_shm(void **state) {
    (void)state;
    static const char *const placements[] = {"0011", "0010", "0101", "01122", "001122"};
    uint64_t want[FAKE_RANKS];
    int known = 0;
    for (int n = 4; n <= 6; n++)
        for (size_t i = 0; i < sizeof placements / sizeof *placements; i++) {
            if ((int)strlen(placements[i]) != n) continue;
            tri_ranks how = {.n = n, .heap_bytes = HEAP};
            if (known != n && tri_ranks_run(&how, near_bits, want) != TRI_OK) fail_msg("%s", tri_error());
            known = n;
            job *job = make_job(placements[i], act_bits);
            run(job);
            for (int r = 0; r < n; r++) {
                if (job->status[r] != TRI_OK) fail_msg("%s, rank %d: %s", placements[i], r, job->words[r]);
                if (job->digest[r] != want[r]) fail_msg("%s: rank %d has other bits", placements[i], r);
            }
            free(job);
        }
}

/* ---- Bytes ---- */

static tri_status act_one(tri_world *world, job *job) {
    tri_collective what = job->what;
    size_t room = (size_t)job->n * (size_t)what.count * 8;
    char *in = calloc(1, room), *out = calloc(1, room);
    tri_request request;
    what.in = in, what.out = out;
    tri_status status = tri_post(tri_group_world(world), &what, &request);
    if (status == TRI_OK) status = tri_wait(world, request);
    free(in);
    free(out);
    return status;
}

/* What crossed a host's card. */
static tri_host_bytes crossed(const job *job, int host) {
    tri_host_bytes card = {0};
    for (int from = 0; from < job->n; from++)
        for (int to = 0; to < job->n; to++) {
            if (job->node_of[from] == host) card.out += (double)job->hub.bytes[from][to];
            if (job->node_of[to] == host) card.in += (double)job->hub.bytes[from][to];
        }
    return card;
}

static void expect_bytes(const char *placement, tri_collective_kind kind, tri_dtype dtype, double most) {
    enum { COUNT = 72000 };
    job *job = make_job(placement, act_one);
    int members[FAKE_RANKS] = {0}, shards = kind == TRI_ALL_GATHER || kind == TRI_REDUCE_SCATTER;
    job->what = (tri_collective){.kind = kind, .dtype = dtype, .count = COUNT};
    for (int r = 0; r < job->n; r++) members[job->node_of[r]]++;
    run(job);
    double whole = (double)(tri__dtype_bytes(dtype) * COUNT) * (shards ? job->n : 1), largest = 0;
    tri_hosts hosts = {.n = job->hosts, .total = job->n, .members = members, .ordered = strcmp(placement, "0101") != 0,
                       .wide = dtype == TRI_BF16 ? 2 : 1};
    int way = tri__by_host(&hosts, kind);
    for (int r = 0; r < job->n; r++)
        if (job->status[r] != TRI_OK) fail_msg("%s, rank %d: %s", placement, r, job->words[r]);
    for (int h = 0; h < job->hosts; h++) {
        tri_host_bytes want = tri__host_card(&hosts, kind, way, h), have = crossed(job, h);
        if (fabs(have.out - want.out * whole) > 0.5 || fabs(have.in - want.in * whole) > 0.5) /* to the byte */
            fail_msg("%s of %s: host %d sent %g and received %g of %g, not %g and %g", tri__collective_name((int)kind),
                     placement, h, have.out, have.in, whole, want.out * whole, want.in * whole);
        largest = fmax(largest, fmax(have.out, have.in));
    }
    if (fabs(largest - most * whole) > 0.5)
        fail_msg("%s of %s: a card carried %g, not %g", tri__collective_name((int)kind), placement, largest,
                 most * whole);
    free(job);
}

static void a_card_carries_what_must_cross_it(void **state) {
    (void)state;
    expect_bytes("0011", TRI_ALL_REDUCE, TRI_F32, 1); /* member by member: 2 */
    expect_bytes("00001111", TRI_ALL_REDUCE, TRI_F32, 1);
    expect_bytes("001122", TRI_ALL_REDUCE, TRI_F32, 2);
    expect_bytes("01", TRI_ALL_REDUCE, TRI_F32, 1);
    expect_bytes("0101", TRI_ALL_REDUCE, TRI_F32, 2); /* not in order: member by member */
    expect_bytes("0011", TRI_ALL_REDUCE, TRI_BF16, 2); /* partial sums are f32 */
    expect_bytes("00001111", TRI_ALL_REDUCE, TRI_BF16, 2);
    expect_bytes("0011", TRI_ALL_GATHER, TRI_F32, 0.5);
    expect_bytes("0101", TRI_ALL_GATHER, TRI_F32, 0.5);
    expect_bytes("00001111", TRI_ALL_GATHER, TRI_F32, 0.5);
    expect_bytes("001122", TRI_ALL_GATHER, TRI_F32, 2. / 3);
    expect_bytes("0011", TRI_REDUCE_SCATTER, TRI_F32, 1);
    expect_bytes("00001111", TRI_REDUCE_SCATTER, TRI_F32, 1);
    expect_bytes("0011", TRI_BROADCAST, TRI_F32, 1);
    expect_bytes("001122", TRI_BROADCAST, TRI_F32, 1);
}

/* ---- Failures ---- */

/* Rank 1 posts and fails; the others free their buffers as soon as their waits return. */
static tri_status act_fail(tri_world *world, job *job) {
    enum { COUNT = 1 << 19 };
    int rank = tri_world_rank(world);
    float *data = calloc(COUNT, sizeof *data), *more = calloc(COUNT, sizeof *more);
    tri_collective what[] = {{.kind = TRI_ALL_REDUCE, .in = data, .out = data, .count = COUNT},
                             {.kind = TRI_ALL_REDUCE, .in = more, .out = more, .count = COUNT}};
    tri_request request[2];
    tri_status status = TRI_OK;
    for (int i = 0; i < 2 && status == TRI_OK; i++) status = tri_post(tri_group_world(world), &what[i], &request[i]);
    for (double begun = tri__clock(); rank == 1 && status == TRI_OK && tri__clock() - begun < 1e-3 * job->what.root;) {
        int done;
        status = tri_test(world, request[0], &done);
        if (done) break;
    }
    if (rank == 1 && status == TRI_OK) {
        status = tri__fail(TRI_DATA, "rank 1 was told to fail");
        tri_world_fail(world, status, tri_error());
        tri_barrier(tri_group_world(world)); /* returns the failure, after which nobody uses the buffers */
        status = TRI_DATA;
    }
    for (int i = 0; i < 2 && rank != 1 && status == TRI_OK; i++) status = tri_wait(world, request[i]);
    free(data);
    free(more);
    return status;
}

static void a_failure_in_the_middle_lets_go_of_all_buffers(void **state) {
    (void)state;
    for (int i = 0; i < 12; i++) {
        job *job = make_job(i % 2 ? "0011" : "001122", act_fail);
        job->what.root = i; /* milliseconds */
        run(job);
        for (int r = 0; r < job->n; r++)
            if (job->status[r] != TRI_DATA || !strstr(job->words[r], "told to fail"))
                fail_msg("rank %d: %d, %s", r, (int)job->status[r], job->words[r]);
        free(job);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_placement_gives_the_bits_of_shm),
        cmocka_unit_test(a_card_carries_what_must_cross_it),
        cmocka_unit_test(a_failure_in_the_middle_lets_go_of_all_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
