/* coded.cu - numbers on their way between ranks in fewer bits (numbers/coded.h). Every operation on fp32 is rounded by
 * itself, so that bytes and errors are those of the CPU. */
#include "device/cuda/update/coded.cuh"

typedef struct pack_args {
    coded_rows rows;
    const void *x;           /* [K]; NULL: 0 */
    float *e;                /* [K] or NULL */
    const float *mask;       /* [K] or NULL */
    const float *scale;      /* [1] or NULL */
    const int32_t *apply;    /* [1] or NULL */
} pack_args;

/* The scale of a block, whether all that it stands for is finite, and for codes that divide by it the inverse. */
typedef struct block_scale {
    float scale, inverse;
    int finite;
} block_scale;

static __device__ __forceinline__ int is_finite(float x) { return size_of(x) < 0x7F800000u; }
static __device__ __forceinline__ float one_nan(float x) { return x == x ? x : __uint_as_float(0x7FC00000u); }

template <int CODE> static __device__ __forceinline__ block_scale scale_block(const float (&t)[HELD], int) {
    uint32_t largest = 0;
#pragma unroll
    for (int k = 0; k < HELD; k++) largest = max(largest, size_of(t[k]));
    largest = __reduce_max_sync(0xFFFFFFFFu, largest);
    float scale = one_nan(scale_of(largest, coded<CODE>::most));
    return block_scale{scale, inverse_of(scale), is_finite(__fmul_rn(scale, coded<CODE>::most))};
}
template <> __device__ __forceinline__ block_scale scale_block<TRI_CODE_BF16>(const float (&t)[HELD], int) {
    int finite = 1;
#pragma unroll
    for (int k = 0; k < HELD; k++) finite &= is_finite(wide(narrow<bf16>(t[k])));
    return block_scale{1, 1, __all_sync(0xFFFFFFFFu, finite)};
}
/* count: of the block's elements, those that are not masked. */
template <> __device__ __forceinline__ block_scale scale_block<TRI_CODE_SIGNS>(const float (&t)[HELD], int count) {
    double total = 0;
#pragma unroll
    for (int k = 0; k < HELD; k++) total += (double)fabsf(t[k]);
    total = warp_sum(total);
    double mean = count == TRI_CODE_BLOCK ? total / TRI_CODE_BLOCK : total / max(count, 1);
    float scale = one_nan(__double2float_rn(mean));
    return block_scale{scale, 0, is_finite(scale)};
}

/* t = x + scale * e of the elements that the lane holds; bit k of the result: place k counts. */
template <typename X>
static __device__ __forceinline__ uint32_t get_sums(const pack_args &a, const coded_block &b, float factor,
                                                    float (&t)[HELD]) {
    uint32_t counts = 0;
    float more[HELD];
    if (a.x) get_block(b, (const X *)a.x, t);
    else
#pragma unroll
        for (int k = 0; k < HELD; k++) t[k] = 0;
    if (a.e) {
        get_block(b, a.e, more);
#pragma unroll
        for (int k = 0; k < HELD; k++) t[k] = __fadd_rn(t[k], __fmul_rn(factor, more[k]));
    }
    if (!a.mask && b.count == TRI_CODE_BLOCK) return (1u << HELD) - 1;
    if (a.mask) get_block(b, a.mask, more);
#pragma unroll
    for (int k = 0; k < HELD; k++) {
        int is_in = element_of(b, k) < b.count && (!a.mask || more[k] != 0);
        counts |= (uint32_t)is_in << k;
        if (!is_in) t[k] = 0;
    }
    return counts;
}

/* Where the scale is not a number, even 0 has the code of none; beyond the end are zeros. */
static __device__ __forceinline__ void clear_beyond(const coded_block &b, uint32_t (&word)[2]) {
    if (b.count == TRI_CODE_BLOCK) return;
#pragma unroll
    for (int k = 0; k < HELD; k++)
        if (element_of(b, k) >= b.count) word[k / FOUR] &= ~(0xFFu << 8 * (k % FOUR));
}

/* One more warp than a row has room for blocks: it clears the row's end. */
template <int CODE, typename X> static __global__ void __launch_bounds__(CODED_WARPS *WARP) pack_kernel(pack_args a) {
    typedef coded<CODE> how;
    int64_t number = block_number();
    if (number > a.rows.blocks || (a.apply && !*a.apply)) return;
    coded_block b = block_of(a.rows, blockIdx.y, blockIdx.y, number, how::PAYLOAD);
    if (number == a.rows.blocks) {
        uint8_t *row = a.rows.q + blockIdx.y * a.rows.bytes;
        int64_t used = number * (how::PAYLOAD + how::SCALED * (int64_t)sizeof(float));
        for (int64_t i = used + b.lane; i < a.rows.bytes; i += WARP) row[i] = 0;
        return;
    }
    float t[HELD], factor = a.scale ? *a.scale : 1.0f, left[HELD];
    uint32_t counts = get_sums<X>(a, b, factor, t), word[how::WORDS];
    int counted = CODE == TRI_CODE_SIGNS && a.mask ? __reduce_add_sync(0xFFFFFFFFu, __popc(counts)) : b.count;
    block_scale s = scale_block<CODE>(t, counted);
    how::code(t, s.inverse, word);
    if constexpr (CODE == TRI_CODE_FP8) clear_beyond(b, word);
#pragma unroll
    for (int w = 0; w < how::WORDS; w++) how::put(b.payload, b.lane, w, word[w], a.rows.wide);
    if (how::SCALED && b.lane == 0) put_word(b.scale, __float_as_uint(s.scale), a.rows.wide);
    if (!a.e || !s.finite) return;
    float inverse = __frcp_rn(factor);
#pragma unroll
    for (int k = 0; k < HELD; k++)
        left[k] = counts >> k & 1 ? __fmul_rn(__fsub_rn(t[k], how::at(word, k, s.scale)), inverse) : 0.0f;
    put_block(b, a.e, left);
}

static void pack_parts(const tri_call *call) {
    OPERANDS(pack);
    int of = call->t[ARG(x)].data ? ARG(x) : ARG(e);
    pack_args a = {};
    a.x = GIVEN(x), a.e = GIVEN(e), a.mask = GIVEN(mask), a.scale = GIVEN(scale), a.apply = GIVEN(apply);
    a.rows = coded_rows_of(call, ARG(q), of, 1);
    a.rows.wide = a.rows.wide && aligned(a.e, a.mask);
    if (a.rows.rows == 0) return;
    by_code(call, [&](auto code) {
        by_type(call->dtype[of], [&](auto x) {
            queue(call, "pack", pack_kernel<decltype(code)::value, decltype(x)>,
                  coded_grid(a.rows.blocks * TRI_CODE_BLOCK, a.rows.rows, 1), CODED_WARPS * WARP, a);
        });
    });
}

template <int CODE, typename Y>
static __global__ void __launch_bounds__(CODED_WARPS *WARP) unpack_kernel(coded_rows rows, Y *y) {
    coded_block b = block_of(rows, blockIdx.y, blockIdx.y, block_number(), coded<CODE>::PAYLOAD);
    float t[HELD];
    if (b.count == 0) return;
    decode_block<CODE>(b, rows.wide, t);
    put_block(b, y, t);
}

static void unpack(const tri_call *call) {
    OPERANDS(unpack);
    coded_rows rows = coded_rows_of(call, ARG(q), ARG(y), 1);
    if (rows.count == 0 || rows.rows == 0) return;
    by_code(call, [&](auto code) {
        by_type(call->dtype[ARG(y)], [&](auto y) {
            queue(call, "unpack", unpack_kernel<decltype(code)::value, decltype(y)>, coded_grid(rows.part, rows.rows),
                  CODED_WARPS * WARP, rows, GIVEN(y));
        });
    });
}

template <int CODE, typename Y>
static __global__ void __launch_bounds__(CODED_WARPS *WARP)
    unpack_sum_kernel(coded_rows rows, Y *y, const int32_t *apply, int add) {
    coded_block b = block_of(rows, 0, 0, block_number(), coded<CODE>::PAYLOAD);
    float total[HELD], t[HELD];
    if (b.count == 0 || (apply && !*apply)) return;
    decode_block<CODE>(b, rows.wide, total);
#pragma unroll 4
    for (int64_t row = 1; row < rows.rows; row++) {
        b.payload += rows.bytes, b.scale += rows.bytes;
        decode_block<CODE>(b, rows.wide, t);
#pragma unroll
        for (int k = 0; k < HELD; k++) total[k] = __fadd_rn(total[k], t[k]);
    }
    if (add) {
        get_block(b, y, t);
#pragma unroll
        for (int k = 0; k < HELD; k++) total[k] = __fadd_rn(t[k], total[k]);
    }
    put_block(b, y, total);
}

static void unpack_sum(const tri_call *call) {
    OPERANDS(unpack);
    coded_rows rows = coded_rows_of(call, ARG(q), ARG(y), 0);
    if (rows.count == 0 || rows.rows == 0) return;
    by_code(call, [&](auto code) {
        by_type(call->dtype[ARG(y)], [&](auto y) {
            queue(call, "unpack_sum", unpack_sum_kernel<decltype(code)::value, decltype(y)>, coded_grid(rows.count, 1),
                  CODED_WARPS * WARP, rows, GIVEN(y), GIVEN(apply), adds(call, ARG(y)));
        });
    });
}

TRI_CUDA_FAMILY(coded) = {
    TRI_CUDA_SAME_ROWS(TRI_OP_pack, pack_parts, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_unpack, unpack, {}),
    TRI_CUDA_SAME_FACT_ROWS(TRI_FACT_SUM, TRI_OP_unpack, unpack_sum, {}),
    {},
};
