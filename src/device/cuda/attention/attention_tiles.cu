/* attention_tiles.cu - attention of tiles of 64 queries to listed keys, or by relative positions to all
 * (attention_loop.cuh): a block of one warpgroup per tile and head. Several share a processor: while one computes
 * exponentials or draws dropout decisions, another's products run. */
#include "device/cuda/attention/attention_loop.cuh"

template <int COLS, class Rows, int KIND> struct forward_sizes {
    enum {
        SCORE_AT = loop_sizes<COLS>::MORE_AT,
        LIST_AT = SCORE_AT + score_room<KIND>::FORWARD_BYTES,
        ALL = LIST_AT + Rows::LIST_BYTES + ATOM_BYTES, /* and padding to align */
    };
};

template <typename T, int COLS, int DROP, class Rows, int KIND>
static __global__ void __launch_bounds__(THREADS, COLS == 64 && KIND != TERMS ? 4 : 2)
    tiles_kernel(score_args<KIND> t) {
#if TRI_HOPPER
    typedef forward_sizes<COLS, Rows, KIND> size;
    extern __shared__ char raw[];
    const attention_args &a = t.a;
    tile_place at = Rows::here(t, false);
    if (at.first >= at.queries) return;
    if (at.is_padding) {
        clear_rows<T>(a, at.head, at.query_row + at.first, at.query_row + min(at.first + TILE, at.queries));
        return;
    }
    uint32_t unaligned = shared_address(raw), query = (unaligned + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES;
    char *memory = raw + (query - unaligned);
    int64_t H = (int64_t)a.heads * a.width;
    int row = at.query_row + at.first;
    copy_rows<T, COLS, QUERIES, THREADS>((const T *)a.qkv + row * 3 * H + at.head * a.width, 3 * H, a.width,
                                         at.queries - at.first, query, (int)threadIdx.x);
    softmax<COLS> of = {{}, {-INFINITY, -INFINITY}, {0, 0}};
    Rows rows(t, at, false, memory + size::LIST_AT);
    score<T, false, KIND> scores(t, at, memory + size::SCORE_AT, query + size::SCORE_AT);
    key_rows<T> kv = keys_of<T>(t, at);
    decisions drop = {};
    if (DROP) drop = decisions_at(a, at.sample, at.query + (uint32_t)at.first, at.key - (uint32_t)at.lead);
    for (int from = 0; rows.look(from); from += LISTED) {
        if (!rows.tiles()) continue;
        fetch_keys<T, COLS>(a, rows, kv, 0, query + loop_sizes<COLS>::KEYS_AT,
                            query + loop_sizes<COLS>::VALUES_AT);
        scores.begin();
        copy_commit();
        if (DROP && !mask_is_even(a, drop.feature))
            attend<T, COLS, 2 * DROP>(a, drop, rows, kv, scores, query, of);
        else attend<T, COLS, DROP>(a, drop, rows, kv, scores, query, of);
    }
    copy_commit(); /* the queries, if there was no key: their place is written to */
    copy_wait<0>();
    __syncthreads();
    write_rows<T, COLS, Rows::HOLES>(a, at.head, row, at.query_row + at.queries, of.out, of.largest, of.sum, query);
#endif
}

template <typename T, int COLS, class Rows, int KIND>
static void launch(const tri_call *call, score_args<KIND> t, dim3 grid) {
    enum { BYTES = forward_sizes<COLS, Rows, KIND>::ALL };
    auto *kernel = t.a.drop.threshold ? tiles_kernel<T, COLS, 1, Rows, KIND> : tiles_kernel<T, COLS, 0, Rows, KIND>;
    t.a.mask = mask_keys_of(t.a.drop);
    record(call, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES), "attention");
    kernel<<<grid, THREADS, BYTES, stream(call)>>>(t);
    launched(call, "attention of tiles");
}

template <typename T, int COLS> static void launch_listed(const tri_call *call, const tile_args *t) {
    if (t->ring) launch<T, COLS, listed_rows<true>, DOT>(call, *t, tile_blocks(t));
    else launch<T, COLS, listed_rows<false>, DOT>(call, *t, tile_blocks(t));
}
template <typename T> static void launch_tiles(const tri_call *call, const tile_args *t) {
    t->a.width <= 64 ? launch_listed<T, 64>(call, t) : launch_listed<T, 128>(call, t);
}
int tri__cuda_tiles(const tri_call *call, const tile_args *t, int dtype) {
    if (!tiles_fit(call, t, dtype)) return 0;
    dtype == TRI_BF16 ? launch_tiles<bf16>(call, t) : launch_tiles<f16>(call, t);
    return 1;
}

template <typename T> static void launch_relative(const tri_call *call, const relative_args *t) {
    dim3 grid(tiles_for<TILE>(t->a.rows, t->a.n), (unsigned)t->a.heads);
    if (t->terms) launch<T, 64, all_rows, TERMS>(call, *t, grid);
    else launch<T, 64, all_rows, BIAS>(call, *t, grid);
}
void tri__cuda_relative(const tri_call *call, const relative_args *t, int dtype) {
    dtype == TRI_BF16 ? launch_relative<bf16>(call, t) : launch_relative<f16>(call, t);
}
