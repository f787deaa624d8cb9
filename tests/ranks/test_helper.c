/* test_helper.c - several threads of a rank at its collectives: all kinds with them, helpers' work while no rank waits,
 * failures and early ends with operations in flight. */
#include "base/clock.h"
#include "base/status.h"
#include "comm/ops/kind.h"
#include "comm/shm/cells.h"
#include "comm/shm/helper.h"

#include "tests/lib/test.h"
#include "tests/lib/comm_cases.h"

static tri_status run_ranks(int n, int forks, tri_rank_main *body, void *argument) {
    tri_ranks how = {.n = n, .forks = forks, .heap_bytes = 16 << 20};
    return tri_ranks_run(&how, body, argument);
}

static void expect_ok(int n, int forks, tri_rank_main *body, void *argument) {
    tri_status status = run_ranks(n, forks, body, argument);
    if (status != TRI_OK)
        fail_msg("%d ranks as %s: status %d: %s", n, forks ? "processes" : "threads", (int)status, tri_error());
}

/* Many operations in flight, of all kinds, in two groups; waits from the last to the first. With one thread there is a
 * helper. */
static tri_status every_kind(tri_world *world, void *argument) {
    enum { MANY = 40 };
    const int *threads = argument;
    comm_case one[MANY];
    tri_group *group[2] = {tri_group_world(world)};
    int size = tri_world_size(world), ranks[COMM_MOST];
    uint64_t state = 3;
    for (int i = 0; i < size; i++) ranks[i] = size - 1 - i;
    world->threads = *threads;
    if (*threads == 1) TRI_TRY(tri__helper_open(world));
    TRI_TRY(tri_group_make(world, size, ranks, &group[1]));
    for (int i = 0; i < MANY; i++) {
        one[i] = comm_case_random(&state, size, 60000);
        TRI_TRY(comm_post(world, group[i % 2], &one[i]));
    }
    for (int i = MANY; i-- > 0;) {
        TRI_TRY(tri_wait(world, one[i].request));
        TRI_TRY(comm_check(world, &one[i]));
    }
    return TRI_OK;
}

TEST(collectives_with_helpers) {
    for (int threads = 1; threads < 4; threads++) {
        expect_ok(3, 0, every_kind, &threads);
        expect_ok(2, 1, every_kind, &threads);
    }
}

/* Tasks of the group's first operation that are done. */
static uint32_t tasks_done(tri_group *group) {
    const tri_shm_group *shm = group->state;
    return (uint32_t)atomic_load(&shm->cells->place[0].done);
}

/* Nobody waits until some work is done. */
static tri_status no_wait(tri_world *world, void *argument) {
    (void)argument;
    comm_case one = {.what = {.kind = TRI_ALL_REDUCE, .dtype = TRI_F32, .count = 200000}, .seed = 8, .heap = 1};
    tri_group *group = tri_group_world(world);
    TRI_TRY(tri__helper_open(world));
    TRI_TRY(comm_post(world, group, &one));
    for (double begin = tri__clock(); tasks_done(group) < 4;)
        if (tri__clock() - begin > 20) return tri__fail(TRI_INTERNAL, "no helper has done anything");
    TRI_TRY(tri_wait(world, one.request));
    return comm_check(world, &one);
}

TEST(helpers_work_while_ranks_compute) {
    expect_ok(2, 0, no_wait, NULL);
    expect_ok(2, 1, no_wait, NULL);
}

/* Rank 1 posts another sum than the rest. */
static tri_status differ(tri_world *world, void *argument) {
    (void)argument;
    comm_case one = {.what = {.kind = TRI_ALL_REDUCE, .dtype = TRI_F32, .count = 200000}, .seed = 8, .heap = 1};
    TRI_TRY(tri__helper_open(world));
    world->threads = 2;
    if (tri_world_rank(world) == 1) one.what.count = 100000;
    TRI_TRY(comm_post(world, tri_group_world(world), &one));
    return tri_wait(world, one.request);
}

/* Rank 1 leaves without a wait, while its helper may be at work. */
static tri_status leave(tri_world *world, void *argument) {
    (void)argument;
    comm_case one = {.what = {.kind = TRI_ALL_REDUCE, .dtype = TRI_F32, .count = 200000}, .seed = 8, .heap = 1};
    TRI_TRY(tri__helper_open(world));
    world->threads = 2;
    TRI_TRY(comm_post(world, tri_group_world(world), &one));
    return tri_world_rank(world) == 1 ? TRI_OK : tri_wait(world, one.request);
}

TEST(failures_with_helpers) {
    for (int forks = 0; forks < 2; forks++) {
        assert_int_equal(run_ranks(3, forks, differ, NULL), TRI_DISAGREE);
        assert_int_equal(run_ranks(3, forks, leave, NULL), TRI_USAGE);
    }
}

/* A rank has a helper if it has a core more than threads. */
static tri_status by_share(tri_world *world, void *argument) {
    const int *each = argument, *threads = each + 1;
    TRI_TRY(tri_barrier(tri_group_world(world))); /* all have joined */
    TRI_TRY(tri__helper_share(world, *threads));
    if (!world->helper != (*each <= *threads) || world->threads != (*threads > *each ? 1 : *threads))
        return tri__fail(TRI_INTERNAL, "%d threads on %d cores: %d at work, %s helper", *threads, *each,
                         world->threads, world->helper ? "a" : "no");
    return TRI_OK;
}

static tri_status count_cores(tri_world *world, void *cores) {
    *(int *)cores = tri__control_cores(world->segment.control);
    return TRI_OK;
}

TEST(helpers_by_share_of_cores) {
    int cores = 0;
    expect_ok(1, 0, count_cores, &cores);
    assert_true(cores > 0);
    for (int ranks = 2; ranks <= 4; ranks++)
        for (int threads = 1; threads <= 3; threads++) {
            int of[] = {cores / ranks, threads};
            expect_ok(ranks, 0, by_share, of);
        }
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
