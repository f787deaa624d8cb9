/* bench_runs.h - for benchmarks that train: a run as a command line, starting its ranks, and reading its run folder. */
#pragma once

#include "cli/cli.h"

enum { TRI_RUN_LINE_WORDS = 48, TRI_RUN_LINE_WORD = TRI_PATH_MAX + 32 };
typedef struct tri_run_line {
    char text[TRI_RUN_LINE_WORDS][TRI_RUN_LINE_WORD];
    char *argv[TRI_RUN_LINE_WORDS + 1]; /* ends with NULL */
    int n;
    tri_settings settings;              /* what it means, once parsed */
} tri_run_line;
/* A new line `trident train` on the configuration and data of `folder`, with the run folder `name` in it, silently and
 * without checkpoints; name NULL: without any options. NULL: out of memory, as tri__run_line_parse says. */
tri_run_line *tri__run_line_new(const tri_cli *cli, const char *folder, const char *name);
/* Appends words, separated by tabs. */
void tri__run_line_add(tri_run_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
tri_status tri__run_line_parse(tri_run_line *line);
/* Prepares the run's files, starts its ranks and waits for them. Their stdout is not part of the benchmark's result;
 * the text of a failure is in tri_error. */
tri_status tri__run_line_start(const tri_cli *cli, tri_run_line *line);
void tri__run_line_free(tri_run_line *line); /* accepts NULL */
static inline void tri__run_line_drop(tri_run_line **at) { tri__run_line_free(*at); }

/* Calls `take` with the event of each step in a run folder's metrics.jsonl. */
tri_status tri__run_events(const char *folder, tri_status (*take)(void *to, const tri_json *event), void *to);
/* Steps after warm-up, from metrics.jsonl: median seconds, and mean shares of a step. */
typedef struct tri_run_steps {
    double seconds, loading, moving, idle;
} tri_run_steps;
tri_status tri__run_steps(const char *folder, int warmup, tri_run_steps *out);
/* summary.json of a run folder; a new reference. */
tri_status tri__run_summary(const char *folder, tri_json **out);

/* Creates a temporary folder under TMPDIR; removes it with its content. */
tri_status tri__bench_folder(const tri_cli *cli, char folder[static TRI_PATH_MAX]);
void tri__bench_remove(const char *folder);
