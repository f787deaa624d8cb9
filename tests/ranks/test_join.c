/* test_join.c - joining a job: alone, through our supervisor's descriptor, or by torchrun's variables; and what the
 * watcher detects without a supervisor. */
#include "tests/lib/test.h"
#include "tests/lib/rank_waits.h"
#include "base/clock.h"
#include "comm/start/join.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 3 };

/* Shared with the ranks. */
typedef struct board {
    _Atomic int waiting, done;
    _Atomic double failed, woken[RANKS]; /* tri__clock() */
    char words[RANKS][256];
} board;

static board *board_open(void) {
    board *made = mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(made != MAP_FAILED);
    return made;
}

static int end_of(pid_t child) {
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

static char *no_variables(const char *name) {
    (void)name;
    return NULL;
}

TEST(alone_without_a_launcher) {
    tri_world *world;
    void *memory;
    assert_int_equal(tri_world_join(NULL, no_variables, &world), TRI_OK);
    assert_int_equal(tri_world_rank(world), 0);
    assert_int_equal(tri_world_size(world), 1);
    assert_int_equal(tri_heap_alloc(world, 1 << 20, &memory), TRI_OK);
    tri_heap_free(world, memory);
    tri_heap_free(world, NULL);
    assert_int_equal(tri__world_meet(world, 1, NULL), TRI_OK);
    tri_world_close(world);
    tri_world_close(NULL);
    tri_ranks hasty = {.progress_timeout = 0.01};
    assert_int_equal(tri_world_join(&hasty, no_variables, &world), TRI_USAGE);
    assert_null(world);
}

/* The environment of this process is what a test says. */
static char *own_environment(const char *name) { return getenv(name); }

static void set_number(const char *name, int value) {
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static pid_t start_torchrun_rank(int rank, int size, int port, double timeout, tri_status (*run)(tri_world *, board *),
                                 board *board) {
    pid_t child = fork();
    if (child) return child;
    tri_world *world;
    tri_ranks how = {.heap_bytes = 1 << 16, .progress_timeout = timeout};
    set_number("RANK", rank);
    set_number("WORLD_SIZE", size);
    set_number("LOCAL_RANK", rank);
    set_number("LOCAL_WORLD_SIZE", size);
    set_number("MASTER_PORT", port);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    tri_status status = tri_world_join(&how, own_environment, &world);
    if (status == TRI_OK)
        status = tri_world_rank(world) == rank && tri_world_size(world) == size ? run(world, board) : TRI_INTERNAL;
    if (board && rank < RANKS)
        snprintf(board->words[rank], sizeof board->words[rank], "%s", status == TRI_OK ? "" : tri_error());
    tri_world_close(world);
    _exit(status);
}

static int own_port(void) {
    static int count;
    return 20000 + (int)(getpid() % 20000) + count++;
}

static tri_status shake_hands(tri_world *world, board *board) {
    atomic_fetch_add(&board->done, 1 << (4 * tri_world_rank(world)));
    tri_idle idle = {0};
    while (atomic_load(&board->done) != 0x111) {
        TRI_TRY(tri__world_check(world));
        tri__idle(world->segment.control, world->local, &idle);
    }
    if (tri_world_rank(world) == 1) return TRI_OK; /* leaves first */
    while (!tri__world_left(world, 1)) {
        TRI_TRY(tri__world_check(world));
        tri__idle(world->segment.control, world->local, &idle);
    }
    return TRI_OK;
}

TEST(torchrun_ranks_meet) {
    board *board = board_open();
    int port = own_port();
    pid_t child[RANKS];
    for (int i = 0; i < RANKS; i++) child[i] = start_torchrun_rank(i, RANKS, port, 30, shake_hands, board);
    for (int i = 0; i < RANKS; i++) assert_int_equal(end_of(child[i]), TRI_OK);
    munmap(board, sizeof *board);
}

static tri_status die_or_wait(tri_world *world, board *board) {
    int rank = tri_world_rank(world);
    if (rank == 1) {
        while (atomic_load(&board->waiting) < RANKS - 1) pause_seconds(0.001);
        pause_seconds(0.02); /* they sleep */
        atomic_store(&board->failed, tri__clock());
        kill(getpid(), atomic_load(&board->done));
        pause_seconds(5); /* ended before that */
        return tri__world_check(world);
    }
    atomic_fetch_add(&board->waiting, 1);
    tri_status status = wait_for_failure(world);
    atomic_store(&board->woken[rank], tri__clock());
    return status;
}

static double latency(const board *board) {
    double last = board->woken[0] > board->woken[2] ? board->woken[0] : board->woken[2];
    assert_true(board->woken[0] > 0 && board->woken[2] > 0);
    return last - board->failed;
}

TEST(death_is_seen_without_a_supervisor) {
    double worst = 0, second = 0; /* the worst may be a moment in which a shared machine stood still */
    for (int round = 0; round < 5; round++) {
        board *board = board_open();
        int port = own_port();
        pid_t child[RANKS];
        board->done = SIGKILL;
        for (int i = 0; i < RANKS; i++) child[i] = start_torchrun_rank(i, RANKS, port, 30, die_or_wait, board);
        assert_int_equal(end_of(child[1]), 128 + SIGKILL);
        assert_int_equal(end_of(child[0]), TRI_KILLED); /* no bug */
        assert_int_equal(end_of(child[2]), TRI_KILLED);
        assert_non_null(strstr(board->words[0], "rank 1: its process"));
        assert_string_equal(board->words[0], board->words[2]);
        double seconds = latency(board);
        if (seconds > worst) second = worst, worst = seconds;
        else if (seconds > second) second = seconds;
        munmap(board, sizeof *board);
    }
    print_message("kill -9 of one of %d joined ranks, 5 times: the last wait ended after at most %.2f ms\n", RANKS,
                  1e3 * worst);
    assert_true(second < 0.05 && worst < 2);
}

TEST(hang_is_seen_without_a_supervisor) {
    board *board = board_open();
    int port = own_port();
    pid_t child[RANKS];
    board->done = SIGSTOP;
    for (int i = 0; i < RANKS; i++) child[i] = start_torchrun_rank(i, RANKS, port, 0.5, die_or_wait, board);
    assert_int_equal(end_of(child[0]), TRI_DISAGREE);
    assert_int_equal(end_of(child[2]), TRI_DISAGREE);
    kill(child[1], SIGKILL);
    assert_int_equal(end_of(child[1]), 128 + SIGKILL);
    assert_non_null(strstr(board->words[0], "rank 1: hangs"));
    munmap(board, sizeof *board);
}

/* As our supervisor starts ranks: the descriptor is inherited. */
TEST(own_ranks_inherit_the_memory) {
    tri_segment segment;
    tri_segment_spec spec = {.n = 2, .world = 2, .heap_bytes = 1 << 16, .progress_timeout = 30};
    pid_t child[2];
    assert_int_equal(tri__segment_create(&spec, &segment), TRI_OK);
    for (int i = 0; i < 2; i++) {
        child[i] = fork();
        if (child[i]) continue;
        tri_world *world;
        tri_launch launch = {.launcher = TRI_LAUNCHER_OWN,
                             .rank = i,
                             .size = 2,
                             .local = i,
                             .local_size = 2,
                             .nodes = 1,
                             .fd = segment.fd};
        tri_ranks how = {.progress_timeout = 5};
        tri_status status = tri__world_join_launch(&how, &launch, &world);
        if (status == TRI_OK && i == 1) tri_world_fail(world, TRI_NOTFINITE, "loss is not finite");
        if (status == TRI_OK) status = wait_for_failure(world);
        tri_world_close(world);
        _exit(status);
    }
    for (int i = 0; i < 2; i++) assert_int_equal(end_of(child[i]), TRI_NOTFINITE);
    for (int i = 0; i < 2; i++) assert_int_equal(atomic_load(&segment.control->line[i].life), TRI_LIFE_LEFT);
    assert_int_equal(tri__control_status(segment.control), TRI_NOTFINITE);
    assert_string_equal(tri_error(), "rank 1: loss is not finite (starting)");
    tri__segment_close(&segment);
}

TEST(launcher_and_memory_must_agree) {
    tri_segment segment;
    tri_segment_spec spec = {.n = 2, .world = 2, .heap_bytes = 4096, .progress_timeout = 30};
    tri_launch good = {.launcher = TRI_LAUNCHER_OWN, .rank = 0, .size = 2, .local = 0, .local_size = 2, .nodes = 1},
               bad = good;
    tri_world *world;
    assert_int_equal(tri__segment_create(&spec, &segment), TRI_OK);
    bad.fd = dup(segment.fd), bad.size = 3;
    assert_int_equal(tri__world_join_launch(NULL, &bad, &world), TRI_DISAGREE);
    bad = good, bad.fd = dup(segment.fd), bad.local_size = 1;
    assert_int_equal(tri__world_join_launch(NULL, &bad, &world), TRI_DISAGREE);
    bad = good, bad.fd = dup(segment.fd), bad.local = 2;
    assert_int_equal(tri__world_join_launch(NULL, &bad, &world), TRI_USAGE);
    bad = good, bad.fd = dup(segment.fd), bad.rank = 1;
    assert_int_equal(tri__world_join_launch(NULL, &bad, &world), TRI_DISAGREE);
    assert_null(world);
    tri__segment_close(&segment);
    bad = (tri_launch){.launcher = TRI_LAUNCHER_TORCHRUN,
                       .rank = 0,
                       .size = 4,
                       .local = 0,
                       .local_size = 2,
                       .nodes = 2,
                       .fd = -1,
                       .port = 29500};
    assert_int_equal(tri__world_join_launch(NULL, &bad, &world), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "mpirun -np 4"));
}

TEST(missing_ranks_are_named) {
    tri_segment segment;
    tri_segment_spec spec = {
        .n = 3, .world = 6, .world_rank = (int[]){1, 3, 5}, .heap_bytes = 4096, .progress_timeout = 30, .flat = 1};
    tri_world *world;
    assert_int_equal(tri__segment_create(&spec, &segment), TRI_OK);
    tri_nodes nodes = {.node_of = (int[]){0, 1, 0, 1, 0, 1}, .local_of = (int[]){0, 0, 1, 1, 2, 2}, .n = 2};
    assert_int_equal(tri__world_open(&segment, 1, &nodes, NULL, NULL, &world), TRI_OK);
    assert_int_equal(tri_world_rank(world), 3);
    assert_int_equal(tri_world_size(world), 6);
    assert_int_equal(tri__world_meet(world, 0.1, NULL), TRI_RESOURCE);
    assert_non_null(strstr(tri_error(), "missing: rank 1, 5"));
    tri_stop stop = {.signal = SIGTERM};
    assert_int_equal(tri__world_meet(world, 600, &stop), TRI_STOPPED);
    assert_non_null(strstr(tri_error(), "stopped (SIGTERM)"));
    tri_world_close(world);
    tri__segment_close(&segment);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
