/* attention_forward.cu - attention over packed sequences on Hopper's tensor cores (Dao et al., 2022; Shah et al.,
 * 2024). A block of one warpgroup processes 64 queries of one head and iterates over the sequence's keys, KEYS at a
 * time; scores stay in registers. Keys and values are permuted so that a thread has the scores of 8 consecutive keys
 * (by_turns): it draws the dropout decisions for its own keys. */
#include "device/cuda/attention/attention_loops.cuh"

template <int COLS> struct sizes { /* bytes of shared memory: queries, then two of each: keys, values */
    enum {
        KEYS = 64,
        PANELS = COLS / PANEL,
        QUERY_BYTES = QUERIES * COLS * 2,
        KEY_PANEL = KEYS * ROW_BYTES,
        KEY_BYTES = PANELS * KEY_PANEL,
        ALL = QUERY_BYTES + 4 * KEY_BYTES + ATOM_BYTES, /* and padding to align */
    };
};

/* Begins to fetch a tile of keys or of values; `from` is the first one's row, of which `left` exist. */
template <typename T, int COLS>
static __device__ __forceinline__ void fetch_half(const attention_args &a, const T *from, int left, uint32_t to) {
    int64_t H = (int64_t)a.heads * a.width;
    copy_rows<T, COLS, sizes<COLS>::KEYS, THREADS, true>(from, 3 * H, a.width, left, to, (int)threadIdx.x);
}
/* Both; `from` is the first key's row. */
template <typename T, int COLS>
static __device__ __forceinline__ void fetch_keys(const attention_args &a, const T *from, int left, uint32_t keys,
                                                  uint32_t values) {
    fetch_half<T, COLS>(a, from, left, keys);
    fetch_half<T, COLS>(a, from + (int64_t)a.heads * a.width, left, values);
}

#if TRI_HOPPER
/* All keys of a sequence of `length` rows. `from`: the row of the next key to fetch. */
template <typename T, int COLS> struct all_keys {
    typedef sizes<COLS> size;
    enum { EARLY = 1, HOLES = 0 };
    const attention_args &a;
    const decisions &drop;
    const T *from;
    int length, tiles;
    uint32_t base; /* of keys */

    __device__ __forceinline__ void look(int) {}
    __device__ __forceinline__ uint32_t keys(int n) const { return base + (uint32_t)(n & 1) * size::KEY_BYTES; }
    __device__ __forceinline__ uint32_t values(int n) const { return keys(n) + 2 * size::KEY_BYTES; }
    __device__ __forceinline__ int key(int n, int half) const {
        return n * size::KEYS + 32 * half + (int)threadIdx.x % 4 * 8;
    }
    template <int DROP> __device__ __forceinline__ void scores(int n, float (&score)[32], uint32_t (&x)[2][4]) {
        if (DROP == 1) decide<true>(a, drop, key(n, 0), x);
        from += (int64_t)size::KEYS * 3 * a.heads * a.width;
        if (n + 1 < tiles) fetch_keys<T, COLS>(a, from, length - (n + 1) * size::KEYS, keys(n + 1), values(n + 1));
        copy_commit();
        wgmma_wait<0>();
        pin(score);
        hide(score, length - n * size::KEYS);
    }
};

/* Adds weights times values to the sums. */
template <typename T, int COLS>
static __device__ __forceinline__ void queue_sums(const uint32_t (&weight)[sizes<COLS>::KEYS / 32][2][4],
                                                  uint32_t values, float (&out)[COLS / 2]) {
    uint32_t value_tile = tile_at(values, sizes<COLS>::KEY_PANEL);
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < sizes<COLS>::KEYS / 16; k++)
        wgmma<T>::template run<1>(out, weight[k / 2][k % 2], tile(value_tile, k * 16 * ROW_BYTES), 1);
    wgmma_commit();
}

/* Weights of a tile as factors; KEPT: those that `bits` does not keep are dropped. */
template <typename T, bool KEPT, int N>
static __device__ __forceinline__ void form_kept(const float (&score)[N], uint32_t bits, uint32_t (&weight)[2][2][4]) {
    static_assert(N == TRI_MASK_KEYS / 2, "a word of bits is for as many keys");
    form_weights<T>(score, 0, weight[0]);
    if (KEPT) drop_kept<0>(bits, weight[0]);
    form_weights<T>(score, 1, weight[1]);
    if (KEPT) drop_kept<1>(bits, weight[1]);
}

/* As attend, without dropout, or with decisions that are known: `bits` is this thread's first word, NULL if it has no
 * queries. Nothing but exponentials is left between products, so the next tile's scores and this one's sums are queued
 * together, and exponentials are computed while the latter run. Of the two tiles of keys and of values that are in
 * shared memory, keys are one ahead. On entry the copy of the first tile of keys is in flight. */
template <typename T, int COLS, bool KEPT>
static __device__ __forceinline__ void attend_plainly(const attention_args &a, const T *from, int length,
                                                      uint32_t query, const uint32_t *bits, softmax<COLS> &of) {
    typedef sizes<COLS> size;
    enum { KEYS = size::KEYS };
    uint32_t keys = query + size::QUERY_BYTES, values = keys + 2 * size::KEY_BYTES, weight[KEYS / 32][2][4];
    int tiles = (length + KEYS - 1) / KEYS;
    int64_t H = (int64_t)a.heads * a.width, further = KEYS * 3 * H;
    float log2_scale = a.scale * 1.44269504f, score[KEYS / 2], before[2];
    uint32_t kept = KEPT && bits ? *bits : 0;
    if (tiles > 1) fetch_half<T, COLS>(a, from + further, length - KEYS, keys + size::KEY_BYTES);
    fetch_half<T, COLS>(a, from + H, length, values);
    copy_commit();
    copy_wait<1>();
    show_to_matrix_units();
    __syncthreads();
    begin_product<T, COLS>(query, keys, score);
    wgmma_wait<0>();
    pin(score);
    hide(score, length);
    soften(score, before, of.largest, of.sum, log2_scale);
    for (int n = 1; n < tiles; n++) {
        uint32_t here = (uint32_t)(n & 1) * size::KEY_BYTES, there = size::KEY_BYTES - here;
        form_kept<T, KEPT>(score, kept, weight);
        if (KEPT && bits) kept = bits[n * TRI_MASK_WORDS];
        copy_wait<0>();
        show_to_matrix_units();
        __syncthreads(); /* these keys have arrived, and the values before; the keys before are free, and older values
                          */
        begin_product<T, COLS>(query, keys + here, score);
        queue_sums<T, COLS>(weight, values + there, of.out);
        if (n + 1 < tiles) fetch_half<T, COLS>(a, from + (n + 1) * further, length - (n + 1) * KEYS, keys + there);
        fetch_half<T, COLS>(a, from + n * further + H, length - n * KEYS, values + here);
        copy_commit();
        wgmma_wait<1>();
        pin(score);
        hide(score, length - n * KEYS);
        soften(score, before, of.largest, of.sum, log2_scale);
        wgmma_wait<0>();
        pin(of.out);
        rescale(of.out, before);
    }
    form_kept<T, KEPT>(score, kept, weight);
    copy_wait<0>();
    show_to_matrix_units();
    __syncthreads();
    queue_sums<T, COLS>(weight, values + (uint32_t)(~tiles & 1) * size::KEY_BYTES, of.out);
    wgmma_wait<0>();
    pin(of.out);
}
#endif

/* BYTES: heads have all 64 columns, and the result is also written in 8 bits. */
template <typename T, int COLS, bool BYTES>
static __global__ void __launch_bounds__(THREADS, COLS == 64 ? 4 : 2) flash_kernel(attention_args a) {
#if TRI_HOPPER
    typedef sizes<COLS> size;
    extern __shared__ char raw[];
    int head = blockIdx.y, s = sequence_of<QUERIES>(a.seq, a.n, blockIdx.x), begin = a.seq[s];
    int first = begin + ((int)blockIdx.x - (begin / QUERIES + s)) * QUERIES, end = s < a.n ? a.seq[s + 1] : (int)a.rows;
    if (first >= end) return;
    if (s == a.n) {
        clear_rows<T>(a, head, first, min(first + QUERIES, end));
        return;
    }
    uint32_t query = (shared_address(raw) + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES, keys = query + size::QUERY_BYTES;
    int64_t H = (int64_t)a.heads * a.width;
    const T *rows = (const T *)a.qkv + head * a.width,
            *from = rows + begin * 3 * H + H; /* the queries; the first tile's keys */
    copy_rows<T, COLS, QUERIES, THREADS>(rows + first * 3 * H, 3 * H, a.width, end - first, query, (int)threadIdx.x);
    fetch_half<T, COLS>(a, from, end - begin, keys);
    if (a.drop.threshold && !a.bits) fetch_half<T, COLS>(a, from + H, end - begin, keys + 2 * size::KEY_BYTES);
    copy_commit();

    softmax<COLS> of = {{}, {-INFINITY, -INFINITY}, {0, 0}};
    if (!a.drop.threshold) attend_plainly<T, COLS, false>(a, from, end - begin, query, NULL, of);
    else if (a.bits) {
        int row = first + (int)threadIdx.x / WARP * 16;
        const uint32_t *bits = bits_at(a, granule_of(s, begin, row), head, 0) + word_of_thread();
        attend_plainly<T, COLS, true>(a, from, end - begin, query, row < end ? bits : NULL, of);
    } else {
        decisions drop = decisions_of(a, head, begin, first);
        all_keys<T, COLS> meets = {a, drop, from, end - begin, (end - begin + size::KEYS - 1) / size::KEYS, keys};
        if (mask_is_even(a, drop.feature)) attend<T, 1>(a, drop, meets, query, of);
        else attend<T, 2>(a, drop, meets, query, of);
    }
    if constexpr (BYTES) {
        int warp = (int)threadIdx.x / WARP, row = first + warp * 16;
        float factor[2];
        fp8_largest<T> most;
        end_softmax(a, head, row + (int)threadIdx.x % WARP / 4, end, of.largest, of.sum, factor);
        write_both<T>(a, row, head * COLS, end - row, of.out, factor, query + (uint32_t)(warp * 16 * ROW_BYTES), most);
        raise(a.most, most.word());
    } else write_rows<T, COLS>(a, head, first, end, of.out, of.largest, of.sum, query);
#endif
}

template <typename T, int COLS, bool BYTES = false> static void launch(const tri_call *call, attention_args a) {
    a.mask = mask_keys_of(a.drop);
    queue_sharing(call, "attention", flash_kernel<T, COLS, BYTES>,
                  dim3(tiles_for<QUERIES>(a.rows, a.n), (unsigned)a.heads), THREADS, sizes<COLS>::ALL, a);
}

template <typename T> static void launch_any(const tri_call *call, const attention_args &a) {
    if (a.bits) tri__cuda_draw_bits(call, &a);
    if (a.q && a.width == 64) launch<T, 64, true>(call, a);
    else if (a.width <= 64) launch<T, 64>(call, a);
    else if (!tri__cuda_wide(call, &a)) launch<T, 128>(call, a);
}

int tri__cuda_flash(const tri_call *call, const attention_args *a) {
    int dtype = call->dtype[TRI_ARG(attention, ctx)];
    if (!flash_fits(call, a, dtype) || (a->q && a->width != 64 && !tri__cuda_is_wide(call, a))) return 0;
    dtype == TRI_BF16 ? launch_any<bf16>(call, *a) : launch_any<f16>(call, *a);
    return 1;
}
