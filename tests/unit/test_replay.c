/* test_replay.c - a device that captures runs and replays them: the same bits as launching every kernel, while row
 * counts, inputs and steps change; runs that must not be captured are not. Needs no GPU. */
#include "tests/lib/test.h"
#include "tests/lib/lane_device.h"

enum { STEPS = 12 };

typedef struct outcome {
    int same, replays, asked;
} outcome;

static void plan_as(tiny *t, int lanes, unsigned offload, int n_mb) {
    tiny_open(t, "cpu", 2, 3, 0.1, n_mb);
    t->in.offload = offload;
    t->target.ahead = 4096, t->target.lanes = lanes;
    tiny_plan(t);
}

/* Steps of both programs; microbatches change places, and with them row counts, in some: whether losses and weights are
 * the CPU's. */
static outcome train(const lane_order *order, int lanes) {
    tiny here, there;
    plan_as(&here, 1, 0, 2);
    plan_as(&there, lanes, 0, 2);
    lanes_now.order = *order;
    tri_exec *want = tiny_exec(&here, "cpu", 1, 0), *got = tiny_exec_on(&there, &lane_device, 1, 0);
    outcome found = {.same = 1};
    assert_int_not_equal(here.feed[0].counts.of[TRI_SYM_T0], here.feed[1].counts.of[TRI_SYM_T0]);
    for (int step = 1; step <= STEPS; step++) {
        int turned = step % 3 == 0, update = there.plan.train.update, end = there.program[0]->n_instrs;
        tri_feed feed[2] = {here.feed[turned], here.feed[!turned]};
        OK(tri__exec_run(want, 0, 0, here.program[0]->n_instrs, (uint32_t)step, feed, NULL));
        OK(tri__exec_run(got, 0, 0, update, (uint32_t)step, feed, NULL));
        OK(tri__exec_run(got, 0, update, end, (uint32_t)step, feed, NULL));
        OK(tri__exec_finish(got));
        double a = tiny_loss(&here, want), b = tiny_loss(&there, got);
        found.same &= memcmp(&a, &b, sizeof a) == 0;
        tri_feed infer[2] = {feed[step % 2], feed[(step + 1) % 2]};
        OK(tri__exec_run(got, 1, 0, there.program[1]->n_instrs, 0, infer,
                         NULL)); /* the next step is queued behind it */
    }
    found.same &= tiny_same_weights(&here, want, &there, got);
    found.replays = lanes_now.replays, found.asked = lanes_now.asked;
    tri__exec_close(want);
    tri__exec_close(got);
    tiny_close(&here);
    tiny_close(&there);
    return found;
}

TEST(repeated_runs_give_the_same_bits) {
    const lane_order orders[] = {
        {.first = {0, 1, 2, 3}, .captures = 1}, {.first = {1, 0, 2, 3}, .captures = 1}, {.first = {-1}, .captures = 1}};
    for (int lanes = 1; lanes <= 2; lanes++)
        for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
            outcome found = train(&orders[i], lanes);
            assert_true(found.same);
            assert_int_equal(found.asked, 3 * STEPS);
            assert_int_equal(found.replays,
                             3 * STEPS - 2 * 5); /* five differ: the update does not ask for row counts */
        }
}

/* The test can fail: kernels that are repeated with what they were told first draw other numbers. */
TEST(steps_are_not_part_of_what_is_kept) {
    outcome found = train(&(lane_order){.first = {0, 1, 2, 3}, .captures = 1, .stale = 1}, 1);
    assert_true(found.replays > 0);
    assert_false(found.same);
}

/* What could not be captured is queued after all. */
TEST(runs_that_cannot_be_kept) {
    outcome found = train(&(lane_order){.first = {1, 0, 2, 3}, .captures = 1, .fails = 1}, 2);
    assert_true(found.same);
    assert_int_equal(found.replays, 0);
}

/* Copies between memories, marks, and looking at every value: each is queued, one by one. */
TEST(others_are_not_asked_for) {
    tiny t;
    int line, slot;
    for (int offload = 0; offload < 2; offload++) {
        plan_as(&t, 2, offload ? 1u << TRI_MEM_STATE : 0, 1);
        lanes_now.order = (lane_order){.first = {0, 1, 2, 3}, .captures = 1};
        tri_exec *exec = tiny_exec_on(&t, &lane_device, 1, 0);
        tri_time *times = calloc((size_t)t.program[0]->n_instrs, sizeof *times);
        OK(tri__exec_run(exec, 0, 0, t.program[0]->n_instrs, 1, t.feed, times));
        OK(tri__exec_finish(exec));
        OK(tri__exec_find_bad(exec, 0, 1, t.feed, &line, &slot));
        assert_int_equal(line, -1);
        assert_int_equal(lanes_now.asked, 0);
        OK(tri__exec_run(exec, 0, 0, t.program[0]->n_instrs, 1, t.feed, NULL));
        assert_int_equal(lanes_now.asked, !offload);
        OK(tri__exec_finish(exec));
        free(times);
        tri__exec_close(exec);
        tiny_close(&t);
    }
}

/* Rows of no sequence, which make counts equal that are not, change nothing; they are there for one rank whose kernels
 * are short. */
TEST(rounded_counts) {
    enum { GRANULE = 8 };
    tiny plain, round;
    plan_as(&plain, 1, 0, 2);
    tiny_open(&round, "cpu", 2, 3, 0.1, 2);
    round.target.granule = GRANULE;
    const double flops = 2 * 16 * 16 *
                         (double)round.in.max.of[TRI_SYM_T0]; /* of the wider encoder, which has the longer text */
    round.target.short_flops = flops;
    assert_int_equal(tri__plan_granule(&round.in), 1);
    round.target.short_flops = flops + 1;
    assert_int_equal(tri__plan_granule(&round.in), GRANULE);
    round.in.mesh.dp = 2;
    assert_int_equal(tri__plan_granule(&round.in), 1);
    round.in.mesh.dp = 1;
    tiny_plan(&round);
    tri_exec *want = tiny_exec(&plain, "cpu", 1, 0), *got = tiny_exec(&round, "cpu", 1, 0);
    for (int mb = 0; mb < 2; mb++) {
        round.feed[mb].counts = tri__counts_rounded(&round.feed[mb].counts, GRANULE);
        assert_true(round.feed[mb].counts.of[TRI_SYM_T0] > plain.feed[mb].counts.of[TRI_SYM_T0]);
    }
    for (int step = 1; step <= STEPS; step++) {
        OK(tri__exec_run(want, 0, 0, plain.program[0]->n_instrs, (uint32_t)step, plain.feed, NULL));
        OK(tri__exec_run(got, 0, 0, round.program[0]->n_instrs, (uint32_t)step, round.feed, NULL));
        assert_true(fabs(tiny_loss(&plain, want) - tiny_loss(&round, got)) <= 1e-6);
    }
    tri__exec_close(want);
    tri__exec_close(got);
    tiny_close(&plain);
    tiny_close(&round);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
