/* dropout.cu - dropout, with the decisions of base/random.h, the sum of a residual connection, and the factor of what
 * is added to it. */
#include "device/cuda/elementwise/map.cuh"

/* y = x * keep. A thread handles the 8 features of one draw; N is 8 if they are aligned, else 1. */
template <typename T, int N>
static __global__ void dropout_kernel(int64_t rows, int64_t cols, T *y, const T *x, const int32_t *key, dropper d,
                                      int add) {
    int64_t groups = (cols + WIDE - 1) / WIDE, i = (int64_t)blockIdx.x * MAP_THREADS + threadIdx.x;
    if (i >= rows * groups) return;
    int64_t t = i / groups, group = i % groups, at = t * cols + group * WIDE;
    int n = cols - group * WIDE < WIDE ? (int)(cols - group * WIDE) : WIDE;
    float v[WIDE];
    if (N == WIDE) load<WIDE>(x + at, v);
    else
        for (int k = 0; k < WIDE; k++) v[k] = k < n ? wide(x[at + k]) : 0.0f;
    drop(d, key, t, (uint32_t)group, v);
    if (N == WIDE) put<WIDE>(y + at, v, add);
    else
        for (int k = 0; k < n; k++) y[at + k] = narrow<T>(v[k] + (add ? wide(y[at + k]) : 0.0f));
}

/* Both directions: y = x * keep, dx = dy * keep. */
template <typename T> static void dropout(const tri_call *call) {
    OPERANDS(dropout);
    T *y = GIVEN(y);       /* [T,H] */
    const T *x = GIVEN(x); /* [T,H] */
    int64_t rows = call->t[ARG(y)].rows, cols = call->t[ARG(y)].cols, groups = (cols + WIDE - 1) / WIDE;
    if (rows * cols == 0) return;
    by_width(cols % WIDE == 0 && aligned(x, y), [&](auto n) {
        queue(call, "dropout", dropout_kernel<T, n>, blocks_for(rows * groups, MAP_THREADS), MAP_THREADS, rows, cols, y,
              x, GIVEN(key), dropper_of(call), adds(call, ARG(y)));
    });
}

template <typename T> static void add(const tri_call *call) {
    OPERANDS(add);
    map2<sum_op, T>(call, ARG(y), ARG(a), ARG(b), "add");
}

/* da and db (+)= dy, which is read once. */
template <typename T>
static __global__ void share_kernel(int64_t n, T *da, T *db, const T *dy, int add_a, int add_b) {
    int64_t i = ((int64_t)blockIdx.x * MAP_THREADS + threadIdx.x) * WIDE;
    if (i >= n) return;
    float a[WIDE], b[WIDE];
    load<WIDE>(dy + i, a);
#pragma unroll
    for (int k = 0; k < WIDE; k++) b[k] = a[k];
    put<WIDE>(da + i, a, add_a), put<WIDE>(db + i, b, add_b);
}

template <typename T> static void add_din(const tri_call *call) {
    OPERANDS(add_din);
    int64_t n = elements(call, ARG(dy));
    T *da = GIVEN(da), *db = GIVEN(db);
    const T *dy = GIVEN(dy);
    if (db && n > 0 && n % WIDE == 0 && aligned(da, db, dy)) {
        queue(call, "add_din", share_kernel<T>, blocks_for(n, MAP_THREADS * WIDE), MAP_THREADS, n, da, db, dy,
              adds(call, ARG(da)), adds(call, ARG(db)));
        return;
    }
    map1<same_op, T, T>(call, ARG(da), ARG(dy), "add_din");
    map1<same_op, T, T>(call, ARG(db), ARG(dy), "add_din");
}

/* y = s * x, or y += s * x. A thread handles N elements, 8 if they are aligned. */
template <typename T, int N>
static __global__ void scale_kernel(int64_t n, T *y, const T *x, const float *s, int add) {
    int64_t i = ((int64_t)blockIdx.x * MAP_THREADS + threadIdx.x) * N;
    float factor = *s;
    if (i + N <= n) {
        float v[N];
        load<N>(x + i, v);
#pragma unroll
        for (int k = 0; k < N; k++) v[k] *= factor;
        put<N>(y + i, v, add);
    } else
        for (; i < n; i++) {
            float v[1] = {wide(x[i]) * factor};
            put<1>(y + i, v, add);
        }
}

/* Both directions: y = s * x, dx = s * dy. */
template <typename T> static void scale(const tri_call *call) {
    OPERANDS(scale);
    T *y = GIVEN(y);       /* [T,H] */
    const T *x = GIVEN(x); /* [T,H] */
    int64_t n = elements(call, ARG(y));
    if (n == 0) return;
    by_width(aligned(y, x), [&](auto each) {
        queue(call, "scale", scale_kernel<T, each>, blocks_for(n, MAP_THREADS * each), MAP_THREADS, n, y, x, GIVEN(s),
              adds(call, ARG(y)));
    });
}

TRI_CUDA_FAMILY(dropout) = {
    TRI_CUDA_ROWS(TRI_OP_dropout, dropout, {}),
    TRI_CUDA_ROWS(TRI_OP_add, add, {}),
    TRI_CUDA_ROWS(TRI_OP_add_din, add_din, {}),
    TRI_CUDA_ROWS(TRI_OP_scale, scale, {}),
    {},
};
