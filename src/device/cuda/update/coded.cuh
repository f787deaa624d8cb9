/* coded.cuh - blocks of 256 numbers in the codes of numbers/coded.h. A warp has a block: lane l holds elements 4 l .. 4
 * l
 * + 3 in places 0 .. 3, and those 128 further in places 4 .. 7. */
#pragma once

#include "device/cuda/product/quantize.cuh"

extern "C" {
#include "numbers/coded.h"
}

enum { HELD = TRI_CODE_BLOCK / WARP, FOUR = 4, HALF_BLOCK = TRI_CODE_BLOCK / 2, CODED_WARPS = 8 };
static const float TINY = 0x1p-100f;

/* Rows of codes, and the parts of a vector that they stand for. */
typedef struct coded_rows {
    uint8_t *q;              /* [rows, bytes] */
    int64_t rows, bytes;
    int64_t blocks, scales;  /* that a row has room for; where its scales begin, in bytes */
    int64_t count, part;     /* elements of the vector; of each part but the last */
    int wide;                /* 1: all operands allow wide accesses */
} coded_rows;

/* Operand q stands for the operand `of`: each row for a part of it, or for all of it. */
static inline coded_rows coded_rows_of(const tri_call *call, int q, int of, int has_parts) {
    const tri_tensor *t = &call->t[q];
    tri_code code = (tri_code)call->attr->code;
    coded_rows r = {};
    r.q = data<uint8_t>(call, q), r.rows = t->rows, r.bytes = t->cols;
    r.scales = tri__coded_scales(code, r.bytes), r.blocks = r.scales / tri__code_payload(code);
    r.count = elements(call, of);
    r.part = has_parts && r.rows ? tri__range_count(tri__shard(r.count, (int)r.rows, 0)) : r.count;
    r.wide = aligned(r.q) && aligned(call->t[of].data);
    return r;
}

/* A warp's block: its row, number, and elements. */
typedef struct coded_block {
    uint8_t *payload, *scale;
    int64_t at;              /* its first element */
    int count, lane;         /* its elements, at most 256; 0: none */
    int wide;                /* 1: it is whole, and wide accesses are allowed */
} coded_block;
static __device__ __forceinline__ int64_t block_number() {
    return (int64_t)blockIdx.x * CODED_WARPS + threadIdx.x / WARP;
}
static __device__ __forceinline__ coded_block block_of(const coded_rows &r, int64_t row, int64_t part, int64_t number,
                                                       int payload) {
    coded_block b;
    b.payload = r.q + row * r.bytes + number * payload;
    b.scale = r.q + row * r.bytes + r.scales + number * (int64_t)sizeof(float);
    b.at = part * r.part + number * TRI_CODE_BLOCK;
    int64_t end = min((part + 1) * r.part, r.count), left = end - b.at;
    b.count = left < 0 ? 0 : left < TRI_CODE_BLOCK ? (int)left : (int)TRI_CODE_BLOCK;
    b.lane = threadIdx.x % WARP, b.wide = r.wide && b.count == TRI_CODE_BLOCK;
    return b;
}
/* Which element of the block a lane holds in place k. */
static __device__ __forceinline__ int element_of(const coded_block &b, int k) {
    return FOUR * b.lane + k % FOUR + k / FOUR * HALF_BLOCK;
}

/* The block's elements of x [count]; 0 beyond its end. */
template <typename T>
static __device__ __forceinline__ void get_block(const coded_block &b, const T *x, float (&t)[HELD]) {
    if (b.wide) {
        float half[FOUR];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            load<FOUR>(x + b.at + FOUR * b.lane + h * HALF_BLOCK, half);
#pragma unroll
            for (int k = 0; k < FOUR; k++) t[h * FOUR + k] = half[k];
        }
    } else
#pragma unroll
        for (int k = 0; k < HELD; k++) t[k] = element_of(b, k) < b.count ? wide(x[b.at + element_of(b, k)]) : 0.0f;
}
template <typename T>
static __device__ __forceinline__ void put_block(const coded_block &b, T *y, const float (&t)[HELD]) {
    if (b.wide) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float half[FOUR] = {t[h * FOUR], t[h * FOUR + 1], t[h * FOUR + 2], t[h * FOUR + 3]};
            store<FOUR>(y + b.at + FOUR * b.lane + h * HALF_BLOCK, half);
        }
    } else
#pragma unroll
        for (int k = 0; k < HELD; k++)
            if (element_of(b, k) < b.count) y[b.at + element_of(b, k)] = narrow<T>(t[k]);
}

/* Words in rows that may begin at any byte. */
static __device__ __forceinline__ uint32_t get_word(const uint8_t *from, int is_wide) {
    if (is_wide) return *reinterpret_cast<const uint32_t *>(from);
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}
static __device__ __forceinline__ void put_word(uint8_t *to, uint32_t word, int is_wide) {
    if (is_wide) *reinterpret_cast<uint32_t *>(to) = word;
    else
#pragma unroll
        for (int i = 0; i < 4; i++) to[i] = (uint8_t)(word >> 8 * i);
}

/* By code: what a lane has of a block's payload, as words, and what these stand for. `is_wide`: rows are aligned. */
template <int CODE> struct coded;

template <> struct coded<TRI_CODE_BF16> {
    enum { PAYLOAD = 512, SCALED = 0, WORDS = 4 };
    static __device__ __forceinline__ uint32_t get(const uint8_t *payload, int lane, int w, int is_wide) {
        return get_word(payload + w / 2 * 256 + 8 * lane + w % 2 * 4, is_wide);
    }
    static __device__ __forceinline__ void put(uint8_t *payload, int lane, int w, uint32_t word, int is_wide) {
        put_word(payload + w / 2 * 256 + 8 * lane + w % 2 * 4, word, is_wide);
    }
    static __device__ __forceinline__ float at(const uint32_t (&word)[WORDS], int k, float) {
        return wide_half(bf16(), word[k / 2], k % 2);
    }
    static __device__ __forceinline__ void code(const float (&t)[HELD], float, uint32_t (&word)[WORDS]) {
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
            word[w] = pair_of(bf16(), t[2 * w], t[2 * w + 1]);
            if (t[2 * w] != t[2 * w]) word[w] = (word[w] & 0xFFFF0000u) | 0x7FC0u; /* the NaN of numbers/float16.h */
            if (t[2 * w + 1] != t[2 * w + 1]) word[w] = (word[w] & 0xFFFFu) | 0x7FC00000u;
        }
    }
};

/* A word for each half of the block. */
struct coded_bytes {
    enum { PAYLOAD = 256, SCALED = 1, WORDS = 2 };
    static __device__ __forceinline__ uint32_t get(const uint8_t *payload, int lane, int w, int is_wide) {
        return get_word(payload + w * HALF_BLOCK + FOUR * lane, is_wide);
    }
    static __device__ __forceinline__ void put(uint8_t *payload, int lane, int w, uint32_t word, int is_wide) {
        put_word(payload + w * HALF_BLOCK + FOUR * lane, word, is_wide);
    }
};
template <typename Q> struct coded_quantized : coded_bytes {
    static constexpr float most = quantized<Q>::most;
    static __device__ __forceinline__ void code(const float (&t)[HELD], float inverse, uint32_t (&word)[WORDS]) {
#pragma unroll
        for (int w = 0; w < WORDS; w++)
            word[w] = quantized<Q>::four(t[4 * w], t[4 * w + 1], t[4 * w + 2], t[4 * w + 3], inverse);
    }
};
template <> struct coded<TRI_CODE_INT8> : coded_quantized<int8_t> {
    static __device__ __forceinline__ float at(const uint32_t (&word)[WORDS], int k, float scale) {
        return __fmul_rn((float)(int8_t)(word[k / FOUR] >> 8 * (k % FOUR)), scale);
    }
};
template <> struct coded<TRI_CODE_FP8> : coded_quantized<e4m3> {
    static __device__ __forceinline__ float at(const uint32_t (&word)[WORDS], int k, float scale) {
        __half_raw half = __nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)(word[k / FOUR] >> 8 * (k % FOUR)), __NV_E4M3);
        return __fmul_rn(__half2float(__half(half)), scale);
    }
};

template <> struct coded<TRI_CODE_INT4> {
    enum { PAYLOAD = 128, SCALED = 1, WORDS = 1 };
    static constexpr float most = 7;
    static constexpr float TO_INTEGER = 0x1.8p23f; /* added to a small number: an integer in the low bits */
    static __device__ __forceinline__ uint32_t get(const uint8_t *payload, int lane, int, int is_wide) {
        return get_word(payload + FOUR * lane, is_wide);
    }
    static __device__ __forceinline__ void put(uint8_t *payload, int lane, int, uint32_t word, int is_wide) {
        put_word(payload + FOUR * lane, word, is_wide);
    }
    /* Place k is in half k / 4 of byte k % 4. */
    static __device__ __forceinline__ float at(const uint32_t (&word)[WORDS], int k, float scale) {
        int high = (int)(word[0] << (28 - 8 * (k % FOUR) - 4 * (k / FOUR)));
        return __fmul_rn((float)(high >> 28), scale);
    }
    static __device__ __forceinline__ void code(const float (&t)[HELD], float inverse, uint32_t (&word)[WORDS]) {
        word[0] = 0;
        if (!(inverse > 0)) return; /* the scale is 0, infinite or not a number */
#pragma unroll
        for (int k = 0; k < HELD; k++) {
            float q = __fadd_rn(__fmul_rn(t[k], inverse), TO_INTEGER); /* |t * inverse| < 7.5 */
            word[0] |= (__float_as_uint(q) & 15) << (8 * (k % FOUR) + 4 * (k / FOUR));
        }
    }
};

/* A lane's word has the signs of its places 0 .. 3 in bits 0 .. 3, of 4 .. 7 in bits 4 .. 7. Two lanes share a byte of
 * each half of the payload, 8 lanes a word. */
template <> struct coded<TRI_CODE_SIGNS> {
    enum { PAYLOAD = 32, SCALED = 1, WORDS = 1 };
    static __device__ __forceinline__ uint32_t get(const uint8_t *payload, int lane, int, int) {
        uint32_t low = payload[lane / 2], high = payload[PAYLOAD / 2 + lane / 2];
        int shift = lane % 2 * FOUR;
        return (low >> shift & 15) | (high >> shift & 15) << 4;
    }
    static __device__ __forceinline__ void put(uint8_t *payload, int lane, int, uint32_t word, int is_wide) {
        uint32_t low = (word & 15) << 4 * (lane % 8), high = (word >> 4) << 4 * (lane % 8);
#pragma unroll
        for (int other = 1; other < 8; other *= 2) {
            low |= __shfl_xor_sync(0xFFFFFFFFu, low, other);
            high |= __shfl_xor_sync(0xFFFFFFFFu, high, other);
        }
        if (lane % 8 == 0) put_word(payload + lane / 2, low, is_wide);
        if (lane % 8 == 1) put_word(payload + PAYLOAD / 2 + lane / 8 * 4, high, is_wide);
    }
    static __device__ __forceinline__ float at(const uint32_t (&word)[WORDS], int k, float scale) {
        return __uint_as_float(__float_as_uint(scale) ^ (word[0] << (31 - k) & 0x80000000u));
    }
    static __device__ __forceinline__ void code(const float (&t)[HELD], float, uint32_t (&word)[WORDS]) {
        word[0] = 0;
#pragma unroll
        for (int k = 0; k < HELD; k++) word[0] |= (uint32_t)(t[k] < 0) << k;
    }
};

/* What a block stands for. */
template <int CODE>
static __device__ __forceinline__ void decode_block(const coded_block &b, int is_wide, float (&t)[HELD]) {
    typedef coded<CODE> how;
    uint32_t word[how::WORDS];
    float scale = how::SCALED ? __uint_as_float(get_word(b.scale, is_wide)) : 0.0f;
#pragma unroll
    for (int w = 0; w < how::WORDS; w++) word[w] = how::get(b.payload, b.lane, w, is_wide);
#pragma unroll
    for (int k = 0; k < HELD; k++) t[k] = how::at(word, k, scale);
}

/* Blocks of threads for n elements of each of `rows` rows, and `more` of their blocks. */
static inline dim3 coded_grid(int64_t n, int64_t rows, int64_t more = 0) {
    return dim3(blocks_for(blocks_for(n, TRI_CODE_BLOCK) + more, CODED_WARPS), (unsigned)rows);
}

/* run(code), a constant, for the call's code. */
template <class F> static void by_code(const tri_call *call, F run) {
    switch (call->attr->code) {
    case TRI_CODE_BF16: run(std::integral_constant<int, TRI_CODE_BF16>()); break;
    case TRI_CODE_INT8: run(std::integral_constant<int, TRI_CODE_INT8>()); break;
    case TRI_CODE_INT4: run(std::integral_constant<int, TRI_CODE_INT4>()); break;
    case TRI_CODE_FP8: run(std::integral_constant<int, TRI_CODE_FP8>()); break;
    case TRI_CODE_SIGNS: run(std::integral_constant<int, TRI_CODE_SIGNS>()); break;
    default: record(call, cudaErrorInvalidValue, "a code");
    }
}
