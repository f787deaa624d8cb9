/* link.h - one rank's traffic with ranks of other machines, over a tri_remote: messages by name, failures, and signs of
 * life.
 *
 * Nothing is agreed beforehand and nobody waits: a sender announces each message with a note that names it (group,
 * channel, number) and carries it when it is small; the receiver keeps notes until somebody asks for them. Larger
 * messages follow under a tag that the note tells, straight into the receiver's memory, and only after its descriptor
 * was compared. */
#ifndef TRI_COMM_LINK_LINK_H
#define TRI_COMM_LINK_LINK_H

#include "comm/link/remote.h"
#include "comm/world/world.h"

typedef struct tri_link tri_link;

/* For a world whose remote and remote_state are set. */
tri_status tri__link_open(tri_world *world);
/* Leaves MPI in good order when the world has not failed (waits until all ranks leave, or a failure is known); lets it
 * go otherwise. */
void tri__link_close(tri_world *world);
/* A message to or from a rank of another machine. */
tri_status tri__link_progress(tri_group *group, tri_message *message, int *moved);
/* What every turn of a wait does where there are other machines, and a computing rank now and then: hears notes,
 * answers who asks for a sign of life, asks for one from ranks that this one waits for, and carries a failure from this
 * machine to the others and from them into the control page. Nothing to do without other machines. TRI_OK, or the first
 * failure. */
tri_status tri__remote_poll(tri_world *world);

#endif
