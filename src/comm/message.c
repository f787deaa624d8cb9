/* message.c - which way a message goes: through shared memory to a rank of this machine. */
#include "comm/shm/pairs.h"

tri_status tri__message_progress(tri_group *group, tri_message *message, int *moved) {
    if (group->local[message->peer] >= 0) return tri__pair_progress(group, message, moved);
    return tri__fail(TRI_USAGE, "rank %d is on another machine, and nothing carries messages between machines here", group->rank[message->peer]);
}

void tri__message_cancel(tri_group *group, tri_message *message) {
    if (group->local[message->peer] >= 0) tri__pair_cancel(group, message);
}
