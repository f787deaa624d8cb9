/* control_page.c - the control page's records: joined ranks and the first failure. */
#include "comm/world/control_page.h"

#include "base/file.h"

#include <sched.h>
#include <unistd.h>

static const double WRITER_SECONDS = 0.1; /* for the writer of a record to finish it */

int tri__control_lines(const tri_control *control) {
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

void tri__control_init(tri_control *control, int n, const int *world_ranks, int world, double progress_timeout,
                       double io_timeout) {
    TRI_ASSERT(n > 0 && n <= TRI_RANKS_PER_NODE && world >= n);
    control->n = n, control->world = world;
    control->progress_timeout = progress_timeout, control->io_timeout = io_timeout;
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
    if (all >= control->n && tri__cores_limit() >= control->n) atomic_store(&control->spin, 1);
}

int tri__control_cores(const tri_control *control) {
    int all = 0, limit = tri__cores_limit();
    for (int w = 0; w < TRI_CORE_WORDS; w++) all += __builtin_popcountll(atomic_load(&control->cores[w]));
    return all < limit ? all : limit;
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

/* All but the state, which others may still try to claim. */
static void copy_fields(tri_failure *to, const tri_failure *from) {
    size_t after = offsetof(tri_failure, state) + sizeof from->state;
    memcpy((char *)to + after, (const char *)from + after, sizeof *to - after);
}

/* Fills in and completes a record that the caller has claimed. */
static void write_record(tri_failure *record, const tri_failure *failure) {
    copy_fields(record, failure);
    record->time = tri__clock();
    atomic_store(&record->state, 2);
}

void tri__control_fail(tri_control *control, int rank, int code, const char *format, ...) {
    tri_failure failure = {.rank = rank, .code = code, .step = -1, .phase = TRI_DOING_COUNT};
    TRI_FORMAT(failure.text, sizeof failure.text, format);
    for (int i = 0, n = tri__control_lines(control); i < n; i++)
        if (control->rank_of[i] == rank) {
            failure.phase = atomic_load(&control->line[i].phase);
            failure.step = atomic_load(&control->line[i].step);
        }
    tri__control_record(control, &failure);
}

/* The abort word is raised after the record is written, but not only by its writer: a rank that comes second raises it
 * too, perhaps before the first has finished. So who sees the word may find the record in state 1 for a moment, and
 * tri__control_failure waits for it. */
void tri__control_record(tri_control *control, const tri_failure *failure) {
    uint32_t empty = 0;
    if (atomic_compare_exchange_strong(&control->failure.state, &empty, 1)) {
        write_record(&control->failure, failure);
    } else {
        uint32_t place = atomic_fetch_add(&control->n_second, 1);
        if (place < TRI_SECOND_FAILURES) write_record(&control->second[place], failure);
    }
    atomic_store(&control->abort, 1);
    tri__futex_wake(&control->abort);
    tri__control_wake(control, NULL, 0);
}

/* A copy of a finished record, with printable, terminated text and a valid failure code. */
static void copy_record(const tri_failure *record, tri_failure *out) {
    copy_fields(out, record);
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

tri_status tri__failure_status(const tri_failure *failure, const char *host) {
    char who[128] = "", where[96] = "";
    if (failure->rank >= 0)
        snprintf(who, sizeof who, "rank %d%s%s: ", failure->rank, host ? " on " : "", host ? host : "");
    if (failure->phase < TRI_DOING_COUNT && failure->step >= 0)
        snprintf(where, sizeof where, " (step %lld, %s)", (long long)failure->step, tri__doing_text(failure->phase));
    else if (failure->phase < TRI_DOING_COUNT)
        snprintf(where, sizeof where, " (%s)", tri__doing_text(failure->phase));
    return tri__fail((tri_status)failure->code, "%s%s%s", who, failure->text, where);
}

tri_status tri__control_status(const tri_control *control) {
    tri_failure failure;
    return tri__control_failure(control, &failure) ? tri__failure_status(&failure, NULL) : TRI_OK;
}
