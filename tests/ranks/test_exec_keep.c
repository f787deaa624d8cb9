/* test_exec_keep.c - copies of weights and optimizer state that a device makes while it computes the next step: they
 * are of the step after which they were posted, in any order that the device may choose. Needs no GPU. */
#include "tests/lib/test.h"
#include "tests/lib/lane_device.h"

enum { STEPS = 4, LIMIT = 512, ORDERS = 4 };

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
    t->in.precision = t->in.reduce_dtype = how->precision, t->in.offload = how->offload;
    t->target.ahead = 4096, t->target.lanes = how->lanes;
    tiny_plan(t);
}

/* The pieces that are kept, by the host's addresses of their slots: parameters, of fp32, and all states. */
typedef struct pieces {
    tri_copied at[LIMIT];
    int n;
    size_t bytes; /* of a copy */
} pieces;

static void add_piece(pieces *p, const float *flat, int64_t begin, int64_t end) {
    assert_true(p->n < LIMIT);
    p->at[p->n++] = (tri_copied){flat + begin, p->bytes, (size_t)(end - begin) * sizeof *flat};
    p->bytes = (p->bytes + (size_t)(end - begin) * sizeof *flat + 63) / 64 * 64;
}

static pieces *pieces_of(const tiny *t, const tri_exec *exec) {
    pieces *p = calloc(1, sizeof *p);
    const tri_planned *train = &t->plan.train;
    const int *weights = train->master ? train->master : train->param;
    for (int state = -1; state < train->n_states; state++)
        for (int i = 0; i < t->model.n_params; i++) {
            const tri_param *param = &t->model.param[i];
            int slot = state < 0 ? weights[param->unit] : train->state[state].slot[param->unit];
            if (slot >= 0) add_piece(p, tri__exec_slot(exec, 0, slot), param->at, param->at + param->count);
        }
    return p;
}

static int has_copy(const char *kept, const pieces *p, const char *want) {
    for (int i = 0; i < p->n; i++)
        if (memcmp(kept + p->at[i].at, want + p->at[i].at, p->at[i].bytes) != 0) return 0;
    return 1;
}

/* Trains on the CPU and on lanes, where each step is kept while the next one runs; returns how many copies were not of
 * their step. */
static int keep_steps(const layout *how, const lane_order *order) {
    tiny here, there;
    layout plain = *how;
    plain.offload = 0, plain.lanes = 1;
    plan_as(&here, &plain);
    plan_as(&there, how);
    lanes_now.order = *order;
    tri_exec *want = tiny_exec(&here, "cpu", 1, 0), *got = tiny_exec_on(&there, &lane_device, 1, 0);
    pieces *of = pieces_of(&here, want), *p = pieces_of(&there, got);
    assert_true(of->n == p->n && of->bytes == p->bytes && p->n > 50);
    char *kept = calloc(2, p->bytes), *right = calloc(2, p->bytes);
    int direct, wrong = 0, update = there.plan.train.update, end = there.program[0]->n_instrs;
    OK(tri__exec_keep_open(got, p->at, p->n, kept, 2 * p->bytes, p->bytes, &direct));
    assert_int_equal(direct, !order->aloof);
    for (int step = 1; step <= STEPS; step++) {
        OK(tri__exec_run(want, 0, 0, here.program[0]->n_instrs, (uint32_t)step, here.feed, NULL));
        for (int i = 0; i < of->n; i++)
            memcpy(right + (size_t)(step & 1) * of->bytes + of->at[i].at, of->at[i].from, of->at[i].bytes);
        OK(tri__exec_run(got, 0, 0, step % 3 ? update : end, (uint32_t)step, there.feed, NULL));
        if (step % 3) OK(tri__exec_run(got, 0, update, end, (uint32_t)step, there.feed, NULL));
        OK(tri__exec_keep_finish(got));
        size_t before = (size_t)!(step & 1) * p->bytes;
        if (step > 1) wrong += !has_copy(kept + before, p, right + before);
        OK(tri__exec_finish(got));
        tri__exec_keep_begin(got, kept + (size_t)(step & 1) * p->bytes);
    }
    assert_true(lanes_now.n_kept < p->n / 2); /* neighbours are copied together */
    assert_true(lanes_now.n_kept > 0 || how->offload);
    tri__exec_close(want);
    tri__exec_close(got); /* with a copy in flight */
    free(kept), free(right), free(of), free(p);
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
                int wrong = keep_steps(&layouts[k], &order);
                if (wrong) fail_msg("layout %d, order %d, way %d: %d copies of another step", k, i, how, wrong);
            }
}

/* The orders above are hard enough: kernels that do not wait for copies overwrite what these are made of. */
TEST(updates_wait_for_copies) {
    for (int k = 0; k < 3; k++) {
        lane_order order = orders[0];
        layout how = layouts[k];
        order.deaf = 1, how.lanes = 1;
        assert_int_equal(keep_steps(&how, &order), STEPS - 1);
    }
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
