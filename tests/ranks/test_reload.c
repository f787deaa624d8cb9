/* test_reload.c - saved on one mesh, loaded on another, saved there, loaded on the first: bitwise the same state, for
 * pairs of meshes with sizes that do not divide the model, including pipelines and tensor parallelism. What a run on
 * another mesh may change, and what not. SOAK_PAIRS=1: all pairs. */
#include "tests/lib/test.h"
#include "tests/lib/session_runs.h"
#include "tests/lib/soak.h"

#include "checkpoint/folders.h"

/* A further mesh is a row. Vocabularies have 25 words, which neither 2 nor 3 ranks share out evenly; on PP2_DP3 the
 * table's stage has so few elements that its last replica has none. Those from TP2 on have tensor parallelism. */
enum { ALONE, DP3, DP2, DP4_HYBRID, DP5_WRAP, PP2, PP3, PP2_DP3, TP2, TP3, PP2_TP2_DP2, TP3_DP3, MESHES };
static const struct mesh {
    const char *name;
    int ranks;               /* 0: without any */
    const char *option[6];
} meshes[] = {
    [ALONE] = {"alone", 0, {NULL}},
    [DP3] = {"dp3-zero3", 3, {"--shard=zero3"}},
    [DP2] = {"dp2-zero1", 2, {"--shard=zero1"}},
    [DP4_HYBRID] = {"dp4-hybrid", 4, {"--shard=hybrid", "--shard-size=2"}},
    [DP5_WRAP] = {"dp5-zero3-wrap", 5, {"--shard=zero3", "--wrap=size", "--wrap-min-params=5000"}},
    [PP2] = {"pp2-branch", 2, {"--pp-size=2", "--pipeline-shape=branch", "--num-microbatches=2"}},
    [PP3] = {"pp3-interleaved", 3, {"--pp-size=3", "--schedule=interleaved", "--num-microbatches=3"}},
    [PP2_DP3] = {"pp2-dp3-zero3",
                 6,
                 {"--pp-size=2", "--shard=zero3", "--stages=tabular,primary secondary fusion", "--num-microbatches=2"}},
    [TP2] = {"tp2", 2, {"--tp-size=2"}},
    [TP3] = {"tp3", 3, {"--tp-size=3"}},
    [PP2_TP2_DP2] = {"pp2-tp2-dp2-zero3",
                     8,
                     {"--pp-size=2", "--tp-size=2", "--shard=zero3", "--pipeline-shape=chain", "--num-microbatches=2",
                      "--tp-plan=*.feed_forward=sequence"}},
    [TP3_DP3] = {"tp3-dp3-zero2", 9, {"--tp-size=3", "--shard=zero2", "--mesh-order=pp,dp,tp",
                                               "--tp-plan=*.attention=replicate,*.embeddings.words=sequence"}},
};
enum { STEPS = 3 };

/* Heads that 2 and 3 ranks can share. */
static int make_models(void **state) {
    if (make_data(state)) return 1;
    write_file("shared.json",
               "{\"label_name\": \"label\", \"primary_text_name\": \"review\", \"secondary_text_name\": \"title\","
               " \"tab_field_list\": [\"age\", \"score\"], \"primary_tokenizer\": \"vocab\", \"hidden_common_dim\": 16,"
               " \"fusion_hidden_dim\": 12, \"max_sen_len\": 12, \"lr\": 0.002, \"warmup_steps\": 5, "
               "\"global_batch_size\": 12,"
               " \"primary_encoder\": {\"hidden_size\": 24, \"num_hidden_layers\": 2, \"num_attention_heads\": 6,"
               " \"intermediate_size\": 36, \"max_position_embeddings\": 16},"
               " \"secondary_encoder\": {\"hidden_size\": 12, \"num_hidden_layers\": 1, \"num_attention_heads\": 6,"
               " \"intermediate_size\": 18, \"max_position_embeddings\": 16}}");
    return 0;
}

/* A run of so many steps from a checkpoint ("never": from the beginning) that ends with a save into folder `output`.
 * more: an option, or NULL. */
static run *run_mesh(int mesh, const char *output, const char *from, int steps, const char *more) {
    char resume[TRI_PATH_MAX + 16];
    int n = 0;
    snprintf(resume, sizeof resume, "--resume=%s", from);
    run what = {.ranks = meshes[mesh].ranks,
                .steps = steps,
                .save = 1,
                .output = output,
                .config = "shared.json",
                .option = {resume}};
    while (n < 6 && meshes[mesh].option[n]) what.option[1 + n] = meshes[mesh].option[n], n++;
    what.option[1 + n] = more;
    return run_on(&what);
}

static void digest_of(const char *folder, char hex[static 33]) {
    tri_checkpoint *checkpoint;
    OK(tri__checkpoint_open(folder, 0, &checkpoint));
    OK(tri__checkpoint_digest(checkpoint, hex));
    tri__checkpoint_close(checkpoint);
}

static void expect_digest(const char *folder, const char *want, const char *a, const char *b) {
    char hex[33];
    digest_of(folder, hex);
    if (strcmp(hex, want)) fail_msg("from %s to %s: digest %s instead of %s", a, b, hex, want);
}

/* From `first`, saved on mesh a, whose digest is `want`, to mesh b and back. */
static void there_and_back(const run *first, const char *want, int a, int b, const char *more, const char *more_there) {
    run *there = run_mesh(b, "there", first->folder, 0, more_there);
    expect_digest(there->folder, want, meshes[a].name, meshes[b].name);
    run *back = run_mesh(a, "back", there->folder, 0, more);
    expect_digest(back->folder, want, meshes[b].name, meshes[a].name);
    run_free(there);
    run_free(back);
}

/* A sample has each mesh as an origin, and each as a destination. */
TEST(every_mesh_reads_every_other) {
    int pairs = 0, all = soak_count("SOAK_PAIRS", 0);
    for (int a = 0; a < MESHES; a++) {
        char want[33];
        run *first = run_mesh(a, "first", "never", STEPS, NULL);
        digest_of(first->folder, want);
        for (int b = 0; b < MESHES; b++)
            if (all || b == (a + 4) % MESHES) there_and_back(first, want, a, b, NULL, NULL), pairs++;
        run_free(first);
    }
    print_message("    %d pairs of meshes, there and back: the same bits\n", pairs);
}

/* Weights of fewer bits have masters, which are what is saved; state may lie in a file. */
TEST(so_with_masters_and_second_memory) {
    static const struct {
        const char *here, *there;
        int a, b;
        int sample;
    } rows[] = {
        {"--precision=bf16", "--precision=bf16", PP2_TP2_DP2, DP3, 1},
        {"--precision=bf16", "--precision=bf16", TP3, PP2, 1},
        {"--precision=bf16", "--precision=bf16", TP3_DP3, PP2_TP2_DP2, 0},
        {"--precision=bf16", "--precision=bf16", ALONE, TP3, 0},
        {"--precision=bf16", "--precision=bf16", PP3, DP4_HYBRID, 0},
        {"--precision=bf16", "--precision=bf16", PP2_DP3, TP2, 1},
        {"--offload=optimizer,params,gradients", NULL, PP2_DP3, TP2, 0},
        {"--precision=fp16", "--precision=fp16", TP3, PP2_DP3, 0},
        {"--precision=fp16", "--precision=fp16", DP2, PP2_TP2_DP2, 0},
        {"--precision=fp16", "--precision=fp16", TP2, DP5_WRAP, 0},
        {"--offload=optimizer", NULL, PP2_TP2_DP2, TP3, 1},
        {"--offload=optimizer,gradients", "--offload=optimizer", PP3, TP3_DP3, 0},
        {NULL, "--offload=params,optimizer", TP3, PP2, 1},
        {NULL, "--offload=optimizer,params,activations", DP3, PP2_TP2_DP2, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char want[33];
        if (!rows[i].sample && !soak_count("SOAK_PAIRS", 0)) continue;
        run *first = run_mesh(rows[i].a, "first", "never", STEPS, rows[i].here);
        digest_of(first->folder, want);
        there_and_back(first, want, rows[i].a, rows[i].b, rows[i].here, rows[i].there);
        run_free(first);
    }
}

/* The same mesh: losses and state of the run that was not cut, to the bit. */
static void expect_uncut(int mesh, const char *more) {
    enum { BEFORE = 3, AFTER = 4 };
    run *whole = run_mesh(mesh, "whole", "never", BEFORE + AFTER, more),
        *cut = run_mesh(mesh, "cut", "never", BEFORE, more);
    run *rest = run_mesh(mesh, "rest", cut->folder, AFTER, more);
    if (memcmp(rest->loss[0], whole->loss[0] + BEFORE, AFTER * sizeof(double)))
        fail_msg("%s: other losses", meshes[mesh].name);
    if (memcmp(rest->norm[0], whole->norm[0] + BEFORE, AFTER * sizeof(double)))
        fail_msg("%s: other norms", meshes[mesh].name);
    for (int k = 0; k < 3; k++)
        if (memcmp(rest->state[k], whole->state[k], (size_t)whole->elements * sizeof(float)))
            fail_msg("%s: other bits in state %d", meshes[mesh].name, k);
    run_free(whole);
    run_free(cut);
    run_free(rest);
}

TEST(the_run_goes_on_where_it_was) {
    static const char *const more[] = {NULL, "--precision=bf16", "--precision=fp16", "--offload=optimizer,params"};
    for (int mesh = 0; mesh < MESHES; mesh++)
        for (int i = 0; i < 4; i++)
            if (soak_count("SOAK_PAIRS", 0) || (i == mesh % 4 && mesh >= PP3)) expect_uncut(mesh, more[i]);
}

/* DESIGN 3: after the change of mesh the losses are those of the run that stayed, to rounding. */
TEST(the_run_goes_on_elsewhere) {
    enum { BEFORE = 12, AFTER = 24 };
    int every = soak_count("SOAK_PAIRS", 0) ? 1 : 5;
    run *stayed = run_mesh(DP2, "stayed", "never", BEFORE + AFTER, NULL),
        *cut = run_mesh(DP2, "cut", "never", BEFORE, NULL);
    for (int mesh = ALONE; mesh < MESHES; mesh += every) {
        double limit = mesh < TP2 ? 2e-6 : 1e-5;
        run *moved = run_mesh(mesh, "moved", cut->folder, AFTER, NULL);
        for (int k = 0; k < AFTER; k++) {
            double want = stayed->loss[0][BEFORE + k], off = fabs(moved->loss[0][k] - want);
            if (!(off <= limit * fmax(want, 0.1)))
                fail_msg("on %s: loss of step %d is %.9g instead of %.9g", meshes[mesh].name, BEFORE + k + 1,
                         moved->loss[0][k], want);
        }
        run_free(moved);
    }
    run_free(stayed);
    run_free(cut);
}

/* As soon as one checkpoint is committed the next is begun, while steps go on. Before the last step it is waited for: a
 * busy machine may have given the writer no time until then. */
static tri_status save_all_the_time(run *run, tri_session *session, int rank, int step) {
    tri_saved saved;
    (void)rank;
    if (step == 0) return TRI_OK;
    TRI_TRY(tri__session_save_advance(session, step == run->steps - 1, &saved));
    if (saved.result == TRI_SAVE_PENDING) return TRI_OK;
    if (saved.result == TRI_SAVE_FAILED) return tri__fail(saved.status, "%s", saved.words);
    return tri__session_save_begin(session);
}

/* Steps change the pieces under the copy that is being written: what is committed is the state of its step all the
 * same. */
TEST(saving_in_the_background_changes_nothing) {
    enum { N = 20 };
    for (int ranks = 0; ranks <= 3; ranks += 3) {
        const char *shard = ranks ? "--shard=zero2" : "--shard=none";
        run *plain = run_on(&(run){.ranks = ranks, .steps = N, .output = "plain", .option = {shard}});
        run *busy = run_on(&(run){.ranks = ranks, .steps = N, .output = "busy", .before = save_all_the_time,
                                  .option = {shard, "--async-save", "--keep=100"}});
        expect_same_bits(plain, busy, "saving all the time");
        int64_t *steps;
        int n;
        char path[TRI_PATH_MAX], folder[128], want[33], hex[33];
        snprintf(folder, sizeof folder, "%s/busy", root);
        OK(tri__checkpoint_steps(folder, &steps, &n));
        assert_true(n > 0);
        run *until = run_on(
            &(run){.ranks = ranks, .steps = (int)steps[n - 1], .save = 1, .output = "until", .option = {shard}});
        OK(tri__checkpoint_name(path, folder, steps[n - 1], ""));
        digest_of(path, hex);
        digest_of(until->folder, want);
        assert_string_equal(hex, want);
        print_message("    %d ranks: %d checkpoints in %d steps\n", ranks, n, N);
        free(steps);
        run_free(plain);
        run_free(busy);
        run_free(until);
    }
}

/* Where the batch is given for each replica, another number of replicas gets another share of the same batch. */
TEST(the_batch_stays) {
    char text[2048], resume[TRI_PATH_MAX + 16];
    size_t length;
    char path[128], *config, *at;
    snprintf(path, sizeof path, "%s/config.json", root);
    OK(tri__file_read(path, sizeof text, &config, &length));
    at = strstr(config, "\"global_batch_size\": 12");
    assert_non_null(at);
    memcpy(at, "\"batch_size\": 6        ", strlen("\"global_batch_size\": 12"));
    write_file("each.json", config);
    free(config);
    run *two = run_on(&(run){.ranks = 2, .steps = 6, .save = 1, .config = "each.json", .output = "two"});
    snprintf(resume, sizeof resume, "--resume=%s", two->folder);
    /* The sum of 12 on 2, then on 3 replicas: 4 each. */
    run *three = run_on(&(run){.ranks = 3, .steps = 6, .config = "each.json", .output = "three", .option = {resume}});
    run *whole = run_on(&(run){.ranks = 2, .steps = 12, .config = "each.json", .output = "whole"});
    for (int k = 0; k < 6; k++)
        assert_true(fabs(three->loss[0][k] - whole->loss[0][6 + k]) <= 2e-6 * fmax(whole->loss[0][6 + k], 0.1));
    run other = {
        .ranks = 2, .steps = 1, .config = "each.json", .output = "three", .option = {resume, "--batch-size=5"}};
    assert_int_equal(run_status(&other), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "global_batch_size = 12 (now 10)"));
    for (int k = 0; k < 3; k++) free(other.state[k]);
    free(other.idle);
    run_free(two);
    run_free(three);
    run_free(whole);
}

/* Each key alone: what it is allowed to be. */
TEST(changes_are_told_apart) {
    static const struct {
        const char *option, *key; /* key NULL: it may change */
    } rows[] = {
        {"--lr=0.5", "lr"},
        {"--seed=43", "seed"},
        {"--weight-decay=0.5", "weight_decay"},
        {"--max-grad-norm=2", "max_grad_norm"},
        {"--precision=bf16", "precision"},
        {"--epochs=201", "epochs"},
        {"--max-sen-len=11", "max_sen_len"},
        {"--fusion-dropout=0.2", "fusion_dropout"},
        {"--global-batch-size=10", "global_batch_size"},
        {"--adam-eps=1e-7", "adam_eps"},
        {"--threads=2", NULL},
        {"--save-steps=5", NULL},
        {"--keep=5", NULL},
        {"--async-save", NULL},
        {"--num-microbatches=3", NULL},
        {"--recompute=full", NULL},
        {"--log-every=2", NULL},
        {"--check-replicas=1", NULL},
        {"--num-workers=1", NULL},
        {"--max-tokens=500", NULL},
    };
    run *base = run_on(&(run){.steps = 2, .save = 1, .output = "base"});
    char resume[TRI_PATH_MAX + 16], want[64], allow[64];
    snprintf(resume, sizeof resume, "--resume=%s", base->folder);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run changed = {.output = "changed", .option = {resume, rows[i].option}};
        tri_status status = run_status(&changed);
        for (int k = 0; k < 3; k++) free(changed.state[k]);
        free(changed.idle);
        if (status != (rows[i].key ? TRI_USAGE : TRI_OK))
            fail_msg("%s: status %d, \"%s\"", rows[i].option, status, tri_error());
        if (!rows[i].key) continue;
        snprintf(want, sizeof want, "--allow-change %s,", rows[i].key);
        if (!strstr(tri_error(), want)) fail_msg("%s: \"%s\"", rows[i].option, tri_error());
        if (!strcmp(rows[i].key, "max_sen_len")) continue; /* other tokens: also other data */
        snprintf(allow, sizeof allow, "--allow-change=%s", rows[i].key);
        run allowed = {.output = "changed", .option = {resume, rows[i].option, "--allow-change=keep", allow}};
        status = run_status(&allowed);
        for (int k = 0; k < 3; k++) free(allowed.state[k]);
        free(allowed.idle);
        if (status != TRI_OK) fail_msg("%s, allowed: \"%s\"", rows[i].option, tri_error());
    }
    run unknown = {.output = "changed", .option = {resume, "--allow-change=nonsense"}};
    assert_int_equal(run_status(&unknown), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "nonsense"));
    run_free(base);
}

/* The table was changed: the run says so before it goes on with it. */
TEST(other_data_is_refused) {
    run *base = run_on(&(run){.steps = 2, .save = 1, .output = "data", .option = {"--cache-dir=none"}});
    char resume[TRI_PATH_MAX + 16];
    snprintf(resume, sizeof resume, "--resume=%s", base->folder);
    write_table("train.csv", 101, 3);
    run changed = {.output = "data2", .option = {resume, "--cache-dir=none"}};
    assert_int_equal(run_status(&changed), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "--allow-change data"));
    run *allowed = run_on(
        &(run){.steps = 1, .output = "data2", .option = {resume, "--cache-dir=none", "--allow-change=data"}});
    write_table("train.csv", 101, 1);
    run_free(allowed);
    run_free(base);
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_models, remove_data); }
