/* pool.cu - one row per packed sequence: its first token, or the mean of its tokens, of which this rank may have a run.
 * No sequence is empty. Also a rank's own rows of a matrix that all ranks have. */
#include "device/cuda/elementwise/map.cuh"
#include "layout/runs.h"

enum { THREADS = 256 };

/* One block per sequence; a thread handles every 256th column. */
template <typename T>
static __global__ void pool_kernel(int64_t rows, int part, int ring, int64_t cols, T *y, const T *x,
                                   const int32_t *seq, int mean) {
    int64_t s = blockIdx.x;
    tri_run_rows own = tri__run_of(seq, s, part, rows, ring);
    if (!mean) own.end = own.place == 0 && own.begin < own.end ? own.begin + 1 : own.begin;
    for (int64_t c = threadIdx.x; c < cols; c += THREADS) {
        float sum = 0;
        for (int64_t t = own.begin; t < own.end; t++) sum += wide(x[t * cols + c]);
        y[s * cols + c] = narrow<T>(mean ? sum / (float)(seq[s + 1] - seq[s]) : sum);
    }
}

/* One block per token. Its sequence is found by bisection; rows of none are padding. */
template <typename T>
static __global__ void pool_din_kernel(int64_t n, int64_t rows, int part, int ring, int64_t cols, T *dx, const T *dy,
                                       const int32_t *seq, int mean, int add) {
    int64_t row = blockIdx.x, t = ring ? row : part * rows + row, low = 0, high = n;
    while (low < high) { /* the last s that begins at or before t is in [low, high] */
        int64_t middle = (low + high + 1) / 2;
        if ((ring ? seq[middle] / ring + middle : seq[middle]) <= t) low = middle;
        else high = middle - 1;
    }
    int takes = low < n;
    if (takes) {
        tri_run_rows own = tri__run_of(seq, low, part, rows, ring);
        takes = row >= own.begin && row < own.end && (mean || (own.place == 0 && row == own.begin));
    }
    if (!takes && add) return;
    float factor = takes && mean ? 1.0f / (float)(seq[low + 1] - seq[low]) : 1.0f;
    for (int64_t c = threadIdx.x; c < cols; c += THREADS) {
        float value = takes ? wide(dy[low * cols + c]) * factor : 0.0f;
        dx[row * cols + c] = narrow<T>(value + (add ? wide(dx[row * cols + c]) : 0.0f));
    }
}

template <typename T> static void pool(const tri_call *call) {
    OPERANDS(pool);
    const tri_attr *attr = call->attr;
    int64_t to = call->t[ARG(y)].rows, from = call->t[ARG(x)].rows, cols = call->t[ARG(y)].cols;
    if (to * cols == 0) return;
    if (attr->back)
        queue(call, "pool", pool_din_kernel<T>, (unsigned)to, THREADS, from, to, attr->part, attr->members, cols,
              GIVEN(y), GIVEN(x), GIVEN(seq), attr->mean, adds(call, ARG(y)));
    else
        queue(call, "pool", pool_kernel<T>, (unsigned)to, THREADS, from, attr->part, attr->members, cols, GIVEN(y),
              GIVEN(x), GIVEN(seq), attr->mean);
}

template <typename T> static void tokens_whole_din(const tri_call *call) {
    OPERANDS(tokens_whole_din);
    int64_t n = elements(call, ARG(dx));
    map1_on<same_op, T, T>(call, n, data<T>(call, ARG(dx)), data<T>(call, ARG(dy)) + call->attr->part * n,
                           adds(call, ARG(dx)), "tokens_whole_din");
}

TRI_CUDA_FAMILY(pool) = {
    TRI_CUDA_ROWS(TRI_OP_tokens_whole_din, tokens_whole_din, {}),
    TRI_CUDA_ROWS(TRI_OP_tokens_own, tokens_whole_din, {}), /* operands in the same places */
    TRI_CUDA_ROWS(TRI_OP_pool, pool, {}),
    {},
};
