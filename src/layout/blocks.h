/* blocks.h - which blocks of keys a block of queries attends to, as words that kernels read: the operand `blocks` of
 * block-sparse attention. A block is `attr.block` tokens, counted from its sequence's first token; a sequence of L
 * tokens has the first ceil(L / block) block rows and block columns, the last of them perhaps shorter.
 *
 *   word 0        n: block rows, and block columns, of the longest sequence
 *   word 1        m: layouts; head h (of the whole model, not of a rank) has layout h % m
 *   word 2 + k    where layout k begins, in words from word 0:
 *     [n + 1]       where the list of each block row begins among
 *     [present]     the key blocks of each block row, ascending
 *     [n + 1]       the transpose: where the list of each block column begins among
 *     [present]     the query blocks of each block column, ascending
 *
 * Every block row i has a key block j <= i, so that every query of a sequence of any length has a key. */
#pragma once

#include "base/kernel_function.h"

#include <stdint.h>

/* Lists of blocks: list i is of[at[i]] up to of[at[i + 1]]. */
typedef struct tri_block_lists {
    const int32_t *at; /* [n + 1] */
    const int32_t *of; /* [at[n]] ascending in each list */
} tri_block_lists;

/* The lists of a head: the key blocks of each block of queries, or the query blocks of each block of keys. */
TRI_KERNEL_FUNCTION tri_block_lists tri__blocks_of_queries(const int32_t *words, int64_t head) {
    const int32_t *at = words + words[2 + head % words[1]];
    tri_block_lists lists = {at, at + words[0] + 1};
    return lists;
}

TRI_KERNEL_FUNCTION tri_block_lists tri__blocks_of_keys(const int32_t *words, int64_t head) {
    tri_block_lists rows = tri__blocks_of_queries(words, head);
    const int32_t *at = rows.of + rows.at[words[0]];
    tri_block_lists lists = {at, at + words[0] + 1};
    return lists;
}

/* The end of list i of a sequence of `n` blocks: it has only those below n. */
TRI_KERNEL_FUNCTION int32_t tri__blocks_end(tri_block_lists lists, int64_t i, int64_t n) {
    int32_t end = lists.at[i + 1];
    while (end > lists.at[i] && lists.of[end - 1] >= n) end--;
    return end;
}
