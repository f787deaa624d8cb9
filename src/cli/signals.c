/* signals.c - the signal handler and its static state, since a handler gets no context of ours. A handler may only
 * write a constant text in reply. */
#include "cli/launch.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>

/* Process groups, control groups and launchers may each pass on the same request; a key that is pressed twice is
 * two. */
static const double DEBOUNCE = 0.5; /* seconds */

static struct {
    tri_stop stop;
    _Atomic double first;      /* tri__clock() of the first signal */
    atomic_int words;          /* tri_signal_words */
    volatile sig_atomic_t key; /* 1: the first came from the keyboard */
    int terminal;              /* a progress line may stand there: it is erased first */
    int ranks;                 /* 1: a launcher started this process */
    int hasty;                 /* 1: one that kills its ranks shortly after it passed a signal on */
    sem_t wake;                /* of a server: posted by each signal */
    atomic_int reload;         /* 1: SIGHUP came */
    int code;                  /* exit code when the time to end is over */
} taken;

#define AGAIN "; once more ends it at once, without saving"
static const char *const texts[] = {
    [TRI_SIGNAL_SILENT] = "",
    [TRI_SIGNAL_EARLY] = "stopping before the first step; once more ends it at once",
    [TRI_SIGNAL_STEP] = "stopping: the step in progress is finished and saved" AGAIN,
    [TRI_SIGNAL_STEP_UNSAVED] = "stopping after the step in progress; nothing is saved, since checkpoints are off",
    [TRI_SIGNAL_RANKS] =
        "stopping: the ranks finish the step in progress, or the next one if the update has begun, and save" AGAIN,
    [TRI_SIGNAL_RANKS_UNSAVED] =
        "stopping after the step in progress, or the next one; nothing is saved, since checkpoints are off",
    [TRI_SIGNAL_LAUNCHER] = "stopping: the ranks save if they live long enough; mpirun ends them within seconds (send "
                            "it SIGUSR1 instead, or use `trident supervise`)",
    [TRI_SIGNAL_DRAIN] = "stopping: requests in flight are answered, new ones refused; once more ends it at once",
    [TRI_SIGNAL_MEASURED] = "stopping after the evaluation in progress; once more ends it at once",
    [TRI_SIGNAL_ROWS] = "stopping after the batch of rows in progress; nothing is written; once more ends it at once",
    [TRI_SIGNAL_SEARCHED] = "stopping: the best layouts found so far follow; once more ends it at once",
    [TRI_SIGNAL_PASSED_ON] = "stopping: the job is told; once more ends it at once",
    [TRI_SIGNAL_PASSED_ON_SAVES] = "stopping: the job is told; its ranks finish a step and save" AGAIN,
    [TRI_SIGNAL_PAUSED] = "stopping: the job does not run at the moment",
};

const char *tri__signals_text(tri_signal_words words) { return texts[words]; }

/* One write, so that output of other processes cannot interleave. */
static void put(const char *text) {
    char line[320];
    size_t n = 0;
    int before = errno;
    const char *const parts[] = {taken.terminal ? "\r\033[K" : "", "trident: ", text, "\n"};
    for (int i = 0; i < 4; i++)
        for (const char *c = parts[i]; *c && n < sizeof line; c++) line[n++] = *c;
    while (n && write(STDERR_FILENO, line, n) < 0 && errno == EINTR) continue;
    errno = before;
}

static void expire(int signal) {
    (void)signal;
    put("MPI did not end in time: this process ends without it; its work was done");
    _exit(taken.code);
}

/* SIGUSR1 comes from `trident supervise`, which has already printed a message, or from a scheduler. */
static void note(int signal, siginfo_t *info, void *context) {
    (void)context;
    int none = 0, key = info->si_code == SI_KERNEL, words = atomic_load(&taken.words),
        silent = words == TRI_SIGNAL_SILENT || (signal == SIGUSR1 && taken.ranks);
    if (atomic_compare_exchange_strong(&taken.stop.signal, &none, signal)) {
        atomic_store(&taken.first, tri__clock());
        taken.key = key;
        if (!silent) put(texts[taken.hasty && words == TRI_SIGNAL_RANKS ? TRI_SIGNAL_LAUNCHER : words]);
    } else if ((key && taken.key) || tri__clock() - atomic_load(&taken.first) > DEBOUNCE) {
        if (!silent) put("ended at once by a second signal");
        _exit(128 + signal);
    }
}

void tri__signals_say(tri_signal_words words) {
    if (atomic_load(&taken.words) != TRI_SIGNAL_SILENT) atomic_store(&taken.words, (int)words);
}

/* With a 0 at the end. A server and a viewer end without SIGUSR1. */
static const int stop_signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, 0}, end_signals[] = {SIGTERM, SIGINT, SIGHUP, 0};

static void install(tri_cli *cli, tri_signal_words words, void (*handler)(int, siginfo_t *, void *),
                    const int *signals) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_RESTART | SA_SIGINFO}, before;
    taken.terminal = cli->err_terminal;
    atomic_store(&taken.first, tri__clock());
    atomic_store(&taken.words, (int)(tri__launch_speaks(cli->lookup) ? words : TRI_SIGNAL_SILENT));
    cli->stop = &taken.stop;
    sem_init(&taken.wake, 0, 0);
    for (; *signals; signals++) {
        sigaction(*signals, NULL, &before);
        if (*signals == SIGHUP && handler == note && before.sa_handler == SIG_IGN)
            continue; /* by nohup: a closed terminal is not a stop request */
        sigaction(*signals, &action, NULL);
    }
}

void tri__signals_take(tri_cli *cli, tri_signal_words words) {
    const char *end = cli->lookup("SLURM_JOB_END_TIME");
    tri_launch launch;
    taken.stop.deadline = end ? strtod(end, NULL) : 0;
    taken.ranks = tri__launch_detect(cli->lookup, &launch) == TRI_OK && launch.launcher != TRI_LAUNCHER_NONE;
    taken.hasty = taken.ranks && !launch.slurm &&
                  (launch.launcher == TRI_LAUNCHER_OPENMPI || launch.launcher == TRI_LAUNCHER_MPICH);
    install(cli, words, note, stop_signals);
}

void tri__signals_end(int seconds, int code) {
    for (const int *at = stop_signals; *at; at++) {
        struct sigaction now;
        sigaction(*at, NULL, &now);
        if (now.sa_sigaction == note) signal(*at, *at == SIGUSR1 ? SIG_IGN : SIG_DFL);
    }
    taken.code = code;
    if (!seconds) return;
    signal(SIGALRM, expire);
    alarm((unsigned)seconds);
}

static void note_server(int signal, siginfo_t *info, void *context) {
    int before = errno;
    if (signal == SIGHUP) atomic_store(&taken.reload, 1);
    else note(signal, info, context);
    sem_post(&taken.wake);
    errno = before;
}

void tri__signals_serve(tri_cli *cli) {
    install(cli, TRI_SIGNAL_DRAIN, note_server, end_signals);
    cli->reloads = 1;
    signal(SIGPIPE, SIG_IGN);
}

tri_server_signal tri__signals_wait(void) {
    for (;;) {
        if (tri__stop_signalled(&taken.stop)) return TRI_SERVER_END;
        if (atomic_exchange(&taken.reload, 0)) return TRI_SERVER_RELOAD;
        while (sem_wait(&taken.wake) && errno == EINTR) continue;
    }
}

static void wake(int signal) {
    int before = errno;
    (void)signal;
    sem_post(&taken.wake);
    errno = before;
}

void tri__signals_view(tri_cli *cli) {
    struct sigaction resized = {.sa_handler = wake, .sa_flags = SA_RESTART};
    install(cli, TRI_SIGNAL_SILENT, note_server, end_signals);
    sigaction(SIGWINCH, &resized, NULL);
}

int tri__signals_pause(double seconds) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    double end = (double)until.tv_sec + (double)until.tv_nsec / 1e9 + seconds;
    until.tv_sec = (time_t)end, until.tv_nsec = (long)((end - (double)until.tv_sec) * 1e9);
    while (sem_timedwait(&taken.wake, &until) && errno == EINTR) continue;
    return tri__stop_signalled(&taken.stop) || atomic_exchange(&taken.reload, 0);
}
