/* calibrate_start.c - start-up and the time between steps, from short runs of `trident train`. */
#include "cli/calibrate_start.h"

#include "base/clock.h"
#include "base/file.h"
#include "cli/bench/lab_data.h"
#include "cli/bench/runs.h"
#include "study/study.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 30, TRIES = 3, MOST_BYTES = 16 << 20 };

static const char *const always[] = {"--save-every=0", "--resume=never", "--quiet", "--threads=1", "--device=cpu"};
enum { ALWAYS = sizeof always / sizeof *always };

/* Of a run: seconds from its start to its end, of them in steps; and when the first and the last step were reported. */
typedef struct run_times {
    double all, steps, first_step, first, last;
} run_times;

static tri_status take_event(const char *line, const char *path, run_times *times) {
    tri_json *event;
    TRI_TRY(tri__json_parse(line, strlen(line), path, TRI_DATA, &event));
    const char *kind = tri__text_of(event, "event");
    if (kind && strcmp(kind, "train") == 0) {
        double at = tri__number_of(event, "ts"), took = tri__number_of(event, "step_ms") / 1e3;
        if (times->steps == 0) times->first = at, times->first_step = took;
        times->steps += took, times->last = at;
    }
    tri__json_decref(event);
    return TRI_OK;
}

static tri_status read_events(const char *folder, run_times *times) {
    char path[TRI_PATH_MAX], *text, *rest, *line;
    size_t size;
    TRI_TRY(tri__path_join(path, folder, "metrics.jsonl"));
    TRI_TRY(tri__file_read(path, MOST_BYTES, &text, &size));
    tri_status status = TRI_OK;
    for (line = strtok_r(text, "\n", &rest); line && status == TRI_OK; line = strtok_r(NULL, "\n", &rest))
        status = take_event(line, path, times);
    free(text);
    return status;
}

static tri_status run_once(const tri_cli *cli, const char *folder, int ranks, run_times *times) {
    tri_settings settings;
    int n_words;
    tri_run_line *l = calloc(1, sizeof *l);
    if (!l) return tri__fail(TRI_RESOURCE, "out of memory");
    tri__run_line_add(l, "%s", cli->argv[0]);
    tri__run_line_add(l, "train");
    tri__run_line_add(l, "--config=%s/config.json", folder);
    tri__run_line_add(l, "--data-path=%s/data", folder);
    tri__run_line_add(l, "--output-dir=%s/run", folder);
    tri__run_line_add(l, "--nproc-per-node=%d", ranks);
    tri__run_line_add(l, "--global-batch-size=%d", tri__lab_models[0].samples);
    tri__run_line_add(l, "--max-steps=%d", STEPS);
    for (int i = 0; i < ALWAYS; i++) tri__run_line_add(l, "%s", always[i]);
    tri_status status = tri__settings_init(&settings);
    if (status == TRI_OK)
        status = tri__settings_parse(&settings, "train", l->n - 2, (const char *const *)l->argv + 2, NULL, 0, &n_words);
    *times = (run_times){0};
    double begin = tri__clock();
    if (status == TRI_OK) status = tri__study_prepare(&settings, cli->stop);
    if (status == TRI_OK) status = tri__run_line_start(cli, l, &settings);
    times->all = tri__clock() - begin;
    if (status == TRI_OK) status = read_events(settings.output_dir, times);
    tri__bench_remove(settings.output_dir);
    tri__settings_free(&settings);
    free(l);
    return status;
}

/* The run that needed the least time outside its steps. */
static tri_status run_best(const tri_cli *cli, const char *folder, int ranks, run_times *best) {
    for (int i = 0; i < TRIES; i++) {
        run_times times;
        TRI_TRY(run_once(cli, folder, ranks, &times));
        if (i == 0 || times.all - times.steps < best->all - best->steps) *best = times;
    }
    return TRI_OK;
}

tri_status tri__calibrate_start(const tri_cli *cli, tri_hardware *out) {
    char folder[TRI_PATH_MAX];
    run_times one, two;
    TRI_TRY(tri__bench_folder(cli, folder));
    tri_status status = tri__lab_write(&tri__lab_models[0], 1, folder, tri__lab_models[0].samples * STEPS);
    if (status == TRI_OK) status = run_best(cli, folder, 1, &one);
    if (status == TRI_OK) status = run_best(cli, folder, 2, &two);
    tri__bench_remove(folder);
    TRI_TRY(status);
    out->host.step = fmax(0, (one.last - one.first - (one.steps - one.first_step)) / (STEPS - 1));
    out->host.start = fmax(0, one.all - one.steps - STEPS * out->host.step);
    out->host.rank_start = fmax(0, (two.all - two.steps) - (one.all - one.steps));
    return TRI_OK;
}
