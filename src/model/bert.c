/* bert.c - one text branch: a BERT or RoBERTa encoder, pooling, and the projection to the common width. Names and
 * numerics are Hugging Face's: post-norm, exact-erf GELU. A unit's memory has, in this order, parameters that tensor
 * parallelism splits, those it does not, and norms; query, key and value are adjacent, so that they are one [3H, H]
 * operand. */
#include "base/random.h"
#include "base/text.h"
#include "model/model.h"

#include <stdio.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* Whether a layer has a parameter: a mixture of experts has a router, others one feed-forward layer. */
static int is_part(const char *name, int mixes) {
    int dense = tri__text_begins(name, "intermediate.") || tri__text_begins(name, "output.dense."),
        router = tri__text_begins(name, "router.");
    return mixes ? !dense : !router;
}

static void layer_params(tri_network *model, int branch, int64_t layer) {
    const tri_encoder *e = &model->encoder[branch];
    int64_t H = e->hidden_size, I = e->intermediate_size;
    float d = (float)e->initializer_range;
    const tri_param_row rows[] = {
        {"attention.self.query.weight", H, H, TRI_INIT_NORMAL, d, TRI_SHARE_ROWS},
        {"attention.self.key.weight", H, H, TRI_INIT_NORMAL, d, TRI_SHARE_ROWS},
        {"attention.self.value.weight", H, H, TRI_INIT_NORMAL, d, TRI_SHARE_ROWS},
        {"attention.output.dense.weight", H, H, TRI_INIT_NORMAL, d, TRI_SHARE_COLS},
        {"intermediate.dense.weight", I, H, TRI_INIT_NORMAL, d, TRI_SHARE_ROWS},
        {"output.dense.weight", H, I, TRI_INIT_NORMAL, d, TRI_SHARE_COLS},
        {"attention.self.query.bias", 0, H, TRI_INIT_ZERO, 0, TRI_SHARE_ROWS},
        {"attention.self.key.bias", 0, H, TRI_INIT_ZERO, 0, TRI_SHARE_ROWS},
        {"attention.self.value.bias", 0, H, TRI_INIT_ZERO, 0, TRI_SHARE_ROWS},
        {"intermediate.dense.bias", 0, I, TRI_INIT_ZERO, 0, TRI_SHARE_ROWS},
        {"attention.output.dense.bias", 0, H, TRI_INIT_ZERO, 0, TRI_SHARE_WHOLE},
        {"output.dense.bias", 0, H, TRI_INIT_ZERO, 0, TRI_SHARE_WHOLE},
        {"router.weight", e->num_experts, H, TRI_INIT_NORMAL, d, TRI_SHARE_WHOLE},
        {"attention.output.LayerNorm.weight", 0, H, TRI_INIT_ONE, 0, TRI_SHARE_TOKENS},
        {"attention.output.LayerNorm.bias", 0, H, TRI_INIT_ZERO, 0, TRI_SHARE_TOKENS},
        {"output.LayerNorm.weight", 0, H, TRI_INIT_ONE, 0, TRI_SHARE_TOKENS},
        {"output.LayerNorm.bias", 0, H, TRI_INIT_ZERO, 0, TRI_SHARE_TOKENS},
    };
    char prefix[128];
    tri__model_unit(model, "%s.layer.%lld", tri__branch_name(branch), (long long)layer);
    snprintf(prefix, sizeof prefix, "%s.encoder.layer.%lld.", tri__branch_name(branch), (long long)layer);
    int mixes = tri__encoder_has_experts(e, layer);
    for (int i = 0; i < COUNT(rows); i++)
        if (is_part(rows[i].name, mixes)) tri__model_params(model, prefix, &rows[i], 1);
    if (mixes) tri__experts_params(model, branch, layer);
}

static void pooling_params(tri_network *model, int branch) {
    const tri_encoder *e = &model->encoder[branch];
    int64_t H = e->hidden_size;
    const tri_param_row pooler[] = {
        {"pooler.dense.weight", H, H, TRI_INIT_NORMAL, (float)e->initializer_range, TRI_SHARE_WHOLE},
        {"pooler.dense.bias", 0, H, TRI_INIT_ZERO, 0, TRI_SHARE_WHOLE},
    };
    const tri_param_row projection[] = {
        {"projection.weight", model->common, H, TRI_INIT_NORMAL, 1.0f / sqrtf((float)H), TRI_SHARE_WHOLE},
        {"projection.bias", 0, model->common, TRI_INIT_ZERO, 0, TRI_SHARE_WHOLE},
    };
    char prefix[128];
    tri__model_unit(model, "%s.pooling", tri__branch_name(branch));
    snprintf(prefix, sizeof prefix, "%s.", tri__branch_name(branch));
    if (model->pooling == TRI_POOLING_POOLER) tri__model_params(model, prefix, pooler, COUNT(pooler));
    tri__model_params(model, prefix, projection, COUNT(projection));
}

void tri__bert_params(tri_network *model, int branch) {
    const tri_encoder *e = &model->encoder[branch];
    int64_t H = e->hidden_size;
    float d = (float)e->initializer_range;
    const tri_param_row rows[] = {
        {"word_embeddings.weight", e->vocab_size, H, TRI_INIT_NORMAL, d, TRI_SHARE_ROWS},
        {"position_embeddings.weight", e->max_position_embeddings, H, TRI_INIT_NORMAL, d, TRI_SHARE_WHOLE},
        {"token_type_embeddings.weight", e->type_vocab_size, H, TRI_INIT_NORMAL, d, TRI_SHARE_WHOLE},
        {"LayerNorm.weight", 0, H, TRI_INIT_ONE, 0, TRI_SHARE_TOKENS},
        {"LayerNorm.bias", 0, H, TRI_INIT_ZERO, 0, TRI_SHARE_TOKENS},
    };
    char prefix[128];
    tri__model_unit(model, "%s.embeddings", tri__branch_name(branch));
    snprintf(prefix, sizeof prefix, "%s.embeddings.", tri__branch_name(branch));
    tri__model_params(model, prefix, rows, COUNT(rows));
    tri_param *table = &model->param[model->n_params - COUNT(rows)];
    table[0].zero_row = e->pad_token_id + 1; /* like transformers' padding_idx */
    table[1].zero_row = tri__encoder_position_base(e);
    table[1].repeat = model->extends_positions ? tri__encoder_position_base(e) + 1 : 0;
    for (int64_t layer = 0; layer < e->num_hidden_layers; layer++) layer_params(model, branch, layer);
    pooling_params(model, branch);
}

/* State of the functions below. */
typedef struct branch {
    tri_forward *f;
    const tri_encoder *e;
    int index;
    tri_rows rows;            /* of computed values: T0 or T1; `sequences` where only first tokens are used */
    tri_rows sequences;       /* N, or W0 or W1 where texts are windowed */
    tri_field key;            /* random-number key of `rows` */
    int seq;                  /* [sequences+1,1] */
    int scale;                /* [1,1] of a layer that steps leave out; -1: not made yet */
    char prefix[64];          /* of logical names */
} branch;

static tri_field field_of(const branch *b, tri_field primary) {
    return (tri_field)(primary + (b->index ? TRI_FIELD_ids1 : 0));
}

static int is_windowed(const branch *b) { return b->f->model->windows > 1; }

static int embeddings(branch *b) {
    tri_forward *f = b->f;
    int64_t H = b->e->hidden_size;
    char name[128];
    tri__build_unit(&f->build, tri__arena_print(f->build.arena, "%s.embeddings", b->prefix));
    int ids = tri__forward_input(f, field_of(b, TRI_FIELD_ids0)),
        pos = tri__forward_input(f, field_of(b, TRI_FIELD_pos0));
    int sum = tri__forward_slot(f, b->rows, H, "sum");
    snprintf(name, sizeof name, "%s.embeddings.word_embeddings.weight", b->prefix);
    int word = tri__forward_weight(f, "word", name, b->e->vocab_size, H);
    snprintf(name, sizeof name, "%s.embeddings.position_embeddings.weight", b->prefix);
    int position = tri__forward_weight(f, "position", name, b->e->max_position_embeddings, H);
    snprintf(name, sizeof name, "%s.embeddings.token_type_embeddings.weight", b->prefix);
    int type = tri__forward_weight(f, "type", name, b->e->type_vocab_size, H);
    tri_attr attr = {.pad = (int32_t)b->e->pad_token_id + 1, .pad_position = tri__encoder_position_base(b->e)};
    TRI_BUILD(&f->build, embed, attr, sum, ids, pos, word, position, type);
    snprintf(name, sizeof name, "%s.embeddings.LayerNorm", b->prefix);
    int x = tri__forward_norm(f, sum, b->rows, H, b->e->layer_norm_eps, "norm", name);
    return tri__forward_dropout(f, x, b->rows, H, b->e->hidden_dropout_prob, b->key, "dropout");
}

/* The operation of attention: of all queries or of first ones, over all keys or over present blocks. slot: ctx, lse,
 * qkv, key. */
static void attend(branch *b, tri_attr attr, int all, const int slot[static 4]) {
    tri_forward *f = b->f;
    const tri_blocks *present = &f->model->blocks[b->index];
    if (!present->word) {
        if (all) TRI_BUILD(&f->build, attention, attr, slot[0], slot[1], slot[2], b->seq, slot[3]);
        else TRI_BUILD(&f->build, attention_first, attr, slot[0], slot[1], slot[2], b->seq, slot[3]);
        return;
    }
    int blocks = tri__forward_input(f, (tri_field)(TRI_FIELD_blocks0 + b->index));
    attr.block = (int32_t)b->e->pattern.block;
    attr.keys = (float)(all ? present->keys : present->first_keys);
    if (all) TRI_BUILD(&f->build, attention_sparse, attr, slot[0], slot[1], slot[2], b->seq, blocks, slot[3]);
    else TRI_BUILD(&f->build, attention_sparse_first, attr, slot[0], slot[1], slot[2], b->seq, blocks, slot[3]);
}

/* Tokens of x become queries, keys and values; the result has b->rows. */
static int attention(branch *b, int x, const char *layer) {
    tri_forward *f = b->f;
    const tri_encoder *e = b->e;
    const tri_rows tokens = f->build.program->slot[x].rows;
    int64_t H = e->hidden_size;
    int qkv = tri__forward_slot(f, tokens, 3 * H, "qkv");
    char name[192];
    snprintf(name, sizeof name, "%s.attention.self.query.weight", layer);
    int w = tri__forward_weight(f, "qkv.w", name, 3 * H, H);
    snprintf(name, sizeof name, "%s.attention.self.query.bias", layer);
    TRI_BUILD(&f->build, linear, (tri_attr){0}, qkv, x, w, tri__forward_weight(f, "qkv.b", name, 1, 3 * H));

    float p = f->training ? (float)e->attention_probs_dropout_prob : 0;
    int key = p > 0 ? tri__forward_input(f, field_of(b, TRI_FIELD_key0)) : -1;
    int ctx = tri__forward_slot(f, b->rows, H, "ctx"),
        lse = tri__forward_slot(f, b->rows, e->num_attention_heads, "lse");
    tri_attr attr = {.heads = (int32_t)e->num_attention_heads};
    if (p > 0)
        attr.p = p, attr.max_len = (int32_t)f->model->max_len,
        attr.id = tri__random_id(f->build.program->slot[ctx].name);
    attend(b, attr, b->rows.sym == tokens.sym, (const int[]){ctx, lse, qkv, key});
    snprintf(name, sizeof name, "%s.attention.output.dense", layer);
    return tri__forward_linear(f, ctx, b->rows, H, H, "attn", name);
}

/* The sub-layer of a layer that steps leave out, in steps that do not: divided by the probability that it is kept, so
 * that its mean is that of a layer that is always there, and predictions need no factor. As published (Zhang and He,
 * 2020, and DeepSpeed's example of it), both sub-layers are divided, before the residual is added; dropout, which is
 * linear, comes after the factor here. */
static int scaled(branch *b, int x, const char *label) {
    tri_forward *f = b->f;
    int gate = f->build.layer - 1, all = tri__forward_input(f, TRI_FIELD_layer_scale);
    int y = tri__forward_slot(f, b->rows, b->e->hidden_size, tri__arena_print(f->build.arena, "%s.scaled", label));
    const char *unit = f->build.program->layer[gate].name;
    if (b->scale < 0)
        b->scale = tri__build_view(&f->build, all, gate, 1, 1, "%s.%s", f->build.program->slot[all].name, unit);
    TRI_BUILD(&f->build, scale, (tri_attr){0}, y, x, b->scale);
    return y;
}

/* norm(dropout(x) + residual) */
static int residual(branch *b, int x, int res, const char *label, const char *name) {
    tri_forward *f = b->f;
    int64_t H = b->e->hidden_size;
    tri_arena *arena = f->build.arena;
    if (f->build.layer) x = scaled(b, x, label);
    x = tri__forward_dropout(f, x, b->rows, H, b->e->hidden_dropout_prob, b->key,
                             tri__arena_print(arena, "%s.dropout", label));
    int sum = tri__forward_slot(f, b->rows, H, tri__arena_print(arena, "%s.sum", label));
    TRI_BUILD(&f->build, add, (tri_attr){0}, sum, x, res);
    return tri__forward_norm(f, sum, b->rows, H, b->e->layer_norm_eps, label, name);
}

/* From here on the rows are the first tokens, one a sequence; a sequence's key is that of its first token. Taken before
 * everything else in a layer, the rows get their gradient last: it is added, row by row, to the other gradients. */
static int take_first(branch *b, int x) {
    tri_forward *f = b->f;
    b->rows = b->sequences;
    b->key = !is_windowed(b) ? TRI_FIELD_keyn : b->index ? TRI_FIELD_keyw1 : TRI_FIELD_keyw0;
    int first = tri__forward_slot(f, b->rows, b->e->hidden_size, "first");
    TRI_BUILD(&f->build, pool_first, (tri_attr){0}, first, x, b->seq);
    return first;
}

static int feed_forward(branch *b, int x, const char *layer) {
    tri_forward *f = b->f;
    int64_t H = b->e->hidden_size, I = b->e->intermediate_size;
    char name[192];
    snprintf(name, sizeof name, "%s.intermediate.dense", layer);
    int h = tri__forward_linear(f, x, b->rows, I, H, "ff1", name);
    int act = tri__forward_slot(f, b->rows, I, "gelu");
    TRI_BUILD(&f->build, gelu, (tri_attr){0}, act, h);
    snprintf(name, sizeof name, "%s.output.dense", layer);
    return tri__forward_linear(f, act, b->rows, H, I, "ff2", name);
}

static int mixture(branch *b, int x, const char *layer) {
    const tri_mixture m = {.branch = b->index, .rows = b->rows, .seq = b->seq,
                           .places = {.sym = b->index ? TRI_SYM_X1 : TRI_SYM_X0}};
    return tri__experts_forward(b->f, &m, x, layer);
}

/* Only the first rows of the last layer are read, but its experts take all of a sequence's tokens. */
static int is_first_alone(const branch *b, int64_t index) {
    return b->f->first_rows && index + 1 == b->e->num_hidden_layers && !tri__encoder_has_experts(b->e, index);
}

static int layer(branch *b, int x, int64_t index) {
    tri_forward *f = b->f;
    char prefix[128], name[192];
    tri__build_unit(&f->build, tri__arena_print(f->build.arena, "%s.layer.%lld", b->prefix, (long long)index));
    snprintf(prefix, sizeof prefix, "%s.encoder.layer.%lld", b->prefix, (long long)index);

    int gate = 1 + tri__layer_find(f->build.program, f->build.program->unit[f->build.unit]);
    int res = is_first_alone(b, index) ? take_first(b, x) : x;
    f->build.layer = gate, b->scale = -1;
    int attn = attention(b, x, prefix);
    snprintf(name, sizeof name, "%s.attention.output.LayerNorm", prefix);
    int mid = residual(b, attn, res, "norm1", name);

    int ff = tri__encoder_has_experts(b->e, index) ? mixture(b, mid, prefix) : feed_forward(b, mid, prefix);
    snprintf(name, sizeof name, "%s.output.LayerNorm", prefix);
    int out = residual(b, ff, mid, "norm2", name);
    f->build.layer = -gate;
    if (gate) TRI_BUILD(&f->build, skip, (tri_attr){0}, out, res);
    f->build.layer = 0;
    return out;
}

/* The mean over each sample's windows. */
static int average(branch *b, int pooled) {
    tri_forward *f = b->f;
    int windows = tri__forward_input(f, b->index ? TRI_FIELD_win1 : TRI_FIELD_win0);
    int mean = tri__forward_slot(f, (tri_rows){.sym = TRI_SYM_N}, b->e->hidden_size, "windows");
    TRI_BUILD(&f->build, pool_mean, (tri_attr){0}, mean, pooled, windows);
    return mean;
}

static int pooling(branch *b, int x) {
    tri_forward *f = b->f;
    const tri_rows samples = {.sym = TRI_SYM_N}, rows = b->sequences;
    int64_t H = b->e->hidden_size;
    char name[128];
    tri__build_unit(&f->build, tri__arena_print(f->build.arena, "%s.pooling", b->prefix));
    int pooled = is_first_alone(b, b->e->num_hidden_layers - 1) ? x : tri__forward_slot(f, rows, H, "pooled");
    if (f->model->pooling == TRI_POOLING_MEAN) TRI_BUILD(&f->build, pool_mean, (tri_attr){0}, pooled, x, b->seq);
    else if (pooled != x) TRI_BUILD(&f->build, pool_first, (tri_attr){0}, pooled, x, b->seq);
    if (f->model->pooling == TRI_POOLING_POOLER) {
        snprintf(name, sizeof name, "%s.pooler.dense", b->prefix);
        int dense = tri__forward_linear(f, pooled, rows, H, H, "pooler", name);
        pooled = tri__forward_slot(f, rows, H, "tanh");
        TRI_BUILD(&f->build, tanh, (tri_attr){0}, pooled, dense);
    }
    if (is_windowed(b)) pooled = average(b, pooled);
    snprintf(name, sizeof name, "%s.projection", b->prefix);
    return tri__forward_linear(f, pooled, samples, f->model->common, H, "projection", name);
}

int tri__bert_forward(tri_forward *f, int index) {
    branch b = {
        .f = f, .e = &f->model->encoder[index], .index = index, .rows = {.sym = index ? TRI_SYM_T1 : TRI_SYM_T0}};
    b.key = field_of(&b, TRI_FIELD_key0);
    b.sequences = (tri_rows){.sym = tri__sequences(f->model, index)};
    snprintf(b.prefix, sizeof b.prefix, "%s", tri__branch_name(index));
    int x = embeddings(&b);
    b.seq = tri__forward_input(f, field_of(&b, TRI_FIELD_seq0));
    for (int64_t i = 0; i < b.e->num_hidden_layers; i++) x = layer(&b, x, i);
    return pooling(&b, x);
}
