/* states.c - what is kept between steps beside the weights, read from a checkpoint of any mesh, or begun anew. */
#include "checkpoint/copies.h"
#include "engine/engine.h"

/* A parameter that has such a state in the checkpoint, and the state's shape; NULL: none has. Some parameters may have
 * none. Every rank looks for the same tensors, whatever it holds. */
static const tri_param *find_state(const tri_engine *engine, const tri_checkpoint *checkpoint, const char *prefix,
                                   tri_shape *shape) {
    for (int i = 0; i < engine->model.n_params; i++) {
        const char *name = TRI_TEXT(512, "%s%s", prefix, engine->model.param[i].name);
        if (tri__checkpoint_shape(checkpoint, name, shape)) return &engine->model.param[i];
    }
    return NULL;
}

static int is_there(const tri_engine *engine, const tri_checkpoint *checkpoint, const char *prefix) {
    tri_shape shape;
    return find_state(engine, checkpoint, prefix, &shape) != NULL;
}

static int keeps(const tri_engine *engine, const char *prefix) {
    for (int i = 0; i < engine->plan.train.n_states; i++)
        if (strcmp(engine->plan.train.state[i].prefix, prefix) == 0) return 1;
    return 0;
}

/* Another optimizer wrote the checkpoint (--allow-change optimizer), and did not keep what this one needs. */
static tri_status refuse(const tri_checkpoint *checkpoint, const tri_state *state) {
    return tri__fail(TRI_USAGE, "%s has no optimizer state '%s*', which this run keeps: another optimizer wrote it. "
                     "Continue with that one, or begin a new run with its weights: trident export, then --resume with "
                     "the exported folder", tri__checkpoint_path(checkpoint), state->prefix);
}

/* The run that wrote the checkpoint had frozen what this one trains (--allow-change freeze). Moments that begin at 0 in
 * the middle of a run would make its first steps several times too large. */
static tri_status refuse_frozen(const tri_checkpoint *checkpoint, const tri_piece *piece) {
    return tri__fail(TRI_USAGE, "%s has no optimizer state '%s': the parameter was not trained (--freeze). Continue "
                     "with what was frozen, or begin a new run with these weights: trident export, then --resume with "
                     "the exported folder", tri__checkpoint_path(checkpoint), piece->name);
}

static void clear(const tri_piece *piece) {
    memset(piece->data, 0, (size_t)(piece->slice.end - piece->slice.begin) * sizeof(float));
}

/* Copies of the model whose states the checkpoint has; 0: this one's states are not of copies there. */
static int copies_of(const tri_engine *engine, const tri_checkpoint *checkpoint, const tri_state *state) {
    tri_shape shape;
    const tri_param *param = find_state(engine, checkpoint, state->prefix, &shape);
    return param && shape.n == param->shape.n + 1 ? (int)shape.dim[0] : 0;
}

/* Says once that the run does not go on as it would have. */
static void say_copies(const tri_engine *engine, const tri_checkpoint *checkpoint, const tri_log *log) {
    for (int i = 0; i < engine->plan.train.n_states; i++) {
        const tri_state *state = &engine->plan.train.state[i];
        int had = copies_of(engine, checkpoint, state), has = state->scope == TRI_STATE_SHARED ? 1 : state->copies;
        if (!had || had == has) continue;
        tri__say(log, TRI_LOG_WARN, "%s has states of %d copies of the model, the run has %d: each gets the mean of "
                 "theirs, or its share of their sum, and goes on differently than they would have",
                 tri__checkpoint_path(checkpoint), had, has);
        return;
    }
}

/* What coding has left out is to be sent later; a run that codes nothing, or something else, never does. */
static void say_dropped(const tri_engine *engine, const tri_checkpoint *checkpoint, const tri_log *log) {
    static const char *const prefixes[] = {"gradient_error.",     "error.",       "error_sum.",      "momentum_error.",
                                           "momentum_error_sum.", "outer_error.", "outer_error_sum."};
    for (size_t k = 0; k < sizeof prefixes / sizeof *prefixes; k++) {
        if (keeps(engine, prefixes[k]) || !is_there(engine, checkpoint, prefixes[k])) continue;
        tri__say(log, TRI_LOG_WARN, "%s has '%s*', what its run had not sent yet; this run does not send it in that "
                 "way, and drops it", tri__checkpoint_path(checkpoint), prefixes[k]);
    }
}

static tri_status read_state(tri_engine *engine, const tri_checkpoint *checkpoint, const tri_log *log, int index) {
    const tri_state *state = &engine->plan.train.state[index];
    int there = is_there(engine, checkpoint, state->prefix), is_shared = state->scope == TRI_STATE_SHARED;
    if (!there && state->absent == TRI_ABSENT_REFUSED) return refuse(checkpoint, state);
    if (!there)
        tri__say(log, TRI_LOG_WARN, "%s has no '%s*': it begins %s", tri__checkpoint_path(checkpoint), state->prefix,
                 state->absent == TRI_ABSENT_ZERO ? "at 0" : "as the weights");
    if (!there && state->absent == TRI_ABSENT_WEIGHTS) {
        tri__engine_copy_weights(engine, index);
        return TRI_OK;
    }
    for (int i = engine->state_at[index]; i < engine->state_at[index + 1]; i++) {
        const tri_piece *piece = &engine->optimizer[i];
        int has = tri__checkpoint_has(checkpoint, piece->name);
        if (state->absent == TRI_ABSENT_ZERO && !has) clear(piece);
        else if (!has) return refuse_frozen(checkpoint, piece);
        else
            TRI_TRY(tri__copies_read(checkpoint, piece, is_shared ? 0 : state->copies,
                                     state->scope == TRI_STATE_SUMMED ? TRI_MERGE_SUM : TRI_MERGE_MEAN));
    }
    return TRI_OK;
}

/* Takes a state of the checkpoint for the weights; of several copies their mean. */
static tri_status take_weights(tri_engine *engine, const tri_checkpoint *checkpoint, const char *prefix) {
    for (int i = 0; i < engine->n_weights; i++) {
        tri_piece piece = engine->weights[i];
        piece.name = TRI_TEXT(512, "%s%s", prefix, piece.name);
        if (tri__checkpoint_has(checkpoint, piece.name))
            TRI_TRY(tri__copies_read(checkpoint, &piece, 0, TRI_MERGE_MEAN));
    }
    return TRI_OK;
}

/* A run that keeps no averages goes on from the weights that one with averages was training; one copy that steps with
 * nobody else from those of the copies that took local steps, not from their anchor. */
static tri_status take_live(tri_engine *engine, const tri_checkpoint *checkpoint, const tri_log *log) {
    static const char live[] = "live.", local[] = "local.";
    if (!keeps(engine, live) && is_there(engine, checkpoint, live)) {
        tri__say(log, TRI_LOG_INFO, "%s has averages as its weights; this run goes on from '%s*', those that were "
                 "trained", tri__checkpoint_path(checkpoint), live);
        TRI_TRY(take_weights(engine, checkpoint, live));
    }
    if (keeps(engine, local) || !is_there(engine, checkpoint, local)) return TRI_OK;
    tri__say(log, TRI_LOG_INFO, "%s has copies that took local steps; this run goes on from the mean of '%s*'",
             tri__checkpoint_path(checkpoint), local);
    return take_weights(engine, checkpoint, local);
}

tri_status tri__engine_load_state(tri_engine *engine, const tri_checkpoint *checkpoint, const tri_log *log) {
    say_copies(engine, checkpoint, log);
    say_dropped(engine, checkpoint, log);
    TRI_TRY(take_live(engine, checkpoint, log));
    for (int i = 0; i < engine->plan.train.n_states; i++) TRI_TRY(read_state(engine, checkpoint, log, i));
    engine->has_state = 1;
    return TRI_OK;
}

/* Both are in the model's order; units that are not trained have no such state. */
void tri__engine_copy_weights(tri_engine *engine, int state) {
    size_t prefix = strlen(engine->plan.train.state[state].prefix);
    int next = engine->state_at[state], end = engine->state_at[state + 1];
    for (int i = 0; i < engine->n_weights && next < end; i++) { /* in the same order; frozen ones have none */
        const tri_piece *from = &engine->weights[i], *to = &engine->optimizer[next];
        if (strcmp(to->name + prefix, from->name) != 0) continue;
        memcpy(to->data, from->data, (size_t)(from->slice.end - from->slice.begin) * sizeof(float));
        next++;
    }
    TRI_ASSERT(next == end);
}
