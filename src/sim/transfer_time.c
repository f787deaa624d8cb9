/* transfer_time.c - seconds of transfers: measured curves where the hardware has them, else rings and trees over the
 * links of a group.
 *
 * How ranks on CPUs move data (src/comm): posting only announces. Of a large collective inside a node the work is a
 * list of tasks; any member that is inside a wait, whatever it waits for, does tasks of what all members have posted. A
 * small one (its inputs travel with the announcements) is computed by each member for itself. A message is copied by
 * its receiver. Between nodes MPI moves data only while it is called: in waits, and once an instruction for what has
 * begun in one. */
#include "sim/transfer_time.h"

enum {
    SMALL = 4096,        /* TRI_INLINE and TRI_INLINE_ALL of comm/shm/cells.h, which this layer cannot include: bytes */
    SMALL_IN_ALL = 32768 /* of one member's input, and of all, that travel with the announcement */
};

static int nodes_of(const tri_hardware *h, const int *members, int n, tri_spread *s) {
    int here = 0, island = h->islands.ranks > 0 ? h->islands.ranks : h->ranks_per_node, islands = 1;
    s->nodes = s->most = 0, s->fewest = n, s->islands = 1;
    for (int i = 0; i < n; i++) {
        here++;
        if (i + 1 < n && members[i + 1] / h->ranks_per_node == members[i] / h->ranks_per_node) {
            islands += members[i + 1] / island != members[i] / island;
            continue;
        }
        if (islands > s->islands) s->islands = islands;
        islands = 1;
        if (here < s->fewest) s->fewest = here;
        if (here > s->most) s->most = here;
        if (s->nodes < TRI_COUNTED_NODES) s->each[s->nodes] = here;
        s->nodes++;
        here = 0;
    }
    return s->nodes;
}

/* As the transport sees them (comm/link/relay.c): ranks of a node follow one another in every group of a mesh. */
static tri_hosts hosts_of(const tri_spread *s, int n, double wide) {
    int uneven = s->fewest != s->most;
    return (tri_hosts){.n = s->nodes, .total = uneven && s->nodes <= TRI_COUNTED_NODES ? n : s->nodes * s->most,
                       .members = uneven && s->nodes <= TRI_COUNTED_NODES ? s->each : NULL, .ordered = 1, .wide = wide};
}

/* Whether an all_reduce's inputs travel whole, with the descriptors. */
static int is_small(tri_collective_kind kind, int n, double bytes) {
    return kind == TRI_ALL_REDUCE && bytes <= SMALL && bytes * n <= SMALL_IN_ALL;
}

/* ---- Formulas ---- */

double tri__node_bytes(const tri_hardware *h) {
    if (h->node_bytes > 0) return h->node_bytes;
    return h->overlap ? h->far.bytes * h->ranks_per_node : h->far.bytes;
}

/* The link that limits a group: inside a node `near`, or that between its islands. Between nodes: the `far` links of as
 * many members as the node with the fewest has, at most the rate inside the node and of the node. */
static tri_wire link_of(const tri_hardware *h, const tri_spread *s) {
    tri_wire inside = s->islands > 1 ? (tri_wire){h->islands.latency, h->islands.bytes} : h->near;
    if (s->nodes == 1) return inside;
    return (tri_wire){h->far.latency, fmin(tri__node_bytes(h), fmin(inside.bytes, h->far.bytes * s->fewest))};
}

/* Of a group that is on several nodes, whose `spread` is filled in. */
static void fill_in(tri_cards *c, const tri_hardware *h, tri_collective_kind kind, int n, double bytes, double wide) {
    c->kind = kind, c->n = n, c->bytes = bytes, c->overlap = h->overlap, c->small = is_small(kind, n, bytes);
    c->hosts = hosts_of(&c->spread, n, wide);
    c->by_host = !h->overlap && kind != TRI_SEND && tri__by_host(&c->hosts, kind);
}

/* Devices send rings' steps from node to node: all nodes the same. Ranks on CPUs as layout/hosts.h counts; a small
 * input whole, to each member of other nodes. */
void tri__cards_of(const tri_cards *c, int place, double crossing[2]) {
    const tri_spread *s = &c->spread;
    double ring = (double)(s->nodes - 1) / s->nodes, whole = c->kind == TRI_BROADCAST ? 1 : ring;
    int here = s->fewest != s->most && place < TRI_COUNTED_NODES ? s->each[place] : s->most;
    tri_host_bytes card = {whole, whole};
    if (c->kind == TRI_SEND) card = (tri_host_bytes){place == 0, place != 0};
    else if (!c->overlap && c->small) card.out = card.in = here * (c->n - here);
    else if (!c->overlap) card = tri__host_card(&c->hosts, c->kind, c->by_host, place);
    else if (c->kind == TRI_ALL_REDUCE) card.out = card.in = 2 * ring;
    crossing[0] = card.in * c->bytes, crossing[1] = card.out * c->bytes;
}

/* Collectives as links; the others are messages. */
static const tri_link_kind link_of_kind[TRI_COLLECTIVE_COUNT] = {
    [TRI_ALL_REDUCE] = TRI_LINK_ALL_REDUCE,         [TRI_ALL_GATHER] = TRI_LINK_ALL_GATHER,
    [TRI_REDUCE_SCATTER] = TRI_LINK_REDUCE_SCATTER, [TRI_ALL_TO_ALL] = TRI_LINK_ALL_TO_ALL,
    [TRI_BROADCAST] = TRI_LINK_BROADCAST,           [TRI_SEND] = TRI_LINK_SEND};

/* A control record is an all_reduce. */
static tri_collective_kind kind_of(tri_link_kind link) {
    for (int kind = TRI_BROADCAST; kind < TRI_COLLECTIVE_COUNT; kind++)
        if (link_of_kind[kind] == link) return (tri_collective_kind)kind;
    return TRI_ALL_REDUCE;
}

/* Ranks on CPUs, between nodes: the bytes of the busiest card, and a latency for the descriptors and for each step. */
static double by_cards(const tri_hardware *h, tri_link_kind link, int n, const tri_spread *s, double bytes) {
    tri_collective_kind kind = kind_of(link);
    tri_wire wire = link_of(h, s);
    tri_cards cards;
    cards.spread = *s;
    fill_in(&cards, h, kind, n, bytes, 1);
    int back = kind == TRI_ALL_REDUCE, two = back || kind == TRI_BROADCAST;
    double most = 0, crossing[2], steps = cards.small ? 0 : 1 + two;
    if (!cards.small && cards.by_host) steps = (1 + back) * (s->nodes - 1) + (kind == TRI_REDUCE_SCATTER);
    for (int place = 0; place < s->nodes; place++) {
        tri__cards_of(&cards, place, crossing);
        most = fmax(most, fmax(crossing[0], crossing[1]));
    }
    return (1 + steps) * wire.latency + most / wire.bytes;
}

static double formula(const tri_hardware *h, tri_link_kind kind, int n, const tri_spread *s, double bytes) {
    if (s->nodes > 1 && !h->overlap && kind != TRI_LINK_SEND) return by_cards(h, kind, n, s, bytes);
    tri_wire link = link_of(h, s);
    double steps = n - 1, levels = ceil(log2(n)), ring = steps * (link.latency + bytes / n / link.bytes);
    switch (kind) {
    case TRI_LINK_CONTROL:
    case TRI_LINK_ALL_REDUCE: return fmin(2 * ring, 2 * levels * (link.latency + bytes / link.bytes));
    case TRI_LINK_ALL_GATHER:
    case TRI_LINK_ALL_TO_ALL: /* n-1 messages of bytes/n to others: the bytes of a ring */
    case TRI_LINK_REDUCE_SCATTER: return ring;
    case TRI_LINK_BROADCAST: return levels * link.latency + bytes / link.bytes;
    default: return link.latency + bytes / link.bytes;
    }
}

/* How time grows with the number of members. Of ranks that share memory and do the work themselves: the bytes that are
 * read and written, over the cores that do it. */
static double growth(const tri_hardware *h, tri_link_kind kind, int n, const tri_spread *s, double bytes) {
    if (s->nodes > 1 || h->overlap) return formula(h, kind, n, s, bytes);
    double moved[TRI_LINK_KINDS] = {[TRI_LINK_SEND] = 2,           [TRI_LINK_BROADCAST] = n,
                                    [TRI_LINK_ALL_REDUCE] = 2 * n, [TRI_LINK_CONTROL] = 2 * n,
                                    [TRI_LINK_ALL_GATHER] = 2 * n, [TRI_LINK_REDUCE_SCATTER] = n + 1,
                                    [TRI_LINK_ALL_TO_ALL] = 2 * n};
    double workers = kind == TRI_LINK_SEND ? 1 : h->cores > 0 && h->cores < n ? h->cores : n;
    tri_wire link = link_of(h, s);
    return ceil(log2(n)) * link.latency + moved[kind] * bytes / (workers * link.bytes);
}

/* ---- Curves ---- */

/* Between two points at the rate between them; beyond the last one at the rate of all bytes after the first. */
static double along(const tri_link_curve *curve, double bytes) {
    const tri_link_point *p = curve->point;
    int last = curve->n - 1, i = 1;
    if (bytes <= p[0].bytes) return p[0].seconds;
    if (!last) return p[0].seconds * bytes / p[0].bytes;
    if (bytes >= p[last].bytes)
        return p[0].seconds + (p[last].seconds - p[0].seconds) * (bytes - p[0].bytes) / (p[last].bytes - p[0].bytes);
    while (p[i].bytes < bytes) i++;
    return p[i - 1].seconds +
           (p[i].seconds - p[i - 1].seconds) * (bytes - p[i - 1].bytes) / (p[i].bytes - p[i - 1].bytes);
}

/* A curve's distance from a group: nodes count before ranks. */
static double distance(const tri_link_curve *curve, int n, const tri_spread *s) {
    return 1e3 * fabs(log((double)curve->nodes / s->nodes)) + fabs(log((double)curve->ranks / n));
}

/* The curve of the nearest number of nodes, and then of ranks: at least n (side 1) or at most n (side -1). NULL: none.
 * Curves inside a node say nothing of those between nodes, and the other way round. */
static const tri_link_curve *nearest(const tri_hardware *h, tri_link_kind kind, int n, const tri_spread *s, int side) {
    const tri_link_curve *best = NULL;
    for (int i = 0; i < h->n_links; i++) {
        const tri_link_curve *c = &h->link[i];
        if (c->kind != kind || c->n < 1 || (c->nodes > 1) != (s->nodes > 1) || side * (c->ranks - n) < 0) continue;
        if (!best || distance(c, n, s) < distance(best, n, s)) best = c;
    }
    return best;
}

/* The curve's time for a group of another size: its latency, which is the time of the smallest size, and the rest grow
 * as the formulas say of no bytes and of very many. So more bytes never take less time. */
static double carried_over(const tri_hardware *h, const tri_link_curve *c, int n, const tri_spread *s, double bytes) {
    const double many = 1e18;
    int each = c->ranks / c->nodes > 1 ? c->ranks / c->nodes : 1;
    tri_spread measured;
    measured.nodes = c->nodes, measured.fewest = measured.most = each;
    measured.islands = h->islands.ranks > 0 ? (each + h->islands.ranks - 1) / h->islands.ranks : 1;
    double latency = c->point[0].seconds,
           slope = growth(h, c->kind, n, s, many) / growth(h, c->kind, c->ranks, &measured, many);
    double start = growth(h, c->kind, c->ranks, &measured, 0);
    return latency * (start > 0 ? growth(h, c->kind, n, s, 0) / start : slope) + (along(c, bytes) - latency) * slope;
}

static double seconds_of(const tri_hardware *h, tri_link_kind kind, const int *members, int n, double bytes) {
    if (n < 2) return 0;
    tri_spread s;
    nodes_of(h, members, n, &s);
    const tri_link_curve *above = nearest(h, kind, n, &s, 1), *below = nearest(h, kind, n, &s, -1);
    if (!above && !below) return formula(h, kind, n, &s, bytes);
    if (above && below && above->nodes != below->nodes)
        *(distance(above, n, &s) <= distance(below, n, &s) ? &below : &above) = NULL;
    if (!above || !below || above == below) return carried_over(h, above ? above : below, n, &s, bytes);
    double part = log((double)n / below->ranks) / log((double)above->ranks / below->ranks);
    return exp((1 - part) * log(carried_over(h, below, n, &s, bytes)) +
               part * log(carried_over(h, above, n, &s, bytes)));
}

/* A kind, or if the hardware has no curves of it, one that moves as many bytes. */
static tri_link_kind known(const tri_hardware *h, tri_link_kind kind, tri_link_kind otherwise) {
    for (int i = 0; i < h->n_links; i++)
        if (h->link[i].kind == kind) return kind;
    return otherwise;
}

double tri__transfer_seconds(const tri_hardware *h, tri_collective_kind kind, const int *members, int n, double bytes) {
    tri_link_kind link = link_of_kind[kind];
    if (link == TRI_LINK_ALL_TO_ALL) link = known(h, link, TRI_LINK_ALL_GATHER);
    return seconds_of(h, link, members, n, bytes);
}

double tri__control_seconds(const tri_hardware *h, const int *members, int n, double bytes) {
    return seconds_of(h, known(h, TRI_LINK_CONTROL, TRI_LINK_ALL_REDUCE), members, n, bytes);
}

/* ---- How they proceed ---- */

/* Bytes of one member's input. */
static double input_of(tri_collective_kind kind, int n, double bytes) {
    return kind == TRI_ALL_GATHER ? bytes / n : bytes;
}

tri_transfer_way tri__transfer_way(const tri_hardware *h, tri_collective_kind kind, const int *members, int n,
                                   double bytes) {
    if (h->overlap) return TRI_WAY_LINK;
    tri_spread s;
    if (nodes_of(h, members, n, &s) > 1) return TRI_WAY_FAR;
    if (kind == TRI_SEND || kind == TRI_RECV) return TRI_WAY_RECEIVER;
    double input = input_of(kind, n, bytes);
    return input <= SMALL && input * n <= SMALL_IN_ALL ? TRI_WAY_EACH : TRI_WAY_SHARED;
}

double tri__transfer_work(const tri_hardware *h, tri_collective_kind kind, const int *members, int n, double bytes) {
    int workers = h->cores > 0 && h->cores < n ? h->cores : n; /* as many as worked when it was measured */
    return workers * tri__transfer_seconds(h, kind, members, n, bytes);
}

void tri__cards_open(tri_cards *c, const tri_hardware *h, tri_collective_kind kind, const int *members, int n,
                     double bytes, double wide) {
    if (nodes_of(h, members, n, &c->spread) > 1) fill_in(c, h, kind, n, bytes, wide);
}
