/* test_lanes.c - kernels in two lanes: lanes survive printing and parsing of programs; activations of the lanes do not
 * alias; dependencies between lanes have waits for every strategy and placement of slots; the checker finds every
 * missing wait; any order that a device may choose gives the bits of one lane. Needs no GPU. */
#include "tests/lib/test.h"
#include "tests/lib/lane_device.h"
#include "tests/lib/program_text.h"
#include "tests/lib/tensor_job.h"

#include "base/random.h"
#include "plan/pass.h"
#include "program/check.h"
#include "program/transfer.h"

#define CLASS(name) (1u << TRI_MEM_##name)

typedef struct layout {
    int n_mb;
    tri_recompute recompute;
    tri_dtype precision;
    unsigned offload;
} layout;

static void plan_as(tiny *t, const layout *how, int lanes) {
    tiny_open(t, "cpu", 2, 3, 0.1, how->n_mb);
    t->in.recompute = how->recompute, t->in.precision = t->in.reduce_dtype = how->precision,
    t->in.offload = how->offload;
    t->target.ahead = 4096, t->target.lanes = lanes;
    tiny_plan(t);
}

static int is_of(const tri_program *p, int i, const char *branch) {
    int unit = p->instr[i].unit;
    return p->instr[i].mb >= 0 && unit >= 0 && strncmp(p->unit[unit], branch, strlen(branch)) == 0;
}

/* ---- Programs ---- */

TEST(programs_have_lanes) {
    tiny t;
    plan_as(&t, &(layout){.n_mb = 2}, 2);
    for (int which = 0; which < 2; which++) {
        const tri_program *p = t.program[which];
        tri_program *parsed;
        char *first, *second;
        assert_int_equal(tri__program_lanes(p), 2);
        for (int i = 0; i < p->n_instrs; i++)
            assert_int_equal(p->instr[i].lane, p->instr[i].unit >= 0 && strncmp(p->unit[p->instr[i].unit], "secondary.",
                                                                                10) == 0); /* also of updates */
        OK(tri__program_text(p, &first));
        assert_non_null(strstr(first, "  secondary.layer.0  lane 1\n"));
        assert_non_null(strstr(first, "  primary.layer.0\n"));
        assert_non_null(strstr(first, "  after "));
        OK(tri__program_parse(&t.arena, "program", first, &parsed));
        OK(tri__program_text(parsed, &second));
        assert_string_equal(first, second);
        assert_true(tri__program_equal(p, parsed));
        free(first), free(second);
    }
    tiny_close(&t);
}

TEST(broken_words_are_refused) {
    static const char *const lines[] = {"lane 2", "lane", "lane x", "lane -1", "after", "after -1", "after 4294967296"};
    tri_arena arena;
    tri_program *parsed;
    OK(tri__arena_open(&arena, (size_t)1 << 16));
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char text[128];
        snprintf(text, sizeof text, "program p\nslot a act f32 [1,1] @0\n0 input a field=1  %s\n", lines[i]);
        assert_int_equal(tri__program_parse(&arena, "p", text, &parsed), TRI_DATA);
    }
    assert_int_equal(tri__program_parse(&arena, "p", "program p\nunit lane\n", &parsed), TRI_DATA);
    assert_int_equal(tri__program_parse(&arena, "p", "program p\nunit a lane=1\n", &parsed), TRI_DATA);
    OK(tri__program_parse(&arena, "p", "program p\nslot a act f32 [1,1] @0\n0 input a field=1  lane 1  after 7\n",
                          &parsed));
    assert_int_equal(parsed->instr[0].lane, 1);
    assert_int_equal(parsed->instr[0].await, 7);
    tri__arena_close(&arena);
}

/* What is committed: two encoders of one layer, two replicas. */
TEST(program_is_as_committed) {
    tiny t;
    job_what is = {.dp = 2, .n_mb = 1, .lanes = 2};
    job_plan(&t, job_filled(&is), 0);
    program_text_check("tests/programs/lanes.txt", t.program, 1);
    tiny_close(&t);
}

/* One lane where the device has one, in a pipeline, and with one text. */
TEST(others_have_none) {
    tiny t;
    plan_as(&t, &(layout){.n_mb = 2}, 1);
    assert_int_equal(tri__program_lanes(t.program[0]), 1);
    tiny_close(&t);
    plan_as(&t, &(layout){.n_mb = 2, .recompute = TRI_RECOMPUTE_FULL}, 2);
    assert_int_equal(tri__program_lanes(t.program[0]), 1);
    tiny_close(&t);
    tiny_open(&t, "cpu", 1, 3, 0, 1);
    t.target.lanes = 2;
    tiny_plan(&t);
    assert_int_equal(tri__program_lanes(t.program[0]), 1);
    tiny_close(&t);
    tiny_open_rank(&t, "cpu", 2, 3, 0, 2, &(tiny_rank){.pp = 2, .staging.schedule = TRI_SCHEDULE_1F1B});
    t.target.lanes = 2;
    OK(tri__plan(&t.arena, &t.in, 1, &t.plan));
    assert_int_equal(tri__program_lanes(t.plan.train.program), 1);
    tiny_close(&t);
}

/* Encoders take turns: neither does all of its work before the other begins. */
TEST(encoders_take_turns) {
    tiny t;
    plan_as(&t, &(layout){.n_mb = 1}, 2);
    const tri_program *p = t.program[0];
    int turns = 0, before = -1;
    for (int i = 0; i < p->n_instrs; i++) {
        int lane = is_of(p, i, "secondary.") ? 1 : is_of(p, i, "primary.") ? 0 : -1;
        if (p->instr[i].op == TRI_OP_input || lane < 0) continue;
        turns += before >= 0 && lane != before, before = lane;
    }
    assert_true(turns >= 8);
    tiny_close(&t);
}

/* ---- What waits for what ---- */

static int writes(const tri_instr *instr, int k) {
    return tri__begins(instr->op) || tri__ends(instr->op) || tri__access_writes(tri__instr_row(instr)->arg[k].access);
}

/* Bytes [range[0], range[1]) of a slot in its class. */
static void slot_range(const tri_program *p, int slot, int64_t range[2]) {
    int64_t bytes = tri__slot_bytes(&p->slot[slot], &p->max);
    range[0] = 0;
    for (; p->slot[slot].parent >= 0; slot = p->slot[slot].parent)
        range[0] += p->slot[slot].parent_at * (int64_t)tri__dtype_bytes(p->slot[slot].dtype);
    range[0] += p->slot[slot].offset, range[1] = range[0] + bytes;
}

static int conflict(const tri_program *p, int a, int b) {
    const tri_instr *x = &p->instr[a], *y = &p->instr[b];
    for (int k = 0; k < TRI_MAX_ARGS; k++)
        for (int l = 0; l < TRI_MAX_ARGS && x->slot[k] >= 0; l++) {
            int64_t r[2], s[2];
            if (y->slot[l] < 0 || p->slot[x->slot[k]].mem != p->slot[y->slot[l]].mem || !(writes(x, k) || writes(y, l)))
                continue;
            slot_range(p, x->slot[k], r), slot_range(p, y->slot[l], s);
            if (r[0] < s[1] && s[0] < r[1]) return 1;
        }
    return 0;
}

static int is_ordered_by_transfer(const tri_program *p, int i, int *post) {
    *post = tri__ends(p->instr[i].op) ? tri__transfer_post_of(p, i) : -1;
    return *post >= 0 && p->instr[*post].lane != p->instr[i].lane;
}

/* Every pair of different lanes that conflicts is in order by some wait, of a lane or of a transfer; and each wait is
 * for one that conflicts. Returns how many waits. */
static int expect_order(const tri_program *p) {
    int behind[2] = {-1, -1}, n = 0, post;
    for (int i = 0; i < p->n_instrs; i++) {
        int lane = p->instr[i].lane, wait = p->instr[i].await;
        if (wait >= 0) {
            n++;
            assert_true(wait < i && wait > behind[lane] && p->instr[wait].lane != lane);
            if (!conflict(p, wait, i)) fail_msg("instruction %d waits for %d for nothing", i, wait);
            behind[lane] = wait;
        }
        if (is_ordered_by_transfer(p, i, &post) && post > behind[lane]) behind[lane] = post;
        for (int j = behind[lane] + 1; j < i; j++)
            if (p->instr[j].lane != lane && conflict(p, j, i)) fail_msg("instruction %d does not wait for %d", i, j);
    }
    OK(tri__check(&p, 1));
    return n;
}

static tri_program *copy_of(tiny *t, const tri_program *p) {
    tri_program *made = tri__arena_alloc(&t->arena, sizeof *made);
    *made = *p;
    made->instr = tri__arena_alloc(&t->arena, (size_t)p->n_instrs * sizeof *made->instr);
    memcpy(made->instr, p->instr, (size_t)p->n_instrs * sizeof *made->instr);
    return made;
}

/* The same program in two lanes, with memory that was planned for one. */
static tri_program *in_lanes(tiny *t, const tri_program *p) {
    tri_program *made = copy_of(t, p);
    tri_target target = t->target;
    tri_plan_in in = t->in;
    target.lanes = 2, in.target = &target;
    for (int i = 0; i < p->n_instrs; i++) {
        tri_instr *instr = &made->instr[i];
        if (instr->unit >= 0) instr->lane = strncmp(p->unit[instr->unit], "secondary.", 10) == 0;
        else if (i && instr->mb >= 0 && tri__op_queue(instr->op) != TRI_QUEUE_COMPUTE) instr->lane = instr[-1].lane;
    }
    made->bytes[TRI_MEM_WORK] *= 2;
    tri__pass_waits(&(tri_pass){.arena = &t->arena, .in = &in, .program = made});
    return made;
}

static const job_what strategies[] = {
    {.n_mb = 3},
    {.n_mb = 2, .recompute = TRI_RECOMPUTE_SELECTIVE},
    {.dp = 2, .n_mb = 2},
    {.dp = 4, .sharding.kind = TRI_SHARD_ZERO1},
    {.dp = 2, .sharding = {.kind = TRI_SHARD_ZERO2, .bucket_mb = 0.001}, .n_mb = 2},
    {.dp = 2, .sharding = {.kind = TRI_SHARD_ZERO3, .prefetch = 1}},
    {.dp = 4, .sharding = {.kind = TRI_SHARD_HYBRID, .size = 2, .prefetch = 2}, .n_mb = 2},
    {.tp = 2},
    {.tp = 2, .sequence = 1, .dp = 2},
};
enum { STRATEGIES = sizeof strategies / sizeof *strategies };

TEST(all_strategies_wait_enough) {
    for (int i = 0; i < STRATEGIES; i++) {
        job_what is = strategies[i];
        job_filled(&is);
        tiny t;
        job_plan(&t, &is, is.dp - 1);
        assert_true(expect_order(in_lanes(&t, t.program[0])) > 0);
        t.target.lanes = 2;
        OK(tri__plan(&t.arena, &t.in, 1, &t.plan));
        assert_true(expect_order(t.plan.train.program) > 0);
        assert_true(expect_order(t.plan.infer.program) > 0);
        tiny_close(&t);
    }
}

/* Waits of one encoder for the other, but for inputs. */
static int waits_of_encoders(const tri_program *p) {
    int n = 0;
    for (int i = 0; i < p->n_instrs; i++) {
        int j = p->instr[i].await;
        if (j < 0 || p->instr[j].op == TRI_OP_input) continue;
        n += (is_of(p, i, "secondary.") && is_of(p, j, "primary.")) ||
             (is_of(p, i, "primary.") && is_of(p, j, "secondary."));
    }
    return n;
}

/* No encoder waits for the other to be done with memory: only what joins them does, and updates. */
TEST(lanes_do_not_wait_for_memory) {
    const layout layouts[] = {{.n_mb = 1},
                              {.n_mb = 3},
                              {.n_mb = 2, .precision = TRI_BF16},
                              {.n_mb = 2, .recompute = TRI_RECOMPUTE_SELECTIVE}};
    for (size_t k = 0; k < sizeof layouts / sizeof *layouts; k++) {
        tiny t;
        plan_as(&t, &layouts[k], 1);
        assert_true(waits_of_encoders(in_lanes(&t, t.program[0])) > 0); /* where the plan does not look at lanes */
        tiny_close(&t);
        plan_as(&t, &layouts[k], 2);
        assert_int_equal(waits_of_encoders(t.program[0]), 0);
        assert_int_equal(waits_of_encoders(t.program[1]), 0);
        tiny_close(&t);
    }
    tiny t; /* gradients of both in one bucket */
    job_what is = {.dp = 2, .n_mb = 2, .lanes = 2};
    job_plan(&t, job_filled(&is), 0);
    assert_int_equal(waits_of_encoders(t.program[0]), 0);
    tiny_close(&t);
}

/* ---- What the checker sees ---- */

/* The next instruction of a lane in a direction; -1. */
static int neighbour(const tri_program *p, int i, int lane, int step) {
    for (i += step; i >= 0 && i < p->n_instrs; i += step)
        if (p->instr[i].lane == lane) return i;
    return -1;
}

static void expect_caught(const tri_program *broken, int i, const char *how) {
    if (tri__check(&broken, 1) != TRI_INTERNAL) fail_msg("the wait of instruction %d, %s, is not missed", i, how);
    assert_non_null(strstr(tri_error(), "of the other lane, and may overtake it"));
}

/* No wait can be left out, come later, or be for an earlier instruction: each is needed. Returns how many there are. */
static int break_each_wait(tiny *t, const tri_program *p) {
    int n = 0;
    for (int i = 0; i < p->n_instrs; i++) {
        size_t mark = t->arena.used;
        tri_program *broken = copy_of(t, p);
        tri_instr *at = &broken->instr[i];
        int wait = at->await, next = neighbour(p, i, at->lane, 1);
        if (wait < 0) continue;
        n++;
        at->await = -1;
        expect_caught(broken, i, "left out");
        if (next >= 0 && broken->instr[next].await < wait) broken->instr[next].await = wait;
        expect_caught(broken, i, "one later");
        if (next >= 0) broken->instr[next] = p->instr[next];
        at->await = neighbour(p, wait, !at->lane, -1);
        expect_caught(broken, i, "for an earlier one");
        tri__arena_rewind(&t->arena, mark);
    }
    return n;
}

TEST(every_wait_is_needed) {
    int n = 0;
    for (int i = 0; i < STRATEGIES; i++) {
        job_what is = strategies[i];
        job_filled(&is);
        tiny t;
        job_plan(&t, &is, is.dp - 1);
        n += break_each_wait(&t, in_lanes(&t, t.program[0]));
        t.target.lanes = 2;
        OK(tri__plan(&t.arena, &t.in, 1, &t.plan));
        n += break_each_wait(&t, t.plan.train.program) + break_each_wait(&t, t.plan.infer.program);
        tiny_close(&t);
    }
    for (int act = 0; act < 2; act++) {
        tiny t;
        plan_as(&t, &(layout){.n_mb = 2, .offload = act ? CLASS(ACT) : CLASS(STATE) | CLASS(GRAD) | CLASS(PARAM)}, 2);
        n += break_each_wait(&t, t.program[0]);
        tiny_close(&t);
    }
    print_message("    %d waits\n", n);
    assert_true(n > 100);
}

/* Lanes and waits that are nonsense are named. */
TEST(nonsense_is_refused) {
    tiny t;
    plan_as(&t, &(layout){.n_mb = 1}, 2);
    int at = neighbour(t.program[0], 0, t.program[0]->instr[0].lane, 1); /* both in one lane */
    const struct {
        int lane, await;
        const char *word;
    } cases[] = {{2, -1, "no such lane"},
                 {-1, -1, "no such lane"},
                 {t.program[0]->instr[0].lane, 0, "not wait for an earlier instruction"},
                 {t.program[0]->instr[0].lane, at, "not wait for an earlier instruction"},
                 {t.program[0]->instr[0].lane, 1 << 30, "not wait for an earlier instruction"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tri_program *p = copy_of(&t, t.program[0]);
        p->instr[at].lane = cases[i].lane, p->instr[at].await = cases[i].await;
        assert_int_equal(tri__check((const tri_program *const[]){p}, 1), TRI_INTERNAL);
        if (!strstr(tri_error(), cases[i].word)) fail_msg("%s", tri_error());
    }
    tiny_close(&t);
}

/* ---- What comes of it ---- */

enum { STEPS = 2, ORDERS = 6 };
static const lane_order orders[ORDERS] = {{.first = {0, 1, 2, 3}}, {.first = {1, 0, 2, 3}}, {.first = {2, 3, 0, 1}},
                                          {.first = {3, 2, 1, 0}}, {.first = {-1}},         {.first = {1, 3, 0, 2}}};

/* Whether training on lanes, as `there` is planned, gives the bits of `here` on the CPU; weights of both are compared
 * too. */
static int same_bits(const tiny *here, const tiny *there, int *awaits) {
    tri_exec *want = tiny_exec(here, "cpu", 1, 0), *got = tiny_exec_on(there, &lane_device, 1, 0);
    int same = 1, update = there->plan.train.update, end = there->program[0]->n_instrs;
    for (int step = 1; step <= STEPS; step++) {
        OK(tri__exec_run(want, 0, 0, here->program[0]->n_instrs, (uint32_t)step, here->feed, NULL));
        OK(tri__exec_run(got, 0, 0, step % 2 ? update : end, (uint32_t)step, there->feed, NULL));
        if (step % 2) OK(tri__exec_run(got, 0, update, end, (uint32_t)step, there->feed, NULL));
        OK(tri__exec_finish(got));
        double a = tiny_loss(here, want), b = tiny_loss(there, got);
        same &= memcmp(&a, &b, sizeof a) == 0;
        OK(tri__exec_run(got, 1, 0, there->program[1]->n_instrs, 0, there->feed,
                         NULL)); /* the next step is queued behind it */
    }
    same &= tiny_same_weights(here, want, there, got);
    *awaits = lanes_now.awaits;
    tri__exec_close(want);
    tri__exec_close(got);
    return same;
}

TEST(any_order_gives_the_same_bits) {
    const layout layouts[] = {{.n_mb = 1},
                              {.n_mb = 2},
                              {.n_mb = 2, .recompute = TRI_RECOMPUTE_SELECTIVE},
                              {.n_mb = 3, .precision = TRI_BF16},
                              {.n_mb = 2, .offload = CLASS(ACT)},
                              {.n_mb = 2, .offload = CLASS(STATE) | CLASS(GRAD) | CLASS(PARAM) | CLASS(ACT)}};
    for (size_t k = 0; k < sizeof layouts / sizeof *layouts; k++) {
        tiny here, there, tight;
        layout plain = layouts[k];
        int awaits;
        plain.offload = 0;
        plan_as(&here, &plain, 1);
        plan_as(&there, &layouts[k], 2);
        plan_as(&tight, &layouts[k], 1); /* memory that lanes share all the time */
        for (int which = 0; which < 2; which++) tight.program[which] = in_lanes(&tight, tight.program[which]);
        for (int order = 0; order < ORDERS; order++) {
            lanes_now.order = orders[order];
            if (!same_bits(&here, &there, &awaits)) fail_msg("layout %d in order %d gives other bits", (int)k, order);
            assert_true(awaits > 0);
            if (!same_bits(&here, &tight, &awaits))
                fail_msg("layout %d, tight, in order %d gives other bits", (int)k, order);
        }
        tiny_close(&here);
        tiny_close(&there);
        tiny_close(&tight);
    }
}

/* The orders above are hard enough: without waits most of them go wrong. */
TEST(waits_are_needed) {
    tiny here, there;
    int awaits, wrong = 0;
    plan_as(&here, &(layout){.n_mb = 2}, 1);
    plan_as(&there, &(layout){.n_mb = 2}, 2);
    for (int order = 0; order < ORDERS; order++) {
        lanes_now.order = orders[order];
        lanes_now.order.deaf = 1;
        wrong += !same_bits(&here, &there, &awaits);
        assert_int_equal(awaits, 0);
    }
    assert_true(wrong >= ORDERS / 2);
    tiny_close(&here);
    tiny_close(&there);
}

/* A program in other lanes, or with other waits, that the checker accepts gives the same bits in any order. */
TEST(what_is_accepted_is_right) {
    enum { MUTANTS = 60 };
    tiny here, there;
    int awaits, accepted = 0;
    uint32_t rng = 0;
    plan_as(&here, &(layout){.n_mb = 2}, 1);
    plan_as(&there, &(layout){.n_mb = 2}, 2);
    const tri_program *was = there.program[0];
    for (int k = 0; k < MUTANTS; k++) {
        tri_program *p = copy_of(&there, was);
        tri_instr *at = &p->instr[tri__philox(5, 0, rng++, 0, 0, 0).word[0] % (uint32_t)p->n_instrs];
        int other = (int)(tri__philox(5, 0, rng++, 0, 0, 0).word[0] % (uint32_t)p->n_instrs);
        if (k % 2) at->lane = !at->lane;
        if (k % 3) at->await = other;
        if (tri__check((const tri_program *const[]){p}, 1) != TRI_OK) continue;
        accepted++;
        there.program[0] = p;
        for (int order = 0; order < ORDERS; order++) {
            lanes_now.order = orders[order];
            if (!same_bits(&here, &there, &awaits)) fail_msg("mutant %d, accepted, in order %d differs", k, order);
        }
    }
    print_message("    of %d changes %d were accepted\n", MUTANTS, accepted);
    assert_true(accepted > 0 && accepted < MUTANTS);
    tiny_close(&here);
    tiny_close(&there);
}

/* Programs in which encoders take turns, over ranks: the bits of those in which they do not. */
TEST(turns_change_nothing_for_ranks) {
    const job_what layouts[] = {{.dp = 2, .n_mb = 2, .dropout = 0.1},
                                {.dp = 2, .sharding = {.kind = TRI_SHARD_ZERO2, .bucket_mb = 0.001}},
                                {.dp = 3, .sharding = {.kind = TRI_SHARD_ZERO3, .prefetch = 1}},
                                {.tp = 2, .sequence = 1}};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        job of[2];
        for (int lanes = 1; lanes <= 2; lanes++) {
            job_what what = layouts[i];
            what.steps = 3, what.lanes = lanes;
            job_open(&of[lanes - 1], what);
            job_run(&of[lanes - 1]);
        }
        assert_memory_equal(of[0].loss[0], of[1].loss[0], 3 * sizeof of[0].loss[0][0]);
        assert_memory_equal(of[0].weights, of[1].weights,
                            (size_t)of[0].rank[0].model.n_elements * sizeof *of[0].weights);
        job_close(&of[0]);
        job_close(&of[1]);
    }
}

/* With marks, and when looking for bad numbers, one lane has all. */
TEST(marked_runs_have_one_lane) {
    tiny t;
    int line, slot;
    plan_as(&t, &(layout){.n_mb = 2}, 2);
    lanes_now.order = orders[1];
    tri_exec *exec = tiny_exec_on(&t, &lane_device, 1, 0);
    tri_time *times = calloc((size_t)t.program[0]->n_instrs, sizeof *times);
    OK(tri__exec_run(exec, 0, 0, t.program[0]->n_instrs, 1, t.feed, times));
    OK(tri__exec_finish(exec));
    OK(tri__exec_find_bad(exec, 0, 1, t.feed, &line, &slot));
    assert_int_equal(line, -1);
    assert_int_equal(lanes_now.switches, 0);
    OK(tri__exec_run(exec, 0, 0, t.program[0]->n_instrs, 1, t.feed, NULL));
    OK(tri__exec_finish(exec));
    assert_true(lanes_now.switches > 0);
    free(times);
    tri__exec_close(exec);
    tiny_close(&t);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
