/* gauges.h - a device's clock and power while it works. */
#pragma once

/* Why a clock is lower than it could be, as bits. */
typedef enum tri_throttle { TRI_THROTTLE_POWER = 1, TRI_THROTTLE_HEAT = 2, TRI_THROTTLE_OTHER = 4 } tri_throttle;

typedef struct tri_gauge {
    double clock_mhz; /* now, of the units that compute */
    double joules;    /* used since some time in the past; 0: unknown */
    double limit_w;   /* watts that it may draw; 0: unknown */
    int throttle;     /* bits of tri_throttle */
} tri_gauge;

typedef struct tri_gauges {
    /* 0: they cannot be read. May be called by another thread than the one that queues, by one at a time. */
    int (*read)(void *context, tri_gauge *out);
} tri_gauges;
