/* sweep.c - the trials of a sweep as processes, rung after rung. */
#include "job/sweep.h"

#include "job/rank_process.h"
#include "score/best.h"

#include <signal.h>

enum { LOG_BYTES = 64 << 20 };

/* ---- a trial ---- */

/* The file of --config with the trial's values in the place of its own. */
static tri_status write_config(const tri_sweep *s, const tri_sweep_trial *t, const char *path) {
    TRI_OWNED(tri__json_drop) tri_json *config = tri__json_object();
    tri__json_members(s->config, m) {
        const tri_option *row = tri__option_find(tri__model_options, m->key);
        if (!row) row = tri__option_find(tri__run_options, m->key);
        if (!row || !tri__search_find(&s->space, row)) tri__json_set(config, m->key, m->value);
    }
    tri__json_update(config, t->values);
    return tri__json_save(path, config);
}

/* Threads of each rank, so that the trials that run at a time share the cores. */
static int64_t threads_of(const tri_sweep *s) {
    int64_t ranks = s->settings->nproc_per_node, cores = tri__cores();
    if (ranks == TRI_NPROC_CORES) ranks = cores;
    if (ranks == TRI_NPROC_GPUS) ranks = tri__gpus();
    int64_t share = cores / (s->own->parallel * (ranks > 0 ? ranks : 1));
    return share > 0 ? share : 1;
}

/* Where item `at` of "0,1,2" begins; its end when there are fewer. */
static char *item(char *list, int64_t at) {
    for (; at > 0 && *list; at--) list += strcspn(list, ","), list += *list == ',';
    return list;
}

/* The GPUs that this process may use: "2,3", as CUDA reads it; without the variable those of the machine. The caller
 * frees it. */
static char *visible(const tri_parent *parent) {
    const char *said = parent->lookup("CUDA_VISIBLE_DEVICES");
    int n = tri__gpus();
    char *list = said ? strdup(said) : malloc(16 * (size_t)n + 1), *at = list;
    if (said || !list) return list;
    *at = 0;
    for (int i = 0; i < n; i++) at += sprintf(at, "%s%d", i ? "," : "", i);
    return list;
}

/* The environment of a trial in one of the places of trials that train at a time; one allocation. NULL: that of this
 * process. Each gets as many GPUs as it has ranks, as far as there are enough for two; else all trials share all. */
static tri_status environment_of(const tri_sweep *s, int64_t slot, char ***out) {
    const tri_settings *settings = s->settings;
    *out = NULL;
    if (s->own->parallel < 2 || strcmp(settings->device, "cuda") != 0) return TRI_OK;
    TRI_OWNED(tri__free_at) char *list = visible(s->parent);
    if (!list) return tri__fail(TRI_RESOURCE, "out of memory");
    int64_t n = *list ? 1 : 0, ranks = settings->nproc_per_node;
    for (const char *at = list; *at; at++) n += *at == ',';
    int64_t shares = ranks > 0 ? n / ranks : 1; /* auto: a rank for each GPU */
    if (shares >= 2) {
        char *begin = item(list, slot % shares * ranks), *end = item(begin, ranks);
        end[-(end[-1] == ',')] = 0;
        *out = tri__environment_with(s->parent->environment, &(const char *const[2]){"CUDA_VISIBLE_DEVICES", begin}, 1);
    }
    return shares < 2 || *out ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
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
    tri_parent parent = *s->parent;
    TRI_OWNED(tri__free_at) char **environment = NULL;
    TRI_TRY(tri__stop_check_kept(s->parent->stop, "trial %d was next", s->trial[i].number));
    TRI_TRY(tri__path_join(t->folder, set->output_dir, s->trial[i].folder));
    TRI_TRY(tri__path_join(t->log, t->folder, "trial.log"));
    TRI_PATH(config, t->folder, "trial.json");
    TRI_PATH(cache, set->output_dir, "cache"); /* what is the same for all is made once */
    snprintf(t->name, sizeof t->name, "trial %d", s->trial[i].number);
    const char *epochs = TRI_TEXT(24, "%lld", (long long)s->rung[rung].epochs);
    const char *threads = TRI_TEXT(24, "%lld", (long long)threads_of(s));
    TRI_TRY(tri__folder_make(t->folder));
    TRI_TRY(write_config(s, &s->trial[i], config));
    const tri_change changes[] = {
        {"config", config}, {"output_dir", t->folder}, {"cache_dir", set->cache_dir ? set->cache_dir : cache},
        {"until_epoch", epochs}, {"json", "false"}, {"quiet", "false"}, {"threads", threads}};
    int own_threads = s->own->parallel > 1 && !tri__settings_given(set, &set->threads);
    free(t->argv);
    t->argv = tri__training_argv(s->parent, s->n_args, s->args, changes, 6 + own_threads);
    if (!t->argv) return tri__fail(TRI_RESOURCE, "out of memory");
    s->trial[i].slot = free_slot(s);
    TRI_TRY(environment_of(s, s->trial[i].slot, &environment));
    if (environment) parent.environment = environment;
    for (char **at = environment; at && *at && !set->quiet; at++)
        if (!at[1]) tri__tell(&parent, "%s begins on %s", t->name, *at);
    return tri__training_begin(&parent, t);
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
    if (t->code) tri__tell(s->parent, "trial %d failed with exit code %d: %s", t->number, t->code, t->why);
    else
        tri__tell(s->parent, "trial %d: %s %.4f after %lld of %lld epochs", t->number,
                  tri__best_name((tri_best_by)s->settings->best_by), t->figure[t->rungs - 1],
                  (long long)s->rung[t->rungs - 1].epochs, (long long)s->settings->epochs);
}

/* A training has ended: its figure, or its failure, is kept. One that a signal ended has not failed. */
static tri_status record(tri_sweep *s, int i) {
    tri_training *run = &s->training[i];
    tri_sweep_trial *t = &s->trial[i];
    tri_json *figures = NULL;
    if (run->code == TRI_STOPPED || (run->code && tri__stop_signalled(s->parent->stop)))
        return tri__fail(TRI_STOPPED, "%s was stopped: the same command goes on with it", run->name);
    if (tri__sweep_may_succeed(run->code, 0) && t->attempt == TRI_TRIED_ONCE) {
        t->attempt = TRI_TRIED_AGAIN_SOON;
        if (!s->settings->quiet)
            tri__tell(s->parent, "trial %d ended with exit code %d: it is tried again alone, after the others",
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
    int i = tri__training_wait(s->parent, s->training, s->n);
    if (i < 0) return TRI_OK;
    --*running;
    return record(s, i);
}

/* A failure ends the sweep: those that still run are asked to stop and save. */
static tri_status drain(tri_sweep *s, tri_status status, int running) {
    tri_words why;
    tri__words_keep(&why);
    for (int i = 0; i < s->n && status != TRI_OK; i++)
        if (s->training[i].pid && !s->training[i].told) s->training[i].told = kill(s->training[i].pid, SIGTERM) == 0;
    while (running) {
        tri_status ended = wait_one(s, &running);
        if (status != TRI_OK || ended == TRI_OK) continue;
        status = ended;
        tri__words_keep(&why);
    }
    tri__words_restore(&why);
    return status;
}

static void say_rung(const tri_sweep *s, int rung) {
    int n = 0, left = 0;
    for (int i = 0; i < s->n; i++) {
        int member = goes_on(s, &s->trial[i], rung);
        n += member, left += member && s->trial[i].rungs == rung;
    }
    if (!s->settings->quiet)
        tri__tell(s->parent, "---- rung %d of %d: %d trial%s, to epoch %lld of %lld%s", rung + 1, s->n_rungs, n,
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
        if (status == TRI_OK) status = begin(s, i, rung);
        running += status == TRI_OK;
    }
    status = drain(s, status, running);
    for (int i = 0; i < s->n && status == TRI_OK; i++) { /* one at a time: memory may be too little for several */
        if (s->trial[i].attempt != TRI_TRIED_AGAIN_SOON) continue;
        s->trial[i].attempt = TRI_TRIED_AGAIN;
        status = begin(s, i, rung);
        status = drain(s, status, status == TRI_OK);
    }
    return status;
}

/* ---- the whole ---- */

tri_status tri__sweep_draw(tri_sweep *s) {
    const tri_settings *set = s->settings;
    s->n = (int)s->own->trials;
    s->n_rungs = tri__rungs(s->n, set->epochs, (int)s->own->halving, s->rung);
    int digits = snprintf(NULL, 0, "%d", s->n);
    TRI_TRY(TRI_NEW(s->trial, s->n, "trials"));
    TRI_TRY(TRI_NEW(s->training, s->n, "trials"));
    for (int i = 0; i < s->n; i++) {
        tri_sweep_trial *t = &s->trial[i];
        t->number = i + 1;
        snprintf(t->folder, sizeof t->folder, "trial-%0*d", digits < 3 ? 3 : digits, t->number);
        t->values = tri__search_draw(&s->space, (uint32_t)set->seed, t->number);
        if (!t->values) return tri__fail(TRI_RESOURCE, "out of memory");
    }
    return TRI_OK;
}

tri_status tri__sweep_run(tri_sweep *s) {
    TRI_TRY(tri__path_join(s->path, s->settings->output_dir, "sweep.json"));
    TRI_TRY(tri__sweep_load(s));
    TRI_TRY(tri__sweep_save(s));
    s->parent->reply(TRI_SIGNAL_PASSED_ON);
    for (int rung = 0; rung < s->n_rungs; rung++) TRI_TRY(run_rung(s, rung));
    return TRI_OK;
}

/* Whether a trial beats another: more rungs, then the figure, then the lower number. One that failed beats none. */
static int beats(const tri_sweep *s, const tri_sweep_trial *a, const tri_sweep_trial *b) {
    if (!a->code != !b->code) return !a->code;
    if (a->rungs != b->rungs) return a->rungs > b->rungs;
    double x = a->rungs ? a->figure[a->rungs - 1] : 0, y = b->rungs ? b->figure[b->rungs - 1] : 0;
    if (x == y) return a->number < b->number;
    return tri__best_beats((tri_best_by)s->settings->best_by, x, y);
}

const tri_sweep_trial **tri__sweep_order(const tri_sweep *s) {
    const tri_sweep_trial **order = calloc((size_t)s->n, sizeof *order);
    for (int i = 0; order && i < s->n; i++) {
        int at = i;
        for (; at > 0 && beats(s, &s->trial[i], order[at - 1]); at--) order[at] = order[at - 1];
        order[at] = &s->trial[i];
    }
    return order;
}

tri_status tri__sweep_rank(tri_sweep *s, const tri_sweep_trial *const *order) {
    for (int i = 0; i < s->n; i++)
        if (!order[i]->code) s->trial[order[i]->number - 1].rank = i + 1;
    return tri__sweep_save(s);
}

void tri__sweep_free(tri_sweep *s) {
    for (int i = 0; i < s->n; i++) {
        if (s->training) free(s->training[i].argv);
        if (s->trial) tri__json_decref(s->trial[i].values), free(s->trial[i].why);
    }
    TRI_FREE(s->training, s->trial, s->args);
    tri__json_decref(s->config);
    tri__search_free(&s->space);
}
