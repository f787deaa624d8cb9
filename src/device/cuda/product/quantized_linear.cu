/* quantized_linear.cu - dense layers with 8-bit factors, and the gradients of int8 ones. Forward: one kernel on Hopper
 * (fused_product.cu, narrow_product.cu); else products by cuBLASLt, whose sums pass through its workspace, and a pass
 * over them; else, for widths that the library does not take, a plain kernel. The gradients' factor scale * q is
 * written to the workspace in the computing type. */
#include "device/cuda/product/fused_product.cuh"
#include "device/cuda/elementwise/activation.cuh"
#include "device/cuda/product/product.cuh"
#include "device/cuda/product/quantize.cuh"

enum { THREADS = 256, PLAIN_COLS = 32, PLAIN_ROWS = 8 };

/* What follows the sums. */
typedef struct end_args {
    void *y, *h;         /* [rows, cols]; h may be NULL */
    const float *s, *ws; /* [rows] [cols] */
    const void *b;       /* [cols] or NULL */
    int64_t rows, cols;
    int act;             /* a tri_activation, or NO_ACT */
} end_args;

/* One result of the sum at row t and column c; every operation is rounded to fp32, none is contracted. */
template <typename T>
static __device__ __forceinline__ void put_result(const end_args &a, int64_t t, int64_t c, float sum) {
    float value = __fmul_rn(sum, __fmul_rn(a.s[t], a.ws[c]));
    if (a.b) value = __fadd_rn(value, wide(((const T *)a.b)[c]));
    T rounded = narrow<T>(value);
    if (a.h) ((T *)a.h)[t * a.cols + c] = rounded;
    ((T *)a.y)[t * a.cols + c] = a.act == NO_ACT ? rounded : narrow<T>(act_at<ANY_ACT, T>(a.act, wide(rounded)));
}

/* sums: [rows, cols] of the rows from `first` on; words are int32. */
template <typename Sum, typename T> static __global__ void end_kernel(end_args a, const Sum *sums, int64_t first) {
    int64_t c = (int64_t)blockIdx.y * THREADS + threadIdx.x;
    if (c < a.cols) put_result<T>(a, first + blockIdx.x, c, number(sums[blockIdx.x * a.cols + c]));
}

/* x [rows, in], w [cols, in], of Q */
template <typename Q, typename T>
static __global__ void plain_kernel(end_args a, const Q *x, const Q *w, int64_t in) {
    int64_t c = (int64_t)blockIdx.y * PLAIN_COLS + threadIdx.x, t = (int64_t)blockIdx.x * PLAIN_ROWS + threadIdx.y;
    if (c >= a.cols || t >= a.rows) return;
    if constexpr (std::is_same<Q, int8_t>::value) {
        int32_t sum = 0;
        for (int64_t i = 0; i < in; i++) sum += (int32_t)x[t * in + i] * w[c * in + i];
        put_result<T>(a, t, c, number((uint32_t)sum));
    } else {
        float sum = 0;
        for (int64_t i = 0; i < in; i++) sum = fmaf((float)x[t * in + i], (float)w[c * in + i], sum);
        put_result<T>(a, t, c, sum);
    }
}

/* As many rows at a time as the workspace has room for. 0: the library cannot, and nothing was written. */
template <typename Q, typename T>
static int by_library(const tri_call *call, const end_args &a) {
    OPERANDS(linear);
    typedef typename std::conditional<std::is_same<Q, int8_t>::value, uint32_t, float>::type sum;
    tri_cuda *cuda = tri__cuda(call);
    const Q *x = data<Q>(call, ARG(x)), *w = data<Q>(call, ARG(w));
    int64_t in = call->t[ARG(w)].cols, most = (int64_t)(cuda->blas_bytes / sizeof(sum)) / a.cols / 16 * 16;
    if (in % 16 || a.cols % 16 || !aligned(x) || !aligned(w) || most == 0) return 0;
    for (int64_t first = 0; first < a.rows; first += most) {
        int64_t rows = a.rows - first < most ? a.rows - first : most;
        int type = call->dtype[ARG(x)];
        product p = new_product(a.cols, rows, in, type, type == TRI_I8 ? TRI_I32 : TRI_F32);
        p.shape.a_transposed = 1;
        p.a = w, p.lda = in, p.b = x + first * in, p.ldb = in, p.d = cuda->blas_work, p.taken = cuda->blas_bytes;
        if (!try_multiply(call, &p)) return 0; /* the first time, if ever */
        queue(call, "linear", end_kernel<sum, T>, dim3((unsigned)rows, blocks_for(a.cols, THREADS)), THREADS, a,
              static_cast<const sum *>(cuda->blas_work), first);
    }
    return 1;
}

template <typename Q, typename T> static void forward(const tri_call *call, const char *where) {
    OPERANDS(linear);
    end_args a = {GIVEN(y), GIVEN(h),             GIVEN(s),             GIVEN(ws),
                  GIVEN(b), call->t[ARG(x)].rows, call->t[ARG(w)].rows, act_after(call)};
    if (a.rows * a.cols == 0 || fused_product(call, where) || narrow_product(call, where)) return;
    if (!by_library<Q, T>(call, a))
        queue(call, where, plain_kernel<Q, T>, dim3(blocks_for(a.rows, PLAIN_ROWS), blocks_for(a.cols, PLAIN_COLS)),
              dim3(PLAIN_COLS, PLAIN_ROWS), a, GIVEN(x), GIVEN(w), call->t[ARG(w)].cols);
}

template <typename T> static void linear_int8(const tri_call *call) { forward<int8_t, T>(call, "linear_int8"); }
template <typename T> static void linear_fp8(const tri_call *call) { forward<e4m3, T>(call, "linear_fp8"); }

/* ---- Gradients ---- */

/* N columns from `first` on of scale * q, q [rows, cols], to [rows, n]. */
template <typename T, int N>
static __global__ void restore_kernel(int64_t rows, int64_t cols, int64_t first, int64_t n, const int8_t *q,
                                      const float *scale, T *to) {
    int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * N, t = i / n, c = i % n;
    if (t >= rows) return;
    float s = scale[t], x[N];
#pragma unroll
    for (int k = 0; k < N; k++) x[k] = s * (float)q[t * cols + first + c + k];
    store<N>(to + i, x);
}

/* A run of columns of scale * q in the workspace. */
typedef struct restored {
    char *at;
    size_t taken;
    int64_t most; /* elements that fit */
} restored;
template <typename T> static restored room_for(const tri_call *call) {
    tri_cuda *cuda = tri__cuda(call);
    size_t taken = cuda->blas_bytes / 4 * 3; /* the rest is the library's */
    return restored{static_cast<char *>(cuda->blas_work) + cuda->blas_bytes - taken, taken,
                    (int64_t)(taken / sizeof(T))};
}
/* Columns of that many rows that fit: all, or a multiple of 64. */
static int64_t columns_that_fit(const restored &r, int64_t rows, int64_t cols) {
    int64_t fit = r.most / rows;
    return fit >= cols ? cols : fit > 64 ? fit / 64 * 64 : fit;
}
template <typename T>
static void restore(const tri_call *call, const restored &r, const tri_tensor *q, const float *scale, int64_t row,
                    int64_t rows, int64_t first, int64_t n) {
    const int8_t *from = static_cast<const int8_t *>(q->data) + row * q->cols;
    by_width<4>(n % 4 == 0, [&](auto each) {
        queue(call, "restoring 8-bit numbers", restore_kernel<T, each>, blocks_for(rows * n, THREADS * each), THREADS,
              rows, q->cols, first, n, from, scale + row, (T *)r.at);
    });
}

/* dq [T,I] = dy [T,O] (ws [O] * w [O,I]) */
template <typename T> static void linear_int8_din(const tri_call *call) {
    OPERANDS(linear_din);
    const tri_tensor *w = &call->t[ARG(w)];
    int64_t rows = call->t[ARG(dy)].rows, out = w->rows, in = w->cols;
    restored r = room_for<T>(call);
    if (rows == 0) return;
    for (int64_t first = 0, n = columns_that_fit(r, out, in); first < in; first += n) {
        if (n > in - first) n = in - first;
        restore<T>(call, r, w, data<float>(call, ARG(ws)), 0, out, first, n);
        product p = new_product(n, rows, out, call->dtype[ARG(dy)], call->dtype[ARG(dx)]);
        p.a = r.at, p.lda = n, p.b = call->t[ARG(dy)].data, p.ldb = out, p.d = data<T>(call, ARG(dx)) + first;
        p.ldd = in, p.shape.add = adds(call, ARG(dx)), p.taken = r.taken;
        multiply(call, &p, "linear_int8_din");
    }
}

/* dw [O,I] = dy [T,O]^T (s [T] * q [T,I]) */
template <typename T> static void linear_int8_dw(const tri_call *call) {
    OPERANDS(linear_dw);
    const tri_tensor *q = &call->t[ARG(x)];
    int64_t tokens = call->t[ARG(dy)].rows, out = call->t[ARG(dw)].rows, in = q->cols;
    size_t bytes = tri__dtype_bytes((tri_dtype)call->dtype[ARG(dw)]);
    restored r = room_for<T>(call);
    if (tokens == 0) clear(call, ARG(dw), "linear_int8_dw");
    for (int64_t token = 0, rows = min(tokens, r.most / 64); token < tokens; token += rows) {
        if (rows > tokens - token) rows = tokens - token;
        for (int64_t first = 0, n = columns_that_fit(r, rows, in); first < in; first += n) {
            if (n > in - first) n = in - first;
            restore<T>(call, r, q, data<float>(call, ARG(s)), token, rows, first, n);
            product p = new_product(n, out, rows, call->dtype[ARG(dy)], call->dtype[ARG(dw)]);
            p.shape.b_transposed = 1, p.tokens_in_k = 1, p.shape.add = adds(call, ARG(dw)) || token > 0;
            p.a = r.at, p.lda = n, p.b = data<T>(call, ARG(dy)) + token * out, p.ldb = out;
            p.d = data<char>(call, ARG(dw)) + (size_t)first * bytes, p.ldd = in, p.taken = r.taken;
            multiply(call, &p, "linear_int8_dw");
        }
    }
}

TRI_CUDA_FAMILY(quantized_linear) = {
    TRI_CUDA_FACT_ROWS(TRI_FACT_QUANT, TRI_OP_linear, linear_int8, {}),
    TRI_CUDA_FACT_ROWS(TRI_FACT_QUANT | TRI_FACT_ACT, TRI_OP_linear, linear_int8, {}),
    TRI_CUDA_FACT_ROWS(TRI_FACT_QUANT | TRI_FACT_FP8, TRI_OP_linear, linear_fp8, {}),
    TRI_CUDA_FACT_ROWS(TRI_FACT_QUANT | TRI_FACT_FP8 | TRI_FACT_ACT, TRI_OP_linear, linear_fp8, {}),
    TRI_CUDA_FACT_ROWS(TRI_FACT_QUANT, TRI_OP_linear_din, linear_int8_din, {}),
    TRI_CUDA_FACT_ROWS(TRI_FACT_QUANT, TRI_OP_linear_dw, linear_int8_dw, {}),
    {},
};
