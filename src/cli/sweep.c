/* sweep.c - `trident sweep`: random search over settings with successive halving. A trial is `trident train` with a
 * configuration of its own, in a folder of its own, a process as if it were started by hand; a rung ends it early
 * (--until-epoch), and the next one resumes it. */
#include "cli/sweep.h"

#include "base/machine.h"
#include "base/text.h"
#include "cli/signals.h"
#include "score/best.h"
#include "data/dataset/data_files.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROW(kind, field, ...) TRI_OWN_ROW(tri_sweep_options, "sweep", kind, field, __VA_ARGS__)
const tri_option tri__sweep_options[] = {
    ROW(TEXT, space, .help = "JSON file: keys of the configuration, and for each the values to search"),
    ROW(INT, trials, .value = "27", .min = 1, .max = 10000, .help = "configurations to draw and train"),
    ROW(INT, parallel, .value = "1", .min = 1, .max = 1024,
        .help = "trials that train at the same time; they share the cores unless --threads says how many each has"),
    ROW(INT, halving, .value = "3", .min = 1, .max = 1000,
        .help = "N: after each rung one in N trials goes on, to N times the epochs; 1: all train to the end"),
    TRI_OWN_END(tri_sweep_options)};
#undef ROW

enum { LOG_BYTES = 64 << 20 };

/* ---- before it begins ---- */

static tri_status accept(const tri_sweep *s) {
    const tri_settings *set = s->settings;
    tri_data_files files;
    if (!set->data_path) return tri__fail(TRI_USAGE, "sweep needs --data-path");
    if (!s->own->space) return tri__fail(TRI_USAGE, "sweep needs --space: a JSON file of keys and their values");
    if (tri__trains_several(set))
        return tri__fail(TRI_USAGE, "--folds (without --fold) and --seeds are several trainings, and a trial is one; "
                                    "search first, then train the best with them");
    if (!set->save_every)
        return tri__fail(TRI_USAGE, "--save-every 0: trials go on from their checkpoints, and need them");
    if (set->max_steps)
        return tri__fail(TRI_USAGE, "--max-steps %lld: rungs are whole epochs; give --epochs",
                         (long long)set->max_steps);
    if (set->until_epoch)
        return tri__fail(TRI_USAGE, "--until-epoch: a sweep decides how long each trial trains; give --epochs");
    if (strcmp(set->resume, "auto"))
        return tri__fail(TRI_USAGE, "--resume %s: trials are resumed from their own checkpoints", set->resume);
    TRI_TRY(tri__trainings_accept(s->cli, "sweep"));
    TRI_TRY(tri__data_files(set->data_path, &files));
    if (!set->split && !set->folds && (files.one || !files.valid[0]))
        return tri__fail(TRI_USAGE,
                         "%s: has no validation table to rank trials by; give a folder that has a valid table beside "
                         "train, or --split",
                         set->data_path);
    return TRI_OK;
}

/* The command line less the options of the sweep alone, each of which takes a value. */
static tri_status take_arguments(tri_sweep *s, int n, const char *const *args) {
    s->args = calloc((size_t)n + 1, sizeof *s->args);
    if (!s->args) return tri__fail(TRI_RESOURCE, "out of memory");
    for (int i = 0; i < n && strcmp(args[i], "--") != 0; i++) {
        char name[TRI_OPTION_FLAG] = "";
        if (tri__text_begins(args[i], "--"))
            snprintf(name, sizeof name, "%.*s", (int)strcspn(args[i] + 2, "="), args[i] + 2);
        if (tri__option_find(tri__sweep_options, name)) {
            i += !strchr(args[i], '=');
            continue;
        }
        const tri_option *row = tri__argument_row(args[i]);
        if (row && tri__search_find(&s->space, row))
            return tri__fail(TRI_USAGE, "%s is given, and %s has values of it to search: leave one out", args[i],
                             s->own->space);
        s->args[s->n_args++] = args[i];
    }
    return TRI_OK;
}

/* ---- a trial ---- */

/* The file of --config with the trial's values in the place of its own. */
static tri_status write_config(const tri_sweep *s, const tri_sweep_trial *t, const char *path) {
    tri_json *config = tri__json_object(), *value;
    const char *key;
    tri__json_each_member(s->config, key, value) {
        const tri_option *row = tri__option_find(tri__model_options, key);
        if (!row) row = tri__option_find(tri__run_options, key);
        if (!row || !tri__search_find(&s->space, row)) tri__json_set(config, key, value);
    }
    tri__json_update(config, t->values);
    tri_status status = tri__json_save(path, config);
    tri__json_decref(config);
    return status;
}

/* Threads of each rank, so that the trials that run at a time share the cores. */
static int64_t threads_of(const tri_sweep *s) {
    int64_t ranks = s->settings->nproc_per_node, cores = tri__cores();
    if (ranks == TRI_NPROC_CORES) ranks = cores;
    if (ranks == TRI_NPROC_GPUS) ranks = tri__gpus();
    int64_t share = cores / (s->own->parallel * (ranks > 0 ? ranks : 1));
    return share > 0 ? share : 1;
}

/* Starts it on its share of the machine's GPUs. */
static tri_status start(const tri_sweep *s, tri_training *t, int64_t slot) {
    tri_cli cli = *s->cli;
    char **environment;
    TRI_TRY(tri__sweep_environment(s->cli, s->settings, s->own->parallel, slot, &environment));
    if (environment) cli.environment = environment;
    for (char **at = environment; at && *at && !s->settings->quiet; at++)
        if (!at[1]) fprintf(s->cli->err, "%s begins on %s\n", t->name, *at);
    tri_status status = tri__training_begin(&cli, t);
    free(environment);
    return status;
}

/* The lowest place that no trial has which trains now. */
static int64_t free_slot(const tri_sweep *s) {
    for (int64_t slot = 0;; slot++) {
        int taken = 0;
        for (int i = 0; i < s->n; i++) taken |= s->training[i].pid && s->trial[i].slot == slot;
        if (!taken) return slot;
    }
}

static tri_status begin(tri_sweep *s, int i, int rung) {
    tri_training *t = &s->training[i];
    const tri_settings *set = s->settings;
    char cache[TRI_PATH_MAX], config[TRI_PATH_MAX], epochs[24], threads[24];
    TRI_TRY(tri__path_join(t->folder, set->output_dir, s->trial[i].folder));
    TRI_TRY(tri__path_join(t->log, t->folder, "trial.log"));
    TRI_TRY(tri__path_join(config, t->folder, "trial.json"));
    TRI_TRY(tri__path_join(cache, set->output_dir, "cache")); /* what is the same for all is made once */
    snprintf(t->name, sizeof t->name, "trial %d", s->trial[i].number);
    snprintf(epochs, sizeof epochs, "%lld", (long long)s->rung[rung].epochs);
    snprintf(threads, sizeof threads, "%lld", (long long)threads_of(s));
    TRI_TRY(tri__folder_make(t->folder));
    TRI_TRY(write_config(s, &s->trial[i], config));
    const tri_change changes[] = {{"config", config},
                                  {"output_dir", t->folder},
                                  {"cache_dir", set->cache_dir ? set->cache_dir : cache},
                                  {"until_epoch", epochs},
                                  {"json", "false"},
                                  {"quiet", "false"},
                                  {"threads", threads}};
    int own_threads = s->own->parallel > 1 && !tri__settings_given(set, &set->threads);
    free(t->argv);
    t->argv = tri__training_argv(s->cli, s->n_args, s->args, changes, 6 + own_threads);
    s->trial[i].slot = free_slot(s);
    return t->argv ? start(s, t, s->trial[i].slot) : tri__fail(TRI_RESOURCE, "out of memory");
}

/* The message of a training that failed: the last of its lines that is one. */
static char *message_of(const tri_training *t) {
    char *text = NULL, *found = NULL, *why = NULL;
    size_t size;
    if (tri__file_read(t->log, LOG_BYTES, &text, &size) == TRI_OK)
        for (char *at = text; (at = strstr(at, "trident: ")) != NULL; at++)
            if (at == text || at[-1] == '\n') found = at + strlen("trident: ");
    if (found) found[strcspn(found, "\n")] = 0;
    if (found) why = strdup(found);
    else if (asprintf(&why, "it left no message; see %s", t->log) < 0) why = NULL;
    free(text);
    return why;
}

static void say(const tri_sweep *s, const tri_sweep_trial *t) {
    if (s->settings->quiet) return;
    if (t->code) fprintf(s->cli->err, "trial %d failed with exit code %d: %s\n", t->number, t->code, t->why);
    else
        fprintf(s->cli->err, "trial %d: %s %.4f after %lld of %lld epochs\n", t->number,
                tri__best_name((tri_best_by)s->settings->best_by), t->figure[t->rungs - 1],
                (long long)s->rung[t->rungs - 1].epochs, (long long)s->settings->epochs);
}

/* A training has ended: its figure, or its failure, is kept. One that a signal ended has not failed. */
static tri_status record(tri_sweep *s, int i) {
    tri_training *run = &s->training[i];
    tri_sweep_trial *t = &s->trial[i];
    tri_json *figures = NULL;
    if (run->code == TRI_STOPPED || (run->code && tri__stop_signalled(s->cli->stop)))
        return tri__fail(TRI_STOPPED, "%s was stopped: the same command goes on with it", run->name);
    if (tri__sweep_may_succeed(run->code, 0) && t->attempt == TRI_TRIED_ONCE) {
        t->attempt = TRI_TRIED_AGAIN_SOON;
        if (!s->settings->quiet)
            fprintf(s->cli->err, "trial %d ended with exit code %d: it is tried again alone, after the others\n",
                    t->number, run->code);
        return TRI_OK;
    }
    t->code = run->code;
    if (!t->code) {
        TRI_TRY(tri__training_figures(run, &figures));
        const tri_json *figure = tri__json_get(figures, tri__best_key((tri_best_by)s->settings->best_by));
        if (tri__json_is_number(figure)) t->figure[t->rungs++] = tri__json_number_value(figure);
        else t->code = TRI_DATA;
        tri__json_decref(figures);
        t->attempt = TRI_TRIED_ONCE; /* of the next rung */
    }
    if (t->code)
        t->why = run->code ? message_of(run) : strdup("the figure of --best-by is not defined on the validation table");
    if (t->code && !t->why) return tri__fail(TRI_RESOURCE, "out of memory");
    say(s, t);
    return tri__sweep_save(s);
}

/* ---- rungs ---- */

/* Whether a trial trains in a rung: it is among the best of those that ended the one before. */
static int goes_on(const tri_sweep *s, const tri_sweep_trial *t, int rung) {
    int better = 0;
    if (t->code || t->rungs < rung) return 0;
    for (int i = 0; rung && i < s->n; i++) {
        const tri_sweep_trial *o = &s->trial[i];
        if (o == t || o->rungs < rung) continue; /* one that failed later took its place, too */
        double x = o->figure[rung - 1], y = t->figure[rung - 1];
        better += x == y ? o->number < t->number : tri__best_beats((tri_best_by)s->settings->best_by, x, y);
    }
    return better < s->rung[rung].trials;
}

static tri_status wait_one(tri_sweep *s, int *running) {
    int i = tri__training_wait(s->cli, s->training, s->n);
    if (i < 0) return TRI_OK;
    --*running;
    return record(s, i);
}

/* A failure ends the sweep: those that still run are asked to stop and save. */
static tri_status drain(tri_sweep *s, tri_status status, int running) {
    char why[1024];
    snprintf(why, sizeof why, "%s", status == TRI_OK ? "" : tri_error());
    for (int i = 0; i < s->n && status != TRI_OK; i++)
        if (s->training[i].pid && !s->training[i].told) s->training[i].told = kill(s->training[i].pid, SIGTERM) == 0;
    while (running) {
        tri_status ended = wait_one(s, &running);
        if (status != TRI_OK || ended == TRI_OK) continue;
        status = ended;
        snprintf(why, sizeof why, "%s", tri_error());
    }
    return status == TRI_OK ? TRI_OK : tri__fail(status, "%s", why);
}

static void say_rung(const tri_sweep *s, int rung) {
    int n = 0, left = 0;
    for (int i = 0; i < s->n; i++) {
        int member = goes_on(s, &s->trial[i], rung);
        n += member, left += member && s->trial[i].rungs == rung;
    }
    if (!s->settings->quiet)
        fprintf(s->cli->err, "---- rung %d of %d: %d trial%s, to epoch %lld of %lld%s\n", rung + 1, s->n_rungs, n,
                n == 1 ? "" : "s", (long long)s->rung[rung].epochs, (long long)s->settings->epochs,
                !left ? "; done before" : left < n ? "; some were done before" : "");
}

static tri_status run_rung(tri_sweep *s, int rung) {
    int running = 0;
    tri_status status = TRI_OK;
    say_rung(s, rung);
    for (int i = 0; i < s->n && status == TRI_OK; i++) {
        if (s->trial[i].rungs != rung || !goes_on(s, &s->trial[i], rung)) continue;
        while (status == TRI_OK && running == s->own->parallel) status = wait_one(s, &running);
        if (status == TRI_OK) status = tri__stop_check_kept(s->cli->stop, "trial %d was next", s->trial[i].number);
        if (status == TRI_OK) status = begin(s, i, rung);
        running += status == TRI_OK;
    }
    status = drain(s, status, running);
    for (int i = 0; i < s->n && status == TRI_OK; i++) { /* one at a time: memory may be too little for several */
        if (s->trial[i].attempt != TRI_TRIED_AGAIN_SOON) continue;
        s->trial[i].attempt = TRI_TRIED_AGAIN;
        status = tri__stop_check_kept(s->cli->stop, "trial %d was next", s->trial[i].number);
        if (status == TRI_OK) status = begin(s, i, rung);
        status = drain(s, status, status == TRI_OK);
    }
    return status;
}

/* ---- the command ---- */

static tri_status draw_trials(tri_sweep *s) {
    int digits = snprintf(NULL, 0, "%d", s->n);
    s->trial = calloc((size_t)s->n, sizeof *s->trial);
    s->training = calloc((size_t)s->n, sizeof *s->training);
    if (!s->trial || !s->training) return tri__fail(TRI_RESOURCE, "out of memory");
    for (int i = 0; i < s->n; i++) {
        tri_sweep_trial *t = &s->trial[i];
        t->number = i + 1;
        snprintf(t->folder, sizeof t->folder, "trial-%0*d", digits < 3 ? 3 : digits, t->number);
        t->values = tri__search_draw(&s->space, (uint32_t)s->settings->seed, t->number);
        if (!t->values) return tri__fail(TRI_RESOURCE, "out of memory");
    }
    return TRI_OK;
}

static tri_status sweep(tri_sweep *s, int n, const char *const *args) {
    const tri_settings *set = s->settings;
    TRI_TRY(accept(s));
    TRI_TRY(tri__search_read(s->own->space, &s->space));
    TRI_TRY(take_arguments(s, n, args));
    if (set->config) TRI_TRY(tri__json_load(set->config, TRI_USAGE, &s->config));
    else if (!(s->config = tri__json_object())) return tri__fail(TRI_RESOURCE, "out of memory");
    s->n = (int)s->own->trials;
    s->n_rungs = tri__rungs(s->n, set->epochs, (int)s->own->halving, s->rung);
    TRI_TRY(draw_trials(s));
    TRI_TRY(tri__folder_lock(set->output_dir, s->cli->stop, &s->lock));
    TRI_TRY(tri__path_join(s->path, set->output_dir, "best.json"));
    if (set->config && tri__file_same(s->path, set->config))
        return tri__fail(TRI_USAGE, "--config %s: this sweep writes its best configuration there; copy it and name the "
                         "copy, or name another --output-dir", set->config);
    TRI_TRY(tri__path_join(s->path, set->output_dir, "sweep.json"));
    TRI_TRY(tri__sweep_load(s));
    TRI_TRY(tri__sweep_save(s));
    tri__signals_say(TRI_SIGNAL_PASSED_ON);
    for (int rung = 0; rung < s->n_rungs; rung++) TRI_TRY(run_rung(s, rung));
    return tri__sweep_end(s);
}

tri_status tri__command_sweep(tri_cli *cli, tri_command_call *call) {
    tri_sweep s = {.cli = cli, .settings = &call->settings, .own = call->own, .lock = -1};
    tri_status status = sweep(&s, call->n, call->args);
    for (int i = 0; i < s.n; i++) {
        if (s.training) free(s.training[i].argv);
        if (!s.trial) continue;
        tri__json_decref(s.trial[i].values);
        free(s.trial[i].why);
    }
    free(s.training);
    free(s.trial);
    free(s.args);
    tri__json_decref(s.config);
    tri__search_free(&s.space);
    if (s.lock >= 0) close(s.lock);
    return status;
}
