/* act_product.cu - the gradient of a dense layer back through the activation before it, in one product; cuBLASLt needs
 * another pass over memory. product_tiles.cuh says how it works: here the warps that finish results multiply them by
 * the activation's slope and sum them over rows, one warp each, in row order: bitwise reproducible. */
#include "device/cuda/product/act_product.cuh"
#include "device/cuda/elementwise/activation.cuh"
#include "device/cuda/product/product.cuh"
#include "device/cuda/product/product_tiles.cuh"

/* Eight warps keep up with the products, and leave registers for instructions of 128 columns. Registers are per thread:
 * of the groups that multiply, those that finish and the one that fetches. */
enum {
    STEP = ROW_BYTES / 2, /* of the summed dimension */
    END_WARPS = 8,
    PARTS = END_WARPS / BOXES,     /* of a column's sum over a tile's rows */
    SLICES = ROWS / SLICE / PARTS, /* that a warp finishes in a tile */
    TOGETHER = 2,                  /* slices */
    HALVES = 2,                    /* of a tile's columns, one for each instruction */
    THREADS = (PRODUCT_WARPS + END_WARPS) * WARP + GROUP,
    PRODUCT_REGISTERS = 160,
    END_REGISTERS = 64,
    FETCH_REGISTERS = 32
};

typedef struct product_args {
    void *dx;      /* [rows, cols] */
    const void *h; /* [rows, cols]: what the slope is computed from */
    float *part;   /* [PARTS * blocks_for(rows, ROWS), cols] */
    int64_t rows;
    int cols, across, tiles, steps; /* across: tiles per row of tiles; tiles: per cluster */
    int act;                        /* a tri_activation */
} product_args;

static inline int parts_of(int64_t rows) { return (int)blocks_for(rows, ROWS) * PARTS; }

#if TRI_HOPPER
typedef product_room<END_WARPS, 1> act_room;

/* One thread fetches all steps of all tiles. w is [summed, cols]. */
static __device__ __forceinline__ void fetch_all(const product_args &a, const CUtensorMap *dy, const CUtensorMap *w,
                                                 const act_room &m) {
    ring<STAGES> stage = {0, 0};
    int rank = (int)cluster_rank();
    for (int tile = first_tile(); tile < a.tiles; tile += tiles_further()) {
        tile_place at = place_of(a.across, tile);
        for (int step = 0; step < a.steps; step++, stage.advance()) {
            uint32_t full = m.full(stage.slot), half = m.w(stage.slot) + (uint32_t)(rank * (W_BYTES / CLUSTER));
            wait_for(m.empty(stage.slot), stage.lap ^ 1);
            expect_bytes(full, STAGE_BYTES);
            fetch_tile(dy, (int)at.row, step * STEP, m.x(stage.slot), full);
            for (int panel = 0; panel < BOXES / CLUSTER; panel++)
                fetch_tile_for_both(w, step * STEP, at.col + (rank * (BOXES / CLUSTER) + panel) * PANEL,
                                    half + (uint32_t)(panel * STEP * ROW_BYTES), full);
        }
    }
}

/* Rounds this warp's 16 rows into boxes. */
template <typename T>
static __device__ __forceinline__ void put_results(const act_room &m, const product_sums<HALVES> &d) {
    int lane = threadIdx.x % WARP, row = (int)threadIdx.x / WARP * 16 + lane % 16;
#pragma unroll
    for (int k = 0; k < COLS / 16; k++) {
        uint32_t four[4];
#pragma unroll
        for (int i = 0; i < 4; i++) four[i] = pair_of(T(), d.at(8 * k + 2 * i), d.at(8 * k + 2 * i + 1));
        store_matrices(m.results(k / 4) + piece_at(row, k % 4 * 2 + lane / 16), four);
    }
}

template <typename T>
static __device__ __forceinline__ void multiply_all(const product_args &a, const act_room &m) {
    ring<STAGES> stage = {0, 0};
    /* warp-uniform, and known to the compiler as such */
    uint32_t rows = __shfl_sync(0xFFFFFFFFu, threadIdx.x / GROUP, 0) * (GROUP_ROWS * ROW_BYTES), lap = 0;
    for (int number = first_tile(); number < a.tiles; number += tiles_further(), lap ^= 1) {
        product_sums<HALVES> d;
        int last = multiply_steps(m, a.steps, stage, [&](int slot, bool more) {
            uint32_t x = tile_at(m.x(slot) + rows), w = tile_at(m.w(slot), STEP * ROW_BYTES);
            wgmma_begin();
#pragma unroll
            for (int k = 0; k < STEP / 16; k++)
#pragma unroll
                for (int i = 0; i < HALVES; i++)
                    wgmma<T>::template run<0, 1>(d.half[i], tile(x, k * 32),
                                                 tile(w, i * (W_BYTES / 2) + k * 16 * ROW_BYTES), more || k > 0);
            wgmma_commit();
        });
#pragma unroll
        for (int i = 0; i < HALVES; i++) pin(d.half[i]);
        m.leave(last);
        wait_for(m.taken(), lap ^ 1);
        put_results<T>(m, d);
        arrive(m.made());
    }
}

/* The part of a box that a warp finishes: slices of 4 rows; a thread has 8 columns of one row. */
typedef struct end_place {
    uint32_t from; /* the box */
    int64_t at;    /* offset of the thread's first element */
    int first;     /* its row in the box */
    int left;      /* slices of the thread whose rows exist */
} end_place;

/* `sum` [8] of the values written, in row order. h is prefetched two slices ahead. */
template <typename T, int ACT>
static __device__ __forceinline__ void end_box(const product_args &a, const act_room &m, uint32_t lap,
                                               const end_place &p, float (&sum)[WIDE]) {
    int64_t further = (int64_t)SLICE * a.cols;
    const T *h = (const T *)a.h + p.at;
    T *dx = (T *)a.dx + p.at;
    pack<T, WIDE> ahead[TOGETHER] = {};
#pragma unroll
    for (int i = 0; i < TOGETHER; i++, h += further)
        if (i < p.left) ahead[i] = packed<WIDE>(h);
    wait_for(m.made(), lap);
#pragma unroll 1
    for (int slice = 0; slice < SLICES; slice += TOGETHER) {
        pack<T, WIDE> dy[TOGETHER], x[TOGETHER];
#pragma unroll
        for (int i = 0; i < TOGETHER; i++)
            dy[i] = result_at<T>(p.from, p.first + (slice + i) * SLICE, threadIdx.x % 8), x[i] = ahead[i];
#pragma unroll
        for (int i = 0; i < TOGETHER; i++, h += further)
            if (slice + TOGETHER + i < p.left) ahead[i] = packed<WIDE>(h);
#pragma unroll
        for (int i = 0; i < TOGETHER; i++, dx += further) {
            float of[WIDE];
            pack<T, WIDE> value;
#pragma unroll
            for (int k = 0; k < WIDE; k++) of[k] = act_din_at<ACT, T>(a.act, dy[i].at(k), x[i].at(k));
            value.set(of);
            if (slice + i >= p.left) continue;
            pass_on(dx, value);
#pragma unroll
            for (int k = 0; k < WIDE; k++) sum[k] = __fadd_rn(sum[k], value.at(k));
        }
    }
}

template <typename T, int ACT>
static __device__ __forceinline__ void end_all(const product_args &a, const act_room &m) {
    int lane = threadIdx.x % WARP, warp = (int)threadIdx.x / WARP - PRODUCT_WARPS;
    int first = warp / BOXES * SLICES * SLICE + lane / 8, box = warp % BOXES;
    uint32_t lap = 0;
    for (int number = first_tile(); number < a.tiles; number += tiles_further(), lap ^= 1) {
        tile_place place = place_of(a.across, number);
        int64_t row = place.row + first;
        int left = row >= a.rows ? 0 : (int)min((int64_t)SLICES, (a.rows - row + SLICE - 1) / SLICE);
        int col = place.col + box * PANEL + lane % 8 * WIDE;
        end_place p = {m.results(box), row * a.cols + col, first, left};
        float sum[WIDE] = {};
        end_box<T, ACT>(a, m, lap, p, sum);
        if (place.row < a.rows) put_sums(sum, a.part + (place.row / ROWS * PARTS + warp / BOXES) * a.cols + col, 1);
        arrive(m.taken());
    }
}
#endif

template <typename T, int ACT>
static __global__ void IN_CLUSTERS __launch_bounds__(THREADS, 1)
    act_din_kernel(product_args a, const __grid_constant__ CUtensorMap dy, const __grid_constant__ CUtensorMap w) {
#if TRI_HOPPER
    extern __shared__ char raw[];
    act_room m = {(shared_address(raw) + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES};
    if (threadIdx.x == 0) m.init();
    cluster_sync();
    int warp = __shfl_sync(0xFFFFFFFFu, (int)threadIdx.x / WARP, 0); /* warp-uniform for the compiler, too */
    if (warp < PRODUCT_WARPS) {
        more_registers<PRODUCT_REGISTERS>();
        multiply_all<T>(a, m);
    } else if (warp < PRODUCT_WARPS + END_WARPS) {
        fewer_registers<END_REGISTERS>();
        end_all<T, ACT>(a, m);
    } else {
        fewer_registers<FETCH_REGISTERS>();
        if (threadIdx.x == (PRODUCT_WARPS + END_WARPS) * WARP) fetch_all(a, &dy, &w, m);
    }
    __syncwarp();
    cluster_sync(); /* the other block may still copy to this one */
#endif
}

template <typename T>
static void launch(const tri_call *call, const product_args &a, const CUtensorMap &dy, const CUtensorMap &w) {
    auto *kernel = a.act == TRI_ACTIVATION_GELU ? act_din_kernel<T, TRI_ACTIVATION_GELU> : act_din_kernel<T, ANY_ACT>;
    queue_sharing(call, "linear_act_din", kernel, cluster_blocks(call, a.tiles), THREADS, ALL_BYTES, a, dy, w);
}

/* dx [T,I] = act_din(dy [T,O] w [O,I], h [T,I]), the product as rounded; db [I]. Does not launch while products are
 * being timed. */
int act_din_product(const tri_call *call) {
    OPERANDS(linear_din);
    const tri_tensor *dy = &call->t[ARG(dy)], *w = &call->t[ARG(w)];
    product_args a = {};
    CUtensorMap dy_map, w_map;
    int dtype = call->dtype[ARG(dx)];
    a.dx = GIVEN(dx), a.h = GIVEN(h), a.part = static_cast<float *>(call->work);
    a.act = act_after(call);
    if (dtype == TRI_F32 || !is_hopper(call) || w->cols % COLS || dy->cols % STEP || dy->cols == 0 ||
        dy->rows < LEAST_ROWS || parts_of(dy->rows) > MOST_PARTS || !aligned(a.dx, a.h, dy->data, w->data))
        return 0;
    a.rows = dy->rows, a.cols = (int)w->cols, a.across = a.cols / COLS, a.steps = (int)(dy->cols / STEP);
    a.tiles = (int)blocks_for(a.rows, ROWS * CLUSTER) * a.across;
    if (!tri__cuda_describe_tiles(tri__cuda(call), &dy_map, dtype, dy->data, dy->rows, dy->cols, ROWS) ||
        !tri__cuda_describe_tiles(tri__cuda(call), &w_map, dtype, w->data, w->rows, w->cols, STEP))
        return 0;
    if (only_timed(call)) return 1;
    by_half(dtype, [&](auto x) { launch<decltype(x)>(call, a, dy_map, w_map); });
    end_columns(call, a.cols, parts_of(a.rows), 1, {{GIVEN(db)}, {adds(call, ARG(db))}});
    return 1;
}
