/* test_context.c - ranks that share the tokens of each text (context parallelism) train like one rank: by a ring or by
 * an exchange of heads, with ranks that share layers, stages, replicas and every shard, with recomputation,
 * block-sparse attention, windows, layers left out and 16-bit numbers; runs repeat to the bit and move to other meshes.
 * SOAK_STEPS=100: every case. */
#include "tests/lib/test.h"
#include "tests/lib/mesh_cases.h"

enum { POOLER, MEAN, BF16, FP16, DROPPED, WINDOWS, WINDOW, BIGBIRD, FAR, SHARED, SHARED_WINDOWS };
static const mesh_family families[] = {
    [POOLER] = {"pooler.json", {NULL}, 0},
    [MEAN] = {"mean.json", {NULL}, 0},
    [BF16] = {"pooler.json", {"--precision=bf16"}, 1e-3},
    [FP16] = {"mean.json", {"--precision=fp16"}, 2e-4},
    [DROPPED] = {"pooler.json", {"--layer-drop=theta=0.3,gamma=0.4"}, 0},
    [WINDOWS] = {"mean.json", {"--max-sen-len=7", "--windows=3", "--stride=3"}, 0},
    [WINDOW] = {"window.json", {"--data-path=%s/long"}, 0},
    [BIGBIRD] = {"bigbird.json", {"--data-path=%s/long"}, 0},
    [FAR] = {"far.json", {"--data-path=%s/far"}, 0},
    [SHARED] = {"shared.json", {NULL}, 0},
    [SHARED_WINDOWS] = {"shared.json", {"--max-sen-len=7", "--windows=3", "--stride=3"}, 0},
};

static void write_config(const char *name, const char *pooling, int longest, const char *pattern) {
    char text[2048];
    snprintf(text, sizeof text,
             "{\"label_name\": \"label\", \"primary_text_name\": \"review\", \"secondary_text_name\": \"title\","
             " \"tab_field_list\": [\"age\", \"score\"], \"primary_tokenizer\": \"vocab\", \"pooling\": \"%s\","
             " \"hidden_common_dim\": 16, \"fusion_hidden_dim\": 12, \"max_sen_len\": %d, \"lr\": 0.002,"
             " \"warmup_steps\": 2, \"global_batch_size\": 16,"
             " \"primary_encoder\": {\"hidden_size\": 32, \"num_hidden_layers\": 2, \"num_attention_heads\": 8,"
             " \"intermediate_size\": 32, \"max_position_embeddings\": %d%s},"
             " \"secondary_encoder\": {\"hidden_size\": 16, \"num_hidden_layers\": 1,"
             " \"num_attention_heads\": 8, \"intermediate_size\": 24, \"max_position_embeddings\": %d%s}}",
             pooling, longest, longest + 4, pattern, longest + 4, pattern);
    write_file(name, text);
}

/* One encoder of both texts. */
static void write_shared(const char *name) {
    write_file(name,
               "{\"label_name\": \"label\", \"primary_text_name\": \"review\", \"secondary_text_name\": \"title\","
               " \"share_encoders\": true, \"primary_tokenizer\": \"vocab\", \"pooling\": \"mean\","
               " \"hidden_common_dim\": 16, \"fusion_hidden_dim\": 12, \"max_sen_len\": 12, \"lr\": 0.002,"
               " \"warmup_steps\": 2, \"global_batch_size\": 16,"
               " \"primary_encoder\": {\"hidden_size\": 32, \"num_hidden_layers\": 2, \"num_attention_heads\": 8,"
               " \"intermediate_size\": 32, \"max_position_embeddings\": 16}}");
}

static int make_model(void **state) {
    char path[128];
    if (make_data(state)) return 1;
    write_config("pooler.json", "pooler", 12, "");
    write_config("mean.json", "mean", 12, "");
    write_shared("shared.json");
    write_config("window.json", "pooler", 92,
                 ", \"attention_pattern\": {\"mode\": \"window\", \"block\": 16, \"window\": 32}");
    write_config("bigbird.json", "mean", 92,
                 ", \"attention_pattern\": {\"mode\": \"bigbird\", \"different_layout_per_head\": true}");
    write_config("far.json", "pooler", 240,
                 ", \"attention_pattern\": {\"mode\": \"window\", \"block\": 16, \"window\": 32}");
    static const char *const folders[] = {"long", "far"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", root, folders[i]);
        OK(tri__folder_make(path));
    }
    mesh_write_long("long/train.csv", 50, 1, 90);
    mesh_write_long("long/valid.csv", 10, 1, 90);
    mesh_write_long("far/train.csv", 20, 200, 240); /* no text is so short that all ranks need all keys of it */
    mesh_write_long("far/valid.csv", 5, 200, 240);
    return 0;
}

#define RING "--cp-mode=ring"
#define HEADS "--cp-mode=heads"
static const mesh_case cases[] = {
    /* heads */
    {MEAN, 2, 2, 1, 1, 1, 1, {HEADS, "--shard=zero1"}},
    {POOLER, 2, 1, 2, 1, 2, 0, {HEADS, "--recompute=full"}},
    {MEAN, 2, 1, 1, 2, 1, 1, {HEADS, "--shard=zero3"}},
    {POOLER, 4, 1, 1, 1, 1, 0, {HEADS, "--shard=zero2"}},
    {MEAN, 2, 2, 2, 2, 2, 1, {HEADS, "--schedule=zb-h1"}},
    {POOLER, 8, 1, 1, 1, 1, 0, {HEADS}},
    {MEAN, 2, 2, 1, 1, 2, 0, {HEADS, "--sequence-parallel=no"}},
    {POOLER, 2, 2, 1, 2, 1, 0, {HEADS, "--shard=hybrid", "--shard-size=2"}},
    {POOLER, 2, 1, 2, 2, 4, 0, {HEADS, "--shard=zero2", "--recompute=selective"}},
    {MEAN, 2, 1, 4, 1, 4, 0, {HEADS, "--schedule=interleaved", "--recompute=full"}},
    {POOLER, 4, 2, 1, 1, 1, 0, {HEADS, "--shard=zero3", "--offload=optimizer"}},
    {MEAN, 4, 1, 2, 2, 2, 0, {HEADS, "--shard=hybrid", "--shard-size=4"}},
    {POOLER, 2, 4, 2, 1, 2, 0, {HEADS, "--sequence-parallel=no"}},
    {BF16, 2, 2, 1, 1, 1, 0, {HEADS, "--shard=zero2"}},
    {DROPPED, 4, 1, 1, 2, 2, 0, {HEADS, "--shard=zero3"}},
    {WINDOWS, 4, 1, 2, 1, 2, 0, {HEADS}},
    {WINDOW, 2, 2, 1, 1, 1, 0, {HEADS, "--shard=zero1"}},
    {BIGBIRD, 2, 2, 1, 2, 1, 1, {HEADS}},
    {BIGBIRD, 4, 1, 2, 1, 2, 0, {HEADS, "--recompute=full"}},
    /* a ring */
    {POOLER, 2, 1, 1, 1, 1, 1, {RING}},
    {POOLER, 3, 1, 1, 1, 1, 1, {NULL}}, /* 8 heads: nothing else */
    {MEAN, 2, 2, 1, 1, 1, 1, {RING}},
    {POOLER, 2, 1, 2, 1, 2, 1, {RING, "--recompute=full"}},
    {MEAN, 3, 1, 1, 2, 1, 1, {RING, "--shard=zero3"}},
    {POOLER, 4, 1, 1, 1, 1, 0, {RING, "--recompute=selective"}},
    {MEAN, 2, 2, 2, 1, 2, 0, {RING, "--sequence-parallel=no", "--schedule=zb-h1"}},
    {POOLER, 3, 1, 1, 1, 2, 0, {RING, "--shard=zero2", "--offload=optimizer"}},
    {MEAN, 5, 1, 2, 1, 2, 0, {RING, "--schedule=interleaved"}},
    {POOLER, 8, 2, 1, 1, 1, 0, {RING}},
    {POOLER, 2, 2, 2, 2, 2, 0, {RING, "--shard=zero1", "--schedule=zbv"}},
    {MEAN, 16, 1, 1, 1, 1, 0, {RING}}, /* more ranks than most texts have tokens */
    {MEAN, 4, 1, 1, 2, 2, 0, {RING, "--shard=hybrid", "--shard-size=4"}},
    {POOLER, 4, 1, 1, 2, 2, 0, {RING, "--shard=zero3", "--recompute=full"}},
    {BF16, 3, 1, 1, 2, 1, 1, {RING, "--shard=zero3"}},
    {BF16, 2, 2, 2, 1, 2, 0, {RING, "--recompute=selective"}},
    {FP16, 2, 1, 1, 1, 1, 1, {RING}},
    {FP16, 3, 1, 2, 1, 2, 0, {RING, "--shard=zero1"}},
    {DROPPED, 3, 1, 1, 1, 1, 1, {RING}},
    {DROPPED, 2, 1, 2, 2, 2, 0, {RING, "--shard=zero3"}},
    {DROPPED, 2, 2, 1, 1, 2, 0, {RING, "--recompute=full"}},
    {WINDOWS, 3, 1, 1, 1, 1, 1, {RING}},
    {SHARED, 2, 1, 1, 1, 1, 1, {RING}},
    {SHARED, 2, 2, 1, 1, 1, 0, {HEADS, "--shard=zero1"}},
    {SHARED_WINDOWS, 3, 1, 2, 1, 2, 0, {RING}},
    {SHARED_WINDOWS, 2, 1, 1, 2, 1, 0, {HEADS, "--shard=zero3"}},
    {WINDOWS, 2, 2, 1, 2, 2, 0, {RING, "--shard=zero2"}},
    {WINDOW, 2, 1, 1, 1, 1, 1, {RING}},
    {WINDOW, 3, 1, 1, 2, 1, 0, {RING, "--shard=zero3", "--recompute=full"}},
    {WINDOW, 5, 1, 2, 1, 2, 0, {RING}},
    {BIGBIRD, 3, 1, 1, 1, 1, 1, {RING}},
    {BIGBIRD, 2, 2, 2, 1, 2, 0, {RING, "--shard=zero1"}},
    {BIGBIRD, 4, 2, 1, 1, 1, 0, {RING, "--sequence-parallel=no", "--recompute=selective"}},
    {FAR, 4, 1, 1, 1, 1, 1, {RING}}, /* two of three steps */
    {FAR, 5, 1, 1, 1, 1, 0, {RING, "--shard=zero2"}},
    {FAR, 4, 2, 1, 1, 2, 0, {RING, "--recompute=full"}},
    {FAR, 4, 1, 2, 1, 2, 0, {RING, "--shard=zero1"}},
};
static const mesh_cases shared_tokens = {
    .axis = "cp", .families = families, .at = cases, .n = sizeof cases / sizeof *cases};

TEST(like_one_rank) {
    mesh_like_one_rank(&shared_tokens);
}

/* A run that is stopped goes on to the bit on its mesh, and close to it on others. */
static void goes_on(const mesh_case *shared, const mesh_case *others, int n) {
    mesh_words text;
    run whole = mesh_run(&shared_tokens, shared, &text), *all = run_on(&whole), *again = run_on(&whole);
    expect_same_bits(all, again, "the same run once more");
    run_free(again);
    for (int moved = 0; moved <= n; moved++) {
        run first = mesh_run(&shared_tokens, shared, &text);
        first.steps = MESH_STEPS / 2, first.save = 1;
        run_free(run_on(&first));
        run rest = mesh_run(&shared_tokens, moved ? &others[moved - 1] : shared, &text);
        rest.steps = MESH_STEPS - MESH_STEPS / 2, rest.keep_going = 1;
        run *then = run_on(&rest);
        for (int k = 0; k < then->steps; k++) {
            double want = all->loss[0][MESH_STEPS / 2 + k], off = fabs(then->loss[0][k] - want);
            if (!(off <= (moved ? mesh_bound(&shared_tokens, shared) * fmax(want, 0.1) : 0)))
                fail_msg("resumed on mesh %d: loss %.9g in place of %.9g", moved, then->loss[0][k], want);
        }
        run_free(then);
    }
    run_free(all);
}

TEST(goes_on_anywhere) {
    static const mesh_case others[] = {{POOLER, 1, 1, 1, 1, 1, 1, {NULL}}, {POOLER, 4, 1, 1, 1, 1, 1, {RING}}};
    goes_on(&(mesh_case){POOLER, 2, 1, 1, 2, 1, 1, {HEADS, "--shard=zero1"}}, others, 1);
    goes_on(&(mesh_case){POOLER, 2, 1, 1, 1, 1, 1, {RING}}, others, 2);
}

/* Plans and checks all ranks of a mesh. */
static void check_mesh(const tri_mesh *mesh, int ring, tri_shard_kind shard, tri_recompute recompute) {
    tiny t;
    char name[96];
    snprintf(name, sizeof name, "cp %d, tp %d, pp %d, dp %d, ring %d, shard %d", mesh->cp, mesh->tp, mesh->pp,
             tri__mesh_readers(mesh), ring, shard);
    tiny_open(&t, "cpu", 1, 3, 0.1, 2);
    t.in.mesh = *mesh, t.in.ring = ring, t.in.recompute = recompute;
    t.in.staging = (tri_staging){.schedule = TRI_SCHEDULE_1F1B};
    t.in.sequence_parallel = mesh->tp > 1;
    t.in.sharding = (tri_sharding){.kind = shard, .size = shard == TRI_SHARD_HYBRID ? mesh->cp : 0, .prefetch = 1};
    mesh_expect_fit(&t, name);
    tiny_close(&t);
}

/* cp x tp x pp x dp, up to 16 ranks: with each shard by SOAK_STEPS, else with one after the other. */
TEST(all_meshes_fit) {
    enum { MOST = 16, HEADS_OF_TINY = 4 };
    int whole = soak_count("SOAK_STEPS", 0) > 0, n = 0;
    for (int cp = 2; cp <= MOST; cp++)
        for (int tp = 1; cp * tp <= MOST; tp *= 2)
            for (int pp = 1; pp < 5 && cp * tp * pp <= MOST && tp <= HEADS_OF_TINY; pp++)
                for (int dp = 1; cp * tp * pp * dp <= MOST; dp++)
                    for (int ring = HEADS_OF_TINY % (cp * tp) != 0; ring < 2; ring++, n++)
                        for (int shard = 0; shard <= TRI_SHARD_HYBRID; shard++) {
                            tri_mesh mesh = {.pp = pp, .tp = tp, .dp = cp * dp, .cp = cp};
                            if (whole || shard == n % (TRI_SHARD_HYBRID + 1))
                                check_mesh(&mesh, ring, (tri_shard_kind)shard, (tri_recompute)((n + shard) % 3));
                        }
    assert_true(n > 100);
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_model, remove_data); }
