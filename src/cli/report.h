/* report.h - the page that a run leaves in its folder. */
#ifndef TRI_CLI_REPORT_H
#define TRI_CLI_REPORT_H

#include "cli/cli.h"

/* Writes report.html; does nothing where the folder has no run. A page that cannot be written is a warning on `err`;
 * the text of an earlier failure stays. */
void tri__report_write(const tri_cli *cli, const char *folder);

#endif
