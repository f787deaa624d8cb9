/* signals.h - signals that ask a run to stop gracefully. */
#ifndef TRI_CLI_SIGNALS_H
#define TRI_CLI_SIGNALS_H

#include "cli/cli.h"

/* The message printed immediately on the first signal. */
typedef enum tri_signal_words {
    TRI_SIGNAL_SILENT,       /* another process prints it: the one that started the ranks, or rank 0 */
    TRI_SIGNAL_EARLY,        /* nothing is trained yet */
    TRI_SIGNAL_STEP,         /* a single process finishes its step and saves */
    TRI_SIGNAL_STEP_UNSAVED, /* likewise, with checkpoints off */
    TRI_SIGNAL_RANKS,        /* ranks agree on the last step, and save */
    TRI_SIGNAL_RANKS_UNSAVED,
    TRI_SIGNAL_LAUNCHER,     /* likewise, if the launcher that sends it leaves the ranks the time */
    TRI_SIGNAL_DRAIN,        /* a server answers what it has begun */
    TRI_SIGNAL_MEASURED,     /* quantize ends after the evaluation that runs */
    TRI_SIGNAL_ROWS,         /* predict, eval and explain end after the batch of rows in progress */
    TRI_SIGNAL_SEARCHED,     /* choose shows the layouts found so far */
    TRI_SIGNAL_PASSED_ON,    /* supervise: passed on to the job */
    TRI_SIGNAL_PASSED_ON_SAVES, /* likewise, to a job that trains and saves */
    TRI_SIGNAL_PAUSED        /* supervise: between two starts */
} tri_signal_words;

/* Installs handlers: SIGTERM, SIGINT, SIGHUP and SIGUSR1 are recorded in cli->stop, which is set here, and `words` are
 * printed on stderr, unless another process prints them. A second signal ends the process immediately, if it comes
 * after a short debounce interval or if both came from the keyboard. Reads SLURM_JOB_END_TIME and the variables of
 * launchers. */
void tri__signals_take(tri_cli *cli, tri_signal_words words);
/* Changes the message, as when training begins. A silent process stays silent. */
void tri__signals_say(tri_signal_words words);
const char *tri__signals_text(tri_signal_words words); /* "" if silent */
/* What was asked for is done, and only the process itself has to end: SIGTERM, SIGINT and SIGHUP end it again, SIGUSR1,
 * which asks for a stop, is ignored. seconds: if it has not ended by then, it does, with exit code `code`; 0: no
 * limit. */
void tri__signals_end(int seconds, int code);

/* For a server: SIGTERM and SIGINT ask it to end (a second one ends it at once), SIGHUP to load its models again;
 * SIGPIPE is ignored. */
typedef enum tri_server_signal { TRI_SERVER_END, TRI_SERVER_RELOAD } tri_server_signal;
void tri__signals_serve(tri_cli *cli);
tri_server_signal tri__signals_wait(void); /* several reloads that wait are one */

/* For a viewer: SIGTERM, SIGINT and SIGHUP end it, without a word; a resized window wakes it. */
void tri__signals_view(tri_cli *cli);
int tri__signals_pause(double seconds); /* 1: it should end; 0: the time is over, or the window has another size */

#endif
