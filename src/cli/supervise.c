/* supervise.c - `trident supervise -- COMMAND...`: for ranks that mpirun or srun starts. A launcher that gets SIGTERM
 * kills the whole job, so a request to stop is sent as SIGUSR1, which launchers pass on to the ranks. After a crash the
 * launcher is restarted, each time after a longer pause. A launcher tells little: it may hang before any rank runs,
 * outlive its job (mpirun, after losing the connection to a machine), or end with 0 while ranks go on or are dead. What
 * counts is in the run folder (run_signs.h). */
#include "job/run_signs.h"
#include "cli/signals.h"

#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Exit codes of shells and the like for a command that cannot be executed, or is not found. */
enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127, GENERATIONS = 8 };
/* Seconds that a launcher gets to exit after its ranks reported a failure; the same while some of its ranks still run
 * on this machine; after SIGTERM; and after SIGKILL, when nothing more can be done. */
static const double LEAVE = 10, LEAVE_RANKS = 60, TERMINATE = 5, KILL = 5, LOOK = 0.2;
static const double DELAY_MOST = 60; /* seconds before a restart; more only if asked for */
/* Ranks whose launcher has gone may regroup, for as long as two progress timeouts, before they give a sign again. */
static const double QUIET_LEAST = 5, QUIET_TIMEOUTS = 2.5;

typedef struct supervise_options {
    double restart_delay, start_timeout;
} supervise_options;

#define ROW(kind, field, ...) TRI_OWN_ROW(supervise_options, "supervise", kind, field, __VA_ARGS__)
const tri_option tri__supervise_options[] = {
    ROW(REAL, restart_delay, .value = "1", .min = 0, .max = 86400,
        .help = "seconds before the command is started again; doubled each time, up to 60, until a checkpoint is "
                "saved"),
    ROW(REAL, start_timeout, .value = "600", .min = 0, .max = 1e9,
        .help = "seconds in which the ranks must have met, else the command is ended and started again; 0: any time, "
                "as for a job that waits in a queue"),
    TRI_OWN_END(supervise_options)};

typedef struct job {
    tri_cli *cli;
    char *const *argv;
    const supervise_options *own;
    pid_t pid;
    tri_run_signs signs;
    int saves;                 /* the run is known to save checkpoints */
    double quiet;              /* seconds without a sign of life after which ranks without a launcher count as dead */
    int met, trains;           /* of the current start: its ranks have met; the run has begun */
    int code;                  /* exit code of the ranks' failure; 0: none */
    double began, failed, terminated, killed, looked; /* tri__clock() of the start, of each stage of termination, and
                                                         of the last look at the folder; 0: not yet */
} job;

/* ---- the run folder ---- */

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The run folder: of --output-dir, or of the `trident train ...` inside the command. */
static tri_status find_run(job *j, const tri_settings *own) {
    tri_settings inner;
    int n = 0, at = 0, n_words = 0;
    tri_status status = TRI_OK;
    j->quiet = QUIET_LEAST + QUIET_TIMEOUTS * own->progress_timeout;
    if (tri__settings_given(own, &own->output_dir)) status = tri__run_open(&j->signs, own->output_dir);
    while (j->argv[n]) n++;
    for (at = 1; at < n; at++)
        if (!strcmp(j->argv[at], "train") && !strncmp(last_part(j->argv[at - 1]), "trident", 7)) break;
    if (at >= n || status != TRI_OK) return status;
    if (tri__cli_settings(&inner, "train", NULL, n - at - 1, (const char *const *)j->argv + at + 1, NULL, 0,
                          &n_words) == TRI_OK) {
        j->saves = inner.save_every || inner.save_steps;
        j->quiet = QUIET_LEAST + QUIET_TIMEOUTS * inner.progress_timeout;
        if (!j->signs.folder[0]) status = tri__run_open(&j->signs, inner.output_dir);
    }
    tri__settings_free(&inner);
    return status;
}

/* Checks whether the ranks have met, have begun, or have reported a failure since the job began. A starting run removes
 * the report: the launcher has restarted it. */
static void look(job *j) {
    double now = tri__clock();
    int there;
    if (now - j->looked < LOOK || j->terminated || !j->signs.folder[0]) return;
    j->looked = now;
    int code = tri__run_failed(&j->signs, &there);
    if (!there) j->failed = 0;
    if (code && !j->failed) j->failed = now, j->code = code;
    if (!j->met) j->met = code || tri__run_met(&j->signs);
    if (!j->trains && (j->trains = tri__run_trains(&j->signs)) && j->saves)
        tri__signals_say(TRI_SIGNAL_PASSED_ON_SAVES);
}

/* ---- the launcher ---- */

/* In the child. What went wrong is written to `report`, which is closed if nothing does. */
static void execute(const job *j, int report) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setpgid(0, 0); /* keyboard signals reach only this process */
    execvp(j->argv[0], j->argv);
    int cause = errno;
    (void)!write(report, &cause, sizeof cause);
    _exit(NOT_FOUND);
}

/* TRI_NOINPUT if the command cannot be executed. */
static tri_status start(job *j) {
    int end[2], cause = 0;
    fflush(NULL);
    tri__run_begin(&j->signs);
    tri__signals_say(TRI_SIGNAL_PASSED_ON);
    j->code = j->met = j->trains = 0;
    j->failed = j->terminated = j->killed = j->looked = 0;
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
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    tri__file_start(path, text, size);
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
    char path[64], name[32];
    snprintf(path, sizeof path, "/proc/%ld/comm", pid);
    tri__file_start(path, name, sizeof name);
    return !strncmp(name, "trident", 7);
}

/* Whether a descendant, at most `depth` generations down, is a rank. Ranks on other machines, and those of srun, are
 * not visible. */
static int has_ranks(pid_t pid, int depth) {
    char children[4096], *at = children, *end;
    list_children(pid, children, sizeof children);
    for (long child; (child = strtol(at, &end, 10)) > 0; at = end)
        if (is_rank(child) || (depth > 1 && has_ranks((pid_t)child, depth - 1))) return 1;
    return 0;
}

/* Sends SIGUSR1 to the ranks on this machine: their launcher has gone. */
static void tell_ranks(void) {
    char children[4096], *at = children, *end;
    list_children(getpid(), children, sizeof children);
    for (long child; (child = strtol(at, &end, 10)) > 0; at = end)
        if (is_rank(child)) kill((pid_t)child, SIGUSR1);
}

static void terminate(job *j, double now) {
    j->terminated = now;
    kill(-j->pid, SIGTERM);
}

/* SIGTERM, then SIGKILL, to a launcher whose ranks have not met in time, or that keeps running although its ranks have
 * reported a failure. */
static void hasten(job *j) {
    double now = tri__clock(), since = now - j->failed, most = j->own->start_timeout;
    char time[32];
    if (j->signs.folder[0] && most > 0 && !j->met && !j->failed && now - j->began > most) {
        j->failed = now, j->code = TRI_RESOURCE;
        fprintf(j->cli->err,
                "trident: no rank has reached %s within %s of the start of %s: terminating it (--start-timeout; if the "
                "run writes elsewhere, --output-dir names its folder)\n",
                j->signs.folder, tri__text_seconds(most, time), j->argv[0]);
        terminate(j, now);
    }
    if (!j->failed || j->killed) return;
    if (!j->terminated && since > LEAVE && (since > LEAVE_RANKS || !has_ranks(j->pid, GENERATIONS))) {
        fprintf(j->cli->err, "trident: the ranks have failed (%s), but %s still runs after %.0f s: terminating it\n",
                j->signs.error, j->argv[0], since);
        terminate(j, now);
    } else if (j->terminated && now - j->terminated > TERMINATE) {
        j->killed = now;
        kill(-j->pid, SIGKILL);
    }
}

/* Returns the launcher's exit code, or that of its ranks if it had to be terminated. A request to stop is passed on
 * once; a second one ends this process and with it the command. */
static int wait_for(job *j) {
    int status = 0, told = 0;
    for (;; usleep(20 * 1000)) {
        pid_t ended = waitpid(-1, &status, WNOHANG);
        if (ended < 0 && errno != EINTR) return TRI_INTERNAL;
        if (ended == j->pid && j->terminated) return j->code;
        if (ended == j->pid) return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (!told && atomic_load(&j->cli->stop->signal)) {
            told = 1;
            kill(j->pid, SIGUSR1);
        }
        look(j);
        hasten(j);
        if (j->killed && tri__clock() - j->killed > KILL) return j->code; /* not even SIGKILL ends it */
    }
}

/* ---- the end ---- */

/* The launcher ended with 0. With ULFM it does so, too, when a machine is lost with its daemon: the ranks of the others
 * go on without it, or are dead. Returns 0 once the run has its results, or what its ranks ended with. */
static int wait_for_ranks(job *j) {
    double sign = tri__clock(), told = 0, now;
    int there, code = 0, said = 0;
    for (;; usleep(50 * 1000)) {
        int alive = tri__run_alive(&j->signs) || has_ranks(getpid(), GENERATIONS);
        if (tri__run_complete(&j->signs)) return TRI_OK;
        if (!said++)
            fprintf(j->cli->err, "trident: %s ended with exit code 0, but its run has not written its results in %s: "
                                 "waiting for ranks that live\n", j->argv[0], j->signs.folder);
        now = tri__clock();
        if (alive) sign = now;
        else if ((code = tri__run_failed(&j->signs, &there))) return code;
        if (now - sign > j->quiet) return 128 + SIGKILL;
        if (!told && atomic_load(&j->cli->stop->signal)) {
            told = 1;
            tell_ranks();
        }
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
static tri_status pause_for(const job *j, double seconds) {
    double end = tri__clock() + seconds;
    tri_status status = TRI_OK;
    tri__signals_say(TRI_SIGNAL_PAUSED);
    while (status == TRI_OK && tri__clock() < end) {
        status = tri__stop_check(j->cli->stop, "%s was to be started again", j->argv[0]);
        tri__clock_sleep(fmin(end, tri__clock() + 0.02));
    }
    return status;
}

static tri_status ended(const job *j, int code, int asked, int late, int lost) {
    const char *name = j->argv[0];
    char time[32];
    if (asked && code == 128 + SIGUSR1) /* before anything could take it */
        return tri__fail(TRI_STOPPED, "stopped before the ranks of %s had begun: run again", name);
    if (late)
        return tri__fail((tri_status)code, "the ranks of %s did not meet within %s (--start-timeout)", name,
                         tri__text_seconds(j->own->start_timeout, time));
    if (lost)
        return tri__fail((tri_status)code,
                         "%s ended with exit code 0, but its run is not complete (%s has no new summary.json), and no "
                         "rank of it gives a sign of life: run again to continue", name, j->signs.folder);
    return tri__fail((tri_status)code, "%s ended with exit code %d%s", name, code,
                     code == TRI_STOPPED ? ": run again to continue" : "");
}

static tri_status supervise(job *j, const tri_settings *settings) {
    const char *name = j->argv[0];
    double delay = j->own->restart_delay, most = fmax(DELAY_MOST, delay);
    char time[32];
    tri__signals_take(j->cli, TRI_SIGNAL_PASSED_ON);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (int64_t restarts = 0;; restarts++) {
        TRI_TRY(start(j));
        int code = wait_for(j), late = j->terminated && !j->met, lost = 0;
        if (code == TRI_OK && j->signs.folder[0] && !tri__run_complete(&j->signs))
            code = wait_for_ranks(j), lost = code == 128 + SIGKILL;
        int asked = atomic_load(&j->cli->stop->signal);
        if (code == TRI_OK) return TRI_OK;
        end_rest(); /* leftovers would interfere with the next start, and are useless after the last */
        if ((is_final(code) && !late) || asked || restarts == settings->max_restarts)
            return ended(j, code, asked, late, lost);
        if (tri__run_saved(&j->signs)) delay = j->own->restart_delay;
        if (late || lost) fprintf(j->cli->err, "trident: %s", name);
        else fprintf(j->cli->err, "trident: %s ended with exit code %d;", name, code);
        fprintf(j->cli->err, "%s start %lld of %lld in %s\n", late || lost ? " again:" : "", (long long)restarts + 2,
                (long long)settings->max_restarts + 1, tri__text_seconds(delay, time));
        TRI_TRY(pause_for(j, delay));
        delay = fmin(2 * delay, most);
    }
}

tri_status tri__command_supervise(tri_cli *cli, tri_command_call *call) {
    tri_settings settings;
    int split = 0, n_words = 0;
    job j = {.cli = cli, .own = call->own};
    while (split < call->n && strcmp(call->args[split], "--") != 0) split++;
    tri_status status = tri__cli_settings(&settings, "supervise", call->own, split, call->args, NULL, 0, &n_words);
    if (status == TRI_OK && split + 1 >= call->n)
        status = tri__fail(
            TRI_USAGE, "supervise what? e.g. `trident supervise --max-restarts 3 -- mpirun -np 4 trident train ...`");
    if (status == TRI_OK) {
        j.argv = (char *const *)(call->args + split + 1);
        status = find_run(&j, &settings);
    }
    if (status == TRI_OK) status = supervise(&j, &settings);
    tri__run_close(&j.signs);
    tri__settings_free(&settings);
    return status;
}
