/* lock.h - advisory locks on open files (flock), acquired with a timeout: a lock that is never released does not block
 * us indefinitely. */
#pragma once

#include "base/stop.h"

typedef enum tri_lock_result {
    TRI_LOCK_TAKEN,
    TRI_LOCK_HELD,        /* by another process, until the timeout */
    TRI_LOCK_STOPPED,     /* a signal ended the wait */
    TRI_LOCK_NONE         /* the file system does not support locks, or has none left: see errno */
} tri_lock_result;

/* operation: LOCK_SH or LOCK_EX. Released when the last duplicate of this descriptor is closed. */
tri_lock_result tri__lock(int fd, int operation, double seconds, const tri_stop *stop);
/* The holder of a lock on the open file: "process 1234", or "another process" if unknown. Written to `out`, which is
 * returned. */
const char *tri__lock_holder(int fd, char out[static 32]);
/* Whether a process holds the lock of the run in a folder: that of its file .lock. */
int tri__lock_held(const char *folder);
