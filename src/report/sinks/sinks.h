/* sinks.h - the sinks that receive a run's events. Each is opened into a tri_sink and closed by its close function, or
 * by tri__sink_close where it has none; both accept a zeroed sink. Opening touches no file: the run folder may still
 * belong to another run. Files are created at the START event, whose `step` is the number of steps already taken: above
 * 0 the run is resumed, and records of later steps by an earlier run are dropped. */
#pragma once

#include "train/events.h"

void tri__sink_close(tri_sink *sink);
/* A sink whose context is the folder's name; `what` is for messages. */
tri_status tri__folder_sink(const char *folder, tri_status (*emit)(void *folder, const tri_event *event),
                            const char *what, tri_sink *sink);

/* Forwards each event to all of `sinks` in order, up to the first that fails; zeroed ones are left out. The array is
 * copied. */
tri_status tri__tee_open(const tri_sink *sinks, int n, tri_sink *sink);

/* metrics.jsonl in the folder: one flat object per line. Flushed at checkpoints, epochs, the end, and every 2
 * seconds; eager: after each line, so that it survives this process. */
tri_status tri__metrics_open(const char *folder, int eager, tri_sink *sink);
tri_status tri__metrics_close(tri_sink *sink);
/* The line of an event, if it has one. */
tri_status tri__metrics_line(FILE *out, const tri_event *event);

/* events.out.tfevents.* in the folder, for TensorBoard: train/ and eval/ scalars. */
tri_status tri__tfevents_open(const char *folder, tri_sink *sink);
tri_status tri__tfevents_close(tri_sink *sink);

/* Progress. On a terminal one line is redrawn, at most 10 times a second, no wider than the window; elsewhere whole
 * lines are printed, for the first step and then every max(30 s, 1 % of the steps). */
typedef struct tri_progress_out {
    FILE *file;
    int terminal, width;  /* columns, used if the file's own width is unknown; 0: 80 */
    int color, quiet;     /* quiet: warnings only */
} tri_progress_out;
tri_status tri__progress_open(const tri_progress_out *out, tri_sink *sink);
void tri__progress_close(tri_sink *sink);

/* trace-rank<r>.json in the folder, for Perfetto and chrome://tracing, from the PROFILE event. */
tri_status tri__trace_open(const char *folder, tri_sink *sink);

/* profile-rank<r>.json in the folder: the PROFILE event's facts, written anew at each of them. */
tri_status tri__profile_file_open(const char *folder, tri_sink *sink);

/* Tables of the PROFILE event with spans, to profile.txt in the folder and to `out`, which may be NULL: parts of the
 * step, the ten costliest operations, transfers by kind, modules. */
tri_status tri__profile_open(const char *folder, FILE *out, int color, tri_sink *sink);

/* validation-last.csv and validation-best.csv in the folder: probabilities of the last and of the best validation; none
 * beyond 32 M probabilities. */
tri_status tri__validation_open(const char *folder, tri_sink *sink);

/* summary.json in the folder: the END event's facts. After UNCHANGED only its time is new. */
tri_status tri__summary_open(const char *folder, tri_sink *sink);
