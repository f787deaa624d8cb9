/* regrouped_rank.c - see regrouped_rank.h. */
#include "tests/lib/regrouped_rank.h"

#include "base/clock.h"
#include "comm/link/regroup.h"
#include "comm/start/join.h"
#include "comm/world/kept.h"
#include "tests/lib/names.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *notes_path, *script;
static tri_stop rank_stop;
static tri_world *world; /* NULL: between two */

/* Appends one line to a file that all ranks share. */
static void note(const char *format, ...) {
    char line[256];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    int fd = open(notes_path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (write(fd, line, (size_t)n) != n) abort();
    close(fd);
}

static void note_stop(int signal) { atomic_store(&rank_stop.signal, signal); }

/* What the script wants here; 0: nothing. */
static char wanted(int generation, int rank, const char *moment) {
    char word[64];
    snprintf(word, sizeof word, "%d.%d@%s=", generation, rank, moment);
    const char *at = script ? strstr(script, word) : NULL;
    return at && (at == script || at[-1] == ' ') ? at[strlen(word)] : 0;
}

static void kill_ranks(int first, int n) {
    tri_control *control = world->segment.control;
    note("died %.6f\n", tri__clock());
    for (int i = first; i < first + n && i < world->size; i++)
        if (i != world->local) kill(atomic_load(&control->line[i].pid), SIGKILL);
    kill(getpid(), SIGKILL);
}

static void await_stop(void) {
    for (double begin = tri__clock(); world && tri__clock() - begin < 10; usleep(1000))
        if (atomic_load(&world->segment.control->stop)) return;
}

static void ask_to_stop(void) {
    kill(getppid(), SIGTERM);
    await_stop();
}

static tri_status suffer(int generation, int rank, const char *moment) {
    switch (wanted(generation, rank, moment)) {
    case 'K':
        note("died %.6f\n", tri__clock());
        kill(getpid(), SIGKILL);
        return TRI_OK;
    case 'P': kill_ranks(rank, 2); return TRI_OK;
    case 'A': kill_ranks(0, world->size); return TRI_OK;
    case 'T': raise(SIGSTOP); return TRI_OK;
    case 'I': return tri__fail(TRI_INTERNAL, "a bug");
    case 'D': return tri__fail(TRI_DATA, "a bad row");
    case 'X': _exit(0);
    case 'Z':
        await_stop();
        kill(getpid(), SIGKILL);
        return TRI_OK;
    case 'S': ask_to_stop(); return TRI_OK;
    case 'U':
        kill(getppid(), SIGKILL);
        return TRI_OK;
    default: return TRI_OK;
    }
}

/* The state that the world begins with: step and sum. */
typedef struct training {
    int64_t step, sum, (*area)[2]; /* area [2]: the kept copies */
} training;

static tri_status restore(training *t) {
    void *area;
    TRI_TRY(tri_heap_alloc(world, 2 * sizeof *t->area, &area));
    *t = (training){.area = area};
    tri__kept_place(world, area, 2 * sizeof *t->area);
    int64_t step = world->before[0].base ? tri__kept_step(&world->before[0]) : -1;
    if (world->before[0].base && step < 0) return tri__fail(TRI_INTERNAL, "memory without replicated state");
    size_t bytes;
    for (int i = 0; step >= 0 && i < world->before[0].n; i++) { /* every rank's copy is the same here */
        const int64_t (*kept)[2] = tri__kept_area(&world->before[0], i, &bytes), *copy = kept ? kept[step & 1] : NULL;
        if (!copy || bytes != 2 * sizeof *kept || copy[0] != step || copy[1] != step * (step + 1) / 2)
            return tri__fail(TRI_INTERNAL, "the replicated state of rank %d is wrong", i);
        t->step = step + 1, t->sum = copy[1];
    }
    return TRI_OK;
}

/* Open descriptors of this rank and of the supervisor. */
static void note_files(void) {
    char path[32];
    if (world->rank || world->generation < 2 || world->generation % 2) return;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)getppid());
    note("files %d %d\n", names("/proc/self/fd", NULL), names(path, NULL));
}

/* Steps until the last one, a failure, or until all agree to regroup. */
static tri_status take_steps(int64_t steps, int *regroup) {
    training t;
    char moment[32];
    TRI_TRY(restore(&t));
    *regroup = 0;
    if (world->generation) note("went on %d %d %d %lld %.6f\n", world->generation, world->rank, world->size,
                                (long long)t.step, tri__clock());
    for (int taken = 0; !*regroup && (steps < 0 ? taken < 3 || world->generation < -steps : t.step < steps); taken++) {
        tri__world_doing(world, TRI_DOING_FORWARD, t.step);
        snprintf(moment, sizeof moment, "%lld", (long long)t.step);
        TRI_TRY(suffer(world->generation, world->rank, moment));
        if (taken == 2) {
            note_files();
            TRI_TRY(suffer(world->generation, world->rank, "b"));
        }
        int64_t flags[3] = {1, tri__stop_signalled(&rank_stop) || atomic_load(&world->segment.control->stop),
                            atomic_load(&world->segment.control->regroup)};
        TRI_TRY(tri_all_reduce(tri_group_world(world), flags, flags, 3, TRI_I64, TRI_SUM));
        if (flags[0] != world->size) return tri__fail(TRI_INTERNAL, "%lld ranks", (long long)flags[0]);
        t.sum += t.step;
        tri__kept_begin(world, t.step);
        t.area[t.step & 1][0] = t.step, t.area[t.step & 1][1] = t.sum;
        tri__kept_end(world, t.step);
        if (world->rank == 0) note("step %lld\n", (long long)t.step);
        t.step++;
        if (flags[1]) return tri__fail(TRI_STOPPED, "stopped");
        *regroup = flags[2] > 0;
        usleep(500);
    }
    if (!*regroup && world->rank == 0)
        note("done %d %d %lld\n", world->generation, world->size, (long long)t.sum);
    return TRI_OK;
}

/* Takes the place of a rank that dies or stops between being given a world and joining it. */
static void take_and_end(int socket, int signal) {
    const tri_regroup_message ready = {.kind = TRI_REGROUP_READY, .next = -1, .before = -1};
    tri_regroup_message message;
    struct pollfd readable = {.fd = socket, .events = POLLIN};
    tri__regroup_say(socket, &ready);
    poll(&readable, 1, 10000);
    if (tri__regroup_hear(socket, &message) > 0) kill(getpid(), signal);
}

static tri_status next_world(int socket, int generation, int rank, int *again) {
    TRI_TRY(suffer(generation, rank, "l"));
    char end = wanted(generation, rank, "w");
    if (end) take_and_end(socket, end == 'T' ? SIGSTOP : SIGKILL);
    return tri__regroup_next(socket, 10, &rank_stop, &world, again);
}

int regrouped_rank(char **argv) {
    tri_launch launch;
    int again = 0, regroup = 0;
    int64_t steps = atoll(argv[2]);
    notes_path = argv[3], script = argv[4];
    alarm(60); /* so that an orphan does not stay */
    signal(SIGTERM, note_stop);
    if (tri__launch_detect(getenv, &launch) != TRI_OK || launch.socket < 0) return TRI_USAGE;
    launch.stop = &rank_stop;
    note("pid %d\n", (int)getpid());
    if (launch.fd >= 0) suffer(0, launch.rank, "j");
    tri_status status = launch.fd >= 0 ? tri__world_join_launch(NULL, &launch, &world)
                                       : tri__regroup_next(launch.socket, 10, &rank_stop, &world, &again);
    if (launch.fd >= 0 && !world && status != TRI_STOPPED)
        status = tri__regroup_next(launch.socket, 10, &rank_stop, &world, &again);
    if (!world) return (int)status;
    for (;;) {
        status = take_steps(steps, &regroup);
        int generation = world->generation, rank = world->rank;
        int ends = status == TRI_OK ? !regroup : world->failed != status;
        if (ends && status != TRI_OK && status != TRI_STOPPED) tri_world_fail(world, status, tri_error());
        tri_world_close(world);
        world = NULL;
        if (ends) {
            if (wanted(generation, rank, "e")) usleep(300000); /* the others take their last step and end */
            suffer(generation, rank, "e");
            return (int)status;
        }
        tri_status next = next_world(launch.socket, generation, rank, &again);
        if (next != TRI_OK) return (int)next;
        if (!again) return (int)status;
    }
}
