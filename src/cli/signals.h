/* signals.h - signals that ask a run to end in good order. */
#ifndef TRI_CLI_SIGNALS_H
#define TRI_CLI_SIGNALS_H

#include "cli/cli.h"

/* From now on SIGTERM, SIGINT, SIGHUP and SIGUSR1 are noted in cli->stop, which is set here; a second one, more than a moment after the
 * first, ends the process at once. Looks SLURM_JOB_END_TIME up. */
void tri__signals_take(tri_cli *cli);

#endif
