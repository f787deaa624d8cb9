/* test_fp8_runs.c - FP8 training on ranks that are threads: close to bf16; the same bits where bf16 training has them,
 * else near; resumed to the bit, also on another mesh; tensors of zeros and ones that overflow. */
#include "tests/lib/test.h"
#include "tests/lib/session_runs.h"

#include "checkpoint/checkpoint.h"

enum { STEPS = 6 };
/* Other orders of sums, and other padding rows, move numbers over boundaries of their rounding to 8 bits. */
static const double NEAR = 4e-3; /* of the loss; up to 7.5e-4 was seen */

/* With up to four more options. */
static run asked(int ranks, const char *const *more) {
    run what = {.ranks = ranks, .steps = STEPS, .config = "fp8.json", .option = {"--precision=fp8"}};
    for (int i = 0; more && more[i]; i++) what.option[1 + i] = more[i];
    return what;
}

static run *made(int ranks, const char *const *more) {
    run what = asked(ranks, more);
    return run_on(&what);
}

static void expect_same(const run *want, run *have, const char *what) {
    expect_same_bits(want, have, what);
    run_free(have);
}

static void expect_near(const run *want, run *have, const char *what) {
    for (int k = 0; k < STEPS; k++)
        if (!(fabs(have->loss[0][k] - want->loss[0][k]) <= NEAR * want->loss[0][k]))
            fail_msg("%s: loss of step %d is %.9g instead of %.9g", what, k + 1, have->loss[0][k], want->loss[0][k]);
    run_free(have);
}

TEST(it_is_close_to_bf16) {
    enum { LONG = 40 };
    run what = asked(0, OPTIONS("--lr=0.005"));
    what.steps = LONG, what.evaluate = 1;
    run *fp8 = run_on(&what);
    what.option[0] = "--precision=bf16";
    run *bf16 = run_on(&what);
    int differ = 0;
    for (int k = 0; k < LONG; k++) {
        differ += fp8->loss[0][k] != bf16->loss[0][k];
        assert_true(fabs(fp8->loss[0][k] - bf16->loss[0][k]) < 0.05);
    }
    assert_true(differ > LONG / 2);
    assert_true(fabs(fp8->norm[0][0] - bf16->norm[0][0]) < 0.05 * bf16->norm[0][0]);
    assert_int_equal(fp8->skipped[0], 0);
    run_free(fp8), run_free(bf16);
}

TEST(the_same_bits) {
    run *one = made(0, OPTIONS("--num-microbatches=2"));
    static const char *const alone[][3] = {{"--recompute=selective"}, {"--recompute=full"}};
    for (int i = 0; i < 2; i++) expect_same(one, made(0, OPTIONS("--num-microbatches=2", alone[i][0])), alone[i][0]);
    static const char *const staged[][3] = {
        {"--schedule=1f1b"}, {"--schedule=zb-h1"}, {"--schedule=1f1b", "--recompute=full"}};
    for (int i = 0; i < 3; i++)
        expect_same(one, made(2, OPTIONS("--num-microbatches=2", "--pp-size=2", staged[i][0], staged[i][1])),
                    staged[i][0]);
    run_free(one);
    run *two = made(2, NULL);
    static const char *const sharded[][4] = {
        {"--shard=zero1"}, {"--shard=zero2"}, {"--shard=zero3"}, {"--shard=zero3", "--recompute=full"},
        {"--shard=zero3", "--reshard-after-forward=yes", "--prefetch=0"}, {"--shard=zero3", "--offload=params"}};
    for (size_t i = 0; i < sizeof sharded / sizeof *sharded; i++)
        expect_same(two, made(2, OPTIONS(sharded[i][0], sharded[i][1], sharded[i][2])),
                    sharded[i][1] ? sharded[i][1] : sharded[i][0]);
    run_free(two);
    static const char blocks[] = "--wrap-min-params=12000"; /* of two layers */
    two = made(2, OPTIONS("--shard=zero2", "--wrap=size", blocks));
    expect_same(two, made(2, OPTIONS("--shard=zero3", "--wrap=size", blocks)), blocks);
    run_free(two);
}

/* Of a layer with a weight that stays in 16 bits, the others are gathered in 8. */
TEST(the_same_bits_with_a_float_layer) {
    static const char option[] = "--float-layers=primary.encoder.layer.1.intermediate.dense.weight";
    run *two = made(2, OPTIONS(option));
    expect_same(two, made(2, OPTIONS(option, "--shard=zero3")), option);
    run_free(two);
}

TEST(near_on_other_meshes) {
    run *one = made(0, NULL);
    expect_near(one, made(2, NULL), "dp 2");
    expect_near(one, made(0, OPTIONS("--num-microbatches=3")), "3 microbatches");
    expect_near(one, made(2, OPTIONS("--tp-size=2")), "tp 2");
    expect_near(one, made(2, OPTIONS("--tp-size=2", "--sequence-parallel=yes")), "tp 2 with shares of the tokens");
    expect_near(one, made(2, OPTIONS("--cp-size=2")), "cp 2");
    expect_near(one, made(2, OPTIONS("--cp-size=2", "--cp-mode=ring")), "a ring of 2");
    expect_near(one, made(4, OPTIONS("--shard=hybrid", "--shard-size=2")), "hybrid, 2 of 4");
    expect_near(one, made(8, OPTIONS("--pp-size=2", "--tp-size=2", "--shard=zero1")), "pp 2, tp 2, dp 2");
    run_free(one);
}

/* Layers that steps leave out, or that are frozen: forms of their values are made where their products run. */
TEST(layers_left_out_or_frozen) {
    static const char *const options[] = {"--layer-drop=theta=0.5", "--freeze=layers=2"};
    for (int i = 0; i < 2; i++) {
        run *one = made(0, OPTIONS(options[i])), *two = made(2, OPTIONS(options[i], "--shard=zero3"));
        for (int k = 0; k < STEPS; k++) assert_true(isfinite(one->loss[0][k]) && one->norm[0][k] > 0);
        expect_near(one, two, options[i]);
        run_free(one);
    }
}

/* The history is a part of the state. */
static void expect_history(const char *folder) {
    tri_checkpoint *checkpoint;
    tri_shape shape;
    OK(tri__checkpoint_open(folder, 0, &checkpoint));
    static const char name[] = "fp8_history.primary.encoder.layer.2.intermediate.dense.weight";
    assert_true(tri__checkpoint_shape(checkpoint, name, &shape));
    assert_true(shape.n == 2 && shape.dim[0] == 3 && shape.dim[1] == 16);
    assert_false(tri__checkpoint_has(checkpoint, "fp8_history.primary.encoder.layer.0.intermediate.dense.weight"));
    assert_false(tri__checkpoint_has(checkpoint, "fp8_history.primary.encoder.layer.3.intermediate.dense.weight"));
    tri__checkpoint_close(checkpoint);
}

TEST(resumed) {
    static const struct {
        int ranks;
        const char *option[3];
        int again;            /* ranks of the run that goes on */
        const char *other[3];
    } rows[] = {{0, {"--num-microbatches=2"}, 0, {"--num-microbatches=2"}},
                {0, {"--num-microbatches=2"}, 2, {"--num-microbatches=2", "--pp-size=2"}},
                {2, {"--pp-size=2", "--num-microbatches=2"}, 0, {"--num-microbatches=2"}},
                {2, {"--shard=zero3"}, 2, {"--shard=zero1"}}};
    enum { HALF = 3 };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run *whole = made(rows[i].ranks, rows[i].option);
        run what = asked(rows[i].ranks, rows[i].option);
        what.steps = HALF, what.save = 1;
        run *first = run_on(&what);
        expect_history(first->folder);
        what = asked(rows[i].again, rows[i].other);
        what.steps = STEPS - HALF, what.keep_going = 1;
        run *second = run_on(&what);
        assert_memory_equal(second->loss[0], whole->loss[0] + HALF, (STEPS - HALF) * sizeof(double));
        for (int k = 0; k < 3; k++)
            assert_memory_equal(second->state[k], whole->state[k], (size_t)whole->elements * sizeof(float));
        run_free(whole), run_free(first), run_free(second);
    }
}

/* On tp ranks: near. With another precision: only if it is allowed, and the history begins anew. */
TEST(resumed_otherwise) {
    run *whole = made(0, NULL), what = asked(0, NULL);
    what.steps = 3, what.save = 1;
    run_free(run_on(&what));
    what = asked(2, OPTIONS("--tp-size=2"));
    what.steps = 3, what.keep_going = 1;
    run *moved = run_on(&what);
    for (int k = 0; k < 3; k++)
        assert_true(fabs(moved->loss[0][k] - whole->loss[0][3 + k]) < NEAR * whole->loss[0][3 + k]);
    run_free(moved);
    what = asked(0, NULL), what.steps = 3, what.keep_going = 1, what.option[0] = "--precision=bf16";
    assert_int_equal(run_status(&what), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "--allow-change precision"));
    what.option[1] = "--allow-change=precision", what.save = 1;
    run_free(run_on(&what));
    what.option[0] = "--precision=fp8", what.save = 0;
    run *back = run_on(&what);
    assert_true(isfinite(back->loss[0][2]) && back->skipped[0] == 0);
    run_free(back), run_free(whole);
}

/* ---- Numbers out of range ---- */

/* The weights of a parameter that compute, bf16: those that this rank has. */
static uint16_t *weights_of(tri_session *s, const char *name, size_t *bytes) {
    const tri_planned *train = &s->engine.plan.train;
    const tri_param *param = tri__model_find(s->engine.plan.model, name);
    assert_non_null(param);
    tri_range held = train->param_part[param->unit],
              part = tri__range_both(held, (tri_range){param->at, param->at + param->count});
    *bytes = (size_t)tri__range_count(part) * sizeof(uint16_t);
    return (uint16_t *)tri__exec_slot(s->engine.exec, 0, train->param[param->unit]) +
           (*bytes ? part.begin - held.begin : 0);
}

enum { SPOILT = 2 };
static const char spoilt[] = "primary.encoder.layer.1.output.dense.weight";

/* Infinite weights saturate in 8 bits: loss and gradients are finite, and only the maximum tells. */
static tri_status overflow(run *run, tri_session *s, int rank, int step) {
    size_t bytes;
    uint16_t *w = weights_of(s, spoilt, &bytes);
    (void)run, (void)rank;
    for (size_t i = 0; i < bytes / sizeof *w && step == SPOILT; i++) w[i] = 0x7F80;
    return TRI_OK;
}

TEST(a_step_that_overflows_is_not_applied) {
    for (int sharded = 0; sharded < 2; sharded++) { /* a rank that has none of the weight sees it, too */
        run what = asked(sharded ? 3 : 0, sharded ? OPTIONS("--shard=zero3") : NULL);
        what.before = overflow;
        assert_int_equal(run_status(&what), TRI_NOTFINITE);
        assert_non_null(strstr(tri_error(), "the first bad tensor is fp8.most."));
        assert_non_null(strstr(tri_error(), "Weights keep their last good values"));
        assert_true(isfinite(what.loss[0][SPOILT]));
    }
}

static tri_status zeros(run *run, tri_session *s, int rank, int step) {
    size_t bytes;
    uint16_t *w = weights_of(s, spoilt, &bytes);
    (void)run, (void)rank;
    if (step == 0) memset(w, 0, bytes);
    return TRI_OK;
}

/* Its maxima are 0, as are those of the gradient that it hands on: scales stay as they are. */
TEST(a_tensor_of_zeros) {
    run what = asked(0, NULL);
    what.before = zeros;
    run *one = run_on(&what);
    for (int k = 0; k < STEPS; k++) assert_true(isfinite(one->loss[0][k]) && isfinite(one->norm[0][k]));
    assert_int_equal(one->skipped[0], 0);
    run_free(one);
}

TEST(refused_by_name) {
    static const struct {
        const char *option, *says;
    } rows[] = {{"--quantize=int8", "does not go with --quantize"},
                {"--sync-every=4", "does not go with --sync-every"},
                {"--optimizer=zero-one-adam", "does not go with --optimizer zero-one-adam"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run what = asked(0, OPTIONS(rows[i].option));
        assert_int_equal(run_status(&what), TRI_USAGE);
        assert_non_null(strstr(tri_error(), rows[i].says));
    }
    run shallow = asked(0, NULL);
    shallow.config = "config.json"; /* encoders of two layers and of one */
    assert_int_equal(run_status(&shallow), TRI_USAGE);
    assert_non_null(strstr(tri_error(), "no product of this model would be in 8 bits"));
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_deep, remove_data); }
