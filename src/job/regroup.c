/* regroup.c - the next world of an elastic run. The current one is over once every rank of it waits on its socket or is
 * dead; those that wait then get the memory of another, in the order of their first ranks, as many as form the best
 * mesh. Ranks that died are started again beside it, and join when all leave in order after a step. */
#include "job/supervision.h"

#include "comm/world/kept.h"
#include "comm/link/regroup.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

/* Seconds after which a rank that was sent SIGKILL counts as dead even if the kernel still holds it, as in a call to a
 * disk that does not answer: it runs no more. */
static const double DYING = 1;
static const double START_LEAST = 5; /* seconds to start in, however short the progress timeout is */

static int runs(const tri_child *c) { return c->pidfd >= 0 && !(c->killed > 0 && tri__clock() - c->killed > DYING); }

static int starts(const tri_child *c) { return runs(c) && c->local < 0 && !c->ready; }
static int is_ready(const tri_child *c) { return c->ready; }
static int is_missed(const tri_child *c) { return c->local >= 0 && !c->ready; }
static int is_inside(const tri_child *c) { return is_missed(c) && runs(c); }
static int is_held(const tri_child *c) { return c->local >= 0 && c->pidfd >= 0; }

/* How many ranks of this machine are so. */
static int count(const tri_supervisor *s, int (*is_so)(const tri_child *c)) {
    int n = 0;
    for (int i = 0; i < s->what->n; i++) n += is_so(&s->child[i]);
    return n;
}

static int is_curable(const tri_supervisor *s) {
    tri_failure failure;
    return !tri__control_failure(s->segment.control, &failure) || tri__is_crash(failure.code, s->verdict->hung);
}

int tri__supervisor_survives(const tri_supervisor *s) {
    return s->what->elastic && !s->over && !s->verdict->stopped && is_curable(s);
}

/* What the best mesh of so many ranks uses: asked once for each number. */
static const tri_fitting *fit(tri_supervisor *s, int alive) {
    tri_fitting *f = &s->fitting[alive];
    if (f->known || alive < 1) return f;
    f->known = 1, f->ranks = alive;
    if (s->what->fit) f->ranks = s->what->fit(s->what->fit_context, alive, &f->stages, &f->replicas);
    if (f->ranks > alive || f->ranks < s->what->min_ranks) f->ranks = 0;
    return f;
}

/* ---- what ranks say ---- */

static void hear(tri_supervisor *s) {
    for (int i = 0, n = s->what->n; i < n; i++) {
        tri_child *c = &s->child[i];
        tri_regroup_message message;
        int heard = 1;
        while (c->socket >= 0 && s->poll[1 + 3 * n + i].revents && (heard = tri__regroup_hear(c->socket, &message)) > 0)
            if (message.kind == TRI_REGROUP_READY) c->ready = 1;
        if (c->ready && c->local >= 0 && !s->regrouping && !s->verdict->stopped) s->regrouping = tri__clock();
        if (heard >= 0) continue;
        close(c->socket); /* it ends, and its end is seen elsewhere; it is not given another world */
        c->socket = -1, c->ready = 0;
    }
}

static void finish(tri_supervisor *s) {
    const tri_regroup_message end = {.kind = TRI_REGROUP_END, .next = -1, .before = -1};
    s->over = 1;
    for (int i = 0; i < s->what->n; i++) {
        if (s->child[i].ready) tri__regroup_say(s->child[i].socket, &end);
        s->child[i].ready = 0;
    }
}

/* ---- what users read ---- */

/* How a rank ended: the failure's own words, if there are any. */
static const char *ending(const tri_child *c, const tri_failure *failure, char *out, size_t size) {
    int status = c->end.status, mine = failure && failure->rank == c->local;
    const char *name = status != -1 && WIFSIGNALED(status) ? sigabbrev_np(WTERMSIG(status)) : NULL;
    if (mine && (c->end.by_us || !name)) snprintf(out, size, "%s", failure->text);
    else if (name) snprintf(out, size, "killed by SIG%s%s", name, c->end.by_us ? " of the supervisor" : "");
    else if (status == -1) snprintf(out, size, "it could not be ended");
    else snprintf(out, size, "exit code %d", WEXITSTATUS(status));
    return out;
}

/* It had nothing left to do when another rank died. */
static int has_finished(const tri_supervisor *s, const tri_child *c) {
    return c->end.status == 0 && atomic_load(&s->segment.control->line[c->local].life) == TRI_LIFE_LEFT;
}

int tri__supervisor_completed(const tri_supervisor *s) {
    for (int i = 0; i < s->what->n; i++)
        if (s->child[i].local == 0) return s->what->elastic && has_finished(s, &s->child[i]);
    return 0;
}

/* One line for each rank of the current world that is dead. ranks: of the next one; 0: none can be made yet. */
static void tell_deaths(tri_supervisor *s, int ranks) {
    char how[TRI_FAILURE_TEXT], where[48], next[96];
    tri_failure failure;
    int failed = tri__control_failure(s->segment.control, &failure);
    for (int i = 0; i < s->what->n; i++) {
        tri_child *c = &s->child[i];
        if (runs(c) || c->local < 0 || c->told || has_finished(s, c)) continue;
        int64_t step = atomic_load(&s->segment.control->line[c->local].step);
        c->told = 1;
        *where = 0;
        if (step >= 0) snprintf(where, sizeof where, " in step %lld", (long long)step);
        if (ranks) snprintf(next, sizeof next, "%d of %d ranks go on", ranks, s->segment.n);
        else snprintf(next, sizeof next, "the run waits for ranks that are started again");
        tri__say(s->what->log, TRI_LOG_WARN, "rank %d died (%s%s)%s: %s", c->local,
                 ending(c, failed ? &failure : NULL, how, sizeof how),
                 tri__oom_kills() > s->oom_before ? "; the system's out-of-memory killer was active" : "", where, next);
    }
}

/* A rank outside the world died: a spare, or one that was about to join. */
static void tell_spares(tri_supervisor *s) {
    char how[TRI_FAILURE_TEXT];
    for (int i = 0; i < s->what->n; i++) {
        tri_child *c = &s->child[i];
        if (runs(c) || c->local >= 0 || c->told) continue;
        c->told = 1;
        tri__say(s->what->log, TRI_LOG_WARN, "a rank that waited to join died (%s)", ending(c, NULL, how, sizeof how));
    }
}

/* ---- the next world ---- */

static tri_status make_segment(const tri_supervisor *s, const tri_fitting *f, tri_segment *next) {
    const tri_control *old = s->segment.control;
    tri_segment_spec spec = {.n = f->ranks, .world = f->ranks, .heap_bytes = s->what->heap_bytes,
                             .progress_timeout = s->progress_timeout, .io_timeout = s->what->io_timeout,
                             .generation = s->generation + 1, .stages = f->stages, .replicas = f->replicas,
                             .committed = atomic_load(&old->committed)};
    return tri__segment_create(&spec, next);
}

/* The old world's memory is kept if it has state to go on with, and then replaces what was kept before. */
static void replace_segment(tri_supervisor *s, const tri_segment *next) {
    if (tri__kept_step(&s->segment) >= 0) {
        tri__segment_close(&s->earlier);
        s->earlier = s->segment;
    } else tri__segment_close(&s->segment);
    s->segment = *next;
    s->generation++;
    s->aborted = s->terminated = s->regrouping = s->verdict->hung = 0;
    memset(s->seen, 0, TRI_RANKS_PER_NODE * sizeof *s->seen);
    memset(s->verdict->rank, 0, (size_t)s->what->n * sizeof *s->verdict->rank);
}

static void place(tri_supervisor *s, int i, int local) {
    tri_child *c = &s->child[i];
    tri_regroup_message message = {.kind = TRI_REGROUP_WORLD, .local = local, .n = s->segment.n, .next = s->segment.fd,
                                   .before = s->earlier.base ? s->earlier.fd : -1};
    c->local = local, c->ready = 0;
    tri__streams_number(&s->streams, i, local);
    int is_told = tri__regroup_say(c->socket, &message), dies = errno == EPIPE || errno == ECONNRESET;
    if (!is_told && !dies) /* of one that dies the end is seen in a later round, as that of any rank */
        tri__control_fail(s->segment.control, local, TRI_INTERNAL, "it could not be given the next world: %s",
                          strerror(errno));
    if (c->joins && is_told)
        tri__say(s->what->log, TRI_LOG_INFO, "rank %d was started again and joins: %d ranks", local, s->segment.n);
    c->joins = 0;
}

/* Starts the ranks that are dead, `all` of them or only those outside the current world, to join a later one. */
static void restart(tri_supervisor *s, int all) {
    int started = 0;
    for (int i = 0; i < s->what->n && s->restarts < s->what->max_restarts; i++) {
        tri_child *c = &s->child[i];
        if (c->pidfd >= 0 || (c->local >= 0 && !all)) continue;
        if (c->local >= 0) s->verdict->rank[c->local] = c->end;
        *c = (tri_child){.pidfd = -1, .local = -1, .socket = -1, .joins = 1, .end.status = -1};
        tri_status status = tri__streams_reopen(&s->streams, &s->what->logs, i, s->what->out, s->what->err);
        if (status == TRI_OK) status = tri__child_start(s, i, 1);
        c->told = status != TRI_OK;
        started = 1;
        if (status == TRI_OK) continue;
        tri__say(s->what->log, TRI_LOG_WARN, "a rank cannot be started again: %s", tri_error());
        break;
    }
    s->restarts += started; /* ranks that died together are one restart */
}

/* No mesh can be formed of those that are left: whether ranks that are started may change that. */
static int awaits(tri_supervisor *s) {
    if (!count(s, starts) && s->restarts < s->what->max_restarts) {
        tell_deaths(s, 0);
        restart(s, 1);
    }
    return count(s, starts);
}

static void form(tri_supervisor *s) {
    const tri_fitting *f = fit(s, count(s, is_ready));
    tri_segment next;
    if (s->waits && count(s, starts)) return; /* all of them at once */
    int is_over = !count(s, is_ready) && !s->waits && tri__supervisor_completed(s);
    if (is_over || !f->ranks) {
        if (is_over || !(s->waits = awaits(s))) finish(s);
        return;
    }
    tri_status status = make_segment(s, f, &next);
    if (status != TRI_OK) {
        tri__say(s->what->log, TRI_LOG_WARN, "cannot go on with %d ranks: %s", f->ranks, tri_error());
        finish(s);
        return;
    }
    tell_deaths(s, f->ranks);
    replace_segment(s, &next);
    s->waits = 0;
    for (int i = 0, local = 0; i < s->what->n; i++)
        if (s->child[i].ready && local < f->ranks) place(s, i, local++);
        else s->child[i].local = -1;
}

/* ---- every round ---- */

/* The rank that failed is not taken along: it hangs, or its state is wrong. */
static void end_culprit(tri_supervisor *s) {
    tri_failure failure;
    if (!tri__control_failure(s->segment.control, &failure) || failure.rank < 0) return;
    for (int i = 0; i < s->what->n; i++)
        if (s->child[i].local == failure.rank && !s->child[i].killed && (s->verdict->hung || s->child[i].ready)) {
            s->child[i].ready = 0;
            tri__child_end(s, i, SIGKILL);
        }
}

/* The local rank that neither waits for the next world nor is dead; -1: none. */
static int first_inside(const tri_supervisor *s) {
    for (int i = 0; i < s->what->n; i++)
        if (is_inside(&s->child[i])) return s->child[i].local;
    return -1;
}

static void go_over(tri_supervisor *s) {
    tri_control *control = s->segment.control;
    int aborted = atomic_load(&control->abort) != 0, inside;
    if (aborted) end_culprit(s);
    inside = first_inside(s);
    /* Nobody is dead, and nobody in particular is to blame: the same ranks would fail again. */
    if (inside < 0 && atomic_load(&control->abort) && !s->waits && !count(s, is_missed)) finish(s);
    else if (inside < 0) form(s);
    else if (!aborted && tri__clock() - s->regrouping > s->progress_timeout)
        tri__control_fail(control, inside, TRI_DISAGREE, "did not leave with the others, %.2f s after the first",
                          s->progress_timeout);
}

/* While a world runs: whoever waits is let in after a step, if the mesh grows by it; those that were started together,
 * together. */
static void invite(tri_supervisor *s) {
    tri_control *control = s->segment.control;
    int waiting = count(s, is_ready);
    if (!waiting || count(s, starts) || atomic_load(&control->regroup)) return;
    for (int i = 0; i < s->segment.n; i++)
        if (atomic_load(&control->line[i].life) != TRI_LIFE_JOINED || atomic_load(&control->line[i].step) < 0) return;
    if (fit(s, s->segment.n + waiting)->ranks <= s->segment.n) return;
    atomic_store(&control->regroup, 1);
    tri__control_wake(control, NULL, 0);
}

/* A process that is started again and never gets to say that it is ready. */
static void end_late(tri_supervisor *s) {
    double limit = s->progress_timeout > START_LEAST ? s->progress_timeout : START_LEAST;
    for (int i = 0; i < s->what->n; i++)
        if (starts(&s->child[i]) && !s->child[i].killed && tri__clock() - s->child[i].begun > limit)
            tri__child_end(s, i, SIGKILL);
}

void tri__supervisor_regroup(tri_supervisor *s) {
    hear(s);
    end_late(s);
    if (s->earlier.base && tri__kept_step(&s->segment) >= 0) tri__segment_close(&s->earlier);
    if (!s->over && !s->verdict->stopped && atomic_load(&s->segment.control->abort) && !s->regrouping)
        s->regrouping = tri__clock();
    if (s->over || (s->regrouping > 0 ? !s->verdict->stopped && !is_curable(s) : !count(s, is_held))) finish(s);
    else if (s->verdict->stopped) return; /* whoever waits was sent the signal */
    else if (s->regrouping > 0) go_over(s);
    else {
        tell_spares(s);
        restart(s, 0);
        invite(s);
        /* In idle time: which mesh the ranks will form if one of them dies. */
        if (atomic_load(&s->segment.control->joined) >= (uint32_t)s->segment.n) fit(s, s->segment.n - 1);
    }
}
