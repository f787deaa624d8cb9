/* heads.cu - heads of a rank's tokens, against tokens of a rank's heads: the layouts that ranks of context parallelism
 * exchange (device/cpu/reference/heads.c). */
#include "device/cuda/runtime/common.cuh"

enum { THREADS = 256 };

/* One block per row of the wide matrix [R, D]; a thread handles every 256th column. to_wide: which one is written. */
template <typename T>
static __global__ void heads_kernel(int64_t rows, int64_t D, int members, int groups, T *wide_to, const T *wide_from,
                                    T *apart_to, const T *apart_from, int add) {
    int64_t t = blockIdx.x, G = D / members, part = G / groups;
    for (int64_t c = threadIdx.x; c < D; c += THREADS) {
        int64_t group = c / (part * members), k = c / part % members;
        int64_t beside = t * D + c, apart = (k * rows + t) * G + group * part + c % part;
        T *to = wide_to ? wide_to + beside : apart_to + apart;
        T value = wide_to ? apart_from[apart] : wide_from[beside];
        *to = add ? narrow<T>(wide(*to) + wide(value)) : value;
    }
}

/* One block per row: the columns [at, at + C) of the wide matrix [N, H] are those of the narrow one [N, C]. */
template <typename T>
static __global__ void own_kernel(int64_t H, int64_t C, int64_t at, T *y, const T *x, int add) {
    for (int64_t c = threadIdx.x; c < H; c += THREADS) {
        T *to = y + blockIdx.x * H + c;
        float value = c >= at && c < at + C ? wide(x[blockIdx.x * C + c - at]) : 0.0f;
        *to = narrow<T>(add ? wide(*to) + value : value);
    }
}

template <typename T>
static __global__ void own_din_kernel(int64_t H, int64_t C, int64_t at, T *dx, const T *dy, int add) {
    for (int64_t c = threadIdx.x; c < C; c += THREADS) {
        T *to = dx + blockIdx.x * C + c;
        *to = narrow<T>((add ? wide(*to) : 0.0f) + wide(dy[blockIdx.x * H + at + c]));
    }
}

template <typename T> static void heads(const tri_call *call) {
    OPERANDS(heads);
    int to_wide = call->attr->join != call->attr->back, wide = to_wide ? ARG(y) : ARG(x);
    T *y = GIVEN(y), *none = nullptr;
    const T *x = GIVEN(x);
    if (call->t[wide].rows)
        queue(call, "heads", heads_kernel<T>, (unsigned)call->t[wide].rows, THREADS, call->t[wide].rows,
              call->t[wide].cols, call->attr->members, call->attr->groups, to_wide ? y : none, to_wide ? none : x,
              to_wide ? none : y, to_wide ? x : none, adds(call, ARG(y)));
}

template <typename T> static void heads_own(const tri_call *call) {
    OPERANDS(heads_own);
    int64_t to = call->t[ARG(y)].cols, from = call->t[ARG(x)].cols;
    unsigned rows = (unsigned)call->t[ARG(y)].rows;
    if (rows == 0) return;
    if (call->attr->back)
        queue(call, "heads_own", own_din_kernel<T>, rows, THREADS, from, to, call->attr->part * to, GIVEN(y), GIVEN(x),
              adds(call, ARG(y)));
    else
        queue(call, "heads_own", own_kernel<T>, rows, THREADS, to, from, call->attr->part * from, GIVEN(y), GIVEN(x),
              adds(call, ARG(y)));
}

TRI_CUDA_FAMILY(heads) = {
    TRI_CUDA_ROWS(TRI_OP_heads, heads, {}),
    TRI_CUDA_ROWS(TRI_OP_heads_own, heads_own, {}),
    {},
};
