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
    if (!to.turned) return;
    __syncthreads();
    for (int i = threadIdx.x; i < (int)a.cols / WIDE * TILES; i += TILES * W * WARP) {
        int row = i % TILES * WIDE, c = i / TILES * WIDE;
        if (first + row < a.rows) put_turned(to, first + row, c, bytes + row * pitch + c, pitch);
    }
}

template <typename T, int W, int PACKS>
static void launch_norm(const tri_call *call, const norm_args &a, const fp8_tensor &to) {
    size_t room = (size_t)GATHERED * (size_t)(a.cols + PAD);
    auto *kernel = norm_scaled_kernel<T, W, PACKS>;
    record(call, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)room),
           "dropout_add_norm_scaled");
    kernel<<<blocks_for(a.rows, GATHERED), TILES * W * WARP, room, stream(call)>>>(a, to);
}
template <typename T, int W> static void launch_packs(const tri_call *call, const norm_args &a, const fp8_tensor &to) {
    switch (blocks_for(a.cols, W * WARP * WIDE)) {
    case 1: launch_norm<T, W, 1>(call, a, to); break;
    case 2: launch_norm<T, W, 2>(call, a, to); break;
    default: launch_norm<T, W, MOST_PACKS>(call, a, to);
    }
}

/* 0: nothing was done, since shapes or types are not supported. */
template <typename T> static int norm_scaled(const tri_call *call, const fp8_tensor &to) {
    OPERANDS(dropout_add_norm_scaled);
    norm_args a = {};
    a.x = call->t[ARG(x)].data, a.res = call->t[ARG(res)].data, a.g = call->t[ARG(g)].data, a.b = call->t[ARG(b)].data;
    a.y = call->t[ARG(y)].data, a.xhat = call->t[ARG(xhat)].data, a.rstd = data<float>(call, ARG(rstd));
    a.key = data<int32_t>(call, ARG(key)), a.drop = dropper_of(call), a.s = data<float>(call, ARG(s));
    a.rows = to.rows, a.cols = to.cols, a.eps = call->attr->eps;
    int warps = fp8_wide(to) ? warps_for(a.cols, norm_aligned(a)) : 0;
    if (a.rows * warps < LEAST_WARPS) return 0;
    if constexpr (sizeof(T) == 2) {
        switch (warps) {
        case 0: return 0;
        case 1: launch_packs<T, 1>(call, a, to); return 1;
        case 2: launch_packs<T, 2>(call, a, to); return 1;
        default: launch_packs<T, 4>(call, a, to); return 1;
        }
    }
    return 0;
}

template <typename T> static void dropout_add_norm_scaled(const tri_call *call) {
    OPERANDS(dropout_add_norm_scaled);
    fp8_tensor to = fp8_operands(call, ARG(y), ARG(q), ARG(turned), ARG(most), ARG(sq));
    if (to.rows * to.cols == 0) return;
    if (norm_scaled<T>(call, to)) {
        launched(call, "dropout_add_norm_scaled");
        return;
    }
    tri_call norm = *call;
    static const struct { int to, from; } same[] = {
#define SAME(name) {TRI_ARG(dropout_add_norm, name), TRI_ARG(dropout_add_norm_scaled, name)}
        SAME(y), SAME(xhat), SAME(rstd), SAME(x), SAME(res), SAME(g), SAME(b), SAME(key), SAME(s)};
#undef SAME
    for (auto k : same) norm.t[k.to] = call->t[k.from], norm.dtype[k.to] = call->dtype[k.from];
    norm.acc = 0;
    tri__kernel(call->table, TRI_OP_dropout_add_norm, norm.attr, call->dtype[ARG(y)])(&norm);
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
                    put_turned(to, row, c, bytes + threadIdx.x % TILES * WIDE * DIN_PITCH + piece * WIDE, DIN_PITCH);
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
    OPERANDS(dropout_add_norm_scaled_din);
    norm_din_args a = {};
    a.dres = call->t[ARG(dres)].data, a.add_dres = adds(call, ARG(dres));
    a.dy = call->t[ARG(dy)].data, a.xhat = call->t[ARG(xhat)].data, a.rstd = data<float>(call, ARG(rstd)),
    a.g = call->t[ARG(g)].data;
    a.key = data<int32_t>(call, ARG(key)), a.drop = dropper_of(call), a.s = data<float>(call, ARG(s));
    a.rows = to.rows, a.cols = to.cols;
    if (call->t[ARG(dg)].data || call->t[ARG(db)].data || call->t[ARG(dbias)].data)
        a.part = static_cast<float *>(call->work);
    if (sizeof(T) != 2 || a.rows == 0 || a.rows % 16 || !fp8_wide(to) || a.cols > DIN_WARPS * WARP * WIDE ||
        !aligned(a.dy) || !aligned(a.xhat) || !aligned(a.g) || !aligned(a.dres))
        return 0;
    int threads = row_threads(a.cols), room = threads / WARP * GATHERED * DIN_PITCH;
    /* Multiples of 32 rows: halves of sectors, written by two blocks, take a third longer. Few rows need all blocks. */
    int64_t wanted = blocks_for(a.rows, column_runs(a.rows, a.cols)), each = wanted <= 16 ? 16 : (int)GATHERED;
    int64_t size = (wanted + each - 1) / each * each;
    int runs = (int)blocks_for(a.rows, size);
    auto *kernel = norm_scaled_din_kernel<T>;
    record(call, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, room),
           "dropout_add_norm_scaled_din");
    kernel<<<(unsigned)runs, threads, room, stream(call)>>>(a, to, size);
    column_sums sums = {{operand(call, ARG(db)), operand(call, ARG(dg)), operand(call, ARG(dbias))},
                        {adds(call, ARG(db)), adds(call, ARG(dg)), adds(call, ARG(dbias))}};
    if (a.part) end_columns(call, a.cols, runs, COLUMN_SUMS, sums);
    return 1;
}

/* Otherwise rows of dx pass through the workspace. */
template <typename T> static void dropout_add_norm_scaled_din(const tri_call *call) {
    OPERANDS(dropout_add_norm_scaled_din);
    fp8_tensor to = fp8_operands(call, ARG(dy), ARG(q), ARG(turned), ARG(most), ARG(sq));
    if (to.cols == 0) return;
    if (norm_scaled_din<T>(call, to)) {
        launched(call, "dropout_add_norm_scaled_din");
        return;
    }
    fp8_run run = fp8_run_of<T>(call, to.cols);
    int64_t first = 0, rows = to.rows, each = rows < run.most ? rows : run.most;
    static const struct { int to, from, rows; } same[] = {
#define SAME(name, rows) {TRI_ARG(dropout_add_norm_din, name), TRI_ARG(dropout_add_norm_scaled_din, name), rows}
        SAME(dres, 1), SAME(dg, 0), SAME(db, 0), SAME(dbias, 0), SAME(dy, 1), SAME(xhat, 1), SAME(rstd, 1), SAME(g, 0),
        SAME(key, 1), SAME(s, 0)};
#undef SAME
    do {
        tri_call norm = *call;
        int64_t n = rows - first < each ? rows - first : each;
        norm.acc = 0;
        for (auto k : same) {
            if (k.rows) put_rows(&norm, k.to, call, k.from, first, n);
            else norm.t[k.to] = call->t[k.from], norm.dtype[k.to] = call->dtype[k.from];
            int sum = !k.rows && first > 0 && (k.from == ARG(dg) || k.from == ARG(db) || k.from == ARG(dbias));
            norm.acc |= (unsigned)(adds(call, k.from) || sum) << k.to;
        }
        norm.t[TRI_ARG(dropout_add_norm_din, dx)] = tri_tensor{run.at, n, to.cols};
        norm.dtype[TRI_ARG(dropout_add_norm_din, dx)] = call->dtype[ARG(dy)];
        tri__kernel(call->table, TRI_OP_dropout_add_norm_din, norm.attr, call->dtype[ARG(dy)])(&norm);
        fp8_cast_to<T>(call, fp8_rows(to, first, n), (const T *)run.at, 0);
        first += n;
    } while (first < rows);
}

TRI_CUDA_FAMILY(scaled_norm) = {
    TRI_CUDA_ROWS(TRI_OP_dropout_add_norm_scaled, dropout_add_norm_scaled, {}),
    TRI_CUDA_ROWS(TRI_OP_dropout_add_norm_scaled_din, dropout_add_norm_scaled_din, COLUMN_WORK(3)),
    {},
};
