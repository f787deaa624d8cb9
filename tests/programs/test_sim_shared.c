/* test_sim_shared.c - what ranks share in the simulator, against times computed by hand: cores, links between nodes,
 * the work of a transfer, the host that queues instructions; and microbatches of different sizes. */
#include "tests/lib/test.h"
#include "tests/lib/built_ranks.h"

#define SAME(got, want) assert_float_equal((got), (want), 1e-9)

enum { TP = TRI_AXIS_SET(TRI_AXIS_TP), DP = TRI_AXIS_SET(TRI_AXIS_DP), PP = TRI_AXIS_SET(TRI_AXIS_PP) };

/* Every kernel takes a second, and ranks move bytes themselves. A link carries 1 byte a second, between nodes 1/4. */
static const tri_hardware clockwork = {.name = "clockwork",
                                       .f32 = 1e21,
                                       .half = 1e21,
                                       .attention = 1,
                                       .bytes = 1e18,
                                       .copy = 1e18,
                                       .launch = 1,
                                       .ranks_per_node = MOST,
                                       .near = {0, 1},
                                       .far = {0, 0.25}};

static tri_mesh mesh_of(int pp, int tp, int dp) { return (tri_mesh){.pp = pp, .tp = tp, .dp = dp}; }

static void time_ranks(ranks *r, const tri_costs *costs) {
    tri_classes all;
    OK(tri__classes_list(&all, &r->arena, r->program, r->world));
    OK(tri__timeline(&r->arena, &all, costs, &r->line));
}

/* The same for replicas with equal programs: each row of replicas is one class, and those that are alike are timed
 * once. */
static void time_alike(ranks *r, const tri_costs *costs) {
    const tri_mesh *mesh = &r->program[0]->mesh;
    tri_classes all;
    tri__classes_open(&all, &r->arena, mesh, mesh->dp);
    for (int tp = 0; tp < mesh->tp; tp++) {
        tri_coords at = {.tp = tp};
        tri_class row = {.program = r->program[tri__mesh_rank(mesh, at)], .n = mesh->dp};
        tri__classes_add(&all, &r->arena, tri__classes_row(mesh, at), row);
    }
    OK(tri__timeline(&r->arena, &all, costs, &r->line));
}

static const tri_rank_timeline *line_of(const ranks *r, int rank) { return tri__timeline_of(&r->line, rank); }

static int slot(tri_builder *b, int64_t floats) {
    return tri__build_slot(b, TRI_MEM_ACT, TRI_F32, (tri_rows){.add = 1}, floats, "s");
}

static void work(tri_builder *b, int seconds) {
    for (int i = 0; i < seconds; i++) {
        int y = slot(b, 1), x = slot(b, 1);
        TRI_BUILD(b, act, ((tri_attr){.activation = 1}), y, x);
    }
}

static int sum(tri_builder *b, int64_t floats, unsigned axes) {
    int what = slot(b, floats);
    TRI_BUILD(b, all_reduce_post, ((tri_attr){.axes = axes}), what);
    return what;
}

static void await(tri_builder *b, int y, int x) { TRI_BUILD(b, wait, (tri_attr){0}, y, x); }

/* Ranks 0 and 1 compute 2 and 6 seconds on one core: in turns until 4, then rank 1 alone until 8. Then both compute a
 * sum of 4 bytes, 4 seconds where each has a core at a time. Rank 0 gives its core away while it waits. */
TEST(two_ranks_on_one_core) {
    for (int cores = 0; cores <= 2; cores++) {
        ranks r;
        tri_hardware hardware = clockwork;
        hardware.cores = cores;
        open_ranks(&r, mesh_of(1, 1, 2), 1);
        for (int i = 0; i < 2; i++) {
            work(&r.b[i], 2 + 4 * i);
            await(&r.b[i], sum(&r.b[i], 1, DP), -1);
        }
        time_ranks(&r, &(tri_costs){.hardware = &hardware, .threads = 1});
        int shared = cores == 1;
        SAME(line_of(&r, 0)->busy, shared ? 4 : 2);
        SAME(line_of(&r, 1)->busy, shared ? 8 : 6);
        SAME(line_of(&r, 0)->idle, 4);
        SAME(line_of(&r, 0)->exposed, 4);
        SAME(r.line.seconds, shared ? 12 : 10);
        close_ranks(&r);
    }
}

/* Four ranks of 2 threads on 4 cores: 8 threads want 4 cores. All alike: they are timed once. */
TEST(threads_share_cores) {
    ranks r;
    tri_hardware hardware = clockwork;
    hardware.cores = 4;
    open_ranks(&r, mesh_of(1, 1, 4), 1);
    for (int i = 0; i < 4; i++) work(&r.b[i], 3);
    for (int threads = 1; threads <= 4; threads++) {
        time_ranks(&r, &(tri_costs){.hardware = &hardware, .threads = threads});
        SAME(r.line.seconds, 3 * threads);
        SAME(line_of(&r, 3)->end[1], 2 * threads);
        time_alike(&r, &(tri_costs){.hardware = &hardware, .threads = threads});
        assert_int_equal(r.line.roles.n, 1);
        SAME(r.line.seconds, 3 * threads);
    }
    hardware.ranks_per_node = 2; /* two nodes of 4 cores */
    time_ranks(&r, &(tri_costs){.hardware = &hardware, .threads = 2});
    SAME(r.line.seconds, 3);
    close_ranks(&r);
}

/* A sum of 8,192 bytes takes two ranks 1 second. Both compute 3 kernels of half a second between its post and its wait:
 * then it is still to be done, unless each has a second core, where its helper did it meanwhile. Small sums are the
 * ranks' own work in any case. */
TEST(helpers_work_beside) {
    for (int cores = 2; cores <= 4; cores++)
        for (int small = 0; small < 2; small++) {
            ranks r;
            tri_hardware hardware = clockwork;
            hardware.launch = 0.5, hardware.near.bytes = small ? 4 : 8192, hardware.cores = cores;
            open_ranks(&r, mesh_of(1, 1, 2), 1);
            for (int i = 0; i < 2; i++) {
                int y = sum(&r.b[i], small ? 1 : 2048, DP);
                work(&r.b[i], 3);
                await(&r.b[i], y, -1);
            }
            time_ranks(&r, &(tri_costs){.hardware = &hardware, .threads = 1});
            SAME(r.line.seconds, cores == 4 && !small ? 1.5 : 2.5);
            close_ranks(&r);
        }
}

/* A sum of 8,192 bytes takes two waiting ranks 1 second. Rank 0 waits from the begin, rank 1 computes 3 kernels of half
 * a second first: rank 0 does 1.5 of the 2 rank-seconds alone, then both the rest. Another 3 seconds later it has been
 * done without rank 1. */
TEST(waiting_ranks_share_the_work) {
    for (int late = 0; late < 2; late++) {
        ranks r;
        tri_hardware hardware = clockwork;
        hardware.launch = 0.5, hardware.near.bytes = 8192;
        open_ranks(&r, mesh_of(1, 1, 2), 1);
        for (int i = 0; i < 2; i++) {
            int g = sum(&r.b[i], 2048, DP);
            if (i) work(&r.b[i], late ? 9 : 3);
            await(&r.b[i], g, -1);
        }
        time_ranks(&r, &(tri_costs){.hardware = &hardware});
        SAME(line_of(&r, 0)->finish, late ? 2 : 1.75);
        SAME(line_of(&r, 1)->finish, late ? 4.5 : 1.75);
        SAME(line_of(&r, 0)->exposed, late ? 2 : 1.75);
        SAME(line_of(&r, 1)->exposed, late ? 0 : 0.25);
        close_ranks(&r);
    }
}

/* Two sums posted at once: rank 0, waiting for the second, does the first, too, before rank 1 comes after 3 seconds: 3
 * of the first's 4 rank-seconds; then both end it at 3.5 and the second, of 8, at 7.5. */
TEST(earlier_transfers_come_first) {
    ranks r;
    tri_hardware hardware = clockwork;
    hardware.near.bytes = 4096;
    open_ranks(&r, mesh_of(1, 1, 2), 1);
    for (int i = 0; i < 2; i++) {
        int first = sum(&r.b[i], 2048, DP), second = sum(&r.b[i], 4096, DP);
        if (i) work(&r.b[i], 3);
        await(&r.b[i], i ? first : second, -1);
        await(&r.b[i], i ? second : first, -1);
    }
    time_ranks(&r, &(tri_costs){.hardware = &hardware});
    SAME(line_of(&r, 1)->end[5], 3.5);
    SAME(r.line.seconds, 7.5);
    SAME(line_of(&r, 0)->idle, 0);
    SAME(line_of(&r, 0)->exposed, 7.5);
    close_ranks(&r);
}

/* Rank 0 sends 4 bytes; rank 1 copies them once it waits, here for something else: 4 seconds after its 3 of computing.
 */
TEST(receiver_copies) {
    ranks r;
    open_ranks(&r, mesh_of(2, 1, 1), 1);
    int a = slot(&r.b[0], 1), b = slot(&r.b[1], 1);
    TRI_BUILD(&r.b[0], send_post, ((tri_attr){.axes = PP, .root = 1}), a);
    await(&r.b[0], -1, a);
    TRI_BUILD(&r.b[1], recv_post, ((tri_attr){.axes = PP, .root = 0}), b);
    work(&r.b[1], 3);
    await(&r.b[1], b, -1);
    time_ranks(&r, &(tri_costs){.hardware = &clockwork});
    SAME(line_of(&r, 0)->idle, 3);
    SAME(line_of(&r, 0)->exposed, 4);
    SAME(line_of(&r, 1)->exposed, 4);
    SAME(r.line.seconds, 7);
    close_ranks(&r);
}

/* Between nodes a sum of 16 seconds begins when both ranks have been inside a wait, whatever for: here for a sum inside
 * the node, 4 seconds. It goes on while both compute 3. Without that wait it begins after the 3 seconds. */
TEST(far_transfers_begin_in_waits) {
    for (int near = 0; near < 2; near++) {
        ranks r;
        tri_hardware hardware = clockwork;
        hardware.ranks_per_node = 2, hardware.node_bytes = 0.5;
        open_ranks(&r, mesh_of(1, 2, 2), 1);
        for (int i = 0; i < 4; i++) {
            int far = sum(&r.b[i], 1, TP);
            if (near) await(&r.b[i], sum(&r.b[i], 1, DP), -1);
            work(&r.b[i], 3);
            await(&r.b[i], far, -1);
        }
        time_ranks(&r, &(tri_costs){.hardware = &hardware});
        SAME(r.line.seconds, near ? 16 : 3 + 16);
        SAME(line_of(&r, 3)->exposed, near ? 4 + 9 : 16);
        close_ranks(&r);
    }
}

/* Two groups of two ranks between two nodes, 4 bytes each: 16 seconds alone. The second begins 8 seconds later. Without
 * a figure for the node, devices have a link each, and ranks on CPUs one together. */
TEST(two_transfers_on_one_link) {
    static const struct {
        double node_bytes;
        int apart; /* seconds */
        double first, second;
    } cases[] = {{0, 0, 16, 16},     {0, 8, 16, 24},    {0.5, 0, 16, 16},
                 {0.25, 0, 32, 32}, {0.25, 8, 24, 32}, {0.25, 16, 16, 32}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int overlap = 0; overlap < 2; overlap++) {
            ranks r;
            tri_hardware hardware = clockwork;
            hardware.ranks_per_node = 2, hardware.node_bytes = cases[c].node_bytes, hardware.overlap = overlap;
            int one_card = !overlap && hardware.node_bytes == 0; /* as with 0.25 */
            double first = one_card ? cases[c].first + 16 - cases[c].apart : cases[c].first,
                   second = one_card ? 32 : cases[c].second;
            open_ranks(&r, mesh_of(1, 2, 2), 1);
            for (int i = 0; i < 4; i++) { /* groups along tp: ranks 0 and 2, 1 and 3 */
                if (i % 2) work(&r.b[i], cases[c].apart);
                await(&r.b[i], sum(&r.b[i], 1, TP), -1);
            }
            time_ranks(&r, &(tri_costs){.hardware = &hardware});
            SAME(line_of(&r, 0)->finish, first);
            SAME(line_of(&r, 2)->finish, first);
            SAME(line_of(&r, 1)->finish, second);
            if (!cases[c].apart) { /* one transfer stands for both */
                time_alike(&r, &(tri_costs){.hardware = &hardware});
                assert_true(r.line.roles.n < 4);
                SAME(r.line.seconds, second);
            }
            close_ranks(&r);
        }
}

/* The host queues an instruction every 2 seconds and kernels take 1: the third begins at 6. Programs without transfers
 * are replayed. */
TEST(host_queues) {
    for (int world = 1; world <= 2; world++)
        for (int lanes = 1; lanes <= 2; lanes++) {
            ranks r;
            tri_hardware hardware = clockwork;
            hardware.queue = 2, hardware.overlap = 1;
            open_ranks(&r, mesh_of(1, 1, world), 1);
            for (int i = 0; i < world; i++) {
                tri_program *p = (tri_program *)r.program[i];
                work(&r.b[i], 4);
                for (int k = 0; k < 4; k++) p->instr[k].await = -1;
                if (lanes > 1) p->instr[1].lane = p->instr[3].lane = 1;
                if (world == 1) continue;
                await(&r.b[i], sum(&r.b[i], 1, DP), -1);
                p->instr[4].await = lanes > 1 ? 3 : -1, p->instr[5].await = -1;
            }
            time_ranks(&r, &(tri_costs){.hardware = &hardware});
            SAME(line_of(&r, 0)->begin[2], world > 1 ? 6 : lanes > 1 ? 1 : 2);
            SAME(r.line.seconds, world > 1 ? 10 + 4 : lanes > 1 ? 2 : 4); /* short kernels of two lanes overlap */
            if (world > 1) SAME(line_of(&r, 0)->exposed, 2); /* the wait is queued at 12 */
            close_ranks(&r);
        }
}

/* Kernels of 1 second that fill the device, 5 in one lane and 3 in the other: both together progress at 1.5. */
TEST(lanes_gain) {
    ranks r;
    tri_hardware hardware = clockwork;
    hardware.launch = 0, hardware.bytes = 8, hardware.overlap = 1, hardware.lane_share = 1.5;
    open_ranks(&r, mesh_of(1, 1, 1), 1);
    work(&r.b[0], 8);
    tri_program *p = (tri_program *)r.program[0];
    for (int k = 0; k < 8; k++) p->instr[k].await = -1, p->instr[k].lane = k >= 5;
    time_ranks(&r, &(tri_costs){.hardware = &hardware});
    SAME(line_of(&r, 0)->end[7], 4);
    SAME(r.line.seconds, 6);
    close_ranks(&r);
}

/* A kernel of 8 bytes a sample and second: microbatches of 1 and 2 samples on replica 0, of 3 and 1 on replica 1. */
TEST(microbatches_differ) {
    enum { REPLICAS = 2, MB = 2 };
    const int64_t samples[REPLICAS][MB] = {{1, 2}, {3, 1}};
    ranks r;
    tri_hardware hardware = clockwork;
    hardware.launch = 0, hardware.bytes = 8;
    open_ranks(&r, mesh_of(1, 1, REPLICAS), MB);
    for (int i = 0; i < REPLICAS; i++) {
        ((tri_program *)r.program[i])->max.of[TRI_SYM_N] = 3;
        for (int mb = 0; mb < MB; mb++) {
            tri_rows rows = {.sym = TRI_SYM_N};
            int y = tri__build_slot(&r.b[i], TRI_MEM_ACT, TRI_F32, rows, 1, "y"),
                x = tri__build_slot(&r.b[i], TRI_MEM_ACT, TRI_F32, rows, 1, "x");
            r.b[i].mb = mb;
            TRI_BUILD(&r.b[i], act, ((tri_attr){.activation = 1}), y, x);
        }
        await(&r.b[i], sum(&r.b[i], 1, DP), -1);
    }
    tri_counts counts[REPLICAS * MB] = {0};
    for (int i = 0; i < REPLICAS * MB; i++) counts[i].of[TRI_SYM_N] = samples[i / MB][i % MB];
    time_ranks(&r, &(tri_costs){.hardware = &hardware});
    SAME(r.line.seconds, 3 + 3 + 4); /* the largest */
    time_ranks(&r, &(tri_costs){.hardware = &hardware, .counts = counts, .n_counts = 1});
    SAME(r.line.seconds, 1 + 1 + 4);
    time_alike(&r, &(tri_costs){.hardware = &hardware, .counts = counts, .n_counts = MB});
    SAME(r.line.seconds, 1 + 2 + 4);
    assert_int_equal(r.line.roles.n, 1);
    time_alike(&r, &(tri_costs){.hardware = &hardware, .counts = counts, .n_counts = REPLICAS * MB});
    SAME(r.line.seconds, 3 + 1 + 4);
    SAME(line_of(&r, 0)->busy, 3);
    SAME(line_of(&r, 0)->idle, 1);
    assert_int_equal(r.line.roles.n, 2);
    for (int mb = 0; mb < MB; mb++) counts[MB + mb] = counts[mb];
    time_alike(&r, &(tri_costs){.hardware = &hardware, .counts = counts, .n_counts = REPLICAS * MB});
    SAME(r.line.seconds, 1 + 2 + 4);
    assert_int_equal(r.line.roles.n, 1);
    close_ranks(&r);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
