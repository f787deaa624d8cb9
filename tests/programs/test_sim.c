/* test_sim.c - the simulator against times computed by hand: pipelines against their dry run, gradient reductions that
 * overlap with computing or follow it, busy links, late ranks, and the formulas of collectives. */
#include "tests/lib/test.h"
#include "tests/lib/built_ranks.h"
#include "tests/lib/dry_run.h"

#include <math.h>

#define SAME(got, want) assert_float_equal((got), (want), 1e-9)

enum { PP = TRI_AXIS_SET(TRI_AXIS_PP), TP = TRI_AXIS_SET(TRI_AXIS_TP) };

/* Every operation takes one second, whatever it does; a link carries 1 byte a second with no latency. */
static const tri_hardware clockwork = {.name = "clockwork",
                                       .f32 = 1e21,
                                       .half = 1e21,
                                       .attention = 1,
                                       .bytes = 1e18,
                                       .copy = 1e18,
                                       .launch = 1,
                                       .ranks_per_node = MOST,
                                       .near = {0, 1},
                                       .far = {0, 0.25},
                                       .overlap = 1};

static void time_ranks(ranks *r, const tri_costs *costs) {
    tri_classes all;
    OK(tri__classes_list(&all, &r->arena, r->program, r->world));
    OK(tri__timeline(&r->arena, &all, costs, &r->line));
    for (int i = 0; i < r->world; i++) {
        const tri_rank_timeline *one = tri__timeline_of(&r->line, i);
        SAME(one->busy + one->exposed + one->idle, one->finish); /* nothing is copied in these programs */
    }
}

static int slot(tri_builder *b, const char *name, int64_t cols) {
    return tri__build_slot(b, TRI_MEM_ACT, TRI_F32, (tri_rows){.add = 1}, cols, "%s", name);
}

static void work(tri_builder *b, int seconds) {
    for (int i = 0; i < seconds; i++) {
        int y = slot(b, "y", 1), x = slot(b, "x", 1);
        TRI_BUILD(b, act, ((tri_attr){.activation = 1}), y, x);
    }
}

static void sum(tri_builder *b, int what, unsigned axis) {
    TRI_BUILD(b, all_reduce_post, ((tri_attr){.axes = TRI_AXIS_SET(axis)}), what);
}
static void give(tri_builder *b, int what, int to, unsigned axes) {
    TRI_BUILD(b, send_post, ((tri_attr){.axes = axes, .root = to}), what);
}
static void take(tri_builder *b, int what, int from, unsigned axes) {
    TRI_BUILD(b, recv_post, ((tri_attr){.axes = axes, .root = from}), what);
}
static void await(tri_builder *b, int y, int x) { TRI_BUILD(b, wait, (tri_attr){0}, y, x); }

/* Gradients of 12 bytes, summed over two ranks by a ring: 12 seconds. They are posted after 2 of 9 seconds of work. */
TEST(summed_beside_work) {
    tri_hardware hardware = clockwork;
    for (int overlap = 0; overlap < 2; overlap++) {
        ranks r;
        open_ranks(&r, (tri_mesh){.pp = 1, .tp = 1, .dp = 2}, 1);
        for (int i = 0; i < 2; i++) {
            tri_builder *b = &r.b[i];
            work(b, 2);
            int g = slot(b, "g", 3);
            sum(b, g, TRI_AXIS_DP);
            work(b, 7);
            await(b, g, -1);
            work(b, 1);
        }
        hardware.overlap = overlap;
        time_ranks(&r, &(tri_costs){.hardware = &hardware});
        SAME(r.line.seconds, overlap ? 2 + 12 + 1 : 9 + 12 + 1);
        SAME(r.line.role[1].exposed, overlap ? 5 : 12);
        SAME(r.line.role[1].idle, 0);
        SAME(r.line.role[1].busy, 10);
        SAME(tri__timeline_idle(&r.line), 1 - 10 / r.line.seconds);
        close_ranks(&r);
    }
}

/* Rank 1 posts 3 seconds after rank 0: rank 0 waits that long, and then 4 seconds for the 4 bytes. */
TEST(late_member) {
    ranks r;
    open_ranks(&r, (tri_mesh){.pp = 1, .tp = 1, .dp = 2}, 1);
    for (int i = 0; i < 2; i++) {
        int g = slot(&r.b[i], "g", 1);
        work(&r.b[i], 1 + 3 * i);
        sum(&r.b[i], g, TRI_AXIS_DP);
        await(&r.b[i], g, -1);
    }
    time_ranks(&r, &(tri_costs){.hardware = &clockwork});
    SAME(r.line.seconds, 8);
    SAME(r.line.role[0].idle, 3);
    SAME(r.line.role[0].exposed, 4);
    SAME(r.line.role[1].idle, 0);
    close_ranks(&r);
}

/* Two sums at once go one after the other; bytes that go opposite ways do not meet. */
TEST(links_in_use) {
    ranks r;
    open_ranks(&r, (tri_mesh){.pp = 1, .tp = 1, .dp = 2}, 1);
    for (int i = 0; i < 2; i++) {
        int g = slot(&r.b[i], "g", 1), h = slot(&r.b[i], "h", 2);
        sum(&r.b[i], g, TRI_AXIS_DP);
        sum(&r.b[i], h, TRI_AXIS_DP);
        await(&r.b[i], g, -1);
        work(&r.b[i], 1);
        await(&r.b[i], h, -1);
    }
    time_ranks(&r, &(tri_costs){.hardware = &clockwork});
    SAME(r.line.seconds, 4 + 8);
    SAME(r.line.role[0].exposed, 4 + 7);
    SAME(r.line.role[0].moving, 12);
    close_ranks(&r);

    for (int same_way = 0; same_way < 2; same_way++) {
        open_ranks(&r, (tri_mesh){.pp = 2, .tp = 1, .dp = 1}, 1);
        for (int i = 0; i < 2; i++) {
            int a = slot(&r.b[i], "a", 1), c = slot(&r.b[i], "c", 1), gives = same_way ? i == 0 : 1;
            if (gives) give(&r.b[i], a, 1 - i, PP);
            if (same_way && i == 0) give(&r.b[i], c, 1, PP);
            if (same_way && i == 1) take(&r.b[i], a, 0, PP);
            if (!same_way || i == 1) take(&r.b[i], c, 1 - i, PP);
            await(&r.b[i], same_way && i == 1 ? a : -1, same_way && i == 1 ? -1 : a);
            await(&r.b[i], same_way && i == 0 ? -1 : c, same_way && i == 0 ? c : -1);
        }
        time_ranks(&r, &(tri_costs){.hardware = &clockwork});
        SAME(r.line.seconds, same_way ? 8 : 4);
        close_ranks(&r);
    }
}

/* Seconds of each kind of transfer, worked out. */
TEST(collectives) {
    const tri_hardware h = {.ranks_per_node = 4, .near = {1e-3, 100}, .far = {1e-2, 10}};
    const int near[] = {0, 1, 2, 3}, far[] = {0, 4}, both[] = {0, 1, 4, 5}, many[] = {0, 1, 2, 3, 4, 5, 6, 7};
    SAME(tri__transfer_seconds(&h, TRI_ALL_REDUCE, near, 4, 400), 2 * 3 * (1e-3 + 1));
    SAME(tri__transfer_seconds(&h, TRI_ALL_GATHER, near, 4, 400), 3 * (1e-3 + 1));
    SAME(tri__transfer_seconds(&h, TRI_REDUCE_SCATTER, near, 4, 400), 3 * (1e-3 + 1));
    SAME(tri__transfer_seconds(&h, TRI_BROADCAST, near, 4, 400), 2 * 1e-3 + 4);
    SAME(tri__transfer_seconds(&h, TRI_SEND, near, 2, 400), 1e-3 + 4);
    SAME(tri__transfer_seconds(&h, TRI_SEND, far, 2, 400), 1e-2 + 40);
    SAME(tri__transfer_seconds(&h, TRI_ALL_GATHER, both, 4, 400), 2 * 1e-2 + 20); /* a node's half, over its card */
    SAME(tri__transfer_seconds(&h, TRI_ALL_GATHER, many, 8, 400), 2 * 1e-2 + 20);
    tri_hardware devices = h;
    devices.overlap = 1;
    SAME(tri__transfer_seconds(&devices, TRI_ALL_GATHER, both, 4, 400), 3 * (1e-2 + 5)); /* two links a node */
    SAME(tri__transfer_seconds(&devices, TRI_ALL_GATHER, many, 8, 400), 7 * (1e-2 + 50. / 40));
    SAME(tri__transfer_seconds(&h, TRI_ALL_REDUCE, near, 4, 0), 2 * 2 * 1e-3);      /* a tree has fewer steps */
    SAME(tri__transfer_seconds(&h, TRI_ALL_REDUCE, near, 1, 400), 0);
}

static const char *const stage_name[] = {"a", "b", "c", "d", "e", "f", "g", "h"};

/* One rank's program for its order of actions, stages in a row: each action is one operation, two with both gradients;
 * received right before it and sent right after. */
static void build_stage(ranks *r, const tri_pipeline *p, const tri_actions *order, int rank) {
    tri_builder *b = &r->b[rank];
    int last = p->n_stages - 1, *sent = tri__arena_alloc(&r->arena, (size_t)(2 * order->n) * sizeof(int)), n_sent = 0;
    for (int i = 0; i < order->n; i++) {
        const tri_action *a = &order->at[i];
        int x = slot(b, "x", 1), y = slot(b, "y", 1), back = a->act != TRI_ACT_F;
        int from = back ? a->stage + 1 : a->stage - 1, to = back ? a->stage - 1 : a->stage + 1;
        unsigned axes = back ? PP | TP : PP; /* one rank of tp: the same ranks, but each way is counted for itself */
        tri__build_unit(b, stage_name[a->stage]);
        b->mb = a->mb;
        if (a->act != TRI_ACT_W && from >= 0 && from <= last && p->rank[from] != rank) {
            take(b, x, p->rank[from], axes);
            await(b, x, -1);
        }
        if (a->act == TRI_ACT_F) TRI_BUILD(b, act, ((tri_attr){.activation = 1}), y, x);
        if (a->act == TRI_ACT_W || a->act == TRI_ACT_BW) TRI_BUILD(b, bias_dw, (tri_attr){0}, slot(b, "db", 1), x);
        if (a->act == TRI_ACT_B || a->act == TRI_ACT_BW)
            TRI_BUILD(b, act_din, ((tri_attr){.activation = 1}), y, -1, x, x, -1);
        if (a->act == TRI_ACT_W || to < 0 || to > last || p->rank[to] == rank) continue;
        give(b, y, p->rank[to], axes);
        sent[n_sent++] = y;
    }
    for (int i = 0; i < n_sent; i++) await(b, -1, sent[i]);
}

/* Every schedule takes as long as its dry run says, on links that take no time; and its legs are its actions. */
TEST(pipelines) {
    static const int chunks[TRI_SCHEDULE_COUNT] = {1, 1, 2, 1, 2};
    tri_hardware hardware = clockwork;
    hardware.near.bytes = 1e18, hardware.launch = 1e-3;
    for (int kind = 0; kind < TRI_SCHEDULE_COUNT; kind++) {
        const tri_schedule_row *row = tri__schedule_row(kind);
        enum { P = 4, M = 6 };
        int n = P * chunks[kind], rank[2 * P], depth[2 * P], feed[2 * P][2];
        tri_stage_time time[2 * P];
        ranks r;
        open_ranks(&r, (tri_mesh){.pp = P, .tp = 1, .dp = 1}, M);
        tri_pipeline p = {.n_ranks = P,
                          .n_stages = n,
                          .n_mb = M,
                          .rank = rank,
                          .feed = (const int(*)[2])feed,
                          .n_feeds = n - 1,
                          .depth = depth};
        for (int s = 0; s < n; s++) {
            rank[s] = tri__schedule_rank(row, s, P, n), depth[s] = n - 1 - s, feed[s][0] = s, feed[s][1] = s + 1;
            time[s] = (tri_stage_time){1, 1.3, 0.7};
        }
        const tri_actions *orders = tri__schedule_orders(&r.arena, row, &p);
        dry_times dry;
        OK(dry_run(&r.arena, &p, orders, time, 0, &dry));
        for (int i = 0; i < P; i++) build_stage(&r, &p, &orders[i], i);
        tri_classes all;
        OK(tri__classes_list(&all, &r.arena, r.program, P));
        OK(tri__check_together(&r.arena, &all, NULL));
        tri_unit_seconds measured[2 * P];
        for (int s = 0; s < n; s++) measured[s] = (tri_unit_seconds){stage_name[s], 1, 1.3, 0.7};
        time_ranks(&r, &(tri_costs){.hardware = &hardware, .measured = measured, .n_measured = n});
        SAME(r.line.seconds, dry.span);
        SAME(tri__timeline_idle(&r.line), dry_bubble(&p, &dry));
        for (int i = 0; i < P; i++) {
            tri_leg *leg;
            int n_legs = tri__timeline_legs(&r.arena, &r.line.role[i], &leg), at = 0;
            SAME(r.line.role[i].busy, dry.busy[i]);
            for (int k = 0; k < orders[i].n;
                 k++) { /* stages of one rank may follow each other without a gap: one leg then */
                const tri_action *a = &orders[i].at[k];
                char want = a->act == TRI_ACT_F ? 'F' : a->act == TRI_ACT_W ? 'W' : 'B';
                while (at < n_legs && leg[at].end <= dry.begin[i][k] + 1e-9) at++;
                assert_true(at < n_legs);
                assert_true(leg[at].begin <= dry.begin[i][k] + 1e-9);
                assert_int_equal(leg[at].kind, want);
                assert_int_equal(leg[at].mb, a->mb);
            }
        }
        close_ranks(&r);
    }
}

/* Real programs of two replicas: time is computing, copying and waiting; layers that compute again take longer. */
TEST(real_programs) {
    tri_hardware hardware;
    double seconds[2];
    for (int again = 0; again < 2; again++) {
        tiny t[2];
        const tri_program *programs[2];
        for (int i = 0; i < 2; i++) {
            const tri_sharding zero3 = {.kind = TRI_SHARD_ZERO3, .prefetch = 1};
            tiny_open_rank(&t[i], "cpu", 2, 3, 0.1, 2, &(tiny_rank){.dp = 2, .rank = i, .sharding = zero3});
            t[i].in.recompute = again ? TRI_RECOMPUTE_FULL : TRI_RECOMPUTE_NONE;
            tiny_plan(&t[i]);
            programs[i] = t[i].program[0];
        }
        tri_timeline line;
        tri_classes all;
        OK(tri__hardware_open(&t[0].arena, "cpu", &hardware));
        OK(tri__classes_list(&all, &t[0].arena, programs, 2));
        OK(tri__timeline(&t[0].arena, &all, &(tri_costs){.hardware = &hardware}, &line));
        seconds[again] = line.seconds;
        for (int i = 0; i < 2; i++) {
            const tri_rank_timeline *one = tri__timeline_of(&line, i);
            double copies = 0;
            for (int k = 0; k < programs[i]->n_instrs; k++)
                if (tri__op_queue(programs[i]->instr[k].op) == TRI_QUEUE_COPY) copies += one->end[k] - one->begin[k];
            SAME(one->busy + one->exposed + one->idle + copies, one->finish);
            tri_leg *leg;
            int n = tri__timeline_legs(&t[0].arena, one, &leg), forwards = 0;
            for (int k = 0; k < n; k++)
                forwards += leg[k].kind == 'F' && (k == 0 || leg[k - 1].kind != 'F' || leg[k - 1].mb != leg[k].mb);
            assert_int_equal(forwards, 2); /* one a microbatch, whatever is computed again */
            assert_int_equal(leg[n - 1].kind, 'U');
        }
        tiny_close(&t[0]), tiny_close(&t[1]);
    }
    assert_true(seconds[1] > seconds[0]);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
