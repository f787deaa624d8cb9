/* test_plan_ranks.c - programs of all ranks that are planned together are those that are planned one by one, to the letter; and what ranks
 * have in common is kept once. */
#include "tiny.h"

#include "program/text.h"

enum { WORLD = 8 };

static void compare(tiny *t, tri_mesh mesh, const char *what) {
    const tri_program *train[WORLD], *infer[WORLD];
    int world = tri__mesh_world(&mesh);
    t->in.mesh = mesh;
    OK(tri__plan_programs(&t->arena, &t->in, train, infer));
    OK(tri__check(train, world));
    OK(tri__check(infer, world));
    for (int rank = 0; rank < world; rank++) {
        tri_plan plan;
        t->in.rank = rank;
        OK(tri__plan(&t->arena, &t->in, 1, &plan));
        const tri_program *pairs[2][2] = {{train[rank], plan.train.program}, {infer[rank], plan.infer.program}};
        for (int i = 0; i < 2; i++) {
            char *got, *want;
            OK(tri__program_text(pairs[i][0], &got));
            OK(tri__program_text(pairs[i][1], &want));
            if (strcmp(got, want) != 0) fail_msg("%s, rank %d: planned together it is another program", what, rank);
            free(got), free(want);
        }
    }
}

static void together_as_one_by_one(void **state) {
    (void)state;
    static const tri_mesh meshes[] = {
        {.pp = 1, .tp = 1, .dp = 1}, {.pp = 1, .tp = 1, .dp = 3}, {.pp = 2, .tp = 1, .dp = 2},
        {.pp = 1, .tp = 2, .dp = 2}, {.pp = 2, .tp = 2, .dp = 2},
        {.pp = 2, .tp = 1, .dp = 4, .order = {TRI_AXIS_DP, TRI_AXIS_TP, TRI_AXIS_PP}},
    };
    for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++)
        for (int kind = TRI_SHARD_NONE; kind <= TRI_SHARD_HYBRID; kind++)
            for (int half = 0; half < 2; half++) {
                tiny t;
                char what[128];
                if (kind == TRI_SHARD_HYBRID && meshes[m].dp % 2) continue;
                tiny_open(&t, "cpu", 2, 3, 0.1, 2);
                t.encoder[1].num_attention_heads = 4; /* two ranks share a layer */
                tri__model_make(&t.arena, &t.config, t.encoder, 3, (tri_texts){0}, &t.model);
                t.in.sharding = (tri_sharding){.kind = (tri_shard_kind)kind, .size = 2, .prefetch = 1};
                t.in.sequence_parallel = meshes[m].tp > 1;
                t.in.precision = half ? TRI_BF16 : TRI_F32;
                t.in.recompute = half ? TRI_RECOMPUTE_FULL : TRI_RECOMPUTE_NONE;
                snprintf(what, sizeof what, "pp %d tp %d dp %d, sharding %d, half %d", meshes[m].pp, meshes[m].tp, meshes[m].dp, kind,
                         half);
                compare(&t, meshes[m], what);
                tiny_close(&t);
            }
}

/* Without shards, replicas differ in the few slots that say whose part of the norm is whose. */
static void kept_once(void **state) {
    (void)state;
    tiny t;
    const tri_program *train[WORLD], *infer[WORLD];
    tiny_open(&t, "cpu", 2, 3, 0.1, 2);
    t.in.mesh = (tri_mesh){.pp = 1, .tp = 1, .dp = WORLD};
    OK(tri__plan_programs(&t.arena, &t.in, train, infer));
    for (int rank = 1; rank < WORLD; rank++) {
        assert_ptr_equal(train[rank]->instr, train[0]->instr);
        assert_ptr_equal(infer[rank]->instr, infer[0]->instr);
        assert_ptr_equal(infer[rank]->slot, infer[0]->slot);
        assert_ptr_equal(train[rank]->unit, train[0]->unit);
        assert_int_equal(train[rank]->rank, rank);
    }
    size_t used = t.arena.used;
    OK(tri__plan_programs(&t.arena, &t.in, NULL, infer)); /* only the forward programs */
    assert_true(t.arena.used - used < used);
    tiny_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(together_as_one_by_one), cmocka_unit_test(kept_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
