/* supervise.c - `trident supervise -- COMMAND...`: for ranks that mpirun or srun starts. A launcher that gets SIGTERM
 * kills the whole job, so a request to stop is sent as SIGUSR1, which launchers pass on to the ranks. After a crash the
 * launcher is restarted. A launcher may outlive its job (mpirun, after losing the connection to a machine): if ranks
 * have written error.json, it is terminated. */
#include "cli/signals.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CANNOT_START = 127, ERROR_BYTES = 1 << 20 }; /* exit code, as in shells; size limit of error.json */
/* Seconds that a launcher gets to exit after its ranks reported a failure; the same while some of its ranks still run
 * on this machine; after SIGTERM; and after SIGKILL, when nothing more can be done. */
static const double LEAVE = 10, LEAVE_RANKS = 60, TERMINATE = 5, KILL = 5, LOOK = 0.2;

typedef struct job {
    tri_cli *cli;
    char *const *argv;
    pid_t pid;
    char error[TRI_PATH_MAX];  /* error.json of the run folder; "": not known */
    char *before;              /* its content when the job began; NULL: no such file */
    int code;                  /* exit code of the ranks' failure; 0: none */
    double failed, terminated, killed, looked; /* tri__clock() of each stage of termination, and of the last read of
                                                  error.json; 0: not yet */
} job;

/* ---- the run folder ---- */

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The run folder of the `trident train ...` inside the command; returns 0 if there is none. */
static int find_folder(char *const *argv, char out[static TRI_PATH_MAX]) {
    int n = 0, at = 0, n_words = 0;
    while (argv[n]) n++;
    for (at = 1; at < n; at++)
        if (!strcmp(argv[at], "train") && !strncmp(last_part(argv[at - 1]), "trident", 7)) break;
    if (at >= n) return 0;
    tri_settings settings;
    tri_status status =
        tri__cli_settings(&settings, "train", n - at - 1, (const char *const *)argv + at + 1, NULL, 0, &n_words);
    if (status == TRI_OK) status = tri__path_join(out, settings.output_dir, "error.json");
    tri__settings_free(&settings);
    return status == TRI_OK;
}

static char *read_error(const job *j) {
    char *text = NULL;
    size_t size;
    return j->error[0] && tri__is_file(j->error) && tri__file_read(j->error, ERROR_BYTES, &text, &size) == TRI_OK
               ? text
               : NULL;
}

/* Checks whether the ranks have reported a failure since the job began. A starting run removes the report: the launcher
 * has restarted it. */
static void look(job *j) {
    double now = tri__clock();
    if (now - j->looked < LOOK || j->terminated) return;
    j->looked = now;
    char *text = read_error(j);
    tri_json *object = NULL;
    if (!text) j->failed = 0;
    if (!j->failed && text && (!j->before || strcmp(text, j->before)) &&
        tri__json_parse(text, strlen(text), j->error, TRI_DATA, &object) == TRI_OK) {
        int code = (int)tri__json_integer_value(tri__json_get(object, "code"));
        j->failed = now;
        j->code = code > 0 && code < 256 ? code : TRI_INTERNAL;
    }
    tri__json_decref(object);
    free(text);
}

/* ---- the launcher ---- */

static tri_status start(job *j) {
    fflush(NULL);
    free(j->before);
    j->before = read_error(j);
    j->code = 0;
    j->failed = j->terminated = j->killed = j->looked = 0;
    j->pid = fork();
    if (j->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        setpgid(0, 0); /* keyboard signals reach only this process */
        execvp(j->argv[0], j->argv);
        _exit(CANNOT_START);
    }
    if (j->pid > 0) setpgid(j->pid, j->pid); /* set in parent and child, whichever runs first */
    return j->pid > 0 ? TRI_OK : tri__fail(TRI_RESOURCE, "cannot start %s: %s", j->argv[0], strerror(errno));
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

/* Whether a descendant, at most `depth` generations down, is a rank. Ranks on other machines, and those of srun, are
 * not visible. */
static int has_ranks(pid_t pid, int depth) {
    char children[4096], path[64], name[32], *at = children, *end;
    list_children(pid, children, sizeof children);
    for (long child; (child = strtol(at, &end, 10)) > 0; at = end) {
        snprintf(path, sizeof path, "/proc/%ld/comm", child);
        tri__file_start(path, name, sizeof name);
        if (!strncmp(name, "trident", 7) || (depth > 1 && has_ranks((pid_t)child, depth - 1))) return 1;
    }
    return 0;
}

/* SIGTERM, then SIGKILL, to a launcher that keeps running although its ranks have reported a failure. */
static void hasten(job *j) {
    enum { GENERATIONS = 8 };
    double now = tri__clock(), since = now - j->failed;
    if (!j->failed || j->killed) return;
    if (!j->terminated && since > LEAVE && (since > LEAVE_RANKS || !has_ranks(j->pid, GENERATIONS))) {
        j->terminated = now;
        fprintf(j->cli->err, "trident: the ranks have failed (%s), but %s still runs after %.0f s: terminating it\n",
                j->error, j->argv[0], since);
        kill(-j->pid, SIGTERM);
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

/* Exit codes that the same command line would produce again. */
static int is_final(int code) {
    static const int final[] = {TRI_OK,   TRI_USAGE, TRI_DATA,    TRI_NOINPUT,   TRI_RESOURCE,
                                TRI_BUSY, TRI_IO,    TRI_STOPPED, TRI_NOTFINITE, CANNOT_START};
    for (size_t i = 0; i < sizeof final / sizeof *final; i++)
        if (code == final[i]) return 1;
    return 0;
}

static tri_status supervise(job *j, const tri_settings *settings) {
    const char *name = j->argv[0];
    tri__signals_take(j->cli, TRI_SIGNAL_PASSED_ON);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (int64_t restarts = 0;; restarts++) {
        TRI_TRY(start(j));
        int code = wait_for(j), asked = atomic_load(&j->cli->stop->signal);
        if (code == TRI_OK) return TRI_OK;
        if (code == CANNOT_START) return tri__fail(TRI_NOINPUT, "%s: cannot be started; is it on the PATH?", name);
        end_rest(); /* leftovers would interfere with the next start, and are useless after the last */
        if (is_final(code) || asked || restarts == settings->max_restarts)
            return tri__fail((tri_status)code, "%s ended with exit code %d%s", name, code,
                             code == TRI_STOPPED ? ": run again to continue" : "");
        fprintf(j->cli->err, "trident: %s ended with exit code %d; start %lld of %lld\n", name, code,
                (long long)restarts + 2, (long long)settings->max_restarts + 1);
    }
}

tri_status tri__command_supervise(tri_cli *cli, int n, const char *const *args) {
    tri_settings settings;
    int split = 0, n_words = 0;
    job j = {.cli = cli};
    while (split < n && strcmp(args[split], "--") != 0) split++;
    tri_status status = tri__cli_settings(&settings, "supervise", split, args, NULL, 0, &n_words);
    if (status == TRI_OK && split + 1 >= n)
        status = tri__fail(
            TRI_USAGE, "supervise what? e.g. `trident supervise --max-restarts 3 -- mpirun -np 4 trident train ...`");
    if (status == TRI_OK) {
        j.argv = (char *const *)(args + split + 1);
        if (tri__settings_given(&settings, &settings.output_dir))
            status = tri__path_join(j.error, settings.output_dir, "error.json");
        else if (!find_folder(j.argv, j.error)) j.error[0] = 0;
    }
    if (status == TRI_OK) status = supervise(&j, &settings);
    free(j.before);
    tri__settings_free(&settings);
    return status;
}
