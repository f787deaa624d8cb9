/* trimodal.c - the model: text branches and the tabular branch, fused. Branches without fields are omitted. */
#include "model/branch.h"
#include "model/family.h"

void tri__model_make(tri_arena *arena, const tri_model_config *config, const tri_encoder encoder[2],
                     tri_columns columns, tri_texts no_decay, tri_network *model) {
    *model = (tri_network){
        .arena = arena, .n_texts = tri__model_texts(config), .n_encoders = tri__model_encoders(config),
        .readers = tri__model_readers(config), .encoder = {encoder[0], encoder[1]}, .n_numbers = columns.n,
        .n_columns = columns.at ? columns.n_at : columns.n, .n_classes = tri__model_outputs(config),
        .is_number = config->task != TRI_TASK_CLASSES, .is_weighted = config->weight_name != NULL,
        .n_targets = config->task == TRI_TASK_LABELS ? (int)tri__model_outputs(config) : 1,
        .common = config->hidden_common_dim, .fusion = config->fusion_hidden_dim, .max_len = config->max_sen_len,
        .windows = config->windows, .extends_positions = config->extend_positions == TRI_EXTEND_COPY,
        .fusion_dropout = config->fusion_dropout, .pooling = config->pooling,
        .is_gated = config->fusion == TRI_FUSION_GATED, .fusion_layers = config->fusion_layers,
        .fusion_heads = config->fusion_heads, .no_decay = no_decay};
    for (int branch = 0; branch < model->n_encoders; branch++) {
        const tri_family_row *family = tri__family(&encoder[branch]);
        int64_t window = 0;
        tri_pattern pattern = family->pattern ? family->pattern(&encoder[branch], &window) : encoder[branch].pattern;
        model->distances[branch] = tri__distances(arena, &encoder[branch], model->max_len);
        (family->params ? family->params : tri__bert_params)(model, branch);
        model->blocks[branch] = tri__pattern_blocks(arena, &pattern, model->max_len,
                                                    encoder[branch].num_attention_heads, window);
    }
    for (int text = model->n_encoders; text < model->n_texts; text++) tri__branch_further_params(model, text);
    if (config->fusion == TRI_FUSION_COLUMNS) model->tokens = model->n_texts + model->n_columns;
    if (columns.at || tri__model_has_vectors(config)) tri__columns_make(model, config, columns.at);
    if (columns.n > 0) tri__tabular_params(model);
    tri__fusion_params(model);
    model->no_decay = (tri_texts){0};
}

void tri__model_forward(tri_forward *f) {
    const tri_network *model = f->model;
    for (int i = 0; i < TRI_FIELD_COUNT; i++) f->input[i] = -1;
    f->experts = -1, f->n_balanced = 0;
    f->unit_slot = tri__arena_alloc(f->build.arena, (size_t)model->n_units * sizeof *f->unit_slot);
    for (int u = 0; u < model->n_units; u++) {
        tri__build_unit(&f->build, model->unit[u].name);
        f->unit_slot[u] = tri__build_slot(&f->build, TRI_MEM_PARAM, TRI_F32, (tri_rows){.add = 1}, model->unit[u].count,
                                          "p.%s", model->unit[u].name);
    }
    for (int encoder = 0; encoder < model->n_encoders; encoder++) {
        const tri_family_row *family = tri__family(&model->encoder[encoder]);
        (family->forward ? family->forward : tri__bert_forward)(f, encoder);
    }
    int branch[TRI_TEXTS_MAX + 1], n = model->n_texts;
    memcpy(branch, f->text, (size_t)n * sizeof *branch);
    if (model->n_columns > 0) branch[n++] = tri__tabular_forward(f);
    tri__fusion_forward(f, branch, n);
}
