/* transfer_time.h - seconds of transfers on described hardware, and how they proceed beside computing. */
#pragma once

#include "layout/hosts.h"
#include "sim/hardware.h"

/* Seconds of a transfer among `members`, [n] ranks, of `bytes` in all, with all members waiting for it and nothing else
 * on their links. A kind that the hardware file has curves for is interpolated between them: a latency and bytes at a
 * rate, which is that between two points; below the smallest size as long as that; between and beyond the measured
 * numbers of ranks and nodes in proportion to the formulas of transfer_time.c. Otherwise, by kind:
 *   all_reduce                   the faster of a ring, 2(n-1) steps of bytes/n, and a tree, 2 log2(n) steps of bytes
 *   all_gather, reduce_scatter,  a ring, n-1 steps of bytes/n; an all_to_all without curves takes as long as an
 *   all_to_all                   all_gather
 *   broadcast                    a tree whose steps overlap: log2(n) latencies, and the bytes once
 *   send                         one latency and the bytes
 * Members of one node share their links to other nodes. Ranks on CPUs, between nodes: the bytes of the busiest card
 * (layout/hosts.h), and a latency for each step. */
double tri__transfer_seconds(const tri_hardware *hardware, tri_collective_kind kind, const int *members, int n,
                             double bytes);
/* The same for the all-reduce that the hosts do at the end of a step, whatever the devices are. */
double tri__control_seconds(const tri_hardware *hardware, const int *members, int n, double bytes);

typedef enum tri_transfer_way {
    TRI_WAY_LINK,     /* over links, beside computing, from the last post on */
    TRI_WAY_SHARED,   /* work that any member inside a wait does, from the last post on: shm, large */
    TRI_WAY_EACH,     /* each member for itself in its wait, after the last post: shm, small */
    TRI_WAY_RECEIVER, /* by the receiver inside a wait: shm, messages */
    TRI_WAY_FAR       /* between nodes without devices that do it: begins when all members (of a message, the receiver)
                         have been inside a wait since the last post, then moves beside computing */
} tri_transfer_way;
tri_transfer_way tri__transfer_way(const tri_hardware *hardware, tri_collective_kind kind, const int *members, int n,
                                   double bytes);
/* Of TRI_WAY_SHARED: seconds of cores in all, which its waiting members share. */
double tri__transfer_work(const tri_hardware *hardware, tri_collective_kind kind, const int *members, int n,
                          double bytes);
/* Where the members of a group are. */
enum { TRI_COUNTED_NODES = 256 }; /* of more nodes, all are as the fullest */
typedef struct tri_spread {
    int nodes;
    int islands;                 /* of a node, the most that members are on */
    int fewest, most;            /* members on one node */
    int each[TRI_COUNTED_NODES]; /* members on each */
} tri_spread;

/* The bytes of a transfer through the cards of its nodes. */
typedef struct tri_cards {
    tri_spread spread;           /* .nodes 1: nothing crosses, and the rest is not set */
    tri_hosts hosts;
    tri_collective_kind kind;
    int n, overlap, small, by_host;
    double bytes;
} tri_cards;
/* wide: bytes of a partial sum over those of an element. */
void tri__cards_open(tri_cards *cards, const tri_hardware *hardware, tri_collective_kind kind, const int *members,
                     int n, double bytes, double wide);
/* Into and out of the group's node number `place`. `cards` stays where it was opened. */
void tri__cards_of(const tri_cards *cards, int place, double crossing[2]);
/* A second, of a node to and from all others, in one direction: all its transfers share them. Where no figure is given,
 * devices have a card each, and ranks on CPUs one card together. */
double tri__node_bytes(const tri_hardware *hardware);
