/* test_hangs.c - what a watcher makes of ranks that show nothing: file calls of a rank and of its helpers, their own
 * time limit, the one warning before it; a process that is stopped in a file call; a named pipe that nobody opens. */
#include "base/clock.h"
#include "base/file.h"
#include "base/file_call.h"
#include "comm/world/world.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/lib/rank_waits.h"
#include "tests/lib/scratch.h"

/* ---- announcing ---- */

TEST(a_call_is_seen_with_its_path) {
    static tri_call_board board;
    tri_call_view view;
    char path[400];
    memset(path, 'a', sizeof path);
    memcpy(path + sizeof path - 9, "\n/the end", 9);
    path[sizeof path - 1] = 0;
    tri__call_begin(TRI_CALL_SYNC, "before any board"); /* announces nothing, and does no harm */
    tri__call_end();
    tri_calls *calls = tri__calls_open(&board, NULL, NULL);
    assert_false(tri__calls_now(&board, &view));
    tri__call_begin(TRI_CALL_SYNC, "x/weights");
    assert_true(tri__calls_now(&board, &view));
    assert_string_equal(tri__call_text(view.call), "fsync");
    assert_string_equal(view.path, "x/weights");
    tri__call_end();
    assert_false(tri__calls_now(&board, &view));
    tri__call_begin(TRI_CALL_OPEN, path);
    assert_true(tri__calls_now(&board, &view));
    assert_int_equal(strlen(view.path), 8 * TRI_CALL_WORDS - 1);
    assert_memory_equal(view.path, "...aaa", 6);
    assert_string_equal(view.path + strlen(view.path) - 8, "?/the en");
    tri__call_end();
    tri__calls_close(calls);
    uint64_t number = tri__calls_number(&board);
    tri__call_begin(TRI_CALL_OPEN, "after the board was closed");
    assert_int_equal(tri__calls_number(&board), number);
    tri__call_end();
}

typedef struct helper {
    tri_calls *calls;
    pthread_barrier_t in, out;
} helper;

static void *help(void *context) {
    helper *h = context;
    tri__calls_help(h->calls);
    tri__call_begin(TRI_CALL_READ, "tokens");
    pthread_barrier_wait(&h->in);
    pthread_barrier_wait(&h->out);
    tri__call_end();
    tri__calls_leave();
    return NULL;
}

static void count_poll(void *context) { ++*(int *)context; }

/* Calls of a helper are the rank's only while its own thread waits for it. */
TEST(a_helper_counts_while_it_is_waited_for) {
    static tri_call_board board;
    int polls = 0;
    tri_call_view view;
    pthread_t thread;
    helper h = {.calls = tri__calls_open(&board, count_poll, &polls)};
    assert_ptr_equal(h.calls, tri__calls_mine());
    pthread_barrier_init(&h.in, NULL, 2);
    pthread_barrier_init(&h.out, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, help, &h), 0);
    pthread_barrier_wait(&h.in);
    assert_false(tri__calls_now(&board, &view));
    tri__helpers_begin();
    tri__helpers_poll();
    assert_int_equal(polls, 1);
    assert_true(tri__calls_now(&board, &view));
    assert_string_equal(view.path, "tokens");
    uint64_t number = tri__calls_number(&board);
    pthread_barrier_wait(&h.out);
    pthread_join(thread, NULL);
    assert_int_not_equal(tri__calls_number(&board), number);
    assert_false(tri__calls_now(&board, &view));
    tri__helpers_end();
    tri__calls_close(h.calls);
}

/* ---- judging ---- */

typedef struct heard {
    int n;
    char text[512];
} heard;

static void hear(void *context, tri_log_level level, const char *text) {
    heard *h = context;
    assert_int_equal(level, TRI_LOG_WARN);
    h->n++;
    snprintf(h->text, sizeof h->text, "%s", text);
}

/* A rank's own thread, which stays in one file call: the thread that watches makes file calls itself. */
typedef struct busy_rank {
    tri_call_board *calls;
    pthread_t thread;
    pthread_barrier_t in, out;
} busy_rank;

static void *stay_in_call(void *context) {
    busy_rank *rank = context;
    tri_calls *calls = tri__calls_open(rank->calls, NULL, NULL);
    tri__call_begin(TRI_CALL_SYNC, "run/checkpoint-7/weights-00001.safetensors");
    pthread_barrier_wait(&rank->in);
    pthread_barrier_wait(&rank->out);
    tri__call_end();
    tri__calls_close(calls);
    return NULL;
}

static void begin_call(busy_rank *rank, tri_call_board *calls) {
    rank->calls = calls;
    pthread_barrier_init(&rank->in, NULL, 2);
    pthread_barrier_init(&rank->out, NULL, 2);
    assert_int_equal(pthread_create(&rank->thread, NULL, stay_in_call, rank), 0);
    pthread_barrier_wait(&rank->in);
}

static void end_call(busy_rank *rank) {
    pthread_barrier_wait(&rank->out);
    pthread_join(rank->thread, NULL);
}

/* Two ranks of one segment: rank 0 waits and polls if `waits`, rank 1 is in a file call. Watches until a failure, at
 * most `seconds`; how long that took. */
static double watch_a_call(int waits, double seconds, heard *said, tri_status *status, char words[static 1024]) {
    tri_segment segment;
    tri_segment_spec spec = {
        .n = 2, .world = 2, .heap_bytes = 4096, .progress_timeout = 0.3, .io_timeout = 1, .flat = 1};
    tri_seen *seen = calloc(TRI_RANKS_PER_NODE, sizeof *seen);
    tri_log log = {.say = hear, .context = said};
    assert_int_equal(tri__segment_create(&spec, &segment), TRI_OK);
    tri_control *control = segment.control;
    for (int i = 0; i < 2; i++) tri__control_join(control, i);
    atomic_store(&control->line[0].waiting, (uint32_t)waits);
    busy_rank busy;
    begin_call(&busy, &control->line[1].calls);
    double begin = tri__clock(), took = 0;
    while (!atomic_load(&control->abort) && (took = tri__clock() - begin) < seconds) {
        if (waits) atomic_fetch_add(&control->line[0].looks, 1);
        else atomic_fetch_add(&control->line[0].beats, 1);
        tri__control_watch(control, seen, &log, -1);
        pause_seconds(0.05);
    }
    *status = tri__control_status(control);
    snprintf(words, 1024, "%s", tri_error());
    end_call(&busy);
    tri__segment_close(&segment);
    free(seen);
    return took;
}

TEST(a_file_call_has_its_own_limit) {
    for (int waits = 0; waits < 2; waits++) { /* needs nobody who waits: all ranks may be in one */
        heard said = {0};
        tri_status status;
        char words[1024];
        double took = watch_a_call(waits, 10, &said, &status, words);
        assert_int_equal(status, TRI_IO);
        assert_non_null(strstr(words, "rank 1: has been in fsync of run/checkpoint-7/weights-00001.safetensors for "));
        assert_non_null(strstr(words, "--io-timeout"));
        assert_int_equal(said.n, 1); /* after the progress timeout, once */
        assert_non_null(strstr(said.text, "rank 1 has been in fsync of run/checkpoint-7/weights-00001.safetensors"));
        assert_true(took > 1 && (took < 5 || getenv("TRI_SANITIZED"))); /* cores are shared */
    }
}

/* Each finished call is progress, however slow all of them are. */
TEST(a_slow_disk_is_no_hang) {
    tri_segment segment;
    tri_segment_spec spec = {
        .n = 2, .world = 2, .heap_bytes = 4096, .progress_timeout = 1, .io_timeout = 1, .flat = 1};
    tri_seen *seen = calloc(TRI_RANKS_PER_NODE, sizeof *seen);
    assert_int_equal(tri__segment_create(&spec, &segment), TRI_OK);
    for (int i = 0; i < 2; i++) tri__control_join(segment.control, i);
    atomic_store(&segment.control->line[0].waiting, 1);
    tri_calls *calls = tri__calls_open(&segment.control->line[1].calls, NULL, NULL);
    for (int i = 0; i < 40; i++) {
        tri__call_begin(TRI_CALL_READ, "tokens");
        pause_seconds(0.05);
        tri__call_end();
        atomic_fetch_add(&segment.control->line[0].looks, 1);
        tri__control_watch(segment.control, seen, NULL, -1);
    }
    assert_int_equal(tri__control_status(segment.control), TRI_OK);
    tri__calls_close(calls);
    tri__segment_close(&segment);
    free(seen);
}

/* ---- processes ---- */

/* Rank 1 opens a pipe that nobody writes to; with `stopped`, it is stopped there. */
static tri_status open_pipe(tri_world *world, void *context) {
    int fd, stopped = *(int *)context;
    if (tri_world_rank(world) == 0) return wait_for_failure(world);
    pid_t self = getpid();
    if (stopped && fork() == 0) {
        pause_seconds(0.2);
        kill(self, SIGSTOP);
        _exit(0);
    }
    TRI_TRY(tri__file_open_any("pipe", &fd));
    close(fd);
    return TRI_OK;
}

/* Rank 1 is in a slow file call, and is stopped for a moment after the progress timeout: neither is a hang. */
static tri_status pause_in_a_call(tri_world *world, void *context) {
    atomic_int *done = context;
    if (tri_world_rank(world) == 0) {
        tri_idle idle = {0};
        tri__world_waits(world, 1);
        while (!atomic_load(done)) {
            TRI_TRY(tri__world_check(world));
            tri__idle(world->segment.control, world->local, &idle);
        }
        tri__world_waits(world, 0);
        return TRI_OK;
    }
    pid_t self = getpid(), child = fork();
    if (child == 0) {
        pause_seconds(1.5);
        kill(self, SIGSTOP);
        pause_seconds(0.3);
        kill(self, SIGCONT);
        _exit(0);
    }
    tri__call_begin(TRI_CALL_SYNC, "weights");
    double until = tri__clock() + 2.5;
    while (tri__clock() < until) tri__clock_sleep(until);
    tri__call_end();
    waitpid(child, NULL, 0);
    atomic_store(done, 1);
    return TRI_OK;
}

TEST(a_short_stop_in_a_long_call_is_no_hang) {
    atomic_int *done = mmap(NULL, sizeof *done, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    tri_ranks how = {.n = 2, .forks = 1, .heap_bytes = 1 << 16, .progress_timeout = 1, .io_timeout = 30};
    tri_status status = TRI_DISAGREE;
    for (int tries = 0; status != TRI_OK && tries < 5; tries++) { /* a busy machine may stand still for longer */
        atomic_store(done, 0);
        status = tri_ranks_run(&how, pause_in_a_call, done);
    }
    if (status != TRI_OK) fail_msg("%s", tri_error());
    munmap(done, sizeof *done);
}

TEST(a_pipe_that_nobody_opens_is_named) {
    for (int stopped = 0; stopped < 2; stopped++) {
        tri_ranks how = {.n = 2, .forks = 1, .heap_bytes = 1 << 16, .progress_timeout = 1, .io_timeout = 2};
        double begin = tri__clock();
        tri_status status = tri_ranks_run(&how, open_pipe, &stopped);
        assert_int_equal(status, stopped ? TRI_DISAGREE : TRI_IO);
        if (!stopped) assert_non_null(strstr(tri_error(), "rank 1: has been in open of pipe for "));
        if (stopped) assert_non_null(strstr(tri_error(), "rank 1: hangs: no progress for "));
        if (stopped) assert_non_null(strstr(tri_error(), "its process is stopped (SIGSTOP"));
        print_message("%s: known after %.2f s, with 2 s to leave\n", stopped ? "stopped" : "a pipe",
                      tri__clock() - begin);
    }
}

/* Ranks that save: all wait for one another, which takes processor time; or one computes for ever. */
static tri_status spin_while_saving(tri_world *world, void *context) {
    int all_wait = *(int *)context;
    tri_status status = TRI_OK;
    tri__world_doing(world, TRI_DOING_SAVE, 1);
    tri__world_waits(world, all_wait || tri_world_rank(world) == 0);
    while (status == TRI_OK) {
        status = tri__world_check(world);
        if (all_wait || tri_world_rank(world) == 0)
            atomic_fetch_add(&world->segment.control->line[world->local].looks, 1);
    }
    return status;
}

TEST(processor_time_of_a_save_does_not_count_for_ever) {
    for (int all_wait = 0; all_wait < 2; all_wait++) {
        tri_ranks how = {.n = 2, .forks = 1, .heap_bytes = 1 << 16, .progress_timeout = 1.5, .io_timeout = 3};
        double begin = tri__clock();
        assert_int_equal(tri_ranks_run(&how, spin_while_saving, &all_wait), TRI_DISAGREE);
        const char *want = all_wait ? "all ranks wait for one another" : "rank 1: hangs";
        if (!strstr(tri_error(), want)) fail_msg("\"%s\" does not say \"%s\"", tri_error(), want);
        assert_true(tri__clock() - begin > (all_wait ? 1.5 : 3));
    }
}

static int make_pipe(void **state) { return setup(state) || chdir(folder) || mkfifo("pipe", 0600); }

int main(int argc, char **argv) { return run_listed(argc, argv, make_pipe, teardown); }
