/* rope.cu - rotary positions of queries and keys, and the gradient: rotated back. A block handles one token: its sines
 * and cosines are the same in all heads. */
#include "device/cuda/runtime/common.cuh"
#include "numbers/rope.h"

enum { THREADS = 128, MOST_TURNS = 128 }; /* half the columns of a head */

typedef struct rope_args {
    void *y;                /* [T,3H] query | key | value; may be x */
    const void *x;
    const int32_t *pos;     /* [T] */
    int64_t cols;           /* 3H */
    int half, heads;        /* columns of half a head */
    int add;
    float sign;             /* of the angles */
    float turn[MOST_TURNS]; /* angles of one position */
} rope_args;

/* N columns at a time. A thread's first columns are loaded before the angles are computed. */
template <typename T, int N> static __global__ void __launch_bounds__(THREADS) rope_kernel(rope_args a) {
    __shared__ float cosine[MOST_TURNS], sine[MOST_TURNS];
    int64_t t = blockIdx.x;
    T *y = (T *)a.y + t * a.cols;
    const T *x = (const T *)a.x + t * a.cols;
    int each = a.half / N, rotated = 2 * a.heads * each, value = (int)(a.cols / 3), i = threadIdx.x;
    int copied = a.y == a.x && !a.add ? 0 : value, c = i * N;
    pack<T, N> first = {}, second = {}, copy = {};
    auto at = [&](int i) { return i / each * 2 * a.half + i % each * N; };
    if (i < rotated) first = packed<N>(x + at(i)), second = packed<N>(x + at(i) + a.half);
    if (c < copied) copy = packed<N>(x + 2 * value + c);
    for (int j = threadIdx.x; j < a.half; j += THREADS) {
        float s, c;
        sincosf(tri__rope_angle(a.pos[t], a.turn[j]), &s, &c);
        cosine[j] = c, sine[j] = a.sign * s;
    }
    __syncthreads();
    while (i < rotated) {
        int j = i % each * N;
        float p[N], q[N];
#pragma unroll
        for (int k = 0; k < N; k++) {
            p[k] = first.at(k) * cosine[j + k] - second.at(k) * sine[j + k];
            q[k] = second.at(k) * cosine[j + k] + first.at(k) * sine[j + k];
        }
        put<N>(y + at(i), p, a.add), put<N>(y + at(i) + a.half, q, a.add);
        if ((i += THREADS) < rotated) first = packed<N>(x + at(i)), second = packed<N>(x + at(i) + a.half);
    }
    while (c < copied) {
        float v[N];
#pragma unroll
        for (int k = 0; k < N; k++) v[k] = copy.at(k);
        put<N>(y + 2 * value + c, v, a.add);
        if ((c += THREADS * N) < copied) copy = packed<N>(x + 2 * value + c);
    }
}

template <typename T> static void rope(const tri_call *call) {
    OPERANDS(rope);
    rope_args a = {};
    a.y = GIVEN(y), a.x = GIVEN(x), a.pos = GIVEN(pos);
    a.cols = call->t[ARG(y)].cols, a.heads = call->attr->heads, a.add = adds(call, ARG(y));
    a.sign = call->attr->back ? -1.0f : 1.0f;
    int64_t rows = call->t[ARG(y)].rows, width = a.cols / 3 / a.heads;
    a.half = (int)(width / 2);
    if (elements(call, ARG(y)) == 0) return;
    if (a.half > MOST_TURNS) {
        record(call, cudaErrorNotSupported, "rope: heads of more than 256 columns");
        return;
    }
    for (int j = 0; j < a.half; j++) a.turn[j] = tri__rope_turn(call->attr->theta, j, width);
    by_width(a.half % WIDE == 0 && aligned(a.y, a.x),
             [&](auto n) { queue(call, "rope", rope_kernel<T, n>, (unsigned)rows, THREADS, a); });
}

TRI_CUDA_FAMILY(rope) = {
    TRI_CUDA_ROWS(TRI_OP_rope, rope, {}),
    {},
};
