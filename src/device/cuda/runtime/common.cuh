/* common.cuh - shared by the plug-in's kernels: element types, wide loads and stores, launches, sums, random
 * decisions.
 *
 * Kernels are templates over the computing type; operands whose type ops.def leaves open are accessed through `loose`.
 * Tensors are dense and row-major; pointers may be aligned to one element only, so wide accesses are used if all
 * operands allow them. */
#pragma once

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <type_traits>

extern "C" {
#include "device/cuda/runtime/cuda.h"
#include "device/operands.h"
}

typedef __nv_bfloat16 bf16;
typedef __half f16;
typedef __nv_fp8_e4m3 e4m3;
typedef __nv_fp8_e5m2 e5m2;

enum { WARP = 32, WIDE = 8 }; /* threads; elements that a thread moves at a time */

/* A file's list of rows, which ends with an empty one: TRI_CUDA_FAMILY(norm) = {...}. The Makefile finds it by this
 * name at the beginning of a line. */
#define TRI_CUDA_FAMILY(family)                           \
    extern "C" const tri_kernel_row tri__cuda_##family[]; \
    const tri_kernel_row tri__cuda_##family[]

/* One row for each computing type, of the variants with these facts; ROWS: with none. */
#define TRI_CUDA_FACT_ROWS(facts, op, run, ...)                                                              \
    {op, TRI_F32, run<float>, __VA_ARGS__, facts}, {op, TRI_BF16, run<bf16>, __VA_ARGS__, facts}, {          \
        op, TRI_F16, run<f16>, __VA_ARGS__, facts                                                            \
    }
#define TRI_CUDA_ROWS(op, run, ...) TRI_CUDA_FACT_ROWS(0, op, run, __VA_ARGS__)

/* Those whose scratch space is not that of fp32 where the type has 16 bits. */
#define TRI_CUDA_HALF_ROWS(facts, op, run, work, half_work)                                               \
    {op, TRI_F32, run<float>, work, facts}, {op, TRI_BF16, run<bf16>, half_work, facts}, {                \
        op, TRI_F16, run<f16>, half_work, facts                                                           \
    }

/* The same row for each: it finds the types of its operands in the call. */
#define TRI_CUDA_SAME_FACT_ROWS(facts, op, run, ...)                                                 \
    {op, TRI_F32, run, __VA_ARGS__, facts}, {op, TRI_BF16, run, __VA_ARGS__, facts}, {               \
        op, TRI_F16, run, __VA_ARGS__, facts                                                         \
    }
#define TRI_CUDA_SAME_ROWS(op, run, ...) TRI_CUDA_SAME_FACT_ROWS(0, op, run, __VA_ARGS__)

static __device__ __forceinline__ float wide(float x) { return x; }
static __device__ __forceinline__ float wide(bf16 x) { return __bfloat162float(x); }
static __device__ __forceinline__ float wide(f16 x) { return __half2float(x); }
template <typename T> static __device__ __forceinline__ T narrow(float x);
template <> __device__ __forceinline__ float narrow<float>(float x) { return x; }
template <> __device__ __forceinline__ bf16 narrow<bf16>(float x) { return __float2bfloat16_rn(x); }
template <> __device__ __forceinline__ f16 narrow<f16>(float x) { return __float2half_rn(x); }

/* 2^x to two units in the last place; 0 for subnormal results. */
static __device__ __forceinline__ float power_of_2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Two elements of 16 bits in a word, the first in the lower half. */
static __device__ __forceinline__ uint32_t pair_of(bf16, float first, float second) {
    __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<uint32_t *>(&pair);
}
static __device__ __forceinline__ uint32_t pair_of(f16, float first, float second) {
    __half2 pair = __floats2half2_rn(first, second);
    return *reinterpret_cast<uint32_t *>(&pair);
}
static __device__ __forceinline__ float wide_half(bf16, uint32_t word, int upper) {
    return __uint_as_float(upper ? word & 0xFFFF0000u : word << 16);
}
static __device__ __forceinline__ float wide_half(f16, uint32_t word, int upper) {
    return __half2float(__ushort_as_half((unsigned short)(upper ? word >> 16 : word)));
}

/* N adjacent elements, moved by accesses of up to 16 bytes. 16-bit elements are kept as two per word: alone, each would
 * take a register. */
template <typename T, int N, bool PAIRS = sizeof(T) == 2 && N % 2 == 0>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) pack {
    T element[N];
    __device__ __forceinline__ float at(int i) const { return wide(element[i]); }
    __device__ __forceinline__ void set(const float (&from)[N]) {
#pragma unroll
        for (int i = 0; i < N; i++) element[i] = narrow<T>(from[i]);
    }
};
template <typename T, int N> struct alignas(2 * N < 16 ? 2 * N : 16) pack<T, N, true> {
    uint32_t word[N / 2];
    __device__ __forceinline__ float at(int i) const { return wide_half(T(), word[i / 2], i % 2); }
    __device__ __forceinline__ void set(const float (&from)[N]) {
#pragma unroll
        for (int i = 0; i < N; i += 2) word[i / 2] = pair_of(T(), from[i], from[i + 1]);
    }
};
template <int N, typename T> static __device__ __forceinline__ pack<T, N> packed(const T *from) {
    return *reinterpret_cast<const pack<T, N> *>(from);
}
template <int N, typename T> static __device__ __forceinline__ void load(const T *from, float (&to)[N]) {
    pack<T, N> p = packed<N>(from);
#pragma unroll
    for (int i = 0; i < N; i++) to[i] = p.at(i);
}
/* Returns the rounded values. */
template <int N, typename T> static __device__ __forceinline__ pack<T, N> store(T *to, const float (&from)[N]) {
    pack<T, N> p;
    p.set(from);
    *reinterpret_cast<pack<T, N> *>(to) = p;
    return p;
}
/* Writes, or accumulates; returns the new values. */
template <int N, typename T> static __device__ __forceinline__ pack<T, N> put(T *to, float (&from)[N], int add) {
    if (add) {
        float before[N];
        load<N>(to, before);
#pragma unroll
        for (int i = 0; i < N; i++) from[i] += before[i];
    }
    return store<N>(to, from);
}

/* An operand of any real type; the branch is uniform over all threads. */
typedef struct loose {
    void *data; /* NULL: absent */
    int dtype;
} loose;
static __device__ __forceinline__ float loose_load(loose x, int64_t i) {
    if (x.dtype == TRI_F32) return ((const float *)x.data)[i];
    return x.dtype == TRI_BF16 ? wide(((const bf16 *)x.data)[i]) : wide(((const f16 *)x.data)[i]);
}
static __device__ __forceinline__ void loose_put(loose y, int64_t i, float value, int add) {
    if (add) value += loose_load(y, i);
    if (y.dtype == TRI_F32) ((float *)y.data)[i] = value;
    else if (y.dtype == TRI_BF16) ((bf16 *)y.data)[i] = narrow<bf16>(value);
    else ((f16 *)y.data)[i] = narrow<f16>(value);
}

/* Operands, on the host. */
static inline loose operand(const tri_call *call, int k) { return loose{call->t[k].data, call->dtype[k]}; }
template <typename T> static inline T *data(const tri_call *call, int k) { return static_cast<T *>(call->t[k].data); }
static inline int64_t elements(const tri_call *call, int k) { return call->t[k].rows * call->t[k].cols; }
static inline int adds(const tri_call *call, int k) { return (call->acc >> k) & 1; }
template <class... P> static inline int aligned(const P *...p) { return (... && ((uintptr_t)p % 16 == 0)); }
static inline unsigned blocks_for(int64_t n, int64_t each) { return (unsigned)((n + each - 1) / each); }

/* An operand as its taker declares it: a pointer to its elements, or loose. */
struct given {
    const tri_call *call;
    int k;
    template <typename T> operator T *() const { return data<T>(call, k); }
    operator loose() const { return operand(call, k); }
};
#define GIVEN(name) (given{call, ARG(name)})

/* Stores the first error of a step, with the row where it occurred. */
static inline void record(const tri_call *call, cudaError_t error, const char *where) {
    tri__cuda_note(tri__cuda(call), error, where);
}
/* Checks whether the previous launch was accepted. */
static inline void launched(const tri_call *call, const char *where) { record(call, cudaGetLastError(), where); }
static inline cudaStream_t stream(const tri_call *call) { return tri__cuda(call)->compute; }

/* Zeroes an operand, unless it is added to. */
static inline void clear(const tri_call *call, int k, const char *where) {
    size_t bytes = (size_t)elements(call, k) * tri__dtype_bytes((tri_dtype)call->dtype[k]);
    if (bytes && !adds(call, k)) record(call, cudaMemsetAsync(call->t[k].data, 0, bytes, stream(call)), where);
}

/* Queues a kernel; it may have that many bytes of dynamic shared memory. */
template <class... P, class... A>
static void queue_sharing(const tri_call *call, const char *where, void (*kernel)(P...), dim3 grid, dim3 block,
                          size_t bytes, const A &...args) {
    if (bytes)
        record(call, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes), where);
    kernel<<<grid, block, bytes, stream(call)>>>(args...);
    launched(call, where);
}
template <class... P, class... A>
static void queue(const tri_call *call, const char *where, void (*kernel)(P...), dim3 grid, dim3 block,
                  const A &...args) {
    queue_sharing(call, where, kernel, grid, block, 0, args...);
}
/* The same with a thread for each of n elements, if there are any; n is the kernel's first argument. */
template <class... P, class... A>
static void queue_each(const tri_call *call, const char *where, void (*kernel)(P...), int64_t n, int threads,
                       const A &...args) {
    if (n) queue(call, where, kernel, blocks_for(n, threads), threads, n, args...);
}

/* run(n), where n is N, as a constant, if wide accesses are allowed, else 1. */
template <int N = WIDE, class F> static void by_width(int is_wide, F run) {
    if (is_wide) run(std::integral_constant<int, N>());
    else run(std::integral_constant<int, 1>());
}
/* run(flag), a constant. */
template <class F> static void by_flag(int flag, F run) {
    if (flag) run(std::true_type());
    else run(std::false_type());
}
/* run(x), where x has the type: of 16 bits; any by which kernels compute. */
template <class F> static void by_half(int dtype, F run) {
    if (dtype == TRI_BF16) run(bf16());
    else run(f16());
}
template <class F> static void by_type(int dtype, F run) {
    if (dtype == TRI_F32) run(float());
    else by_half(dtype, run);
}

/* An attribute of the current GPU. */
static inline int attribute_of(const tri_call *call, cudaDeviceAttr attribute) {
    int value = 0;
    cudaDeviceGetAttribute(&value, attribute, tri__cuda(call)->device);
    return value;
}
static inline int processors_of(const tri_call *call) { return attribute_of(call, cudaDevAttrMultiProcessorCount); }
/* Whether it has the instructions of wgmma.cuh. */
static inline int is_hopper(const tri_call *call) {
    return attribute_of(call, cudaDevAttrComputeCapabilityMajor) == 9 &&
           attribute_of(call, cudaDevAttrComputeCapabilityMinor) == 0;
}

/* Sums over a warp and over a block, in an order fixed by the shape; every thread gets the result. */
template <typename T> static __device__ __forceinline__ T warp_sum(T x) {
#pragma unroll
    for (int lane = WARP / 2; lane; lane /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, lane);
    return x;
}
template <typename T> static __device__ __forceinline__ T block_sum(T x) {
    __shared__ T part[WARP];
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, warps = (blockDim.x + WARP - 1) / WARP;
    x = warp_sum(x);
    __syncthreads();
    if (lane == 0) part[warp] = x;
    __syncthreads();
    return warp_sum(lane < warps ? part[lane] : T(0));
}

/* Dropout decisions, as in base/random.h: one draw decides for 8 consecutive features. The step's number is read from
 * GPU memory, so that a launch can be replayed in another step with the same arguments. */
typedef struct dropper {
    const uint32_t *step;         /* [1] */
    uint32_t seed, id, threshold; /* threshold 0: no dropout, and the step is not read */
    float scale;
} dropper;
static inline dropper dropper_of(const tri_call *call) {
    uint32_t threshold = call->attr->p == 0 ? 0 : tri__random_threshold(call->attr->p);
    return dropper{tri__cuda(call)->step, call->seed, call->attr->id, threshold,
                   threshold ? tri__random_scale(threshold) : 1.0f};
}
/* The step's number, for kernels that draw many decisions and read it once; called by all threads of a warp together.
 * All read the same value, but the compiler knows that only of a reduction's result, which it keeps in a uniform
 * register instead of one per thread. Other kernels read it with their keys, by plain loads: __ldg, which the compiler
 * does not reorder, serialised the loads. */
[[maybe_unused]] static __device__ __forceinline__ uint32_t step_of(const dropper &d) {
    uint32_t step = d.threshold ? *d.step : 0;
    return __reduce_or_sync(0xFFFFFFFFu,
                            step); /* always: under a condition, ptxas 13.0 once used a wrong predicate for it */
}
static __device__ __forceinline__ uint4 draw(const dropper &d, uint32_t step, uint32_t sample, uint32_t place,
                                             uint32_t group) {
    uint32_t key0 = d.seed, key1 = d.id, c0 = step, c1 = sample, c2 = place, c3 = group;
#pragma unroll
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ key0, n2 = (uint32_t)(a >> 32) ^ c3 ^ key1;
        c0 = n0, c1 = (uint32_t)b, c2 = n2, c3 = (uint32_t)a;
        key0 += 0x9E3779B9u, key1 += 0xBB67AE85u;
    }
    return make_uint4(c0, c1, c2, c3);
}
/* The decisions of a draw as bits, one for each feature % 8: 1 if the value is kept. A 16-bit number in the upper half
 * of a word is at least the threshold exactly when adding its complement carries. */
static __device__ __forceinline__ uint32_t kept_bits(const dropper &d, uint32_t step, uint32_t sample, uint32_t place,
                                                     uint32_t group) {
    uint4 r = draw(d, step, sample, place, group);
    uint32_t word[4] = {r.x, r.y, r.z, r.w}, bits = 0, complement = 0u - (d.threshold << 16);
#pragma unroll
    for (int i = 7; i >= 0; i--) {
        uint32_t upper = i & 1 ? word[i / 2] : word[i / 2] << 16;
        asm("{.reg .u32 t; add.cc.u32 t, %1, %2; addc.u32 %0, %0, %0;}" : "+r"(bits) : "r"(upper), "r"(complement));
    }
    return bits;
}
/* The factor of one value: for features that are not in groups of eight. */
static __device__ __forceinline__ float kept(const dropper &d, const int32_t *key, int64_t t, uint32_t feature) {
    if (!d.threshold) return 1.0f;
    uint32_t bits = kept_bits(d, *d.step, (uint32_t)key[2 * t], (uint32_t)key[2 * t + 1], feature / 8);
    return bits >> (feature % 8) & 1 ? d.scale : 0.0f;
}
/* Multiplies values of the 8 features from 8 * group on. */
static __device__ __forceinline__ void drop(const dropper &d, const int32_t *key, int64_t t, uint32_t group,
                                            float (&x)[WIDE]) {
    if (!d.threshold) return;
    uint32_t bits = kept_bits(d, *d.step, (uint32_t)key[2 * t], (uint32_t)key[2 * t + 1], group);
#pragma unroll
    for (int i = 0; i < WIDE; i++) x[i] = bits >> i & 1 ? x[i] * d.scale : 0.0f;
}
