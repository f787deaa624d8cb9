/* attention_tiles.cu - attention of tiles of 64 queries to listed keys (attention_tiles.cuh), as attention_forward.cu:
 * a block of one warpgroup per tile and head. Several share a processor: while one computes exponentials or draws
 * dropout decisions, another's products run. */
#include "device/cuda/attention/attention_loops.cuh"
#include "device/cuda/attention/attention_tiles.cuh"

template <int COLS> struct sizes { /* bytes of shared memory: queries, then two of each: keys, values */
    enum {
        PANEL_BYTES = TILE * ROW_BYTES,
        TILE_BYTES = COLS / PANEL * PANEL_BYTES,
        LIST_AT = 5 * TILE_BYTES,
        ALL = LIST_AT + sizeof(tile_list) + ATOM_BYTES, /* and padding to align */
    };
};

#if TRI_HOPPER
static __device__ __forceinline__ void hide_half(float (&s)[32], int b, const met_keys &of) {
    if (min(of.valid[0], of.valid[1]) >= 8 && max(of.first[0], of.first[1]) <= 0) return;
#pragma unroll
    for (int i = 16 * b; i < 16 * b + 16; i++) {
        int key = i / 4 % 4 * 2 + i % 2, h = i / 2 % 2;
        if (key < of.first[h] || key >= of.valid[h]) s[i] = -INFINITY;
    }
}

/* The listed keys of a window of granules; their first tile is being fetched. */
template <typename T, int COLS> struct listed_keys {
    typedef sizes<COLS> size;
    enum { EARLY = 1, HOLES = 1 };
    const tile_args &t;
    const tile_place &at;
    const decisions &drop;
    const tile_list &list;
    int split, tiles;
    uint32_t query; /* where the tile's own rows are */
    met_keys met[2];

    __device__ __forceinline__ void look(int n) {
#pragma unroll
        for (int b = 0; b < 2; b++) met[b] = keys_met(t, at, entries_of(list, n), b, split);
    }
    __device__ __forceinline__ uint32_t keys(int n) const { return query + (uint32_t)(1 + (n & 1)) * size::TILE_BYTES; }
    __device__ __forceinline__ uint32_t values(int n) const { return keys(n) + 2 * size::TILE_BYTES; }
    __device__ __forceinline__ int key(int, int half) const { return met[half].key; }
    template <int DROP> __device__ __forceinline__ void scores(int n, float (&score)[32], uint32_t (&x)[2][4]) {
        uint32_t there = query + 2 * size::TILE_BYTES - (uint32_t)(n & 1) * size::TILE_BYTES;
        if (n + 1 < tiles) fetch_listed<T, COLS>(t, at, entries_of(list, n + 1), there, there + 2 * size::TILE_BYTES);
        copy_commit();
        if (DROP == 1) decide<true>(t, drop, met[0].key, x);
        wgmma_wait<0>();
        pin(score);
#pragma unroll
        for (int b = 0; b < 2; b++) hide_half(score, b, met[b]);
    }
};
#endif

template <typename T, int COLS, int DROP, bool RING>
static __global__ void __launch_bounds__(THREADS, COLS == 64 ? 4 : 2) tiles_kernel(tile_args t) {
#if TRI_HOPPER
    typedef sizes<COLS> size;
    extern __shared__ char raw[];
    const attention_args &a = t;
    tile_place at = tile_here<RING>(t, false);
    if (at.first >= at.queries) return;
    if (at.is_padding) {
        clear_rows<T>(a, at.head, at.query_row + at.first, at.query_row + min(at.first + TILE, at.queries));
        return;
    }
    uint32_t unaligned = shared_address(raw), query = (unaligned + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES;
    tile_list &list = *reinterpret_cast<tile_list *>(raw + (query - unaligned) + size::LIST_AT);
    int64_t H = (int64_t)a.heads * a.width;
    int row = at.query_row + at.first, granules = (at.lead + at.keys + GRANULE - 1) / GRANULE;
    copy_rows<T, COLS, QUERIES, THREADS>((const T *)a.qkv + row * 3 * H + at.head * a.width, 3 * H, a.width,
                                         at.queries - at.first, query, (int)threadIdx.x);
    softmax<COLS> of = {{}, {-INFINITY, -INFINITY}, {0, 0}};
    tile_cursor cursor = cursor_of<RING>(t, at, false, at.queries);
    decisions drop = {};
    if (DROP) drop = decisions_at(a, at.sample, at.query + (uint32_t)at.first, at.key - (uint32_t)at.lead);
    for (int from = 0; from < granules; from += LISTED) {
        list_granules<RING>(t, cursor, from, granules, list);
        if (!list.count) continue;
        fetch_listed<T, COLS>(t, at, entries_of(list, 0), query + size::TILE_BYTES, query + 3 * size::TILE_BYTES);
        copy_commit();
        listed_keys<T, COLS> meets = {t, at, drop, list, cursor.split, (list.count + 3) / 4, query};
        if (DROP == 1 && !mask_is_even(a, drop.feature)) attend<T, 2 * DROP>(a, drop, meets, query, of);
        else attend<T, DROP>(a, drop, meets, query, of);
    }
    copy_commit(); /* the queries, if there was no key: their place is written to */
    copy_wait<0>();
    __syncthreads();
    write_rows<T, COLS, true>(a, at.head, row, at.query_row + at.queries, of.out, of.largest, of.sum, query);
#endif
}

template <typename T, int COLS, int DROP, bool RING> static void launch(const tri_call *call, tile_args t) {
    t.mask = mask_keys_of(t.drop);
    queue_sharing(call, "attention of tiles", tiles_kernel<T, COLS, DROP, RING>, tile_blocks(&t), THREADS,
                  sizes<COLS>::ALL, t);
}

int tri__cuda_tiles(const tri_call *call, const tile_args *t, int dtype) {
    if (!tiles_fit(call, t, dtype)) return 0;
    by_kind(t, dtype,
            [&](auto x, auto cols, auto drop, auto ring) { launch<decltype(x), cols, drop, ring>(call, *t); });
    return 1;
}
