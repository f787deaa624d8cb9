/* quantize.cuh - numbers of 8 bits with a scale, as numbers/quantized.h and numbers/float8.h define them. */
#pragma once

#include "device/cuda/runtime/common.cuh"

/* |x| as a word; words are ordered as the numbers are, and NaNs are the largest. */
static __device__ __forceinline__ uint32_t size_of(float x) { return __float_as_uint(x) & 0x7FFFFFFFu; }
template <typename T> static __device__ __forceinline__ uint32_t largest_of(const pack<T, WIDE> &x) {
    uint32_t largest = 0;
#pragma unroll
    for (int i = 0; i < WIDE; i++) largest = max(largest, size_of(x.at(i)));
    return largest;
}

/* The scale of a row whose largest |x| is that; most: 127 or 448. */
static __device__ __forceinline__ float scale_of(uint32_t largest, float most) {
    float scale = __fdiv_rn(__uint_as_float(largest), most);
    uint32_t bits = __float_as_uint(scale);
    if (largest < __float_as_uint(0x1p-100f)) return 0;
    if (bits >= 0x7F800000u) return scale;
    return __uint_as_float((bits + 0x7F + (bits >> 8 & 1)) & ~0xFFu);
}
static __device__ __forceinline__ float inverse_of(float scale) { return scale == 0 ? 0.0f : __frcp_rn(scale); }

/* By type of the quantised numbers: the largest one, and four as a word, the first in the lowest byte. */
template <typename Q> struct quantized;
template <> struct quantized<int8_t> {
    static constexpr float most = 127;
    static __device__ __forceinline__ int at(float x, float inverse) { /* NaN becomes 0 */
        return max(-127, min(127, __float2int_rn(__fmul_rn(x, inverse))));
    }
    static __device__ __forceinline__ uint32_t four(float a, float b, float c, float d, float inverse) {
        uint32_t low = __byte_perm((uint32_t)at(a, inverse), (uint32_t)at(b, inverse), 0x0040),
                 high = __byte_perm((uint32_t)at(c, inverse), (uint32_t)at(d, inverse), 0x0040);
        return __byte_perm(low, high, 0x5410);
    }
};
template <__nv_fp8_interpretation_t KIND> struct quantized_fp8 {
    static __device__ __forceinline__ int at(float x, float inverse) {
        return __nv_cvt_float_to_fp8(__fmul_rn(x, inverse), __NV_SATFINITE, KIND);
    }
    static __device__ __forceinline__ uint32_t four(float a, float b, float c, float d, float inverse) {
        uint32_t low = __nv_cvt_float2_to_fp8x2(float2{__fmul_rn(a, inverse), __fmul_rn(b, inverse)}, __NV_SATFINITE,
                                                KIND),
                 high = __nv_cvt_float2_to_fp8x2(float2{__fmul_rn(c, inverse), __fmul_rn(d, inverse)}, __NV_SATFINITE,
                                                 KIND);
        return low | high << 16;
    }
};
template <> struct quantized<e4m3> : quantized_fp8<__NV_E4M3> {
    static constexpr float most = 448;
};
template <> struct quantized<e5m2> : quantized_fp8<__NV_E5M2> {
    static constexpr float most = 57344;
};

/* 8 numbers to q, which is aligned to 8 bytes. */
template <typename Q, typename T>
static __device__ __forceinline__ void quantize_pack(const pack<T, WIDE> &x, float inverse, uint8_t *q) {
    uint2 eight = {quantized<Q>::four(x.at(0), x.at(1), x.at(2), x.at(3), inverse),
                   quantized<Q>::four(x.at(4), x.at(5), x.at(6), x.at(7), inverse)};
    *reinterpret_cast<uint2 *>(q) = eight;
}
