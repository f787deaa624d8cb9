/* test_session_compress.c - runs whose gradients and weights travel in a code, on ranks that are threads: every code
 * with every shard, with and without a pipeline and microbatches. Each trains close to the run in full; resumed, it is
 * the uninterrupted run to the bit, errors included; and it moves to another mesh. `make test` runs a sample;
 * SOAK_STEPS=100: all of them. */
#include "tests/lib/test.h"
#include "tests/lib/session_runs.h"
#include "tests/lib/soak.h"

#include "base/hash.h"

static const char *const codes[] = {"bf16", "int8", "int4", "fp8"};
static const char *const shards[] = {"none", "zero1", "zero2", "zero3", "hybrid"};
enum { CODES = 4, SHARDS = 5, BEFORE = 3, AFTER = 3, HYBRID = 4, ZERO3 = 3, INT4 = 2 };

typedef struct cell {
    int code, shard, pp, mb, tp;
} cell;

static int feeds_back(const cell *c) { return c->code >= 2; }

/* dp: replicas; 0: those of the cell. */
static run of_cell(const cell *c, int dp, char text[static 8][48]) {
    run made = {.config = "three.json", .output = "coded"};
    int n = dp ? dp : c->shard == HYBRID ? 4 : 2;
    snprintf(text[0], 48, "--shard=%s", shards[c->shard]);
    snprintf(text[1], 48, "--pp-size=%d", c->pp);
    snprintf(text[2], 48, "--num-microbatches=%d", c->mb);
    snprintf(text[3], 48, "--compress-gradients=%s", codes[c->code]);
    snprintf(text[4], 48, "--error-feedback=%s", feeds_back(c) ? "yes" : "no");
    snprintf(text[5], 48, "--shard-size=%d", 2);
    snprintf(text[6], 48, "--compress-weights=%s", c->shard >= ZERO3 ? codes[c->code % 2] : "none");
    snprintf(text[7], 48, "--tp-size=%d", c->tp);
    made.ranks = n * c->pp * c->tp;
    for (int i = 0; i < 8; i++) made.option[i] = text[i];
    made.option[8] = "--check-replicas=2";
    return made;
}

/* Losses and norms near those of the run in full; `limit`: of norms. A sum that is lost or counted twice is far beyond:
 * coarse codes only add their noise. */
static void expect_near(const run *full, const run *have, const char *what, double limit) {
    for (int k = 0; k < have->steps; k++)
        if (!(fabs(full->loss[0][k] - have->loss[0][k]) <= 0.1 * full->loss[0][k]))
            fail_msg("%s: loss of step %d is %g, in full %g", what, k + 1, have->loss[0][k], full->loss[0][k]);
    for (int k = 0; k < have->steps; k++)
        if (!(fabs(full->norm[0][k] - have->norm[0][k]) <= limit * full->norm[0][k]))
            fail_msg("%s: norm of step %d is %g, in full %g", what, k + 1, have->norm[0][k], full->norm[0][k]);
}

static void expect_continued(const run *whole, const run *rest, const char *what) {
    if (memcmp(whole->loss[0] + BEFORE, rest->loss[0], AFTER * sizeof(double)) != 0)
        fail_msg("%s: other losses after a restart", what);
    for (int k = 0; k < 3; k++)
        if (memcmp(whole->state[k], rest->state[k], (size_t)whole->elements * sizeof(float)) != 0)
            fail_msg("%s: other bits in state %d after a restart", what, k);
}

static void try_cell(const cell *c, const run *full) {
    char text[8][48], moved[8][48], what[128];
    snprintf(what, sizeof what, "%s, %s, pp %d, tp %d, %d microbatches", codes[c->code], shards[c->shard], c->pp, c->tp,
             c->mb);
    run asked = of_cell(c, 0, text);
    asked.steps = BEFORE + AFTER, asked.evaluate = 1;
    run *whole = run_on(&asked);
    expect_near(full, whole, what, c->code == INT4 ? 0.6 : 0.2);
    asked.steps = BEFORE, asked.save = 1, asked.evaluate = 0;
    run *first = run_on(&asked);
    asked.steps = AFTER, asked.save = 0, asked.keep_going = 1;
    run *rest = run_on(&asked);
    expect_continued(whole, rest, what);
    run there = of_cell(c, c->shard == HYBRID ? 2 : 4, moved); /* a hybrid of two replicas is zero3 */
    there.steps = AFTER, there.keep_going = 1;
    run *other = run_on(&there);
    for (int k = 0; k < AFTER; k++)
        if (!(fabs(other->loss[0][k] - whole->loss[0][BEFORE + k]) <= 0.1 * whole->loss[0][BEFORE + k]))
            fail_msg("%s, moved: loss %g in place of %g", what, other->loss[0][k], whole->loss[0][BEFORE + k]);
    run_free(whole), run_free(first), run_free(rest), run_free(other);
}

TEST(every_code_with_every_mesh) {
    int whole = soak_count("SOAK_STEPS", 0) > 0, n = 0, tried = 0;
    run *full = run_on(&(run){.config = "three.json", .steps = BEFORE + AFTER});
    for (int code = 0; code < CODES; code++)
        for (int shard = 0; shard < SHARDS; shard++)
            for (int pp = 1; pp <= 2; pp++)
                for (int mb = 1; mb <= 4; mb += 3, n++) {
                    if (!whole && n % 11 != 1) continue;
                    try_cell(&(cell){code, shard, pp, mb, 1}, full);
                    tried++;
                }
    for (int shard = 0; shard <= ZERO3; shard += ZERO3) try_cell(&(cell){INT4, shard, 1, 1, 2}, full);
    print_message("%d of %d combinations\n", tried, n);
    run_free(full);
}

/* Of the second of two replicas, before the third step. */
static tri_status spoil_second(run *run, tri_session *session, int rank, int step) {
    (void)run;
    const tri_engine *e = &session->engine;
    for (int i = 0; i < e->n_weights && step == 2 && rank == 1; i++)
        if (strstr(e->weights[i].name, "fusion") && strstr(e->weights[i].name, "weight"))
            *(float *)e->weights[i].data = NAN;
    return TRI_OK;
}

static void discard(run *r) {
    for (int k = 0; k < 3; k++) free(r->state[k]);
    free(r->idle);
}

/* Who computed it is named, not who decoded it. */
TEST(a_bad_number_is_its_rank_s) {
    static const char *const kinds[] = {"--shard=none", "--shard=zero2"};
    for (int i = 0; i < 2; i++) {
        run spoiled = {.ranks = 2, .steps = 4, .config = "three.json", .before = spoil_second,
                       .option = {"--compress-gradients=int8", kinds[i]}};
        tri_status status = run_status(&spoiled);
        if (status != TRI_NOTFINITE || !strstr(tri_error(), "step 3: the") || !strstr(tri_error(), "on rank 1"))
            fail_msg("status %d: %s", status, tri_error());
        discard(&spoiled);
    }
}

/* What a rank keeps of each parameter: moments and errors. */
static uint64_t hash_kept(const tri_session *s) {
    const tri_engine *e = &s->engine;
    uint64_t all = 0;
    for (int i = 0; i < e->n_optimizer; i++) {
        const tri_slice *part = &e->optimizer[i].slice;
        all = tri__hash64(all, e->optimizer[i].data, (size_t)(part->end - part->begin) * sizeof(float));
    }
    return all;
}

static uint64_t kept[2]; /* of each rank, before the third step */

/* A scale at which the second rank's gradients overflow, in the third step: the first one's are finite. */
static tri_status scale_up(run *run, tri_session *session, int rank, int step) {
    (void)run;
    if (step == 2) kept[rank] = hash_kept(session);
    if (step == 2 && rank == 1) session->at.scale.scale = 0x1p60f;
    if (step == 3) session->at.scale.scale = 1024;
    if (step == 3 && kept[rank] != hash_kept(session))
        return tri__fail(TRI_DATA, "a skipped step changed what rank %d keeps", rank);
    return TRI_OK;
}

/* fp16: a step whose gradients overflow is skipped on all ranks, and changes no bit of moments and errors. */
TEST(an_overflow_is_skipped) {
    run *r = run_on(&(run){.ranks = 2, .steps = 6, .config = "three.json", .before = scale_up,
                           .option = {"--precision=fp16", "--compress-gradients=int4", "--error-feedback=yes"}});
    assert_true(r->skipped[0] == 1 && r->skipped[1] == 1);
    for (int k = 0; k < r->steps; k++)
        if (!isfinite(r->loss[0][k]) || (k != 2) != !!isfinite(r->norm[0][k]))
            fail_msg("step %d: loss %g, norm %g", k + 1, r->loss[0][k], r->norm[0][k]);
    assert_true(r->norm[0][5] < 3 * r->norm[0][0]);
    run_free(r);
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_three, remove_data); }
