/* gelu.cuh - the Gaussian error linear unit by the error function, as in BERT, and its derivative. fp32 uses the
 * library's functions; 16-bit types a formula of few instructions, whose relative error of 1.6e-4 is below half of
 * their last bit. */
#ifndef TRI_DEVICE_CUDA_GELU_CUH
#define TRI_DEVICE_CUDA_GELU_CUH

#include "device/cuda/common.cuh"

/* Phi(-|x|) = 2^p(|x|): the polynomial is the best approximation on 0..5, and keeps falling beyond. */
static __device__ __forceinline__ float fast_tail(float x) {
    float z = fabsf(x);
    return power_of_2(fmaf(
        z,
        fmaf(z, fmaf(z, fmaf(z, fmaf(z, -2.69919517e-4f, 5.29736606e-3f), -0.0463193953f), -0.466907382f), -1.147789f),
        -1.00022829f));
}

template <typename T> struct gelu_op {
    static __device__ __forceinline__ float at(float x) {
        return fmaf(-fabsf(x), fast_tail(x), fmaxf(x, 0.0f));
    }
};
template <> struct gelu_op<float> {
    static __device__ __forceinline__ float at(float x) { return x * normcdff(x); }
};

template <typename T> struct gelu_din_op {
    static __device__ __forceinline__ float at(float dy, float x) {
        float bell = power_of_2(fmaf(x * x, -0.72134752f, -1.32574806f)); /* exp(-x^2 / 2) / sqrt(2 pi) */
        float slope = fmaf(-fabsf(x), bell, fast_tail(x));                /* at -|x| */
        return dy * (x < 0 ? slope : 1.0f - slope);
    }
};
template <> struct gelu_din_op<float> {
    static __device__ __forceinline__ float at(float dy, float x) {
        return dy * (normcdff(x) + x * 0.39894228f * expf(-0.5f * x * x));
    }
};

#endif
