/* fp8.cuh - tensors in 8 bits with one scale (ops_fp8.def), written in rows and transposed, and their largest size. */
#pragma once

#include "device/cuda/product/quantize.cuh"

/* Where a tensor [rows, cols] goes; `transposed` has its columns. Either may be NULL. A call may have a run of its
 * rows: the columns of the whole tensor are `between` apart. */
typedef struct fp8_tensor {
    uint8_t *q, *transposed; /* [rows, cols] [cols, between] */
    float *most;             /* [1] raised to the largest |x|; NaN if one is. NULL: not */
    const float *s;          /* [1] */
    int64_t rows, cols, between;
    int dtype;               /* TRI_F8_E4M3 or TRI_F8_E5M2 */
} fp8_tensor;

/* Whether 8 rows by 8 columns can be written at once. */
static inline int fp8_wide(const fp8_tensor &to) {
    return to.rows % WIDE == 0 && to.cols % WIDE == 0 && to.between % WIDE == 0 && (uintptr_t)to.q % WIDE == 0 &&
           (uintptr_t)to.transposed % WIDE == 0;
}

/* The largest |x| that a thread has met; NaN if one was. `word`: as size_of. */
template <typename T> struct fp8_largest {
    uint32_t size = 0;
    __device__ __forceinline__ void see(const pack<T, WIDE> &x) { size = max(size, largest_of(x)); }
    __device__ __forceinline__ uint32_t word() const { return size; }
};
/* The same of 16-bit types, two at a time. */
template <typename Pair> struct fp8_largest_pair {
    Pair most = {};
    template <typename T> __device__ __forceinline__ void see(const pack<T, WIDE> &x) {
#pragma unroll
        for (int i = 0; i < WIDE / 2; i++) see(x.word[i]);
    }
    __device__ __forceinline__ void see(uint32_t two) {
        most = __hmax2_nan(most, __habs2(*reinterpret_cast<const Pair *>(&two)));
    }
    __device__ __forceinline__ uint32_t word() const { return max(size_of(wide(most.x)), size_of(wide(most.y))); }
};
template <> struct fp8_largest<bf16> : fp8_largest_pair<__nv_bfloat162> {};
template <> struct fp8_largest<f16> : fp8_largest_pair<__half2> {};

/* Raises `most` to the largest of a warp's sizes, words of size_of. Most warps only read it: it grows, so one that was
 * read late is too small at worst. */
static __device__ __forceinline__ void raise(float *most, uint32_t size) {
    unsigned int *word = reinterpret_cast<unsigned int *>(most);
    size = __reduce_max_sync(0xFFFFFFFFu, size);
    if (threadIdx.x % WARP == 0 && most && size > __ldcg(word)) atomicMax(word, size);
}

/* 8 numbers as bytes, in their order. */
template <typename Q, typename T>
static __device__ __forceinline__ uint2 eight_bytes(const pack<T, WIDE> &x, float s) {
    return uint2{quantized<Q>::four(x.at(0), x.at(1), x.at(2), x.at(3), s),
                 quantized<Q>::four(x.at(4), x.at(5), x.at(6), x.at(7), s)};
}

/* 4 x 4 bytes, transposed. */
static __device__ __forceinline__ uint4 turn_4(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    uint32_t ab = __byte_perm(a, b, 0x5140), cd = __byte_perm(c, d, 0x5140), ab_high = __byte_perm(a, b, 0x7362),
             cd_high = __byte_perm(c, d, 0x7362);
    return uint4{__byte_perm(ab, cd, 0x5410), __byte_perm(ab, cd, 0x7632), __byte_perm(ab_high, cd_high, 0x5410),
                 __byte_perm(ab_high, cd_high, 0x7632)};
}

/* 8 rows by 8 columns of bytes: row[i] becomes column i. */
static __device__ __forceinline__ void turn_8(uint2 (&row)[WIDE]) {
    uint4 top = turn_4(row[0].x, row[1].x, row[2].x, row[3].x), low = turn_4(row[4].x, row[5].x, row[6].x, row[7].x),
          top_right = turn_4(row[0].y, row[1].y, row[2].y, row[3].y),
          low_right = turn_4(row[4].y, row[5].y, row[6].y, row[7].y);
    row[0] = {top.x, low.x}, row[1] = {top.y, low.y}, row[2] = {top.z, low.z}, row[3] = {top.w, low.w};
    row[4] = {top_right.x, low_right.x}, row[5] = {top_right.y, low_right.y};
    row[6] = {top_right.z, low_right.z}, row[7] = {top_right.w, low_right.w};
}

/* Writes 8 rows by 8 columns from row t and column c on: their rows are q's. A warp whose threads have 4 such tiles of
 * adjacent rows, 8 of adjacent columns each, writes whole sectors of 32 bytes. */
static __device__ __forceinline__ void put_tile(const fp8_tensor &to, int64_t t, int64_t c, uint2 (&row)[WIDE]) {
    if (to.q)
#pragma unroll
        for (int i = 0; i < WIDE; i++) *reinterpret_cast<uint2 *>(to.q + (t + i) * to.cols + c) = row[i];
    if (!to.transposed) return;
    turn_8(row);
#pragma unroll
    for (int i = 0; i < WIDE; i++) *reinterpret_cast<uint2 *>(to.transposed + (c + i) * to.between + t) = row[i];
}

/* `transposed` of rows t .. t + 7 and columns c .. c + 7, from rows of bytes in shared memory, `pitch` apart. */
static __device__ __forceinline__ void put_transposed(const fp8_tensor &to, int64_t t, int64_t c, const uint8_t *bytes,
                                                      int pitch) {
    uint2 row[WIDE];
#pragma unroll
    for (int i = 0; i < WIDE; i++) row[i] = *reinterpret_cast<const uint2 *>(bytes + i * pitch);
    turn_8(row);
#pragma unroll
    for (int i = 0; i < WIDE; i++) *reinterpret_cast<uint2 *>(to.transposed + (c + i) * to.between + t) = row[i];
}

/* Operands of a call as its destination, with the shape of operand `like`. */
static inline fp8_tensor fp8_operands(const tri_call *call, int like, int q, int transposed, int most, int s) {
    int64_t rows = call->t[like].rows, cols = call->t[like].cols;
    return fp8_tensor{data<uint8_t>(call, q), data<uint8_t>(call, transposed), data<float>(call, most),
                      data<const float>(call, s), rows, cols, rows, call->dtype[call->t[q].data ? q : transposed]};
}

/* x [rows, cols] of T, or an activation of it (1 + a tri_activation; 0: none) as rounded to T, becomes `to`
 * (fp8.cu). */
template <typename T> void fp8_cast_to(const tri_call *call, const fp8_tensor &to, const T *x, int activation);

/* Runs of rows of a result in the computing type that only passes through the library's workspace. */
typedef struct fp8_run {
    char *at;            /* [most, cols] in the workspace */
    size_t taken;        /* bytes of the workspace */
    int64_t most;        /* rows that fit, a multiple of 16 */
} fp8_run;
template <typename T> static inline fp8_run fp8_run_of(const tri_call *call, int64_t cols) {
    tri_cuda *cuda = tri__cuda(call);
    size_t taken = cuda->blas_bytes / 4 * 3; /* the rest is the library's */
    int64_t rows = (int64_t)(taken / sizeof(T)) / cols / 16 * 16;
    return fp8_run{static_cast<char *>(cuda->blas_work) + cuda->blas_bytes - taken, taken, rows};
}
/* The same tensor's rows from `first` on. */
static inline fp8_tensor fp8_rows(const fp8_tensor &whole, int64_t first, int64_t rows) {
    fp8_tensor part = whole;
    if (part.q) part.q += first * whole.cols;
    if (part.transposed) part.transposed += first;
    part.rows = rows;
    return part;
}

/* Operand k of `to` becomes rows of one operand of `call`, from `first` on. */
static inline void put_rows(tri_call *to, int k, const tri_call *call, int from, int64_t first, int64_t rows) {
    to->t[k] = call->t[from], to->dtype[k] = call->dtype[from];
    to->t[k].rows = rows;
    if (to->t[k].data)
        to->t[k].data = static_cast<char *>(to->t[k].data) +
                        first * to->t[k].cols * (int64_t)tri__dtype_bytes((tri_dtype)to->dtype[k]);
}
