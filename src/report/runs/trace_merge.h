/* trace_merge.h - the traces of all ranks of a run as one, on one clock. */
#pragma once

#include "base/json.h"

/* Writes the merged trace of a run folder's trace-rank<r>.json to `out`, line by line. Each rank's clock is rank 0's by
 * the offset measured at the run's start and, where profile-rank<r>.json has it, at its end: linear between the two.
 * Where a message would still arrive before it was sent, the receiver's machine is shifted until it does not.
 * *facts: {"ranks", "world", "events", "messages", "missing": [ranks without a trace], "cut": [ranks whose trace is
 * incomplete], "undated": [ranks whose clock was measured at the start only, of several machines], "old": [ranks
 * whose trace, of an earlier start on another number of ranks, is left out], "uncertainty", "shift": seconds}; new
 * reference. TRI_NOINPUT if there is no trace; TRI_DATA, with file and line, if a line is not
 * one of a trace. */
tri_status tri__traces_merge(const char *folder, FILE *out, tri_json **facts);
