/* model.h - a model as tables: units, parameters, and the single-device list of operations. No rank appears here. */
#pragma once

#include "layout/columns.h"
#include "layout/slice.h"
#include "layout/texts.h"
#include "model/config.h"
#include "numbers/number_loss.h"
#include "program/builder.h"

typedef enum tri_init { TRI_INIT_NORMAL, TRI_INIT_ZERO, TRI_INIT_ONE } tri_init;

/* How tensor-parallel ranks hold a parameter. */
typedef enum tri_share {
    TRI_SHARE_WHOLE,   /* replicated, and all ranks compute the same gradient */
    TRI_SHARE_ROWS,    /* each has some of its rows: outputs of a dense layer, words of a vocabulary */
    TRI_SHARE_COLS,    /* each has some of its columns: inputs of a dense layer */
    /* Replicated, but with sequence parallelism each rank's gradient is from its own tokens only: norms, and a dense
     * layer between values that are not shared out. */
    TRI_SHARE_TOKENS
} tri_share;

typedef struct tri_param {
    const char *name;   /* logical: primary.encoder.layer.0.output.dense.weight */
    tri_shape shape;    /* of the whole */
    tri_slice part;     /* the box that this rank holds */
    tri_share share;
    int unit;           /* index of tri_network.unit */
    int64_t at, count;  /* elements [at, at + count) of the unit's flat memory: those of `part` */
    tri_init init;
    float deviation;    /* of TRI_INIT_NORMAL */
    /* 1 + the first row of those that are repeated where weights with fewer rows are read; 0: weights must have the
     * same shape. */
    int64_t repeat;
    int64_t zero_row;   /* 1 + the row of the whole that is initially zero; 0: none */
    int decays;
    double rate;        /* factor of the learning rate */
    int64_t experts;    /* dim 0: a matrix or a vector of each expert, which ranks may share; 0: it has none */
} tri_param;

/* Whether ranks have a part of it each. */
static inline int tri__is_cut(const tri_param *p) { return p->share == TRI_SHARE_ROWS || p->share == TRI_SHARE_COLS; }

typedef struct tri_unit {
    const char *name;   /* primary.layer.3 */
    int64_t count;      /* elements, including padding that makes all ranks' layouts equal */
    int first, n;       /* parameters, in memory order: split, whole, summed over tokens */
    int64_t split;      /* elements [0, split) differ between tensor-parallel ranks, the rest are replicated */
    int64_t tokens;     /* elements [tokens, count) are of TRI_SHARE_TOKENS */
    /* Its parameters are those of so many experts, of the layer that is the unit before it; 0: it has none. */
    int64_t experts;
    int frozen;         /* 1: not trained: it has no gradients, and nothing is kept for its update */
} tri_unit;

/* The table of distances that layers of some families read (numbers/distance.h). */
typedef struct tri_distances {
    int64_t rows, all;         /* that max_len reaches, the middle ones of all; 0: there is no table */
    int32_t buckets, reach;    /* of attention's attributes */
    int32_t *key;              /* [rows,2] random-number key: the row of all, 0; NULL where nothing is dropped */
} tri_distances;

/* Columns of the table that become vectors, and the tables of parameters that they read (layout/columns.h). */
typedef struct tri_column_tables {
    int32_t *word;             /* [n_columns, TRI_COLUMN_WORDS]; NULL: columns are used as they are */
    int64_t dim;               /* elements of a vector */
    int64_t numbers, categories; /* rows of the tables */
    int64_t periodic, frequencies; /* columns with frequencies, and how many each has */
    int64_t widest;            /* rows of the number with the most */
    double scale;              /* deviation of initial frequencies */
} tri_column_tables;

typedef struct tri_network {
    tri_arena *arena;
    int n_texts;
    int n_encoders;            /* at most 2; of one that reads several texts the tokens are those of all its texts */
    tri_readers readers;
    tri_encoder encoder[2];
    tri_blocks blocks[2];      /* of the encoders' attention */
    tri_distances distances[2]; /* likewise */
    int n_numbers;             /* of a row of the table; 0: no tabular branch */
    int n_columns;             /* those that become vectors; else as n_numbers */
    tri_column_tables columns; /* of columns that become vectors */
    int is_gated;              /* branches are scaled by gates */
    /* Of a sample, its texts and then its columns, which the fusion's layers attend to; 0: it has no layers. */
    int tokens;
    int64_t fusion_layers, fusion_heads; /* likewise */
    int shows_attention;       /* 1: a prediction's program keeps TRI_ATTENTION_SLOT */
    int is_number;             /* outputs are numbers, not classes */
    int n_targets;             /* of a row: 1, or one for each output */
    int is_weighted;           /* rows have weights in the loss that training minimises */
    int64_t n_classes, common, fusion; /* widths; n_classes: outputs */
    int64_t max_len;
    int64_t windows;           /* of a text at most; 1: texts are not windowed */
    int extends_positions;     /* 1: tables of fewer positions are repeated when they are read */
    double fusion_dropout;
    int pooling;               /* tri_pooling */
    tri_texts no_decay;        /* borrowed while the model is built */
    const char *by_tokens;     /* a layer that the user wants computed by tokens (split.c); NULL: none */
    tri_unit *unit;
    tri_param *param;
    int n_units, n_params, cap_units, cap_params;
    int64_t n_elements;        /* of all parameters */
} tri_network;

/* Builds the tables of a Trimodal BERT: encoders as given, columns.n numbers a row. Where these are not described
 * although the configuration has them embedded (there is no data to fit), each counts as a number with all bins. */
void tri__model_make(tri_arena *arena, const tri_model_config *config, const tri_encoder encoder[2],
                     tri_columns columns, tri_texts no_decay, tri_network *model);
/* What of a model is trained, and how fast. Zeroed: everything, at one rate. */
typedef struct tri_recipe {
    int freezes_embeddings;
    int64_t frozen_layers;     /* the first so many of each encoder; TRI_ALL_LAYERS */
    double layer_decay;        /* factor of the rate from a layer to the one below; 0: 1 */
    double head;               /* of the rate of parameters that pretrained weights lack; 0: 1 */
} tri_recipe;
#define TRI_ALL_LAYERS INT64_MAX
/* Sets which units are frozen, and each parameter's rate (rates.c); TRI_USAGE where there are fewer layers. */
tri_status tri__model_tune(tri_network *model, const tri_recipe *recipe);
/* How tensor-parallel ranks hold parameters, as the user wants it (split.c): entries "layers=how", later ones win.
 * TRI_USAGE for what no layer of that kind can be, and for names that nothing has, with the nearest. */
tri_status tri__model_split(tri_network *model, const tri_texts *plan);
/* Which part of an encoder's layer a parameter is of: attention.qkv, .output, .norm, feed_forward.inner, .outer, .norm;
 * NULL: none. */
const char *tri__param_part(const tri_network *model, const tri_param *param);
const char *tri__share_word(tri_share share, const tri_param *param); /* colwise, rowwise, replicate, sequence */
int64_t tri__model_trained(const tri_network *model); /* elements of parameters that are trained */
int64_t tri__model_layers(const tri_network *model); /* of all encoders */
int64_t tri__model_expert_layers(const tri_network *model); /* those with experts */
/* Elements of parameters, without experts that a token does not choose. */
int64_t tri__model_active(const tri_network *model);
const tri_param *tri__model_find(const tri_network *model, const char *name); /* NULL */
int tri__model_find_unit(const tri_network *model, const char *name); /* its index; -1 */
/* A rank among those that share a model's parameters. */
typedef struct tri_holder {
    int tp, tp_place; /* of the ranks that split parameters */
    int ep, ep_place; /* of those that share experts; ep divides their number */
} tri_holder;
/* One rank's share of a whole model: the units with has[unit] != 0 (NULL: all), and of these its share. Where tp does
 * not divide the rows, the last share is padded, so that layouts are equal. Widths and encoders are the whole model's.
 * Names are shared, not copied. */
tri_network *tri__model_part(tri_arena *arena, const tri_network *model, const uint8_t *has, tri_holder holder);

/* What training minimises beside plain cross-entropy: attributes of cross_entropy; zeroed: nothing. */
typedef struct tri_loss_form {
    double smoothing; /* of labels */
    double gamma;     /* focal loss */
    int kind;         /* of numbers: a tri_number_loss */
    double delta;     /* Huber's */
} tri_loss_form;

/* Input and results of writing the operation list. */
typedef struct tri_forward {
    tri_builder build;
    const tri_network *model;
    /* 0: no dropout. Layers that have a gate in build.program->layer are left out where it is closed. */
    int training;
    tri_loss_form loss_form;      /* of training */
    int first_rows; /* 1: an encoder's last layer computes only the pooled rows, the first of each sequence */
    int *unit_slot;               /* [n_units] flat parameters of each unit */
    int input[TRI_FIELD_COUNT];   /* slots of the fields in use; -1 */
    int text[TRI_TEXTS_MAX];      /* slots of the texts [N, common] */
    int loss, probs;              /* slots */
    /* Slot of a pair of numbers for each layer with experts, in training: its balancing loss, and tokens without a
     * place; -1: none. */
    int experts;
    int n_balanced;               /* such layers so far */
    int found;                    /* the parameter that was asked for last */
} tri_forward;

/* Writes the operations of one microbatch into forward->build.program. */
void tri__model_forward(tri_forward *forward);

/* For the files of this folder. */

enum { TRI_VECTOR = -1 };
typedef struct tri_param_row {
    const char *name;             /* after the unit's prefix */
    int64_t rows, cols;           /* rows TRI_VECTOR: a vector of cols; without elements there is no parameter */
    tri_init init;
    float deviation;
    tri_share share;
} tri_param_row;
/* Rows of weights, of biases, and of the factors of a norm. */
#define TRI_WEIGHT(name, rows, cols, deviation, share) \
    {name, rows, cols, TRI_INIT_NORMAL, deviation, TRI_SHARE_##share}
#define TRI_BIAS(name, count, share) {name, TRI_VECTOR, count, TRI_INIT_ZERO, 0, TRI_SHARE_##share}
#define TRI_GAIN(name, count, share) {name, TRI_VECTOR, count, TRI_INIT_ONE, 0, TRI_SHARE_##share}

/* Starts a unit, then adds parameters to it; their logical name is prefix + row name. Where unit.experts was set in
 * between, a row stands for that many matrices or vectors, one parameter [experts, rows, cols]. */
void tri__model_unit(tri_network *model, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tri__model_params(tri_network *model, const char *prefix, const tri_param_row *rows, int n);
/* Puts the parameters of each unit in the order of its memory, after their shares have changed. */
void tri__model_arrange(tri_network *model);

/* A view of parameters: [rows, cols] elements from the parameter `name` on, which may span its successors. */
int tri__forward_weight(tri_forward *f, const char *label, const char *name, int64_t rows, int64_t cols);
/* Whether the sequences of a text are not the samples: where texts are windowed, or both are in one encoder. */
int tri__counts_windows(const tri_network *model);
/* Counts the sequences of a text: its samples, or their windows. */
tri_sym tri__sequences(const tri_network *model, int branch);
/* The extents and the name of a field of one microbatch. */
void tri__field_shape(const tri_network *model, tri_field field, tri_dtype *dtype, tri_rows *rows, int64_t *cols);
const char *tri__field_name(tri_field field);
/* The slot of an input field; its first use adds the instruction that fills it. */
int tri__forward_input(tri_forward *f, tri_field field);
/* A slot of the current unit: activations named unit.label. */
int tri__forward_slot(tri_forward *f, tri_rows rows, int64_t cols, const char *label);
/* y = x w^T + b. `name` is the logical name without .weight / .bias; b is left out where the model has none. */
int tri__forward_linear(tri_forward *f, int x, tri_rows rows, int64_t out, int64_t in, const char *label,
                        const char *name);
/* y = f(x), named for its operation. */
int tri__forward_activation(tri_forward *f, int x, tri_rows rows, int64_t cols, tri_activation act);
/* y = norm(x); likewise. */
int tri__forward_norm(tri_forward *f, int x, tri_rows rows, int64_t cols, double eps, const char *label,
                      const char *name);
/* y = dropout(x); x itself when not training or p is 0. */
int tri__forward_dropout(tri_forward *f, int x, tri_rows rows, int64_t cols, double p, tri_field key,
                         const char *label);

/* A mixture of experts in the place of a feed-forward layer. */
typedef struct tri_mixture {
    int branch;
    tri_rows rows, places;        /* of tokens, and of the experts' rows */
    int seq;                      /* [sequences+1,1] */
} tri_mixture;
void tri__experts_params(tri_network *model, int branch, int64_t layer);
/* x [rows,H] through the experts of the layer whose logical names begin with `prefix`: [rows,H]. */
int tri__experts_forward(tri_forward *f, const tri_mixture *m, int x, const char *prefix);

tri_distances tri__distances(tri_arena *arena, const tri_encoder *encoder, int64_t max_len);
/* Columns as vectors: their words and the sizes of their tables, before parameters (column [n_columns], NULL: not
 * known); their parameters, which returns the width of a row's vectors; these side by side, a slot [N, width]. */
void tri__columns_make(tri_network *model, const tri_model_config *config, const tri_column *column);
int64_t tri__columns_params(tri_network *model);
int tri__columns_forward(tri_forward *f, int x);
void tri__tabular_params(tri_network *model);
int tri__tabular_forward(tri_forward *f);               /* a slot [N, common], or of as many for each column */
void tri__fusion_params(tri_network *model);
/* The fusion's layers of attention: their parameters; and of tokens x, rows of each sample, that of its first one, the
 * primary text: a slot [N, common]. */
#define TRI_ATTENTION_SLOT "attention.qkv" /* queries, keys and values of the last layer: [tokens, 3 common], f32 */
void tri__fusion_layer_params(tri_network *model);
int tri__fusion_layers(tri_forward *f, int x);
void tri__fusion_forward(tri_forward *f, const int *branch, int n); /* of slots; sets f->loss and f->probs */
/* The branch that a logical name begins with, and *rest, the name from the dot behind it on; -1: none. */
int tri__branch_of(const char *name, const char **rest);

/* 1 for weights that quantised models have in 8 bits: of the encoders' dense layers, and their tables. */
int tri__weight_quantizes(const char *name, const tri_shape *shape);
