/* model.c - the tables of a model, and functions that write its operation list. */
#include "model/model.h"

int tri__branch_of(const char *name, const char **rest) {
    for (int branch = 0; branch < TRI_TEXTS_MAX; branch++) {
        *rest = name + strlen(tri__branch_name(branch));
        if (tri__text_begins(name, tri__branch_name(branch)) && **rest == '.') return branch;
    }
    return -1;
}

int tri__weight_quantizes(const char *name, const tri_shape *shape) {
    if (shape->n != 2) return 0; /* a bias, a norm */
    if (strstr(name, ".relative_attention_bias.") || strstr(name, ".rel_embeddings.")) return 0; /* of distances */
    const char *rest;
    return tri__branch_of(name, &rest) >= 0;
}

void tri__model_unit(tri_network *model, const char *format, ...) {
    char name[128];
    TRI_FORMAT(name, sizeof name, format);
    *TRI_PUSH(model->arena, model->unit, model->n_units, model->cap_units) =
        (tri_unit){.name = tri__arena_copy(model->arena, name), .first = model->n_params};
}

static int decays(const tri_network *model, const char *name) {
    for (int i = 0; i < model->no_decay.n; i++)
        if (*model->no_decay.at[i] && strstr(name, model->no_decay.at[i])) return 0;
    return 1;
}

/* Appends a parameter that takes `room` elements to the unit's memory. */
static void place_param(tri_unit *unit, const tri_param *param, int64_t room) {
    TRI_ASSERT(!tri__is_cut(param) || unit->split == unit->count);
    TRI_ASSERT(param->share == TRI_SHARE_TOKENS || unit->tokens == unit->count);
    unit->count += room;
    if (tri__is_cut(param)) unit->split = unit->count;
    if (param->share != TRI_SHARE_TOKENS) unit->tokens = unit->count;
    unit->n++;
}

void tri__model_arrange(tri_network *model) {
    for (tri_unit *unit = model->unit; unit < model->unit + model->n_units; unit++) {
        int n = unit->n, k = unit->first;
        size_t bytes = (size_t)n * sizeof *model->param;
        tri_param *was = memcpy(tri__arena_alloc(model->arena, bytes), &model->param[k], bytes);
        unit->count = unit->split = unit->tokens = unit->n = 0;
        for (int class = 0; class < 3; class++) /* what is one operand stays together */
            for (int i = 0; i < n; i++) {
                if (class != (was[i].share == TRI_SHARE_TOKENS ? 2 : !tri__is_cut(&was[i]))) continue;
                model->param[k] = was[i];
                model->param[k].at = unit->count;
                place_param(unit, &model->param[k++], was[i].count);
            }
    }
}

/* [experts, rows, cols], without dims that it does not have. */
static tri_shape shape_of(const tri_param_row *row, int64_t experts) {
    tri_shape shape = row->rows > 0 ? tri__shape_2d(row->rows, row->cols) : tri__shape_1d(row->cols);
    if (!experts) return shape;
    for (int d = shape.n++; d > 0; d--) shape.dim[d] = shape.dim[d - 1];
    shape.dim[0] = experts;
    return shape;
}

void tri__model_params(tri_network *model, const char *prefix, const tri_param_row *rows, int n) {
    tri_unit *unit = &model->unit[model->n_units - 1];
    for (int i = 0; i < n; i++) {
        const tri_param_row *row = &rows[i];
        if (!row->rows || !row->cols) continue;
        tri_param *param = TRI_PUSH(model->arena, model->param, model->n_params, model->cap_params);
        *param = (tri_param){.name = tri__arena_print(model->arena, "%s%s", prefix, row->name),
                             .shape = shape_of(row, unit->experts), .share = row->share, .unit = model->n_units - 1,
                             .at = unit->count, .init = row->init, .rate = 1, .deviation = row->deviation,
                             .experts = unit->experts};
        param->part = tri__slice_whole(&param->shape);
        param->count = tri__shape_count(&param->shape);
        param->decays = decays(model, param->name);
        place_param(unit, param, param->count);
        model->n_elements += param->count;
    }
}

/* Sets the experts of place `place` of `n`, which divides their number. */
static void cut_experts(tri_param *param, int n, int place) {
    if (!param->experts || n == 1) return;
    param->part.extent[0] = param->shape.dim[0] / n;
    param->part.start[0] = place * param->part.extent[0];
    param->count = param->part.end = param->count / n;
}

/* Sets the box of place `place` of `n`; returns the size of the largest box in elements. */
static int64_t cut(tri_param *param, int n, int place) {
    int dim = param->share == TRI_SHARE_COLS ? param->shape.n - 1 : param->experts ? 1 : 0;
    if (!tri__is_cut(param)) return param->count;
    int64_t whole = param->shape.dim[dim], most = (whole + n - 1) / n, room = param->count / whole * most;
    int64_t begin = place * most < whole ? place * most : whole, end = begin + most < whole ? begin + most : whole;
    param->part.start[dim] = begin;
    param->part.extent[dim] = end - begin;
    param->count = param->part.end = param->count / whole * (end - begin);
    return room;
}

tri_network *tri__model_part(tri_arena *arena, const tri_network *model, const uint8_t *has, tri_holder holder) {
    tri_network *part = tri__arena_alloc(arena, sizeof *part);
    *part = *model;
    part->arena = arena;
    part->unit = NULL, part->param = NULL;
    part->n_units = part->n_params = part->cap_units = part->cap_params = 0;
    part->n_elements = 0;
    for (int u = 0; u < model->n_units; u++) {
        if (has && !has[u]) continue;
        tri_unit *unit = TRI_PUSH(arena, part->unit, part->n_units, part->cap_units);
        *unit = (tri_unit){.name = model->unit[u].name, .first = part->n_params, .experts = model->unit[u].experts,
                           .frozen = model->unit[u].frozen};
        for (int i = model->unit[u].first; i < model->unit[u].first + model->unit[u].n; i++) {
            tri_param *param = TRI_PUSH(arena, part->param, part->n_params, part->cap_params);
            *param = model->param[i];
            param->unit = part->n_units - 1;
            param->at = unit->count;
            cut_experts(param, holder.ep, holder.ep_place);
            place_param(unit, param, cut(param, holder.tp, holder.tp_place));
            part->n_elements += param->count;
        }
    }
    return part;
}

int64_t tri__model_layers(const tri_network *model) {
    int64_t n = 0;
    for (int text = 0; text < model->n_encoders; text++) n += model->encoder[text].num_hidden_layers;
    return n;
}

/* The nearest to parameter `from` first: those of a layer are asked for together. */
static const tri_param *find_from(const tri_network *model, const char *name, int from) {
    const tri_param *param = model->param;
    for (int k = 0; k < model->n_params; k++) {
        if (from + k < model->n_params && strcmp(param[from + k].name, name) == 0) return &param[from + k];
        if (from - k >= 0 && strcmp(param[from - k].name, name) == 0) return &param[from - k];
    }
    return NULL;
}

const tri_param *tri__model_find(const tri_network *model, const char *name) { return find_from(model, name, 0); }

int tri__model_find_unit(const tri_network *model, const char *name) {
    for (int u = 0; u < model->n_units; u++)
        if (strcmp(model->unit[u].name, name) == 0) return u;
    return -1;
}

int tri__forward_weight(tri_forward *f, const char *label, const char *name, int64_t rows, int64_t cols) {
    const tri_param *param = find_from(f->model, name, f->found);
    TRI_ASSERT(param && param->at + rows * cols <= f->model->unit[param->unit].count);
    f->found = (int)(param - f->model->param);
    int parent = f->unit_slot[param->unit];
    return tri__build_view(&f->build, parent, param->at, rows, cols, "%s.%s", f->build.program->slot[parent].name,
                           label);
}

const char *tri__field_name(tri_field field) {
    static const char *const names[TRI_FIELD_COUNT] = {
#define X(name, text) #name,
        TRI_FIELDS(X)
#undef X
    };
    return names[field];
}

int tri__counts_windows(const tri_network *model) { return model->windows > 1 || model->readers.joined; }

tri_sym tri__sequences(const tri_network *model, int branch) {
    return !tri__counts_windows(model) ? TRI_SYM_N : branch ? TRI_SYM_W1 : TRI_SYM_W0;
}

void tri__field_shape(const tri_network *model, tri_field field, tri_dtype *dtype, tri_rows *rows, int64_t *cols) {
    int branch = (field >= TRI_FIELD_ids1 && field <= TRI_FIELD_seq1) || field == TRI_FIELD_win1 ||
                 field == TRI_FIELD_keyw1 || field == TRI_FIELD_places1;
    tri_sym tokens = branch ? TRI_SYM_T1 : TRI_SYM_T0;
    *dtype = TRI_I32;
    *cols = 1;
    switch (field) {
    case TRI_FIELD_ids0: case TRI_FIELD_ids1: case TRI_FIELD_pos0:
    case TRI_FIELD_pos1: *rows = (tri_rows){.sym = tokens}; return;
    case TRI_FIELD_key0: case TRI_FIELD_key1: *rows = (tri_rows){.sym = tokens}, *cols = 2; return;
    case TRI_FIELD_seq0: case TRI_FIELD_seq1: case TRI_FIELD_places0:
    case TRI_FIELD_places1: *rows = (tri_rows){.sym = tri__sequences(model, branch), .add = 1}; return;
    case TRI_FIELD_seqf: case TRI_FIELD_win0: case TRI_FIELD_win1: case TRI_FIELD_win2 ... TRI_FIELD_win15:
        *rows = (tri_rows){.sym = TRI_SYM_N, .add = 1};
        return;
    case TRI_FIELD_keyw0:
    case TRI_FIELD_keyw1: *rows = (tri_rows){.sym = tri__sequences(model, branch)}, *cols = 2; return;
    case TRI_FIELD_labels:
        *dtype = model->is_number ? TRI_F32 : TRI_I32, *rows = (tri_rows){.sym = TRI_SYM_N}, *cols = model->n_targets;
        return;
    case TRI_FIELD_keyf: *rows = (tri_rows){.sym = TRI_SYM_N, .mul = model->tokens}, *cols = 2; return;
    case TRI_FIELD_keyn: *rows = (tri_rows){.sym = TRI_SYM_N}, *cols = 2; return;
    case TRI_FIELD_numbers: *dtype = TRI_F32, *rows = (tri_rows){.sym = TRI_SYM_N}, *cols = model->n_numbers; return;
    case TRI_FIELD_columns: *rows = (tri_rows){.add = model->n_columns}, *cols = TRI_COLUMN_WORDS; return;
    case TRI_FIELD_row_weights: *dtype = TRI_F32, *rows = (tri_rows){.sym = TRI_SYM_N}; return;
    case TRI_FIELD_class_weights: *dtype = TRI_F32, *rows = (tri_rows){.add = 1}, *cols = model->n_classes; return;
    case TRI_FIELD_loss_inv: case TRI_FIELD_copy_inv: case TRI_FIELD_balance_inv0:
    case TRI_FIELD_balance_inv1: *dtype = TRI_F64, *rows = (tri_rows){.add = 1}; return;
    case TRI_FIELD_layer_scale:
        *dtype = TRI_F32, *rows = (tri_rows){.add = 1}, *cols = tri__model_layers(model);
        return;
    case TRI_FIELD_hyper: *dtype = TRI_F32, *rows = (tri_rows){.add = 1}, *cols = 4; return;
    case TRI_FIELD_loss_scale: case TRI_FIELD_average: *dtype = TRI_F32, *rows = (tri_rows){.add = 1}; return;
    case TRI_FIELD_control: *dtype = TRI_F64, *rows = (tri_rows){.add = 1}, *cols = TRI_TOLD_COUNT; return;
    case TRI_FIELD_blocks0:
    case TRI_FIELD_blocks1: *rows = (tri_rows){.add = model->blocks[field - TRI_FIELD_blocks0].n}; return;
    case TRI_FIELD_keyd0:
    case TRI_FIELD_keyd1: *rows = (tri_rows){.add = model->distances[field - TRI_FIELD_keyd0].rows}, *cols = 2; return;
    case TRI_FIELD_weights: /* of the start program, which models do not write */
    case TRI_FIELD_COUNT: break;
    }
    TRI_ASSERT(!"a field without a shape");
}

int tri__forward_input(tri_forward *f, tri_field field) {
    if (f->input[field] >= 0) return f->input[field];
    tri_dtype dtype;
    tri_rows rows;
    int64_t cols;
    tri__field_shape(f->model, field, &dtype, &rows, &cols);
    int slot = tri__build_slot(&f->build, TRI_MEM_ACT, dtype, rows, cols, "%s", tri__field_name(field));
    TRI_BUILD(&f->build, input, ((tri_attr){.field = field}), slot)->layer = 0; /* others may read it */
    return f->input[field] = slot;
}

int tri__forward_slot(tri_forward *f, tri_rows rows, int64_t cols, const char *label) {
    return tri__build_slot(&f->build, TRI_MEM_ACT, TRI_F32, rows, cols, "%s.%s", f->build.program->unit[f->build.unit],
                           label);
}

/* A layer's bias; -1 where the model has none. */
static int forward_bias(tri_forward *f, int64_t count, const char *label, const char *name) {
    tri_arena *arena = f->build.arena;
    const char *text = tri__arena_print(arena, "%s.bias", name);
    if (!find_from(f->model, text, f->found)) return -1;
    return tri__forward_weight(f, tri__arena_print(arena, "%s.b", label), text, 1, count);
}

int tri__forward_linear(tri_forward *f, int x, tri_rows rows, int64_t out, int64_t in, const char *label,
                        const char *name) {
    char text[256];
    int y = tri__forward_slot(f, rows, out, label);
    snprintf(text, sizeof text, "%s.weight", name);
    int w = tri__forward_weight(f, tri__arena_print(f->build.arena, "%s.w", label), text, out, in);
    int b = forward_bias(f, out, label, name);
    TRI_BUILD_VARIANT(&f->build, linear, (tri_attr){0}, y, x, w, b);
    return y;
}

int tri__forward_activation(tri_forward *f, int x, tri_rows rows, int64_t cols, tri_activation act) {
    int y = tri__forward_slot(f, rows, cols, tri__activations[act].name);
    TRI_BUILD(&f->build, act, ((tri_attr){.activation = 1 + (int32_t)act}), y, x);
    return y;
}

int tri__forward_norm(tri_forward *f, int x, tri_rows rows, int64_t cols, double eps, const char *label,
                      const char *name) {
    char text[256];
    tri_arena *arena = f->build.arena;
    int y = tri__forward_slot(f, rows, cols, label);
    int xhat = tri__forward_slot(f, rows, cols, tri__arena_print(arena, "%s.xhat", label));
    int rstd = tri__forward_slot(f, rows, 1, tri__arena_print(arena, "%s.rstd", label));
    snprintf(text, sizeof text, "%s.weight", name);
    int g = tri__forward_weight(f, tri__arena_print(arena, "%s.g", label), text, 1, cols);
    int b = forward_bias(f, cols, label, name);
    TRI_BUILD(&f->build, norm, ((tri_attr){.eps = (float)eps}), y, -1, -1, -1, xhat, rstd, x, -1, g, b);
    return y;
}

int tri__forward_dropout(tri_forward *f, int x, tri_rows rows, int64_t cols, double p, tri_field key,
                         const char *label) {
    if (!f->training || p <= 0) return x;
    int keys = tri__forward_input(f, key);
    int y = tri__forward_slot(f, rows, cols, label);
    TRI_BUILD(&f->build, dropout, ((tri_attr){.p = (float)p, .id = tri__random_id(f->build.program->slot[y].name)}), y,
              x, keys);
    return y;
}
