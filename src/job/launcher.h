/* launcher.h - `trident supervise`: a launcher of ranks that is started, watched through the folder of its run, and
 * after a crash started again, each time after a longer pause. */
#pragma once

#include "job/parent.h"
#include "job/run_signs.h"

#include <sys/types.h>

typedef struct tri_launcher_job {
    const tri_parent *parent;
    char *const *argv;
    double restart_delay, start_timeout; /* seconds, as the options of these names */
    tri_run_signs signs;
    int saves;                 /* the run is known to save checkpoints */
    double quiet;              /* seconds without a sign of life after which ranks without a launcher count as dead */
    /* State: */
    pid_t pid;
    int met, trains;           /* of the current start: its ranks have met; the run has begun */
    int code;                  /* exit code of the ranks' failure; 0: none */
    /* tri__clock() of the start, of each stage of termination, and of the last look at the folder; 0: not yet */
    double began, failed, terminated, killed, looked;
} tri_launcher_job;

/* Until it ends well, or in a way that would recur, or was started max_restarts times again. A request to stop is
 * passed on. */
tri_status tri__launcher_run(tri_launcher_job *job, int64_t max_restarts);
