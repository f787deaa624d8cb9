/* evaluate.c - feeds batches in file order to the forward-only program and collects probabilities. */
#include "engine/evaluate.h"

void tri__feed_fixed(const tri_engine *engine, const double *loss_inv, tri_feed *feed) {
    *feed = (tri_feed){.field = {[TRI_FIELD_columns] = engine->model.columns.word,
                                 [TRI_FIELD_class_weights] = engine->class_weights,
                                 [TRI_FIELD_layer_scale] = engine->layer_scale, [TRI_FIELD_loss_inv] = loss_inv}};
    for (int text = 0; text < 2; text++) {
        feed->field[TRI_FIELD_blocks0 + text] = engine->model.blocks[text].word;
        feed->field[TRI_FIELD_keyd0 + text] = engine->model.distances[text].key;
    }
}

void tri__feed(const tri_micro *micro, const tri_engine *engine, const double *loss_inv, const float *hyper,
               tri_feed *feed) {
    const tri_counts counts = {.of = {0, micro->tokens[0], micro->tokens[1], micro->n, micro->windows[0],
                                      micro->windows[1], micro->expert_rows[0], micro->expert_rows[1]},
                               .squares = {0, micro->squares[0], micro->squares[1], 0}};
    tri__feed_fixed(engine, loss_inv, feed);
    feed->counts = tri__plan_counts(&engine->in, &counts);
    for (int text = 0; text < engine->model.n_texts; text++) feed->field[tri__field_windows(text)] = micro->win[text];
    for (int text = 0; text < engine->model.n_encoders; text++) {
        feed->field[text ? TRI_FIELD_keyw1 : TRI_FIELD_keyw0] = micro->keyw[text];
        feed->field[text ? TRI_FIELD_places1 : TRI_FIELD_places0] = micro->places[text];
        int at = text ? TRI_FIELD_ids1 : TRI_FIELD_ids0;
        feed->field[TRI_FIELD_ids0 + at] = micro->ids[text], feed->field[TRI_FIELD_pos0 + at] = micro->pos[text];
        feed->field[TRI_FIELD_key0 + at] = micro->key[text], feed->field[TRI_FIELD_seq0 + at] = micro->seq[text];
    }
    feed->field[TRI_FIELD_numbers] = micro->numbers, feed->field[TRI_FIELD_labels] = micro->labels;
    feed->field[TRI_FIELD_row_weights] = micro->weights, feed->field[TRI_FIELD_keyn] = micro->keyn;
    feed->field[TRI_FIELD_seqf] = micro->seqf, feed->field[TRI_FIELD_keyf] = micro->keyf;
    feed->field[TRI_FIELD_hyper] = hyper;
}

tri_loader_spec tri__loader_spec(const tri_engine *engine, tri_sampler *sampler, int parts) {
    tri_loader_spec spec = {.sampler = sampler, .first_part = engine->place.replica * parts, .parts = parts,
                            .workers = engine->workers,
                            .micro = {.granule = tri__plan_granule(&engine->in), .ring = tri__plan_ring(&engine->in),
                                      .words = engine->model.n_targets, .fused = engine->model.tokens},
                            .sharers = tri__mesh_ep(&engine->in.mesh)};
    for (int text = 0; text < engine->model.n_encoders; text++) {
        spec.micro.position_base[text] = tri__encoder_position_base(&engine->model.encoder[text]);
        spec.micro.capacity[text] = tri__encoder_capacity(&engine->model.encoder[text]);
    }
    return spec;
}

tri_status tri__largest(tri_sampler *sampler, int64_t epochs, int64_t max_tokens, int64_t max_len, tri_counts *max) {
    tri_sampler_maxima most;
    TRI_TRY(tri__sampler_maxima(sampler, epochs, &most));
    *max = (tri_counts){.of = {0, most.tokens[0], most.tokens[1], most.rows, most.windows[0], most.windows[1]}};
    for (int sym = TRI_SYM_T0; sym <= TRI_SYM_T1; sym++) {
        if (max_tokens > 0 && max_tokens < max->of[sym])
            return tri__fail(TRI_USAGE, "--max-tokens %lld: %s %lld tokens of one text; give at least that, or 0%s",
                (long long)max_tokens,
                most.bounded ? "the batches of so many epochs are not measured one by one, and a microbatch may have"
                             : "the largest microbatch has",
                (long long)max->of[sym], most.bounded ? ", or fewer epochs" : "");
        if (max_tokens > 0 && max->of[sym] > 0) max->of[sym] = max_tokens;
        max->squares[sym] = (double)max->of[sym] * (double)max_len; /* no sequence is longer than max_len */
        max->shortest[sym - TRI_SYM_T0] = most.shortest[sym - TRI_SYM_T0];
    }
    return TRI_OK;
}

tri_status tri__largest_of(const tri_dataset *data, int64_t batch, int parts, int64_t max_tokens, int64_t max_len,
                           tri_counts *max) {
    TRI_OWNED(tri__sampler_close) tri_sampler sampler = {0};
    TRI_TRY(tri__sampler_open(&sampler, data, batch, parts, 0, 0));
    return tri__largest(&sampler, 1, max_tokens, max_len, max);
}

int tri__infer_microbatches(const tri_settings *settings, int train) {
    return (train && settings->pp_size == 1) || settings->num_microbatches < 1 ? 1 : (int)settings->num_microbatches;
}

const float *tri__infer_probs(const tri_engine *engine, int part) {
    const float *all = tri__exec_slot(engine->exec, engine->infer, engine->plan.infer.probs);
    return all + part * engine->plan.infer.program->max.of[TRI_SYM_N] * engine->model.n_classes;
}

/* at: [replicas * microbatches] scratch: the next sample of each part. */
static void collect(const tri_engine *engine, const tri_batch *batch, int64_t *at, float *probs) {
    int64_t classes = engine->model.n_classes;
    memset(at, 0, (size_t)(tri__mesh_readers(&engine->place.mesh) * engine->in.n_mb_infer) * sizeof *at);
    for (int64_t i = 0; i < batch->n; i++) {
        int part = batch->part_of[i];
        memcpy(probs + batch->row[i] * classes, tri__infer_probs(engine, part) + at[part]++ * classes,
               (size_t)classes * sizeof *probs);
    }
}

tri_status tri__feed_check(const tri_engine *engine, const tri_counts *counts) {
    const tri_program *program = engine->plan.infer.program;
    for (int sym = TRI_SYM_T0; sym < TRI_SYM_COUNT; sym++)
        if (counts->of[sym] > program->max.of[sym])
            return tri__fail(
                TRI_USAGE, "a batch has %lld %s, the plan has room for %lld: raise --max-tokens or lower --batch-size",
                (long long)counts->of[sym], sym == TRI_SYM_N ? "rows" : sym > TRI_SYM_N ? "windows" : "tokens",
                (long long)program->max.of[sym]);
    return TRI_OK;
}

/* A ring's transfers are planned for sequences that are no shorter than those that were counted. */
static tri_status check_shortest(const tri_engine *engine, const tri_micro *micro) {
    for (int text = 0; text < engine->model.n_texts && tri__plan_ring(&engine->in); text++)
        for (int64_t s = 0; s < (micro->win[text] ? 0 : micro->n); s++)
            if (micro->seq[text][s + 1] - micro->seq[text][s] < engine->in.max_infer.shortest[text])
                return tri__fail(TRI_USAGE, "a text of %d tokens is shorter than the plan's shortest, of %lld",
                                 (int)(micro->seq[text][s + 1] - micro->seq[text][s]),
                                 (long long)engine->in.max_infer.shortest[text]);
    return TRI_OK;
}

/* What an evaluation needs besides the engine. */
typedef struct evaluation {
    tri_engine *engine;
    tri_sampler sampler;
    tri_loader *loader;
    tri_feed *feed;     /* [microbatches] */
    int64_t *at;        /* [replicas * microbatches] scratch */
    float *probs;       /* [data->n, classes] */
} evaluation;

static void close_evaluation(evaluation *e) {
    tri__loader_close(e->loader);
    tri__sampler_close(&e->sampler);
    TRI_FREE(e->feed, e->at);
}

static tri_status open_evaluation(evaluation *e, const tri_dataset *data, int64_t batch) {
    tri_engine *engine = e->engine;
    int replicas = tri__mesh_readers(&engine->place.mesh), n_mb = engine->in.n_mb_infer;
    TRI_TRY(tri__sampler_open(&e->sampler, data, batch * replicas, replicas * n_mb, 0, 0));
    e->feed = calloc((size_t)n_mb, sizeof *e->feed);
    e->at = calloc((size_t)(replicas * n_mb), sizeof *e->at);
    if (!e->feed || !e->at) return tri__fail(TRI_RESOURCE, "out of memory for an evaluation");
    tri_loader_spec spec = tri__loader_spec(engine, &e->sampler, n_mb);
    spec.epochs = 1;
    TRI_TRY(tri__sampler_maxima(&e->sampler, 1, &spec.maxima));
    return tri__loader_open(&spec, &e->loader);
}

static tri_status evaluate_batch(evaluation *e, const tri_batch *batch) {
    static const double inv = 1;
    tri_engine *engine = e->engine;
    const tri_program *program = engine->plan.infer.program;
    for (int mb = 0; mb < program->n_mb; mb++) {
        tri__feed(&batch->part[mb], engine, &inv, NULL, &e->feed[mb]);
        TRI_TRY(tri__feed_check(engine, &e->feed[mb].counts));
        TRI_TRY(check_shortest(engine, &batch->part[mb]));
    }
    TRI_TRY(tri__exec_run(engine->exec, engine->infer, 0, program->n_instrs, 0, e->feed, NULL));
    TRI_TRY(tri__exec_finish(engine->exec));
    collect(engine, batch, e->at, e->probs);
    return engine->between ? engine->between(engine->between_context) : TRI_OK;
}

/* Puts what is evaluated in the place of the weights that are trained; the second time, these again. */
static tri_status exchange(tri_engine *engine) {
    const tri_feed none = {0};
    int n = engine->plan.exchange->n_instrs;
    return n ? tri__exec_run(engine->exec, engine->exchange, 0, n, 0, &none, NULL) : TRI_OK;
}

tri_status tri__evaluate(tri_engine *engine, const tri_dataset *data, int64_t batch, float *probs) {
    evaluation e = {.engine = engine, .probs = probs};
    const tri_batch *next = NULL;
    TRI_TRY(exchange(engine));
    tri_status status = open_evaluation(&e, data, batch);
    while (status == TRI_OK && (status = tri__loader_next(e.loader, &next, NULL)) == TRI_OK && next)
        status = evaluate_batch(&e, next);
    close_evaluation(&e);
    tri_status back = exchange(engine); /* also where the evaluation was stopped: the weights are saved next */
    return status != TRI_OK ? status : back;
}
