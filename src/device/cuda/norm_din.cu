/* norm_din.cu - the gradient of layer normalisation, alone and through the residual and the dropout before it, with the sums over tokens
 * that come of the same values: of gain, bias and the bias of the dense layer before. A team of warps has a row in its registers, and the
 * next one on its way; its sums stay in registers over all its rows (columns.cuh). Rows too wide or not aligned are read again for each sum. */
#include "device/cuda/columns.cuh"

typedef struct norm_din_args {
    const void *dy, *xhat, *g; /* [T,H] [T,H] [H] */
    void *dx, *dres;           /* [T,H]; dres may be NULL */
    const float *rstd;         /* [T] */
    const int32_t *key;        /* [T,2] or NULL */
    float *part;               /* [runs,3,H]: sums of dy, of dy * xhat, of dx; NULL: none are wanted */
    int64_t rows, cols;
    int add_dx, add_dres;
    dropper drop;              /* of dx */
} norm_din_args;

/* Two sums over a team of W warps, of which a block has several; `turn` changes from one call to the next. */
template <int W> static __device__ __forceinline__ void team_sums(float &x, float &y, int turn) {
    x = warp_sum(x), y = warp_sum(y);
    if (W == 1) return;
    __shared__ float2 shared[2][COLUMN_TEAMS];
    int warp = threadIdx.x / WARP, first = warp / W * W;
    if (threadIdx.x % WARP == 0) shared[turn][warp] = make_float2(x, y);
    asm volatile("bar.sync %0, %1;" ::"r"(1 + warp / W), "n"(W * WARP) : "memory"); /* the team only */
    x = y = 0;
#pragma unroll
    for (int w = 0; w < W; w++) x += shared[turn][first + w].x, y += shared[turn][first + w].y;
}

/* What a lane holds of a row: pack k is columns 8 (lane + 32 W k) and on. */
template <typename T, int PACKS> struct held_row {
    pack<T, WIDE> dy[PACKS], xhat[PACKS];
    float rstd;
    int32_t sample, place; /* of random numbers */
};
template <typename T, int W, int PACKS>
static __device__ __forceinline__ void fetch(const norm_din_args &a, int64_t t, int lane, held_row<T, PACKS> &row) {
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        int c = (lane + W * WARP * k) * WIDE;
        if (c >= a.cols) continue;
        row.dy[k] = packed<WIDE>((const T *)a.dy + t * a.cols + c);
        row.xhat[k] = packed<WIDE>((const T *)a.xhat + t * a.cols + c);
    }
    row.rstd = a.rstd[t];
    if (a.drop.threshold) row.sample = a.key[2 * t], row.place = a.key[2 * t + 1];
}

/* A lane's sums over the rows of its team: of dy, of dy * xhat, of dx. */
template <int PACKS> struct held_sums {
    float db[PACKS][WIDE], dg[PACKS][WIDE], dbias[PACKS][WIDE];
};

/* Pack k of row t, whose means are known. */
template <typename T, int PACKS>
static __device__ __forceinline__ void finish_pack(const norm_din_args &a, int64_t t, int c, int k, const held_row<T, PACKS> &row,
                                                   const pack<T, WIDE> &g, float mean, float mean_xhat, held_sums<PACKS> &sums) {
    float value[WIDE], dropped[WIDE];
    uint32_t bits = 0xFF;
    float factor = 1;
    if (a.drop.threshold) factor = a.drop.scale, bits = kept_bits(a.drop, (uint32_t)row.sample, (uint32_t)row.place, (uint32_t)(c / WIDE));
#pragma unroll
    for (int i = 0; i < WIDE; i++) {
        float d = row.dy[k].at(i), x = row.xhat[k].at(i);
        sums.db[k][i] += d, sums.dg[k][i] = fmaf(d, x, sums.dg[k][i]);
        value[i] = row.rstd * (d * g.at(i) - mean - x * mean_xhat);
        dropped[i] = bits >> i & 1 ? value[i] * factor : 0.0f;
    }
    if (a.dres) put<WIDE>((T *)a.dres + t * a.cols + c, value, a.add_dres);
    pack<T, WIDE> dx = put<WIDE>((T *)a.dx + t * a.cols + c, dropped, a.add_dx);
#pragma unroll
    for (int i = 0; i < WIDE; i++) sums.dbias[k][i] = __fadd_rn(sums.dbias[k][i], dx.at(i)); /* never part of a product: of what was written */
}

/* Adds the teams' sums of all columns in order, and writes them to a part. `shared` [teams, cols]. */
template <int W, int PACKS>
static __device__ __forceinline__ void combine(const norm_din_args &a, int team, int lane, const float (&sum)[PACKS][WIDE], float *shared,
                                               float *part) {
    int teams = blockDim.x / (W * WARP);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        int c = (lane + W * WARP * k) * WIDE;
        if (c < a.cols) store<WIDE>(shared + team * a.cols + c, sum[k]);
    }
    __syncthreads();
    for (int c = threadIdx.x; c < a.cols; c += blockDim.x) {
        float total = 0;
        for (int i = 0; i < teams; i++) total += shared[i * a.cols + c];
        part[c] = total;
    }
}

template <typename T, int W, int PACKS>
static __global__ void __launch_bounds__(holding_warps(PACKS) * WARP, 1) norm_din_kernel(norm_din_args a) {
    extern __shared__ float shared[];
    int team = threadIdx.x / (W * WARP), teams = blockDim.x / (W * WARP), lane = threadIdx.x % (W * WARP), turn = 0;
    run_of_rows run = rows_of(blockIdx.x, gridDim.x, a.rows);
    float share = 1.0f / (float)a.cols;
    held_sums<PACKS> sums = {};
    T *g = reinterpret_cast<T *>(shared); /* [H], until sums are combined */
    held_row<T, PACKS> row, next;
    for (int c = threadIdx.x * WIDE; c < a.cols; c += blockDim.x * WIDE)
        *reinterpret_cast<pack<T, WIDE> *>(g + c) = packed<WIDE>((const T *)a.g + c);
    __syncthreads();
    if (run.begin + team < run.end) fetch<T, W>(a, run.begin + team, lane, row);
    for (int64_t t = run.begin + team; t < run.end; t += teams, turn ^= 1) {
        if (t + teams < run.end) fetch<T, W>(a, t + teams, lane, next);
        float mean = 0, mean_xhat = 0;
#pragma unroll
        for (int k = 0; k < PACKS; k++) {
            int c = (lane + W * WARP * k) * WIDE;
            if (c >= a.cols) continue;
            pack<T, WIDE> gain = packed<WIDE>(g + c);
#pragma unroll
            for (int i = 0; i < WIDE; i++) {
                float d = row.dy[k].at(i) * gain.at(i);
                mean += d, mean_xhat = fmaf(d, row.xhat[k].at(i), mean_xhat);
            }
        }
        team_sums<W>(mean, mean_xhat, turn);
#pragma unroll
        for (int k = 0; k < PACKS; k++) {
            int c = (lane + W * WARP * k) * WIDE;
            if (c < a.cols) finish_pack(a, t, c, k, row, packed<WIDE>(g + c), mean * share, mean_xhat * share, sums);
        }
        row = next;
    }
    if (!a.part) return;
    float *part = a.part + (int64_t)blockIdx.x * COLUMN_SUMS * a.cols;
    combine<W>(a, team, lane, sums.db, shared, part);
    combine<W>(a, team, lane, sums.dg, shared, part + a.cols);
    combine<W>(a, team, lane, sums.dbias, shared, part + 2 * a.cols);
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

template <typename T> static void norm_dw_on(const tri_call *call, int dg, int db, const norm_din_args &a) {
    column_sums to = {{operand(call, db), operand(call, dg)}, {adds(call, db), adds(call, dg)}};
    sum_columns<T>(call, a.rows, a.cols, sum_and_dot<T>{(const T *)a.dy, (const T *)a.xhat}, aligned(a.dy) && aligned(a.xhat), to);
}

/* Whether norm_din_kernel has been launched: it takes rows of up to 4096 columns, aligned. */
template <typename T> static int launch_din(const tri_call *call, const norm_din_args &a, const column_walk &walk) {
    if (a.cols % WIDE != 0 || !aligned(a.dy) || !aligned(a.xhat) || !aligned(a.g) || !aligned(a.dx) || !aligned(a.dres)) return 0;
    void (*kernel)(norm_din_args) = nullptr;
#define KERNEL(w, p) \
    if (walk.warps == w && walk.packs == p) kernel = norm_din_kernel<T, w, p>
    KERNEL(1, 1);
    KERNEL(1, 2);
    KERNEL(2, 2);
    KERNEL(4, 2);
    if constexpr (sizeof(T) == 2) {
        KERNEL(1, 3);
        KERNEL(1, 4);
        KERNEL(2, 3);
        KERNEL(2, 4);
        KERNEL(4, 3);
        KERNEL(4, 4);
    } else
        KERNEL(8, 2);
#undef KERNEL
    if (!kernel) return 0;
    kernel<<<walk.runs, walk.teams * walk.warps * WARP, (size_t)(4 * walk.teams * a.cols), stream(call)>>>(a);
    return 1;
}

template <typename T> static void norm_din(const tri_call *call) {
    enum { DX, DY, XHAT, RSTD, G };
    norm_din_args a = {};
    a.dx = call->t[DX].data, a.add_dx = adds(call, DX);
    a.dy = call->t[DY].data, a.xhat = call->t[XHAT].data, a.rstd = data<float>(call, RSTD), a.g = call->t[G].data;
    a.rows = call->t[DX].rows, a.cols = call->t[DX].cols;
    if (a.rows * a.cols == 0) return;
    if (!launch_din<T>(call, a, walk_of<T>(a.rows, a.cols))) norm_din_any_kernel<T><<<(unsigned)a.rows, 128, 0, stream(call)>>>(a);
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
    column_walk walk = walk_of<T>(a.rows, a.cols);
    if (a.cols == 0) return;
    if (launch_din<T>(call, a, walk)) {
        column_sums to = {{operand(call, DB), operand(call, DG), operand(call, DBIAS)}, {adds(call, DB), adds(call, DG), adds(call, DBIAS)}};
        if (a.part) end_columns(call, a.cols, walk.runs, COLUMN_SUMS, to);
    } else {
        column_sums to = {{operand(call, DBIAS)}, {adds(call, DBIAS)}};
        if (a.rows) norm_din_any_kernel<T><<<(unsigned)a.rows, 128, 0, stream(call)>>>(a);
        if (norm_sums) norm_dw_on<T>(call, DG, DB, a);
        if (bias_sums) sum_columns<T>(call, a.rows, a.cols, sum_of<T>{(const T *)a.dx}, aligned(a.dx), to);
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

const tri_kernel_row tri__cuda_norm_din[] = {
    TRI_CUDA_ROWS(TRI_OP_norm_din, norm_din, {}),
    TRI_CUDA_ROWS(TRI_OP_norm_dw, norm_dw, COLUMN_WORK(2)),
    TRI_CUDA_ROWS(TRI_OP_dropout_add_norm_din, dropout_add_norm_din, COLUMN_WORK(3)),
    {},
};
