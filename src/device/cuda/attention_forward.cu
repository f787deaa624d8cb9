/* attention_forward.cu - attention over packed sequences on Hopper's tensor cores (Dao et al., 2022; Shah et al.,
 * 2024). A block of one warpgroup processes 64 queries of one head and iterates over the sequence's keys, KEYS at a
 * time; scores stay in registers. Keys and values are permuted so that a thread has the scores of 8 consecutive keys
 * (by_turns): it draws the dropout decisions for its own keys. */
#include "device/cuda/attention.cuh"
#include "device/cuda/attention_mask.cuh"
#include "device/cuda/wgmma.cuh"

enum { THREADS = 128, QUERIES = 64 };

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

/* Random number state of a thread's two rows of queries: their positions; the feature of the first key; Philox state of
 * the step, and of the rows. */
typedef struct decisions {
    uint32_t sample, query, feature;
    mask_start start;
    mask_row row[2];
} decisions;

[[maybe_unused]] static __device__ __forceinline__ decisions decisions_of(const attention_args &a, int head, int begin,
                                                                          int first) {
    decisions d = {};
    if (!a.drop.threshold) return d;
    d.sample = (uint32_t)a.key[2 * begin];
    d.query = (uint32_t)(a.key[2 * begin + 1] + first - begin) + threadIdx.x / WARP * 16 + threadIdx.x % WARP / 4;
    d.feature = first_feature(a, head) + (uint32_t)a.key[2 * begin + 1];
    d.start = mask_start_of(a.drop);
    for (int h = 0; h < 2; h++) d.row[h] = mask_row_of(a.mask, d.start, d.sample, d.query + 8 * h);
    return d;
}

/* The decisions of both rows for the thread's 8 of the 32 keys from `first` on, relative to the sequence, as signs of
 * halves (mask_draw). EVEN: mask_is_even. They are computed on return: the compiler must not defer them until their
 * use. */
template <bool EVEN>
[[maybe_unused]] static __device__ __forceinline__ void decide(const attention_args &a, const decisions &d, int first,
                                                               uint32_t (&x)[2][4]) {
    uint32_t key = (uint32_t)first + threadIdx.x % 4 * 8;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        if (EVEN) {
            mask_draw(a.mask, d.start, d.row[h], (d.feature + key) / 8, x[h]);
            pin(x[h]);
            continue;
        }
        uint64_t bits = mask_odd(a.drop, d.start, d.sample, d.query + 8 * h, d.feature + key);
#pragma unroll
        for (int i = 0; i < 4; i++)
            x[h][i] = (uint32_t)(bits >> (2 * i) & 1) << 15 | (uint32_t)(bits >> (2 * i + 1) & 1) << 31;
    }
}

/* Weights of the 32 keys from 32 * block on, as the A operand of two products. */
template <typename T, int N>
static __device__ __forceinline__ void form_weights(const float (&score)[N], int block, uint32_t (&weight)[2][4]) {
#pragma unroll
    for (int k = 0; k < 2; k++) as_factor<T>(score, 2 * block + k, weight[k]);
}
[[maybe_unused]] static __device__ __forceinline__ void drop_weights(const uint32_t (&x)[2][4],
                                                                     uint32_t (&weight)[2][4]) {
#pragma unroll
    for (int i = 0; i < 8; i++) weight[i / 4][i % 4] &= spread_signs(x[i % 2][i / 4 * 2 + i % 4 / 2]);
}

/* One step of the online softmax over a tile of scores: scores become weights relative to the maximum so far, which
 * `largest` holds for the two rows; `sum` is rescaled, and `before` is the factor for what was summed so far. Keys from
 * `valid` on do not exist. */
template <int NS>
static __device__ __forceinline__ void soften(float (&s)[NS], float (&before)[2], float (&largest)[2], float (&sum)[2],
                                              int valid, float log2_scale) {
    int c = threadIdx.x % 4;
    if (valid < NS * 2) {
#pragma unroll
        for (int i = 0; i < NS; i++)
            if (8 * (c + i / 16 * 4) + i / 4 % 4 * 2 + i % 2 >= valid) s[i] = -INFINITY;
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float most = largest[h];
#pragma unroll
        for (int j = 0; j < NS / 4; j++) most = fmaxf(most, fmaxf(s[4 * j + 2 * h], s[4 * j + 2 * h + 1]));
        most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, 1));
        most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFu, most, 2));
        float offset = most * log2_scale, more = 0;
        before[h] = power_of_2((largest[h] - most) * log2_scale);
        largest[h] = most;
#pragma unroll
        for (int j = 0; j < NS / 4; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float &p = s[4 * j + 2 * h + e];
                p = power_of_2(fmaf(p, log2_scale, -offset));
                more += p;
            }
        sum[h] = fmaf(sum[h], before[h], more); /* of this thread's columns; the quad's sums are added at the end */
    }
}
template <int NO> static __device__ __forceinline__ void rescale(float (&out)[NO], const float (&before)[2]) {
#pragma unroll
    for (int i = 0; i < NO; i++) out[i] *= before[i / 2 % 2];
}

/* `queries` is the address of the tile of queries, which are no longer needed: whole rows are staged there. */
template <typename T, int COLS>
static __device__ __forceinline__ void write_rows(const attention_args &a, int head, int first, int end,
                                                  float (&out)[COLS / 2], const float (&largest)[2], float (&sum)[2],
                                                  uint32_t queries) {
    int lane = threadIdx.x % WARP, c = lane % 4, warp_row = first + (int)threadIdx.x / WARP * 16;
    float factor[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int t = warp_row + lane / 4 + 8 * h;
        sum[h] += __shfl_xor_sync(0xFFFFFFFFu, sum[h], 1);
        sum[h] += __shfl_xor_sync(0xFFFFFFFFu, sum[h], 2);
        factor[h] = a.drop.scale / sum[h];
        if (a.lse && c == 0 && t < end) a.lse[(int64_t)t * a.heads + head] = largest[h] * a.scale + logf(sum[h]);
    }
    T *to = (T *)a.ctx + ((int64_t)warp_row * a.heads + head) * a.width;
    int64_t H = (int64_t)a.heads * a.width;
    if constexpr (COLS == 64)
        if (a.width == COLS) {
            write_whole_rows(out, factor, queries + threadIdx.x / WARP * (16 * ROW_BYTES), to, H, end - warp_row);
            return;
        }
    to += lane / 4 * H;
#pragma unroll
    for (int h = 0; h < 2; h++, to += 8 * H)
#pragma unroll
        for (int j = 0; j < COLS / 8; j++)
            if (8 * j + 2 * c < a.width && warp_row + lane / 4 + 8 * h < end)
                *reinterpret_cast<uint32_t *>(to + 8 * j + 2 * c) =
                    pair_of(T(), out[4 * j + 2 * h] * factor[h], out[4 * j + 2 * h + 1] * factor[h]);
}

/* Zeroes padding rows. */
template <typename T> static __device__ void clear_rows(const attention_args &a, int head, int64_t first, int64_t end) {
    for (int64_t i = threadIdx.x; i < (end - first) * a.width; i += THREADS)
        ((T *)a.ctx)[((first + i / a.width) * a.heads + head) * a.width + i % a.width] = narrow<T>(0);
    for (int64_t t = first + threadIdx.x; t < end && a.lse; t += THREADS) a.lse[t * a.heads + head] = 0;
}

#if TRI_HOPPER
/* A block's accumulators for its queries. */
template <int COLS> struct softmax {
    float out[COLS / 2], largest[2],
        sum[2]; /* the thread's two rows: columns of ctx, the largest score, the sum of weights */
};

/* Iterates over all keys of a sequence of `length` rows. `from`: its first key's row; the copy of the first tile to
 * shared memory is in flight. EVEN: there is dropout, and decisions are mask_is_even: they are drawn while products
 * run. */
template <typename T, int COLS, bool EVEN>
static __device__ __forceinline__ void attend(const attention_args &a, const decisions &drop, const T *from, int length,
                                              uint32_t query, softmax<COLS> &of) {
    typedef sizes<COLS> size;
    enum { KEYS = size::KEYS };
    uint32_t keys = query + size::QUERY_BYTES, values = keys + 2 * size::KEY_BYTES, query_tile = tile_at(query);
    int tiles = (length + KEYS - 1) / KEYS;
    float log2_scale = a.scale * 1.44269504f;
    for (int n = 0; n < tiles; n++) {
        uint32_t key_tile = tile_at(keys + (uint32_t)(n & 1) * size::KEY_BYTES);
        uint32_t value_tile = tile_at(values + (uint32_t)(n & 1) * size::KEY_BYTES, size::KEY_PANEL);
        uint32_t next = (uint32_t)(~n & 1) * size::KEY_BYTES, x[2][4];
        float score[KEYS / 2];
        copy_wait<0>();
        show_to_matrix_units();
        __syncthreads(); /* the tile has arrived, and the previous one is no longer read */
        wgmma_begin();
#pragma unroll
        for (int k = 0; k < COLS / 16; k++)
            wgmma<T>::template run<0, 0>(score, tile(query_tile, k / 4 * QUERIES * ROW_BYTES + k % 4 * 32),
                                         tile(key_tile, k / 4 * size::KEY_PANEL + k % 4 * 32), k > 0);
        wgmma_commit();
        if (EVEN) decide<EVEN>(a, drop, n * KEYS, x);
        from += (int64_t)KEYS * 3 * a.heads * a.width;
        if (n + 1 < tiles) fetch_keys<T, COLS>(a, from, length - (n + 1) * KEYS, keys + next, values + next);
        copy_commit();
        wgmma_wait<0>();
        pin(score);
        float before[2];
        soften(score, before, of.largest, of.sum, length - n * KEYS, log2_scale);
        rescale(of.out, before);
        uint32_t weight[KEYS / 32][2][4];
#pragma unroll
        for (int b = 0; b < KEYS / 32; b++) {
            form_weights<T>(score, b, weight[b]);
            if (EVEN ? b > 0 : a.drop.threshold > 0) decide<EVEN>(a, drop, n * KEYS + 32 * b, x);
            if (EVEN || a.drop.threshold) drop_weights(x, weight[b]);
            wgmma_begin();
#pragma unroll
            for (int k = 0; k < 2; k++)
                wgmma<T>::template run<1>(of.out, weight[b][k], tile(value_tile, (2 * b + k) * 16 * ROW_BYTES), 1);
            wgmma_commit();
        }
        wgmma_wait<0>();
        pin(of.out);
    }
}

/* The scores of a tile: queries times keys. */
template <typename T, int COLS>
static __device__ __forceinline__ void queue_scores(uint32_t query, uint32_t keys,
                                                    float (&score)[sizes<COLS>::KEYS / 2]) {
    uint32_t query_tile = tile_at(query), key_tile = tile_at(keys);
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < COLS / 16; k++)
        wgmma<T>::template run<0, 0>(score, tile(query_tile, k / 4 * QUERIES * ROW_BYTES + k % 4 * 32),
                                     tile(key_tile, k / 4 * sizes<COLS>::KEY_PANEL + k % 4 * 32), k > 0);
    wgmma_commit();
}

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

/* attend without dropout. Nothing but exponentials is left between products, so the next tile's scores and this one's
 * sums are queued together, and exponentials are computed while the latter run. Of the two tiles of keys and of values
 * that are in shared memory, keys are one ahead. On entry the copy of the first tile of keys is in flight. */
template <typename T, int COLS>
static __device__ __forceinline__ void attend_plainly(const attention_args &a, const T *from, int length,
                                                      uint32_t query, softmax<COLS> &of) {
    typedef sizes<COLS> size;
    enum { KEYS = size::KEYS };
    uint32_t keys = query + size::QUERY_BYTES, values = keys + 2 * size::KEY_BYTES, weight[KEYS / 32][2][4];
    int tiles = (length + KEYS - 1) / KEYS;
    int64_t H = (int64_t)a.heads * a.width, further = KEYS * 3 * H;
    float log2_scale = a.scale * 1.44269504f, score[KEYS / 2], before[2];
    if (tiles > 1) fetch_half<T, COLS>(a, from + further, length - KEYS, keys + size::KEY_BYTES);
    fetch_half<T, COLS>(a, from + H, length, values);
    copy_commit();
    copy_wait<1>();
    show_to_matrix_units();
    __syncthreads();
    queue_scores<T, COLS>(query, keys, score);
    wgmma_wait<0>();
    pin(score);
    soften(score, before, of.largest, of.sum, length, log2_scale);
    for (int n = 1; n < tiles; n++) {
        uint32_t here = (uint32_t)(n & 1) * size::KEY_BYTES, there = size::KEY_BYTES - here;
#pragma unroll
        for (int b = 0; b < KEYS / 32; b++) form_weights<T>(score, b, weight[b]);
        copy_wait<0>();
        show_to_matrix_units();
        __syncthreads(); /* these keys have arrived, and the values before; the keys before are free, and older values
                          */
        queue_scores<T, COLS>(query, keys + here, score);
        queue_sums<T, COLS>(weight, values + there, of.out);
        if (n + 1 < tiles) fetch_half<T, COLS>(a, from + (n + 1) * further, length - (n + 1) * KEYS, keys + there);
        fetch_half<T, COLS>(a, from + n * further + H, length - n * KEYS, values + here);
        copy_commit();
        wgmma_wait<1>();
        pin(score);
        soften(score, before, of.largest, of.sum, length - n * KEYS, log2_scale);
        wgmma_wait<0>();
        pin(of.out);
        rescale(of.out, before);
    }
#pragma unroll
    for (int b = 0; b < KEYS / 32; b++) form_weights<T>(score, b, weight[b]);
    copy_wait<0>();
    show_to_matrix_units();
    __syncthreads();
    queue_sums<T, COLS>(weight, values + (uint32_t)(~tiles & 1) * size::KEY_BYTES, of.out);
    wgmma_wait<0>();
    pin(of.out);
}
#endif

template <typename T, int COLS>
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
    if (a.drop.threshold) fetch_half<T, COLS>(a, from + H, end - begin, keys + 2 * size::KEY_BYTES);
    copy_commit();

    softmax<COLS> of = {{}, {-INFINITY, -INFINITY}, {0, 0}};
    decisions drop = decisions_of(a, head, begin, first);
    if (!a.drop.threshold) attend_plainly<T, COLS>(a, from, end - begin, query, of);
    else if (mask_is_even(a, drop.feature)) attend<T, COLS, true>(a, drop, from, end - begin, query, of);
    else attend<T, COLS, false>(a, drop, from, end - begin, query, of);
    write_rows<T, COLS>(a, head, first, end, of.out, of.largest, of.sum, query);
#endif
}

template <typename T, int COLS> static void launch(const tri_call *call, attention_args a) {
    dim3 grid(tiles_for<QUERIES>(a.rows, a.n), (unsigned)a.heads);
    a.mask = mask_keys_of(a.drop);
    record(call,
           cudaFuncSetAttribute(flash_kernel<T, COLS>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizes<COLS>::ALL),
           "attention");
    flash_kernel<T, COLS><<<grid, THREADS, sizes<COLS>::ALL, stream(call)>>>(a);
    launched(call, "attention");
}

int tri__cuda_flash(const tri_call *call, const attention_args *a) {
    int dtype = call->dtype[TRI_ARG(attention, ctx)];
    if (!flash_fits(call, a, dtype)) return 0;
    if (dtype == TRI_BF16) a->width <= 64 ? launch<bf16, 64>(call, *a) : launch<bf16, 128>(call, *a);
    else a->width <= 64 ? launch<f16, 64>(call, *a) : launch<f16, 128>(call, *a);
    return 1;
}
