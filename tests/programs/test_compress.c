/* test_compress.c - coded transfers: the programs of all ranks fit together on every mesh; what each transfer brings
 * is, to the bit, what a simulation of all ranks in one process computes; training stays close to that in full; numbers
 * that are not finite are everyone's, and are not kept; what cannot be coded is refused. */
#include "tests/lib/test.h"
#include "tests/lib/tiny.h"

#include "base/hash.h"
#include "numbers/float8.h"
#include "numbers/quantized.h"
#include "tests/lib/program_text.h"

#include <math.h>

enum { MAX_RANKS = 8, STEPS = 30, HEAP = 8 << 20, EVENTS = 512 };

#define MESH(stages, sharers, replicas) {.pp = stages, .tp = sharers, .dp = replicas}

static const char *const kind_names[] = {"none", "zero1", "zero2", "zero3", "hybrid"};

/* What is coded, and how: of one mesh. */
typedef struct way {
    tri_mesh mesh;
    tri_sharding sharding;
    tri_compression compression;
    int n_mb;
    tri_dtype precision, reduce_dtype; /* 0: f32 */
    int offloads, lanes; /* 1: optimizer state is in another memory; two queues of kernels */
} way;

static void say(const way *w, char text[static 160]) {
    snprintf(text, 160, "%s of pp %d tp %d dp %d, %d microbatches, gradients %s%s, weights %s, machines of %d",
             kind_names[w->sharding.kind], w->mesh.pp, w->mesh.tp, w->mesh.dp, w->n_mb,
             tri__code_name(w->compression.gradients), w->compression.feedback ? " with feedback" : "",
             tri__code_name(w->compression.weights), w->compression.within);
}

static void open_way(tiny *t, const way *w, int rank) {
    static char *no_decay[] = {"bias", "LayerNorm.weight", "norm.weight"};
    tiny_open(t, "cpu", 2, 3, 0.1, w->n_mb);
    t->encoder[1].num_attention_heads = 4; /* two ranks share a layer */
    tri__model_make(&t->arena, &t->config, t->encoder, (tri_columns){.n = 3}, (tri_texts){no_decay, 3}, &t->model);
    t->in.mesh = w->mesh, t->in.rank = rank;
    t->in.sharding = w->sharding, t->in.compression = w->compression;
    t->in.staging = (tri_staging){.schedule = TRI_SCHEDULE_1F1B, .shape = TRI_SHAPE_BRANCH};
    t->in.sequence_parallel = w->mesh.tp > 1;
    t->in.precision = w->precision, t->in.reduce_dtype = w->reduce_dtype;
    t->in.offload = w->offloads ? 1u << TRI_MEM_STATE : 0, t->target.ahead = w->offloads ? 1 << 12 : 0;
    t->target.lanes = w->lanes ? TRI_LANES : 1;
    tiny_feed(t, w->n_mb, w->mesh.dp, tri__mesh_coords(&w->mesh, rank).dp);
    for (int mb = 0; mb < w->n_mb; mb++)
        t->feed[mb].counts = tri__counts_rounded(&t->feed[mb].counts, tri__plan_granule(&t->in));
}

/* Whatever is planned for a mesh passes the checker, planned by classes or rank by rank. */
static void check_way(const way *w) {
    tiny t;
    tri_classes all[TRI_PROGRAMS];
    char what[160];
    say(w, what);
    open_way(&t, w, 0);
    if (tri__plan_ranks(&t.arena, &t.in, 1, all) != TRI_OK) fail_msg("%s: %s", what, tri_error());
    for (int i = 0; i < TRI_PROGRAMS; i++)
        if (tri__check_all(&all[i]) != TRI_OK) fail_msg("%s, program %d: %s", what, i, tri_error());
    for (int rank = 0; rank < all[0].world; rank++) {
        tri_rank_plan plan;
        t.in.rank = rank;
        OK(tri__plan(&t.arena, &t.in, 1, &plan));
        const tri_program *alone[] = {plan.train.program, plan.infer.program, plan.start, plan.exchange};
        for (int i = 0; i < TRI_PROGRAMS; i++)
            if (!tri__program_equal(tri__classes_program(&all[i], &t.arena, rank), alone[i]))
                fail_msg("%s, program %d: rank %d has another one than its class", what, i, rank);
    }
    tiny_close(&t);
}

TEST(every_mesh_passes_the_checker) {
    static const tri_mesh meshes[] = {{.pp = 1, .tp = 1, .dp = 2}, {.pp = 1, .tp = 1, .dp = 3},
                                      {.pp = 2, .tp = 1, .dp = 2}, {.pp = 1, .tp = 2, .dp = 2},
                                      {.pp = 1, .tp = 1, .dp = 4}, {.pp = 2, .tp = 2, .dp = 4}};
    for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++)
        for (int kind = TRI_SHARD_NONE; kind <= TRI_SHARD_HYBRID; kind++)
            for (int variant = 0; variant < 3; variant++) {
                int dp = meshes[m].dp, is_wide = dp == 4 && (kind == TRI_SHARD_NONE || kind == TRI_SHARD_HYBRID);
                way w = {.mesh = meshes[m],
                         .sharding = {.kind = (tri_shard_kind)kind, .size = dp == 4 ? 2 : 1, .prefetch = 1,
                                      .bucket_mb = 0.01},
                         .n_mb = 2};
                w.compression.gradients = variant == 0   ? TRI_CODE_INT8
                                          : variant == 1 ? TRI_CODE_INT4
                                                         : TRI_CODE_BF16;
                w.compression.feedback = variant == 1;
                w.compression.within = variant == 2 && is_wide ? 2 : 0;
                int gathers = kind == TRI_SHARD_ZERO3 || (kind == TRI_SHARD_HYBRID && dp == 4);
                if (variant == 0 && gathers) w.compression.weights = TRI_CODE_INT8;
                w.offloads = variant == 1 && m % 2, w.lanes = variant == 1 && m % 2 == 0;
                if (variant == 2) w.precision = w.reduce_dtype = TRI_BF16;
                check_way(&w);
            }
}

/* A program of each kind of replacement, as text. */
TEST(golden_programs) {
    const way ways[] = {
        {.sharding = {.kind = TRI_SHARD_NONE, .bucket_mb = 0.01}, .compression = {.gradients = TRI_CODE_INT8}},
        {.sharding = {.kind = TRI_SHARD_HYBRID, .size = 2, .prefetch = 1},
         .compression = {.gradients = TRI_CODE_INT4, .weights = TRI_CODE_INT8, .feedback = 1}}};
    static const char *const path[] = {"tests/programs/coded-none.txt", "tests/programs/coded-hybrid.txt"};
    for (int i = 0; i < 2; i++) {
        tiny t;
        tiny_open_rank(&t, "cpu", 1, 0, 0, 1, &(tiny_rank){.dp = 4, .rank = 1, .sharding = ways[i].sharding});
        t.in.compression = ways[i].compression;
        tiny_plan(&t);
        program_text_check(path[i], &t.program[0], 1);
        tiny_close(&t);
    }
}

/* An instruction that codes or decodes: its operands before and after it. */
typedef struct event {
    const tri_instr *instr;
    float *x, *before, *after; /* [count]; pack: x, e before, e after; else y after */
    int64_t count;
} event;

typedef struct job {
    way way;
    int world, steps, records; /* records: the last step's events */
    tiny *rank;                /* [world] */
    double loss[MAX_RANKS][STEPS], norm[MAX_RANKS][STEPS];
    event event[MAX_RANKS][EVENTS];
    int n_events[MAX_RANKS];
    float *shared[MAX_RANKS];  /* [n_shared] weights and errors that ranks of a layer hold in common */
    int64_t n_shared[MAX_RANKS];
    int spoils;                /* 1: rank 1 has a weight that is not a number in the last step */
} job;

static void job_open(job *j, const way *w) {
    const tri_program *program[TRI_PROGRAMS][MAX_RANKS];
    *j = (job){.way = *w, .world = tri__mesh_world(&w->mesh), .steps = STEPS};
    j->rank = calloc((size_t)j->world, sizeof *j->rank);
    for (int r = 0; r < j->world; r++) {
        open_way(&j->rank[r], w, r);
        tiny_plan(&j->rank[r]);
        for (int i = 0; i < TRI_PROGRAMS; i++) program[i][r] = j->rank[r].program[i];
    }
    for (int i = 0; i < TRI_PROGRAMS; i++) OK(tri__check(program[i], j->world));
}

static void job_close(job *j) {
    for (int r = 0; r < j->world; r++) {
        for (int i = 0; i < j->n_events[r]; i++)
            free(j->event[r][i].x), free(j->event[r][i].before), free(j->event[r][i].after);
        free(j->shared[r]);
        tiny_close(&j->rank[r]);
    }
    free(j->rank);
}

/* Copies a rank's numbers of weights that ranks of the tp axis hold in common. */
static void copy_shared(job *j, int rank, const tri_exec *exec, const int *slot, const tri_range *held) {
    const tri_network *model = j->rank[rank].plan.model;
    for (int u = 0; u < model->n_units; u++) {
        tri_range part = tri__range_both(held[u], (tri_range){model->unit[u].split, model->unit[u].count});
        const float *from = tri__exec_slot(exec, 0, slot[u]); /* [held] */
        int64_t n = tri__range_count(part), at = j->n_shared[rank];
        j->shared[rank] = realloc(j->shared[rank], (size_t)(at + n + 1) * sizeof(float));
        TRI_ASSERT(j->shared[rank]);
        if (n) memcpy(j->shared[rank] + at, from + part.begin - held[u].begin, (size_t)n * sizeof(float));
        j->n_shared[rank] += n;
    }
}

/* A copy of a slot's numbers, as floats; NULL for a slot that is left out. */
static float *copy_of(const tiny *t, const tri_exec *exec, int slot, int64_t *count) {
    if (slot < 0) return NULL;
    const tri_slot *s = &t->program[0]->slot[slot];
    const void *from = tri__exec_slot(exec, 0, slot);
    float *to = malloc((size_t)s->cols * sizeof *to + 1);
    TRI_ASSERT(to);
    for (int64_t i = 0; i < s->cols; i++)
        to[i] = s->dtype == TRI_F32 ? ((const float *)from)[i] : tri__from_bf16(((const uint16_t *)from)[i]);
    *count = s->cols;
    return to;
}

static tri_status record(job *j, int rank, tri_exec *exec, uint32_t step) {
    tiny *t = &j->rank[rank];
    for (int i = 0; i < t->program[0]->n_instrs; i++) {
        const tri_instr *instr = &t->program[0]->instr[i];
        int packs = instr->op == TRI_OP_pack, unpacks = instr->op == TRI_OP_unpack;
        event *e = packs || unpacks ? &j->event[rank][j->n_events[rank]++] : NULL;
        TRI_ASSERT(j->n_events[rank] <= EVENTS);
        if (e) e->instr = instr;
        if (packs) e->x = copy_of(t, exec, TRI_SLOT(instr, pack, x), &e->count);
        if (packs) e->before = copy_of(t, exec, TRI_SLOT(instr, pack, e), &e->count);
        TRI_TRY(tri__exec_run(exec, 0, i, i + 1, step, t->feed, NULL));
        if (e) e->after = copy_of(t, exec, packs ? TRI_SLOT(instr, pack, e) : instr->slot[0], &e->count);
    }
    return TRI_OK;
}

/* Runs in the rank's own thread, where nothing may be asserted. */
static uint64_t hash_states(const tiny *t, tri_exec *exec) {
    const tri_planned *of = &t->plan.train;
    uint64_t all = 0;
    for (int s = 0; s < of->n_states; s++)
        for (int u = 0; u < t->plan.model->n_units; u++)
            all = tri__hash64(all, tri__exec_slot(exec, 0, of->state[s].slot[u]),
                              (size_t)tri__range_count(of->state[s].held[u]) * sizeof(float));
    return all;
}

/* After a step that is not finite, and after the search for its first bad number, states are those from before. */
static tri_status expect_unchanged(job *j, int rank, tri_exec *exec, uint64_t before) {
    const tiny *t = &j->rank[rank];
    int line, slot;
    if (*(const int32_t *)tri__exec_slot(exec, 0, t->plan.train.apply))
        return tri__fail(TRI_DATA, "rank %d applies a step that is not finite", rank);
    if (hash_states(t, exec) != before) return tri__fail(TRI_DATA, "rank %d: states changed", rank);
    TRI_TRY(tri__exec_find_bad(exec, 0, (uint32_t)j->steps, t->feed, &line, &slot));
    return hash_states(t, exec) == before ? TRI_OK : tri__fail(TRI_DATA, "rank %d: the search changed states", rank);
}

static tri_status rank_main(tri_world *world, void *argument) {
    job *j = argument;
    int rank = tri_world_rank(world);
    tiny *t = &j->rank[rank];
    tri_exec *exec;
    uint64_t before = 0; /* of the states, before the last step */
    TRI_TRY(tri__exec_open(&(tri_exec_spec){.device = tri__device_find("cpu"), .program = t->program, .n = TRI_PROGRAMS,
                                            .seed = 7, .guard = TINY_GUARD, .world = world}, &exec));
    tiny_guards(exec, 1);
    tiny_init(t, exec);
    tri_status status = tiny_start(t, exec);
    for (int step = 0; step < j->steps && status == TRI_OK; step++) {
        t->hyper[0] = 1e-2f, t->hyper[1] = (float)(1 - pow(0.9, step + 1)),
        t->hyper[2] = (float)(1 - pow(0.999, step + 1));
        int is_last = step == j->steps - 1;
        if (j->spoils && is_last) before = hash_states(t, exec);
        if (j->spoils && is_last && rank == 1)
            ((float *)tri__exec_slot(exec, 0, t->plan.train.param[t->plan.model->n_units - 1]))[3] = NAN;
        status = j->records && is_last
                     ? record(j, rank, exec, (uint32_t)step + 1)
                     : tri__exec_run(exec, 0, 0, t->program[0]->n_instrs, (uint32_t)step + 1, t->feed, NULL);
        j->loss[rank][step] = tiny_loss(t, exec);
        j->norm[rank][step] = *(const double *)tri__exec_slot(exec, 0, t->plan.train.norm);
    }
    if (!t->plan.train.master) copy_shared(j, rank, exec, t->plan.train.param, t->plan.train.param_part);
    for (int s = 0; s < t->plan.train.n_states; s++)
        copy_shared(j, rank, exec, t->plan.train.state[s].slot, t->plan.train.state[s].held);
    if (status == TRI_OK && !tiny_guards(exec, 0))
        status = tri__fail(TRI_INTERNAL, "rank %d wrote beyond what the plan gave it", rank);
    if (status == TRI_OK && j->spoils) status = expect_unchanged(j, rank, exec, before);
    tri__exec_close(exec);
    return status;
}

static void job_run(job *j) {
    char what[160];
    say(&j->way, what);
    if (tri_ranks_run(&(tri_ranks){.n = j->world, .heap_bytes = HEAP}, rank_main, j) != TRI_OK)
        fail_msg("%s: %s", what, tri_error());
    for (int r = 1; r < j->world; r++) {
        assert_memory_equal(j->loss[r], j->loss[0], (size_t)j->steps * sizeof j->loss[0][0]);
        assert_memory_equal(j->norm[r], j->norm[0], (size_t)j->steps * sizeof j->norm[0][0]);
    }
}

/* What one number of a block with this scale stands for after coding. */
static float decoded(tri_code code, float x, float scale) {
    if (code == TRI_CODE_BF16) return tri__from_bf16(tri__to_bf16(x));
    float inverse = scale ? 1 / scale : 0, most = code == TRI_CODE_INT4 ? 7 : 127;
    if (code == TRI_CODE_FP8) return scale * tri__from_e4m3(tri__to_e4m3(x * inverse));
    return scale * fmaxf(-most, fminf(most, rintf(x * inverse)));
}

static float scale_of(tri_code code, const float *x, int64_t n) {
    float largest = 0;
    for (int64_t i = 0; i < n; i++) largest = fmaxf(largest, fabsf(x[i]));
    return tri__quantized_scale(largest, code == TRI_CODE_INT8 ? 127 : code == TRI_CODE_INT4 ? 7 : 448);
}

/* What the members get of elements `part` of what one of them sent: blocks begin with the part. */
static void send(const event *sent, tri_range part, float *to) {
    tri_code code = (tri_code)sent->instr->attr.code;
    for (int64_t at = part.begin; at < part.end; at += TRI_CODE_BLOCK) {
        int64_t n = part.end - at < TRI_CODE_BLOCK ? part.end - at : TRI_CODE_BLOCK;
        float t[TRI_CODE_BLOCK];
        for (int64_t i = 0; i < n; i++) t[i] = sent->before ? sent->x[at + i] + sent->before[at + i] : sent->x[at + i];
        float scale = scale_of(code, t, n);
        for (int64_t i = 0; i < n; i++) {
            to[at - part.begin + i] = decoded(code, t[i], scale);
            if (sent->before && sent->after[at + i] != t[i] - to[at - part.begin + i])
                fail_msg("an error of %g is kept in place of %g", sent->after[at + i],
                         t[i] - to[at - part.begin + i]);
        }
    }
}

/* The pack on a rank that filled what a decoding event's transfer sent, and that transfer's group. */
static const event *sender(const job *j, int rank, const char *received, tri_attr *group) {
    const tri_program *p = j->rank[rank].program[0];
    for (int i = 0; i < p->n_instrs; i++) {
        const tri_instr *post = &p->instr[i];
        if (post->op != TRI_OP_all_to_all_post && post->op != TRI_OP_all_gather_post) continue;
        if (strcmp(p->slot[post->slot[0]].name, received) != 0) continue;
        *group = post->attr;
        for (int k = 0; k < j->n_events[rank]; k++)
            if (j->event[rank][k].instr->slot[0] == post->slot[1]) return &j->event[rank][k];
    }
    return NULL;
}

static float rounded(const way *w, float x) {
    return w->reduce_dtype == TRI_BF16 ? tri__from_bf16(tri__to_bf16(x)) : x;
}

/* Compares what an event left with what all members sent. */
static void check_event(const job *j, int rank, const event *e, const char *what) {
    const tri_program *p = j->rank[rank].program[0];
    const tri_slot *q = &p->slot[e->instr->slot[1]];
    int sums = e->instr->op == TRI_OP_unpack && e->instr->attr.sums, members[MAX_RANKS];
    const char *received = p->slot[q->parent >= 0 ? q->parent : e->instr->slot[1]].name;
    tri_attr group;
    assert_non_null(sender(j, rank, received, &group));
    int n = tri__transfer_members(&p->mesh, rank, &group, members);
    float *want = calloc((size_t)e->count + 1, sizeof *want), *part = calloc((size_t)e->count + 1, sizeof *part);
    for (int k = 0; k < n; k++) {
        tri_attr same;
        const event *from = sender(j, members[k], received, &same);
        assert_non_null(from);
        tri_range own = sums ? tri__shard(from->count, n, tri__transfer_place(&p->mesh, rank, &group))
                             : (tri_range){0, from->count};
        tri_range to = sums ? (tri_range){0, e->count} : tri__shard(e->count, n, k);
        assert_int_equal(tri__range_count(own), tri__range_count(to));
        send(from, own, part);
        for (int64_t i = 0; i < tri__range_count(to); i++)
            want[to.begin + i] = sums && k ? want[i] + part[i] : part[i];
    }
    for (int64_t i = 0; i < e->count; i++)
        if (rounded(&j->way, want[i]) != e->after[i])
            fail_msg("%s, rank %d: element %lld of %s is %.9g, not %.9g", what, rank, (long long)i,
                     p->slot[e->instr->slot[0]].name, e->after[i], want[i]);
    free(want), free(part);
}

static int n_decoded(const job *j, int rank) {
    int n = 0;
    for (int i = 0; i < j->n_events[rank]; i++) n += j->event[rank][i].instr->op != TRI_OP_pack;
    return n;
}

/* Every coded transfer of a step, on every rank: sums are those of decoded numbers in the order of members, and what is
 * lost is kept. */
TEST(as_all_ranks_in_one_process) {
    const way ways[] = {
        {.mesh = MESH(1, 1, 3), .sharding = {.bucket_mb = 0.01}, .compression = {.gradients = TRI_CODE_INT8}},
        {.mesh = MESH(1, 1, 4),
         .sharding = {.bucket_mb = 0.01},
         .compression = {.gradients = TRI_CODE_INT4, .feedback = 1, .within = 2}},
        {.mesh = MESH(1, 1, 2), .sharding = {.kind = TRI_SHARD_ZERO1}, .compression = {.gradients = TRI_CODE_FP8}},
        {.mesh = MESH(1, 1, 2),
         .sharding = {.kind = TRI_SHARD_ZERO2},
         .compression = {.gradients = TRI_CODE_INT8, .feedback = 1},
         .n_mb = 2},
        {.mesh = MESH(2, 1, 2),
         .sharding = {.kind = TRI_SHARD_ZERO3, .prefetch = 1},
         .compression = {.gradients = TRI_CODE_BF16, .weights = TRI_CODE_INT8}},
        {.mesh = MESH(1, 1, 4),
         .sharding = {.kind = TRI_SHARD_HYBRID, .size = 2, .prefetch = 1},
         .compression = {.gradients = TRI_CODE_INT8, .weights = TRI_CODE_BF16, .feedback = 1},
         .n_mb = 2},
        {.mesh = MESH(1, 2, 2), .compression = {.gradients = TRI_CODE_INT8}},
        {.mesh = MESH(1, 1, 2),
         .compression = {.gradients = TRI_CODE_INT8, .feedback = 1},
         .precision = TRI_BF16,
         .reduce_dtype = TRI_BF16},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        static job j;
        way w = ways[i];
        char what[160];
        if (!w.n_mb) w.n_mb = 1;
        say(&w, what);
        job_open(&j, &w);
        j.steps = 3, j.records = 1;
        job_run(&j);
        for (int r = 0; r < j.world; r++) {
            if (!n_decoded(&j, r)) fail_msg("%s: rank %d decodes nothing", what, r);
            for (int k = 0; k < j.n_events[r]; k++)
                if (j.event[r][k].instr->op != TRI_OP_pack) check_event(&j, r, &j.event[r][k], what);
        }
        job_close(&j);
    }
}

/* What coding lost of element i of a bucket, on a rank, after the step; *before: what it began with. */
static double lost(const job *j, int rank, const event *sent, int64_t i, double *before) {
    const tri_program *p = j->rank[rank].program[0];
    const tri_slot *error = &p->slot[TRI_SLOT(sent->instr, pack, e)];
    double after = sent->after[i];
    *before = sent->before[i];
    for (int k = 0; k < j->n_events[rank]; k++) { /* the second coding, of this rank's part */
        const event *e = &j->event[rank][k];
        const tri_slot *part = e->instr->op == TRI_OP_pack ? &p->slot[TRI_SLOT(e->instr, pack, e)] : NULL;
        if (!part || part->parent < 0 || &p->slot[part->parent] != error) continue;
        if (i >= part->parent_at && i < part->parent_at + part->cols) after = e->after[i - part->parent_at];
    }
    return after;
}

/* Error feedback loses nothing: the replicas' gradients and what was kept of the steps before are the sum that all get
 * and what is kept for the next. */
TEST(what_is_lost_is_kept) {
    static job j;
    way w = {.mesh = MESH(1, 1, 3), .n_mb = 1, .sharding = {.bucket_mb = 0.01}};
    w.compression = (tri_compression){.gradients = TRI_CODE_INT4, .feedback = 1};
    job_open(&j, &w);
    j.steps = 4, j.records = 1;
    job_run(&j);
    const tri_program *p = j.rank[0].program[0];
    double kept = 0;
    int sums = 0;
    for (int k = 0; k < j.n_events[0]; k++) {
        const event *got = &j.event[0][k];
        if (got->instr->op != TRI_OP_unpack || got->instr->attr.sums) continue;
        const char *name = tri__arena_print(&j.rank[0].arena, "r.%s", p->slot[got->instr->slot[0]].name);
        tri_attr group;
        sums++;
        for (int64_t i = 0; i < got->count; i++) {
            double in = 0, out = got->after[i], size = fabs(out), before;
            for (int r = 0; r < j.world; r++) {
                const event *sent = sender(&j, r, name, &group);
                out += lost(&j, r, sent, i, &before);
                in += sent->x[i] + before, size += fabs(sent->x[i]) + fabs(before);
                kept += fabs(before);
            }
            if (!(fabs(in - out) <= 1e-6 * size))
                fail_msg("element %lld of %s: %g becomes %g", (long long)i, name, in, out);
        }
    }
    assert_true(sums > 1 && kept > 0);
    job_close(&j);
}

/* Ranks that share a layer hold some weights in common: they stay the same on all, and so does what is kept of them,
 * although blocks that these begin or end in are coded otherwise on each. */
TEST(ranks_of_a_layer_agree) {
    static job j;
    static const tri_compression how[] = {{.gradients = TRI_CODE_INT4},
                                          {.gradients = TRI_CODE_INT8, .weights = TRI_CODE_INT8, .feedback = 1},
                                          {.gradients = TRI_CODE_BF16, .feedback = 1}};
    for (int kind = TRI_SHARD_NONE; kind <= TRI_SHARD_ZERO3; kind++)
        for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
            way w = {.mesh = MESH(1, 2, 2), .n_mb = 2, .sharding = {.kind = (tri_shard_kind)kind, .prefetch = 1}};
            char what[160];
            w.compression = how[i];
            if (kind < TRI_SHARD_ZERO3) w.compression.weights = TRI_CODE_NONE;
            say(&w, what);
            job_open(&j, &w);
            j.steps = 4;
            job_run(&j);
            for (int d = 0; d < 2; d++) {
                int a = tri__mesh_rank(&w.mesh, (tri_coords){.dp = d}),
                    b = tri__mesh_rank(&w.mesh, (tri_coords){.tp = 1, .dp = d});
                assert_true(j.n_shared[a] > 0 && j.n_shared[a] == j.n_shared[b]);
                if (memcmp(j.shared[a], j.shared[b], (size_t)j.n_shared[a] * sizeof(float)) != 0)
                    fail_msg("%s: ranks %d and %d hold different numbers of weights in common", what, a, b);
            }
            job_close(&j);
        }
}

/* The mean distance of two jobs' losses over all steps, as a share of the mean loss. */
static double apart(const job *a, const job *b) {
    double off = 0, all = 0;
    for (int step = 0; step < STEPS; step++)
        off += fabs(a->loss[0][step] - b->loss[0][step]), all += a->loss[0][step];
    return off / all;
}

/* Losses of 30 steps, in each code and with each kind of shard: near those in full, the coarser the code the less. */
TEST(trains_as_in_full) {
    static const struct {
        tri_code code;
        int feedback;
        double within;
    } codes[] = {{TRI_CODE_BF16, 0, 0.02}, {TRI_CODE_INT8, 0, 0.02}, {TRI_CODE_FP8, 1, 0.05}, {TRI_CODE_INT4, 1, 0.1}};
    static job full, coded;
    for (int kind = TRI_SHARD_NONE; kind <= TRI_SHARD_ZERO3; kind++) {
        way w = {.mesh = MESH(1, 1, 2), .n_mb = 1, .sharding = {.kind = (tri_shard_kind)kind, .prefetch = 1}};
        job_open(&full, &w);
        job_run(&full);
        w.compression = (tri_compression){.gradients = codes[kind].code, .feedback = codes[kind].feedback};
        job_open(&coded, &w);
        job_run(&coded);
        double off = apart(&full, &coded), first = coded.loss[0][0], last = coded.loss[0][STEPS - 1];
        if (!(off > 0 && off <= codes[kind].within) || !(last < 0.3 * first))
            fail_msg("%s, %s: the loss goes from %g to %g, %.1f %% apart from that in full", kind_names[kind],
                     tri__code_name(codes[kind].code), first, last, 100 * off);
        job_close(&full), job_close(&coded);
    }
}

/* A weight that is not a number on one replica: no rank applies the step, and nothing of it is kept. */
TEST(numbers_that_are_not_finite) {
    static job j;
    for (int kind = TRI_SHARD_NONE; kind <= TRI_SHARD_ZERO2; kind += 2) {
        way w = {.mesh = MESH(1, 1, 2), .n_mb = 1, .sharding = {.kind = (tri_shard_kind)kind}};
        w.compression = (tri_compression){.gradients = kind ? TRI_CODE_INT8 : TRI_CODE_INT4, .feedback = 1};
        job_open(&j, &w);
        j.steps = 2, j.spoils = 1;
        if (tri_ranks_run(&(tri_ranks){.n = 2, .heap_bytes = HEAP}, rank_main, &j) != TRI_OK)
            fail_msg("%s: %s", kind_names[kind], tri_error());
        assert_false(isfinite(j.norm[0][1]) || isfinite(j.norm[1][1]));
        job_close(&j);
    }
}

/* A rank that codes otherwise, in as many bytes: its programs do not fit those of the others. */
TEST(another_code_is_found) {
    for (int kind = TRI_SHARD_NONE; kind <= TRI_SHARD_ZERO3; kind += TRI_SHARD_ZERO3) {
        tiny t[2];
        for (int r = 0; r < 2; r++) {
            way w = {.mesh = MESH(1, 1, 2), .n_mb = 1, .sharding = {.kind = (tri_shard_kind)kind}};
            w.compression.gradients = r ? TRI_CODE_FP8 : TRI_CODE_INT8;
            open_way(&t[r], &w, r);
            tiny_plan(&t[r]);
        }
        const tri_program *train[] = {t[0].program[TRI_TRAIN], t[1].program[TRI_TRAIN]};
        assert_int_equal(tri__check(train, 2), TRI_INTERNAL);
        if (!strstr(tri_error(), "do not fit together")) fail_msg("said: %s", tri_error());
        tiny_close(&t[0]), tiny_close(&t[1]);
    }
}

static void refuse(way w, const char *words) {
    tiny t;
    if (!w.n_mb) w.n_mb = 1;
    open_way(&t, &w, 0);
    assert_int_equal(tri__plan(&t.arena, &t.in, 1, &t.plan), TRI_USAGE);
    if (!strstr(tri_error(), words)) fail_msg("said: %s", tri_error());
    tiny_close(&t);
}

TEST(refusals) {
    const tri_compression int8 = {.gradients = TRI_CODE_INT8}, node = {.gradients = TRI_CODE_INT8, .within = 2},
                          weights = {.weights = TRI_CODE_INT8};
    const tri_mesh four = MESH(1, 1, 4);
    refuse((way){.mesh = MESH(1, 1, 64), .sharding = {.kind = TRI_SHARD_ZERO1}, .compression = int8},
           "--compress-gradients int8: no transfer has the 256 elements");
    refuse((way){.mesh = four, .compression = {.gradients = TRI_CODE_INT8, .within = -1}}, "different numbers");
    refuse((way){.mesh = MESH(1, 1, 2), .compression = node}, "--compress-scope world");
    refuse((way){.mesh = four, .sharding = {.kind = TRI_SHARD_ZERO2}, .compression = node},
           "--shard hybrid --shard-size 2");
    refuse((way){.mesh = MESH(1, 1, 8),
                 .sharding = {.kind = TRI_SHARD_HYBRID, .size = 4},
                 .compression = {.gradients = TRI_CODE_INT8, .within = 2}},
           "span machines");
    refuse((way){.mesh = four, .compression = weights}, "--compress-weights int8: only --shard zero3");
    refuse((way){.mesh = four,
                 .sharding = {.kind = TRI_SHARD_HYBRID, .size = 2},
                 .compression = {.weights = TRI_CODE_INT8, .within = 2}},
           "gathered within a machine");
    refuse((way){.mesh = four,
                 .sharding = {.kind = TRI_SHARD_ZERO3},
                 .compression = {.weights = TRI_CODE_BF16},
                 .precision = TRI_BF16},
           "already");
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
