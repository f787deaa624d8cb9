/* save.c - commits checkpoints. Every rank writes the pieces it owns; the lead joins their rows of the manifest and commits. */
#include "train/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Position counted in samples, so that it means the same for any batch split. */
static json_t *state_json(const tri_session *s) {
    int64_t samples = s->at.epoch * s->train->n + s->at.batch * s->sampler.batch;
    json_t *state = json_pack("{s:I, s:I, s:f, s:f, s:I, s:I}", "samples", (json_int_t)samples, "rows", (json_int_t)s->train->n, "loss_sum",
                              s->at.loss_sum, "weight_sum", s->at.weight_sum, "best_step", (json_int_t)s->at.best_step, "seed",
                              (json_int_t)s->settings->seed);
    if (state && isfinite(s->at.best_loss)) json_object_set_new(state, "best_loss", json_real(s->at.best_loss));
    if (state && s->engine.plan.train.scale >= 0)
        json_object_set_new(state, "loss_scale",
                            json_pack("{s:f, s:i, s:I}", "scale", (double)s->at.scale.scale, "good", (int)s->at.scale.good, "skipped",
                                      (json_int_t)s->at.skipped));
    return state;
}

/* The rows of all ranks, joined on the lead. */
static tri_status gather_rows(tri_world *world, int lead, json_t *rows) {
    tri_group *all = tri_group_world(world);
    int n = tri_world_size(world);
    json_t *wrapped = json_pack("{s:O}", "rows", rows);
    char *text = wrapped ? json_dumps(wrapped, JSON_COMPACT) : NULL, *texts = NULL;
    json_decref(wrapped);
    int64_t *counts = calloc((size_t)n, sizeof *counts), own = text ? (int64_t)strlen(text) : 0, total = 0;
    tri_status status = text && counts ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory for the manifest");
    if (status == TRI_OK) status = tri_all_gather(all, &own, counts, 1, NULL, TRI_I64);
    for (int r = 0; status == TRI_OK && r < n; r++) total += counts[r];
    if (status == TRI_OK && lead && !(texts = malloc((size_t)total))) status = tri__fail(TRI_RESOURCE, "out of memory for the manifest");
    if (status == TRI_OK) status = tri_gather(all, text, texts, 0, counts, TRI_U8, 0);
    int64_t at = own; /* the lead is rank 0: its own rows come first */
    for (int r = 1; status == TRI_OK && lead && r < n; at += counts[r++]) {
        json_t *more = NULL;
        status = tri__json_parse(texts + at, (size_t)counts[r], "a rank's part of the manifest", TRI_INTERNAL, &more);
        if (status == TRI_OK) status = tri__checkpoint_join(rows, json_object_get(more, "rows"));
        json_decref(more);
    }
    free(text);
    free(texts);
    free(counts);
    return status;
}

/* On the lead: everything but the pieces is its own doing. Others only write. */
static tri_status save_together(const tri_session *s, const tri_checkpoint_out *out, char made[static TRI_PATH_MAX]) {
    tri_world *world = s->place.world;
    json_t *rows = NULL;
    memset(made, 0, TRI_PATH_MAX);
    if (s->lead) TRI_TRY(tri__checkpoint_begin(out, made));
    TRI_TRY(tri_broadcast(tri_group_world(world), made, TRI_PATH_MAX, TRI_U8, 0));
    tri_status status = tri__checkpoint_write(out, made, s->place.rank, &rows);
    if (status == TRI_OK) status = gather_rows(world, s->lead, rows);
    if (status == TRI_OK && s->lead) status = tri__checkpoint_end(out, made, rows);
    json_decref(rows);
    return status;
}

static tri_status save(const tri_session *s, const tri_checkpoint_out *out) {
    char made[TRI_PATH_MAX];
    if (!s->place.world) return tri__checkpoint_save(out);
    tri__world_doing(s->place.world, TRI_DOING_SAVE, s->at.step);
    tri_status status = save_together(s, out, made);
    if (status != TRI_OK) {
        tri__fail_in(status, "checkpoint of step %lld not saved", (long long)out->step);
        if (s->lead && made[0]) tri__checkpoint_drop(made);
    }
    return status;
}

tri_status tri__session_save(tri_session *s, char folder[static TRI_PATH_MAX]) {
    char name[64];
    TRI_TRY(tri__engine_fetch(&s->engine));
    json_t *config = tri__session_recorded(s), *preprocessing = tri__preprocess_json(s->preprocess), *state = state_json(s);
    tri_status status = tri__fail(TRI_RESOURCE, "out of memory for a checkpoint");
    if (config && preprocessing && state)
        status = save(s, &(tri_checkpoint_out){.folder = s->settings->output_dir,
                                               .step = s->at.step,
                                               .weights = s->engine.saved_weights,
                                               .n_weights = s->engine.n_saved_weights,
                                               .optimizer = s->engine.saved_optimizer,
                                               .n_optimizer = s->engine.n_saved_optimizer,
                                               .config = config,
                                               .preprocessing = preprocessing,
                                               .state = state,
                                               .extras = tri__assets_save,
                                               .context = &s->assets});
    json_decref(config);
    json_decref(preprocessing);
    json_decref(state);
    TRI_TRY(status);
    snprintf(name, sizeof name, "checkpoint-%lld", (long long)s->at.step);
    TRI_TRY(tri__path_join(folder, s->settings->output_dir, name));
    return s->lead ? tri__checkpoint_prune(s->settings->output_dir, (int)s->settings->keep) : TRI_OK;
}
