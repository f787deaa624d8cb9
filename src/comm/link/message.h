/* message.h - messages between two ranks, wherever they are, and collectives built of them. */
#pragma once

#include "comm/world/world.h"

tri_status tri__message_progress(tri_group *group, tri_message *message, int *moved);
void tri__message_release(tri_group *group, int peer, int tag); /* by the sender; no message under it is in flight */
void tri__message_cancel(tri_group *group, tri_message *message); /* as a transport's cancel */

extern const tri_transport tri__transport_exchange;
