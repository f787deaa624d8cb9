/* replay.h - runs that a device captures and replays instead of queueing each kernel again: which runs may be captured,
 * and the key that identifies equal runs. */
#pragma once

#include "exec/exec.h"

typedef struct tri_replay {
    /* [n] programs: instructions from here on do not depend on a microbatch's row counts; -1: runs may not be captured
     * */
    int *counted;
    int64_t *key;    /* of the current run; as long as the longest key */
} tri_replay;

tri_status tri__replay_open(const tri_program *const *programs, int n, tri_replay *out);
void tri__replay_free(tri_replay *replay);

/* How the device should queue a run of instructions [begin, end), whose feed is [n_mb] of the program. */
tri_capture tri__replay_ask(tri_replay *replay, const tri_program *const *programs, int program, int begin, int end,
                          const tri_feed *feed, const tri_graphs *graphs, void *context);
