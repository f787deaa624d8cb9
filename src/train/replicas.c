/* replicas.c - ranks that hold the same weights compare hashes of them: a bit that flipped on one is found, and the rank named. */
#include "base/hash.h"
#include "train/session.h"

#include <stdlib.h>
#include <string.h>

typedef struct held {
    uint64_t what, bits; /* hashes of which elements a rank holds, and of their values */
} held;

static held hash_weights(const tri_engine *engine) {
    held h = {0};
    for (int i = 0; i < engine->n_weights; i++) {
        const tri_piece *piece = &engine->weights[i];
        int64_t range[] = {piece->slice.begin, piece->slice.end};
        h.what = tri__hash64(h.what, piece->name, strlen(piece->name));
        h.what = tri__hash64(h.what, range, sizeof range);
        h.bits = tri__hash64(h.bits, piece->data, (size_t)(range[1] - range[0]) * tri__dtype_bytes(piece->dtype));
    }
    return h;
}

/* How many ranks hold the same elements as rank r, and with the same bits. */
static void count_alike(const held *all, int n, int r, int *holders, int *alike) {
    *holders = *alike = 0;
    for (int k = 0; k < n; k++)
        if (all[k].what == all[r].what) ++*holders, *alike += all[k].bits == all[r].bits;
}

/* The odd rank is the one that agrees with the fewest; of two that differ nobody can say which is right. */
static tri_status judge(const held *all, int n, int64_t step) {
    int odd = -1, fewest = 0, of = 0;
    for (int r = 0; r < n; r++) {
        int holders, alike;
        count_alike(all, n, r, &holders, &alike);
        if (alike < holders && (odd < 0 || alike < fewest)) odd = r, fewest = alike, of = holders;
    }
    if (odd < 0) return TRI_OK;
    if (2 * fewest < of)
        return tri__fail(TRI_DISAGREE, "step %lld: rank %d holds other weights than the %d ranks that should hold the same: memory or a computation "
                         "went wrong there. Start again from the last checkpoint, without that machine if it happens again",
                         (long long)step, odd, of - fewest);
    return tri__fail(TRI_DISAGREE, "step %lld: rank %d and others hold different weights where they should be the same, %d of %d agree with it. "
                     "Start again from the last checkpoint", (long long)step, odd, fewest, of);
}

tri_status tri__session_compare_replicas(tri_session *s) {
    tri_world *world = s->place.world;
    if (!world) return TRI_OK;
    int n = tri_world_size(world);
    held mine = hash_weights(&s->engine), *all = calloc((size_t)n, sizeof *all);
    if (!all) return tri__fail(TRI_RESOURCE, "out of memory");
    tri_status status = tri_all_gather(tri_group_world(world), &mine, all, 2, NULL, TRI_I64);
    if (status == TRI_OK) status = judge(all, n, s->at.step);
    free(all);
    return status;
}
