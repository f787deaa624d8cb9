/* test_calibrate_links.c - transfers measured between ranks that are threads: every kind has a curve that grows. Over a
 * slow network, with hardly any time, curves still say how long large transfers take. The host's figures are
 * positive. */
#include "study/calibrate/calibrate.h"

#include "comm/world/world.h"
#include "tests/lib/test.h"
#include "tests/lib/fake_remote.h"
#include "sim/transfer_time.h"

TEST(threads) {
    tri_arena arena;
    tri_hardware h = {.ranks_per_node = 4};
    unsigned seen = 0;
    assert_int_equal(tri__arena_open(&arena, 1 << 16), TRI_OK);
    double begin = tri__clock();
    assert_int_equal(tri__calibrate_links(&arena, NULL, 3, 0.6, &h), TRI_OK);
    assert_true(tri__clock() - begin < 20); /* sizes are left out, not calls of the first two */
    assert_true(h.near.latency > 0 && h.near.bytes > 0);
    assert_true(h.node_bytes == 0 && h.far.bytes == 0);
    for (int i = 0; i < h.n_links; i++) {
        const tri_link_curve *c = &h.link[i];
        seen |= 1u << (c->kind + (c->ranks == 3 ? TRI_LINK_KINDS : 0));
        assert_true(c->nodes == 1 && (c->ranks == 2 || c->ranks == 3) && c->n >= 2);
        for (int k = 0; k < c->n; k++) {
            assert_true(c->point[k].seconds > 0 && c->point[k].spread >= 0);
            assert_true(!k || (c->point[k].bytes > c->point[k - 1].bytes &&
                               c->point[k].seconds >= c->point[k - 1].seconds));
        }
    }
    unsigned all = 1u << TRI_LINK_ALL_REDUCE | 1u << TRI_LINK_ALL_GATHER | 1u << TRI_LINK_REDUCE_SCATTER |
                   1u << TRI_LINK_ALL_TO_ALL | 1u << TRI_LINK_BROADCAST | 1u << TRI_LINK_CONTROL;
    assert_int_equal(seen, all | 1u << TRI_LINK_SEND | all << TRI_LINK_KINDS); /* messages are between two */
    tri__arena_close(&arena);
}

/* ---- Two hosts of one rank each, and a network of 20 MB a second ---- */

typedef struct far_job {
    fake_hub hub;
    tri_segment segment[2];
    tri_nodes nodes;
    tri_arena arena;
    tri_hardware hardware;
    tri_status status[2];
} far_job;

typedef struct far_rank {
    far_job *job;
    int rank;
} far_rank;

static void *far_thread(void *context) {
    far_rank *me = context;
    far_job *job = me->job;
    tri_hardware ignored = {.ranks_per_node = 1};
    tri_arena arena;
    tri_world *world = NULL;
    tri_status status = tri__arena_open(&arena, 1 << 16);
    if (status == TRI_OK)
        status = tri__world_open(&job->segment[me->rank], 0, &job->nodes, &fake_remote, &job->hub.state[me->rank],
                                 &world);
    if (status == TRI_OK)
        status = tri__calibrate_links(me->rank ? &arena : &job->arena, world, 2, 0.2,
                                      me->rank ? &ignored : &job->hardware);
    job->status[me->rank] = status;
    tri_world_close(world);
    tri__arena_close(&arena);
    return NULL;
}

TEST(slow_network) {
    enum { RATE = 20000000 };
    int node_of[2] = {0, 1}, local_of[2] = {0, 0}, members[2] = {0, 1};
    static far_job job;
    far_rank each[2];
    pthread_t thread[2];
    job.hardware.ranks_per_node = 1;
    job.nodes = (tri_nodes){.node_of = node_of, .local_of = local_of, .n = 2};
    fake_hub_open(&job.hub, 2);
    job.hub.rate = RATE;
    assert_int_equal(tri__arena_open(&job.arena, 1 << 16), TRI_OK);
    for (int r = 0; r < 2; r++) {
        tri_segment_spec spec = {.n = 1, .world = 2, .world_rank = &node_of[r], .heap_bytes = (size_t)160 << 20,
                                 .progress_timeout = 30, .flat = 1};
        assert_int_equal(tri__segment_create(&spec, &job.segment[r]), TRI_OK);
    }
    for (int r = 0; r < 2; r++) {
        each[r] = (far_rank){&job, r};
        assert_int_equal(pthread_create(&thread[r], NULL, far_thread, &each[r]), 0);
    }
    for (int r = 0; r < 2; r++) pthread_join(thread[r], NULL);
    assert_int_equal(job.status[0], TRI_OK);
    assert_int_equal(job.status[1], TRI_OK);
    for (int i = 0; i < job.hardware.n_links; i++) {
        const tri_link_curve *c = &job.hardware.link[i];
        assert_true(c->n >= 2);
        assert_true(c->kind == TRI_LINK_CONTROL || c->point[c->n - 1].bytes >= TRI_LINK_LEAST);
    }
    /* 20 MB each way at once: a second, on a machine that is busy several; a curve of small sizes that is continued
     * says minutes */
    double seconds = tri__transfer_seconds(&job.hardware, TRI_ALL_REDUCE, members, 2, RATE);
    if (!(seconds > 0 && seconds < 100)) fail_msg("%g s are predicted for 20 MB at 20 MB/s", seconds);
    assert_true(job.hardware.far.latency > 0 && job.hardware.far.bytes > 0);
    for (int r = 0; r < 2; r++) tri__segment_close(&job.segment[r]);
    fake_hub_close(&job.hub);
    tri__arena_close(&job.arena);
}

TEST(host) {
    tri_hardware h = {0};
    assert_int_equal(tri__calibrate_host(&h), TRI_OK);
    assert_true(h.copy > 1e7 && h.copy < 1e13);
    assert_true(h.host.row + h.host.token > 0 && h.host.row < 1e-2 && h.host.token < 1e-4);
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
