/* map.cuh - element-wise functions of one or two operands, into the first. A thread handles 8 elements in 16-byte
 * accesses if alignment allows, else one. */
#pragma once

#include "device/cuda/runtime/common.cuh"

enum { MAP_THREADS = 256 };

/* y = F(a), or y += F(a); y and a may be the same memory. */
template <class F, typename Y, typename A, int N>
static __global__ void map1_kernel(int64_t n, Y *y, const A *a, int add) {
    int64_t i = ((int64_t)blockIdx.x * MAP_THREADS + threadIdx.x) * N;
    if (i + N <= n) {
        float x[N];
        load<N>(a + i, x);
#pragma unroll
        for (int k = 0; k < N; k++) x[k] = F::at(x[k]);
        put<N>(y + i, x, add);
    } else
        for (; i < n; i++) {
            float x[1] = {F::at(wide(a[i]))};
            put<1>(y + i, x, add);
        }
}

template <class F, typename T, int N>
static __global__ void map2_kernel(int64_t n, T *y, const T *a, const T *b, int add) {
    int64_t i = ((int64_t)blockIdx.x * MAP_THREADS + threadIdx.x) * N;
    if (i + N <= n) {
        float x[N], z[N];
        load<N>(a + i, x);
        load<N>(b + i, z);
#pragma unroll
        for (int k = 0; k < N; k++) x[k] = F::at(x[k], z[k]);
        put<N>(y + i, x, add);
    } else
        for (; i < n; i++) {
            float x[1] = {F::at(wide(a[i]), wide(b[i]))};
            put<1>(y + i, x, add);
        }
}

template <class F, typename Y, typename A>
static void map1_on(const tri_call *call, int64_t n, Y *y, const A *a, int add, const char *name) {
    if (n == 0 || !y) return;
    by_width(aligned(y, a), [&](auto each) {
        queue(call, name, map1_kernel<F, Y, A, each>, blocks_for(n, MAP_THREADS * each), MAP_THREADS, n, y, a, add);
    });
}
/* Operand y = F(operand a). */
template <class F, typename Y, typename A> static void map1(const tri_call *call, int y, int a, const char *name) {
    map1_on<F, Y, A>(call, elements(call, y), data<Y>(call, y), data<A>(call, a), adds(call, y), name);
}

/* Operand to = F(operand x, operand z). */
template <class F, typename T> static void map2(const tri_call *call, int to, int x, int z, const char *name) {
    int64_t n = elements(call, to);
    T *y = data<T>(call, to);
    const T *a = data<T>(call, x), *b = data<T>(call, z);
    if (n == 0) return;
    by_width(aligned(y, a, b), [&](auto each) {
        queue(call, name, map2_kernel<F, T, each>, blocks_for(n, MAP_THREADS * each), MAP_THREADS, n, y, a, b,
              adds(call, to));
    });
}

struct same_op {
    static __device__ __forceinline__ float at(float x) { return x; }
};
struct sum_op {
    static __device__ __forceinline__ float at(float a, float b) { return a + b; }
};
