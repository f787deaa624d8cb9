/* test_transfer_time.c - seconds of transfers by formula and by curves, and how they proceed: against figures worked
 * out by hand. */
#include "sim/transfer_time.h"

#include <math.h>

#include "tests/lib/test.h"

static const int eight[] = {0, 1, 2, 3, 4, 5, 6, 7}; /* on nodes of 4 */

static tri_hardware wires(void) {
    return (tri_hardware){.ranks_per_node = 4, .near = {1e-6, 10e9}, .far = {10e-6, 1e9}};
}

static void assert_near(double have, double want) {
    if (fabs(have - want) > 1e-9 * fabs(want)) fail_msg("%.12g, not %.12g", have, want);
}

TEST(formulas) {
    tri_hardware h = wires();
    /* inside a node: 1 us, 10 GB/s */
    assert_near(tri__transfer_seconds(&h, TRI_SEND, eight, 2, 1e6), 101e-6);
    assert_near(tri__transfer_seconds(&h, TRI_BROADCAST, eight, 4, 1e6), 102e-6);
    assert_near(tri__transfer_seconds(&h, TRI_ALL_GATHER, eight, 4, 4e6), 3 * 101e-6);
    assert_near(tri__transfer_seconds(&h, TRI_REDUCE_SCATTER, eight, 4, 4e6), 3 * 101e-6);
    assert_near(tri__transfer_seconds(&h, TRI_ALL_REDUCE, eight, 4, 4e6), 6 * 101e-6);
    assert_near(tri__transfer_seconds(&h, TRI_ALL_REDUCE, eight, 4, 4), 4 * (1e-6 + 4 / 10e9)); /* a tree */
    /* two nodes of four ranks, each node with a card of 1 GB/s: half of a gather crosses it, and a sum once each way */
    assert_near(tri__transfer_seconds(&h, TRI_ALL_GATHER, eight, 8, 8e6), 2 * 10e-6 + 4e6 / 1e9);
    assert_near(tri__transfer_seconds(&h, TRI_ALL_REDUCE, eight, 8, 8e6), 3 * 10e-6 + 8e6 / 1e9);
    assert_near(tri__transfer_seconds(&h, TRI_ALL_REDUCE, eight, 8, 8), 10e-6 + 16 * 8 / 1e9); /* whole, to each */
    h.node_bytes = 2e9;
    assert_near(tri__transfer_seconds(&h, TRI_ALL_GATHER, eight, 8, 8e6), 2 * 10e-6 + 4e6 / 2e9);
    /* two nodes of four devices, four links of 1 GB/s, and a node that has two of them */
    h.overlap = 1;
    assert_near(tri__transfer_seconds(&h, TRI_ALL_GATHER, eight, 8, 8e6), 7 * (10e-6 + 1e6 / 2e9));
    h.node_bytes = 0;
    assert_near(tri__transfer_seconds(&h, TRI_ALL_GATHER, eight, 8, 8e6), 7 * (10e-6 + 1e6 / 4e9));
    assert_near(tri__transfer_seconds(&h, TRI_ALL_REDUCE, eight, 1, 1e6), 0);
    assert_near(tri__control_seconds(&h, eight, 4, 4), 4 * (1e-6 + 4 / 10e9));
}

/* Two islands of two ranks in each node, of which a link of 2 us and 4 GB/s joins the islands. */
TEST(islands) {
    tri_hardware h = wires();
    const int apart[] = {1, 2}, across[] = {0, 2, 4, 6};
    h.overlap = 1, h.islands.ranks = 2, h.islands.latency = 2e-6, h.islands.bytes = 4e9;
    assert_near(tri__transfer_seconds(&h, TRI_SEND, eight, 2, 1e6), 101e-6);
    assert_near(tri__transfer_seconds(&h, TRI_SEND, apart, 2, 1e6), 252e-6);
    assert_near(tri__transfer_seconds(&h, TRI_ALL_GATHER, eight, 4, 4e6), 3 * 252e-6);
    /* between nodes, cards of 1 GB/s for each of two ranks limit; faster ones do not */
    assert_near(tri__transfer_seconds(&h, TRI_ALL_GATHER, across, 4, 4e6), 3 * (10e-6 + 1e6 / 2e9));
    h.far.bytes = 100e9;
    assert_near(tri__transfer_seconds(&h, TRI_ALL_GATHER, across, 4, 4e6), 3 * (10e-6 + 1e6 / 4e9));
    /* ranks on CPUs, in NUMA nodes */
    h.overlap = 0;
    assert_near(tri__transfer_seconds(&h, TRI_SEND, apart, 2, 1e6), 252e-6);
    /* a curve of two ranks in an island, for two in different ones: as the formulas' latencies and rates */
    tri_link_point two[] = {{4, 1e-6, 0}, {4e7, 1e-2, 0}};
    tri_link_curve link[] = {{TRI_LINK_ALL_REDUCE, 2, 1, 2, two}};
    h.link = link, h.n_links = 1, h.overlap = 1;
    assert_near(tri__transfer_seconds(&h, TRI_ALL_REDUCE, eight, 2, 4e7), 1e-2);
    assert_near(tri__transfer_seconds(&h, TRI_ALL_REDUCE, apart, 2, 4e7), 2e-6 + (1e-2 - 1e-6) * 10 / 4);
}

TEST(curves) {
    tri_link_point two[] = {{4, 1e-6, 0}, {4e3, 1e-6, 0}, {4e5, 1e-4, 0}, {4e7, 1e-2, 0}};
    tri_link_point four[] = {{4, 4e-6, 0}, {4e7, 4e-2, 0}}, far[] = {{4, 50e-6, 0}, {1e6, 10e-3, 0}};
    tri_link_curve link[] = {{TRI_LINK_ALL_REDUCE, 2, 1, 4, two},
                             {TRI_LINK_ALL_REDUCE, 4, 1, 2, four},
                             {TRI_LINK_ALL_REDUCE, 2, 2, 2, far},
                             {TRI_LINK_CONTROL, 2, 1, 1, two}};
    const int apart[] = {0, 4, 8, 12};
    tri_hardware h = wires();
    h.link = link, h.n_links = 3, h.cores = 2;
    /* at the points, between, below and above them */
    assert_near(tri__transfer_seconds(&h, TRI_ALL_REDUCE, eight, 2, 4e5), 1e-4);
    assert_near(tri__transfer_seconds(&h, TRI_ALL_REDUCE, eight, 2, 4e4), 1e-5);
    assert_near(tri__transfer_seconds(&h, TRI_ALL_REDUCE, eight, 2, 1), 1e-6);
    assert_near(tri__transfer_seconds(&h, TRI_ALL_REDUCE, eight, 2, 8e7), 1e-6 + (1e-2 - 1e-6) * (8e7 - 4) / (4e7 - 4));
    assert_near(tri__transfer_seconds(&h, TRI_ALL_REDUCE, eight, 4, 4e7), 4e-2);
    /* three ranks on two cores: latency of 2 levels, against 1 of two ranks and 2 of four; 6 bytes moved for each,
     * against 4 and 8. Between the two in proportion to the logarithm of the ranks */
    double part = log(1.5) / log(2), from_two = 2 * 1e-6 + 1.5 * (1e-2 - 1e-6), from_four = 4e-6 + 0.75 * (4e-2 - 4e-6);
    assert_near(tri__transfer_seconds(&h, TRI_ALL_REDUCE, eight, 3, 4e7),
                pow(from_two, 1 - part) * pow(from_four, part));
    /* between nodes: the far curve alone counts; four ranks of four nodes in proportion to their bytes: 6 quarters
     * against 2 halves, in as many steps; eight on two nodes: as many as two, in as many steps */
    assert_near(tri__transfer_seconds(&h, TRI_ALL_REDUCE, apart, 2, 1e6), 10e-3);
    assert_near(tri__transfer_seconds(&h, TRI_ALL_REDUCE, apart, 4, 1e6), 50e-6 + 1.5 * (10e-3 - 50e-6));
    assert_near(tri__transfer_seconds(&h, TRI_ALL_REDUCE, eight, 8, 1e6), 10e-3);
    /* a kind without curves keeps its formula */
    assert_near(tri__transfer_seconds(&h, TRI_SEND, eight, 2, 1e6), 101e-6);
    assert_near(tri__control_seconds(&h, eight, 2, 4e4), 1e-5);
    h.n_links = 4;
    assert_near(tri__control_seconds(&h, eight, 2, 4), 1e-6);
    /* more bytes never take less time */
    for (int n = 2; n <= 8; n++)
        for (double bytes = 1, last = 0; bytes < 1e9; bytes *= 1.7) {
            double now = tri__transfer_seconds(&h, TRI_ALL_REDUCE, eight, n, bytes);
            assert_true(now >= last);
            last = now;
        }
}

/* Out of and into the first node. */
static void expect_crossing(const tri_hardware *h, tri_collective_kind kind, const int *members, int n, double bytes,
                            double wide, double out, double in) {
    double crossing[2] = {0};
    tri_cards cards;
    tri__cards_open(&cards, h, kind, members, n, bytes, wide);
    if (cards.spread.nodes > 1) tri__cards_of(&cards, 0, crossing);
    assert_near(crossing[1], out);
    assert_near(crossing[0], in);
}

TEST(ways) {
    tri_hardware h = wires();
    h.cores = 2;
    assert_int_equal(tri__transfer_way(&h, TRI_ALL_REDUCE, eight, 4, 4096), TRI_WAY_EACH);
    assert_int_equal(tri__transfer_way(&h, TRI_ALL_REDUCE, eight, 4, 4100), TRI_WAY_SHARED);
    assert_int_equal(tri__transfer_way(&h, TRI_ALL_GATHER, eight, 4, 16384), TRI_WAY_EACH);
    assert_int_equal(tri__transfer_way(&h, TRI_ALL_GATHER, eight, 4, 16400), TRI_WAY_SHARED);
    assert_int_equal(tri__transfer_way(&h, TRI_SEND, eight, 2, 4), TRI_WAY_RECEIVER);
    assert_int_equal(tri__transfer_way(&h, TRI_ALL_REDUCE, eight, 8, 4), TRI_WAY_FAR);
    assert_near(tri__transfer_work(&h, TRI_ALL_GATHER, eight, 4, 4e6), 2 * 3 * 101e-6);
    h.cores = 0;
    assert_near(tri__transfer_work(&h, TRI_ALL_GATHER, eight, 4, 4e6), 4 * 3 * 101e-6);
    /* four members on each of two nodes: a sum once each way, sums of 16-bit floats as f32 one way */
    expect_crossing(&h, TRI_ALL_GATHER, eight, 8, 8e6, 1, 4e6, 4e6);
    expect_crossing(&h, TRI_ALL_REDUCE, eight, 8, 8e6, 1, 8e6, 8e6);
    expect_crossing(&h, TRI_ALL_REDUCE, eight, 8, 8e6, 2, 16e6, 8e6);
    expect_crossing(&h, TRI_ALL_REDUCE, eight, 4, 8e6, 1, 0, 0);
    expect_crossing(&h, TRI_SEND, eight + 3, 2, 8e6, 1, 8e6, 0);
    expect_crossing(&h, TRI_ALL_REDUCE, eight + 2, 4, 8e6, 1, 8e6, 8e6);
    expect_crossing(&h, TRI_ALL_REDUCE, eight + 3, 2, 8e6, 1, 8e6, 8e6); /* one of each: no other way has less */
    h.overlap = 1;
    assert_int_equal(tri__transfer_way(&h, TRI_SEND, eight, 8, 4), TRI_WAY_LINK);
    expect_crossing(&h, TRI_ALL_REDUCE, eight, 8, 8e6, 1, 8e6, 8e6);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
