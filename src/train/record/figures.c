/* figures.c - planned and measured figures of all ranks, gathered on the lead. */
#include "train/record/recorder.h"
#include "engine/cost/program_facts.h"
#include "comm/ops/describe.h"

#include <sys/resource.h>

/* A rank's measured figures, which ranks gather. */
typedef struct taken {
    double bytes[4], share[3];               /* as below; shares are of the time of all steps */
    tri_transfer_time transfer[TRI_COLLECTIVE_COUNT]; /* of all recorded steps */
} taken;
static const char *const bytes[] = {"allocated_bytes", "held_bytes", "max_rss_bytes", "device_bytes"};
static const char *const shares[] = {"loader_share", "comm_share", "idle_share"};

static taken take(const tri_session *s, const tri_recorder *recorder) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    const tri_shares *of = &recorder->shares;
    double seconds = of->seconds > 0 ? of->seconds : 1;
    taken own = {.bytes = {(double)tri__exec_bytes(s->engine.exec), (double)tri__memory_held(),
                           (double)usage.ru_maxrss * 1024, (double)s->used},
                 .share = {of->loader / seconds, of->transfers / seconds, of->waiting / seconds}};
    memcpy(own.transfer, recorder->transfer, sizeof own.transfer);
    return own;
}

/* Of one step, mean. */
static tri_json *transfers_json(const taken *t, double steps) {
    tri_json *all = tri__json_object();
    for (int kind = 0; kind < TRI_COLLECTIVE_COUNT; kind++) {
        const tri_transfer_time *of = &t->transfer[kind];
        if (of->seconds > 0)
            tri__json_set_new(all, tri__collective_name(kind),
                              tri__json_pack("{s:f, s:f, s:f}", "seconds", of->seconds / steps, "exposed_seconds",
                                             of->exposed / steps, "waiting_seconds", of->waiting / steps));
    }
    return all;
}

static tri_json *all_json(const tri_session *s, const tri_recorder *recorder, const taken *all) {
    tri_json *ranks = tri__programs_json(s->programs.of, TRI_TRAIN);
    tri__json_each(ranks, rank, one) {
        const taken *t = &all[rank];
        for (int i = 0; i < 4; i++) /* all have it but for the device's */
            if (i < 3 || t->bytes[i] > 0)
                tri__json_set_new(one, bytes[i], tri__json_integer((tri_json_int)t->bytes[i]));
        for (int i = 0; i < 3; i++) tri__json_set_new(one, shares[i], tri__json_real(t->share[i]));
        if (recorder->kept) tri__json_set_new(one, "transfers", transfers_json(t, (double)recorder->kept));
    }
    return ranks;
}

tri_status tri__ranks_json(const tri_session *s, const tri_recorder *recorder, tri_json **ranks) {
    tri_world *world = s->place.world;
    taken own = take(s, recorder);
    size_t n = world ? (size_t)tri_world_size(world) : 1;
    TRI_OWNED(tri__free_at) taken *all = calloc(n, sizeof *all);
    *ranks = NULL;
    if (!all) return tri__fail(TRI_RESOURCE, "out of memory");
    all[0] = own;
    if (world) TRI_TRY(tri_all_gather(tri_group_world(world), &own, all, sizeof own, NULL, TRI_U8));
    if (s->lead && !(*ranks = all_json(s, recorder, all))) return tri__fail(TRI_RESOURCE, "out of memory");
    return TRI_OK;
}

tri_status tri__modules_of_all(const tri_session *s, tri_recorder *recorder, tri_json **modules) {
    const tri_network *model = &s->engine.model;
    tri_world *world = s->place.world;
    tri_module_time *time = recorder->modules.time;
    int64_t numbers = ((int64_t)model->n_units + 1) * TRI_OPS_COUNT * (int64_t)(sizeof *time / sizeof(double));
    *modules = NULL;
    if (!recorder->kept) return TRI_OK; /* every rank has the same count */
    if (world) TRI_TRY(tri_all_reduce(tri_group_world(world), NULL, time, numbers, TRI_F64, TRI_SUM));
    if (s->lead) *modules = tri__modules_json(model, model, time, (double)recorder->kept, 1);
    return !s->lead || *modules ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}
