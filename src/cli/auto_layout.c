/* auto_layout.c - `train --layout auto`: one process chooses, or reads what a run chose before, and tells the others.
 * The choice travels as text: "pp_size=2;shard=zero1;...;global_batch_size=64". */

#include "cli/launch.h"
#include "checkpoint/folders.h"
#include "engine/accept_settings.h"
#include "job/rank_process.h"
#include "study/choose/choose.h"
#include "train/run.h"

enum { TEXT_WORDS = 256 }; /* 32-bit words of a choice's text */

typedef struct choice_text {
    char text[4 * TEXT_WORDS];
} choice_text;

static tri_status add_pair(void *context, const char *key, const char *value) {
    choice_text *c = context;
    size_t n = strlen(c->text);
    snprintf(c->text + n, sizeof c->text - n, "%s%s=%s", n ? ";" : "", key, value);
    return TRI_OK;
}

static tri_status set_pair(tri_settings *settings, const char *pair) {
    char key[64], value[256];
    if (sscanf(pair, "%63[^=]=%255[^\n]", key, value) != 2)
        return tri__fail(TRI_INTERNAL, "\"%s\" is not a key and value of a layout", pair);
    const tri_option *row = tri__option_find(tri__run_options, key);
    if (!row) return tri__fail(TRI_INTERNAL, "\"%s\" is not a key of a layout", key);
    return tri__option_set_text(row, settings, key, value);
}

static tri_status apply(tri_settings *settings, choice_text c) {
    char *rest = NULL;
    for (char *pair = strtok_r(c.text, ";", &rest); pair; pair = strtok_r(NULL, ";", &rest))
        TRI_TRY(set_pair(settings, pair));
    int64_t replicas = tri__settings_replicas(settings);
    settings->batch_size = (settings->global_batch_size + replicas - 1) / replicas;
    return TRI_OK;
}

static void add_batch(choice_text *c, int64_t samples) {
    char number[32];
    snprintf(number, sizeof number, "%lld", (long long)samples);
    add_pair(c, "global_batch_size", number);
}

/* A recorded layout's keys, in the order of a layout, and whether one that is given now has another value. */
typedef struct recorded {
    const tri_settings *settings;
    const tri_json *config; /* recorded */
    tri_json *now;          /* as given */
    choice_text *out;
    int differs;
} recorded;

static tri_status add_recorded(void *context, const char *key, const char *value) {
    recorded *r = context;
    const tri_option *row = tri__option_find(tri__run_options, key);
    const tri_json *was = tri__json_get(r->config, key);
    char typed[TRI_OPTION_TYPED];
    if (!was) return add_pair(r->out, key, value);
    if (tri__settings_given(r->settings, (const char *)r->settings + row->offset))
        r->differs |= !tri__json_equal(was, tri__json_get(r->now, key));
    const char *text = tri__option_typed(was, ',', typed);
    return add_pair(r->out, key, text ? text : "none");
}

/* The configuration of a checkpoint, or of the newest one of a run folder, with its manifest; new references, NULL if
 * there is none: opening the checkpoint later says what is wrong. */
static void load_recorded(const char *path, tri_json **manifest, tri_json **config) {
    char folder[TRI_PATH_MAX], file[TRI_PATH_MAX];
    TRI_KEEP_WORDS();
    *manifest = *config = NULL;
    if (tri__checkpoint_glance(path, folder, manifest) == TRI_OK &&
        tri__path_join(file, folder, "config.json") == TRI_OK)
        (void)!tri__json_load(file, TRI_DATA, config);
}

/* Samples of a step: those of the run that is continued, unless something else is asked for than on its ranks. */
static int64_t samples_of(const tri_settings *s, const tri_json *manifest, const tri_json *config) {
    int64_t was = tri__whole_in(tri__json_get(manifest, "state"), "global_batch"),
            ranks = tri__whole_in(config, "world_size");
    int given = tri__settings_given(s, &s->global_batch_size) || tri__settings_given(s, &s->batch_size);
    if (was > 0 && (!given || (ranks > 0 && tri__choose_batch(s, (int)ranks) == was))) return was;
    return tri__choose_batch(s, (int)s->world_size);
}

/* What is given has to stay: *found 0, and nothing is taken, where a key was recorded with another value. */
static tri_status take_recorded(const tri_settings *s, const tri_json *config, choice_text *out, int *found) {
    const tri_layout any = {.pp = 1, .tp = 1, .cp = 1, .dp = 1, .n_mb = 1, .tp_plan = 1};
    recorded r = {.settings = s, .config = config, .now = tri__settings_json(s), .out = out};
    if (!r.now) return tri__fail(TRI_RESOURCE, "out of memory");
    tri_status status = tri__layout_options(&any, 1, NULL, add_recorded, &r);
    *found = status == TRI_OK && !r.differs;
    if (!*found) out->text[0] = 0;
    tri__json_decref(r.now);
    return status;
}

/* The layout of the checkpoint that the run continues, if it was chosen for as many ranks and has what is given now.
 * *found: 1. */
static tri_status find_recorded(const tri_settings *s, choice_text *out, int *found, int64_t *samples) {
    TRI_OWNED(tri__json_drop) tri_json *manifest = NULL, *config = NULL;
    *found = 0, *samples = tri__choose_batch(s, (int)s->world_size);
    if (strcmp(s->resume, "never") == 0) return TRI_OK;
    load_recorded(strcmp(s->resume, "auto") == 0 ? s->output_dir : s->resume, &manifest, &config);
    const char *layout = tri__text_in(config, "layout");
    *samples = samples_of(s, manifest, config);
    if (layout && strcmp(layout, "auto") == 0 && tri__whole_in(config, "world_size") == s->world_size)
        TRI_TRY(take_recorded(s, config, out, found));
    if (*found) add_batch(out, *samples);
    return TRI_OK;
}

static tri_status search(tri_cli *cli, const tri_settings *s, int64_t samples, choice_text *out) {
    static const tri_choose_options first = {.top = 1, .limit = 400};
    TRI_OWNED(tri__chooser_drop) tri_chooser *chooser = calloc(1, sizeof *chooser); /* large */
    tri_choice choice;
    tri_log silent = {0};
    char text[TRI_LAYOUT_TEXT], time[32];
    int world = (int)s->world_size;
    if (!chooser) return tri__fail(TRI_RESOURCE, "out of memory");
    TRI_TRY(tri__chooser_open(s, 1, &silent, cli->stop, s->output_dir, chooser));
    TRI_TRY(tri__choose(chooser, world, samples, &first, &choice));
    TRI_TRY(tri__layout_options(&choice.best[0].layout, 1, NULL, add_pair, out));
    add_batch(out, choice.global_batch);
    if (!s->quiet)
        fprintf(cli->err, "layout     %s: the first choice of %lld, %s a step on %s (--layout auto)\n",
                tri__layout_text(&choice.best[0].layout, text), (long long)choice.space,
                tri__choose_time(choice.best[0].seconds, time), chooser->hardware.name);
    return TRI_OK;
}

static tri_status choose(tri_cli *cli, const tri_settings *s, choice_text *out) {
    int found;
    int64_t samples;
    TRI_TRY(find_recorded(s, out, &found, &samples));
    if (!found) return search(cli, s, samples, out);
    if (!s->quiet) fprintf(cli->err, "layout     as the checkpoint's: %s (--layout auto)\n", out->text);
    return TRI_OK;
}

/* Rank 0 chooses for all; a failure of it is that of all. */
static tri_status agree(tri_cli *cli, const tri_settings *s, tri_world *world, choice_text *out) {
    int32_t words[TEXT_WORDS] = {0};
    if (tri_world_rank(world) == 0) TRI_TRY(choose(cli, s, out));
    memcpy(words, out->text, sizeof words);
    TRI_TRY(tri_broadcast(tri_group_world(world), words, TEXT_WORDS, TRI_I32, 0));
    memcpy(out->text, words, sizeof words);
    return TRI_OK;
}

/* For the ranks that this process will start. */
static tri_status pass_on(tri_cli *cli, const choice_text *c) {
    const char *const pairs[][2] = {{TRI_LAYOUT_VARIABLE, c->text}};
    char **with = tri__environment_with(cli->environment, pairs, 1); /* lives as long as the process */
    if (!with) return tri__fail(TRI_RESOURCE, "out of memory");
    cli->environment = with;
    return TRI_OK;
}

tri_status tri__cli_layout(tri_cli *cli, tri_settings *s, const tri_launch *launch, tri_world *world) {
    choice_text c = {""};
    int own = launch->launcher == TRI_LAUNCHER_OWN, alone = launch->launcher == TRI_LAUNCHER_NONE;
    const char *told = own ? cli->lookup(TRI_LAYOUT_VARIABLE) : NULL;
    if (s->layout == TRI_LAYOUT_AUTO && !own && !alone && !world) return TRI_OK;
    if (s->layout == TRI_LAYOUT_AUTO) {
        if (told) snprintf(c.text, sizeof c.text, "%s", told);
        else TRI_TRY(world ? agree(cli, s, world, &c) : choose(cli, s, &c));
        TRI_TRY(apply(s, c));
        if (alone && tri__launch_starts(s, launch)) TRI_TRY(pass_on(cli, &c));
    }
    TRI_TRY(tri__run_adopt(s));
    return tri__engine_accept(s);
}
