/* pass_shard.c - pass: data parallelism. Rewrites the program with its transfers: gradients are summed
 * (shard_gradients.c), and sharded weights are gathered (shard_weights.c). To the executor these are
 * transfers like any other.
 *
 *   none     buckets of gradients are all-reduced after their last write, and waited for before the update
 *   zero1    blocks of gradients are reduce-scattered in place instead; a rank updates its shard; weights are gathered
 *            after the update
 *   zero2    the same for each microbatch, into a shard of gradients
 *   zero3    weights are shards too, gathered before the units that use them
 *   hybrid   zero3 within runs of replicas; shards of gradients are all-reduced across the runs */
#include "plan/least.h"
#include "plan/optimizer.h"
#include "plan/shard.h"
#include "plan/step_kinds.h"

/* The new slot that replaces a slot of the old program; created on first use. */
static int map_slot(tri_sharder *s, int slot) {
    if (slot < 0) return -1;
    if (s->map[slot] >= 0) return s->map[slot];
    const tri_slot *old = &s->from->slot[slot];
    tri_builder at = s->to;
    at.unit = old->unit;
    if (old->parent < 0)
        return s->map[slot] = TRI_BUILD_SAME(&at, *old, "%s", old->name);
    int parent = map_slot(s, old->parent);
    const char *label = old->name + strlen(s->from->slot[old->parent].name) + 1; /* a view's name is parent.label */
    const char *name = s->to.program->slot[parent].name;
    return s->map[slot] = tri__build_rows_view(&at, parent, old->parent_at, old->rows, old->cols, "%s.%s", name, label);
}

void tri__sharder_stand(tri_sharder *s, const tri_flats *flats, int unit, int slot) {
    for (int i = flats->first[unit]; i < flats->first[unit + 1]; i++) s->map[flats->member[i]] = -1;
    s->map[flats->slot[unit]] = slot;
}

void tri__sharder_stand_block(tri_sharder *s, const tri_flats *flats, const tri_shard_block *block, int slot) {
    const char *name = s->to.program->slot[slot].name;
    for (int u = block->first; u < block->first + block->n; u++) {
        const tri_unit *unit = &s->pass->model->unit[u];
        int part = slot;
        if (block->n > 1)
            part = tri__build_view(&s->to, slot, s->unit_at[u], 1, unit->count, "%s.%s", name, unit->name);
        tri__sharder_stand(s, flats, u, part);
    }
}

int tri__sharder_share(tri_sharder *s, const tri_shard_block *block, int unit, int slot) {
    if (block->n == 1) return slot;
    tri_range part = s->pass->own[unit];
    int64_t count = part.end - part.begin, at = count ? part.begin + s->unit_at[unit] - block->own.begin : 0;
    return tri__build_view(&s->to, slot, at, 1, count, "%s.%s", s->to.program->slot[slot].name,
                           s->pass->model->unit[unit].name);
}

int tri__sharder_unit(const tri_sharder *s, const tri_shard_block *block) {
    return block->n == 1 ? s->from->slot[s->weights.slot[block->first]].unit : -1;
}

/* Transfers of a unit that steps leave out are left out with it. */
static void set_unit(tri_sharder *s, int unit, int mb) {
    s->to.unit = unit, s->to.mb = mb;
    s->to.layer = unit < 0 ? 0 : 1 + tri__layer_find(s->to.program, s->to.program->unit[unit]);
}

void tri__sharder_post(tri_sharder *s, tri_op op, tri_attr group, tri_ends ends, int unit, int mb) {
    set_unit(s, unit, mb);
    tri__build_post(&s->to, op, group, ends);
}

void tri__sharder_wait(tri_sharder *s, tri_ends ends, int unit, int mb) {
    set_unit(s, unit, mb);
    tri__build_wait(&s->to, ends);
}

int tri__sharder_closes(const tri_sharder *s, int unit) {
    return tri__layer_find(s->from, s->pass->model->unit[unit].name) >= 0;
}

/* Which units form a block, and this rank's shard of each. A block never spans stages, which run at different times. A
 * layer that steps leave out is a block of its own. What is frozen and what is trained have blocks of their own. */
static void make_blocks(tri_sharder *s) {
    const tri_network *model = s->pass->model;
    const tri_sharding *how = &s->pass->sharding;
    for (int u = 0; u < model->n_units; u++) {
        tri_shard_block *last = s->n_blocks ? &s->block[s->n_blocks - 1] : NULL;
        int joins = last && how->wrap != TRI_WRAP_LAYER && last->count < how->wrap_min_params &&
                    !tri__sharder_closes(s, u) && !tri__sharder_closes(s, u - 1) &&
                    model->unit[u].frozen == model->unit[u - 1].frozen && tri__same_sharers(s->pass, u, u - 1);
        if (!joins || s->pass->unit_stage[u] != s->pass->unit_stage[u - 1]) {
            last = TRI_PUSH(s->to.arena, s->block, s->n_blocks, s->cap_blocks);
            *last = (tri_shard_block){.first = u};
        }
        s->block_of[u] = s->n_blocks - 1;
        s->unit_at[u] = last->count;
        last->count += model->unit[u].count;
        last->n++;
    }
    for (int b = 0; b < s->n_blocks; b++) {
        tri_shard_block *block = &s->block[b];
        const char *first = model->unit[block->first].name, *end = model->unit[block->first + block->n - 1].name;
        block->name = block->n == 1 ? first : tri__arena_print(s->to.arena, "%s-%s", first, end);
        block->of = tri__unit_sharers(s->pass, block->first);
        block->own = tri__shard(block->count, block->of.n, block->of.place);
    }
}

static tri_flats find_flats(const tri_sharder *s, const int *slot) {
    int n_units = s->pass->model->n_units;
    size_t n_slots = (size_t)s->from->n_slots;
    tri_flats flats = {.unit = tri__none_yet(s->to.arena, s->from->n_slots)};
    int *copy = tri__arena_alloc(s->to.arena, (size_t)n_units * sizeof *copy);
    flats.member = tri__arena_alloc(s->to.arena, n_slots * sizeof *flats.member);
    flats.first = tri__arena_alloc(s->to.arena, ((size_t)n_units + 1) * sizeof *flats.first);
    for (int u = 0; slot && u < n_units; u++) {
        copy[u] = slot[u];
        if (slot[u] >= 0) flats.unit[slot[u]] = u;
    }
    for (int i = 0; i < s->from->n_slots; i++) {
        flats.unit[i] = flats.unit[tri__slot_root(s->from, i)];
        if (flats.unit[i] >= 0) flats.first[flats.unit[i] + 1]++;
    }
    int *next = tri__arena_alloc(s->to.arena, (size_t)n_units * sizeof *next);
    for (int u = 0; u < n_units; u++) next[u] = flats.first[u], flats.first[u + 1] += flats.first[u];
    for (int i = 0; i < s->from->n_slots; i++)
        if (flats.unit[i] >= 0) flats.member[next[flats.unit[i]]++] = i;
    flats.slot = copy;
    return flats;
}

/* Weights that every rank holds; those of a block are contiguous where one transfer gathers them after the update. */
static void keep_weights(tri_sharder *s) {
    for (int b = 0; b < s->n_blocks && s->pass->sharding.kind != TRI_SHARD_NONE; b++) {
        const tri_shard_block *block = &s->block[b];
        if (block->n == 1) continue;
        int flat = TRI_SHARD_SLOT(s, block, TRI_MEM_PARAM, block->count, "p.%s", block->name);
        tri__sharder_stand_block(s, &s->weights, block, flat);
    }
    for (int u = 0; u < s->pass->model->n_units; u++) s->pass->out.param[u] = map_slot(s, s->weights.slot[u]);
}

static void copy_instr(tri_sharder *s, tri_instr instr) {
    if (s->reductions) instr.acc = (uint16_t)tri__reductions_acc(s, &instr);
    for (int k = 0; k < TRI_MAX_ARGS; k++) instr.slot[k] = map_slot(s, instr.slot[k]);
    tri__build_copy(&s->to, &instr);
}

/* Ownership without sharding: every rank holds everything. */
static void hold_all(tri_pass *pass) {
    int n = pass->model->n_units;
    tri_range *whole = tri__arena_alloc(pass->arena, (size_t)n * sizeof *whole);
    for (int u = 0; u < n; u++) whole[u] = (tri_range){0, pass->model->unit[u].count};
    pass->out.param_part = pass->out.state_part = pass->out.save_part = pass->own = whole;
    pass->grad_part = tri__trained_parts(pass, whole);
    pass->n_shards = pass->n_copies = 1;
    pass->block_of = tri__arena_alloc(pass->arena, (size_t)n * sizeof *pass->block_of);
    for (int u = 0; u < n; u++) pass->block_of[u] = u;
    if (pass->training && tri__is_onebit(pass->in->optimizer.kind))
        pass->local_grad = pass->unit_grad, pass->local_part = pass->grad_part;
}

/* A hybrid of one run is zero3; of runs of one replica, none. *group: replicas that have one copy together. */
static tri_status resolve_hybrid(const tri_plan_in *in, tri_sharding *how, tri_attr *group) {
    int dp = in->mesh.dp;
    *how = in->sharding;
    if (how->kind == TRI_SHARD_HYBRID) {
        if (how->size < 1 || dp % how->size)
            return tri__fail(TRI_USAGE,
                             "--shard-size %d does not divide the %d replicas: take one that does, or --shard zero3 "
                             "for one copy among all",
                             how->size, dp);
        if (how->size == dp) how->kind = TRI_SHARD_ZERO3;
        else if (how->size == 1) how->kind = TRI_SHARD_NONE;
    }
    *group = (tri_attr){.axes = TRI_AXIS_SET(TRI_AXIS_DP), .within = how->kind == TRI_SHARD_HYBRID ? how->size : 0};
    return TRI_OK;
}

/* Where steps are of several kinds, sums are made in some of them only. */
void tri__least_shard(const tri_plan_in *in, tri_least *least) {
    tri_sharding how;
    tri_attr group;
    if (in->mesh.dp == 1 || resolve_hybrid(in, &how, &group) != TRI_OK) return;
    int n = tri__transfer_size(&in->mesh, &group);
    if (how.kind >= TRI_SHARD_ZERO1) least->among[TRI_MEM_STATE] = n;
    if (how.kind >= TRI_SHARD_ZERO2) least->among[TRI_MEM_GRAD] = n;
    if (how.kind >= TRI_SHARD_ZERO3) least->among[TRI_MEM_PARAM] = n;
    if (tri__step_gates(&in->optimizer)) return;
    double again = 2.0 * in->n_mb * (least->elements - least->kept); /* gathers of both passes of each microbatch */
    tri_least_move sum = {.kind = how.kind == TRI_SHARD_NONE ? TRI_ALL_REDUCE : TRI_REDUCE_SCATTER, .group = group,
                          .elements = least->elements, .each = (double)tri__dtype_bytes(in->reduce_dtype), .times = 1};
    tri_least_move gather = {.kind = TRI_ALL_GATHER, .group = group, .elements = least->elements,
                             .each = (double)tri__dtype_bytes(in->precision), .times = 1, .when = TRI_LEAST_AFTER};
    if (how.kind >= TRI_SHARD_ZERO2) sum.times = in->n_mb, sum.when = TRI_LEAST_ANY;
    if (how.kind >= TRI_SHARD_ZERO3) {
        gather.when = TRI_LEAST_ANY;
        if (again > gather.elements) gather.elements = again;
    }
    tri__least_add(least, sum);
    if (how.kind >= TRI_SHARD_ZERO1) tri__least_add(least, gather);
    if (how.kind != TRI_SHARD_HYBRID) return;
    sum.kind = TRI_ALL_REDUCE, sum.elements /= n, sum.times = 1, sum.when = TRI_LEAST_LAST;
    sum.group = (tri_attr){.axes = group.axes, .across = n};
    tri__least_add(least, sum);
}

/* The part of a unit inside this rank's shard of its block. */
static tri_range own_part(const tri_sharder *s, int unit) {
    tri_range own = s->block[s->block_of[unit]].own;
    int64_t at = s->unit_at[unit];
    return tri__range_both((tri_range){own.begin - at, own.end - at}, (tri_range){0, s->pass->model->unit[unit].count});
}

static void share_out(tri_sharder *s) {
    tri_pass *pass = s->pass;
    tri_shard_kind kind = pass->sharding.kind;
    int n = pass->model->n_units, copies = kind == TRI_SHARD_HYBRID ? pass->in->mesh.dp / pass->n_shards : 1;
    int copy = kind == TRI_SHARD_HYBRID ? tri__mesh_coords(&pass->in->mesh, pass->in->rank).dp / pass->n_shards : 0;
    pass->own = tri__arena_alloc(pass->arena, (size_t)n * sizeof *pass->own);
    pass->out.save_part = tri__arena_alloc(pass->arena, (size_t)n * sizeof *pass->out.save_part);
    for (int u = 0; u < n; u++) {
        tri_range own = pass->own[u] = own_part(s, u), part = tri__shard(own.end - own.begin, copies, copy);
        pass->out.save_part[u] = (tri_range){own.begin + part.begin, own.begin + part.end};
    }
    if (kind == TRI_SHARD_NONE && tri__takes_local_steps(pass)) pass->own = pass->grad_part, pass->n_shards = 1;
    if (kind >= TRI_SHARD_ZERO1) {
        pass->out.state_part = pass->own;
        pass->grad_part = tri__trained_parts(pass, pass->own);
    }
    if (kind >= TRI_SHARD_ZERO3) pass->out.param_part = pass->own;
    if (kind == TRI_SHARD_HYBRID && pass->local_grad) pass->local_part = pass->grad_part;
    pass->copies = (tri_attr){.axes = pass->group.axes, .across = kind == TRI_SHARD_HYBRID ? pass->n_shards : 0};
    pass->n_copies = tri__transfer_size(&pass->in->mesh, &pass->copies);
    pass->block_of = s->block_of;
}

/* Marks the place whose shard (of `each` elements) contains element `at` of a block: its plan differs from those before
 * and after it. Where a shard begins at `at`, the plans before it differ from those after. */
static void mark(uint8_t *begins, int n, int64_t each, int64_t at) {
    int64_t place = at / each;
    if (place < n) begins[place] = 1;
    if (at % each && place + 1 < n) begins[place + 1] = 1;
}

/* Marks the elements at which a unit's treatment changes: see pass_update.c, pass_tensor_sums.c, fp8_gathers.c. */
static void mark_unit(const tri_sharder *s, int u, uint8_t *begins, int64_t each) {
    const tri_network *model = s->pass->model;
    const tri_unit *unit = &model->unit[u];
    const tri_param *param = &model->param[unit->first];
    const tri_plan_in *in = s->pass->in;
    int64_t at = s->unit_at[u];
    int n = s->pass->n_shards;
    mark(begins, n, each, at);
    if (!s->pass->training) return;
    if (in->replicate) mark(begins, n, each, at + 1); /* numbers of a whole unit are kept with its first element */
    if (tri__mesh_coords(&in->mesh, in->rank).tp > 0) mark(begins, n, each, at + unit->split);
    if (s->pass->sharding.kind == TRI_SHARD_NONE) return;
    if (in->mesh.tp > 1 && in->sequence_parallel) mark(begins, n, each, at + unit->tokens);
    int by_param = in->fp8 && s->pass->sharding.kind >= TRI_SHARD_ZERO3; /* weights are cast by their owners */
    for (int i = 1; i < unit->n; i++)
        if (by_param || !tri__same_run(&param[i], &param[i - 1])) mark(begins, n, each, at + param[i].at);
}

/* Sets up the blocks of a pass, and this rank's shard of each. */
static void open_blocks(tri_sharder *s, tri_pass *pass) {
    size_t n_units = (size_t)pass->model->n_units;
    *s = (tri_sharder){.pass = pass, .from = pass->program, .to = {.arena = pass->arena}};
    pass->n_shards = tri__transfer_size(&pass->in->mesh, &pass->group);
    s->block_of = tri__arena_alloc(pass->arena, n_units * sizeof *s->block_of);
    s->unit_at = tri__arena_alloc(pass->arena, n_units * sizeof *s->unit_at);
    make_blocks(s);
}

/* Places whose plans differ otherwise than by consecutive shards, where sums between runs of replicas are coded: each
 * member of such a group has a part of a shard. So runs begin where those of replicas do. *n: the places so far. */
static void mark_coded(const tri_pass *pass, int *n, uint8_t **begins) {
    const tri_compression *how = &pass->in->compression;
    int dp = pass->in->mesh.dp, is_hybrid = pass->sharding.kind == TRI_SHARD_HYBRID,
        each = is_hybrid ? pass->sharding.size : how->within;
    int codes = how->gradients != TRI_CODE_NONE || (is_hybrid && tri__is_onebit(pass->in->optimizer.kind));
    if (!pass->training || !codes || each <= 1 || dp % each) return;
    uint8_t *all = tri__arena_alloc(pass->arena, (size_t)dp);
    for (int place = 0; place < dp; place++) all[place] = (*begins)[place % *n] || place % each == 0;
    *n = dp, *begins = all;
}

tri_status tri__shard_runs(const tri_pass *shared, int *n, uint8_t **begins) {
    tri_pass pass = *shared;
    tri_sharder s = {0};
    *n = 1;
    if (pass.in->mesh.dp > 1) {
        TRI_TRY(resolve_hybrid(pass.in, &pass.sharding, &pass.group));
        open_blocks(&s, &pass);
        *n = pass.n_shards;
    }
    /* a replica of a server has parts of its own number; a copy that takes local steps owns parts of units, not of
     * blocks; ranks that share tokens have runs of them; those that share experts have other shards of them than of the
     * rest; replicas of a shard (hybrid) keep parts of it */
    int each = (!pass.training && pass.in->fed) || tri__takes_local_steps(&pass) || tri__mesh_cp(&pass.in->mesh) > 1 ||
               tri__mesh_ep(&pass.in->mesh) > 1 ||
               (pass.training && pass.in->replicate && pass.sharding.kind == TRI_SHARD_HYBRID);
    if (each) *n = pass.in->mesh.dp;
    *begins = tri__arena_alloc(pass.arena, (size_t)*n);
    (*begins)[0] = 1;
    for (int place = 1; place < *n && each; place++) (*begins)[place] = 1;
    if (each) return TRI_OK;
    if (!pass.training && pass.sharding.kind < TRI_SHARD_ZERO3) return TRI_OK; /* nothing is sharded in it */
    for (int b = 0; b < s.n_blocks; b++) {
        const tri_shard_block *block = &s.block[b];
        int64_t each = tri__range_count(tri__shard(block->count, *n, 0));
        if (!each) continue;
        for (int u = block->first; u < block->first + block->n; u++) mark_unit(&s, u, *begins, each);
        mark(*begins, *n, each, block->count);
    }
    mark_coded(&pass, n, begins);
    return TRI_OK;
}

static void open_sharder(tri_sharder *s, tri_pass *pass) {
    const tri_program *from = pass->program;
    open_blocks(s, pass);
    s->to = tri__build_like(pass->arena, from);
    s->map = tri__none_yet(pass->arena, from->n_slots);
    s->weights = find_flats(s, pass->out.param);
    s->grads = find_flats(s, pass->unit_grad);
}

tri_status tri__pass_shard(tri_pass *pass) {
    tri_sharder s;
    hold_all(pass);
    if (pass->in->mesh.dp > 1) TRI_TRY(resolve_hybrid(pass->in, &pass->sharding, &pass->group));
    TRI_TRY(tri__local_check(pass));
    if (pass->in->mesh.dp == 1) return TRI_OK;
    open_sharder(&s, pass);
    share_out(&s);
    if (pass->sharding.kind >= TRI_SHARD_ZERO3) tri__gathers_plan(&s);
    else keep_weights(&s);
    if (pass->unit_grad) tri__reductions_plan(&s);
    for (int i = 0; i < s.from->n_instrs; i++) {
        if (s.gathers) tri__gathers_before(&s, i);
        if (s.reductions) tri__reductions_before(&s, i);
        copy_instr(&s, s.from->instr[i]);
        if (s.reductions) tri__reductions_after(&s, i);
    }
    if (s.reductions) tri__reductions_end(&s);
    if (pass->out.loss >= 0) pass->out.loss = s.map[pass->out.loss];
    if (pass->out.probs >= 0) pass->out.probs = s.map[pass->out.probs];
    pass->program = s.to.program;
    return TRI_OK;
}
