/* gelu_product.cu - products on Hopper's tensor cores with fused GELU, or its gradient; cuBLASLt, whose GELU is the
 * tanh approximation, needs another pass over memory.
 *
 * Blocks are persistent, with many tiles of 128 rows by 256 columns each. One thread fetches tiles of both factors, 64
 * of the summed dimension at a time (a step); two blocks form a cluster, work on the same columns and each fetch half
 * of that factor for both. Two warpgroups multiply, 64 rows each, round their results into shared memory, and continue;
 * other warps apply GELU and write to memory, while the next tile is multiplied. Sums over rows are computed by one
 * warp each, in row order: bitwise reproducible. */
#include "device/cuda/gelu_product.cuh"
#include "device/cuda/cluster.cuh"
#include "device/cuda/gelu.cuh"
#include "device/cuda/product.cuh"

enum {
    ROWS = 128,
    COLS = 256,
    STEP = 64,
    STAGES = 3, /* of a tile; of the summed dimension; steps in shared memory */
    GROUP = 128,
    GROUP_ROWS = 64,
    PRODUCT_WARPS = ROWS / 16, /* threads and rows that multiply together; all warps that do */
    X_BYTES = ROWS * ROW_BYTES,
    W_BYTES = COLS * ROW_BYTES,
    STAGE_BYTES = X_BYTES + W_BYTES, /* of a step */
    BOX = ROWS * ROW_BYTES,
    BOXES = COLS / PANEL, /* 64 columns of results */
    RESULTS_AT = STAGES * STAGE_BYTES,
    BARRIERS_AT = RESULTS_AT + BOXES * BOX,
    ALL_BYTES = BARRIERS_AT + (2 * STAGES + 2) * 8 + ATOM_BYTES, /* including padding to align */
    SLICE = 4,
    SLICES = ROWS / SLICE, /* rows that a warp finishes at once; of a tile */
    LEAST_ROWS = 1024      /* with fewer, most of the GPU has no tile, and cuBLASLt uses smaller ones */
};

/* In the forward, three warps keep up with the products, and leave registers for instructions of 256 columns, which
 * read shared memory least. The gradient needs eight warps; then only instructions of 128 columns fit. Registers are
 * per thread: of the groups that multiply, those that finish and the one that fetches; 0: all have the same. */
template <bool BACK> struct roles {
    enum {
        END_WARPS = 3,
        PARTS = 1,
        MOST_SLICES = (SLICES + END_WARPS - 1) / END_WARPS,
        END_BOXES = BOXES,
        HALVES = 1,
        TOGETHER = 4,
        THREADS = (PRODUCT_WARPS + END_WARPS + 1) * WARP,
        PRODUCT_REGISTERS = 0,
        END_REGISTERS = 0,
        FETCH_REGISTERS = 0
    };
};
template <> struct roles<true> {
    enum {
        END_WARPS = 8,
        PARTS = END_WARPS / BOXES,
        MOST_SLICES = SLICES / PARTS,
        END_BOXES = 1,
        HALVES = 2,
        TOGETHER = 2,
        THREADS = (PRODUCT_WARPS + END_WARPS) * WARP + GROUP,
        PRODUCT_REGISTERS = 160,
        END_REGISTERS = 64,
        FETCH_REGISTERS = 32
    };
};

typedef struct product_args {
    void *y;       /* [rows, cols]: gelu(h), or dx */
    void *h;       /* [rows, cols]: written unless NULL; read by the gradient */
    const void *b; /* [cols] */
    float *part;   /* [roles<true>::PARTS * blocks_for(rows, ROWS), cols]; of the gradient */
    int64_t rows;
    int cols, across, tiles, steps; /* across: tiles per row of tiles; tiles: per cluster */
} product_args;

static inline int parts_of(int64_t rows) { return (int)blocks_for(rows, ROWS) * roles<true>::PARTS; }

#if TRI_HOPPER
/* The position of a tile; tiles of one row are consecutive, so that x is in the cache. */
typedef struct tile_place {
    int64_t row;
    int col;
} tile_place;
static __device__ __forceinline__ tile_place place_of(const product_args &a, int tile) {
    return tile_place{(int64_t)(tile / a.across * CLUSTER + (int)cluster_rank()) * ROWS, tile % a.across * COLS};
}
static __device__ __forceinline__ int first_tile() { return (int)(blockIdx.x / CLUSTER); }
static __device__ __forceinline__ int tiles_further() { return (int)(gridDim.x / CLUSTER); }

/* The block's shared memory. */
template <bool BACK> struct product_room {
    uint32_t base;
    __device__ __forceinline__ uint32_t x(int stage) const { return base + (uint32_t)(stage * STAGE_BYTES); }
    __device__ __forceinline__ uint32_t w(int stage) const { return x(stage) + X_BYTES; }
    __device__ __forceinline__ uint32_t results(int box) const { return base + RESULTS_AT + (uint32_t)(box * BOX); }
    __device__ __forceinline__ uint32_t full(int stage) const { return base + BARRIERS_AT + (uint32_t)stage * 8; }
    __device__ __forceinline__ uint32_t empty(int stage) const { return full(STAGES + stage); }
    __device__ __forceinline__ uint32_t made() const { return full(2 * STAGES); }      /* results are complete */
    __device__ __forceinline__ uint32_t taken() const { return full(2 * STAGES + 1); } /* and have been read */
    __device__ __forceinline__ void init() const {
        for (int i = 0; i < STAGES; i++) barrier_init(full(i), 1), barrier_init(empty(i), CLUSTER * PRODUCT_WARPS);
        barrier_init(made(), PRODUCT_WARPS * WARP), barrier_init(taken(), roles<BACK>::END_WARPS * WARP);
        show_barriers();
    }
};

/* One thread fetches all steps of all tiles. w is [cols, summed]; for the gradient [summed, cols]. */
template <bool BACK>
static __device__ __forceinline__ void fetch_all(const product_args &a, const CUtensorMap *x, const CUtensorMap *w,
                                                 const product_room<BACK> &m) {
    ring<STAGES> stage = {0, 0};
    int rank = (int)cluster_rank();
    for (int tile = first_tile(); tile < a.tiles; tile += tiles_further()) {
        tile_place at = place_of(a, tile);
        for (int step = 0; step < a.steps; step++, stage.advance()) {
            uint32_t full = m.full(stage.slot), half = m.w(stage.slot) + (uint32_t)(rank * (W_BYTES / CLUSTER));
            wait_for(m.empty(stage.slot), stage.lap ^ 1);
            expect_bytes(full, STAGE_BYTES);
            fetch_tile(x, (int)at.row, step * STEP, m.x(stage.slot), full);
            if constexpr (BACK) {
                for (int panel = 0; panel < BOXES / CLUSTER; panel++)
                    fetch_tile_for_both(w, step * STEP, at.col + (rank * (BOXES / CLUSTER) + panel) * PANEL,
                                        half + (uint32_t)(panel * STEP * ROW_BYTES), full);
            } else {
                fetch_tile_for_both(w, at.col + rank * (COLS / CLUSTER), step * STEP, half, full);
            }
        }
    }
}

/* Releases a stage for this warp: signalled to both blocks, since each fetches for both. */
template <bool BACK> static __device__ __forceinline__ void leave(const product_room<BACK> &m, int stage) {
    __syncwarp();
    if (threadIdx.x % WARP < CLUSTER) arrive_at(m.empty(stage), threadIdx.x % WARP);
}

/* A warp's 16 rows of results, in as many halves as one instruction produces. */
template <bool BACK> struct product_sums {
    enum { HALVES = roles<BACK>::HALVES, EACH = COLS / 2 / HALVES };
    float half[HALVES][EACH];
    __device__ __forceinline__ float at(int i) const { return half[i / EACH][i % EACH]; }
    __device__ __forceinline__ void pinned() {
#pragma unroll
        for (int i = 0; i < HALVES; i++) pin(half[i]);
    }
};

/* Adds the bias of a thread's columns (pairs of them, 8 columns apart; `bias` is the first) and rounds this warp's 16
 * rows into boxes. */
template <typename T, bool BACK>
static __device__ __forceinline__ void put_results(const product_room<BACK> &m, const product_sums<BACK> &d,
                                                   const uint32_t *bias) {
    int lane = threadIdx.x % WARP, row = (int)threadIdx.x / WARP * 16 + lane % 16;
#pragma unroll
    for (int k = 0; k < COLS / 16; k++) {
        uint32_t four[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float first = d.at(8 * k + 2 * i), second = d.at(8 * k + 2 * i + 1);
            if constexpr (!BACK) {
                uint32_t two = __ldg(bias + 8 * k + 4 * (i / 2));
                first += wide_half(T(), two, 0), second += wide_half(T(), two, 1);
            }
            four[i] = pair_of(T(), first, second);
        }
        store_matrices(m.results(k / 4) + piece_at(row, k % 4 * 2 + lane / 16), four);
    }
}

template <typename T, bool BACK>
static __device__ __forceinline__ void multiply_all(const product_args &a, const product_room<BACK> &m) {
    enum { HALVES = roles<BACK>::HALVES };
    ring<STAGES> stage = {0, 0};
    /* warp-uniform, and known to the compiler as such */
    uint32_t rows = __shfl_sync(0xFFFFFFFFu, threadIdx.x / GROUP, 0) * (GROUP_ROWS * ROW_BYTES), lap = 0;
    for (int number = first_tile(); number < a.tiles; number += tiles_further(), lap ^= 1) {
        product_sums<BACK> d;
        int before = 0;
        for (int step = 0; step < a.steps; step++, stage.advance()) {
            wait_for(m.full(stage.slot), stage.lap);
            uint32_t x = tile_at(m.x(stage.slot) + rows), w = tile_at(m.w(stage.slot), BACK ? STEP * ROW_BYTES : 16);
            wgmma_begin();
#pragma unroll
            for (int k = 0; k < STEP / 16; k++)
#pragma unroll
                for (int i = 0; i < HALVES; i++)
                    wgmma<T>::template run<0, BACK>(d.half[i], tile(x, k * 32),
                                                    tile(w, i * (W_BYTES / 2) + k * (BACK ? 16 * ROW_BYTES : 32)),
                                                    step > 0 || k > 0);
            wgmma_commit();
            if (step > 0) {
                wgmma_wait<1>();
                leave(m, before);
            }
            before = stage.slot;
        }
        wgmma_wait<0>();
        d.pinned();
        leave(m, before);
        wait_for(m.taken(), lap ^ 1);
        put_results<T>(m, d, (const uint32_t *)((const T *)a.b + place_of(a, number).col) + threadIdx.x % 4);
        arrive(m.made());
    }
}

/* The part of a box that a warp finishes: slices of 4 rows; a thread has 8 columns of one row. */
typedef struct end_place {
    uint32_t from; /* the box */
    int64_t at;    /* offset of the thread's first element */
    int first;     /* its row in the box */
    int slices, left; /* slices of the warp; those of the thread whose rows exist */
} end_place;

template <typename T> static __device__ __forceinline__ pack<T, WIDE> result_at(const end_place &p, int slice) {
    uint4 raw = load_16(p.from + piece_at(p.first + min(slice, p.slices - 1) * SLICE, threadIdx.x % 8));
    return *reinterpret_cast<pack<T, WIDE> *>(&raw);
}
/* Streaming store: written once and read by another kernel after it has left the cache. */
template <typename T> static __device__ __forceinline__ void pass_on(T *to, const pack<T, WIDE> &value) {
    __stcs(reinterpret_cast<uint4 *>(to), *reinterpret_cast<const uint4 *>(&value));
}

template <typename T> static __device__ __forceinline__ void end_forward(const product_args &a, const end_place &p) {
    enum { TOGETHER = roles<false>::TOGETHER };
    int64_t further = (int64_t)SLICE * a.cols;
    T *y = (T *)a.y + p.at, *h = (T *)a.h + p.at;
#pragma unroll 1
    for (int slice = 0; slice < p.slices; slice += TOGETHER) {
        pack<T, WIDE> x[TOGETHER], value[TOGETHER];
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) x[i] = result_at<T>(p, slice + i);
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            float of[WIDE];
#pragma unroll
            for (int k = 0; k < WIDE; k++) of[k] = gelu_op<T>::at(x[i].at(k));
            value[i].set(of);
        }
#pragma unroll
        for (int i = 0; i < TOGETHER; i++, y += further, h += further) {
            if (slice + i < p.left) pass_on(y, value[i]);
            if (slice + i < p.left && a.h) pass_on(h, x[i]);
        }
    }
}

/* The same for the gradient; `sum` [8] of the values written, in row order. h is prefetched two slices ahead. */
template <typename T>
static __device__ __forceinline__ void end_backward(const product_args &a, const product_room<true> &m, uint32_t lap,
                                                    const end_place &p, float (&sum)[WIDE]) {
    enum { TOGETHER = roles<true>::TOGETHER };
    int64_t further = (int64_t)SLICE * a.cols;
    const T *h = (const T *)a.h + p.at;
    T *dx = (T *)a.y + p.at;
    pack<T, WIDE> ahead[TOGETHER] = {};
#pragma unroll
    for (int i = 0; i < TOGETHER; i++, h += further)
        if (i < p.left) ahead[i] = packed<WIDE>(h);
    wait_for(m.made(), lap);
#pragma unroll 1
    for (int slice = 0; slice < p.slices; slice += TOGETHER) {
        pack<T, WIDE> dy[TOGETHER], x[TOGETHER];
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) dy[i] = result_at<T>(p, slice + i), x[i] = ahead[i];
#pragma unroll
        for (int i = 0; i < TOGETHER; i++, h += further)
            if (slice + TOGETHER + i < p.left) ahead[i] = packed<WIDE>(h);
#pragma unroll
        for (int i = 0; i < TOGETHER; i++, dx += further) {
            float of[WIDE];
            pack<T, WIDE> value;
#pragma unroll
            for (int k = 0; k < WIDE; k++) of[k] = gelu_din_op<T>::at(dy[i].at(k), x[i].at(k));
            value.set(of);
            if (slice + i >= p.left) continue;
            pass_on(dx, value);
#pragma unroll
            for (int k = 0; k < WIDE; k++) sum[k] = __fadd_rn(sum[k], value.at(k));
        }
    }
}

/* Adds the parts of a warp's threads that have the same columns, and writes them; `part` is the thread's first
 * column. */
static __device__ __forceinline__ void put_sums(float (&sum)[WIDE], float *part) {
#pragma unroll
    for (int k = 0; k < WIDE; k++)
#pragma unroll
        for (int other = WIDE; other < WARP; other *= 2) sum[k] += __shfl_xor_sync(0xFFFFFFFFu, sum[k], other);
    if (threadIdx.x % WARP < WIDE) store<WIDE>(part, sum);
}

template <typename T, bool BACK>
static __device__ __forceinline__ void end_all(const product_args &a, const product_room<BACK> &m) {
    typedef roles<BACK> role;
    int lane = threadIdx.x % WARP, warp = (int)threadIdx.x / WARP - PRODUCT_WARPS;
    int begin = (BACK ? warp / BOXES : warp) * role::MOST_SLICES, slices = min((int)role::MOST_SLICES, SLICES - begin);
    int first = begin * SLICE + lane / 8;
    uint32_t lap = 0;
    for (int number = first_tile(); number < a.tiles; number += tiles_further(), lap ^= 1) {
        tile_place place = place_of(a, number);
        int64_t row = place.row + first;
        int left = row >= a.rows ? 0 : (int)min((int64_t)slices, (a.rows - row + SLICE - 1) / SLICE);
        if constexpr (!BACK) wait_for(m.made(), lap);
#pragma unroll 1
        for (int i = 0; i < role::END_BOXES; i++) {
            int box = BACK ? warp % BOXES : i, col = place.col + box * PANEL + lane % 8 * WIDE;
            end_place p = {m.results(box), row * a.cols + col, first, slices, left};
            if constexpr (BACK) {
                float sum[WIDE] = {};
                end_backward<T>(a, m, lap, p, sum);
                if (place.row < a.rows)
                    put_sums(sum, a.part + (place.row / ROWS * role::PARTS + warp / BOXES) * a.cols + col);
            } else {
                end_forward<T>(a, p);
            }
        }
        arrive(m.taken());
    }
}
#endif

template <typename T, bool BACK>
static __global__ void IN_CLUSTERS __launch_bounds__(roles<BACK>::THREADS, 1)
    gelu_product_kernel(product_args a, const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w) {
#if TRI_HOPPER
    typedef roles<BACK> role;
    extern __shared__ char raw[];
    product_room<BACK> m = {(shared_address(raw) + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES};
    if (threadIdx.x == 0) m.init();
    cluster_sync();
    int warp = __shfl_sync(0xFFFFFFFFu, (int)threadIdx.x / WARP, 0); /* warp-uniform for the compiler, too */
    if (warp < PRODUCT_WARPS) {
        if constexpr (role::PRODUCT_REGISTERS) more_registers<role::PRODUCT_REGISTERS>();
        multiply_all<T>(a, m);
    } else if (warp < PRODUCT_WARPS + role::END_WARPS) {
        if constexpr (role::END_REGISTERS) fewer_registers<role::END_REGISTERS>();
        end_all<T>(a, m);
    } else {
        if constexpr (role::FETCH_REGISTERS) fewer_registers<role::FETCH_REGISTERS>();
        if (threadIdx.x == (PRODUCT_WARPS + role::END_WARPS) * WARP) fetch_all(a, &x, &w, m);
    }
    __syncwarp();
    cluster_sync(); /* the other block may still copy to this one */
#endif
}

int tri__cuda_describe_tiles(tri_cuda *cuda, CUtensorMap *map, int dtype, const void *data, int64_t rows, int64_t cols,
                             int tile_rows) {
    cuuint64_t size[2] = {(cuuint64_t)cols, (cuuint64_t)rows}, stride[1] = {(cuuint64_t)cols * 2};
    cuuint32_t tile[2] = {PANEL, (cuuint32_t)tile_rows}, each[2] = {1, 1};
    if (!cuda->encode) {
        cudaDriverEntryPointQueryResult found;
        if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &cuda->encode, 12000, cudaEnableDefault,
                                             &found) != cudaSuccess ||
            found != cudaDriverEntryPointSuccess) {
            cudaGetLastError();
            cuda->encode = NULL;
            return 0;
        }
    }
    auto *encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(cuda->encode);
    CUtensorMapDataType type = dtype == TRI_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    return encode(map, type, 2, const_cast<void *>(data), size, stride, tile, each, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

template <typename T, bool BACK>
static void launch(const tri_call *call, const product_args &a, const CUtensorMap &x, const CUtensorMap &w,
                   const char *where) {
    auto *kernel = gelu_product_kernel<T, BACK>;
    record(call, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, ALL_BYTES), where);
    kernel<<<(unsigned)min(processors_of(call) / CLUSTER, a.tiles) * CLUSTER, roles<BACK>::THREADS, ALL_BYTES,
             stream(call)>>>(a, x, w);
    launched(call, where);
}

/* x [rows, summed] times w as stored, to [rows, cols]; does not launch while products are being timed. */
template <bool BACK>
static int run(const tri_call *call, product_args a, const tri_tensor *x, const tri_tensor *w, const char *where) {
    tri_cuda *cuda = tri__cuda(call);
    CUtensorMap x_map, w_map;
    int64_t cols = BACK ? w->cols : w->rows;
    int dtype = call->dtype[0];
    if (dtype == TRI_F32 || !is_hopper(call) || cols % COLS || x->cols % STEP || x->cols == 0 || x->rows < LEAST_ROWS ||
        (BACK && parts_of(x->rows) > MOST_PARTS) || !aligned(a.y) || !aligned(a.h) || !aligned(a.b) ||
        !aligned(x->data) || !aligned(w->data))
        return 0;
    a.rows = x->rows, a.cols = (int)cols, a.across = a.cols / COLS, a.steps = (int)(x->cols / STEP);
    a.tiles = (int)blocks_for(a.rows, ROWS * CLUSTER) * a.across;
    if (!tri__cuda_describe_tiles(cuda, &x_map, dtype, x->data, x->rows, x->cols, ROWS) ||
        !tri__cuda_describe_tiles(cuda, &w_map, dtype, w->data, w->rows, w->cols, BACK ? (int)STEP : COLS / CLUSTER))
        return 0;
    if (only_timed(call)) return 1;
    if (dtype == TRI_BF16) launch<bf16, BACK>(call, a, x_map, w_map, where);
    else launch<f16, BACK>(call, a, x_map, w_map, where);
    return 1;
}

/* h [T,O] = x [T,I] w [O,I]^T + b [O]; y [T,O] = gelu(h), of h as rounded */
int gelu_product(const tri_call *call) {
    OPERANDS(linear_gelu);
    product_args a = {};
    a.y = call->t[ARG(y)].data, a.h = call->t[ARG(h)].data, a.b = call->t[ARG(b)].data;
    return run<false>(call, a, &call->t[ARG(x)], &call->t[ARG(w)], "linear_gelu");
}

/* dx [T,I] = gelu_din(dy [T,O] w [O,I], x [T,I]), the product as rounded; db [I] */
int gelu_din_product(const tri_call *call) {
    OPERANDS(linear_gelu_din);
    product_args a = {};
    a.y = call->t[ARG(dx)].data, a.h = call->t[ARG(x)].data, a.part = static_cast<float *>(call->work);
    if (!run<true>(call, a, &call->t[ARG(dy)], &call->t[ARG(w)], "linear_gelu_din")) return 0;
    if (!only_timed(call))
        end_columns(call, call->t[ARG(dx)].cols, parts_of(call->t[ARG(dx)].rows), 1,
                    {{operand(call, ARG(db))}, {adds(call, ARG(db))}});
    launched(call, "linear_gelu_din");
    return 1;
}
