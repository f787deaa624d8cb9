/* far_device.h - a model of the queues of an asynchronous device: nothing is computed and no data moves, but
 * dependencies are those of GPUs with NCCL. Kernels, posts and waits execute in queue order, lane by lane, and lanes
 * wait for each other's signals; a group's transfers execute one after another, each once all members have reached it
 * with equal descriptors. Otherwise they deadlock. Ranks are threads. */
#ifndef TESTS_FAR_DEVICE_H
#define TESTS_FAR_DEVICE_H

#include "device/device.h"

#include <pthread.h>

enum { FAR_RANKS = 8, FAR_GROUPS = 64, FAR_ITEMS = 8192 };

/* FAR_POST: the transfer may begin here. */
typedef enum far_kind { FAR_POST, FAR_WAIT, FAR_SIGNAL, FAR_AWAIT } far_kind;

typedef struct far_item {
    far_kind kind;
    int group,
        number; /* of a transfer: among those that this rank posted to the group. Of a signal: among all of this rank */
} far_item;

typedef struct far_rank {
    far_item item[TRI_LANES][FAR_ITEMS]; /* the compute queues, without kernels */
    int n[TRI_LANES], reached[TRI_LANES], lane;
    int signal[FAR_ITEMS];         /* by number: the last signal with that number */
    int n_signals;
    uint8_t is_given[FAR_ITEMS];
    far_item posted[FAR_ITEMS];    /* by the number of the post */
    int begun;                     /* with one queue: completed transfers of all groups */
    far_item order[FAR_ITEMS];
    int n_order;
} far_rank;

typedef struct far_group {
    char name[TRI_GROUP_NAME];
    int n, joined, oneway, done;
    int rank[FAR_RANKS], posts[FAR_RANKS], ready[FAR_RANKS];
    tri_collective what[FAR_RANKS][FAR_ITEMS / 8];
} far_group;

/* Set by a test, shared by all ranks. */
struct far {
    pthread_mutex_t lock;
    int one_queue;                 /* 1: a rank's transfers execute one after another, across groups */
    int broken;                    /* 1: groups report a failure */
    int n_groups, names;
    far_rank *rank;                /* [FAR_RANKS] */
    far_group *group;              /* [FAR_GROUPS] */
};
extern struct far far;

void far_reset(void);
extern const tri_device far_device;

#endif
