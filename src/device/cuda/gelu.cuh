/* gelu.cuh - the Gaussian error linear unit by the error function, as BERT has it, and its slope. fp32 takes the library's
 * functions; 16-bit types a formula that is right to 1.5e-7, far below their last bit, and needs one exponential for both. */
#ifndef TRI_DEVICE_CUDA_GELU_CUH
#define TRI_DEVICE_CUDA_GELU_CUH

#include "device/cuda/common.cuh"

/* Phi(x) and exp(-x^2 / 2), by Abramowitz and Stegun 7.1.26: erfc(z) = poly(t) exp(-z^2), t = 1 / (1 + 0.3275911 z), z >= 0. */
static __device__ __forceinline__ float fast_cdf(float x, float *bell) {
    float z = fabsf(x) * 0.70710678f, t = __fdividef(1.0f, fmaf(0.3275911f, z, 1.0f));
    *bell = power_of_2(-0.72134752f * x * x); /* x^2 / 2 in powers of 2 */
    float poly = t * fmaf(t, fmaf(t, fmaf(t, fmaf(t, 1.061405429f, -1.453152027f), 1.421413741f), -0.284496736f), 0.254829592f);
    float tail = 0.5f * poly * *bell; /* Phi(-|x|) */
    return x < 0 ? tail : 1.0f - tail;
}

template <typename T> struct gelu_op {
    static __device__ __forceinline__ float at(float x) {
        float bell;
        return x * fast_cdf(x, &bell);
    }
};
template <> struct gelu_op<float> {
    static __device__ __forceinline__ float at(float x) { return x * normcdff(x); }
};

template <typename T> struct gelu_din_op {
    static __device__ __forceinline__ float at(float dy, float x) {
        float bell, cdf = fast_cdf(x, &bell);
        return dy * fmaf(x * 0.39894228f, bell, cdf);
    }
};
template <> struct gelu_din_op<float> {
    static __device__ __forceinline__ float at(float dy, float x) {
        return dy * (normcdff(x) + x * 0.39894228f * expf(-0.5f * x * x));
    }
};

#endif
