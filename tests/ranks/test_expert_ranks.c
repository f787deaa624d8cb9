/* test_expert_ranks.c - ranks that share the experts of layers (expert parallelism) train like one rank that holds all:
 * with stages, ranks that share layers, every shard, recomputation, layers left out and 16-bit numbers; the same tokens
 * are dropped; runs repeat to the bit and move to other meshes; programs of all meshes of up to 16 ranks fit together.
 * SOAK_STEPS=100: every case. */
#include "tests/lib/test.h"
#include "tests/lib/mesh_cases.h"

enum { EXPERTS = 4 };

enum { TOP1, TOP2, BF16, DROPPED, WINDOWS, LAMB };
static const mesh_family families[] = {
    [TOP1] = {"top1.json", {NULL}, 0},
    [TOP2] = {"top2.json", {NULL}, 0},
    [BF16] = {"top2.json", {"--precision=bf16"}, 1e-3},
    [DROPPED] = {"top1.json", {"--layer-drop=theta=0.3,gamma=0.4"}, 0},
    [WINDOWS] = {"top1.json", {"--windows=3", "--max-sen-len=7", "--stride=3"}, 0},
    [LAMB] = {"top2.json", {"--optimizer=lamb", "--lr=0.1"}, 0}, /* ratios of a rank's own experts would show */
};

static void write_config(const char *name, int per_token, double factor, const char *layers, double balance) {
    char text[2048], experts[256];
    snprintf(experts, sizeof experts,
             ", \"num_experts\": %d, \"experts_per_token\": %d, \"expert_capacity_factor\": %g, \"expert_layers\": %s,"
             " \"router_aux_loss_coef\": %g",
             EXPERTS, per_token, factor, layers, balance);
    snprintf(text, sizeof text,
             "{\"label_name\": \"label\", \"primary_text_name\": \"review\", \"secondary_text_name\": \"title\","
             " \"tab_field_list\": [\"age\", \"score\"], \"primary_tokenizer\": \"vocab\","
             " \"hidden_common_dim\": 16, \"fusion_hidden_dim\": 12, \"max_sen_len\": 12, \"lr\": 0.002,"
             " \"warmup_steps\": 2, \"global_batch_size\": 16,"
             " \"primary_encoder\": {\"hidden_size\": 32, \"num_hidden_layers\": 2, \"num_attention_heads\": 8,"
             " \"intermediate_size\": 32, \"max_position_embeddings\": 16%s},"
             " \"secondary_encoder\": {\"hidden_size\": 16, \"num_hidden_layers\": 1,"
             " \"num_attention_heads\": 8, \"intermediate_size\": 24, \"max_position_embeddings\": 16}}",
             experts);
    write_file(name, text);
}

static int make_model(void **state) {
    if (make_data(state)) return 1;
    write_config("top1.json", 1, 1, "[1]", 0.01);
    write_config("top2.json", 2, 1.25, "\"every 1\"", 0.01);
    write_config("balanced.json", 1, 1, "[1]", 1);
    return 0;
}

/* Norms, and which tokens are dropped; 16-bit numbers may choose another expert where two are as good. */
static void expect_drops(const mesh_case *c, const char *name, double most, const run *one, const run *have) {
    for (int k = 0; k < MESH_STEPS; k++) {
        double norm = one->norm[0][k];
        if (!(fabs(have->norm[0][k] - norm) <= 10 * most * norm))
            fail_msg("%s: norm of step %d is %.9g, not %.9g", name, k + 1, have->norm[0][k], norm);
        for (int rank = 0; rank < have->ranks && families[c->family].bound == 0; rank++)
            if (have->dropped[rank][k] != one->dropped[0][k])
                fail_msg("%s: %g tokens are dropped in step %d, not %g", name, have->dropped[rank][k], k + 1,
                         one->dropped[0][k]);
    }
    assert_true(c->family == WINDOWS || one->dropped[0][0] > 0);
}

static const mesh_case cases[] = {
    {TOP2, 2, 1, 1, 2, 1, 1, {NULL}},
    {TOP1, 2, 1, 1, 4, 1, 1, {"--shard=zero3"}},
    {TOP2, 4, 1, 1, 4, 2, 1, {"--shard=zero2"}},
    {TOP1, 2, 1, 2, 2, 2, 1, {"--recompute=full"}},
    {TOP2, 2, 2, 1, 2, 1, 1, {"--shard=zero1"}},
    {TOP1, 1, 2, 1, 2, 1, 0, {NULL}},
    {TOP1, 4, 1, 1, 4, 1, 0, {"--shard=zero3"}}, /* no other rank has the same experts */
    {TOP2, 4, 1, 1, 4, 2, 0, {"--shard=zero1"}},
    {TOP2, 2, 1, 1, 4, 2, 0, {"--shard=zero2", "--recompute=selective"}},
    {TOP1, 2, 1, 1, 4, 3, 0, {"--shard=zero1", "--wrap=size", "--wrap-min-params=2000"}},
    {TOP2, 2, 1, 2, 4, 4, 0, {"--shard=zero3", "--schedule=zb-h1"}},
    {TOP1, 2, 2, 2, 2, 2, 0, {"--schedule=interleaved"}},
    {TOP2, 4, 2, 1, 8, 1, 0, {"--shard=zero3"}},
    {TOP1, 2, 1, 1, 6, 1, 0, {"--offload=optimizer", "--shard=zero1"}},
    {TOP2, 4, 1, 4, 4, 4, 0, {"--schedule=zbv"}},
    {TOP1, 2, 1, 1, 16, 1, 0, {"--shard=zero2"}}, /* a sample a replica */
    {BF16, 2, 1, 1, 4, 1, 1, {"--shard=zero3"}},
    {BF16, 4, 1, 2, 4, 2, 0, {"--shard=zero1"}},
    {DROPPED, 2, 1, 1, 2, 2, 1, {"--shard=zero3"}},
    {DROPPED, 2, 1, 2, 4, 2, 0, {NULL}},
    {WINDOWS, 2, 1, 1, 2, 1, 1, {NULL}},
    {WINDOWS, 4, 1, 1, 4, 2, 0, {"--shard=zero2"}},
    {LAMB, 2, 1, 1, 4, 1, 1, {"--shard=zero1"}},
    {LAMB, 4, 1, 1, 4, 1, 1, {NULL}},
    {LAMB, 2, 2, 1, 4, 1, 0, {"--shard=zero3"}},
};
static const mesh_cases shared_experts = {.axis = "ep",
                                          .families = families,
                                          .split_option = "--sequence-parallel=no",
                                          .at = cases,
                                          .n = sizeof cases / sizeof *cases,
                                          .also = expect_drops};

TEST(like_one_rank) {
    mesh_like_one_rank(&shared_experts);
}

/* The balancing loss has the loss scale, too: where it is much of the gradient, fp16's norm is that of fp32. */
TEST(balance_is_scaled) {
    run light = {.config = "top1.json", .output = "scaled", .steps = 1}, asked = light;
    asked.config = "balanced.json";
    run *plain = run_on(&light), *one = run_on(&asked);
    asked.option[0] = "--precision=fp16";
    run *scaled = run_on(&asked);
    double want = one->norm[0][0], have = scaled->norm[0][0];
    if (!(want > 1.3 * plain->norm[0][0])) fail_msg("balancing: %.9g, without %.9g", want, plain->norm[0][0]);
    if (!(fabs(have - want) <= 0.02 * want)) fail_msg("norm in fp16: %.9g, not %.9g", have, want);
    run_free(plain);
    run_free(one);
    run_free(scaled);
}

/* Places of an expert for a sequence. */
TEST(places_of_lengths) {
    const tri_capacity some = {.experts = 10, .per_token = 1, .factor = 1.1}, all = {4, 2, 4};
    assert_int_equal(tri__capacity(&some, 100), 11); /* 1.1 * 100 / 10 is above 11 only by rounding */
    assert_int_equal(tri__capacity(&some, 101), 12);
    assert_int_equal(tri__capacity(&some, 3), 1);
    assert_int_equal(tri__capacity(&all, 3), 3);
}

/* A run that is stopped goes on to the bit on its mesh, and close to it on others. */
TEST(goes_on_anywhere) {
    static const mesh_case meshes[] = {{TOP2, 2, 1, 1, 2, 1, 1, {"--shard=zero1"}},
                                       {TOP2, 1, 1, 1, 1, 1, 1, {NULL}},
                                       {TOP2, 4, 1, 1, 4, 1, 1, {"--shard=zero3"}},
                                       {TOP2, 2, 2, 1, 2, 1, 1, {NULL}}};
    mesh_words text;
    run whole = mesh_run(&shared_experts, &meshes[0], &text), *all = run_on(&whole), *again = run_on(&whole);
    expect_same_bits(all, again, "the same run once more");
    run_free(again);
    /* on the same mesh; and from mesh to mesh, two steps on the first two and one on the others */
    for (int moves = 0; moves < 2; moves++)
        for (int part = 0, step = 0; step < MESH_STEPS; part++) {
            const mesh_case *on = &meshes[moves ? part : 0];
            run some = mesh_run(&shared_experts, on, &text);
            some.steps = part < 2 ? 2 : 1, some.save = 1, some.keep_going = part > 0;
            run *then = run_on(&some);
            for (int k = 0; k < then->steps; k++, step++) {
                double want = all->loss[0][step], off = fabs(then->loss[0][k] - want);
                if (!(off <= (moves ? 1e-5 * fmax(want, 0.1) : 0)))
                    fail_msg("step %d resumed with ep %d: loss %.9g in place of %.9g", step + 1, on->shared,
                             then->loss[0][k], want);
            }
            run_free(then);
        }
    run_free(all);
}

/* Plans and checks all ranks of a mesh. */
static void check_mesh(const tri_mesh *mesh, tri_shard_kind shard, tri_recompute recompute) {
    static char *no_decay[] = {"bias"};
    tiny t;
    char name[96];
    snprintf(name, sizeof name, "ep %d, tp %d, pp %d, dp %d, shard %d", mesh->ep, mesh->tp, mesh->pp, mesh->dp, shard);
    tiny_open(&t, "cpu", 1, 3, 0.1, 2);
    t.encoder[0].num_experts = 8, t.encoder[0].experts_per_token = 2, t.encoder[0].expert_every = 1;
    t.encoder[0].expert_capacity_factor = 1.25;
    tri__model_make(&t.arena, &t.config, t.encoder, (tri_columns){.n = 3}, (tri_texts){no_decay, 1}, &t.model);
    t.in.mesh = *mesh, t.in.recompute = recompute;
    t.in.staging = (tri_staging){.schedule = TRI_SCHEDULE_1F1B};
    t.in.sharding = (tri_sharding){.kind = shard, .prefetch = 1};
    mesh_expect_fit(&t, name);
    tiny_close(&t);
}

/* ep x tp x pp x dp, up to 16 ranks: with each shard by SOAK_STEPS, else with one after the other. */
TEST(all_meshes_fit) {
    enum { MOST = 16, HEADS_OF_TINY = 4 };
    int whole = soak_count("SOAK_STEPS", 0) > 0, n = 0;
    for (int ep = 2; ep <= 8; ep *= 2)
        for (int tp = 1; tp <= HEADS_OF_TINY; tp *= 2)
            for (int pp = 1; pp < 4; pp++)
                for (int runs = 1; ep * runs * tp * pp <= MOST; runs++, n++)
                    for (int shard = 0; shard <= TRI_SHARD_ZERO3; shard++) {
                        tri_mesh mesh = {.pp = pp, .tp = tp, .dp = ep * runs, .ep = ep};
                        if (whole || shard == n % (TRI_SHARD_ZERO3 + 1))
                            check_mesh(&mesh, (tri_shard_kind)shard, (tri_recompute)((n + shard) % 3));
                    }
    assert_true(n > 30);
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_model, remove_data); }
