/* activation.cuh - activations and their derivatives. Some have a form of their own here: the Gaussian error linear
 * unit by the error function, as in BERT, and by tanh; SiLU; ReLU; tanh. fp32 uses the library's functions; 16-bit
 * types use formulas of few instructions, whose relative error of at most 1.6e-4 is below half of their last bit. All
 * others are computed by device/activation.h. */
#pragma once

#include "device/cuda/runtime/common.cuh" /* first: it includes headers in C as such */
#include "device/activation.h"

#include <type_traits>

/* Phi(-|x|) = 2^p(|x|): the polynomial is the best approximation on 0..5, and keeps falling beyond. */
static __device__ __forceinline__ float fast_tail(float x) {
    float z = fabsf(x);
    return power_of_2(fmaf(
        z,
        fmaf(z, fmaf(z, fmaf(z, fmaf(z, -2.69919517e-4f, 5.29736606e-3f), -0.0463193953f), -0.466907382f), -1.147789f),
        -1.00022829f));
}

/* f(x), and dy * f' at x or, of an activation by_result, at f(x). */
template <int ACT, typename T> struct act_op {
    static __device__ __forceinline__ float at(float x) { return (float)activation_at((tri_activation)ACT, x); }
};
template <int ACT, typename T> struct act_din_op {
    static __device__ __forceinline__ float at(float dy, float from) {
        return (float)activation_din((tri_activation)ACT, dy, from);
    }
};

template <typename T> struct act_op<TRI_ACTIVATION_GELU, T> {
    static __device__ __forceinline__ float at(float x) {
        return fmaf(-fabsf(x), fast_tail(x), fmaxf(x, 0.0f));
    }
};
template <> struct act_op<TRI_ACTIVATION_GELU, float> {
    static __device__ __forceinline__ float at(float x) { return x * normcdff(x); }
};

template <typename T> struct act_din_op<TRI_ACTIVATION_GELU, T> {
    static __device__ __forceinline__ float at(float dy, float x) {
        float bell = power_of_2(fmaf(x * x, -0.72134752f, -1.32574806f)); /* exp(-x^2 / 2) / sqrt(2 pi) */
        float slope = fmaf(-fabsf(x), bell, fast_tail(x));                /* at -|x| */
        return dy * (x < 0 ? slope : 1.0f - slope);
    }
};
template <> struct act_din_op<TRI_ACTIVATION_GELU, float> {
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
template <typename T> struct act_op<TRI_ACTIVATION_GELU_TANH, T> {
    static __device__ __forceinline__ float at(float x) { return x * tanh_share<T>(x); }
};
template <typename T> struct act_din_op<TRI_ACTIVATION_GELU_TANH, T> {
    static __device__ __forceinline__ float at(float dy, float x) {
        float s = tanh_share<T>(x), inner = 1.59576912f * fmaf(3 * 0.044715f * x, x, 1.0f);
        return dy * fmaf(x * s * (1.0f - s), inner, s);
    }
};
template <typename T> struct act_op<TRI_ACTIVATION_SILU, T> {
    static __device__ __forceinline__ float at(float x) { return x * logistic<T>(x); }
};
template <typename T> struct act_din_op<TRI_ACTIVATION_SILU, T> {
    static __device__ __forceinline__ float at(float dy, float x) {
        float s = logistic<T>(x);
        return dy * s * fmaf(x, 1.0f - s, 1.0f);
    }
};

template <typename T> struct act_op<TRI_ACTIVATION_RELU, T> { /* NaN stays NaN */
    static __device__ __forceinline__ float at(float x) { return x < 0 ? 0 : x; }
};
template <typename T> struct act_din_op<TRI_ACTIVATION_RELU, T> {
    static __device__ __forceinline__ float at(float dy, float y) { return y > 0 ? dy : 0; }
};
template <typename T> struct act_op<TRI_ACTIVATION_TANH, T> {
    static __device__ __forceinline__ float at(float x) { return tanhf(x); }
};
template <typename T> struct act_din_op<TRI_ACTIVATION_TANH, T> {
    static __device__ __forceinline__ float at(float dy, float y) { return dy * (1 - y * y); }
};

/* The derivative at x, whatever it is computed from. */
template <int ACT, typename T> static __device__ __forceinline__ float act_din_from_x(float dy, float x) {
    return act_din_op<ACT, T>::at(dy, activation_by_result((tri_activation)ACT) ? act_op<ACT, T>::at(x) : x);
}

/* What follows a product: nothing, an activation that is a constant, or, ANY_ACT, the one that the call names, which is
 * the same for all threads. Only the one that models have most has a kernel of its own. */
enum { NO_ACT = -1, ANY_ACT = TRI_ACTIVATION_COUNT };
static inline int act_after(const tri_call *call) { return call->attr->activation - 1; }
template <int ACT, typename T> static __device__ __forceinline__ float act_at(int act, float x) {
    if constexpr (ACT != ANY_ACT) {
        return act_op<ACT, T>::at(x);
    } else {
        switch (act) {
#define TRI_ACTIVATION(NAME, ...) \
        case TRI_ACTIVATION_##NAME: return act_op<TRI_ACTIVATION_##NAME, T>::at(x);
#include "program/activation.def"
        }
        return x;
    }
}
template <int ACT, typename T> static __device__ __forceinline__ float act_din_at(int act, float dy, float from) {
    if constexpr (ACT != ANY_ACT) {
        return act_din_op<ACT, T>::at(dy, from);
    } else {
        switch (act) {
#define TRI_ACTIVATION(NAME, ...) \
        case TRI_ACTIVATION_##NAME: return act_din_op<TRI_ACTIVATION_##NAME, T>::at(dy, from);
#include "program/activation.def"
        }
        return dy;
    }
}

/* run(std::integral_constant) with the activation as a constant. */
template <class F> static void with_activation(int act, F run) {
    switch (act) {
#define TRI_ACTIVATION(NAME, ...) \
    case TRI_ACTIVATION_##NAME: run(std::integral_constant<int, TRI_ACTIVATION_##NAME>()); break;
#include "program/activation.def"
    }
}
