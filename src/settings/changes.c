/* changes.c - compares a run's configuration with its checkpoint's, key by key: each option's row says what a change
 * means. Another length is another run, unless the run had ended: then more steps can follow. */
#include "settings/settings.h"

/* A key without a row changes the run. */
static tri_effect effect_of(const char *key) {
    const tri_option *const tables[] = {tri__model_options, tri__run_options};
    for (int t = 0; t < 2; t++)
        for (const tri_option *row = tables[t]; row->name; row++)
            if (tri__option_listed(row, "config") && strcmp(row->name, key) == 0) return row->effect;
    return TRI_EFFECT_RUN;
}

/* A member of a configuration; where an older configuration lacks it, its default. */
static const tri_json *member(const tri_json *config, const tri_json *defaults, const char *key) {
    const tri_json *value = tri__json_get(config, key);
    return value ? value : tri__json_get(defaults, key);
}

/* Steps of a run in all. */
static int64_t length_of(const tri_changes *c, const tri_json *config, const tri_json *defaults) {
    int64_t steps = c->batches * tri__json_integer_value(member(config, defaults, "epochs"));
    int64_t limit = tri__json_integer_value(member(config, defaults, "max_steps"));
    return limit && limit < steps ? limit : steps;
}

/* The combined effect of the keys that give the run's length: TRI_EFFECT_LENGTH when a finished run is extended. */
static tri_effect length_effect(const tri_changes *c, const tri_json *defaults) {
    int64_t was = length_of(c, c->was, defaults), now = length_of(c, c->now, defaults);
    return now == was ? TRI_EFFECT_NOTHING : now > was && c->step >= was ? TRI_EFFECT_LENGTH : TRI_EFFECT_RUN;
}

/* The learning rates of a configuration, all of whose keys are set, in a run of `steps`. */
static tri_rates rates_of(const tri_json *config, int64_t steps) {
    static const char *const keys[] = {"lr", "lr_schedule", "lr_power", "warmup_steps", "warmup_ratio"};
    tri_settings s = {0};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        (void)tri__option_set_json(tri__option_find(tri__run_options, keys[i]), &s, keys[i],
                                   tri__json_get(config, keys[i])); /* checked when it was read */
    return tri__rates(&s, steps);
}

/* A finished run is extended: the learning rate, which had fallen to 0, becomes that of the longer run. */
static void say_longer(const tri_changes *c, const tri_json *defaults, const tri_log *log) {
    int64_t was = length_of(c, c->was, defaults), now = length_of(c, c->now, defaults);
    tri_rates rates = rates_of(c->now, now);
    if (!tri__rate_falls(rates.schedule)) {
        tri__say(log, TRI_LOG_INFO, "the run had ended at step %lld and continues to step %lld", (long long)was,
                 (long long)now);
        return;
    }
    tri__say(log, TRI_LOG_INFO, "the run had ended at step %lld and continues to step %lld. Its learning rate is now "
             "that of a run of %lld steps: it had fallen to 0, is %.3g in the next step and falls to 0 again at the "
             "new end", (long long)was, (long long)now, (long long)now, tri__learning_rate(&rates, c->step));
}

/* Changes refused so far: ", lr = 2e-05 (now 0.5)" and "lr,epochs". */
typedef struct refusal {
    char what[900], keys[300];
} refusal;

static int names(const tri_texts *allowed, const char *key) {
    for (int i = 0; i < allowed->n; i++) {
        const char *a = allowed->at[i], *b = key;
        for (; *a && (*a == *b || (*a == '-' && *b == '_')); a++) b++;
        if (!*a && !*b) return 1;
    }
    return 0;
}

static void differ(refusal *r, const tri_texts *allowed, const tri_log *log, tri_effect effect, const char *key,
                   const char *a, const char *b) {
    int refused = effect == TRI_EFFECT_RUN && !names(allowed, key);
    enum { WIDTH = 200 }; /* a list of a thousand columns is shortened */
    char was[4 * WIDTH], is[4 * WIDTH];
    a = tri__text_brief(a, WIDTH, was, sizeof was);
    b = tri__text_brief(b, WIDTH, is, sizeof is);
    if (!refused) {
        const char *why = effect == TRI_EFFECT_ROUNDING ? " (the same numbers, rounded differently)"
                          : effect == TRI_EFFECT_RUN      ? " (allowed)" : "";
        tri__say(log, TRI_LOG_INFO, "%s was %s, is %s%s", key, a, b, why);
        return;
    }
    tri__text_append(r->what, sizeof r->what, ", ", "%s = %s (now %s)", key, a, b);
    tri__text_append(r->keys, sizeof r->keys, ",", "%s", key);
}

/* The members of an object that differ from another's, as text; of other values, the whole value. NULL: out of
 * memory. */
static char *differing(const tri_json *of, const tri_json *other) {
    TRI_OWNED(tri__json_drop) tri_json *members = NULL;
    if (!tri__json_is_object(of) || !tri__json_is_object(other)) return tri__json_line(of);
    if (!(members = tri__json_object())) return NULL;
    tri__json_members(of, m)
        if (!tri__json_equal(m->value, tri__json_get(other, m->key))) tri__json_set(members, m->key, m->value);
    return tri__json_line(members);
}

/* Compares the keys of `now` with `was`; a key that the older configuration lacks had its default. */
static tri_status compare(const tri_changes *c, const tri_json *defaults, const tri_texts *allowed, const tri_log *log,
                          refusal *r) {
    tri__json_members(c->now, m) {
        const tri_json *old = member(c->was, defaults, m->key);
        tri_effect effect = effect_of(m->key);
        if (effect == TRI_EFFECT_BATCH) continue; /* compared by the samples of a step */
        if (effect == TRI_EFFECT_LENGTH) effect = length_effect(c, defaults);
        TRI_OWNED(tri__free_at) char *a = old ? differing(old, m->value) : strdup("nothing"),
                                     *b = differing(m->value, old); /* numbers with the digits that are recorded */
        if (!a || !b) return tri__fail(TRI_RESOURCE, "out of memory");
        if (strcmp(a, b) != 0) differ(r, allowed, log, effect, m->key, a, b);
    }
    tri__json_members(c->was, m) if (!tri__json_get(c->now, m->key))
        differ(r, allowed, log, TRI_EFFECT_RUN, m->key, "set", "a key that this build does not know");
    return TRI_OK;
}

static tri_status no_such_key(const char *name) {
    return tri__fail(TRI_USAGE, "--allow-change %s: there is no such key; give names of options, or data", name);
}

static tri_status check_allowed(const tri_changes *c, const tri_texts *allowed) {
    for (int i = 0; i < allowed->n; i++) {
        const tri_texts one = {.at = &allowed->at[i], .n = 1};
        int known = names(&one, "data");
        tri__json_members(c->now, m) known |= names(&one, m->key);
        tri__json_members(c->was, m) known |= names(&one, m->key);
        if (!known) return no_such_key(allowed->at[i]);
    }
    return TRI_OK;
}

tri_status tri__changes_check_names(const tri_texts *allowed) {
    for (int i = 0; i < allowed->n; i++) {
        const tri_texts one = {.at = &allowed->at[i], .n = 1};
        if (!names(&one, "data") && !tri__option_find(tri__run_options, allowed->at[i]) &&
            !tri__option_find(tri__model_options, allowed->at[i]))
            return no_such_key(allowed->at[i]);
    }
    return TRI_OK;
}

tri_status tri__changes_check(const tri_changes *c, const tri_texts *allowed, const tri_log *log) {
    refusal r = {"", ""};
    TRI_TRY(check_allowed(c, allowed));
    TRI_OWNED(tri__settings_free) tri_settings settings = {0};
    TRI_TRY(tri__settings_init(&settings));
    TRI_OWNED(tri__json_drop) tri_json *defaults = tri__settings_json(&settings);
    if (!tri__json_is_whole(defaults)) return tri__fail(TRI_RESOURCE, "out of memory");
    TRI_TRY(compare(c, defaults, allowed, log, &r));
    if (!r.keys[0] && length_effect(c, defaults) == TRI_EFFECT_LENGTH) say_longer(c, defaults, log);
    if (c->batch_was != c->batch_now) {
        const char *b = TRI_TEXT(32, "%lld", (long long)c->batch_now);
        differ(&r, allowed, log, TRI_EFFECT_RUN, "global_batch_size", TRI_TEXT(32, "%lld", (long long)c->batch_was), b);
    }
    if (c->data)
        differ(&r, allowed, log, TRI_EFFECT_RUN, "data", "the table it was trained on",
               "another, or another version of it");
    if (!r.keys[0]) return TRI_OK;
    return tri__fail(TRI_USAGE,
                     "%s was written with %s: that would be another run. Continue anyway with --allow-change %s, or "
                     "start over with --resume never or another --output-dir", c->path, r.what, r.keys);
}
