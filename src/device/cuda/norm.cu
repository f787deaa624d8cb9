/* norm.cu - layer normalisation (Ba, Kiros and Hinton, 2016), alone and with the dropout and the residual before it. Going forward one, two
 * or four warps have a row in their registers, backward a block has some, so that every operand is read once; rows too wide or not aligned
 * are read again for each sum. */
#include "device/cuda/columns.cuh"

enum { ROW_WARPS = 4, MOST_PACKS = 3 }; /* warps of a block; packs of 8 elements a lane: rows of up to 3072 by four warps */

/* Sums over the W warps of a row, every thread of the block taking part; `turn` differs from one sum of a kernel to the next. */
template <int W> static __device__ __forceinline__ float row_sum(float x, int turn) {
    __shared__ float part[2][ROW_WARPS];
    x = warp_sum(x);
    if (W == 1) return x;
    int warp = threadIdx.x / WARP;
    if (threadIdx.x % WARP == 0) part[turn][warp] = x;
    __syncthreads();
    x = 0;
#pragma unroll
    for (int w = 0; w < W; w++) x += part[turn][warp / W * W + w];
    return x;
}

typedef struct norm_args {
    const void *x, *res, *g, *b; /* [T,H] [T,H] or NULL, [H] [H] */
    void *y, *xhat;              /* [T,H]; xhat may be NULL */
    float *rstd;                 /* [T] or NULL */
    const int32_t *key;          /* [T,2] or NULL */
    int64_t rows, cols;
    float eps;
    dropper drop;
} norm_args;

/* PACKS packs a lane of the row's W warps, pack k of a lane at column 8 * (lane + 32 W k). */
template <typename T, int W, int PACKS> static __global__ void __launch_bounds__(ROW_WARPS *WARP) norm_kernel(norm_args a) {
    enum { LANES = W * WARP };
    int64_t t = (int64_t)blockIdx.x * (ROW_WARPS / W) + threadIdx.x / LANES;
    int lane = threadIdx.x % LANES, packs = t < a.rows ? (int)(a.cols / WIDE) : 0;
    const T *x = (const T *)a.x + t * a.cols, *res = a.res ? (const T *)a.res + t * a.cols : nullptr;
    float v[PACKS][WIDE], mean = 0, square = 0;
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        int at = lane + LANES * k;
#pragma unroll
        for (int i = 0; i < WIDE; i++) v[k][i] = 0;
        if (at < packs) {
            load<WIDE>(x + at * WIDE, v[k]);
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
    mean = row_sum<W>(mean, 0) / (float)a.cols;
#pragma unroll
    for (int k = 0; k < PACKS; k++)
#pragma unroll
        for (int i = 0; i < WIDE; i++) square += lane + LANES * k < packs ? (v[k][i] - mean) * (v[k][i] - mean) : 0.0f;
    float rstd = 1.0f / sqrtf(row_sum<W>(square, 1) / (float)a.cols + a.eps);
    if (a.rstd && lane == 0 && packs) a.rstd[t] = rstd;
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        int at = lane + LANES * k;
        if (at >= packs) continue;
        float g[WIDE], b[WIDE];
        load<WIDE>((const T *)a.g + at * WIDE, g);
        load<WIDE>((const T *)a.b + at * WIDE, b);
#pragma unroll
        for (int i = 0; i < WIDE; i++) v[k][i] = (v[k][i] - mean) * rstd;
        if (a.xhat) store<WIDE>((T *)a.xhat + t * a.cols + at * WIDE, v[k]);
#pragma unroll
        for (int i = 0; i < WIDE; i++) v[k][i] = fmaf(v[k][i], g[i], b[i]);
        store<WIDE>((T *)a.y + t * a.cols + at * WIDE, v[k]);
    }
}

/* Any width, any alignment: a block has a row. */
template <typename T> static __global__ void norm_any_kernel(norm_args a) {
    int64_t t = blockIdx.x;
    const T *x = (const T *)a.x + t * a.cols, *res = a.res ? (const T *)a.res + t * a.cols : nullptr;
    auto at = [&](int64_t c) { return kept(a.drop, a.key, t, (uint32_t)c) * wide(x[c]) + (res ? wide(res[c]) : 0.0f); };
    float mean = 0, square = 0;
    for (int64_t c = threadIdx.x; c < a.cols; c += blockDim.x) mean += at(c);
    mean = block_sum(mean) / (float)a.cols;
    for (int64_t c = threadIdx.x; c < a.cols; c += blockDim.x) square += (at(c) - mean) * (at(c) - mean);
    float rstd = 1.0f / sqrtf(block_sum(square) / (float)a.cols + a.eps);
    if (a.rstd && threadIdx.x == 0) a.rstd[t] = rstd;
    for (int64_t c = threadIdx.x; c < a.cols; c += blockDim.x) {
        float xhat = (at(c) - mean) * rstd;
        if (a.xhat) ((T *)a.xhat)[t * a.cols + c] = narrow<T>(xhat);
        ((T *)a.y)[t * a.cols + c] = narrow<T>(fmaf(xhat, wide(((const T *)a.g)[c]), wide(((const T *)a.b)[c])));
    }
}

typedef struct norm_din_args {
    const void *dy, *xhat, *g; /* [T,H] [T,H] [H] */
    void *dx, *dres;           /* [T,H]; dres may be NULL */
    const float *rstd;         /* [T] */
    const int32_t *key;        /* [T,2] or NULL */
    float *part;               /* [blocks,3,H]: sums of dy, of dy * xhat, of dx; NULL: none are wanted */
    int64_t rows, cols;
    int add_dx, add_dres;
    dropper drop;              /* of dx */
} norm_din_args;

enum { DIN_WARPS = 10 }; /* the most that a row takes: 2560 columns */

/* Sums of n values over the block, whose order the shape fixes; `turn` changes from one call to the next. */
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

/* A block has a run of rows, ROWS at a time, and a thread 8 columns of each, whose sums stay in its registers. */
template <typename T> static __global__ void __launch_bounds__(DIN_WARPS *WARP, 2) norm_din_kernel(norm_din_args a) {
    enum { ROWS = sizeof(T) == 2 ? 2 : 1 };
    run_of_rows run = rows_of(blockIdx.x, gridDim.x, a.rows);
    int c = threadIdx.x * WIDE, there = c < a.cols, rows = (int)(run.end - run.begin), turn = 0;
    int64_t at = run.begin * a.cols + c;
    float db[WIDE] = {}, dg[WIDE] = {}, dbias[WIDE] = {}, share = 1.0f / (float)a.cols;
    pack<T, WIDE> g = {};
    if (there) g = packed<WIDE>((const T *)a.g + c);
    for (int first = 0; first < rows; first += ROWS, at += ROWS * a.cols, turn ^= 1) {
        pack<T, WIDE> dy[ROWS], xhat[ROWS];
        float rstd[ROWS], sum[2 * ROWS]; /* of dy * g, and of it times xhat */
        uint32_t bits = 0;               /* decisions: 8 a row */
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (first + r >= rows || !there) continue;
            dy[r] = packed<WIDE>((const T *)a.dy + at + r * a.cols);
            xhat[r] = packed<WIDE>((const T *)a.xhat + at + r * a.cols);
            rstd[r] = a.rstd[run.begin + first + r];
        }
        if (a.drop.threshold) /* beside the loads */
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                if (first + r >= rows) continue;
                const int32_t *key = a.key + 2 * (run.begin + first + r);
                bits |= kept_bits(a.drop, (uint32_t)key[0], (uint32_t)key[1], threadIdx.x) << 8 * r;
            }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            sum[2 * r] = sum[2 * r + 1] = 0;
            if (first + r >= rows || !there) continue;
#pragma unroll
            for (int i = 0; i < WIDE; i++) {
                float d = dy[r].at(i) * g.at(i);
                sum[2 * r] += d, sum[2 * r + 1] = fmaf(d, xhat[r].at(i), sum[2 * r + 1]);
            }
        }
        block_sums(sum, turn);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (first + r >= rows || !there) continue;
            float value[WIDE], mean = sum[2 * r] * share, mean_xhat = sum[2 * r + 1] * share;
#pragma unroll
            for (int i = 0; i < WIDE; i++) {
                float d = dy[r].at(i), x = xhat[r].at(i);
                db[i] += d, dg[i] = fmaf(d, x, dg[i]);
                value[i] = rstd[r] * (d * g.at(i) - mean - x * mean_xhat);
            }
            float dropped[WIDE];
#pragma unroll
            for (int i = 0; i < WIDE; i++)
                dropped[i] = !a.drop.threshold ? value[i] : bits >> (8 * r + i) & 1 ? value[i] * a.drop.scale : 0.0f;
            if (a.dres) put<WIDE>((T *)a.dres + at + r * a.cols, value, a.add_dres);
            pack<T, WIDE> dx = put<WIDE>((T *)a.dx + at + r * a.cols, dropped, a.add_dx);
#pragma unroll
            for (int i = 0; i < WIDE; i++) dbias[i] = __fadd_rn(dbias[i], dx.at(i)); /* never part of a product: of what was written */
        }
    }
    if (!a.part || !there) return;
    float *part = a.part + (int64_t)blockIdx.x * 3 * a.cols + c;
    store<WIDE>(part, db), store<WIDE>(part + a.cols, dg), store<WIDE>(part + 2 * a.cols, dbias);
}

template <typename T> static __global__ void norm_din_any_kernel(norm_din_args a) {
    int64_t t = blockIdx.x;
    const T *dy = (const T *)a.dy + t * a.cols, *xhat = (const T *)a.xhat + t * a.cols, *g = (const T *)a.g;
    float mean = 0, mean_xhat = 0;
    for (int64_t c = threadIdx.x; c < a.cols; c += blockDim.x) {
        float d = wide(dy[c]) * wide(g[c]);
        mean += d, mean_xhat = fmaf(d, wide(xhat[c]), mean_xhat);
    }
    mean = block_sum(mean) / (float)a.cols, mean_xhat = block_sum(mean_xhat) / (float)a.cols;
    for (int64_t c = threadIdx.x; c < a.cols; c += blockDim.x) {
        float value = a.rstd[t] * (wide(dy[c]) * wide(g[c]) - mean - wide(xhat[c]) * mean_xhat);
        T *dres = (T *)a.dres + t * a.cols + c, *dx = (T *)a.dx + t * a.cols + c;
        if (a.dres) *dres = narrow<T>(value + (a.add_dres ? wide(*dres) : 0.0f));
        *dx = narrow<T>(value * kept(a.drop, a.key, t, (uint32_t)c) + (a.add_dx ? wide(*dx) : 0.0f));
    }
}

/* Warps of a row of that many columns; 0 where only the plain kernel will do. */
static int warps_for(int64_t cols, int all_aligned) {
    if (cols % WIDE != 0 || !all_aligned) return 0;
    for (int warps = 1; warps <= ROW_WARPS; warps *= 2)
        if (cols <= (int64_t)warps * WARP * WIDE * MOST_PACKS) return warps;
    return 0;
}

/* Launches norm_kernel<T, warps, packs>, or norm_any_kernel<T> for 0 warps. */
#define LAUNCH_PACKS(call, W, args)                                                                                              \
    switch (blocks_for((args).cols, W * WARP * WIDE)) {                                                                          \
    case 1: norm_kernel<T, W, 1><<<blocks_for((args).rows, ROW_WARPS / W), ROW_WARPS * WARP, 0, stream(call)>>>(args); break;    \
    case 2: norm_kernel<T, W, 2><<<blocks_for((args).rows, ROW_WARPS / W), ROW_WARPS * WARP, 0, stream(call)>>>(args); break;    \
    default: norm_kernel<T, W, MOST_PACKS><<<blocks_for((args).rows, ROW_WARPS / W), ROW_WARPS * WARP, 0, stream(call)>>>(args); \
    }

template <typename T> static void norm_rows(const tri_call *call, norm_args a) {
    a.rows = call->t[0].rows, a.cols = call->t[0].cols, a.eps = call->attr->eps;
    if (a.rows * a.cols == 0) return;
    int warps = warps_for(a.cols, aligned(a.x) && aligned(a.res) && aligned(a.g) && aligned(a.b) && aligned(a.y) && aligned(a.xhat));
    switch (warps) {
    case 0: norm_any_kernel<T><<<(unsigned)a.rows, 128, 0, stream(call)>>>(a); break;
    case 1: LAUNCH_PACKS(call, 1, a) break;
    case 2: LAUNCH_PACKS(call, 2, a) break;
    default: LAUNCH_PACKS(call, 4, a)
    }
    launched(call, "norm");
}

template <typename T> static void norm(const tri_call *call) {
    enum { Y, XHAT, RSTD, X, G, B };
    norm_args a = {};
    a.x = call->t[X].data, a.g = call->t[G].data, a.b = call->t[B].data;
    a.y = call->t[Y].data, a.xhat = call->t[XHAT].data, a.rstd = data<float>(call, RSTD);
    norm_rows<T>(call, a);
}

template <typename T> static void dropout_add_norm(const tri_call *call) {
    enum { Y, XHAT, RSTD, X, RES, G, B, KEY };
    norm_args a = {};
    a.x = call->t[X].data, a.res = call->t[RES].data, a.g = call->t[G].data, a.b = call->t[B].data;
    a.y = call->t[Y].data, a.xhat = call->t[XHAT].data, a.rstd = data<float>(call, RSTD);
    a.key = data<int32_t>(call, KEY), a.drop = dropper_of(call);
    norm_rows<T>(call, a);
}

template <typename T> static void norm_dw_on(const tri_call *call, int dg, int db, const norm_din_args &a) {
    column_sums to = {{operand(call, db), operand(call, dg)}, {adds(call, db), adds(call, dg)}};
    sum_columns(call, a.rows, a.cols, sum_and_dot<T>{(const T *)a.dy, (const T *)a.xhat}, aligned(a.dy) && aligned(a.xhat), to);
}

/* Whether norm_din_kernel has been launched: it takes rows of up to 2560 columns, aligned. */
template <typename T> static int launch_din(const tri_call *call, const norm_din_args &a, int runs) {
    if (a.cols % WIDE != 0 || a.cols > DIN_WARPS * WARP * WIDE) return 0;
    if (!aligned(a.dy) || !aligned(a.xhat) || !aligned(a.g) || !aligned(a.dx) || !aligned(a.dres)) return 0;
    norm_din_kernel<T><<<runs, row_threads(a.cols), 0, stream(call)>>>(a);
    return 1;
}

template <typename T> static void norm_din(const tri_call *call) {
    enum { DX, DY, XHAT, RSTD, G };
    norm_din_args a = {};
    a.dx = call->t[DX].data, a.add_dx = adds(call, DX);
    a.dy = call->t[DY].data, a.xhat = call->t[XHAT].data, a.rstd = data<float>(call, RSTD), a.g = call->t[G].data;
    a.rows = call->t[DX].rows, a.cols = call->t[DX].cols;
    if (a.rows * a.cols == 0) return;
    if (!launch_din<T>(call, a, column_runs(a.rows, a.cols))) norm_din_any_kernel<T><<<(unsigned)a.rows, 128, 0, stream(call)>>>(a);
    launched(call, "norm_din");
}

template <typename T> static void dropout_add_norm_din(const tri_call *call) {
    enum { DX, DRES, DG, DB, DBIAS, DY, XHAT, RSTD, G, KEY };
    norm_din_args a = {};
    a.dx = call->t[DX].data, a.dres = call->t[DRES].data, a.add_dx = adds(call, DX), a.add_dres = adds(call, DRES);
    a.dy = call->t[DY].data, a.xhat = call->t[XHAT].data, a.rstd = data<float>(call, RSTD), a.g = call->t[G].data;
    a.key = data<int32_t>(call, KEY), a.drop = dropper_of(call);
    a.rows = call->t[DX].rows, a.cols = call->t[DX].cols;
    int norm_sums = call->t[DG].data || call->t[DB].data, bias_sums = call->t[DBIAS].data != NULL;
    if (norm_sums || bias_sums) a.part = static_cast<float *>(call->work);
    int runs = column_runs(a.rows, a.cols);
    if (a.cols == 0) return;
    if (launch_din<T>(call, a, runs)) {
        column_sums to = {{operand(call, DB), operand(call, DG), operand(call, DBIAS)},
                          {adds(call, DB), adds(call, DG), adds(call, DBIAS)}};
        if (a.part) end_columns(call, a.cols, runs, COLUMN_SUMS, to);
    } else {
        column_sums to = {{operand(call, DBIAS)}, {adds(call, DBIAS)}};
        if (a.rows) norm_din_any_kernel<T><<<(unsigned)a.rows, 128, 0, stream(call)>>>(a);
        if (norm_sums) norm_dw_on<T>(call, DG, DB, a);
        if (bias_sums) sum_columns(call, a.rows, a.cols, sum_of<T>{(const T *)a.dx}, aligned(a.dx), to);
    }
    launched(call, "dropout_add_norm_din");
}

template <typename T> static void norm_dw(const tri_call *call) {
    enum { DG, DB, DY, XHAT };
    norm_din_args a = {};
    a.dy = call->t[DY].data, a.xhat = call->t[XHAT].data, a.rows = call->t[DY].rows, a.cols = call->t[DY].cols;
    norm_dw_on<T>(call, DG, DB, a);
    launched(call, "norm_dw");
}

const tri_kernel_row tri__cuda_norm[] = {
    TRI_CUDA_ROWS(TRI_OP_norm, norm, {}),
    TRI_CUDA_ROWS(TRI_OP_norm_din, norm_din, {}),
    TRI_CUDA_ROWS(TRI_OP_norm_dw, norm_dw, COLUMN_WORK(2)),
    TRI_CUDA_ROWS(TRI_OP_dropout_add_norm, dropout_add_norm, {}),
    TRI_CUDA_ROWS(TRI_OP_dropout_add_norm_din, dropout_add_norm_din, COLUMN_WORK(3)),
    {},
};
