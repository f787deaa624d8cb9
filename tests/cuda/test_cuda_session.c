/* test_cuda_session.c - training on a GPU: the CPU's losses, the same bits when repeated and with graphs, resume,
 * evaluation, offload memory, FP8, replicated state, refusal of plans that do not fit. Skipped, with the reason,
 * without a GPU.
 *
 * timeout: 240 */
#include "checkpoint/memory.h"
#include "tests/lib/test.h"
#include "tests/lib/session_runs.h"

enum { STEPS = 50 };

static void expect_losses(const run *want, const run *have, double limit, const char *what) {
    double worst = 0;
    for (int k = 0; k < have->steps; k++) {
        double off = fabs(have->loss[0][k] - want->loss[0][k]);
        if (!(off <= limit))
            fail_msg("%s: loss of step %d is %.9g, the CPU's %.9g", what, k + 1, have->loss[0][k], want->loss[0][k]);
        worst = fmax(worst, off);
    }
    print_message("    %s: losses differ by at most %.2g in %d steps\n", what, worst, have->steps);
}

static run *train(const char *const *options) {
    run what = {.steps = STEPS, .evaluate = 1};
    for (int i = 0; options[i]; i++) what.option[i] = options[i];
    return run_on(&what);
}

/* DESIGN 3's limit for another implementation: 1e-4 over 50 steps, dropout on: the masks are the same. */
TEST(the_cpus_losses) {
    static const struct {
        const char *option[3], *name;
        double limit;
    } rows[] = {
        {{"--precision=fp32"}, "fp32", 1e-4},
        {{"--precision=fp32", "--num-microbatches=3"}, "fp32, 3 microbatches", 1e-4},
        {{"--precision=fp32", "--recompute=full"}, "fp32, recomputation", 1e-4},
        {{"--precision=fp32", "--offload=optimizer,gradients"}, "fp32, offload", 1e-4},
        {{"--precision=fp32", "--average-weights=ema:0.9"}, "fp32, averages", 1e-4},
        {{"--precision=fp32", "--tune-products"}, "fp32, products timed", 1e-4},
        {{"--precision=bf16"}, "bf16", 3e-2},
        {{"--precision=fp16"}, "fp16", 1e-2},
        {{"--precision=fp32", "--quantize=int8"}, "fp32, int8 products", 1e-2},
        {{"--precision=bf16", "--quantize=int8"}, "bf16, int8 products", 3e-2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *on_cpu[] = {"--device=cpu", rows[i].option[0], rows[i].option[1], NULL};
        const char *on_gpu[] = {"--device=cuda", rows[i].option[0], rows[i].option[1], NULL};
        run *want = train(on_cpu), *have = train(on_gpu);
        expect_losses(want, have, rows[i].limit, rows[i].name);
        assert_true(fabs(want->scores[0].loss - have->scores[0].loss) <= 2 * rows[i].limit);
        run_free(want);
        run_free(have);
    }
}

TEST(the_same_bits_again) {
    static const char *const precision[] = {"--precision=fp32", "--precision=bf16"};
    for (int i = 0; i < 2; i++) {
        run *first = train(OPTIONS("--device=cuda", precision[i])),
            *again = train(OPTIONS("--device=cuda", precision[i]));
        expect_same_bits(first, again, precision[i]);
        run_free(first);
        run_free(again);
    }
}

/* Repeated runs are replayed as graphs; those of a profile are queued kernel by kernel. */
TEST(replayed_runs_give_the_same_bits) {
    static const char *const more[] = {"--num-microbatches=1", "--num-microbatches=3", "--recompute=full"};
    for (int i = 0; i < 3; i++) {
        run *replayed = train(OPTIONS("--device=cuda", "--precision=bf16", more[i]));
        run *queued = train(OPTIONS("--device=cuda", "--precision=bf16", more[i], "--profile=wait=0,active=50"));
        expect_same_bits(replayed, queued, more[i]);
        run_free(replayed);
        run_free(queued);
    }
}

/* Copies to offload memory and back change no bit of losses, weights or moments. */
TEST(second_memory) {
    static const char *const precision[] = {"--precision=fp32", "--precision=bf16", "--precision=fp16"};
    static const char *const classes[] = {"--offload=optimizer", "--offload=gradients", "--offload=params",
                                          "--offload=activations", "--offload=optimizer,gradients,params,activations"};
    static const char *const more[] = {"--num-microbatches=1", "--num-microbatches=2", "--recompute=full"};
    static const char *const average[] = {"--average-weights=ema:0.9", "--average-weights=ema",
                                          "--average-weights=none"};
    for (int i = 0; i < 3; i++) {
        run plain = {.steps = 10, .evaluate = 1, .option = {"--device=cuda", precision[i], more[i], average[i]}};
        run *kept = run_on(&plain);
        for (size_t k = 0; k < sizeof classes / sizeof *classes; k++) {
            run away = plain;
            away.option[4] = classes[k];
            run *moved = run_on(&away);
            expect_same_bits(kept, moved, classes[k]);
            assert_true(moved->scores[0].loss == kept->scores[0].loss);
            run_free(moved);
        }
        run_free(kept);
    }
}

TEST(a_resumed_run_is_the_whole_one) {
    static const char *const average[] = {"--average-weights=none", "--average-weights=ema:0.9"};
    for (int i = 0; i < 2; i++) {
        run whole = {.steps = 20, .output = "half", .option = {"--device=cuda", "--precision=bf16", average[i]}};
        run half = whole, rest = whole;
        half.steps = 11, half.save = half.evaluate = 1, rest.steps = 9, rest.keep_going = 1;
        run *a = run_on(&whole), *b = run_on(&half), *c = run_on(&rest);
        for (int k = 0; k < 9; k++) assert_true(a->loss[0][11 + k] == c->loss[0][k]);
        for (int k = 0; k < 3; k++) assert_memory_equal(a->state[k], c->state[k], (size_t)a->elements * sizeof(float));
        run_free(a), run_free(b), run_free(c);
    }
}

static run *train_fp8(const char *device, const char *more, const char *profile) {
    run what = {.steps = 20, .evaluate = 1, .config = "fp8.json",
                .option = {device, "--precision=fp8", more, profile}};
    return run_on(&what);
}

/* The CPU emulates it: as near as bf16, though sums in another order move numbers by whole steps of 8 bits. */
TEST(fp8_training) {
    static const char *const more[] = {"--num-microbatches=1", "--num-microbatches=3", "--recompute=full"};
    for (int i = 0; i < 3; i++) {
        run *want = train_fp8("--device=cpu", more[i], NULL), *have = train_fp8("--device=cuda", more[i], NULL);
        run *again = train_fp8("--device=cuda", more[i], NULL);
        run *queued = train_fp8("--device=cuda", more[i], "--profile=wait=0,active=50");
        expect_losses(want, have, 3e-2, more[i]);
        expect_same_bits(have, again, "FP8 again");
        expect_same_bits(have, queued, "FP8 without graphs");
        run_free(want), run_free(have), run_free(again), run_free(queued);
    }
    run whole = {.steps = 20, .config = "fp8.json", .output = "half", .option = {"--device=cuda", "--precision=fp8"}};
    run half = whole, rest = whole;
    half.steps = 11, half.save = 1, rest.steps = 9, rest.keep_going = 1;
    run *a = run_on(&whole), *b = run_on(&half), *c = run_on(&rest);
    assert_memory_equal(a->loss[0] + 11, c->loss[0], 9 * sizeof(double));
    for (int k = 0; k < 3; k++) assert_memory_equal(a->state[k], c->state[k], (size_t)a->elements * sizeof(float));
    run_free(a), run_free(b), run_free(c);
}

/* What the last step left, laid out as a kept copy. */
static struct {
    char *copy; /* [bytes] */
    size_t bytes;
    int compared;
} last;

/* Of the step before the last one, the kept copy is complete: the last step ran while it was made. */
static tri_status compare_kept(run *run, tri_session *s, int rank, int step) {
    const tri_planned *train = &s->engine.plan.train;
    const tri_program *p = train->program;
    const char *kept = tri__memory_data(s->kept, !(step & 1), &last.bytes);
    (void)run, (void)rank;
    if (!last.copy) last.copy = calloc(1, last.bytes);
    TRI_TRY(tri__engine_fetch(&s->engine));
    for (int i = 0; i < train->posted; i++) {
        int x = TRI_SLOT(&p->instr[i], copy_post, x), y = TRI_SLOT(&p->instr[i], copy_post, y);
        size_t at = (size_t)tri__slot_offset(p, y), bytes = (size_t)tri__slot_bytes(&p->slot[x], &p->max);
        if (step > 1 && memcmp(kept + at, last.copy + at, bytes) != 0)
            return tri__fail(TRI_DISAGREE, "%s of step %d was not kept as it is", p->slot[x].name, step - 1);
        memcpy(last.copy + at, tri__exec_slot(s->engine.exec, s->engine.train, x), bytes);
        last.compared += step > 1;
    }
    return TRI_OK;
}

TEST(kept_state_is_the_checkpoints) {
    static const char *const precision[] = {"--precision=fp32", "--precision=bf16", "--precision=fp8"};
    static const char *const more[] = {"--num-microbatches=1", "--offload=optimizer", "--average-weights=ema:0.9"};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            run what = {.ranks = 1, .steps = 8, .config = "fp8.json", .before = compare_kept,
                        .option = {"--device=cuda", "--replicate-state", precision[i], more[k]}};
            run *kept = run_on(&what);
            assert_true(last.compared > 0);
            free(last.copy);
            last.copy = NULL, last.compared = 0;
            run_free(kept);
        }
}

TEST(what_does_not_fit_is_refused) {
    tri_session *session = NULL;
    assert_int_equal(
        join_status(NULL, &session, "large", OPTIONS("--device=cuda", "--resume=never", "--max-tokens=2000000000")),
        TRI_RESOURCE);
    print_message("    %s\n", tri_error());
    assert_non_null(strstr(tri_error(), "is free"));
}

TEST(bad_numbers_stop_the_run) {
    tri_session *s = open_session("bad", OPTIONS("--device=cuda", "--resume=never"));
    int more;
    OK(take_step(s, NULL, &more));
    OK(tri__engine_fetch(&s->engine));
    ((float *)s->engine.weights[0].data)[0] = NAN;
    for (int i = 0; i < s->engine.n_weights; i++) ((float *)s->engine.weights[i].data)[0] = NAN;
    OK(tri__engine_upload(&s->engine));
    assert_int_equal(take_step(s, NULL, &more), TRI_NOTFINITE);
    assert_non_null(strstr(tri_error(), "the first bad tensor is"));
    tri_session_close(s);
}

int main(int argc, char **argv) {
    const tri_device *device;
    int64_t bytes;
    if (tri__device_get("cuda", &device) != TRI_OK || device->room(&tri__core, 0, &bytes) != TRI_OK) {
        puts(tri_error());
        return 77;
    }
    return run_listed(argc, argv, make_deep, remove_data);
}
