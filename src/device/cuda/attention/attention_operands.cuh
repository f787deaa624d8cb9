/* attention_operands.cuh - shared by the rows of attention: what kernels are given beside a call's operands. */
#pragma once

#include "device/cuda/attention/attention_plain.cuh"
#include "device/cuda/elementwise/columns.cuh"

/* The decisions as bits, if there are any and they fit; the gradient reads them in 16-byte pieces. */
static void set_bits(const tri_call *call, int bits, int for_din, attention_args *a) {
    const tri_tensor *t = &call->t[bits];
    if (!t->data || !a->drop.threshold || !tri__mask_fits(t->rows, t->cols, a->n, a->heads, a->max_len)) return;
    if (for_din && !aligned(t->data)) return;
    a->bits = static_cast<uint32_t *>(t->data), a->tiles = (int)tri__mask_tiles(a->max_len);
}

/* Scratch of the tensor cores' gradient: the order of the sequences, a counter (32 bytes), and per element of dqkv 2
 * bytes: dq in fp32, and two floats for each row and head of at least 8 columns. Partial sums over rows come first, if
 * they fit in the scratch that sums over columns would need otherwise, plus the unused part of those 2 bytes. */
#define DIN_WORK {(MOST_ORDERED + 1) * sizeof(attention_place), 0, 0, 2, 0}
#define DIN_DB_WORK {(MOST_ORDERED + 1) * sizeof(attention_place), 0, 4 * COLUMN_SMS * COLUMN_EACH, 2, 0}
static void share_scratch(void *scratch, attention_args *a, int sums) {
    int64_t H = (int64_t)a->heads * a->width, needed = a->n * PARTS * 3 * H * 4,
            room = (int64_t)4 * COLUMN_SMS * COLUMN_EACH * 3 * H;
    char *work = static_cast<char *>(scratch);
    room += a->rows * (2 * 3 * H - 4 * H - 8 * a->heads);
    if (sums && needed <= room) a->sums = (float *)work, work += needed;
    a->order = (attention_place *)work;
    a->taken = (int *)(a->order + MOST_ORDERED);
    a->dq = (float *)(a->order + MOST_ORDERED + 1);
    a->statistic = a->dq + a->rows * H;
}
