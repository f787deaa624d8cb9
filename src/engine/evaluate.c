/* evaluate.c - feeds batches in file order to the forward-only program and collects probabilities. */
#include "engine/evaluate.h"

#include <string.h>

void tri__feed(const tri_micro *micro, const tri_engine *engine, const double *loss_inv, const float *hyper,
               tri_feed *feed) {
    const tri_counts counts = {.of = {0, micro->tokens[0], micro->tokens[1], micro->n},
                               .squares = {0, micro->squares[0], micro->squares[1], 0}};
    *feed = (tri_feed){.counts = tri__counts_rounded(&counts, tri__plan_granule(&engine->in))};
    for (int text = 0; text < engine->model.n_texts; text++) {
        int at = text ? TRI_FIELD_ids1 : TRI_FIELD_ids0;
        feed->field[TRI_FIELD_ids0 + at] = micro->ids[text];
        feed->field[TRI_FIELD_pos0 + at] = micro->pos[text];
        feed->field[TRI_FIELD_key0 + at] = micro->key[text];
        feed->field[TRI_FIELD_seq0 + at] = micro->seq[text];
    }
    feed->field[TRI_FIELD_numbers] = micro->numbers;
    feed->field[TRI_FIELD_labels] = micro->labels;
    feed->field[TRI_FIELD_keyn] = micro->keyn;
    feed->field[TRI_FIELD_class_weights] = engine->class_weights;
    feed->field[TRI_FIELD_loss_inv] = loss_inv;
    feed->field[TRI_FIELD_hyper] = hyper;
}

tri_status tri__largest(tri_sampler *sampler, int64_t epochs, int64_t max_tokens, int64_t max_len, tri_counts *max) {
    tri_sampler_maxima most;
    tri__sampler_maxima(sampler, epochs, &most);
    *max = (tri_counts){.of = {0, most.tokens[0], most.tokens[1], most.rows}};
    for (int sym = TRI_SYM_T0; sym <= TRI_SYM_T1; sym++) {
        if (max_tokens > 0 && max_tokens < max->of[sym])
            return tri__fail(
                TRI_USAGE,
                "--max-tokens %lld: the largest microbatch has %lld tokens of one text; give at least that, or 0",
                (long long)max_tokens, (long long)max->of[sym]);
        if (max_tokens > 0 && max->of[sym] > 0) max->of[sym] = max_tokens;
        max->squares[sym] = (double)max->of[sym] * (double)max_len; /* no sequence is longer than max_len */
    }
    return TRI_OK;
}

tri_status tri__largest_of(const tri_dataset *data, int64_t batch, int parts, int64_t max_tokens, int64_t max_len,
                           tri_counts *max) {
    tri_sampler sampler;
    TRI_TRY(tri__sampler_open(&sampler, data, batch, parts, 0, 0));
    tri_status status = tri__largest(&sampler, 1, max_tokens, max_len, max);
    tri__sampler_close(&sampler);
    return status;
}

/* Of tensor-parallel ranks, which all computed them, the first one's are taken. */
static void collect(const tri_engine *engine, const tri_micro *micro, float *probs) {
    if (engine->plan.infer.probs < 0 || tri__mesh_coords(&engine->place.mesh, engine->place.rank).tp > 0) return;
    size_t classes = (size_t)engine->model.n_classes;
    const float *from = tri__exec_slot(engine->exec, engine->infer, engine->plan.infer.probs); /* [n, classes] */
    for (int64_t i = 0; i < micro->n; i++)
        memcpy(probs + (size_t)micro->row[i] * classes, from + (size_t)i * classes, classes * sizeof *probs);
}

static tri_status check_room(const tri_program *program, const tri_counts *counts) {
    for (int sym = TRI_SYM_T0; sym <= TRI_SYM_N; sym++)
        if (counts->of[sym] > program->max.of[sym])
            return tri__fail(
                TRI_USAGE, "a batch has %lld %s, the plan has room for %lld: raise --max-tokens or lower --batch-size",
                (long long)counts->of[sym], sym == TRI_SYM_N ? "rows" : "tokens", (long long)program->max.of[sym]);
    return TRI_OK;
}

/* Sums over ranks: each row is from one rank and 0 on all others. */
static tri_status share(const tri_engine *engine, int64_t rows, float *probs) {
    if (tri__mesh_world(&engine->place.mesh) == 1) return TRI_OK;
    return tri_all_reduce(tri_group_world(engine->place.world), probs, probs, rows * engine->model.n_classes, TRI_F32,
                          TRI_SUM);
}

tri_status tri__evaluate(tri_engine *engine, const tri_dataset *data, int64_t batch, float *probs) {
    const tri_program *program = engine->plan.infer.program;
    const double inv = 1;
    int replicas = engine->place.mesh.dp;
    tri_loader *loader = NULL;
    tri_sampler sampler;
    memset(probs, 0, (size_t)(data->n * engine->model.n_classes) * sizeof *probs);
    TRI_TRY(tri__sampler_open(&sampler, data, batch * replicas, replicas, 0, 0));
    tri_loader_spec spec = {
        .sampler = &sampler, .epochs = 1, .first_part = engine->place.replica, .parts = 1, .workers = engine->workers,
        .granule = tri__plan_granule(&engine->in)};
    for (int text = 0; text < engine->model.n_texts; text++)
        spec.position_base[text] = tri__encoder_position_base(&engine->model.encoder[text]);
    tri__sampler_maxima(&sampler, 1, &spec.maxima);
    tri_status status = tri__loader_open(&spec, &loader);
    const tri_batch *next = NULL;
    while (status == TRI_OK && (status = tri__loader_next(loader, &next, NULL)) == TRI_OK && next) {
        tri_feed feed;
        tri__feed(&next->part[0], engine, &inv, NULL, &feed);
        status = check_room(program, &feed.counts);
        if (status == TRI_OK) status = tri__exec_run(engine->exec, engine->infer, 0, program->n_instrs, 0, &feed, NULL);
        if (status == TRI_OK) status = tri__exec_finish(engine->exec);
        if (status == TRI_OK) collect(engine, &next->part[0], probs);
        if (status == TRI_OK && engine->between) status = engine->between(engine->between_context);
    }
    tri__loader_close(loader);
    tri__sampler_close(&sampler);
    return status == TRI_OK ? share(engine, data->n, probs) : status;
}
