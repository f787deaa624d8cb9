/* choose_table.c - layouts side by side: of several models, hardwares and numbers of ranks the first choice, and beside
 * it the layouts that the user names. Each row is what `trident choose` with these options alone would do. */
#include "cli/choose.h"

enum { MORE = TRI_LAYOUT_WORDS + 8, WORD = TRI_PATH_MAX + 32 };

typedef struct tabling {
    tri_cli *cli;
    const tri_command_call *call;
    const tri_choose_own *own;
    tri_choose_options how;
    tri_json *rows;
} tabling;

/* Options parsed anew, with those of a group and of a named layout, and what they open. */
typedef struct opened {
    tri_settings settings, given;
    tri_choose_own own;
    tri_chooser chooser;
    char more[MORE][WORD];
    int n_more;
} opened;

/* One model on one hardware; world: of the rows that are being made. */
typedef struct group {
    const char *model, *hardware; /* NULL: --config's, and what the command line says */
    int world;
    opened *with;                 /* its options and its search, without a named layout */
    int64_t samples;              /* of `one`; 0: not simulated yet */
    double one;                   /* samples/s of one device */
} group;

/* "h200x8,a100x8", "h200x8:4" */
static int has_hardwares(const tri_settings *s) { return s->hardware && strpbrk(s->hardware, ",:"); }

int tri__choose_wants_table(const tri_settings *s, const tri_choose_own *own) {
    return s->output || own->layouts.n || own->models.n || own->world_size.n > 1 || has_hardwares(s);
}

/* ---- one model, hardware and layout ---- */

/* "24x2048": a BERT of so many layers and such a width. */
static tri_status set_size(tri_settings *s, const char *model) {
    static const char *const keys[] = {"primary_encoder", "secondary_encoder"};
    tri_model_config *m = &s->model;
    int layers, width, n = m->secondary_text_name || m->secondary_text_list.n ? 2 : 1;
    if (!model || sscanf(model, "%dx%d", &layers, &width) != 2) return TRI_OK;
    for (int i = 0; i < n; i++) {
        TRI_OWNED(tri__json_drop) tri_json *encoder =
            tri__json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:I}",
                           "model_type", "bert", "vocab_size", 28996, "hidden_size", width, "num_hidden_layers",
                           layers, "num_attention_heads", width >= 128 ? width / 64 : 2, "intermediate_size", 4 * width,
                           "max_position_embeddings", (tri_json_int)(m->max_sen_len > 512 ? m->max_sen_len : 512));
        if (!encoder) return tri__fail(TRI_RESOURCE, "out of memory");
        TRI_TRY(tri__option_set_json(tri__option_find(tri__model_options, keys[i]), m, "--models", encoder));
    }
    return TRI_OK;
}

static void add_word(opened *o, const char *flag, const char *value) {
    snprintf(o->more[o->n_more++], WORD, "%s%s", flag, value);
}

/* The words of a group: a model's, and hardware as "h200x8", or "h200x8:4": in machines of 4. */
static void add_group(const tabling *t, const group *g, opened *o) {
    const tri_model_config *base = &t->call->settings.model;
    if (g->hardware) {
        const char *colon = strrchr(g->hardware, ':');
        add_word(o, "--hardware=", g->hardware);
        if (colon) o->more[o->n_more - 1][strlen("--hardware=") + (size_t)(colon - g->hardware)] = 0;
        if (colon) add_word(o, "--nproc-per-node=", colon + 1);
    }
    if (!g->model || strspn(g->model, "0123456789x") == strlen(g->model)) return; /* a size */
    int is_file = strlen(g->model) > 5 && strcmp(g->model + strlen(g->model) - 5, ".json") == 0;
    add_word(o, is_file ? "--config=" : "--primary-tokenizer=", g->model);
    if (!is_file && (base->secondary_text_name || base->secondary_text_list.n))
        add_word(o, "--secondary-tokenizer=", g->model);
}

/* The caller closes *o whatever this returns. */
static tri_status open_options(const tabling *t, const group *g, const tri_layout_words *layout, opened *o) {
    const tri_command_call *call = t->call;
    TRI_OWNED(tri__free_at) const char **args = calloc((size_t)call->n + MORE, sizeof *args);
    int n = 0, none;
    if (!args) return tri__fail(TRI_RESOURCE, "out of memory");
    add_group(t, g, o);
    snprintf(o->more[o->n_more++], WORD, "--world-size=%d", g->world);
    for (int i = 0; i < call->n; i++) args[n++] = call->args[i];
    for (int i = 0; i < o->n_more; i++) args[n++] = o->more[i];
    for (int i = 0; layout && i < layout->n; i++) args[n++] = layout->word[i];
    TRI_TRY(tri__cli_settings(t->cli, &o->settings, "choose", &o->own, n, args, NULL, 0, &none));
    TRI_TRY(set_size(&o->settings, g->model));
    if (!o->settings.config)
        return tri__fail(TRI_USAGE, "--models %s: needs --config, whose columns it takes; or name a .json file",
                         g->model ? g->model : "");
    TRI_TRY(tri__cli_hardware(&o->settings, 0));
    o->given = o->settings;
    return tri__choose_prepare(&o->settings, atoi(o->own.world_size.at[0]));
}

static void close_opened(opened **at) {
    opened *o = *at;
    if (!o) return;
    if (o->chooser.settings.device) tri__chooser_close(&o->chooser);
    tri__settings_free(&o->settings);
    free(o);
}

/* ---- rows ---- */

/* A row: figures of a layout that was simulated, or, where it does not fit, of its plan. c NULL: there is neither. */
static tri_status add_row(const tabling *t, group *g, opened *o, const tri_candidate *c, const char *layout,
                          const char *note, int64_t batch, int world) {
    const tri_choose_asked asked = {.settings = &o->given, .chooser = &o->chooser};
    const tri_candidate none = {0};
    char command[TRI_CHOOSE_LINE] = "";
    int64_t samples = batch > world ? batch / world : 1;
    int runs = c && c->seconds > 0, compares = runs && samples != g->samples && !tri__stop_signalled(t->cli->stop);
    double rate = runs ? (double)batch / c->seconds : 0;
    if (compares) TRI_TRY(tri__choose_one(&g->with->chooser, samples, &t->how, &g->one));
    if (runs) TRI_TRY(tri__choose_command(&asked, &c->layout, batch, world, command));
    g->samples = runs ? samples : g->samples;
    double times = runs && g->one > 0 ? rate / g->one : 0, seconds = runs ? c->seconds : 1;
    if (!c) c = &none;
    tri_json *row = tri__json_pack(
        "{s:s, s:s, s:i, s:s, s:b, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:s, s:s}", "model",
        g->model ? g->model : "", "hardware", g->hardware ? g->hardware : "", "ranks", world, "layout", layout, "fits",
        runs, "memory_bytes", (double)c->need, "state_bytes",
        (double)(c->bytes[TRI_MEM_PARAM] + c->bytes[TRI_MEM_GRAD] + c->bytes[TRI_MEM_STATE]), "step_seconds",
        c->seconds, "samples_per_second", rate, "times", times, "efficiency", times / world, "gather",
        c->moving[TRI_ALL_GATHER] / seconds, "reduce_scatter", c->moving[TRI_REDUCE_SCATTER] / seconds, "exposed",
        c->exposed / seconds, "waiting", c->waiting / seconds, "sent_bytes", c->sent, "note", note, "command", command);
    return tri__json_append_new(t->rows, row) ? tri__fail(TRI_RESOURCE, "out of memory") : TRI_OK;
}

/* A layout that the user names. best: the first choice, NULL: there is none. */
static tri_status add_named(tabling *t, group *g, const tri_layout_words *layout, opened *o,
                            const tri_candidate *best, int64_t batch) {
    tri_candidate c = {0};
    char note[TRI_ERROR_BYTES + 64], why[TRI_WHY_TEXT], need[32], room[32];
    tri_choose_room has;
    snprintf(o->more[o->n_more++], WORD, "--global-batch-size=%lld", (long long)batch);
    TRI_TRY(open_options(t, g, layout, o));
    int world = (int)o->settings.world_size;
    unsigned precisions = tri__choose_precisions(&o->own.precision);
    batch = tri__choose_batch(&o->settings, world);
    if (best && precisions & (precisions - 1)) o->settings.precision = best->layout.precision;
    else if (precisions) o->settings.precision = __builtin_ctz(precisions);
    tri_status status = tri__chooser_open(&o->settings, 0, &t->call->log, t->cli->stop, NULL, &o->chooser);
    if (status == TRI_OK) status = tri__choose_given(&o->chooser, world, batch, &c);
    if (status != TRI_OK && status != TRI_USAGE && status != TRI_RESOURCE) return status;
    if (status != TRI_OK) snprintf(note, sizeof note, "%s", tri_error());
    else if (c.seconds > 0) snprintf(note, sizeof note, "%s", best ? tri__choose_why(best, &c, why) : "");
    else {
        TRI_TRY(tri__choose_room(&o->chooser, world, &has));
        snprintf(note, sizeof note, "does not fit: needs %s of %s %s", tri__text_bytes((double)c.need, need),
                 tri__text_bytes((double)has.bytes, room), has.origin);
    }
    return add_row(t, g, o, &c, layout->name, note, batch, world);
}

/* The first choice, and where nothing else is compared the next ones as well. */
static tri_status add_choices(tabling *t, group *g, tri_choice *choice, int64_t batch) {
    opened *o = g->with;
    char text[TRI_LAYOUT_TEXT], why[TRI_WHY_TEXT];
    int alone = !t->own->layouts.n && t->own->models.n < 2 && t->own->world_size.n < 2 && !g->hardware;
    t->how.deadline = t->own->seconds > 0 ? tri__clock() + t->own->seconds : 0;
    tri_status status = tri__choose(&o->chooser, g->world, batch, &t->how, choice);
    if (status == TRI_USAGE || status == TRI_RESOURCE)
        return add_row(t, g, o, NULL, "none", tri_error(), batch, g->world);
    TRI_TRY(status);
    for (int i = 0; i < (alone ? choice->n_best : 1); i++) {
        const char *note = i                                   ? tri__choose_why(choice->best, &choice->best[i], why)
                           : choice->ended == TRI_CHOOSE_WHOLE ? "first choice"
                                                               : "first choice of a search that was ended early";
        tri__layout_text(&choice->best[i].layout, text);
        TRI_TRY(add_row(t, g, o, &choice->best[i], text, note, batch, g->world));
    }
    return choice->ended == TRI_CHOOSE_SIGNAL ? tri__fail(TRI_STOPPED, "stopped: the table has the rows made so far")
                                              : TRI_OK;
}

static tri_status add_group_rows(tabling *t, group *g) {
    TRI_OWNED(close_opened) opened *o = g->with = calloc(1, sizeof *o);
    tri_choice choice = {0};
    if (!o) return tri__fail(TRI_RESOURCE, "out of memory");
    TRI_TRY(open_options(t, g, NULL, o));
    int64_t batch = tri__choose_batch(&o->settings, g->world);
    TRI_TRY(tri__chooser_open(&o->settings, 0, &t->call->log, t->cli->stop, NULL, &o->chooser));
    TRI_TRY(add_choices(t, g, &choice, batch));
    for (int i = 0, found = 1; found; i++) {
        tri_layout_words layout;
        TRI_TRY(tri__layout_words(&t->own->layouts, i, &layout, &found));
        if (!found || (*layout.model && (!g->model || strcmp(layout.model, g->model)))) continue;
        TRI_OWNED(close_opened) opened *with = NULL;
        TRI_TRY(TRI_NEW(with, 1, "a layout"));
        TRI_TRY(add_named(t, g, &layout, with, choice.n_best ? choice.best : NULL, batch));
    }
    return TRI_OK;
}

/* Every model, hardware and number of ranks. */
static tri_status add_all(tabling *t, char *hardwares) {
    const tri_texts *models = &t->own->models, *worlds = &t->own->world_size;
    const tri_settings *s = &t->call->settings;
    for (int m = 0; m < (models->n ? models->n : 1); m++) {
        TRI_OWNED(tri__free_at) char *list = strdup(hardwares);
        if (!list) return tri__fail(TRI_RESOURCE, "out of memory");
        for (char *end, *rest = list, *name; (name = strsep(&rest, ","));)
            for (int w = 0; w < (worlds->n ? worlds->n : 1); w++) {
                group g = {.model = models->n ? models->at[m] : NULL, .hardware = *name ? name : NULL,
                           .world = (int)s->world_size};
                if (worlds->n) g.world = (int)strtol(worlds->at[w], &end, 10);
                if (worlds->n && (*end || g.world < 1))
                    return tri__fail(TRI_USAGE, "--world-size: expected numbers of ranks, not \"%s\"", worlds->at[w]);
                TRI_TRY(add_group_rows(t, &g));
            }
    }
    return TRI_OK;
}

tri_status tri__choose_table(tri_cli *cli, const tri_command_call *call, const tri_choose_options *how) {
    const tri_settings *s = &call->settings;
    tabling t = {.cli = cli, .call = call, .own = call->own, .how = *how, .rows = tri__json_array()};
    int sized = tri__settings_given(s, &s->world_size) || tri__settings_given(s, &s->nproc_per_node);
    t.how.propose = 0;
    TRI_TRY(tri__layout_table_check(s));
    if (!t.own->world_size.n && !sized)
        return tri__fail(TRI_USAGE, "choose needs --world-size, the number of ranks; or --within, a time");
    int several = has_hardwares(s);
    char title[TRI_PATH_MAX];
    snprintf(title, sizeof title, "Layouts, simulated%s%s", s->hardware ? " on " : "", s->hardware ? s->hardware : "");
    TRI_OWNED(tri__json_drop) tri_json *rows = t.rows;
    tri_status status = add_all(&t, several ? s->hardware : (char *)"");
    if (!tri__json_size(rows) || (status != TRI_OK && status != TRI_STOPPED)) return status;
    tri_words words = tri__words_now();
    TRI_TRY(tri__layout_table_print(cli, s, tri__json_pack(
        "{s:s, s:s, s:b, s:O}", "title", title, "rule",
        "x one device: samples/s against the first choice for one device of the same hardware, with as many samples as "
        "each device of the layout has; efficiency: that by the number of devices",
        "apart", t.own->world_size.n > 1 || t.own->models.n > 1 || several, "rows", rows)));
    tri__words_restore(&words);
    return status;
}
