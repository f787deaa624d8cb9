/* sweep_state.c - sweep.json: what a sweep is, and how far its trials are. */
#include "job/sweep.h"

#include "score/best.h"

enum { VERSION = 1 };

/* The keys that make another sweep: those that change a run's numbers, and where its rows are. NULL: out of memory. */
static tri_json *identity(const tri_settings *settings) {
    const tri_option *const tables[] = {tri__model_options, tri__run_options};
    TRI_OWNED(tri__json_drop) tri_json *all = tri__settings_json(settings), *kept = tri__json_object();
    for (int t = 0; t < 2; t++)
        for (const tri_option *row = tables[t]; row->name; row++) {
            const tri_json *value = tri__json_get(all, row->name);
            int counts = row->effect >= TRI_EFFECT_LENGTH || !strcmp(row->name, "data_path");
            if (value && counts) tri__json_set(kept, row->name, value);
        }
    return tri__json_is_whole(all) && tri__json_is_whole(kept) ? TRI_GIVE(kept) : NULL;
}

static tri_json *trial_json(const tri_sweep *s, const tri_sweep_trial *t) {
    tri_json *rungs = tri__json_array();
    for (int i = 0; i < t->rungs; i++)
        tri__json_append_new(rungs, tri__json_pack("{s:I, s:f}", "epochs", (tri_json_int)s->rung[i].epochs, "figure",
                                                   t->figure[i]));
    tri_json *out = tri__json_pack("{s:i, s:s, s:O, s:o}", "trial", t->number, "folder", t->folder, "values", t->values,
                                   "rungs", rungs);
    if (t->rank) tri__json_set_new(out, "rank", tri__json_integer(t->rank));
    if (t->code) tri__json_set_new(out, "failed", tri__json_pack("{s:i, s:s}", "code", t->code, "message", t->why));
    return out;
}

tri_json *tri__sweep_json(const tri_sweep *s) {
    tri_json *rungs = tri__json_array(), *trials = tri__json_array();
    for (int i = 0; i < s->n_rungs; i++)
        tri__json_append_new(rungs, tri__json_pack("{s:I, s:i}", "epochs", (tri_json_int)s->rung[i].epochs, "trials",
                                                   s->rung[i].trials));
    for (int i = 0; i < s->n; i++) tri__json_append_new(trials, trial_json(s, &s->trial[i]));
    return tri__json_pack("{s:s, s:i, s:s, s:I, s:o, s:O, s:o, s:o}", "format", "trident-sweep", "version", VERSION,
                          "by", tri__best_name((tri_best_by)s->settings->best_by), "halving",
                          (tri_json_int)s->own->halving, "rungs", rungs, "space", s->space.file, "trials", trials,
                          "config", identity(s->settings));
}

tri_status tri__sweep_save(const tri_sweep *s) {
    TRI_OWNED(tri__json_drop) tri_json *state = tri__sweep_json(s);
    if (!state) return tri__fail(TRI_RESOURCE, "out of memory");
    return tri__json_save(s->path, state);
}

/* ---- taking it up again ---- */

/* Compared as text, with the digits that a file has. `what`: "--halving". */
static tri_status same(const tri_sweep *s, const char *what, const tri_json *was, const tri_json *now) {
    TRI_OWNED(tri__free_at) char *a = was ? tri__json_line(was) : strdup("nothing"),
                                 *b = now ? tri__json_line(now) : strdup("nothing");
    char x[200], y[200];
    if (!a || !b) return tri__fail(TRI_RESOURCE, "out of memory");
    if (strcmp(a, b) != 0)
        return tri__fail(TRI_USAGE,
                         "%s: this sweep was begun with %s %s, now it is %s. Give what it was begun with to go on, "
                         "or another --output-dir for another sweep",
                         s->path, what, tri__text_brief(a, 60, x, sizeof x), tri__text_brief(b, 60, y, sizeof y));
    return TRI_OK;
}

static tri_status same_members(const tri_sweep *s, const char *what, const tri_json *was, const tri_json *now) {
    char name[128];
    tri__json_members(now, m) {
        snprintf(name, sizeof name, "%s%.100s", what, m->key);
        TRI_TRY(same(s, name, tri__json_get(was, m->key), m->value));
    }
    tri__json_members(was, m) {
        snprintf(name, sizeof name, "%s%.100s", what, m->key);
        if (!tri__json_get(now, m->key)) TRI_TRY(same(s, name, m->value, NULL));
    }
    return TRI_OK;
}

static tri_status damaged(const tri_sweep *s) {
    return tri__fail(TRI_DATA, "%s: is not a sweep's state; remove it with its folder to begin anew", s->path);
}

static tri_status compare(const tri_sweep *s, const tri_json *was, const tri_json *now) {
    const char *format = tri__text_in(was, "format");
    if (!format || strcmp(format, "trident-sweep")) return damaged(s);
    if (tri__whole_in(was, "version") != VERSION)
        return tri__fail(TRI_DATA, "%s: was written by another version of Trident", s->path);
    size_t n = tri__json_size(tri__json_get(was, "trials"));
    TRI_OWNED(tri__json_drop) tri_json *a = tri__json_integer((tri_json_int)n), *b = tri__json_integer(s->n);
    if (!a || !b) return tri__fail(TRI_RESOURCE, "out of memory");
    TRI_TRY(same(s, "--trials", a, b));
    TRI_TRY(same(s, "--halving", tri__json_get(was, "halving"), tri__json_get(now, "halving")));
    TRI_TRY(same_members(s, "the configuration's ", tri__json_get(was, "config"), tri__json_get(now, "config")));
    return same_members(s, "the space's ", tri__json_get(was, "space"), tri__json_get(now, "space"));
}

static tri_status take_trial(const tri_sweep *s, tri_sweep_trial *t, const tri_json *was) {
    const tri_json *rungs = tri__json_get(was, "rungs"), *failed = tri__json_get(was, "failed");
    if (!tri__json_is_array(rungs) || tri__json_size(rungs) > (size_t)s->n_rungs) return damaged(s);
    tri__json_items(rungs, rung) {
        if (!tri__json_is_number(tri__json_get(rung, "figure"))) return damaged(s);
        t->figure[t->rungs++] = tri__number_in(rung, "figure");
    }
    if (!failed) return TRI_OK;
    const char *why = tri__text_in(failed, "message");
    t->code = (int)tri__whole_in(failed, "code");
    t->why = strdup(why ? why : "");
    return t->why ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

int tri__sweep_may_succeed(int code, int later) {
    return code == TRI_RESOURCE || code == TRI_BUSY || code == TRI_IO || code > 128 || (later && code == TRI_NOINPUT);
}

/* Trials that failed are tried again. Where later rungs were decided without them, those that went on stay, and one of
 * them that is among the best after all goes on as well. */
static void forgive(tri_sweep *s) {
    for (int i = 0; i < s->n; i++) {
        tri_sweep_trial *t = &s->trial[i];
        if (!tri__sweep_may_succeed(t->code, 1)) continue;
        t->code = 0;
        free(t->why);
        t->why = NULL;
    }
}

tri_status tri__sweep_load(tri_sweep *s) {
    TRI_OWNED(tri__json_drop) tri_json *was = NULL, *now = NULL;
    int there;
    TRI_TRY(tri__file_there(s->path, &there));
    if (!there) return TRI_OK;
    TRI_TRY(tri__json_load(s->path, TRI_DATA, &was));
    TRI_TRY((now = tri__sweep_json(s)) ? compare(s, was, now) : tri__fail(TRI_RESOURCE, "out of memory"));
    for (int i = 0; i < s->n; i++)
        TRI_TRY(take_trial(s, &s->trial[i], tri__json_at(tri__json_get(was, "trials"), (size_t)i)));
    forgive(s);
    return TRI_OK;
}
