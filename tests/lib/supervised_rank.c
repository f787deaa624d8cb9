/* supervised_rank.c - see supervised_rank.h. */
#include "tests/lib/supervised_rank.h"

#include "base/clock.h"
#include "comm/start/join.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Waits like an operation: until a failure or, with `stop`, until a stop signal. */
static tri_status wait_long(tri_world *world, int stop) {
    tri_idle idle = {0};
    tri_status status;
    tri__world_waits(world, 1);
    while ((status = tri__world_check(world)) == TRI_OK && !(stop && atomic_load(&world->segment.control->stop)))
        tri__idle(world->segment.control, world->local, &idle);
    tri__world_waits(world, 0);
    return status;
}

/* Appends one line to a file that all ranks share. */
static void note(const char *path, const char *format, ...) {
    char line[256];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (write(fd, line, (size_t)n) != n) abort();
    close(fd);
}

static tri_status leave(tri_world *world, const char *file) {
    (void)file;
    return tri_world_size(world) == 4 ? TRI_OK : TRI_INTERNAL;
}

static tri_status die(tri_world *world, const char *file) {
    tri__world_doing(world, TRI_DOING_FORWARD, 14);
    if (world->rank == 2) {
        usleep(20000);
        if (file) note(file, "died %.6f\n", tri__clock());
        kill(getpid(), SIGKILL);
    }
    tri_status status = wait_long(world, 0);
    if (file) note(file, "returned %.6f\n", tri__clock());
    return status;
}

static tri_status crash(tri_world *world, const char *file) {
    (void)file;
    struct rlimit none = {0};
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGSEGV, SIG_DFL); /* a sanitizer would turn it into an exit */
    if (world->rank == 1) raise(SIGSEGV);
    return wait_long(world, 0);
}

static tri_status report(tri_world *world, const char *file) {
    (void)file;
    tri__world_doing(world, TRI_DOING_LOAD, -1);
    if (world->rank == 3) return tri__fail(TRI_DATA, "train.csv:7: a bad row");
    return wait_long(world, 0);
}

static tri_status report_two(tri_world *world, const char *file) {
    (void)file;
    if (world->rank == 1) return tri__fail(TRI_DATA, "one");
    if (world->rank == 2) kill(getpid(), SIGKILL);
    return wait_long(world, 0);
}

static tri_status hang(tri_world *world, const char *file) {
    (void)file;
    tri__world_doing(world, TRI_DOING_BATCH, 3);
    if (world->rank == 1) raise(SIGSTOP);
    return wait_long(world, 0);
}

static tri_status forget(tri_world *world, const char *file) {
    (void)file;
    if (world->rank == 0) _exit(0);
    return wait_long(world, 0);
}

static tri_status stay(tri_world *world, const char *file) {
    note(file, "%d\n", (int)getpid());
    return wait_long(world, 0);
}

static tri_status stop(tri_world *world, const char *file) {
    signal(SIGTERM, SIG_IGN);
    note(file, "%d\n", (int)getpid());
    tri_status status = wait_long(world, 1);
    return status == TRI_OK ? tri__fail(TRI_STOPPED, "stopped") : status;
}

static tri_status stay_deaf(tri_world *world, const char *file) {
    signal(SIGTERM, SIG_IGN);
    return stay(world, file);
}

static tri_status speak(tri_world *world, const char *file) {
    (void)file;
    char text[4000];
    memset(text, 'x', sizeof text);
    printf("result of %d\n", world->rank);
    int n = world->rank == 1 ? (int)sizeof text : 1;
    fprintf(stderr, "words of %d\n%s of %d\n%.*s\nno newline", world->rank, "\xc3\xa4", world->rank, n, text);
    return TRI_OK;
}

/* Rank 1 fills the control page with random values, long enough for peers and the supervisor to read it in every
 * way. */
static tri_status scribble(tri_world *world, const char *file) {
    (void)file;
    tri_control *control = world->segment.control;
    uint64_t random = 88172645463325252u + (uint64_t)getpid(), *words = (uint64_t *)control;
    if (world->rank != 1) return wait_long(world, 0);
    for (double begin = tri__clock(); tri__clock() - begin < 0.3;)
        for (int i = 0; i < 1000; i++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            words[random % (tri__control_bytes(3) / sizeof *words)] = random % 3 == 0   ? ~(uint64_t)0
                                                                      : random % 3 == 1 ? random
                                                                                        : random % 16;
            atomic_store(&control->abort, i % 500 == 0); /* else the rest would not be read */
        }
    control->n = 256;
    atomic_store(&control->abort, 1);
    tri__control_wake(control, NULL, 0);
    _exit(0);
}

static tri_status show_cores(tri_world *world, const char *file) {
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    note(file, "%d %d\n", world->rank, CPU_COUNT(&set));
    return TRI_OK;
}

static const struct {
    const char *name;
    tri_status (*run)(tri_world *world, const char *file);
} actions[] = {{"leave", leave},
               {"die", die},
               {"crash", crash},
               {"report", report},
               {"report_two", report_two},
               {"hang", hang},
               {"forget", forget},
               {"stay", stay},
               {"stop", stop},
               {"stay_deaf", stay_deaf},
               {"speak", speak},
               {"show_cores", show_cores},
               {"scribble", scribble}};

int supervised_rank(int argc, char **argv) {
    const char *action = argv[2], *file = argc > 3 ? argv[3] : NULL;
    tri_world *world;
    alarm(60); /* so that an orphan does not stay */
    if (!strcmp(action, "refuse") && !strcmp(getenv("RANK"), "1")) {
        fprintf(stderr, "a line before\ntrident: no such folder: /nowhere\n");
        return TRI_NOINPUT;
    }
    if (tri_world_join(NULL, getenv, &world) != TRI_OK) return TRI_INTERNAL;
    tri_status status = TRI_USAGE;
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (!strcmp(actions[i].name, action)) status = actions[i].run(world, file);
    if (!strcmp(action, "refuse")) status = wait_long(world, 0);
    if (status != TRI_OK && status != TRI_STOPPED) tri_world_fail(world, status, tri_error());
    tri_world_close(world);
    return (int)status;
}
