/* stop.h - a request to stop early. The code that receives signals fills it in; everything that waits checks it. */
#pragma once

#include "base/base.h"

#include <stdatomic.h>

typedef struct tri_stop {
    atomic_int signal;         /* the first received; 0: none; -1: the code that calls this asked */
    const volatile int *asked; /* not 0: somebody else in this process asked; NULL: nobody does */
    double deadline;           /* seconds since 1970 at which the job will be killed; 0: none */
} tri_stop;

/* 1 if a signal was received. Accepts NULL: 0. */
int tri__stop_signalled(const tri_stop *stop);
/* TRI_OK, or TRI_STOPPED with "stopped (SIGTERM) while WHAT; run again". */
tri_status tri__stop_check(const tri_stop *stop, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same of work whose finished parts the next run takes over: "...; what is done is kept: run again to continue". */
tri_status tri__stop_check_kept(const tri_stop *stop, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "SIGTERM", "on request", or "" if nothing was asked. Written to `out`, which is returned. */
const char *tri__stop_name(const tri_stop *stop, char out[static 32]);
