/* resume.c - continues from a checkpoint: weights, optimizer state, the position. The first rank lists the checkpoints.
 * If any rank finds one damaged, no rank uses it, and all try the one before it. One that cannot be read for another
 * reason (out of memory or descriptors, a failing disk) ends the run: it may be intact, and continuing from an older
 * one would lose steps. */
#include "checkpoint/folders.h"
#include "score/best.h"
#include "plan/step_kinds.h"
#include "train/session.h"

static double number(const tri_json *object, const char *key, double otherwise) {
    const tri_json *value = tri__json_get(object, key);
    return tri__json_is_number(value) ? tri__json_number_value(value) : otherwise;
}

static int64_t integer(const tri_json *object, const char *key, int64_t otherwise) {
    const tri_json *value = tri__json_get(object, key);
    return tri__json_is_integer(value) ? tri__json_integer_value(value) : otherwise;
}

/* ---- Continuing from one that all can read ---- */

/* Fields that a manifest's state must have to continue at the right position. Optional ones are not listed. */
static tri_status check_fields(const tri_checkpoint *checkpoint, const char *where, const tri_json *object,
                               const char *const *names, int (*is_kind)(const tri_json *), const char *kind) {
    for (; *names; names++)
        if (!is_kind(tri__json_get(object, *names)))
            return tri__fail(TRI_DATA, "%s/manifest.json: %s.%s is missing, or not %s",
                             tri__checkpoint_path(checkpoint), where, *names, kind);
    return TRI_OK;
}

static tri_status check_state(const tri_checkpoint *checkpoint) {
    static const char *const integers[] = {"samples",   "rows", "global_batch", "replica_batch",
                                           "best_step", "seed", NULL};
    static const char *const numbers[] = {"began", "loss_sum", "weight_sum", NULL};
    static const char *const texts[] = {"data", "build", NULL};
    static const char *const scale_numbers[] = {"scale", NULL}, *const scale_integers[] = {"good", "skipped", NULL};
    const tri_json *state = tri__checkpoint_state(checkpoint), *scale = tri__json_get(state, "loss_scale");
    TRI_TRY(check_fields(checkpoint, "state", state, integers, tri__json_is_integer, "a whole number"));
    TRI_TRY(check_fields(checkpoint, "state", state, numbers, tri__json_is_number, "a number"));
    TRI_TRY(check_fields(checkpoint, "state", state, texts, tri__json_is_string, "a text"));
    if (!scale) return TRI_OK;
    TRI_TRY(check_fields(checkpoint, "state.loss_scale", scale, scale_numbers, tri__json_is_number, "a number"));
    return check_fields(checkpoint, "state.loss_scale", scale, scale_integers, tri__json_is_integer, "a whole number");
}

static tri_status check_same(const tri_session *s, const tri_checkpoint *checkpoint) {
    const tri_json *state = tri__checkpoint_state(checkpoint), *split = tri__json_get(state, "split");
    /* Of a divided table, rows for validation and test count as well. */
    int is_other_split = s->parts && split && !tri__json_equal(split, s->parts);
    const char *data = tri__text_in(state, "data"), *build = tri__text_in(state, "build");
    const char *digest = TRI_TEXT(24, "%016llx", (unsigned long long)s->train->digest);
    TRI_OWNED(tri__json_drop) tri_json *now = tri__session_recorded(s);
    if (!tri__json_is_whole(now)) return tri__fail(TRI_RESOURCE, "out of memory");
    tri_changes changes = {.was = tri__checkpoint_config(checkpoint), .now = now,
                           .data = (data && strcmp(data, digest) != 0) || is_other_split,
                           .batch_was = integer(state, "global_batch", s->sampler.batch), .batch_now = s->sampler.batch,
                           .step = tri__checkpoint_step(checkpoint), .batches = s->batches,
                           .path = tri__checkpoint_path(checkpoint)};
    tri_status status = tri__changes_check(&changes, &s->settings->allow_change, &s->log);
    if (status == TRI_OK && build && strcmp(build, tri__build_text()) != 0)
        tri__say(&s->log, TRI_LOG_INFO, "it was written by another build (%s): the run goes on, but rounds differently",
                 build);
    return status;
}

/* The best validation's figure. Where best_by was another (--allow-change), that validation stays the best until one
 * beats its figure by the new one. */
static double best_of(const tri_session *s, const tri_json *state) {
    tri_best_by by = (tri_best_by)s->settings->best_by;
    double figure = number(tri__json_get(state, "best_figures"), tri__best_key(by), NAN);
    return by == TRI_BEST_LOSS ? number(state, "best_loss", figure) : figure;
}

static void take_position(tri_session *s, const tri_checkpoint *checkpoint) {
    const tri_json *state = tri__checkpoint_state(checkpoint), *scale = tri__json_get(state, "loss_scale");
    s->began = number(state, "began", s->began);
    int64_t samples = integer(state, "samples", 0), rows = integer(state, "rows", s->train->n);
    if (rows < 1) rows = s->train->n;
    s->at = (tri_position){.step = tri__checkpoint_step(checkpoint), .epoch = samples / rows,
                           .batch = samples % rows / s->sampler.batch, .loss_sum = number(state, "loss_sum", 0),
                           .weight_sum = number(state, "weight_sum", 0), .seconds = number(state, "seconds", 0),
                           .best = best_of(s, state), .best_step = integer(state, "best_step", -1),
                           .not_better = integer(state, "not_better", 0), .scale = tri__loss_scale_start(),
                           .open_epoch = tri__json_is_true(tri__json_get(state, "validate")),
                           .averaged = integer(state, "averaged_epochs", 0)};
    s->last.loss = number(state, "last_loss", NAN);
    s->best_figures = tri__json_deep_copy(tri__json_get(state, "best_figures"));
    s->decision = tri__json_deep_copy(tri__json_get(state, "decision"));
    s->answers = tri__json_deep_copy(tri__json_get(state, "answers"));
    if (s->at.batch >= s->batches) s->at.epoch++, s->at.batch = 0; /* fewer rows: --allow-change data */
    if (!scale) return;
    s->at.scale.scale = (float)number(scale, "scale", s->at.scale.scale);
    s->at.scale.good = (int32_t)integer(scale, "good", 0);
    s->at.skipped = integer(scale, "skipped", 0);
    s->at.skipped_variance = integer(scale, "skipped_variance", s->at.skipped);
}

/* The step after the full ones begins what steps with signs use: it must come, unless it has, and comes once, as errors
 * are in units of the variance that it froze. was: the checkpoint's full_steps; -1: its optimizer has none. */
static tri_status check_full_steps(const tri_session *s, const tri_checkpoint *checkpoint, int64_t was) {
    const tri_optimizing *how = &s->engine.in.optimizer;
    int64_t step = s->at.step;
    int is_past = was >= 0 && was < step;
    if (how->kind == TRI_ZERO_ONE_ADAM || how->full_steps == was || (!is_past && how->full_steps >= step))
        return TRI_OK;
    return tri__fail(TRI_USAGE, "--full-steps %lld: %s is at step %lld, %s: take --full-steps %lld%s",
                     (long long)how->full_steps, tri__checkpoint_path(checkpoint), (long long)step,
                     is_past ? "and its full steps have ended already" : "and all of its steps were full",
                     (long long)(is_past ? was : step), is_past ? "" : " or more");
}

/* A run that had ended and goes on keeps the kinds of its steps: defaults that follow the run's length are those of the
 * run that its states come from. The plan was made before they were known. */
static tri_status take_kinds(tri_session *s, const tri_checkpoint *checkpoint) {
    const tri_json *kinds = tri__json_get(tri__checkpoint_state(checkpoint), "step_kinds");
    tri_optimizing *how = &s->engine.in.optimizer;
    if (!tri__is_onebit(how->kind)) return TRI_OK;
    int64_t full_steps = integer(kinds, "full_steps", how->full_steps);
    if (!s->settings->full_steps) how->full_steps = full_steps;
    TRI_TRY(check_full_steps(s, checkpoint, kinds ? full_steps : -1));
    how->met = integer(kinds, "met", 0);
    if (!s->settings->var_freeze_step) how->var_freeze_step = integer(kinds, "var_freeze_step", how->var_freeze_step);
    if (!(tri__step_gates(how) & ~s->engine.plan.train.program->gates)) return TRI_OK;
    return tri__fail(TRI_USAGE,
                     "%s froze the variance at step %lld, and a run of %lld steps goes on so long after it that copies "
                     "would take local steps: say when it was frozen, --var-freeze-step %lld --allow-change "
                     "var_freeze_step, or take --local-step-clipper 1 --allow-change local_step_clipper",
                     tri__checkpoint_path(checkpoint), (long long)how->var_freeze_step, (long long)how->steps,
                     (long long)how->var_freeze_step);
}

/* --extend-positions copy, with weights of fewer positions. */
static void say_repeated(const tri_session *s, const tri_checkpoint *checkpoint) {
    for (int i = 0; i < s->engine.model.n_params; i++) {
        const tri_param *param = &s->engine.model.param[i];
        int64_t once = param->repeat - 1;
        tri_shape have;
        if (!param->repeat || !tri__checkpoint_shape(checkpoint, param->name, &have)) continue;
        if (have.dim[0] < param->shape.dim[0])
            tri__say(&s->log, TRI_LOG_INFO, "%s: the %lld positions of %s are repeated to %lld",
                     tri__checkpoint_path(checkpoint), (long long)(have.dim[0] - once), param->name,
                     (long long)(param->shape.dim[0] - once));
    }
}

static tri_status continue_from(tri_session *s, const tri_checkpoint *checkpoint) {
    if (tri__checkpoint_quantized(checkpoint))
        return tri__fail(TRI_USAGE, "%s has quantised weights, which cannot be trained on: their rounding is lost. "
                         "Take the run or checkpoint that it was made from; --quantize int8 trains for int8 products",
                         tri__checkpoint_path(checkpoint));
    if (tri__checkpoint_is_export(checkpoint)) {
        TRI_TRY(tri__engine_load(&s->engine, checkpoint));
        say_repeated(s, checkpoint);
        s->resumed = 1;
        tri__say(&s->log, TRI_LOG_INFO, "beginning a new run with the weights of %s", tri__checkpoint_path(checkpoint));
        return TRI_OK;
    }
    TRI_TRY(check_state(checkpoint));
    TRI_TRY(check_same(s, checkpoint));
    TRI_TRY(tri__engine_load(&s->engine, checkpoint));
    TRI_TRY(tri__engine_load_state(&s->engine, checkpoint, &s->log));
    say_repeated(s, checkpoint);
    take_position(s, checkpoint);
    if (tri__json_get(tri__checkpoint_state(checkpoint), "decision") && !s->decision)
        return tri__fail(TRI_RESOURCE, "out of memory");
    TRI_TRY(take_kinds(s, checkpoint));
    s->resumed = 1;
    return TRI_OK;
}

static tri_status continue_from_folder(tri_session *s, const tri_checkpoint *checkpoint) {
    TRI_TRY(continue_from(s, checkpoint));
    if (tri__checkpoint_is_export(checkpoint)) return TRI_OK;
    TRI_TRY(tri__path_join(s->from, "", tri__checkpoint_path(checkpoint)));
    tri__say(&s->log, TRI_LOG_INFO, "continuing from %s at step %lld", tri__checkpoint_path(checkpoint),
             (long long)s->at.step);
    return TRI_OK;
}

/* ---- Finding it together ---- */

/* One rank's result of opening a checkpoint. */
typedef struct opinion {
    int64_t status, manifest; /* tri_status; hash of the manifest */
} opinion;

static opinion form_opinion(const tri_world *world, const char *path, tri_checkpoint **checkpoint) {
    opinion own = {0};
    own.status = tri__checkpoint_open_part(path, world ? world->local : 0, world ? world->segment.n : 1, checkpoint);
    if (own.status != TRI_OK) return own;
    TRI_OWNED(tri__free_at) char *text = tri__json_line(tri__checkpoint_manifest(*checkpoint));
    if (text) own.manifest = (int64_t)tri__hash64(0, text, strlen(text));
    else own.status = tri__fail(TRI_RESOURCE, "out of memory");
    return own;
}

/* The higher of two ranks' results counts: a checkpoint that one rank cannot read is not proven damaged by another. */
static int weight(int64_t status) {
    return status == TRI_OK ? 0 : status == TRI_DATA ? 1 : status == TRI_NOINPUT ? 2 : 3;
}

/* *verdict: TRI_OK when all ranks have it open; else the error of greatest weight and its message, and it is closed. */
static tri_status open_together(const tri_session *s, const char *path, tri_checkpoint **checkpoint,
                                tri_status *verdict, char words[static 1024]) {
    tri_world *world = s->place.world;
    int n = world ? tri_world_size(world) : 1, odd = -1;
    TRI_OWNED(tri__checkpoint_close_at) tri_checkpoint *opened = NULL;
    TRI_OWNED(tri__free_at) opinion *all = calloc((size_t)n, sizeof *all);
    opinion own = form_opinion(world, path, &opened);
    snprintf(words, 1024, "%s", own.status == TRI_OK ? "" : tri_error());
    if (!all) return tri__fail(TRI_RESOURCE, "out of memory");
    all[0] = own;
    if (world) TRI_TRY(tri_all_gather(tri_group_world(world), &own, all, 2, NULL, TRI_I64));
    *verdict = TRI_OK;
    for (int r = n - 1; r >= 0; r--)
        if (weight(all[r].status) && weight(all[r].status) >= weight(*verdict))
            *verdict = (tri_status)all[r].status, odd = r;
    for (int r = 1; r < n && odd < 0; r++)
        if (all[r].manifest != all[0].manifest) {
            *verdict = TRI_DISAGREE;
            snprintf(words, 1024, "rank %d sees another %.900s than rank 0: all ranks must see the same folder", r,
                     path);
        }
    if (*verdict == TRI_NOINPUT && all[0].status == TRI_OK) *verdict = TRI_DISAGREE; /* the first rank has it */
    if (odd >= 0 && world) TRI_TRY(tri_broadcast(tri_group_world(world), words, 1024, TRI_U8, odd));
    if (*verdict == TRI_OK) *checkpoint = TRI_GIVE(opened);
    return TRI_OK;
}

/* The first rank's list of candidates, newest first. */
typedef struct candidates {
    int32_t status, n, alone;   /* n: steps of a run folder; 0 with TRI_OK and `alone`: the folder itself */
    char words[1024], folder[TRI_PATH_MAX];
    int64_t *steps;             /* [n]; this rank's */
} candidates;

static void candidates_free(candidates *c) { free(c->steps); }

static tri_status list(const tri_session *s, candidates *c) {
    const char *resume = s->settings->resume;
    snprintf(c->folder, sizeof c->folder, "%s", strcmp(resume, "auto") ? resume : s->settings->output_dir);
    tri_kind kind;
    TRI_TRY(tri__path_kind(c->folder, &kind));
    if (kind != TRI_KIND_FOLDER)
        return tri__fail(TRI_NOINPUT, "--resume %s: no such folder; give a checkpoint, a run folder, auto or never",
                         c->folder);
    TRI_PATH(inner, c->folder, "manifest.json");
    TRI_TRY(tri__path_kind(inner, &kind));
    c->alone = kind == TRI_KIND_FILE;
    if (c->alone) return TRI_OK;
    TRI_TRY(tri__checkpoint_steps(c->folder, &c->steps, &c->n));
    return c->n ? TRI_OK : tri__fail(TRI_NOINPUT, "--resume %s: it holds no checkpoint", c->folder);
}

/* Broadcasts the candidates to all ranks. */
static tri_status share(const tri_session *s, candidates *c) {
    tri_world *world = s->place.world;
    if (s->lead) {
        c->status = (int32_t)list(s, c);
        if (c->status != TRI_OK) snprintf(c->words, sizeof c->words, "%s", tri_error());
    }
    if (!world) return TRI_OK;
    int64_t *steps = c->steps;
    TRI_TRY(tri_broadcast(tri_group_world(world), c, sizeof *c, TRI_U8, 0));
    c->steps = steps; /* addresses are local to a rank */
    if (c->n == 0) return TRI_OK;
    if (!c->steps) c->steps = calloc((size_t)c->n, sizeof *c->steps);
    if (!c->steps) return tri__fail(TRI_RESOURCE, "out of memory");
    return tri_broadcast(tri_group_world(world), c->steps, c->n, TRI_I64, 0);
}

static tri_status try_all(tri_session *s, const candidates *c) {
    char path[TRI_PATH_MAX], words[1024], first[1024] = "";
    tri_status verdict = TRI_DATA;
    for (int i = 0; i < (c->alone ? 1 : c->n); i++) {
        TRI_OWNED(tri__checkpoint_close_at) tri_checkpoint *checkpoint = NULL;
        if (c->alone) TRI_TRY(tri__path_join(path, "", c->folder));
        else TRI_TRY(tri__checkpoint_name(path, c->folder, c->steps[i], ""));
        TRI_TRY(open_together(s, path, &checkpoint, &verdict, words));
        if (verdict == TRI_OK) return continue_from_folder(s, checkpoint);
        if (!tri__proves_damage(verdict) || c->alone) return tri__fail(verdict, "%s", words);
        if (!*first) memcpy(first, words, sizeof first);
        tri__say(&s->log, TRI_LOG_WARN, "%s is passed over: %s", path, words);
    }
    return tri__fail(TRI_DATA, "%s: none of its %d checkpoints is valid: %.1000s. --resume never begins anew",
                     c->folder, c->n, first);
}

/* A run that ended between a commit and the mark of its best checkpoint: that checkpoint's state says so. */
static tri_status mend_mark(const tri_session *s) {
    char path[TRI_PATH_MAX];
    int64_t marked;
    if (!s->lead || !s->resumed || s->at.best_step != s->at.step) return TRI_OK;
    TRI_TRY(tri__checkpoint_name(path, s->settings->output_dir, s->at.step, ""));
    if (strcmp(path, s->from)) return TRI_OK; /* of another folder */
    TRI_TRY(tri__checkpoint_best(s->settings->output_dir, &marked));
    return marked == s->at.step ? TRI_OK : tri__checkpoint_mark_best(s->settings->output_dir, s->at.step);
}

/* What ranks kept in memory is newer than any checkpoint. *found: there is such state. */
static tri_status resume_kept(tri_session *s, int *found) {
    TRI_OWNED(tri__checkpoint_close_at) tri_checkpoint *kept = NULL;
    TRI_TRY(tri__session_kept(s, &kept));
    *found = kept != NULL;
    if (!kept) return TRI_OK;
    TRI_TRY(continue_from(s, kept));
    tri__session_take_kept(s, tri__checkpoint_state(kept));
    int ranks = tri__mesh_world(&s->place.mesh);
    tri__say(&s->log, TRI_LOG_INFO, "going on with %d rank%s at step %lld, from the state that ranks kept", ranks,
             ranks == 1 ? "" : "s", (long long)s->at.step);
    return TRI_OK;
}

tri_status tri__session_resume(tri_session *s) {
    const char *resume = s->settings->resume;
    TRI_OWNED(candidates_free) candidates c = {0};
    int found;
    TRI_TRY(resume_kept(s, &found));
    if (found || strcmp(resume, "never") == 0) return TRI_OK;
    TRI_TRY(share(s, &c));
    if (c.status == TRI_NOINPUT && strcmp(resume, "auto") == 0) return TRI_OK;
    if (c.status != TRI_OK) return tri__fail((tri_status)c.status, "%s", c.words);
    TRI_TRY(try_all(s, &c));
    return mend_mark(s);
}
