/* weights.c - weights and optimizer state of a bound plan, as pieces of memory: drawn initially, or read from Hugging
 * Face folders or a checkpoint; copied to the device and back. */
#include "checkpoint/copies.h"
#include "checkpoint/huggingface.h"
#include "engine/engine.h"
#include "model/family.h"

/* Weights to be quantised are first rounded to the computing type, with which training saw them; a folder's own 8-bit
 * weights are not. */
static tri_dtype through(const tri_engine *engine) {
    return engine->train < 0 && engine->in.quantize != TRI_F32 ? engine->in.precision : TRI_F32;
}

/* Where the host fills in a unit's weights, in fp32. */
typedef struct filled {
    int slot;
    tri_range held; /* the unit's elements in it */
} filled;

static filled filled_of(const tri_engine *engine, int unit) {
    const tri_planned *p = engine->train >= 0 ? &engine->plan.train : &engine->plan.infer;
    if (p->shown && p->shown[unit] >= 0) return (filled){p->shown[unit], p->state_part[unit]};
    return p->master ? (filled){p->master[unit], p->state_part[unit]} : (filled){p->param[unit], p->param_part[unit]};
}

/* Every parameter's part inside `want`, as pieces of memory; base: the flat slot of each unit, which holds its elements
 * `held`; NULL: they pass through memory unit by unit. Returns how many were added to into[n]. */
static int pieces_of(tri_engine *engine, tri_piece *into, const int *base, const tri_range *held, const tri_range *want,
                     const char *prefix) {
    int n = 0;
    const tri_network *model = engine->plan.model;
    for (int i = 0; i < model->n_params; i++) {
        const tri_param *param = &model->param[i];
        const tri_range *part = &want[param->unit];
        int64_t begin = part->begin > param->at ? part->begin : param->at;
        int64_t end = part->end < param->at + param->count ? part->end : param->at + param->count;
        if (begin >= end || (base && base[param->unit] < 0)) continue;
        float *flat = base ? tri__exec_slot(engine->exec, 0, base[param->unit]) : NULL; /* [held of the unit] */
        tri_piece *piece = &into[n++];
        *piece = (tri_piece){.name = tri__arena_print(&engine->arena, "%s%s", prefix, param->name),
                             .dtype = TRI_F32,
                             .shape = param->shape,
                             .slice = param->part,
                             .data = flat ? flat + begin - held[param->unit].begin : NULL,
                             .repeat = engine->train >= 0 ? param->repeat : 0, /* what is trained fits already */
                             .through = through(engine)};
        piece->slice.begin = begin - param->at, piece->slice.end = end - param->at;
    }
    return n;
}

/* The same of a state with numbers for some parameters. */
static int number_pieces(tri_engine *engine, tri_piece *into, const tri_state *s, const tri_range *want) {
    const tri_network *model = engine->plan.model;
    int64_t each = tri__shape_count(&s->each);
    int n = 0;
    for (int u = 0; u < model->n_units; u++) {
        if (s->slot[u] < 0) continue;
        float *numbers = tri__exec_slot(engine->exec, 0, s->slot[u]); /* [held] */
        int64_t at = 0;
        for (int i = model->unit[u].first; i < model->unit[u].first + model->unit[u].n; i++) {
            if (!s->has[i]) continue;
            if (at >= want[u].begin && at < want[u].end)
                into[n++] = (tri_piece){
                    .name = tri__arena_print(&engine->arena, "%s%s", s->prefix, model->param[i].name),
                    .dtype = TRI_F32, .shape = s->each, .slice = tri__slice_whole(&s->each),
                    .data = numbers + at - s->held[u].begin, .through = TRI_F32};
            at += each;
        }
    }
    return n;
}

static int state_pieces(tri_engine *engine, tri_piece *into, const tri_state *s, const tri_range *want) {
    if (s->each.n) return number_pieces(engine, into, s, want);
    int n = pieces_of(engine, into, s->slot, s->held, want, s->prefix);
    for (int i = 0; i < n && s->scope != TRI_STATE_SHARED; i++) tri__piece_of_copy(&into[i], s->copy, s->copies);
    return n;
}

static tri_status list_pieces(void *data) {
    tri_engine *engine = data;
    size_t n = (size_t)engine->plan.model->n_params;
    const tri_planned *p = engine->train >= 0 ? &engine->plan.train : &engine->plan.infer;
    int n_units = engine->plan.model->n_units;
    int *slot = tri__arena_alloc(&engine->arena, (size_t)n_units * sizeof *slot);
    const int *base = engine->plan.filling.slot ? NULL : slot;
    tri_range *held_part = tri__arena_alloc(&engine->arena, (size_t)n_units * sizeof *held_part);
    for (int u = 0; u < n_units; u++) {
        filled at = filled_of(engine, u);
        slot[u] = at.slot, held_part[u] = at.held;
    }
    engine->weights = tri__arena_alloc(&engine->arena, n * sizeof *engine->weights);
    engine->n_weights = pieces_of(engine, engine->weights, base, held_part, held_part, "");
    if (engine->train < 0) return TRI_OK;
    tri_piece *saved = tri__arena_alloc(&engine->arena, n * ((size_t)p->n_states + 1) * sizeof *saved);
    int n_saved = pieces_of(engine, saved, base, held_part, p->save_part, "");
    engine->saved = (tri_memory_pieces){.weights = saved, .n_weights = n_saved, .optimizer = saved + n_saved};
    saved += n_saved;
    tri_piece *held = engine->optimizer = tri__arena_alloc(&engine->arena, n * (size_t)p->n_states * sizeof *held);
    for (int i = 0; i < p->n_states; i++) {
        const tri_state *s = &p->state[i];
        held += state_pieces(engine, held, s, s->held);
        saved += state_pieces(engine, saved, s, s->save);
        engine->state_at[i + 1] = (int)(held - engine->optimizer);
    }
    engine->n_optimizer = (int)(held - engine->optimizer);
    engine->saved.n_optimizer = (int)(saved - engine->saved.optimizer);
    return TRI_OK;
}

tri_status tri__engine_pieces(tri_engine *engine) { return tri__arena_guard(list_pieces, engine); }

/* The row of the whole parameter, counted over all dims but the last, that is row `row` of a rank's box. */
static int64_t row_of(const tri_param *param, int64_t row) {
    const tri_slice *part = &param->part;
    if (param->shape.n == 1) return 0;
    if (param->shape.n == 2) return part->start[0] + row;
    int64_t each = part->extent[1];
    return (part->start[0] + row / each) * param->shape.dim[1] + part->start[1] + row % each;
}

/* Elements [begin, end) of a parameter's part: random numbers are indexed by the element of the whole parameter, in
 * row-major order. */
static void draw_run(const tri_engine *engine, const tri_param *param, uint32_t id, int64_t begin, int64_t end,
                     float *w) {
    const tri_slice *part = &param->part;
    int last = param->shape.n - 1;
    int64_t width = part->extent[last], shift = part->start[last], cols = param->shape.dim[last];
    for (int64_t e = begin, next; e < end; e = next) {
        next = (e / width + 1) * width < end ? (e / width + 1) * width : end;
        int64_t row = row_of(param, e / width), at = row * cols + shift + e % width;
        if (row + 1 == param->zero_row) memset(w + e - begin, 0, (size_t)(next - e) * sizeof *w);
        else tri__random_normal(engine->seed, id, param->deviation, at, next - e, w + e - begin);
    }
}

/* Each element depends only on its index, so threads may divide them in any way. */
static void draw_normal(const tri_engine *engine, const tri_param *param, int64_t begin, int64_t end, float *w) {
    enum { RUN = 1 << 16 };
    uint32_t id = tri__random_id(param->name);
#pragma omp parallel for num_threads(engine->threads)
    for (int64_t at = begin; at < end; at += RUN)
        draw_run(engine, param, id, at, end - at < RUN ? end : at + RUN, w + at - begin);
}

/* A unit whose weights are drawn or read. */
typedef struct source {
    const tri_engine *engine;
    const tri_checkpoint *checkpoint; /* NULL: initial weights are drawn */
    int unit;
    tri_range held;                   /* the unit's elements in the slot */
    tri_status status;
} source;

/* Refuses weights that are not finite: predictions from them would not be either. */
static tri_status check_finite(const tri_checkpoint *checkpoint, const tri_piece *piece) {
    const float *values = piece->data;
    int64_t n = piece->slice.end - piece->slice.begin, bad = 0;
    for (int64_t k = 0; k < n; k++) bad += !isfinite(values[k]);
    if (!bad) return TRI_OK;
    return tri__fail(TRI_NOTFINITE, "%s: weight %s is not finite in %lld of %lld numbers; take an earlier checkpoint "
                     "(trident checkpoint ls)", tri__checkpoint_path(checkpoint), piece->name, (long long)bad,
                     (long long)n);
}

/* A run of a piece's elements is read, and checked while it is in the cache. */
static tri_status read_run(const tri_engine *engine, const tri_checkpoint *checkpoint, const tri_piece *piece,
                           int64_t first, int64_t n) {
    tri_piece part = *piece;
    part.slice.begin += first, part.slice.end = part.slice.begin + n;
    part.data = (float *)piece->data + first;
    TRI_TRY(tri__checkpoint_read(checkpoint, &part));
    return engine->train < 0 ? check_finite(checkpoint, &part) : TRI_OK;
}

enum { READ_RUN = 1 << 17 }; /* elements */

static int64_t runs_of(const tri_piece *piece) {
    return (piece->slice.end - piece->slice.begin + READ_RUN - 1) / READ_RUN;
}

/* Reads pieces by all threads, run by run. */
static tri_status read_pieces(const tri_engine *engine, const tri_checkpoint *checkpoint, const tri_piece *pieces,
                              int n) {
    tri_status failed = TRI_OK;
    tri_words why; /* error texts are per thread */
    int64_t most = 0;
    for (int i = 0; i < n; i++) most = runs_of(&pieces[i]) > most ? runs_of(&pieces[i]) : most;
#pragma omp parallel for collapse(2) num_threads(engine->threads) schedule(dynamic) if (n * most > 1)
    for (int i = 0; i < n; i++)
        for (int64_t run = 0; run < most; run++) {
            int64_t all = pieces[i].slice.end - pieces[i].slice.begin, at = run * READ_RUN;
            if (at >= all && run) continue;
            tri_status status = read_run(engine, checkpoint, &pieces[i], at, all - at < READ_RUN ? all - at : READ_RUN);
#pragma omp critical
            if (status != TRI_OK && failed == TRI_OK) {
                failed = status;
                tri__words_keep(&why);
            }
        }
    return failed == TRI_OK ? TRI_OK : tri__fail(failed, "%s", why.text);
}

/* Elements `here` of a parameter's unit into w [here]. */
static void make_param(source *from, const tri_param *param, tri_range here, float *w) {
    tri_range part = {here.begin - param->at, here.end - param->at};
    if (from->checkpoint) {
        tri_piece piece = {.name = param->name, .dtype = TRI_F32, .shape = param->shape, .slice = param->part,
                           .data = w, .through = through(from->engine)};
        piece.slice.begin = part.begin, piece.slice.end = part.end;
        if (from->status == TRI_OK) from->status = read_pieces(from->engine, from->checkpoint, &piece, 1);
        return;
    }
    if (param->init == TRI_INIT_NORMAL) draw_normal(from->engine, param, part.begin, part.end, w);
    for (int64_t e = 0; e < tri__range_count(here) && param->init != TRI_INIT_NORMAL; e++)
        w[e] = param->init == TRI_INIT_ONE;
}

/* tri_make: elements of a unit's slot in fp32. Padding between parameters, which makes ranks' layouts equal, is 0. */
static void make_part(void *maker, size_t at, size_t bytes, void *out) {
    source *from = maker;
    const tri_network *model = from->engine->plan.model;
    const tri_unit *u = &model->unit[from->unit];
    int64_t begin = from->held.begin + (int64_t)(at / sizeof(float));
    tri_range part = {begin, begin + (int64_t)(bytes / sizeof(float))};
    float *next = out; /* everything before it is written */
    for (int i = u->first; i < u->first + u->n; i++) {
        const tri_param *param = &model->param[i];
        tri_range here = tri__range_both(part, (tri_range){param->at, param->at + param->count});
        if (here.begin == here.end) continue;
        float *w = (float *)out + here.begin - part.begin; /* [here] */
        memset(next, 0, (size_t)((char *)w - (char *)next));
        next = w + here.end - here.begin;
        make_param(from, param, here, w);
    }
    memset(next, 0, bytes - (size_t)((char *)next - (char *)out));
}

static source source_of(const tri_engine *engine, int unit, const tri_checkpoint *checkpoint) {
    return (source){.engine = engine, .checkpoint = checkpoint, .unit = unit, .held = filled_of(engine, unit).held};
}

static tri_status upload_unit(tri_engine *engine, int unit) {
    const tri_planned *p = engine->train >= 0 ? &engine->plan.train : &engine->plan.infer;
    int slot = filled_of(engine, unit).slot;
    source drawn = source_of(engine, unit, NULL);
    if (engine->draws) TRI_TRY(tri__exec_fill(engine->exec, 0, slot, make_part, &drawn));
    else TRI_TRY(tri__exec_push(engine->exec, 0, slot));
    for (int i = 0; i < p->n_states; i++) {
        int state = p->state[i].slot[unit], is_weights = p->state[i].absent == TRI_ABSENT_WEIGHTS;
        if (state < 0 || !(engine->has_state || is_weights)) continue; /* it is 0 on the host and on the device */
        if (engine->draws) TRI_TRY(tri__exec_fill(engine->exec, 0, state, make_part, &drawn));
        else TRI_TRY(tri__exec_push(engine->exec, 0, state));
    }
    return TRI_OK;
}

/* Fills a unit's staging slot, and runs its instructions of the start program. */
static tri_status pass_unit(tri_engine *engine, int unit) {
    const tri_filling *filling = &engine->plan.filling;
    const tri_feed none = {0};
    int begin = unit ? filling->end[unit - 1] : 0;
    if (filling->slot[unit] >= 0) {
        source from = source_of(engine, unit, engine->draws ? NULL : engine->source);
        TRI_TRY(tri__exec_finish(engine->exec)); /* the unit before has left the slot's memory */
        TRI_TRY(tri__exec_fill(engine->exec, engine->start, filling->slot[unit], make_part, &from));
        TRI_TRY(from.status);
    }
    return tri__exec_run(engine->exec, engine->start, begin, filling->end[unit], 0, &none, NULL);
}

static tri_status upload_all(tri_engine *engine) {
    const tri_feed none = {0};
    const tri_planned *p = &engine->plan.train;
    for (int i = 0; i < p->n_states && engine->train >= 0; i++)
        if (!engine->draws && !engine->has_state && p->state[i].absent == TRI_ABSENT_WEIGHTS)
            tri__engine_copy_weights(engine, i);
    for (int unit = 0; unit < engine->plan.model->n_units; unit++) TRI_TRY(upload_unit(engine, unit));
    return tri__exec_run(engine->exec, engine->start, 0, engine->plan.start->n_instrs, 0, &none, NULL);
}

static tri_status pass_all(tri_engine *engine) {
    TRI_ASSERT(engine->draws || engine->source);
    for (int unit = 0; unit < engine->plan.model->n_units; unit++) TRI_TRY(pass_unit(engine, unit));
    return TRI_OK;
}

tri_status tri__engine_upload(tri_engine *engine) {
    TRI_TRY(engine->plan.filling.slot ? pass_all(engine) : upload_all(engine));
    engine->draws = 0, engine->source = NULL;
    TRI_TRY(tri__exec_finish(engine->exec));
    (void)tri__exec_worked(engine->exec); /* resets the clock before the first step */
    return TRI_OK;
}

tri_status tri__engine_fetch(tri_engine *engine) {
    engine->has_state = engine->train >= 0; /* from now on the host's copy is that of a step */
    TRI_TRY(tri__exec_pull(engine->exec, TRI_MEM_PARAM));
    return tri__exec_pull(engine->exec, TRI_MEM_STATE);
}

/* Draws initial weights in the pieces, where other weights will be read over them. */
static void draw_here(tri_engine *engine) {
    if (!engine->draws) return;
    TRI_ASSERT(!engine->plan.filling.slot); /* only training begins with such weights */
    engine->draws = 0;
    for (int unit = 0; unit < engine->plan.model->n_units; unit++) {
        source drawn = source_of(engine, unit, NULL);
        if (drawn.held.begin < drawn.held.end)
            make_part(&drawn, 0, (size_t)tri__range_count(drawn.held) * sizeof(float),
                      tri__exec_slot(engine->exec, 0, filled_of(engine, unit).slot));
    }
}

static const double NOISE = 0.1; /* of experts' weights, relative to the deviation of initial ones */

/* Experts that are copies of a dense layer become different ones: their weights get noise, numbered as these by the
 * element of the whole. */
static void add_noise(const tri_engine *engine, const tri_piece *piece) {
    enum { RUN = 4096 };
    tri_param param = *tri__model_find(engine->plan.model, piece->name);
    float noise[RUN], *w = piece->data;
    param.name = TRI_TEXT(256, "noise %s", piece->name), param.deviation *= (float)NOISE;
    for (int64_t at = piece->slice.begin, n; at < piece->slice.end && param.init == TRI_INIT_NORMAL; at += n) {
        n = piece->slice.end - at < RUN ? piece->slice.end - at : RUN;
        draw_normal(engine, &param, at, at + n, noise);
        for (int64_t i = 0; i < n; i++) *w++ += noise[i];
    }
}

/* After a folder's weights were read for a branch. */
static void part_experts(const tri_engine *engine, int branch, const uint8_t *filled, const tri_log *log) {
    int n = 0;
    if (engine->model.encoder[branch].num_experts < 2) return;
    for (int i = 0; i < engine->n_weights; i++) {
        if (filled[i] != TRI_HF_COPIED || !tri__text_begins(engine->weights[i].name, tri__branch_name(branch)))
            continue;
        add_noise(engine, &engine->weights[i]);
        n++;
    }
    if (n)
        tri__say(log, TRI_LOG_INFO,
                 "%s: each of %lld experts begins as a copy of its dense layer, with noise of deviation %g on weights",
                 tri__branch_name(branch), (long long)engine->model.encoder[branch].num_experts,
                 NOISE * engine->model.encoder[branch].initializer_range);
}

/* This rank's weights, then, without elements, those of other ranks: each rank compares a folder with the whole model.
 * [engine->n_weights, and *n in all] */
static tri_piece *whole_model(tri_engine *engine, int *n) {
    const tri_network *model = &engine->model;
    tri_piece *all = tri__arena_alloc(&engine->arena, (size_t)(engine->n_weights + model->n_params) * sizeof *all);
    memcpy(all, engine->weights, (size_t)engine->n_weights * sizeof *all);
    *n = engine->n_weights;
    for (int i = 0; i < model->n_params; i++) {
        const tri_param *param = &model->param[i];
        int k = 0;
        while (k < engine->n_weights && strcmp(engine->weights[k].name, param->name) != 0) k++;
        if (k < engine->n_weights) continue;
        all[*n] = (tri_piece){.name = param->name, .dtype = TRI_F32, .shape = param->shape,
                              .slice = tri__slice_whole(&param->shape), .repeat = param->repeat};
        all[(*n)++].slice.end = 0;
    }
    return all;
}

tri_status tri__engine_init(tri_engine *engine, const tri_assets *assets, const tri_log *log) {
    engine->draws = 1;
    size_t most = (size_t)(engine->n_weights + engine->model.n_params);
    TRI_TRY(tri__arena_room(&engine->arena, most * (sizeof(tri_piece) + 1) + 64));
    int n;
    uint8_t *filled = tri__arena_alloc(&engine->arena, most);
    const tri_piece *pieces = whole_model(engine, &n);
    const char *positions = engine->model.extends_positions ? ", all positions drawn, none copied" : "";
    for (int branch = 0; branch < assets->n_encoders; branch++) {
        TRI_OWNED(tri__hf_drop) tri_hf *hf = NULL;
        const char *folder = assets->folder[branch];
        if (!folder[0]) {
            tri__say(log, TRI_LOG_INFO, "%s encoder: random initial weights%s", tri__branch_name(branch), positions);
            continue;
        }
        TRI_TRY(tri__hf_open(folder, &hf));
        if (!hf) {
            tri__say(log, TRI_LOG_INFO, "%s encoder: random initial weights%s (%s has no model.safetensors); with "
                     "pretrained ones answers are better", tri__branch_name(branch), positions, folder);
            continue;
        }
        draw_here(engine);
        const tri_encoder *e = &assets->encoder[branch];
        if (!assets->overridden[branch]) TRI_TRY(tri__hf_check_layers(hf, e->num_hidden_layers));
        const char *prefix = TRI_TEXT(32, "%s.", tri__branch_name(branch));
        TRI_TRY(tri__hf_read(hf, prefix, tri__family(e)->prefix, pieces, n, filled, log));
        part_experts(engine, branch, filled, log);
    }
    if (engine->model.n_columns == 1 && !engine->model.columns.word)
        tri__say(log, TRI_LOG_INFO, "one tabular column: it is projected without LayerNorm, which would erase it");
    return TRI_OK;
}

tri_status tri__engine_load(tri_engine *engine, const tri_checkpoint *checkpoint) {
    engine->has_state = 0;
    if (!engine->plan.filling.slot) return read_pieces(engine, checkpoint, engine->weights, engine->n_weights);
    engine->source = checkpoint;
    return TRI_OK;
}
