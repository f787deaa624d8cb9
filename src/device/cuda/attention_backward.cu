/* attention_backward.cu - the gradient of attention on Hopper's tensor cores. A block of two warpgroups has one head of one sequence: it
 * walks over tiles of 128 keys, 64 for each warpgroup, and for each over tiles of 64 queries. Scores are formed turned (keys by queries),
 * so that weights and their gradients are factors straight from registers for dv and dk; those of dq go through shared memory. dq is
 * summed over the tiles of keys in scratch space by the same threads in the same order: no atomics, the same bits every time. */
#include "device/cuda/attention.cuh"
#include "device/cuda/wgmma.cuh"

enum { THREADS = 256, GROUP = 128, QUERIES = 64, KEYS = 128, GROUP_KEYS = 64, STAGES = 3 };

template <int COLS> struct sizes { /* bytes of shared memory: keys, values, two of score gradients, STAGES of queries, dctx and statistics */
    enum {
        KEY_PANEL = KEYS * ROW_BYTES,
        KEY_BYTES = COLS / PANEL * KEY_PANEL,
        QUERY_PANEL = QUERIES * ROW_BYTES,
        QUERY_BYTES = COLS / PANEL * QUERY_PANEL,
        GRADIENT_BYTES = KEYS * QUERIES * 2,
        STATISTIC_BYTES = QUERIES * 8,
        ALL = 2 * KEY_BYTES + 2 * GRADIENT_BYTES + STAGES * (2 * QUERY_BYTES + STATISTIC_BYTES) + ATOM_BYTES,
    };
};

typedef attention_place place;

[[maybe_unused]] static __device__ __forceinline__ place place_of(const attention_args &a, int s, int head) {
    place at = {head, a.seq[s], a.seq[s + 1], a.seq[s] / QUERIES + s, 0, 0, 0, 0};
    if (a.drop.threshold) {
        at.sample = (uint32_t)a.key[2 * at.begin], at.query = (uint32_t)a.key[2 * at.begin + 1];
        at.feature = first_feature(a, head) + at.query;
    }
    return at;
}

/* Bit 4 j + 2 e + h: whether the weight of query 8 j + 2 c + e and key g + 8 h of this warp's 16 keys is kept. A thread makes 4 of the 128 draws that
 * decide for the warp's 8 keys at a time; the 8 threads of the same queries pass them on. */
[[maybe_unused]] static __device__ __forceinline__ uint32_t kept_queries(const dropper &d, const place &at, int first_query, int first_key) {
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

/* From scores and gradients of weights (both keys by queries) to weights after dropout and gradients of scores, in place, both still to be
 * multiplied by dropout's scale. `statistic` [QUERIES]; `left` keys exist from the thread's first on. */
[[maybe_unused]] static __device__ __forceinline__ void differentiate(float (&score)[32], float (&dweight)[32], const float2 *statistic, float log2_scale,
                                                     uint32_t kept, int left) {
    int c = threadIdx.x % 4;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        float4 two = *reinterpret_cast<const float4 *>(statistic + 8 * j + 2 * c); /* of queries 8 j + 2 c and the next */
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float &s = score[4 * j + 2 * h + e], &d = dweight[4 * j + 2 * h + e];
                float p = power_of_2(fmaf(s, log2_scale, e ? -two.z : -two.x));
                s = kept >> (4 * j + 2 * e + h) & 1 ? p : 0.0f;
                d = fmaf(s, d, -p * (e ? two.w : two.y));
            }
    }
    if (__any_sync(0xFFFFFFFFu, left <= 8)) {
#pragma unroll
        for (int i = 0; i < 32; i++)
            if (i / 2 % 2 * 8 >= left) score[i] = dweight[i] = 0;
    }
}

/* What earlier tiles of keys gave to a tile's dq: N / 4 groups of 8 columns of two rows. */
template <int N>
static __device__ __forceinline__ void load_dq(const attention_args &a, const float *sum, int left, int column, float2 (&before)[2][N / 4]) {
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int j = 0; j < N / 4; j++)
            before[h][j] = left > 8 * h && column + 8 * j < a.width
                               ? __ldcg(reinterpret_cast<const float2 *>(sum + (int64_t)8 * h * a.heads * a.width + 8 * j)) : make_float2(0, 0);
}

/* Keeps this tile's part of dq, or adds it to what earlier tiles of keys gave. `sum` is where this thread's first two columns are, `column` which they
 * are, of `left` rows that exist from its first on. */
template <int N>
static __device__ __forceinline__ void add_dq(const attention_args &a, const float (&dq)[N], float *sum, int left, int column, int is_first) {
#pragma unroll
    for (int h = 0; h < 2; h++, sum += (int64_t)8 * a.heads * a.width) {
        if (left <= 8 * h) return;
#pragma unroll
        for (int j = 0; j < N / 4; j++) {
            if (column + 8 * j >= a.width) continue;
            if (is_first) *reinterpret_cast<float2 *>(sum + 8 * j) = make_float2(dq[4 * j + 2 * h], dq[4 * j + 2 * h + 1]);
            else add_behind(sum + 8 * j, dq[4 * j + 2 * h], dq[4 * j + 2 * h + 1]);
        }
    }
}

/* Ends a tile's dq: the last tile of keys gave dq. */
template <typename T, int N>
static __device__ __forceinline__ void end_dq(const attention_args &a, const place &at, const float (&dq)[N], const float2 (&before)[2][N / 4], int left,
                                              int column) {
    int64_t H = (int64_t)a.heads * a.width;
    float factor = a.scale * a.drop.scale;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        if (left <= 8 * h) return;
        T *end = (T *)a.dqkv + (int64_t)(at.end - left + 8 * h) * 3 * H + at.head * a.width + column;
#pragma unroll
        for (int j = 0; j < N / 4; j++) {
            float value[2] = {(before[h][j].x + dq[4 * j + 2 * h]) * factor, (before[h][j].y + dq[4 * j + 2 * h + 1]) * factor};
            if (column + 8 * j < a.width) put<2>(end + 8 * j, value, a.add);
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

/* Where a thread reads the next tile of queries, and where it adds dq of the one at hand. */
template <typename T> struct cursor {
    const T *query, *dctx;   /* its piece of a row */
    const float2 *statistic;
    float *dq;
    int left, dq_left;       /* rows from query's on; from dq's on */
};

template <typename T, int COLS> struct tiles {
    typedef sizes<COLS> size;
    const attention_args &a;
    const place &at;
    uint32_t keys, values, gradients, queries, dctx; /* addresses in shared memory */
    float2 *statistics;

    __device__ __forceinline__ cursor<T> first_queries() const {
        enum { PIECES = COLS / WIDE };
        int64_t H = (int64_t)a.heads * a.width;
        int row = threadIdx.x / PIECES, piece = threadIdx.x % PIECES, lane = threadIdx.x % WARP;
        int dq_row = threadIdx.x % GROUP / WARP * 16 + lane / 4, column = threadIdx.x / GROUP * COLS / 2 + 2 * (lane % 4);
        cursor<T> c;
        c.query = (const T *)a.qkv + (at.begin + row) * 3 * H + at.head * a.width + piece * WIDE;
        c.dctx = (const T *)a.dctx + (at.begin + row) * H + at.head * a.width + piece * WIDE;
        c.statistic = a.statistic + at.head * a.rows + at.begin + threadIdx.x % QUERIES;
        c.dq = a.dq + (at.begin + dq_row) * H + at.head * a.width + column;
        c.left = at.end - at.begin - row, c.dq_left = at.end - at.begin - dq_row;
        return c;
    }
    /* Begins to fetch the tile of queries and of dctx that the cursor stands at, with their statistics. */
    __device__ __forceinline__ void fetch_queries(cursor<T> &c, int stage) const {
        enum { PIECES = COLS / WIDE, STEP = THREADS / PIECES };
        int64_t H = (int64_t)a.heads * a.width;
        int row = threadIdx.x / PIECES, piece = threadIdx.x % PIECES, has = piece * WIDE < a.width;
        uint32_t to = (uint32_t)(stage * size::QUERY_BYTES + piece / 8 * size::QUERY_PANEL) + piece_at(row, piece % 8);
#pragma unroll
        for (int k = 0; k < QUERIES / STEP; k++) {
            copy_16(queries + to + (uint32_t)(k * STEP * ROW_BYTES), c.query, has && c.left > k * STEP);
            copy_16(dctx + to + (uint32_t)(k * STEP * ROW_BYTES), c.dctx, has && c.left > k * STEP);
            c.query += STEP * 3 * H, c.dctx += STEP * H;
        }
        if (threadIdx.x < QUERIES) copy_8(shared_address(statistics + stage * QUERIES + threadIdx.x), c.statistic, c.left + row > (int)threadIdx.x);
        c.statistic += QUERIES;
        c.left -= QUERIES;
    }
    __device__ __forceinline__ void fetch_keys(int first) const {
        int64_t H = (int64_t)a.heads * a.width;
        const T *from = (const T *)a.qkv + first * 3 * H + at.head * a.width;
        copy_rows<T, COLS, KEYS, THREADS>(from + H, 3 * H, a.width, at.end - first, keys);
        copy_rows<T, COLS, KEYS, THREADS>(from + 2 * H, 3 * H, a.width, at.end - first, values);
    }
    /* Begins the scores of a tile of queries and the gradients of their weights, both turned: this warpgroup's keys by queries. */
    __device__ __forceinline__ void begin_scores(int at_stage, float (&score)[32], float (&dweight)[32]) const {
        uint32_t rows = (uint32_t)(threadIdx.x / GROUP * GROUP_KEYS * ROW_BYTES), stage = (uint32_t)at_stage * size::QUERY_BYTES;
        uint32_t key = tile_at(keys + rows), value = tile_at(values + rows), query = tile_at(queries + stage), gradient = tile_at(dctx + stage);
        wgmma_begin();
#pragma unroll
        for (int k = 0; k < COLS / 16; k++)
            wgmma<T>::template run<0, 0>(score, tile(key, k / 4 * size::KEY_PANEL + k % 4 * 32), tile(query, k / 4 * size::QUERY_PANEL + k % 4 * 32),
                                         k > 0);
#pragma unroll
        for (int k = 0; k < COLS / 16; k++)
            wgmma<T>::template run<0, 0>(dweight, tile(value, k / 4 * size::KEY_PANEL + k % 4 * 32),
                                         tile(gradient, k / 4 * size::QUERY_PANEL + k % 4 * 32), k > 0);
        wgmma_commit();
    }
    /* Begins dv += weights^T dctx and dk += gradients of scores^T q: what the two factors hold. */
    __device__ __forceinline__ void begin_key_sums(int at_stage, const uint32_t (&weight)[4][4], const uint32_t (&slope)[4][4], float (&dk)[COLS / 2],
                                                   float (&dv)[COLS / 2]) const {
        uint32_t stage = (uint32_t)at_stage * size::QUERY_BYTES;
        uint32_t query = tile_at(queries + stage, size::QUERY_PANEL), gradient = tile_at(dctx + stage, size::QUERY_PANEL);
        wgmma_begin();
#pragma unroll
        for (int k = 0; k < 4; k++) wgmma<T>::template run<1>(dv, weight[k], tile(gradient, k * 16 * ROW_BYTES), 1);
#pragma unroll
        for (int k = 0; k < 4; k++) wgmma<T>::template run<1>(dk, slope[k], tile(query, k * 16 * ROW_BYTES), 1);
        wgmma_commit();
    }
    /* Begins dq = gradients of scores * k, for half of the head's columns. */
    __device__ __forceinline__ void begin_dq(float (&dq)[COLS / 4], int odd) const {
        uint32_t group = threadIdx.x / GROUP, slope = tile_at(gradients + (uint32_t)odd * size::GRADIENT_BYTES), key = tile_at(keys + group * (COLS == 64 ? 64 : size::KEY_PANEL));
        wgmma_begin();
#pragma unroll
        for (int k = 0; k < KEYS / 16; k++) wgmma<T>::template run<1, 1>(dq, tile(slope, k * 16 * ROW_BYTES), tile(key, k * 16 * ROW_BYTES), k > 0);
        wgmma_commit();
    }
    /* Gradients of scores of this warp's 16 keys, for all threads: into [keys, queries] of shared memory. */
    __device__ __forceinline__ void share(const uint32_t (&slope)[4][4], int odd) const {
        int lane = threadIdx.x % WARP, row = threadIdx.x / WARP * 16 + lane % 16, piece = lane / 16;
#pragma unroll
        for (int k = 0; k < 4; k++) store_matrices(gradients + (uint32_t)odd * size::GRADIENT_BYTES + piece_at(row, 2 * k + piece), slope[k]);
    }
};

/* What one tile of 128 keys gathers, and the scores of the tile of queries at hand. */
template <int COLS> struct sums {
    float dk[COLS / 2], dv[COLS / 2], score[32], dweight[32];
};

/* Tile i of queries, in stage i % 3, with the keys from first_key on. Its scores have been begun; those of the next are where there is a NEXT:
 * before the matrix units are done with this one where registers allow (heads of up to 64 columns), else after. One barrier a tile: behind it
 * nobody reads the tile before, so the tile after the next and the next gradients of scores may be written. */
template <typename T, int COLS, bool NEXT>
static __device__ __forceinline__ void walk_one(const tiles<T, COLS> &m, sums<COLS> &to, cursor<T> &c, int i, int stage, int first_key) {
    enum { AHEAD = COLS == 64 && NEXT };
    const attention_args &a = m.a;
    const place &at = m.at;
    int warp_key = first_key - at.begin + threadIdx.x / WARP * 16; /* the warp's first key, counted in the sequence */
    int next = stage == STAGES - 1 ? 0 : stage + 1, behind = stage == 0 ? STAGES - 1 : stage - 1;
    uint32_t kept = a.drop.threshold ? kept_queries(a.drop, at, i * QUERIES, warp_key) : 0xFFFFFFFFu, weight[4][4], slope[4][4];
    float dq[COLS / 4];
    wgmma_wait<0>();
    pin(to.score);
    pin(to.dweight);
    differentiate(to.score, to.dweight, m.statistics + stage * QUERIES, a.scale * 1.44269504f, kept,
                  at.end - at.begin - warp_key - threadIdx.x % WARP / 4);
#pragma unroll
    for (int k = 0; k < 4; k++) as_factor<T>(to.score, k, weight[k]), as_factor<T>(to.dweight, k, slope[k]);
    m.share(slope, i & 1);
    m.begin_key_sums(stage, weight, slope, to.dk, to.dv);
    copy_wait<0>();
    show_to_matrix_units();
    __syncthreads(); /* all gradients of scores are there, and the next tile of queries */
    m.begin_dq(dq, i & 1);
    if (AHEAD) m.begin_scores(next, to.score, to.dweight);
    if (NEXT && at.begin + (i + 2) * QUERIES < at.end) m.fetch_queries(c, behind);
    copy_commit();
    int column = threadIdx.x / GROUP * COLS / 2 + threadIdx.x % 4 * 2, is_first = first_key == at.begin, is_last = first_key + KEYS >= at.end;
    float2 before[2][COLS / 16] = {};
    if (COLS == 64 && is_last && !is_first) load_dq<COLS / 4>(a, c.dq, c.dq_left, column, before);
    wgmma_wait<AHEAD>();
    pin(dq);
    pin(to.dk);
    pin(to.dv);
    if (COLS != 64 && is_last && !is_first) load_dq<COLS / 4>(a, c.dq, c.dq_left, column, before); /* not sooner: no registers are left */
    if (is_last) end_dq<T>(a, at, dq, before, c.dq_left, column);
    else add_dq(a, dq, c.dq, c.dq_left, column, is_first);
    c.dq += QUERIES * (int64_t)a.heads * a.width;
    c.dq_left -= QUERIES;
    if (NEXT && !AHEAD) m.begin_scores(next, to.score, to.dweight);
}

/* One tile of 128 keys: all queries look at them. */
template <typename T, int COLS> static __device__ __forceinline__ void walk_queries(const tiles<T, COLS> &m, cursor<T> &c, int first_key) {
    int last = (m.at.end - m.at.begin - 1) / QUERIES, stage = 0;
    sums<COLS> to;
#pragma unroll
    for (int i = 0; i < COLS / 2; i++) to.dk[i] = to.dv[i] = 0;
    m.begin_scores(0, to.score, to.dweight);
    for (int i = 0; i < last; i++, stage = stage == STAGES - 1 ? 0 : stage + 1) walk_one<T, COLS, true>(m, to, c, i, stage, first_key);
    walk_one<T, COLS, false>(m, to, c, last, stage, first_key);
    write_keys<T, COLS>(m.a, m.at, 1, first_key, to.dk, m.a.scale * m.a.drop.scale);
    write_keys<T, COLS>(m.a, m.at, 2, first_key, to.dv, m.a.drop.scale);
}

template <typename T, int COLS> static __global__ void __launch_bounds__(THREADS, 1) flash_din_kernel(attention_args a) {
#if TRI_HOPPER
    typedef sizes<COLS> size;
    extern __shared__ char raw[];
    int head = blockIdx.x % a.heads, s = blockIdx.x / a.heads;
    if (s == a.n) {
        clear_rows<T>(a, head, a.seq[s]);
        return;
    }
    place at = a.order ? a.order[s] : place_of(a, s, 0);
    at.head = head;
    at.feature += (uint32_t)(head * a.max_len);
    uint32_t base = (shared_address(raw) + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES, keys = base, values = keys + size::KEY_BYTES,
             gradients = values + size::KEY_BYTES, queries = gradients + 2 * size::GRADIENT_BYTES, dctx = queries + STAGES * size::QUERY_BYTES;
    float2 *statistics = reinterpret_cast<float2 *>(raw + (dctx + STAGES * size::QUERY_BYTES - shared_address(raw)));
    tiles<T, COLS> m = {a, at, keys, values, gradients, queries, dctx, statistics};
    for (int first_key = at.begin; first_key < at.end; first_key += KEYS) {
        __syncthreads(); /* nobody reads the tile before any more */
        m.fetch_keys(first_key);
        cursor<T> c = m.first_queries();
        m.fetch_queries(c, 0);
        copy_commit();
        if (at.begin + QUERIES < at.end) m.fetch_queries(c, 1);
        copy_commit();
        copy_wait<1>();
        show_to_matrix_units();
        __syncthreads();
        walk_queries<T, COLS>(m, c, first_key);
    }
#endif
}

/* Ranks the sequences by length, ties by number. */
static __device__ __forceinline__ void rank_sequences(const attention_args &a) {
    for (int s = threadIdx.x; s < a.n; s += THREADS) {
        int length = a.seq[s + 1] - a.seq[s], rank = 0;
        for (int o = 0; o < a.n; o++) {
            int other = a.seq[o + 1] - a.seq[o];
            rank += other > length || (other == length && o < s);
        }
        a.order[rank] = place_of(a, s, 0);
    }
}

/* The statistics of some rows and heads, by COLS / 8 threads each. */
template <typename T, int COLS> static __device__ __forceinline__ void form_statistics(const attention_args &a, int64_t block) {
    enum { PIECES = COLS / WIDE };
    int64_t i = (block * THREADS + threadIdx.x) / PIECES;
    int piece = threadIdx.x % PIECES;
    float sum = 0;
    if (i < a.rows * a.heads && piece * WIDE < a.width) {
        float x[WIDE], y[WIDE];
        load<WIDE>((const T *)a.dctx + i * a.width + piece * WIDE, x), load<WIDE>((const T *)a.ctx + i * a.width + piece * WIDE, y);
#pragma unroll
        for (int k = 0; k < WIDE; k++) sum = fmaf(x[k], y[k], sum);
    }
#pragma unroll
    for (int lane = PIECES / 2; lane; lane /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, lane);
    if (piece == 0 && i < a.rows * a.heads)
        a.statistic[i % a.heads * a.rows + i / a.heads] = make_float2(a.lse[i] * 1.44269504f, sum / a.drop.scale);
}

/* What the gradient's kernel reads beside the operands: block 0 the order, the others statistics. */
template <typename T, int COLS> static __global__ void __launch_bounds__(THREADS) prepare_kernel(attention_args a) {
    if (blockIdx.x) form_statistics<T, COLS>(a, blockIdx.x - 1);
    else if (a.order) rank_sequences(a);
}

template <typename T, int COLS> static void launch(const tri_call *call, attention_args a) {
    if (a.n > MOST_ORDERED) a.order = NULL;
    prepare_kernel<T, COLS><<<1 + blocks_for(a.rows * a.heads * COLS / WIDE, THREADS), THREADS, 0, stream(call)>>>(a);
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
