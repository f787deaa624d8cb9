/* scaled_norm.cu - dropout_add_norm and its gradient for layers in 8 bits (ops_fp8.def): the norm's rows become bytes
 * in registers, which a block gathers, 32 rows at a time, and writes in columns, whole sectors of 32 bytes. Other
 * widths and alignments are the operation of the same name, and a cast. */
#include "device/cuda/product/fp8.cuh"
#include "device/cuda/elementwise/norm.cuh"
#include "device/cuda/elementwise/norm_din.cuh"

enum {
    GATHERED = 32,                /* rows */
    TILES = GATHERED / WIDE,      /* of 8 rows */
    LEAST_WARPS = 12288,          /* of all rows: fewer leave memory idle, and a norm and a cast are faster */
    PAD = 8,                      /* bytes behind a row in shared memory: rows 8 apart begin 16 banks apart */
    DIN_PITCH = WARP * WIDE + PAD /* of a warp's rows in the gradient */
};

/* ---- Forward ---- */

/* Sums over the W warps of a row, of TILES in the block; `turn` alternates between consecutive sums. */
template <int W> static __device__ __forceinline__ float tile_sum(float x, int turn) {
    __shared__ float part[2][TILES * W];
    x = warp_sum(x);
    if (W == 1) return x;
    int warp = threadIdx.x / WARP, tile = warp / W;
    if (threadIdx.x % WARP == 0) part[turn][warp] = x;
    asm volatile("bar.sync %0, %1;" ::"r"(1 + tile), "n"(W * WARP) : "memory");
    x = 0;
#pragma unroll
    for (int w = 0; w < W; w++) x += part[turn][tile * W + w];
    return x;
}

/* W warps have 8 rows, one after the other; as many blocks run at once as take all rows of base512. */
template <typename T, int W, int PACKS>
static __global__ void __launch_bounds__(TILES *W *WARP, 8 / W) norm_scaled_kernel(norm_args a, fp8_tensor to) {
    extern __shared__ uint8_t bytes[]; /* [GATHERED, pitch] */
    int tile = threadIdx.x / (W * WARP), pitch = (int)a.cols + PAD;
    int64_t first = (int64_t)blockIdx.x * GATHERED;
    fp8_largest<T> largest;
    float s = *to.s;
#pragma unroll 1
    for (int row = tile * WIDE; row < tile * WIDE + WIDE; row++)
        norm_row<T, W, PACKS>(
            a, first + row, threadIdx.x % (W * WARP), first + row < a.rows ? (int)(a.cols / WIDE) : 0,
            [](float x, int turn) { return tile_sum<W>(x, turn); },
            [&](int c, const pack<T, WIDE> &y) {
                uint2 eight = eight_bytes<e4m3>(y, s);
                largest.see(y);
                *reinterpret_cast<uint2 *>(to.q + (first + row) * to.cols + c) = eight;
                *reinterpret_cast<uint2 *>(bytes + row * pitch + c) = eight;
            });
    raise(to.most, largest.word());
    if (!to.transposed) return;
    __syncthreads();
    for (int i = threadIdx.x; i < (int)a.cols / WIDE * TILES; i += TILES * W * WARP) {
        int row = i % TILES * WIDE, c = i / TILES * WIDE;
        if (first + row < a.rows) put_transposed(to, first + row, c, bytes + row * pitch + c, pitch);
    }
}

template <typename T, int W> static void norm_by(const tri_call *call, const norm_args &a, const fp8_tensor &to) {
    void (*const kernel[])(norm_args, fp8_tensor) = {norm_scaled_kernel<T, W, 1>, norm_scaled_kernel<T, W, 2>,
                                                     norm_scaled_kernel<T, W, MOST_PACKS>};
    unsigned packs = blocks_for(a.cols, W * WARP * WIDE);
    queue_sharing(call, "dropout_add_norm_scaled", kernel[min(packs, (unsigned)MOST_PACKS) - 1],
                  blocks_for(a.rows, GATHERED), TILES * W * WARP, (size_t)GATHERED * (size_t)(a.cols + PAD), a, to);
}

/* 0: nothing was done, since shapes or types are not supported. */
template <typename T> static int norm_scaled(const tri_call *call, const fp8_tensor &to) {
    norm_args a = norm_args_of(call);
    int warps = fp8_wide(to) ? warps_for(a.cols, norm_aligned(a)) : 0;
    if (a.rows * warps < LEAST_WARPS) return 0;
    if constexpr (sizeof(T) == 2) {
        switch (warps) {
        case 0: return 0;
        case 1: norm_by<T, 1>(call, a, to); return 1;
        case 2: norm_by<T, 2>(call, a, to); return 1;
        default: norm_by<T, 4>(call, a, to); return 1;
        }
    }
    return 0;
}

/* The same call of the form that writes 16 bits. */
static tri_call plain_call(const tri_call *call, tri_attr *attr) {
    tri_call plain = *call;
    *attr = *call->attr, attr->scaled = 0, plain.attr = attr;
    return plain;
}

template <typename T> static void norm_forward(const tri_call *call) {
    OPERANDS(norm);
    fp8_tensor to = fp8_operands(call, ARG(y), ARG(q), ARG(transposed), ARG(most), ARG(sq));
    if (to.rows * to.cols == 0) return;
    if (norm_scaled<T>(call, to)) return;
    tri_attr attr;
    tri_call norm = plain_call(call, &attr);
    tri__kernel(call->table, TRI_OP_norm, &attr, call->dtype[ARG(y)])(&norm);
    fp8_cast_to<T>(call, to, data<T>(call, ARG(y)), 0);
}

/* ---- Gradient ---- */

/* dx as bytes. A warp gathers rows of its 256 columns up to a multiple of 32, or the last of the run. */
template <typename T> struct bytes_end {
    fp8_tensor to;
    uint8_t *bytes;      /* [GATHERED, DIN_PITCH] of the warp */
    int64_t begin, last; /* the run's first row; the one after its last */
    float s;
    fp8_largest<T> largest;
    __device__ __forceinline__ pack<T, WIDE> put(int64_t t, int c, const float (&value)[WIDE]) {
        pack<T, WIDE> dx;
        dx.set(value);
        uint2 eight = eight_bytes<e5m2>(dx, s);
        largest.see(dx);
        *reinterpret_cast<uint2 *>(to.q + t * to.cols + c) = eight;
        *reinterpret_cast<uint2 *>(bytes + (int)(t % GATHERED) * DIN_PITCH + threadIdx.x % WARP * WIDE) = eight;
        return dx;
    }
    __device__ __forceinline__ void pause(int64_t t) {
        if (t % GATHERED && t != last) return;
        int64_t first = (t - 1) / GATHERED * GATHERED, row = first + threadIdx.x % TILES * WIDE;
        __syncwarp();
        if (row >= begin && row < t)
#pragma unroll 1
            for (int piece = threadIdx.x % WARP / TILES; piece < WARP; piece += WARP / TILES) {
                int c = (int)(threadIdx.x / WARP * WARP + piece) * WIDE;
                if (c < to.cols)
                    put_transposed(to, row, c, bytes + (threadIdx.x % TILES * DIN_PITCH + piece) * WIDE, DIN_PITCH);
            }
        __syncwarp();
    }
};

/* A block has `size` rows. */
template <typename T>
static __global__ void __launch_bounds__(DIN_WARPS *WARP, 2)
    norm_scaled_din_kernel(norm_din_args a, fp8_tensor to, int64_t size) {
    extern __shared__ uint8_t bytes[];
    int64_t begin = blockIdx.x * size, last = min(begin + size, a.rows);
    bytes_end<T> end = {to, bytes + threadIdx.x / WARP * (GATHERED * DIN_PITCH), begin, last, *to.s, {}};
    norm_din_run<T>(a, run_of_rows{begin, last}, end);
    raise(to.most, end.largest.word());
}

/* 0: nothing was done, since shapes or types are not supported. */
template <typename T> static int norm_scaled_din(const tri_call *call, const fp8_tensor &to) {
    OPERANDS(norm_din);
    norm_din_args a = norm_din_args_of(call);
    if (call->t[ARG(dg)].data || call->t[ARG(db)].data || call->t[ARG(dbias)].data)
        a.part = static_cast<float *>(call->work);
    if (sizeof(T) != 2 || a.rows == 0 || a.rows % 16 || !fp8_wide(to) || a.cols > DIN_WARPS * WARP * WIDE ||
        !aligned(a.dy, a.xhat, a.g, a.dres))
        return 0;
    int threads = row_threads(a.cols), room = threads / WARP * GATHERED * DIN_PITCH;
    /* Multiples of 32 rows: halves of sectors, written by two blocks, take a third longer. Few rows need all blocks. */
    int64_t wanted = blocks_for(a.rows, column_runs(a.rows, a.cols)), each = wanted <= 16 ? 16 : (int)GATHERED;
    int64_t size = (wanted + each - 1) / each * each;
    int runs = (int)blocks_for(a.rows, size);
    queue_sharing(call, "dropout_add_norm_scaled_din", norm_scaled_din_kernel<T>, (unsigned)runs, threads, room, a, to,
                  size);
    column_sums sums = {{operand(call, ARG(db)), operand(call, ARG(dg)), operand(call, ARG(dbias))},
                        {adds(call, ARG(db)), adds(call, ARG(dg)), adds(call, ARG(dbias))}};
    if (a.part) end_columns(call, a.cols, runs, COLUMN_SUMS, sums);
    return 1;
}

/* Otherwise rows of dx pass through the workspace. */
template <typename T> static void norm_backward(const tri_call *call) {
    OPERANDS(norm_din);
    fp8_tensor to = fp8_operands(call, ARG(dy), ARG(dx), ARG(transposed), ARG(most), ARG(sq));
    if (to.cols == 0) return;
    if (norm_scaled_din<T>(call, to)) return;
    fp8_run run = fp8_run_of<T>(call, to.cols);
    int64_t first = 0, rows = to.rows, each = rows < run.most ? rows : run.most;
    static const int by_rows[] = {ARG(dres), ARG(dy), ARG(xhat), ARG(rstd), ARG(key)};
    tri_attr attr;
    do {
        tri_call norm = plain_call(call, &attr);
        int64_t n = rows - first < each ? rows - first : each;
        for (int k : by_rows) put_rows(&norm, k, call, k, first, n);
        if (first > 0) norm.acc |= 1u << ARG(dg) | 1u << ARG(db) | 1u << ARG(dbias);
        norm.t[ARG(dx)] = tri_tensor{run.at, n, to.cols};
        norm.dtype[ARG(dx)] = call->dtype[ARG(dy)];
        tri__kernel(call->table, TRI_OP_norm_din, &attr, call->dtype[ARG(dy)])(&norm);
        fp8_cast_to<T>(call, fp8_rows(to, first, n), (const T *)run.at, 0);
        first += n;
    } while (first < rows);
}

TRI_CUDA_FAMILY(scaled_norm) = {
    TRI_CUDA_FACT_ROWS(TRI_FACT_SCALED, TRI_OP_norm, norm_forward, {}),
    TRI_CUDA_FACT_ROWS(TRI_FACT_SCALED, TRI_OP_norm_din, norm_backward, COLUMN_WORK(3)),
    {},
};
