/* attention_backward.cu - the gradient of attention on Hopper's tensor cores. A block of two warpgroups has one head of one sequence: it
 * walks over tiles of 128 keys, 64 for each warpgroup, and for each over tiles of 64 queries. Scores are formed turned (keys by queries),
 * so that weights and their gradients are factors straight from registers for dv and dk; those of dq go through shared memory. dq is
 * summed over the tiles of keys in scratch space by the same threads in the same order: no atomics, the same bits every time. */
#include "device/cuda/attention.cuh"
#include "device/cuda/wgmma.cuh"

enum { THREADS = 256, GROUP = 128, QUERIES = 64, KEYS = 128, GROUP_KEYS = 64, MOST_ORDERED = 1024 };

template <int COLS> struct sizes { /* bytes of shared memory: keys, values, score gradients, two of each: queries and dctx; lse and delta */
    enum {
        KEY_PANEL = KEYS * ROW_BYTES,
        KEY_BYTES = COLS / PANEL * KEY_PANEL,
        QUERY_PANEL = QUERIES * ROW_BYTES,
        QUERY_BYTES = COLS / PANEL * QUERY_PANEL,
        GRADIENT_BYTES = KEYS * QUERIES * 2,
        STATISTIC_BYTES = 2 * QUERIES * 4,
        ALL = 2 * KEY_BYTES + GRADIENT_BYTES + 4 * QUERY_BYTES + 2 * STATISTIC_BYTES + ATOM_BYTES,
    };
};

/* One head of one sequence. */
typedef struct place {
    int head, begin, end;
    uint32_t sample, query, feature; /* of random numbers: the sequence, its first query, its first key */
} place;

/* Rows [first, first + ROWS) of the head's columns of a matrix whose rows are `stride` long; zeros from row `end` on. */
template <typename T, int COLS, int ROWS>
static __device__ __forceinline__ void fetch(const T *from, int64_t stride, int width, int first, int end, uint32_t to) {
#pragma unroll
    for (int i = 0; i < ROWS * COLS / WIDE / THREADS; i++) {
        int at = threadIdx.x + i * THREADS, row = at / (COLS / WIDE), piece = at % (COLS / WIDE);
        int valid = first + row < end && piece * WIDE < width;
        copy_16(to + (uint32_t)(piece / 8 * ROWS * ROW_BYTES) + piece_at(row, piece % 8),
                from + (valid ? (int64_t)(first + row) * stride + piece * WIDE : 0), valid);
    }
}

#if TRI_HOPPER
/* Bit 4 j + 2 e + h: whether the weight of query 8 j + 2 c + e and key g + 8 h of this warp's 16 keys is kept. A thread makes 4 of the 128 draws that
 * decide for the warp's 8 keys at a time; the 8 threads of the same queries pass them on. */
static __device__ __forceinline__ uint32_t kept_queries(const dropper &d, const place &at, int first_query, int first_key) {
    int lane = threadIdx.x % WARP, g = lane / 4, c = lane % 4;
    uint32_t feature = at.feature + (uint32_t)first_key, word = 0, bits = 0;
    if (feature % 8 == 0) {
#pragma unroll
        for (int s = 0; s < 4; s++) { /* combination g + 8 s of j, e, h */
            int query = 8 * (g / 4 + 2 * s) + 2 * c + g / 2 % 2;
            word |= kept_bits(d, at.sample, at.query + (uint32_t)(first_query + query), feature / 8 + (uint32_t)(g % 2)) << (8 * s);
        }
#pragma unroll
        for (int from = 0; from < 8; from++)
            bits |= (__shfl_sync(0xFFFFFFFFu, word, 4 * from + c) >> g & 0x01010101u) << from;
        return bits;
    }
    for (int i = 0; i < 32; i++) {
        uint32_t key = feature + (uint32_t)(g + 8 * (i % 2)), query = (uint32_t)(first_query + i / 4 * 8 + 2 * c + i / 2 % 2);
        bits |= (kept_bits(d, at.sample, at.query + query, key / 8) >> (key % 8) & 1) << i;
    }
    return bits;
}

/* From scores and gradients of weights (both keys by queries) to weights after dropout and gradients of scores, in place. `statistic` holds
 * log2 of the softmax's denominators (infinite for queries that do not exist), then delta. */
static __device__ __forceinline__ void differentiate(float (&score)[32], float (&dweight)[32], const float *statistic, float log2_scale,
                                                     const dropper &drop, uint32_t kept, int key_left) {
    int c = threadIdx.x % 4;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        float2 lse = *reinterpret_cast<const float2 *>(statistic + 8 * j + 2 * c);
        float2 delta = *reinterpret_cast<const float2 *>(statistic + QUERIES + 8 * j + 2 * c);
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float &s = score[4 * j + 2 * h + e], &d = dweight[4 * j + 2 * h + e];
                float p = 8 * h < key_left ? exp2f(fmaf(s, log2_scale, e ? -lse.y : -lse.x)) : 0.0f;
                float factor = kept >> (4 * j + 2 * e + h) & 1 ? drop.scale : 0.0f;
                s = p * factor;
                d = p * fmaf(d, factor, e ? -delta.y : -delta.x);
            }
    }
}

/* The gradients of scores of this warp's 16 keys, into [keys, queries] of shared memory. */
template <typename T> static __device__ __forceinline__ void share(const float (&ds)[32], uint32_t to) {
    int lane = threadIdx.x % WARP, c = lane % 4, row = threadIdx.x / WARP * 16 + lane / 4;
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            asm volatile("st.shared.b32 [%0], %1;" ::"r"(to + piece_at(row + 8 * h, j) + (uint32_t)(4 * c)),
                         "r"(pair<T>(ds[4 * j + 2 * h], ds[4 * j + 2 * h + 1])) : "memory");
}

/* Adds this tile's part of dq to what earlier tiles of keys gave, or ends it. N / 4 groups of 8 columns from `column` on. */
template <typename T, int N>
static __device__ __forceinline__ void add_dq(const attention_args &a, const place &at, float (&dq)[N], int first, int column, int is_first, int is_last) {
    int lane = threadIdx.x % WARP, c = lane % 4;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int t = first + threadIdx.x % GROUP / WARP * 16 + lane / 4 + 8 * h;
        if (t >= at.end) continue;
#pragma unroll
        for (int j = 0; j < N / 4; j++) {
            int col = column + 8 * j + 2 * c;
            if (col >= a.width) continue;
            float2 *sum = reinterpret_cast<float2 *>(a.dq + ((int64_t)t * a.heads + at.head) * a.width + col);
            float2 more = make_float2(dq[4 * j + 2 * h], dq[4 * j + 2 * h + 1]);
            if (!is_first) {
                float2 before = *sum;
                more.x += before.x, more.y += before.y;
            }
            if (!is_last) *sum = more;
            else {
                float value[2] = {more.x * a.scale, more.y * a.scale};
                put<2>((T *)a.dqkv + (int64_t)t * 3 * a.heads * a.width + at.head * a.width + col, value, a.add);
            }
        }
    }
}

/* dk (part 1) or dv (part 2) of this warpgroup's keys. */
template <typename T, int COLS>
static __device__ __forceinline__ void write_keys(const attention_args &a, const place &at, int part, int first, const float (&d)[COLS / 2], float factor) {
    int lane = threadIdx.x % WARP, c = lane % 4, H = a.heads * a.width;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int t = first + threadIdx.x / WARP * 16 + lane / 4 + 8 * h;
        if (t >= at.end) continue;
#pragma unroll
        for (int j = 0; j < COLS / 8; j++) {
            int col = 8 * j + 2 * c;
            float value[2] = {d[4 * j + 2 * h] * factor, d[4 * j + 2 * h + 1] * factor};
            if (col < a.width) put<2>((T *)a.dqkv + (int64_t)t * 3 * H + part * H + at.head * a.width + col, value, a.add);
        }
    }
}

/* Rows of no sequence get 0. */
template <typename T> static __device__ void clear_rows(const attention_args &a, int head, int64_t first) {
    int H = a.heads * a.width;
    for (int64_t i = threadIdx.x; i < (a.rows - first) * a.width * 3 && !a.add; i += THREADS) {
        int64_t part = i % 3, col = i / 3 % a.width, t = first + i / 3 / a.width;
        ((T *)a.dqkv)[t * 3 * H + part * H + head * a.width + col] = narrow<T>(0);
    }
}

template <typename T, int COLS> struct tiles {
    typedef sizes<COLS> size;
    const attention_args &a;
    const place &at;
    uint32_t keys, values, gradients, queries, dctx;
    float *statistics;

    /* Begins to fetch a tile of queries and of dctx, with its statistics, into stage 0 or 1. */
    __device__ __forceinline__ void fetch_queries(int first, int stage) const {
        int H = a.heads * a.width;
        fetch<T, COLS, QUERIES>((const T *)a.qkv + at.head * a.width, 3 * (int64_t)H, a.width, first, at.end,
                                queries + (uint32_t)stage * size::QUERY_BYTES);
        fetch<T, COLS, QUERIES>((const T *)a.dctx + at.head * a.width, H, a.width, first, at.end, dctx + (uint32_t)stage * size::QUERY_BYTES);
        if (threadIdx.x < QUERIES) {
            int64_t t = first + (int)threadIdx.x, from = t * a.heads + at.head;
            float *to = statistics + stage * 2 * QUERIES + threadIdx.x;
            to[0] = t < at.end ? a.lse[from] * 1.44269504f : INFINITY;
            to[QUERIES] = t < at.end ? a.delta[from] : 0.0f;
        }
    }
    __device__ __forceinline__ void fetch_keys(int first) const {
        int H = a.heads * a.width;
        fetch<T, COLS, KEYS>((const T *)a.qkv + H + at.head * a.width, 3 * (int64_t)H, a.width, first, at.end, keys);
        fetch<T, COLS, KEYS>((const T *)a.qkv + 2 * H + at.head * a.width, 3 * (int64_t)H, a.width, first, at.end, values);
    }
};

/* One tile of 128 keys: all queries look at them. */
template <typename T, int COLS> static __device__ __forceinline__ void walk_queries(const tiles<T, COLS> &m, int first_key) {
    typedef sizes<COLS> size;
    const attention_args &a = m.a;
    const place &at = m.at;
    int group = threadIdx.x / GROUP, lane = threadIdx.x % WARP, n = (at.end - at.begin + QUERIES - 1) / QUERIES;
    int warp_key = first_key - at.begin + threadIdx.x / WARP * 16; /* the warp's first key, counted in the sequence */
    uint32_t key = m.keys + (uint32_t)(group * GROUP_KEYS * ROW_BYTES), value = m.values + (uint32_t)(group * GROUP_KEYS * ROW_BYTES);
    float dk[COLS / 2], dv[COLS / 2], log2_scale = a.scale * 1.44269504f;
#pragma unroll
    for (int i = 0; i < COLS / 2; i++) dk[i] = dv[i] = 0;
    for (int i = 0; i < n; i++) {
        int first = at.begin + i * QUERIES, stage = i & 1;
        uint32_t query = m.queries + (uint32_t)stage * size::QUERY_BYTES, dctx = m.dctx + (uint32_t)stage * size::QUERY_BYTES;
        float score[32], dweight[32], dq[COLS / 4];
        uint32_t factor[4][4];
        copy_wait<0>();
        show_to_matrix_units();
        __syncthreads();
        wgmma_begin();
#pragma unroll
        for (int k = 0; k < COLS / 16; k++)
            wgmma<T>::template run<0, 0>(score, tile(key + (uint32_t)(k / 4 * size::KEY_PANEL + k % 4 * 32)),
                                         tile(query + (uint32_t)(k / 4 * size::QUERY_PANEL + k % 4 * 32)), k > 0);
        wgmma_commit();
#pragma unroll
        for (int k = 0; k < COLS / 16; k++)
            wgmma<T>::template run<0, 0>(dweight, tile(value + (uint32_t)(k / 4 * size::KEY_PANEL + k % 4 * 32)),
                                         tile(dctx + (uint32_t)(k / 4 * size::QUERY_PANEL + k % 4 * 32)), k > 0);
        wgmma_commit();
        if (i + 1 < n) m.fetch_queries(first + QUERIES, stage ^ 1);
        copy_commit();
        uint32_t kept = a.drop.threshold ? kept_queries(a.drop, at, first - at.begin, warp_key) : 0xFFFFFFFFu;
        wgmma_wait<0>();
        pin(score);
        pin(dweight);
        differentiate(score, dweight, m.statistics + stage * 2 * QUERIES, log2_scale, a.drop, kept, at.end - at.begin - warp_key - lane / 4);
        share<T>(dweight, m.gradients);
        show_to_matrix_units();
#pragma unroll
        for (int k = 0; k < 4; k++) as_factor<T>(score, k, factor[k]);
        wgmma_begin();
#pragma unroll
        for (int k = 0; k < 4; k++)
            wgmma<T>::template run<1>(dv, factor[k], tile(dctx + (uint32_t)(k * 16 * ROW_BYTES), size::QUERY_PANEL), 1);
        wgmma_commit();
        uint32_t slope[4][4];
#pragma unroll
        for (int k = 0; k < 4; k++) as_factor<T>(dweight, k, slope[k]);
        wgmma_begin();
#pragma unroll
        for (int k = 0; k < 4; k++)
            wgmma<T>::template run<1>(dk, slope[k], tile(query + (uint32_t)(k * 16 * ROW_BYTES), size::QUERY_PANEL), 1);
        wgmma_commit();
        __syncthreads();
        wgmma_begin();
        uint32_t columns = m.keys + (uint32_t)(COLS == 64 ? group * 64 : group * size::KEY_PANEL); /* half of the head's */
#pragma unroll
        for (int k = 0; k < KEYS / 16; k++)
            wgmma<T>::template run<1, 1>(dq, tile(m.gradients + (uint32_t)(k * 16 * ROW_BYTES)), tile(columns + (uint32_t)(k * 16 * ROW_BYTES)), k > 0);
        wgmma_commit();
        wgmma_wait<0>();
        pin(dq);
        pin(dk);
        pin(dv);
        add_dq<T>(a, at, dq, first, group * COLS / 2, first_key == at.begin, first_key + KEYS >= at.end);
    }
    write_keys<T, COLS>(a, at, 1, first_key, dk, a.scale);
    write_keys<T, COLS>(a, at, 2, first_key, dv, 1.0f);
}
#endif

template <typename T, int COLS> static __global__ void __launch_bounds__(THREADS, 1) flash_din_kernel(attention_args a) {
#if TRI_HOPPER
    typedef sizes<COLS> size;
    extern __shared__ char raw[];
    int head = blockIdx.x % a.heads, s = blockIdx.x / a.heads;
    if (s == a.n) {
        clear_rows<T>(a, head, a.seq[s]);
        return;
    }
    if (a.order) s = a.order[s];
    place at = {head, a.seq[s], a.seq[s + 1], 0, 0, 0};
    if (a.drop.threshold) {
        at.sample = (uint32_t)a.key[2 * at.begin], at.query = (uint32_t)a.key[2 * at.begin + 1];
        at.feature = first_feature(a, head) + at.query;
    }
    uint32_t base = (shared_address(raw) + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES, keys = base, values = keys + size::KEY_BYTES,
             gradients = values + size::KEY_BYTES, queries = gradients + size::GRADIENT_BYTES, dctx = queries + 2 * size::QUERY_BYTES;
    float *statistics = reinterpret_cast<float *>(raw + (dctx + 2 * size::QUERY_BYTES - shared_address(raw)));
    tiles<T, COLS> m = {a, at, keys, values, gradients, queries, dctx, statistics};
    for (int first_key = at.begin; first_key < at.end; first_key += KEYS) {
        __syncthreads(); /* nobody reads the tile before any more */
        m.fetch_keys(first_key);
        m.fetch_queries(at.begin, 0);
        copy_commit();
        walk_queries<T, COLS>(m, first_key);
    }
#endif
}

/* delta[t, head] = sum of dctx * ctx over the head's columns. The last block ranks the sequences by length instead, ties by number. */
template <typename T> static __global__ void prepare_kernel(attention_args a) {
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (blockIdx.x + 1 == gridDim.x) {
        for (int s = threadIdx.x; s < a.n && a.order; s += THREADS) {
            int length = a.seq[s + 1] - a.seq[s], rank = 0;
            for (int o = 0; o < a.n; o++) {
                int other = a.seq[o + 1] - a.seq[o];
                rank += other > length || (other == length && o < s);
            }
            a.order[rank] = s;
        }
        return;
    }
    if (i >= a.rows * a.heads) return;
    const T *dctx = (const T *)a.dctx + i * a.width, *ctx = (const T *)a.ctx + i * a.width; /* [width] */
    float sum = 0;
    for (int c = 0; c < a.width; c += WIDE) {
        float x[WIDE], y[WIDE];
        load<WIDE>(dctx + c, x), load<WIDE>(ctx + c, y);
#pragma unroll
        for (int k = 0; k < WIDE; k++) sum = fmaf(x[k], y[k], sum);
    }
    a.delta[i] = sum;
}

template <typename T, int COLS> static void launch(const tri_call *call, attention_args a) {
    if (a.n > MOST_ORDERED) a.order = NULL;
    prepare_kernel<T><<<blocks_for(a.rows * a.heads, THREADS) + 1, THREADS, 0, stream(call)>>>(a);
    record(call, cudaFuncSetAttribute(flash_din_kernel<T, COLS>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizes<COLS>::ALL), "attention_din");
    flash_din_kernel<T, COLS><<<(unsigned)((a.n + 1) * a.heads), THREADS, sizes<COLS>::ALL, stream(call)>>>(a);
    launched(call, "attention_din");
}

int tri__cuda_flash_din(const tri_call *call, const attention_args *a) {
    int dtype = call->dtype[0];
    if (!flash_fits(call, a, dtype)) return 0;
    if (dtype == TRI_BF16) a->width <= 64 ? launch<bf16, 64>(call, *a) : launch<bf16, 128>(call, *a);
    else a->width <= 64 ? launch<f16, 64>(call, *a) : launch<f16, 128>(call, *a);
    return 1;
}
