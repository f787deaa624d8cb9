/* test_lanes.c - kernels in two lanes: programs say so and are read back; activations of lanes stay apart; what depends
 * on the other lane waits for it, whatever the strategy and wherever slots lie; and any order that a device may choose
 * gives the bits of one lane. No GPU is needed. */
#include "lane_device.h"
#include "tensor_job.h"

#include "exec/lanes.h"
#include "program/text.h"
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

static void programs_have_lanes(void **state) {
    (void)state;
    tiny t;
    plan_as(&t, &(layout){.n_mb = 2}, 2);
    for (int which = 0; which < 2; which++) {
        const tri_program *p = t.program[which];
        tri_program *parsed;
        char *first, *second;
        assert_int_equal(tri__program_lanes(p), 2);
        for (int u = 0; u < p->n_units; u++) assert_int_equal(p->lane[u], strncmp(p->unit[u], "secondary.", 10) == 0);
        for (int i = 0; i < p->n_instrs; i++)
            assert_int_equal(tri__instr_lane(p, i),
                             p->instr[i].unit >= 0 &&
                                 p->lane[p->instr[i].unit]); /* also of sums of squares and updates */
        OK(tri__program_text(p, &first));
        assert_non_null(strstr(first, "\nunit secondary.layer.0 lane=1\n"));
        assert_non_null(strstr(first, "\nunit primary.layer.0\n"));
        OK(tri__program_parse(&t.arena, "program", first, &parsed));
        OK(tri__program_text(parsed, &second));
        assert_string_equal(first, second);
        free(first), free(second);
    }
    tri_program *parsed;
    assert_int_equal(tri__program_parse(&t.arena, "p", "program p\nunit a lane=2\n", &parsed), TRI_DATA);
    assert_int_equal(tri__program_parse(&t.arena, "p", "program p\nunit a line=1\n", &parsed), TRI_DATA);
    tiny_close(&t);
}

/* One lane where the device has one, in a pipeline, and with one text. */
static void others_have_none(void **state) {
    (void)state;
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
static void encoders_take_turns(void **state) {
    (void)state;
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
    return tri__begins(instr->op) || tri__ends(instr->op) || tri__access_writes(tri__op_row(instr->op)->arg[k].access);
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

/* Every pair of different lanes that conflicts is in order by some wait; and each wait is for one that conflicts.
 * Returns how many waits. */
static int expect_order(const tri_program *p) {
    tri_lanes lanes;
    OK(tri__lanes_find(p, &lanes));
    int behind[2] = {-1, -1}, n = 0;
    for (int i = 0; i < p->n_instrs; i++) {
        int lane = lanes.lane[i], wait = lanes.wait[i];
        if (wait >= 0) {
            n++;
            assert_true(wait < i && wait > behind[lane] && lanes.lane[wait] != lane && lanes.number[wait] > 0);
            if (!conflict(p, wait, i)) fail_msg("instruction %d waits for %d for nothing", i, wait);
            behind[lane] = wait;
        }
        for (int j = behind[lane] + 1; j < i; j++)
            if (lanes.lane[j] != lane && conflict(p, j, i)) fail_msg("instruction %d does not wait for %d", i, j);
    }
    tri__lanes_free(&lanes);
    return n;
}

/* The same program in two lanes, with memory that was planned for one. */
static tri_program *in_lanes(tiny *t, const tri_program *p) {
    tri_program *made = tri__arena_alloc(&t->arena, sizeof *made);
    *made = *p;
    made->lane = tri__arena_alloc(&t->arena, (size_t)p->n_units);
    for (int u = 0; u < p->n_units; u++) made->lane[u] = strncmp(p->unit[u], "secondary.", 10) == 0;
    made->bytes[TRI_MEM_WORK] *= 2;
    return made;
}

static void all_strategies_wait_enough(void **state) {
    (void)state;
    const job_what layouts[] = {
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
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        job_what is = layouts[i];
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
    tri_lanes lanes;
    int n = 0;
    OK(tri__lanes_find(p, &lanes));
    for (int i = 0; i < p->n_instrs; i++) {
        int j = lanes.wait[i];
        if (j < 0 || p->instr[j].op == TRI_OP_input) continue;
        n += (is_of(p, i, "secondary.") && is_of(p, j, "primary.")) ||
             (is_of(p, i, "primary.") && is_of(p, j, "secondary."));
    }
    tri__lanes_free(&lanes);
    return n;
}

/* No encoder waits for the other to be done with memory: only what joins them does, and updates. */
static void lanes_do_not_wait_for_memory(void **state) {
    (void)state;
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

static void any_order_gives_the_same_bits(void **state) {
    (void)state;
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
static void waits_are_needed(void **state) {
    (void)state;
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

/* Programs in which encoders take turns, over ranks: the bits of those in which they do not. */
static void turns_change_nothing_for_ranks(void **state) {
    (void)state;
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
static void marked_runs_have_one_lane(void **state) {
    (void)state;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_have_lanes),
        cmocka_unit_test(others_have_none),
        cmocka_unit_test(encoders_take_turns),
        cmocka_unit_test(all_strategies_wait_enough),
        cmocka_unit_test(lanes_do_not_wait_for_memory),
        cmocka_unit_test(any_order_gives_the_same_bits),
        cmocka_unit_test(waits_are_needed),
        cmocka_unit_test(turns_change_nothing_for_ranks),
        cmocka_unit_test(marked_runs_have_one_lane),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
