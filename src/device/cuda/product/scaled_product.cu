/* scaled_product.cu - dense layers with 8-bit factors; the one before an activation, and the gradient back through
 * both, with results of 8 bits, in one product each. product_tiles.cuh says how it works. Warps that finish results
 * have 32 rows by 64 columns at a time, a thread 8 by 8: it transposes its bytes in registers, and a warp writes
 * whole sectors in both orders. */
#include "device/cuda/product/scaled_product.cuh"
#include "device/cuda/elementwise/activation.cuh"
#include "device/cuda/product/product.cuh"
#include "device/cuda/product/product_tiles.cuh"

enum {
    STEP = ROW_BYTES, /* of the summed dimension */
    GROUPS = 2,       /* that multiply; their rows are finished in turn */
    RUN = 32,         /* rows that a warp finishes at once, of a box */
    RUNS = BOXES * GROUP_ROWS / RUN, /* of a group's rows */
    OTHER_REGISTERS = 96, /* of a thread that does not multiply */
    /* Biases of a tile's columns come with its first step. They are used after its last one, when at most STAGES
     * further steps, of as many tiles at most, have been fetched. */
    SIDES = STAGES + 1,
    SIDES_AT = BARRIERS_AT + ATOM_BYTES,
    SIDE_BYTES = COLS * 2,
    SCALED_BYTES = SIDES_AT + SIDES * SIDE_BYTES + ATOM_BYTES
};

/* How warps share the work. Instructions of 256 columns read shared memory least, but need 154 registers of every
 * thread in the block, which leaves three warps for what follows the product, beside one that fetches. */
template <int ENDS, int INSTRUCTIONS, int REGISTERS> struct share {
    enum {
        END_WARPS = ENDS,
        HALVES = INSTRUCTIONS, /* for a tile's columns */
        PRODUCT_REGISTERS = REGISTERS,
        THREADS = (PRODUCT_WARPS + ENDS + 1) * WARP
    };
};
typedef share<3, 1, 200> end_by_three;
typedef share<7, 2, 160> end_by_seven;

struct scaled_tiles {
    fp8_tensor to;
    const void *b;         /* [cols] or NULL */
    const float *sx, *sw;  /* [1] */
    void *y;               /* [rows, cols] or NULL */
    float *part;           /* [blocks_for(rows, RUN), cols] */
    int64_t rows;
    int cols, across, tiles, steps; /* across: tiles per row of tiles; tiles: per cluster */
    int act;                        /* a tri_activation, or NO_ACT */
};

/* What follows a product. */
template <typename T> struct end_plain;
template <typename T, int ACT> struct end_act;
template <typename T, int ACT> struct end_act_din;
template <typename T> using end_gelu = end_act<T, TRI_ACTIVATION_GELU>;
template <typename T> using end_any = end_act<T, ANY_ACT>;
template <typename T> using end_gelu_din = end_act_din<T, TRI_ACTIVATION_GELU>;
template <typename T> using end_any_din = end_act_din<T, ANY_ACT>;

static inline int parts_of(int64_t rows) { return (int)blocks_for(rows, RUN); }

#if TRI_HOPPER
template <class Share> struct scaled_room : product_room<Share::END_WARPS, GROUPS> {
    __device__ __forceinline__ uint32_t biases(int side) const {
        return this->base + SIDES_AT + (uint32_t)(side * SIDE_BYTES);
    }
};

/* One thread fetches all steps of all tiles. */
template <class Room>
static __device__ __forceinline__ void fetch_all(const scaled_tiles &a, const CUtensorMap *x, const CUtensorMap *w,
                                                 const Room &m) {
    ring<STAGES> stage = {0, 0};
    ring<SIDES> side = {0, 0};
    int rank = (int)cluster_rank();
    for (int tile = first_tile(); tile < a.tiles; tile += tiles_further(), side.advance()) {
        tile_place at = place_of(a.across, tile);
        for (int step = 0; step < a.steps; step++, stage.advance()) {
            uint32_t full = m.full(stage.slot), half = m.w(stage.slot) + (uint32_t)(rank * (W_BYTES / CLUSTER)),
                     biases = a.b && step == 0 ? (uint32_t)min((int)COLS, a.cols - at.col) * 2 : 0;
            wait_for(m.empty(stage.slot), stage.lap ^ 1);
            expect_bytes(full, STAGE_BYTES + biases);
            if (biases) fetch_run((const char *)a.b + 2 * (int64_t)at.col, biases, m.biases(side.slot), full);
            fetch_tile(x, (int)at.row, step * STEP, m.x(stage.slot), full);
            fetch_tile_for_both(w, at.col + rank * (COLS / CLUSTER), step * STEP, half, full);
        }
    }
}

/* Scales sums, adds the bias and rounds this warp's 16 rows into boxes. A thread has rows g and g + 8 of the warp's,
 * and pairs of columns, 8 apart. The factor is a power of two: only the addition rounds. */
template <typename T, bool BIAS, class Room, int HALVES>
static __device__ __forceinline__ void put_results(const Room &m, int side, float factor,
                                                   const product_sums<HALVES> &d) {
    int lane = threadIdx.x % WARP, row = (int)threadIdx.x / WARP * 16;
    uint32_t biases = settled(m.biases(side) + (uint32_t)(lane % 4 * 4));
#pragma unroll
    for (int k = 0; k < COLS / 16; k++) {
        uint32_t four[4];
#pragma unroll
        for (int j = 0; j < 2; j++) {
            uint32_t two = BIAS ? load_4(biases + 32 * k + 16 * j) : 0;
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float first = d.at(8 * k + 4 * j + 2 * h), second = d.at(8 * k + 4 * j + 2 * h + 1);
                four[2 * j + h] = BIAS ? pair_of(T(), fmaf(first, factor, wide_half(T(), two, 0)),
                                                 fmaf(second, factor, wide_half(T(), two, 1)))
                                       : pair_of(T(), first * factor, second * factor);
            }
        }
        store_matrices(m.results(k / 4) + piece_at(row + lane % 16, k % 4 * 2 + lane / 16), four);
    }
}

template <typename F, typename T, bool BIAS, class Share>
static __device__ __forceinline__ void multiply_all(const scaled_tiles &a, const scaled_room<Share> &m) {
    enum { HALVES = Share::HALVES };
    ring<STAGES> stage = {0, 0};
    ring<SIDES> side = {0, 0};
    int group = __shfl_sync(0xFFFFFFFFu, (int)threadIdx.x / GROUP, 0); /* warp-uniform for the compiler, too */
    uint32_t lap = 0;
    float factor = 1.0f / *a.sx / *a.sw;
    for (int number = first_tile(); number < a.tiles; number += tiles_further(), lap ^= 1, side.advance()) {
        product_sums<HALVES> d;
        int last = multiply_steps(m, a.steps, stage, [&](int slot, bool more) {
            uint32_t x = tile_at(m.x(slot) + (uint32_t)(group * (GROUP_ROWS * ROW_BYTES))), w = tile_at(m.w(slot));
            wgmma_begin();
#pragma unroll
            for (int k = 0; k < ROW_BYTES / 32; k++)
#pragma unroll
                for (int i = 0; i < HALVES; i++)
                    wgmma<F>::template run<0, 0>(d.half[i], tile(x, k * 32), tile(w, i * (W_BYTES / HALVES) + k * 32),
                                                 more || k > 0);
            wgmma_commit();
        });
#pragma unroll
        for (int i = 0; i < HALVES; i++) pin(d.half[i]);
        m.leave(last);
        wait_for(m.taken(group), lap ^ 1);
        put_results<T, BIAS>(m, side.slot, factor, d);
        arrive(m.made(group));
    }
}

/* Runs of RUN rows of a box, which the warps that finish take in turn: a group's rows have RUNS of them. Since RUNS is
 * no multiple of the number of warps, another warp has one more each time. */
template <int END_WARPS> struct end_turn {
    int turn; /* the first run's warp */
    __device__ __forceinline__ int first() const {
        int warp = (int)threadIdx.x / WARP - PRODUCT_WARPS - turn;
        return warp < 0 ? warp + END_WARPS : warp;
    }
    __device__ __forceinline__ void advance() {
        turn += RUNS % END_WARPS;
        if (turn >= END_WARPS) turn -= END_WARPS;
    }
};

/* 8 rows by 8 columns of a thread: the first of each in the tensor; the row in the box; whether they exist. */
typedef struct end_place {
    int64_t row, col;
    uint32_t box;
    int first, there;
} end_place;

template <class Room>
static __device__ __forceinline__ end_place end_of(const scaled_tiles &a, const Room &m, int tile, int group,
                                                   int run) {
    int lane = threadIdx.x % WARP;
    tile_place place = place_of(a.across, tile);
    end_place p;
    p.first = group * GROUP_ROWS + run / BOXES * RUN + lane / 8 * WIDE;
    p.row = place.row + p.first, p.col = place.col + run % BOXES * PANEL + lane % 8 * WIDE;
    p.box = m.results(run % BOXES);
    p.there = p.row < a.rows && p.col < a.cols;
    return p;
}

/* The results alone. */
template <typename T> struct end_plain {
    template <class Room>
    __device__ __forceinline__ void run(const scaled_tiles &a, const Room &m, const end_place &p, int group,
                                        uint32_t lap, float, float *) {
        pack<T, WIDE> x[WIDE];
        wait_for(m.made(group), lap);
#pragma unroll
        for (int i = 0; i < WIDE; i++) x[i] = result_at<T>(p.box, p.first + i, threadIdx.x % 8);
        T *y = (T *)a.y + p.row * a.cols + p.col;
#pragma unroll
        for (int i = 0; i < WIDE; i++)
            if (p.there) pass_on(y + (int64_t)i * a.cols, x[i]);
    }
    __device__ __forceinline__ void finish(const scaled_tiles &) const {}
};

/* The results, and the activation of them. */
template <typename T, int ACT> struct end_act {
    fp8_largest<T> largest;
    template <class Room>
    __device__ __forceinline__ void run(const scaled_tiles &a, const Room &m, const end_place &p, int group,
                                        uint32_t lap, float s, float *) {
        pack<T, WIDE> x[WIDE];
        uint2 row[WIDE];
        wait_for(m.made(group), lap);
#pragma unroll
        for (int i = 0; i < WIDE; i++) x[i] = result_at<T>(p.box, p.first + i, threadIdx.x % 8);
        if (!p.there) return;
        T *y = (T *)a.y + p.row * a.cols + p.col;
#pragma unroll
        for (int i = 0; i < WIDE; i++) {
            float of[WIDE];
            pack<T, WIDE> value;
            if (a.y) pass_on(y + (int64_t)i * a.cols, x[i]);
#pragma unroll
            for (int k = 0; k < WIDE; k++) of[k] = act_at<ACT, T>(a.act, x[i].at(k));
            value.set(of);
            largest.see(value);
            row[i] = eight_bytes<e4m3>(value, s);
        }
        put_tile(a.to, p.row, p.col, row);
    }
    __device__ __forceinline__ void finish(const scaled_tiles &a) const { raise(a.to.most, largest.word()); }
};

/* GELU's slope: 1/2 + sign(x) (1/2 - exp(-x^2 / 2) p(|x|)), within 7e-5. One exponential less than act_din_op: here
 * arithmetic is what limits, and results have 3 significant bits. */
static __device__ __forceinline__ float short_slope(float x) {
    float z = fminf(fabsf(x), 8.0f), bell = power_of_2(x * -0.72134752f * x);
    float p = fmaf(z, fmaf(z, fmaf(z, fmaf(z, -2.73994e-3f, 0.02528241f), -0.09966677f), 0.23543793f), -0.7955116f);
    return 0.5f + copysignf(fmaf(-bell, fmaf(z, p, 0.49993747f), 0.5f), x);
}

template <int ACT, typename T> static __device__ __forceinline__ float short_din(int act, float dy, float from) {
    if constexpr (ACT == TRI_ACTIVATION_GELU) return dy * short_slope(from);
    else return act_din_at<ACT, T>(act, dy, from);
}

/* The results times the activation's slope at y, and their sums over the run's rows, in their order. y is read before
 * the product is there. What lies beyond the last row or column is 0. */
template <typename T, int ACT> struct end_act_din {
    fp8_largest<T> largest;
    template <class Room>
    __device__ __forceinline__ void run(const scaled_tiles &a, const Room &m, const end_place &p, int group,
                                        uint32_t lap, float s, float *part) {
        const T *y = (const T *)a.y + p.row * a.cols + p.col;
        pack<T, WIDE> x[WIDE] = {};
        float sum[WIDE] = {};
        uint2 row[WIDE];
        if (p.there)
#pragma unroll
            for (int i = 0; i < WIDE; i++) x[i] = packed<WIDE>(y + (int64_t)i * a.cols);
        wait_for(m.made(group), lap);
#pragma unroll
        for (int i = 0; i < WIDE; i++) {
            pack<T, WIDE> dy = result_at<T>(p.box, p.first + i, threadIdx.x % 8), value;
            float of[WIDE];
#pragma unroll
            for (int k = 0; k < WIDE; k++) of[k] = short_din<ACT, T>(a.act, dy.at(k), x[i].at(k));
            value.set(of);
            largest.see(value);
            row[i] = eight_bytes<e5m2>(value, s);
#pragma unroll
            for (int k = 0; k < WIDE; k++) sum[k] = __fadd_rn(sum[k], value.at(k)); /* never fused into an FMA */
        }
        if (p.there) put_tile(a.to, p.row, p.col, row);
        put_sums(sum, part + p.col, p.row - threadIdx.x % WARP / 8 * WIDE < a.rows && p.col < a.cols);
    }
    __device__ __forceinline__ void finish(const scaled_tiles &a) const { raise(a.to.most, largest.word()); }
};

template <class End, class Share>
static __device__ __forceinline__ void end_all(const scaled_tiles &a, const scaled_room<Share> &m) {
    uint32_t lap = 0;
    end_turn<Share::END_WARPS> turn = {0};
    End end;
    float s = a.to.s ? *a.to.s : 1.0f;
    for (int number = first_tile(); number < a.tiles; number += tiles_further(), lap ^= 1)
#pragma unroll 1
        for (int group = 0; group < GROUPS; group++, turn.advance()) {
#pragma unroll 1
            for (int run = turn.first(); run < RUNS; run += Share::END_WARPS) {
                int64_t part = place_of(a.across, number).row / RUN + (group * GROUP_ROWS / RUN + run / BOXES);
                end.run(a, m, end_of(a, m, number, group, run), group, lap, s, a.part + part * a.cols);
            }
            wait_for(m.made(group), lap); /* a warp without a run must not be a lap ahead */
            arrive(m.taken(group));
        }
    __syncwarp();
    end.finish(a);
}
#endif

template <typename F, typename T, bool BIAS, class End, class Share>
static __global__ void IN_CLUSTERS __launch_bounds__(Share::THREADS, 1)
    scaled_kernel(scaled_tiles a, const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w) {
#if TRI_HOPPER
    extern __shared__ char raw[];
    scaled_room<Share> m = {{(shared_address(raw) + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES}};
    if (threadIdx.x == 0) m.init();
    cluster_sync();
    int warp = __shfl_sync(0xFFFFFFFFu, (int)threadIdx.x / WARP, 0); /* warp-uniform for the compiler, too */
    if (warp < PRODUCT_WARPS) {
        more_registers<Share::PRODUCT_REGISTERS>();
        multiply_all<F, T, BIAS>(a, m);
    } else {
        fewer_registers<OTHER_REGISTERS>();
        if (threadIdx.x == Share::THREADS - WARP) fetch_all(a, &x, &w, m);
        else if (warp < PRODUCT_WARPS + Share::END_WARPS) end_all<End>(a, m);
    }
    __syncwarp();
    cluster_sync(); /* the other block may still copy to this one */
#endif
}

template <typename F, typename T, bool BIAS, class End, class Share>
static void launch_as(const tri_call *call, const scaled_tiles &a, const CUtensorMap &x, const CUtensorMap &w,
                      const char *where) {
    queue_sharing(call, where, scaled_kernel<F, T, BIAS, End, Share>, cluster_blocks(call, a.tiles), Share::THREADS,
                  SCALED_BYTES, a, x, w);
}

/* F: of x. */
template <typename F, bool BIAS, template <typename> class End, class Share>
static void launch(const tri_call *call, const scaled_tiles &a, int type, const CUtensorMap &x, const CUtensorMap &w,
                   const char *where) {
    if (type == TRI_BF16) launch_as<F, bf16, BIAS, End<bf16>, Share>(call, a, x, w, where);
    else launch_as<F, f16, BIAS, End<f16>, Share>(call, a, x, w, where);
}

/* Whether shapes, types, alignment and the GPU suit; fills `a` and the maps then. */
static int fits(const tri_call *call, const scaled_layer *of, scaled_tiles *a, CUtensorMap *x, CUtensorMap *w) {
    a->b = of->b, a->sx = of->sx, a->sw = of->sw, a->y = of->y, a->rows = of->rows, a->act = act_after(call);
    a->cols = (int)of->cols, a->steps = (int)blocks_for(of->in, STEP), a->across = (int)blocks_for(a->cols, COLS);
    a->tiles = (int)blocks_for(a->rows, ROWS * CLUSTER) * a->across;
    return of->y_type != TRI_F32 && is_hopper(call) && of->in > 0 && of->in % 16 == 0 && a->cols % 16 == 0 &&
           a->rows % WIDE == 0 && a->cols >= COLS / 2 && a->rows >= LEAST_ROWS &&
           aligned(of->b, of->y, of->x, of->w) &&
           tri__cuda_describe_tiles(tri__cuda(call), x, of->x_type, of->x, a->rows, of->in, ROWS) &&
           tri__cuda_describe_tiles(tri__cuda(call), w, of->w_type, of->w, a->cols, of->in, COLS / CLUSTER);
}

int scaled_product(const tri_call *call, const scaled_layer *of, const char *where) {
    scaled_tiles a = {};
    CUtensorMap x, w;
    if (of->add || of->tokens_in_sum || !fits(call, of, &a, &x, &w)) return 0;
    if (of->x_type == TRI_F8_E5M2) launch<e5m2, false, end_plain, end_by_three>(call, a, of->y_type, x, w, where);
    else if (of->b) launch<e4m3, true, end_plain, end_by_three>(call, a, of->y_type, x, w, where);
    else launch<e4m3, false, end_plain, end_by_three>(call, a, of->y_type, x, w, where);
    return 1;
}

int scaled_act_product(const tri_call *call, const scaled_layer *of, const fp8_tensor &to, const char *where) {
    scaled_tiles a = {};
    CUtensorMap x, w;
    a.to = to;
    if (!fp8_wide(to) || !fits(call, of, &a, &x, &w)) return 0;
    if (a.act == TRI_ACTIVATION_GELU) launch<e4m3, true, end_gelu, end_by_seven>(call, a, of->y_type, x, w, where);
    else launch<e4m3, true, end_any, end_by_seven>(call, a, of->y_type, x, w, where);
    return 1;
}

int scaled_act_din_product(const tri_call *call, const scaled_layer *of, const fp8_tensor &to, float *part,
                            const char *where) {
    scaled_tiles a = {};
    CUtensorMap x, w;
    a.to = to, a.part = part;
    if (parts_of(of->rows) > ACT_MOST_PARTS || !fp8_wide(to) || !fits(call, of, &a, &x, &w)) return 0;
    if (a.act == TRI_ACTIVATION_GELU) launch<e5m2, false, end_gelu_din, end_by_seven>(call, a, of->y_type, x, w, where);
    else launch<e5m2, false, end_any_din, end_by_seven>(call, a, of->y_type, x, w, where);
    return parts_of(a.rows);
}
