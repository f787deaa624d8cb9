/* lane_device.h - an asynchronous device with two lanes, two queues of copies and one of copies beside runs, built on
 * the CPU's kernels: work is only queued, and executed as late as possible, in an order that the test chooses among
 * those that queues, signals and waits allow. It can capture runs and replay them. */
#ifndef TESTS_LANE_DEVICE_H
#define TESTS_LANE_DEVICE_H

#include "tests/lib/tiny.h"

enum { LANE_KEEP = TRI_LANES + 2, LANE_QUEUES };
enum { LANE_ITEMS = 1 << 15, LANE_NUMBERS = 1 << 14, LANE_RUNS = 8, LANE_KEY = 32 };

typedef enum lane_kind { LANE_KERNEL, LANE_COPY, LANE_POINT, LANE_AWAIT, LANE_STEP } lane_kind;

typedef struct lane_item {
    lane_kind kind;
    tri_call call;
    void *to, *from;         /* LANE_COPY */
    size_t bytes;
    int owned;               /* 1: the item owns `from` */
    int point;               /* LANE_POINT: sets it; LANE_AWAIT: waits until it is set */
    uint32_t step;           /* LANE_STEP: of the kernels that follow */
} lane_item;

/* A captured run: its queued items, with points relative to its first. */
typedef struct lane_run {
    int64_t key[LANE_KEY];
    int n_key, times, captured, n_points;
    lane_item *item[LANE_QUEUES];
    int n[LANE_QUEUES];
} lane_run;

/* The order in which queues are polled; -1 first: random. */
typedef struct lane_order {
    int first[LANE_QUEUES];
    int deaf;                /* 1: lanes do not wait for each other within a run */
    int aloof;               /* 1: the device cannot copy to the host's own memory */
    int captures;            /* 1: runs that are seen for the second time */
    int fails;               /* 1: and fails to */
    int stale;               /* 1: and replays them with the step of the capture */
} lane_order;

struct lane_device {
    lane_order order;
    lane_item *item[LANE_QUEUES];
    int n[LANE_QUEUES], done[LANE_QUEUES];
    uint8_t *is_set;         /* [n_points] */
    int n_points, cap_points;
    int signal[LANE_NUMBERS], moved[LANE_NUMBERS]; /* the last point of each number */
    int n_kept;              /* copies beside runs */
    int lane, awaits, switches;
    uint32_t random, step;
    tri_kernel_table real;
    char *inbox;             /* [inputs] */
    char *staged;           /* [inputs] by the host, for the next run */
    size_t inputs, used, taken;
    lane_run run[LANE_RUNS];
    int n_runs, replays, asked;
    lane_run *capturing;
    int from[LANE_QUEUES], from_points; /* where the captured run began */
};
extern struct lane_device lanes_now;
extern const tri_device lane_device;

#endif
