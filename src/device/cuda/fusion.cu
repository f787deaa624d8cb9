/* fusion.cu - concatenates the branches: columns of up to three matrices; and the reverse. */
#include "device/cuda/common.cuh"

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
    int64_t rows = call->t[ARG(y)].rows, cols = call->t[ARG(y)].cols, first = 0;
    for (int k = ARG(a); k <= ARG(c); k++) {
        int64_t width = call->t[k].data ? call->t[k].cols : 0;
        if (rows * width > 0)
            move_columns<T><<<blocks_for(rows * width, THREADS), THREADS, 0, stream(call)>>>(
                rows, cols, first, width, data<T>(call, ARG(y)), data<T>(call, k), 1, 0);
        first += width;
    }
    launched(call, "concat");
}

/* A part without a gradient still occupies columns of dy, so its width is given. */
template <typename T> static void concat_din(const tri_call *call) {
    OPERANDS(concat_din);
    int64_t rows = call->t[ARG(dy)].rows, cols = call->t[ARG(dy)].cols, first = 0;
    for (int k = ARG(da); k <= ARG(dc); k++) {
        int64_t width = call->t[k].cols;
        if (rows * width > 0 && call->t[k].data)
            move_columns<T><<<blocks_for(rows * width, THREADS), THREADS, 0, stream(call)>>>(
                rows, cols, first, width, data<T>(call, ARG(dy)), data<T>(call, k), 0, adds(call, k));
        first += width;
    }
    launched(call, "concat_din");
}

const tri_kernel_row tri__cuda_fusion[] = {
    TRI_CUDA_ROWS(TRI_OP_concat, concat, {}),
    TRI_CUDA_ROWS(TRI_OP_concat_din, concat_din, {}),
    {},
};
