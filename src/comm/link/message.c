/* message.c - routes a message: through shared memory to a rank of this machine, over the link to others. */
#include "comm/link/link.h"
#include "comm/shm/pairs.h"
#include "comm/link/message.h"

tri_status tri__message_progress(tri_group *group, tri_message *message, int *moved) {
    return (group->local[message->peer] >= 0 ? tri__pair_progress : tri__link_progress)(group, message, moved);
}

void tri__message_release(tri_group *group, int peer, int tag) {
    if (tag >= 0) tri__link_release(group, peer, tag);
}

/* The link drops all transfers at once before a failed wait returns (tri__remote_poll). */
void tri__message_cancel(tri_group *group, tri_message *message) {
    if (group->local[message->peer] >= 0) tri__pair_cancel(group, message);
}
