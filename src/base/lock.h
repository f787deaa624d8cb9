/* lock.h - advisory locks on open files (flock), waited for with a deadline: a lock that somebody else holds for good
 * never blocks. */
#ifndef TRI_BASE_LOCK_H
#define TRI_BASE_LOCK_H

#include "base/stop.h"

typedef enum tri_lock_result {
    TRI_LOCK_TAKEN,
    TRI_LOCK_HELD,        /* by somebody else, for all of the time */
    TRI_LOCK_STOPPED,     /* a signal ended the wait */
    TRI_LOCK_NONE         /* this file system has no locks, or none left: errno says which */
} tri_lock_result;

/* operation: LOCK_SH or LOCK_EX. Released when the last descriptor of this opening is closed. */
tri_lock_result tri__lock(int fd, int operation, double seconds, const tri_stop *stop);
/* "process 1234" for whoever holds a lock on the open file, "another process" where that cannot be seen. Into out,
 * which is returned. */
const char *tri__lock_holder(int fd, char out[static 32]);

#endif
