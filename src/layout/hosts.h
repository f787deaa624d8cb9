/* hosts.h - how many bytes of a collective cross the network cards of the hosts that its members are on, and which way
 * is taken (comm/ops): the transport and the simulator ask the same function.
 *
 *   member by member   each member sends every other the part that it needs (comm/link/exchange.c)
 *   host by host       bytes reach a host once, and its members share memory (comm/link/relay.c). A sum goes from host
 *                      to host: each adds its members' inputs to the sum of those before, and the last has the result.
 *                      Members are added in the group's order only where those of a host follow one another in it */
#pragma once

#include "trident_comm.h"

typedef struct tri_hosts {
    int n, total;       /* hosts; members of the group */
    const int *members; /* [n] of each, hosts in the order of their first members; NULL: all have as many */
    int ordered;        /* 1: the members of each host follow one another in the group's order */
    int root;           /* host of the root, where the kind has one */
    double wide;        /* bytes of a partial sum, over those of an element: above 1 for floats of 16 and 8 bits */
} tri_hosts;

/* Through one host's card, over the bytes of the whole vector. */
typedef struct tri_host_bytes {
    double out, in;
} tri_host_bytes;

tri_host_bytes tri__host_card(const tri_hosts *hosts, tri_collective_kind kind, int by_host, int host);
/* Whether the way is host by host: where the busiest card then carries no more, and all together less. */
int tri__by_host(const tri_hosts *hosts, tri_collective_kind kind);
