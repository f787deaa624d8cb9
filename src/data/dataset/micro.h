/* micro.h - a packed microbatch: its arrays, and how rows are appended to them. */
#pragma once

#include "data/dataset/windows.h"
#include "numbers/capacity.h"

#include <stddef.h>

/* One microbatch: only real tokens. T = tokens of a text, n = samples, W = windows of a text; a sample has one sequence
 * of each text, or one for each window of it. Unused texts have NULL arrays. Arrays indexed by token are zero-padded up
 * to the granule. Where an encoder reads several texts, after tri__micro_pad all their sequences are in the arrays of
 * the first of them: those of all its samples, then the next text's, and win counts on from one to the next. For a ring
 * of ranks they have the tokens in the order of its runs (layout/runs.h). */
typedef struct tri_micro {
    int64_t n, tokens[TRI_TEXTS_MAX];
    int64_t windows[TRI_TEXTS_MAX]; /* 0 where these are not counted */
    int64_t expert_rows[2];   /* by encoder, of all experts of a layer; 0 without */
    double squares[TRI_TEXTS_MAX]; /* sum over sequences of length squared */
    int32_t *ids[TRI_TEXTS_MAX]; /* [T] */
    int32_t *pos[TRI_TEXTS_MAX]; /* [T] rows of the position table, from position_base on (see there) */
    /* [T, 2] data row, place in the sequence, plus max_len for each window before it, and for each window of a text for
     * each text before it that its encoder reads */
    int32_t *key[TRI_TEXTS_MAX];
    int32_t *seq[TRI_TEXTS_MAX]; /* [n + 1], or [W + 1]: first token of each sequence, and T */
    /* by encoder, as seq: first place of each sequence in an expert's rows, and their number; NULL without experts */
    int32_t *places[2];
    int32_t *win[TRI_TEXTS_MAX]; /* [n + 1] first window of each sample, and their end; NULL: windows are not counted */
    int32_t *keyw[TRI_TEXTS_MAX]; /* [W, 2] the key of each window's first token; NULL likewise */
    float *numbers;           /* [n, n_columns] */
    int32_t *labels;          /* [n, words]; zeros when the data has none */
    float *weights;           /* [n] factors of the rows' losses; NULL: all 1 */
    int32_t *keyn;            /* [n, 2] data row, 0 */
    int32_t *seqf;            /* [n + 1] first token of each row in the fusion's layers; NULL: it has none */
    int32_t *keyf;            /* [n * fused, 2] the keys of these tokens: data row, place */
    int64_t *row;             /* [n] data rows */
    int32_t *spare;           /* [2 * most tokens] scratch of a ring; NULL without */
} tri_micro;

/* What a microbatch has room for, and how its texts are numbered; pairs are by encoder. */
typedef struct tri_micro_spec {
    int n_texts, n_columns, is_weighted;
    int words;                /* of a row's label; 0: 1 */
    int fused;                /* tokens of a row in the fusion's layers; 0: it has none */
    int64_t rows, tokens[2];  /* the most that it holds */
    int64_t sequences[2];     /* likewise, of windows; only where these are counted */
    tri_windows windows;      /* how texts are windowed */
    /* 0 for BERT: counts every token. Pad id + 1 for RoBERTa: pad tokens are not counted and have the position pad
     * id */
    int position_base[2];
    tri_capacity capacity[2]; /* of the encoders' experts */
    int granule;          /* tokens are rounded up to it with zeros that belong to no sequence; 0: 1 */
    int ring;             /* ranks of a ring that share each sequence; 0: none */
} tri_micro_spec;

/* Places of one expert for a text of so many tokens, in all its windows; 0 without experts. */
int64_t tri__micro_places(const tri_micro_spec *spec, int text, int64_t length);

/* Carves `bytes` out of `base` at *at, aligned to 64; with base NULL it only counts. */
void *tri__carve(char *base, size_t *at, size_t bytes);
/* Carves out the arrays; with base NULL it only counts, and leaves `micro` as it is. */
void tri__micro_carve(const tri_micro_spec *spec, char *base, size_t *at, tri_micro *micro);

/* To fill: clear; for each row each text's ids, then the row; pad. */
void tri__micro_clear(const tri_micro_spec *spec, tri_micro *micro);
/* Where the ids of the next row's text go, `length` of them; aborts if there is no room for its windows. */
int32_t *tri__micro_ids(const tri_micro_spec *spec, const tri_micro *micro, int text, int64_t length);
/* Takes those ids: windows, positions, keys, and the sequences' ends. */
void tri__micro_text(const tri_micro_spec *spec, tri_micro *micro, int text, int64_t length, int64_t row);
/* Where the next row's numbers go; NULL without columns. */
float *tri__micro_numbers(const tri_micro_spec *spec, const tri_micro *micro);
/* label [words]; NULL: zeros. */
void tri__micro_row(const tri_micro_spec *spec, tri_micro *micro, int64_t row, const int32_t *label);
void tri__micro_pad(const tri_micro_spec *spec, tri_micro *micro);
