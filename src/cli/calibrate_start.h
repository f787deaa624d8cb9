/* calibrate_start.h - how long a run takes besides its steps. */
#ifndef TRI_CLI_CALIBRATE_START_H
#define TRI_CLI_CALIBRATE_START_H

#include "cli/cli.h"
#include "sim/hardware.h"

/* Sets host.start, host.rank_start and host.step: trains the smallest model of the benchmarks for a few steps, on one
 * rank and on two, as `trident train` does. Not for processes that a launcher started. */
tri_status tri__calibrate_start(const tri_cli *cli, tri_hardware *out);

#endif
