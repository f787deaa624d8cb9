/* hosts.c - the bytes of both ways, counted. */
#include "layout/hosts.h"

static double members_of(const tri_hosts *hosts, int host) {
    return hosts->members ? hosts->members[host] : (double)hosts->total / hosts->n;
}

/* Parts of 1/n: to each member the part that it needs; large vectors of all_reduce, reduce and broadcast in slices, of
 * which each member has one in between. */
static tri_host_bytes by_member(const tri_hosts *hosts, tri_collective_kind kind, int host) {
    double n = hosts->total, here = members_of(hosts, host), away = n - here, root = host == hosts->root;
    double all = here * away / n;
    switch (kind) {
    case TRI_ALL_REDUCE: return (tri_host_bytes){2 * all, 2 * all};
    case TRI_ALL_GATHER:
    case TRI_ALL_TO_ALL:
    case TRI_REDUCE_SCATTER: return (tri_host_bytes){all, all};
    case TRI_REDUCE: return (tri_host_bytes){all + !root * here / n, all + root * away / n};
    case TRI_BROADCAST:
        return (tri_host_bytes){(root * away + here * (away - !root)) / n, (!root * here + away * (here - root)) / n};
    case TRI_GATHER: return (tri_host_bytes){!root * here / n, root * away / n};
    default: return (tri_host_bytes){root * away / n, !root * here / n}; /* scatter */
    }
}

static tri_host_bytes by_host(const tri_hosts *hosts, tri_collective_kind kind, int host) {
    int last = hosts->n - 1, next = (host + 1) % hosts->n;
    double n = hosts->total, here = members_of(hosts, host) / n;
    tri_host_bytes sums = {host < last ? hosts->wide : 0, host > 0 ? hosts->wide : 0};
    switch (kind) {
    case TRI_ALL_REDUCE: return (tri_host_bytes){sums.out + (host > 0), sums.in + (host < last)};
    case TRI_REDUCE_SCATTER:
        return host < last ? (tri_host_bytes){sums.out, sums.in + here} : (tri_host_bytes){1 - here, sums.in};
    case TRI_REDUCE:
        if (host == last) return (tri_host_bytes){hosts->root != last, sums.in};
        return (tri_host_bytes){sums.out, sums.in + (host == hosts->root)};
    case TRI_ALL_GATHER: return (tri_host_bytes){1 - members_of(hosts, next) / n, 1 - here};
    default: return (tri_host_bytes){next != hosts->root, host != hosts->root}; /* broadcast */
    }
}

tri_host_bytes tri__host_card(const tri_hosts *hosts, tri_collective_kind kind, int way, int host) {
    return way ? by_host(hosts, kind, host) : by_member(hosts, kind, host);
}

static double larger(double a, double b) { return a > b ? a : b; }

int tri__by_host(const tri_hosts *hosts, tri_collective_kind kind) {
    const double rounding = 1e-9;
    double most[2] = {0}, all[2] = {0};
    int reduces = kind == TRI_ALL_REDUCE || kind == TRI_REDUCE || kind == TRI_REDUCE_SCATTER;
    if (hosts->n < 2 || (reduces ? !hosts->ordered : kind != TRI_ALL_GATHER && kind != TRI_BROADCAST)) return 0;
    for (int way = 0; way < 2; way++)
        for (int h = 0; h < hosts->n; h++) {
            tri_host_bytes card = tri__host_card(hosts, kind, way, h);
            most[way] = larger(most[way], larger(card.out, card.in));
            all[way] += card.out;
        }
    return most[1] <= most[0] + rounding && all[1] < all[0] - rounding;
}
