/* save.c - what a checkpoint records of a run in addition to tensors; committing one. */
#include "train/session.h"
#include "data/dataset/reference.h"
#include "data/dataset/training_rows.h"

#include "checkpoint/folders.h"
#include "plan/step_kinds.h"

#if defined(__x86_64__)
#define ARCHITECTURE "x86_64"
#elif defined(__aarch64__)
#define ARCHITECTURE "arm64"
#else
#define ARCHITECTURE "unknown"
#endif

const char *tri__build_text(void) { return "trident " TRI_VERSION ", " ARCHITECTURE ", " __VERSION__; }

static tri_json *mesh_json(const tri_mesh *mesh) {
    char order[TRI_MESH_ORDER_TEXT];
    return tri__json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:s}", "world", tri__mesh_world(mesh), "pp", mesh->pp, "tp",
                          mesh->tp, "cp", tri__mesh_cp(mesh), "dp", tri__mesh_readers(mesh), "ep",
                          tri__mesh_ep(mesh), "order", tri__mesh_order(mesh, order));
}

static tri_json *rate_json(const tri_session *s) {
    const tri_settings *set = s->settings;
    return tri__json_pack("{s:f, s:I, s:I, s:f}", "peak", set->lr, "warmup_steps",
                          (tri_json_int)tri__warmup_steps(set, s->steps), "steps", (tri_json_int)s->steps, "next",
                          tri__session_rate(s));
}

/* The position is in samples, so that it is the same for any split of the batch. */
tri_json *tri__session_state(const tri_session *s) {
    const tri_settings *set = s->settings;
    int64_t each = set->batch_asked ? set->batch_asked : set->batch_size;
    int64_t samples = s->at.epoch * s->train->n + s->at.batch * s->sampler.batch;
    const char *data = TRI_TEXT(24, "%016llx", (unsigned long long)s->train->digest);
    tri_json *state = tri__json_pack(
        "{s:f, s:f, s:I, s:I, s:I, s:I, s:s, s:f, s:f, s:I, s:I, s:o, s:o, s:s}", "began", s->began, "seconds",
        tri__session_seconds(s), "samples", (tri_json_int)samples, "rows", (tri_json_int)s->train->n, "global_batch",
        (tri_json_int)s->sampler.batch, "replica_batch", (tri_json_int)each, "data", data, "loss_sum", s->at.loss_sum,
        "weight_sum", s->at.weight_sum, "best_step", (tri_json_int)s->at.best_step, "seed", (tri_json_int)set->seed,
        "mesh", mesh_json(&s->place.mesh), "learning_rate", rate_json(s), "build", tri__build_text());
    if (state && s->at.open_epoch) tri__json_set_new(state, "validate", tri__json_boolean(1));
    if (state && set->best_by == TRI_BEST_LOSS && isfinite(s->at.best))
        tri__json_set_new(state, "best_loss", tri__json_real(s->at.best));
    if (state && s->at.not_better) tri__json_set_new(state, "not_better", tri__json_integer(s->at.not_better));
    if (state && s->best_figures) tri__json_set_new(state, "best_figures", tri__json_deep_copy(s->best_figures));
    if (state && s->at.averaged) tri__json_set_new(state, "averaged_epochs", tri__json_integer(s->at.averaged));
    if (state && s->decision) tri__json_set_new(state, "decision", tri__json_deep_copy(s->decision));
    if (state && s->answers) tri__json_set_new(state, "answers", tri__json_deep_copy(s->answers));
    if (state && s->parts) tri__json_set_new(state, "split", tri__json_deep_copy(s->parts));
    if (state && s->at.step && isfinite(s->last.loss))
        tri__json_set_new(state, "last_loss", tri__json_real(s->last.loss));
    if (state && s->engine.plan.train.scale >= 0)
        tri__json_set_new(state, "loss_scale",
                          tri__json_pack("{s:f, s:i, s:I}", "scale", (double)s->at.scale.scale, "good",
                                         (int)s->at.scale.good, "skipped", (tri_json_int)s->at.skipped));
    const tri_optimizing *how = &s->engine.in.optimizer;
    if (state && tri__is_onebit(how->kind)) /* what defaults were for this run's length */
        tri__json_set_new(state, "step_kinds",
                          tri__json_pack("{s:I, s:I, s:I}", "full_steps", (tri_json_int)how->full_steps,
                                         "var_freeze_step", (tri_json_int)how->var_freeze_step, "met",
                                         (tri_json_int)(s->at.step == how->steps ? s->at.step : how->met)));
    if (state && s->at.skipped_variance != s->at.skipped)
        tri__json_set_new(tri__json_get(state, "loss_scale"), "skipped_variance",
                          tri__json_integer(s->at.skipped_variance));
    return state;
}

tri_json *tri__session_recorded(const tri_session *s) {
    tri_json *config = tri__settings_json(s->settings);
    if (config) tri__json_set_new(config, "primary_encoder", tri__encoder_json(&s->assets.encoder[0]));
    if (config && s->assets.n_texts > 1) /* an encoder that both share is recorded once */
        tri__json_set_new(config, "secondary_encoder",
                          s->assets.n_encoders > 1 ? tri__encoder_json(&s->assets.encoder[1]) : tri__json_null());
    if (config && s->positive >= 0)
        tri__json_set_new(config, "positive_label", tri__json_string(s->preprocess->label[s->positive]));
    return config;
}

tri_status tri__session_open_saver(tri_session *s) {
    if (s->lead) TRI_TRY(tri__checkpoint_sweep(s->settings->output_dir));
    if (s->lead) TRI_TRY(tri__trained_json(s->train, &s->trained));
    if (s->lead) TRI_TRY(tri__reference_fit(s->train, s->preprocess, &s->reference));
    if (s->lead) TRI_TRY(tri__checkpoint_sequence(s->settings->output_dir, &s->sequence));
    return tri__saver_open(s->place.world, &s->engine.saved, s->settings->async_save, &s->saver);
}

tri_status tri__session_save_begin(tri_session *s) {
    TRI_TRY(tri__session_keep_end(s));
    TRI_TRY(tri__engine_fetch(&s->engine));
    int best = s->at.step > 0 && s->at.best_step == s->at.step;
    tri_json *state = tri__session_state(s);
    if (state && s->trained) tri__json_set_new(state, "trained_rows", tri__json_deep_copy(s->trained));
    if (state && s->reference) tri__json_set_new(state, "reference", tri__json_deep_copy(s->reference));
    tri_save_spec what = {.keep = (int)s->settings->keep, .best = best,
                          .out = {.folder = s->settings->output_dir, .step = s->at.step, .sequence = ++s->sequence,
                                  .config = tri__session_recorded(s),
                                  .preprocessing = tri__preprocess_json(s->preprocess), .state = state,
                                  .extras = tri__assets_save, .context = &s->assets}};
    if (what.out.config && what.out.preprocessing && what.out.state) return tri__saver_begin(s->saver, &what);
    tri__save_spec_free(&what);
    return tri__fail(TRI_RESOURCE, "out of memory for a checkpoint");
}

tri_status tri__session_save_advance(tri_session *s, int wait, tri_saved *saved) {
    TRI_TRY(tri__saver_advance(s->saver, wait, saved));
    if (saved->result != TRI_SAVE_FAILED && saved->words[0])
        tri__say(&s->log, TRI_LOG_WARN, "after a checkpoint was saved: %s", saved->words);
    if (saved->result == TRI_SAVE_DONE && s->place.world)
        atomic_store(&s->place.world->segment.control->committed, saved->step + 1);
    return TRI_OK;
}

tri_status tri__session_save(tri_session *s, char folder[static TRI_PATH_MAX]) {
    tri_saved saved;
    TRI_TRY(tri__session_save_begin(s));
    TRI_TRY(tri__session_save_advance(s, 1, &saved));
    if (saved.result == TRI_SAVE_FAILED) return tri__fail(saved.status, "%s", saved.words);
    memcpy(folder, saved.folder, sizeof saved.folder);
    return TRI_OK;
}
