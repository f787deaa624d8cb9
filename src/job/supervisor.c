/* supervisor.c - one event loop: signals, ranks' output, ranks' ends, and a tenth of a second passing. */
#include "job/supervisor.h"

#include "base/topology.h"
#include "comm/link/regroup.h"
#include "job/rank_process.h"
#include "job/supervision.h"

#include <errno.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { PERIOD_MS = 100, OWN_FILES = 6, RANK_FILES = 32, WORLD_FILES = 4 };
/* Seconds that ranks get after a failure to leave by themselves, the same while one of them saves, after SIGTERM, and
 * after SIGKILL. */
static const double LEAVE = 2, LEAVE_SAVING = 5, TERMINATE = 1, KILL = 10;
/* Seconds: process groups, control groups and launchers may each forward the same request. */
static const double DEBOUNCE = 0.3;
static const int stop_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1}; /* signals that request a stop */
enum { N_STOP_SIGNALS = sizeof stop_signals / sizeof *stop_signals };
_Static_assert((int)N_STOP_SIGNALS == (int)TRI_STOP_SIGNALS, "room for what each did before");

/* ---- signals ---- */

/* Signals are blocked in this thread and read from a descriptor. A thread that does not block them (a library may start
 * some while it is loaded) may still receive one: it forwards it to the main thread, where it stays pending until it is
 * read. */
static void hand_on(int signal) { syscall(SYS_tgkill, getpid(), getpid(), signal); }

static tri_status take_signals(tri_supervisor *s) {
    sigset_t set;
    struct sigaction action = {.sa_handler = hand_on, .sa_flags = SA_RESTART}, collected = {.sa_handler = SIG_DFL};
    sigemptyset(&set);
    for (int i = 0; i < N_STOP_SIGNALS; i++) {
        sigaction(stop_signals[i], NULL, &s->before[i]);
        if (stop_signals[i] == SIGHUP && s->before[i].sa_handler == SIG_IGN)
            continue; /* nohup: closing the terminal is not a request to stop */
        sigaddset(&set, stop_signals[i]);
        sigaction(stop_signals[i], &action, NULL);
    }
    sigaction(SIGCHLD, &collected, &s->child_before); /* if it were ignored, exit statuses would be lost */
    sigprocmask(SIG_BLOCK, &set, &s->mask_before);
    s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->signals >= 0) return TRI_OK;
    return tri__fail(TRI_RESOURCE, "cannot watch for signals: %s; raise `ulimit -n`", strerror(errno));
}

static void give_signals_back(tri_supervisor *s) {
    if (s->signals >= 0) close(s->signals);
    sigprocmask(SIG_SETMASK, &s->mask_before, NULL);
    for (int i = 0; i < N_STOP_SIGNALS; i++) sigaction(stop_signals[i], &s->before[i], NULL);
    sigaction(SIGCHLD, &s->child_before, NULL);
}

static void send(tri_supervisor *s, int rank, int signal) {
    if (s->child[rank].pidfd >= 0) pidfd_send_signal(s->child[rank].pidfd, signal, NULL, 0);
}

void tri__child_end(tri_supervisor *s, int i, int signal) {
    if (s->child[i].pidfd < 0) return;
    s->child[i].end.by_us = signal;
    if (signal == SIGKILL && !s->child[i].killed) s->child[i].killed = tri__clock();
    send(s, i, signal);
}

static void end_all(tri_supervisor *s, int signal) {
    for (int i = 0; i < s->started; i++) tri__child_end(s, i, signal);
}

/* Where rank i is in the current world. */
static tri_life life_of(const tri_supervisor *s, int i) {
    int local = s->child[i].local;
    return local < 0 ? TRI_LIFE_NONE : atomic_load(&s->segment.control->line[local].life);
}

/* A starting rank has no handler yet: it gets the signal once it has joined, or waits to. */
static void pass_on(tri_supervisor *s) {
    if (!s->verdict->stopped) return;
    for (int i = 0; i < s->started; i++) {
        if (s->child[i].asked || (life_of(s, i) == TRI_LIFE_NONE && !s->child[i].ready)) continue;
        s->child[i].asked = 1;
        send(s, i, s->verdict->stopped);
    }
}

/* Whether a rank has begun a step. */
static int trains(const tri_supervisor *s) {
    for (int i = 0; i < s->segment.n; i++)
        if (atomic_load(&s->segment.control->line[i].step) > 0) return 1;
    return 0;
}

static void hear_signals(tri_supervisor *s) {
    struct signalfd_siginfo info;
    while (read(s->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        double now = tri__clock();
        if (s->what->reloads && info.ssi_signo == SIGHUP) {
            for (int i = 0; i < s->started; i++) /* the others have no handler, and will load what is current anyway */
                if (life_of(s, i) == TRI_LIFE_JOINED) send(s, i, SIGHUP);
            continue;
        }
        int key = info.ssi_code == SI_KERNEL; /* a key pressed twice is two requests */
        if (s->asked && now - s->asked < DEBOUNCE && !(key && s->key)) continue;
        s->verdict->stopped = (int)info.ssi_signo;
        if (s->asked) {
            s->killed = now;
            end_all(s, SIGKILL);
            continue;
        }
        s->asked = now, s->key = key;
        if (s->what->stopping)
            tri__say(s->what->log, TRI_LOG_INFO, "%s", trains(s) ? s->what->stopping : s->what->stopping_early);
        atomic_store(&s->segment.control->stop, 1);
        tri__control_wake(s->segment.control, NULL, 0);
        pass_on(s);
    }
}

/* ---- the end of a rank ---- */

/* Records the rank's last stderr line, if any, and how it ended. */
static void blame(tri_supervisor *s, int i, int code, int status) {
    const char *words = s->streams.rank[i][1].last, *end = tri__end_text(status, (char[64]){0});
    int rank = s->child[i].local;
    if (WIFSIGNALED(status)) tri__control_fail(s->segment.control, rank, code, "%s", end);
    else if (*words) tri__control_fail(s->segment.control, rank, code, "%s (it ended with %s)", words, end);
    else tri__control_fail(s->segment.control, rank, code, "it ended with %s", end);
}

/* What a rank's end means for the others. Nothing if it left without failure; nor after a failure is known, unless it
 * died by a signal that the supervisor did not send. */
static void judge(tri_supervisor *s, int i, int status) {
    tri_control *control = s->segment.control;
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    tri_life life = life_of(s, i);
    if (s->child[i].local < 0) return; /* no other rank waits for it */
    if (code == TRI_STOPPED && life == TRI_LIFE_LEFT) s->exit_stopped = 1;
    else if (s->child[i].end.by_us || (atomic_load(&control->abort) && !WIFSIGNALED(status))) return;
    else if (code) blame(s, i, code, status);
    else if (life == TRI_LIFE_JOINED || (life == TRI_LIFE_NONE && (s->generation || atomic_load(&control->joined))))
        tri__control_fail(control, s->child[i].local, TRI_INTERNAL,
                          "it ended with exit code 0 without leaving the others: a program closes its world last");
}

/* A rank ended, but its exit status was collected elsewhere: by another thread that waits for all children, or because
 * SIGCHLD is ignored again. */
static void judge_unknown(tri_supervisor *s, int i, int cause) {
    tri_control *control = s->segment.control;
    const tri_child *c = &s->child[i];
    if (c->local < 0 || life_of(s, i) == TRI_LIFE_LEFT || c->end.by_us || atomic_load(&control->abort)) return;
    tri__control_fail(control, s->child[i].local, TRI_INTERNAL, "it ended, and its exit code is unknown (wait4: %s): "
                      "something else in this process collects its children", strerror(cause));
}

static void collect(tri_supervisor *s, int i) {
    struct rusage usage = {0};
    int status = -1;
    pid_t pid;
    do pid = wait4(s->child[i].pid, &status, WNOHANG, &usage);
    while (pid < 0 && errno == EINTR);
    if (pid == 0) return;
    if (pid < 0) status = -1, judge_unknown(s, i, errno);
    else if (WIFSIGNALED(status)) judge(s, i, status); /* at once: others wait for it */
    for (int k = 0; k < 2; k++) tri__stream_drain(&s->streams, i, k);
    if (pid > 0 && !WIFSIGNALED(status)) judge(s, i, status); /* its last line of output is the cause */
    tri__fd_drop(&s->child[i].pidfd);
    s->child[i].end.status = status, s->child[i].end.peak_bytes = (int64_t)usage.ru_maxrss * 1024;
    tri__fd_drop(&s->child[i].socket);
    s->alive--, s->child[i].ready = 0;
}

/* ---- the loop ---- */

/* All ranks; if the run goes on, those that have not left the world that failed. */
static void end_stuck(tri_supervisor *s, int signal) {
    int survives = tri__supervisor_survives(s);
    for (int i = 0; i < s->started; i++)
        if (!survives || (s->child[i].local >= 0 && !s->child[i].ready)) tri__child_end(s, i, signal);
}

/* Ranks notice a failure themselves, and leave; this is for those that do not. A rank that will be needed has as long
 * as one may make no progress. */
static void hasten(tri_supervisor *s) {
    tri_control *control = s->segment.control;
    double now = tri__clock(), leave = LEAVE;
    if (!atomic_load(&control->abort)) return;
    if (!s->aborted) s->aborted = now;
    for (int i = 0; i < s->started; i++)
        if (s->child[i].pidfd >= 0 && s->child[i].local >= 0 &&
            atomic_load(&control->line[s->child[i].local].phase) == TRI_DOING_SAVE)
            leave = LEAVE_SAVING;
    if (leave < s->progress_timeout && tri__supervisor_survives(s)) leave = s->progress_timeout;
    if (!s->terminated && !s->killed && now - s->aborted > leave) {
        s->terminated = now;
        end_stuck(s, SIGTERM);
    } else if (s->terminated && !s->killed && now - s->terminated > TERMINATE) {
        if (!tri__supervisor_survives(s)) s->killed = now;
        end_stuck(s, SIGKILL);
    }
}

static void look(tri_supervisor *s) {
    double now = tri__clock();
    if (now - s->watched < PERIOD_MS * 0.9e-3) return;
    s->watched = now;
    tri_control *control = s->segment.control;
    if (atomic_load(&control->abort)) return;
    tri__control_watch(control, s->seen, s->what->log, -1);
    s->verdict->hung = atomic_load(&control->abort) != 0;
}

static void wait_for_more(tri_supervisor *s) {
    int n = s->what->n;
    s->poll[0] = (struct pollfd){.fd = s->signals, .events = POLLIN};
    for (int i = 0; i < n; i++) {
        s->poll[1 + i] = (struct pollfd){.fd = i < s->started ? s->child[i].pidfd : -1, .events = POLLIN};
        for (int k = 0; k < 2; k++) {
            const tri_stream *stream = &s->streams.rank[i][k];
            int from = tri__stream_can_read(stream) ? stream->from : -1;
            s->poll[1 + n + 2 * i + k] = (struct pollfd){.fd = from, .events = POLLIN};
        }
        s->poll[1 + 3 * n + i] = (struct pollfd){.fd = s->child[i].socket, .events = POLLIN};
    }
    if (poll(s->poll, (nfds_t)(1 + 4 * n), PERIOD_MS) <= 0)
        for (int i = 0; i < 1 + 4 * n; i++) s->poll[i].revents = 0;
}

/* 1: not even SIGKILL ends those that still run. */
static int gives_up(const tri_supervisor *s) {
    double now = tri__clock();
    if (s->killed && now - s->killed > KILL) return 1;
    for (int i = 0; i < s->started; i++)
        if (s->child[i].pidfd >= 0 && !(s->child[i].killed > 0 && now - s->child[i].killed > KILL)) return 0;
    return 1;
}

static void watch_over(tri_supervisor *s) {
    int n = s->what->n;
    while (s->alive && !gives_up(s)) {
        wait_for_more(s);
        for (int i = 0; i < s->started; i++)
            if (s->poll[1 + i].revents) collect(s, i); /* first: others wait for it */
        if (s->poll[0].revents) hear_signals(s);
        for (int i = 0; i < n; i++)
            for (int k = 0; k < 2; k++)
                if (s->poll[1 + n + 2 * i + k].revents || s->streams.rank[i][k].used)
                    tri__stream_pump(&s->streams, i, k);
        look(s);
        if (s->what->elastic) tri__supervisor_regroup(s);
        pass_on(s);
        hasten(s);
    }
}

/* ---- starting ---- */

/* A rank also needs some, under the same limit. */
static tri_status check_files(const tri_supervised *what) {
    struct rlimit limit;
    TRI_OWNED(tri__names_free) tri_names open_now = {0};
    /* Two belong to the listing itself; 3 are open where it cannot be made. */
    int already = tri__folder_list("/proc/self/fd", &open_now) == TRI_OK ? open_now.n - 2 : 3;
    int here = already + OWN_FILES + what->n + tri__streams_need(&what->logs, what->n);
    if (what->elastic) here += what->n + WORLD_FILES;
    int need = here > RANK_FILES ? here : RANK_FILES;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= (rlim_t)need) return TRI_OK;
    return tri__fail(TRI_RESOURCE, "%d ranks need %d open files, and the limit is %llu: raise it (`ulimit -n %d`), or "
                     "start fewer ranks", what->n, need, (unsigned long long)limit.rlim_cur, need);
}

/* Rank i's cores. */
static int share_cores(const tri_supervised *what, int i, cpu_set_t *out) {
    tri_topology topology;
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof all, &all)) return 0;
    tri__topology_read("", &topology);
    tri__topology_cores(&topology, &all, what->gpus, i, what->n, out);
    return 1;
}

static tri_status execute(tri_supervisor *s, int i, int page, int socket, int nothing) {
    cpu_set_t cores;
    const char *rank = TRI_TEXT(16, "%d", i), *size = TRI_TEXT(16, "%d", s->what->n);
    const char *fd = TRI_TEXT(16, "%d", page), *socket_fd = TRI_TEXT(16, "%d", socket);
    const char *const pairs[][2] = {
        {"RANK", rank}, {"WORLD_SIZE", size}, {"LOCAL_RANK", rank}, {"GROUP_RANK", "0"}, {"LOCAL_WORLD_SIZE", size},
        {"GROUP_WORLD_SIZE", "1"}, {"TRIDENT_FD", page < 0 ? NULL : fd},
        {"TRIDENT_SOCKET", socket < 0 ? NULL : socket_fd}, {"MASTER_ADDR", "127.0.0.1"}, {"NODE_RANK", NULL}};
    TRI_OWNED(tri__free_at) char **environment = tri__environment_with(s->what->environment,
                                                                       pairs, sizeof pairs / sizeof *pairs);
    if (!environment) return tri__fail(TRI_RESOURCE, "out of memory while starting rank %d", i);
    tri_stream *stream = s->streams.rank[i];
    /* This very executable, even if its file was renamed or replaced. */
    tri_rank_start how = {.program = s->what->program ? s->what->program : "/proc/self/exe", .argv = s->what->argv,
                          .environment = environment, .in = nothing, .out = stream[0].child, .err = stream[1].child,
                          .keep = {page, socket}, .signals = &s->mask_before,
                          .cores = s->what->bind_cores && share_cores(s->what, i, &cores) ? &cores : NULL};
    /* The console's descriptors need not be 1 and 2. */
    if (how.out < 0 && s->what->out != STDOUT_FILENO) how.out = s->what->out;
    if (how.err < 0 && s->what->err != STDERR_FILENO) how.err = s->what->err;
    return tri__rank_start(&how, i, &s->child[i].pid, &s->child[i].pidfd);
}

tri_status tri__child_start(tri_supervisor *s, int i, int joins) {
    TRI_OWNED(tri__fd_drop) int nothing = -1, socket = -1;
    tri_stream *stream = s->streams.rank[i];
    TRI_TRY(tri__null_open(&nothing));
    int end[2] = {-1, -1}; /* of a new socket, in an elastic run: ours and the rank's */
    tri_status status = s->what->elastic ? tri__regroup_open(end) : TRI_OK;
    s->child[i].socket = end[0], socket = end[1];
    if (status == TRI_OK) status = execute(s, i, joins ? -1 : s->segment.fd, socket, nothing);
    if (status == TRI_OK) s->alive++;
    else if (s->child[i].socket >= 0) close(s->child[i].socket), s->child[i].socket = -1;
    s->child[i].local = joins ? -1 : i, s->child[i].begun = tri__clock();
    for (int k = 0; k < 2; k++) tri__fd_drop(&stream[k].child);
    return status;
}

static tri_status prepare(tri_supervisor *s) {
    const tri_supervised *what = s->what;
    size_t n = what->n > 0 && what->n <= TRI_RANKS_PER_NODE ? (size_t)what->n : 0;
    if (!n) return tri__fail(TRI_USAGE, "%d ranks on one machine: 1 to %d are possible", what->n, TRI_RANKS_PER_NODE);
    TRI_TRY(check_files(what));
    s->child = calloc(n, sizeof *s->child);
    s->seen = calloc(TRI_RANKS_PER_NODE, sizeof *s->seen);
    s->poll = calloc(1 + 4 * n, sizeof *s->poll);
    s->fitting = calloc(n + 1, sizeof *s->fitting);
    s->verdict->rank = calloc(n, sizeof *s->verdict->rank);
    if (!s->child || !s->seen || !s->poll || !s->fitting || !s->verdict->rank)
        return tri__fail(TRI_RESOURCE, "out of memory for %d ranks", what->n);
    for (size_t i = 0; i < n; i++) s->child[i] = (tri_child){.pidfd = -1, .local = -1, .socket = -1, .end.status = -1};
    s->progress_timeout = what->progress_timeout > 0 ? what->progress_timeout : 30;
    tri_segment_spec spec = {.n = what->n, .world = what->n, .heap_bytes = what->heap_bytes,
                             .progress_timeout = s->progress_timeout, .io_timeout = what->io_timeout};
    TRI_TRY(tri__segment_create(&spec, &s->segment));
    TRI_TRY(tri__streams_open(&what->logs, what->n, what->out, what->err, what->log, &s->streams));
    snprintf(s->verdict->logs, sizeof s->verdict->logs, "%s", s->streams.folder);
    return take_signals(s);
}

/* ---- the verdict ---- */

static int asks_to_stop(int signal) {
    for (int i = 0; i < N_STOP_SIGNALS; i++)
        if (stop_signals[i] == signal) return 1;
    return 0;
}

static void conclude(tri_supervisor *s) {
    tri_verdict *v = s->verdict;
    tri_control *control = s->segment.control;
    v->n = s->segment.n;
    for (int i = 0; i < s->what->n; i++)
        if (s->child[i].local >= 0) v->rank[s->child[i].local] = s->child[i].end;
    for (int i = 0; i < v->n; i++) tri__rank_end_take(&v->rank[i], i, &control->line[i]);
    int failed = tri__control_failure(control, &v->failure),
        between = s->regrouping > 0 && v->stopped; /* two worlds: the run had got over that failure */
    if (failed && tri__supervisor_completed(s)) {
        tri__say(s->what->log, TRI_LOG_WARN, "rank %d died after the run had ended (%s)", v->failure.rank,
                 v->failure.text);
        failed = 0;
    }
    v->n_second = tri__control_second(control, v->second);
    v->out_of_memory = tri__oom_kills() > s->oom_before;
    v->committed = atomic_load(&control->committed) - 1;
    v->ended = tri__clock_wall() - (failed ? tri__clock() - v->failure.time : 0);
    /* Ranks that stop, or end by a signal that requested a stop, have not failed. */
    v->failed = failed && !between && v->failure.code != TRI_STOPPED &&
                !(v->stopped && asks_to_stop(v->failure.code - 128));
    v->hung &= v->failed;
    if (v->failed) v->code = v->failure.code;
    else if (failed && !between ? v->failure.code != TRI_STOPPED : s->killed > 0) v->code = 128 + v->stopped;
    else if (failed || s->exit_stopped) v->code = TRI_STOPPED;
}

tri_status tri__supervise(const tri_supervised *what, tri_verdict *verdict) {
    tri_supervisor s = {.what = what, .verdict = verdict, .segment = {.fd = -1}, .earlier = {.fd = -1}, .signals = -2,
                        .oom_before = tri__oom_kills()};
    *verdict = (tri_verdict){0};
    tri_status status = prepare(&s);
    for (; status == TRI_OK && s.started < what->n; s.started += status == TRI_OK)
        status = tri__child_start(&s, s.started, 0);
    if (status != TRI_OK && s.started) { /* no rank continues without the others */
        s.killed = tri__clock();
        end_all(&s, SIGKILL);
    }
    int asked = what->stop ? atomic_load(&what->stop->signal) : 0;
    if (asked) raise(asked); /* blocked here: read with the others */
    if (s.started) watch_over(&s);
    if (status == TRI_OK) conclude(&s);
    else tri__verdict_free(verdict);
    if (s.signals != -2) give_signals_back(&s);
    tri__streams_close(&s.streams);
    tri__segment_close(&s.segment);
    tri__segment_close(&s.earlier);
    for (int i = 0; i < what->n && s.child; i++)
        if (s.child[i].socket >= 0) close(s.child[i].socket);
    TRI_FREE(s.fitting, s.child, s.seen, s.poll);
    return status;
}

void tri__verdict_free(tri_verdict *verdict) {
    free(verdict->rank);
    *verdict = (tri_verdict){0};
}
