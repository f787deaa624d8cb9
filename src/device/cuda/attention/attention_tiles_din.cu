/* attention_tiles_din.cu - the gradient of attention of tiles (attention_tiles.cuh), in two kernels of one warpgroup
 * per tile and head: a tile of 64 queries meets listed keys and sums dq; a tile of 64 keys meets listed queries and
 * sums dk and dv. Scores and gradients of weights are formed in both, and nothing is summed across blocks: results do
 * not depend on timing, and one long sequence occupies all processors. */
#include "device/cuda/attention/attention_slopes.cuh"
#include "device/cuda/attention/attention_softmax.cuh"
#include "device/cuda/attention/attention_tiles.cuh"

/* Layout of shared memory: the tile's own rows of two operands, then two stages of two operands. */
template <int COLS> struct sizes {
    enum {
        PANEL_BYTES = TILE * ROW_BYTES,
        TILE_BYTES = COLS / PANEL * PANEL_BYTES,
        STAGE_BYTES = 2 * TILE_BYTES,
        STAGES_AT = 2 * TILE_BYTES,
        STATISTICS_AT = STAGES_AT + 2 * STAGE_BYTES, /* [2, TILE] floats; of keys' tiles for two stages */
        STATISTIC_BYTES = 2 * TILE * 4,
        DECISIONS_AT = STATISTICS_AT + 2 * STATISTIC_BYTES, /* [2 stages] of [TILE, 2 words] */
        DECISION_BYTES = TILE * 8,
        LIST_AT = DECISIONS_AT + 2 * DECISION_BYTES,
        ALL = LIST_AT + sizeof(tile_list) + ATOM_BYTES, /* and padding to align */
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
/* Begins a product [64, 64] of two tiles, summed over columns. */
template <typename T, int COLS>
static __device__ __forceinline__ void begin_product(uint32_t left, uint32_t right, float (&to)[32]) {
    uint32_t a = tile_at(left), b = tile_at(right);
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < COLS / 16; k++)
        wgmma<T>::template run<0, 0>(to, tile(a, k / 4 * sizes<COLS>::PANEL_BYTES + k % 4 * 32),
                                     tile(b, k / 4 * sizes<COLS>::PANEL_BYTES + k % 4 * 32), k > 0);
    wgmma_commit();
}
/* Adds factors times the rows of a tile. */
template <typename T, int COLS>
static __device__ __forceinline__ void add_product(const uint32_t (&factor)[4][4], uint32_t rows,
                                                   float (&to)[COLS / 2]) {
    uint32_t b = tile_at(rows, sizes<COLS>::PANEL_BYTES);
#pragma unroll
    for (int k = 0; k < 4; k++) wgmma<T>::template run<1>(to, factor[k], tile(b, k * 16 * ROW_BYTES), 1);
}

/* A tile of queries. */
template <typename T, int COLS>
static __device__ __forceinline__ void fetch_keys(const tile_args &t, const tile_place &at, int4 four, uint32_t to) {
    const T *from = (const T *)t.kv + at.key_row * t.kv_stride + at.head * t.a.width;
    copy_granules<T, COLS, true>(from, t.kv_stride, t.a.width, at.lead, at.keys, four, to);
    copy_granules<T, COLS, true>(from + (int64_t)t.a.heads * t.a.width, t.kv_stride, t.a.width, at.lead, at.keys, four,
                                 to + sizes<COLS>::TILE_BYTES);
}

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

template <typename T, int COLS, int DROP>
static __device__ __forceinline__ void sum_dq(const tile_args &t, const tile_place &at, const decisions &drop,
                                              const tile_list &list, int split, uint32_t base,
                                              const float (&statistic)[2][2], float (&dq)[COLS / 2]) {
    typedef sizes<COLS> size;
    int tiles = (list.count + 3) / 4, c = threadIdx.x % 4;
    for (int n = 0; n < tiles; n++) {
        uint32_t here = base + size::STAGES_AT + (uint32_t)(n & 1) * size::STAGE_BYTES,
                 there = base + size::STAGES_AT + (uint32_t)(~n & 1) * size::STAGE_BYTES;
        float score[32], dweight[32];
        uint32_t factor[4][4], x[2][2][4] = {};
        int4 four = entries_of(list, n);
        copy_wait<0>();
        show_to_matrix_units();
        __syncthreads(); /* the tile has arrived, and the previous one is no longer read */
        begin_product<T, COLS>(base, here, score);
        begin_product<T, COLS>(base + size::TILE_BYTES, here + size::TILE_BYTES, dweight);
        if (n + 1 < tiles) fetch_keys<T, COLS>(t, at, entries_of(list, n + 1), there);
        copy_commit();
#pragma unroll
        for (int b = 0; b < 2 && DROP; b++) {
            int entry = c / 2 ? entry_of(four, 2 * b + 1) : entry_of(four, 2 * b);
            decide<DROP == 1>(t.a, drop, row_of(entry) + c % 2 * 8, x[b]);
        }
        wgmma_wait<0>();
        pin(score);
        pin(dweight);
#pragma unroll
        for (int b = 0; b < 2; b++) {
            form_slopes<DROP != 0>(score, dweight, b, statistic, x[b], keys_met(t, at, four, b, split),
                                   t.a.scale * 1.44269504f);
#pragma unroll
            for (int k = 0; k < 2; k++) as_factor<T>(score, 2 * b + k, factor[2 * b + k]);
        }
        wgmma_begin();
        add_product<T, COLS>(factor, here, dq);
        wgmma_commit();
        wgmma_wait<0>();
        pin(dq);
    }
}
#endif

template <typename T, int COLS, int DROP, bool RING>
static __global__ void __launch_bounds__(THREADS, COLS == 64 ? 3 : 2) dq_kernel(tile_args t) {
#if TRI_HOPPER
    typedef sizes<COLS> size;
    extern __shared__ char raw[];
    const attention_args &a = t.a;
    tile_place at = tile_here<RING>(t, false);
    if (at.first >= at.queries) return;
    if (at.is_padding) {
        clear_tile<T>(t, at);
        return;
    }
    uint32_t unaligned = shared_address(raw), base = (unaligned + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES;
    tile_list &list = *reinterpret_cast<tile_list *>(raw + (base - unaligned) + size::LIST_AT);
    int64_t H = (int64_t)a.heads * a.width, row = at.query_row + at.first;
    int thread_row = (int)threadIdx.x / WARP * GRANULE, granules = (at.lead + at.keys + GRANULE - 1) / GRANULE;
    copy_rows<T, COLS, TILE, THREADS>((const T *)a.qkv + row * 3 * H + at.head * a.width, 3 * H, a.width,
                                      at.queries - at.first, base, (int)threadIdx.x);
    copy_rows<T, COLS, TILE, THREADS>((const T *)a.dctx + row * H + at.head * a.width, H, a.width,
                                      at.queries - at.first, base + size::TILE_BYTES, (int)threadIdx.x);
    tile_cursor cursor = cursor_of<RING>(t, at, false, at.queries);
    float dq[COLS / 2] = {}, statistic[2][2];
    float *statistics = reinterpret_cast<float *>(raw + (base - unaligned) + size::STATISTICS_AT);
    form_statistics<T>(t, at, statistics);
    __syncwarp(); /* a warp's rows are its own */
#pragma unroll
    for (int i = 0; i < 4; i++)
        statistic[i / 2][i % 2] = statistics[i % 2 * TILE + thread_row + (int)threadIdx.x % WARP / 4 + i / 2 * 8];
    decisions drop = {};
    if (DROP) drop = decisions_at(a, at.sample, at.query + (uint32_t)at.first, at.key - (uint32_t)at.lead);
    for (int from = 0; from < granules; from += LISTED) {
        list_granules<RING>(t, cursor, from, granules, list);
        if (!list.count) continue;
        fetch_keys<T, COLS>(t, at, entries_of(list, 0), base + size::STAGES_AT);
        copy_commit();
        if (DROP && !mask_is_even(a, drop.feature))
            sum_dq<T, COLS, 2 * DROP>(t, at, drop, list, cursor.split, base, statistic, dq);
        else sum_dq<T, COLS, DROP>(t, at, drop, list, cursor.split, base, statistic, dq);
    }
    copy_commit(); /* of a tile that nothing met, too */
    copy_wait<0>();
    __syncthreads(); /* queries are no longer read */
    put_tile<T, COLS>(dq, a.scale * a.drop.scale, (T *)a.dqkv + row * 3 * H + at.head * a.width, 3 * H,
                      at.queries - at.first, a.width, a.add, base);
#endif
}

#if TRI_HOPPER
/* A tile of keys: fetches listed queries, their dctx and statistics. */
template <typename T, int COLS>
static __device__ __forceinline__ void fetch_queries(const tile_args &t, const tile_place &at, int4 four, uint32_t to,
                                                     uint32_t statistics) {
    const attention_args &a = t.a;
    int64_t H = (int64_t)a.heads * a.width, row = at.query_row;
    copy_granules<T, COLS, false>((const T *)a.qkv + row * 3 * H + at.head * a.width, 3 * H, a.width, at.lead,
                                  at.queries, four, to);
    copy_granules<T, COLS, false>((const T *)a.dctx + row * H + at.head * a.width, H, a.width, at.lead, at.queries,
                                  four, to + sizes<COLS>::TILE_BYTES);
    int number = (int)threadIdx.x % TILE, query = row_of(entry_of(four, number / GRANULE)) + number % GRANULE - at.lead;
    bool exists = query >= 0 && query < at.queries;
    const float *from = a.statistic + ((int64_t)threadIdx.x / TILE * a.heads + at.head) * a.rows + row;
    copy_4(statistics + threadIdx.x * 4, exists ? from + query : from, exists);
}

/* Draws the decisions of the tile's keys for listed queries: each thread for one query and 32 keys. */
static __device__ __forceinline__ void draw_decisions(const tile_args &t, const mask_start &start, const tile_place &at,
                                                      int4 four, uint2 *to) {
    int number = (int)threadIdx.x % TILE, lane = threadIdx.x % WARP, key = (int)threadIdx.x / TILE * WARP;
    attention_place place = {};
    place.sample = at.sample, place.query = at.query - (uint32_t)at.lead, place.feature = at.key;
    uint32_t word = decide_keys(t.a, start, place, row_of(entry_of(four, number / GRANULE)) + number % GRANULE,
                                at.first + key);
    reinterpret_cast<uint32_t *>(to + key + lane % 16 * 2 + lane / 16)[number / WARP] = turn_bits(word);
}

template <int COLS> struct key_sums {
    float dk[COLS / 2], dv[COLS / 2];
};

template <typename T, int COLS, int DROP>
static __device__ __forceinline__ void sum_keys(const tile_args &t, const tile_place &at, const mask_start &start,
                                                const tile_list &list, int split, char *memory,
                                                uint32_t base, key_sums<COLS> &of) {
    typedef sizes<COLS> size;
    int tiles = (list.count + 3) / 4, lane = threadIdx.x % WARP, row = (int)threadIdx.x / WARP * 16 + lane / 4;
    int key = at.place + at.first + row - at.base * GRANULE - lane % 4 * 2; /* from the first granule on */
    for (int n = 0; n < tiles; n++) {
        int slot = n & 1;
        uint32_t here = base + size::STAGES_AT + (uint32_t)slot * size::STAGE_BYTES;
        const float *statistic = reinterpret_cast<float *>(memory + size::STATISTICS_AT + slot * size::STATISTIC_BYTES);
        uint2 *decided = reinterpret_cast<uint2 *>(memory + size::DECISIONS_AT), kept[2];
        float score[32], dweight[32];
        uint32_t weight[4][4], slope[4][4];
        int4 four = entries_of(list, n);
        copy_wait<0>();
        show_to_matrix_units();
        __syncthreads(); /* the tile and its decisions have arrived, and the previous one is no longer read */
        begin_product<T, COLS>(base, here, score);
        begin_product<T, COLS>(base + size::TILE_BYTES, here + size::TILE_BYTES, dweight);
        if (n + 1 < tiles)
            fetch_queries<T, COLS>(t, at, entries_of(list, n + 1),
                                   base + size::STAGES_AT + (uint32_t)(slot ^ 1) * size::STAGE_BYTES,
                                   base + size::STATISTICS_AT + (uint32_t)(slot ^ 1) * size::STATISTIC_BYTES);
        copy_commit();
        if (DROP && n + 1 < tiles) draw_decisions(t, start, at, entries_of(list, n + 1), decided + (slot ^ 1) * TILE);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            uint2 both = DROP ? decided[slot * TILE + row + 8 * h] : make_uint2(~0u, ~0u);
            kept[h] = make_uint2(both.x >> lane % 4 * 2, both.y >> lane % 4 * 2);
        }
        wgmma_wait<1>();
        pin(score);
        exponentiate(score, statistic, t.a.scale * 1.44269504f);
        wgmma_wait<0>();
        pin(dweight);
        differentiate(score, dweight, statistic, kept, 2 * TILE); /* sums of keys that do not exist are not written */
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int gap = key - row_of(entry_of(four, i)) + t.window; /* of the key from the first query, and the window */
#pragma unroll
            for (int k = 8 * i; k < 8 * i + 8; k++) {
                bool met = is_met(entry_of(four, i), k / 2 % 2, split) &&
                           (unsigned)(gap + k / 2 % 2 * 8 - k / 4 % 2 * 8 - k % 2) <= 2u * (unsigned)t.window;
                score[k] = met ? score[k] : 0.0f, dweight[k] = met ? dweight[k] : 0.0f;
            }
            as_factor<T>(score, i, weight[i]), as_factor<T>(dweight, i, slope[i]);
        }
        wgmma_begin();
        add_product<T, COLS>(weight, here + size::TILE_BYTES, of.dv);
        add_product<T, COLS>(slope, here, of.dk);
        wgmma_commit();
        wgmma_wait<0>();
        pin(of.dk);
        pin(of.dv);
    }
}
#endif

template <typename T, int COLS, int DROP, bool RING>
static __global__ void __launch_bounds__(THREADS, COLS == 64 ? 3 : 2) dkv_kernel(tile_args t) {
#if TRI_HOPPER
    typedef sizes<COLS> size;
    extern __shared__ char raw[];
    const attention_args &a = t.a;
    tile_place at = tile_here<RING>(t, true);
    if (at.is_padding || at.first >= at.keys) return;
    uint32_t unaligned = shared_address(raw), base = (unaligned + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES;
    char *memory = raw + (base - unaligned);
    tile_list &list = *reinterpret_cast<tile_list *>(memory + size::LIST_AT);
    int64_t H = (int64_t)a.heads * a.width, at_row = (at.key_row + at.first) * t.kv_stride + at.head * a.width;
    int granules = (at.lead + at.queries + GRANULE - 1) / GRANULE, left = at.keys - at.first;
    const T *from = (const T *)t.kv + at_row;
    copy_rows<T, COLS, TILE, THREADS>(from, t.kv_stride, a.width, left, base, (int)threadIdx.x);
    copy_rows<T, COLS, TILE, THREADS>(from + H, t.kv_stride, a.width, left, base + size::TILE_BYTES, (int)threadIdx.x);
    tile_cursor cursor = cursor_of<RING>(t, at, true, at.keys);
    mask_start start = mask_start_of(a.drop);
    key_sums<COLS> of = {};
    for (int first = 0; first < granules; first += LISTED) {
        list_granules<RING>(t, cursor, first, granules, list);
        if (!list.count) continue;
        fetch_queries<T, COLS>(t, at, entries_of(list, 0), base + size::STAGES_AT, base + size::STATISTICS_AT);
        copy_commit();
        if (DROP)
            draw_decisions(t, start, at, entries_of(list, 0), reinterpret_cast<uint2 *>(memory + size::DECISIONS_AT));
        sum_keys<T, COLS, DROP>(t, at, start, list, cursor.split, memory, base, of);
    }
    copy_commit(); /* of a tile that nothing met, too */
    copy_wait<0>();
    __syncthreads(); /* keys are no longer read */
    T *to = (T *)t.dkv + at_row;
    put_tile<T, COLS>(of.dk, a.scale * a.drop.scale, to, t.kv_stride, left, a.width, t.add_kv, base);
    put_tile<T, COLS>(of.dv, a.drop.scale, to + H, t.kv_stride, left, a.width, t.add_kv, base + size::TILE_BYTES);
#endif
}

template <typename T, int COLS, int DROP, bool RING> static void launch(const tri_call *call, tile_args t) {
    const char *where = "gradient of attention of tiles";
    void (*kernels[2])(tile_args) = {dq_kernel<T, COLS, DROP, RING>, dkv_kernel<T, COLS, DROP, RING>};
    t.a.mask = mask_keys_of(t.a.drop);
    for (int i = 0; i < 2; i++) {
        record(call,
               cudaFuncSetAttribute(kernels[i], cudaFuncAttributeMaxDynamicSharedMemorySize, sizes<COLS>::ALL), where);
        kernels[i]<<<tile_blocks(&t), THREADS, sizes<COLS>::ALL, stream(call)>>>(t);
    }
    launched(call, where);
}

template <typename T, int COLS> static void launch_kind(const tri_call *call, const tile_args *t) {
    if (t->ring) t->a.drop.threshold ? launch<T, COLS, 1, true>(call, *t) : launch<T, COLS, 0, true>(call, *t);
    else t->a.drop.threshold ? launch<T, COLS, 1, false>(call, *t) : launch<T, COLS, 0, false>(call, *t);
}
template <typename T> static void launch_width(const tri_call *call, const tile_args *t) {
    t->a.width <= 64 ? launch_kind<T, 64>(call, t) : launch_kind<T, 128>(call, t);
}

int tri__cuda_tiles_din(const tri_call *call, const tile_args *t, int dtype) {
    if (!tiles_fit(call, t, dtype)) return 0;
    tile_args with = *t;
    with.a.statistic = static_cast<float *>(call->work);
    dtype == TRI_BF16 ? launch_width<bf16>(call, &with) : launch_width<f16>(call, &with);
    return 1;
}
