/* transport.h - the interface of transports: how a group's operations are carried out, and who carries those of a
 * world. Two are built in: shm (comm/shm/), for groups on one machine, and exchange (comm/link/exchange.c), which
 * builds every collective from sends and receives, for groups that span machines. */
#pragma once

#include "layout/dtype.h"

/* What members compare before any data moves. Fixed size: it is written to shared memory and sent as bytes. */
typedef struct tri_descriptor {
    uint64_t group, sequence;      /* the group's id; the operation's number on it (sends: on the pair) */
    int64_t count;                 /* of each member; the total if shards are unequal */
    uint64_t counts;               /* hash of unequal shards; 0: all are equal */
    uint8_t kind, dtype, reduction; /* reduction 0 if unused */
    int32_t root, tag;             /* 0 if unused */
    int32_t rank;                  /* world rank that posted it */
} tri_descriptor;

/* One operation of this rank in flight. */
typedef struct tri_pending {
    tri_request request;           /* handle; 0: this record is free */
    tri_group *group;
    tri_descriptor what;
    const void *in;                /* as the transport uses them: the caller's, or staged copies in the heap */
    void *out;
    void *user_out;                /* not NULL: copy out[out_count] here when done */
    void *staged[2];               /* heap pieces to free */
    int64_t in_count, out_count;   /* elements */
    /* [n + 1], a block (comm/world/world.h): first element of each member's shard; NULL: all are `count` long */
    int64_t *shard;
    int stage;                     /* the transport's progress; 0 at first */
    int seen;                      /* the transport's: members that have posted it */
    uint32_t tasks;                /* the transport's: number of tasks */
    void *state; /* the transport's (for a send or receive its tri_message, a block); freed with free() */
    int bare;    /* 1: members only compare it; there is no wait for it (tri__announce) */
    int done;
} tri_pending;

typedef struct tri_transport {
    tri_status (*open)(tri_group *group);      /* state of a group */
    void (*close)(tri_group *group);
    /* Announces the operation if possible and does all work that needs no waiting. Sets pending->done on completion.
     * Called repeatedly, in posting order; *moved is set on any progress. TRI_DISAGREE (recorded for all) when members
     * differ. */
    tri_status (*progress)(tri_group *group, tri_pending *pending, int *moved);
    /* Whether ranks of this machine access this rank's buffers, which then have to be in memory that they share. The
     * same on all members. */
    int (*shares)(const tri_group *group, const tri_pending *pending);
    /* Optional: after a failure, returns once no thread of this process accesses the operation's buffers any more, and
     * none will. */
    void (*cancel)(tri_group *group, tri_pending *pending);
} tri_transport;

/* Bytes between two ranks: on one machine through shm/pairs.c, between machines through a link (comm/link/link.h). Used
 * by users' sends and receives and by the exchange. A message is identified by (group, channel, number): the k-th send
 * of a channel matches the k-th receive. */
typedef struct tri_message {
    int peer;                  /* rank in the group */
    int channel;               /* 0: users' sends; 1 and up: the exchange's */
    uint64_t number;           /* on that channel and pair */
    tri_descriptor what;       /* of the operation it belongs to; compared with the other end's */
    void *data;                /* [bytes]; destination of a receive, source of a send */
    int64_t bytes;
    int receive;
    int stage;                 /* 0 new, 1 in flight, 2 done */
    void *state;               /* of shm/pairs.c, or the link's request */
    int tag;                   /* the link's: of a transfer in flight */
    int agreed;                /* 1: the link's tag is known to both ends already, and nothing announces the message */
    /* not NULL: with this message the sender gives the receiver a tag of the link, for later messages to it, until
     * tri__message_release. -1 before, and within a machine */
    int *follow;
    /* of a receive within a machine. 1: the message says where memory is, which the sender lends until tri__pair_return
     * (shm/pairs.h): until then its send is not done */
    int lent;
} tri_message;

/* What carries the operations of a world: rows of comm/link/open.c. The rooms below know only these functions. */
typedef struct tri_carriers {
    const tri_transport *here, *across; /* of groups on one machine; of groups that span machines */
    tri_status (*progress)(tri_group *group, tri_message *message, int *moved); /* of a user's send or receive */
    void (*cancel)(tri_group *group, tri_message *message);                     /* as a transport's cancel */
    tri_status (*poll)(tri_world *world);             /* traffic with other machines, if any: tri__remote_poll */
    void (*files)(tri_world *world, int begins);      /* tells other machines of work on files */
} tri_carriers;
