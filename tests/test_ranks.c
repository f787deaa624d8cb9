/* test_ranks.c - ranks as threads and as forks: how they start, wait, fail, die, hang and leave. A wait is a loop of tri__idle here. */
#include "base/clock.h"
#include "comm/ranks.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { RANKS = 4, HEAP = 1 << 16 };

/* Shared by test and ranks, forks too. */
typedef struct board {
    _Atomic int pid[RANKS], waiting, done;
    _Atomic double failed, woken[RANKS]; /* tri__clock() */
    int who;                             /* the rank that a case is about */
    int round;
} board;

static board *board_open(void) {
    board *made = mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(made != MAP_FAILED);
    return made;
}

static void pause_seconds(double seconds) {
    struct timespec time = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

static tri_ranks how(int forks) { return (tri_ranks){.n = RANKS, .forks = forks, .heap_bytes = HEAP}; }

/* Waits for what never comes. */
static tri_status wait_for_failure(tri_world *world) {
    tri_idle idle = {0};
    tri_status status;
    tri__world_waits(world, 1);
    while ((status = tri__world_check(world)) == TRI_OK) tri__idle(world->segment.control, world->local, &idle);
    tri__world_waits(world, 0);
    return status;
}

/* Until all ranks of the case wait. */
static void wait_for_waiters(board *board, int n) {
    while (atomic_load(&board->waiting) < n) pause_seconds(0.001);
    pause_seconds(0.02); /* now they sleep */
}

static tri_status count_ranks(tri_world *world, void *context) {
    board *board = context;
    assert_int_equal(tri_world_size(world), RANKS);
    TRI_TRY(tri__world_meet(world, 10));
    atomic_fetch_add(&board->done, 1 << (4 * tri_world_rank(world)));
    return TRI_OK;
}

static void every_rank_runs_once(void **state) {
    (void)state;
    for (int forks = 0; forks < 2; forks++) {
        board *board = board_open();
        tri_ranks spec = how(forks);
        assert_int_equal(tri_ranks_run(&spec, count_ranks, board), TRI_OK);
        assert_int_equal(atomic_load(&board->done), 0x1111);
        munmap(board, sizeof *board);
    }
}

static tri_status close_twice(tri_world *world, void *context) {
    (void)context;
    void *memory;
    TRI_TRY(tri_heap_alloc(world, 100, &memory));
    tri_world_close(world);
    return TRI_OK;
}

static void main_may_close_its_world(void **state) {
    (void)state;
    tri_ranks spec = how(0);
    assert_int_equal(tri_ranks_run(&spec, close_twice, NULL), TRI_OK);
}

static void refuses_misuse(void **state) {
    (void)state;
    tri_ranks none = {.n = 0}, many = {.n = TRI_RANKS_PER_NODE + 1}, hasty = {.n = 1, .progress_timeout = 0.1}, negative = {.n = 1, .progress_timeout = -1};
    assert_int_equal(tri_ranks_run(&none, count_ranks, NULL), TRI_USAGE);
    assert_int_equal(tri_ranks_run(&many, count_ranks, NULL), TRI_USAGE);
    assert_int_equal(tri_ranks_run(&hasty, count_ranks, NULL), TRI_USAGE);
    assert_int_equal(tri_ranks_run(&negative, count_ranks, NULL), TRI_USAGE);
    assert_int_equal(tri_ranks_run(NULL, count_ranks, NULL), TRI_USAGE);
    assert_int_equal(tri_ranks_run(&many, NULL, NULL), TRI_USAGE);
}

static tri_status fail_on_one(tri_world *world, void *context) {
    board *board = context;
    int rank = tri_world_rank(world);
    if (rank == board->who) {
        wait_for_waiters(board, RANKS - 1);
        tri__world_phase(world, TRI_PHASE_LOAD, 14);
        atomic_store(&board->failed, tri__clock());
        return tri__fail(TRI_DATA, "row 7 has 3 fields, not 4");
    }
    atomic_fetch_add(&board->waiting, 1);
    tri_status status = wait_for_failure(world);
    atomic_store(&board->woken[rank], tri__clock());
    return status;
}

/* From the failure until the last waiter returned. */
static double latency(const board *board) {
    double last = 0;
    for (int i = 0; i < RANKS; i++)
        if (i != board->who) {
            assert_true(board->woken[i] > 0);
            if (board->woken[i] > last) last = board->woken[i];
        }
    return last - board->failed;
}

static void error_of_one_ends_all_waits(void **state) {
    (void)state;
    for (int forks = 0; forks < 2; forks++) {
        double worst = 0;
        for (int who = 0; who < RANKS; who++) {
            board *board = board_open();
            tri_ranks spec = how(forks);
            board->who = who;
            char want[128];
            snprintf(want, sizeof want, "rank %d: row 7 has 3 fields, not 4 (step 14, loading data)", who);
            assert_int_equal(tri_ranks_run(&spec, fail_on_one, board), TRI_DATA);
            assert_string_equal(tri_error(), want);
            if (latency(board) > worst) worst = latency(board);
            munmap(board, sizeof *board);
        }
        print_message("error on one of %d %s: the last wait ended after at most %.2f ms\n", RANKS, forks ? "forks" : "threads", 1e3 * worst);
        assert_true(worst < 0.05);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_runs_once),
        cmocka_unit_test(main_may_close_its_world),
        cmocka_unit_test(refuses_misuse),
        cmocka_unit_test(error_of_one_ends_all_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
