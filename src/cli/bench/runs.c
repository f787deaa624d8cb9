/* runs.c - starts runs of `trident train` for benchmarks and reads their results. */
#include "cli/bench/runs.h"

#include "base/json.h"
#include "base/workshop.h"
#include "cli/bench/bench.h"
#include "cli/launch.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void tri__run_line_add(tri_run_line *line, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(line->text[line->n], TRI_RUN_LINE_WORD, format, args);
    va_end(args);
    line->argv[line->n] = line->text[line->n];
    line->argv[++line->n] = NULL;
}

tri_status tri__run_line_start(const tri_cli *by, tri_run_line *line, const tri_settings *settings) {
    tri_cli cli = *by;
    cli.argv = line->argv;
    int nothing;
    TRI_TRY(tri__null_open(&nothing));
    cli.out = cli.err = fdopen(nothing, "w"); /* not tri__stream_open: ranks are given its descriptor */
    if (!cli.out) {
        close(nothing);
        return tri__fail(TRI_RESOURCE, "out of memory");
    }
    tri_status status = tri__launch_start(&cli, settings, settings->output_dir, 0);
    fclose(cli.out);
    return status;
}

/* ---- metrics.jsonl ---- */

typedef struct steps {
    const char *path;
    int warmup;
    double *seconds;   /* [n], timed steps */
    size_t n, cap;
    tri_run_steps sum; /* of shares */
} steps;

static tri_status keep(steps *s, const tri_json *event) {
    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 64;
        double *more = realloc(s->seconds, cap * sizeof *more);
        if (!more) return tri__fail(TRI_RESOURCE, "out of memory");
        s->seconds = more, s->cap = cap;
    }
    s->seconds[s->n++] = tri__number_of(event, "step_ms") / 1e3;
    s->sum.loading += tri__number_of(event, "loader_share");
    s->sum.moving += tri__number_of(event, "comm_share");
    s->sum.idle += tri__number_of(event, "idle_share");
    return TRI_OK;
}

/* Adds a line's step if it is a timed one; skips other lines. */
static tri_status take_line(steps *s, const char *text) {
    tri_json *event;
    TRI_TRY(tri__json_parse(text, strlen(text), s->path, TRI_DATA, &event));
    const char *kind = tri__text_of(event, "event");
    tri_status status = TRI_OK;
    if (kind && strcmp(kind, "train") == 0 && tri__number_of(event, "step") > s->warmup) status = keep(s, event);
    tri__json_decref(event);
    return status;
}

tri_status tri__run_steps(const char *folder, int warmup, tri_run_steps *out) {
    char path[TRI_PATH_MAX], *text;
    size_t size;
    steps s = {.path = path, .warmup = warmup};
    TRI_TRY(tri__path_join(path, folder, "metrics.jsonl"));
    TRI_TRY(tri__file_read(path, SIZE_MAX / 2, &text, &size));
    tri_status status = TRI_OK;
    char *rest = text;
    for (char *at; status == TRI_OK && (at = strsep(&rest, "\n")) && *at;) status = take_line(&s, at);
    free(text);
    if (status == TRI_OK && s.n == 0) status = tri__fail(TRI_INTERNAL, "%s: has no steps", path);
    if (status == TRI_OK) {
        double n = (double)s.n;
        *out = (tri_run_steps){.seconds = tri__bench_median(s.seconds, (int64_t)s.n), .loading = s.sum.loading / n,
                               .moving = s.sum.moving / n, .idle = s.sum.idle / n};
    }
    free(s.seconds);
    return status;
}

/* ---- Folders ---- */

tri_status tri__bench_folder(const tri_cli *cli, char folder[static TRI_PATH_MAX]) {
    const char *parent = cli->lookup("TMPDIR");
    tri_workshop workshop; /* locked until the process ends */
    tri_status status = tri__workshop_open(parent && *parent ? parent : "/tmp", &workshop);
    if (status != TRI_OK) return tri__fail_in(status, "TMPDIR may name another place for this bench's files");
    memcpy(folder, workshop.folder, sizeof workshop.folder);
    return TRI_OK;
}

void tri__bench_remove(const char *folder) { (void)tri__folder_remove_all(folder); }
