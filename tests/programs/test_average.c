/* test_average.c - averaged weights on ranks that are threads: averages are those of their definition on every mesh
 * and in every precision, evaluations leave what is trained as it is, and a resumed run, on the same or another mesh,
 * is the uninterrupted one. What is refused. (PyTorch's averages: test_golden.c; offload memory: test_async.c.) */
#include "tests/lib/test.h"
#include "tests/lib/session_runs.h"

enum { STEPS = 7, MOST = 1 << 15 };

/* After k steps: the weights that are trained, and their average. Ranks own disjoint elements. */
static float live[32][MOST], average[32][MOST];
static int evaluates; /* 1: `look` validates, too */

static tri_status look(run *run, tri_session *s, int rank, int step) {
    const tri_engine *e = &s->engine;
    (void)run, (void)rank;
    if (e->model.n_elements > MOST) return tri__fail(TRI_INTERNAL, "the model has too many elements for this test");
    tri_result unused;
    if (evaluates) TRI_TRY(tri_evaluate(s, &unused));
    TRI_TRY(tri__engine_fetch(&s->engine));
    for (int i = 0; i < e->saved.n_weights; i++)
        run_copy(average[step] + run_piece_at(&e->model, e->saved.weights[i].name, ""), &e->saved.weights[i]);
    for (int i = 0; i < e->saved.n_optimizer; i++) {
        int64_t at = run_piece_at(&e->model, e->saved.optimizer[i].name, "live.");
        if (at >= 0) run_copy(live[step] + at, &e->saved.optimizer[i]);
    }
    return TRI_OK;
}

/* 4 batches an epoch. */
static void write_model(const char *name, const char *experts) {
    char text[1024];
    snprintf(text, sizeof text,
             "{\"label_name\": \"label\", \"primary_text_name\": \"review\","
             " \"tab_field_list\": [\"age\", \"score\"], \"primary_tokenizer\": \"vocab\","
             " \"hidden_common_dim\": 16, \"fusion_hidden_dim\": 12, \"max_sen_len\": 12, \"lr\": 0.01,"
             " \"weight_decay\": 0.1, \"warmup_steps\": 2, \"global_batch_size\": 32,"
             " \"primary_encoder\": {\"hidden_size\": 24, \"num_hidden_layers\": 2, \"num_attention_heads\": 4,"
             " \"intermediate_size\": 32, \"max_position_embeddings\": 16%s}}",
             experts);
    write_file(name, text);
}

static int make_model(void **state) {
    if (make_data(state)) return 1;
    write_model("model.json", "");
    write_model("experts.json", ", \"num_experts\": 4, \"expert_layers\": [1]");
    return 0;
}

/* more: NULL-terminated. */
static run asked(int ranks, const char *form, const char *const *more) {
    run made = {.ranks = ranks, .steps = STEPS, .config = "model.json", .output = "run", .before = look};
    int n = 0;
    made.option[n++] = form;
    for (; more && *more; more++) made.option[n++] = *more;
    return made;
}

static void expect_near(const float *got, const double *want, int64_t n, const char *what, int step) {
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= 1e-6 * fmax(fabs(want[i]), 0.1)))
            fail_msg("%s: after step %d average %lld is %.9g instead of %.9g", what, step, (long long)i,
                     (double)got[i], want[i]);
}

/* The averages are d * average + (1 - d) * weights of each step that was not `skipped`; -1: none. */
static void expect_ema(const run *run, double decay, int skipped, const char *what) {
    static double want[MOST];
    int taken = 0;
    for (int64_t i = 0; i < run->elements; i++) want[i] = live[0][i];
    for (int k = 0; k < run->steps; k++) {
        if (k && k != skipped) {
            double t = ++taken, d = fmin(decay, (1 + t) / (10 + t));
            for (int64_t i = 0; i < run->elements; i++) want[i] = d * want[i] + (1 - d) * live[k][i];
        }
        expect_near(average[k], want, run->elements, what, k);
    }
}

static const struct mesh {
    const char *name;
    int ranks;
    const char *option[5];
    double limit; /* of losses against one rank; 0: other numbers */
} meshes[] = {
    {"one rank", 0, {NULL}, 2e-6},
    {"replicas", 2, {"--check-replicas=2"}, 2e-6},
    {"zero1", 3, {"--shard=zero1", "--check-replicas=2"}, 2e-6},
    {"zero1, blocks of units", 2, {"--shard=zero1", "--wrap=size", "--wrap-min-params=3000"}, 2e-6},
    {"zero2", 2, {"--shard=zero2", "--num-microbatches=2"}, 2e-6},
    {"zero3", 2, {"--shard=zero3", "--check-replicas=2"}, 2e-6},
    {"hybrid", 4, {"--shard=hybrid", "--shard-size=2"}, 2e-6},
    {"pp, zero1", 4, {"--pp-size=2", "--shard=zero1", "--num-microbatches=2"}, 2e-6},
    {"tp, zero2", 4, {"--tp-size=2", "--shard=zero2"}, 1e-5},
    {"cp", 2, {"--cp-size=2"}, 2e-6},
    {"offload", 2, {"--shard=zero1", "--offload=optimizer"}, 2e-6},
    {"bf16, zero1", 2, {"--precision=bf16", "--shard=zero1", "--check-replicas=2"}, 0},
    {"bf16, tp", 2, {"--precision=bf16", "--tp-size=2"}, 0},
    {"fp16, zero3", 2, {"--precision=fp16", "--shard=zero3"}, 0},
    {"layers dropped", 2, {"--layer-drop=theta=0.5,gamma=0.5"}, 0},
    {"lamb", 2, {"--optimizer=lamb", "--shard=zero2"}, 0},
    {"sgd", 2, {"--optimizer=sgd", "--momentum=0", "--shard=zero1"}, 0},
    {"onebit-adam", 2, {"--optimizer=onebit-adam", "--full-steps=3", "--epochs=2"}, 0},
};
enum { MESHES = sizeof meshes / sizeof *meshes };

TEST(every_mesh_keeps_the_average) {
    run *one = NULL;
    for (int i = 0; i < MESHES; i++) {
        run what = asked(meshes[i].ranks, "--average-weights=ema:0.6", meshes[i].option);
        what.evaluate = 1;
        run *have = run_on(&what);
        expect_ema(have, 0.6, -1, meshes[i].name);
        if (!one) one = have;
        else if (meshes[i].limit > 0) {
            expect_within(one, have, meshes[i].name, meshes[i].limit); /* its weights are averages */
            assert_true(fabs(have->scores[0].loss - one->scores[0].loss) <= 1e-5);
        }
        if (have != one) run_free(have);
    }
    run_free(one);
}

TEST(ranks_that_share_experts) {
    run what = asked(4, "--average-weights=ema:0.6", OPTIONS("--ep-size=2", "--shard=zero1", "--check-replicas=2"));
    what.config = "experts.json", what.evaluate = 1;
    run *have = run_on(&what);
    expect_ema(have, 0.6, -1, "experts");
    run_free(have);
}

/* Averages change nothing of what is trained, evaluations in between nothing of either. */
TEST(training_goes_on_with_its_weights) {
    static const struct mesh *const some[] = {&meshes[0], &meshes[2], &meshes[11], &meshes[13]};
    for (int i = 0; i < 4; i++) {
        run what = asked(some[i]->ranks, "--average-weights=none", some[i]->option);
        what.before = NULL;
        run *none = run_on(&what);
        what = asked(some[i]->ranks, "--average-weights=ema", some[i]->option);
        run *seen = run_on(&what);
        evaluates = 1;
        run *often = run_on(&what);
        evaluates = 0;
        expect_same_bits(seen, often, some[i]->name);
        assert_memory_equal(seen->loss[0], none->loss[0], sizeof none->loss[0]);
        for (int k = 1; k < 3; k++) /* moments: those of the same gradients */
            assert_memory_equal(seen->state[k], none->state[k], (size_t)none->elements * sizeof(float));
        run_free(none), run_free(seen), run_free(often);
    }
}

/* Epochs of 4 steps; the run ends within the third. */
TEST(last_epochs) {
    static const char *const precision[] = {"--precision=fp32", "--precision=bf16"};
    static double want[MOST];
    for (int i = 0; i < 2; i++) {
        run what = asked(2, "--average-weights=last:2", OPTIONS("--shard=zero1", "--max-steps=11", precision[i]));
        what.steps = 11;
        run *have = run_on(&what);
        for (int k = 0; k < 11; k++) { /* up to the end of the second epoch the weights, then it stays */
            int from = k < 8 ? k : 8;
            assert_memory_equal(average[k], live[from], (size_t)have->elements * sizeof(float));
        }
        what.before = NULL, what.option[0] = "--average-weights=none";
        run *none = run_on(&what); /* its weights after the last step */
        for (int64_t k = 0; k < have->elements; k++) want[k] = ((double)live[8][k] + none->state[0][k]) / 2;
        expect_near(have->state[0], want, have->elements, precision[i], 11);
        run_free(have), run_free(none);
    }
}

static int overflows; /* this step, counted from 0 */

static tri_status overflow(run *run, tri_session *s, int rank, int step) {
    TRI_TRY(look(run, s, rank, step));
    s->at.scale.scale = step == overflows ? 1e38f : 1024;
    return TRI_OK;
}

TEST(skipped_steps) {
    run what = asked(0, "--average-weights=ema:0.6", OPTIONS("--precision=fp16"));
    what.before = overflow, overflows = 2;
    run *have = run_on(&what);
    assert_int_equal(have->skipped[0], 1);
    assert_memory_equal(live[3], live[2], (size_t)have->elements * sizeof(float));
    expect_ema(have, 0.6, 3, "a skipped step");
    run_free(have);

    what = asked(0, "--average-weights=last:2", OPTIONS("--precision=fp16", "--global-batch-size=51", "--epochs=3"));
    what.steps = 6, what.before = overflow, overflows = 5; /* epochs of two steps; the last one is skipped */
    static double want[MOST];
    have = run_on(&what);
    assert_int_equal(have->skipped[0], 1);
    for (int64_t k = 0; k < have->elements; k++) want[k] = ((double)live[4][k] + live[5][k]) / 2;
    expect_near(have->state[0], want, have->elements, "a skipped end of an epoch", 6);
    run_free(have);
}

TEST(a_resumed_run_is_the_whole_one) {
    static const struct {
        const char *form, *option[4];
        int half, steps;
    } rows[] = {{"--average-weights=ema:0.6", {"--shard=zero1"}, 3, 7},
                {"--average-weights=ema:0.6", {"--shard=zero2", "--precision=bf16", "--async-save=yes"}, 3, 7},
                {"--average-weights=last:2", {"--shard=zero1", "--epochs=3"}, 10, 12},
                {"--average-weights=last:2", {"--shard=zero3", "--epochs=3"}, 5, 12}};
    for (int i = 0; i < 4; i++) {
        run what = asked(2, rows[i].form, rows[i].option);
        int rest = rows[i].steps - rows[i].half;
        what.steps = rows[i].steps, what.before = NULL;
        run *whole = run_on(&what);
        what.steps = rows[i].half, what.save = 1;
        run *first = run_on(&what);
        what.steps = rest, what.save = 0, what.keep_going = 1;
        run *second = run_on(&what);
        assert_memory_equal(second->loss[0], whole->loss[0] + rows[i].half, (size_t)rest * sizeof(double));
        for (int k = 0; k < 3; k++)
            assert_memory_equal(second->state[k], whole->state[k], (size_t)whole->elements * sizeof(float));
        what.ranks = 3, what.option[1] = i % 2 ? "--shard=none" : "--shard=zero3";
        run *moved = run_on(&what);
        for (int k = 0; k < rest && i != 1; k++)
            assert_true(fabs(moved->loss[0][k] - second->loss[0][k]) <= 2e-6 * fmax(second->loss[0][k], 0.1));
        if (i != 1) assert_true(run_distance(moved, second) <= 1e-4);
        run_free(whole), run_free(first), run_free(second), run_free(moved);
    }
}

/* A run may begin to average, and cease to: then it goes on from the weights that were trained. */
TEST(averages_of_another_run) {
    run what = asked(2, "--average-weights=none", OPTIONS("--shard=zero1"));
    what.before = NULL;
    run *plain = run_on(&what);
    what.option[0] = "--average-weights=ema", what.steps = 3, what.save = 1;
    run_free(run_on(&what));
    what.option[0] = "--average-weights=none", what.steps = STEPS - 3, what.save = 0, what.keep_going = 1;
    assert_int_equal(run_status(&what), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "--allow-change average_weights"));
    what.option[2] = "--allow-change=average_weights";
    run *ceased = run_on(&what);
    assert_memory_equal(ceased->loss[0], plain->loss[0] + 3, (STEPS - 3) * sizeof(double));
    assert_memory_equal(ceased->state[0], plain->state[0], (size_t)plain->elements * sizeof(float));
    run_free(ceased);

    what.option[0] = "--average-weights=none", what.option[2] = NULL, what.steps = 3, what.save = 1,
    what.keep_going = 0;
    run_free(run_on(&what));
    what.option[0] = "--average-weights=ema", what.option[2] = "--allow-change=average_weights";
    what.steps = STEPS - 3, what.save = 0, what.keep_going = 1;
    run *began = run_on(&what);
    assert_memory_equal(began->loss[0], plain->loss[0] + 3, (STEPS - 3) * sizeof(double));
    run_free(began), run_free(plain);
}

TEST(what_is_refused) {
    static const struct {
        const char *form, *option[4], *words;
    } rows[] = {
        {"--average-weights=swa", {NULL}, "expected ema, ema:DECAY, last:N or none"},
        {"--average-weights=ema:1", {NULL}, "above 0 and below 1"},
        {"--average-weights=ema:0.9x", {NULL}, "above 0 and below 1"},
        {"--average-weights=last:0", {NULL}, "1 or more"},
        {"--average-weights=last:", {NULL}, "1 or more"},
        {"--average-weights=last:3", {"--epochs=2"}, "give last:2, or more epochs"},
        {"--average-weights=last:3", {"--max-steps=8"}, "the run has 2 epochs: give last:2"},
        {"--average-weights=last:2", {"--early-stopping=1"}, "take --average-weights ema"},
        {"--average-weights=ema", {"--sync-every=2"}, "with --sync-every 2: copies of the model take local steps"},
        {"--average-weights=ema",
         {"--optimizer=zero-one-adam", "--var-freeze-step=4", "--local-step-scaler=1", "--var-update-scaler=1"},
         "take --local-step-clipper 1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *more[5] = {rows[i].option[0], rows[i].option[1], rows[i].option[2], rows[i].option[3], NULL};
        run what = asked(2, rows[i].form, more);
        assert_int_equal(run_status(&what), TRI_USAGE);
        if (!strstr(tri_error(), rows[i].words)) fail_msg("%zu: %s", i, tri_error());
    }
    run early = asked(0, "--average-weights=ema", OPTIONS("--early-stopping=1"));
    run_free(run_on(&early));
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_model, remove_data); }
