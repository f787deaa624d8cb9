/* agree.c - all ranks compare a digest of settings that must be equal before they begin. All blame the same rank, since
 * all see the same digests in the same order. */
#include "comm/world/world.h"

/* The rank to blame: the first whose digest is not the most frequent one. In a tie rank 0's digest is right. -1: all
 * are equal. */
static int odd_rank(const int64_t *digest, int n, int *usual) {
    int most = 0;
    for (int i = 0; i < n; i++) {
        int same = 0;
        for (int k = 0; k < n; k++) same += digest[k] == digest[i];
        if (same > most) most = same, *usual = i;
    }
    for (int i = 0; i < n; i++)
        if (digest[i] != digest[*usual]) return i;
    return -1;
}

tri_status tri__world_agree(tri_world *world, uint64_t digest, const char *what) {
    int usual = 0;
    int64_t own = (int64_t)digest;
    TRI_OWNED(tri__free_at) int64_t *all = calloc((size_t)world->size, sizeof *all); /* [size] */
    if (!all) return tri__fail(TRI_RESOURCE, "out of memory for %d digests", world->size);
    TRI_TRY(tri_all_gather(tri_group_world(world), &own, all, 1, NULL, TRI_I64));
    int odd = odd_rank(all, world->size, &usual);
    if (odd < 0) return TRI_OK;
    if (!atomic_load(&world->segment.control->abort))
        tri__control_fail(world->segment.control, odd, TRI_DISAGREE,
                          "%s differ from rank %d's (digest %016llx against %016llx): start all ranks with the same "
                          "command, files and build",
                          what, usual, (unsigned long long)all[odd], (unsigned long long)all[usual]);
    return tri__world_check(world);
}
