/* test_crash.c - a whole job is killed at any moment from its first instruction on: no process, no shared-memory name
 * and no descriptor is left. */
#include "base/clock.h"
#include "comm/start/ranks.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/lib/names.h"
#include "tests/lib/soak.h"

enum { RANKS = 3 };

/* Operations without end: small ones, large ones, messages. */
static tri_status talk(tri_world *world, void *unused) {
    (void)unused;
    enum { COUNT = 20000 };
    float *data;
    tri_group *all = tri_group_world(world);
    int rank = tri_world_rank(world);
    TRI_TRY(tri_heap_alloc(world, COUNT * sizeof *data, (void **)&data));
    for (;;) {
        TRI_TRY(tri_all_reduce(all, NULL, data, 10, TRI_F32, TRI_SUM));
        TRI_TRY(tri_all_reduce(all, NULL, data, COUNT, TRI_F32, TRI_SUM));
        if (rank == 0) TRI_TRY(tri_send(all, data, COUNT, TRI_F32, 1, 0));
        if (rank == 1) TRI_TRY(tri_recv(all, data, COUNT, TRI_F32, 0, 0));
    }
}

/* All ranks hold the writing end of a pipe: its end means that all are gone. */
static double kill_at(useconds_t moment) {
    int ends[2], how;
    assert_int_equal(pipe(ends), 0);
    pid_t parent = fork();
    if (parent == 0) {
        tri_ranks spec = {.n = RANKS, .forks = 1, .heap_bytes = 1 << 20};
        close(ends[0]);
        _exit(tri_ranks_run(&spec, talk, NULL));
    }
    close(ends[1]);
    usleep(moment);
    double begin = tri__clock();
    kill(parent, SIGKILL);
    struct pollfd gone = {.fd = ends[0], .events = POLLIN};
    assert_int_equal(poll(&gone, 1, 10000), 1);
    assert_true(gone.revents & POLLHUP);
    double took = tri__clock() - begin;
    assert_int_equal(waitpid(parent, &how, 0), parent);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    close(ends[0]);
    return took;
}

TEST(crashes_leave_nothing) {
    int cycles = soak_count("SOAK_CYCLES", 50), ours = names("/dev/shm", "trident"), all = names("/dev/shm", NULL);
    int files = names("/proc/self/fd", NULL);
    uint64_t random = 88172645463325252u;
    double worst = 0;
    for (int i = 0; i < cycles; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        double took = kill_at((useconds_t)(random % 12000));
        if (took > worst) worst = took;
    }
    printf("%d jobs killed: the last process was gone after %.1f ms at worst\n", cycles, 1e3 * worst);
    assert_true(worst < 1);
    assert_int_equal(names("/proc/self/fd", NULL), files);
    assert_int_equal(names("/dev/shm", "trident"), ours);
    if (cycles >= 1000) assert_true(names("/dev/shm", NULL) < all + cycles / 100); /* other programs may come and go */
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
