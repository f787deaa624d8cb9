/* test_exec_keep.c - copies of weights and optimizer state that a device makes while it computes the next step: they
 * are of the step before, in any order that the device may choose. Needs no GPU. */
#include "tests/lib/test.h"
#include "tests/lib/lane_device.h"

enum { STEPS = 4, ORDERS = 4 };

/* Kernels first; copies first; at random; kernels of the second lane first. */
static const lane_order orders[ORDERS] = {{.first = {0, 1, 2, 3, 4}}, {.first = {4, 3, 2, 1, 0}}, {.first = {-1}},
                                          {.first = {1, 0, 3, 2, 4}}};

typedef struct layout {
    int n_mb, lanes;
    tri_dtype precision;
    unsigned offload;
} layout;

static void plan_as(tiny *t, const layout *how) {
    tiny_open(t, "cpu", 2, 3, 0.1, how->n_mb);
    t->in.precision = t->in.reduce_dtype = how->precision, t->in.offload = how->offload, t->in.replicate = 1;
    t->target.ahead = 4096, t->target.lanes = how->lanes;
    tiny_plan(t);
}

static size_t half_of(const tiny *t) { return (size_t)t->program[0]->bytes[TRI_MEM_KEPT] / 2; }

/* What the program's copies are of now. */
static void look_up(const tiny *t, const tri_exec *exec, char *into) {
    const tri_program *p = t->program[0];
    for (int i = 0; i < t->plan.train.posted; i++) {
        int x = TRI_SLOT(&p->instr[i], copy_post, x), y = TRI_SLOT(&p->instr[i], copy_post, y);
        size_t bytes = (size_t)tri__slot_bytes(&p->slot[x], &p->max);
        memcpy(into + tri__slot_offset(p, y), tri__exec_slot(exec, 0, x), bytes);
    }
}

/* Trains on the CPU and on lanes, where what each step leaves is kept while the next one runs: forward and backward
 * pass and update at once, apart, or posts and waits by themselves before them. `waits` 0: nobody waits for copies
 * before the update. Returns how many copies were not of their step. */
static int keep_steps(const layout *how, const lane_order *order, int waits) {
    tiny here, there;
    layout plain = *how;
    plain.offload = 0, plain.lanes = 1;
    plan_as(&here, &plain);
    plan_as(&there, how);
    lanes_now.order = *order;
    tri_exec *want = tiny_exec(&here, "cpu", 1, 0), *got = tiny_exec_on(&there, &lane_device, 1, 0);
    size_t half = half_of(&there);
    assert_true(half == half_of(&here) && here.plan.train.posted == there.plan.train.posted && half > 1000);
    char *kept[2] = {calloc(2, half), calloc(2, half)}, *right = calloc(1, half);
    int direct, wrong = 0, end = there.program[0]->n_instrs;
    const tri_planned *p = &there.plan.train;
    OK(tri__exec_keep_in(want, kept[0], 2 * half, 0, &direct));
    OK(tri__exec_keep_in(got, kept[1], 2 * half, 0, &direct));
    assert_int_equal(direct, !order->aloof);
    for (uint32_t step = 1; step <= STEPS; step++) {
        size_t at = step & 1 ? 0 : half;
        look_up(&here, want, right);
        OK(tri__exec_run(want, 0, 0, here.program[0]->n_instrs, step, here.feed, NULL));
        int begin = 0, first = waits && step % 3 == 2 ? p->posted : end, middle = step % 3 ? p->waited : end;
        if (!waits) first = end, middle = p->waited;
        if (first < end) {
            OK(tri__exec_run(got, 0, 0, first, step, there.feed, NULL));
            OK(tri__exec_run(got, 0, p->waited, p->update, step, there.feed, NULL));
            begin = first;
        }
        OK(tri__exec_run(got, 0, begin, middle, step, there.feed, NULL));
        if (middle < end)
            OK(tri__exec_run(got, 0, waits ? middle : p->update, end, step, there.feed, NULL));
        OK(tri__exec_finish(got));
        if (!waits) OK(tri__exec_run(got, 0, p->waited, p->update, step, there.feed, NULL));
        assert_memory_equal(kept[0] + at, right, half);
        wrong += memcmp(kept[1] + at, right, half) != 0;
    }
    assert_true(lanes_now.n_kept > 0 || how->offload);
    OK(tri__exec_run(got, 0, 0, p->waited, STEPS + 1, there.feed, NULL));
    tri__exec_close(want);
    tri__exec_close(got); /* with a copy in flight */
    free(kept[0]), free(kept[1]), free(right);
    tiny_close(&here);
    tiny_close(&there);
    return wrong;
}

#define CLASS(name) (1u << TRI_MEM_##name)
static const layout layouts[] = {{.n_mb = 1, .lanes = 1},
                                 {.n_mb = 2, .lanes = 2},
                                 {.n_mb = 2, .lanes = 2, .precision = TRI_BF16},
                                 {.n_mb = 1, .lanes = 1, .offload = CLASS(STATE)},
                                 {.n_mb = 2, .lanes = 2, .precision = TRI_BF16, .offload = CLASS(STATE) | CLASS(PARAM)},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

TEST(copies_are_of_their_step) {
    for (int k = 0; k < LAYOUTS; k++)
        for (int i = 0; i < ORDERS; i++)
            for (int how = 0; how < 3; how++) {
                lane_order order = orders[i];
                order.captures = how == 1, order.aloof = how == 2;
                int wrong = keep_steps(&layouts[k], &order, 1);
                if (wrong) fail_msg("layout %d, order %d, way %d: %d copies of another step", k, i, how, wrong);
            }
}

/* The orders above are hard enough: without the waits, updates overwrite what copies are made of. */
TEST(updates_wait_for_copies) {
    for (int k = 0; k < 3; k++) assert_int_equal(keep_steps(&layouts[k], &orders[0], 0), STEPS);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
