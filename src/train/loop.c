/* loop.c - a whole training run: steps, validation at each epoch's end, checkpoints, the summary. */
#include "train/record/recorder.h"
#include "score/best.h"
#include "engine/cost/mfu.h"
#include "train/run.h"
#include "train/record/stage_report.h"
#include "checkpoint/folders.h"

#include <sys/resource.h>

typedef struct loop {
    tri_session *s;
    tri_recorder recorder;
    tri_stage_clock clock;
    tri_peak peak;                   /* of all ranks' devices */
    double epoch_begin;              /* tri__clock */
    int64_t samples, tokens;         /* of this process */
    int64_t begun_step, saved_step;  /* of the last checkpoint begun, of the last committed; -1 */
    int64_t first_step;              /* at which this process began */
    int failures;                    /* consecutive checkpoints that could not be saved */
    char saved[TRI_PATH_MAX];
    tri_scores valid;                /* the last validation */
    float *probs;                    /* its probabilities, on the lead, until its event */
    int has_valid;
    int undefined_said;              /* 1: it was said that the figure of --best-by is not defined */
} loop;

static tri_json *memory_json(const tri_engine *engine) {
    tri_json *bytes = tri__json_object();
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++) {
        int64_t n;
        tri__exec_memory(engine->exec, (tri_mem)mem, &n);
        if (tri__mem_is_listed((tri_mem)mem, n))
            tri__json_set_new(bytes, tri__mem_name((tri_mem)mem), tri__json_integer(n));
    }
    tri__json_set_new(bytes, "total", tri__json_integer(tri__exec_bytes(engine->exec)));
    return bytes;
}

/* Rows dropped from either table; NULL when none. */
static tri_json *bad_rows_json(const tri_session *s) {
    if (!s->train->n_bad && !(s->valid && s->valid->n_bad)) return NULL;
    tri_json *both = tri__json_pack("{s:o}", "train", tri__dataset_bad_json(s->train));
    if (both && s->valid) tri__json_set_new(both, "valid", tri__dataset_bad_json(s->valid));
    return both;
}

static void add(tri_json *to, const char *key, tri_json *value) { if (value) tri__json_set_new(to, key, value); }

static tri_status emit_start(loop *l) {
    tri_session *s = l->s;
    const tri_engine *e = &s->engine;
    TRI_OWNED(tri__json_drop) tri_json *facts = tri__json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:b, s:o, s:o}", "version", tri_version(), "device",
        tri__exec_describe(e->exec), "parameters", (tri_json_int)e->model.n_elements, "rows", (tri_json_int)s->train->n,
        "valid_rows", (tri_json_int)(s->valid ? s->valid->n : 0), "steps", (tri_json_int)s->steps, "start_step",
        (tri_json_int)s->at.step, "threads", e->threads, "microbatches", e->n_mb, "resumed", s->resumed, "memory",
        memory_json(e), "config", tri__settings_json(s->settings));
    if (!facts) return tri__fail(TRI_RESOURCE, "out of memory");
    int64_t trained = tri__model_trained(&e->model);
    if (trained < e->model.n_elements) tri__json_set_new(facts, "trained_parameters", tri__json_integer(trained));
    if (s->positive >= 0)
        tri__json_set_new(facts, "positive_label", tri__json_string(s->preprocess->label[s->positive]));
    if (l->peak.flops > 0) {
        tri__json_set_new(facts, "peak_flops", tri__json_real(l->peak.flops));
        tri__json_set_new(facts, "peak_from", tri__json_string(l->peak.from));
    }
    add(facts, "prediction", tri__prediction_json(&s->prediction, 0));
    add(facts, "bad_rows", bad_rows_json(s));
    tri_event event = {.kind = TRI_EVENT_START, .facts = facts, .epochs = s->settings->epochs,
                       .mem_bytes = tri__exec_bytes(e->exec), .again = s->pending};
    TRI_TRY(tri__session_emit(s, &event));
    const tri_world *world = s->place.world;
    if (!world || world->since <= 0) return TRI_OK;
    return tri__session_emit(s, &(tri_event){.kind = TRI_EVENT_REGROUP, .seconds = tri__clock() - world->since});
}

static int is_scaled(const tri_session *s) { return s->engine.plan.train.scale >= 0; }

static tri_status emit_step(loop *l, double seconds) {
    const tri_session *s = l->s;
    const tri_step *last = &s->last;
    if (s->lead && seconds > 0)
        tri__peak_reached(s->settings->peaks, s->model_flops / seconds, last->flops / seconds, &l->peak);
    double mfu = l->peak.flops > 0 && seconds > 0 ? s->model_flops / seconds / l->peak.flops : 0;
    return tri__session_emit(s, &(tri_event){
        .kind = TRI_EVENT_TRAIN, .loss = last->loss, .learning_rate = last->learning_rate, .grad_norm = last->grad_norm,
        .step_seconds = seconds, .loader_seconds = s->loading * seconds, .comm_seconds = s->comm * seconds,
        .idle_seconds = s->idle * seconds, .device_seconds = s->worked, .device_bytes = s->used,
        .samples = last->samples, .tokens = last->tokens, .flops = last->flops, .mfu = mfu,
        .mem_bytes = last->mem_bytes, .experts = s->engine.plan.train.experts >= 0, .balance_loss = s->balance_loss,
        .dropped_tokens = s->dropped, .loss_scale = is_scaled(s) ? s->at.scale.scale : 0,
        .skipped_steps = s->at.skipped, .epochs = s->settings->epochs});
}

/* Advances the checkpoint in flight, if any; with `wait`, until it ends. A failure is logged and the run continues,
 * since the next checkpoint may succeed; a second consecutive failure ends the run. */
static tri_status finish_save(loop *l, int wait) {
    tri_session *s = l->s;
    tri_saved saved;
    TRI_TRY(tri__session_save_advance(s, wait, &saved));
    if (saved.result == TRI_SAVE_DONE) {
        l->failures = 0;
        l->saved_step = saved.step;
        memcpy(l->saved, saved.folder, sizeof l->saved);
        return tri__session_emit(s, &(tri_event){.kind = TRI_EVENT_CHECKPOINT, .text = l->saved});
    }
    if (saved.result != TRI_SAVE_FAILED) return TRI_OK;
    l->begun_step = -1;
    if (++l->failures > 1)
        return tri__fail(saved.status, "%s; the one before failed too, so the run ends", saved.words);
    tri__say(&s->log, TRI_LOG_WARN, "%s; older checkpoints are as they were. The run goes on, and ends if the next one "
             "fails too", saved.words);
    return TRI_OK;
}

/* With --async-save it is still in flight when this returns. */
static tri_status save(loop *l) {
    if (l->begun_step == l->s->at.step) return TRI_OK;
    TRI_TRY(finish_save(l, 1));
    TRI_TRY(tri__session_emit(l->s, &(tri_event){.kind = TRI_EVENT_SAVE}));
    TRI_TRY(tri__session_save_begin(l->s));
    l->begun_step = l->s->at.step;
    return finish_save(l, !l->s->settings->async_save);
}

/* There is no next checkpoint, so a failure is retried at once. */
static tri_status save_last(loop *l) {
    do {
        TRI_TRY(save(l));
        TRI_TRY(finish_save(l, 1));
    } while (l->saved_step != l->s->at.step);
    return TRI_OK;
}

static void say_undefined(loop *l, double figure) {
    const tri_session *s = l->s;
    if (isfinite(figure) || l->undefined_said) return;
    l->undefined_said = 1;
    tri__say(&s->log, TRI_LOG_WARN,
             "step %lld: --best-by %s is not defined on the validation table, whose rows lack a class: this validation "
             "is not the best. Take --best-by loss or accuracy, or another table",
             (long long)s->at.step, tri__best_name((tri_best_by)s->settings->best_by));
}

static void say_early(const tri_session *s) {
    char best[64] = "none was defined";
    if (s->at.best_step >= 0)
        snprintf(best, sizeof best, "the best, %.4f, was at step %lld", s->at.best, (long long)s->at.best_step);
    tri__say(&s->log, TRI_LOG_INFO,
             "no better %s in %lld validations in a row (%s): the run ends early, at step %lld of %lld",
             tri__best_name((tri_best_by)s->settings->best_by), (long long)s->at.not_better, best,
             (long long)s->at.step, (long long)s->steps);
}

/* *best: whether it is the best so far. */
static tri_status validate(loop *l, int *best) {
    tri_session *s = l->s;
    tri__scores_free(&l->valid);
    l->valid = (tri_scores){0};
    s->at.open_epoch = 1;
    TRI_TRY(tri__session_scores(s, &l->valid, s->lead ? &l->probs : NULL));
    s->at.open_epoch = 0;
    l->has_valid = 1;
    if (s->lead) TRI_TRY(tri__session_decide(s, l->probs));
    tri_best_by by = (tri_best_by)s->settings->best_by;
    double figure = tri__best_figure(by, &l->valid);
    if (s->place.world) /* machines may round logarithms differently, and all ranks must decide alike */
        TRI_TRY(tri_broadcast(tri_group_world(s->place.world), &figure, 1, TRI_F64, 0));
    say_undefined(l, figure);
    *best = tri__best_beats(by, figure, s->at.best);
    s->at.not_better = *best ? 0 : s->at.not_better + 1;
    if (!*best) return TRI_OK;
    s->at.best = figure, s->at.best_step = s->at.step;
    tri__json_decref(s->best_figures);
    s->best_figures = tri__scores_figures(&l->valid);
    if (s->decision) tri__json_set_new(s->best_figures, "decision", tri__json_deep_copy(s->decision));
    return s->best_figures ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

/* NULL: the loss. */
static const char *best_by(const tri_session *s) {
    return s->settings->best_by == TRI_BEST_LOSS ? NULL : tri__best_name((tri_best_by)s->settings->best_by);
}

/* Validation, the epoch's event, the best model. At the end of an epoch and of the run. */
static tri_status end_epoch(loop *l, int last) {
    tri_session *s = l->s;
    int64_t epoch = (s->at.step + s->batches - 1) / s->batches, every = s->settings->save_every;
    double mean = s->at.weight_sum > 0 ? s->at.loss_sum / s->at.weight_sum : NAN; /* NaN: every step was skipped */
    int best = 0;
    if (s->valid) TRI_TRY(validate(l, &best));
    TRI_TRY(tri__session_emit(s, &(tri_event){
        .kind = TRI_EVENT_EPOCH, .epoch_index = epoch, .epochs = s->settings->epochs, .train_loss = mean,
        .valid = l->has_valid ? &l->valid : NULL, .probs = l->probs, .labels = s->valid ? s->valid->labels : NULL,
        .decision = s->valid ? s->decision : NULL, .rows = s->valid ? s->valid->row : NULL,
        .seconds = tri__clock() - l->epoch_begin, .best = best, .best_by = best_by(s)}));
    if (tri__session_ends_early(s)) say_early(s);
    free(l->probs);
    l->probs = NULL;
    if (s->at.batch == 0) s->at.loss_sum = s->at.weight_sum = 0;
    l->epoch_begin = tri__clock();
    return every && (best || last || epoch % every == 0) ? save(l) : TRI_OK;
}

/* After a step: the end of an epoch, checkpoints that are due, the end of the run. */
static tri_status end_step(loop *l) {
    tri_session *s = l->s;
    int last = s->at.step == s->steps;
    if (s->at.batch == 0 || last) TRI_TRY(end_epoch(l, last));
    last = tri__session_is_over(s);
    if (s->settings->save_steps && s->at.step % s->settings->save_steps == 0) TRI_TRY(save(l));
    if (last && s->settings->save_every) TRI_TRY(save_last(l));
    return last ? finish_save(l, 1) : TRI_OK;
}

static tri_status one_step(loop *l) {
    tri_session *s = l->s;
    double begin = tri__clock();
    tri__recorder_before(&l->recorder);
    tri__stage_clock_before(&l->clock, s);
    TRI_TRY(tri_forward_backward(s, NULL));
    TRI_TRY(tri_update(s));
    double seconds = tri__clock() - begin + s->waited;
    tri__stage_clock_after(&l->clock, s, tri__clock() - begin);
    TRI_TRY(tri__recorder_after(&l->recorder));
    tri__prediction_step(&s->prediction, seconds);
    l->samples += s->last.samples;
    l->tokens += s->last.tokens;
    int last = s->at.step == s->steps;
    if (s->at.step % s->settings->log_every == 0 || last) TRI_TRY(emit_step(l, seconds));
    tri_aside aside = tri__session_step_aside(s);
    TRI_TRY(finish_save(l, 0));
    TRI_TRY(end_step(l));
    TRI_TRY(tri__session_keep_done(s));
    tri__session_step_back(s, &aside);
    s->longest = fmax(s->longest, tri__clock() - begin);
    return TRI_OK;
}

/* The last step is in the state that the run goes on from, and its end is not. */
static tri_status end_again(loop *l) {
    tri_session *s = l->s;
    if (s->at.step % s->settings->log_every == 0 || s->at.step == s->steps) TRI_TRY(emit_step(l, 0));
    TRI_TRY(end_step(l));
    s->pending = 0;
    return tri__session_keep_done(s);
}

/* A run can stop during a long validation, which is repeated when the run continues. */
static tri_status look_for_stop(void *context) {
    loop *l = context;
    int stop;
    TRI_TRY(tri__session_ask(l->s, &stop));
    return stop ? tri__fail(TRI_STOPPED, "stopped while validating") : TRI_OK;
}

/* A stop was requested: saves the state, unless checkpoints are off. */
static tri_status stop_here(loop *l) {
    tri_session *s = l->s;
    int off = s->settings->save_every == 0 && s->settings->save_steps == 0, fresh = s->at.step == l->first_step;
    if (!off && !fresh) TRI_TRY(save_last(l));
    const char *kept = off           ? "nothing is saved, since --save-every is 0"
                       : !s->at.step ? "nothing was trained yet; run again to begin"
                                     : "its state is saved; run again to continue";
    return tri__fail(TRI_STOPPED, "stopped at step %lld of %lld (%s); %s", (long long)s->at.step, (long long)s->steps,
                     tri__stop_text(s->stop, (char[32]){0}), kept);
}

static tri_status leave(loop *l) {
    tri_session *s = l->s;
    int ends;
    TRI_TRY(tri__session_ends(s, &ends));
    if (ends) return stop_here(l);
    /* Ranks wait to join: what is not kept in memory is saved, and all leave. */
    if (!s->kept && s->at.step != l->first_step) TRI_TRY(save_last(l));
    s->place.world->regroups = 1;
    return tri__fail(TRI_STOPPED, "ranks join at step %lld", (long long)s->at.step);
}

/* Numbers are not finite: the weights are still those of the last good step, and are saved unless checkpoints are
 * off. */
static tri_status keep_last_good(loop *l, tri_status status) {
    tri_words words;
    const char *text = words.text;
    tri_session *s = l->s;
    if (status != TRI_NOTFINITE || s->at.step == 0 || s->settings->save_every == 0) return status;
    tri__words_keep(&words);
    if (tri__engine_fetch(&s->engine) != TRI_OK) return tri__fail(status, "%s", text);
    for (int i = 0; i < s->engine.n_weights; i++) {
        const float *w = s->engine.weights[i].data; /* [count] */
        for (int64_t k = 0; k < s->engine.weights[i].slice.end - s->engine.weights[i].slice.begin; k++)
            if (!isfinite(w[k])) return tri__fail(status, "%s", text);
    }
    if (save_last(l) != TRI_OK) return tri__fail(status, "%s; and saving that state failed: %s", text, tri_error());
    return tri__fail(status, "%s (kept in %s)", text, l->saved);
}

/* The best validation: its step, figures, and the checkpoint marked as best, if it was saved. */
static tri_json *best_json(const tri_session *s) {
    char path[TRI_PATH_MAX];
    int64_t marked;
    double loss = tri__json_number_value(tri__json_get(s->best_figures, tri__best_key(TRI_BEST_LOSS)));
    tri_json *best = tri__json_pack("{s:I, s:f}", "step", (tri_json_int)s->at.best_step, "loss",
                                    best_by(s) ? loss : s->at.best);
    if (best && s->best_figures) tri__json_set_new(best, "figures", tri__json_deep_copy(s->best_figures));
    if (best && best_by(s)) tri__json_set_new(best, "by", tri__json_string(best_by(s)));
    if (best && tri__checkpoint_best(s->settings->output_dir, &marked) == TRI_OK && marked == s->at.best_step &&
        tri__checkpoint_name(path, s->settings->output_dir, marked, "") == TRI_OK && tri__is_folder(path))
        tri__json_set_new(best, "checkpoint", tri__json_string(path));
    return best;
}

static tri_json *summary_json(const loop *l) {
    const tri_session *s = l->s;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double own = tri__clock() - s->opened, safe = own > 0 ? own : 1;
    tri_json *summary = tri__json_pack(
        "{s:I, s:I, s:f, s:f, s:s, s:f, s:f, s:I, s:I, s:o}", "steps", (tri_json_int)s->at.step, "parameters",
        (tri_json_int)s->engine.model.n_elements, "seconds", tri__session_seconds(s), "loss", s->last.loss, "loss_of",
        "the last training step", "samples_per_second", (double)l->samples / safe, "tokens_per_second",
        (double)l->tokens / safe, "max_rss_bytes", (tri_json_int)usage.ru_maxrss * 1024, "data_bytes",
        (tri_json_int)(s->train->memory + (s->valid ? s->valid->memory : 0)), "memory", memory_json(&s->engine));
    if (!summary) return NULL;
    add(summary, "prediction", tri__prediction_json(&s->prediction, own));
    add(summary, "bad_rows", bad_rows_json(s));
    if (is_scaled(s)) tri__json_set_new(summary, "skipped_steps", tri__json_integer(s->at.skipped));
    if (l->has_valid) tri__json_set_new(summary, "valid", tri__scores_json(&l->valid));
    if (s->decision) tri__json_set_new(summary, "decision", tri__json_deep_copy(s->decision));
    if (s->at.best_step >= 0) tri__json_set_new(summary, "best", best_json(s));
    if (s->settings->early_stopping)
        tri__json_set_new(summary, "stopped_early", tri__json_boolean(tri__session_ends_early(s)));
    if (l->saved_step >= 0) tri__json_set_new(summary, "checkpoint", tri__json_string(l->saved));
    return summary;
}

/* The summary of a run that had already ended: *summary is a new reference on the first rank, *ended is the same on
 * all. A run killed between its last checkpoint and its summary has none, and is completed now. */
static tri_status find_summary(const tri_session *s, tri_json **summary, int *ended) {
    int32_t there = 0;
    *ended = 0;
    if (!tri__session_is_over(s) || s->at.open_epoch) return TRI_OK;
    if (s->lead) {
        TRI_PATH(path, s->settings->output_dir, "summary.json");
        TRI_TRY(tri__file_there(path, &there));
        tri_status status = there ? tri__json_load(path, TRI_DATA, summary) : TRI_OK;
        if (status != TRI_OK && status != TRI_DATA) return status;
        there = *summary && tri__whole_in(*summary, "steps") == s->at.step;
    }
    if (s->place.world) TRI_TRY(tri_broadcast(tri_group_world(s->place.world), &there, 1, TRI_I32, 0));
    *ended = there;
    return TRI_OK;
}

/* Changes nothing; *ended: the run had already ended. */
static tri_status look_for_end(const tri_session *s, int *ended) {
    TRI_OWNED(tri__json_drop) tri_json *summary = NULL;
    TRI_TRY(find_summary(s, &summary, ended));
    if (!*ended) return TRI_OK;
    if (tri__session_ends_early(s))
        tri__say(&s->log, TRI_LOG_INFO, "it ended early at step %lld of %lld, after %lld validations without a better "
                 "one: nothing is trained, and the folder stays as it is. A higher --early-stopping, or 0, goes on, "
                 "--resume never begins anew", (long long)s->at.step, (long long)s->steps, (long long)s->at.not_better);
    else if (tri__session_ends_here(s))
        tri__say(&s->log, TRI_LOG_INFO, "%lld of %lld steps were taken before, up to epoch %lld: nothing is trained, "
                 "and the folder stays as it is. A higher --until-epoch, or none, goes on", (long long)s->at.step,
                 (long long)s->steps, (long long)s->settings->until_epoch);
    else
        tri__say(&s->log, TRI_LOG_INFO, "all %lld steps were taken before: nothing is trained, and the folder stays as "
                 "it is. A higher --epochs or --max-steps goes on, --resume never begins anew", (long long)s->at.step);
    return tri__session_emit(s, &(tri_event){.kind = TRI_EVENT_UNCHANGED, .facts = summary, .text = s->from});
}

/* The run is over, but its summary was not written. */
static tri_status catch_up(loop *l) {
    tri_session *s = l->s;
    if (s->from[0]) l->saved_step = s->at.step;
    memcpy(l->saved, s->from, sizeof l->saved);
    if (!s->valid) return TRI_OK;
    TRI_TRY(tri__session_scores(s, &l->valid, NULL));
    l->has_valid = 1;
    return TRI_OK;
}

/* Figures of all ranks, and the summary. */
static tri_status end_run(loop *l) {
    tri_session *s = l->s;
    TRI_OWNED(tri__json_drop) tri_json *pipeline = NULL, *modules = NULL, *ranks = NULL;
    TRI_TRY(tri__recorder_finish(&l->recorder));
    TRI_TRY(tri__ranks_json(s, &l->recorder, &ranks));
    TRI_TRY(tri__modules_of_all(s, &l->recorder, &modules));
    TRI_TRY(tri__pipeline_json(s, &l->clock, &pipeline));
    TRI_OWNED(tri__json_drop) tri_json *summary = summary_json(l);
    if (!summary) return tri__fail(TRI_RESOURCE, "out of memory");
    add(summary, "pipeline", TRI_GIVE(pipeline));
    add(summary, "modules", TRI_GIVE(modules));
    add(summary, "ranks", TRI_GIVE(ranks));
    return tri__session_emit(
        s, &(tri_event){.kind = TRI_EVENT_END, .facts = summary, .seconds = tri__session_seconds(s)});
}

static tri_status run(loop *l) {
    tri_session *s = l->s;
    int more, ended = 0, stop;
    if (!s->pending) TRI_TRY(look_for_end(s, &ended));
    if (ended) return TRI_OK;
    TRI_TRY(tri__recorder_open(&l->recorder, s->settings->profile, s));
    TRI_TRY(tri__stage_clock_open(&l->clock, s));
    TRI_TRY(tri__peak_find(s->settings, &s->engine, &l->peak));
    TRI_TRY(emit_start(l));
    l->epoch_begin = tri__clock();
    if (tri__session_is_over(s) && !s->at.open_epoch && !s->pending) TRI_TRY(catch_up(l));
    l->first_step = s->at.step;
    s->engine.between = look_for_stop, s->engine.between_context = l;
    tri_status status = s->pending ? end_again(l) : s->at.open_epoch ? end_step(l) : TRI_OK;
    if (status == TRI_OK) TRI_TRY(tri__session_ask(s, &stop)); /* no update has exchanged it yet */
    while (status == TRI_OK && !tri__session_is_over(s)) {
        if (tri__session_stopping(s)) return leave(l);
        TRI_TRY(tri_next_batch(s, &more));
        if (!more) break;
        status = one_step(l);
    }
    if (status == TRI_STOPPED) return leave(l);
    if (status != TRI_OK) return keep_last_good(l, status);
    return end_run(l);
}

tri_status tri__run_train(const tri_settings *settings, tri_world *world, const tri_sink *sink, const tri_stop *stop) {
    loop l = {.begun_step = -1, .saved_step = -1};
    tri_status status = tri__session_open(settings, world, sink, stop, &l.s);
    int agreed = status == TRI_OK; /* once started, ranks agree on a stop; before that, any rank's stop ends the run */
    if (status == TRI_OK) status = run(&l);
    if (status != TRI_OK && !(agreed && status == TRI_STOPPED) && world && world->failed == TRI_OK)
        tri_world_fail(world, status, tri_error());
    tri__recorder_close(&l.recorder);
    tri__stage_clock_close(&l.clock);
    tri__scores_free(&l.valid);
    free(l.probs);
    tri_session_close(l.s);
    return status;
}
