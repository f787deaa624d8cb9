/* relay.c - a collective, host by host.
 *
 * The vector is cut into as many lanes as the smallest host has members; on each host one member carries a lane, and
 * talks to those that carry it on the neighbouring hosts. All other members of the host lend it their buffers: it reads
 * and writes them in shared memory. A lane travels in chunks, several of them in flight, both ways at once:
 *
 *   reductions              partial sums go from the first host to the last: each adds its members' inputs, one by one
 *                           in the group's order, to the sums of those before: the bits are those of shared memory
 *   ... all_reduce          results go back from the last host to the first, each passes them on
 *   ... reduce_scatter,     results go from the last host to the host that wants them
 *       reduce
 *   all_gather, broadcast   from a chunk's host to the next one, in a ring, until all have it
 *
 * Between two ranks all chunks have one tag and one direction has one order, so nothing has to name them. */
#include "comm/link/relay.h"

#include "comm/link/remote.h"
#include "comm/ops/kind.h"
#include "comm/ops/reduce.h"
#include "comm/shm/pairs.h"
#include "layout/hosts.h"
#include "comm/link/message.h"

/* Over TCP, MPI's grant for a result queues behind the partial sums that travel the same way as the grant. So few
 * chunks are in flight, and they are small. */
enum {
    IN_FLIGHT = 4,                                 /* chunks of one way */
    CHUNKS = 16,                                   /* of a lane, within these limits: */
    LEAST_CHUNK = 32 << 10, MOST_CHUNK = 128 << 10, /* bytes */
    LOANS = 2,                                     /* channel of messages; those between hosts have tags */
    IN = 0, OUT = 1                                /* buffers of a member */
};

/* Elements of the whole vector from `at` on, `own` of the shard of `member` (or of all: -1). */
typedef struct chunk {
    int64_t at, own, count;
    int member;
} chunk;

/* Chunks that this rank sends, or receives, one after another. */
typedef struct stream {
    int n, *list;               /* [n] chunks in order */
    int posted, ended;
    tri_message message[IN_FLIGHT];
} stream;

struct tri_relay {
    const tri_relay_hosts *hosts;
    const int *to, *from;
    int lane;                   /* that this rank carries; -1: it lends its buffers, and waits */
    int n_chunks, computed;     /* of its lane; those to which this host has added its inputs */
    int delivered;              /* results from another host that its members have */
    int returned;               /* 1: all chunks are done, and the others have their buffers back */
    chunk *chunk;
    char *ready;                /* [n_chunks] 1: the result is in this rank's output, and may be passed on */
    stream sums_in, sums_out, results_in, results_out;
    /* [chunks in flight][slot] partial sums received, sent; results for others, either way */
    char *room[3];
    int64_t slot;
    tri_message *lend, *lent;   /* [lanes], [n_here]; none to and from itself */
    uint64_t own[2], (*theirs)[2]; /* where buffers are, as offsets from the segment's start; [n_here] */
    const void **in;            /* [n_here], for a chunk */
    void **out;
};

/* ---- The hosts of a group ---- */

static int host_of(const tri_group *group, int member) {
    return group->world->nodes.node_of[group->rank[member]];
}

tri_status tri__relay_hosts_open(const tri_group *group, tri_relay_hosts *hosts) {
    int n = group->n, *block = calloc(5 * (size_t)n, sizeof *block);
    if (!block) return tri__fail(TRI_RESOURCE, "no memory for a group of %d ranks", n);
    *hosts = (tri_relay_hosts){.of = block, .members = block + n, .here = block + 2 * n, .ordered = 1, .lanes = n};
    hosts->lane = block + 3 * n;
    for (int k = 0; k < n; k++) {
        int first = 0;
        while (host_of(group, first) != host_of(group, k)) first++;
        hosts->of[k] = first < k ? hosts->of[first] : hosts->n++;
        hosts->ordered &= first == k || hosts->of[k - 1] == hosts->of[k];
        hosts->members[hosts->of[k]]++;
    }
    hosts->me = hosts->of[group->me];
    for (int h = 0; h < hosts->n; h++)
        if (hosts->members[h] < hosts->lanes) hosts->lanes = hosts->members[h];
    for (int h = 0; h < hosts->n; h++)
        for (int k = 0, i = 0; k < n && i < hosts->lanes; k++)
            if (hosts->of[k] == h) hosts->lane[h * hosts->lanes + i++] = k;
    for (int k = 0; k < n; k++)
        if (hosts->of[k] == hosts->me) hosts->here[hosts->n_here++] = k;
    return TRI_OK;
}

int tri__relay_takes(const tri_relay_hosts *hosts, const tri_pending *p) {
    tri_hosts shape = {.n = hosts->n, .total = p->group->n, .members = hosts->members, .ordered = hosts->ordered,
                       .root = hosts->of[p->what.root],
                       .wide = (double)tri__dtype_sum_bytes(p->what.dtype) / (double)tri__dtype_bytes(p->what.dtype)};
    return tri__by_host(&shape, p->what.kind);
}

/* ---- Chunks ---- */

static int gathers(const tri_pending *p) { return p->what.kind == TRI_ALL_GATHER || p->what.kind == TRI_BROADCAST; }
/* Whether every member gets every result. */
static int for_all(const tri_pending *p) { return gathers(p) || p->what.kind == TRI_ALL_REDUCE; }
static int in_shards(const tri_pending *p) {
    return p->what.kind == TRI_ALL_GATHER || p->what.kind == TRI_REDUCE_SCATTER;
}

static int64_t size_of(const tri_pending *p) { return (int64_t)tri__dtype_bytes(p->what.dtype); }
static int64_t partial_of(const tri_pending *p) { return (int64_t)tri__dtype_sum_bytes(p->what.dtype); }

/* Elements of a chunk, at most. */
static int64_t chunk_most(const tri_pending *p, const tri_relay_hosts *hosts) {
    tri_buffer_extent whole = in_shards(p) ? TRI_EXTENT_ALL : TRI_EXTENT_COUNT;
    int64_t all = tri__extent(whole, p->group->n, p->what.count, p->shard, 0) * size_of(p);
    int64_t bytes = all / hosts->lanes / CHUNKS, limit = TRI_REMOTE_PIECE / partial_of(p);
    bytes = bytes < LEAST_CHUNK ? LEAST_CHUNK : bytes > MOST_CHUNK ? MOST_CHUNK : bytes & -64;
    return bytes / size_of(p) < limit ? bytes / size_of(p) : limit;
}

/* The chunks of a lane, into `out` if it is not NULL; returns how many. Every shard has a part in every lane. */
static int chunks_of(const tri_pending *p, const tri_relay_hosts *hosts, int lane, chunk *out) {
    int shards = in_shards(p) ? p->group->n : 1, n = 0;
    int64_t most = chunk_most(p, hosts);
    for (int k = 0; k < shards && lane >= 0; k++) {
        int64_t at = !in_shards(p) ? 0 : p->shard ? p->shard[k] : k * p->what.count,
                count = tri__extent(in_shards(p) ? TRI_EXTENT_SHARD : TRI_EXTENT_COUNT, p->group->n, p->what.count,
                                    p->shard, k),
                end = count * (lane + 1) / hosts->lanes;
        for (int64_t own = count * lane / hosts->lanes; own < end; own += most, n++)
            if (out)
                out[n] = (chunk){at + own, own, end - own < most ? end - own : most,
                                 in_shards(p) ? k : p->what.kind == TRI_ALL_REDUCE ? -1 : p->what.root};
    }
    return n;
}

static int lane_of(const tri_pending *p, const tri_relay_hosts *hosts) {
    for (int i = 0; i < hosts->lanes; i++)
        if (hosts->lane[hosts->me * hosts->lanes + i] == p->group->me) return i;
    return -1;
}

/* Which results come to this host, and which leave it. In a ring those of the host before come first. */
static void list_results(tri_relay *r, const tri_pending *p) {
    int me = r->hosts->me, n = r->hosts->n, last = n - 1;
    for (int back = 0; back < (gathers(p) ? n : 1); back++)
        for (int c = 0; c < r->n_chunks; c++) {
            int member = r->chunk[c].member, of = member < 0 ? -1 : r->hosts->of[member], in, out;
            if (gathers(p)) in = of == (me - back + n) % n && back, out = of == (me - back + n) % n && back < last;
            else if (member < 0) in = me < last, out = me > 0;
            else in = me < last && of == me, out = me == last && of != me;
            if (in) r->results_in.list[r->results_in.n++] = c;
            if (out) r->results_out.list[r->results_out.n++] = c;
        }
}

static int from_host(const tri_relay *r, const tri_pending *p) {
    int n = r->hosts->n, me = r->hosts->me;
    return gathers(p) ? (me + n - 1) % n : for_all(p) ? me + 1 : n - 1;
}
static int to_host(const tri_relay *r, const tri_pending *p, int c) {
    int n = r->hosts->n, me = r->hosts->me;
    return gathers(p) ? (me + 1) % n : for_all(p) ? me - 1 : r->hosts->of[r->chunk[c].member];
}

/* ---- Memory ---- */

/* Places in one block, each aligned; base NULL: only counted. */
typedef struct block {
    char *base;
    size_t used;
} block;

static void *place(block *b, size_t bytes) {
    void *at = b->base ? b->base + b->used : NULL;
    b->used += (bytes + 63) / 64 * 64;
    return at;
}

static tri_relay *lay_out(block *b, const tri_pending *p, const tri_relay_hosts *hosts) {
    tri_relay head = {.hosts = hosts, .lane = lane_of(p, hosts)}, *r = place(b, sizeof *r);
    size_t here = (size_t)hosts->n_here, n = (size_t)(head.n_chunks = chunks_of(p, hosts, head.lane, NULL));
    head.slot = (chunk_most(p, hosts) * (gathers(p) ? 0 : partial_of(p)) + 63) / 64 * 64;
    head.chunk = place(b, n * sizeof *head.chunk);
    head.ready = place(b, n);
    head.results_in.list = place(b, n * sizeof(int));
    head.results_out.list = place(b, n * sizeof(int));
    int used[3] = {hosts->me > 0, hosts->me < hosts->n - 1, !for_all(p)};
    for (int i = 0; i < 3; i++)
        head.room[i] = place(b, used[i] ? (n < IN_FLIGHT ? n : IN_FLIGHT) * (size_t)head.slot : 0);
    head.lend = place(b, (size_t)hosts->lanes * sizeof *head.lend);
    head.lent = place(b, here * sizeof *head.lent);
    head.theirs = place(b, here * sizeof *head.theirs);
    head.in = place(b, here * sizeof *head.in);
    head.out = place(b, here * sizeof *head.out);
    if (r) *r = head;
    return r;
}

size_t tri__relay_bytes(const tri_pending *p, const tri_relay_hosts *hosts) {
    block b = {0};
    lay_out(&b, p, hosts);
    return b.used;
}

static tri_message loan(const tri_pending *p, int peer, uint64_t *where, int receive) {
    return (tri_message){.peer = peer, .channel = LOANS, .number = p->what.sequence, .what = p->what, .data = where,
                         .bytes = 2 * sizeof *where, .receive = receive, .lent = receive,
                         .stage = peer == p->group->me ? 2 : 0};
}

tri_relay *tri__relay_open(void *memory, const tri_pending *p, const tri_relay_hosts *hosts, const int *to,
                           const int *from) {
    block b = {.base = memory};
    tri_relay *r = lay_out(&b, p, hosts);
    uintptr_t base = (uintptr_t)p->group->world->segment.base;
    r->to = to, r->from = from;
    r->own[IN] = p->in ? (uint64_t)((uintptr_t)p->in - base) : 0;
    r->own[OUT] = p->out ? (uint64_t)((uintptr_t)p->out - base) : 0;
    chunks_of(p, hosts, r->lane, r->chunk);
    memset(r->ready, 0, (size_t)r->n_chunks);
    list_results(r, p);
    if (!gathers(p)) {
        r->sums_in.n = hosts->me > 0 ? r->n_chunks : 0;
        r->sums_out.n = hosts->me < hosts->n - 1 ? r->n_chunks : 0;
    }
    for (int i = 0; i < hosts->lanes; i++)
        r->lend[i] = loan(p, hosts->lane[hosts->me * hosts->lanes + i], r->own, 0);
    for (int i = 0; i < hosts->n_here; i++) r->lent[i] = loan(p, hosts->here[i], r->theirs[i], 1);
    return r;
}

/* ---- Buffers of this host's members ---- */

/* A member's buffer at a chunk. */
static char *buffer(const tri_relay *r, const tri_pending *p, int i, int which, const chunk *c) {
    int own = which == IN ? p->what.kind == TRI_ALL_GATHER : p->what.kind == TRI_REDUCE_SCATTER;
    const uint64_t *where = r->hosts->here[i] == p->group->me ? r->own : r->theirs[i];
    return p->group->world->segment.base + where[which] + (own ? c->own : c->at) * size_of(p);
}

static int here(const tri_relay *r, int member) {
    int i = 0;
    while (r->hosts->here[i] != member) i++;
    return i;
}

/* Between processes buffers must be in bounds. */
static tri_status check_loan(const tri_relay *r, const tri_pending *p, int i) {
    const tri_segment *segment = &p->group->world->segment;
    const tri_kind_row *kind = tri__kind(p->what.kind);
    int member = r->hosts->here[i], root = member == p->what.root;
    for (int which = IN; which <= OUT; which++) {
        tri_buffer_extent extent = which == IN ? kind->in : kind->out;
        int only_root = which == IN ? kind->in_root : kind->out_root;
        int64_t n = only_root && !root ? 0 : tri__extent(extent, p->group->n, p->what.count, p->shard, member);
        if (!tri__segment_has(segment, segment->base + r->theirs[i][which], (size_t)(n * size_of(p))))
            return tri__fail(TRI_DISAGREE, "rank %d lends a buffer outside of the shared memory",
                             p->group->rank[member]);
    }
    return TRI_OK;
}

/* All members' buffers may be accessed until let_all. 0: one has taken them back, since a rank has failed. */
static int hold_all(tri_relay *r, const tri_pending *p) {
    for (int i = 0; i < r->hosts->n_here; i++) {
        if (r->hosts->here[i] == p->group->me || tri__pair_hold(&r->lent[i])) continue;
        while (i--)
            if (r->hosts->here[i] != p->group->me) tri__pair_let(&r->lent[i]);
        return 0;
    }
    return 1;
}

static void let_all(tri_relay *r, const tri_pending *p) {
    for (int i = 0; i < r->hosts->n_here; i++)
        if (r->hosts->here[i] != p->group->me) tri__pair_let(&r->lent[i]);
}

/* Copies a chunk of a result to all outputs of this host. */
static void spread(tri_relay *r, const tri_pending *p, const chunk *c, const char *from) {
    for (int i = 0; i < r->hosts->n_here; i++)
        if (buffer(r, p, i, OUT, c) != from) memcpy(buffer(r, p, i, OUT, c), from, (size_t)(c->count * size_of(p)));
}

static char *slot(const tri_relay *r, int room, int i) { return r->room[room] + i % IN_FLIGHT * r->slot; }

/* ---- Ways ---- */

static tri_status post(tri_relay *r, tri_pending *p, stream *s, int host, int receive, void *data, int64_t bytes) {
    int peer = r->hosts->lane[host * r->hosts->lanes + r->lane], moved;
    tri_message *message = &s->message[s->posted++ % IN_FLIGHT];
    *message = (tri_message){.peer = peer, .number = p->what.sequence, .what = p->what, .data = data, .bytes = bytes,
                             .receive = receive, .tag = receive ? r->from[peer] : r->to[peer], .agreed = 1};
    return tri__message_progress(p->group, message, &moved);
}

static int has_room(const stream *s) { return s->posted < s->n && s->posted - s->ended < IN_FLIGHT; }

static tri_status advance(tri_pending *p, stream *s, int *moved) {
    for (int i = s->ended; i < s->posted; i++)
        TRI_TRY(tri__message_progress(p->group, &s->message[i % IN_FLIGHT], moved));
    for (; s->ended < s->posted && s->message[s->ended % IN_FLIGHT].stage == 2; s->ended++) *moved = 1;
    return TRI_OK;
}

static tri_status post_receives(tri_relay *r, tri_pending *p) {
    stream *s = &r->sums_in;
    while (s->posted < s->n && s->posted - r->computed < IN_FLIGHT)
        TRI_TRY(post(r, p, s, r->hosts->me - 1, 1, slot(r, 0, s->posted),
                     r->chunk[s->posted].count * partial_of(p)));
    s = &r->results_in;
    while (s->posted < s->n && s->posted - r->delivered < IN_FLIGHT) {
        const chunk *c = &r->chunk[s->list[s->posted]];
        char *to = for_all(p) ? buffer(r, p, here(r, p->group->me), OUT, c) : slot(r, 2, s->posted);
        TRI_TRY(post(r, p, s, from_host(r, p), 1, to, c->count * size_of(p)));
    }
    return TRI_OK;
}

/* The members' inputs, added to what the hosts before have sent; or a chunk of a gather, to all members. 0: held up. */
static int compute(tri_relay *r, tri_pending *p, int number) {
    const chunk *c = &r->chunk[number];
    int n = r->hosts->n_here, last = r->hosts->me == r->hosts->n - 1, n_out = 1;
    int far = !for_all(p) && r->hosts->of[c->member] != r->hosts->me;
    if (!hold_all(r, p)) return 0;
    for (int i = 0; i < n; i++) r->in[i] = buffer(r, p, i, IN, c), r->out[i] = buffer(r, p, i, OUT, c);
    if (gathers(p)) {
        spread(r, p, c, r->in[here(r, c->member)]);
    } else {
        if (!last) r->out[0] = slot(r, 1, number);
        else if (for_all(p)) n_out = n;
        else r->out[0] = far ? slot(r, 2, r->results_out.posted) : r->out[here(r, c->member)];
        tri__reduce_onto(p->what.dtype, p->what.reduction, r->sums_in.n ? slot(r, 0, number) : NULL, n, r->in,
                         last ? p->group->n : 0, n_out, r->out, c->count);
    }
    let_all(r, p);
    r->ready[number] = gathers(p) || last;
    return 1;
}

/* Chunks that have no sum still to come, and room for their own. */
static tri_status compute_all(tri_relay *r, tri_pending *p, int *moved) {
    int me = r->hosts->me, last = me == r->hosts->n - 1;
    for (int number; (number = r->computed) < r->n_chunks; r->computed++) {
        const chunk *c = &r->chunk[number];
        int passes = last && !for_all(p) && r->hosts->of[c->member] != me; /* it is sent at once, from its slot */
        if (gathers(p) && r->hosts->of[c->member] != me) continue;
        if (r->sums_in.n && r->sums_in.ended <= number) return TRI_OK;
        if ((r->sums_out.n && !has_room(&r->sums_out)) || (passes && !has_room(&r->results_out))) return TRI_OK;
        if (!compute(r, p, number)) return TRI_OK;
        *moved = 1;
        if (r->sums_out.n)
            TRI_TRY(post(r, p, &r->sums_out, me + 1, 0, slot(r, 1, number), c->count * partial_of(p)));
        if (passes)
            TRI_TRY(post(r, p, &r->results_out, to_host(r, p, number), 0, slot(r, 2, r->results_out.posted),
                         c->count * size_of(p)));
    }
    return TRI_OK;
}

/* Results from other hosts, to the members of this one. */
static void deliver(tri_relay *r, tri_pending *p, int *moved) {
    for (const stream *s = &r->results_in; r->delivered < s->ended && hold_all(r, p); r->delivered++, let_all(r, p)) {
        const chunk *c = &r->chunk[s->list[r->delivered]];
        if (for_all(p)) spread(r, p, c, buffer(r, p, here(r, p->group->me), OUT, c));
        else
            memcpy(buffer(r, p, here(r, c->member), OUT, c), slot(r, 2, r->delivered),
                   (size_t)(c->count * size_of(p)));
        r->ready[s->list[r->delivered]] = 1;
        *moved = 1;
    }
}

/* Results in this rank's output, on to the next host. */
static tri_status pass_on(tri_relay *r, tri_pending *p, int *moved) {
    stream *s = &r->results_out;
    while (for_all(p) && has_room(s) && r->ready[s->list[s->posted]]) {
        int number = s->list[s->posted];
        const chunk *c = &r->chunk[number];
        TRI_TRY(post(r, p, s, to_host(r, p, number), 0, buffer(r, p, here(r, p->group->me), OUT, c),
                     c->count * size_of(p)));
        *moved = 1;
    }
    return TRI_OK;
}

static int ended(const stream *s) { return s->ended == s->n; }

static tri_status carry(tri_relay *r, tri_pending *p, int *moved) {
    stream *const all[] = {&r->sums_in, &r->results_in, &r->sums_out, &r->results_out};
    for (int i = 0; i < 4; i++) TRI_TRY(advance(p, all[i], moved));
    TRI_TRY(compute_all(r, p, moved));
    deliver(r, p, moved);
    TRI_TRY(pass_on(r, p, moved));
    TRI_TRY(post_receives(r, p));
    if (r->computed < r->n_chunks || r->delivered < r->results_in.n) return TRI_OK;
    for (int i = 0; i < 4; i++)
        if (!ended(all[i])) return TRI_OK;
    for (int i = 0; i < r->hosts->n_here; i++)
        if (r->hosts->here[i] != p->group->me) tri__pair_return(p->group, &r->lent[i]);
    r->returned = *moved = 1;
    return TRI_OK;
}

tri_status tri__relay_progress(tri_relay *r, tri_pending *p, int *moved, int *done) {
    int left = 0;
    for (int i = 0; i < r->hosts->lanes; i++) {
        if (r->lend[i].stage != 2) TRI_TRY(tri__message_progress(p->group, &r->lend[i], moved));
        left += r->lend[i].stage != 2;
    }
    if (r->lane >= 0 && !r->returned) {
        int missing = 0;
        for (int i = 0; i < r->hosts->n_here; i++) {
            if (r->lent[i].stage == 2) continue;
            TRI_TRY(tri__message_progress(p->group, &r->lent[i], moved));
            if (r->lent[i].stage == 2) TRI_TRY(check_loan(r, p, i));
            else missing++;
        }
        if (!missing) TRI_TRY(carry(r, p, moved));
        left += !r->returned;
    }
    *done = !left;
    return TRI_OK;
}

void tri__relay_cancel(tri_relay *r, tri_group *group) {
    for (int i = 0; i < r->hosts->lanes; i++)
        if (r->lend[i].stage == 1) tri__message_cancel(group, &r->lend[i]);
}
