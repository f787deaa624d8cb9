/* test_optimizers.c - every optimizer on ranks that are threads: shards of any kind give the bits of none (LAMB, whose
 * norms are sums over shards: within DESIGN 3's bound), other meshes one rank's result, offload changes nothing, and a
 * resumed run is the uninterrupted one to the bit. A checkpoint of another optimizer is taken only if it has what is
 * needed. */
#include "tests/lib/test.h"
#include "tests/lib/session_runs.h"

typedef struct row {
    const char *name, *option[3]; /* option: NULL-terminated */
    int sums;                     /* norms over shards decide its steps */
} row;

static const row rows[] = {{"adam", {"--optimizer=adam"}, 0},
                           {"sgd", {"--optimizer=sgd", "--momentum=0"}, 0},
                           {"momentum", {"--optimizer=sgd"}, 0},
                           {"nesterov", {"--optimizer=sgd", "--nesterov=yes"}, 0},
                           {"lamb", {"--optimizer=lamb"}, 1}};
enum { ROWS = sizeof rows / sizeof *rows, STEPS = 6, HALF = 3 };

/* more: NULL-terminated. */
static run asked(const row *of, int ranks, const char *const *more) {
    run made = {.ranks = ranks, .steps = STEPS, .config = "model.json", .output = "run"};
    int n = 0;
    for (int i = 0; of->option[i]; i++) made.option[n++] = of->option[i];
    for (; more && *more; more++) made.option[n++] = *more;
    return made;
}

TEST(shards_agree) {
    static const char *const shards[] = {"--shard=zero1", "--shard=zero2", "--shard=zero3"};
    for (int i = 0; i < ROWS; i++) {
        const char *precision = i % 2 ? "--precision=bf16" : "--precision=fp32";
        run what = asked(&rows[i], 3, OPTIONS(precision));
        run *none = run_on(&what);
        for (int k = 0; k < 3; k++) {
            what = asked(&rows[i], 3, OPTIONS(precision, shards[k]));
            run *have = run_on(&what);
            if (rows[i].sums) expect_close(none, have, rows[i].name);
            else expect_same_bits(none, have, rows[i].name);
            run_free(have);
        }
        run_free(none);
    }
}

TEST(meshes_agree) {
    static const struct {
        int ranks;
        const char *option[4];
        double limit;
    } meshes[] = {{4, {"--pp-size=2", "--shard=zero1", "--num-microbatches=2"}, 2e-6},
                  {4, {"--shard=hybrid", "--shard-size=2"}, 2e-6},
                  {4, {"--tp-size=2", "--shard=zero3"}, 1e-5}};
    for (int i = 0; i < ROWS; i++) {
        run what = asked(&rows[i], 0, NULL);
        run *one = run_on(&what);
        for (size_t k = 0; k < sizeof meshes / sizeof *meshes; k++) {
            what = asked(&rows[i], meshes[k].ranks, meshes[k].option);
            run *have = run_on(&what);
            expect_within(one, have, rows[i].name, meshes[k].limit);
            run_free(have);
        }
        run_free(one);
    }
}

TEST(offload_changes_nothing) {
    for (int i = 0; i < ROWS; i++) {
        run what = asked(&rows[i], 2, OPTIONS("--shard=zero1", "--precision=bf16"));
        run *here = run_on(&what);
        what = asked(&rows[i], 2, OPTIONS("--shard=zero1", "--precision=bf16", "--offload=optimizer"));
        run *there = run_on(&what);
        expect_same_bits(here, there, rows[i].name);
        run_free(here), run_free(there);
    }
}

TEST(a_resumed_run_is_the_whole_one) {
    for (int i = 0; i < ROWS; i++) {
        run what = asked(&rows[i], 2, OPTIONS("--shard=zero1"));
        run *whole = run_on(&what);
        what.steps = HALF, what.save = 1;
        run *first = run_on(&what);
        what.save = 0, what.keep_going = 1;
        run *rest = run_on(&what);
        assert_memory_equal(rest->loss[0], whole->loss[0] + HALF, HALF * sizeof(double));
        for (int k = 0; k < 3; k++)
            assert_memory_equal(rest->state[k], whole->state[k], (size_t)whole->elements * sizeof(float));
        run there = asked(&rows[i], 3, OPTIONS("--shard=zero3")); /* another mesh reads the same states */
        there.steps = HALF, there.keep_going = 1;
        run *moved = run_on(&there);
        for (int k = 0; k < HALF; k++)
            assert_true(fabs(moved->loss[0][k] - rest->loss[0][k]) <= 2e-6 * fmax(rest->loss[0][k], 0.1));
        run_free(whole), run_free(first), run_free(rest), run_free(moved);
    }
}

/* adam's states are adamw's, and what sgd keeps is not enough for either. */
TEST(another_optimizer_s_checkpoint) {
    run sgd = asked(&rows[2], 2, NULL);
    sgd.save = 1;
    run_free(run_on(&sgd));
    run adam = asked(&rows[0], 2, NULL);
    adam.keep_going = 1;
    assert_int_equal(run_status(&adam), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "--allow-change"));
    adam = asked(&rows[0], 2, OPTIONS("--allow-change=optimizer"));
    adam.keep_going = 1;
    assert_int_equal(run_status(&adam), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "no optimizer state 'exp_avg.*'"));
    adam = asked(&rows[0], 2, NULL);
    adam.save = 1;
    run_free(run_on(&adam));
    run lamb = asked(&rows[4], 2, OPTIONS("--allow-change=optimizer"));
    lamb.keep_going = 1;
    run_free(run_on(&lamb));
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_one_text, remove_data); }
