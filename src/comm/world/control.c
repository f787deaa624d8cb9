/* control.c - the control page's records: joined ranks, the first failure, and detection of hung ranks. */
#include "comm/world/control.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/machine.h"
#include "comm/ops/transport.h"

#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double WRITER_SECONDS = 0.1; /* for the writer of a record to finish it */
static const double WATCH_GAP = 0.25;     /* longest time between two polls of a watcher that counts in full */

/* A peer could have written anything: at most the size of the rank table, which the segment always exceeds. */
static int lines(const tri_control *control) {
    int n = *(const volatile int32_t *)&control->n; /* read once */
    return n < 0 ? 0 : n > TRI_RANKS_PER_NODE ? TRI_RANKS_PER_NODE : n;
}

const char *tri__doing_text(uint32_t phase) {
    static const char *const text[] = {
#define X(name, text) text,
        TRI_DOINGS(X)
#undef X
    };
    return phase < TRI_DOING_COUNT ? text[phase] : "in an unknown phase";
}

size_t tri__control_bytes(int n) { return sizeof(tri_control) + (size_t)n * sizeof(tri_rank_line); }

void tri__control_init(tri_control *control, int n, const int *world_ranks, int world, double progress_timeout) {
    TRI_ASSERT(n > 0 && n <= TRI_RANKS_PER_NODE && world >= n);
    control->n = n, control->world = world;
    control->progress_timeout = progress_timeout;
    for (int i = 0; i < n; i++) {
        control->rank_of[i] = world_ranks ? world_ranks[i] : i;
        atomic_store(&control->line[i].step, -1);
    }
}

/* Whether the cores of all joined ranks suffice for the machine's ranks. Each rank may be bound to its own core, so one
 * rank's cores are not enough to tell. */
static void add_cores(tri_control *control) {
    cpu_set_t set;
    int all = 0;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return;
    for (int w = 0; w < TRI_CORE_WORDS; w++) {
        uint64_t word = 0;
        for (int b = 0; b < 64; b++)
            if (CPU_ISSET(64 * w + b, &set)) word |= (uint64_t)1 << b;
        all += __builtin_popcountll(atomic_fetch_or(&control->cores[w], word) | word);
    }
    if (all >= control->n) atomic_store(&control->spin, 1);
}

void tri__control_join(tri_control *control, int local) {
    tri_rank_line *line = &control->line[local];
    add_cores(control);
    atomic_store(&line->pid, (int32_t)getpid());
    atomic_store(&line->pid_space, (uint32_t)tri__file_number("/proc/self/ns/pid"));
    atomic_store(&line->life, TRI_LIFE_JOINED);
    atomic_fetch_add(&control->joined, 1);
    tri__control_wake(control, NULL, 0);
}

/* Fills in and completes a record that the caller has claimed. */
static void write_record(tri_control *control, tri_failure *record, int rank, int code, const char *text) {
    record->rank = rank;
    record->code = code;
    record->step = -1;
    record->phase = TRI_DOING_COUNT;
    for (int i = 0, n = lines(control); i < n; i++)
        if (control->rank_of[i] == rank) {
            record->phase = atomic_load(&control->line[i].phase);
            record->step = atomic_load(&control->line[i].step);
        }
    record->time = tri__clock();
    memcpy(record->text, text, TRI_FAILURE_TEXT);
    atomic_store(&record->state, 2);
}

void tri__control_fail(tri_control *control, int rank, int code, const char *format, ...) {
    char text[TRI_FAILURE_TEXT] = "";
    uint32_t empty = 0;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (atomic_compare_exchange_strong(&control->failure.state, &empty, 1)) {
        write_record(control, &control->failure, rank, code, text);
    } else {
        uint32_t place = atomic_fetch_add(&control->n_second, 1);
        if (place < TRI_SECOND_FAILURES) write_record(control, &control->second[place], rank, code, text);
    }
    atomic_store(&control->abort, 1);
    tri__futex_wake(&control->abort);
    tri__control_wake(control, NULL, 0);
}

/* A copy of a finished record, with printable, terminated text and a valid failure code. */
static void copy_record(const tri_failure *record, tri_failure *out) {
    size_t after = offsetof(tri_failure, state) + sizeof record->state; /* others may still try to claim the state */
    memcpy((char *)out + after, (const char *)record + after, sizeof *out - after);
    atomic_store(&out->state, 2);
    out->text[TRI_FAILURE_TEXT - 1] = 0;
    for (char *at = out->text; *at; at++)
        if ((unsigned char)*at < 32 && *at != '\n') *at = ' ';
    if (out->code <= 0 || out->code > 255) out->code = TRI_INTERNAL;
}

int tri__control_second(const tri_control *control, tri_failure *out) {
    int n = 0;
    for (int i = 0; i < TRI_SECOND_FAILURES; i++)
        if (atomic_load(&control->second[i].state) == 2) copy_record(&control->second[i], &out[n++]);
    return n;
}

int tri__control_failure(const tri_control *control, tri_failure *out) {
    uint32_t state = atomic_load(&control->failure.state);
    for (double begin = tri__clock(); state == 1 && tri__clock() - begin < WRITER_SECONDS;
         state = atomic_load(&control->failure.state))
        sched_yield();
    if (state == 0) return 0;
    if (state == 2) {
        copy_record(&control->failure, out);
        return 1;
    }
    /* The process that found the writer dead recorded it as a second failure. */
    tri_failure second[TRI_SECOND_FAILURES];
    if (tri__control_second(control, second)) copy_record(&second[0], out);
    else *out = (tri_failure){.state = 2, .rank = -1, .code = TRI_INTERNAL, .phase = TRI_DOING_COUNT, .step = -1,
                              .text = "a rank failed, and ended before it recorded why"};
    return 1;
}

tri_status tri__control_status(const tri_control *control) {
    tri_failure failure;
    char who[32] = "", where[96] = "";
    if (!tri__control_failure(control, &failure)) return TRI_OK;
    if (failure.rank >= 0) snprintf(who, sizeof who, "rank %d: ", failure.rank);
    if (failure.phase < TRI_DOING_COUNT && failure.step >= 0)
        snprintf(where, sizeof where, " (step %lld, %s)", (long long)failure.step, tri__doing_text(failure.phase));
    else if (failure.phase < TRI_DOING_COUNT)
        snprintf(where, sizeof where, " (%s)", tri__doing_text(failure.phase));
    return tri__fail((tri_status)failure.code, "%s%s%s", who, failure.text, where);
}

/* When the rank last showed activity, as seen by this watcher: progress or, inside a wait, a poll. */
static double last_sign(const tri_rank_line *line, const tri_seen *seen) {
    return atomic_load(&line->waiting) && seen->look > seen->beat ? seen->look : seen->beat;
}

static void see(const tri_rank_line *line, tri_seen *seen, double now) {
    uint64_t beats = atomic_load(&line->beats), looks = atomic_load(&line->looks);
    double stood = now - seen->now - WATCH_GAP; /* time in which the watcher itself did not run */
    if (seen->now == 0) seen->beat = seen->look = now;
    else if (stood > 0) seen->beat += stood, seen->look += stood;
    if (beats != seen->beats) seen->beats = beats, seen->beat = now;
    if (looks != seen->looks) seen->looks = looks, seen->look = now;
    uint32_t doing = atomic_load(&line->phase);
    if (doing == TRI_DOING_LOAD ||
        doing == TRI_DOING_SAVE) { /* long work without beats: CPU time counts as activity */
        uint64_t ticks = tri__process_ticks(atomic_load(&line->pid));
        if (ticks != seen->ticks) seen->ticks = ticks, seen->beat = now;
    }
    seen->now = now;
}

/* A rank's last posted operation: "its last operation is all_reduce sum f32 x 1024 (number 17)". */
static void describe_last(const tri_rank_line *line, char *out, size_t size) {
    char what[96];
    uint64_t posted = atomic_load(&line->posted);
    tri__describe_unpack(atomic_load(&line->last), what, sizeof what);
    if (!posted) snprintf(out, size, "it posted no operation yet");
    else snprintf(out, size, "its last operation is %s (number %llu)", what, (unsigned long long)posted);
}

static void report_hung(tri_control *control, int local, int waiter, double seconds) {
    const tri_rank_line *line = &control->line[local];
    char last[160];
    describe_last(line, last, sizeof last);
    if (atomic_load(&line->life) == TRI_LIFE_NONE)
        tri__control_fail(control, control->rank_of[local], TRI_DISAGREE,
                          "did not start within %.2f s, and rank %d waits", seconds, control->rank_of[waiter]);
    else
        tri__control_fail(control, control->rank_of[local], TRI_DISAGREE,
                          "hangs: no progress for %.2f s%s, and rank %d waits; %s. See what process %d does, or raise "
                          "--progress-timeout",
                          seconds, atomic_load(&line->waiting) ? " (stopped inside a wait)" : "",
                          control->rank_of[waiter], last, (int)atomic_load(&line->pid));
}

/* All ranks wait: the message lists each one's last posted operation and blames none. */
static void report_deadlock(tri_control *control, double seconds) {
    char text[TRI_FAILURE_TEXT], last[160];
    int used = snprintf(text, sizeof text,
                        "deadlock: all ranks wait for one another, and none made progress for %.2f s:", seconds);
    for (int i = 0, n = lines(control); i < n && used < (int)sizeof text; i++) {
        if (atomic_load(&control->line[i].life) == TRI_LIFE_LEFT) continue;
        describe_last(&control->line[i], last, sizeof last);
        used += snprintf(text + used, sizeof text - (size_t)used, " rank %d: %s;", control->rank_of[i], last);
    }
    tri__control_fail(control, -1, TRI_DISAGREE, "%s", text);
}

void tri__control_watch(tri_control *control, tri_seen seen[static TRI_RANKS_PER_NODE]) {
    double now = tri__clock(), limit = control->progress_timeout, oldest = now, latest_beat = 0;
    int n = lines(control), culprit = -1, waiter[2] = {-1, -1}, waiting = 0,
        unfinished = 0; /* two waiters: one is not the culprit */
    if (atomic_load(&control->abort)) return;
    for (int i = 0; i < n; i++) {
        see(&control->line[i], &seen[i], now);
        if (atomic_load(&control->line[i].life) == TRI_LIFE_LEFT) continue;
        unfinished++;
        if (seen[i].beat > latest_beat) latest_beat = seen[i].beat;
        if (atomic_load(&control->line[i].waiting)) waiter[waiting++ != 0] = i;
    }
    for (int i = 0; i < n; i++) {
        double sign = last_sign(&control->line[i], &seen[i]);
        int waited_for = waiter[0] >= 0 && (waiter[0] != i || waiter[1] >= 0);
        if (waited_for && atomic_load(&control->line[i].life) != TRI_LIFE_LEFT && sign < oldest)
            oldest = sign, culprit = i;
    }
    if (culprit >= 0 && now - oldest > limit) report_hung(control, culprit, waiter[waiter[0] == culprit], now - oldest);
    else if (unfinished && waiting == unfinished && now - latest_beat > (control->world == n ? limit : 2 * limit))
        report_deadlock(control, now - latest_beat); /* across machines: progress of a rank waited for counts too, but
                                                        arrives late */
}
