/* shard_weights.c - sharded weights: a block is gathered before the instructions that use it and dropped after
 * them.
 *
 * A run is a stretch of instructions that use weights of one block. Runs of the same block that are close enough share
 * one gather, so the last blocks of the forward pass are kept for the backward pass, which begins with them. A gather
 * is posted `prefetch` runs before the run that waits for it: at most prefetch + 1 gathered blocks exist at a time
 * (unless --reshard-after-forward no keeps them).
 *
 *   prefetch 1, blocks a b c:   post a, post b, wait a, a.., post c, wait b, b.., wait c, c.. |
 *                               c.., b.., post a, wait a, a.. */
#include "plan/least.h"
#include "plan/shard.h"

#include <limits.h>

typedef struct gather {
    int block, first, last; /* runs that it serves */
    int post;               /* the run before which it is posted: not before the block's earlier gather is dropped */
    tri_ends ends;          /* the gathered block; this rank's shard of it */
} gather;

struct tri_gathers {
    int *run;               /* [instructions] the run that begins there; -1 */
    gather *gather;         /* in the order of their first run */
    int n, cap;
    int posted, waited;     /* gathers posted and waited for so far */
    int *shard;             /* [n_blocks] slots */
};

/* The block whose weights an instruction uses; -1 none that is gathered. */
static int block_used(const tri_sharder *s, const tri_instr *instr) {
    for (int k = 0; k < TRI_MAX_ARGS; k++)
        if (instr->slot[k] >= 0 && s->weights.unit[instr->slot[k]] >= 0) {
            int block = s->block_of[s->weights.unit[instr->slot[k]]];
            return s->block[block].of.n > 1 ? block : -1;
        }
    return -1;
}

/* The most runs between two uses of a block that share a gather. */
static int longest_gap(const tri_sharding *how) {
    return how->reshard == TRI_RESHARD_NO ? INT_MAX : how->reshard == TRI_RESHARD_YES ? 0 : how->prefetch;
}

static void find_runs(tri_sharder *s, struct tri_gathers *g) {
    int run = -1, now = -1, wait = longest_gap(&s->pass->sharding);
    int *last = tri__none_yet(s->to.arena, s->n_blocks); /* the block's latest gather */
    for (int i = 0; i < s->from->n_instrs; i++) {
        int block = block_used(s, &s->from->instr[i]);
        g->run[i] = -1;
        if (block < 0 || block == now) continue;
        now = block;
        g->run[i] = ++run;
        int gone = last[block] < 0 ? 0 : g->gather[last[block]].last + 1, ahead = run - s->pass->sharding.prefetch;
        if (last[block] < 0 || run - gone > wait) {
            *TRI_PUSH(s->to.arena, g->gather, g->n,
                      g->cap) = (gather){.block = block, .first = run, .post = ahead > gone ? ahead : gone};
            last[block] = g->n - 1;
        }
        g->gather[last[block]].last = run;
    }
}

void tri__gathers_plan(tri_sharder *s) {
    struct tri_gathers *g = s->gathers = tri__arena_alloc(s->to.arena, sizeof *g);
    g->run = tri__arena_alloc(s->to.arena, (size_t)s->from->n_instrs * sizeof *g->run);
    g->shard = tri__arena_alloc(s->to.arena, (size_t)s->n_blocks * sizeof *g->shard);
    for (int b = 0; b < s->n_blocks; b++) {
        const tri_shard_block *block = &s->block[b];
        g->shard[b] = TRI_SHARD_SLOT(s, block, TRI_MEM_PARAM, tri__range_count(block->own), "p.%s", block->name);
        for (int u = block->first; u < block->first + block->n; u++)
            s->pass->out.param[u] = tri__sharder_share(s, block, u, g->shard[b]);
        if (block->of.n == 1) tri__sharder_stand_block(s, &s->weights, block, g->shard[b]);
    }
    find_runs(s, g);
}

static void post(tri_sharder *s, int index, int mb) {
    gather *at = &s->gathers->gather[index];
    const tri_shard_block *block = &s->block[at->block];
    int whole = TRI_SHARD_SLOT(s, block, TRI_MEM_GATHER, block->count, "w.%s/%d", block->name, index);
    at->ends = (tri_ends){.y = whole, .x = s->gathers->shard[at->block]};
    tri__sharder_post(s, TRI_OP_all_gather_post, block->of.group, at->ends, tri__sharder_unit(s, block), mb);
}

void tri__gathers_before(tri_sharder *s, int at) {
    struct tri_gathers *g = s->gathers;
    int run = g->run[at], mb = s->from->instr[at].mb;
    if (run < 0) return;
    while (g->posted < g->n && g->gather[g->posted].post <= run) post(s, g->posted++, mb);
    if (g->waited == g->n || g->gather[g->waited].first != run) return;
    const gather *now = &g->gather[g->waited++];
    const tri_shard_block *block = &s->block[now->block];
    tri__sharder_wait(s, now->ends, tri__sharder_unit(s, block), mb);
    tri__sharder_stand_block(s, &s->weights, block, now->ends.y);
}

/* A turn from one pass to the other keeps the blocks between whose uses there are few enough runs: none is larger than
 * the largest unit, unless units are joined. */
void tri__place_weighs(const tri_plan_in *in, const tri_stages *stages, int place, double *elements, double *kept) {
    double largest = 0, blocks = 1 + (double)longest_gap(&in->sharding);
    *elements = 0;
    for (int u = 0; u < in->model->n_units; u++) {
        const tri_unit *unit = &in->model->unit[u];
        if (unit->frozen || stages->pipeline.rank[stages->of_unit[u]] != place) continue;
        *elements += (double)unit->count;
        if ((double)unit->count > largest) largest = (double)unit->count;
    }
    *kept = largest * blocks;
    if (in->sharding.wrap != TRI_WRAP_LAYER || *kept > *elements) *kept = *elements;
    *elements /= in->mesh.tp, *kept /= in->mesh.tp;
}
