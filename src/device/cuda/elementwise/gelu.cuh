/* gelu.cuh - activations and their derivatives: the Gaussian error linear unit by the error function, as in BERT, and
 * by tanh, and SiLU. fp32 uses the library's functions; 16-bit types formulas of few instructions, whose relative
 * error of at most 1.6e-4 is below half of their last bit. */
#ifndef TRI_DEVICE_CUDA_ELEMENTWISE_GELU_CUH
#define TRI_DEVICE_CUDA_ELEMENTWISE_GELU_CUH

#include "device/cuda/runtime/common.cuh"

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

/* 1 / (1 + exp(-x)) */
template <typename T> static __device__ __forceinline__ float logistic(float x) {
    return __fdividef(1.0f, 1.0f + power_of_2(-1.44269504f * x));
}
template <> __device__ __forceinline__ float logistic<float>(float x) { return 1.0f / (1.0f + expf(-x)); }

/* x / 2 * (1 + tanh(u)) = x * logistic(2 u), u = sqrt(2 / pi) * (x + 0.044715 x^3) */
template <typename T> static __device__ __forceinline__ float tanh_share(float x) {
    return logistic<T>(1.59576912f * x * fmaf(0.044715f * x, x, 1.0f));
}
template <typename T> struct gelu_tanh_op {
    static __device__ __forceinline__ float at(float x) { return x * tanh_share<T>(x); }
};
template <typename T> struct gelu_tanh_din_op {
    static __device__ __forceinline__ float at(float dy, float x) {
        float s = tanh_share<T>(x), inner = 1.59576912f * fmaf(3 * 0.044715f * x, x, 1.0f);
        return dy * fmaf(x * s * (1.0f - s), inner, s);
    }
};
template <typename T> struct silu_op {
    static __device__ __forceinline__ float at(float x) { return x * logistic<T>(x); }
};
template <typename T> struct silu_din_op {
    static __device__ __forceinline__ float at(float dy, float x) {
        float s = logistic<T>(x);
        return dy * s * fmaf(x, 1.0f - s, 1.0f);
    }
};
#endif
