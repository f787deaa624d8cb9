/* signals.h - signals that ask a run to stop gracefully. */
#pragma once

#include "cli/cli.h"

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
