/* hang.c - ranks that hang, told apart by what they do: computing without progress, stopped, inside one file call,
 * or all waiting for one another. Waiting for peers is no progress: only a beat, a finished file call and, where work
 * has neither, processor time are. */

#include "base/file.h"
#include "comm/ops/describe.h"

static const double WATCH_GAP = 0.25; /* longest time between two polls of a watcher that counts in full */

/* When the rank last showed activity, as seen by this watcher: progress or, inside a wait, a poll. */
static double last_sign(const tri_rank_line *line, const tri_seen *seen) {
    return atomic_load(&line->waiting) && seen->look > seen->beat ? seen->look : seen->beat;
}

static void see(const tri_rank_line *line, tri_seen *seen, double io_timeout, double now) {
    uint64_t beats = atomic_load(&line->beats), looks = atomic_load(&line->looks),
             calls = tri__calls_number(&line->calls);
    double stood = now - seen->now - WATCH_GAP; /* time in which the watcher itself did not run */
    if (seen->now == 0) seen->beat = seen->look = seen->moved = now;
    else if (stood > 0) seen->beat += stood, seen->look += stood, seen->free += stood, seen->moved += stood;
    if (beats != seen->beats) seen->beats = beats, seen->beat = seen->moved = now;
    if (looks != seen->looks) seen->looks = looks, seen->look = now;
    if (calls != seen->calls) seen->calls = calls, seen->beat = seen->moved = now;
    uint32_t doing = atomic_load(&line->phase);
    /* Long work without beats: CPU time counts as activity, but not that of polling in a wait, and not for ever. */
    if ((doing == TRI_DOING_LOAD || doing == TRI_DOING_SAVE) && !atomic_load(&line->waiting) &&
        now - seen->moved < io_timeout) {
        uint64_t ticks = tri__process_ticks(atomic_load(&line->pid));
        if (ticks != seen->ticks) seen->ticks = ticks, seen->beat = now;
    }
    seen->now = now;
}

/* The state of the rank's process, as in /proc/PID/stat: R, S, D, T ...; 0 if it is not known here (another pid
 * namespace). */
static char process_state(const tri_rank_line *line) {
    if (atomic_load(&line->pid_space) != (uint32_t)tri__file_number("/proc/self/ns/pid")) return 0;
    return tri__process_state(atomic_load(&line->pid));
}

static int is_stopped(char state) { return state == 'T' || state == 't'; }

/* What the process does while it makes no progress, and what to try. */
static const char *state_text(char state) {
    switch (state) {
    case 'T': return "its process is stopped (SIGSTOP, or Ctrl-Z); `kill -CONT` lets it go on";
    case 't': return "a debugger holds its process";
    case 'R': return "its process computes: an endless loop, or a machine with too much to do";
    case 'D': return "its process waits in the kernel, for a disk or a driver: see `dmesg`";
    case 'S': return "its process sleeps";
    default: return "what its process does is not known here";
    }
}

/* A rank's last posted operation: "its last operation is all_reduce sum f32 x 1024 (number 17)". */
static void describe_last(const tri_rank_line *line, char *out, size_t size) {
    char what[96];
    uint64_t posted = atomic_load(&line->posted);
    tri__describe_unpack(atomic_load(&line->last), what, sizeof what);
    if (!posted) snprintf(out, size, "it posted no operation yet");
    else snprintf(out, size, "its last operation is %s (number %llu)", what, (unsigned long long)posted);
}

/* A rank without activity. */
typedef struct suspect {
    int local;           /* -1: none */
    double silent;       /* seconds */
    double over;         /* seconds beyond its limit */
    int in_call;         /* 1: inside the file call `call` */
    tri_call_view call;
    char state;
} suspect;

#define BLOCKED "has been in "
int tri__failure_blocked(const tri_failure *failure) {
    return failure->code == TRI_IO && !strncmp(failure->text, BLOCKED, strlen(BLOCKED));
}

static void report_hung(tri_control *control, const suspect *who, int waiter) {
    const tri_rank_line *line = &control->line[who->local];
    int rank = control->rank_of[who->local], pid = (int)atomic_load(&line->pid);
    char last[160];
    describe_last(line, last, sizeof last);
    if (atomic_load(&line->life) == TRI_LIFE_NONE)
        tri__control_fail(control, rank, TRI_DISAGREE, "did not start within %.2f s, and rank %d waits", who->silent,
                          control->rank_of[waiter]);
    else if (who->in_call && !is_stopped(who->state))
        tri__control_fail(control, rank, TRI_IO,
                          BLOCKED "%s of %s for %.2f s: the disk or its server does not answer (process %d; see "
                          "`dmesg`, `df`), or raise --io-timeout",
                          tri__call_text(who->call.call), who->call.path, who->silent, pid);
    else
        tri__control_fail(control, rank, TRI_DISAGREE,
                          "hangs: no progress for %.2f s%s, and rank %d waits; process %d: %s; %s. Or raise "
                          "--progress-timeout",
                          who->silent, atomic_load(&line->waiting) ? " (inside a wait)" : "", control->rank_of[waiter],
                          pid, state_text(who->state), last);
}

/* All ranks wait: the message lists each one's last posted operation and blames none. */
static void report_deadlock(tri_control *control, double seconds) {
    char text[TRI_FAILURE_TEXT], last[160];
    int used = snprintf(text, sizeof text,
                        "deadlock: all ranks wait for one another, and none made progress for %.2f s:", seconds);
    for (int i = 0, n = tri__control_lines(control); i < n && used < (int)sizeof text; i++) {
        if (atomic_load(&control->line[i].life) == TRI_LIFE_LEFT) continue;
        describe_last(&control->line[i], last, sizeof last);
        used += snprintf(text + used, sizeof text - (size_t)used, " rank %d: %s;", control->rank_of[i], last);
    }
    tri__control_fail(control, -1, TRI_DISAGREE, "%s", text);
}

/* How long rank i has shown nothing, and by how much that is too long. A file call has its own limit, and needs nobody
 * who waits: all ranks may be in one. */
static suspect suspect_of(const tri_control *control, int i, tri_seen *seen, int waited_for, double now) {
    const tri_rank_line *line = &control->line[i];
    suspect who = {.local = i, .silent = now - last_sign(line, seen), .over = -1};
    double limit = control->progress_timeout, io = control->io_timeout;
    if (who.silent <= WATCH_GAP && who.silent <= limit && who.silent <= io) return who;
    who.in_call = atomic_load(&line->life) == TRI_LIFE_JOINED && tri__calls_now(&line->calls, &who.call);
    if (who.in_call || who.silent > limit) who.state = process_state(line);
    if (!is_stopped(who.state)) seen->free = now;
    if (who.in_call && !is_stopped(who.state)) who.over = who.silent - io;
    else if (waited_for && !who.in_call) who.over = who.silent - limit;
    else if (waited_for) who.over = (now - seen->free < who.silent ? now - seen->free : who.silent) - limit;
    return who;
}

/* A file call that takes longer than a hang would: said once. */
static void tell(const tri_control *control, const suspect *who, tri_seen *seen, const tri_log *log) {
    if (!who->in_call || is_stopped(who->state) || who->over > 0 || who->silent <= control->progress_timeout ||
        seen->told == seen->calls)
        return;
    seen->told = seen->calls;
    tri__say(log, TRI_LOG_WARN,
             "rank %d has been in %s of %s for %.0f s: a slow disk? It may take %.0f s (--io-timeout)",
             control->rank_of[who->local], tri__call_text(who->call.call), who->call.path, who->silent,
             control->io_timeout);
}

void tri__control_watch(tri_control *control, tri_seen seen[static TRI_RANKS_PER_NODE], const tri_log *log, int only) {
    double now = tri__clock(), limit = control->progress_timeout, latest_beat = 0;
    int n = tri__control_lines(control), waiting = 0, unfinished = 0;
    int waiter[2] = {-1, -1}; /* two: one of them is not the culprit */
    if (atomic_load(&control->abort)) return;
    for (int i = 0; i < n; i++) {
        see(&control->line[i], &seen[i], control->io_timeout, now);
        /* A rank that has just left may have been what all others waited for: they are about to see it. */
        if (seen[i].beat > latest_beat) latest_beat = seen[i].beat;
        if (atomic_load(&control->line[i].life) == TRI_LIFE_LEFT) continue;
        unfinished++;
        if (atomic_load(&control->line[i].waiting)) waiter[waiting++ != 0] = i;
    }
    suspect worst = {.local = -1};
    for (int i = 0; i < n; i++) {
        if (atomic_load(&control->line[i].life) == TRI_LIFE_LEFT) continue;
        int waited_for = waiter[0] >= 0 && (waiter[0] != i || waiter[1] >= 0);
        suspect who = suspect_of(control, i, &seen[i], waited_for, now);
        if (only < 0 || only == i) tell(control, &who, &seen[i], log);
        if (who.over > worst.over) worst = who;
    }
    /* Across machines the progress of a rank waited for counts too, but arrives late. */
    double stuck = control->world == n ? limit : 2 * limit;
    if (worst.local >= 0) report_hung(control, &worst, waiter[waiter[0] == worst.local]);
    else if (unfinished && waiting == unfinished && now - latest_beat > stuck)
        report_deadlock(control, now - latest_beat);
}
