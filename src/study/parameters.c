/* parameters.c - where each parameter of a plan is: its stage, how ranks split it, its owners, and its size. */
#include "engine/staging.h"
#include "study/study.h"

typedef struct listing {
    tri_arena *arena;
    const tri_plan_in *in;
    tri_stages stages;
    const tri_network *part;  /* a rank's share of the whole model */
    int n_shards;             /* ranks that shard this share, or with experts runs of ep of them */
    int64_t bytes;            /* of an element */
    tri_json **out;
} listing;

static const char *split_of(const listing *l, const tri_param *param) {
    const char *what = param->share == TRI_SHARE_ROWS ? "rows" : param->share == TRI_SHARE_COLS ? "columns" : NULL;
    int ep = param->experts ? tri__mesh_ep(&l->in->mesh) : 1;
    const char *split = !what || l->in->mesh.tp == 1 ? NULL
                                                     : tri__arena_print(l->arena, "%s/%d", what, l->in->mesh.tp);
    if (ep == 1) return split ? split : "whole";
    return tri__arena_print(l->arena, "experts/%d%s%s", ep, split ? " " : "", split ? split : "");
}

static tri_json *param_json(const listing *l, int index) {
    const tri_param *param = &l->in->model->param[index];
    int stage = l->stages.of_unit[param->unit];
    int ep = param->experts ? tri__mesh_ep(&l->in->mesh) : 1, shards = l->n_shards > ep ? l->n_shards / ep : 1;
    tri_json *shape = tri__json_array();
    for (int d = 0; d < param->shape.n; d++) tri__json_append_new(shape, tri__json_integer(param->shape.dim[d]));
    return tri__json_pack("{s:s, s:o, s:i, s:s, s:s*, s:s, s:I, s:f}", "name", param->name, "shape", shape, "stage",
                          stage, "split", split_of(l, param), "tp_plan",
                          l->in->mesh.tp > 1 ? tri__share_word(param->share, param) : NULL, "owners",
                          tri__stage_ranks(l->arena, &l->in->mesh, &l->stages, stage), "bytes",
                          (tri_json_int)(param->count * l->bytes), "bytes_per_rank",
                          (double)(l->part->param[index].count * l->bytes) / shards);
}

static tri_json *stage_json(const listing *l, int stage) {
    const tri_network *model = l->in->model;
    int64_t elements = 0;
    int n = 0;
    for (int i = 0; i < model->n_params; i++) {
        if (l->stages.of_unit[model->param[i].unit] != stage) continue;
        elements += model->param[i].count;
        n++;
    }
    return tri__json_pack("{s:i, s:s, s:i, s:I, s:I}", "stage", stage, "units",
                          tri__stage_text(l->arena, model, &l->stages, stage), "parameters", n, "elements",
                          (tri_json_int)elements, "bytes", (tri_json_int)(elements * l->bytes));
}

static tri_status list(tri_arena *arena, void *data) {
    listing *l = data;
    l->arena = arena;
    TRI_TRY(tri__stages_plan(l->arena, l->in, &l->stages));
    const tri_mesh *mesh = &l->in->mesh;
    l->part = tri__model_part(l->arena, l->in->model, NULL, (tri_holder){mesh->tp, 0, tri__mesh_ep(mesh), 0});
    tri_json *params = tri__json_array(), *stages = tri__json_array();
    for (int i = 0; i < l->in->model->n_params; i++) tri__json_append_new(params, param_json(l, i));
    for (int stage = 0; stage < l->stages.pipeline.n_stages; stage++)
        tri__json_append_new(stages, stage_json(l, stage));
    *l->out = tri__json_pack("{s:i, s:o, s:o}", "shards", l->n_shards, "parameters", params, "stages", stages);
    return *l->out ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
}

tri_status tri__view_params(const tri_engine *engine, tri_json **out) {
    const tri_plan_in *in = &engine->in;
    listing l = {.out = out, .in = in, .n_shards = 1, .bytes = (int64_t)tri__dtype_bytes(in->precision)};
    if (in->sharding.kind == TRI_SHARD_ZERO3) l.n_shards = in->mesh.dp;
    if (in->sharding.kind == TRI_SHARD_HYBRID) l.n_shards = in->sharding.size;
    return tri__arena_scratch(list, &l);
}
