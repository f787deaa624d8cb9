/* regroup.h - worlds that follow one another (--elastic): when ranks die or join, those that are left close their
 * world, and their supervisor hands each the memory of the next one over its own socket.
 *
 * A rank says READY and waits; the supervisor answers WORLD, with the descriptors of the next segment and, if there is
 * one, of an earlier segment with complete replicated state (kept.h); or END. Ranks that the next world has no place
 * for get no answer until a later one needs them. */
#pragma once

#include "comm/world/world.h"

typedef enum tri_regroup_kind {
    TRI_REGROUP_READY = 1, /* from a rank: it has left its world, or was just started, and waits */
    TRI_REGROUP_WORLD,     /* the next world */
    TRI_REGROUP_END        /* there is none */
} tri_regroup_kind;

typedef struct tri_regroup_message {
    uint32_t magic;            /* set by tri__regroup_say */
    int32_t kind;              /* tri_regroup_kind */
    int32_t local, n;          /* of WORLD: the receiver's place; ranks */
    int next, before;          /* descriptors that travel with WORLD; -1: none */
} tri_regroup_message;

/* Both ends, CLOEXEC. TRI_RESOURCE when descriptors are short. */
tri_status tri__regroup_open(int end[2]);
/* Never waits. 0: the other end is gone. */
int tri__regroup_say(int socket, const tri_regroup_message *message);
/* Never waits. 1: a message, whose descriptors are the caller's; 0: none now; -1: the other end is gone, or is not
 * one of ours. */
int tri__regroup_hear(int socket, tri_regroup_message *message);

/* A rank that has closed its world, or never had one: says READY, waits, and joins what it is given. *again 1: *world
 * is the next one and all its ranks have met, within `seconds` of its beginning; if one of them dies before that, the
 * next. *again 0: END; or a failure: TRI_STOPPED on a stop request, TRI_INTERNAL when the supervisor is gone, this
 * rank's own failure to join, which its peers and the supervisor then know. */
tri_status tri__regroup_next(int socket, double seconds, const tri_stop *stop, tri_world **world, int *again);
