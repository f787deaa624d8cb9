/* rendezvous.h - ranks of one machine that were started by somebody else meet: the first makes the shared memory and
 * hands its descriptor to the others over a local socket without a name in the file system (abstract: nothing is left
 * behind). */
#ifndef TRI_COMM_START_RENDEZVOUS_H
#define TRI_COMM_START_RENDEZVOUS_H

#include "base/stop.h"
#include "comm/world/segment.h"

typedef struct tri_rendezvous {
    const char *key;        /* the same on all ranks of the job: port, run id, user */
    int local, n;           /* this rank's place; ranks of the machine */
    double seconds;         /* to wait for the others */
    const tri_stop *stop;   /* ends the wait early; NULL: nobody asks */
} tri_rendezvous;

/* Local rank 0 creates the segment from `spec` when all are there and agree; the others receive it. Every peer's user
 * id is checked (SO_PEERCRED). TRI_RESOURCE naming who is missing when the time is over; TRI_DISAGREE when a rank says
 * another n, world, version or heap, or two say the same place; TRI_USAGE when another job holds the key; TRI_STOPPED
 * when a signal ended the wait. All who came get the same answer. */
tri_status tri__rendezvous(const tri_rendezvous *meeting, const tri_segment_spec *spec, tri_segment *segment);

#endif
