/* branch.h - what the files of encoder families share: a text branch's state, and the parts that all of them have. */
#pragma once

#include "model/model.h"

/* One text branch while its operations are written. */
typedef struct tri_branch {
    tri_forward *f;
    const tri_encoder *e;
    int index;
    tri_rows rows;            /* of computed values: T0 or T1; `sequences` where only first tokens are used */
    tri_rows sequences;       /* N, or W0 or W1 where texts are windowed or share an encoder */
    tri_field key;            /* random-number key of `rows` */
    int seq;                  /* [sequences+1,1] */
    int dense;                /* 1: attention is to all keys, whatever the blocks */
    int table;                /* of distances, as the layer reads it; -1: none. relative.c */
    int scale;                /* [1,1] of a layer that steps leave out; -1: not made yet */
    const char *prefix;       /* of logical names */
} tri_branch;

tri_branch tri__branch_open(tri_forward *f, int index);
/* "PREFIX.NAME", in the arena of the program. */
const char *tri__branch_join(const tri_branch *b, const char *prefix, const char *name);
/* The branch's own field: that of the primary text, or its sibling. */
tri_field tri__branch_field(const tri_branch *b, tri_field primary);
/* What attention of qkv reads and writes: slots ctx and lse of `queries`, the key of its dropout, attributes. */
typedef struct tri_attention {
    int slot[4]; /* ctx, lse, qkv, key (-1: no dropout) */
    tri_attr attr;
} tri_attention;
tri_attention tri__branch_attention(tri_branch *b, tri_rows queries, int qkv);
/* The operation of attention: of all queries or of first ones, over all keys or over present blocks. slot: ctx, lse,
 * qkv, key. */
void tri__branch_attend(tri_branch *b, tri_attr attr, int all, const int slot[static 4]);
/* x, a sub-layer's result, times the factor of a layer that steps leave out. */
int tri__branch_scaled(tri_branch *b, int x, const char *label);
/* Begins the unit of a layer of x, which steps may leave out: the residual, x or, where the layer computes first tokens
 * only, those of x. And ends it: `out`, which is the residual in steps that leave it out. */
int tri__branch_layer_begin(tri_branch *b, int x, int64_t index);
int tri__branch_layer_end(tri_branch *b, int out, int res);
/* The experts of the layer whose logical names begin with `layer`. */
int tri__branch_mixture(tri_branch *b, int x, const char *layer);
/* The table of distances, in the embeddings' unit; -1: the family has none. And what a layer hands on to the next. */
int tri__relative_table(tri_branch *b);
int tri__relative_next(tri_branch *b);
/* Relative-position attention; slot: ctx, lse, qkv, key; w, bias: of the layer's queries, keys and values. */
void tri__relative_attend(tri_branch *b, tri_attr attr, const int slot[static 4], int w, int bias);
void tri__branch_pooling_params(tri_network *model, int branch);
/* The unit of a text whose encoder has read another one before. */
void tri__branch_further_params(tri_network *model, int text);
/* Pooling of the encoder's result x, and the projections of its texts: f->text. */
void tri__branch_pooling(tri_branch *b, int x);
