/* narrow_product.cu - dense layers of few rows on Hopper's tensor cores. A block makes 64 columns of TOKENS rows, so
 * that even one short text has work for many processors; weights are the instruction's first factor. One thread
 * fetches, a warpgroup multiplies. Nothing is split along the summed dimension: sums are made in its order, as for many
 * rows, and a row has the same bits whatever rows are beside it. */
#include "device/cuda/product/fused_product.cuh"
#include "device/cuda/elementwise/activation.cuh"
#include "device/cuda/product/product.cuh"

enum {
    GROUP = 128,
    THREADS = GROUP + WARP,
    COLS = 64,       /* of a block */
    MOST_ROWS = 512, /* with more, the library's larger tiles are faster */
    MOST_TOKENS = 128,
    BLOCKS_EACH = 2  /* per processor: smaller blocks would wait for their turn */
};

template <int TOKENS> struct narrow_sizes {
    enum {
        STAGES = TOKENS <= 32 ? 8 : 6, /* steps in shared memory */
        W_BYTES = COLS * ROW_BYTES,
        STAGE_BYTES = W_BYTES + TOKENS * ROW_BYTES,
        BARRIERS_AT = STAGES * STAGE_BYTES,
        ALL_BYTES = BARRIERS_AT + 2 * STAGES * 8 + ATOM_BYTES /* with padding to align */
    };
};

#if TRI_HOPPER
template <int TOKENS> struct narrow_room : narrow_sizes<TOKENS> {
    uint32_t base;
    __device__ __forceinline__ uint32_t w(int stage) const { return base + (uint32_t)(stage * this->STAGE_BYTES); }
    __device__ __forceinline__ uint32_t x(int stage) const { return w(stage) + this->W_BYTES; }
    __device__ __forceinline__ uint32_t full(int stage) const { return base + this->BARRIERS_AT + (uint32_t)stage * 8; }
    __device__ __forceinline__ uint32_t empty(int stage) const { return full(this->STAGES + stage); }
};

template <typename F, int TOKENS>
static __device__ __forceinline__ void fetch_all(const layer_args &a, const CUtensorMap *x, const CUtensorMap *w,
                                                 const narrow_room<TOKENS> &m) {
    enum { STEP = factor<F>::STEP };
    ring<narrow_sizes<TOKENS>::STAGES> stage = {0, 0};
    for (int step = 0; step < a.steps; step++, stage.advance()) {
        uint32_t full = m.full(stage.slot);
        wait_for(m.empty(stage.slot), stage.lap ^ 1);
        expect_bytes(full, narrow_sizes<TOKENS>::STAGE_BYTES);
        fetch_tile(w, (int)blockIdx.x * COLS, step * STEP, m.w(stage.slot), full);
        fetch_tile(x, (int)blockIdx.y * TOKENS, step * STEP, m.x(stage.slot), full);
    }
}

template <typename F, int TOKENS>
static __device__ __forceinline__ void multiply_all(const layer_args &a, const narrow_room<TOKENS> &m,
                                                    typename factor<F>::sum (&d)[TOKENS / 2]) {
    ring<narrow_sizes<TOKENS>::STAGES> stage = {0, 0};
    int before = 0;
    for (int step = 0; step < a.steps; step++, stage.advance()) {
        wait_for(m.full(stage.slot), stage.lap);
        uint32_t w = tile_at(m.w(stage.slot)), x = tile_at(m.x(stage.slot));
        wgmma_begin();
#pragma unroll
        for (int k = 0; k < ROW_BYTES / 32; k++)
            wgmma<F>::template run<0, 0>(d, tile(w, k * 32), tile(x, k * 32), step > 0 || k > 0);
        wgmma_commit();
        if (step > 0) {
            wgmma_wait<1>();
            arrive(m.empty(before));
        }
        before = stage.slot;
    }
    wgmma_wait<0>();
    pin(d);
}

/* Pairs of results, of two rows in one column each: sums are scaled, the bias is added, each operation rounded to fp32.
 * A thread has columns g and g + 8 of its warp's 16, and pairs of rows, 8 apart. */
template <typename F, typename T, int TOKENS>
static __device__ __forceinline__ void end_sums(const layer_args &a, const typename factor<F>::sum (&d)[TOKENS / 2],
                                                uint32_t (&pair)[TOKENS / 4]) {
    int lane = threadIdx.x % WARP, col = (int)blockIdx.x * COLS + (int)threadIdx.x / WARP * 16 + lane / 4;
    int64_t row = (int64_t)blockIdx.y * TOKENS + lane % 4 * 2;
    float ws[2] = {1, 1}, b[2] = {0, 0};
#pragma unroll
    for (int h = 0; h < 2; h++)
        if (col + 8 * h < a.cols) {
            if (factor<F>::SCALED) ws[h] = a.ws[col + 8 * h];
            if (a.b) b[h] = wide(((const T *)a.b)[col + 8 * h]);
        }
#pragma unroll
    for (int j = 0; j < TOKENS / 8; j++) {
        float s[2] = {1, 1};
        if constexpr (factor<F>::SCALED) {
#pragma unroll
            for (int e = 0; e < 2; e++) s[e] = row + 8 * j + e < a.rows ? a.s[row + 8 * j + e] : 0.0f;
        }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float value[2];
#pragma unroll
            for (int e = 0; e < 2; e++) {
                value[e] = number(d[4 * j + 2 * h + e]);
                if (factor<F>::SCALED) value[e] = __fmul_rn(value[e], __fmul_rn(s[e], ws[h]));
                value[e] = __fadd_rn(value[e], b[h]);
            }
            pair[2 * j + h] = pair_of(T(), value[0], value[1]);
        }
    }
}

template <int ACT, typename T, int N> static __device__ __forceinline__ void act_pairs(uint32_t (&pair)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++)
        pair[i] = pair_of(T(), act_op<ACT, T>::at(wide_half(T(), pair[i], 0)),
                          act_op<ACT, T>::at(wide_half(T(), pair[i], 1)));
}

/* Writes the block's results as whole rows of 128 bytes, through shared memory that is no longer used. */
template <typename T, int TOKENS>
static __device__ __forceinline__ void write_rows(const layer_args &a, uint32_t room,
                                                  const uint32_t (&pair)[TOKENS / 4], T *to) {
    int lane = threadIdx.x % WARP, warp = (int)threadIdx.x / WARP,
        col = (int)blockIdx.x * COLS + threadIdx.x % 8 * WIDE;
    group_sync(1);
#pragma unroll
    for (int j = 0; j < TOKENS / 16; j++) {
        uint32_t four[4] = {pair[4 * j], pair[4 * j + 1], pair[4 * j + 2], pair[4 * j + 3]};
        store_transposed(room + piece_at(16 * j + lane / 16 * 8 + lane % 8, 2 * warp + lane / 8 % 2), four);
    }
    group_sync(1);
#pragma unroll
    for (int i = 0; i < TOKENS / 16; i++) {
        int token = 16 * i + (int)threadIdx.x / 8;
        int64_t row = (int64_t)blockIdx.y * TOKENS + token;
        if (row < a.rows && col < a.cols)
            *reinterpret_cast<uint4 *>(to + row * a.cols + col) = load_16(room + piece_at(token, threadIdx.x % 8));
    }
}
#endif

template <typename F, typename T, int TOKENS>
static __global__ void __launch_bounds__(THREADS)
    narrow_kernel(layer_args a, const __grid_constant__ CUtensorMap x,
                  const __grid_constant__ CUtensorMap w) {
#if TRI_HOPPER
    extern __shared__ char raw[];
    narrow_room<TOKENS> m;
    m.base = (shared_address(raw) + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES;
    if (threadIdx.x == 0) {
        for (int i = 0; i < narrow_sizes<TOKENS>::STAGES; i++)
            barrier_init(m.full(i), 1), barrier_init(m.empty(i), GROUP);
        show_barriers();
    }
    __syncthreads();
    if (threadIdx.x >= GROUP) {
        if (threadIdx.x == GROUP) fetch_all<F, TOKENS>(a, &x, &w, m);
        return;
    }
    typename factor<F>::sum d[TOKENS / 2];
    uint32_t pair[TOKENS / 4];
    multiply_all<F, TOKENS>(a, m, d);
    end_sums<F, T, TOKENS>(a, d, pair);
    if (a.h || a.act == NO_ACT) write_rows<T, TOKENS>(a, m.base, pair, (T *)(a.act == NO_ACT ? a.y : a.h));
    if (a.act == NO_ACT) return;
    switch (a.act) {
#define TRI_ACTIVATION(NAME, ...) \
    case TRI_ACTIVATION_##NAME: act_pairs<TRI_ACTIVATION_##NAME, T>(pair); break;
#include "program/activation.def"
    }
    write_rows<T, TOKENS>(a, m.base, pair, (T *)a.y);
#endif
}

/* The fewest rows for a block, with few enough blocks. */
static int tokens_for(const tri_call *call, const layer_args *a) {
    int tokens = 16, most = processors_of(call) * BLOCKS_EACH;
    while (tokens < MOST_TOKENS && (int)(blocks_for(a->rows, tokens) * blocks_for(a->cols, COLS)) > most) tokens *= 2;
    return tokens;
}

template <typename F, typename T, int TOKENS>
static void launch(const tri_call *call, const layer_args &a, const CUtensorMap &w, const char *where) {
    OPERANDS(linear);
    const tri_tensor *x = &call->t[ARG(x)];
    CUtensorMap x_map;
    if (!tri__cuda_describe_tiles(tri__cuda(call), &x_map, call->dtype[ARG(x)], x->data, x->rows, x->cols, TOKENS))
        record(call, cudaErrorUnknown, where);
    queue_sharing(call, where, narrow_kernel<F, T, TOKENS>,
                  dim3(blocks_for(a.cols, COLS), blocks_for(a.rows, TOKENS)), THREADS, narrow_sizes<TOKENS>::ALL_BYTES,
                  a, x_map, w);
}

template <typename F, typename T>
static void launch_tokens(const tri_call *call, const layer_args &a, const CUtensorMap &w, const char *where) {
    switch (tokens_for(call, &a)) {
    case 16: launch<F, T, 16>(call, a, w, where); break;
    case 32: launch<F, T, 32>(call, a, w, where); break;
    case 64: launch<F, T, 64>(call, a, w, where); break;
    default: launch<F, T, 128>(call, a, w, where);
    }
}

int narrow_product(const tri_call *call, const char *where) {
    OPERANDS(linear);
    const tri_tensor *w = &call->t[ARG(w)];
    layer_args a;
    CUtensorMap w_map;
    if (!layer_fits(call, &a) || a.rows > MOST_ROWS || a.rows == 0 || a.cols == 0 ||
        !tri__cuda_describe_tiles(tri__cuda(call), &w_map, call->dtype[ARG(w)], w->data, w->rows, w->cols, COLS))
        return 0;
    if (only_timed(call)) return 1;
    by_factors(call, [&](auto f, auto t) { launch_tokens<decltype(f), decltype(t)>(call, a, w_map, where); });
    return 1;
}
