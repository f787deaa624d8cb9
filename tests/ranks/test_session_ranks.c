/* test_session_ranks.c - training on ranks that are threads, against one rank: the same losses for any number of
 * replicas, including uneven batches and ranks without samples; the same bits when repeated; one evaluation; a
 * checkpoint of three ranks. */
#include "tests/lib/test.h"
#include "tests/lib/session_data.h"

#include <math.h>

enum { RANKS = 4, STEPS = 40 };

/* One run, and what each of its ranks saw. Without ranks: in place 0. */
typedef struct run {
    const char *output, *batch; /* "--global-batch-size=12" */
    const char *resume;         /* "--resume=never" */
    int steps, evaluate, save;
    double loss[RANKS][STEPS];
    char digest[RANKS][33];
    tri_result scores[RANKS];
    char folder[TRI_PATH_MAX];  /* of the checkpoint */
} run;

static tri_status train_opened(run *run, int rank, tri_session *session) {
    int more = 1;
    for (int k = 0; k < run->steps; k++) {
        TRI_TRY(take_step(session, &run->loss[rank][k], &more));
        if (!more) return tri__fail(TRI_INTERNAL, "the run ended after %d steps", k);
    }
    TRI_TRY(session_digest(session, run->digest[rank]));
    if (run->evaluate) TRI_TRY(tri_evaluate(session, &run->scores[rank]));
    char folder[TRI_PATH_MAX];
    if (run->save) TRI_TRY(tri_save(session, folder, sizeof folder));
    if (run->save && rank == 0) memcpy(run->folder, folder, sizeof folder);
    return TRI_OK;
}

static tri_status train(tri_world *world, void *context) {
    run *run = context;
    tri_session *session = NULL;
    TRI_TRY(
        join_status(world, &session, run->output,
                    OPTIONS(run->resume, run->batch, "--epochs=60", "--max-steps=40", "--lr=0.005", "--threads=1")));
    tri_status status = train_opened(run, world ? tri_world_rank(world) : 0, session);
    tri_session_close(session);
    return status;
}

/* ranks 0: without any. */
static run *train_on(int ranks, run what) {
    run *made = calloc(1, sizeof *made);
    *made = what;
    if (!made->resume) made->resume = "--resume=never";
    tri_ranks how = {.n = ranks, .heap_bytes = 16 << 20, .progress_timeout = 60};
    OK(ranks ? tri_ranks_run(&how, train, made) : train(NULL, made));
    return made;
}

/* DESIGN 3: another mesh, |dloss| <= 2e-6 * max(loss, 0.1), dropout on. All ranks see the loss of the whole batch. */
static void expect_losses(const run *want, const run *have, int ranks, const char *what) {
    double worst = 0;
    for (int k = 0; k < have->steps; k++) {
        double limit = 2e-6 * fmax(want->loss[0][k], 0.1), off = fabs(have->loss[0][k] - want->loss[0][k]);
        worst = fmax(worst, off);
        if (off > limit)
            fail_msg("%d ranks, %s: loss of step %d is %.9g instead of %.9g", ranks, what, k + 1, have->loss[0][k],
                     want->loss[0][k]);
        for (int r = 1; r < ranks; r++)
            if (have->loss[r][k] != have->loss[0][k])
                fail_msg("%d ranks, %s: step %d has another loss on rank %d", ranks, what, k + 1, r);
    }
    print_message("    %d ranks, %s: losses differ by at most %.2g\n", ranks, what, worst);
}

/* Batches of 12, the last of an epoch of 5, class weights 1 and 2. One rank as a world of its own changes no bit. */
TEST(ranks_give_the_losses_of_one) {
    run *one = train_on(0, (run){.output = "one", .batch = "--global-batch-size=12", .steps = STEPS});
    for (int n = 1; n <= RANKS; n++) {
        run *many = train_on(n, (run){.output = "many", .batch = "--global-batch-size=12", .steps = STEPS});
        expect_losses(one, many, n, "batches of 12");
        if (n == 1) assert_string_equal(one->digest[0], many->digest[0]);
        for (int r = 1; r < n; r++) assert_string_equal(many->digest[r], many->digest[0]); /* the replicas are alike */
        free(many);
    }
    free(one);
}

/* A batch of 2 leaves ranks without a sample; one of 3 on 2 ranks is never even. */
TEST(a_rank_without_samples_counts_nothing) {
    static const char *const batch[] = {"--global-batch-size=2", "--global-batch-size=3"};
    static const int ranks[][2] = {{3, 4}, {2, 4}};
    for (int b = 0; b < 2; b++) {
        run *one = train_on(0, (run){.output = "one", .batch = batch[b], .steps = STEPS});
        for (int i = 0; i < 2; i++) {
            run *many = train_on(ranks[b][i], (run){.output = "many", .batch = batch[b], .steps = STEPS});
            expect_losses(one, many, ranks[b][i], b ? "batches of 3" : "batches of 2");
            free(many);
        }
        free(one);
    }
}

TEST(two_runs_are_bitwise_equal) {
    for (int n = 2; n <= RANKS; n++) {
        run *first = train_on(n, (run){.output = "first", .batch = "--global-batch-size=12", .steps = 12});
        run *again = train_on(n, (run){.output = "again", .batch = "--global-batch-size=12", .steps = 12});
        assert_memory_equal(first->loss, again->loss, sizeof first->loss);
        assert_memory_equal(first->digest, again->digest, sizeof first->digest);
        free(first);
        free(again);
    }
}

TEST(evaluation_is_one) {
    run *one = train_on(0, (run){.output = "one", .batch = "--global-batch-size=12", .steps = 10, .evaluate = 1});
    for (int n = 2; n <= RANKS; n++) {
        run *many = train_on(n, (run){.output = "many", .batch = "--global-batch-size=12", .steps = 10, .evaluate = 1});
        assert_int_equal(many->scores[0].rows, 30);
        for (int r = 1; r < n; r++) assert_memory_equal(&many->scores[r], &many->scores[0], sizeof many->scores[0]);
        assert_true(fabs(many->scores[0].loss - one->scores[0].loss) < 2e-6 * fmax(one->scores[0].loss, 0.1));
        free(many);
    }
    free(one);
}

/* Saved by three: its files hold the replicas' weights, and the run goes on as if it had not been interrupted. */
TEST(a_checkpoint_of_three_is_whole) {
    char digest[33];
    tri_checkpoint *checkpoint;
    run *whole = train_on(3, (run){.output = "whole", .batch = "--global-batch-size=12", .steps = STEPS});
    run *cut = train_on(3, (run){.output = "cut", .batch = "--global-batch-size=12", .steps = STEPS / 2, .save = 1});
    OK(tri__checkpoint_open(cut->folder, 0, &checkpoint));
    OK(tri__checkpoint_digest(checkpoint, digest));
    tri__checkpoint_close(checkpoint);
    assert_string_equal(digest, cut->digest[0]);
    assert_string_not_equal(cut->digest[0], whole->digest[0]);
    run *rest = train_on(3, (run){.output = "cut",
                                  .resume = "--resume=auto",
                                  .batch = "--global-batch-size=12",
                                  .steps = STEPS - STEPS / 2});
    assert_string_equal(rest->digest[2], whole->digest[0]);
    free(whole);
    free(cut);
    free(rest);
}

int main(int argc, char **argv) { return run_listed(argc, argv, make_data, remove_data); }
