/* test_lanes_timeline.c - the simulator's two lanes, against times computed by hand: they overlap, share the device,
 * and wait for each other as the program says. */
#include "tests/lib/test.h"
#include "tests/lib/built_ranks.h"

#define SAME(got, want) assert_float_equal((got), (want), 1e-9)

static tri_mesh replicas(int n) { return (tri_mesh){.pp = 1, .tp = 1, .dp = n}; }

/* A kernel takes `launch` seconds at least; it moves 8 bytes. A link carries 1 byte a second. */
static tri_hardware hardware_of(double launch, double work) {
    return (tri_hardware){.name = "clockwork",
                          .f32 = 1e21,
                          .half = 1e21,
                          .attention = 1,
                          .bytes = 8 / work,
                          .copy = 1e18,
                          .launch = launch,
                          .ranks_per_node = MOST,
                          .near = {0, 1},
                          .far = {0, 1},
                          .overlap = 1};
}

static void time_ranks(ranks *r, double launch, double work) {
    tri_classes all;
    tri_hardware hardware = hardware_of(launch, work);
    OK(tri__classes_list(&all, &r->arena, r->program, r->world));
    OK(tri__timeline(&r->arena, &all, &(tri_costs){.hardware = &hardware}, &r->line));
}

static int slot(tri_builder *b, const char *name) {
    return tri__build_slot(b, TRI_MEM_ACT, TRI_F32, (tri_rows){.add = 1}, 1, "%s", name);
}

static int instr(tri_builder *b, int lane, int await) {
    tri_instr *last = &b->program->instr[b->program->n_instrs - 1];
    last->lane = lane, last->await = await;
    return b->program->n_instrs - 1;
}

/* A kernel; returns its number. */
static int work(tri_builder *b, int lane, int await) {
    int y = slot(b, "y"), x = slot(b, "x");
    TRI_BUILD(b, act, ((tri_attr){.activation = 1}), y, x);
    return instr(b, lane, await);
}

static int post(tri_builder *b, int lane, int g) {
    TRI_BUILD(b, all_reduce_post, ((tri_attr){.axes = TRI_AXIS_SET(TRI_AXIS_DP)}), g);
    return instr(b, lane, -1);
}

static int end(tri_builder *b, int lane, int g) {
    TRI_BUILD(b, wait, (tri_attr){0}, g, -1);
    return instr(b, lane, -1);
}

/* Short kernels of two lanes run at once; those that fill the device, one after the other; between, a lane takes what
 * the other leaves. */
TEST(lanes_share_the_device) {
    static const struct {
        double launch, work, seconds, busy;
    } cases[] = {{1, 1e-12, 5, 5}, {0, 1, 8, 8}, {2, 1, 10, 10}, {2, 2, 16, 16}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ranks r;
        open_ranks(&r, replicas(1), 0);
        for (int k = 0; k < 5; k++) {
            work(&r.b[0], 0, -1);
            if (k < 3) work(&r.b[0], 1, -1);
        }
        time_ranks(&r, cases[i].launch, cases[i].work);
        SAME(r.line.seconds, cases[i].seconds);
        SAME(r.line.role[0].busy, cases[i].busy);
        assert_true(tri__timeline_idle(&r.line) >= -1e-12);
        close_ranks(&r);
    }
}

/* One of four kernels of lane 1 waits for the third of lane 0. */
TEST(waits_are_kept) {
    for (int waits = 0; waits < 2; waits++) {
        ranks r;
        int third = -1, second = -1;
        open_ranks(&r, replicas(1), 0);
        for (int k = 0; k < 4; k++) {
            int last = work(&r.b[0], 0, -1);
            if (k == 2) third = last;
        }
        for (int k = 0; k < 4; k++) {
            int last = work(&r.b[0], 1, k == 1 && waits ? third : -1);
            if (k == 1) second = last;
        }
        time_ranks(&r, 1, 1e-12);
        const tri_rank_timeline *line = &r.line.role[0];
        SAME(line->begin[second], waits ? 3 : 1);
        SAME(line->end[third], 3);
        SAME(r.line.seconds, waits ? 6 : 4);
        SAME(line->busy, waits ? 6 : 4);
        close_ranks(&r);
    }
}

/* Lane 0 waits for 4 bytes of two ranks, 4 seconds; lane 1 computes meanwhile, 6 seconds. */
TEST(lane_computes_beside_a_wait) {
    for (int lane = 0; lane < 2; lane++) {
        ranks r;
        open_ranks(&r, replicas(2), 0);
        for (int i = 0; i < 2; i++) {
            int g = slot(&r.b[i], "g");
            post(&r.b[i], 0, g);
            end(&r.b[i], 0, g);
            work(&r.b[i], 0, -1);
            for (int k = 0; k < 6; k++) work(&r.b[i], lane, -1);
        }
        time_ranks(&r, 1, 1e-12);
        SAME(r.line.seconds, lane ? 6 : 4 + 1 + 6);
        SAME(r.line.role[0].exposed, lane ? 0 : 4);
        SAME(r.line.role[0].busy + r.line.role[0].exposed + r.line.role[0].idle, r.line.seconds);
        close_ranks(&r);
    }
}

/* Posted in one lane after 2 seconds and waited for in the other, which comes to it first; and the same slot again. */
TEST(posted_in_the_other_lane) {
    ranks r;
    int last = -1;
    open_ranks(&r, replicas(2), 0);
    for (int i = 0; i < 2; i++) {
        tri_builder *b = &r.b[i];
        int g = slot(b, "g");
        work(b, 0, -1), work(b, 0, -1);
        post(b, 0, g);
        int waited = end(b, 1, g);
        work(b, 1, -1);
        work(b, 0, waited);
        post(b, 0, g);
        end(b, 1, g);
        last = work(b, 1, -1);
    }
    time_ranks(&r, 1, 1e-12);
    const tri_rank_timeline *line = &r.line.role[0];
    SAME(line->begin[4], 2 + 4);         /* behind the first transfer */
    SAME(line->begin[5], 2 + 4);         /* lane 0, behind the wait */
    SAME(line->begin[last], 2 + 4 + 1 + 4);
    SAME(r.line.seconds, 2 + 4 + 1 + 4 + 1);
    close_ranks(&r);
}

static void expect_order(const tri_rank_timeline *line) {
    const tri_program *p = line->program;
    double free[TRI_LANES] = {0};
    for (int i = 0; i < p->n_instrs; i++) {
        const tri_instr *instr = &p->instr[i];
        if (tri__op_queue(instr->op) != TRI_QUEUE_COMPUTE) continue;
        assert_true(line->begin[i] >= free[instr->lane] - 1e-9);
        if (instr->await >= 0 && tri__op_queue(p->instr[instr->await].op) == TRI_QUEUE_COMPUTE)
            assert_true(line->begin[i] >= line->end[instr->await] - 1e-9);
        free[instr->lane] = line->end[i];
    }
}

/* Planned programs: in order, and no slower than in one lane; where kernels are short, faster. */
TEST(planned_programs) {
    for (int dp = 1; dp <= 2; dp++)
        for (int zero3 = 0; zero3 < 2; zero3++) {
            double seconds[2];
            for (int lanes = 1; lanes <= 2; lanes++) {
                tiny t;
                tri_classes all[TRI_PROGRAMS];
                tri_timeline line;
                tri_hardware hardware = hardware_of(1, 1e-12);
                hardware.near.bytes = 1e9;
                tri_sharding sharding = {.kind = zero3 ? TRI_SHARD_ZERO3 : TRI_SHARD_NONE, .prefetch = 1};
                tiny_open_rank(&t, "cpu", 2, 3, 0, 2, &(tiny_rank){.dp = dp, .sharding = sharding});
                t.target.lanes = lanes;
                OK(tri__plan_ranks(&t.arena, &t.in, 1, all));
                OK(tri__timeline(&t.arena, &all[TRI_TRAIN], &(tri_costs){.hardware = &hardware}, &line));
                for (int role = 0; role < line.roles.n; role++) expect_order(&line.role[role]);
                seconds[lanes - 1] = line.seconds;
                assert_true(line.role[0].busy <= line.seconds + 1e-9);
                tiny_close(&t);
            }
            assert_true(seconds[1] < 0.75 * seconds[0]);
        }
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
