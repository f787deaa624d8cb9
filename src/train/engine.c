/* engine.c - settings and assets to a bound plan with weights in it. */
#include "train/engine.h"
#include "base/random.h"
#include "base/text.h"
#include "checkpoint/huggingface.h"
#include "program/check.h"
#include "train/inputs.h"

#include <stdio.h>
#include <string.h>

enum { ARENA_BYTES = 1 << 30 };

tri_status tri__place_make(const tri_settings *s, tri_world *world, int size, int rank, tri_place *place) {
    *place = (tri_place){.world = world, .rank = world ? tri_world_rank(world) : rank};
    TRI_TRY(tri__mesh_make(&place->mesh, world ? tri_world_size(world) : size, (int)s->pp_size, (int)s->tp_size, (int)s->dp_size));
    place->replica = tri__mesh_coords(&place->mesh, place->rank).dp;
    place->batch = s->global_batch_size ? s->global_batch_size : s->batch_size * place->mesh.dp;
    return TRI_OK;
}

tri_status tri__engine_plan(const tri_settings *s, const tri_place *place, const tri_assets *assets, int n_columns, int train,
                            const tri_counts *max, const tri_counts *max_infer, tri_engine *engine) {
    *engine = (tri_engine){.place = *place, .train = -1, .seed = (uint32_t)s->seed, .n_mb = (int)s->num_microbatches};
    engine->device = tri__device_find(s->device);
    if (!engine->device) return tri__fail(TRI_USAGE, "--device %s: this build has %s", s->device, tri__device_names());
    engine->threads = tri__threads(s);
    engine->workers = tri__workers(s);
    TRI_TRY(tri__arena_open(&engine->arena, ARENA_BYTES));
    tri__device_target(engine->device, &engine->target);
    tri__model_make(&engine->arena, &s->model, assets->encoder, n_columns, s->no_decay, &engine->model);

    engine->class_weights = tri__arena_alloc(&engine->arena, (size_t)s->model.num_classes * sizeof *engine->class_weights);
    for (int c = 0; c < s->model.num_classes; c++)
        engine->class_weights[c] = s->model.class_weights.n ? (float)s->model.class_weights.at[c] : 1;

    engine->in = (tri_plan_in){.model = &engine->model,
                               .mesh = place->mesh,
                               .rank = place->rank,
                               .n_mb = engine->n_mb,
                               .max = *max,
                               .max_infer = *max_infer,
                               .target = &engine->target,
                               .beta1 = s->adam_beta1,
                               .beta2 = s->adam_beta2,
                               .adam_eps = s->adam_eps,
                               .weight_decay = s->weight_decay,
                               .max_grad_norm = s->max_grad_norm};
    TRI_TRY(tri__plan(&engine->arena, &engine->in, train, &engine->plan));
    int n = 0;
    if (train) engine->train = n, engine->program[n++] = engine->plan.train.program;
    engine->infer = n;
    engine->program[n++] = engine->plan.infer.program;
    return TRI_OK;
}

tri_status tri__engine_plan_all(tri_engine *engine, tri_programs *all) {
    size_t world = (size_t)tri__mesh_world(&engine->place.mesh);
    *all = (tri_programs){.world = (int)world};
    all->train = tri__arena_alloc(&engine->arena, world * sizeof *all->train);
    all->infer = tri__arena_alloc(&engine->arena, world * sizeof *all->infer);
    int training = engine->train >= 0;
    for (int rank = 0; rank < (int)world; rank++) {
        tri_plan plan = engine->plan;
        tri_plan_in in = engine->in;
        in.rank = rank;
        if (rank != engine->place.rank) TRI_TRY(tri__plan(&engine->arena, &in, training, &plan));
        all->train[rank] = training ? plan.train.program : NULL;
        all->infer[rank] = plan.infer.program;
    }
    if (training) TRI_TRY(tri__check(all->train, all->world));
    return tri__check(all->infer, all->world);
}

/* Every parameter as a piece of memory; base: the flat slot of each unit. */
static tri_piece *pieces_of(tri_engine *engine, tri_piece *into, const int *base, const char *prefix) {
    for (int i = 0; i < engine->model.n_params; i++) {
        const tri_param *param = &engine->model.param[i];
        float *flat = tri__exec_slot(engine->exec, 0, base[param->unit]); /* [unit count] */
        *into++ = (tri_piece){.name = tri__arena_print(&engine->arena, "%s%s", prefix, param->name),
                              .dtype = TRI_F32,
                              .shape = param->shape,
                              .slice = tri__slice_whole(&param->shape),
                              .data = flat + param->at};
    }
    return into;
}

tri_status tri__engine_bind(tri_engine *engine) {
    char need_text[32], have_text[32];
    int n = engine->infer + 1;
    int64_t need = 0, have = tri__memory_available();
    for (int mem = 0; mem < TRI_MEM_COUNT; mem++) {
        int64_t most = 0;
        for (int i = 0; i < n; i++)
            if (engine->program[i]->bytes[mem] > most) most = engine->program[i]->bytes[mem];
        need += most;
    }
    if (need > have)
        return tri__fail(TRI_RESOURCE, "the plan needs %s, %s is free: take a smaller --batch-size, more --num-microbatches, or a shorter --max-sen-len",
                         tri__text_bytes((double)need, need_text), tri__text_bytes((double)have, have_text));
    TRI_TRY(tri__exec_open(engine->device, engine->program, n, engine->threads, engine->seed, 0, NULL, NULL, &engine->exec));
    int n_params = engine->model.n_params;
    engine->n_weights = n_params;
    engine->weights = tri__arena_alloc(&engine->arena, (size_t)n_params * sizeof *engine->weights);
    const tri_planned *planned = engine->train >= 0 ? &engine->plan.train : &engine->plan.infer;
    pieces_of(engine, engine->weights, planned->param, "");
    if (engine->train < 0) return TRI_OK;
    engine->n_optimizer = 2 * n_params;
    engine->optimizer = tri__arena_alloc(&engine->arena, 2 * (size_t)n_params * sizeof *engine->optimizer);
    pieces_of(engine, pieces_of(engine, engine->optimizer, planned->m, "exp_avg."), planned->v, "exp_avg_sq.");
    return TRI_OK;
}

void tri__engine_close(tri_engine *engine) {
    tri__exec_close(engine->exec);
    tri__arena_close(&engine->arena);
    *engine = (tri_engine){0};
}

static void init_weights(tri_engine *engine) {
    for (int i = 0; i < engine->model.n_params; i++) {
        const tri_param *param = &engine->model.param[i];
        float *w = engine->weights[i].data; /* [count] */
        if (param->init == TRI_INIT_NORMAL)
            tri__random_normal(engine->seed, tri__random_id(param->name), param->deviation, 0, param->count, w);
        for (int64_t k = 0; k < param->count && param->init != TRI_INIT_NORMAL; k++) w[k] = param->init == TRI_INIT_ONE;
    }
}

tri_status tri__engine_init(tri_engine *engine, const tri_assets *assets, const tri_log *log) {
    init_weights(engine);
    uint8_t *filled = tri__arena_alloc(&engine->arena, (size_t)engine->n_weights);
    for (int branch = 0; branch < assets->n_texts; branch++) {
        char prefix[32];
        tri_hf *hf;
        TRI_TRY(tri__hf_open(assets->folder[branch], &hf));
        if (!hf) {
            tri__say(log, TRI_LOG_INFO, "%s encoder: random initial weights (%s has no model.safetensors)", tri__branch_name(branch),
                     assets->folder[branch]);
            continue;
        }
        snprintf(prefix, sizeof prefix, "%s.", tri__branch_name(branch));
        tri_status status = tri__hf_read(hf, prefix, engine->weights, engine->n_weights, filled, log);
        tri__hf_close(hf);
        TRI_TRY(status);
    }
    if (engine->model.n_columns == 1)
        tri__say(log, TRI_LOG_INFO, "one tabular column: it is projected without LayerNorm, which would erase it");
    return TRI_OK;
}

tri_status tri__engine_load(tri_engine *engine, const tri_checkpoint *checkpoint, int optimizer) {
    for (int i = 0; i < engine->n_weights; i++) TRI_TRY(tri__checkpoint_read(checkpoint, &engine->weights[i]));
    for (int i = 0; i < engine->n_optimizer && optimizer; i++) TRI_TRY(tri__checkpoint_read(checkpoint, &engine->optimizer[i]));
    return TRI_OK;
}
