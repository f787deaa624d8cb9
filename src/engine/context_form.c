/* context_form.c - the form of context parallelism. Exchanging heads sends 4 T H / cp numbers of a layer at once, and
 * waits for them; a ring sends 2 T H / cp of them in each of cp - 1 steps, while it computes. Which is faster depends
 * on lengths, links and the device's kernels: both are planned and simulated. */
#include "engine/context_form.h"

#include "engine/staging.h"

static const char *const names[] = {"heads", "ring"};

typedef struct trial {
    const tri_settings *settings;
    tri_plan_in in;
    double seconds, sent;
} trial;

/* One group of ranks that share tokens, without a pipeline or other replicas: forms differ in nothing of those. */
static tri_plan_in alone(const tri_plan_in *like, int ring) {
    tri_plan_in in = *like;
    in.ring = ring, in.n_mb = 1, in.rank = 0;
    in.mesh.pp = 1, in.mesh.dp = in.mesh.cp;
    in.sharding = (tri_sharding){0}, in.staging = (tri_staging){0}, in.compression = (tri_compression){0};
    in.optimizer = (tri_optimizing){.kind = TRI_ADAMW, .steps = like->optimizer.steps, .sync_every = 1};
    return in;
}

static tri_status time_form(tri_arena *arena, void *data) {
    trial *t = data;
    tri_hardware hardware;
    tri_classes planned[TRI_PROGRAMS];
    tri_timeline line;
    double bytes[TRI_COLLECTIVE_COUNT];
    TRI_TRY(tri__hardware_open(arena, t->settings->hardware ? t->settings->hardware
                                                            : tri__hardware_of(t->settings->device), &hardware));
    if (tri__settings_given(t->settings, &t->settings->nproc_per_node))
        hardware.ranks_per_node = (int)t->settings->nproc_per_node;
    TRI_TRY(tri__plan_kinds(arena, &t->in, 1, 1u << TRI_TRAIN, planned));
    TRI_TRY(tri__timeline(arena, &planned[TRI_TRAIN], &(tri_costs){.hardware = &hardware}, &line));
    tri__program_sent(planned[TRI_TRAIN].at[0].program, bytes);
    for (int kind = 0; kind < TRI_COLLECTIVE_COUNT; kind++) t->sent += bytes[kind];
    t->seconds = line.mean;
    return TRI_OK;
}

/* What cannot be planned is not chosen; where neither form can, the plan of the one that is left says why. */
tri_status tri__context_choose(const tri_settings *s, const tri_plan_in *in, tri_context_form *out) {
    *out = (tri_context_form){.ring = s->cp_mode == TRI_CP_RING, .why = TRI_CONTEXT_ASKED};
    if (s->cp_mode != TRI_CP_AUTO) return TRI_OK;
    tri_status status[2];
    for (int ring = 0; ring < 2; ring++) {
        trial t = {.settings = s, .in = alone(in, ring)};
        status[ring] = tri__arena_scratch(time_form, &t);
        if (status[ring] != TRI_OK && status[ring] != TRI_USAGE) return status[ring];
        out->seconds[ring] = t.seconds, out->sent[ring] = t.sent;
    }
    int both = status[0] == TRI_OK && status[1] == TRI_OK;
    out->why = both ? TRI_CONTEXT_FASTER : TRI_CONTEXT_ONLY;
    out->ring = both ? out->seconds[1] < out->seconds[0] : status[0] != TRI_OK;
    return TRI_OK;
}

void tri__context_say(const tri_context_form *form, const tri_plan_in *in, const tri_log *log) {
    const char *name = names[form->ring], *other = names[!form->ring];
    if (in->mesh.cp < 2) return;
    switch (form->why) {
    case TRI_CONTEXT_ASKED:
        tri__say(log, TRI_LOG_INFO, "%d ranks share the tokens of each text: --cp-mode %s", in->mesh.cp, name);
        break;
    case TRI_CONTEXT_ONLY:
        tri__say(log, TRI_LOG_INFO, "%d ranks share the tokens of each text: --cp-mode %s, as %s cannot be planned",
                 in->mesh.cp, name, other);
        break;
    case TRI_CONTEXT_FASTER:
        tri__say(log, TRI_LOG_INFO, "%d ranks share the tokens of each text: --cp-mode %s; predicted %.1f ms a "
                 "microbatch, %.1f MB sent; with %s %.1f ms, %.1f MB", in->mesh.cp, name,
                 1e3 * form->seconds[form->ring], 1e-6 * form->sent[form->ring], other,
                 1e3 * form->seconds[!form->ring], 1e-6 * form->sent[!form->ring]);
    }
}

tri_status tri__context_json(const tri_context_form *form, const tri_plan_in *in, tri_json **out) {
    static const char *const reasons[] = {"asked", "only", "faster"};
    *out = NULL;
    if (in->mesh.cp < 2) return TRI_OK;
    *out = tri__json_pack("{s:s, s:s}", "mode", names[form->ring], "reason", reasons[form->why]);
    for (int ring = 0; ring < 2 && form->why == TRI_CONTEXT_FASTER && *out; ring++)
        tri__json_set_new(*out, names[ring], tri__json_pack("{s:f, s:f}", "seconds", form->seconds[ring], "bytes_sent",
                                                            form->sent[ring]));
    return *out ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}
