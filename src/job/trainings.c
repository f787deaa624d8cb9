/* trainings.c - starting trainings as processes and waiting for them. */
#include "job/trainings.h"

#include "comm/launchers/environment.h"
#include "job/rank_process.h"
#include "settings/foreign.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>

static const int LOOK_MS = 200; /* how often a request to stop is looked for */

tri_status tri__trainings_accept(char *(*lookup)(const char *name), const char *option) {
    tri_launch launch;
    TRI_TRY(tri__launch_detect(lookup, &launch));
    if (launch.launcher == TRI_LAUNCHER_NONE || launch.size == 1) return TRI_OK;
    return tri__fail(TRI_USAGE, "%s is several runs, and %s started this process as one rank of a single run: start "
                     "the command without a launcher (--nproc-per-node gives each run its ranks), or the runs one by "
                     "one", option, tri__launcher_text(launch.launcher));
}

/* ---- the command line ---- */

const tri_option *tri__argument_row(const char *argument) {
    if (strncmp(argument, "--", 2)) return NULL;
    const char *name = TRI_TEXT(TRI_OPTION_FLAG, "%.*s", (int)strcspn(argument + 2, "="), argument + 2);
    const tri_foreign *foreign = tri__foreign_find(name, NULL);
    const char *ours = foreign && foreign->option ? foreign->option : name;
    const tri_option *row = tri__option_find(tri__run_options, ours);
    return row ? row : tri__option_find(tri__model_options, ours);
}

/* How many arguments from args[0] on give an option that is changed; 0: it is not. */
static int replaced(int n, const char *const *args, const tri_change *changes, int n_changes) {
    const char *equal = strchr(args[0], '=');
    const tri_option *row = tri__argument_row(args[0]);
    int is_changed = 0;
    for (int i = 0; row && i < n_changes; i++) is_changed |= !strcmp(row->name, changes[i].name);
    if (!is_changed) return 0;
    int is_truth = n > 1 && !strchr("01", args[1][0]) && tri__option_truth(args[1]) >= 0;
    return equal || n < 2 || (row->kind == TRI_OPTION_BOOL && !is_truth) ? 1 : 2;
}

char **tri__training_argv(const tri_parent *parent, int n, const char *const *args, const tri_change *changes,
                          int n_changes) {
    size_t bytes = 0, words = (size_t)n + 2 + 2 * (size_t)n_changes;
    for (int i = 0; i < n_changes && changes[i].value; i++) bytes += TRI_OPTION_FLAG + strlen(changes[i].value) + 1;
    char **argv = malloc((words + 1) * sizeof *argv + bytes), *text = (char *)(argv ? argv + words + 1 : NULL);
    int used = 0, i = 0;
    if (!argv) return NULL;
    argv[used++] = parent->argv[0];
    argv[used++] = (char *)"train";
    while (i < n && strcmp(args[i], "--") != 0) {
        int skip = replaced(n - i, args + i, changes, n_changes);
        if (!skip) argv[used++] = (char *)args[i];
        i += skip ? skip : 1;
    }
    for (int c = 0; c < n_changes && changes[c].value; c++) {
        argv[used++] = text;
        tri__option_flag(changes[c].name, text);
        text += strlen(text) + 1;
        argv[used++] = text;
        text = stpcpy(text, changes[c].value) + 1;
    }
    argv[used] = NULL;
    return argv;
}

/* ---- the process ---- */

static tri_status no_descriptor(void) {
    return tri__fail(TRI_RESOURCE, "no descriptor for a run: %s; raise `ulimit -n`", strerror(errno));
}

/* Its output is progress here: results of the command come at its end. */
static tri_status open_output(const tri_parent *parent, const tri_training *t, int *fd) {
    if (t->log[0]) {
        TRI_TRY(tri__folder_make(t->folder));
        return tri__file_own(t->log, TRI_OWN_APPEND, fd);
    }
    *fd = fcntl(parent->err, F_DUPFD_CLOEXEC, 0);
    return *fd >= 0 ? TRI_OK : no_descriptor();
}

tri_status tri__training_begin(const tri_parent *parent, tri_training *t) {
    TRI_OWNED(tri__fd_drop) int out = -1, nowhere = t->silent ? memfd_create("trident-results", MFD_CLOEXEC) : -1;
    if (t->silent && nowhere < 0) return no_descriptor();
    TRI_TRY(open_output(parent, t, &out));
    fflush(NULL);
    const tri_rank_start how = {.program = "/proc/self/exe", .argv = t->argv, .environment = parent->environment,
                                .in = -1, .out = t->silent ? nowhere : out, .err = out, .keep = {out, -1}};
    tri_status status = tri__rank_start(&how, 0, &t->pid, &t->pidfd);
    t->code = -1, t->told = 0;
    if (status == TRI_OK) return TRI_OK;
    t->pid = 0;
    return tri__fail_in(status, "%s", t->name);
}

/* Whether it has ended by now. One that starts does not answer signals yet: it dies of them, and is stopped as well. */
static int has_ended(tri_training *t) {
    int status;
    if (!t->pid || waitpid(t->pid, &status, WNOHANG) != t->pid) return 0;
    t->code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (t->code == 128 + SIGINT || t->code == 128 + SIGTERM) t->code = TRI_STOPPED;
    close(t->pidfd);
    t->pid = 0;
    return 1;
}

int tri__training_wait(const tri_parent *parent, tri_training *trainings, int n) {
    for (;;) {
        struct pollfd first = {.fd = -1, .events = POLLIN};
        int signal = parent->stop ? atomic_load(&parent->stop->signal) : 0, running = 0;
        for (int i = 0; i < n; i++) {
            if (has_ended(&trainings[i])) return i;
            if (trainings[i].pid && !running++) first.fd = trainings[i].pidfd;
            if (trainings[i].pid && signal && !trainings[i].told) {
                kill(trainings[i].pid, signal);
                trainings[i].told = 1; /* a second one would end it at once */
            }
        }
        if (!running) return -1;
        (void)poll(&first, 1, LOOK_MS); /* a signal ends the wait, too */
    }
}

tri_status tri__training_status(const tri_training *t) {
    if (t->code == TRI_OK) return TRI_OK;
    if (t->code == TRI_STOPPED)
        return tri__fail(TRI_STOPPED, "%s was stopped: the same command goes on with it", t->name);
    return tri__fail((tri_status)t->code, "%s ended with exit code %d: %s%s", t->name, t->code,
                     t->log[0] ? "see " : "its message is above", t->log);
}

tri_status tri__trainings_run(const tri_parent *parent, tri_training *trainings, int n, int quiet) {
    parent->reply(TRI_SIGNAL_PASSED_ON);
    for (tri_training *t = trainings; t < trainings + n; t++) {
        TRI_TRY(tri__stop_check_kept(parent->stop, "%s was next", t->name));
        if (!quiet) tri__tell(parent, "---- %s, in %s", t->name, t->folder);
        TRI_TRY(tri__training_begin(parent, t));
        (void)tri__training_wait(parent, t, 1);
        TRI_TRY(tri__training_status(t));
    }
    return TRI_OK;
}

tri_status tri__training_figures(const tri_training *t, tri_json **out) {
    TRI_OWNED(tri__json_drop) tri_json *summary = NULL;
    *out = NULL;
    TRI_PATH(path, t->folder, "summary.json");
    TRI_TRY(tri__json_load(path, TRI_DATA, &summary));
    const tri_json *best = tri__json_get(tri__json_get(summary, "best"), "figures");
    if (best) *out = tri__json_deep_copy(best);
    return !best || *out ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}
