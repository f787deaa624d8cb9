/* fusion_layers.c - `fusion: columns`: a sample's texts and columns, a token each, attend to each other in pre-norm
 * layers (the FT-Transformer of Gorishniy et al., "Revisiting Deep Learning Models for Tabular Data", 2021, without its
 * token [CLS]). What the head reads is the token of the primary text, which every sample has: of the last layer only
 * these rows are computed. Tokens need no positions: each column has a bias of its own, and each text a projection.
 * Layers are small beside an encoder's, so ranks of tensor parallelism repeat them unless a plan says otherwise. */
#include "model/family.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

enum { INNER = 2 }; /* width of the feed-forward layers, in that of the tokens */
static const double EPS = 1e-5;

const tri_layer_names tri__fusion_names = {.query = "attention.query", .key = "attention.key",
                                           .value = "attention.value", .attention = "attention.output",
                                           .attention_norm = "attention.norm", .inner = "feed_forward.inner",
                                           .outer = "feed_forward.outer", .norm = "feed_forward.norm"};

void tri__fusion_layer_params(tri_network *model) {
    int64_t H = model->common, I = INNER * H;
    float in = 1.0f / sqrtf((float)H), inner = 1.0f / sqrtf((float)I);
    const tri_param_row rows[] = {
        TRI_WEIGHT("attention.query.weight", H, H, in, WHOLE), TRI_WEIGHT("attention.key.weight", H, H, in, WHOLE),
        TRI_WEIGHT("attention.value.weight", H, H, in, WHOLE), TRI_WEIGHT("attention.output.weight", H, H, in, WHOLE),
        TRI_WEIGHT("feed_forward.inner.weight", I, H, in, WHOLE),
        TRI_WEIGHT("feed_forward.outer.weight", H, I, inner, WHOLE), TRI_BIAS("attention.query.bias", H, WHOLE),
        TRI_BIAS("attention.key.bias", H, WHOLE), TRI_BIAS("attention.value.bias", H, WHOLE),
        TRI_BIAS("attention.output.bias", H, WHOLE), TRI_BIAS("feed_forward.inner.bias", I, WHOLE),
        TRI_BIAS("feed_forward.outer.bias", H, WHOLE), TRI_GAIN("attention.norm.weight", H, WHOLE),
        TRI_BIAS("attention.norm.bias", H, WHOLE), TRI_GAIN("feed_forward.norm.weight", H, WHOLE),
        TRI_BIAS("feed_forward.norm.bias", H, WHOLE)};
    for (int64_t k = 0; k < model->fusion_layers; k++) {
        const char *unit = tri__arena_print(model->arena, "fusion.layer.%lld", (long long)k);
        tri__model_unit(model, "%s", unit);
        tri__model_params(model, tri__arena_print(model->arena, "%s.", unit), rows, COUNT(rows));
    }
}

/* One layer while its operations are written. */
typedef struct layer {
    tri_forward *f;
    const char *unit;
    tri_rows rows; /* whose results are needed: all tokens, or in the last layer the first of each sample */
    tri_field key; /* of these */
} layer;

static const char *named(const layer *l, const char *name) {
    return tri__arena_print(l->f->build.arena, "%s.%s", l->unit, name);
}

static int dense(const layer *l, int x, int64_t out, int64_t in, const char *label, const char *name) {
    return tri__forward_linear(l->f, x, l->f->build.program->slot[x].rows, out, in, label, named(l, name));
}

static int norm(const layer *l, int x, const char *label, const char *name) {
    return tri__forward_norm(l->f, x, l->f->build.program->slot[x].rows, l->f->model->common, EPS, label,
                             named(l, name));
}

/* Tokens of x attend to those of their sample. */
static int attention(const layer *l, int x, int seq) {
    tri_forward *f = l->f;
    const tri_network *m = f->model;
    int64_t H = m->common;
    int qkv = dense(l, x, 3 * H, H, "qkv", "attention.query");
    if (m->shows_attention && !f->training && l->key == TRI_FIELD_keyn) {
        int kept = tri__build_slot(&f->build, TRI_MEM_RESULT, TRI_F32, f->build.program->slot[qkv].rows, 3 * H,
                                   TRI_ATTENTION_SLOT);
        TRI_BUILD(&f->build, cast, (tri_attr){0}, kept, qkv);
    }
    float p = f->training ? (float)m->fusion_dropout : 0;
    int key = p > 0 ? tri__forward_input(f, TRI_FIELD_keyf) : -1;
    int ctx = tri__forward_slot(f, l->rows, H, "ctx"), lse = tri__forward_slot(f, l->rows, m->fusion_heads, "lse");
    tri_attr attr = {.heads = (int32_t)m->fusion_heads, .first = l->key == TRI_FIELD_keyn};
    if (p > 0) attr.p = p, attr.max_len = m->tokens, attr.id = tri__random_id(f->build.program->slot[ctx].name);
    TRI_BUILD(&f->build, attention, attr, ctx, -1, -1, -1, lse, -1, qkv, -1, seq, -1, key, -1);
    return dense(l, ctx, H, H, "attn", "attention.output");
}

static int feed_forward(const layer *l, int x) {
    int64_t H = l->f->model->common, I = INNER * H;
    int h = dense(l, x, I, H, "ff1", "feed_forward.inner");
    int act = tri__forward_activation(l->f, h, l->rows, I, TRI_ACTIVATION_GELU);
    return dense(l, act, H, I, "ff2", "feed_forward.outer");
}

/* dropout(x) + res */
static int residual(const layer *l, int x, int res, const char *label) {
    tri_forward *f = l->f;
    tri_arena *arena = f->build.arena;
    x = tri__forward_dropout(f, x, l->rows, f->model->common, f->model->fusion_dropout, l->key,
                             tri__arena_print(arena, "%s.dropout", label));
    int sum = tri__forward_slot(f, l->rows, f->model->common, tri__arena_print(arena, "%s.sum", label));
    TRI_BUILD(&f->build, add, (tri_attr){0}, sum, x, res);
    return sum;
}

int tri__fusion_layers(tri_forward *f, int x) {
    int seq = tri__forward_input(f, TRI_FIELD_seqf);
    for (int64_t k = 0, last = f->model->fusion_layers - 1; k <= last; k++) {
        layer l = {f, tri__arena_print(f->build.arena, "fusion.layer.%lld", (long long)k),
                   f->build.program->slot[x].rows, TRI_FIELD_keyf};
        tri__build_unit(&f->build, l.unit);
        int res = x;
        if (k == last) { /* before all else, so that the gradient of these rows is added to that of all */
            l.rows = (tri_rows){.sym = TRI_SYM_N}, l.key = TRI_FIELD_keyn;
            res = tri__forward_slot(f, l.rows, f->model->common, "first");
            TRI_BUILD(&f->build, pool, (tri_attr){0}, res, x, seq);
        }
        int mid = residual(&l, attention(&l, norm(&l, x, "norm1", "attention.norm"), seq), res, "attn");
        x = residual(&l, feed_forward(&l, norm(&l, mid, "norm2", "feed_forward.norm")), mid, "ff2");
    }
    return x;
}
