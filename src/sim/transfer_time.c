/* transfer_time.c - seconds of transfers: rings and trees over the links of a group. */
#include "sim/cost.h"

#include <math.h>

/* The link that limits a group: `near` inside a node. Between nodes: the `far` links of as many members as the node
 * with the fewest has, at most the rate of `near`. */
static tri_wire link_of(const tri_hardware *h, const int *members, int n) {
    int fewest = n, here = 0;
    for (int i = 0; i < n; i++) {
        here++;
        if (i + 1 < n && members[i + 1] / h->ranks_per_node == members[i] / h->ranks_per_node) continue;
        if (here < fewest) fewest = here;
        here = 0;
    }
    if (fewest == n) return h->near;
    return (tri_wire){h->far.latency, fmin(h->near.bytes, h->far.bytes * fewest)};
}

double tri__transfer_seconds(const tri_hardware *h, tri_collective_kind kind, const int *members, int n, double bytes) {
    if (n < 2) return 0;
    tri_wire link = link_of(h, members, n);
    double steps = n - 1, levels = ceil(log2(n)), ring = steps * (link.latency + bytes / n / link.bytes);
    switch (kind) {
    case TRI_ALL_REDUCE: return fmin(2 * ring, 2 * levels * (link.latency + bytes / link.bytes));
    case TRI_ALL_GATHER:
    case TRI_REDUCE_SCATTER: return ring;
    case TRI_BROADCAST: return levels * link.latency + bytes / link.bytes;
    default: return link.latency + bytes / link.bytes;
    }
}
