/* session_runs.c - see session_runs.h. */
#include "tests/lib/session_runs.h"

#include <math.h>

int make_one_text(void **state) {
    if (make_data(state)) return 1;
    write_file("model.json",
               "{\"label_name\": \"label\", \"primary_text_name\": \"review\","
               " \"tab_field_list\": [\"age\", \"score\"], \"primary_tokenizer\": \"vocab\","
               " \"hidden_common_dim\": 16, \"fusion_hidden_dim\": 12, \"max_sen_len\": 12, \"lr\": 0.01,"
               " \"weight_decay\": 0.1, \"warmup_steps\": 2, \"global_batch_size\": 16,"
               " \"primary_encoder\": {\"hidden_size\": 24, \"num_hidden_layers\": 2, \"num_attention_heads\": 4,"
               " \"intermediate_size\": 32, \"max_position_embeddings\": 16}}");
    return 0;
}

int make_three(void **state) {
    if (make_data(state)) return 1;
    write_file("three.json",
               "{\"label_name\": \"label\", \"primary_text_name\": \"review\", \"secondary_text_name\": \"title\","
               " \"tab_field_list\": [\"age\", \"score\"], \"primary_tokenizer\": \"vocab\","
               " \"hidden_common_dim\": 16, \"fusion_hidden_dim\": 12, \"max_sen_len\": 12, \"lr\": 0.002,"
               " \"warmup_steps\": 2, \"global_batch_size\": 16,"
               " \"primary_encoder\": {\"hidden_size\": 24, \"num_hidden_layers\": 2, \"num_attention_heads\": 4,"
               " \"intermediate_size\": 32, \"max_position_embeddings\": 16},"
               " \"secondary_encoder\": {\"hidden_size\": 16, \"num_hidden_layers\": 1, \"num_attention_heads\": 4,"
               " \"intermediate_size\": 24, \"max_position_embeddings\": 16}}");
    return 0;
}

int make_deep(void **state) {
    if (make_data(state)) return 1;
    write_file("fp8.json",
               "{\"label_name\": \"label\", \"primary_text_name\": \"review\", \"secondary_text_name\": \"title\","
               " \"tab_field_list\": [\"age\", \"score\"], \"primary_tokenizer\": \"vocab\","
               " \"hidden_common_dim\": 16, \"fusion_hidden_dim\": 12, \"max_sen_len\": 12, \"lr\": 0.002,"
               " \"warmup_steps\": 2, \"global_batch_size\": 12,"
               " \"primary_encoder\": {\"hidden_size\": 32, \"num_hidden_layers\": 4, \"num_attention_heads\": 2,"
               " \"intermediate_size\": 64, \"max_position_embeddings\": 16},"
               " \"secondary_encoder\": {\"hidden_size\": 32, \"num_hidden_layers\": 3, \"num_attention_heads\": 2,"
               " \"intermediate_size\": 32, \"max_position_embeddings\": 16}}");
    return 0;
}

int64_t run_piece_at(const tri_network *model, const char *name, const char *prefix) {
    int64_t at = 0;
    int found = 0;
    if (strncmp(name, prefix, strlen(prefix)) != 0) return -1;
    for (int i = 0; i < model->n_params; i++) {
        int order = strcmp(model->param[i].name, name + strlen(prefix));
        found |= order == 0;
        if (order < 0) at += model->param[i].count;
    }
    return found ? at : -1;
}

void run_copy(float *whole, const tri_piece *piece) {
    const tri_slice *s = &piece->slice;
    const float *from = piece->data; /* [end - begin] */
    int last = piece->shape.n - 1;
    int64_t width = s->extent[last], cols = piece->shape.dim[last];
    for (int64_t e = s->begin; e < s->end; e++) {
        int64_t row = (last ? s->start[0] : 0) + e / width;
        if (last == 2) /* of experts */
            row = (s->start[0] + e / width / s->extent[1]) * piece->shape.dim[1] + s->start[1] +
                  e / width % s->extent[1];
        whole[row * cols + s->start[last] + e % width] = from[e - s->begin];
    }
}

/* States of some optimizers only, which are not kept: what was not sent, of which each copy has its own; 1-bit LAMB's.
 */
static int run_is_more(const char *name) {
    static const char *const prefix[] = {"gradient_error.",   "error.",             "error_sum.",   "momentum_error",
                                         "exp_avg_sq_fresh.", "lamb_coeff_freeze.", "last_factor.", "local.",
                                         "live.",             "fp8_history."};
    for (size_t i = 0; i < sizeof prefix / sizeof *prefix; i++)
        if (strncmp(name, prefix[i], strlen(prefix[i])) == 0) return 1;
    return 0;
}

/* Of a state of which each copy of the model has its own, only the first copy's is kept: the piece without that dim. */
static int run_takes_copy(const tri_network *model, int64_t at, tri_piece *piece) {
    int param = 0, copy = (int)piece->slice.start[0];
    while (run_piece_at(model, model->param[param].name, "") != at) param++;
    if (piece->shape.n == model->param[param].shape.n) return 1;
    piece->shape.n--;
    for (int d = 0; d < piece->shape.n; d++) {
        piece->shape.dim[d] = piece->shape.dim[d + 1];
        piece->slice.start[d] = piece->slice.start[d + 1], piece->slice.extent[d] = piece->slice.extent[d + 1];
    }
    return copy == 0;
}

/* Ranks own disjoint elements, so they can write concurrently. Names of pieces begin with one of the prefixes, or
 * none. */
static tri_status run_keep(run *run, tri_session *s) {
    static const char *const prefix[] = {"exp_avg.", "exp_avg_sq.", "momentum_buffer."};
    static const int kinds[] = {1, 2, 1};
    const tri_engine *e = &s->engine;
    TRI_TRY(tri__engine_fetch(&s->engine));
    for (int i = 0; i < e->saved.n_weights + e->saved.n_optimizer; i++) {
        int is_weight = i < e->saved.n_weights, kind = 0;
        const tri_piece *piece = is_weight ? &e->saved.weights[i] : &e->saved.optimizer[i - e->saved.n_weights];
        int64_t at = is_weight ? run_piece_at(&e->model, piece->name, "") : -1;
        for (int k = 0; k < 3 && at < 0; k++) at = run_piece_at(&e->model, piece->name, prefix[k]), kind = kinds[k];
        if (at < 0 && run_is_more(piece->name)) continue;
        if (at < 0) return tri__fail(TRI_INTERNAL, "no parameter is called %s", piece->name);
        tri_piece first = *piece;
        if (run_takes_copy(&e->model, at, &first)) run_copy(run->state[kind] + at, &first);
    }
    return TRI_OK;
}

/* A key bias adds the same value to all scores of a query, which softmax cancels: its gradient is 0 except for
 * rounding, and AdamW normalises that rounding error. Such weights drift by the learning rate with any other order of
 * sums, without changing results. */
static void run_mark_idle(run *run, const tri_network *model) {
    int64_t at = 0;
    run->idle = calloc((size_t)run->elements, 1);
    run->frozen = calloc((size_t)run->elements, 1);
    for (int i = 0; i < model->n_params; i++) {
        at = run_piece_at(model, model->param[i].name, "");
        size_t count = (size_t)model->param[i].count;
        if (strstr(model->param[i].name, "self.key.bias")) memset(run->idle + at, 1, count);
        if (model->unit[model->param[i].unit].frozen) memset(run->frozen + at, 1, count);
    }
}

/* Rank 0 allocates memory, which the others write to after the barrier. */
static tri_status run_room(run *run, tri_world *world, int rank, const tri_session *s) {
    if (rank == 0) {
        run->elements = s->engine.model.n_elements;
        run->states = 0;
        for (int i = 0; i < s->engine.plan.train.n_states && run->states < 2; i++)
            run->states += !run_is_more(s->engine.plan.train.state[i].prefix);
        run_mark_idle(run, &s->engine.model);
        for (int k = 0; k < 3; k++) {
            run->state[k] = malloc((size_t)run->elements * sizeof(float));
            for (int64_t i = 0; i < run->elements; i++) run->state[k][i] = NAN;
        }
    }
    return world ? tri_barrier(tri_group_world(world)) : TRI_OK;
}

/* Sets *count on rank 0, while all ranks are between steps; other ranks leave it unchanged. */
static tri_status run_allocations(const run *run, tri_world *world, int rank, long *count) {
    if (world) TRI_TRY(tri_barrier(tri_group_world(world)));
    if (rank == 0) *count = run->allocated();
    return world ? tri_barrier(tri_group_world(world)) : TRI_OK;
}

static tri_status run_opened(run *run, tri_world *world, int rank, tri_session *session) {
    char folder[TRI_PATH_MAX];
    int more = 1;
    long before = 0, after = 0; /* allocations */
    if (run->canary) canary_guard(&session->engine);
    TRI_TRY(run_room(run, world, rank, session));
    for (int k = 0; k < run->steps; k++) {
        if (k == 1 && run->allocated) TRI_TRY(run_allocations(run, world, rank, &before));
        TRI_TRY(tri_next_batch(session, &more));
        if (!more) return tri__fail(TRI_INTERNAL, "the run ended after %d steps", k);
        if (run->before) TRI_TRY(run->before(run, session, rank, k));
        TRI_TRY(tri_forward_backward(session, &run->loss[rank][k]));
        TRI_TRY(tri_update(session));
        run->norm[rank][k] = session->last.grad_norm;
        run->dropped[rank][k] = session->dropped;
    }
    if (run->allocated) TRI_TRY(run_allocations(run, world, rank, &after));
    if (after != before) return tri__fail(TRI_INTERNAL, "%ld allocations after the first step", after - before);
    run->skipped[rank] = session->at.skipped;
    TRI_TRY(run_keep(run, session));
    if (run->evaluate) TRI_TRY(tri_evaluate(session, &run->scores[rank]));
    if (run->save) TRI_TRY(tri_save(session, folder, sizeof folder));
    if (run->save && rank == 0) memcpy(run->folder, folder, sizeof folder);
    if (run->canary) TRI_TRY(canary_check(session));
    return TRI_OK;
}

/* A later --config wins over an earlier one, so that a run may have its own. */
static tri_status run_main(tri_world *world, void *context) {
    run *run = context;
    tri_session *session = NULL;
    char config[128];
    const char *options[RUN_OPTIONS + 5] = {config, "--epochs=200", "--threads=1",
                                            run->keep_going ? "--resume=auto" : "--resume=never"};
    snprintf(config, sizeof config, "--config=%s/%s", root, run->config ? run->config : "config.json");
    for (int i = 0; run->option[i]; i++) options[4 + i] = run->option[i];
    TRI_TRY(join_guarded(world, run->canary ? CANARY_GUARD : 0, &session, run->output ? run->output : "run", options));
    tri_status status = run_opened(run, world, world ? tri_world_rank(world) : 0, session);
    tri_session_close(session);
    return status;
}

tri_status run_status(run *run) {
    tri_ranks how = {.n = run->ranks, .heap_bytes = 32 << 20, .progress_timeout = 120};
    return run->ranks ? tri_ranks_run(&how, run_main, run) : run_main(NULL, run);
}

run *run_on(const run *what) {
    run *made = calloc(1, sizeof *made);
    *made = *what;
    OK(run_status(made));
    for (int r = 1; r < made->ranks; r++) {
        assert_memory_equal(made->loss[r], made->loss[0], sizeof made->loss[0]);
        assert_memory_equal(made->norm[r], made->norm[0], sizeof made->norm[0]);
    }
    for (int k = 0; k <= made->states; k++)
        for (int64_t i = 0; i < made->elements; i++)
            if (!isnan(made->state[k][i]) == (k && made->frozen[i]))
                fail_msg("%s rank owns element %lld of state %d", made->frozen[i] ? "a" : "no", (long long)i, k);
    return made;
}

void run_free(run *run) {
    for (int k = 0; k < 3 && run; k++) free(run->state[k]);
    if (run) free(run->idle), free(run->frozen);
    free(run);
}

void expect_same_bits(const run *a, const run *b, const char *what) {
    if (memcmp(a->loss[0], b->loss[0], sizeof a->loss[0]) != 0) fail_msg("%s: other losses", what);
    if (memcmp(a->norm[0], b->norm[0], sizeof a->norm[0]) != 0) fail_msg("%s: other norms", what);
    for (int k = 0; k < 3; k++)
        if (memcmp(a->state[k], b->state[k], (size_t)a->elements * sizeof(float)) != 0)
            fail_msg("%s: other bits in state %d", what, k);
}

double run_distance(const run *a, const run *b) {
    double most = 0;
    for (int64_t i = 0; i < a->elements; i++)
        if (!a->idle[i]) most = fmax(most, fabs((double)a->state[0][i] - b->state[0][i]));
    return most;
}

double expect_within(const run *want, const run *have, const char *what, double limit) {
    double worst = 0;
    for (int k = 0; k < have->steps; k++) {
        double off = fabs(have->loss[0][k] - want->loss[0][k]) / (limit * fmax(want->loss[0][k], 0.1));
        if (!(off <= 1))
            fail_msg("%s: loss of step %d is %.9g instead of %.9g", what, k + 1, have->loss[0][k], want->loss[0][k]);
        worst = fmax(worst, off);
        double norm = want->norm[0][k];
        if (!(fabs(have->norm[0][k] - norm) <= 5 * limit * norm))
            fail_msg("%s: norm of step %d is %.9g instead of %.9g", what, k + 1, have->norm[0][k], norm);
    }
    double apart = run_distance(want, have);
    if (!(apart <= 1e-4)) fail_msg("%s: weights differ by %g after %d steps", what, apart, have->steps);
    return worst;
}
