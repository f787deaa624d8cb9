/* gelu.cuh - the Gaussian error linear unit by the error function, as BERT has it, and its slope. fp32 takes the library's
 * functions; 16-bit types a formula that is right to 1.5e-7, far below their last bit, and needs one exponential for both. */
#ifndef TRI_DEVICE_CUDA_GELU_CUH
#define TRI_DEVICE_CUDA_GELU_CUH

#include "device/cuda/common.cuh"

/* Phi(-|x|) and exp(-x^2 / 2), by Abramowitz and Stegun 7.1.26: erfc(z) = poly(t) exp(-z^2), t = 1 / (1 + 0.3275911 z), z = |x| / sqrt 2. */
static __device__ __forceinline__ float fast_tail(float x, float *bell) {
    float t;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(t) : "f"(fmaf(0.23164189f, fabsf(x), 1.0f)));
    *bell = power_of_2(-0.72134752f * x * x); /* x^2 / 2 in powers of 2 */
    float poly = fmaf(t, fmaf(t, fmaf(t, fmaf(t, 0.5307027145f, -0.7265760135f), 0.7107068705f), -0.142248368f), 0.127414796f);
    return poly * t * *bell;
}

template <typename T> struct gelu_op {
    static __device__ __forceinline__ float at(float x) {
        float bell;
        return fmaf(-fabsf(x), fast_tail(x, &bell), fmaxf(x, 0.0f));
    }
};
template <> struct gelu_op<float> {
    static __device__ __forceinline__ float at(float x) { return x * normcdff(x); }
};

template <typename T> struct gelu_din_op {
    static __device__ __forceinline__ float at(float dy, float x) {
        float bell, tail = fast_tail(x, &bell);
        float slope = fmaf(fabsf(x) * -0.39894228f, bell, tail); /* at -|x| */
        return dy * (x < 0 ? slope : 1.0f - slope);
    }
};
template <> struct gelu_din_op<float> {
    static __device__ __forceinline__ float at(float dy, float x) {
        return dy * (normcdff(x) + x * 0.39894228f * expf(-0.5f * x * x));
    }
};

#endif
