/* several.c - trainings of folds or seeds, each with an option and a folder of its own, and summary.json or
 * ensemble.json of their figures. */
#include "job/several.h"

int tri__trains_several(const tri_settings *settings) {
    return (settings->folds && !settings->fold) || settings->seeds > 1 || settings->stack;
}

/* The number of training i: its fold, or its seed. */
static int64_t number_of(const tri_several *s, int i) { return s->folds ? i + 1 : s->settings->seed + i; }

static tri_status prepare(tri_several *s, int i, const tri_parent *parent, int n_args, const char *const *args) {
    tri_training *t = &s->training[i];
    const tri_settings *set = s->settings;
    int is_whole = s->table && i == s->n - 1, folds = s->n - (s->table != NULL);
    const char *number = TRI_TEXT(24, "%lld", (long long)number_of(s, i));
    snprintf(t->name, sizeof t->name, s->folds ? "fold %s of %d" : "seed %s", number, folds);
    TRI_PATH(parts, set->output_dir, s->table ? "stack" : "");
    TRI_TRY(tri__path_join(t->folder, parts, TRI_TEXT(48, s->folds ? "fold-%s" : "seed-%s", number)));
    if (is_whole) snprintf(t->name, sizeof t->name, "all rows");
    if (is_whole) TRI_TRY(tri__path_join(t->folder, "", set->output_dir));
    TRI_PATH(cache, set->output_dir, "cache"); /* what is the same for all is made once */
    const tri_change changes[] = {
        {s->title, is_whole ? "0" : number}, {"output_dir", t->folder},
        {"cache_dir", set->cache_dir ? set->cache_dir : cache}, {"json", "false"}, {"seeds", "1"},
        /* of --stack */
        {"stack", "off"}, {"folds", is_whole ? "0" : TRI_TEXT(24, "%d", folds)},
        {"data_path", is_whole || !s->table ? set->data_path : s->table},
        /* of a whole that is not divided */
        {"stratify", "false"}, {"group_by", NULL}};
    t->silent = set->quiet || set->json;
    t->argv = tri__training_argv(parent, n_args, args, changes, !s->table ? 5 : is_whole && !set->split ? 10 : 8);
    return t->argv ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

/* {folds or members: [{fold or seed, folder, figures}], mean, spread}: names of figures are those of an epoch's event
 * in metrics.jsonl. */
static tri_status collect(tri_several *s) {
    TRI_OWNED(tri__json_drop) tri_json *runs = tri__json_array();
    for (int i = 0; i < s->n; i++) {
        tri_json *figures;
        TRI_TRY(tri__training_figures(&s->training[i], &figures));
        tri_json *run = tri__json_pack("{s:I, s:s}", s->title, (tri_json_int)number_of(s, i), "folder",
                                       strrchr(s->training[i].folder, '/') + 1);
        if (figures) tri__json_set_new(run, "figures", figures);
        tri__json_append_new(runs, run);
    }
    s->facts = tri__members_json(s->list, TRI_GIVE(runs));
    tri__json_set_new(s->facts, "format", tri__json_string(s->folds ? "trident-folds" : "trident-ensemble"));
    tri__json_set_new(s->facts, "version", tri__json_integer(1));
    return tri__json_is_whole(s->facts) ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

tri_status tri__several_run(const tri_parent *parent, tri_several *s, int n_args, const char *const *args) {
    s->list = s->folds ? "folds" : "members", s->title = s->folds ? "fold" : "seed";
    TRI_TRY(TRI_NEW(s->training, s->n, "trainings"));
    for (int i = 0; i < s->n; i++) TRI_TRY(prepare(s, i, parent, n_args, args));
    TRI_TRY(tri__trainings_run(parent, s->training, s->n, s->settings->quiet));
    if (s->table) return TRI_OK;
    TRI_TRY(collect(s));
    TRI_TRY(tri__path_join(s->path, s->settings->output_dir, s->folds ? "summary.json" : "ensemble.json"));
    return tri__json_save(s->path, s->facts);
}

void tri__several_free(tri_several *s) {
    for (int i = 0; s->training && i < s->n; i++) free(s->training[i].argv);
    free(s->training);
    tri__json_decref(s->facts);
}
