/* collect.c - which earlier world's state is whole, who has which part of it, and bringing it to every machine. */
#include "train/state/held.h"

#include "comm/world/kept.h"

#include <limits.h>

/* ---- which world, and which step ---- */

static const tri_segment *of_generation(const tri_world *world, int64_t generation) {
    for (int i = 0; i < 2; i++)
        if (world->before[i].base && world->before[i].control->generation == generation) return &world->before[i];
    return NULL;
}

/* The newest generation below `below` of which any rank has memory, and its number of ranks; -1: none. */
static tri_status next_generation(tri_world *world, int64_t below, int64_t *generation, int *n) {
    int64_t mine[2] = {-1, 0}, found[2];
    for (int i = 0; i < 2; i++) {
        const tri_control *control = world->before[i].base ? world->before[i].control : NULL;
        if (control && control->generation < below && control->generation > mine[0]) mine[0] = control->generation;
    }
    TRI_TRY(tri_all_reduce(tri_group_world(world), mine, found, 1, TRI_I64, TRI_MAX));
    const tri_segment *segment = of_generation(world, found[0]);
    mine[1] = segment ? segment->control->world : 0;
    TRI_TRY(tri_all_reduce(tri_group_world(world), mine + 1, found + 1, 1, TRI_I64, TRI_MAX));
    *generation = found[0], *n = (int)found[1];
    return TRI_OK;
}

/* kept [n][2]: newest steps plus 1 that any machine has of each rank, by the parity of the step. */
static int64_t whole_step(const int64_t *kept, int n) {
    int64_t newest = -1;
    for (int parity = 0; parity < 2; parity++) {
        int64_t step = kept[parity] - 1;
        int all = step >= 0 && (step & 1) == parity;
        for (int r = 0; r < n; r++) all &= kept[2 * r + parity] == step + 1;
        if (all && step > newest) newest = step;
    }
    return newest;
}

static tri_status find_step(tri_world *world, const tri_segment *segment, int n, int64_t *step) {
    TRI_OWNED(tri__free_at) int64_t *kept = calloc((size_t)n * 2, sizeof *kept);
    size_t bytes;
    if (!kept) return tri__fail(TRI_RESOURCE, "out of memory for replicated state");
    for (int r = 0; r < n && segment; r++) tri__kept_find(segment, r, &bytes, kept + 2 * r);
    TRI_TRY(tri_all_reduce(tri_group_world(world), NULL, kept, 2 * (int64_t)n, TRI_I64, TRI_MAX));
    *step = whole_step(kept, n);
    return TRI_OK;
}

/* ---- who has what ---- */

/* Of each rank of the chosen world; the same on every rank. */
typedef struct part {
    /* negated: the first rank whose machine has its area, of its own or else a copy, for which the number of ranks is
     * added */
    int64_t from;
    int64_t begin, data;    /* bytes, as tri_memory_extent */
} part;

typedef struct collecting {
    tri_world *world;
    const tri_segment *segment;     /* of the chosen world; NULL: this machine has none */
    tri_memory_area *areas;         /* [n] */
    int n, copy;
    part *part;                     /* [n] */
    /* [machines][n] where the area of a rank that came from elsewhere is in a machine's segment; 0: that machine had
     * it; before it is known, 1: it lacks it */
    int64_t *at;
    tri_memory_extent *extent;      /* [n] of what is here */
} collecting;

/* The areas that this machine has. */
static tri_status find_areas(collecting *c, int64_t step) {
    for (int r = 0; r < c->n && c->segment; r++) {
        int64_t kept[2];
        tri_memory_area *area = &c->areas[r];
        area->base = tri__kept_find(c->segment, r, &area->bytes, kept);
        if (area->base && kept[c->copy] != step + 1) area->base = NULL;
        if (!area->base) continue;
        area->fd = c->segment->fd, area->at = (uint64_t)((const char *)area->base - c->segment->base);
        TRI_TRY(tri__memory_extent(area, &c->extent[r]));
    }
    return TRI_OK;
}

static int is_own(const tri_segment *segment, int rank) {
    for (int i = 0; i < segment->n; i++)
        if (segment->control->rank_of[i] == rank) return 1;
    return 0;
}

static int source(const collecting *c, int r) { return (int)(-c->part[r].from % c->world->size); }

static tri_status compare(collecting *c) {
    tri_world *world = c->world;
    tri_group *all = tri_group_world(world);
    int64_t *lacks = c->at + (int64_t)world->nodes.node_of[world->rank] * c->n;
    for (int r = 0; r < c->n; r++) {
        int there = c->areas[r].base != NULL;
        int from = there && !is_own(c->segment, r) ? world->rank + world->size : world->rank;
        c->part[r] = there ? (part){-from, (int64_t)c->extent[r].begin, (int64_t)c->extent[r].data}
                           : (part){INT_MIN, 0, 0};
        lacks[r] = !there;
    }
    TRI_TRY(tri_all_reduce(all, NULL, c->part, (int64_t)c->n * (int64_t)(sizeof(part) / sizeof(int64_t)), TRI_I64,
                           TRI_MAX));
    TRI_TRY(tri_all_reduce(all, NULL, c->at, (int64_t)world->nodes.n * c->n, TRI_I64, TRI_MAX));
    /* The text of the state may be replaced after its copy was sent, so machines may have different ones. All take that
     * of one, and of its owner's if that is left: it is the last. */
    for (int node = 0; node < world->nodes.n; node++)
        if (node != world->nodes.node_of[source(c, 0)]) c->at[(int64_t)node * c->n] = 1;
    return TRI_OK;
}

/* ---- bringing it here ---- */

static tri_status send(collecting *c, int r, int to) {
    tri_group *all = tri_group_world(c->world);
    const char *area = c->areas[r].base;
    TRI_TRY(tri_send(all, area, (int64_t)c->extent[r].begin, TRI_U8, to, 0));
    return tri_send(all, area + c->extent[r].data_at[c->copy], (int64_t)c->extent[r].data, TRI_U8, to, 0);
}

/* From this rank itself, where another one of its machine has no memory of that world: a spare. */
static void copy(const collecting *c, int r, void *area) {
    const tri_memory_extent *extent = &c->extent[r];
    const char *from = c->areas[r].base;
    memcpy(area, from, extent->begin);
    memcpy((char *)area + extent->begin, from + extent->data_at[c->copy], extent->data);
}

static tri_status receive(collecting *c, int r, int64_t *at) {
    tri_group *all = tri_group_world(c->world);
    const part *p = &c->part[r];
    int from = source(c, r), here = from == c->world->rank;
    void *area;
    TRI_TRY(tri_heap_alloc(c->world, (size_t)(p->begin + p->data), &area));
    if (here) copy(c, r, area);
    if (!here) TRI_TRY(tri_recv(all, area, p->begin, TRI_U8, from, 0));
    if (!here) TRI_TRY(tri_recv(all, (char *)area + p->begin, p->data, TRI_U8, from, 0));
    tri__memory_pack(area, &(tri_memory_extent){.begin = (size_t)p->begin, .data = (size_t)p->data});
    *at = (char *)area - c->world->segment.base;
    return TRI_OK;
}

/* One transfer after another, in the same order on all ranks. */
static tri_status bring(collecting *c) {
    tri_world *world = c->world;
    for (int r = 0; r < c->n; r++)
        for (int node = 0; node < world->nodes.n; node++) {
            int64_t *at = &c->at[(int64_t)node * c->n + r];
            int from = source(c, r), to = 0; /* the machine's first rank */
            while (world->nodes.node_of[to] != node) to++;
            if (!*at) continue;
            *at = 0;
            if (world->rank == from && from != to) TRI_TRY(send(c, r, to));
            if (world->rank == to) TRI_TRY(receive(c, r, at));
        }
    TRI_TRY(tri_all_reduce(tri_group_world(world), NULL, c->at, (int64_t)world->nodes.n * c->n, TRI_I64, TRI_MAX));
    const int64_t *here = c->at + (int64_t)world->nodes.node_of[world->rank] * c->n;
    for (int r = 0; r < c->n; r++)
        if (here[r])
            c->areas[r] = (tri_memory_area){.base = world->segment.base + here[r],
                                            .bytes = (size_t)(c->part[r].begin + c->part[r].data),
                                            .fd = world->segment.fd, .at = (uint64_t)here[r]};
    return TRI_OK;
}

static tri_status collect(collecting *c, int64_t step) {
    TRI_TRY(find_areas(c, step));
    TRI_TRY(compare(c));
    return bring(c);
}

tri_status tri__collect(tri_world *world, tri_collected *out) {
    int64_t generation = INT64_MAX, committed = atomic_load(&world->segment.control->committed) - 1, step = -1;
    int n = 0;
    *out = (tri_collected){.step = -1};
    while (step < 0) {
        TRI_TRY(next_generation(world, generation, &generation, &n));
        if (generation < 0) break;
        TRI_TRY(find_step(world, of_generation(world, generation), n, &step));
        if (step < committed) step = -1;
    }
    for (int i = 0; i < 2; i++)
        if (world->before[i].base && world->before[i].control->generation != generation)
            tri__segment_close(&world->before[i]);
    if (step < 0) return TRI_OK;
    collecting c = {.world = world, .segment = of_generation(world, generation), .n = n, .copy = (int)(step & 1),
                    .areas = calloc((size_t)n, sizeof *c.areas), .part = calloc((size_t)n, sizeof *c.part),
                    .extent = calloc((size_t)n, sizeof *c.extent),
                    .at = calloc((size_t)n * (size_t)world->nodes.n, sizeof *c.at)};
    tri_status status = c.areas && c.part && c.extent && c.at
                            ? collect(&c, step)
                            : tri__fail(TRI_RESOURCE, "out of memory for replicated state");
    TRI_FREE(c.part, c.extent, c.at);
    *out = (tri_collected){.step = step, .n = n, .areas = c.areas};
    if (status != TRI_OK) tri__collected_free(out);
    return status;
}

void tri__collected_free(tri_collected *collected) {
    free(collected->areas);
    *collected = (tri_collected){.step = -1};
}
