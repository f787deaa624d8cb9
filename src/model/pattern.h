/* pattern.h - block-sparse attention: which blocks of keys each block of queries attends to. A pattern is a property of
 * an encoder; its blocks follow from it and from the longest sequence. Shorter sequences have the first block rows and
 * columns of the longest one's. The modes fixed, variable, bigbird and bslongformer are DeepSpeed's sparsity
 * configurations, with their keys, defaults and blocks (random ones are drawn by Philox instead). */
#pragma once

#include "base/arena.h"
#include "base/json.h"

typedef enum tri_pattern_mode {
    TRI_PATTERN_DENSE,        /* all keys: not sparse */
    TRI_PATTERN_WINDOW,       /* a window of `window` tokens, half of them on each side */
    TRI_PATTERN_LONGFORMER,   /* the same, and the first `global_tokens`: all attend to them, and they to all */
    TRI_PATTERN_STRIDED,      /* a window, and blocks whose distance is a multiple of `stride` tokens */
    TRI_PATTERN_OFFSETS,      /* blocks at given distances */
    TRI_PATTERN_FIXED, TRI_PATTERN_VARIABLE, TRI_PATTERN_BIGBIRD, TRI_PATTERN_BSLONGFORMER, TRI_PATTERN_MODES
} tri_pattern_mode;

enum { TRI_PATTERN_LIST = 64 };
typedef struct tri_pattern_list {
    int64_t at[TRI_PATTERN_LIST];
    int64_t n;
} tri_pattern_list;

/* Keys that the mode does not have are 0. Zeroed: dense. */
typedef struct tri_pattern {
    int mode;                          /* tri_pattern_mode */
    int64_t block;                     /* tokens: 16, 32 or 64 */
    int different_layout_per_head;
    int64_t window, global_tokens, stride; /* tokens; of the window: on both sides together */
    int64_t num_local_blocks, num_global_blocks, num_different_global_patterns;
    int64_t num_random_blocks, num_sliding_window_blocks;
    int horizontal_global_attention;
    int64_t seed;                      /* of random blocks; -1: the run's */
    tri_pattern_list offsets, local_window_blocks, global_block_indices;
    tri_pattern_list global_block_end_indices; /* n 0: each index is one block */
} tri_pattern;

/* From an object with "mode" and that mode's keys, or from a name of --attention: dense, window, longformer, bigbird,
 * fixed, or another mode's defaults with blocks of 64. TRI_USAGE; unknown keys with the nearest. */
tri_status tri__pattern_parse(const tri_json *json, const char *origin, tri_pattern *pattern);
/* By such a name, or from a file that holds such an object, or a DeepSpeed configuration with one as its
 * "sparse_attention". TRI_NOINPUT where there is neither. */
tri_status tri__pattern_load(const char *name, tri_pattern *pattern);
/* All keys of the mode. */
tri_json *tri__pattern_json(const tri_pattern *pattern);
int tri__pattern_is_random(const tri_pattern *pattern);
const char *tri__pattern_mode_name(int mode);

/* Block rows of sequences of max_len tokens. */
int64_t tri__pattern_rows(const tri_pattern *pattern, int64_t max_len);
/* How many layouts the heads have; head h has number h % layouts. */
int tri__pattern_layouts(const tri_pattern *pattern, int64_t heads);
/* Block row i of n of a layout: present [n] is 1 for blocks that are attended to. */
void tri__pattern_row(const tri_pattern *pattern, int layout, int64_t n, int64_t i, uint8_t *present);
/* That blocks can be drawn and every block row i has a key block j <= i, so that each query of a sequence of any length
 * up to max_len has a key. TRI_USAGE with the numbers; scratch memory: TRI_RESOURCE. */
tri_status tri__pattern_check(const tri_pattern *pattern, const char *origin, int64_t max_len, int64_t heads);

/* The blocks of an encoder as kernels read them (layout/blocks.h), and figures for costs. */
typedef struct tri_blocks {
    int32_t *word;        /* [n] NULL: attention is dense, or all blocks are present, and all keys within the window */
    int64_t n;
    int64_t block, window; /* tokens; window: a query's furthest key, 0: all keys of present blocks */
    double keys;          /* of a query, mean over the queries of a sequence of max_len and over heads */
    double first_keys;    /* of a sequence's first query, mean over heads */
} tri_blocks;

/* The pattern has been checked. window: 0, or of a pattern of mode window, whose blocks cover it. */
tri_blocks tri__pattern_blocks(tri_arena *arena, const tri_pattern *pattern, int64_t max_len, int64_t heads,
                               int64_t window);
