/* space.c - all layouts of a number of ranks. Only what is impossible for every model is left out here, and what
 * would repeat another layout; the planner refuses the rest.
 *
 * Limits of the space: 2, 3 or 4 stages a rank with interleaved; numbers of microbatches are powers of two, and in a
 * pipeline 1, 2 and 4 times its ranks; at most MICROBATCHES; ranks that share a text keep at least TOKENS of it each;
 * offloading adds optimizer state, gradients, weights and activations in this order. */
#include "study/choose/choose_parts.h"

enum { MICROBATCHES = 256, MOST_CHUNKS = 4, TOKENS = 512 /* of a text on each rank, at least, with cp */ };

typedef struct lister {
    tri_arena *arena;
    const tri_chooser *chooser;
    const tri_settings *s;
    int world, per_node, island; /* ranks: of all, of a machine, of an island in it (0: there are none) */
    int64_t global;
    unsigned precisions;
    tri_space *out;
} lister;

static int fixed(const lister *l, const void *field) { return tri__settings_given(l->s, field); }

static void add(lister *l, const tri_layout *layout) {
    *TRI_PUSH(l->arena, l->out->at, l->out->n, l->out->cap) = *layout;
}

static void each_precision(lister *l, tri_layout at) {
    for (at.precision = 0; at.precision <= TRI_PRECISION_FP8; at.precision++)
        if (l->precisions >> at.precision & 1) add(l, &at);
}

/* Ranks of a machine, or island, along each axis, in an order of the axes; 0: machines are not blocks of the mesh. */
static int find_block(int here, const tri_layout *at, const char *order, int block[static 3]) {
    int stride = 1, ranks = 1;
    for (int i = 2; i >= 0; i--) { /* innermost first: "pp,tp,dp" */
        int axis = order[3 * i] == 'p' ? 0 : order[3 * i] == 't' ? 1 : 2;
        int size = axis == 0 ? at->pp : axis == 1 ? at->tp : tri__layout_replicas(at);
        block[axis] = stride >= here ? 1 : here / stride < size ? here / stride : size;
        if (size % block[axis]) return 0;
        stride *= size, ranks *= block[axis];
    }
    return ranks == here;
}

/* Whether the same ranks share machines, or islands, in two orders of the axes. */
static int same_blocks(int here, const tri_layout *at, const char *a, const char *b) {
    int one[3], other[3];
    return find_block(here, at, a, one) && find_block(here, at, b, other) && memcmp(one, other, sizeof one) == 0;
}

/* Whether two orders of axes are the same mesh: axes of one rank do not count, nor does how ranks are numbered where
 * the same ones share machines and islands. */
static int same_order(const lister *l, const tri_layout *at, const char *a, const char *b) {
    char left[2][8];
    const char *text[] = {a, b};
    for (int i = 0; i < 2; i++) {
        int n = 0;
        for (const char *axis = text[i]; *axis; axis += axis[2] ? 3 : 2)
            if ((axis[0] == 'p' ? at->pp : axis[0] == 't' ? at->tp : tri__layout_replicas(at)) > 1)
                left[i][n++] = axis[0];
        left[i][n] = 0;
    }
    if (strcmp(left[0], left[1]) == 0) return 1;
    return (l->world <= l->per_node || same_blocks(l->per_node, at, a, b)) &&
           (!l->island || same_blocks(l->island, at, a, b));
}

/* Orders matter between machines, and between islands, only. */
static void each_order(lister *l, tri_layout at) {
    if (fixed(l, &l->s->mesh_order) || l->world <= (l->island ? l->island : l->per_node)) {
        tri_mesh mesh;
        char text[TRI_MESH_ORDER_TEXT];
        tri__mesh_make(&mesh, l->world, (tri_mesh_sizes){.pp = at.pp, .tp = at.tp, .cp = at.cp, .dp = at.dp});
        tri__mesh_set_order(&mesh, l->s->mesh_order, l->per_node);
        tri__mesh_order(&mesh, text);
        for (int i = 0; i < TRI_LAYOUT_ORDERS; i++)
            if (strcmp(text, tri__layout_order(i)) == 0) at.order = i;
        each_precision(l, at);
        return;
    }
    for (at.order = 0; at.order < TRI_LAYOUT_ORDERS; at.order++) {
        int known = 0;
        for (int i = 0; i < at.order; i++)
            known |= same_order(l, &at, tri__layout_order(i), tri__layout_order(at.order));
        if (!known) each_precision(l, at);
    }
}

static void each_microbatches(lister *l, tri_layout at) {
    int64_t most = l->global / at.dp;
    if (fixed(l, &l->s->num_microbatches)) {
        at.n_mb = (int)l->s->num_microbatches;
        if (at.n_mb <= most) each_order(l, at);
        return;
    }
    if (most > MICROBATCHES) most = MICROBATCHES;
    for (at.n_mb = 1; at.n_mb <= most; at.n_mb++) {
        int power = (at.n_mb & (at.n_mb - 1)) == 0;
        int repeats = at.n_mb == 1 && at.pp > 1 && at.schedule == TRI_SCHEDULE_GPIPE; /* 1f1b has the same order */
        int rounds = at.pp > 1 && (at.n_mb == at.pp || at.n_mb == 2 * at.pp || at.n_mb == 4 * at.pp);
        if ((power || rounds) && (!repeats || fixed(l, &l->s->schedule))) each_order(l, at);
    }
}

static void each_shape(lister *l, tri_layout at) {
    const tri_schedule_row *row = tri__schedule_row((tri_schedule_kind)at.schedule);
    int given = l->s->pipeline_shape;
    for (at.shape = TRI_SHAPE_ASKED_CHAIN; at.shape <= TRI_SHAPE_ASKED_BRANCH; at.shape++) {
        int branches = at.shape == TRI_SHAPE_ASKED_BRANCH;
        if (given != TRI_SHAPE_ASKED_AUTO && given != at.shape) continue;
        if (branches && (row->chain || at.chunks > 1 || l->chooser->model.n_encoders < 2)) continue;
        each_microbatches(l, at);
    }
}

static void each_chunks(lister *l, tri_layout at) {
    const tri_schedule_row *row = tri__schedule_row((tri_schedule_kind)at.schedule);
    int given = (int)l->s->virtual_stages, units = l->chooser->model.n_units;
    if (given && row->chunks && given != row->chunks) return;
    if (given || row->fewest < 2 || row->chunks) {
        at.chunks = given;
        if (at.pp * (given ? given : row->chunks ? row->chunks : row->fewest) <= units) each_shape(l, at);
        return;
    }
    for (at.chunks = row->fewest; at.chunks <= MOST_CHUNKS && at.pp * at.chunks <= units; at.chunks++)
        each_shape(l, at);
}

static void each_schedule(lister *l, tri_layout at) {
    static const int simpler_first[] = {TRI_SCHEDULE_1F1B, TRI_SCHEDULE_GPIPE, TRI_SCHEDULE_INTERLEAVED,
                                        TRI_SCHEDULE_ZB_H1, TRI_SCHEDULE_ZBV};
    at.schedule = l->s->schedule, at.shape = l->s->pipeline_shape;
    if (at.pp == 1) {
        each_microbatches(l, at);
        return;
    }
    for (size_t i = 0; i < sizeof simpler_first / sizeof *simpler_first; i++) {
        if (fixed(l, &l->s->schedule) && l->s->schedule != simpler_first[i]) continue;
        at.schedule = simpler_first[i];
        each_chunks(l, at);
    }
}

static void each_hybrid(lister *l, tri_layout at) {
    int replicas = tri__layout_replicas(&at);
    for (at.shard_size = 2; at.shard_size < replicas; at.shard_size++) {
        if (replicas % at.shard_size) continue;
        if (fixed(l, &l->s->shard_size) && l->s->shard_size && l->s->shard_size != at.shard_size) continue;
        each_schedule(l, at);
    }
}

static void each_shard(lister *l, tri_layout at) {
    int replicas = tri__layout_replicas(&at);
    for (at.shard = TRI_SHARD_NONE; at.shard <= TRI_SHARD_HYBRID; at.shard++) {
        if (fixed(l, &l->s->shard) ? l->s->shard != at.shard : replicas == 1 && at.shard) continue;
        if (at.shard == TRI_SHARD_HYBRID && replicas > 1) each_hybrid(l, at);
        else each_schedule(l, at);
    }
}

/* Replicas that share experts: their number divides that of the replicas and of the experts. */
static void each_experts(lister *l, tri_layout at) {
    const tri_network *model = &l->chooser->model;
    int64_t experts = 1, given = l->s->ep_size;
    for (int i = 0; i < model->n_units; i++)
        if (model->unit[i].experts) experts = model->unit[i].experts;
    for (at.ep = 1; at.ep <= at.dp && (at.ep == 1 || at.cp == 1); at.ep++)
        if (fixed(l, &l->s->ep_size) ? at.ep == given : at.dp % at.ep == 0 && experts % at.ep == 0) each_shard(l, at);
}

/* Plans of layers make a difference to ranks that share them, by tokens; with heads that do not divide, the one that
 * leaves attention whole is the only one. */
static void each_plan(lister *l, tri_layout at) {
    const tri_network *model = &l->chooser->model;
    int divides = 1, given = fixed(l, &l->s->tp_plan);
    for (int b = 0; b < model->n_encoders; b++) divides &= model->encoder[b].num_attention_heads % at.tp == 0;
    each_experts(l, at);
    if (at.tp == 1 || given || l->s->sequence_parallel == TRI_ASKED_NO || tri__model_expert_layers(model)) return;
    for (at.tp_plan = divides ? 1 : TRI_LAYOUT_HEADLESS; at.tp_plan < TRI_LAYOUT_HEADLESS + !divides; at.tp_plan++)
        each_experts(l, at);
}

static void each_mesh(lister *l, tri_layout at) {
    const tri_settings *s = l->s;
    int world = l->world / at.cp; /* ranks of which each stands for those that share its tokens */
    for (at.pp = 1; at.pp <= world && at.pp <= l->chooser->model.n_units && l->world % at.cp == 0; at.pp++) {
        if (world % at.pp || (fixed(l, &s->pp_size) && at.pp != s->pp_size)) continue;
        for (at.tp = 1; at.tp * at.pp <= world; at.tp++) {
            if (world / at.pp % at.tp || (fixed(l, &s->tp_size) && at.tp != s->tp_size)) continue;
            at.dp = world / at.pp / at.tp;
            if (fixed(l, &s->dp_size) && s->dp_size && at.dp != s->dp_size) continue;
            if (at.dp <= l->global) each_plan(l, at);
        }
    }
}

/* Ranks that share a text's tokens: only where texts are long. */
static void each_context(lister *l, tri_layout at) {
    int64_t given = l->s->cp_size, tokens = l->s->model.max_sen_len;
    for (at.cp = 1; at.cp <= l->world; at.cp++)
        if (fixed(l, &l->s->cp_size) ? at.cp == given : at.cp == 1 || tokens / at.cp >= TOKENS) each_mesh(l, at);
}

static void list_savings(const lister *l, int offloads, tri_savings *out) {
    if (fixed(l, &l->s->recompute)) out->recompute[out->n_recompute++] = l->s->recompute;
    else
        for (int i = 0; i < TRI_RECOMPUTES; i++) out->recompute[out->n_recompute++] = i;
    out->offload[out->n_offload++] = fixed(l, &l->s->offload) ? tri__offload_given(l->s) : 0;
    if (fixed(l, &l->s->offload) || !offloads) return;
    for (unsigned mask = TRI_OFFLOAD_OPTIMIZER; mask < 1u << TRI_OFFLOADS; mask = 2 * mask + 1)
        out->offload[out->n_offload++] = mask;
}

void tri__space_list(tri_arena *arena, const tri_chooser *chooser, int world, int64_t global_batch, unsigned precisions,
                     int offloads, tri_space *out) {
    const tri_settings *s = &chooser->settings;
    const tri_hardware *h = &chooser->hardware;
    lister l = {arena, chooser, s, world, h->ranks_per_node, h->islands.ranks, global_batch, precisions, out};
    *out = (tri_space){0};
    list_savings(&l, offloads, &out->savings);
    if (!precisions) l.precisions = 1u << s->precision;
    each_context(&l, (tri_layout){.recompute = out->savings.recompute[0], .offload = out->savings.offload[0]});
}
