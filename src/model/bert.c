/* bert.c - post-norm encoders: BERT, and the families that share its layers under names of their own (family.c). Names
 * and numerics are Hugging Face's. A unit's memory has, in this order, parameters that tensor parallelism splits, those
 * it does not, and norms; query, key and value are adjacent, so that they are one [3H, H] operand. */
#include "model/branch.h"
#include "model/family.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* Rows of a layer, by their names. */
#define WEIGHT(of, rows, cols, share) TRI_WEIGHT(tri__arena_print(arena, "%s.weight", n->of), rows, cols, d, share)
#define BIAS(of, count, share) TRI_BIAS(tri__arena_print(arena, "%s.bias", n->of), count, share)
#define GAIN(of, count, share) TRI_GAIN(tri__arena_print(arena, "%s.weight", n->of), count, share)

static void layer_params(tri_network *model, int branch, int64_t layer) {
    const tri_encoder *e = &model->encoder[branch];
    const tri_layer_names *n = tri__family(e)->names;
    tri_arena *arena = model->arena;
    int mixes = tri__encoder_has_experts(e, layer); /* experts in the place of the feed-forward layers */
    int64_t H = e->hidden_size, I = mixes ? 0 : e->intermediate_size, E = mixes ? e->num_experts : 0;
    float d = (float)e->initializer_range;
    const tri_param_row rows[] = {
        WEIGHT(query, H, H, ROWS), WEIGHT(key, H, H, ROWS), WEIGHT(value, H, H, ROWS), WEIGHT(attention, H, H, COLS),
        WEIGHT(inner, I, H, ROWS), WEIGHT(outer, H, I, COLS), BIAS(query, H, ROWS), BIAS(key, H, ROWS),
        BIAS(value, H, ROWS), BIAS(inner, I, ROWS), BIAS(attention, H, WHOLE), BIAS(outer, mixes ? 0 : H, WHOLE),
        TRI_WEIGHT("router.weight", E, H, d, WHOLE), GAIN(attention_norm, H, TOKENS), BIAS(attention_norm, H, TOKENS),
        GAIN(norm, H, TOKENS), BIAS(norm, H, TOKENS)};
    const char *prefix = tri__arena_print(arena, "%s.%s%lld.", tri__branch_name(branch), n->layer, (long long)layer);
    tri__model_unit(model, "%s.layer.%lld", tri__branch_name(branch), (long long)layer);
    tri__model_params(model, prefix, rows, COUNT(rows));
    if (mixes) tri__experts_params(model, branch, layer);
}

#define POSITIONS "embeddings.position_embeddings.weight"

void tri__bert_params(tri_network *model, int branch) {
    const tri_encoder *e = &model->encoder[branch];
    int64_t H = e->hidden_size, W = tri__encoder_embedding(e), normed = e->norm_rel_ebd ? H : 0;
    int before = W != H && tri__family(e)->names->widens_first, after = W != H && !before;
    float d = (float)e->initializer_range;
    const tri_param_row rows[] = {
        TRI_WEIGHT("embeddings.word_embeddings.weight", e->vocab_size, W, d, ROWS),
        TRI_WEIGHT("encoder.relative_attention_bias.weight", e->relative_attention_num_buckets,
                   e->num_attention_heads, d, COLS),
        TRI_WEIGHT(POSITIONS, tri__encoder_positions(e), W, d, WHOLE),
        TRI_WEIGHT("embeddings.token_type_embeddings.weight", e->type_vocab_size, W, d, WHOLE),
        TRI_WEIGHT("encoder.rel_embeddings.weight", 2 * tri__encoder_span(e), H, d, WHOLE),
        TRI_GAIN("encoder.LayerNorm.weight", normed, WHOLE), TRI_BIAS("encoder.LayerNorm.bias", normed, WHOLE),
        TRI_WEIGHT("embeddings.embed_proj.weight", before ? H : 0, W, d, TOKENS),
        TRI_GAIN("embeddings.LayerNorm.weight", before ? H : W, TOKENS),
        TRI_BIAS("embeddings.LayerNorm.bias", before ? H : W, TOKENS),
        TRI_WEIGHT("embeddings_project.weight", after ? H : 0, W, d, TOKENS),
        TRI_BIAS("embeddings_project.bias", after ? H : 0, TOKENS)};
    int first = model->n_params;
    tri__model_unit(model, "%s.embeddings", tri__branch_name(branch));
    tri__model_params(model, tri__arena_print(model->arena, "%s.", tri__branch_name(branch)), rows, COUNT(rows));
    for (int i = first; i < model->n_params; i++) {
        if (!tri__text_ends(model->param[i].name, POSITIONS)) continue;
        model->param[i].zero_row = tri__encoder_position_base(e);
        model->param[i].repeat = model->extends_positions ? tri__encoder_position_base(e) + 1 : 0;
    }
    model->param[first].zero_row = e->pad_token_id + 1; /* like transformers' padding_idx */
    for (int64_t layer = 0; layer < e->num_hidden_layers; layer++) layer_params(model, branch, layer);
    tri__branch_pooling_params(model, branch);
}

/* A table of embeddings; -1: the encoder has none of its rows. */
static int table(tri_branch *b, const char *label, const char *name, int64_t rows) {
    const char *full = tri__arena_print(b->f->build.arena, "%s.embeddings.%s.weight", b->prefix, name);
    return rows ? tri__forward_weight(b->f, label, full, rows, tri__encoder_embedding(b->e)) : -1;
}

static int embeddings(tri_branch *b) {
    tri_forward *f = b->f;
    int64_t H = b->e->hidden_size, W = tri__encoder_embedding(b->e);
    const char *prefix = tri__branch_join(b, b->prefix, "embeddings");
    tri__build_unit(&f->build, prefix);
    int ids = tri__forward_input(f, tri__branch_field(b, TRI_FIELD_ids0)),
        pos = tri__forward_input(f, tri__branch_field(b, TRI_FIELD_pos0));
    int sum = tri__forward_slot(f, b->rows, W, "sum");
    int word = table(b, "word", "word_embeddings", b->e->vocab_size);
    int position = table(b, "position", "position_embeddings", tri__encoder_positions(b->e));
    int type = table(b, "type", "token_type_embeddings", b->e->type_vocab_size);
    tri_attr attr = {.pad = (int32_t)b->e->pad_token_id + 1, .pad_position = tri__encoder_position_base(b->e)};
    TRI_BUILD(&f->build, embed, attr, sum, ids, pos, word, position, type);
    b->table = tri__relative_table(b);
    if (W != H && tri__family(b->e)->names->widens_first) {
        sum = tri__forward_linear(f, sum, b->rows, H, W, "project", tri__branch_join(b, prefix, "embed_proj"));
        W = H;
    }
    int x = tri__forward_norm(f, sum, b->rows, W, b->e->layer_norm_eps, "norm",
                              tri__branch_join(b, prefix, "LayerNorm"));
    x = tri__forward_dropout(f, x, b->rows, W, b->e->hidden_dropout_prob, b->key, "dropout");
    const char *project = tri__branch_join(b, b->prefix, "embeddings_project");
    return W == H ? x : tri__forward_linear(f, x, b->rows, H, W, "project", project);
}

/* Tokens of x become queries, keys and values; the result has b->rows. */
static int attention(tri_branch *b, int x, const char *layer) {
    tri_forward *f = b->f;
    const tri_encoder *e = b->e;
    const tri_layer_names *n = tri__family(e)->names;
    const tri_rows tokens = f->build.program->slot[x].rows;
    int64_t H = e->hidden_size;
    const char *query = tri__branch_join(b, layer, n->query);
    int qkv = tri__forward_slot(f, tokens, 3 * H, "qkv");
    int w = tri__forward_weight(f, "qkv.w", tri__branch_join(b, query, "weight"), 3 * H, H);
    int bias = tri__forward_weight(f, "qkv.b", tri__branch_join(b, query, "bias"), 1, 3 * H);
    TRI_BUILD_VARIANT(&f->build, linear, (tri_attr){0}, qkv, x, w, bias);

    const tri_rows queries = b->table < 0 ? b->rows : tokens; /* relative positions need all queries */
    tri_attention a = tri__branch_attention(b, queries, qkv);
    int ctx = a.slot[0];
    if (b->table < 0) tri__branch_attend(b, a.attr, b->rows.sym == tokens.sym, a.slot);
    else tri__relative_attend(b, a.attr, a.slot, w, bias);
    if (queries.sym != b->rows.sym) {
        int first = tri__forward_slot(f, b->rows, H, "ctx.first");
        TRI_BUILD(&f->build, pool, (tri_attr){0}, first, ctx, b->seq);
        ctx = first;
    }
    return tri__forward_linear(f, ctx, b->rows, H, H, "attn", tri__branch_join(b, layer, n->attention));
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
    int h = tri__forward_linear(f, x, b->rows, I, H, "ff1", tri__branch_join(b, layer, n->inner));
    int act = tri__forward_activation(f, h, b->rows, I, b->e->act);
    return tri__forward_linear(f, act, b->rows, H, I, "ff2", tri__branch_join(b, layer, n->outer));
}

static int layer(tri_branch *b, int x, int64_t index) {
    const tri_layer_names *n = tri__family(b->e)->names;
    double p = b->e->hidden_dropout_prob;
    const char *prefix = tri__arena_print(b->f->build.arena, "%s.%s%lld", b->prefix, n->layer, (long long)index);
    int res = tri__branch_layer_begin(b, x, index);
    int attn = attention(b, x, prefix);
    int mid = residual(b, attn, res, n->attention_dropout ? p : 0, "norm1",
                       tri__branch_join(b, prefix, n->attention_norm));
    int ff = tri__encoder_has_experts(b->e, index) ? tri__branch_mixture(b, mid, prefix) : feed_forward(b, mid, prefix);
    int out = tri__branch_layer_end(b, residual(b, ff, mid, p, "norm2", tri__branch_join(b, prefix, n->norm)), res);
    if (b->table >= 0 && index + 1 < b->e->num_hidden_layers) b->table = tri__relative_next(b);
    return out;
}

void tri__bert_forward(tri_forward *f, int index) {
    tri_branch b = tri__branch_open(f, index);
    int x = embeddings(&b);
    b.seq = tri__forward_input(f, tri__branch_field(&b, TRI_FIELD_seq0));
    for (int64_t i = 0; i < b.e->num_hidden_layers; i++) x = layer(&b, x, i);
    tri__branch_pooling(&b, x);
}
