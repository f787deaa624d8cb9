/* attention_tiles_din.cu - the gradient of attention of tiles (attention_tiles.cuh), in two kernels of one warpgroup
 * per tile and head: a tile of 64 queries meets listed keys and sums dq; a tile of 64 keys meets listed queries and
 * sums dk and dv. Scores and gradients of weights are formed in both, and nothing is summed across blocks: results do
 * not depend on timing, and one long sequence occupies all processors. */
#include "device/cuda/attention/attention_loops_din.cuh"

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

#if TRI_HOPPER
/* The listed keys of a window of granules; their first tile is being fetched. */
template <typename T, int COLS> struct listed_keys {
    typedef sizes<COLS> size;
    enum { EARLY = 1 };
    const tile_args &t;
    const tile_place &at;
    const decisions &drop;
    const tile_list &list;
    int split, tiles;
    uint32_t base;
    int4 four; /* entries of the current tile */

    __device__ __forceinline__ void look(int n) { four = entries_of(list, n); }
    __device__ __forceinline__ uint32_t stage(int n) const {
        return base + size::STAGES_AT + (uint32_t)(n & 1) * size::STAGE_BYTES;
    }
    template <int DROP> __device__ __forceinline__ void fetch(int n, uint32_t (&x)[2][2][4]) const {
        if (n + 1 < tiles)
            fetch_listed<T, COLS>(t, at, entries_of(list, n + 1), stage(~n), stage(~n) + size::TILE_BYTES);
        copy_commit();
#pragma unroll
        for (int b = 0; b < 2 && DROP; b++) decide<DROP == 1>(t, drop, key(n, b), x[b]);
    }
    __device__ __forceinline__ int key(int, int half) const {
        int c = threadIdx.x % 4, entry = c / 2 ? entry_of(four, 2 * half + 1) : entry_of(four, 2 * half);
        return row_of(entry) + c % 2 * 8;
    }
    __device__ __forceinline__ void add(int, float (&)[32]) const {}
    __device__ __forceinline__ met_keys met(int, int half) const { return keys_met(t, at, four, half, split); }
    __device__ __forceinline__ void slopes(int, const float (&)[32]) const {}
    __device__ __forceinline__ void more(int, float (&)[COLS / 2]) const {}
    __device__ __forceinline__ void end() const {}
};
#endif

template <typename T, int COLS, int DROP, bool RING>
static __global__ void __launch_bounds__(THREADS, COLS == 64 ? 3 : 2) dq_kernel(tile_args t) {
#if TRI_HOPPER
    typedef sizes<COLS> size;
    extern __shared__ char raw[];
    const attention_args &a = t;
    tile_place at = tile_here<RING>(t, false);
    if (at.first >= at.queries) return;
    if (at.is_padding) {
        clear_tile<T>(a, at);
        return;
    }
    uint32_t unaligned = shared_address(raw), base = (unaligned + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES;
    tile_list &list = *reinterpret_cast<tile_list *>(raw + (base - unaligned) + size::LIST_AT);
    int64_t H = (int64_t)a.heads * a.width, row = at.query_row + at.first;
    int granules = (at.lead + at.keys + GRANULE - 1) / GRANULE;
    copy_rows<T, COLS, TILE, THREADS>((const T *)a.qkv + row * 3 * H + at.head * a.width, 3 * H, a.width,
                                      at.queries - at.first, base, (int)threadIdx.x);
    copy_rows<T, COLS, TILE, THREADS>((const T *)a.dctx + row * H + at.head * a.width, H, a.width,
                                      at.queries - at.first, base + size::TILE_BYTES, (int)threadIdx.x);
    tile_cursor cursor = cursor_of<RING>(t, at, false, at.queries);
    float dq[COLS / 2] = {}, statistic[2][2];
    float *statistics = reinterpret_cast<float *>(raw + (base - unaligned) + size::STATISTICS_AT);
    form_statistics<T>(a, at, statistics);
    take_statistics(statistics, statistic);
    decisions drop = {};
    if (DROP) drop = decisions_at(a, at.sample, at.query + (uint32_t)at.first, at.key - (uint32_t)at.lead);
    for (int from = 0; from < granules; from += LISTED) {
        list_granules<RING>(t, cursor, from, granules, list);
        if (!list.count) continue;
        fetch_listed<T, COLS>(t, at, entries_of(list, 0), base + size::STAGES_AT,
                              base + size::STAGES_AT + size::TILE_BYTES);
        copy_commit();
        listed_keys<T, COLS> meets = {t, at, drop, list, cursor.split, (list.count + 3) / 4, base};
        if (DROP && !mask_is_even(a, drop.feature)) sum_dq<T, COLS, 2 * DROP>(a, drop, meets, base, statistic, dq);
        else sum_dq<T, COLS, DROP>(a, drop, meets, base, statistic, dq);
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
    const attention_args &a = t;
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

/* The listed queries of a window of granules; their first tile is being fetched. */
template <typename T, int COLS> struct listed_queries {
    typedef sizes<COLS> size;
    const tile_args &t;
    const tile_place &at;
    const mask_start &start;
    const tile_list &list;
    int split, tiles, key; /* key: the thread's first, from the first granule on */
    char *memory;
    uint32_t base;

    __device__ __forceinline__ uint32_t stage(int n) const {
        return base + size::STAGES_AT + (uint32_t)(n & 1) * size::STAGE_BYTES;
    }
    __device__ __forceinline__ const float *statistic(int n) const {
        return reinterpret_cast<float *>(memory + size::STATISTICS_AT + (n & 1) * size::STATISTIC_BYTES);
    }
    __device__ __forceinline__ uint2 *decided(int n) const {
        return reinterpret_cast<uint2 *>(memory + size::DECISIONS_AT) + (n & 1) * TILE;
    }
    __device__ __forceinline__ void draw(int n) const {
        int number = (int)threadIdx.x % TILE;
        draw_decisions(t, start, at, row_of(entry_of(entries_of(list, n), number / GRANULE)) + number % GRANULE,
                       decided(n));
    }
    template <int DROP> __device__ __forceinline__ void fetch(int n) const {
        if (n + 1 < tiles)
            fetch_queries<T, COLS>(t, at, entries_of(list, n + 1), stage(~n),
                                   base + size::STATISTICS_AT + (uint32_t)(~n & 1) * size::STATISTIC_BYTES);
        copy_commit();
        if (DROP && n + 1 < tiles) draw(n + 1);
    }
    __device__ __forceinline__ void weigh(int n, float (&score)[32], float (&dweight)[32]) const {
        wgmma_wait<1>();
        pin(score);
        exponentiate(score, statistic(n), t.scale * 1.44269504f);
        wgmma_wait<0>();
        pin(dweight);
    }
    __device__ __forceinline__ void hide(int n, float (&score)[32], float (&dweight)[32]) const {
        int4 four = entries_of(list, n); /* again: registers do not allow to keep it */
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int gap = key - row_of(entry_of(four, i)) + t.window; /* of the key from the first query, and the window */
#pragma unroll
            for (int k = 8 * i; k < 8 * i + 8; k++) {
                bool met = is_met(entry_of(four, i), k / 2 % 2, split) &&
                           (unsigned)(gap + k / 2 % 2 * 8 - k / 4 % 2 * 8 - k % 2) <= 2u * (unsigned)t.window;
                score[k] = met ? score[k] : 0.0f, dweight[k] = met ? dweight[k] : 0.0f;
            }
        }
    }
    __device__ __forceinline__ void slopes(int, const float (&)[32]) const {}
    __device__ __forceinline__ void more(int, float (&)[COLS / 2]) const {}
    __device__ __forceinline__ void end() const {}
};
#endif

template <typename T, int COLS, int DROP, bool RING>
static __global__ void __launch_bounds__(THREADS, COLS == 64 ? 3 : 2) dkv_kernel(tile_args t) {
#if TRI_HOPPER
    typedef sizes<COLS> size;
    extern __shared__ char raw[];
    const attention_args &a = t;
    tile_place at = tile_here<RING>(t, true);
    if (at.is_padding || at.first >= at.keys) return;
    uint32_t unaligned = shared_address(raw), base = (unaligned + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES;
    char *memory = raw + (base - unaligned);
    tile_list &list = *reinterpret_cast<tile_list *>(memory + size::LIST_AT);
    int64_t H = (int64_t)a.heads * a.width, at_row = (at.key_row + at.first) * t.kv_stride + at.head * a.width;
    int granules = (at.lead + at.queries + GRANULE - 1) / GRANULE, left = at.keys - at.first, lane = threadIdx.x % WARP;
    int key = at.place + at.first + (int)threadIdx.x / WARP * 16 + lane / 4 - at.base * GRANULE - lane % 4 * 2;
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
        listed_queries<T, COLS> meets = {t, at, start, list, cursor.split, (list.count + 3) / 4, key, memory, base};
        if (DROP) meets.draw(0);
        sum_keys<T, COLS, DROP>(meets, base, 2 * TILE, of); /* sums of keys that do not exist are not written */
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
    t.mask = mask_keys_of(t.drop);
    queue_sharing(call, where, dq_kernel<T, COLS, DROP, RING>, tile_blocks(&t), THREADS, sizes<COLS>::ALL, t);
    queue_sharing(call, where, dkv_kernel<T, COLS, DROP, RING>, tile_blocks(&t), THREADS, sizes<COLS>::ALL, t);
}

int tri__cuda_tiles_din(const tri_call *call, const tile_args *t, int dtype) {
    if (!tiles_fit(call, t, dtype)) return 0;
    tile_args with = *t;
    with.statistic = static_cast<float *>(call->work);
    by_kind(t, dtype,
            [&](auto x, auto cols, auto drop, auto ring) { launch<decltype(x), cols, drop, ring>(call, with); });
    return 1;
}
