/* session.c - opens a run from settings to first batch, and takes its steps. */
#include "train/session.h"
#include "data/dataset/unseen.h"
#include "engine/accept_settings.h"
#include "engine/coded_report.h"
#include "engine/infer.h"
#include "engine/inputs.h"
#include "engine/run_report.h"
#include "engine/cost/mfu.h"
#include "engine/staging.h"
#include "engine/cost/tune.h"
#include "plan/layer_gates.h"
#include "plan/step_kinds.h"
#include "train/state/held.h"

#include <unistd.h>

tri_status tri__session_emit(const tri_session *session, tri_event *event) {
    event->time = tri__clock_wall();
    event->step = session->at.step, event->steps = session->steps;
    event->epoch = session->batches ? (double)session->at.step / (double)session->batches : 0;
    event->rank = session->place.rank, event->world = tri__mesh_world(&session->place.mesh);
    return session->sink.emit ? session->sink.emit(session->sink.context, event) : TRI_OK;
}

double tri__session_seconds(const tri_session *session) { return session->at.seconds + tri__clock() - session->opened; }

/* Messages become events. A sink that fails on a message will fail again on the next event, which is checked. */
static void say(void *context, tri_log_level level, const char *text) {
    tri_session *session = context;
    tri_event event = {.kind = TRI_EVENT_MESSAGE, .level = level, .text = text};
    (void)tri__session_emit(session, &event);
}

int tri__session_ends_early(const tri_session *s) {
    int64_t patience = s->settings->early_stopping;
    return patience && s->at.not_better >= patience && s->at.step < s->steps;
}

int tri__session_ends_here(const tri_session *s) {
    int64_t epochs = s->settings->until_epoch;
    return epochs && s->at.step < s->steps && s->at.step / s->batches >= epochs;
}

int tri__session_is_over(const tri_session *s) {
    return s->at.step >= s->steps || tri__session_ends_early(s) || tri__session_ends_here(s);
}

static int validates(const tri_session *s, const tri_data_files *files) {
    tri_division parts;
    return tri__division_asked(s->settings, &parts) || (!files->one && files->valid[0]);
}

static tri_status find_tables(const tri_session *s, tri_data_files *files) {
    const char *path = s->settings->data_path;
    TRI_TRY(tri__data_files(path, files));
    if (!files->train[0]) return tri__fail(TRI_NOINPUT, "%s: has no training table (train.csv or the like)", path);
    if (s->settings->early_stopping && !validates(s, files))
        return tri__fail(TRI_USAGE,
                         "--early-stopping %lld: %s has no validation table to look at; give a folder that has a valid "
                         "table beside train, or --split, or leave the option out",
                         (long long)s->settings->early_stopping, path);
    return TRI_OK;
}

/* Warns once about a warm-up longer than the run. With --max-steps the check of options has warned already. */
static void say_warmup(tri_session *s, int64_t steps) {
    const tri_settings *set = s->settings;
    tri_rates rates = tri__rates(set, steps);
    if (!s->lead || s->warmup_said || (set->max_steps && set->max_steps <= steps) || rates.warmup < steps) return;
    s->warmup_said = 1;
    tri__say(&s->log, TRI_LOG_WARN, TRI_WARMUP_WORDS, (long long)rates.warmup, (long long)steps,
             tri__learning_rate(&rates, steps - 1), set->lr);
}

/* Called before tokenising. */
static void rows_counted(void *context, int64_t rows) {
    tri_session *s = context;
    say_warmup(s, (rows + s->place.batch - 1) / s->place.batch * s->settings->epochs);
}

/* The numbers replace "balanced": they are what the run records, and what it is compared with when it continues. */
static tri_status resolve_weights(tri_session *s, const tri_inputs *inputs) {
    tri_reals weights;
    if (!s->settings->model.class_weights.word) return TRI_OK;
    TRI_TRY(tri__inputs_balance(inputs, s->preprocess, s->train, &weights));
    s->resolved = *s->settings, s->resolved.model.class_weights = weights;
    s->settings = &s->resolved;
    return TRI_OK;
}

/* Ranks of a machine share the token stores: tri__place_load. */
static tri_status load_tables(void *context) {
    tri_session *s = context;
    tri_data_files files;
    tri_inputs inputs;
    TRI_TRY(find_tables(s, &files));
    TRI_TRY(tri__inputs_make(s->settings, &s->assets, &s->log, s->settings->output_dir, &inputs));
    inputs.stop = s->stop;
    inputs.counted = rows_counted, inputs.counted_context = s;
    tri_fitted fitted;
    tri_status status = tri__inputs_fit(&inputs, &files, &fitted);
    s->preprocess = fitted.preprocess, s->train = fitted.train, s->valid = fitted.valid, s->parts = fitted.parts;
    TRI_TRY(status);
    TRI_TRY(tri__inputs_positive(&inputs, s->preprocess, s->train, &s->positive));
    TRI_TRY(resolve_weights(s, &inputs));
    const tri_log *log = s->place.rank ? NULL : &s->log; /* it is said once */
    if (s->parts) return tri__unseen_say(s->valid->unseen, "the rows for validation", s->preprocess, 1, log);
    if (!validates(s, &files)) {
        tri__say(&s->log, TRI_LOG_WARN, "no validation table next to the training data: no validation, no best model "
                 "(--split takes rows of the table for it)");
        return tri__session_check_decision(s);
    }
    TRI_TRY(tri__inputs_open(&inputs, files.valid, s->preprocess, 1, &s->valid));
    TRI_TRY(tri__unseen_say(s->valid->unseen, files.valid, s->preprocess, 1, log));
    return s->valid->n ? TRI_OK : tri__fail(TRI_DATA, "%s: no rows to validate on", files.valid);
}

static tri_status plan_steps(tri_session *s) {
    const tri_settings *set = s->settings;
    int parts = (int)set->num_microbatches * tri__mesh_readers(&s->place.mesh);
    TRI_TRY(tri__sampler_open(&s->sampler, s->train, s->place.batch, parts, 1, (uint32_t)set->seed));
    s->batches = tri__sampler_batches(&s->sampler);
    s->steps = s->batches * set->epochs;
    if (set->max_steps && set->max_steps < s->steps) s->steps = set->max_steps;
    s->epochs = (s->steps + s->batches - 1) / s->batches;
    s->place.steps = s->steps;
    TRI_TRY(tri__accept_steps(set, s->steps));
    say_warmup(s, s->steps);
    return tri__session_average_fits(s);
}

static tri_status open_engine(tri_session *s) {
    const tri_settings *set = s->settings;
    tri_counts max, max_infer;
    int readers = tri__mesh_readers(&s->place.mesh);
    s->sampler.stop = s->stop;
    TRI_TRY(tri__largest(&s->sampler, s->epochs, set->max_tokens, set->model.max_sen_len, &max));
    max_infer = max;
    if (s->valid)
        TRI_TRY(tri__largest_of(s->valid, set->batch_size * readers, readers * tri__infer_microbatches(set, 1), 0,
                                set->model.max_sen_len, &max_infer));
    if (s->place.world) tri__world_doing(s->place.world, TRI_DOING_PLAN, -1);
    TRI_TRY(tri__engine_plan(&(tri_engine_spec){.settings = set, .place = &s->place, .assets = &s->assets,
                                                .columns = s->preprocess->vectors, .train = 1, .max = &max,
                                                .max_infer = &max_infer}, &s->engine));
    if (s->lead) { /* before any rank allocates memory: none passes the next line earlier */
        TRI_TRY(tri__engine_plan_all(&s->engine, &s->programs));
        int here = s->place.world ? s->place.world->segment.n : 1;
        tri_room room;
        TRI_TRY(tri__room_check(set, &s->engine, &s->programs, here, &room));
        tri__run_say(set, &s->engine, &room, &s->log);
    }
    TRI_TRY(tri__engine_agree(&s->engine, set, s->train->digest));
    s->control = tri__exec_control_of(s->engine.plan.train.program);
    if (s->lead && set->sync_every > 1 && !s->engine.plan.train.copies)
        tri__say(&s->log, TRI_LOG_WARN, "--sync-every %lld: one copy of the model is left, with none to synchronise "
                 "with: it takes plain steps until others join", (long long)set->sync_every);
    if (s->lead) tri__coding_say(&s->engine.in, &s->programs.of[TRI_TRAIN], &s->log);
    if (s->lead) tri__products_say(&s->engine.in, s->engine.device, &s->log);
    if (s->lead) tri__context_say(&s->engine.context_form, &s->engine.in, &s->log);
    if (s->lead) TRI_TRY(tri__staging_say(set, &s->engine.in, &s->programs.of[TRI_TRAIN], NULL, &s->log));
    if (s->lead && s->engine.in.average != TRI_AVERAGE_NONE)
        tri__say(&s->log, TRI_LOG_INFO, "averaged weights (%s): validation and checkpoints are of them, training goes "
                 "on with its own", set->average_weights);
    if (s->lead && s->engine.device->is_stub)
        tri__say(&s->log, TRI_LOG_WARN, "--device %s computes nothing: weights stay as they are", set->device);
    TRI_TRY(tri__engine_bind(&s->engine, set->output_dir));
    if (set->tune_products) TRI_TRY(tri__engine_tune(&s->engine, set->output_dir, &s->log));
    s->feed = calloc((size_t)s->engine.n_mb, sizeof *s->feed);
    return s->feed ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

static tri_status open_loader(tri_session *s) {
    tri_loader_spec spec = tri__loader_spec(&s->engine, &s->sampler, s->engine.n_mb);
    spec.class_weights = s->settings->model.class_weights.n ? s->settings->model.class_weights.at : NULL;
    spec.first_epoch = s->at.epoch, spec.first_batch = s->at.batch, spec.epochs = s->epochs;
    const tri_counts *max = &s->engine.plan.train.program->max;
    spec.maxima = (tri_sampler_maxima){.rows = max->of[TRI_SYM_N],
                                       .tokens = {max->of[TRI_SYM_T0], max->of[TRI_SYM_T1]},
                                       .windows = {max->of[TRI_SYM_W0], max->of[TRI_SYM_W1]}};
    return tri__loader_open(&spec, &s->loader);
}

/* What each rank can see for itself, before anything long begins. */
static tri_status check_first(tri_session *s) {
    tri_data_files files;
    TRI_TRY(tri__model_config_check(&s->settings->model));
    TRI_TRY(tri__engine_accept(s->settings));
    TRI_TRY(tri__accept_single(s->settings));
    TRI_TRY(tri__assets_open(s->settings, 1, &s->log, &s->assets));
    if (s->lead) TRI_TRY(tri__engine_try(s->settings, &s->place, &s->assets));
    TRI_TRY(find_tables(s, &files));
    return tri__folder_probe(s->settings->output_dir, s->place.rank); /* not first at a checkpoint */
}

static tri_status open_all(tri_session *s) {
    TRI_TRY(tri__begin_together(s->place.world, s->settings->output_dir, check_first(s)));
    TRI_TRY(tri__place_load(&s->place, 1, load_tables, s));
    TRI_TRY(plan_steps(s));
    TRI_TRY(tri__stop_check(s->stop, "the run was being prepared"));
    if (s->lead) TRI_TRY(tri__folder_lock(s->settings->output_dir, s->stop, &s->lock));
    TRI_TRY(open_engine(s));
    TRI_TRY(tri__session_open_saver(s));
    TRI_TRY(tri__session_keep_open(s));
    TRI_TRY(tri__session_resume(s));
    if (!s->resumed) TRI_TRY(tri__engine_init(&s->engine, &s->assets, &s->log));
    TRI_TRY(tri__engine_upload(&s->engine));
    TRI_TRY(tri__session_keep_first(s)); /* the state is in the engine now */
    TRI_TRY(tri__session_compare_replicas(s));
    TRI_TRY(tri__stop_check(s->stop, "the run was being prepared"));
    if (s->lead && !tri__session_is_over(s)) tri__prediction_make(s); /* before the loader has the sampler */
    return open_loader(s);
}

static void session_drop(tri_session **at) { tri_session_close(*at); }

tri_status tri__session_open(const tri_settings *settings, tri_world *world, const tri_sink *sink, const tri_stop *stop,
                             tri_session **out) {
    tri_place place;
    *out = NULL;
    TRI_TRY(tri__place_make(settings, world, 1, 0, &place));
    TRI_OWNED(session_drop) tri_session *s = NULL;
    TRI_TRY(TRI_NEW(s, 1, "a session"));
    *s = (tri_session){.settings = settings, .place = place, .stop = stop, .lead = place.rank == 0, .lock = -1,
                       .began = tri__clock_wall(), .log = {.say = say, .context = s},
                       .at = {.best = NAN, .best_step = -1, .scale = tri__loss_scale_start()}};
    if (sink) s->sink = *sink;
    TRI_TRY(open_all(s));
    s->opened = tri__clock();
    tri__session_tell_from_now(s);
    *out = TRI_GIVE(s);
    return TRI_OK;
}

void tri__session_own(tri_session *s, const tri_settings *given) {
    s->own = *given;
    if (s->settings != &s->resolved) s->settings = &s->own;
}

void tri_session_close(tri_session *s) {
    if (!s) return;
    TRI_KEEP_WORDS();
    (void)tri__session_keep_end(s); /* unless it completes, the step before is the newest that is kept */
    tri__held_peers_close(s->held_peers);
    tri__saver_close(s->saver);
    tri__loader_close(s->loader);
    tri__engine_close(&s->engine);
    tri__sampler_close(&s->sampler);
    tri__dataset_close(s->train);
    tri__dataset_close(s->valid);
    tri__preprocess_free(s->preprocess);
    tri__assets_close(&s->assets);
    tri_json *const facts[] = {s->best_figures, s->decision, s->trained, s->reference, s->answers, s->parts};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) tri__json_decref(facts[i]);
    free(s->feed);
    if (s->lock >= 0) close(s->lock);
    if (s->settings == &s->resolved) free(s->resolved.model.class_weights.at);
    tri__settings_free(&s->own);
    free(s);
}

/* FLOPs of a program bound to this batch. */
static double step_flops(const tri_session *s) {
    const tri_program *p = s->engine.plan.train.program;
    double flops = 0;
    for (int i = 0; i < p->n_instrs; i++)
        if (tri__is_open(&p->instr[i], &s->feed[0].gates))
            flops += tri__instr_cost(p, &p->instr[i], &s->feed[p->instr[i].mb < 0 ? 0 : p->instr[i].mb].counts).flops;
    return flops;
}

static tri_status check_room(const tri_session *s) {
    const tri_counts *max = &s->engine.plan.train.program->max;
    for (int mb = 0; mb < s->engine.n_mb; mb++)
        for (int sym = TRI_SYM_T0; sym <= TRI_SYM_N; sym++)
            if (s->feed[mb].counts.of[sym] > max->of[sym])
                return tri__fail(TRI_USAGE, "a microbatch has %lld tokens, --max-tokens gives room for %lld",
                                 (long long)s->feed[mb].counts.of[sym], (long long)max->of[sym]);
    return TRI_OK;
}

/* Of the samples of this rank's copy of the model: of its replica, or its run of replicas. */
static double copy_inv(const tri_session *s) {
    const tri_batch *batch = s->batch;
    const tri_planned *planned = &s->engine.plan.train;
    const tri_reals *weights = &s->settings->model.class_weights;
    double sum = 0;
    if (!planned->copies || s->inv == 0) return 0;
    int parts = tri__mesh_readers(&s->place.mesh) / planned->copies * s->engine.n_mb;
    for (int64_t i = 0; i < batch->n; i++)
        if (batch->part_of[i] / parts == planned->copy)
            sum += tri__row_weight(s->train, weights->n ? weights->at : NULL, batch->row[i]);
    return sum > 0 ? 1 / sum : 0;
}

/* Of an encoder in the global batch. */
static double sequences(const tri_session *s, int encoder) {
    const tri_network *model = &s->engine.model;
    int64_t n = 0;
    if (!tri__counts_windows(model)) return (double)s->batch->n;
    for (int text = encoder; text < model->n_texts; text++)
        for (int64_t i = 0; i < s->batch->n && tri__reader(&model->readers, text) == encoder; i++)
            n += tri__dataset_packed(s->train, text, s->batch->row[i]).windows;
    return (double)n;
}

static tri_status next_batch(tri_session *s, int *more) {
    *more = 0;
    if (s->at.step >= s->steps) return TRI_OK;
    if (s->place.world) tri__world_doing(s->place.world, TRI_DOING_BATCH, s->at.step + 1);
    TRI_TRY(tri__loader_next(s->loader, &s->batch, &s->waited));
    if (!s->batch) return TRI_OK;
    if (s->batch->weight <= 0) return tri__fail(TRI_DATA, "step %lld: all its rows weigh 0", (long long)s->at.step + 1);
    s->inv = tri__mesh_context(&s->place.mesh, s->place.rank) ? 0 : 1 / s->batch->weight; /* counted once */
    s->copy_inv = copy_inv(s);
    for (int encoder = 0; encoder < s->engine.model.n_encoders && s->engine.plan.train.experts >= 0; encoder++)
        s->balance_inv[encoder] = 1 / sequences(s, encoder);
    for (int mb = 0; mb < s->engine.n_mb; mb++) {
        tri__feed(&s->batch->part[mb], &s->engine, &s->inv, s->hyper, &s->feed[mb]);
        s->feed[mb].field[TRI_FIELD_loss_scale] = &s->at.scale.scale;
        s->feed[mb].field[TRI_FIELD_control] = s->told;
        s->feed[mb].field[TRI_FIELD_average] = &s->average;
        s->feed[mb].field[TRI_FIELD_copy_inv] = &s->copy_inv;
        for (int text = 0; text < 2; text++) s->feed[mb].field[TRI_FIELD_balance_inv0 + text] = &s->balance_inv[text];
    }
    s->feed[0].gates.kind = tri__step_gate(&s->engine.in.optimizer, s->at.step);
    tri__layer_gates_step(&s->engine.in.layer_drop, &s->engine.model, s->engine.seed, s->at.step, &s->feed[0].gates,
                          s->engine.layer_scale);
    TRI_TRY(check_room(s));
    s->last = (tri_step){.steps = s->steps, .samples = s->batch->n, .tokens = s->batch->tokens,
                         .flops = step_flops(s), .mem_bytes = tri__exec_bytes(s->engine.exec)};
    if (s->lead)
        s->model_flops = tri__nominal_batch(&s->engine, s->train, s->batch->row, s->batch->n, &s->feed[0].gates);
    *more = 1;
    return TRI_OK;
}

tri_status tri_next_batch(tri_session *s, int *more) { return tri__done(next_batch(s, more)); }

/* How certain a rank is that the bad value originated there. */
enum { FOUND_NOTHING, FOUND_RECEIVED, FOUND_COMPUTED };

/* Gives all ranks the message of the first rank with the highest certainty. All ranks call it, since they see the same
 * loss and norm. */
static tri_status agree_on_words(const tri_session *s, int found, char words[static 1024]) {
    tri_world *world = s->place.world;
    int first = 0, n = tri_world_size(world);
    int32_t mine = found;
    TRI_OWNED(tri__free_at) int32_t *all = NULL;
    TRI_TRY(TRI_NEW(all, n, "what ranks found"));
    TRI_TRY(tri_all_gather(tri_group_world(world), &mine, all, 1, NULL, TRI_I32));
    for (int r = 1; r < n; r++)
        if (all[r] > all[first]) first = r;
    return tri_broadcast(tri_group_world(world), words, 1024, TRI_U8, first);
}

/* Whether an instruction brings numbers of other ranks, as they are or decoded. */
static int receives(const tri_instr *instr) { return instr->op == TRI_OP_wait || tri__instr_row(instr)->decodes; }

/* Fails, naming the first bad value and its rank. */
static tri_status not_finite(tri_session *s, const char *what, double value) {
    const tri_program *p = s->engine.plan.train.program;
    char words[1024] = "", rank[32] = "";
    int slot = -1, at = -1;
    TRI_TRY(tri__exec_find_bad(s->engine.exec, s->engine.train, (uint32_t)s->at.step + 1, s->feed, &at, &slot));
    int used = snprintf(words, sizeof words, "step %lld: the %s is %g", (long long)s->at.step + 1, what, value);
    if (s->place.world) snprintf(rank, sizeof rank, ", on rank %d", s->place.rank);
    if (at >= 0) {
        int unit = p->instr[at].unit;
        snprintf(words + used, sizeof words - (size_t)used, "; the first bad tensor is %s (operation %s%s%s%s). "
                 "Weights keep their last good values; try a smaller --lr or more --warmup-steps, or look at this "
                 "batch's numbers", p->slot[slot].name, tri__instr_row(&p->instr[at])->name, unit >= 0 ? " of " : "",
                 unit >= 0 ? p->unit[unit] : "", rank);
    }
    int found = at < 0 ? FOUND_NOTHING : receives(&p->instr[at]) ? FOUND_RECEIVED : FOUND_COMPUTED;
    if (s->place.world) TRI_TRY(agree_on_words(s, found, words));
    return tri__fail(TRI_NOTFINITE, "%s", words);
}

static void *result(const tri_session *s, int slot) { return tri__exec_slot(s->engine.exec, s->engine.train, slot); }

/* fp16: after an overflow the scale is lowered and the next batch is tried. */
static int scaled(const tri_session *s) { return s->engine.plan.train.scale >= 0; }

static tri_status read_loss(tri_session *s) {
    TRI_TRY(tri__exec_finish(s->engine.exec));
    s->last.loss = *(const double *)result(s, s->engine.plan.train.loss);
    if (s->engine.plan.train.experts < 0) return TRI_OK;
    const double *figures = result(s, s->engine.plan.train.experts); /* [layers,2] */
    s->balance_loss = s->dropped = 0;
    for (int64_t i = 0; i < tri__model_expert_layers(&s->engine.model); i++)
        s->balance_loss += figures[2 * i], s->dropped += figures[2 * i + 1];
    s->last.loss += s->balance_loss;
    return TRI_OK;
}

static tri_status forward_backward(tri_session *s, double *loss) {
    if (!s->batch) return tri__fail(TRI_USAGE, "tri_forward_backward: no batch; call tri_next_batch first");
    if (s->place.world) tri__world_doing(s->place.world, TRI_DOING_FORWARD, s->at.step + 1);
    const tri_planned *planned = &s->engine.plan.train;
    TRI_TRY(tri__exec_run(s->engine.exec, s->engine.train, tri__session_first(s), planned->waited,
                          (uint32_t)s->at.step + 1, s->feed, s->times));
    if (!loss && tri__exec_runs_on(s->engine.exec)) return TRI_OK; /* checked after the update, which changed nothing */
    TRI_TRY(read_loss(s));
    if (loss) *loss = s->last.loss;
    return isfinite(s->last.loss) || scaled(s) ? TRI_OK : not_finite(s, "loss", s->last.loss);
}

tri_status tri_forward_backward(tri_session *s, double *loss) { return tri__done(forward_backward(s, loss)); }

/* The same on all ranks: they have the same norm. */
static tri_status adapt_scale(tri_session *s, int applied) {
    float before = s->at.scale.scale;
    TRI_TRY(tri__loss_scale_next(&s->at.scale, applied));
    const tri_optimizing *how = &s->engine.in.optimizer;
    if (applied) return TRI_OK;
    s->at.skipped++;
    s->at.skipped_variance += tri__variance_steps(how, s->at.step + 1) - tri__variance_steps(how, s->at.step);
    tri__say(&s->log, TRI_LOG_WARN, "step %lld: gradients overflow at a loss scale of %g: weights stay as they are, "
             "the next scale is %g", (long long)s->at.step + 1, (double)before, (double)s->at.scale.scale);
    return TRI_OK;
}

double tri__session_rate(const tri_session *s) {
    tri_rates rates = tri__rates(s->settings, s->steps);
    return s->engine.in.optimizer.inner_lr_factor * tri__learning_rate(&rates, s->at.step);
}

/* Of the learning rates of the steps until copies synchronise, this step's part: 1 unless they take local steps. */
static double rate_share(const tri_session *s) {
    tri_rates rates = tri__rates(s->settings, s->steps);
    int64_t begin, end;
    double sum = 0;
    tri__step_window(&s->engine.in.optimizer, s->at.step, &begin, &end);
    for (int64_t step = begin; step < end; step++) sum += tri__learning_rate(&rates, step);
    return sum > 0 ? s->last.learning_rate / sum : 1 / (double)(end - begin);
}

static double bias(double beta, int64_t steps) { return 1 - pow((float)beta, (double)steps); } /* as kernels have it */

static double hyper(const tri_session *s, tri_hyper what) {
    const tri_optimizing *how = &s->engine.in.optimizer;
    int64_t done = s->at.step + 1, t = done - s->at.skipped;
    switch (what) {
    case TRI_HYPER_RATE: return s->last.learning_rate;
    case TRI_HYPER_MOMENTUM: return bias(how->beta1, t);
    case TRI_HYPER_VARIANCE: return bias(how->beta2, tri__variance_steps(how, done) - s->at.skipped_variance);
    case TRI_HYPER_STEPS: return bias(how->beta2, t);
    default: return rate_share(s);
    }
}

enum { USED_EVERY = 64 }; /* steps: it hardly changes, and a query is a driver call */

static tri_status update(tri_session *s) {
    if (!s->batch)
        return tri__fail(TRI_USAGE, "tri_update: no batch; call tri_next_batch and tri_forward_backward first");
    const tri_planned *planned = &s->engine.plan.train;
    s->last.learning_rate = tri__session_rate(s);
    for (int i = 0; i < TRI_HYPERS; i++) s->hyper[i] = (float)hyper(s, planned->hyper[i]);
    s->average = (float)tri__session_average(s);
    TRI_TRY(tri__session_keep_end(s));
    tri__session_tell(s);
    TRI_TRY(tri__exec_run(s->engine.exec, s->engine.train, planned->update, planned->program->n_instrs,
                          (uint32_t)s->at.step + 1, s->feed, s->times));
    TRI_TRY(read_loss(s));
    tri__session_hear(s);
    s->worked = tri__exec_worked(s->engine.exec);
    if (!s->used || s->at.step % USED_EVERY == 0) s->used = tri__exec_used(s->engine.exec);
    s->last.grad_norm = *(const double *)result(s, planned->norm);
    int applied = *(const int32_t *)result(s, planned->apply) != 0;
    if (!isfinite(s->last.loss) && !scaled(s)) return not_finite(s, "loss", s->last.loss);
    if (!applied && !scaled(s)) return not_finite(s, "gradients' norm", s->last.grad_norm);
    tri__session_average_taken(s);
    if (scaled(s)) TRI_TRY(adapt_scale(s, applied));

    if (isfinite(s->last.loss)) { /* a skipped step's may not be finite, and would ruin the epoch's mean */
        s->at.loss_sum += s->last.loss * s->batch->weight;
        s->at.weight_sum += s->batch->weight;
    }
    s->at.step++;
    s->at.batch = s->batch->index + 1, s->at.epoch = s->batch->epoch;
    if (s->at.batch == s->batches) s->at.epoch++, s->at.batch = 0;
    s->last.step = s->at.step, s->last.epoch = (double)s->at.step / (double)s->batches;
    s->batch = NULL;
    TRI_TRY(tri__session_keep(s));
    int64_t every = s->settings->check_replicas;
    return every && s->at.step % every == 0 ? tri__session_compare_replicas(s) : TRI_OK;
}

tri_status tri_update(tri_session *s) { return tri__done(update(s)); }

tri_status tri_step_metrics(const tri_session *s, tri_step *out) {
    *out = s->last;
    return tri__done(TRI_OK);
}

tri_status tri__session_scores(tri_session *s, tri_scores *scores, float **kept) {
    if (!s->valid) return tri__fail(TRI_USAGE, "there is no validation file to evaluate on");
    TRI_TRY(tri__session_keep_end(s));
    double begin = tri__clock();
    size_t classes = (size_t)s->engine.model.n_classes;
    TRI_OWNED(tri__free_at) float *probs = malloc((size_t)s->valid->n * classes * sizeof *probs); /* [n, classes] */
    if (!probs) return tri__fail(TRI_RESOURCE, "out of memory for %lld predictions", (long long)s->valid->n);
    const tri_reals *weights = &s->settings->model.class_weights;
    tri_label_set known = {.n = (int)classes, .label = s->preprocess->label, .weights = weights->n ? weights->at : NULL,
                           .positive = s->positive};
    const tri_number_set numbers = tri__inputs_numbers(s->settings, s->preprocess);
    if (s->preprocess->target) known.numbers = &numbers;
    if (s->place.world) tri__world_doing(s->place.world, TRI_DOING_EVALUATE, s->at.step);
    TRI_TRY(tri__evaluate(&s->engine, s->valid, s->settings->batch_size, probs));
    if (known.numbers) tri__number_sort(&numbers, probs, s->valid->n);
    TRI_TRY(tri__scores(probs, s->valid->labels, s->valid->n, &known, scores));
    scores->seconds = tri__clock() - begin;
    if (kept) *kept = TRI_GIVE(probs);
    return TRI_OK;
}
