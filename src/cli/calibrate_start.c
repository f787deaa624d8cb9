/* calibrate_start.c - start-up and the time between steps, from short runs of `trident train`. */
#include "cli/calibrate_start.h"

#include "base/clock.h"
#include "cli/bench/models.h"
#include "cli/bench/runs.h"

#include <math.h>

enum { STEPS = 30, TRIES = 3 };

/* Of a run: seconds from its start to its end, of them in steps; and when the first and the last step were reported. */
typedef struct run_times {
    double all, steps, first_step, first, last;
} run_times;

static tri_status take_event(void *to, const tri_json *event) {
    run_times *times = to;
    double at = tri__number_of(event, "ts"), took = tri__number_of(event, "step_ms") / 1e3;
    if (times->steps == 0) times->first = at, times->first_step = took;
    times->steps += took, times->last = at;
    return TRI_OK;
}

static tri_status run_once(const tri_cli *cli, const char *folder, int ranks, run_times *times) {
    tri_run_line *l = tri__run_line_new(cli, folder, "run");
    tri__run_line_add(l, "--nproc-per-node=%d", ranks);
    tri__run_line_add(l, "--global-batch-size=%d", tri__lab_models[0].samples);
    tri__run_line_add(l, "--max-steps=%d", STEPS);
    tri__run_line_add(l, "--threads=1");
    tri__run_line_add(l, "--device=cpu");
    tri_status status = tri__run_line_parse(l);
    *times = (run_times){0};
    double begin = tri__clock();
    if (status == TRI_OK) status = tri__run_line_start(cli, l);
    times->all = tri__clock() - begin;
    if (status == TRI_OK) status = tri__run_events(l->settings.output_dir, take_event, times);
    if (l) tri__bench_remove(l->settings.output_dir);
    tri__run_line_free(l);
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
    tri_status status = tri__bench_write(&tri__lab_models[0], folder, tri__lab_models[0].samples * STEPS);
    if (status == TRI_OK) status = run_best(cli, folder, 1, &one);
    if (status == TRI_OK) status = run_best(cli, folder, 2, &two);
    tri__bench_remove(folder);
    TRI_TRY(status);
    out->host.step = fmax(0, (one.last - one.first - (one.steps - one.first_step)) / (STEPS - 1));
    out->host.start = fmax(0, one.all - one.steps - STEPS * out->host.step);
    out->host.rank_start = fmax(0, (two.all - two.steps) - (one.all - one.steps));
    return TRI_OK;
}
