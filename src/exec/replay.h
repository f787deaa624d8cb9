/* replay.h - runs that a device captures and replays, instead of being told of each kernel again: which runs may be
 * captured, and the key by which two are known to be the same. */
#ifndef TRI_EXEC_REPLAY_H
#define TRI_EXEC_REPLAY_H

#include "exec/exec.h"

typedef struct tri_replay {
    int *counted;    /* [n] programs: instructions from here on have rows that no microbatch counts; -1: runs may not be
                        captured */
    int64_t *key;    /* of the run at hand, as long as the longest */
} tri_replay;

tri_status tri__replay_open(const tri_program *const *programs, int n, tri_replay *out);
void tri__replay_free(tri_replay *replay);

/* How the device wants a run queued: that of instructions [begin, end), whose feed is [n_mb] of the program. */
tri_capture tri__replay_ask(tri_replay *replay, const tri_program *const *programs, int program, int begin, int end,
                          const tri_feed *feed, const tri_graphs *graphs, void *context);

#endif
