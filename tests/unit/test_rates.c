/* test_rates.c - runs in which parts of the model are frozen, and layers have rates: on ranks that are threads, every
 * mesh gives one rank's result, frozen weights stay what they were, a resumed run is the uninterrupted one to the bit,
 * and a rate that is the same for all changes none. */
#include "tests/lib/test.h"
#include "tests/lib/session_runs.h"

enum { STEPS = 6, HALF = 3 };

static const char *const recipes[][4] = {{"--freeze=embeddings,layers=1", "--layer-lr-decay=0.7", "--head-lr=0.03"},
                                         {"--freeze=layers=1", "--layer-lr-decay=0.7"},
                                         {"--freeze=embeddings,layers=all", "--optimizer=lamb"}};
enum { RECIPES = sizeof recipes / sizeof *recipes };

/* more: NULL-terminated. */
static run asked(const char *const *recipe, int ranks, const char *const *more) {
    run made = {.ranks = ranks, .steps = STEPS, .config = "model.json", .output = "run"};
    int n = 0;
    for (; *recipe; recipe++) made.option[n++] = *recipe;
    for (; more && *more; more++) made.option[n++] = *more;
    return made;
}

TEST(meshes_agree) {
    static const struct {
        int ranks;
        const char *option[5];
        double limit;
    } meshes[] = {{2, {NULL}, 2e-6},
                  {3, {"--shard=zero1"}, 2e-6},
                  {2, {"--shard=zero2", "--num-microbatches=2"}, 2e-6},
                  {2, {"--shard=zero3", "--recompute=full", "--wrap=size"}, 2e-6},
                  {2, {"--pp-size=2", "--num-microbatches=4"}, 2e-6},
                  {3, {"--pp-size=3", "--num-microbatches=4", "--schedule=zb-h1"}, 2e-6},
                  {2, {"--cp-size=2", "--cp-mode=ring"}, 2e-6},
                  {2, {"--tp-size=2", "--sequence-parallel=yes"}, 1e-5},
                  {8, {"--pp-size=2", "--tp-size=2", "--shard=zero3", "--num-microbatches=2"}, 1e-5}};
    for (int i = 0; i < RECIPES; i++) {
        run what = asked(recipes[i], 0, NULL);
        run *one = run_on(&what);
        for (size_t k = 0; k < sizeof meshes / sizeof *meshes; k++) {
            what = asked(recipes[i], meshes[k].ranks, meshes[k].option);
            run *have = run_on(&what);
            expect_within(one, have, recipes[i][0], meshes[k].limit);
            run_free(have);
        }
        run_free(one);
    }
}

/* The weights of a run that takes no step, and of one that does; of states run_on sees whether there are any. */
TEST(frozen_weights_stay) {
    for (int i = 0; i < RECIPES; i++) {
        run what = asked(recipes[i], 2, OPTIONS("--precision=bf16", "--shard=zero1"));
        run *after = run_on(&what);
        what.steps = 0;
        run *before = run_on(&what);
        int64_t trained = 0, moved = 0;
        for (int64_t e = 0; e < before->elements; e++) {
            int is_same = memcmp(&before->state[0][e], &after->state[0][e], sizeof(float)) == 0;
            if (after->frozen[e]) assert_true(is_same);
            trained += !after->frozen[e], moved += !is_same;
        }
        assert_true(trained < before->elements && moved > trained / 2);
        run_free(before), run_free(after);
    }
}

TEST(a_resumed_run_is_the_whole_one) {
    static const char *const recipe[] = {"--freeze=embeddings,layers=1", "--lr-schedule=cosine", "--warmup-steps=0",
                                         "--warmup-ratio=0.3", "--layer-lr-decay=0.7", NULL};
    run what = asked(recipe, 2, OPTIONS("--shard=zero1"));
    run *whole = run_on(&what);
    what.steps = HALF, what.save = 1;
    run *first = run_on(&what);
    what.save = 0, what.keep_going = 1;
    run *rest = run_on(&what);
    assert_memory_equal(rest->loss[0], whole->loss[0] + HALF, HALF * sizeof(double));
    for (int k = 0; k < 3; k++)
        assert_memory_equal(rest->state[k], whole->state[k], (size_t)whole->elements * sizeof(float));
    run there = asked(recipe, 2, OPTIONS("--pp-size=2", "--num-microbatches=2")); /* another mesh reads the same */
    there.steps = HALF, there.keep_going = 1;
    run *moved = run_on(&there);
    for (int k = 0; k < HALF; k++)
        assert_true(fabs(moved->loss[0][k] - rest->loss[0][k]) <= 2e-6 * fmax(rest->loss[0][k], 0.1));
    run_free(whole), run_free(first), run_free(rest), run_free(moved);
    /* what was frozen has no moments to go on with */
    run thawed = asked((const char *const[]){"--freeze=embeddings", "--lr-schedule=cosine", "--warmup-steps=0",
                                             "--warmup-ratio=0.3", "--layer-lr-decay=0.7", NULL},
                       2, OPTIONS("--shard=zero1", "--allow-change=freeze"));
    thawed.keep_going = 1;
    assert_int_equal(run_status(&thawed), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "was not trained (--freeze)"));
}

/* Factors of 1, given by name; and a decay of the rate that nothing above the embeddings sees. */
TEST(one_rate_changes_nothing) {
    run what = asked((const char *const[]){NULL}, 0, NULL);
    run *plain = run_on(&what);
    what = asked((const char *const[]){"--layer-lr-decay=1", "--head-lr=0.01", NULL}, 0, NULL);
    run *same = run_on(&what);
    expect_same_bits(plain, same, "factors of 1");
    what = asked((const char *const[]){"--layer-lr-decay=0.9", NULL}, 0, NULL);
    run *slower = run_on(&what);
    assert_true(plain->loss[0][0] == slower->loss[0][0] && plain->loss[0][STEPS - 1] != slower->loss[0][STEPS - 1]);
    run_free(plain), run_free(same), run_free(slower);
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_one_text, remove_data); }
