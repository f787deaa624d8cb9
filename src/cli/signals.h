/* signals.h - signals that ask a run to end in good order. */
#ifndef TRI_CLI_SIGNALS_H
#define TRI_CLI_SIGNALS_H

#include "cli/cli.h"

/* What is said at once when the first signal comes. */
typedef enum tri_signal_words {
    TRI_SIGNAL_SILENT,       /* another process speaks: the one that started the ranks, or the first rank */
    TRI_SIGNAL_EARLY,        /* nothing is trained yet */
    TRI_SIGNAL_STEP,         /* a process that is alone finishes its step and saves */
    TRI_SIGNAL_STEP_UNSAVED, /* likewise, with checkpoints off */
    TRI_SIGNAL_RANKS,        /* ranks agree on the last step, and save */
    TRI_SIGNAL_RANKS_UNSAVED,
    TRI_SIGNAL_PASSED_ON     /* supervise: to the job */
} tri_signal_words;

/* From now on SIGTERM, SIGINT, SIGHUP and SIGUSR1 are noted in cli->stop, which is set here, and answered on stderr
 * with `words`, unless another process speaks. A second one, more than a moment after the first or pressed on the
 * keyboard as that was, ends the process at once. Looks SLURM_JOB_END_TIME up, and the variables of launchers. */
void tri__signals_take(tri_cli *cli, tri_signal_words words);
/* What a signal would mean has changed: training began. Of a process that is silent nothing changes. */
void tri__signals_say(tri_signal_words words);
const char *tri__signals_text(tri_signal_words words); /* "" for silence */

#endif
