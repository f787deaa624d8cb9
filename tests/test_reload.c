/* test_reload.c - saved on one mesh, loaded on another, saved there, loaded on the first: the same state to the bit, for pairs of meshes with
 * sizes that do not divide the model. What a run on another mesh may change, and what not. */
#include "session_runs.h"
#include "soak.h"

#include "checkpoint/folders.h"

/* A further mesh is a row. */
static const struct mesh {
    const char *name;
    int ranks;               /* 0: without any */
    const char *option[4];
} meshes[] = {
    {"alone", 0, {NULL}},
    {"dp2", 2, {"--shard=none"}},
    {"dp3-zero1", 3, {"--shard=zero1"}},
    {"dp4-zero2", 4, {"--shard=zero2"}},
    {"dp3-zero3", 3, {"--shard=zero3"}},
    {"dp5-zero3-wrap", 5, {"--shard=zero3", "--wrap=size", "--wrap-min-params=5000"}},
    {"dp4-hybrid", 4, {"--shard=hybrid", "--shard-size=2"}},
    {"dp7-zero2", 7, {"--shard=zero2", "--num-microbatches=2"}},
};
enum { MESHES = sizeof meshes / sizeof *meshes, STEPS = 3 };

/* A run of so many steps from a checkpoint ("never": from the beginning) that ends with a save into folder `output`. */
static run *run_mesh(int mesh, const char *output, const char *from, int steps) {
    char resume[TRI_PATH_MAX + 16];
    snprintf(resume, sizeof resume, "--resume=%s", from);
    run what = {.ranks = meshes[mesh].ranks, .steps = steps, .save = 1, .output = output, .option = {resume}};
    for (int i = 0; i < 4 && meshes[mesh].option[i]; i++) what.option[1 + i] = meshes[mesh].option[i];
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

/* stride: 1 for all pairs. */
static void round_trips(int stride) {
    int pairs = 0;
    for (int a = 0; a < MESHES; a++) {
        char want[33];
        run *first = run_mesh(a, "first", "never", STEPS);
        digest_of(first->folder, want);
        for (int b = (a + 1) % stride; b < MESHES; b += stride, pairs++) {
            run *there = run_mesh(b, "there", first->folder, 0);
            expect_digest(there->folder, want, meshes[a].name, meshes[b].name);
            run *back = run_mesh(a, "back", there->folder, 0);
            expect_digest(back->folder, want, meshes[b].name, meshes[a].name);
            run_free(there);
            run_free(back);
        }
        run_free(first);
    }
    print_message("    %d pairs of meshes, there and back: the same bits\n", pairs);
}

static void every_mesh_reads_every_other(void **state) {
    (void)state;
    round_trips(soak_count("SOAK_PAIRS", 0) ? 1 : 5);
}

/* DESIGN 3: after the change of mesh the losses are those of the run that stayed, to rounding. */
static void the_run_goes_on_elsewhere(void **state) {
    (void)state;
    enum { BEFORE = 12, AFTER = 24 };
    run *stayed = run_mesh(1, "stayed", "never", BEFORE + AFTER), *cut = run_mesh(1, "cut", "never", BEFORE);
    for (int mesh = 0; mesh < MESHES; mesh += 3) {
        run *moved = run_mesh(mesh, "moved", cut->folder, AFTER);
        for (int k = 0; k < AFTER; k++) {
            double want = stayed->loss[0][BEFORE + k], off = fabs(moved->loss[0][k] - want);
            if (!(off <= 2e-6 * fmax(want, 0.1)))
                fail_msg("on %s: loss of step %d is %.9g instead of %.9g", meshes[mesh].name, BEFORE + k + 1, moved->loss[0][k], want);
        }
        run_free(moved);
    }
    run_free(stayed);
    run_free(cut);
}

/* As soon as one checkpoint is committed the next is begun, while steps go on. */
static tri_status save_all_the_time(run *run, tri_session *session, int rank, int step) {
    tri_saved saved;
    (void)run, (void)rank;
    if (step == 0) return TRI_OK;
    TRI_TRY(tri__session_save_advance(session, 0, &saved));
    if (saved.result == TRI_SAVE_PENDING) return TRI_OK;
    if (saved.result == TRI_SAVE_FAILED) return tri__fail(saved.status, "%s", saved.words);
    return tri__session_save_begin(session);
}

/* Steps change the pieces under the copy that is being written: what is committed is the state of its step all the same. */
static void saving_in_the_background_changes_nothing(void **state) {
    (void)state;
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
        run *until = run_on(&(run){.ranks = ranks, .steps = (int)steps[n - 1], .save = 1, .output = "until", .option = {shard}});
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
static void the_batch_stays(void **state) {
    (void)state;
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
    for (int k = 0; k < 6; k++) assert_true(fabs(three->loss[0][k] - whole->loss[0][6 + k]) <= 2e-6 * fmax(whole->loss[0][6 + k], 0.1));
    run other = {.ranks = 2, .steps = 1, .config = "each.json", .output = "three", .option = {resume, "--batch-size=5"}};
    assert_int_equal(run_status(&other), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "global_batch_size = 12 (now 10)"));
    for (int k = 0; k < 3; k++) free(other.state[k]);
    free(other.idle);
    run_free(two);
    run_free(three);
    run_free(whole);
}

/* Each key alone: what it is allowed to be. */
static void changes_are_told_apart(void **state) {
    (void)state;
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
        if (status != (rows[i].key ? TRI_USAGE : TRI_OK)) fail_msg("%s: status %d, \"%s\"", rows[i].option, status, tri_error());
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
static void other_data_is_refused(void **state) {
    (void)state;
    run *base = run_on(&(run){.steps = 2, .save = 1, .output = "data", .option = {"--cache-dir=none"}});
    char resume[TRI_PATH_MAX + 16];
    snprintf(resume, sizeof resume, "--resume=%s", base->folder);
    write_table("train.csv", 101, 3);
    run changed = {.output = "data2", .option = {resume, "--cache-dir=none"}};
    assert_int_equal(run_status(&changed), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "--allow-change data"));
    run *allowed = run_on(&(run){.steps = 1, .output = "data2", .option = {resume, "--cache-dir=none", "--allow-change=data"}});
    write_table("train.csv", 101, 1);
    run_free(allowed);
    run_free(base);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mesh_reads_every_other), cmocka_unit_test(the_run_goes_on_elsewhere), cmocka_unit_test(the_batch_stays),
        cmocka_unit_test(saving_in_the_background_changes_nothing), cmocka_unit_test(changes_are_told_apart), cmocka_unit_test(other_data_is_refused),
    };
    soak_select(argc, argv);
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
