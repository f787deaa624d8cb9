/* held_peer.c - copies of replicated state on another machine. */
#include "train/state/held.h"

#include "comm/world/kept.h"

enum { REQUESTS = 2 };

/* The state of a step, which only rank 0's area has. */
typedef struct state_text {
    int64_t bytes;
    char text[TRI_MEMORY_STATE];
} state_text;

/* A rank of the machine before whose area this rank holds. */
typedef struct held_peer {
    int rank;
    int64_t bytes;
    tri_held *held;
    tri_memory_extent extent;
    state_text *state;       /* of rank 0; NULL: of another */
} held_peer;

struct tri_held_peers {
    tri_world *world;
    tri_group *group;        /* of all ranks, for this alone */
    const char *area;        /* this rank's */
    tri_memory_extent extent;
    int64_t bytes;
    int to;                  /* the rank that holds it */
    state_text *state;       /* on rank 0; NULL on others */
    held_peer *peer;         /* [n] */
    int n;
    tri_request *request;    /* [REQUESTS (n + 1)] in flight: of each held peer, and of this rank's own */
    int n_requests;
    int64_t step;            /* that they are of */
};

static tri_status no_memory(void) { return tri__fail(TRI_RESOURCE, "out of memory for replicated state"); }

/* ---- who holds whose ---- */

static int ranks_of(const tri_nodes *nodes, int world, int node) {
    int n = 0;
    for (int r = 0; r < world; r++) n += nodes->node_of[r] == node;
    return n;
}

/* The rank that holds r's area. */
static int holder(const tri_world *world, int r) {
    const tri_nodes *nodes = &world->nodes;
    int next = (nodes->node_of[r] + 1) % nodes->n, local = nodes->local_of[r] % ranks_of(nodes, world->size, next);
    for (int q = 0; q < world->size; q++)
        if (nodes->node_of[q] == next && nodes->local_of[q] == local) return q;
    return -1;
}

/* ---- transfers ---- */

static tri_status post(tri_held_peers *p, tri_collective_kind kind, void *data, int64_t bytes, int peer) {
    const tri_collective what = {.kind = kind, .dtype = TRI_U8, .root = peer, .in = kind == TRI_SEND ? data : NULL,
                                 .out = kind == TRI_RECV ? data : NULL, .count = bytes};
    TRI_TRY(tri_post(p->group, &what, &p->request[p->n_requests]));
    p->n_requests++;
    return TRI_OK;
}

static tri_status wait_all(tri_held_peers *p) {
    tri_status status = TRI_OK;
    for (int i = 0; i < p->n_requests; i++) {
        tri_status one = tri_wait(p->world, p->request[i]);
        if (status == TRI_OK) status = one;
    }
    p->n_requests = 0;
    return status;
}

/* ---- opening ---- */

static tri_status find_peers(tri_held_peers *p) {
    tri_world *world = p->world;
    unsigned ranks = (unsigned)world->size;
    for (int r = 0; r < world->size; r++) p->n += holder(world, r) == world->rank;
    p->peer = calloc(ranks, sizeof *p->peer);
    p->request = calloc(ranks + 1, REQUESTS * sizeof *p->request);
    TRI_OWNED(tri__free_at) int *all = calloc(ranks, sizeof *all);
    if (!p->peer || !p->request || !all) return no_memory();
    for (int r = 0, i = 0; r < world->size; r++) {
        all[r] = r;
        if (holder(world, r) == world->rank) p->peer[i++].rank = r;
    }
    return tri_group_make(world, world->size, all, &p->group);
}

/* Sizes, then the beginnings of areas. */
static tri_status exchange(tri_held_peers *p) {
    TRI_TRY(post(p, TRI_SEND, &p->bytes, sizeof p->bytes, p->to));
    for (int i = 0; i < p->n; i++) TRI_TRY(post(p, TRI_RECV, &p->peer[i].bytes, sizeof p->bytes, p->peer[i].rank));
    TRI_TRY(wait_all(p));
    for (int i = 0; i < p->n; i++)
        TRI_TRY(tri__kept_hold(p->world, p->peer[i].rank, (size_t)p->peer[i].bytes, &p->peer[i].held));
    TRI_TRY(post(p, TRI_SEND, &p->extent, sizeof p->extent, p->to));
    TRI_TRY(post(p, TRI_SEND, (void *)p->area, (int64_t)p->extent.begin, p->to));
    for (int i = 0; i < p->n; i++) TRI_TRY(post(p, TRI_RECV, &p->peer[i].extent, sizeof p->extent, p->peer[i].rank));
    for (int i = 0; i < p->n; i++) { /* the extent comes first */
        TRI_TRY(tri_wait(p->world, p->request[2 + i]));
        held_peer *w = &p->peer[i];
        TRI_TRY(tri_recv(p->group, tri__held_area(w->held), (int64_t)w->extent.begin, TRI_U8, w->rank, 0));
    }
    p->n_requests = 2;
    return wait_all(p);
}

static tri_status make_texts(tri_held_peers *p) {
    int failed = p->world->rank == 0 && !(p->state = malloc(sizeof *p->state));
    for (int i = 0; i < p->n; i++) failed |= p->peer[i].rank == 0 && !(p->peer[i].state = malloc(sizeof *p->state));
    return failed ? no_memory() : TRI_OK;
}

static void drop(tri_held_peers **at) { tri__held_peers_close(*at); }

tri_status tri__held_peers_open(tri_world *world, const void *area, size_t bytes, tri_held_peers **out) {
    TRI_OWNED(drop) tri_held_peers *p = calloc(1, sizeof *p);
    *out = NULL;
    if (!p) return no_memory();
    p->world = world, p->area = area, p->bytes = (int64_t)bytes, p->to = holder(world, world->rank);
    TRI_TRY(tri__memory_extent(&(tri_memory_area){.base = area, .bytes = bytes}, &p->extent));
    TRI_TRY(find_peers(p));
    TRI_TRY(make_texts(p));
    TRI_TRY(exchange(p));
    *out = TRI_GIVE(p);
    return TRI_OK;
}

void tri__held_peers_close(tri_held_peers *p) {
    if (!p) return;
    for (int i = 0; i < p->n && p->peer; i++) free(p->peer[i].state);
    TRI_FREE(p->peer, p->request, p->state, p);
}

/* ---- every step ---- */

tri_status tri__held_peers_begin(tri_held_peers *p, int64_t step) {
    int copy = (int)(step & 1);
    p->step = step;
    for (int i = 0; i < p->n; i++) {
        held_peer *w = &p->peer[i];
        tri__held_begin(w->held, step);
        TRI_TRY(post(p, TRI_RECV, (char *)tri__held_area(w->held) + w->extent.data_at[copy], (int64_t)w->extent.data,
                     w->rank));
        if (w->state) TRI_TRY(post(p, TRI_RECV, w->state, sizeof *w->state, w->rank));
    }
    TRI_TRY(post(p, TRI_SEND, (void *)(p->area + p->extent.data_at[copy]), (int64_t)p->extent.data, p->to));
    if (!p->state) return TRI_OK;
    size_t bytes; /* the text may be replaced while it is sent: a copy of it is */
    const char *text = tri__memory_text(p->area, copy, &bytes);
    p->state->bytes = (int64_t)bytes;
    memcpy(p->state->text, text, bytes);
    return post(p, TRI_SEND, p->state, sizeof *p->state, p->to);
}

tri_status tri__held_peers_finish(tri_held_peers *p) {
    if (!p->n_requests) return TRI_OK;
    TRI_TRY(wait_all(p));
    for (int i = 0; i < p->n; i++) {
        held_peer *w = &p->peer[i];
        if (w->state && (w->state->bytes < 0 || w->state->bytes > TRI_MEMORY_STATE))
            return tri__fail(TRI_DISAGREE, "rank %d sent a state of %lld bytes", w->rank, (long long)w->state->bytes);
        if (w->state)
            tri__memory_put_text(tri__held_area(w->held), (int)(p->step & 1), w->state->text, (size_t)w->state->bytes);
        tri__held_end(w->held, p->step);
    }
    return TRI_OK;
}
