/* attention_tiles_din.cu - the gradient of attention of tiles (attention_tiles.cu), in two kernels of one warpgroup per
 * tile and head: a tile of 64 queries meets keys and sums dq; a tile of 64 keys meets queries and sums dk and dv.
 * Scores and gradients of weights are formed in both, and nothing is summed across blocks: results do not depend on
 * timing, and one long sequence occupies all processors. */
#include "device/cuda/attention/attention_loop.cuh"
#include "device/cuda/attention/attention_slopes.cuh"

/* Layout of shared memory: the tile's own rows of two operands, then two stages of two operands; what the score needs,
 * and a list. */
template <int COLS, class Rows, int KIND> struct sizes {
    enum {
        OPERAND = operand_bytes<COLS>,
        STAGE_BYTES = 2 * OPERAND,
        STAGES_AT = 2 * OPERAND,
        STATISTICS_AT = STAGES_AT + 2 * STAGE_BYTES, /* two stages of [2, TILE] floats */
        STATISTIC_BYTES = 2 * TILE * 4,
        DECISIONS_AT = STATISTICS_AT + 2 * STATISTIC_BYTES, /* two stages of [TILE, 2 words] */
        DECISION_BYTES = TILE * 8,
        SCORE_AT = DECISIONS_AT + 2 * DECISION_BYTES,
        LIST_AT = SCORE_AT + score_room<KIND>::BYTES,
        ALL = LIST_AT + Rows::LIST_BYTES + ATOM_BYTES, /* and padding to align */
    };
};

/* The statistics of a tile of queries, two threads for each: to shared memory, and to scratch space for the tiles of
 * keys, which are processed after all those of queries. */
template <typename T>
static __device__ __forceinline__ void form_statistics(const tile_args &t, const tile_place &at, float *to) {
    const attention_args &a = t.a;
    int number = (int)threadIdx.x / 2;
    bool exists = at.first + number < at.queries;
    int64_t row = at.query_row + at.first + (exists ? number : 0), head = row * a.heads + at.head;
    float sum = 0, x[WIDE], y[WIDE];
    for (int c = (int)threadIdx.x % 2 * WIDE; c < a.width; c += 2 * WIDE) {
        load<WIDE>((const T *)a.dctx + head * a.width + c, x), load<WIDE>((const T *)a.ctx + head * a.width + c, y);
#pragma unroll
        for (int k = 0; k < WIDE; k++) sum = fmaf(x[k], y[k], sum);
    }
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
    float value = !exists ? 0.0f : threadIdx.x % 2 ? sum / a.drop.scale : a.lse[head] * 1.44269504f;
    to[threadIdx.x % 2 * TILE + number] = value;
    if (exists) a.statistic[(threadIdx.x % 2 * (int64_t)a.heads + at.head) * a.rows + row] = value;
}

/* Zeroes padding rows, those of the gradients of keys and values among them. */
template <typename T> static __device__ void clear_tile(const tile_args &t, const tile_place &at) {
    const attention_args &a = t.a;
    int64_t first = at.query_row + at.first, rows = min(TILE, at.queries - at.first), H = (int64_t)a.heads * a.width;
    for (int64_t i = threadIdx.x; i < rows * 3 * a.width && !a.add; i += THREADS)
        ((T *)a.dqkv)[(first + i / (3 * a.width)) * 3 * H + i / a.width % 3 * H + at.head * a.width + i % a.width] =
            narrow<T>(0);
}

#if TRI_HOPPER
/* Scores of half a tile and gradients of its weights become gradients of scores, without the factor of dropout's scale.
 * x: decisions of the thread's two rows for its 8 keys. */
template <bool DROP>
static __device__ __forceinline__ void form_slopes(float (&score)[32], const float (&dweight)[32], int half,
                                                   const float (&statistic)[2][2], const uint32_t (&x)[2][4],
                                                   const met_keys &met, float log2_scale) {
#pragma unroll
    for (int i = 16 * half; i < 16 * half + 16; i++) {
        int j = i / 4 % 4, h = i / 2 % 2, e = i % 2;
        float p = power_of_2(fmaf(score[i], log2_scale, -statistic[h][0])), d = dweight[i];
        if (DROP && !(x[h][j] & (e ? 0x80000000u : 0x8000u))) d = 0;
        bool exists = 2 * j + e >= met.first[h] && 2 * j + e < met.valid[h];
        score[i] = exists ? p * (d - statistic[h][1]) : 0.0f;
    }
}

/* A tile of queries. */
template <typename T, int COLS, int DROP, class Size, class Rows, class Score>
static __device__ __forceinline__ void sum_dq(const tile_args &t, const decisions &drop, const Rows &rows,
                                              const key_rows<T> &kv, const Score &scores, uint32_t base,
                                              const float (&statistic)[2][2], float (&dq)[COLS / 2]) {
    int tiles = rows.tiles();
    for (int n = 0; n < tiles; n++) {
        uint32_t here = base + Size::STAGES_AT + (uint32_t)(n & 1) * Size::STAGE_BYTES,
                 there = base + Size::STAGES_AT + (uint32_t)(~n & 1) * Size::STAGE_BYTES;
        float score[32], dweight[32];
        uint32_t factor[4][4], x[2][2][4] = {};
        bool more = n + 1 < tiles;
        copy_wait<0>();
        show_to_matrix_units();
        __syncthreads(); /* the tile has arrived, and the previous one is no longer read */
        begin_product<T, COLS>(base, here, score);
        begin_product<T, COLS>(base + Size::OPERAND, here + Size::OPERAND, dweight);
        if (more) fetch_keys<T, COLS>(t.a, rows, kv, n + 1, there, there + Size::OPERAND);
        scores.form(n, more, base, here);
#pragma unroll
        for (int b = 0; b < 2 && DROP; b++) decide<DROP == 1>(t.a, drop, rows.met(n, b).key, x[b]);
        wgmma_wait<0>();
        pin(score);
        pin(dweight);
        scores.add(n, score);
#pragma unroll
        for (int b = 0; b < 2; b++) {
            form_slopes<DROP != 0>(score, dweight, b, statistic, x[b], rows.met(n, b), t.a.scale * 1.44269504f);
#pragma unroll
            for (int k = 0; k < 2; k++) as_factor<T>(score, 2 * b + k, factor[2 * b + k]);
        }
        scores.collect(n, more, score);
        copy_commit();
        wgmma_begin();
        add_product<T>(factor, here, 0, dq);
        wgmma_commit();
        scores.sum(n, dq);
        wgmma_wait<0>();
        pin(dq);
    }
}
#endif

template <typename T, int COLS, int DROP, class Rows, int KIND>
static __global__ void __launch_bounds__(THREADS, COLS == 64 && KIND != TERMS ? 3 : 2) dq_kernel(score_args<KIND> t) {
#if TRI_HOPPER
    typedef sizes<COLS, Rows, KIND> size;
    extern __shared__ char raw[];
    const attention_args &a = t.a;
    tile_place at = Rows::here(t, false);
    if (at.is_padding || at.first >= at.queries) {
        if (at.first < at.queries) clear_tile<T>(t, at);
        score<T, false, KIND>::put_none(t);
        return;
    }
    uint32_t unaligned = shared_address(raw), base = (unaligned + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES;
    char *memory = raw + (base - unaligned);
    score<T, false, KIND> scores(t, at, memory + size::SCORE_AT, base + size::SCORE_AT);
    scores.clear();
    int64_t H = (int64_t)a.heads * a.width, row = at.query_row + at.first;
    copy_rows<T, COLS, TILE, THREADS>((const T *)a.qkv + row * 3 * H + at.head * a.width, 3 * H, a.width,
                                      at.queries - at.first, base, (int)threadIdx.x);
    copy_rows<T, COLS, TILE, THREADS>((const T *)a.dctx + row * H + at.head * a.width, H, a.width,
                                      at.queries - at.first, base + size::OPERAND, (int)threadIdx.x);
    Rows rows(t, at, false, memory + size::LIST_AT);
    key_rows<T> kv = keys_of<T>(t, at);
    float dq[COLS / 2] = {}, statistic[2][2], *statistics = reinterpret_cast<float *>(memory + size::STATISTICS_AT);
    form_statistics<T>(t, at, statistics);
    __syncwarp(); /* a warp's rows are its own */
#pragma unroll
    for (int i = 0; i < 4; i++)
        statistic[i / 2][i % 2] =
            statistics[i % 2 * TILE + (int)threadIdx.x / WARP * GRANULE + (int)threadIdx.x % WARP / 4 + i / 2 * 8];
    decisions drop = {};
    if (DROP) drop = decisions_at(a, at.sample, at.query + (uint32_t)at.first, at.key - (uint32_t)at.lead);
    for (int from = 0; rows.look(from); from += LISTED) {
        if (!rows.tiles()) continue;
        fetch_keys<T, COLS>(a, rows, kv, 0, base + size::STAGES_AT,
                            base + size::STAGES_AT + size::OPERAND);
        scores.begin();
        copy_commit();
        if (DROP && !mask_is_even(a, drop.feature))
            sum_dq<T, COLS, 2 * DROP, size>(t, drop, rows, kv, scores, base, statistic, dq);
        else sum_dq<T, COLS, DROP, size>(t, drop, rows, kv, scores, base, statistic, dq);
    }
    copy_commit(); /* of a tile that nothing met, too */
    copy_wait<0>();
    __syncthreads(); /* queries are no longer read */
    put_tile<T, COLS>(dq, a.scale * a.drop.scale, (T *)a.dqkv + row * 3 * H + at.head * a.width, 3 * H,
                      at.queries - at.first, a.width, a.add, base);
    scores.end();
#endif
}

#if TRI_HOPPER
/* A tile of keys: fetches the n-th tile of queries, their dctx and statistics. */
template <typename T, int COLS, class Rows>
static __device__ __forceinline__ void fetch_queries(const tile_args &t, const tile_place &at, const Rows &rows, int n,
                                                     uint32_t to, uint32_t statistics) {
    const attention_args &a = t.a;
    int64_t H = (int64_t)a.heads * a.width, row = at.query_row;
    copy_tile<T, COLS, false>(rows, n, (const T *)a.qkv + at.head * a.width, row, 3 * H, a.width, to);
    copy_tile<T, COLS, false>(rows, n, (const T *)a.dctx + at.head * a.width, row, H, a.width,
                              to + operand_bytes<COLS>);
    int query = rows.row(n, (int)threadIdx.x % TILE) - at.lead;
    bool exists = query >= 0 && query < at.queries;
    const float *from = a.statistic + ((int64_t)threadIdx.x / TILE * a.heads + at.head) * a.rows + row;
    copy_4(statistics + threadIdx.x * 4, exists ? from + query : from, exists);
}

/* Draws the decisions of the tile's keys for a tile of queries: each thread for one query and 32 keys. */
template <class Rows>
static __device__ __forceinline__ void draw_decisions(const tile_args &t, const mask_start &start, const tile_place &at,
                                                      const Rows &rows, int n, uint2 *to) {
    int number = (int)threadIdx.x % TILE, lane = threadIdx.x % WARP, key = (int)threadIdx.x / TILE * WARP;
    attention_place place = {};
    place.sample = at.sample, place.query = at.query - (uint32_t)at.lead, place.feature = at.key;
    uint32_t word = decide_keys(t.a, start, place, rows.row(n, number), at.first + key);
    reinterpret_cast<uint32_t *>(to + key + lane % 16 * 2 + lane / 16)[number / WARP] = turn_bits(word);
}

template <int COLS> struct key_sums {
    float dk[COLS / 2], dv[COLS / 2];
};

template <typename T, int COLS, int DROP, class Size, class Rows, class Score>
static __device__ __forceinline__ void sum_keys(const tile_args &t, const tile_place &at, const mask_start &start,
                                                const Rows &rows, const Score &scores, char *memory, uint32_t base,
                                                key_sums<COLS> &of) {
    int tiles = rows.tiles(), lane = threadIdx.x % WARP, row = (int)threadIdx.x / WARP * 16 + lane / 4;
    for (int n = 0; n < tiles; n++) {
        int slot = n & 1;
        uint32_t here = base + Size::STAGES_AT + (uint32_t)slot * Size::STAGE_BYTES;
        const float *statistic = reinterpret_cast<float *>(memory + Size::STATISTICS_AT + slot * Size::STATISTIC_BYTES);
        uint2 *decided = reinterpret_cast<uint2 *>(memory + Size::DECISIONS_AT), kept[2];
        float score[32], dweight[32];
        uint32_t weight[4][4], slope[4][4];
        bool more = n + 1 < tiles;
        copy_wait<0>();
        show_to_matrix_units();
        __syncthreads(); /* the tile and its decisions have arrived, and the previous one is no longer read */
        begin_product<T, COLS>(base, here, score);
        begin_product<T, COLS>(base + Size::OPERAND, here + Size::OPERAND, dweight);
        if (more)
            fetch_queries<T, COLS>(t, at, rows, n + 1,
                                   base + Size::STAGES_AT + (uint32_t)(slot ^ 1) * Size::STAGE_BYTES,
                                   base + Size::STATISTICS_AT + (uint32_t)(slot ^ 1) * Size::STATISTIC_BYTES);
        if (DROP && more) draw_decisions(t, start, at, rows, n + 1, decided + (slot ^ 1) * TILE);
        scores.form(n, more, base, here);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            uint2 both = DROP ? decided[slot * TILE + row + 8 * h] : make_uint2(~0u, ~0u);
            kept[h] = make_uint2(both.x >> lane % 4 * 2, both.y >> lane % 4 * 2);
        }
        wgmma_wait<1>();
        pin(score);
        scores.add(n, score);
        exponentiate(score, statistic, t.a.scale * 1.44269504f);
        wgmma_wait<0>();
        pin(dweight);
        differentiate(score, dweight, statistic, kept, 2 * TILE); /* sums of keys that do not exist are not written */
        rows.keep(n, score, dweight);
#pragma unroll
        for (int k = 0; k < 4; k++) as_factor<T>(score, k, weight[k]), as_factor<T>(dweight, k, slope[k]);
        scores.collect(n, more, dweight);
        copy_commit();
        wgmma_begin();
        add_product<T>(weight, here + Size::OPERAND, 0, of.dv);
        add_product<T>(slope, here, 0, of.dk);
        wgmma_commit();
        scores.sum(n, of.dk);
        wgmma_wait<0>();
        pin(of.dk);
        pin(of.dv);
    }
}
#endif

template <typename T, int COLS, int DROP, class Rows, int KIND>
static __global__ void __launch_bounds__(THREADS, COLS == 64 && KIND != TERMS ? 3 : 2) dkv_kernel(score_args<KIND> t) {
#if TRI_HOPPER
    typedef sizes<COLS, Rows, KIND> size;
    extern __shared__ char raw[];
    const attention_args &a = t.a;
    tile_place at = Rows::here(t, true);
    if (at.is_padding || at.first >= at.keys) return;
    uint32_t unaligned = shared_address(raw), base = (unaligned + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES;
    char *memory = raw + (base - unaligned);
    int64_t H = (int64_t)a.heads * a.width, at_row = (at.key_row + at.first) * t.kv_stride + at.head * a.width;
    int left = at.keys - at.first;
    const T *own = (const T *)t.kv + at_row;
    copy_rows<T, COLS, TILE, THREADS>(own, t.kv_stride, a.width, left, base, (int)threadIdx.x);
    copy_rows<T, COLS, TILE, THREADS>(own + H, t.kv_stride, a.width, left, base + size::OPERAND, (int)threadIdx.x);
    Rows rows(t, at, true, memory + size::LIST_AT);
    score<T, true, KIND> scores(t, at, memory + size::SCORE_AT, base + size::SCORE_AT);
    mask_start start = mask_start_of(a.drop);
    key_sums<COLS> of = {};
    for (int from = 0; rows.look(from); from += LISTED) {
        if (!rows.tiles()) continue;
        fetch_queries<T, COLS>(t, at, rows, 0, base + size::STAGES_AT, base + size::STATISTICS_AT);
        scores.begin();
        copy_commit();
        if (DROP) draw_decisions(t, start, at, rows, 0, reinterpret_cast<uint2 *>(memory + size::DECISIONS_AT));
        sum_keys<T, COLS, DROP, size>(t, at, start, rows, scores, memory, base, of);
    }
    copy_commit(); /* of a tile that nothing met, too */
    copy_wait<0>();
    __syncthreads(); /* keys are no longer read */
    T *to = (T *)t.dkv + at_row;
    put_tile<T, COLS>(of.dk, a.scale * a.drop.scale, to, t.kv_stride, left, a.width, t.add_kv, base);
    put_tile<T, COLS>(of.dv, a.drop.scale, to + H, t.kv_stride, left, a.width, t.add_kv, base + size::OPERAND);
#endif
}

template <typename T, int COLS, int DROP, class Rows, int KIND>
static void launch_both(const tri_call *call, score_args<KIND> t, dim3 grid) {
    enum { BYTES = sizes<COLS, Rows, KIND>::ALL };
    const char *where = "gradient of attention of tiles";
    void (*kernels[])(score_args<KIND>) = {dq_kernel<T, COLS, DROP, Rows, KIND>,
                                           dkv_kernel<T, COLS, DROP, Rows, KIND>};
    t.a.mask = mask_keys_of(t.a.drop);
    for (auto *kernel : kernels) {
        record(call, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES), where);
        kernel<<<grid, THREADS, BYTES, stream(call)>>>(t);
    }
    launched(call, where);
}
template <typename T, int COLS, class Rows, int KIND>
static void launch(const tri_call *call, const score_args<KIND> &t, dim3 grid) {
    if (t.a.drop.threshold) launch_both<T, COLS, 1, Rows, KIND>(call, t, grid);
    else launch_both<T, COLS, 0, Rows, KIND>(call, t, grid);
}

template <typename T, int COLS> static void launch_listed(const tri_call *call, const tile_args *t) {
    if (t->ring) launch<T, COLS, listed_rows<true>, DOT>(call, *t, tile_blocks(t));
    else launch<T, COLS, listed_rows<false>, DOT>(call, *t, tile_blocks(t));
}
template <typename T> static void launch_tiles(const tri_call *call, const tile_args *t) {
    t->a.width <= 64 ? launch_listed<T, 64>(call, t) : launch_listed<T, 128>(call, t);
}
int tri__cuda_tiles_din(const tri_call *call, const tile_args *t, int dtype) {
    if (!tiles_fit(call, t, dtype)) return 0;
    tile_args with = *t;
    with.a.statistic = static_cast<float *>(call->work);
    dtype == TRI_BF16 ? launch_tiles<bf16>(call, &with) : launch_tiles<f16>(call, &with);
    return 1;
}

template <typename T> static void launch_relative(const tri_call *call, const relative_args *t) {
    dim3 grid(tiles_for<TILE>(t->a.rows, t->a.n), (unsigned)t->a.heads);
    if (t->terms) launch<T, 64, all_rows, TERMS>(call, *t, grid);
    else launch<T, 64, all_rows, BIAS>(call, *t, grid);
}
void tri__cuda_relative_din(const tri_call *call, const relative_args *t, int dtype) {
    dtype == TRI_BF16 ? launch_relative<bf16>(call, t) : launch_relative<f16>(call, t);
}
