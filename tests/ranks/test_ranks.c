/* test_ranks.c - ranks as threads and as forks: how they start, wait, fail, die, hang and leave. A wait is a loop of
 * tri__idle here. */
#include "tests/lib/test.h"
#include "tests/lib/rank_waits.h"
#include "base/clock.h"
#include "comm/start/ranks.h"

#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/names.h"
#include "tests/lib/soak.h"

enum { RANKS = 4, HEAP = 1 << 16, HANDOVERS = 200, TRIES = 5 };

/* Shared by test and ranks, forks too. */
typedef struct board {
    _Atomic int pid[RANKS], waiting, done, status[RANKS];
    _Atomic double failed, woken[RANKS]; /* tri__clock() */
    int who;                             /* the rank that a case is about */
    uint64_t random;
} board;

/* In a rank, where cmocka's assertions cannot be used: the rank fails. */
#define EXPECT(condition) \
    do { \
        if (!(condition)) return tri__fail(TRI_INTERNAL, "line %d: %s", __LINE__, #condition); \
    } while (0)

static board *board_open(void) {
    board *made = mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(made != MAP_FAILED);
    return made;
}

static tri_ranks how(int forks) { return (tri_ranks){.n = RANKS, .forks = forks, .heap_bytes = HEAP}; }

/* Until all ranks of the case wait. */
static void wait_for_waiters(board *board, int n) {
    while (atomic_load(&board->waiting) < n) pause_seconds(0.001);
    pause_seconds(0.02); /* now they sleep */
}

static tri_status count_ranks(tri_world *world, void *context) {
    board *board = context;
    EXPECT(tri_world_size(world) == RANKS);
    TRI_TRY(tri__world_meet(world, 10, NULL));
    atomic_fetch_add(&board->done, 1 << (4 * tri_world_rank(world)));
    return TRI_OK;
}

TEST(every_rank_runs_once) {
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

TEST(main_may_close_its_world) {
    tri_ranks spec = how(0);
    assert_int_equal(tri_ranks_run(&spec, close_twice, NULL), TRI_OK);
}

TEST(refuses_misuse) {
    tri_ranks none = {.n = 0}, many = {.n = TRI_RANKS_PER_NODE + 1}, hasty = {.n = 1, .progress_timeout = 0.1},
              negative = {.n = 1, .progress_timeout = -1};
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
        tri__world_doing(world, TRI_DOING_LOAD, 14);
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

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* 50 ms for all but one in a hundred, and but one of a few: a shared machine may stand still for a moment. Nonzero: it
 * was so. Tests that run at the same time take cores away for longer, so that each case has TRIES. */
static int were_quick(const char *what, double *seconds, int n) {
    int allowed = n >= 200 ? n / 100 : 1;
    qsort(seconds, (size_t)n, sizeof *seconds, by_size);
    print_message("%s, %d times: the last wait ended after %.2f ms (median), %.2f ms (all but %d), %.2f ms (worst)\n",
                  what, n, 1e3 * seconds[n / 2], 1e3 * seconds[n - 1 - allowed], allowed, 1e3 * seconds[n - 1]);
    return seconds[n - 1 - allowed] < 0.05 && seconds[n - 1] < 2;
}

TEST(error_of_one_ends_all_waits) {
    int rounds = soak_count("SOAK_KILLS", 2 * RANKS);
    double *seconds = calloc((size_t)rounds, sizeof *seconds);
    for (int forks = 0, tries = 0, quick; forks < 2; quick ? forks++, tries = 0 : tries++) {
        assert_true(tries < TRIES);
        for (int i = 0; i < rounds; i++) {
            board *board = board_open();
            tri_ranks spec = how(forks);
            char want[128];
            board->who = i % RANKS;
            snprintf(want, sizeof want, "rank %d: row 7 has 3 fields, not 4 (step 14, loading data)", board->who);
            assert_int_equal(tri_ranks_run(&spec, fail_on_one, board), TRI_DATA);
            assert_string_equal(tri_error(), want);
            seconds[i] = latency(board);
            munmap(board, sizeof *board);
        }
        quick = were_quick(forks ? "error on one of 4 forks" : "error on one of 4 threads", seconds, rounds);
    }
    free(seconds);
}

/* ---- Death ---- */

static tri_status die_on_one(tri_world *world, void *context) {
    board *board = context;
    int rank = tri_world_rank(world);
    if (rank == board->who) {
        wait_for_waiters(board, RANKS - 1);
        tri__world_doing(world, TRI_DOING_FORWARD, 3);
        atomic_store(&board->failed, tri__clock());
        kill(getpid(), SIGKILL);
    }
    atomic_fetch_add(&board->waiting, 1);
    tri_status status = wait_for_failure(world);
    atomic_store(&board->woken[rank], tri__clock());
    return status;
}

TEST(death_ends_all_waits) {
    int rounds = soak_count("SOAK_KILLS", 10);
    double *seconds = calloc((size_t)rounds, sizeof *seconds);
    for (int tries = 0, quick = 0; !quick; tries++) {
        assert_true(tries < TRIES);
        for (int i = 0; i < rounds; i++) {
            board *board = board_open();
            tri_ranks spec = how(1);
            char want[128];
            board->who = i % RANKS;
            snprintf(want, sizeof want, "rank %d: died (signal 9, Killed) (step 3, in the step's program)", board->who);
            assert_int_equal(tri_ranks_run(&spec, die_on_one, board), 128 + SIGKILL);
            assert_string_equal(tri_error(), want);
            seconds[i] = latency(board);
            munmap(board, sizeof *board);
        }
        quick = were_quick("kill -9 of one of 4 forks", seconds, rounds);
    }
    free(seconds);
}

static tri_status end_early(tri_world *world, void *context) {
    board *board = context;
    if (tri_world_rank(world) == 1) _exit(board->who);
    return wait_for_failure(world);
}

TEST(ending_early_is_a_failure) {
    board *board = board_open();
    tri_ranks spec = how(1);
    board->who = 3;
    assert_int_equal(tri_ranks_run(&spec, end_early, board), 3);
    assert_non_null(strstr(tri_error(), "rank 1: ended (exit code 3) before its function returned"));
    board->who = 0;
    assert_int_equal(tri_ranks_run(&spec, end_early, board), TRI_INTERNAL);
    void (*before)(int) = signal(SIGCHLD, SIG_IGN); /* the kernel reaps: how a child ended is not known */
    assert_int_equal(tri_ranks_run(&spec, end_early, board), TRI_INTERNAL);
    assert_int_equal(tri_ranks_run(&spec, count_ranks, board), TRI_OK);
    signal(SIGCHLD, before);
    munmap(board, sizeof *board);
}

/* Ranks keep the writing end of a pipe: its end means that all are gone. */
TEST(ranks_die_with_their_parent) {
    board *board = board_open();
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t parent = fork();
    if (parent == 0) {
        tri_ranks spec = how(1);
        close(ends[0]);
        board->who = -1;
        _exit(tri_ranks_run(&spec, die_on_one, board));
    }
    close(ends[1]);
    wait_for_waiters(board, RANKS);
    double begin = tri__clock();
    kill(parent, SIGKILL);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    print_message("parent killed: the last rank was gone after %.2f ms\n", 1e3 * (tri__clock() - begin));
    assert_true(tri__clock() - begin < 1);
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    close(ends[0]);
    munmap(board, sizeof *board);
}

/* ---- Hangs ---- */

static tri_status hang_on_one(tri_world *world, void *context) {
    board *board = context;
    int rank = tri_world_rank(world);
    if (rank == board->who) {
        wait_for_waiters(board, RANKS - 1);
        tri__world_doing(world, TRI_DOING_BATCH, 5);
        atomic_store(&board->failed, tri__clock());
        while (!atomic_load(&board->done)) pause_seconds(0.001); /* without a sign of life */
        return tri__world_check(world);
    }
    atomic_fetch_add(&board->waiting, 1);
    tri_status status = wait_for_failure(world);
    atomic_store(&board->woken[rank], tri__clock());
    atomic_store(&board->done, 1);
    return status;
}

static void expect_hang_found(const board *board, double timeout) {
    print_message("a hang of rank %d was known to all after %.3f s (timeout %.2f s)\n", board->who, latency(board),
                  timeout);
    assert_true(latency(board) > timeout - 0.01 && latency(board) < timeout + 3); /* cores are shared */
}

TEST(hang_of_a_thread_is_found) {
    board *board = board_open();
    tri_ranks spec = how(0);
    spec.progress_timeout = 0.5;
    board->who = 2;
    assert_int_equal(tri_ranks_run(&spec, hang_on_one, board), TRI_DISAGREE);
    assert_non_null(strstr(tri_error(), "rank 2: hangs: no progress for "));
    assert_non_null(strstr(tri_error(), "rank 0 waits"));
    assert_non_null(strstr(tri_error(), "(step 5, waiting for its next batch)"));
    expect_hang_found(board, 0.5);
    munmap(board, sizeof *board);
}

/* Rank 0 stops rank `who`: inside a wait (then it stays so until it is killed), or in the middle of work (then rank 0
 * lets it go on at the end). */
static tri_status stop_another(tri_world *world, void *context) {
    board *board = context;
    int rank = tri_world_rank(world);
    atomic_store(&board->pid[rank], getpid());
    if (rank == board->who && board->random) {
        atomic_fetch_add(&board->waiting, 1);
        while (!tri__world_check(world)) {
            tri__world_beat(world);
            pause_seconds(0.001);
        }
        return tri__world_check(world);
    }
    if (rank == 0) {
        wait_for_waiters(board, RANKS - 1);
        while (!board->random && !atomic_load(&world->segment.control->line[board->who].waiting)) pause_seconds(0.001);
        atomic_store(&board->failed, tri__clock());
        kill(board->pid[board->who], SIGSTOP);
    } else {
        atomic_fetch_add(&board->waiting, 1);
    }
    tri_status status = wait_for_failure(world);
    atomic_store(&board->woken[rank], tri__clock());
    if (rank == 0 && board->random) kill(board->pid[board->who], SIGCONT);
    return status;
}

TEST(stopped_fork_is_found_and_ended) {
    for (int working = 0; working < 2; working++) {
        board *board = board_open();
        tri_ranks spec = how(1);
        spec.progress_timeout = 0.5;
        board->who = 3;
        board->random = (uint64_t)working;
        assert_int_equal(tri_ranks_run(&spec, stop_another, board), TRI_DISAGREE);
        assert_non_null(strstr(tri_error(), "rank 3: hangs"));
        assert_true((strstr(tri_error(), "(inside a wait)") == NULL) == working);
        assert_non_null(strstr(tri_error(), "its process is stopped (SIGSTOP"));
        expect_hang_found(board, 0.5);
        munmap(board, sizeof *board);
    }
}

static tri_status wait_only(tri_world *world, void *context) {
    (void)context;
    return wait_for_failure(world);
}

TEST(deadlock_is_found) {
    tri_ranks spec = how(0);
    spec.progress_timeout = 0.5;
    double begin = tri__clock();
    assert_int_equal(tri_ranks_run(&spec, wait_only, NULL), TRI_DISAGREE);
    assert_non_null(strstr(tri_error(), "all ranks wait for one another"));
    assert_non_null(strstr(tri_error(), "rank 3: it posted no operation yet"));
    assert_true(tri__clock() - begin > 0.5 && tri__clock() - begin < 3);
}

/* Every rank waits for a message that no rank sends. */
static tri_status receive_in_a_ring(tri_world *world, void *context) {
    float value;
    (void)context;
    return tri_recv(tri_group_world(world), &value, 1, TRI_F32, (tri_world_rank(world) + 1) % RANKS, 0);
}

TEST(deadlock_names_operations) {
    tri_ranks spec = how(1);
    spec.progress_timeout = 0.5;
    assert_int_equal(tri_ranks_run(&spec, receive_in_a_ring, NULL), TRI_DISAGREE);
    assert_non_null(strstr(tri_error(), "all ranks wait for one another"));
    assert_non_null(strstr(tri_error(), "rank 2: its last operation is recv f32 x 1 (number 1);"));
}

/* A rank that has other settings is named on all. */
static tri_status agree_or_not(tri_world *world, void *context) {
    board *board = context;
    uint64_t digest = tri_world_rank(world) == board->who ? 7 : 9;
    TRI_TRY(tri__world_agree(world, 5, "the builds"));
    tri_status status = tri__world_agree(world, digest, "the settings");
    atomic_store(&board->status[tri_world_rank(world)], status);
    return status;
}

TEST(odd_rank_is_named) {
    for (int who = -1; who < RANKS; who++) {
        board *board = board_open();
        tri_ranks spec = how(who % 2);
        char want[64];
        board->who = who;
        assert_int_equal(tri_ranks_run(&spec, agree_or_not, board), who < 0 ? TRI_OK : TRI_DISAGREE);
        for (int i = 0; i < RANKS; i++) assert_int_equal(board->status[i], who < 0 ? TRI_OK : TRI_DISAGREE);
        snprintf(want, sizeof want, "rank %d: the settings differ from rank %d's", who, who == 0);
        if (who >= 0) assert_non_null(strstr(tri_error(), want));
        munmap(board, sizeof *board);
    }
}

/* Beats now and then for much longer than the timeout. */
static tri_status be_slow(tri_world *world, void *context) {
    board *board = context;
    tri_idle idle = {0};
    if (tri_world_rank(world) == board->who) {
        for (int i = 0; i < 15; i++) {
            pause_seconds(0.1);
            tri__world_beat(world);
        }
        atomic_store(&board->done, 1);
        tri__control_wake(world->segment.control, NULL, 0);
        return TRI_OK;
    }
    tri__world_waits(world, 1);
    while (!atomic_load(&board->done)) {
        TRI_TRY(tri__world_check(world));
        tri__idle(world->segment.control, world->local, &idle);
    }
    tri__world_waits(world, 0);
    return TRI_OK;
}

TEST(slow_is_not_hung) {
    tri_ranks spec = how(0);
    tri_status status = TRI_DISAGREE;
    spec.progress_timeout = 1;
    for (int tries = 0; status != TRI_OK && tries < 5;
         tries++) { /* on a busy machine a pause of 0.1 s may take longer than the timeout */
        board *board = board_open();
        board->who = 1;
        status = tri_ranks_run(&spec, be_slow, board);
        munmap(board, sizeof *board);
    }
    assert_int_equal(status, TRI_OK);
}

/* Time in which the watcher stood still (a stopped terminal job) is nobody's hang. */
TEST(standstill_of_all_is_no_hang) {
    tri_segment segment;
    tri_segment_spec spec = {.n = 2, .world = 2, .heap_bytes = 4096, .progress_timeout = 0.5, .flat = 1};
    tri_seen *seen = calloc(TRI_RANKS_PER_NODE, sizeof *seen);
    assert_int_equal(tri__segment_create(&spec, &segment), TRI_OK);
    for (int i = 0; i < 2; i++) tri__control_join(segment.control, i);
    atomic_store(&segment.control->line[0].waiting, 1);
    tri__control_watch(segment.control, seen, NULL, -1);
    pause_seconds(0.7);
    tri__control_watch(segment.control, seen, NULL, -1);
    assert_int_equal(tri__control_status(segment.control), TRI_OK);
    for (int i = 0; i < 10 && !atomic_load(&segment.control->abort); i++) {
        pause_seconds(0.1);
        tri__control_watch(segment.control, seen, NULL, -1);
    }
    assert_int_equal(tri__control_status(segment.control), TRI_DISAGREE);
    tri__segment_close(&segment);
    free(seen);
}

/* A rank that was waited for longer than the timeout ends the wait and leaves; the others have not woken yet. */
TEST(leaving_is_progress) {
    tri_segment segment;
    tri_segment_spec spec = {.n = 2, .world = 2, .heap_bytes = 4096, .progress_timeout = 0.5, .flat = 1};
    tri_seen *seen = calloc(TRI_RANKS_PER_NODE, sizeof *seen);
    assert_int_equal(tri__segment_create(&spec, &segment), TRI_OK);
    tri_rank_line *line = segment.control->line;
    for (int i = 0; i < 2; i++) tri__control_join(segment.control, i);
    atomic_store(&line[1].waiting, 1);
    for (int i = 0; i < 8; i++) {
        atomic_fetch_add(&line[0].beats, 1);
        atomic_fetch_add(&line[1].looks, 1);
        if (i == 7) atomic_store(&line[0].life, TRI_LIFE_LEFT);
        tri__control_watch(segment.control, seen, NULL, -1);
        pause_seconds(0.1);
    }
    assert_int_equal(tri__control_status(segment.control), TRI_OK);
    tri__segment_close(&segment);
    free(seen);
}

/* ---- Two failures at once ---- */

static tri_status fail_on_two(tri_world *world, void *context) {
    board *board = context;
    tri_control *control = world->segment.control;
    int rank = tri_world_rank(world);
    TRI_TRY(tri__world_meet(world, 10, NULL));
    if (rank == 1 || rank == 2) {
        uint64_t bits = board->random >> (20 * rank); /* up to 0.25 ms apart, or up to 5 */
        double until = tri__clock() + 1e-6 * (double)(board->random & 1 ? bits & 0xFF : bits % 5000);
        while (tri__clock() < until) continue;
        return tri__fail(rank == 1 ? TRI_DATA : TRI_IO, "cause %d", rank);
    }
    tri_status status = wait_for_failure(world);
    tri_failure first, second[TRI_SECOND_FAILURES];
    atomic_store(&board->status[rank], status);
    EXPECT(tri__control_failure(control, &first) && first.code == (int)status);
    double begin = tri__clock();
    while (tri__control_second(control, second) < 1 && tri__clock() - begin < 5) sched_yield();
    int n = tri__control_second(control, second);
    atomic_store(&board->done, n);
    EXPECT(n == 1 && first.rank + second[0].rank == 3 && second[0].code == (first.rank == 1 ? TRI_IO : TRI_DATA));
    return status;
}

TEST(two_failures_keep_one_first) {
    board *board = board_open();
    int by_rank[3] = {0};
    uint64_t random = 88172645463325252u;
    for (int round = 0, rounds = soak_count("SOAK_ROUNDS", 200); round < rounds; round++) {
        tri_ranks spec = {.n = RANKS, .heap_bytes = HEAP};
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        board->random = random;
        tri_status status = tri_ranks_run(&spec, fail_on_two, board);
        assert_true(status == TRI_DATA || status == TRI_IO);
        assert_int_equal(board->status[0], status);
        assert_int_equal(board->status[3], status);
        assert_int_equal(board->done, 1);
        int rank = status == TRI_DATA ? 1 : 2;
        char want[64];
        snprintf(want, sizeof want, "rank %d: cause %d (in the program that uses the library)", rank, rank);
        assert_string_equal(tri_error(), want);
        by_rank[rank]++;
    }
    print_message("first of two failures: rank 1 %d times, rank 2 %d times\n", by_rank[1], by_rank[2]);
    assert_true(by_rank[1] > 0 && by_rank[2] > 0);
    munmap(board, sizeof *board);
}

/* The writer of the first record died in the middle of it; the supervisor says so in a second one. */
TEST(half_a_record_does_not_block) {
    tri_segment segment;
    tri_segment_spec spec = {.n = 2, .world = 2, .heap_bytes = 4096, .progress_timeout = 30, .flat = 1};
    assert_int_equal(tri__segment_create(&spec, &segment), TRI_OK);
    atomic_store(&segment.control->failure.state, 1);
    double begin = tri__clock();
    assert_int_equal(tri__control_status(segment.control), TRI_INTERNAL);
    assert_true(tri__clock() - begin < 1);
    tri__control_fail(segment.control, 1, 128 + SIGSEGV, "died (signal 11)");
    assert_int_equal(tri__control_status(segment.control), 128 + SIGSEGV);
    assert_string_equal(tri_error(), "rank 1: died (signal 11) (starting)");
    assert_int_equal(atomic_load(&segment.control->abort), 1);
    tri__segment_close(&segment);
}

/* ---- Waking ---- */

/* Two ranks hand a number to and fro, slowly enough that the other one sleeps: a lost wake would cost the rest of its 5
 * ms. */
typedef struct handing {
    _Atomic int turn;
    int plain;            /* by semaphores instead: what the machine itself takes now */
    sem_t may[2];         /* plain: rank r's turn */
    double at[HANDOVERS]; /* the clock when each began */
} handing;

static tri_status hand_over(tri_world *world, void *context) {
    handing *h = context;
    int rank = tri_world_rank(world), other = 1 - rank;
    for (int i = rank; i < HANDOVERS; i += 2) {
        tri_idle idle = {0};
        if (h->plain) sem_wait(&h->may[rank]);
        while (atomic_load(&h->turn) != i) {
            TRI_TRY(tri__world_check(world));
            tri__idle(world->segment.control, world->local, &idle);
        }
        h->at[i] = tri__clock();
        pause_seconds(0.001);
        atomic_store(&h->turn, i + 1);
        if (h->plain)
            sem_post(&h->may[other]);
        else
            tri__control_wake(world->segment.control, &other, 1);
    }
    return TRI_OK;
}

/* The median of a hand-over, seconds. */
static double hand_over_seconds(int plain) {
    tri_ranks spec = {.n = 2, .heap_bytes = HEAP};
    handing h = {.plain = plain};
    for (int rank = 0; rank < 2; rank++) assert_int_equal(sem_init(&h.may[rank], 0, rank == 0), 0);
    assert_int_equal(tri_ranks_run(&spec, hand_over, &h), TRI_OK);
    for (int i = 0; i + 1 < HANDOVERS; i++) h.at[i] = h.at[i + 1] - h.at[i];
    qsort(h.at, HANDOVERS - 1, sizeof *h.at, by_size);
    return h.at[HANDOVERS / 2];
}

/* Within 2 ms of what semaphores take in the same moments: on a busy machine both take as long as others let them. Our
 * loads and stores take several times as long under the sanitizer. A wake that is lost costs the 5 ms of a sleep. */
#ifdef __SANITIZE_THREAD__
static const double FAR = 0.004;
#else
static const double FAR = 0.002;
#endif

TEST(wakes_are_not_lost) {
    double ours = 1, plain = 0;
    for (int tries = 0; ours >= plain + FAR && tries < TRIES; tries++) {
        plain = hand_over_seconds(1), ours = hand_over_seconds(0);
        print_message("handing over after 1000 us: %.0f us, by semaphores %.0f (medians)\n", 1e6 * ours, 1e6 * plain);
    }
    assert_true(ours < plain + FAR);
}

/* ---- What is left ---- */

static int shm_before, fds_before;

static int note_before(void **state) {
    (void)state;
    shm_before = names("/dev/shm", "trident"), fds_before = names("/proc/self/fd", NULL);
    return 0;
}

TEST(nothing_is_left) {
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(names("/proc/self/fd", NULL), fds_before);
    assert_int_equal(names("/dev/shm", "trident"), shm_before);
}

int main(int argc, char **argv) { return run_listed(argc, argv, note_before, NULL); }
