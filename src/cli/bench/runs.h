/* runs.h - benches that train: a run as a command line, started on its ranks, and what it left in its run folder. */
#ifndef TRI_CLI_BENCH_RUNS_H
#define TRI_CLI_BENCH_RUNS_H

#include "cli/cli.h"

#include "base/file.h"

enum { TRI_RUN_LINE_WORDS = 32, TRI_RUN_LINE_WORD = TRI_PATH_MAX + 32 };
typedef struct tri_run_line {
    char text[TRI_RUN_LINE_WORDS][TRI_RUN_LINE_WORD];
    char *argv[TRI_RUN_LINE_WORDS + 1]; /* ends with NULL */
    int n;
} tri_run_line;
void tri__run_line_add(tri_run_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Starts the ranks of `settings`, which the line was parsed to, and waits for them. What they print is not the bench's
 * result; a failure's words come back in tri_error. */
tri_status tri__run_line_start(const tri_cli *cli, tri_run_line *line, const tri_settings *settings);

/* Of the steps after warm-up, from metrics.jsonl: the median's seconds, and mean shares of a step. */
typedef struct tri_run_steps {
    double seconds;
    double loading, moving, idle;
} tri_run_steps;
tri_status tri__run_steps(const char *folder, int warmup, tri_run_steps *out);

/* A folder of the bench's own under TMPDIR, and its removal with all that is in it. */
tri_status tri__bench_folder(const tri_cli *cli, const char *bench, char folder[static TRI_PATH_MAX]);
void tri__bench_remove(const char *folder);

#endif
