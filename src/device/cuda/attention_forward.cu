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

/* Begins to fetch a tile of keys and of values; `from` is the first key's row, of which `left` exist. */
template <typename T, int COLS>
static __device__ __forceinline__ void fetch_keys(const attention_args &a, const T *from, int left, uint32_t keys,
                                                  uint32_t values) {
    enum { KEYS = sizes<COLS>::KEYS };
    int64_t H = (int64_t)a.heads * a.width;
    copy_rows<T, COLS, KEYS, THREADS, true>(from, 3 * H, a.width, left, keys, (int)threadIdx.x);
    copy_rows<T, COLS, KEYS, THREADS, true>(from + H, 3 * H, a.width, left, values, (int)threadIdx.x);
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
 * `largest` holds for the two rows; `sum` and `out` are rescaled. Keys from `valid` on do not exist. */
template <int NS, int NO>
static __device__ __forceinline__ void soften(float (&s)[NS], float (&out)[NO], float (&largest)[2], float (&sum)[2],
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
        float before = power_of_2((largest[h] - most) * log2_scale), offset = most * log2_scale, more = 0;
        largest[h] = most;
#pragma unroll
        for (int j = 0; j < NS / 4; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float &p = s[4 * j + 2 * h + e];
                p = power_of_2(fmaf(p, log2_scale, -offset));
                more += p;
            }
        sum[h] = fmaf(sum[h], before, more); /* of this thread's columns; the quad's sums are added at the end */
#pragma unroll
        for (int j = 0; j < NO / 4; j++) out[4 * j + 2 * h] *= before, out[4 * j + 2 * h + 1] *= before;
    }
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
        soften(score, of.out, of.largest, of.sum, length - n * KEYS, log2_scale);
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
    fetch_keys<T, COLS>(a, from, end - begin, keys, keys + 2 * size::KEY_BYTES);
    copy_commit();

    softmax<COLS> of = {{}, {-INFINITY, -INFINITY}, {0, 0}};
    decisions drop = decisions_of(a, head, begin, first);
    if (a.drop.threshold && mask_is_even(a, drop.feature)) attend<T, COLS, true>(a, drop, from, end - begin, query, of);
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
