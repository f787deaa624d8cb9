/* rendezvous.h - a rendezvous of the ranks of one machine that a launcher started separately: the first creates the
 * shared memory and passes its descriptor to the others over an abstract local socket, which has no name in the file
 * system and leaves nothing behind. */
#pragma once

#include "comm/world/segment.h"

typedef struct tri_rendezvous {
    const char *key;        /* the same on all ranks of the job: port, run id, user */
    int local, n;           /* this rank's index; ranks of the machine */
    double seconds;         /* to wait for the others */
    const tri_stop *stop;   /* ends the wait early; NULL: none */
    const tri_log *log;     /* told of processes that were refused; NULL: none */
} tri_rendezvous;

/* Local rank 0 creates the segment from `spec` when all are connected and agree; the others receive it. A peer must
 * belong to the same user (SO_PEERCRED) and know the key, of which the socket's name shows only a hash: another process
 * gets a message, the log is told, and the run's ranks go on meeting. TRI_RESOURCE naming the missing ranks at the
 * timeout; TRI_DISAGREE when a rank has another n, world, version or heap, or two have the same index; TRI_USAGE when
 * another job holds the key; TRI_STOPPED when a signal ended the wait. All connected ranks get the same answer. */
tri_status tri__rendezvous(const tri_rendezvous *meeting, const tri_segment_spec *spec, tri_segment *segment);
