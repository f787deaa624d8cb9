/* output.h - files that a command writes where the user says: -o, --svg, --write-config. Never one of its inputs, and
 * an existing file only with --force. */
#pragma once

#include "cli/cli.h"

typedef struct tri_output {
    const char *option;       /* as the user writes it, for messages: "-o" */
    const char *path;         /* NULL: none */
    const char *own;          /* the command's own file, which it replaces without --force; NULL: none */
    int appends;              /* a log: an existing file is continued */
    const char *const *words; /* [n_words] inputs given as bare words */
    int n_words;
} tri_output;

/* Fails before anything is computed where the output could not be written in the end: TRI_USAGE if it is one of the
 * inputs (the files and folders that options, the configuration and words name), by whatever link; TRI_BUSY if it
 * exists and neither --force nor `own` allows to replace it; TRI_IO if its folder is missing. */
tri_status tri__output_check(const tri_settings *settings, const tri_output *output);
/* Whether an existing file may be replaced, for tri__file_deliver. */
int tri__output_replaces(const tri_settings *settings, const tri_output *output);
/* What `put` prints goes to stdout, or with -o to its file, atomically: whole or not at all. what: for messages. */
tri_status tri__output_write(const tri_cli *cli, const tri_settings *settings, const char *what,
                             tri_status (*put)(void *context, FILE *out), void *context);
