/* test_collectives.c - every collective, type, reduction and size of group against a plain reference; ranks as threads
 * and as processes; random programs that wait in any order; more operations in flight than there are slots. */
#include "base/status.h"
#include "comm/ops/kind.h"
#include "comm/shm/cells.h"
#include "layout/dtype.h"

#include "tests/lib/test.h"
#include "tests/lib/comm_cases.h"
#include "tests/lib/soak.h"

static void run_ranks(int n, int forks, tri_rank_main *body, void *argument) {
    tri_ranks how = {.n = n, .forks = forks, .heap_bytes = 8 << 20};
    tri_status status = tri_ranks_run(&how, body, argument);
    if (status != TRI_OK)
        fail_msg("%d ranks as %s: status %d: %s", n, forks ? "processes" : "threads", (int)status, tri_error());
}

static int place_in(const int *ranks, int n, int rank) {
    for (int i = 0; i < n; i++)
        if (ranks[i] == rank) return i;
    return -1;
}

/* The first n of a shuffled list of `world` ranks. */
static void shuffled(uint64_t *state, int world, int *ranks) {
    for (int i = 0; i < world; i++) ranks[i] = i;
    for (int i = world - 1; i > 0; i--) {
        int j = (int)(comm_random(state) % (uint64_t)(i + 1)), swap = ranks[i];
        ranks[i] = ranks[j], ranks[j] = swap;
    }
}

/* Elements so that the largest input of a member is about `bytes`. */
static int64_t elements(tri_collective_kind kind, tri_dtype dtype, int n, int64_t bytes) {
    return bytes / (int64_t)tri__dtype_bytes(dtype) / (tri__kind(kind)->in == TRI_EXTENT_ALL ? n : 1);
}

/* Bytes of an input: none, little, around what travels in a cell, around a task, several tasks. */
static const int64_t input_bytes[] = {0, 8, 200, 4088, 4096, 4104, 16376, 16384, 16400, 70000};
enum { SIZES = sizeof input_bytes / sizeof *input_bytes };

/* One of those; from the third seed on, which `make test` does not reach, any. */
static int64_t bytes_from(uint64_t bits, int any) {
    return any ? (int64_t)(bits % 4 ? bits % 20000 : bits % 300000) : input_bytes[bits % SIZES];
}

/* All dtypes and reductions of one kind in one group; sizes go round. */
static tri_status every_form(tri_world *world, tri_group *group, tri_collective_kind kind, int any_size,
                             uint64_t *state) {
    int n = tri_group_size(group), reductions = tri__kind(kind)->reduces ? TRI_REDUCTION_COUNT : 1;
    for (int dtype = 0; dtype < TRI_DTYPE_COUNT; dtype++)
        for (int reduction = 0; reduction < reductions; reduction++) {
            uint64_t bits = comm_random(state);
            comm_case one = {.what = {.kind = kind,
                                      .dtype = (tri_dtype)dtype,
                                      .reduction = (tri_reduction)reduction,
                                      .root = (int)(bits % (uint64_t)n)},
                             .seed = bits,
                             .uneven = tri__kind(kind)->uneven && bits >> 8 & 1,
                             .in_place = bits >> 9 & 1,
                             .heap = bits >> 10 & 1};
            one.what.count = elements(kind, one.what.dtype, n, bytes_from(bits >> 16, any_size));
            for (int m = 0; m < n; m++) one.counts[m] = (bits >> (20 + m) & 1) * (one.what.count + m);
            TRI_TRY(comm_run(world, group, &one));
        }
    return TRI_OK;
}

/* Groups of every size, of shuffled ranks. */
static tri_status every_group(tri_world *world, void *argument) {
    uint64_t state = *(const uint64_t *)argument;
    int size = tri_world_size(world), any_size = state % 1000 > 2, ranks[COMM_MOST];
    for (int n = 1; n <= size; n++) {
        shuffled(&state, size, ranks);
        uint64_t seed = comm_random(&state);
        if (place_in(ranks, n, tri_world_rank(world)) < 0) continue;
        tri_group *group;
        TRI_TRY(tri_group_make(world, n, ranks, &group));
        for (int kind = TRI_BROADCAST; kind <= TRI_BARRIER; kind++)
            TRI_TRY(every_form(world, group, (tri_collective_kind)kind, any_size, &seed));
    }
    return TRI_OK;
}

TEST(every_operation_as_threads) {
    int seeds = soak_count("SOAK_MATRIX", getenv("TRI_SANITIZED") ? 1 : 2);
    for (uint64_t seed = 1; seed <= (uint64_t)seeds; seed++)
        run_ranks(getenv("TRI_SANITIZED") ? 5 : 8, 0, every_group, &seed);
}

FIRST_TEST(every_operation_as_processes) {
    int seeds = soak_count("SOAK_MATRIX", 1);
    for (uint64_t seed = 1001; seed <= 1000 + (uint64_t)seeds; seed++)
        run_ranks(4 + (int)seed % 5, 1, every_group, &seed); /* 1001: 5 ranks */
}

/* All sizes of input for the sums of training, in place and not, in the heap and not. */
static tri_status every_size(tri_world *world, void *argument) {
    (void)argument;
    static const tri_collective_kind kinds[] = {TRI_ALL_REDUCE, TRI_ALL_GATHER, TRI_REDUCE_SCATTER, TRI_ALL_TO_ALL,
                                                TRI_BROADCAST};
    tri_group *group = tri_group_world(world);
    uint64_t state = 5;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int s = 0; s < SIZES; s++)
            for (int form = 0; form < 8; form++) {
                comm_case one = {.what = {.kind = kinds[k],
                                          .dtype = form & 4 ? TRI_BF16 : TRI_F32,
                                          .root = s % tri_group_size(group)},
                                 .seed = comm_random(&state),
                                 .in_place = form & 1,
                                 .heap = form >> 1 & 1};
                one.what.count = elements(kinds[k], one.what.dtype, tri_group_size(group), input_bytes[s]);
                TRI_TRY(comm_run(world, group, &one));
            }
    return TRI_OK;
}

TEST(every_size_of_input) {
    run_ranks(3, 0, every_size, NULL);
    run_ranks(2, 1, every_size, NULL);
}

/* Several megabytes: many tasks. */
static tri_status large(tri_world *world, void *argument) {
    (void)argument;
    uint64_t state = 6;
    for (int kind = TRI_BROADCAST; kind < TRI_BARRIER; kind++) {
        comm_case one = {.what = {.kind = (tri_collective_kind)kind, .dtype = TRI_F32, .root = 1},
                         .seed = comm_random(&state),
                         .heap = 1,
                         .uneven = 0};
        one.what.count = elements(one.what.kind, TRI_F32, tri_world_size(world), 2000000);
        TRI_TRY(comm_run(world, tri_group_world(world), &one));
    }
    return TRI_OK;
}

TEST(large_operations) {
    run_ranks(3, 0, large, NULL);
    run_ranks(2, 1, large, NULL);
}

/* ---- Random programs ---- */

enum { OPERATIONS = 200, UNDER_WAY = 40, GROUPS = 5 };

typedef struct flight {
    comm_case one[UNDER_WAY];
    int n;
} flight;

/* Ends one of those under way, which one is this rank's own choice; by waiting or by testing. */
static tri_status end_any(tri_world *world, flight *flight, uint64_t *own) {
    int i = (int)(comm_random(own) % (uint64_t)flight->n), done = 0;
    comm_case *one = &flight->one[i];
    if (comm_random(own) % 3 == 0) {
        TRI_TRY(tri_test(world, one->request, &done));
        if (!done) return TRI_OK;
    } else {
        TRI_TRY(tri_wait(world, one->request));
    }
    TRI_TRY(comm_check(world, one));
    *one = flight->one[--flight->n];
    return TRI_OK;
}

/* Group 0 is the world; the others are lists of any length. NULL where this rank is not in one. */
static tri_status make_groups(tri_world *world, uint64_t *state, tri_group **group, int *sizes) {
    int ranks[COMM_MOST], size = tri_world_size(world);
    group[0] = tri_group_world(world), sizes[0] = size;
    for (int g = 1; g < GROUPS; g++) {
        shuffled(state, size, ranks);
        sizes[g] = 1 + (int)(comm_random(state) % (uint64_t)size);
        group[g] = NULL;
        if (place_in(ranks, sizes[g], tri_world_rank(world)) >= 0)
            TRI_TRY(tri_group_make(world, sizes[g], ranks, &group[g]));
    }
    return TRI_OK;
}

static tri_status random_program(tri_world *world, void *argument) {
    uint64_t state = *(const uint64_t *)argument, own = state + (uint64_t)tri_world_rank(world) * 77;
    tri_group *group[GROUPS];
    int sizes[GROUPS];
    flight *flight = calloc(1, sizeof *flight);
    tri_status status = make_groups(world, &state, group, sizes);
    for (int i = 0; i < OPERATIONS && status == TRI_OK; i++) {
        int g = (int)(comm_random(&state) % GROUPS);
        comm_case one = comm_case_random(&state, sizes[g], 60000);
        if (!group[g]) continue;
        status = comm_post(world, group[g], &one);
        if (status == TRI_OK) flight->one[flight->n++] = one;
        while (status == TRI_OK && (flight->n == UNDER_WAY || (flight->n && comm_random(&own) % 2)))
            status = end_any(world, flight, &own);
    }
    while (status == TRI_OK && flight->n) status = end_any(world, flight, &own);
    free(flight);
    return status;
}

TEST(random_programs) {
    int threads = soak_count("SOAK_SEEDS", 4), forks = soak_count("SOAK_SEEDS", 2);
    for (uint64_t seed = 10; seed < 10 + (uint64_t)threads; seed++)
        run_ranks(2 + (int)seed % 7, 0, random_program, &seed);
    for (uint64_t seed = 100020; seed < 100020 + (uint64_t)forks; seed++)
        run_ranks(2 + (int)seed % 7, 1, random_program, &seed);
}

/* ---- More than the ring holds ---- */

static tri_status many_under_way(tri_world *world, void *argument) {
    (void)argument;
    enum { MANY = 3 * TRI_RING };
    comm_case one[MANY];
    uint64_t state = 31;
    for (int i = 0; i < MANY; i++) {
        one[i] = (comm_case){.what = {.kind = TRI_ALL_REDUCE, .dtype = TRI_F32, .count = i % 3 ? 100 : 5000},
                             .seed = comm_random(&state),
                             .heap = 1};
        TRI_TRY(comm_post(world, tri_group_world(world), &one[i]));
    }
    for (int i = MANY; i-- > 0;) { /* the last first */
        TRI_TRY(tri_wait(world, one[i].request));
        TRI_TRY(comm_check(world, &one[i]));
    }
    return TRI_OK;
}

TEST(more_than_the_ring_holds) {
    run_ranks(3, 0, many_under_way, NULL);
    run_ranks(2, 1, many_under_way, NULL);
}

/* A rank that computes does not hold up the others: those who wait do its part of the work. */
static tri_status late_wait(tri_world *world, void *argument) {
    _Atomic int *others_done = argument;
    comm_case one = {.what = {.kind = TRI_ALL_REDUCE, .dtype = TRI_F32, .count = 200000}, .seed = 8, .heap = 1};
    TRI_TRY(comm_post(world, tri_group_world(world), &one));
    if (tri_world_rank(world) == 0)
        while (atomic_load(others_done) < tri_world_size(world) - 1) {}
    TRI_TRY(tri_wait(world, one.request));
    atomic_fetch_add(others_done, 1);
    return comm_check(world, &one);
}

TEST(others_do_the_work_of_one_that_computes) {
    _Atomic int done = 0;
    run_ranks(3, 0, late_wait, &done);
    assert_int_equal(done, 3);
}

/* The same bits, whatever the timing and the form of ranks. */
static tri_status digest_sums(tri_world *world, void *argument) {
    uint64_t *digest = argument, state = 40;
    float *data;
    TRI_TRY(tri_heap_alloc(world, 100000 * sizeof *data, (void **)&data));
    for (int i = 0; i < 100000; i++)
        data[i] = (float)(int32_t)(comm_random(&state) ^ (uint64_t)tri_world_rank(world) * 12345) * 1e-3f;
    TRI_TRY(tri_all_reduce(tri_group_world(world), NULL, data, 100000, TRI_F32, TRI_SUM));
    uint64_t sum = 0;
    for (int i = 0; i < 100000; i++) {
        uint32_t bits;
        memcpy(&bits, &data[i], sizeof bits);
        sum = sum * 31 + bits;
    }
    uint64_t most = sum;
    TRI_TRY(tri_all_reduce(tri_group_world(world), NULL, &most, 1, TRI_I64, TRI_MAX));
    if (most != sum) return tri__fail(TRI_INTERNAL, "ranks have different sums");
    if (digest && tri_world_rank(world) == 0) *digest = sum;
    return TRI_OK;
}

TEST(the_same_bits_every_time) {
    uint64_t first = 0, again = 0;
    run_ranks(4, 0, digest_sums, &first);
    for (int i = 0; i < 5; i++) {
        run_ranks(4, 0, digest_sums, &again);
        assert_true(first == again && first);
    }
    run_ranks(4, 1, digest_sums, NULL);
}

/* Under another launcher: random programs from seed `first` on, on its ranks. */
static int join_and_run(uint64_t first, int seeds) {
    tri_world *world = NULL;
    tri_ranks how = {.heap_bytes = 64 << 20};
    tri_status status = tri_world_join(&how, getenv, &world);
    for (uint64_t seed = first; seed < first + (uint64_t)seeds && status == TRI_OK; seed++)
        status = random_program(world, &seed);
    if (status != TRI_OK) printf("status %d: %s\n", (int)status, tri_error());
    else if (tri_world_rank(world) == 0)
        printf("%d programs of %d operations on %d ranks\n", seeds, OPERATIONS, tri_world_size(world));
    if (status != TRI_OK && world) tri_world_fail(world, status, tri_error());
    tri_world_close(world);
    return (int)status;
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "join") == 0) return join_and_run((uint64_t)atoi(argv[2]), atoi(argv[3]));
    return run_listed(argc, argv, NULL, NULL);
}
