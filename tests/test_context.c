/* test_context.c - ranks that share the tokens of each text (context parallelism) train like one rank: alone, with
 * ranks that share layers, stages, replicas and every shard, with recomputation; a run moves to other meshes; programs
 * of all meshes of up to 16 ranks fit together. SOAK_STEPS=100: every combination. */
#include "session_runs.h"

#include "soak.h"

enum { STEPS = 6 };

typedef struct mesh_case {
    int cp, tp, pp, dp;
    int mb;
    const char *more[3];
} mesh_case;

static int make_model(void **state) {
    if (make_data(state)) return 1;
    const char *form =
        "{\"label_name\": \"label\", \"primary_text_name\": \"review\", \"secondary_text_name\": \"title\","
        " \"tab_field_list\": [\"age\", \"score\"], \"primary_tokenizer\": \"vocab\", \"pooling\": \"%s\","
        " \"hidden_common_dim\": 16, \"fusion_hidden_dim\": 12, \"max_sen_len\": 12, \"lr\": 0.002,"
        " \"warmup_steps\": 2, \"global_batch_size\": 16,"
        " \"primary_encoder\": {\"hidden_size\": 32, \"num_hidden_layers\": 2, \"num_attention_heads\": 8,"
        " \"intermediate_size\": 32, \"max_position_embeddings\": 16},"
        " \"secondary_encoder\": {\"hidden_size\": 16, \"num_hidden_layers\": 1,"
        " \"num_attention_heads\": 8, \"intermediate_size\": 24, \"max_position_embeddings\": 16}}";
    char text[2048];
    snprintf(text, sizeof text, form, "pooler");
    write_file("pooler.json", text);
    snprintf(text, sizeof text, form, "mean");
    write_file("mean.json", text);
    return 0;
}

static run of_mesh(const mesh_case *c, const char *config, char text[static 5][48]) {
    run made = {
        .config = config, .output = "shared", .ranks = c->cp * c->tp * c->pp * c->dp, .steps = STEPS, .evaluate = 1};
    snprintf(text[0], 48, "--cp-size=%d", c->cp);
    snprintf(text[1], 48, "--tp-size=%d", c->tp);
    snprintf(text[2], 48, "--pp-size=%d", c->pp);
    snprintf(text[3], 48, "--dp-size=%d", c->dp);
    snprintf(text[4], 48, "--num-microbatches=%d", c->mb);
    for (int i = 0; i < 5; i++) made.option[i] = text[i];
    for (int i = 0; i < 3; i++) made.option[5 + i] = c->more[i];
    return made;
}

/* DESIGN 3: |dloss| <= 2e-6 max(loss, 0.1), 1e-5 where ranks share layers. */
static void expect_near(const mesh_case *c, const run *one, const run *have) {
    double most = c->tp > 1 ? 1e-5 : 2e-6;
    for (int k = 0; k < STEPS; k++)
        if (!(fabs(have->loss[0][k] - one->loss[0][k]) <= most * fmax(one->loss[0][k], 0.1)))
            fail_msg("cp %d, tp %d, pp %d, dp %d %s: loss of step %d is %.9g, not %.9g", c->cp, c->tp, c->pp, c->dp,
                     c->more[0] ? c->more[0] : "", k + 1, have->loss[0][k], one->loss[0][k]);
    for (int rank = 0; rank < have->ranks; rank++)
        if (!(fabs(have->scores[rank].loss - one->scores[0].loss) <= 1e-5))
            fail_msg("cp %d, tp %d, pp %d, dp %d: rank %d evaluates %.9g, not %.9g", c->cp, c->tp, c->pp, c->dp, rank,
                     have->scores[rank].loss, one->scores[0].loss);
}

static const mesh_case cases[] = {
    {2, 1, 1, 1, 1, {NULL}},
    {2, 2, 1, 1, 1, {"--shard=zero1"}},
    {2, 1, 2, 1, 2, {"--recompute=full"}},
    {2, 1, 1, 2, 1, {"--shard=zero3"}},
    {4, 1, 1, 1, 1, {"--shard=zero2"}},
    {2, 2, 2, 2, 2, {"--schedule=zb-h1"}},
    {3, 1, 1, 1, 1, {NULL}}, /* 8 heads: a ring */
    {2, 2, 1, 1, 1, {"--cp-mode=ring"}},
    {2, 1, 2, 1, 2, {"--cp-mode=ring", "--recompute=full"}},
    {3, 1, 1, 2, 1, {"--cp-mode=ring", "--shard=zero3"}},
    /* SOAK_STEPS */
    {4, 1, 1, 1, 1, {"--cp-mode=ring", "--recompute=selective"}},
    {2, 2, 2, 1, 2, {"--cp-mode=ring", "--sequence-parallel=no", "--schedule=zb-h1"}},
    {3, 1, 1, 1, 2, {"--cp-mode=ring", "--shard=zero2", "--offload=optimizer"}},
    {5, 1, 2, 1, 2, {"--cp-mode=ring", "--schedule=interleaved"}},
    {8, 2, 1, 1, 1, {"--cp-mode=ring"}},
    {8, 1, 1, 1, 1, {NULL}},
    {2, 2, 1, 1, 2, {"--sequence-parallel=no"}},
    {2, 2, 1, 2, 1, {"--shard=hybrid", "--shard-size=2"}},
    {2, 1, 2, 2, 4, {"--shard=zero2", "--recompute=selective"}},
    {2, 1, 4, 1, 4, {"--schedule=interleaved", "--recompute=full"}},
    {4, 2, 1, 1, 1, {"--shard=zero3", "--offload=optimizer"}},
    {4, 1, 2, 2, 2, {"--shard=hybrid", "--shard-size=4"}},
    {2, 4, 2, 1, 2, {"--sequence-parallel=no"}},
};
enum { QUICK = 10, ALL = sizeof cases / sizeof *cases };

static void like_one_rank(void **state) {
    (void)state;
    static const char *const configs[] = {"pooler.json", "mean.json"};
    int n = soak_count("SOAK_STEPS", 0) ? ALL : QUICK;
    for (int config = 0; config < 2; config++) {
        run alone = {.config = configs[config], .output = "one", .steps = STEPS, .evaluate = 1};
        run *one = run_on(&alone);
        for (int i = 0; i < n; i++) {
            if (n == QUICK && (i < 6 ? i : i / 2) % 2 != config) continue;
            char text[5][48];
            run asked = of_mesh(&cases[i], configs[config], text), *have = run_on(&asked);
            expect_near(&cases[i], one, have);
            run_free(have);
        }
        run_free(one);
    }
}

/* A run that is stopped goes on to the bit on its mesh, and close to it on one rank. */
static void goes_on(const mesh_case *shared) {
    char text[5][48], other[5][48];
    const mesh_case alone = {1, 1, 1, 1, 1, {NULL}};
    run whole = of_mesh(shared, "pooler.json", text), *all = run_on(&whole);
    for (int moved = 0; moved < 2; moved++) {
        run first = of_mesh(shared, "pooler.json", text);
        first.steps = STEPS / 2, first.save = 1;
        run_free(run_on(&first));
        run rest = of_mesh(moved ? &alone : shared, "pooler.json", other);
        rest.steps = STEPS - STEPS / 2, rest.keep_going = 1;
        run *then = run_on(&rest);
        for (int k = 0; k < then->steps; k++) {
            double want = all->loss[0][STEPS / 2 + k], off = fabs(then->loss[0][k] - want);
            if (!(off <= (moved ? 2e-6 * fmax(want, 0.1) : 0)))
                fail_msg("%s: loss %.9g in place of %.9g", moved ? "on one rank" : "again", then->loss[0][k], want);
        }
        run_free(then);
    }
    run_free(all);
}

static void goes_on_anywhere(void **state) {
    (void)state;
    goes_on(&(mesh_case){2, 1, 1, 2, 1, {"--shard=zero1"}});
    goes_on(&(mesh_case){3, 1, 1, 1, 1, {"--cp-mode=ring"}});
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(like_one_rank), cmocka_unit_test(goes_on_anywhere)};
    return cmocka_run_group_tests(tests, make_model, remove_data);
}
