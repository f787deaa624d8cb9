/* report.h - the page that a run leaves in its folder. */
#ifndef TRI_CLI_REPORT_H
#define TRI_CLI_REPORT_H

/* Writes report.html. Best effort: a failure is not reported, and the text of an earlier one stays. */
void tri__report_write(const char *folder);

#endif
