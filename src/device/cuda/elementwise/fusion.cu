/* fusion.cu - concatenates the branches: columns of up to three matrices; and the reverse. Gates that scale
 * them. */
#include "device/cuda/runtime/common.cuh"

enum { THREADS = 256 };

/* Columns [first, first + width) of `joined` [rows, cols] from or to `part` [rows, width]. */
template <typename T>
static __global__ void move_columns(int64_t rows, int64_t cols, int64_t first, int64_t width, T *joined, T *part,
                                    int join, int add) {
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= rows * width) return;
    T *a = joined + i / width * cols + first + i % width, *to = join ? a : part + i;
    float value = wide(join ? part[i] : *a);
    *to = narrow<T>(value + (add ? wide(*to) : 0.0f));
}

template <typename T> static void concat(const tri_call *call) {
    OPERANDS(concat);
    int64_t rows = call->t[ARG(a)].rows, first = 0;
    int64_t cols = call->t[ARG(y)].rows * call->t[ARG(y)].cols / (rows ? rows : 1); /* of all, whatever y's rows */
    for (int k = ARG(a); k <= ARG(c); k++) {
        int64_t width = call->t[k].data ? call->t[k].cols : 0;
        if (rows * width > 0)
            queue(call, "concat", move_columns<T>, blocks_for(rows * width, THREADS), THREADS, rows, cols, first, width,
                  GIVEN(y), data<T>(call, k), 1, 0);
        first += width;
    }
}

/* A part without a gradient still occupies columns of dy, so its width is given. */
template <typename T> static void concat_din(const tri_call *call) {
    OPERANDS(concat_din);
    int64_t cols = call->t[ARG(da)].cols + call->t[ARG(db)].cols + call->t[ARG(dc)].cols, first = 0;
    int64_t rows = call->t[ARG(dy)].rows * call->t[ARG(dy)].cols / cols;
    for (int k = ARG(da); k <= ARG(dc); k++) {
        int64_t width = call->t[k].cols;
        if (rows * width > 0 && call->t[k].data)
            queue(call, "concat_din", move_columns<T>, blocks_for(rows * width, THREADS), THREADS, rows, cols, first,
                  width, GIVEN(dy), data<T>(call, k), 0, adds(call, k));
        first += width;
    }
}

static __device__ __forceinline__ float logistic(float z) { return 1.0f / (1.0f + expf(-z)); }

template <typename T> static __global__ void gate_kernel(int64_t n, T *y, const T *x, const T *z) {
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < n) y[i] = narrow<T>(wide(x[i]) * logistic(wide(z[i])));
}

template <typename T>
static __global__ void gate_din_kernel(int64_t n, T *dx, T *dz, const T *dy, const T *x, const T *z, int add_x,
                                       int add_z) {
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    float d = wide(dy[i]), s = logistic(wide(z[i])), to_z[1] = {d * wide(x[i]) * s * logistic(-wide(z[i]))},
          to_x[1] = {d * s};
    put<1>(dx + i, to_x, add_x), put<1>(dz + i, to_z, add_z);
}

template <typename T> static void gate(const tri_call *call) {
    OPERANDS(gate);
    queue_each(call, "gate", gate_kernel<T>, elements(call, ARG(y)), THREADS, GIVEN(y), GIVEN(x), GIVEN(z));
}

template <typename T> static void gate_din(const tri_call *call) {
    OPERANDS(gate_din);
    queue_each(call, "gate_din", gate_din_kernel<T>, elements(call, ARG(dy)), THREADS, GIVEN(dx), GIVEN(dz), GIVEN(dy),
               GIVEN(x), GIVEN(z), adds(call, ARG(dx)), adds(call, ARG(dz)));
}

TRI_CUDA_FAMILY(fusion) = {
    TRI_CUDA_ROWS(TRI_OP_concat, concat, {}),
    TRI_CUDA_ROWS(TRI_OP_concat_din, concat_din, {}),
    TRI_CUDA_ROWS(TRI_OP_gate, gate, {}),
    TRI_CUDA_ROWS(TRI_OP_gate_din, gate_din, {}),
    {},
};
