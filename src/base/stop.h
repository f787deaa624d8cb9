/* stop.h - a request to end early, as everything that waits can see it: whoever receives signals fills one in and hands
 * it down. */
#ifndef TRI_BASE_STOP_H
#define TRI_BASE_STOP_H

#include "base/status.h"

#include <stdatomic.h>

typedef struct tri_stop {
    atomic_int signal;         /* the first that asked; 0: none */
    double deadline;           /* seconds since 1970 at which the job will be killed; 0: none */
} tri_stop;

/* 1 when a signal asked for the end. Accepts NULL: nobody asks. */
int tri__stop_signalled(const tri_stop *stop);
/* TRI_OK, or TRI_STOPPED with "stopped (SIGTERM) while WHAT; run again to continue". */
tri_status tri__stop_check(const tri_stop *stop, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "SIGTERM"; "" when no signal asked. Into out, which is returned. */
const char *tri__stop_name(const tri_stop *stop, char out[static 32]);

#endif
