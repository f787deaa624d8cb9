/* runs.h - for benchmarks that train: a run as a command line, starting its ranks, and reading its run folder. */
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
/* Starts the ranks of `settings`, parsed from the line, and waits for them. Their stdout is not part of the benchmark's
 * result; the text of a failure is in tri_error. */
tri_status tri__run_line_start(const tri_cli *cli, tri_run_line *line, const tri_settings *settings);

/* Steps after warm-up, from metrics.jsonl: median seconds, and mean shares of a step. */
typedef struct tri_run_steps {
    double seconds;
    double loading, moving, idle;
} tri_run_steps;
tri_status tri__run_steps(const char *folder, int warmup, tri_run_steps *out);

/* Creates a temporary folder under TMPDIR; removes it with its content. */
tri_status tri__bench_folder(const tri_cli *cli, char folder[static TRI_PATH_MAX]);
void tri__bench_remove(const char *folder);

#endif
