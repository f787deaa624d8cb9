/* attention.cuh - shared by the attention kernels: the operands, the position of a tile of queries, and dropout
 * decisions for the accumulators of matrix instructions. Sequence s is rows seq[s] .. seq[s+1]-1; rows from seq[n] on
 * are padding. */
#pragma once

#include "device/cuda/runtime/common.cuh"

extern "C" {
#include "layout/mask_bits.h"
}

/* One head of one sequence. */
typedef struct attention_place {
    int head, begin, end, first_key; /* rows; first_key: of the current tile */
    uint32_t sample, query, feature; /* of random numbers: the sequence, its first query, its first key */
    int sequence;                    /* its index; 32 bytes in all */
} attention_place;
enum { MOST_ORDERED = 1024, PARTS = 8 };

/* The part of Philox's rounds that is the same for all queries, keys and steps (attention_mask.cuh). */
typedef struct mask_keys {
    uint32_t row[4], round[14]; /* xored into a query's first rounds; into the rounds after them */
    uint32_t most, offset;      /* the threshold, and 0x8000 minus it, in both halves */
} mask_keys;

typedef struct attention_args {
    const void *qkv, *dctx;  /* [T,3H] [T,H] */
    void *ctx, *dqkv;        /* [T,H] [T,3H] */
    float *lse;              /* [T,heads]; NULL if absent */
    const int32_t *seq;      /* [n + 1] */
    const int32_t *key;      /* [T,2]; NULL without dropout */
    float *dq;               /* backward's scratch: [T,H] */
    float *
        statistic; /* the same: [2,heads,T] log2 of the softmax's denominator; sum of dctx * ctx over dropout's scale */
    attention_place *order;  /* the same: [n] sequences, the longest first; NULL if there are too many to sort */
    int *taken;              /* the same: heads of sequences that blocks have taken, not counting the first of each */
    float *sums; /* the same: [n,PARTS,3H] sums over rows of each sequence's dqkv, as rounded; NULL: none requested */
    int64_t rows;            /* T */
    int n, heads, head, width; /* sequences; heads on this rank; the first head's number; columns of a head */
    int max_len, add;        /* of random numbers; dqkv is added to */
    uint32_t *bits; /* the decisions (layout/mask_bits.h), which the forward writes; NULL: kernels draw them */
    int tiles;               /* of a granule's head in bits */
    float scale;             /* 1 / sqrt(width) */
    dropper drop;
    mask_keys mask;
    uint8_t *q, *transposed; /* ctx or dqkv in 8 bits, in rows and transposed (fp8.cuh); NULL: not in 8 bits */
    float *most;             /* [1] */
    const float *sq;         /* [1] their scale */
} attention_args;

/* What a call gives to all of its rows' kernels, without results; `cols` of ctx. */
static inline attention_args args_of(const tri_call *call, int seq, int key, int64_t rows, int64_t cols) {
    attention_args a = {};
    a.seq = data<int32_t>(call, seq), a.key = data<int32_t>(call, key), a.n = (int)call->t[seq].rows - 1;
    a.rows = rows, a.heads = call->attr->heads, a.head = call->attr->head0, a.width = (int)(cols / a.heads);
    a.max_len = call->attr->max_len, a.scale = 1.0f / sqrtf((float)a.width), a.drop = dropper_of(call);
    return a;
}
static inline attention_args forward_args(const tri_call *call) {
    OPERANDS(attention);
    attention_args a = args_of(call, ARG(seq), ARG(key), call->t[ARG(qkv)].rows, call->t[ARG(ctx)].cols);
    a.qkv = GIVEN(qkv), a.ctx = GIVEN(ctx), a.lse = GIVEN(lse);
    return a;
}
static inline attention_args din_args(const tri_call *call) {
    OPERANDS(attention_din);
    attention_args a = args_of(call, ARG(seq), ARG(key), call->t[ARG(qkv)].rows, call->t[ARG(dctx)].cols);
    a.qkv = GIVEN(qkv), a.dctx = GIVEN(dctx), a.ctx = GIVEN(ctx), a.lse = GIVEN(lse);
    a.dqkv = GIVEN(dqkv), a.add = adds(call, ARG(dqkv));
    return a;
}

/* Rejects heads wider than the lanes of a warp hold. */
enum { MOST_WIDTH = 256 };
static inline int width_fits(const tri_call *call, const attention_args &a, const char *where) {
    if (a.width > MOST_WIDTH) record(call, cudaErrorNotSupported, where);
    return a.width <= MOST_WIDTH;
}

/* Kernels for Hopper, for 16-bit types and heads of up to 128 columns; 0: they do not support this call or device.
 * With a q: heads of 64 or 128 columns, of the latter in the forward only where there are many tiles, in the gradient
 * only without bits; what `transposed` lacks then is still to be transposed. attention_forward.cu and
 * attention_backward.cu */
int tri__cuda_flash(const tri_call *call, const attention_args *args);
int tri__cuda_flash_din(const tri_call *call, const attention_args *args, int dtype);
/* The same without dropout or with bits, for heads of 65 to 128 columns; 0: there are too few tiles for it.
 * attention_wide.cu */
int tri__cuda_wide(const tri_call *call, const attention_args *args);
int tri__cuda_is_wide(const tri_call *call, const attention_args *args); /* whether it would */
/* Draws all decisions to args->bits, on any GPU. attention_bits.cu */
void tri__cuda_draw_bits(const tri_call *call, const attention_args *args);

/* Whether the tensor core kernels support a call: rows in 16-byte pieces, 32-bit counts, on a GPU with the
 * instructions. */
static inline int flash_fits(const tri_call *call, const attention_args *a, int dtype) {
    return dtype != TRI_F32 && is_hopper(call) && a->width % WIDE == 0 && a->width > 0 && a->width <= 128 &&
           a->rows * a->heads <= INT32_MAX && aligned(a->qkv, a->ctx, a->dctx, a->dqkv);
}

/* Whether the tensor cores' gradient can sum its output over rows: it then writes whole rows of heads. */
static inline int flash_sums(const tri_call *call, const attention_args *a, int dtype) {
    return flash_fits(call, a, dtype) && a->width == 64 && !a->add;
}

/* Tiles of B rows are numbered so that the number alone determines the position: sequence s has the numbers from seq[s]
 * / B + s on, which suffice for it; the last of them may be empty. Tiles of "sequence" n cover the padding rows. */
template <int B> static inline unsigned tiles_for(int64_t rows, int n) { return (unsigned)(rows / B + n + 1); }

/* The last i of 0 .. n for which before(i) holds, as for all below it; searched by all threads of a warp together, 32
 * positions at a time. */
template <class Before> static __device__ __forceinline__ int warp_search(int n, Before before) {
    int low = 0, count = n + 1, lane = threadIdx.x % WARP; /* the answer is in [low, low + count) */
    while (count > 1) {
        int stride = (count + WARP - 1) / WARP, at = low + lane * stride;
        int is_before = lane * stride < count && before(at);
        int last = max(WARP - 1 - __clz((int)__ballot_sync(0xFFFFFFFFu, is_before)), 0);
        low += last * stride;
        count = min(stride, count - last * stride);
    }
    return low;
}
/* The sequence of a tile; seq[0] = 0. */
template <int B> static __device__ __forceinline__ int sequence_of(const int32_t *seq, int n, int tile) {
    return warp_search(n, [&](int s) { return seq[s] / B + s <= tile; });
}

/* The granule of bits that a row of a sequence belongs to, and its first word for the keys from 64 * tile on. */
static __device__ __forceinline__ int granule_of(int sequence, int begin, int row) {
    return begin / TRI_MASK_QUERIES + sequence + (row - begin) / TRI_MASK_QUERIES;
}
static __device__ __forceinline__ uint32_t *bits_at(const attention_args &a, int granule, int head, int tile) {
    return a.bits + (((int64_t)granule * a.heads + head) * a.tiles + tile) * TRI_MASK_WORDS;
}

/* The feature number of a head's first key. */
static __device__ __forceinline__ uint32_t first_feature(const attention_args &a, int head) {
    return (uint32_t)((a.head + head) * a.max_len);
}
