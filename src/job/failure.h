/* failure.h - a failure of ranks, said once: on stderr and in error.json. Under our own supervisor that one does it; of
 * ranks that another launcher started, one speaks for all. */
#pragma once

#include "comm/world/world.h"
#include "job/supervisor.h"

/* error.json in the folder, as far as it can be written: the run has failed already. Not for wrong usage, and never in
 * a folder that another run uses. */
void tri__error_write(const char *folder, const tri_verdict *verdict);
/* Whether this rank prints the failure of its world: under a foreign launcher the rank that failed, or another one if
 * that crashed or hangs; of ranks on several machines that failed alike, one. */
int tri__failure_speaks(const tri_world *world);
/* After a run's `status`, which becomes that of all ranks: the rank that speaks writes error.json. world NULL: one
 * process. Keeps tri_error(). */
void tri__failure_record(tri_world *world, const char *folder, tri_status status, int64_t step);
