/* sinks.c - opens the sinks of a run's events, and records how the run ended. */
#include "cli/cli.h"

#include "job/failure.h"
#include "report/sinks/sinks.h"
#include "train/run.h"

tri_status tri__cli_progress(const tri_cli *cli, int quiet, tri_sink *sink) {
    tri_progress_out out = {
        .file = cli->err, .terminal = cli->err_terminal, .width = cli->width, .color = cli->err_color, .quiet = quiet};
    return tri__progress_open(&out, sink);
}

void tri__outcome_free(tri_outcome *outcome) {
    free(outcome->checkpoint);
    tri__json_decref(outcome->summary);
    *outcome = (tri_outcome){0};
}

/* A sink that records what the command needs after the run. */
typedef struct watch {
    tri_outcome *outcome;
    char error[TRI_PATH_MAX]; /* error.json of the run folder */
    int started;              /* the run has acquired its folder */
    tri_signal_words words;   /* the reply to a signal from then on */
} watch;

static tri_status watch_emit(void *context, const tri_event *event) {
    watch *w = context;
    tri_outcome *outcome = w->outcome;
    outcome->step = event->step > outcome->step ? event->step : outcome->step;
    if (event->kind == TRI_EVENT_START) {
        w->started = 1;
        tri__signals_say(w->words);
    }
    if (event->kind == TRI_EVENT_START || event->kind == TRI_EVENT_UNCHANGED)
        (void)tri__file_remove(w->error); /* of an earlier run; a run that is complete failed after its end */
    const char *last = event->kind == TRI_EVENT_END ? tri__text_in(event->facts, "checkpoint")
                       : event->kind == TRI_EVENT_CHECKPOINT || event->kind == TRI_EVENT_UNCHANGED ? event->text
                                                                                                     : NULL;
    if (last) {
        free(outcome->checkpoint);
        if (!(outcome->checkpoint = strdup(last))) return tri__fail(TRI_RESOURCE, "out of memory");
    }
    if (event->kind != TRI_EVENT_END && event->kind != TRI_EVENT_UNCHANGED) return TRI_OK;
    outcome->unchanged = event->kind == TRI_EVENT_UNCHANGED;
    tri__json_decref(outcome->summary);
    outcome->summary = tri__json_deep_copy(event->facts);
    return outcome->summary ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

/* A sink whose file only the report reads: where it fails, a warning is given once and the run goes on. */
typedef struct spare {
    tri_sink sink;
    const tri_sink *tell; /* takes the warning; NULL: err does */
    FILE *err;
    int failed;
} spare;

static tri_status spare_emit(void *context, const tri_event *event) {
    spare *s = context;
    char text[TRI_PATH_MAX + 256];
    if (s->sink.emit(s->sink.context, event) == TRI_OK || s->failed++) return TRI_OK;
    snprintf(text, sizeof text, "%s; the run goes on, its report will lack this", tri_error());
    if (s->tell)
        return s->tell->emit(s->tell->context, &(tri_event){.kind = TRI_EVENT_MESSAGE, .level = TRI_LOG_WARN,
                                                            .text = text, .time = event->time, .step = event->step,
                                                            .steps = event->steps, .epoch = event->epoch});
    fprintf(s->err, "warning: %s\n", text);
    return TRI_OK;
}

/* Tells the caller of tri_run_command. */
static tri_status tell_caller(void *context, const tri_event *event) {
    tri_cli *cli = context;
    TRI_OWNED(tri__free_at) char *line = NULL;
    size_t n;
    FILE *out = open_memstream(&line, &n);
    tri_status status = out ? tri__metrics_line(out, event) : TRI_OK;
    if (!out || fclose(out)) status = tri__fail(TRI_RESOURCE, "out of memory for an event");
    const tri_caller *caller = cli->caller;
    if (status == TRI_OK && n && caller->event(caller->context, line, n)) atomic_store(&cli->stop->signal, -1);
    return status;
}

enum { CALLER, WATCH, METRICS, TFEVENTS, TRACE, PROFILE_FILE, VALIDATION, SUMMARY, PROFILE, PROGRESS, SINKS };

static tri_status open_all(tri_cli *cli, const tri_settings *settings, watch *w, tri_sink sinks[static SINKS]) {
    const char *folder = settings->output_dir;
    if (cli->caller && cli->caller->event) sinks[CALLER] = (tri_sink){tell_caller, cli};
    sinks[WATCH] = (tri_sink){watch_emit, w};
    TRI_TRY(tri__metrics_open(folder, settings->elastic, &sinks[METRICS]));
    TRI_TRY(tri__tfevents_open(folder, &sinks[TFEVENTS]));
    TRI_TRY(tri__trace_open(folder, &sinks[TRACE]));
    TRI_TRY(tri__profile_file_open(folder, &sinks[PROFILE_FILE]));
    TRI_TRY(tri__validation_open(folder, &sinks[VALIDATION]));
    TRI_TRY(tri__summary_open(folder, &sinks[SUMMARY]));
    TRI_TRY(tri__profile_open(folder, settings->json ? NULL : cli->out, cli->out_color, &sinks[PROFILE]));
    return tri__cli_progress(cli, settings->quiet, &sinks[PROGRESS]);
}

/* Closing flushes. Returns the first failure, that of the run before any other. */
static tri_status close_all(tri_sink sinks[static SINKS], tri_status status) {
    tri_words words;
    tri__progress_close(&sinks[PROGRESS]);
    for (int i = PROFILE; i >= TRACE; i--) tri__sink_close(&sinks[i]);
    tri__words_keep(&words);
    tri_status tfevents = tri__tfevents_close(&sinks[TFEVENTS]), metrics = tri__metrics_close(&sinks[METRICS]);
    if (status == TRI_OK) return metrics != TRI_OK ? metrics : tfevents;
    tri__words_restore(&words);
    return status;
}

int tri__goes_on(const tri_settings *settings, const tri_world *world) {
    tri_failure failure;
    if (!settings->elastic || !world || (world->failed == TRI_OK && !world->regroups)) return 0;
    if (!world->watcher) return 1; /* the supervisor decides */
    return world->outlives && tri__control_failure(world->segment.control, &failure) &&
           tri__is_crash(failure.code, 0) && failure.rank != world->rank;
}

/* Whether a run that was complete before ended without its report: out of memory or disk, after its summary. */
static int lacks_report(const tri_outcome *outcome, const char *folder) {
    char path[TRI_PATH_MAX];
    int there;
    return outcome->unchanged && tri__path_join(path, folder, "report.html") == TRI_OK &&
           tri__file_there(path, &there) == TRI_OK && !there;
}

/* Under ULFM a rank that crashes ends alone: the others go on. */
static void record(const tri_settings *settings, tri_world *world, tri_status status, int64_t step) {
    if (status == TRI_OK || status == TRI_STOPPED || (world && world->outlives && tri__is_crash(status, 0))) return;
    tri__failure_record(world, settings->output_dir, status, step);
}

/* Ranks other than the first write only their profile and trace. */
static tri_status train_quietly(const tri_cli *cli, const tri_settings *settings, tri_world *world) {
    spare profile = {.err = cli->err};
    tri_sink sinks[2] = {{0}, {spare_emit, &profile}}, tee = {0};
    tri_status status = tri__trace_open(settings->output_dir, &sinks[0]);
    if (status == TRI_OK) status = tri__profile_file_open(settings->output_dir, &profile.sink);
    if (status == TRI_OK) status = tri__tee_open(sinks, 2, &tee);
    if (status != TRI_OK) tri_world_fail(world, status, tri_error());
    else status = tri__run_train(settings, world, &tee, cli->stop);
    tri__sink_close(&tee);
    tri__sink_close(&profile.sink);
    tri__sink_close(&sinks[0]);
    if (!tri__goes_on(settings, world)) record(settings, world, status, -1);
    return status;
}

tri_status tri__train_with_sinks(tri_cli *cli, const tri_settings *settings, tri_world *world, tri_outcome *outcome) {
    if (world && tri_world_rank(world) > 0) return train_quietly(cli, settings, world);
    int unsaved = !settings->save_every && !settings->save_steps, ranks = world && tri_world_size(world) > 1;
    watch w = {.outcome = outcome,
               .words = ranks     ? (unsaved ? TRI_SIGNAL_RANKS_UNSAVED : TRI_SIGNAL_RANKS)
                        : unsaved ? TRI_SIGNAL_STEP_UNSAVED
                                  : TRI_SIGNAL_STEP};
    tri_sink sinks[SINKS] = {0}, tee = {0};
    TRI_TRY(tri__path_join(w.error, settings->output_dir, "error.json"));
    tri_status status = open_all(cli, settings, &w, sinks);
    spare profile = {sinks[PROFILE_FILE], &tee, cli->err, 0}, validation = {sinks[VALIDATION], &tee, cli->err, 0};
    tri_sink careful[SINKS];
    memcpy(careful, sinks, sizeof careful);
    careful[PROFILE_FILE] = (tri_sink){spare_emit, &profile}, careful[VALIDATION] = (tri_sink){spare_emit, &validation};
    if (status == TRI_OK) status = tri__tee_open(careful, SINKS, &tee);
    if (status == TRI_OK) status = tri__run_train(settings, world, &tee, cli->stop);
    tri__sink_close(&tee);
    status = close_all(sinks, status);
    int goes_on = tri__goes_on(settings, world);
    if (!goes_on && (w.started || world)) record(settings, world, status, outcome->step);
    if (!settings->no_report && !goes_on && (w.started || lacks_report(outcome, settings->output_dir)))
        tri__report_write(cli, settings->output_dir);
    return status;
}
