/* session.c - opens a run from settings to first batch, and takes its steps. */
#include "train/session.h"
#include "base/clock.h"
#include "train/inputs.h"
#include "train/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

tri_status tri__session_emit(const tri_session *session, tri_event *event) {
    event->time = tri__clock_wall();
    event->step = session->at.step;
    event->steps = session->steps;
    event->epoch = session->batches ? (double)session->at.step / (double)session->batches : 0;
    event->world = 1;
    return session->sink.emit ? session->sink.emit(session->sink.context, event) : TRI_OK;
}

/* Messages become events. A sink that fails on words will fail again on the next event, which is checked. */
static void say(void *context, tri_log_level level, const char *text) {
    tri_session *session = context;
    tri_event event = {.kind = TRI_EVENT_MESSAGE, .level = level, .text = text};
    (void)tri__session_emit(session, &event);
}

static tri_status load_data(tri_session *s) {
    tri_data_files files;
    tri_inputs inputs;
    TRI_TRY(tri__data_files(s->settings->data_path, &files));
    if (!files.train[0])
        return tri__fail(TRI_NOINPUT, "%s: has no training table (train.csv, train.tsv or train.jsonl)", s->settings->data_path);
    TRI_TRY(tri__inputs_make(s->settings, &s->assets, &s->log, s->settings->output_dir, &inputs));
    TRI_TRY(tri__inputs_fit(&inputs, files.train, &s->preprocess, &s->train));
    if (tri__is_file(s->settings->data_path) || !files.valid[0]) {
        tri__say(&s->log, TRI_LOG_WARN, "no validation table beside the training data: no validation, no best model");
        return TRI_OK;
    }
    TRI_TRY(tri__inputs_open(&inputs, files.valid, s->preprocess, 1, &s->valid));
    return s->valid->n ? TRI_OK : tri__fail(TRI_DATA, "%s: no rows to validate on", files.valid);
}

static tri_status plan_steps(tri_session *s) {
    const tri_settings *set = s->settings;
    TRI_TRY(tri__sampler_open(&s->sampler, s->train, set->batch_size, (int)set->num_microbatches, 1, (uint32_t)set->seed));
    s->batches = tri__sampler_batches(&s->sampler);
    s->steps = s->batches * set->epochs;
    if (set->max_steps && set->max_steps < s->steps) s->steps = set->max_steps;
    s->epochs = (s->steps + s->batches - 1) / s->batches;
    return TRI_OK;
}

static tri_status open_engine(tri_session *s) {
    const tri_settings *set = s->settings;
    tri_counts max = tri__largest(&s->sampler, s->epochs, set->max_tokens, set->model.max_sen_len), max_infer = max;
    if (s->valid) TRI_TRY(tri__largest_of(s->valid, set->batch_size, 0, set->model.max_sen_len, &max_infer));
    TRI_TRY(tri__engine_plan(set, &s->assets, s->preprocess->width, 1, &max, &max_infer, &s->engine));
    TRI_TRY(tri__engine_bind(&s->engine));
    const tri_program *program = s->engine.plan.train.program;
    while (s->update_at < program->n_instrs && program->instr[s->update_at].mb >= 0) s->update_at++;
    s->feed = calloc((size_t)s->engine.n_mb, sizeof *s->feed);
    return s->feed ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

static tri_status open_loader(tri_session *s) {
    tri_loader_spec spec = {.sampler = &s->sampler,
                            .class_weights = s->settings->model.class_weights.n ? s->settings->model.class_weights.at : NULL,
                            .first_epoch = s->at.epoch,
                            .first_batch = s->at.batch,
                            .epochs = s->epochs,
                            .workers = s->engine.workers};
    for (int text = 0; text < s->assets.n_texts; text++)
        spec.position_base[text] = tri__encoder_position_base(&s->assets.encoder[text]);
    const tri_counts *max = &s->engine.plan.train.program->max;
    spec.maxima = (tri_sampler_maxima){max->of[TRI_SYM_N], {max->of[TRI_SYM_T0], max->of[TRI_SYM_T1]}};
    return tri__loader_open(&spec, &s->loader);
}

static tri_status open_all(tri_session *s) {
    TRI_TRY(tri__model_config_check(&s->settings->model));
    TRI_TRY(tri__settings_check(s->settings));
    TRI_TRY(tri__assets_open(s->settings, 1, &s->log, &s->assets));
    TRI_TRY(load_data(s));
    TRI_TRY(plan_steps(s));
    TRI_TRY(tri__folder_lock(s->settings->output_dir, &s->lock));
    TRI_TRY(open_engine(s));
    TRI_TRY(tri__session_resume(s));
    if (!s->resumed) TRI_TRY(tri__engine_init(&s->engine, &s->assets, &s->log));
    return open_loader(s);
}

tri_status tri__session_open(const tri_settings *settings, const tri_sink *sink, tri_session **out) {
    tri_session *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s) return tri__fail(TRI_RESOURCE, "out of memory");
    s->settings = settings;
    s->lock = -1;
    s->at = (tri_position){.best_loss = INFINITY, .best_step = -1};
    if (sink) s->sink = *sink;
    s->log = (tri_log){.say = say, .context = s};
    tri_status status = open_all(s);
    if (status != TRI_OK) {
        tri_session_close(s);
        return status;
    }
    *out = s;
    return TRI_OK;
}

void tri_session_close(tri_session *s) {
    if (!s) return;
    tri__loader_close(s->loader);
    tri__engine_close(&s->engine);
    tri__sampler_close(&s->sampler);
    tri__dataset_close(s->train);
    tri__dataset_close(s->valid);
    tri__preprocess_free(s->preprocess);
    tri__assets_close(&s->assets);
    free(s->feed);
    if (s->lock >= 0) close(s->lock);
    if (s->settings == &s->own) tri__settings_free(&s->own);
    free(s);
}

/* FLOPs of a program bound to this batch. */
static double step_flops(const tri_session *s) {
    const tri_program *p = s->engine.plan.train.program;
    double flops = 0;
    for (int i = 0; i < p->n_instrs; i++)
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

tri_status tri_next_batch(tri_session *s, int *more) {
    *more = 0;
    if (s->at.step >= s->steps) return TRI_OK;
    s->batch = tri__loader_next(s->loader, &s->waited);
    if (!s->batch) return TRI_OK;
    if (s->batch->weight <= 0) return tri__fail(TRI_DATA, "step %lld: the weights of all its labels are 0", (long long)s->at.step + 1);
    s->inv = 1 / s->batch->weight;
    for (int mb = 0; mb < s->engine.n_mb; mb++) tri__feed(&s->batch->part[mb], &s->engine, &s->inv, s->hyper, &s->feed[mb]);
    TRI_TRY(check_room(s));
    s->last = (tri_step){.steps = s->steps,
                         .samples = s->batch->n,
                         .tokens = s->batch->tokens,
                         .flops = step_flops(s),
                         .mem_bytes = tri__exec_bytes(s->engine.exec)};
    *more = 1;
    return TRI_OK;
}

/* Says which value was the first to go wrong. */
static tri_status not_finite(tri_session *s, const char *what, double value) {
    const tri_program *p = s->engine.plan.train.program;
    int slot = -1, at = tri__exec_find_bad(s->engine.exec, s->engine.train, (uint32_t)s->at.step + 1, s->feed, &slot);
    if (at < 0) return tri__fail(TRI_NOTFINITE, "step %lld: the %s is %g", (long long)s->at.step + 1, what, value);
    int unit = p->instr[at].unit;
    return tri__fail(TRI_NOTFINITE,
                     "step %lld: the %s is %g; the first bad tensor is %s (operation %s%s%s). Weights keep their last good values; "
                     "try a smaller --lr or more --warmup-steps, or look at this batch's numbers",
                     (long long)s->at.step + 1, what, value, p->slot[slot].name, tri__op_row(p->instr[at].op)->name,
                     unit >= 0 ? " of " : "", unit >= 0 ? p->unit[unit] : "");
}

static void *result(const tri_session *s, int slot) { return tri__exec_slot(s->engine.exec, s->engine.train, slot); }

tri_status tri_forward_backward(tri_session *s, double *loss) {
    if (!s->batch) return tri__fail(TRI_USAGE, "tri_forward_backward: no batch; call tri_next_batch first");
    tri__exec_run(s->engine.exec, s->engine.train, 0, s->update_at, (uint32_t)s->at.step + 1, s->feed, s->times);
    s->last.loss = *(const double *)result(s, s->engine.plan.train.loss);
    if (loss) *loss = s->last.loss;
    return isfinite(s->last.loss) ? TRI_OK : not_finite(s, "loss", s->last.loss);
}

tri_status tri_update(tri_session *s) {
    if (!s->batch) return tri__fail(TRI_USAGE, "tri_update: no batch; call tri_next_batch and tri_forward_backward first");
    const tri_settings *set = s->settings;
    double t = (double)(s->at.step + 1);
    s->last.learning_rate = tri__learning_rate(set->lr, set->warmup_steps, s->steps, s->at.step);
    s->hyper[0] = (float)s->last.learning_rate;
    s->hyper[1] = (float)(1 - pow((float)set->adam_beta1, t)); /* the kernels' beta is a float */
    s->hyper[2] = (float)(1 - pow((float)set->adam_beta2, t));
    const tri_program *program = s->engine.plan.train.program;
    tri__exec_run(s->engine.exec, s->engine.train, s->update_at, program->n_instrs, (uint32_t)s->at.step + 1, s->feed, s->times);
    s->last.grad_norm = *(const double *)result(s, s->engine.plan.train.norm);
    if (!*(const int32_t *)result(s, s->engine.plan.train.apply)) return not_finite(s, "gradients' norm", s->last.grad_norm);

    s->at.loss_sum += s->last.loss * s->batch->weight;
    s->at.weight_sum += s->batch->weight;
    s->at.step++;
    s->at.batch = s->batch->index + 1;
    s->at.epoch = s->batch->epoch;
    if (s->at.batch == s->batches) s->at.epoch++, s->at.batch = 0;
    s->last.step = s->at.step;
    s->last.epoch = (double)s->at.step / (double)s->batches;
    s->batch = NULL;
    return TRI_OK;
}

tri_status tri_step_metrics(const tri_session *s, tri_step *out) {
    *out = s->last;
    return TRI_OK;
}

tri_status tri__session_scores(tri_session *s, tri_scores *scores) {
    if (!s->valid) return tri__fail(TRI_USAGE, "there is no validation file to evaluate on");
    double begin = tri__clock();
    size_t classes = (size_t)s->engine.model.n_classes;
    float *probs = malloc((size_t)s->valid->n * classes * sizeof *probs); /* [n, classes] */
    if (!probs) return tri__fail(TRI_RESOURCE, "out of memory for %lld predictions", (long long)s->valid->n);
    const tri_model_config *m = &s->settings->model;
    tri_status status = tri__evaluate(&s->engine, s->valid, s->settings->batch_size, probs);
    if (status == TRI_OK)
        status = tri__scores(probs, s->valid->labels, s->valid->n, (int)classes, m->class_weights.n ? m->class_weights.at : NULL, scores);
    if (status == TRI_OK) scores->seconds = tri__clock() - begin;
    free(probs);
    return status;
}
