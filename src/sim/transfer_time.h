/* transfer_time.h - seconds of transfers on described hardware, and how they proceed beside computing. */
#ifndef TRI_SIM_TRANSFER_TIME_H
#define TRI_SIM_TRANSFER_TIME_H

#include "sim/hardware.h"
#include "trident_comm.h"

/* Seconds of a transfer among `members`, [n] ranks, of `bytes` in all, with all members waiting for it and nothing else
 * on their links. A kind that the hardware file has curves for is interpolated between them: log-log in bytes, below
 * the smallest size as long as that, above the largest at its rate; between and beyond the measured numbers of ranks
 * and nodes in proportion to the formulas of transfer_time.c. Otherwise, by kind:
 *   all_reduce                   the faster of a ring, 2(n-1) steps of bytes/n, and a tree, 2 log2(n) steps of bytes
 *   all_gather, reduce_scatter,  a ring, n-1 steps of bytes/n; an all_to_all without curves takes as long as an
 *   all_to_all                   all_gather
 *   broadcast                    a tree whose steps overlap: log2(n) latencies, and the bytes once
 *   send                         one latency and the bytes
 * Members of one node share their links to other nodes. */
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
/* Bytes that leave the busiest node for other nodes; 0 inside a node. Transfers at once share a node's node_bytes. */
double tri__transfer_crossing(const tri_hardware *hardware, tri_collective_kind kind, const int *members, int n,
                              double bytes);

#endif
