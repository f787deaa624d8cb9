/* relative.c - relative-position attention (numbers/distance.h): MPNet's table of biases, and DeBERTa's of embeddings,
 * which each layer projects by its own weights. The table is a parameter of the embeddings' unit. All layers read it:
 * as a value that each layer hands on to the next, so that stages exchange it as they do other values, and its gradient
 * is summed from layer to layer. */
#include "model/branch.h"
#include "model/family.h"

#include "numbers/distance.h"

/* transformers' MPNet has these, however many rows its table has. */
enum { MPNET_BUCKETS = 32, MPNET_REACH = 128 };

tri_status tri__relative_check(const tri_encoder *e) {
    const char *type = tri__family(e)->type;
    if (e->pattern.mode != TRI_PATTERN_DENSE)
        return tri__fail(TRI_USAGE, "attention_pattern (or --attention) leaves keys out, which the relative-position "
                         "attention of %s cannot; only dense is supported", type);
    return TRI_OK;
}

int64_t tri__encoder_span(const tri_encoder *e) {
    if (tri__family(e)->relative != TRI_RELATIVE_VECTORS) return 0;
    if (e->position_buckets > 0) return e->position_buckets;
    return e->max_relative_positions > 0 ? e->max_relative_positions : e->max_position_embeddings;
}

tri_distances tri__distances(tri_arena *arena, const tri_encoder *e, int64_t max_len) {
    if (tri__family(e)->relative == TRI_RELATIVE_BIAS)
        return (tri_distances){.rows = e->relative_attention_num_buckets, .all = e->relative_attention_num_buckets,
                               .buckets = MPNET_BUCKETS, .reach = MPNET_REACH};
    int64_t span = tri__encoder_span(e);
    if (!span) return (tri_distances){0};
    int64_t reach = e->max_relative_positions > 0 ? e->max_relative_positions : e->max_position_embeddings;
    tri_distances d = {.all = 2 * span, .buckets = (int32_t)(2 * span),
                       .reach = e->position_buckets > 0 ? (int32_t)reach : 0};
    int64_t furthest = tri__bucket_log((int32_t)max_len - 1, d.buckets, d.reach) - span;
    d.rows = furthest < span ? 2 * (furthest + 1) : d.all;
    d.key = tri__arena_alloc(arena, (size_t)d.rows * 2 * sizeof *d.key);
    for (int64_t i = 0; i < d.rows; i++) d.key[2 * i] = (int32_t)((d.all - d.rows) / 2 + i);
    return d;
}

static tri_rows rows_of(const tri_branch *b) { return (tri_rows){.add = b->f->model->distances[b->index].rows}; }

int tri__relative_table(tri_branch *b) {
    tri_forward *f = b->f;
    const tri_distances *d = &f->model->distances[b->index];
    int is_biased = tri__family(b->e)->relative == TRI_RELATIVE_BIAS;
    int64_t cols = is_biased ? b->e->num_attention_heads : b->e->hidden_size;
    if (!d->rows) return -1;
    int table = tri__forward_slot(f, rows_of(b), cols, "distances");
    const char *name = tri__branch_join(b, b->prefix, is_biased ? "encoder.relative_attention_bias.weight"
                                                                : "encoder.rel_embeddings.weight");
    TRI_BUILD(&f->build, table, (tri_attr){0}, table, tri__forward_weight(f, "distances", name, d->all, cols));
    if (!b->e->norm_rel_ebd) return table;
    return tri__forward_norm(f, table, rows_of(b), cols, b->e->layer_norm_eps, "distances.norm",
                             tri__branch_join(b, b->prefix, "encoder.LayerNorm"));
}

int tri__relative_next(tri_branch *b) {
    tri_forward *f = b->f;
    int next = tri__forward_slot(f, rows_of(b), f->build.program->slot[b->table].cols, "distances");
    TRI_BUILD(&f->build, skip, (tri_attr){0}, next, b->table);
    return next;
}

void tri__relative_attend(tri_branch *b, tri_attr attr, const int slot[static 4], int w, int bias) {
    tri_forward *f = b->f;
    const tri_distances *d = &f->model->distances[b->index];
    int64_t H = b->e->hidden_size;
    int table = b->table;
    attr.buckets = d->buckets, attr.reach = d->reach, attr.score = TRI_SCORE_BIASED;
    if (tri__family(b->e)->relative != TRI_RELATIVE_BIAS) {
        attr.score = TRI_SCORE_DISENTANGLED, attr.terms = b->e->pos_att_type;
        int x = tri__forward_dropout(f, b->table, rows_of(b), H, b->e->hidden_dropout_prob,
                                     (tri_field)(TRI_FIELD_keyd0 + b->index), "distances.dropout");
        table = tri__forward_slot(f, rows_of(b), 3 * H, "distances.qkv");
        TRI_BUILD_VARIANT(&f->build, linear, (tri_attr){0}, table, x, w, bias);
    }
    TRI_BUILD(&f->build, attention, attr, slot[0], -1, -1, -1, slot[1], -1, slot[2], table, b->seq, -1, slot[3], -1);
}
