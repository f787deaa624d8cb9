/* bert.c - post-norm encoders: BERT, and the families that share its layers under names of their own (family.c). Names
 * and numerics are Hugging Face's. A unit's memory has, in this order, parameters that tensor parallelism splits, those
 * it does not, and norms; query, key and value are adjacent, so that they are one [3H, H] operand. */
#include "model/branch.h"
#include "model/family.h"

#include <stdio.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* Layers that have a parameter: those with one feed-forward layer, those with a mixture of experts. */
enum { DENSE = 1, MIXED, ANY };

static void layer_params(tri_network *model, int branch, int64_t layer) {
    const tri_encoder *e = &model->encoder[branch];
    const tri_layer_names *n = tri__family(e)->names;
    int64_t H = e->hidden_size, I = e->intermediate_size;
    float d = (float)e->initializer_range;
    const struct {
        const char *part, *end;
        int64_t rows, cols;
        tri_init init;
        tri_share share;
        int layers;
    } rows[] = {
        {n->query, ".weight", H, H, TRI_INIT_NORMAL, TRI_SHARE_ROWS, ANY},
        {n->key, ".weight", H, H, TRI_INIT_NORMAL, TRI_SHARE_ROWS, ANY},
        {n->value, ".weight", H, H, TRI_INIT_NORMAL, TRI_SHARE_ROWS, ANY},
        {n->attention, ".weight", H, H, TRI_INIT_NORMAL, TRI_SHARE_COLS, ANY},
        {n->inner, ".weight", I, H, TRI_INIT_NORMAL, TRI_SHARE_ROWS, DENSE},
        {n->outer, ".weight", H, I, TRI_INIT_NORMAL, TRI_SHARE_COLS, DENSE},
        {n->query, ".bias", 0, H, TRI_INIT_ZERO, TRI_SHARE_ROWS, ANY},
        {n->key, ".bias", 0, H, TRI_INIT_ZERO, TRI_SHARE_ROWS, ANY},
        {n->value, ".bias", 0, H, TRI_INIT_ZERO, TRI_SHARE_ROWS, ANY},
        {n->inner, ".bias", 0, I, TRI_INIT_ZERO, TRI_SHARE_ROWS, DENSE},
        {n->attention, ".bias", 0, H, TRI_INIT_ZERO, TRI_SHARE_WHOLE, ANY},
        {n->outer, ".bias", 0, H, TRI_INIT_ZERO, TRI_SHARE_WHOLE, DENSE},
        {"router", ".weight", e->num_experts, H, TRI_INIT_NORMAL, TRI_SHARE_WHOLE, MIXED},
        {n->attention_norm, ".weight", 0, H, TRI_INIT_ONE, TRI_SHARE_TOKENS, ANY},
        {n->attention_norm, ".bias", 0, H, TRI_INIT_ZERO, TRI_SHARE_TOKENS, ANY},
        {n->norm, ".weight", 0, H, TRI_INIT_ONE, TRI_SHARE_TOKENS, ANY},
        {n->norm, ".bias", 0, H, TRI_INIT_ZERO, TRI_SHARE_TOKENS, ANY},
    };
    char prefix[128];
    tri__model_unit(model, "%s.layer.%lld", tri__branch_name(branch), (long long)layer);
    int mixes = tri__encoder_has_experts(e, layer);
    for (int i = 0; i < COUNT(rows); i++) {
        if (!(rows[i].layers & (mixes ? MIXED : DENSE))) continue;
        snprintf(prefix, sizeof prefix, "%s.%s%lld.%s", tri__branch_name(branch), n->layer, (long long)layer,
                 rows[i].part);
        const tri_param_row row = {rows[i].end, rows[i].rows, rows[i].cols, rows[i].init,
                                   rows[i].init == TRI_INIT_NORMAL ? d : 0, rows[i].share};
        tri__model_params(model, prefix, &row, 1);
    }
    if (mixes) tri__experts_params(model, branch, layer);
}

#define POSITIONS "embeddings.position_embeddings.weight"

void tri__bert_params(tri_network *model, int branch) {
    const tri_encoder *e = &model->encoder[branch];
    int64_t H = e->hidden_size, W = tri__encoder_embedding(e), normed = e->norm_rel_ebd ? H : 0;
    int before = W != H && tri__family(e)->names->widens_first, after = W != H && !before;
    float d = (float)e->initializer_range;
    const tri_param_row rows[] = {
        {"embeddings.word_embeddings.weight", e->vocab_size, W, TRI_INIT_NORMAL, d, TRI_SHARE_ROWS},
        {"encoder.relative_attention_bias.weight", e->relative_attention_num_buckets, e->num_attention_heads,
         TRI_INIT_NORMAL, d, TRI_SHARE_COLS},
        {POSITIONS, tri__encoder_positions(e), W, TRI_INIT_NORMAL, d, TRI_SHARE_WHOLE},
        {"embeddings.token_type_embeddings.weight", e->type_vocab_size, W, TRI_INIT_NORMAL, d, TRI_SHARE_WHOLE},
        {"encoder.rel_embeddings.weight", 2 * tri__encoder_span(e), H, TRI_INIT_NORMAL, d, TRI_SHARE_WHOLE},
        {"encoder.LayerNorm.weight", 0, normed, TRI_INIT_ONE, 0, TRI_SHARE_WHOLE},
        {"encoder.LayerNorm.bias", 0, normed, TRI_INIT_ZERO, 0, TRI_SHARE_WHOLE},
        {"embeddings.embed_proj.weight", before ? H : 0, W, TRI_INIT_NORMAL, d, TRI_SHARE_TOKENS},
        {"embeddings.LayerNorm.weight", 0, before ? H : W, TRI_INIT_ONE, 0, TRI_SHARE_TOKENS},
        {"embeddings.LayerNorm.bias", 0, before ? H : W, TRI_INIT_ZERO, 0, TRI_SHARE_TOKENS},
        {"embeddings_project.weight", after ? H : 0, W, TRI_INIT_NORMAL, d, TRI_SHARE_TOKENS},
        {"embeddings_project.bias", 0, after ? H : 0, TRI_INIT_ZERO, 0, TRI_SHARE_TOKENS},
    };
    char prefix[128];
    int first = model->n_params;
    tri__model_unit(model, "%s.embeddings", tri__branch_name(branch));
    snprintf(prefix, sizeof prefix, "%s.", tri__branch_name(branch));
    for (int i = 0; i < COUNT(rows); i++) {
        if (!(rows[i].init == TRI_INIT_NORMAL ? rows[i].rows : rows[i].cols)) continue; /* without any it is absent */
        tri__model_params(model, prefix, &rows[i], 1);
        if (strcmp(rows[i].name, POSITIONS) != 0) continue;
        tri_param *table = &model->param[model->n_params - 1];
        table->zero_row = tri__encoder_position_base(e);
        table->repeat = model->extends_positions ? tri__encoder_position_base(e) + 1 : 0;
    }
    model->param[first].zero_row = e->pad_token_id + 1; /* like transformers' padding_idx */
    for (int64_t layer = 0; layer < e->num_hidden_layers; layer++) layer_params(model, branch, layer);
    tri__branch_pooling_params(model, branch);
}

static int embeddings(tri_branch *b) {
    tri_forward *f = b->f;
    int64_t H = b->e->hidden_size, W = tri__encoder_embedding(b->e);
    char name[128];
    tri__build_unit(&f->build, tri__arena_print(f->build.arena, "%s.embeddings", b->prefix));
    int ids = tri__forward_input(f, tri__branch_field(b, TRI_FIELD_ids0)),
        pos = tri__forward_input(f, tri__branch_field(b, TRI_FIELD_pos0));
    int sum = tri__forward_slot(f, b->rows, W, "sum");
    snprintf(name, sizeof name, "%s.embeddings.word_embeddings.weight", b->prefix);
    int word = tri__forward_weight(f, "word", name, b->e->vocab_size, W);
    snprintf(name, sizeof name, "%s." POSITIONS, b->prefix);
    int64_t positions = tri__encoder_positions(b->e);
    int position = positions ? tri__forward_weight(f, "position", name, positions, W) : -1;
    snprintf(name, sizeof name, "%s.embeddings.token_type_embeddings.weight", b->prefix);
    int type = b->e->type_vocab_size ? tri__forward_weight(f, "type", name, b->e->type_vocab_size, W) : -1;
    tri_attr attr = {.pad = (int32_t)b->e->pad_token_id + 1, .pad_position = tri__encoder_position_base(b->e)};
    TRI_BUILD(&f->build, embed, attr, sum, ids, pos, word, position, type);
    b->table = tri__relative_table(b);
    if (W != H && tri__family(b->e)->names->widens_first) {
        snprintf(name, sizeof name, "%s.embeddings.embed_proj", b->prefix);
        sum = tri__forward_linear(f, sum, b->rows, H, W, "project", name);
        W = H;
    }
    snprintf(name, sizeof name, "%s.embeddings.LayerNorm", b->prefix);
    int x = tri__forward_norm(f, sum, b->rows, W, b->e->layer_norm_eps, "norm", name);
    x = tri__forward_dropout(f, x, b->rows, W, b->e->hidden_dropout_prob, b->key, "dropout");
    snprintf(name, sizeof name, "%s.embeddings_project", b->prefix);
    return W == H ? x : tri__forward_linear(f, x, b->rows, H, W, "project", name);
}

/* Tokens of x become queries, keys and values; the result has b->rows. */
static int attention(tri_branch *b, int x, const char *layer) {
    tri_forward *f = b->f;
    const tri_encoder *e = b->e;
    const tri_layer_names *n = tri__family(e)->names;
    const tri_rows tokens = f->build.program->slot[x].rows;
    int64_t H = e->hidden_size;
    int qkv = tri__forward_slot(f, tokens, 3 * H, "qkv");
    char name[192];
    snprintf(name, sizeof name, "%s.%s.weight", layer, n->query);
    int w = tri__forward_weight(f, "qkv.w", name, 3 * H, H);
    snprintf(name, sizeof name, "%s.%s.bias", layer, n->query);
    int bias = tri__forward_weight(f, "qkv.b", name, 1, 3 * H);
    TRI_BUILD(&f->build, linear, (tri_attr){0}, qkv, x, w, bias);

    const tri_rows queries = b->table < 0 ? b->rows : tokens; /* by distances, first ones alone cannot attend */
    tri_attention a = tri__branch_attention(b, queries, qkv);
    int ctx = a.slot[0];
    if (b->table < 0) tri__branch_attend(b, a.attr, b->rows.sym == tokens.sym, a.slot);
    else tri__relative_attend(b, a.attr, a.slot, w, bias);
    if (queries.sym != b->rows.sym) {
        int first = tri__forward_slot(f, b->rows, H, "ctx.first");
        TRI_BUILD(&f->build, pool, (tri_attr){0}, first, ctx, b->seq);
        ctx = first;
    }
    snprintf(name, sizeof name, "%s.%s", layer, n->attention);
    return tri__forward_linear(f, ctx, b->rows, H, H, "attn", name);
}

/* norm(dropout(x) + residual) */
static int residual(tri_branch *b, int x, int res, double p, const char *label, const char *name) {
    tri_forward *f = b->f;
    int64_t H = b->e->hidden_size;
    tri_arena *arena = f->build.arena;
    if (f->build.layer) x = tri__branch_scaled(b, x, label);
    x = tri__forward_dropout(f, x, b->rows, H, p, b->key, tri__arena_print(arena, "%s.dropout", label));
    int sum = tri__forward_slot(f, b->rows, H, tri__arena_print(arena, "%s.sum", label));
    TRI_BUILD(&f->build, add, (tri_attr){0}, sum, x, res);
    return tri__forward_norm(f, sum, b->rows, H, b->e->layer_norm_eps, label, name);
}

static int feed_forward(tri_branch *b, int x, const char *layer) {
    tri_forward *f = b->f;
    const tri_layer_names *n = tri__family(b->e)->names;
    int64_t H = b->e->hidden_size, I = b->e->intermediate_size;
    char name[192];
    snprintf(name, sizeof name, "%s.%s", layer, n->inner);
    int h = tri__forward_linear(f, x, b->rows, I, H, "ff1", name);
    int act = tri__forward_activation(f, h, b->rows, I, b->e->act);
    snprintf(name, sizeof name, "%s.%s", layer, n->outer);
    return tri__forward_linear(f, act, b->rows, H, I, "ff2", name);
}

static int layer(tri_branch *b, int x, int64_t index) {
    tri_forward *f = b->f;
    const tri_layer_names *n = tri__family(b->e)->names;
    double p = b->e->hidden_dropout_prob;
    char prefix[128], name[192];
    tri__build_unit(&f->build, tri__arena_print(f->build.arena, "%s.layer.%lld", b->prefix, (long long)index));
    snprintf(prefix, sizeof prefix, "%s.%s%lld", b->prefix, n->layer, (long long)index);

    int gate = 1 + tri__layer_find(f->build.program, f->build.program->unit[f->build.unit]);
    int res = tri__branch_is_first_alone(b, index) ? tri__branch_take_first(b, x) : x;
    f->build.layer = gate, b->scale = -1;
    int attn = attention(b, x, prefix);
    snprintf(name, sizeof name, "%s.%s", prefix, n->attention_norm);
    int mid = residual(b, attn, res, n->attention_dropout ? p : 0, "norm1", name);

    int ff = tri__encoder_has_experts(b->e, index) ? tri__branch_mixture(b, mid, prefix) : feed_forward(b, mid, prefix);
    snprintf(name, sizeof name, "%s.%s", prefix, n->norm);
    int out = residual(b, ff, mid, p, "norm2", name);
    f->build.layer = -gate;
    if (gate) TRI_BUILD(&f->build, skip, (tri_attr){0}, out, res);
    f->build.layer = 0;
    if (b->table >= 0 && index + 1 < b->e->num_hidden_layers) b->table = tri__relative_next(b);
    return out;
}

int tri__bert_forward(tri_forward *f, int index) {
    tri_branch b = tri__branch_open(f, index);
    int x = embeddings(&b);
    b.seq = tri__forward_input(f, tri__branch_field(&b, TRI_FIELD_seq0));
    for (int64_t i = 0; i < b.e->num_hidden_layers; i++) x = layer(&b, x, i);
    return tri__branch_pooling(&b, x);
}
