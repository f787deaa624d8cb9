/* test_cards.c - no simulated step is shorter than the bytes of any node over the rate of its card, in either
 * direction: over random layouts, placements and hardware. */
#include "tests/lib/test.h"
#include "tests/lib/tensor_job.h"

#include "program/transfer.h"
#include "sim/timeline.h"
#include "sim/transfer_time.h"

static uint64_t dice = 17;
static int pick(int n) {
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return (int)((dice >> 33) % (uint64_t)n);
}

/* What a post of this rank moves through the card of its node: into it, out of it. A collective counts with the first
 * member of the node. */
static void count_post(const tri_program *p, const tri_instr *post, const tri_hardware *h, double bytes[2]) {
    int members[JOB_RANKS], n = tri__transfer_members(&p->mesh, p->rank, &post->attr, members), place = -1;
    int node = p->rank / h->ranks_per_node, whole = tri__transfer_whole(post);
    double all = (double)tri__slot_bytes(&p->slot[whole], &p->max), crossing[2];
    tri_dtype dtype = p->slot[whole].dtype;
    tri_cards cards;
    if (post->op == TRI_OP_send_post || post->op == TRI_OP_recv_post) {
        int far = members[post->attr.root] / h->ranks_per_node != node;
        bytes[post->op == TRI_OP_send_post] += far * all;
        return;
    }
    for (int i = 0; i < n; i++) {
        int first = i == 0 || members[i - 1] / h->ranks_per_node != members[i] / h->ranks_per_node;
        place += first;
        if (members[i] / h->ranks_per_node != node || !first) continue;
        if (members[i] != p->rank) return;
        tri__cards_open(&cards, h, tri__post_kind(post->op), members, n, all,
                        (double)tri__dtype_sum_bytes(dtype) / (double)tri__dtype_bytes(dtype));
        if (cards.spread.nodes == 1) return;
        tri__cards_of(&cards, place, crossing);
        bytes[0] += crossing[0], bytes[1] += crossing[1];
    }
}

static void expect_bound(const job *j, const tri_hardware *h, const char *name) {
    const tri_program *program[JOB_RANKS];
    tri_arena arena;
    tri_classes all;
    tri_timeline line;
    int nodes = (j->n + h->ranks_per_node - 1) / h->ranks_per_node;
    OK(tri__arena_open(&arena, (size_t)1 << 30));
    for (int r = 0; r < j->n; r++) program[r] = j->rank[r].program[0];
    OK(tri__classes_list(&all, &arena, program, j->n));
    OK(tri__timeline(&arena, &all, &(tri_costs){.hardware = h, .threads = 1}, &line));
    for (int node = 0; node < nodes; node++) {
        double bytes[2] = {0};
        for (int r = node * h->ranks_per_node; r < j->n && r < (node + 1) * h->ranks_per_node; r++)
            for (int i = 0; i < program[r]->n_instrs; i++)
                if (tri__is_post(program[r]->instr[i].op)) count_post(program[r], &program[r]->instr[i], h, bytes);
        for (int out = 0; out < 2; out++)
            if (line.seconds < bytes[out] / tri__node_bytes(h) * (1 - 1e-9))
                fail_msg("%s: a step of %g s, and %g bytes %s node %d at %g a second", name, line.seconds, bytes[out],
                         out ? "out of" : "into", node, tri__node_bytes(h));
    }
    tri__arena_close(&arena);
}

TEST(no_step_is_shorter_than_its_bytes) {
    static const tri_shard_kind shards[] = {TRI_SHARD_NONE, TRI_SHARD_ZERO1, TRI_SHARD_ZERO2, TRI_SHARD_ZERO3};
    tri_link_point points[] = {{8, 1e-4, 0}, {1 << 17, 0.02, 0}};
    tri_link_curve curves[] = {{TRI_LINK_ALL_REDUCE, 2, 2, 2, points}, {TRI_LINK_ALL_GATHER, 2, 2, 2, points}};
    for (int i = 0; i < 40; i++) {
        static const int sizes[][3] = {{1, 1, 4}, {1, 2, 2}, {2, 1, 2}, {1, 1, 8}, {2, 2, 2}, {1, 1, 6}, {1, 2, 3}};
        const int *size = sizes[pick(7)];
        job j;
        char name[160];
        job_what is = {.pp = size[0], .tp = size[1], .dp = size[2], .n_mb = size[0] > 1 ? 2 : 1};
        is.sharding.kind = shards[pick(size[0] > 1 ? 2 : 4)];
        is.precision = pick(3) ? TRI_F32 : TRI_BF16;
        if (size[0] > 1) is.staging.schedule = TRI_SCHEDULE_1F1B;
        tri_hardware h = {.f32 = 1e15, .half = 1e15, .attention = 1, .bytes = 1e15, .copy = 1e15,
                          .ranks_per_node = 1 + pick(4), .near = {1e-6, 1e10}, .far = {1e-5, 1e5},
                          .overlap = pick(3) == 0};
        if (pick(2)) h.node_bytes = pick(2) ? 5e4 : 2e5;
        if (pick(2)) h.link = curves, h.n_links = 2; /* of a faster network */
        snprintf(name, sizeof name, "%d: pp %d, tp %d, dp %d, shard %d, %d a node, overlap %d", i, size[0], size[1],
                 size[2], (int)is.sharding.kind, h.ranks_per_node, h.overlap);
        job_open(&j, is);
        expect_bound(&j, &h, name);
        job_close(&j);
    }
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
