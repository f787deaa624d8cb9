/* columns.cuh - sums over the rows of [rows, cols] matrices, deterministic: rows are cut into runs, a block has a run, and its teams take
 * turns at the run's rows; a team sums in order and in fp32, the teams' sums are added in order into a part, and the parts in double. All
 * that depends on the shape only, so that a sum has the same bits whether it is formed alone or where its values are made (norm_din.cu). */
#ifndef TRI_DEVICE_CUDA_COLUMNS_CUH
#define TRI_DEVICE_CUDA_COLUMNS_CUH

#include "device/cuda/common.cuh"

enum {
    COLUMN_RUNS = 132,       /* at most: a block for each multiprocessor of the largest GPU; fixed, so that sums are the same everywhere */
    COLUMN_TEAMS = 12,       /* of a run, at most: warps that hold rows of up to 3 packs a lane */
    COLUMN_ROWS = 4,         /* of a team, at least */
    COLUMN_END_WARPS = 8     /* of a block that adds parts */
};

/* Warps of a block that hold rows of so many packs a lane, and their sums, in registers. */
static constexpr int holding_warps(int packs) { return packs == 4 ? 8 : (int)COLUMN_TEAMS; }

/* How a matrix is walked. A team that has whole rows, 8 columns in each of a lane's packs, is `warps` warps; their registers limit teams. */
typedef struct column_walk {
    int warps, packs, teams, runs;
} column_walk;
template <typename T> static inline column_walk walk_of(int64_t rows, int64_t cols) {
    int most = sizeof(T) == 2 ? 4 : 2, widest = sizeof(T) == 2 ? 4 : 8; /* packs of a lane, warps of a team */
    int packs = (int)blocks_for(cols, WARP * WIDE), warps = 1;
    while (warps < widest && (packs + warps - 1) / warps > most) warps *= 2;
    column_walk walk = {warps, (packs + warps - 1) / warps, 1, 1};
    walk.teams = holding_warps(walk.packs) / warps;
    int64_t runs = blocks_for(rows, COLUMN_ROWS * walk.teams);
    walk.runs = (int)(runs < 1 ? 1 : runs < COLUMN_RUNS ? runs : (int64_t)COLUMN_RUNS);
    return walk;
}
/* Scratch bytes of the parts of n sums. */
#define COLUMN_WORK(n) {0, 0, 4 * (n) * COLUMN_RUNS, 0, 0}

typedef struct run_of_rows {
    int64_t begin, end;
} run_of_rows;
static __device__ __forceinline__ run_of_rows rows_of(int run, int runs, int64_t rows) {
    int64_t size = (rows + runs - 1) / runs, begin = run * size;
    return run_of_rows{begin < rows ? begin : rows, begin + size < rows ? begin + size : rows};
}

/* What is summed: `use` adds N elements of a row, which `load` has read, to the sums, each [N]. AHEAD of a team's rows
 * are read before they are used. */
template <typename T> struct sum_of { /* of dy */
    enum { SUMS = 1, AHEAD = 4 };
    const T *dy; /* [rows, cols] */
    template <int N> struct raw {
        pack<T, N> dy;
    };
    template <int N> __device__ __forceinline__ void load(int64_t at, raw<N> &r) const { r.dy = packed<N>(dy + at); }
    template <int N> __device__ __forceinline__ void use(int64_t, const raw<N> &r, float (&sum)[SUMS][N]) const {
#pragma unroll
        for (int k = 0; k < N; k++) sum[0][k] += r.dy.at(k);
    }
};
template <typename T> struct sum_and_dot { /* of dy, and of dy * xhat */
    enum { SUMS = 2, AHEAD = sizeof(T) == 2 ? 2 : 1 };
    const T *dy, *xhat; /* [rows, cols] */
    template <int N> struct raw {
        pack<T, N> dy, xhat;
    };
    template <int N> __device__ __forceinline__ void load(int64_t at, raw<N> &r) const {
        r.dy = packed<N>(dy + at), r.xhat = packed<N>(xhat + at);
    }
    template <int N> __device__ __forceinline__ void use(int64_t, const raw<N> &r, float (&sum)[SUMS][N]) const {
#pragma unroll
        for (int k = 0; k < N; k++) {
            sum[0][k] += r.dy.at(k);
            sum[1][k] = fmaf(r.dy.at(k), r.xhat.at(k), sum[1][k]);
        }
    }
};

/* blockIdx.y is the run, threadIdx.y the team. part [runs, S::SUMS, cols] */
template <class S, int N>
static __global__ void __launch_bounds__(WARP *COLUMN_TEAMS, 3) column_parts(int64_t rows, int64_t cols, S of, float *part) {
    extern __shared__ float shared[]; /* [S::SUMS, teams, 32 N] */
    int64_t first = (int64_t)blockIdx.x * WARP * N, c = first + threadIdx.x * N;
    int teams = blockDim.y;
    run_of_rows run = rows_of(blockIdx.y, gridDim.y, rows);
    float sum[S::SUMS][N] = {};
    for (int64_t t = run.begin + threadIdx.y; t < run.end && c < cols; t += S::AHEAD * teams) {
        typename S::template raw<N> raw[S::AHEAD];
#pragma unroll
        for (int r = 0; r < S::AHEAD; r++)
            if (t + r * teams < run.end) of.template load<N>((t + r * teams) * cols + c, raw[r]);
#pragma unroll
        for (int r = 0; r < S::AHEAD; r++)
            if (t + r * teams < run.end) of.template use<N>((t + r * teams) * cols + c, raw[r], sum);
    }
#pragma unroll
    for (int k = 0; k < S::SUMS; k++) store<N>(shared + ((k * teams + threadIdx.y) * WARP + threadIdx.x) * N, sum[k]);
    __syncthreads();
    for (int i = threadIdx.y * WARP + threadIdx.x; i < S::SUMS * WARP * N; i += WARP * teams) {
        int which = i / (WARP * N), column = i % (WARP * N);
        float total = 0;
        for (int team = 0; team < teams; team++) total += shared[(which * teams + team) * WARP * N + column];
        if (first + column < cols) part[((int64_t)blockIdx.y * S::SUMS + which) * cols + first + column] = total;
    }
}

/* What the sums of a column go to, in the order of the parts. */
enum { COLUMN_SUMS = 3 };
typedef struct column_sums {
    loose out[COLUMN_SUMS]; /* [cols]; data NULL: left out */
    int add[COLUMN_SUMS];
} column_sums;

/* out[blockIdx.y][c] (+)= the sum of the parts of column c: each warp adds every eighth in double, then the warps' sums are added in order.
 * part [runs, gridDim.y, cols] */
static __global__ void __launch_bounds__(WARP *COLUMN_END_WARPS) column_end(int64_t cols, int runs, const float *part, column_sums to) {
    __shared__ double shared[COLUMN_END_WARPS][WARP];
    int which = blockIdx.y, of = gridDim.y, warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    int64_t c = (int64_t)blockIdx.x * WARP + lane;
    if (!to.out[which].data) return;
    double total = 0;
    if (c < cols)
#pragma unroll 17
        for (int p = warp; p < runs; p += COLUMN_END_WARPS) total += part[((int64_t)p * of + which) * cols + c];
    shared[warp][lane] = total;
    __syncthreads();
    if (warp || c >= cols) return;
    total = to.add[which] ? loose_load(to.out[which], c) : 0.0;
    for (int w = 0; w < COLUMN_END_WARPS; w++) total += shared[w][lane];
    loose_put(to.out[which], c, (float)total, 0);
}

static void end_columns(const tri_call *call, int64_t cols, int runs, int sums, const column_sums &to) {
    column_end<<<dim3(blocks_for(cols, WARP), sums), WARP * COLUMN_END_WARPS, 0, stream(call)>>>(
        cols, runs, static_cast<const float *>(call->work), to);
}

/* wide_access: all operands, of type T, are aligned for packs of 8. */
template <typename T, class S>
static void sum_columns(const tri_call *call, int64_t rows, int64_t cols, const S &of, int wide_access, const column_sums &to) {
    int each = cols % WIDE == 0 && wide_access ? (int)WIDE : 1;
    column_walk walk = walk_of<T>(rows, cols);
    if (cols == 0) return;
    dim3 grid(blocks_for(cols, WARP * each), walk.runs), block(WARP, walk.teams);
    unsigned bytes = (unsigned)(S::SUMS * walk.teams * WARP * each * 4);
    float *part = static_cast<float *>(call->work); /* [runs, S::SUMS, cols] */
    if (each == WIDE) column_parts<S, WIDE><<<grid, block, bytes, stream(call)>>>(rows, cols, of, part);
    else column_parts<S, 1><<<grid, block, bytes, stream(call)>>>(rows, cols, of, part);
    end_columns(call, cols, walk.runs, S::SUMS, to);
}

#endif
