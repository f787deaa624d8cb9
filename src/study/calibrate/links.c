/* links.c - measures transfers: for each kind and group a curve of seconds by bytes.
 *
 * As in `trident bench comm`, every rank rewrites its input before each call, so that it is in the cache of the rank
 * that computed it, as gradients are; then all begin together. A call takes as long as its slowest member. A curve has
 * its latency and its rate first: the smallest size and 128 KiB, whatever the time; then, the largest first, the others
 * that fit into its share of the time, as latency and rate say. Over a slow network the largest are left out. */
#include "study/calibrate/calibrate_parts.h"

#include "comm/world/world.h"

enum {
    CALLS_MOST = 41,
    CALLS_LEAST = 3,
    CONTROL_BYTES = 4096,     /* most of a control record */
    HEAP_SLACK = 4 << 20,
    GROUPS_MOST = 32
};
/* The step after 4096 is where inputs no longer travel with the announcement. */
static const int64_t sizes[] = {8,       256,     2048,    4096,    8192,     32 << 10,
                                128 << 10, 512 << 10, 2 << 20, 8 << 20, 64 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes };

typedef struct kind_row {
    tri_link_kind link;
    tri_collective_kind kind;
    int all_in, all_out; /* the buffer holds the parts of all members */
    int in_place;
} kind_row;

static const kind_row kinds[] = {
    {TRI_LINK_ALL_REDUCE, TRI_ALL_REDUCE, .in_place = 1},
    {TRI_LINK_ALL_GATHER, TRI_ALL_GATHER, .all_out = 1},
    {TRI_LINK_REDUCE_SCATTER, TRI_REDUCE_SCATTER, .all_in = 1},
    {TRI_LINK_ALL_TO_ALL, TRI_ALL_TO_ALL, .all_in = 1, .all_out = 1},
    {TRI_LINK_BROADCAST, TRI_BROADCAST, .in_place = 1},
    {.link = TRI_LINK_SEND, .kind = TRI_SEND}, /* between two members, in one direction */
    {TRI_LINK_CONTROL, TRI_ALL_REDUCE, .in_place = 1},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

typedef struct curve {
    tri_link_point point[SIZES];
    int n;
} curve;

/* The curves of one group, of n ranks on `nodes` nodes. */
typedef struct group_curves {
    int n, nodes;
    curve of[KINDS];
} group_curves;

/* One rank of a group while it measures. */
typedef struct rig {
    tri_world *world;
    tri_group *group;
    int n, me;
    int64_t largest;        /* bytes of each buffer */
    char *in, *out;
    double sample[CALLS_MOST];
    double until;           /* tri__clock: all curves of the group */
} rig;

/* Elements of f32 (control: f64) of one member's part, or of the whole. */
static int64_t count_of(const rig *r, const kind_row *row, int64_t bytes) {
    int64_t size = row->link == TRI_LINK_CONTROL ? 8 : 4, parts = row->all_in || row->all_out ? r->n : 1;
    int64_t count = bytes / size / parts;
    return count ? count : 1;
}

static int64_t moved_bytes(const rig *r, const kind_row *row, int64_t bytes) {
    int64_t size = row->link == TRI_LINK_CONTROL ? 8 : 4, parts = row->all_in || row->all_out ? r->n : 1;
    return count_of(r, row, bytes) * size * parts;
}

static tri_status carry_out(const rig *r, const kind_row *row, int64_t count) {
    tri_request request;
    tri_collective what = {.kind = row->kind, .dtype = row->link == TRI_LINK_CONTROL ? TRI_F64 : TRI_F32,
                           .reduction = TRI_SUM, .in = r->in, .out = row->in_place ? r->in : r->out, .count = count};
    if (row->kind == TRI_SEND) {
        if (r->me > 1) return TRI_OK;
        what.kind = r->me ? TRI_RECV : TRI_SEND, what.root = !r->me;
        *(r->me ? (const void **)&what.in : (const void **)&what.out) = NULL;
    }
    TRI_TRY(tri_post(r->group, &what, &request));
    return tri_wait(r->world, request);
}

/* The seconds of one call on this rank. */
static tri_status call_once(const rig *r, const kind_row *row, int64_t bytes, double *seconds) {
    int64_t count = count_of(r, row, bytes);
    memset(r->in, 0, (size_t)moved_bytes(r, row, bytes));
    TRI_TRY(tri_barrier(r->group));
    TRI_TRY(tri_barrier(r->group)); /* for ranks that slept in the first */
    double begin = tri__clock();
    TRI_TRY(carry_out(r, row, count));
    *seconds = tri__clock() - begin;
    return TRI_OK;
}

/* The first member's number, for all. */
static tri_status told(const rig *r, double *number) { return tri_broadcast(r->group, number, 1, TRI_F64, 0); }

/* The first call touches pages. Where it takes longer than the share, it is the only one. */
static tri_status take_point(rig *r, const kind_row *row, int64_t bytes, double share, tri_link_point *point) {
    double first, calls = 1;
    TRI_TRY(call_once(r, row, bytes, &r->sample[0]));
    double again = r->sample[0] < share;
    TRI_TRY(told(r, &again));
    if (again > 0) {
        TRI_TRY(call_once(r, row, bytes, &first));
        calls = fmin(CALLS_MOST, fmax(CALLS_LEAST, share / (2 * first + 1e-6)));
        TRI_TRY(told(r, &calls));
        for (int i = 0; i < (int)calls; i++) TRI_TRY(call_once(r, row, bytes, &r->sample[i]));
    }
    int n = (int)calls;
    TRI_TRY(tri_all_reduce(r->group, NULL, r->sample, n, TRI_F64, TRI_MAX));
    double middle = tri__median(r->sample, n);
    *point = (tri_link_point){(double)moved_bytes(r, row, bytes), middle,
                              (r->sample[n - 1 - n / 4] - r->sample[n / 4]) / 2};
    return TRI_OK;
}

/* A larger transfer never takes less time: noise only adds. */
static void smooth(curve *c) {
    for (int i = c->n - 2; i >= 0; i--) c->point[i].seconds = fmin(c->point[i].seconds, c->point[i + 1].seconds);
}

/* What a size would take by the smallest and the largest point so far, as a latency and a rate; 0: not known. */
static double expected(const tri_link_point *at, const int *taken, int i) {
    int last = SIZES - 1;
    while (last > 0 && !taken[last]) last--;
    if (!last) return 0;
    double slope = (at[last].seconds - at[0].seconds) / (at[last].bytes - at[0].bytes);
    return at[0].seconds + fmax(0, slope) * (double)sizes[i];
}

/* The k-th size to take, as an index; `most`: the largest. */
static int in_order(int k, int most) {
    int needed = 0;
    while (needed < most && sizes[needed] < TRI_LINK_LEAST) needed++;
    if (k < 2) return k ? needed : 0;
    int i = most - (k - 2); /* downwards, without those two */
    return i <= needed ? i - 1 : i;
}

/* `share`: seconds for this curve. */
static tri_status take_curve(rig *r, const kind_row *row, double share, curve *c) {
    tri_link_point at[SIZES];
    int taken[SIZES] = {0}, most = 0;
    double begin = tri__clock();
    while (most + 1 < SIZES && sizes[most + 1] <= (row->link == TRI_LINK_CONTROL ? CONTROL_BYTES : r->largest)) most++;
    for (int k = 0; k <= most; k++) {
        int i = in_order(k, most);
        double least = (CALLS_LEAST + 2) * expected(at, taken, i), left = share - (tri__clock() - begin);
        double leave = k > 1 && least > fmin(left, share / 3); /* a third, so that it does not take the time of all */
        TRI_TRY(told(r, &leave));
        if (leave > 0) continue;
        TRI_TRY(take_point(r, row, sizes[i], share / SIZES, &at[i]));
        taken[i] = 1;
    }
    for (int i = 0; i <= most; i++) {
        if (!taken[i] || (c->n && at[i].bytes <= c->point[c->n - 1].bytes)) continue; /* a part of one element */
        c->point[c->n++] = at[i];
    }
    smooth(c);
    return TRI_OK;
}

static tri_status take_group(rig *r, group_curves *out) {
    void *memory;
    TRI_TRY(tri_heap_alloc(r->world, (size_t)r->largest, &memory));
    r->in = memory;
    TRI_TRY(tri_heap_alloc(r->world, (size_t)r->largest, &memory));
    r->out = memory;
    for (int k = 0; k < KINDS; k++)
        TRI_TRY(take_curve(r, &kinds[k], fmax(0, r->until - tri__clock()) / (KINDS - k), &out->of[k]));
    tri_heap_free(r->world, r->in);
    tri_heap_free(r->world, r->out);
    return TRI_OK;
}

/* ---- Inside a node: threads ---- */

typedef struct near_job {
    group_curves *out;
    int64_t largest;
    double until;
} near_job;

static tri_status near_rank(tri_world *world, void *context) {
    const near_job *job = context;
    rig r = {.world = world, .group = tri_group_world(world), .n = tri_world_size(world), .me = tri_world_rank(world),
             .largest = job->largest, .until = job->until};
    group_curves *own = r.me ? calloc(1, sizeof *own) : job->out;
    if (!own) return tri__fail(TRI_RESOURCE, "out of memory");
    tri_status status = take_group(&r, own);
    if (r.me) free(own);
    return status;
}

/* Two buffers of each rank within a quarter of the free memory. */
static int64_t largest_for(int ranks) {
    int64_t room = tri__memory_available() / 8 / ranks, most = sizes[SIZES - 1];
    return room < most ? room : most;
}

static tri_status measure_near(int ranks, double seconds, group_curves *out) {
    near_job job = {.out = out, .largest = largest_for(ranks), .until = tri__clock() + seconds};
    tri_ranks how = {.n = ranks, .heap_bytes = 2 * (size_t)job.largest + HEAP_SLACK};
    out->n = ranks, out->nodes = 1;
    return tri_ranks_run(&how, near_rank, &job);
}

/* ---- Between nodes ---- */

/* The world ranks of the first `nodes` nodes, `each` of each, in order; returns how many, 0 if a node has fewer. */
static int members_of(const tri_world *world, int nodes, int each, int *rank) {
    int n = 0;
    for (int r = 0; r < world->size; r++)
        if (world->nodes.node_of[r] < nodes && world->nodes.local_of[r] < each) rank[n++] = r;
    return n == nodes * each ? n : 0;
}

static tri_status measure_far(tri_world *world, int nodes, int each, double seconds, group_curves *out) {
    int *rank = malloc((size_t)world->size * sizeof *rank), mine = 0;
    if (!rank) return tri__fail(TRI_RESOURCE, "out of memory");
    rig r = {.world = world, .n = members_of(world, nodes, each, rank), .until = tri__clock() + seconds};
    out->n = r.n, out->nodes = nodes;
    for (int i = 0; i < r.n; i++)
        if (rank[i] == world->rank) mine = 1, r.me = i;
    tri_status status = mine ? tri_group_make(world, r.n, rank, &r.group) : TRI_OK;
    r.largest = largest_for(each);
    free(rank);
    double largest = (double)r.largest;
    if (status == TRI_OK && mine) status = tri_all_reduce(r.group, NULL, &largest, 1, TRI_F64, TRI_MIN);
    r.largest = (int64_t)largest;
    if (status == TRI_OK && mine) status = take_group(&r, out);
    if (!mine) nanosleep(&(struct timespec){.tv_sec = (time_t)seconds}, NULL); /* in a wait it would poll */
    return status == TRI_OK ? tri_barrier(tri_group_world(world)) : status;
}

/* Bytes a second that leave a node when all its ranks send at once, each to a rank of the second node. */
static tri_status measure_node(tri_world *world, int each, double rate, double *bytes) {
    enum { TRIES = 3 };
    int node = world->nodes.node_of[world->rank], local = world->nodes.local_of[world->rank], peer = -1;
    int64_t count = (int64_t)fmin(4 << 20, fmax(64 << 10, 0.1 * rate / each)) / 4;
    double took[TRIES] = {0};
    void *memory;
    for (int r = 0; r < world->size; r++)
        if (node < 2 && world->nodes.node_of[r] == !node && world->nodes.local_of[r] == local) peer = r;
    tri_group *all = tri_group_world(world);
    TRI_TRY(tri_broadcast(all, &count, 1, TRI_I64, 0));
    TRI_TRY(tri_heap_alloc(world, (size_t)count * 4, &memory));
    for (int i = 0; i < TRIES; i++) {
        TRI_TRY(tri_barrier(all));
        double begin = tri__clock();
        if (peer >= 0 && local < each && node == 0) TRI_TRY(tri_send(all, memory, count, TRI_F32, peer, 0));
        if (peer >= 0 && local < each && node == 1) TRI_TRY(tri_recv(all, memory, count, TRI_F32, peer, 0));
        took[i] = tri__clock() - begin;
    }
    TRI_TRY(tri_all_reduce(all, NULL, took, TRIES, TRI_F64, TRI_MAX));
    *bytes = (double)(count * 4 * each) / tri__median(took, TRIES);
    tri_heap_free(world, memory);
    return TRI_OK;
}

/* ---- All of it ---- */

static int ranks_of_each_node(const tri_world *world) {
    int least = world->size;
    for (int node = 0; node < world->nodes.n; node++) {
        int here = 0;
        for (int r = 0; r < world->size; r++) here += world->nodes.node_of[r] == node;
        if (here < least) least = here;
    }
    return least;
}

/* Latency and rate of messages between two ranks. */
static tri_wire wire_of(const group_curves *g) {
    int k = 0;
    while (kinds[k].link != TRI_LINK_SEND) k++;
    const curve *c = &g->of[k];
    const tri_link_point *first = &c->point[0], *last = &c->point[c->n - 1];
    if (c->n < 2) return (tri_wire){0};
    double seconds = last->seconds - first->seconds;
    if (seconds <= 0) return (tri_wire){first->seconds, last->bytes / last->seconds};
    return (tri_wire){first->seconds, (last->bytes - first->bytes) / seconds};
}

static void add_curves(tri_arena *arena, const group_curves *g, tri_hardware *out) {
    for (int k = 0; k < KINDS; k++) {
        const curve *c = &g->of[k];
        int send = kinds[k].link == TRI_LINK_SEND, first_two = g->nodes == 1 ? g->n == 2 : g->n == g->nodes;
        if (!c->n || (send && !first_two)) continue; /* in larger groups the first two are the same, or share a node */
        tri_link_curve *to = &out->link[out->n_links++];
        *to = (tri_link_curve){kinds[k].link, send ? 2 : g->n, send && g->nodes > 1 ? 2 : g->nodes, c->n, NULL};
        to->point = tri__arena_alloc(arena, (size_t)c->n * sizeof *to->point);
        memcpy(to->point, c->point, (size_t)c->n * sizeof *to->point);
    }
}

typedef struct calibration {
    tri_arena *arena;
    tri_hardware *out;
    group_curves *group; /* [n] */
    int n;
} calibration;

static tri_status keep(void *data) {
    calibration *c = data;
    c->out->link = tri__arena_alloc(c->arena, (size_t)(c->n * KINDS) * sizeof *c->out->link);
    c->out->n_links = 0;
    for (int i = 0; i < c->n; i++) add_curves(c->arena, &c->group[i], c->out);
    return TRI_OK;
}

/* Groups of 2, 4, ... and `most`. */
static int next_size(int n, int most) { return n < most && 2 * n > most ? most : 2 * n; }

static tri_status measure_all(tri_world *world, int ranks, double seconds, calibration *c) {
    int nodes = world ? world->nodes.n : 1, each = nodes > 1 ? ranks_of_each_node(world) : 0, left = 0;
    double until = tri__clock() + seconds;
    for (int n = 2; n <= ranks; n = next_size(n, ranks)) left++;
    for (int k = 1; k <= each; k = next_size(k, each)) left++;
    for (int n = 2; n <= ranks; n = next_size(n, ranks), left--) {
        double share = (until - tri__clock()) / left;
        if (!world || world->rank == 0) TRI_TRY(measure_near(n, share, &c->group[c->n++]));
        if (world) TRI_TRY(tri_barrier(tri_group_world(world)));
    }
    for (int k = 1; k <= each; k = next_size(k, each), left--)
        TRI_TRY(measure_far(world, nodes, k, (until - tri__clock()) / left, &c->group[c->n++]));
    return TRI_OK;
}

tri_status tri__calibrate_links(tri_arena *arena, tri_world *world, int ranks, double seconds, tri_hardware *out) {
    calibration c = {.arena = arena, .out = out, .group = calloc(GROUPS_MOST, sizeof *c.group)};
    TRI_OWNED(tri__free_at) void *group = c.group;
    if (!group) return tri__fail(TRI_RESOURCE, "out of memory");
    TRI_TRY(measure_all(world, ranks, seconds, &c));
    tri_wire far = {0};
    for (int i = 0; i < c.n; i++) {
        tri_wire wire = wire_of(&c.group[i]);
        if (c.group[i].nodes > 1 && far.bytes <= 0) far = wire;
        if (c.group[i].nodes == 1 && c.group[i].n == 2) out->near = wire;
    }
    if (world && world->nodes.n > 1) {
        if (far.bytes > 0) out->far = far;
        TRI_TRY(measure_node(world, ranks_of_each_node(world), far.bytes, &out->node_bytes));
    }
    return world && world->rank ? TRI_OK : tri__arena_guard(keep, &c);
}
