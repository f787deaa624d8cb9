/* test_session_onebit.c - runs of 1-bit optimizers on ranks that are threads: with every shard, with and without a
 * pipeline and microbatches. Each trains close to AdamW or LAMB; stopped before signs travel, at that step or after it
 * and resumed, it is the uninterrupted run to the bit, errors included; and it moves to other meshes, which keep the
 * sum of the errors. `make test` runs a sample; SOAK_STEPS=100: all of them. */
#include "tests/lib/test.h"
#include "tests/lib/session_runs.h"

#include "checkpoint/copies.h"
#include "tests/lib/soak.h"

static const char *const shards[] = {"none", "zero1", "zero2", "zero3", "hybrid"};
enum { SHARDS = 5, HYBRID = 4, STEPS = 8, FULL = 4, FIRST = 2 };

typedef struct cell {
    int zero_one, lamb; /* the optimizer: 0/1 Adam, whose steps are vvsvsvss; 1-bit LAMB; else 1-bit Adam */
    int alone;          /* 0/1 Adam whose steps are vvssayay */
    int shard, pp, tp, mb;
    const char *more; /* another option; NULL */
} cell;

/* The first step with signs. */
static int turn_of(const cell *c) { return c->zero_one ? FIRST : FULL; }

/* Runs of AdamW and of LAMB on one rank. */
typedef struct full_runs {
    run *of[2];
} full_runs;

static full_runs run_full(void) {
    static const char *const optimizer[] = {"--optimizer=adamw", "--optimizer=lamb"};
    full_runs made;
    for (int lamb = 0; lamb < 2; lamb++)
        made.of[lamb] = run_on(&(run){.config = "three.json", .steps = STEPS, .option = {optimizer[lamb]}});
    return made;
}

static void free_full(full_runs *full) { run_free(full->of[0]), run_free(full->of[1]); }

/* dp: replicas; 0: those of the cell. */
static run of_cell(const cell *c, int dp, char text[static 8][48]) {
    run made = {.config = "three.json", .output = "signs"};
    int n = dp ? dp : c->shard == HYBRID ? 4 : 2;
    snprintf(text[0], 48, "--shard=%s", shards[c->shard]);
    snprintf(text[1], 48, "--pp-size=%d", c->pp);
    snprintf(text[2], 48, "--tp-size=%d", c->tp);
    snprintf(text[3], 48, "--num-microbatches=%d", c->mb);
    snprintf(text[4], 48, "--%s=%d", c->zero_one ? "var-update-scaler" : "full-steps", turn_of(c));
    made.ranks = n * c->pp * c->tp;
    for (int i = 0; i < 5; i++) made.option[i] = text[i];
    made.option[5] = "--shard-size=2";
    made.option[6] = "--check-replicas=1";
    made.option[7] = c->zero_one ? "--optimizer=zero-one-adam"
                     : c->lamb   ? "--optimizer=onebit-lamb"
                                 : "--optimizer=onebit-adam";
    made.option[8] = c->alone ? "--var-freeze-step=3" : c->zero_one ? "--var-freeze-step=6" : c->more;
    made.option[9] = c->zero_one ? c->more : NULL;
    if (c->alone) made.option[9] = "--local-step-scaler=1", made.option[10] = "--local-step-clipper=2";
    if (c->alone) made.option[11] = c->more;
    return made;
}

/* Losses near those without signs: coarse, but a sum that is lost or counted twice is far beyond. The same to the bit
 * until signs travel; then squared norms of copies are added. */
static void expect_near(const run *full, const run *have, int turn, const char *what) {
    for (int k = 0; k < have->steps; k++) {
        double off = fabs(full->loss[0][k] - have->loss[0][k]), most = k <= turn ? 2e-5 : 0.1;
        if (!(off <= most * full->loss[0][k]))
            fail_msg("%s: loss of step %d is %g, not near %g", what, k + 1, have->loss[0][k], full->loss[0][k]);
        double ratio = have->norm[0][k] / full->norm[0][k];
        if (!(k < turn ? fabs(ratio - 1) < 1e-4 : ratio > 0.5 && ratio < (k == turn ? 2 : 5)))
            fail_msg("%s: norm of step %d is %g, not near %g", what, k + 1, have->norm[0][k], full->norm[0][k]);
    }
}

/* Momenta of the size of those without signs: one that travelled with the loss scale of fp16 would be 2^16 times it,
 * and is hardly seen in losses, as steps are limited. */
static void expect_momentum(const run *full, const run *have, const char *what) {
    double size[2] = {0};
    for (int64_t i = 0; i < (int64_t)full->elements; i++)
        size[0] += fabsf(full->state[1][i]), size[1] += fabsf(have->state[1][i]);
    if (!(size[1] > 0.3 * size[0] && size[1] < 3 * size[0]))
        fail_msg("%s: momenta of size %g, not near %g", what, size[1], size[0]);
}

static void expect_continued(const run *whole, const run *rest, int from, const char *what) {
    if (memcmp(whole->loss[0] + from, rest->loss[0], (size_t)(STEPS - from) * sizeof(double)) != 0)
        fail_msg("%s: other losses after a restart at step %d", what, from);
    for (int k = 0; k < 3; k++)
        if (memcmp(whole->state[k], rest->state[k], (size_t)whole->elements * sizeof(float)) != 0)
            fail_msg("%s: other bits in state %d after a restart at step %d", what, k, from);
}

/* What all copies together have not sent of a tensor, [elements of *shape]. */
static float *unsent(const tri_checkpoint *checkpoint, const char *name, const tri_shape *shape, size_t count) {
    float *sum = calloc(count, sizeof *sum);
    OK(tri__copies_read(checkpoint, &(tri_piece){.name = name, .dtype = TRI_F32, .shape = *shape,
                                                 .slice = tri__slice_whole(shape), .data = sum},
                        0, TRI_MERGE_SUM));
    return sum;
}

/* Of two checkpoints of the same step: the errors have the same sum over the copies, element by element. */
static void expect_same_errors(const char *before, const char *after, const char *what) {
    tri_checkpoint *a, *b;
    double size = 0;
    OK(tri__checkpoint_open(before, 0, &a));
    OK(tri__checkpoint_open(after, 0, &b));
    for (int i = 0; i < tri__checkpoint_count(a); i++) {
        tri_piece tensor;
        OK(tri__checkpoint_tensor(a, i, &tensor));
        if (strncmp(tensor.name, "error.", 6) != 0 && strncmp(tensor.name, "momentum_error.", 15) != 0) continue;
        tri_shape shape = {.n = tensor.shape.n - 1}; /* [copies, parameter's] */
        size_t count = 1;
        for (int d = 0; d < shape.n; d++) count *= (size_t)(shape.dim[d] = tensor.shape.dim[d + 1]);
        float *x = unsent(a, tensor.name, &shape, count), *y = unsent(b, tensor.name, &shape, count);
        for (size_t k = 0; k < count; k++, size += fabsf(x[k - 1]))
            if (!(fabsf(x[k] - y[k]) <= 1e-6f * fabsf(x[k])))
                fail_msg("%s: %s has an unsent sum of %g in place of %g", what, tensor.name, y[k], x[k]);
        free(x), free(y);
    }
    assert_true(size > 0);
    tri__checkpoint_close(a), tri__checkpoint_close(b);
}

/* Continues on another number of replicas: the errors' sum is kept, and losses stay near. */
static void try_move(const cell *c, const run *whole, int from, const char *what) {
    char moved[8][48], before[128], command[512];
    int dp = c->shard == HYBRID ? 2 : 3; /* a hybrid of two replicas is zero3 */
    run there = of_cell(c, dp, moved);
    snprintf(before, sizeof before, "%s/before", root);
    snprintf(command, sizeof command, "rm -rf %s && cp -r %s/signs %s", before, root, before);
    assert_int_equal(system(command), 0);
    there.keep_going = there.save = 1;
    run *same = run_on(&there); /* no step */
    expect_same_errors(before, same->folder, what);
    there.save = 0, there.steps = STEPS - from;
    run *other = run_on(&there);
    for (int k = 0; k < other->steps; k++)
        if (!(fabs(other->loss[0][k] - whole->loss[0][from + k]) <= 0.1 * whole->loss[0][from + k]))
            fail_msg("%s, moved: loss %g in place of %g", what, other->loss[0][k], whole->loss[0][from + k]);
    run_free(same), run_free(other);
}

static void try_cell(const cell *c, const full_runs *full, int n) {
    char text[8][48], what[128];
    snprintf(what, sizeof what, "%s%s, %s, pp %d, tp %d, %d microbatches %s", c->alone ? "alone " : "",
             c->zero_one ? "0/1"
             : c->lamb   ? "LAMB"
                         : "1-bit",
             shards[c->shard], c->pp, c->tp, c->mb, c->more ? c->more : "");
    run asked = of_cell(c, 0, text);
    asked.steps = STEPS;
    run *whole = run_on(&asked);
    if (!c->more) expect_near(full->of[c->lamb], whole, turn_of(c), what);
    expect_momentum(full->of[c->lamb], whole, what);
    for (int k = 0; k < STEPS; k++)
        if (!(whole->loss[0][k] < 2)) fail_msg("%s: loss of step %d is %g", what, k + 1, whole->loss[0][k]);
    int from = c->alone ? 4 + n % 4 : turn_of(c) - 1 + n % 4; /* before, at and after the first step with signs */
    asked.steps = from, asked.save = 1;
    run *first = run_on(&asked);
    asked.steps = STEPS - from, asked.save = 0, asked.keep_going = 1;
    run *rest = run_on(&asked);
    expect_continued(whole, rest, from, what);
    if (from > turn_of(c)) try_move(c, whole, from, what);
    run_free(whole), run_free(first), run_free(rest);
}

TEST(every_shard_with_every_mesh) {
    int all = soak_count("SOAK_STEPS", 0) > 0, n = 0, tried = 0;
    full_runs full = run_full();
    for (int shard = 0; shard < SHARDS; shard++)
        for (int pp = 1; pp <= 2; pp++)
            for (int mb = 1; mb <= 4; mb += 3, n++)
                for (int kind = 0; kind < 3; kind++) {
                    const cell c = {.zero_one = kind == 1, .lamb = kind == 2, .shard = shard, .pp = pp, .tp = 1,
                                    .mb = mb};
                    if (!all && (c.lamb ? n % 11 != 7 : n % 5 != (c.zero_one ? 3 : 2))) continue;
                    try_cell(&c, &full, n);
                    tried++;
                }
    print_message("%d of %d combinations\n", tried, 3 * n);
    free_full(&full);
}

/* Ranks that share layers, numbers of fewer bits, coded weights. A sample: two of three. */
TEST(other_meshes) {
    static const cell cells[] = {
        {.shard = 1, .pp = 1, .tp = 2, .mb = 1},
        {.shard = HYBRID, .pp = 1, .tp = 2, .mb = 1},
        {.shard = 0, .pp = 1, .tp = 1, .mb = 1, .more = "--precision=bf16"},
        {.shard = 2, .pp = 1, .tp = 1, .mb = 4, .more = "--precision=fp16"},
        {.shard = 3, .pp = 1, .tp = 1, .mb = 1, .more = "--compress-weights=int8"},
        {.zero_one = 1, .alone = 1, .shard = 0, .pp = 1, .tp = 1, .mb = 1},
        {.zero_one = 1, .alone = 1, .shard = HYBRID, .pp = 1, .tp = 1, .mb = 4},
        {.zero_one = 1, .alone = 1, .shard = 0, .pp = 2, .tp = 1, .mb = 4, .more = "--precision=bf16"},
        {.zero_one = 1, .alone = 1, .shard = 0, .pp = 1, .tp = 2, .mb = 1, .more = "--precision=fp16"},
        {.zero_one = 1, .shard = 2, .pp = 1, .tp = 2, .mb = 1},
        {.zero_one = 1, .shard = 0, .pp = 1, .tp = 1, .mb = 4, .more = "--precision=fp16"},
        {.zero_one = 1, .shard = HYBRID, .pp = 1, .tp = 1, .mb = 1, .more = "--precision=bf16"},
        {.lamb = 1, .shard = 1, .pp = 1, .tp = 2, .mb = 1},
        {.lamb = 1, .shard = 3, .pp = 1, .tp = 1, .mb = 1, .more = "--precision=bf16"},
        {.lamb = 1, .shard = 2, .pp = 1, .tp = 1, .mb = 4, .more = "--precision=fp16"},
    };
    int all = soak_count("SOAK_STEPS", 0) > 0;
    full_runs full = run_full();
    for (int i = 0; i < (int)(sizeof cells / sizeof *cells); i++)
        for (int when = 0; when < (all ? 4 : i % 3 != 2); when++) try_cell(&cells[i], &full, all ? when : i + 1);
    free_full(&full);
}

/* A single copy exchanges nothing, and is frozen all the same. */
TEST(one_copy) {
    full_runs full = run_full();
    for (int kind = 0; kind < 3; kind++) {
        char text[8][48];
        cell c = {.zero_one = kind == 1, .lamb = kind == 2, .pp = 1, .tp = 1, .mb = 1};
        run asked = of_cell(&c, 1, text);
        asked.steps = STEPS;
        run *one = run_on(&asked);
        expect_near(full.of[c.lamb], one, turn_of(&c), "one copy");
        asked.steps = c.zero_one ? STEPS - 2 : FULL;
        run *before = run_on(&asked);
        assert_memory_equal(one->state[2], before->state[2], (size_t)one->elements * sizeof(float));
        assert_true(memcmp(one->state[1], before->state[1], (size_t)one->elements * sizeof(float)) != 0);
        run_free(one), run_free(before);
    }
    free_full(&full);
}

/* States in offload memory, of which LAMB's sums need whole units. */
TEST(offload_changes_nothing) {
    for (int lamb = 0; lamb < 2; lamb++) {
        char text[8][48];
        run asked = of_cell(&(cell){.lamb = lamb, .shard = 1, .pp = 1, .tp = 1, .mb = 1, .more = "--precision=bf16"}, 0,
                            text);
        asked.steps = STEPS;
        run *here = run_on(&asked);
        asked.option[9] = "--offload=optimizer";
        run *there = run_on(&asked);
        expect_same_bits(here, there, asked.option[7]);
        run_free(here), run_free(there);
    }
}

/* A run that had ended goes on, with a variance that stays frozen: full steps are a fifth of the shorter run. */
TEST(a_longer_run_keeps_its_kinds) {
    run asked = {.config = "three.json", .output = "longer", .steps = 10, .save = 1,
                 .option = {"--optimizer=onebit-adam", "--adam-beta2=0.5", "--max-steps=10"}};
    run *first = run_on(&asked);
    asked.option[2] = "--max-steps=60", asked.steps = 2, asked.keep_going = 1;
    run *rest = run_on(&asked);
    assert_memory_equal(first->state[2], rest->state[2], (size_t)first->elements * sizeof(float));
    run_free(first), run_free(rest);
}

/* The steps after the shorter run's end are 2 and 1 eighths of the rate: the first has 2 of 3 parts. */
static tri_status expect_share(run *r, tri_session *s, int rank, int k) {
    (void)r, (void)rank, (void)k;
    if (s->at.step != 7 || fabs(s->hyper[3] - 2.0 / 3) < 1e-6) return TRI_OK;
    return tri__fail(TRI_DATA, "step 7 has %g of its window", s->hyper[3]);
}

/* Copies meet every 8th step, and at a run's end: a longer run's first window begins there. */
TEST(a_longer_run_begins_a_window) {
    run asked = {.config = "three.json", .output = "window", .steps = 6, .save = 1,
                 .option = {"--optimizer=zero-one-adam", "--var-freeze-step=2", "--local-step-scaler=1",
                            "--local-step-clipper=8", "--max-steps=6"}};
    run *first = run_on(&asked);
    asked.option[4] = "--max-steps=8", asked.steps = 2, asked.keep_going = 1, asked.before = expect_share;
    run *rest = run_on(&asked);
    run_free(first), run_free(rest);
}

/* Two ranks that share tokens, at weights that stay: full steps have one rank's norm; in steps with signs it is that
 * of their parts, as if these were uncorrelated. */
TEST(norms_of_shared_tokens) {
    run asked = {.config = "three.json", .steps = 6,
                 .option = {"--optimizer=onebit-adam", "--adam-beta2=0.5", "--full-steps=3", "--max-steps=6",
                            "--lr=0"}};
    run *one = run_on(&asked);
    asked.ranks = 2, asked.option[5] = "--cp-size=2";
    run *two = run_on(&asked);
    for (int k = 0; k < 6; k++) {
        double least = k < 3 ? 0.99999 : 0.99999 / sqrt(2), most = k < 3 ? 1.00001 : 2;
        if (!(two->norm[0][k] > least * one->norm[0][k] && two->norm[0][k] < most * one->norm[0][k]))
            fail_msg("step %d has a norm of %g, one rank %g", k, two->norm[0][k], one->norm[0][k]);
    }
    run_free(one), run_free(two);
}

/* A variance that would have been updated at step 6 is frozen after step 4. */
TEST(a_change_of_kinds_is_followed) {
    run asked = {.config = "three.json", .output = "earlier", .steps = 4, .save = 1,
                 .option = {"--optimizer=zero-one-adam", "--var-update-scaler=2", "--max-steps=8",
                            "--var-freeze-step=6"}};
    run *first = run_on(&asked);
    asked.option[3] = "--var-freeze-step=4", asked.option[4] = "--allow-change=var_freeze_step";
    asked.steps = 2, asked.keep_going = 1;
    run *rest = run_on(&asked);
    assert_memory_equal(first->state[2], rest->state[2], (size_t)first->elements * sizeof(float));
    run_free(first), run_free(rest);
}

/* Gradients of one step, in which the variance would not have been updated, overflow. */
static tri_status overflow_third(run *r, tri_session *s, int rank, int k) {
    (void)r, (void)rank, (void)k;
    s->at.scale.scale = s->at.step == FIRST ? 1e30f : 1024;
    if (s->at.step != 6 || (fabs(s->hyper[1] - (1 - pow(0.9, 5))) < 1e-6 && /* of steps vvsvss, without the third */
                            fabs(s->hyper[2] - (1 - pow(0.999, 3))) < 1e-6))
        return TRI_OK;
    return tri__fail(TRI_DATA, "step 6 has the corrections %g and %g", s->hyper[1], s->hyper[2]);
}

/* fp16: bias corrections count the steps that updated the momentum, and the variance; a resumed run knows both. */
TEST(skipped_steps_are_counted) {
    run asked = {.config = "three.json", .output = "skipped", .steps = STEPS, .before = overflow_third,
                 .option = {"--optimizer=zero-one-adam", "--var-update-scaler=2", "--max-steps=8",
                            "--precision=fp16"}};
    run *whole = run_on(&asked);
    assert_int_equal(whole->skipped[0], 1);
    asked.steps = FIRST + 2, asked.save = 1;
    run *first = run_on(&asked);
    asked.steps = STEPS - FIRST - 2, asked.save = 0, asked.keep_going = 1;
    run *rest = run_on(&asked);
    expect_continued(whole, rest, FIRST + 2, "a skipped step");
    run_free(whole), run_free(first), run_free(rest);
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_three, remove_data); }
