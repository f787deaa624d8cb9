/* verdict.c - how the ranks ended, as text and as JSON: which rank failed first, where, why, what to try, and where the
 * others were. */
#include "job/supervisor.h"
#include "comm/ops/describe.h"

#include <sys/wait.h>

enum { DEFECT = -1, HUNG = -2, BLOCKED = -3 }; /* keys of `advice` that are not exit codes */
enum { STORY = 512 };            /* bytes of one rank's description */

/* Advice by the failure's code. */
static const struct {
    int code;
    const char *text;
} advice[] = {
    {BLOCKED, "see whether that disk answers (`df`, `dmesg`, its server); --io-timeout sets how long one file call may "
              "take"},
    {HUNG, "see what that process did (its lines above, its disk, the machine's load); --progress-timeout sets how "
           "long it may make no progress"},
    {DEFECT, "this is a bug in Trident or in a library it uses: please report it with these lines, and a stack trace "
             "(`ulimit -c unlimited`, run again, `gdb trident core`)"},
    {128 + SIGKILL, "most likely memory ran out (`dmesg | grep -i oom` says so): use a smaller --batch-size, more "
                    "--num-microbatches, or fewer ranks"},
    {128 + SIGTERM, "a signal asked this rank alone to end: send signals to the trident that started the ranks"},
    {128 + SIGINT, "a signal interrupted this rank alone: send signals to the trident that started the ranks"},
    {128 + SIGXCPU, "the limit of processor time was reached: raise `ulimit -t`"},
    {128 + SIGXFSZ, "the limit of file sizes was reached: raise `ulimit -f`"},
    {TRI_DATA, "correct that input, or leave bad rows out with --bad-rows skip"},
    {TRI_NOINPUT, "check the path: every rank must see the file"},
    {TRI_RESOURCE, "use fewer ranks or a smaller --batch-size, or raise the limit that is named"},
    {TRI_BUSY, "wait for the other run, or give this one another --output-dir"},
    {TRI_IO, "check the disk: `df -h`, and whether the folder may be written"},
    {TRI_DISAGREE,
     "all ranks must run the same program on the same configuration and data, and take the same path through it"},
    {TRI_NOTFINITE, "try a smaller --lr, a longer --warmup-steps, or --max-grad-norm 1"}};

const char *tri__end_text(int status, char out[static 64]) {
    const char *name = status != -1 && WIFSIGNALED(status) ? sigabbrev_np(WTERMSIG(status)) : NULL;
    if (status == -1) snprintf(out, 64, "still running, or its exit status is unknown");
    else if (WIFSIGNALED(status)) snprintf(out, 64, "killed by signal %d (SIG%s)", WTERMSIG(status), name ? name : "?");
    else snprintf(out, 64, "exit code %d", WEXITSTATUS(status));
    return out;
}

void tri__rank_end_take(tri_rank_end *end, int rank, const tri_rank_line *line) {
    end->rank = rank;
    end->life = atomic_load(&line->life);
    end->phase = atomic_load(&line->phase);
    end->waiting = atomic_load(&line->waiting);
    end->step = atomic_load(&line->step);
    end->posted = atomic_load(&line->posted);
    end->last = atomic_load(&line->last);
}

int tri__is_crash(int code, int hung) { return code > 128 || hung || code == TRI_INTERNAL || code == TRI_DISAGREE; }

static int exit_code(int status) {
    return status == -1 ? -1 : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static const char *advice_for(const tri_verdict *v) {
    int code = v->failure.code, signal = code - 128;
    int defect = code == TRI_INTERNAL || signal == SIGSEGV || signal == SIGBUS || signal == SIGILL ||
                 signal == SIGFPE || signal == SIGABRT;
    int key = v->hung && code == TRI_IO ? BLOCKED : v->hung ? HUNG : defect ? DEFECT : code;
    for (size_t i = 0; i < sizeof advice / sizeof *advice; i++)
        if (advice[i].code == key) return advice[i].text;
    return NULL;
}

/* The first failing rank's record; NULL when no rank of this machine is to blame. */
static const tri_rank_end *culprit(const tri_verdict *v) {
    for (int i = 0; i < v->n; i++)
        if (v->rank[i].rank == v->failure.rank) return &v->rank[i];
    return NULL;
}

/* The last collective of a rank, into `out`, which is returned; NULL: none. */
static const char *describe_last(const tri_rank_end *rank, char out[static 160]) {
    char what[96];
    if (!rank || !rank->posted) return NULL;
    tri__describe_unpack(rank->last, what, sizeof what);
    snprintf(out, 160, "%s (its number %llu)", what, (unsigned long long)rank->posted);
    return out;
}

/* "exit code 76; waiting in all_reduce ...; step 14, in the step's program" */
static void describe_rank(const tri_rank_end *rank, char *out, size_t size) {
    char end[64], step[32] = "";
    const char *last = describe_last(rank, (char[160]){0});
    if (rank->step >= 0) snprintf(step, sizeof step, "step %lld, ", (long long)rank->step);
    snprintf(out, size, "%s%s", tri__end_text(rank->status, end), rank->by_us ? " by the supervisor" : "");
    if (rank->life == TRI_LIFE_NONE) tri__text_append(out, size, "; ", "it had not joined the others yet");
    else
        tri__text_append(out, size, "; ", "%s%s%s%s%s", step, tri__doing_text(rank->phase), last ? "; last " : "",
                         last ? last : "", rank->waiting ? ", waiting" : "");
}

/* "ranks 0, 2-5": those from `first` on with the same story as `first`; their stories are cleared. */
static void add_ranks(tri_buffer *w, char (*story)[STORY], int first, int n) {
    int several = 0, run = first; /* `run` begins the range of consecutive ranks that `last` ends */
    for (int k = first + 1; k < n; k++) several |= !strcmp(story[k], story[first]);
    tri__buffer_put(w, "rank%s %d", several ? "s" : "", first);
    for (int k = first + 1, last = first; k <= n; k++) {
        int same = k < n && !strcmp(story[k], story[first]);
        if (same) story[k][0] = 0;
        if (same && last == k - 1) {
            last = k;
            continue;
        }
        if (!same && k < n) continue;
        if (last > run) tri__buffer_put(w, "%s%d", last - run > 1 ? "-" : ", ", last);
        if (same) tri__buffer_put(w, ", %d", k), run = last = k;
    }
}

/* All ranks except the culprit; those with the same story on one line. */
static void add_others(tri_buffer *w, const tri_verdict *v) {
    TRI_OWNED(tri__free_at) char(*story)[STORY] = calloc((size_t)v->n, STORY);
    w->failed |= !story;
    for (int i = 0; i < v->n && story; i++)
        if (i != v->failure.rank) describe_rank(&v->rank[i], story[i], STORY);
    for (int i = 0; i < v->n && story; i++) {
        if (!story[i][0]) continue;
        tri__buffer_put(w, "\n  %-10s ", "others");
        add_ranks(w, story, i, v->n);
        tri__buffer_put(w, ": %s", story[i]);
    }
}

/* "rank 2: cause", "rank 2 on node7: cause"; without a rank when none in particular is to blame. */
static void message(const tri_failure *failure, const char *host, char *out, size_t size) {
    if (failure->rank < 0) snprintf(out, size, "%s", failure->text);
    else snprintf(out, size, "rank %d%s%s: %s", failure->rank, *host ? " on " : "", host, failure->text);
}

char *tri__verdict_text(const tri_verdict *v) {
    tri_buffer w = {0};
    size_t size;
    char line[TRI_FAILURE_TEXT + 128], peak[32];
    const tri_rank_end *rank = culprit(v);
    message(&v->failure, v->host, line, sizeof line);
    tri__buffer_put(&w, "%s", line);
    if (v->failure.phase < TRI_DOING_COUNT) {
        tri__buffer_put(&w, "\n  %-10s ", "where");
        if (v->failure.step >= 0) tri__buffer_put(&w, "step %lld, ", (long long)v->failure.step);
        tri__buffer_put(&w, "%s", tri__doing_text(v->failure.phase));
    }
    const char *last = describe_last(rank, (char[160]){0});
    if (last) tri__buffer_put(&w, "\n  %-10s last %s", "operation", last);
    if (rank && v->failure.code == 128 + SIGKILL)
        tri__buffer_put(&w, "\n  %-10s its peak was %s%s", "memory", tri__text_bytes((double)rank->peak_bytes, peak),
            v->out_of_memory ? "; the system's out-of-memory killer was active" : "");
    for (int i = 0; i < v->n_second; i++) {
        if (!strcmp(v->second[i].text, v->failure.text)) continue; /* the same on another rank */
        message(&v->second[i], "", line, sizeof line);
        tri__buffer_put(&w, "\n  %-10s %s", "then", line);
    }
    const char *hint = advice_for(v);
    if (hint) tri__buffer_put(&w, "\n  %-10s %s", "try", hint);
    add_others(&w, v);
    if (v->logs[0]) tri__buffer_put(&w, "\n  %-10s %s", "logs", v->logs);
    return tri__buffer_take(&w, &size);
}

/* Any bytes as a JSON string: a rank's text may be cut inside a character. NULL becomes null. */
static tri_json *text_json(const char *text) {
    char plain[TRI_FAILURE_TEXT + 128];
    tri_json *value = text ? tri__json_string(text) : tri__json_null();
    if (value) return value;
    snprintf(plain, sizeof plain, "%s", text);
    for (char *at = plain; *at; at++)
        if ((unsigned char)*at >= 128) *at = '?';
    return tri__json_string(plain);
}

static tri_json *rank_json(const tri_rank_end *rank) {
    static const char *const lives[] = {"not joined", "joined", "left"};
    const char *life = rank->life < sizeof lives / sizeof *lives ? lives[rank->life] : "unknown";
    return tri__json_pack("{s:i, s:i, s:s, s:s, s:I, s:b, s:o, s:I}", "rank", rank->rank, "exit",
                          exit_code(rank->status), "life", life, "phase", tri__doing_text(rank->phase),
                          "step", (tri_json_int)rank->step, "waiting", rank->waiting != 0, "last",
                          text_json(describe_last(rank, (char[160]){0})), "peak_bytes", (tri_json_int)rank->peak_bytes);
}

tri_json *tri__verdict_json(const tri_verdict *v) {
    const tri_failure *f = &v->failure;
    char line[TRI_FAILURE_TEXT + 128];
    tri_json *ranks = tri__json_array(), *others = tri__json_array();
    message(f, v->host, line, sizeof line);
    for (int i = 0; i < v->n; i++) tri__json_append_new(ranks, rank_json(&v->rank[i]));
    for (int i = 0; i < v->n_second; i++)
        tri__json_append_new(others, tri__json_pack("{s:i, s:i, s:o}", "rank", v->second[i].rank, "code",
                                                    v->second[i].code, "cause", text_json(v->second[i].text)));
    const char *phase = f->phase < TRI_DOING_COUNT ? tri__doing_text(f->phase) : NULL;
    tri_json *host = text_json(v->host[0] ? v->host : NULL);
    return tri__json_pack("{s:i, s:i, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:I, s:o, s:o}", "code", v->code, "rank",
                          f->rank, "host", host, "message", text_json(line), "cause", text_json(f->text), "step",
                          (tri_json_int)f->step, "phase", text_json(phase), "operation",
                          text_json(describe_last(culprit(v), (char[160]){0})), "try", text_json(advice_for(v)), "time",
                          (tri_json_int)v->ended, "ranks", ranks, "others", others);
}
