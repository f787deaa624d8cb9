/* modernbert.c - ModernBERT (Warner et al., 2024): norms before the sub-layers and after the last layer, rotary
 * positions, gated feed-forward layers, and layers whose queries attend only to keys nearby. Names and numerics are
 * Hugging Face's, except that the file's Wqkv and Wi are three and two parameters here, so that tensor parallelism
 * splits each of them; checkpoint/huggingface.c reads them as runs of rows. A unit's memory is as in bert.c. */
#include "model/branch.h"
#include "model/family.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

int tri__encoder_is_local(const tri_encoder *e, int64_t layer) {
    if (!tri__family(e)->pattern) return 1;
    if (e->global_attn_every_n_layers) return layer % e->global_attn_every_n_layers != 0;
    return (int)(e->local_layer[layer / 64] >> layer % 64 & 1);
}

/* Blocks that cover the windows of local layers. Larger ones are faster on GPUs; kernels leave out what is too far
 * away. */
tri_pattern tri__modernbert_pattern(const tri_encoder *e, int64_t *window) {
    *window = e->local_attention / 2;
    return (tri_pattern){.mode = TRI_PATTERN_WINDOW, .block = *window > 32 ? 64 : *window > 16 ? 32 : 16,
                         .window = 2 * *window};
}

/* ---- Parameters ---- */

static void layer_params(tri_network *model, int branch, int64_t layer) {
    const tri_encoder *e = &model->encoder[branch];
    int64_t H = e->hidden_size, I = e->intermediate_size;
    float in = (float)e->initializer_range, out = in / sqrtf(2 * (float)e->num_hidden_layers);
    int64_t attention = e->attention_bias ? H : 0, inner = e->mlp_bias ? I : 0, outer = e->mlp_bias ? H : 0;
    int64_t first = layer ? H : 0, norm = e->norm_bias ? H : 0; /* the embeddings end with a norm */
    const tri_param_row rows[] = {
        TRI_WEIGHT("attn.Wqkv.query.weight", H, H, in, ROWS), TRI_WEIGHT("attn.Wqkv.key.weight", H, H, in, ROWS),
        TRI_WEIGHT("attn.Wqkv.value.weight", H, H, in, ROWS), TRI_WEIGHT("attn.Wo.weight", H, H, out, COLS),
        TRI_WEIGHT("mlp.Wi.input.weight", I, H, in, ROWS), TRI_WEIGHT("mlp.Wi.gate.weight", I, H, in, ROWS),
        TRI_WEIGHT("mlp.Wo.weight", H, I, out, COLS), TRI_BIAS("attn.Wqkv.query.bias", attention, ROWS),
        TRI_BIAS("attn.Wqkv.key.bias", attention, ROWS), TRI_BIAS("attn.Wqkv.value.bias", attention, ROWS),
        TRI_BIAS("mlp.Wi.input.bias", inner, ROWS), TRI_BIAS("mlp.Wi.gate.bias", inner, ROWS),
        TRI_BIAS("attn.Wo.bias", attention, WHOLE), TRI_BIAS("mlp.Wo.bias", outer, WHOLE),
        TRI_GAIN("attn_norm.weight", first, TOKENS), TRI_BIAS("attn_norm.bias", layer ? norm : 0, TOKENS),
        TRI_GAIN("mlp_norm.weight", H, TOKENS), TRI_BIAS("mlp_norm.bias", norm, TOKENS)};
    tri__model_unit(model, "%s.layer.%lld", tri__branch_name(branch), (long long)layer);
    tri__model_params(model, tri__arena_print(model->arena, "%s.layers.%lld.", tri__branch_name(branch),
                                              (long long)layer), rows, COUNT(rows));
}

static void norm_params(tri_network *model, int branch, const char *name) {
    const tri_encoder *e = &model->encoder[branch];
    const tri_param_row rows[] = {{".weight", TRI_VECTOR, e->hidden_size, TRI_INIT_ONE, 0, TRI_SHARE_TOKENS},
                                  {".bias", TRI_VECTOR, e->hidden_size, TRI_INIT_ZERO, 0, TRI_SHARE_TOKENS}};
    const char *prefix = tri__arena_print(model->arena, "%s.%s", tri__branch_name(branch), name);
    tri__model_params(model, prefix, rows, e->norm_bias ? 2 : 1);
}

void tri__modernbert_params(tri_network *model, int branch) {
    const tri_encoder *e = &model->encoder[branch];
    const tri_param_row words = {".embeddings.tok_embeddings.weight", e->vocab_size, e->hidden_size, TRI_INIT_NORMAL,
                                 (float)e->initializer_range, TRI_SHARE_ROWS};
    tri__model_unit(model, "%s.embeddings", tri__branch_name(branch));
    tri__model_params(model, tri__branch_name(branch), &words, 1);
    model->param[model->n_params - 1].zero_row = e->pad_token_id + 1; /* like transformers' padding_idx */
    norm_params(model, branch, "embeddings.norm");
    for (int64_t layer = 0; layer < e->num_hidden_layers; layer++) layer_params(model, branch, layer);
    tri__branch_pooling_params(model, branch);
    norm_params(model, branch, "final_norm");
}

/* ---- Operations ---- */

/* A dense layer of a layer; `name` is that of its weight's first parameter. */
static int dense(tri_branch *b, int x, tri_rows rows, const int64_t size[static 2], const char *label,
                 const char *layer, const char *name) {
    return tri__forward_linear(b->f, x, rows, size[0], size[1], label, tri__branch_join(b, layer, name));
}

static int norm(tri_branch *b, int x, const char *label, const char *name) {
    return tri__forward_norm(b->f, x, b->f->build.program->slot[x].rows, b->e->hidden_size, b->e->layer_norm_eps,
                             label, name);
}

static int embeddings(tri_branch *b) {
    tri_forward *f = b->f;
    int64_t H = b->e->hidden_size;
    const char *prefix = tri__branch_join(b, b->prefix, "embeddings");
    tri__build_unit(&f->build, prefix);
    int ids = tri__forward_input(f, tri__branch_field(b, TRI_FIELD_ids0)),
        pos = tri__forward_input(f, tri__branch_field(b, TRI_FIELD_pos0));
    int words = tri__forward_slot(f, b->rows, H, "words");
    const char *name = tri__branch_join(b, prefix, "tok_embeddings.weight");
    int table = tri__forward_weight(f, "word", name, b->e->vocab_size, H);
    TRI_BUILD(&f->build, embed, ((tri_attr){.pad = (int32_t)b->e->pad_token_id + 1}), words, ids, pos, table, -1, -1);
    int x = norm(b, words, "norm", tri__branch_join(b, prefix, "norm"));
    return tri__forward_dropout(f, x, b->rows, H, b->e->hidden_dropout_prob, b->key, "dropout");
}

/* Tokens of x become queries, keys and values; the result has b->rows. */
static int attention(tri_branch *b, int x, const char *layer, int local) {
    tri_forward *f = b->f;
    const tri_encoder *e = b->e;
    const tri_rows tokens = f->build.program->slot[x].rows;
    int64_t H = e->hidden_size;
    int straight = dense(b, x, tokens, (const int64_t[]){3 * H, H}, "qkv", layer, "attn.Wqkv.query");
    int qkv = tri__forward_slot(f, tokens, 3 * H, "rope");
    tri_attr attr = {.heads = (int32_t)e->num_attention_heads,
                     .theta = (float)(local ? e->local_rope_theta : e->global_rope_theta)};
    TRI_BUILD(&f->build, rope, attr, qkv, straight, tri__forward_input(f, tri__branch_field(b, TRI_FIELD_pos0)));

    tri_attention a = tri__branch_attention(b, b->rows, qkv);
    b->dense = !local;
    tri__branch_attend(b, a.attr, b->rows.sym == tokens.sym, a.slot);
    int out = dense(b, a.slot[0], b->rows, (const int64_t[]){H, H}, "attn", layer, "attn.Wo");
    return tri__forward_dropout(f, out, b->rows, H, e->attention_probs_dropout_prob, b->key, "attn.dropout");
}

static int feed_forward(tri_branch *b, int x, const char *layer) {
    tri_forward *f = b->f;
    const tri_encoder *e = b->e;
    int64_t H = e->hidden_size, I = e->intermediate_size;
    int h = dense(b, x, b->rows, (const int64_t[]){2 * I, H}, "ff1", layer, "mlp.Wi.input");
    int act = tri__forward_slot(f, b->rows, I, "gated");
    TRI_BUILD(&f->build, gated, ((tri_attr){.act = (int32_t)e->act}), act, h);
    act = tri__forward_dropout(f, act, b->rows, I, e->mlp_dropout, b->key, "gated.dropout");
    return dense(b, act, b->rows, (const int64_t[]){H, I}, "ff2", layer, "mlp.Wo");
}

/* x + res, x times the factor of a layer that steps leave out. */
static int residual(tri_branch *b, int x, int res, const char *label) {
    tri_forward *f = b->f;
    if (f->build.layer) x = tri__branch_scaled(b, x, label);
    int sum = tri__forward_slot(f, b->rows, b->e->hidden_size, tri__arena_print(f->build.arena, "%s.sum", label));
    TRI_BUILD(&f->build, add, (tri_attr){0}, sum, x, res);
    return sum;
}

static int layer(tri_branch *b, int x, int64_t index) {
    const char *prefix = tri__arena_print(b->f->build.arena, "%s.layers.%lld", b->prefix, (long long)index);
    int res = tri__branch_layer_begin(b, x, index);
    int from = index ? norm(b, x, "norm1", tri__branch_join(b, prefix, "attn_norm")) : x;
    int mid = residual(b, attention(b, from, prefix, tri__encoder_is_local(b->e, index)), res, "attn");
    int inner = norm(b, mid, "norm2", tri__branch_join(b, prefix, "mlp_norm"));
    return tri__branch_layer_end(b, residual(b, feed_forward(b, inner, prefix), mid, "ff2"), res);
}

void tri__modernbert_forward(tri_forward *f, int index) {
    tri_branch b = tri__branch_open(f, index);
    int x = embeddings(&b);
    b.seq = tri__forward_input(f, tri__branch_field(&b, TRI_FIELD_seq0));
    for (int64_t i = 0; i < b.e->num_hidden_layers; i++) x = layer(&b, x, i);
    tri__build_unit(&f->build, tri__branch_join(&b, b.prefix, "pooling"));
    x = norm(&b, x, "norm", tri__branch_join(&b, b.prefix, "final_norm"));
    tri__branch_pooling(&b, x);
}
