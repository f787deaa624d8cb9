/* bench_runs.c - starts runs of `trident train` for benchmarks and reads their results. */
#include "cli/bench/bench_runs.h"

#include "cli/bench/bench.h"
#include "cli/launch.h"
#include "study/study.h"

#include <unistd.h>

tri_run_line *tri__run_line_new(const tri_cli *cli, const char *folder, const char *name) {
    tri_run_line *line = calloc(1, sizeof *line);
    if (!line) return NULL;
    tri__run_line_add(line, "%s", cli->argv[0]);
    tri__run_line_add(line, "train");
    if (!name) return line;
    tri__run_line_add(line, "--config=%s/config.json", folder);
    tri__run_line_add(line, "--data-path=%s/data", folder);
    tri__run_line_add(line, "--output-dir=%s/%s", folder, name);
    tri__run_line_add(line, "--save-every=0\t--resume=never\t--quiet");
    return line;
}

void tri__run_line_add(tri_run_line *line, const char *format, ...) {
    char text[TRI_RUN_LINE_WORD], *rest = text, *word;
    int several = strchr(format, '\t') != NULL; /* a path may have a tab, too */
    TRI_FORMAT(text, sizeof text, format);
    while (line && (word = several ? strsep(&rest, "\t") : TRI_GIVE(rest))) {
        line->argv[line->n] = strcpy(line->text[line->n], word);
        line->argv[++line->n] = NULL;
    }
}

tri_status tri__run_line_parse(tri_run_line *line) {
    int n_words;
    if (!line) return tri__fail(TRI_RESOURCE, "out of memory");
    TRI_TRY(tri__settings_init(&line->settings));
    return tri__settings_parse(&line->settings, "train", line->n - 2, (const char *const *)line->argv + 2, NULL, 0,
                               &n_words);
}

tri_status tri__run_line_start(const tri_cli *by, tri_run_line *line) {
    tri_cli cli = *by;
    cli.argv = line->argv;
    int nothing;
    TRI_TRY(tri__study_prepare(&line->settings, by->stop));
    TRI_TRY(tri__null_open(&nothing));
    cli.out = cli.err = fdopen(nothing, "w"); /* not tri__stream_open: ranks are given its descriptor */
    if (!cli.out) {
        close(nothing);
        return tri__fail(TRI_RESOURCE, "out of memory");
    }
    tri_status status = tri__launch_start(&cli, &line->settings, line->settings.output_dir, 0);
    fclose(cli.out);
    return status;
}

void tri__run_line_free(tri_run_line *line) {
    if (line) tri__settings_free(&line->settings);
    free(line);
}

/* ---- metrics.jsonl ---- */

tri_status tri__run_events(const char *folder, tri_status (*take)(void *to, const tri_json *event), void *to) {
    char path[TRI_PATH_MAX], *line;
    TRI_OWNED(tri__free_at) char *text = NULL;
    size_t size;
    TRI_TRY(tri__path_join(path, folder, "metrics.jsonl"));
    TRI_TRY(tri__file_read(path, SIZE_MAX / 2, &text, &size));
    for (char *rest = text; (line = strsep(&rest, "\n")) && *line;) {
        TRI_OWNED(tri__json_drop) tri_json *event = NULL;
        TRI_TRY(tri__json_parse(line, strlen(line), path, TRI_DATA, &event));
        const char *kind = tri__text_in(event, "event");
        if (kind && strcmp(kind, "train") == 0) TRI_TRY(take(to, event));
    }
    return TRI_OK;
}

typedef struct steps {
    int warmup;
    tri_buffer *seconds; /* doubles, of timed steps */
    tri_run_steps sum;  /* of shares */
} steps;

static tri_status keep(void *to, const tri_json *event) {
    steps *s = to;
    if (tri__number_in(event, "step") <= s->warmup) return TRI_OK;
    double seconds = tri__number_in(event, "step_ms") / 1e3;
    tri__buffer_add(s->seconds, (const char *)&seconds, sizeof seconds);
    s->sum.loading += tri__number_in(event, "loader_share");
    s->sum.moving += tri__number_in(event, "comm_share");
    s->sum.idle += tri__number_in(event, "idle_share");
    return TRI_OK;
}

tri_status tri__run_steps(const char *folder, int warmup, tri_run_steps *out) {
    TRI_OWNED(tri__buffer_free) tri_buffer all = {0};
    steps s = {.warmup = warmup, .seconds = &all};
    TRI_TRY(tri__run_events(folder, keep, &s));
    double n = (double)(all.size / sizeof(double)), *seconds = (void *)all.text;
    if (all.failed) return tri__fail(TRI_RESOURCE, "out of memory");
    if (n == 0) return tri__fail(TRI_INTERNAL, "%s/metrics.jsonl: has no steps", folder);
    *out = (tri_run_steps){.seconds = tri__bench_median(seconds, (int64_t)n), .loading = s.sum.loading / n,
                           .moving = s.sum.moving / n, .idle = s.sum.idle / n};
    return TRI_OK;
}

tri_status tri__run_summary(const char *folder, tri_json **out) {
    TRI_PATH(path, folder, "summary.json");
    return tri__json_load(path, TRI_DATA, out);
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
