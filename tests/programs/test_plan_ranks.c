/* test_plan_ranks.c - programs of all ranks planned together, in classes, are textually those planned one by one;
 * checking classes checks every rank; simulated times are equal; planning memory grows with classes, not ranks. */
#include "tests/lib/test.h"
#include "tests/lib/tiny.h"

#include "program/text.h"
#include "sim/timeline.h"

enum { WORLD = 64, NEAR_BYTES = 1 << 12 };

/* A job of tests: everything that plans of ranks may depend on. */
typedef struct job {
    tri_mesh mesh;
    tri_shard_kind kind;
    int half;                  /* 16 bits and full recomputation */
    int fp8;                   /* FP8 training */
    int64_t wrap;              /* parameters of a block; 0: a unit each */
    unsigned offload;
} job;

static void open_job(tiny *t, const job *j) {
    tiny_open(t, "cpu", 2, 3, 0.1, 2);
    static char *no_decay[] = {"bias", "LayerNorm.weight", "norm.weight"};
    t->encoder[1].num_attention_heads = 4; /* two ranks share a layer */
    for (int b = 0; b < 2 && j->fp8; b++) {
        tri_encoder *e = &t->encoder[b];
        e->hidden_size = e->intermediate_size = 64, e->num_attention_heads = 4, e->num_hidden_layers = 4;
    }
    t->config.windows = 1 + j->half;
    for (int b = 0; b < 2 && j->half; b++) t->in.max.of[TRI_SYM_W0 + b] = 2 * t->in.max.of[TRI_SYM_N];
    t->in.max_infer = t->in.max;
    tri__model_make(&t->arena, &t->config, t->encoder, (tri_columns){.n = 3}, (tri_texts){no_decay, 3}, &t->model);
    t->in.mesh = j->mesh;
    t->in.sharding = (tri_sharding){.kind = j->kind,
                                    .size = j->mesh.dp % 8 == 0   ? 4
                                            : j->mesh.dp % 2 == 0 ? 2
                                                                  : 1,
                                    .prefetch = 1,
                                    .wrap = j->wrap ? TRI_WRAP_SIZE : TRI_WRAP_LAYER,
                                    .wrap_min_params = j->wrap};
    t->in.sequence_parallel = j->mesh.tp > 1;
    t->in.precision = j->half || j->fp8 ? TRI_BF16 : TRI_F32, t->in.fp8 = j->fp8;
    t->in.recompute = j->half ? TRI_RECOMPUTE_FULL : TRI_RECOMPUTE_NONE;
    t->in.offload = j->offload;
    t->in.fed = t->in.replicate = j->half;
    t->target.ahead = j->offload ? NEAR_BYTES : 0;
    t->target.lanes = j->wrap ? TRI_LANES : 1;
}

static void fail_job(const job *j, int rank, const char *what) {
    fail_msg("pp %d tp %d dp %d, sharding %d, half %d, wrap %d, offload %u, rank %d: %s", j->mesh.pp, j->mesh.tp,
             j->mesh.dp, j->kind, j->half, (int)j->wrap, j->offload, rank, what);
}

/* The text that the rule of its class gives for a rank, and the one that it has when it is planned alone. */
static void compare_rank(tiny *t, const job *j, const tri_classes *all, int rank) {
    tri_rank_plan plan;
    size_t used = t->arena.used;
    t->in.rank = rank;
    OK(tri__plan(&t->arena, &t->in, 1, &plan));
    const tri_program *alone[] = {plan.train.program, plan.infer.program, plan.start, plan.exchange};
    for (int i = 0; i < TRI_PROGRAMS; i++) {
        char *got, *want;
        const tri_program *ruled = tri__classes_program(&all[i], &t->arena, rank);
        OK(tri__program_text(ruled, &got));
        OK(tri__program_text(alone[i], &want));
        if (strcmp(got, want) != 0) fail_job(j, rank, "planned together it is another program");
        if (!tri__program_equal(ruled, alone[i])) fail_job(j, rank, "the same text, but not the same program");
        free(got), free(want);
    }
    tri__arena_rewind(&t->arena, used);
}

/* Ranks one by one, as a list of programs. */
static void list_all(tri_arena *arena, const tri_classes *all, const tri_program **program, tri_classes *list) {
    for (int rank = 0; rank < all->world; rank++) program[rank] = tri__classes_program(all, arena, rank);
    OK(tri__classes_list(list, arena, program, all->world));
}

/* Every rank takes the same time, whether classes are simulated or all ranks. */
static void compare_times(tiny *t, const job *j, const tri_classes *all, const tri_classes *list, int per_node) {
    tri_hardware hardware;
    tri_timeline few, each;
    OK(tri__hardware_open(&t->arena, per_node % 2 ? "a100x8" : "cpu", &hardware));
    hardware.ranks_per_node = per_node;
    const tri_costs costs = {.hardware = &hardware};
    OK(tri__timeline(&t->arena, all, &costs, &few));
    OK(tri__timeline(&t->arena, list, &costs, &each));
    assert_int_equal(each.roles.n, all->world);
    assert_true(few.seconds == each.seconds && tri__timeline_idle(&few) == tri__timeline_idle(&each));
    for (int rank = 0; rank < all->world; rank++) {
        const tri_rank_timeline *a = tri__timeline_of(&few, rank), *b = tri__timeline_of(&each, rank);
        if (a->busy != b->busy || a->exposed != b->exposed || a->idle != b->idle || a->moving != b->moving ||
            a->finish != b->finish)
            fail_job(j, rank, "simulated for its class it takes another time");
        assert_int_equal(a->program->n_instrs, b->program->n_instrs);
        assert_memory_equal(a->begin, b->begin, (size_t)a->program->n_instrs * sizeof *a->begin);
        assert_memory_equal(a->end, b->end, (size_t)a->program->n_instrs * sizeof *a->end);
    }
}

/* Plans for figures have the memory and the times of every rank. */
static void compare_figures(tiny *t, const job *j, const tri_classes *all) {
    tri_classes few[TRI_PROGRAMS];
    tri_hardware hardware;
    tri_timeline a, b;
    OK(tri__plan_figures(&t->arena, &t->in, 1u << TRI_TRAIN | 1u << TRI_INFER | 1u << TRI_START, few));
    OK(tri__hardware_open(&t->arena, "h200x8", &hardware));
    const tri_costs costs = {.hardware = &hardware};
    OK(tri__timeline(&t->arena, &all[TRI_TRAIN], &costs, &a));
    OK(tri__timeline(&t->arena, &few[TRI_TRAIN], &costs, &b));
    if (a.seconds != b.seconds) fail_job(j, 0, "planned for figures, the step takes another time");
    for (int rank = 0; rank < all[TRI_TRAIN].world; rank++) {
        for (int i = 0; i < TRI_PROGRAMS; i++) {
            if (i == TRI_EXCHANGE) continue;
            const tri_program *whole = tri__class_of(&all[i], rank, NULL)->program,
                              *part = tri__class_of(&few[i], rank, NULL)->program;
            if (memcmp(whole->bytes, part->bytes, sizeof whole->bytes) != 0)
                fail_job(j, rank, "planned for figures, it has other memory");
        }
        if (tri__timeline_of(&a, rank)->busy != tri__timeline_of(&b, rank)->busy)
            fail_job(j, rank, "planned for figures, it computes for another time");
    }
    int rows = all[TRI_TRAIN].mesh.pp * (all[TRI_TRAIN].mesh.tp > 2 ? 2 : all[TRI_TRAIN].mesh.tp);
    if (few[TRI_TRAIN].first[rows] != few[TRI_TRAIN].n) fail_job(j, 0, "ranks that are alike are planned again");
}

static void compare(const job *j) {
    tiny t;
    tri_classes all[TRI_PROGRAMS], list;
    const tri_program *program[WORLD];
    open_job(&t, j);
    OK(tri__plan_ranks(&t.arena, &t.in, 1, all));
    for (int i = 0; i < TRI_PROGRAMS; i++) {
        OK(tri__check_all(&all[i]));
        list_all(&t.arena, &all[i], program, &list);
        if (all[i].world > 1) OK(tri__check_all(&list));
        if (i != TRI_INFER) compare_times(&t, j, &all[i], &list, 8), compare_times(&t, j, &all[i], &list, 3);
    }
    for (int rank = 0; rank < all[TRI_TRAIN].world; rank++) compare_rank(&t, j, all, rank);
    compare_figures(&t, j, all);
    tiny_close(&t);
}

TEST(together_as_one_by_one) {
    static const tri_mesh meshes[] = {
        {.pp = 1, .tp = 1, .dp = 1},
        {.pp = 1, .tp = 1, .dp = 3},
        {.pp = 2, .tp = 1, .dp = 2},
        {.pp = 1, .tp = 1, .dp = 8},
        {.pp = 1, .tp = 2, .dp = 2},
        {.pp = 2, .tp = 2, .dp = 2},
        {.pp = 2, .tp = 1, .dp = 4, .order = {TRI_AXIS_DP, TRI_AXIS_TP, TRI_AXIS_PP}},
    };
    for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++)
        for (int kind = TRI_SHARD_NONE; kind <= TRI_SHARD_HYBRID; kind++)
            for (int half = 0; half < 2; half++)
                compare(&(job){.mesh = meshes[m], .kind = (tri_shard_kind)kind, .half = half});
}

TEST(large_meshes) {
    static const job jobs[] = {
        {.mesh = {.pp = 1, .tp = 1, .dp = 64}, .kind = TRI_SHARD_NONE},
        {.mesh = {.pp = 1, .tp = 1, .dp = 64}, .kind = TRI_SHARD_ZERO1, .half = 1},
        {.mesh = {.pp = 1, .tp = 1, .dp = 23}, .kind = TRI_SHARD_ZERO2},
        {.mesh = {.pp = 1, .tp = 1, .dp = 64}, .kind = TRI_SHARD_ZERO3, .wrap = 3000},
        {.mesh = {.pp = 1, .tp = 1, .dp = 32}, .kind = TRI_SHARD_HYBRID, .half = 1},
        {.mesh = {.pp = 2, .tp = 2, .dp = 16}, .kind = TRI_SHARD_ZERO1},
        {.mesh = {.pp = 4, .tp = 2, .dp = 6}, .kind = TRI_SHARD_ZERO3, .half = 1},
        {.mesh = {.pp = 2, .tp = 4, .dp = 4, .order = {TRI_AXIS_PP, TRI_AXIS_DP, TRI_AXIS_TP}},
         .kind = TRI_SHARD_HYBRID},
        {.mesh = {.pp = 1, .tp = 1, .dp = 12}, .kind = TRI_SHARD_ZERO1, .wrap = 1000, .offload = 1u << TRI_MEM_STATE},
        {.mesh = {.pp = 1, .tp = 2, .dp = 10},
         .kind = TRI_SHARD_ZERO2,
         .half = 1,
         .offload = 1u << TRI_MEM_STATE | 1u << TRI_MEM_PARAM},
        /* the second rank of a layer has no part of some units: it squares none of the gradients that are copied */
        {.mesh = {.pp = 1, .tp = 2, .dp = 2},
         .kind = TRI_SHARD_ZERO1,
         .offload = 1u << TRI_MEM_STATE | 1u << TRI_MEM_GRAD | 1u << TRI_MEM_ACT},
    };
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) compare(&jobs[i]);
}

TEST(fp8_training) {
    static const job jobs[] = {
        {.mesh = {.pp = 1, .tp = 1, .dp = 1}, .fp8 = 1, .wrap = 1000},
        {.mesh = {.pp = 1, .tp = 1, .dp = 3}, .fp8 = 1, .kind = TRI_SHARD_ZERO3},
        {.mesh = {.pp = 1, .tp = 1, .dp = 40}, .fp8 = 1, .kind = TRI_SHARD_ZERO3, .half = 1},
        {.mesh = {.pp = 1, .tp = 2, .dp = 12}, .fp8 = 1, .kind = TRI_SHARD_ZERO3, .wrap = 60000},
        {.mesh = {.pp = 1, .tp = 1, .dp = 5}, .fp8 = 1, .kind = TRI_SHARD_ZERO3, .offload = 1u << TRI_MEM_PARAM},
        {.mesh = {.pp = 1, .tp = 1, .dp = 8}, .fp8 = 1, .kind = TRI_SHARD_HYBRID, .half = 1},
        {.mesh = {.pp = 1, .tp = 1, .dp = 12}, .fp8 = 1, .kind = TRI_SHARD_ZERO2, .wrap = 3000},
        {.mesh = {.pp = 2, .tp = 2, .dp = 2}, .fp8 = 1, .kind = TRI_SHARD_ZERO1},
        {.mesh = {.pp = 3, .tp = 1, .dp = 2}, .fp8 = 1, .kind = TRI_SHARD_ZERO3, .half = 1},
        {.mesh = {.pp = 1, .tp = 4, .dp = 2}, .fp8 = 1, .kind = TRI_SHARD_NONE, .half = 1},
        {.mesh = {.pp = 1, .tp = 1, .dp = 2}, .fp8 = 1, .kind = TRI_SHARD_ZERO1,
         .offload = 1u << TRI_MEM_STATE | 1u << TRI_MEM_GRAD | 1u << TRI_MEM_ACT},
    };
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) compare(&jobs[i]);
}

/* Of a thousand ranks, some of each class. */
TEST(a_thousand) {
    static const job jobs[] = {
        {.mesh = {.pp = 1, .tp = 1, .dp = 1024}, .kind = TRI_SHARD_NONE},
        {.mesh = {.pp = 1, .tp = 1, .dp = 1024}, .kind = TRI_SHARD_ZERO3},
        {.mesh = {.pp = 2, .tp = 2, .dp = 256}, .kind = TRI_SHARD_ZERO1, .half = 1},
        {.mesh = {.pp = 1, .tp = 1, .dp = 1024}, .kind = TRI_SHARD_HYBRID},
    };
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        tiny t;
        tri_classes all[TRI_PROGRAMS];
        open_job(&t, &jobs[i]);
        OK(tri__plan_ranks(&t.arena, &t.in, 1, all));
        const tri_classes train = all[TRI_TRAIN];
        for (int k = 0; k < TRI_PROGRAMS; k++) OK(tri__check_all(&all[k]));
        for (int c = 0; c < train.n; c++) {
            tri_coords at = tri__mesh_coords(&train.mesh, train.at[c].program->rank);
            at.dp += train.at[c].n / 2;
            compare_rank(&t, &jobs[i], all, tri__mesh_rank(&train.mesh, at));
        }
        for (int rank = 7; rank < train.world; rank += 97) compare_rank(&t, &jobs[i], all, rank);
        tiny_close(&t);
    }
}

/* What the programs of a mesh take. */
static size_t bytes_of(const job *j, int *classes) {
    tiny t;
    tri_classes all[TRI_PROGRAMS];
    open_job(&t, j);
    size_t used = t.arena.used;
    OK(tri__plan_ranks(&t.arena, &t.in, 1, all));
    const tri_classes train = all[TRI_TRAIN];
    used = t.arena.used - used;
    *classes = train.n;
    for (int rank = 0; rank < train.world; rank++) { /* each rank is a member of its class, and of no other */
        int member;
        const tri_class *class = tri__class_of(&train, rank, &member);
        tri_coords at = tri__mesh_coords(&train.mesh, rank),
                   first = tri__mesh_coords(&train.mesh, class->program->rank);
        assert_true(member >= 0 && member < class->n && at.pp == first.pp && at.tp == first.tp);
        assert_int_equal(at.dp % train.period, first.dp + member);
    }
    tiny_close(&t);
    return used;
}

TEST(grows_with_classes) {
    for (int kind = TRI_SHARD_NONE; kind <= TRI_SHARD_HYBRID; kind++) {
        int few, many;
        job j = {.mesh = {.pp = 2, .tp = 1, .dp = 4096}, .kind = (tri_shard_kind)kind};
        size_t small = bytes_of(&j, &few);
        j.mesh.dp = 65536;
        size_t large = bytes_of(&j, &many);
        assert_true(many < 200);
        assert_true(large <= small + small / 8);
    }
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
