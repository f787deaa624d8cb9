/* norm.cuh - a row of layer normalisation, with the preceding dropout and residual, held in registers by the warps that
 * share it: every operand is read once. */
#pragma once

#include "device/cuda/runtime/common.cuh"

enum {
    ROW_WARPS = 4,
    MOST_PACKS = 3
}; /* most warps of a row; packs of 8 elements per lane: rows of up to 3072 by four warps */

typedef struct norm_args {
    const void *x, *res, *g, *b; /* [T,H] [T,H] or NULL, [H] [H] or NULL */
    void *y, *xhat;              /* [T,H]; xhat may be NULL */
    float *rstd;                 /* [T] or NULL */
    const int32_t *key;          /* [T,2] or NULL */
    const float *s;              /* [1] the factor of x before dropout; NULL: none */
    int64_t rows, cols;
    float eps;
    dropper drop;
} norm_args;

static inline norm_args norm_args_of(const tri_call *call) {
    OPERANDS(norm);
    norm_args a = {};
    a.x = GIVEN(x), a.res = GIVEN(res), a.g = GIVEN(g), a.b = GIVEN(b), a.y = GIVEN(y), a.xhat = GIVEN(xhat);
    a.rstd = GIVEN(rstd), a.key = GIVEN(key), a.s = GIVEN(s), a.drop = dropper_of(call);
    a.rows = call->t[ARG(y)].rows, a.cols = call->t[ARG(y)].cols, a.eps = call->attr->eps;
    return a;
}

/* Row t by W warps, of which this is thread `lane`; `packs` of the row, 0 if there is none. Pack k of a lane is at
 * column 8 * (lane + 32 W k). sum(x, turn): of x over the row's threads, 0 and 1 in turn. see(column, y): 8 of the
 * results, as written. */
template <typename T, int W, int PACKS, class Sum, class See>
static __device__ __forceinline__ void norm_row(const norm_args &a, int64_t t, int lane, int packs, Sum sum, See see) {
    enum { LANES = W * WARP };
    const T *x = (const T *)a.x + t * a.cols, *res = a.res ? (const T *)a.res + t * a.cols : nullptr;
    float v[PACKS][WIDE], mean = 0, square = 0, factor = a.s ? *a.s : 1.0f;
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        int at = lane + LANES * k;
#pragma unroll
        for (int i = 0; i < WIDE; i++) v[k][i] = 0;
        if (at < packs) {
            load<WIDE>(x + at * WIDE, v[k]);
#pragma unroll
            for (int i = 0; i < WIDE; i++) v[k][i] *= factor;
            drop(a.drop, a.key, t, (uint32_t)at, v[k]);
            if (res) {
                float more[WIDE];
                load<WIDE>(res + at * WIDE, more);
#pragma unroll
                for (int i = 0; i < WIDE; i++) v[k][i] += more[i];
            }
        }
#pragma unroll
        for (int i = 0; i < WIDE; i++) mean += v[k][i];
    }
    mean = sum(mean, 0) / (float)a.cols;
#pragma unroll
    for (int k = 0; k < PACKS; k++)
#pragma unroll
        for (int i = 0; i < WIDE; i++) square += lane + LANES * k < packs ? (v[k][i] - mean) * (v[k][i] - mean) : 0.0f;
    float rstd = 1.0f / sqrtf(sum(square, 1) / (float)a.cols + a.eps);
    if (a.rstd && lane == 0 && packs) a.rstd[t] = rstd;
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        int at = lane + LANES * k;
        if (at >= packs) continue;
        float g[WIDE], b[WIDE] = {};
        load<WIDE>((const T *)a.g + at * WIDE, g);
        if (a.b) load<WIDE>((const T *)a.b + at * WIDE, b);
#pragma unroll
        for (int i = 0; i < WIDE; i++) v[k][i] = (v[k][i] - mean) * rstd;
        if (a.xhat) store<WIDE>((T *)a.xhat + t * a.cols + at * WIDE, v[k]);
#pragma unroll
        for (int i = 0; i < WIDE; i++) v[k][i] = fmaf(v[k][i], g[i], b[i]);
        see(at * WIDE, store<WIDE>((T *)a.y + t * a.cols + at * WIDE, v[k]));
    }
}

/* Warps for a row of that many columns; 0: only the plain kernel supports it. */
static inline int warps_for(int64_t cols, int all_aligned) {
    if (cols % WIDE != 0 || !all_aligned) return 0;
    for (int warps = 1; warps <= ROW_WARPS; warps *= 2)
        if (cols <= (int64_t)warps * WARP * WIDE * MOST_PACKS) return warps;
    return 0;
}
static inline int norm_aligned(const norm_args &a) {
    return aligned(a.x, a.res, a.g, a.b, a.y, a.xhat);
}
