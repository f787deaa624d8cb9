/* next.c - the next world of an MPI job with ULFM: the ranks that outlive another shrink the job to those that are
 * left, agree on the mesh that uses most of them, and meet as at the start. Those that the mesh has no place for wait
 * until the others leave in order, and the run is over, or another rank dies, and they are needed. */
#include "comm/mpi/join_parts.h"

#include "comm/world/kept.h"

#include <signal.h>

enum { ATTEMPTS = 8 };
static const double MEET_SECONDS = 5;  /* all run already; one that dies meanwhile is missed no longer than that */
static const double LEAVE_SECONDS = 5; /* at least, for the ranks that live to leave their world */
static const double SPARE_LOOK = 0.005; /* seconds between looks of a spare */

int tri__mpi_outlives(const tri_world *world) {
    const tri_mpi_plugin *plugin = tri__mpi_plugin_of(world);
    return plugin && plugin->outlives && plugin->outlives(world->remote_state);
}

int tri__mpi_can_end(const tri_world *world, const tri_failure *failure) {
    const int *node = world->nodes.node_of;
    if (failure->code != TRI_DISAGREE || failure->rank < 0) return 1;
    for (int r = 0; r < world->size; r++)
        if (r != failure->rank && node[r] == node[failure->rank]) return 1;
    return 0;
}

/* What a rank takes along from one world to the next. */
typedef struct survivor {
    tri_joining join;
    const tri_log *log;
    int was, ranks;            /* rank and number of ranks in the last world; was -1: it was a spare */
    int generation;            /* of the last world */
    int64_t committed;
    tri_segment kept[2];       /* memory of earlier worlds in which ranks replicated state, the newest first */
    tri_failure failure;
    double seconds;            /* for all ranks to leave the old world, or to die */
    int over;                  /* not 0: MPI cannot go on */
} survivor;

/* ---- out of the old world ---- */

/* A rank of this machine that hangs neither leaves nor dies by itself. */
static void end_hung(const tri_world *world, const tri_failure *failure) {
    const tri_control *control = world->segment.control;
    for (int i = 0; i < world->segment.n; i++) {
        const tri_rank_line *line = &control->line[i];
        int pid = atomic_load(&line->pid), same = atomic_load(&line->pid_space) ==
                                                  atomic_load(&control->line[world->local].pid_space);
        if (control->rank_of[i] == failure->rank && failure->code == TRI_DISAGREE && i != world->local && same &&
            pid > 1 && atomic_load(&line->life) == TRI_LIFE_JOINED)
            kill((pid_t)pid, SIGKILL);
    }
}

static int has_kept(const tri_segment *segment) {
    size_t bytes;
    int64_t kept[2];
    for (int r = 0; r < segment->control->world; r++)
        if (tri__kept_find(segment, r, &bytes, kept) && (kept[0] || kept[1])) return 1;
    return 0;
}

/* Before the ranks of that machine have ended it, if they can: otherwise the job ends. */
static void tell_hung(const tri_world *world, const tri_failure *failure, const tri_log *log) {
    int speaks = world->rank == (failure->rank == 0);
    if (speaks && failure->code == TRI_DISAGREE && failure->rank >= 0 &&
        world->nodes.node_of[failure->rank] != world->nodes.node_of[world->rank])
        tri__say(log, TRI_LOG_WARN, "rank %d %s", failure->rank, failure->text);
}

/* Takes over what outlives the world, and closes it. At most two segments have state: a world's ranks keep theirs only
 * after they have chosen where theirs comes from, and let go of the rest. */
static survivor leave(tri_world *old, const tri_ranks *how, const tri_launch *launch) {
    survivor s = {.join = {.plugin = tri__mpi_plugin_of(old), .stop = launch->stop, .state = old->remote_state,
                           .outlives = 1, .seconds = MEET_SECONDS},
                  .log = &launch->log, .was = old->rank, .ranks = old->size, .generation = old->generation,
                  .committed = atomic_load(&old->segment.control->committed),
                  .failure.rank = -1, .seconds = LEAVE_SECONDS + 2 * how->progress_timeout};
    tri_segment all[3] = {old->segment, old->before[0], old->before[1]};
    if (tri__control_failure(old->segment.control, &s.failure)) {
        end_hung(old, &s.failure);
        tell_hung(old, &s.failure, s.log);
    }
    old->owns_segment = 0;
    old->before[0] = old->before[1] = (tri_segment){.fd = -1};
    tri_world_close(old);
    for (int i = 0, n = 0; i < 3; i++)
        if (all[i].base && n < 2 && has_kept(&all[i])) s.kept[n++] = all[i];
        else tri__segment_close(&all[i]);
    return s;
}

static void forget(survivor *s) {
    for (int i = 0; i < 2; i++) tri__segment_close(&s->kept[i]);
    tri__joining_free(&s->join);
}

/* ---- into the next one ---- */

static int is_left(const tri_joining *join, int was) {
    for (int r = 0; r < join->size; r++)
        if (join->all[r].was == was) return 1;
    return 0;
}

/* The first rank that is left says who died. */
static void tell(const survivor *s) {
    const tri_joining *join = &s->join;
    const tri_failure *failure = &s->failure;
    if (join->rank != 0 || s->was < 0) return;
    for (int r = 0; r < s->ranks; r++) {
        if (is_left(join, r)) continue;
        const char *how = failure->rank == r ? failure->text : "its process ended";
        if (join->all[0].ranks)
            tri__say(s->log, TRI_LOG_WARN, "rank %d died (%s): %d of %d ranks go on", r, how, join->all[0].ranks,
                     s->ranks);
        else tri__say(s->log, TRI_LOG_WARN, "rank %d died (%s): too few are left to go on", r, how);
    }
}

/* All ranks that live meet; the first one's mesh counts. */
static tri_status regather(survivor *s, tri_mpi_next *next) {
    tri_joining *join = &s->join;
    tri_card *mine = &join->mine;
    s->over = join->plugin->shrink(join->state, s->seconds, &join->rank, &join->size);
    tri__joining_free(join); /* not in use any more */
    TRI_TRY(tri__mpi_try(join->plugin, s->over, "go on without the ranks that died"));
    *mine = (tri_card){.was = s->was, .generation = s->generation + 1, .committed = s->committed};
    mine->ranks = next->fit(next->context, join->size, &mine->stages, &mine->replicas);
    if (mine->ranks > join->size || mine->ranks < next->min_ranks) mine->ranks = 0;
    TRI_TRY(tri__joining_cards(join));
    next->first = join->rank == 0;
    tell(s);
    tri_card *first = &join->all[0];
    for (int r = 1; r < join->size; r++) {
        if (join->all[r].committed > first->committed) first->committed = join->all[r].committed;
        if (join->all[r].generation > first->generation) first->generation = join->all[r].generation;
    }
    join->members = first->ranks;
    join->plugin->limit(join->state, join->members);
    s->generation = first->generation, s->committed = first->committed;
    return TRI_OK;
}

/* A spare: *ended 1 when the others left in order; else it is needed. */
static void wait_aside(const tri_joining *join, int *ended) {
    int error = 0;
    *ended = 0;
    while (!*ended && !error) {
        error = join->plugin->remote.leave(join->state, ended);
        if (!*ended && !error) tri__clock_sleep(tri__clock() + SPARE_LOOK);
    }
}

/* One attempt. *again, *ended: as the loop's result. */
static tri_status attempt(survivor *s, const tri_ranks *how, const tri_launch *launch, tri_mpi_next *next,
                          tri_world **world, int *again, int *ended) {
    tri_joining *join = &s->join;
    TRI_TRY(regather(s, next));
    if (!join->members) {
        *ended = 1;
        if (join->rank) /* the first one reports */
            tri__clock_sleep(tri__clock() + join->plugin->remote.report_seconds / 2);
        return tri__fail((tri_status)TRI_KILLED, "%d of %d ranks are left: too few to go on", join->size, s->ranks);
    }
    int ranks = s->ranks;
    s->ranks = join->members;
    tri_status status = tri__joining_world(join, how, launch, world);
    if (status != TRI_OK) {
        s->ranks = ranks;
        return status;
    }
    s->was = join->rank < join->members ? join->rank : -1;
    *again = *world != NULL;
    if (!*again) wait_aside(join, ended);
    return TRI_OK;
}

tri_status tri__mpi_next(tri_world *old, const tri_ranks *how, const tri_launch *launch, tri_mpi_next *next,
                         tri_world **world, int *again) {
    survivor s = leave(old, how, launch);
    tri_status status = TRI_OK;
    int ended = 0;
    *world = NULL, *again = 0;
    for (int failed = 0; !*again && !ended && failed < ATTEMPTS;) {
        status = tri__stop_check(launch->stop, "the ranks regrouped");
        if (status == TRI_OK) status = attempt(&s, how, launch, next, world, again, &ended);
        if (status == TRI_STOPPED || s.over) break;
        failed = status == TRI_OK ? 0 : failed + 1; /* another rank died on the way, or this one cannot join */
    }
    if (*again) {
        for (int i = 0; i < 2; i++) {
            (*world)->before[i] = s.kept[i];
            s.kept[i] = (tri_segment){.fd = -1};
        }
    } else if (status == TRI_OK || s.over) s.join.plugin->remote.close(s.join.state, (int)status);
    forget(&s);
    return status;
}
