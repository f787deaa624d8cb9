/* link.h - one rank's traffic with ranks of other machines, over a tri_remote: messages by key, failures, and
 * liveness.
 *
 * Nothing is negotiated and no call blocks: a sender announces each message with a note that identifies it (group,
 * channel, number) and contains it if it is small; the receiver keeps notes until they are matched. Larger messages
 * follow under a tag given in the note, directly into the receiver's memory, and only after the descriptors have been
 * compared. A note may give a tag for later messages as well: those are not announced, so that their receives can be
 * posted before they arrive. */
#pragma once

#include "comm/link/remote.h"
#include "comm/world/world.h"

typedef struct tri_link tri_link;

/* For a world whose remote and remote_state are set. */
tri_status tri__link_open(tri_world *world);
/* Waits until all ranks leave in order: then only closing may follow. Otherwise the failure. */
tri_status tri__link_leave(tri_world *world);
/* The same, unless it was called. Then finalizes MPI if all left in order; otherwise abandons it, or, where ranks
 * outlive the dead, leaves it to the next world. */
void tri__link_close(tri_world *world);
/* A message to or from a rank of another machine. */
tri_status tri__link_progress(tri_group *group, tri_message *message, int *moved);
/* Tells the ranks of other machines that this rank begins or ends work on files, in which it may not answer them. */
void tri__link_files(tri_link *link, int begins);
void tri__link_release(tri_group *group, int peer, int tag); /* as tri__message_release */
/* Called at every poll of a wait if there are other machines, and now and then by a computing rank: receives notes,
 * answers liveness queries, queries ranks that this one waits for, and forwards a failure from this machine to the
 * others and from them into the control page. A no-op without other machines. TRI_OK, or the first failure. */
tri_status tri__remote_poll(tri_world *world);
