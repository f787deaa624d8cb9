/* fused_product.cu - dense layers on Hopper's tensor cores: the bias, the scales of 8-bit factors and the activation
 * are applied where the product is in registers and shared memory. cuBLASLt's GELU is the tanh approximation, and its
 * int8 products are int32 in memory: both need another pass. product_tiles.cuh says how it works. Every sum is made in
 * the order of the summed dimension, whatever the number of rows. */
#include "device/cuda/product/fused_product.cuh"
#include "device/cuda/elementwise/activation.cuh"
#include "device/cuda/product/product.cuh"
#include "device/cuda/product/product_tiles.cuh"

enum {
    END_WARPS = 3, /* keep up with the products, and leave registers for instructions of 256 columns */
    TOGETHER = 4,  /* slices */
    RUN = TOGETHER * SLICE,
    RUNS = GROUP_ROWS / RUN, /* rows that a warp finishes at once, of a box; of a group's rows */
    THREADS = (PRODUCT_WARPS + END_WARPS + 1) * WARP,
    PRODUCT_REGISTERS = 200, /* of a thread that multiplies; of the others */
    OTHER_REGISTERS = 96,
    /* Scales and biases of a tile's columns come with its first step. They are used after its last one, when at most
     * STAGES further steps, of as many tiles at most, have been fetched. */
    SIDES = STAGES + 1,
    SIDES_AT = BARRIERS_AT + ATOM_BYTES,
    SIDE_BYTES = COLS * 6,
    LAYER_BYTES = SIDES_AT + SIDES * SIDE_BYTES + ATOM_BYTES
};

struct layer_tiles : layer_args {
    int across, tiles; /* tiles per row of tiles; per cluster */
};

#if TRI_HOPPER
struct layer_room : product_room<END_WARPS, 2> {
    __device__ __forceinline__ uint32_t scales(int side) const {
        return base + SIDES_AT + (uint32_t)(side * SIDE_BYTES);
    }
    __device__ __forceinline__ uint32_t biases(int side) const { return scales(side) + COLS * 4; }
};

/* Fetches what belongs to a tile's columns, which the barrier does not expect yet. */
template <typename F>
static __device__ __forceinline__ void fetch_sides(const layer_tiles &a, const layer_room &m, int col, int side,
                                                   uint32_t full) {
    uint32_t cols = (uint32_t)min((int)COLS, a.cols - col), scales = factor<F>::SCALED ? cols * 4 : 0,
             biases = a.b ? cols * 2 : 0;
    expect_bytes(full, STAGE_BYTES + scales + biases);
    if (scales) fetch_run(a.ws + col, scales, m.scales(side), full);
    if (biases) fetch_run((const char *)a.b + 2 * (int64_t)col, biases, m.biases(side), full);
}

/* One thread fetches all steps of all tiles. */
template <typename F>
static __device__ __forceinline__ void fetch_all(const layer_tiles &a, const CUtensorMap *x, const CUtensorMap *w,
                                                 const layer_room &m) {
    enum { STEP = factor<F>::STEP };
    ring<STAGES> stage = {0, 0};
    ring<SIDES> side = {0, 0};
    int rank = (int)cluster_rank();
    for (int tile = first_tile(); tile < a.tiles; tile += tiles_further(), side.advance()) {
        tile_place at = place_of(a.across, tile);
        for (int step = 0; step < a.steps; step++, stage.advance()) {
            uint32_t full = m.full(stage.slot), half = m.w(stage.slot) + (uint32_t)(rank * (W_BYTES / CLUSTER));
            wait_for(m.empty(stage.slot), stage.lap ^ 1);
            if (step == 0) fetch_sides<F>(a, m, at.col, side.slot, full);
            else expect_bytes(full, STAGE_BYTES);
            fetch_tile(x, (int)at.row, step * STEP, m.x(stage.slot), full);
            fetch_tile_for_both(w, at.col + rank * (COLS / CLUSTER), step * STEP, half, full);
        }
    }
}

/* Scales sums, adds the bias and rounds this warp's 16 rows into boxes; each operation is rounded to fp32. A thread has
 * rows g and g + 8 of the warp's, and pairs of columns, 8 apart. */
template <typename F, typename T>
static __device__ __forceinline__ void put_results(const layer_tiles &a, const layer_room &m, int side,
                                                   const float (&s)[2],
                                                   const typename factor<F>::sum (&d)[COLS / 2]) {
    int lane = threadIdx.x % WARP, row = (int)threadIdx.x / WARP * 16;
    uint32_t scales = settled(m.scales(side) + (uint32_t)(lane % 4 * 8)),
             biases = settled(m.biases(side) + (uint32_t)(lane % 4 * 4));
#pragma unroll
    for (int k = 0; k < COLS / 16; k++) {
        uint32_t four[4];
#pragma unroll
        for (int j = 0; j < 2; j++) {
            float2 scale = {1, 1};
            uint32_t two = 0;
            if (factor<F>::SCALED) scale = load_8(scales + 64 * k + 32 * j);
            if (a.b) two = load_4(biases + 32 * k + 16 * j);
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float value[2] = {number(d[8 * k + 4 * j + 2 * h]), number(d[8 * k + 4 * j + 2 * h + 1])};
                if constexpr (factor<F>::SCALED) {
                    value[0] = __fmul_rn(value[0], __fmul_rn(s[h], scale.x));
                    value[1] = __fmul_rn(value[1], __fmul_rn(s[h], scale.y));
                }
                four[2 * j + h] = pair_of(T(), __fadd_rn(value[0], wide_half(T(), two, 0)),
                                          __fadd_rn(value[1], wide_half(T(), two, 1)));
            }
        }
        store_matrices(m.results(k / 4) + piece_at(row + lane % 16, k % 4 * 2 + lane / 16), four);
    }
}

/* The scales of a thread's two rows. */
static __device__ __forceinline__ void get_scales(const layer_tiles &a, int64_t first, float (&s)[2]) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int64_t t = first + threadIdx.x / WARP * 16 + threadIdx.x % WARP / 4 + 8 * h;
        s[h] = t < a.rows ? __ldg(a.s + t) : 0.0f;
    }
}

template <typename F, typename T>
static __device__ __forceinline__ void multiply_all(const layer_tiles &a, const layer_room &m) {
    ring<STAGES> stage = {0, 0};
    ring<SIDES> side = {0, 0};
    int group = __shfl_sync(0xFFFFFFFFu, (int)threadIdx.x / GROUP, 0); /* warp-uniform for the compiler, too */
    uint32_t lap = 0;
    for (int number = first_tile(); number < a.tiles; number += tiles_further(), lap ^= 1, side.advance()) {
        typename factor<F>::sum d[COLS / 2];
        float s[2] = {1, 1};
        if (factor<F>::SCALED) get_scales(a, place_of(a.across, number).row, s);
        int last = multiply_steps(m, a.steps, stage, [&](int slot, bool more) {
            uint32_t x = tile_at(m.x(slot) + (uint32_t)(group * (GROUP_ROWS * ROW_BYTES))), w = tile_at(m.w(slot));
            wgmma_begin();
#pragma unroll
            for (int k = 0; k < ROW_BYTES / 32; k++)
                wgmma<F>::template run<0, 0>(d, tile(x, k * 32), tile(w, k * 32), more || k > 0);
            wgmma_commit();
        });
        pin(d);
        m.leave(last);
        wait_for(m.taken(group), lap ^ 1);
        put_results<F, T>(a, m, side.slot, s, d);
        arrive(m.made(group));
    }
}

/* 16 rows of a box; a thread has 8 columns, in slices of 4 rows. `first`: its first row in the box; `at`: the offset of
 * its first element; `left`: slices whose rows exist, 0 beyond the last column. */
template <typename T, int ACT>
static __device__ __forceinline__ void end_rows(const layer_tiles &a, uint32_t box, int first, int64_t at, int left) {
    pack<T, WIDE> x[TOGETHER], value[TOGETHER];
#pragma unroll
    for (int i = 0; i < TOGETHER; i++) x[i] = value[i] = result_at<T>(box, first + i * SLICE, threadIdx.x % 8);
    if constexpr (ACT != NO_ACT) {
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            float of[WIDE];
#pragma unroll
            for (int k = 0; k < WIDE; k++) of[k] = act_at<ACT, T>(a.act, x[i].at(k));
            value[i].set(of);
        }
    }
#pragma unroll
    for (int i = 0; i < TOGETHER; i++, at += (int64_t)SLICE * a.cols) {
        if (i < left) pass_on((T *)a.y + at, value[i]);
        if (ACT != NO_ACT && i < left && a.h) pass_on((T *)a.h + at, x[i]);
    }
}

/* Warps take turns at runs of 16 rows of boxes, of both groups in turn. */
template <typename T, int ACT>
static __device__ __forceinline__ void end_all(const layer_tiles &a, const layer_room &m) {
    int lane = threadIdx.x % WARP, warp = (int)threadIdx.x / WARP - PRODUCT_WARPS;
    uint32_t lap = 0;
    for (int number = first_tile(); number < a.tiles; number += tiles_further(), lap ^= 1) {
        tile_place place = place_of(a.across, number);
#pragma unroll 1
        for (int group = 0; group < 2; group++) {
            wait_for(m.made(group), lap);
#pragma unroll 1
            for (int i = warp; i < BOXES * RUNS; i += END_WARPS) {
                int box = i / RUNS, first = group * GROUP_ROWS + i % RUNS * RUN + lane / 8;
                int col = place.col + box * PANEL + lane % 8 * WIDE;
                int64_t row = place.row + first, rows = col < a.cols ? a.rows - row : 0;
                end_rows<T, ACT>(a, m.results(box), first, row * a.cols + col,
                                  (int)min((int64_t)TOGETHER, (rows + SLICE - 1) / SLICE));
            }
            arrive(m.taken(group));
        }
    }
}
#endif

template <typename F, typename T, int ACT>
static __global__ void IN_CLUSTERS __launch_bounds__(THREADS, 1)
    layer_kernel(layer_tiles a, const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w) {
#if TRI_HOPPER
    extern __shared__ char raw[];
    layer_room m = {{(shared_address(raw) + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES}};
    if (threadIdx.x == 0) m.init();
    cluster_sync();
    int warp = __shfl_sync(0xFFFFFFFFu, (int)threadIdx.x / WARP, 0); /* warp-uniform for the compiler, too */
    if (warp < PRODUCT_WARPS) {
        more_registers<PRODUCT_REGISTERS>();
        multiply_all<F, T>(a, m);
    } else {
        fewer_registers<OTHER_REGISTERS>();
        if (warp < PRODUCT_WARPS + END_WARPS) end_all<T, ACT>(a, m);
        else if (threadIdx.x == (PRODUCT_WARPS + END_WARPS) * WARP) fetch_all<F>(a, &x, &w, m);
    }
    __syncwarp();
    cluster_sync(); /* the other block may still copy to this one */
#endif
}

int tri__cuda_describe_tiles(tri_cuda *cuda, CUtensorMap *map, int dtype, const void *data, int64_t rows, int64_t cols,
                             int tile_rows) {
    size_t each_bytes = tri__dtype_bytes((tri_dtype)dtype);
    cuuint64_t size[2] = {(cuuint64_t)cols, (cuuint64_t)rows}, stride[1] = {(cuuint64_t)cols * each_bytes};
    cuuint32_t tile[2] = {(cuuint32_t)(ROW_BYTES / each_bytes), (cuuint32_t)tile_rows}, each[2] = {1, 1};
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
    CUtensorMapDataType type = dtype == TRI_BF16  ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                               : dtype == TRI_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                  : CU_TENSOR_MAP_DATA_TYPE_UINT8;
    return encode(map, type, 2, const_cast<void *>(data), size, stride, tile, each, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

template <typename F, typename T>
static void launch(const tri_call *call, const layer_tiles &a, const CUtensorMap &x, const CUtensorMap &w,
                   const char *where) {
    auto *kernel = a.act == NO_ACT                ? layer_kernel<F, T, NO_ACT>
                   : a.act == TRI_ACTIVATION_GELU ? layer_kernel<F, T, TRI_ACTIVATION_GELU>
                                                  : layer_kernel<F, T, ANY_ACT>;
    queue_sharing(call, where, kernel, cluster_blocks(call, a.tiles), THREADS, LAYER_BYTES, a, x, w);
}

int layer_fits(const tri_call *call, layer_args *a) {
    OPERANDS(linear);
    const tri_tensor *x = &call->t[ARG(x)], *w = &call->t[ARG(w)];
    int64_t bytes = (int64_t)tri__dtype_bytes((tri_dtype)call->dtype[ARG(x)]);
    *a = layer_args{};
    a->y = GIVEN(y), a->h = GIVEN(h), a->b = GIVEN(b), a->s = GIVEN(s), a->ws = GIVEN(ws);
    a->act = act_after(call);
    a->rows = x->rows, a->cols = (int)w->rows, a->steps = (int)blocks_for(x->cols * bytes, ROW_BYTES);
    return call->dtype[ARG(y)] != TRI_F32 && is_hopper(call) && a->cols % WIDE == 0 && x->cols * bytes % 16 == 0 &&
           x->cols > 0 && aligned(a->y, a->h, a->b, a->ws, x->data, w->data);
}

int fused_product(const tri_call *call, const char *where) {
    OPERANDS(linear);
    const tri_tensor *x = &call->t[ARG(x)], *w = &call->t[ARG(w)];
    int factors = call->dtype[ARG(x)];
    layer_tiles a = {};
    CUtensorMap x_map, w_map;
    if (!layer_fits(call, &a) || a.cols < COLS / 2 || a.rows < LEAST_ROWS) return 0;
    a.across = (int)blocks_for(a.cols, COLS), a.tiles = (int)blocks_for(a.rows, ROWS * CLUSTER) * a.across;
    if (!tri__cuda_describe_tiles(tri__cuda(call), &x_map, factors, x->data, x->rows, x->cols, ROWS) ||
        !tri__cuda_describe_tiles(tri__cuda(call), &w_map, factors, w->data, w->rows, w->cols, COLS / CLUSTER))
        return 0;
    if (only_timed(call)) return 1;
    by_factors(call, [&](auto f, auto t) { launch<decltype(f), decltype(t)>(call, a, x_map, w_map, where); });
    return 1;
}
