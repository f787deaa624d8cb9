/* failure.c - which of the ranks that failed speaks, and what error.json says: as much as the control page of its
 * machine tells. */
#include "job/failure.h"

#include "job/run_signs.h"

void tri__error_write(const char *folder, const tri_verdict *verdict) {
    char path[TRI_PATH_MAX];
    if (!folder || verdict->code == TRI_USAGE || verdict->code == TRI_BUSY) return;
    TRI_OWNED(tri__json_drop) tri_json *object = tri__verdict_json(verdict);
    if (object && tri__folder_make(folder) == TRI_OK && tri__path_join(path, folder, "error.json") == TRI_OK)
        tri__json_save(path, object);
}

/* A rank with a lower number, on another machine, reported the same. */
static int is_repeated(const tri_world *world, const tri_failure *failure) {
    tri_failure other[TRI_SECOND_FAILURES];
    const int *node = world->nodes.node_of;
    for (int i = tri__control_second(world->segment.control, other) - 1; i >= 0; i--)
        if (other[i].rank >= 0 && other[i].rank < failure->rank && node[other[i].rank] != node[failure->rank] &&
            other[i].code == failure->code && !strcmp(other[i].text, failure->text))
            return 1;
    return 0;
}

/* The rank that speaks for one that cannot. For a dead one it is another of its machine that has seen it die: MPI may
 * end those of other machines when their connection to it breaks. */
static int speaker(const tri_world *world, const tri_failure *failure) {
    const int *node = world->nodes.node_of;
    int seen = failure->code > 128 && failure->phase < TRI_DOING_COUNT && failure->rank >= 0;
    for (int r = 0; r < world->size && seen; r++)
        if (r != failure->rank && node[r] == node[failure->rank]) return r;
    return failure->rank == 0;
}

int tri__failure_speaks(const tri_world *world) {
    tri_failure failure;
    if (!world->watcher) return 0; /* the supervisor does */
    if (!tri__control_failure(world->segment.control, &failure)) return 1;
    if (world->rank == failure.rank) return !is_repeated(world, &failure);
    int silent = failure.rank < 0 || failure.code > 128 || failure.code == TRI_DISAGREE ||
                 tri__failure_blocked(&failure);
    return silent && world->rank == speaker(world, &failure);
}

/* How the ranks of this machine stand. Only their launcher knows how they end, but for this one and the dead. */
static tri_status stand(const tri_world *world, tri_verdict *v, tri_status status) {
    const tri_control *control = world->segment.control;
    v->n = world->segment.n;
    v->rank = calloc((size_t)v->n, sizeof *v->rank);
    if (!v->rank) return TRI_RESOURCE;
    for (int i = 0; i < v->n; i++) {
        int rank = control->rank_of[i], code = v->failure.code, dead = rank == v->failure.rank && code > 128;
        tri__rank_end_take(&v->rank[i], rank, &control->line[i]);
        v->rank[i].status = rank == world->rank ? (int)status << 8 : dead ? code - 128 : -1;
        v->rank[i].peak_bytes = tri__process_peak(atomic_load(&control->line[i].pid));
    }
    return TRI_OK;
}

/* Before the run has its folder's lock, another run may have it. */
static int is_taken(const tri_world *world, const char *folder) {
    uint32_t phase = atomic_load(&world->segment.control->line[world->local].phase);
    return (phase == TRI_DOING_START || phase == TRI_DOING_LOAD) && tri__lock_held(folder);
}

void tri__failure_record(tri_world *world, const char *folder, tri_status status, int64_t step) {
    TRI_KEEP_WORDS();
    TRI_OWNED(tri__verdict_free) tri_verdict v = {.code = (int)status, .failed = 1, .ended = tri__clock_wall()};
    if (world) {
        if (world->failed != status) tri_world_fail(world, status, tri_error());
        int known = tri__control_failure(world->segment.control, &v.failure);
        if (!known || !tri__failure_speaks(world) || is_taken(world, folder) || stand(world, &v, status) != TRI_OK)
            return;
        const char *host = tri__world_host(world, v.failure.rank);
        snprintf(v.host, sizeof v.host, "%s", host ? host : "");
        v.n_second = tri__control_second(world->segment.control, v.second);
    } else {
        v.failure = (tri_failure){.code = (int)status, .step = step, .phase = TRI_DOING_COUNT};
        snprintf(v.failure.text, sizeof v.failure.text, "%s", tri_error());
    }
    tri__error_write(folder, &v);
}
