/* relay.h - large collectives of groups with several members on a host, host by host (layout/hosts.h): bytes cross a
 * host's card once, and its members share memory. */
#pragma once

#include "comm/world/world.h"

/* The hosts of a group, as every member sees them. */
typedef struct tri_relay_hosts {
    int n, me;     /* hosts, in the order of their first members; this rank's */
    int lanes;     /* members of the host with the fewest: so many parts of a vector travel beside one another */
    int ordered;   /* as tri_hosts */
    int n_here;    /* members of this host ... */
    int *here;     /* ... [n_here] in the group's order */
    int *of;       /* [n of the group] host of each member */
    int *members;  /* [n] of each host */
    int *lane;     /* [n][lanes] the members that carry each lane: the first of each host */
} tri_relay_hosts;

/* TRI_RESOURCE when out of memory. `hosts` is freed with free(hosts->of). */
tri_status tri__relay_hosts_open(const tri_group *group, tri_relay_hosts *hosts);
/* Whether this operation, which is not small, goes host by host. The same on all members. */
int tri__relay_takes(const tri_relay_hosts *hosts, const tri_pending *pending);

typedef struct tri_relay tri_relay;
/* Bytes of the state and buffers of an operation, and their initialization, 64-byte aligned. to, from: [n of the group]
 * tags of messages to and from members of other hosts, which are known when progress is first called. */
size_t tri__relay_bytes(const tri_pending *pending, const tri_relay_hosts *hosts);
tri_relay *tri__relay_open(void *memory, const tri_pending *pending, const tri_relay_hosts *hosts, const int *to,
                           const int *from);
/* After all members have agreed: does what needs no waiting. *done: the output is complete, and nobody accesses this
 * rank's buffers any more. */
tri_status tri__relay_progress(tri_relay *relay, tri_pending *pending, int *moved, int *done);
void tri__relay_cancel(tri_relay *relay, tri_group *group); /* as a transport's cancel */
