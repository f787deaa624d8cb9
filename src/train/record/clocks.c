/* clocks.c - offsets by exchanges with rank 0, as NTP does: rank 0's time is compared with the middle of the round
 * trip, so the error is at most half of it, whatever part of it each direction took. */
#include "train/record/recorder.h"

enum { ROUNDS = 10, TAG = 77 };

/* Rank 0's side. */
static tri_status answer(tri_group *group, int peer) {
    for (int i = 0; i < ROUNDS; i++) {
        double now;
        TRI_TRY(tri_recv(group, &now, 1, TRI_F64, peer, TAG));
        now = tri__clock();
        TRI_TRY(tri_send(group, &now, 1, TRI_F64, peer, TAG));
    }
    return TRI_OK;
}

static tri_status ask(tri_group *group, tri_clock_offset *out) {
    for (int i = 0; i < ROUNDS; i++) {
        double there, begin = tri__clock();
        TRI_TRY(tri_send(group, &begin, 1, TRI_F64, 0, TAG));
        TRI_TRY(tri_recv(group, &there, 1, TRI_F64, 0, TAG));
        double end = tri__clock(), half = (end - begin) / 2;
        if (i == 0 || half < out->uncertainty) *out = (tri_clock_offset){there - (begin + half), half};
    }
    return TRI_OK;
}

static int is_first(const tri_world *world, int rank) { return world->nodes.local_of[rank] == 0; }

/* The first rank of each other machine takes its turn with rank 0. */
static tri_status exchange(tri_world *world, tri_clock_offset *out) {
    tri_group *group = tri_group_world(world);
    int home = world->nodes.node_of[0];
    if (world->rank != 0 && is_first(world, world->rank) && world->nodes.node_of[world->rank] != home)
        return ask(group, out);
    for (int rank = 1; rank < world->size && world->rank == 0; rank++)
        if (is_first(world, rank) && world->nodes.node_of[rank] != home) TRI_TRY(answer(group, rank));
    return TRI_OK;
}

/* What a rank tells the others: rank 0 its time, the first ranks of machines their offset. */
typedef struct tri_clock_told {
    double time;
    tri_clock_offset clock;
} tri_clock_told;
enum { NUMBERS = sizeof(tri_clock_told) / sizeof(double) };

static tri_status spread(tri_world *world, tri_clock_offset *out, double *zero) {
    tri_clock_told own = {tri__clock(), *out};
    TRI_OWNED(tri__free_at) tri_clock_told *all = calloc((size_t)world->size, sizeof *all);
    if (!all) return tri__fail(TRI_RESOURCE, "out of memory");
    TRI_TRY(tri_all_gather(tri_group_world(world), &own, all, NUMBERS, NULL, TRI_F64));
    for (int rank = 0; rank < world->size; rank++)
        if (is_first(world, rank) && world->nodes.node_of[rank] == world->nodes.node_of[world->rank])
            *out = all[rank].clock;
    *zero = all[0].time - out->offset;
    return TRI_OK;
}

tri_status tri__clocks_compare(tri_world *world, tri_clock_offset *out, double *zero) {
    *out = (tri_clock_offset){0};
    *zero = tri__clock();
    if (!world || world->size == 1) return TRI_OK;
    if (world->nodes.n > 1) {
        TRI_TRY(exchange(world, out));
        return spread(world, out, zero);
    }
    return tri_broadcast(tri_group_world(world), zero, 1, TRI_F64, 0);
}
