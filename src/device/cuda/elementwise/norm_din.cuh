/* norm_din.cuh - the gradient of layer normalisation over a run of rows, through the preceding residual and dropout,
 * with the sums over tokens of the same values: some rows are in registers, and the next are being loaded. */
#pragma once

#include "device/cuda/elementwise/columns.cuh"

typedef struct norm_din_args {
    const void *dy, *xhat, *g; /* [T,H] [T,H] [H] */
    void *dx, *dres;           /* [T,H]; dres may be NULL */
    const float *rstd;         /* [T] */
    const int32_t *key;        /* [T,2] or NULL */
    const float *s;            /* [1] a factor of dx; NULL: none */
    float *part;               /* [blocks,3,H]: sums of dy, of dy * xhat, of dx; NULL: none requested */
    int64_t rows, cols;
    int add_dx, add_dres;
    dropper drop;              /* of dx */
} norm_din_args;

/* All but the partial sums. */
static inline norm_din_args norm_din_args_of(const tri_call *call) {
    OPERANDS(norm_din);
    norm_din_args a = {};
    a.dx = GIVEN(dx), a.add_dx = adds(call, ARG(dx)), a.dres = GIVEN(dres), a.add_dres = adds(call, ARG(dres));
    a.dy = GIVEN(dy), a.xhat = GIVEN(xhat), a.rstd = GIVEN(rstd), a.g = GIVEN(g), a.key = GIVEN(key), a.s = GIVEN(s);
    a.drop = dropper_of(call);
    a.rows = call->t[ARG(dy)].rows, a.cols = call->t[ARG(dy)].cols;
    return a;
}

enum { DIN_WARPS = 10 }; /* the most warps per row: 2560 columns */

/* Sums of n values over the block, in an order fixed by the shape; `turn` alternates between calls. */
template <int N> static __device__ __forceinline__ void block_sums(float (&x)[N], int turn) {
    __shared__ alignas(16) float shared[2][DIN_WARPS][N];
    int warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
#pragma unroll
    for (int k = 0; k < N; k++) x[k] = warp_sum(x[k]);
    if (threadIdx.x % WARP == 0) store<N>(shared[turn][warp], x);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < N; k++) x[k] = 0;
    for (int w = 0; w < warps; w++) {
        float more[N];
        load<N>(shared[turn][w], more);
#pragma unroll
        for (int k = 0; k < N; k++) x[k] += more[k];
    }
}

/* ROWS rows of a thread's inputs, from element `at` on. */
template <typename T, int ROWS> struct din_rows {
    pack<T, WIDE> dy[ROWS], xhat[ROWS];
    __device__ __forceinline__ void read(const norm_din_args &a, int64_t at, int rows) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (r >= rows) continue;
            dy[r] = packed<WIDE>((const T *)a.dy + at + r * a.cols);
            xhat[r] = packed<WIDE>((const T *)a.xhat + at + r * a.cols);
        }
    }
};

/* A block handles a run of rows, ROWS at a time, and a thread 8 columns of each, whose sums stay in registers. The next
 * rows are loaded while these are computed. end.put(t, c, dx) takes 8 columns of a row of dx, and returns them as
 * rounded; end.pause(t) is called by all threads when all rows before t have been put. */
template <typename T, class End>
static __device__ __forceinline__ void norm_din_run(const norm_din_args &a, run_of_rows run, End &end) {
    enum { ROWS = sizeof(T) == 2 ? 2 : 1 };
    int c = threadIdx.x * WIDE, there = c < a.cols, turn = 0, left = (int)(run.end - run.begin);
    int64_t t = run.begin, at = t * a.cols + c;
    float db[WIDE] = {}, dg[WIDE] = {}, dbias[WIDE] = {}, share = 1.0f / (float)a.cols;
    float factor = a.s ? *a.s : 1.0f;
    pack<T, WIDE> g = {};
    din_rows<T, ROWS> next;
    if (there) g = packed<WIDE>((const T *)a.g + c), next.read(a, at, left);
    for (; left > 0; left -= ROWS, t += ROWS, at += ROWS * a.cols, turn ^= 1) {
        float rstd[ROWS], sum[2 * ROWS] = {}; /* of dy * g, and of it times xhat */
        uint32_t bits = 0;                    /* decisions: 8 per row */
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (r >= left) continue;
            rstd[r] = a.rstd[t + r];
            if (a.drop.threshold)
                bits |= kept_bits(a.drop, *a.drop.step, (uint32_t)a.key[2 * (t + r)], (uint32_t)a.key[2 * (t + r) + 1],
                                  threadIdx.x)
                        << 8 * r;
        }
        din_rows<T, ROWS> now = next;
        if (there) next.read(a, at + ROWS * a.cols, left - ROWS);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (r >= left || !there) continue;
#pragma unroll
            for (int i = 0; i < WIDE; i++) {
                float d = now.dy[r].at(i) * g.at(i);
                sum[2 * r] += d, sum[2 * r + 1] = fmaf(d, now.xhat[r].at(i), sum[2 * r + 1]);
            }
        }
        block_sums(sum, turn);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (r >= left || !there) continue;
            float value[WIDE], dropped[WIDE], mean = sum[2 * r] * share, mean_xhat = sum[2 * r + 1] * share;
#pragma unroll
            for (int i = 0; i < WIDE; i++) {
                float d = now.dy[r].at(i), x = now.xhat[r].at(i);
                db[i] += d, dg[i] = fmaf(d, x, dg[i]);
                value[i] = rstd[r] * (d * g.at(i) - mean - x * mean_xhat);
                dropped[i] = !a.drop.threshold ? value[i] : bits >> (8 * r + i) & 1 ? value[i] * a.drop.scale : 0.0f;
                dropped[i] *= factor;
            }
            if (a.dres) put<WIDE>((T *)a.dres + at + r * a.cols, value, a.add_dres);
            pack<T, WIDE> dx = end.put(t + r, c, dropped);
#pragma unroll
            for (int i = 0; i < WIDE; i++)
                dbias[i] = __fadd_rn(dbias[i], dx.at(i)); /* never fused into an FMA: the sum of rounded values */
        }
        end.pause(t + min(left, (int)ROWS));
    }
    if (!a.part || !there) return;
    float *part = a.part + (int64_t)blockIdx.x * 3 * a.cols + c;
    store<WIDE>(part, db), store<WIDE>(part + a.cols, dg), store<WIDE>(part + 2 * a.cols, dbias);
}
