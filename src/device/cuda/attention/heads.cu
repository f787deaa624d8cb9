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

template <typename T> static void exchange(const tri_call *call, int to, int from, int wide) {
    int64_t R = call->t[wide].rows, D = call->t[wide].cols;
    if (R == 0) return;
    heads_kernel<T><<<(unsigned)R, THREADS, 0, stream(call)>>>(
        R, D, call->attr->members, call->attr->groups, to == wide ? data<T>(call, to) : nullptr,
        from == wide ? data<T>(call, from) : nullptr, to == wide ? nullptr : data<T>(call, to),
        from == wide ? nullptr : data<T>(call, from), adds(call, to));
    launched(call, "heads");
}

template <typename T> static void heads_part(const tri_call *call) {
    OPERANDS(heads_part);
    exchange<T>(call, ARG(y), ARG(x), ARG(x));
}

template <typename T> static void heads_part_din(const tri_call *call) {
    OPERANDS(heads_part_din);
    exchange<T>(call, ARG(dx), ARG(dy), ARG(dx));
}

template <typename T> static void heads_join(const tri_call *call) {
    OPERANDS(heads_join);
    exchange<T>(call, ARG(y), ARG(x), ARG(y));
}

template <typename T> static void heads_join_din(const tri_call *call) {
    OPERANDS(heads_join_din);
    exchange<T>(call, ARG(dx), ARG(dy), ARG(dy));
}

template <typename T> static void heads_own(const tri_call *call) {
    OPERANDS(heads_own);
    int64_t C = call->t[ARG(x)].cols;
    if (call->t[ARG(y)].rows == 0) return;
    own_kernel<T><<<(unsigned)call->t[ARG(y)].rows, THREADS, 0, stream(call)>>>(
        call->t[ARG(y)].cols, C, call->attr->part * C, data<T>(call, ARG(y)), data<T>(call, ARG(x)),
        adds(call, ARG(y)));
    launched(call, "heads_own");
}

template <typename T> static void heads_own_din(const tri_call *call) {
    OPERANDS(heads_own_din);
    int64_t C = call->t[ARG(dx)].cols;
    if (call->t[ARG(dx)].rows == 0) return;
    own_din_kernel<T><<<(unsigned)call->t[ARG(dx)].rows, THREADS, 0, stream(call)>>>(
        call->t[ARG(dy)].cols, C, call->attr->part * C, data<T>(call, ARG(dx)), data<T>(call, ARG(dy)),
        adds(call, ARG(dx)));
    launched(call, "heads_own_din");
}

const tri_kernel_row tri__cuda_heads[] = {
    TRI_CUDA_ROWS(TRI_OP_heads_part, heads_part, {}),
    TRI_CUDA_ROWS(TRI_OP_heads_part_din, heads_part_din, {}),
    TRI_CUDA_ROWS(TRI_OP_heads_join, heads_join, {}),
    TRI_CUDA_ROWS(TRI_OP_heads_join_din, heads_join_din, {}),
    TRI_CUDA_ROWS(TRI_OP_heads_own, heads_own, {}),
    TRI_CUDA_ROWS(TRI_OP_heads_own_din, heads_own_din, {}),
    {},
};
