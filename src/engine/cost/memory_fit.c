/* memory_fit.c - compares a plan with the free memory before anything is allocated. Planning is cheap, so layouts that
 * need less are planned too, until one fits. */
#include "engine/cost/memory_fit.h"

#include "settings/forms.h"

int64_t tri__room_need(const tri_program *const *programs, int n, int64_t bytes[static TRI_MEM_COUNT]) {
    int64_t need = 0;
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++) {
        bytes[mem] = 0;
        for (int i = 0; i < n; i++)
            if (!(programs[i]->offload >> mem & 1) && mem != TRI_MEM_KEPT && programs[i]->bytes[mem] > bytes[mem])
                bytes[mem] = programs[i]->bytes[mem];
        need += bytes[mem];
    }
    return need;
}

int64_t tri__room_rank(const tri_programs *all, int rank, int64_t bytes[static TRI_MEM_COUNT]) {
    const tri_program *programs[TRI_PROGRAMS];
    int n = 0;
    for (int i = 0; i < TRI_PROGRAMS; i++)
        if (all->of[i].n) programs[n++] = tri__class_of(&all->of[i], rank, NULL)->program;
    return tri__room_need(programs, n, bytes);
}

int64_t tri__room_most(const tri_programs *all, tri_room_shares by) {
    int64_t most = 0, bytes[TRI_MEM_COUNT];
    for (int first = 0; first < all->world; first += by.here)
        for (int memory = 0; memory < by.memories; memory++) {
            int64_t need = 0;
            for (int rank = first + memory; rank < first + by.here && rank < all->world; rank += by.memories)
                need += tri__room_rank(all, rank, bytes);
            if (need > most) most = need;
        }
    return most;
}

int64_t tri__state_bytes(const tri_engine *engine) {
    const tri_planned *p = &engine->plan.train;
    int64_t elements = engine->model.n_elements, trained = tri__model_trained(&engine->model);
    for (int i = 0; i < p->n_states; i++)
        if (!p->state[i].each.n) elements += trained * (p->state[i].scope == TRI_STATE_SHARED ? 1 : p->state[i].copies);
    return elements * (int64_t)sizeof(float);
}

static int64_t kept_by(const tri_programs *all, int begin, int end) {
    int64_t bytes = 0;
    for (int rank = begin; rank < end; rank++)
        bytes += tri__class_of(&all->of[TRI_TRAIN], rank, NULL)->program->bytes[TRI_MEM_KEPT];
    return bytes;
}

/* Each rank's area has a copy on another machine, where there is one. */
static int has_other(const tri_settings *settings, const tri_programs *all) {
    return all->world > settings->nproc_per_node;
}

int64_t tri__kept_sent(const tri_settings *settings, const tri_programs *all) {
    return has_other(settings, all) ? kept_by(all, 0, all->world) / 2 : 0;
}

int64_t tri__kept_bytes(const tri_settings *settings, const tri_programs *all) {
    return kept_by(all, 0, all->world) + 2 * tri__kept_sent(settings, all);
}

/* On the machine that keeps most. */
static int64_t kept_here(const tri_settings *settings, const tri_programs *all, int here) {
    int64_t most = 0;
    for (int first = 0; first < all->world && all->of[TRI_TRAIN].n; first += here) {
        int64_t bytes = kept_by(all, first, first + here < all->world ? first + here : all->world);
        if (bytes > most) most = bytes;
    }
    return most * (1 + has_other(settings, all));
}

typedef struct layout {
    tri_plan_in in;
    int train;
    tri_room_shares by;
    int64_t need; /* bytes needed of the memory that needs most */
} layout;

/* The same for ranks that are not planned yet. */
static tri_status need_planned(tri_arena *arena, void *data) {
    layout *l = data;
    tri_programs all = {.world = tri__mesh_world(&l->in.mesh)};
    TRI_TRY(tri__plan_ranks(arena, &l->in, l->train, all.of));
    l->need = tri__room_most(&all, l->by);
    return TRI_OK;
}

/* The next layout that needs less, and the options for it; 0 when there is none. */
static int next_layout(tri_plan_in *in, char words[static 96]) {
    static const char *const kinds[] = {TRI_SHARD_KINDS(TRI_NAMED)};
    static char recompute[] = " --recompute full", offload[] = " --offload optimizer";
    char *more = words + strlen(words);
    if (in->mesh.dp > 1 && in->sharding.kind != TRI_SHARD_ZERO3) {
        in->sharding.kind = in->sharding.kind == TRI_SHARD_HYBRID ? TRI_SHARD_ZERO3 : in->sharding.kind + 1;
        snprintf(words, 96, " --shard %s", kinds[in->sharding.kind]);
    } else if (in->recompute != TRI_RECOMPUTE_FULL) {
        in->recompute = TRI_RECOMPUTE_FULL;
        memcpy(more, recompute, sizeof recompute);
    } else if (!in->offload) {
        in->offload = 1u << TRI_MEM_STATE;
        memcpy(more, offload, sizeof offload);
    } else return 0;
    return 1;
}

/* The same of a prediction, which has weights and few activations. */
static int next_infer_layout(tri_plan_in *in, char words[static 96]) {
    static char offload[] = " --offload params";
    if (in->mesh.dp > 1 && in->sharding.kind != TRI_SHARD_ZERO3) {
        in->sharding.kind = TRI_SHARD_ZERO3;
        snprintf(words, 96, " --shard zero3");
    } else if (!(in->offload >> TRI_MEM_PARAM & 1)) {
        in->offload |= 1u << TRI_MEM_PARAM;
        memcpy(words + strlen(words), offload, sizeof offload);
    } else return 0;
    return 1;
}

static tri_status refuse(const tri_engine *engine, tri_room_shares by, const tri_room *of) {
    char a[32], b[32], c[32], words[96] = "", who[96], room[96];
    layout other = {.in = engine->in, .train = engine->train >= 0, .by = by, .need = of->need};
    int (*next)(tri_plan_in *, char *) = other.train ? next_layout : next_infer_layout;
    tri__text_bytes((double)of->need, a);
    tri__text_bytes((double)of->have, b);
    if (of->ranks > 1) snprintf(who, sizeof who, "%d ranks need %s together", of->ranks, a);
    else snprintf(who, sizeof who, "the plan needs %s", a);
    if (of->limited) snprintf(room, sizeof room, "--memory-limit allows %s", b);
    else if (!engine->device->async && tri__memory_limit() < tri__memory_total())
        snprintf(room, sizeof room, "%s is free (the limit of this control group is %s)", b,
                 tri__text_bytes((double)tri__memory_limit(), c));
    else snprintf(room, sizeof room, "%s is free", b);
    while (next(&other.in, words)) {
        TRI_TRY(tri__arena_scratch(need_planned, &other));
        if (other.need <= of->have)
            return tri__fail(TRI_RESOURCE, "%s, %s:%s would need %s", who, room, words,
                             tri__text_bytes((double)other.need, c));
    }
    return tri__fail(TRI_RESOURCE, "%s, %s, and no layout of it fits:%s would need %s; take a smaller --batch-size, "
                     "more --num-microbatches, a shorter --max-sen-len or fewer ranks", who, room,
                     *words ? words : " it", tri__text_bytes((double)other.need, c));
}

/* Which ranks of a machine share a memory. A limit is per GPU, one a rank. */
static tri_room_shares shares_of(const tri_device *device, int limited, int here) {
    int memories = device && !device->async ? 1 : limited ? here : device->count();
    return (tri_room_shares){.here = here, .memories = memories > here ? here : memories};
}

static tri_status measure(const tri_settings *settings, const tri_engine *engine, const tri_programs *all, int here,
                          tri_room *room) {
    const tri_device *device = engine->device;
    int64_t limit, bytes[TRI_MEM_COUNT];
    TRI_TRY(tri__memory_limit_parse(settings->memory_limit, &limit));
    TRI_ASSERT(device || limit); /* a device that is not here has no free memory */
    tri_room_shares by = shares_of(device, limit > 0, here);
    *room = (tri_room){.have = limit, .limited = limit > 0, .ranks = (here + by.memories - 1) / by.memories};
    if (!limit) TRI_TRY(device->room(&tri__core, engine->place.world ? engine->place.world->local : 0, &room->have));
    for (int rank = 0; rank < all->world; rank++) {
        int64_t need = tri__room_rank(all, rank, bytes);
        if (need > room->most) room->most = need;
    }
    room->need = tri__room_most(all, by);
    if (!device || !device->async) room->need += kept_here(settings, all, here);
    return TRI_OK;
}

tri_status tri__room_check(const tri_settings *settings, const tri_engine *engine, const tri_programs *all, int here,
                           tri_room *room) {
    tri_room compared;
    if (!room) room = &compared;
    TRI_TRY(measure(settings, engine, all, here, room));
    return room->need <= room->have ? TRI_OK : refuse(engine, shares_of(engine->device, room->limited, here), room);
}
