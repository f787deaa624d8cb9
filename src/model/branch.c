/* branch.c - what all encoder families share: the operation of attention, first tokens, experts, layers that steps
 * leave out, pooling, and the projection to the common width. */
#include "model/branch.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

tri_field tri__branch_field(const tri_branch *b, tri_field primary) {
    return (tri_field)(primary + (b->index ? TRI_FIELD_ids1 : 0));
}

tri_branch tri__branch_open(tri_forward *f, int index) {
    tri_branch b = {
        .f = f, .e = &f->model->encoder[index], .index = index, .rows = {.sym = index ? TRI_SYM_T1 : TRI_SYM_T0}};
    b.key = tri__branch_field(&b, TRI_FIELD_key0);
    b.sequences = (tri_rows){.sym = tri__sequences(f->model, index)};
    b.prefix = tri__branch_name(index);
    return b;
}

const char *tri__branch_join(const tri_branch *b, const char *prefix, const char *name) {
    return tri__arena_print(b->f->build.arena, "%s.%s", prefix, name);
}

/* From here on the rows are the first tokens, one a sequence; a sequence's key is that of its first token. Taken before
 * everything else in a layer, the rows get their gradient last: it is added, row by row, to the other gradients. */
static int take_first(tri_branch *b, int x) {
    tri_forward *f = b->f;
    b->rows = b->sequences;
    b->key = !tri__counts_windows(f->model) ? TRI_FIELD_keyn : b->index ? TRI_FIELD_keyw1 : TRI_FIELD_keyw0;
    int first = tri__forward_slot(f, b->rows, b->e->hidden_size, "first");
    TRI_BUILD(&f->build, pool, (tri_attr){0}, first, x, b->seq);
    return first;
}

/* Only the first rows of the last layer are read, but its experts take all of a sequence's tokens. */
static int is_first_alone(const tri_branch *b, int64_t index) {
    return b->f->first_rows && index + 1 == b->e->num_hidden_layers && !tri__encoder_has_experts(b->e, index);
}

int tri__branch_layer_begin(tri_branch *b, int x, int64_t index) {
    tri_builder *build = &b->f->build;
    tri__build_unit(build, tri__arena_print(build->arena, "%s.layer.%lld", b->prefix, (long long)index));
    int res = is_first_alone(b, index) ? take_first(b, x) : x;
    build->layer = 1 + tri__layer_find(build->program, build->program->unit[build->unit]), b->scale = -1;
    return res;
}

int tri__branch_layer_end(tri_branch *b, int out, int res) {
    tri_builder *build = &b->f->build;
    int gate = build->layer;
    build->layer = -gate;
    if (gate) TRI_BUILD(build, skip, (tri_attr){0}, out, res);
    build->layer = 0;
    return out;
}

tri_attention tri__branch_attention(tri_branch *b, tri_rows queries, int qkv) {
    tri_forward *f = b->f;
    const tri_encoder *e = b->e;
    float p = f->training ? (float)e->attention_probs_dropout_prob : 0;
    int key = p > 0 ? tri__forward_input(f, tri__branch_field(b, TRI_FIELD_key0)) : -1;
    int ctx = tri__forward_slot(f, queries, e->hidden_size, "ctx"),
        lse = tri__forward_slot(f, queries, e->num_attention_heads, "lse");
    tri_attention a = {.slot = {ctx, lse, qkv, key}, .attr = {.heads = (int32_t)e->num_attention_heads}};
    if (p > 0)
        a.attr.p = p, a.attr.max_len = (int32_t)f->model->max_len,
        a.attr.id = tri__random_id(f->build.program->slot[ctx].name);
    return a;
}

/* The operation of attention: of all queries or of first ones, over all keys or over present blocks. slot: ctx, lse,
 * qkv, key. */
void tri__branch_attend(tri_branch *b, tri_attr attr, int all, const int slot[static 4]) {
    tri_forward *f = b->f;
    const tri_blocks *present = &f->model->blocks[b->index];
    int blocks = -1;
    attr.first = !all, attr.sparse = present->word && !b->dense;
    if (attr.sparse) {
        blocks = tri__forward_input(f, (tri_field)(TRI_FIELD_blocks0 + b->index));
        attr.block = (int32_t)present->block, attr.window = (int32_t)present->window;
        attr.keys = (float)(all ? present->keys : present->first_keys);
    }
    TRI_BUILD(&f->build, attention, attr, slot[0], -1, -1, -1, slot[1], -1, slot[2], -1, b->seq, blocks, slot[3], -1);
}

/* The sub-layer of a layer that steps leave out, in steps that do not: divided by the probability that it is kept, so
 * that its mean is that of a layer that is always there, and predictions need no factor. As published (Zhang and He,
 * 2020, and DeepSpeed's example of it), both sub-layers are divided, before the residual is added; dropout, which is
 * linear, comes after the factor here. */
int tri__branch_scaled(tri_branch *b, int x, const char *label) {
    tri_forward *f = b->f;
    int gate = f->build.layer - 1, all = tri__forward_input(f, TRI_FIELD_layer_scale);
    int y = tri__forward_slot(f, b->rows, b->e->hidden_size, tri__arena_print(f->build.arena, "%s.scaled", label));
    const char *unit = f->build.program->layer[gate].name;
    if (b->scale < 0)
        b->scale = tri__build_view(&f->build, all, gate, 1, 1, "%s.%s", f->build.program->slot[all].name, unit);
    TRI_BUILD(&f->build, scale, (tri_attr){0}, y, x, b->scale);
    return y;
}

int tri__branch_mixture(tri_branch *b, int x, const char *layer) {
    const tri_mixture m = {.branch = b->index, .rows = b->rows, .seq = b->seq,
                           .places = {.sym = b->index ? TRI_SYM_X1 : TRI_SYM_X0}};
    return tri__experts_forward(b->f, &m, x, layer);
}

/* The unit of a text whose encoder is e, with a pooler or without. */
static void pooling_params(tri_network *model, int text, const tri_encoder *e, int pools) {
    int64_t H = e->hidden_size, P = pools ? H : 0;
    const tri_param_row rows[] = {
        TRI_WEIGHT("pooler.dense.weight", P, H, (float)e->initializer_range, WHOLE),
        TRI_BIAS("pooler.dense.bias", P, WHOLE),
        TRI_WEIGHT("projection.weight", model->common, H, 1.0f / sqrtf((float)H), WHOLE),
        TRI_BIAS("projection.bias", model->common, WHOLE)};
    tri__model_unit(model, "%s.pooling", tri__branch_name(text));
    tri__model_params(model, tri__arena_print(model->arena, "%s.", tri__branch_name(text)), rows, COUNT(rows));
}

void tri__branch_pooling_params(tri_network *model, int branch) {
    pooling_params(model, branch, &model->encoder[branch], model->pooling == TRI_POOLING_POOLER);
}

void tri__branch_further_params(tri_network *model, int text) {
    pooling_params(model, text, &model->encoder[tri__reader(&model->readers, text)], 0);
}

/* The mean over the windows of each sample's text. */
static int average(tri_branch *b, int pooled, int text) {
    tri_forward *f = b->f;
    int windows = tri__forward_input(f, tri__field_windows(text));
    int mean = tri__forward_slot(f, (tri_rows){.sym = TRI_SYM_N}, b->e->hidden_size,
                                 text == b->index ? "windows" : tri__arena_print(f->build.arena, "windows%d", text));
    TRI_BUILD(&f->build, pool, (tri_attr){.mean = 1}, mean, pooled, windows);
    return mean;
}

static int project(tri_branch *b, int pooled, int text) {
    tri_forward *f = b->f;
    tri__build_unit(&f->build, tri__branch_join(b, tri__branch_name(text), "pooling"));
    return tri__forward_linear(f, pooled, (tri_rows){.sym = TRI_SYM_N}, f->model->common, b->e->hidden_size,
                               "projection", tri__branch_join(b, tri__branch_name(text), "projection"));
}

void tri__branch_pooling(tri_branch *b, int x) {
    tri_forward *f = b->f;
    const tri_rows rows = b->sequences;
    int64_t H = b->e->hidden_size;
    tri__build_unit(&f->build, tri__branch_join(b, b->prefix, "pooling"));
    int pooled = is_first_alone(b, b->e->num_hidden_layers - 1) ? x : tri__forward_slot(f, rows, H, "pooled");
    if (f->model->pooling == TRI_POOLING_MEAN) TRI_BUILD(&f->build, pool, (tri_attr){.mean = 1}, pooled, x, b->seq);
    else if (pooled != x) TRI_BUILD(&f->build, pool, (tri_attr){0}, pooled, x, b->seq);
    if (f->model->pooling == TRI_POOLING_POOLER) {
        const char *name = tri__branch_join(b, b->prefix, "pooler.dense");
        int dense = tri__forward_linear(f, pooled, rows, H, H, "pooler", name);
        pooled = tri__forward_activation(f, dense, rows, H, TRI_ACTIVATION_TANH);
    }
    const tri_network *m = f->model;
    int mean[TRI_TEXTS_MAX];
    for (int t = m->n_texts - 1; t >= 0; t--)
        if (tri__reader(&m->readers, t) == b->index) mean[t] = tri__counts_windows(m) ? average(b, pooled, t) : pooled;
    for (int t = 0; t < m->n_texts; t++)
        if (tri__reader(&m->readers, t) == b->index) f->text[t] = project(b, mean[t], t);
}
