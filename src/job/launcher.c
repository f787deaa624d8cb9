/* launcher.c - mpirun or srun as a child. One that gets SIGTERM kills the whole job, so a request to stop is sent as
 * SIGUSR1, which launchers pass on to the ranks. A launcher tells little: it may hang before any rank runs, outlive its
 * job (mpirun, after losing the connection to a machine), or end with 0 while ranks go on or are dead. What counts is
 * in the run folder (run_signs.h). */
#include "job/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* Exit codes of shells and the like for a command that cannot be executed, or is not found. */
enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127, GENERATIONS = 8 };
/* Seconds that a launcher gets to exit after its ranks reported a failure; the same while some of its ranks still run
 * on this machine; after SIGTERM; and after SIGKILL, when nothing more can be done. */
static const double LEAVE = 10, LEAVE_RANKS = 60, TERMINATE = 5, KILL = 5, LOOK = 0.2;
static const double DELAY_MOST = 60; /* seconds before a restart; more only if asked for */

/* Checks whether the ranks have met, have begun, or have reported a failure since the job began. A starting run removes
 * the report: the launcher has restarted it. */
static void look(tri_launcher_job *j) {
    double now = tri__clock();
    int there;
    if (now - j->looked < LOOK || j->terminated || !j->signs.folder[0]) return;
    j->looked = now;
    int code = tri__run_failed(&j->signs, &there);
    if (!there) j->failed = 0;
    if (code && !j->failed) j->failed = now, j->code = code;
    if (!j->met) j->met = code || tri__run_met(&j->signs);
    if (!j->trains && (j->trains = tri__run_trains(&j->signs)) && j->saves)
        j->parent->reply(TRI_SIGNAL_PASSED_ON_SAVES);
}

/* ---- the launcher ---- */

/* In the child. What went wrong is written to `report`, which is closed if nothing does. */
static void execute(const tri_launcher_job *j, int report) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setpgid(0, 0); /* keyboard signals reach only this process */
    execvp(j->argv[0], j->argv);
    int cause = errno;
    (void)!write(report, &cause, sizeof cause);
    _exit(NOT_FOUND);
}

/* TRI_NOINPUT if the command cannot be executed. */
static tri_status start(tri_launcher_job *j) {
    int end[2], cause = 0;
    fflush(NULL);
    tri__run_begin(&j->signs);
    j->parent->reply(TRI_SIGNAL_PASSED_ON);
    j->code = j->met = j->trains = 0, j->failed = j->terminated = j->killed = j->looked = 0;
    j->began = tri__clock();
    if (pipe2(end, O_CLOEXEC)) return tri__fail(TRI_RESOURCE, "cannot start %s: %s", j->argv[0], strerror(errno));
    j->pid = fork();
    if (j->pid == 0) execute(j, end[1]);
    close(end[1]);
    tri_status status = TRI_OK;
    if (j->pid < 0) status = tri__fail(TRI_RESOURCE, "cannot start %s: %s", j->argv[0], strerror(errno));
    else setpgid(j->pid, j->pid); /* set in parent and child, whichever runs first */
    while (read(end[0], &cause, sizeof cause) < 0 && errno == EINTR) continue;
    close(end[0]);
    if (!cause) return status;
    while (waitpid(j->pid, NULL, 0) < 0 && errno == EINTR) continue;
    return tri__fail(TRI_NOINPUT, "%s cannot be started: %s%s", j->argv[0], strerror(cause),
                     cause == ENOENT ? "; is it on the PATH?" : "");
}

static void list_children(pid_t pid, char *text, size_t size) {
    tri__file_start(TRI_TEXT(64, "/proc/%d/task/%d/children", (int)pid, (int)pid), text, size);
}

/* Kills all processes that the launcher has left behind: orphans become children of this process
 * (PR_SET_CHILD_SUBREAPER). */
static void end_rest(void) {
    char text[4096];
    for (double begin = tri__clock(); tri__clock() - begin < KILL; usleep(10 * 1000)) {
        list_children(getpid(), text, sizeof text);
        char *at = text, *end;
        for (long pid; (pid = strtol(at, &end, 10)) > 0; at = end) kill((pid_t)pid, SIGKILL);
        while (waitpid(-1, NULL, WNOHANG) > 0) continue;
        if (at == text) return;
    }
}

static int is_rank(long pid) {
    char name[32];
    tri__file_start(TRI_TEXT(64, "/proc/%ld/comm", pid), name, sizeof name);
    return !strncmp(name, "trident", 7);
}

/* How many descendants, at most `depth` generations down, are ranks; sends them a signal. 0: none. Ranks on other
 * machines, and those of srun, are not visible. */
static int tell_ranks(pid_t pid, int depth, int signal) {
    char children[4096], *at = children, *end;
    int n = 0;
    list_children(pid, children, sizeof children);
    for (long child; (child = strtol(at, &end, 10)) > 0; at = end)
        if (is_rank(child)) n++, kill((pid_t)child, signal);
        else if (depth > 1) n += tell_ranks((pid_t)child, depth - 1, signal);
    return n;
}

/* SIGTERM, then SIGKILL, to a launcher whose ranks have not met in time, or that keeps running although its ranks have
 * reported a failure. */
static void hasten(tri_launcher_job *j) {
    double now = tri__clock(), since = now - j->failed, most = j->start_timeout;
    if (j->signs.folder[0] && most > 0 && !j->met && !j->failed && now - j->began > most) {
        j->failed = now, j->code = TRI_RESOURCE;
        tri__tell(j->parent, "trident: no rank has reached %s within %s of the start of %s: terminating it "
                  "(--start-timeout; if the run writes elsewhere, --output-dir names its folder)", j->signs.folder,
                  tri__text_seconds(most, (char[32]){0}), j->argv[0]);
        j->terminated = now;
        kill(-j->pid, SIGTERM);
    }
    if (!j->failed || j->killed) return;
    if (!j->terminated && since > LEAVE && (since > LEAVE_RANKS || !tell_ranks(j->pid, GENERATIONS, 0))) {
        tri__tell(j->parent, "trident: the ranks have failed (%s), but %s still runs after %.0f s: terminating it",
                  j->signs.error, j->argv[0], since);
        j->terminated = now;
        kill(-j->pid, SIGTERM);
    } else if (j->terminated && now - j->terminated > TERMINATE) {
        j->killed = now;
        kill(-j->pid, SIGKILL);
    }
}

/* Returns the launcher's exit code, or that of its ranks if it had to be terminated. A request to stop is passed on
 * once; a second one ends this process and with it the command. */
static int wait_for(tri_launcher_job *j) {
    int status = 0, told = 0;
    for (;; usleep(20 * 1000)) {
        pid_t ended = waitpid(-1, &status, WNOHANG);
        if (ended < 0 && errno != EINTR) return TRI_INTERNAL;
        if (ended == j->pid && j->terminated) return j->code;
        if (ended == j->pid) return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (!told && (told = atomic_load(&j->parent->stop->signal))) kill(j->pid, SIGUSR1);
        look(j);
        hasten(j);
        if (j->killed && tri__clock() - j->killed > KILL) return j->code; /* not even SIGKILL ends it */
    }
}

/* ---- the end ---- */

/* The launcher ended with 0. With ULFM it does so, too, when a machine is lost with its daemon: the ranks of the others
 * go on without it, or are dead. Returns 0 once the run has its results, or what its ranks ended with. */
static int wait_for_ranks(tri_launcher_job *j) {
    double sign = tri__clock(), now;
    int there, code = 0, said = 0, told = 0;
    for (;; usleep(50 * 1000)) {
        int alive = tri__run_alive(&j->signs) || tell_ranks(getpid(), GENERATIONS, 0);
        if (tri__run_complete(&j->signs)) return TRI_OK;
        if (!said++)
            tri__tell(j->parent, "trident: %s ended with exit code 0, but its run has not written its results in %s: "
                                 "waiting for ranks that live", j->argv[0], j->signs.folder);
        now = tri__clock();
        if (alive) sign = now;
        else if ((code = tri__run_failed(&j->signs, &there))) return code;
        if (now - sign > j->quiet) return 128 + SIGKILL;
        if (!told && (told = atomic_load(&j->parent->stop->signal))) tell_ranks(getpid(), 1, SIGUSR1);
        while (waitpid(-1, NULL, WNOHANG) > 0) continue;
    }
}

/* Exit codes that the same command line would produce again. */
static int is_final(int code) {
    static const int final[] = {TRI_OK,   TRI_USAGE, TRI_DATA,    TRI_NOINPUT,   TRI_RESOURCE,   TRI_BUSY,
                                TRI_IO,   TRI_STOPPED, TRI_NOTFINITE, NOT_EXECUTABLE, NOT_FOUND};
    for (size_t i = 0; i < sizeof final / sizeof *final; i++)
        if (code == final[i]) return 1;
    return 0;
}

/* Waits; a request to stop ends it. */
static tri_status pause_for(const tri_launcher_job *j, double seconds) {
    double end = tri__clock() + seconds;
    j->parent->reply(TRI_SIGNAL_PAUSED);
    while (tri__clock() < end) {
        TRI_TRY(tri__stop_check(j->parent->stop, "%s was to be started again", j->argv[0]));
        tri__clock_sleep(fmin(end, tri__clock() + 0.02));
    }
    return TRI_OK;
}

static tri_status ended(const tri_launcher_job *j, int code, int asked, int late, int lost) {
    const char *name = j->argv[0];
    if (asked && code == 128 + SIGUSR1) /* before anything could take it */
        return tri__fail(TRI_STOPPED, "stopped before the ranks of %s had begun: run again", name);
    if (late)
        return tri__fail((tri_status)code, "the ranks of %s did not meet within %s (--start-timeout)", name,
                         tri__text_seconds(j->start_timeout, (char[32]){0}));
    if (lost)
        return tri__fail((tri_status)code,
                         "%s ended with exit code 0, but its run is not complete (%s has no new summary.json), and no "
                         "rank of it gives a sign of life: run again to continue", name, j->signs.folder);
    return tri__fail((tri_status)code, "%s ended with exit code %d%s", name, code,
                     code == TRI_STOPPED ? ": run again to continue" : "");
}

tri_status tri__launcher_run(tri_launcher_job *j, int64_t max_restarts) {
    const char *name = j->argv[0];
    double delay = j->restart_delay, most = fmax(DELAY_MOST, delay);
    char time[32], why[40];
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (int64_t restarts = 0;; restarts++) {
        TRI_TRY(start(j));
        int code = wait_for(j), late = j->terminated && !j->met, lost = 0;
        if (code == TRI_OK && j->signs.folder[0] && !tri__run_complete(&j->signs))
            code = wait_for_ranks(j), lost = code == 128 + SIGKILL;
        int asked = atomic_load(&j->parent->stop->signal);
        if (code == TRI_OK) return TRI_OK;
        end_rest(); /* leftovers would interfere with the next start, and are useless after the last */
        if ((is_final(code) && !late) || asked || restarts == max_restarts) return ended(j, code, asked, late, lost);
        if (tri__run_saved(&j->signs)) delay = j->restart_delay;
        snprintf(why, sizeof why, late || lost ? "again:" : "ended with exit code %d;", code);
        tri__tell(j->parent, "trident: %s %s start %lld of %lld in %s", name, why, (long long)restarts + 2,
                  (long long)max_restarts + 1, tri__text_seconds(delay, time));
        TRI_TRY(pause_for(j, delay));
        delay = fmin(2 * delay, most);
    }
}
