/* transfer_time.c - seconds of transfers: measured curves where the hardware has them, else rings and trees over the
 * links of a group.
 *
 * How ranks on CPUs move data (src/comm): posting only announces. Of a large collective inside a node the work is a
 * list of tasks; any member that is inside a wait, whatever it waits for, does tasks of what all members have posted. A
 * small one (its inputs travel with the announcements) is computed by each member for itself. A message is copied by
 * its receiver. Between nodes MPI moves data only while it is called: in waits, and once an instruction for what has
 * begun in one. */
#include "sim/transfer_time.h"

#include <math.h>

enum {
    SMALL = 4096,        /* TRI_INLINE and TRI_INLINE_ALL of comm/shm/cells.h, which this layer cannot include: bytes */
    SMALL_IN_ALL = 32768 /* of one member's input, and of all, that travel with the announcement */
};

/* Where the members of a group are. */
typedef struct spread_out {
    int nodes;
    int fewest, most; /* members on one node */
} spread_out;

static spread_out spread_of(const tri_hardware *h, const int *members, int n) {
    spread_out s = {.fewest = n};
    int here = 0;
    for (int i = 0; i < n; i++) {
        here++;
        if (i + 1 < n && members[i + 1] / h->ranks_per_node == members[i] / h->ranks_per_node) continue;
        if (here < s.fewest) s.fewest = here;
        if (here > s.most) s.most = here;
        s.nodes++;
        here = 0;
    }
    return s;
}

/* ---- Formulas ---- */

/* The link that limits a group: `near` inside a node. Between nodes: the `far` links of as many members as the node
 * with the fewest has, at most the rate of `near` and of the node. */
static tri_wire link_of(const tri_hardware *h, const spread_out *s) {
    if (s->nodes == 1) return h->near;
    double bytes = fmin(h->near.bytes, h->far.bytes * s->fewest);
    return (tri_wire){h->far.latency, h->node_bytes > 0 ? fmin(bytes, h->node_bytes) : bytes};
}

static double formula(const tri_hardware *h, tri_link_kind kind, int n, const spread_out *s, double bytes) {
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
static double growth(const tri_hardware *h, tri_link_kind kind, int n, const spread_out *s, double bytes) {
    if (s->nodes > 1 || h->overlap) return formula(h, kind, n, s, bytes);
    double moved[TRI_LINK_KINDS] = {[TRI_LINK_SEND] = 2,           [TRI_LINK_BROADCAST] = n,
                                    [TRI_LINK_ALL_REDUCE] = 2 * n, [TRI_LINK_CONTROL] = 2 * n,
                                    [TRI_LINK_ALL_GATHER] = 2 * n, [TRI_LINK_REDUCE_SCATTER] = n + 1,
                                    [TRI_LINK_ALL_TO_ALL] = 2 * n};
    double workers = kind == TRI_LINK_SEND ? 1 : h->cores > 0 && h->cores < n ? h->cores : n;
    return ceil(log2(n)) * h->near.latency + moved[kind] * bytes / (workers * h->near.bytes);
}

/* ---- Curves ---- */

static double along(const tri_link_curve *curve, double bytes) {
    const tri_link_point *p = curve->point;
    int last = curve->n - 1, i = 1;
    if (bytes <= p[0].bytes) return p[0].seconds;
    if (bytes >= p[last].bytes) return p[last].seconds * bytes / p[last].bytes;
    while (p[i].bytes < bytes) i++;
    double part = log(bytes / p[i - 1].bytes) / log(p[i].bytes / p[i - 1].bytes);
    return p[i - 1].seconds * pow(p[i].seconds / p[i - 1].seconds, part);
}

/* A curve's distance from a group: nodes count before ranks. */
static double distance(const tri_link_curve *curve, int n, const spread_out *s) {
    return 1e3 * fabs(log((double)curve->nodes / s->nodes)) + fabs(log((double)curve->ranks / n));
}

/* The curve of the nearest number of nodes, and then of ranks: at least n (side 1) or at most n (side -1). NULL: none.
 * Curves inside a node say nothing of those between nodes, and the other way round. */
static const tri_link_curve *nearest(const tri_hardware *h, tri_link_kind kind, int n, const spread_out *s, int side) {
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
static double carried_over(const tri_hardware *h, const tri_link_curve *c, int n, const spread_out *s, double bytes) {
    const double many = 1e18;
    int each = c->ranks / c->nodes > 1 ? c->ranks / c->nodes : 1;
    spread_out measured = {.nodes = c->nodes, .fewest = each, .most = each};
    double latency = c->point[0].seconds,
           slope = growth(h, c->kind, n, s, many) / growth(h, c->kind, c->ranks, &measured, many);
    double start = growth(h, c->kind, c->ranks, &measured, 0);
    return latency * (start > 0 ? growth(h, c->kind, n, s, 0) / start : slope) + (along(c, bytes) - latency) * slope;
}

static double seconds_of(const tri_hardware *h, tri_link_kind kind, const int *members, int n, double bytes) {
    if (n < 2) return 0;
    spread_out s = spread_of(h, members, n);
    const tri_link_curve *above = nearest(h, kind, n, &s, 1), *below = nearest(h, kind, n, &s, -1);
    if (!above && !below) return formula(h, kind, n, &s, bytes);
    if (above && below && above->nodes != below->nodes)
        *(distance(above, n, &s) <= distance(below, n, &s) ? &below : &above) = NULL;
    if (!above || !below || above == below) return carried_over(h, above ? above : below, n, &s, bytes);
    double part = log((double)n / below->ranks) / log((double)above->ranks / below->ranks);
    return exp((1 - part) * log(carried_over(h, below, n, &s, bytes)) +
               part * log(carried_over(h, above, n, &s, bytes)));
}

static tri_link_kind link_kind(tri_collective_kind kind) {
    switch (kind) {
    case TRI_ALL_REDUCE: return TRI_LINK_ALL_REDUCE;
    case TRI_ALL_GATHER: return TRI_LINK_ALL_GATHER;
    case TRI_REDUCE_SCATTER: return TRI_LINK_REDUCE_SCATTER;
    case TRI_ALL_TO_ALL: return TRI_LINK_ALL_TO_ALL;
    case TRI_BROADCAST: return TRI_LINK_BROADCAST;
    default: return TRI_LINK_SEND;
    }
}

/* A kind, or if the hardware has no curves of it, one that moves as many bytes. */
static tri_link_kind known(const tri_hardware *h, tri_link_kind kind, tri_link_kind otherwise) {
    for (int i = 0; i < h->n_links; i++)
        if (h->link[i].kind == kind) return kind;
    return otherwise;
}

double tri__transfer_seconds(const tri_hardware *h, tri_collective_kind kind, const int *members, int n, double bytes) {
    tri_link_kind link = link_kind(kind);
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
    if (spread_of(h, members, n).nodes > 1) return TRI_WAY_FAR;
    if (kind == TRI_SEND || kind == TRI_RECV) return TRI_WAY_RECEIVER;
    double input = input_of(kind, n, bytes);
    return input <= SMALL && input * n <= SMALL_IN_ALL ? TRI_WAY_EACH : TRI_WAY_SHARED;
}

double tri__transfer_work(const tri_hardware *h, tri_collective_kind kind, const int *members, int n, double bytes) {
    int workers = h->cores > 0 && h->cores < n ? h->cores : n; /* as many as worked when it was measured */
    return workers * tri__transfer_seconds(h, kind, members, n, bytes);
}

/* Devices send rings' steps from node to node. Ranks on CPUs send each member the part that it needs
 * (comm/ops/exchange.c): a node with m of n members sends m(n - m) parts of bytes/n. */
double tri__transfer_crossing(const tri_hardware *h, tri_collective_kind kind, const int *members, int n,
                              double bytes) {
    if (n < 2) return 0;
    spread_out s = spread_of(h, members, n);
    if (s.nodes == 1) return 0;
    double away = fmax(s.most * (double)(n - s.most), s.fewest * (double)(n - s.fewest));
    double parts = h->overlap ? bytes * (s.nodes - 1) / s.nodes : away * bytes / n;
    switch (kind) {
    case TRI_ALL_REDUCE: return 2 * parts;
    case TRI_ALL_GATHER:
    case TRI_ALL_TO_ALL:
    case TRI_REDUCE_SCATTER: return parts;
    case TRI_BROADCAST: return h->overlap ? bytes : parts + (n - s.fewest) * bytes / n;
    default: return bytes;
    }
}
