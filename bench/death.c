/* death.c - from a rank's death to the return of the last other rank from its wait, under `trident`'s supervisor, in
 * turn with the least that a system needs for it: a poll of pidfds and one futex, on which as many processes sleep.
 * Beside busy loops.
 *
 *   death [ROUNDS [LOOPS]]   300 rounds of each beside 2 loops; one JSON object for each; exit 1 if the 99th percentile
 *                            is above 3 times the bare one, or above 10 ms */
#include "comm/start/join.h"
#include "job/supervisor.h"

#include "measure.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { RANKS = 4, VICTIM = 2, LOOPS_MAX = 64 };
static const useconds_t ASLEEP_MICROSECONDS = 20000; /* by then the others sleep in their waits */

/* In a file that all processes map. */
typedef struct board {
    _Atomic uint32_t abort, waiting;
    double died, returned[RANKS]; /* tri__clock() */
} board;

static board *map_board(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(board)) != 0) return NULL;
    board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return b == MAP_FAILED ? NULL : b;
}

/* The others have announced that they wait. */
static void die(board *b) {
    while (atomic_load(&b->waiting) < RANKS - 1) usleep(1000);
    usleep(ASLEEP_MICROSECONDS);
    b->died = tri__clock();
    kill(getpid(), SIGKILL);
}

static double last_return(const board *b) {
    double last = 0;
    for (int i = 0; i < RANKS; i++)
        if (i != VICTIM && b->returned[i] > last) last = b->returned[i];
    return last - b->died;
}

/* ---- ours: this program as a rank ---- */

static int be_rank(const char *path) {
    tri_world *world;
    tri_idle idle = {0};
    board *b = map_board(path);
    if (!b || tri_world_join(NULL, getenv, &world) != TRI_OK) return TRI_INTERNAL;
    if (world->rank == VICTIM) die(b);
    tri__world_waits(world, 1);
    atomic_fetch_add(&b->waiting, 1);
    while (tri__world_check(world) == TRI_OK) tri__idle(world->segment.control, world->local, &idle);
    b->returned[world->rank] = tri__clock();
    tri__world_waits(world, 0);
    tri_world_close(world);
    return TRI_OK;
}

static int ours(const char *path, board *b, double *seconds) {
    char *argv[] = {"death", "rank", (char *)path, NULL};
    tri_supervised what = {.argv = argv, .environment = environ, .n = RANKS, .heap_bytes = 1 << 16,
                           .progress_timeout = 60, .out = STDOUT_FILENO, .err = STDERR_FILENO};
    tri_verdict verdict;
    memset((void *)b, 0, sizeof *b);
    if (tri__supervise(&what, &verdict) != TRI_OK) return 0;
    int ok = verdict.code == 128 + SIGKILL && verdict.failure.rank == VICTIM;
    tri__verdict_free(&verdict);
    *seconds = last_return(b);
    return ok;
}

/* ---- bare: forks, pidfds, a futex ---- */

static void wait_bare(board *b, int i) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (i == VICTIM) die(b);
    atomic_fetch_add(&b->waiting, 1);
    while (!atomic_load(&b->abort)) tri__futex_wait(&b->abort, 0, 60);
    b->returned[i] = tri__clock();
    _exit(0);
}

static int bare(board *b, double *seconds) {
    struct pollfd ends[RANKS];
    pid_t pid[RANKS];
    memset((void *)b, 0, sizeof *b);
    for (int i = 0; i < RANKS; i++) {
        pid[i] = fork();
        if (pid[i] < 0) return 0;
        if (pid[i] == 0) wait_bare(b, i);
        ends[i] = (struct pollfd){.fd = pidfd_open(pid[i], 0), .events = POLLIN};
    }
    while (!ends[VICTIM].revents) poll(ends, RANKS, -1);
    atomic_store(&b->abort, 1);
    tri__futex_wake(&b->abort);
    for (int i = 0; i < RANKS; i++) waitpid(pid[i], NULL, 0), close(ends[i].fd);
    *seconds = last_return(b);
    return 1;
}

/* ---- the figures ---- */

static void start_loops(int n, pid_t *loop) {
    for (int i = 0; i < n; i++) {
        loop[i] = fork();
        if (loop[i]) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (volatile unsigned spin = 0;; spin++) continue;
    }
}

/* The 99th percentile of n sorted times. */
static double print(const char *name, double *seconds, int n, int loops) {
    qsort(seconds, (size_t)n, sizeof *seconds, bench_ascending);
    double most = seconds[n - 1 - n / 100];
    printf("{\"figure\": \"death_to_last_return\", \"by\": \"%s\", \"ranks\": %d, \"rounds\": %d, \"busy_loops\": %d, "
           "\"median_ms\": %.3f, \"p99_ms\": %.3f, \"worst_ms\": %.3f}\n",
           name, RANKS, n, loops, 1e3 * seconds[n / 2], 1e3 * most, 1e3 * seconds[n - 1]);
    return most;
}

int main(int argc, char **argv) {
    if (argc > 2 && !strcmp(argv[1], "rank")) return be_rank(argv[2]);
    int rounds = argc > 1 ? atoi(argv[1]) : 300, loops = argc > 2 ? atoi(argv[2]) : 2, ok = 1;
    char path[64];
    pid_t loop[LOOPS_MAX];
    if (rounds < 1 || loops < 0 || loops > LOOPS_MAX) return 2;
    snprintf(path, sizeof path, "/tmp/trident-death-%d", (int)getpid());
    board *b = map_board(path);
    double *time[2] = {calloc((size_t)rounds, sizeof(double)), calloc((size_t)rounds, sizeof(double))};
    if (!b || !time[0] || !time[1]) return 1;
    start_loops(loops, loop);
    for (int i = 0; i < rounds && ok; i++) ok = ours(path, b, &time[0][i]) && bare(b, &time[1][i]);
    for (int i = 0; i < loops; i++) kill(loop[i], SIGKILL), waitpid(loop[i], NULL, 0);
    unlink(path);
    if (!ok) return 1;
    double p99 = print("trident", time[0], rounds, loops), least = print("pidfd and futex", time[1], rounds, loops);
    int met = p99 <= 3 * least && p99 <= 0.010;
    printf("{\"target\": \"p99 at most 3 times the bare one, and 10 ms\", \"ratio\": %.2f, \"met\": %s}\n", p99 / least,
           met ? "true" : "false");
    free(time[0]);
    free(time[1]);
    return !met;
}
