/* attention_backward.cu - the gradient of attention on Hopper's tensor cores. A block stays for many heads of sequences and takes one after
 * the other. Of its three warpgroups the third fetches tiles and draws dropout's decisions, the first two compute: a head's keys come 128
 * at a time, 64 for each of them, and for each such tile its queries, 64 at a time. Scores are formed turned (keys by queries), so that
 * weights and their gradients are factors straight from registers for dv and dk; those of dq go through shared memory, since dq needs
 * those of both groups. dq is summed over the tiles of keys in scratch space by the same threads in the same order: no float is added in
 * an order that may change, the same bits every time. */
#include "device/cuda/attention.cuh"
#include "device/cuda/attention_mask.cuh"
#include "device/cuda/groups.cuh"

enum {
    GROUP = 128,
    COMPUTERS = 2 * GROUP, /* threads 0 .. 255 compute */
    THREADS = 3 * GROUP,
    QUERIES = 64,
    KEYS = 128,
    GROUP_KEYS = 64,
    STAGES = 3, /* tiles of queries there at a time */
};

template <int COLS> struct sizes { /* registers of a thread that computes and that fetches; shared memory: bytes, and where what begins */
    enum {
        COMPUTE_REGISTERS = COLS == 64 ? 208 : 232, /* twice the first and once the second are at most 3 * 168 */
        FETCH_REGISTERS = COLS == 64 ? 88 : 40,
        KEY_STAGES = COLS == 64 ? 2 : 1, /* tiles of keys there at a time */
        KEY_PANEL = KEYS * ROW_BYTES,
        KEY_BYTES = COLS / PANEL * KEY_PANEL,
        QUERY_PANEL = QUERIES * ROW_BYTES,
        QUERY_BYTES = COLS / PANEL * QUERY_PANEL,
        SLOPE_BYTES = KEYS * QUERIES * 2,
        DECISION_BYTES = KEYS * QUERIES / 8,
        STATISTIC_BYTES = QUERIES * 8,
        KEYS_AT = 0,
        VALUES_AT = KEYS_AT + KEY_STAGES * KEY_BYTES,
        SLOPES_AT = VALUES_AT + KEY_STAGES * KEY_BYTES, /* two of them */
        QUERIES_AT = SLOPES_AT + 2 * SLOPE_BYTES,
        DCTX_AT = QUERIES_AT + STAGES * QUERY_BYTES,
        DECISIONS_AT = DCTX_AT + STAGES * QUERY_BYTES,
        STATISTICS_AT = DECISIONS_AT + STAGES * DECISION_BYTES,
        PLACES_AT = STATISTICS_AT + STAGES * STATISTIC_BYTES,
        BARRIERS_AT = PLACES_AT + KEY_STAGES * (int)sizeof(attention_place),
        NEXT_AT = BARRIERS_AT + (2 * STAGES + 2 * KEY_STAGES + 4) * 8,
        ALL = NEXT_AT + 8 + ATOM_BYTES, /* and room to align */
    };
};

typedef attention_place place;

[[maybe_unused]] static __device__ __forceinline__ place place_of(const attention_args &a, int s, int head) {
    place at = {head, a.seq[s], a.seq[s + 1], a.seq[s], 0, 0, 0, 0};
    if (a.drop.threshold) {
        at.sample = (uint32_t)a.key[2 * at.begin], at.query = (uint32_t)a.key[2 * at.begin + 1];
        at.feature = first_feature(a, head) + at.query;
    }
    return at;
}

#if TRI_HOPPER
/* A block's shared memory. */
template <int COLS> struct room {
    typedef sizes<COLS> size;
    char *memory;
    uint32_t base; /* its address */

    __device__ __forceinline__ uint32_t full(int stage) const { return base + size::BARRIERS_AT + stage * 8; }
    __device__ __forceinline__ uint32_t empty(int stage) const { return full(STAGES + stage); }
    __device__ __forceinline__ uint32_t keys_full(int stage) const { return full(2 * STAGES + stage); }
    __device__ __forceinline__ uint32_t keys_empty(int stage) const { return full(2 * STAGES + size::KEY_STAGES + stage); }
    __device__ __forceinline__ uint32_t slopes_full(uint32_t tile) const {
        return full(2 * STAGES + 2 * size::KEY_STAGES) + tile % 2 * 8;
    }
    __device__ __forceinline__ uint32_t slopes_empty(uint32_t tile) const { return slopes_full(tile) + 2 * 8; }
    /* [KEYS, 2]: a key's bits for queries 0 to 31, and 32 to 63 */
    __device__ __forceinline__ uint2 *decisions(int stage) const {
        return reinterpret_cast<uint2 *>(memory + size::DECISIONS_AT + stage * size::DECISION_BYTES);
    }
    __device__ __forceinline__ float *statistics(int stage) const { /* [2, QUERIES] */
        return reinterpret_cast<float *>(memory + size::STATISTICS_AT + stage * size::STATISTIC_BYTES);
    }
    __device__ __forceinline__ place *tile(int stage) const { return reinterpret_cast<place *>(memory + size::PLACES_AT) + stage; }
    __device__ __forceinline__ int *next() const { return reinterpret_cast<int *>(memory + size::NEXT_AT); }

    __device__ __forceinline__ void init() const {
        enum { FETCH_WARPS = GROUP / WARP, COMPUTE_WARPS = COMPUTERS / WARP };
        for (int i = 0; i < STAGES; i++) barrier_init(full(i), FETCH_WARPS), barrier_init(empty(i), COMPUTE_WARPS);
        for (int i = 0; i < size::KEY_STAGES; i++) barrier_init(keys_full(i), FETCH_WARPS), barrier_init(keys_empty(i), COMPUTE_WARPS);
        for (int i = 0; i < 2; i++) barrier_init(slopes_full(i), COMPUTE_WARPS), barrier_init(slopes_empty(i), COMPUTE_WARPS);
    }
};

/* ---- the warpgroup that fetches ---- */

/* Bit l of lane k becomes what bit k of lane l was. */
static __device__ __forceinline__ uint32_t turn_bits(uint32_t x) {
    uint32_t lane = threadIdx.x % WARP, low = 0x0000FFFFu; /* low: bits whose number has bit `step` clear */
#pragma unroll
    for (uint32_t step = 16; step; step /= 2, low ^= low << step) {
        uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, x, step), mine = lane & step ? ~low : low;
        x = (x & mine) | (__funnelshift_r(other, other, lane & step ? step : 32 - step) & ~mine);
    }
    return x;
}

/* The decisions of query `query` for 64 keys: bit b of a word is that of key 2 b, or from b = 16 on of key 2 (b - 16) + 1, of its 32. */
template <int DRAWS>
static __device__ __forceinline__ void decide(const attention_args &a, const place &at, int query, int first_key, uint32_t (&word)[2]) {
    uint32_t feature = at.feature + (uint32_t)(first_key - at.begin);
    word[0] = word[1] = 0;
    if (mask_is_even(a, feature)) {
        mask_row row = mask_row_of(a.mask, at.sample, at.query + (uint32_t)query);
#pragma unroll DRAWS
        for (uint32_t i = 0; i < 4; i++) { /* 2 DRAWS at a time, as there are registers */
            uint32_t x[4], y[4];
            mask_draw(a.mask, row, feature / 8 + i, x), mask_draw(a.mask, row, feature / 8 + 4 + i, y);
#pragma unroll
            for (int k = 0; k < 4; k++) word[0] = with_signs(word[0] >> 1, x[k]), word[1] = with_signs(word[1] >> 1, y[k]);
        }
        return;
    }
    uint64_t bits = mask_odd(a.drop, at.sample, at.query + (uint32_t)query, feature);
    for (int i = 0; i < 32; i++) {
        int to = i / 2 + i % 2 * 16;
        word[0] |= (uint32_t)(bits >> i & 1) << to, word[1] |= (uint32_t)(bits >> (32 + i) & 1) << to;
    }
}

/* The decisions of a tile: each thread draws for one query and the keys of one of the groups that compute. */
template <int COLS>
static __device__ __forceinline__ void decide_tile(const attention_args &a, const room<COLS> &m, const place &at, int first_query, int stage) {
    int thread = threadIdx.x - COMPUTERS, query = thread % QUERIES, group = thread / QUERIES, lane = threadIdx.x % WARP;
    uint32_t word[2], *to = reinterpret_cast<uint32_t *>(m.decisions(stage) + group * GROUP_KEYS + lane % 16 * 2 + lane / 16) + query / WARP;
    decide<COLS == 64 ? 2 : 1>(a, at, first_query + query, at.first_key + group * GROUP_KEYS, word);
    to[0] = turn_bits(word[0]);
    to[2 * WARP] = turn_bits(word[1]);
}

/* Begins to fetch the 64 queries from `query` on, their dctx and statistics. */
template <typename T, int COLS>
static __device__ __forceinline__ void fetch_queries(const attention_args &a, const room<COLS> &m, const place &at, int query, int stage) {
    typedef sizes<COLS> size;
    int64_t H = (int64_t)a.heads * a.width, first = at.begin + query;
    int thread = threadIdx.x - COMPUTERS, left = at.end - at.begin - query;
    uint32_t to = m.base + (uint32_t)(stage * size::QUERY_BYTES);
    copy_rows<T, COLS, QUERIES, GROUP>((const T *)a.qkv + first * 3 * H + at.head * a.width, 3 * H, a.width, left, to + size::QUERIES_AT,
                                       thread);
    copy_rows<T, COLS, QUERIES, GROUP>((const T *)a.dctx + first * H + at.head * a.width, H, a.width, left, to + size::DCTX_AT, thread);
    int row = thread % QUERIES;
    const float *statistic = a.statistic + (thread / QUERIES * a.heads + at.head) * a.rows + first;
    copy_4(shared_address(m.statistics(stage) + thread), row < left ? statistic + row : statistic, row < left);
}

template <typename T, int COLS>
static __device__ __forceinline__ void fetch_keys(const attention_args &a, const room<COLS> &m, const place &at, int stage) {
    typedef sizes<COLS> size;
    int64_t H = (int64_t)a.heads * a.width;
    const T *from = (const T *)a.qkv + at.first_key * 3 * H + H + at.head * a.width;
    uint32_t to = m.base + (uint32_t)(stage * size::KEY_BYTES);
    int thread = threadIdx.x - COMPUTERS;
    copy_rows<T, COLS, KEYS, GROUP>(from, 3 * H, a.width, at.end - at.first_key, to + size::KEYS_AT, thread);
    copy_rows<T, COLS, KEYS, GROUP>(from + H, 3 * H, a.width, at.end - at.first_key, to + size::VALUES_AT, thread);
    if (thread == 0) *m.tile(stage) = at;
}

/* What was fetched and decided is there for the groups that compute. */
static __device__ __forceinline__ void finish_fetching() {
    copy_wait<0>();
    show_to_matrix_units();
}

/* One head of one sequence. */
template <typename T, int COLS>
static __device__ __forceinline__ void fetch_head(const attention_args &a, const room<COLS> &m, place &at, ring<STAGES> &query,
                                                  ring<sizes<COLS>::KEY_STAGES> &key) {
    for (at.first_key = at.begin; at.first_key < at.end; at.first_key += KEYS, key.advance()) {
        wait_for(m.keys_empty(key.slot), key.lap ^ 1);
        fetch_keys<T>(a, m, at, key.slot);
        for (int first = 0; first < at.end - at.begin; first += QUERIES, query.advance()) {
            wait_for(m.empty(query.slot), query.lap ^ 1);
            fetch_queries<T>(a, m, at, first, query.slot);
            copy_commit();
            if (a.drop.threshold) decide_tile(a, m, at, first, query.slot);
            finish_fetching();
            if (first == 0) warp_arrives(m.keys_full(key.slot));
            warp_arrives(m.full(query.slot));
        }
    }
}

/* Heads of sequences, the first by the block's number, the others as blocks come for them; a place of no rows tells their end. */
template <typename T, int COLS> static __device__ __forceinline__ void fetch_all(const attention_args &a, const room<COLS> &m) {
    ring<STAGES> query = {0, 0};
    ring<sizes<COLS>::KEY_STAGES> key = {0, 0};
    int after = 0;
    for (int job = (int)blockIdx.x; job < a.n * a.heads; job = *m.next()) {
        int s = job / a.heads, head = job % a.heads;
        place at = a.order ? a.order[s] : place_of(a, s, 0);
        at.head = head;
        at.feature += (uint32_t)(head * a.max_len);
        if (threadIdx.x == COMPUTERS) after = atomicAdd(a.taken, 1) + (int)gridDim.x;
        fetch_head<T>(a, m, at, query, key);
        group_sync(1); /* all have read the number before */
        if (threadIdx.x == COMPUTERS) *m.next() = after;
        group_sync(1);
    }
    wait_for(m.keys_empty(key.slot), key.lap ^ 1);
    if (threadIdx.x == COMPUTERS) *m.tile(key.slot) = place{};
    warp_arrives(m.keys_full(key.slot));
}

/* ---- the warpgroups that compute ---- */

/* Scores (keys by queries) to weights before dropout. `statistic` [2, QUERIES]. */
static __device__ __forceinline__ void exponentiate(float (&score)[32], const float *statistic, float log2_scale) {
#pragma unroll
    for (int j = 0; j < 8; j++) {
        float2 two = *reinterpret_cast<const float2 *>(statistic + 8 * j + threadIdx.x % 4 * 2); /* of this query and the next */
#pragma unroll
        for (int i = 0; i < 4; i++) score[4 * j + i] = power_of_2(fmaf(score[4 * j + i], log2_scale, i % 2 ? -two.y : -two.x));
    }
}

/* Weights and gradients of weights after dropout to weights after dropout and gradients of scores, in place, both still to be multiplied by
 * dropout's scale. kept[h]: the decisions of the thread's two keys, so shifted that its first query's is bit 0. `left` keys exist from
 * the thread's first on. */
static __device__ __forceinline__ void differentiate(float (&score)[32], float (&dweight)[32], const float *statistic,
                                                     const uint2 (&kept)[2], int left) {
#pragma unroll
    for (int j = 0; j < 8; j++) {
        float2 two = *reinterpret_cast<const float2 *>(statistic + QUERIES + 8 * j + threadIdx.x % 4 * 2);
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float &s = score[4 * j + 2 * h + e], &d = dweight[4 * j + 2 * h + e], p = s;
                s = (j < 4 ? kept[h].x : kept[h].y) >> (j % 4 * 8 + e) & 1 ? p : 0.0f;
                d = fmaf(s, d, -p * (e ? two.y : two.x));
            }
    }
    if (__any_sync(0xFFFFFFFFu, left <= 8)) {
#pragma unroll
        for (int i = 0; i < 32; i++)
            if (i / 2 % 2 * 8 >= left) score[i] = dweight[i] = 0;
    }
}

/* Below, PLAIN: heads have all COLS columns and dqkv is overwritten, so that no column is looked at. A thread's columns are `column` and
 * the next, and those 8, 16, ... further; of its rows, the first and that 8 further, `left` exist from the first on. */

/* What earlier tiles of keys gave to row h of a tile's dq. */
template <bool PLAIN, int N>
static __device__ __forceinline__ void load_dq(const attention_args &a, const float *sum, int left, int column, int h,
                                               float2 (&before)[N]) {
    sum += (int64_t)8 * h * a.heads * a.width;
#pragma unroll
    for (int j = 0; j < N; j++)
        before[j] =
            left > 8 * h && (PLAIN || column + 8 * j < a.width) ? __ldcg(reinterpret_cast<const float2 *>(sum + 8 * j)) : make_float2(0, 0);
}
template <int N> static __device__ __forceinline__ void add_before(float (&dq)[4 * N], int h, const float2 (&before)[N]) {
#pragma unroll
    for (int j = 0; j < N; j++) dq[4 * j + 2 * h] += before[j].x, dq[4 * j + 2 * h + 1] += before[j].y;
}

/* Keeps this tile's part of dq, or adds it to what earlier tiles of keys gave. */
template <bool PLAIN, int N>
static __device__ __forceinline__ void add_dq(const attention_args &a, const float (&dq)[N], float *sum, int left, int column,
                                              int is_first) {
#pragma unroll
    for (int h = 0; h < 2; h++, sum += (int64_t)8 * a.heads * a.width) {
        if (left <= 8 * h) return;
        if (is_first) {
#pragma unroll
            for (int j = 0; j < N / 4; j++)
                if (PLAIN || column + 8 * j < a.width)
                    *reinterpret_cast<float2 *>(sum + 8 * j) = make_float2(dq[4 * j + 2 * h], dq[4 * j + 2 * h + 1]);
        } else {
#pragma unroll
            for (int j = 0; j < N / 4; j++)
                if (PLAIN || column + 8 * j < a.width) add_behind(sum + 8 * j, dq[4 * j + 2 * h], dq[4 * j + 2 * h + 1]);
        }
    }
}

/* Writes two rows of N / 4 groups of 8 columns: of dq (part 0), dk (1) or dv (2), the first of them row t. */
template <typename T, bool PLAIN, int N>
static __device__ __forceinline__ void write_rows(const attention_args &a, const place &at, int part, int t, int column,
                                                  const float (&d)[N], float factor) {
    int64_t H = (int64_t)a.heads * a.width;
    T *row = (T *)a.dqkv + t * 3 * H + part * H + at.head * a.width + column;
#pragma unroll
    for (int h = 0; h < 2; h++, row += 8 * 3 * H) {
        if (t + 8 * h >= at.end) return;
#pragma unroll
        for (int j = 0; j < N / 4; j++) {
            float value[2] = {d[4 * j + 2 * h] * factor, d[4 * j + 2 * h + 1] * factor};
            if (PLAIN) store<2>(row + 8 * j, value);
            else if (column + 8 * j < a.width) put<2>(row + 8 * j, value, a.add);
        }
    }
}

/* A tile of queries with a tile of keys, as the groups that compute come to it. */
template <int COLS> struct step {
    place at;
    int query; /* its first, counted in the sequence */
    ring<STAGES> stage;
    ring<sizes<COLS>::KEY_STAGES> key;
    uint32_t number; /* steps before it */
};

/* What one tile of 128 keys gathers, and the scores of the step at hand. */
template <int COLS> struct sums {
    float dk[COLS / 2], dv[COLS / 2], score[32], dweight[32];
};

template <typename T, int COLS> struct products {
    typedef sizes<COLS> size;
    const attention_args &a;
    const room<COLS> &m;
    uint32_t group; /* of the two: the same for a warp, and known to be */

    /* Begins a product of this warpgroup's keys or values and a step's queries or dctx, by where these lie: turned, keys by queries. */
    __device__ __forceinline__ void begin_turned(const step<COLS> &now, int keys_at, int queries_at, float (&to)[32]) const {
        uint32_t rows = group * (GROUP_KEYS * ROW_BYTES);
        uint32_t key = tile_at(m.base + (uint32_t)(keys_at + now.key.slot * size::KEY_BYTES) + rows),
                 query = tile_at(m.base + (uint32_t)(queries_at + now.stage.slot * size::QUERY_BYTES));
        wgmma_begin();
#pragma unroll
        for (int k = 0; k < COLS / 16; k++)
            wgmma<T>::template run<0, 0>(to, tile(key, k / 4 * size::KEY_PANEL + k % 4 * 32),
                                         tile(query, k / 4 * size::QUERY_PANEL + k % 4 * 32), k > 0);
        wgmma_commit();
    }
    __device__ __forceinline__ void begin_scores(const step<COLS> &now, float (&score)[32]) const {
        begin_turned(now, size::KEYS_AT, size::QUERIES_AT, score);
    }
    __device__ __forceinline__ void begin_dweights(const step<COLS> &now, float (&dweight)[32]) const {
        begin_turned(now, size::VALUES_AT, size::DCTX_AT, dweight);
    }
    /* Begins dv += weights^T dctx and dk += gradients of scores^T q: what the two factors hold. The first of a tile of keys sets them. */
    __device__ __forceinline__ void begin_key_sums(const step<COLS> &now, const uint32_t (&weight)[4][4], const uint32_t (&slope)[4][4],
                                                   float (&dk)[COLS / 2], float (&dv)[COLS / 2]) const {
        uint32_t stage = m.base + (uint32_t)(now.stage.slot * size::QUERY_BYTES);
        uint32_t query = tile_at(stage + size::QUERIES_AT, size::QUERY_PANEL), dctx = tile_at(stage + size::DCTX_AT, size::QUERY_PANEL);
        wgmma_begin();
#pragma unroll
        for (int k = 0; k < 4; k++) wgmma<T>::template run<1>(dv, weight[k], tile(dctx, k * 16 * ROW_BYTES), k > 0 || now.query);
#pragma unroll
        for (int k = 0; k < 4; k++) wgmma<T>::template run<1>(dk, slope[k], tile(query, k * 16 * ROW_BYTES), k > 0 || now.query);
        wgmma_commit();
    }
    /* Begins dq = gradients of scores * k of a step, for half of the head's columns. */
    __device__ __forceinline__ void begin_dq(const step<COLS> &of, float (&dq)[COLS / 4]) const {
        uint32_t slope = tile_at(m.base + size::SLOPES_AT + of.number % 2 * size::SLOPE_BYTES),
                 key = tile_at(m.base + size::KEYS_AT + (uint32_t)(of.key.slot * size::KEY_BYTES) +
                               group * (COLS == 64 ? 64 : size::KEY_PANEL));
        wgmma_begin();
#pragma unroll
        for (int k = 0; k < KEYS / 16; k++)
            wgmma<T>::template run<1, 1>(dq, tile(slope, k * 16 * ROW_BYTES), tile(key, k * 16 * ROW_BYTES), k > 0);
        wgmma_commit();
    }
    /* Until both groups have formed their gradients of scores of a step. */
    __device__ __forceinline__ void wait_for_slopes(const step<COLS> &of) const {
        wait_for(m.slopes_full(of.number), of.number / 2 % 2);
    }
    /* Gradients of scores of this warp's 16 keys, for both groups: into [keys, queries] of shared memory, when nobody reads those of two
     * steps before any more. */
    __device__ __forceinline__ void share(const step<COLS> &now, const uint32_t (&slope)[4][4]) const {
        int lane = threadIdx.x % WARP, row = threadIdx.x / WARP * 16 + lane % 16, piece = lane / 16;
        wait_for(m.slopes_empty(now.number), (now.number / 2 + 1) % 2);
#pragma unroll
        for (int k = 0; k < 4; k++)
            store_matrices(m.base + size::SLOPES_AT + now.number % 2 * size::SLOPE_BYTES + piece_at(row, 2 * k + piece), slope[k]);
        show_to_matrix_units();
        warp_arrives(m.slopes_full(now.number));
    }
    /* Goes on to the next step, when its tiles are there; `now.at` has no rows at the end. */
    __device__ __forceinline__ void go_on(step<COLS> &now) const {
        now.number++, now.stage.advance(), now.query += QUERIES;
        if (now.at.begin + now.query >= now.at.end) now.key.advance(), begin_keys(now);
        else wait_for(m.full(now.stage.slot), now.stage.lap);
    }
    __device__ __forceinline__ void begin_keys(step<COLS> &now) const {
        wait_for(m.keys_full(now.key.slot), now.key.lap);
        now.at = *m.tile(now.key.slot), now.query = 0;
        if (now.at.begin < now.at.end) wait_for(m.full(now.stage.slot), now.stage.lap);
    }
};

/* Where a thread's part of a step's dq lies: its first row and column; rows left from there on; its sum over tiles of keys. */
typedef struct dq_part {
    int row, column, left;
    float *sum;
} dq_part;

template <int COLS> static __device__ __forceinline__ dq_part dq_part_of(const attention_args &a, const step<COLS> &of) {
    dq_part part;
    int lane = threadIdx.x % WARP;
    part.row = of.at.begin + of.query + threadIdx.x % GROUP / WARP * 16 + lane / 4;
    part.column = threadIdx.x / GROUP * COLS / 2 + lane % 4 * 2;
    part.left = of.at.end - part.row;
    part.sum = a.dq + ((int64_t)part.row * a.heads + of.at.head) * a.width + part.column;
    return part;
}

/* With the last of several tiles of keys, what those before gave to a step's dq: sooner than it is needed, where registers allow. */
template <bool PLAIN, int COLS>
static __device__ __forceinline__ void get_dq(const attention_args &a, const step<COLS> &of, float2 (&before)[2][COLS / 16]) {
    if (of.at.first_key == of.at.begin || of.at.first_key + KEYS < of.at.end) return;
    dq_part part = dq_part_of(a, of);
#pragma unroll
    for (int h = 0; h < 2; h++) load_dq<PLAIN>(a, part.sum, part.left, part.column, h, before[h]);
}

/* Adds a step's dq to its sum; with the last tile of keys writes it. `before` is what get_dq got. */
template <typename T, bool PLAIN, int COLS>
static __device__ __forceinline__ void put_dq(const attention_args &a, const step<COLS> &of, float (&dq)[COLS / 4],
                                              float2 (&before)[2][COLS / 16]) {
    dq_part part = dq_part_of(a, of);
    int is_first = of.at.first_key == of.at.begin;
    if (of.at.first_key + KEYS >= of.at.end) {
#pragma unroll
        for (int h = 0; h < 2 && !is_first; h++) {
            if (COLS != 64) load_dq<PLAIN>(a, part.sum, part.left, part.column, h, before[h]);
            add_before(dq, h, before[h]);
        }
        write_rows<T, PLAIN>(a, of.at, 0, part.row, part.column, dq, a.scale * a.drop.scale);
    } else add_dq<PLAIN>(a, dq, part.sum, part.left, part.column, is_first);
}

/* The sums of a tile of keys, when they are complete; `slot` is where it lay. Its values are no longer needed: rows pass through there. */
template <typename T, bool PLAIN, int COLS>
static __device__ __forceinline__ void put_key_sums(const attention_args &a, const room<COLS> &m, const place &at, int slot,
                                                    const sums<COLS> &of) {
    int t = at.first_key + (int)threadIdx.x / WARP * 16;
    float key_factor = a.scale * a.drop.scale, value_factor = a.drop.scale;
    if constexpr (PLAIN) {
        uint32_t values = m.base + sizes<COLS>::VALUES_AT + (uint32_t)(slot * sizes<COLS>::KEY_BYTES) + threadIdx.x / WARP * (16 * ROW_BYTES);
        int64_t H = (int64_t)a.heads * a.width;
        T *to = (T *)a.dqkv + t * 3 * H + H + at.head * a.width;
        write_whole_rows(of.dk, {key_factor, key_factor}, values, to, 3 * H, at.end - t);
        write_whole_rows(of.dv, {value_factor, value_factor}, values, to + H, 3 * H, at.end - t);
    } else {
        t += threadIdx.x % WARP / 4;
        write_rows<T, PLAIN>(a, at, 1, t, threadIdx.x % 4 * 2, of.dk, key_factor);
        write_rows<T, PLAIN>(a, at, 2, t, threadIdx.x % 4 * 2, of.dv, value_factor);
    }
}

/* From the scores of a step and the gradients of its weights to its factors: weights after dropout and gradients of scores. The latter
 * product may be under way still, and LEFT more begun after it. */
template <typename T, int COLS, int LEFT>
static __device__ __forceinline__ void form_factors(const products<T, COLS> &w, const step<COLS> &now, sums<COLS> &to,
                                                    uint32_t (&weight)[4][4], uint32_t (&slope)[4][4]) {
    int lane = threadIdx.x % WARP, row = threadIdx.x / WARP * 16 + lane / 4; /* the thread's first key in the tile */
    const float *statistic = w.m.statistics(now.stage.slot);
    uint2 kept[2] = {make_uint2(~0u, ~0u), make_uint2(~0u, ~0u)};
    if (w.a.drop.threshold)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            uint2 bits = w.m.decisions(now.stage.slot)[row + 8 * h];
            kept[h] = make_uint2(bits.x >> lane % 4 * 2, bits.y >> lane % 4 * 2);
        }
    exponentiate(to.score, statistic, w.a.scale * 1.44269504f);
    wgmma_wait<LEFT>();
    pin(to.dweight);
    differentiate(to.score, to.dweight, statistic, kept, now.at.end - now.at.first_key - row);
#pragma unroll
    for (int k = 0; k < 4; k++) as_factor<T>(to.score, k, weight[k]), as_factor<T>(to.dweight, k, slope[k]);
}

/* All steps, for heads of up to 64 columns: products of a step run on while the next is computed. dq of a step is formed in the next, so
 * that the two groups need not keep pace. */
template <typename T, bool PLAIN> static __device__ __forceinline__ void compute_all(const attention_args &a, const room<64> &m) {
    products<T, 64> w = {a, m, __shfl_sync(0xFFFFFFFFu, threadIdx.x / GROUP, 0)};
    step<64> now = {}, before = {};
    sums<64> to;
    float dq[16];
    float2 dq_before[2][4];
    w.begin_keys(now);
    w.begin_scores(now, to.score);
    while (now.at.begin < now.at.end) {
        uint32_t weight[4][4], slope[4][4];
        wgmma_wait<0>();
        pin(to.score);
        pin(to.dk);
        pin(to.dv);
        w.begin_dweights(now, to.dweight);
        if (now.number) {
            warp_arrives(m.empty(before.stage.slot));
            get_dq<PLAIN>(a, before, dq_before);
            w.wait_for_slopes(before);
        }
        w.begin_dq(before, dq); /* of the first step there is none: nobody takes it */
        if (now.number && now.query == 0) put_key_sums<T, PLAIN>(a, m, before.at, before.key.slot, to);
        form_factors<T, 64, 1>(w, now, to, weight, slope);
        wgmma_wait<0>();
        pin(dq);
        if (now.number) {
            warp_arrives(m.slopes_empty(before.number));
            if (now.query == 0) warp_arrives(m.keys_empty(before.key.slot));
        }
        w.share(now, slope);
        w.begin_key_sums(now, weight, slope, to.dk, to.dv);
        step<64> next = now;
        w.go_on(next);
        w.begin_scores(next, to.score); /* after the last step of what is there: nobody takes them */
        if (now.number) put_dq<T, PLAIN>(a, before, dq, dq_before);
        before = now, now = next;
    }
    wgmma_wait<0>();
    pin(to.score);
    pin(to.dk);
    pin(to.dv);
    if (!now.number) return;
    w.wait_for_slopes(before);
    w.begin_dq(before, dq);
    get_dq<PLAIN>(a, before, dq_before);
    wgmma_wait<0>();
    pin(dq);
    put_dq<T, PLAIN>(a, before, dq, dq_before);
    put_key_sums<T, PLAIN>(a, m, before.at, before.key.slot, to);
}

/* The same for heads of up to 128 columns, which leave no registers for two steps at a time. */
template <typename T, bool PLAIN> static __device__ __forceinline__ void compute_all(const attention_args &a, const room<128> &m) {
    products<T, 128> w = {a, m, __shfl_sync(0xFFFFFFFFu, threadIdx.x / GROUP, 0)};
    step<128> now = {};
    sums<128> to;
    for (w.begin_keys(now); now.at.begin < now.at.end; w.go_on(now)) {
        uint32_t weight[4][4], slope[4][4];
        float dq[32];
        float2 dq_before[2][8];
        w.begin_scores(now, to.score);
        w.begin_dweights(now, to.dweight);
        wgmma_wait<1>();
        pin(to.score);
        form_factors<T, 128, 0>(w, now, to, weight, slope);
        w.share(now, slope);
        w.begin_key_sums(now, weight, slope, to.dk, to.dv);
        w.wait_for_slopes(now);
        w.begin_dq(now, dq);
        wgmma_wait<0>();
        pin(dq);
        pin(to.dk);
        pin(to.dv);
        warp_arrives(m.slopes_empty(now.number));
        warp_arrives(m.empty(now.stage.slot));
        put_dq<T, PLAIN>(a, now, dq, dq_before);
        if (now.at.begin + now.query + QUERIES < now.at.end) continue;
        warp_arrives(m.keys_empty(now.key.slot));
        put_key_sums<T, PLAIN>(a, m, now.at, now.key.slot, to);
    }
}
#endif

template <typename T, int COLS, bool PLAIN> static __global__ void __launch_bounds__(THREADS, 1) flash_din_kernel(attention_args a) {
#if TRI_HOPPER
    extern __shared__ char raw[];
    uint32_t unaligned = shared_address(raw), base = (unaligned + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES;
    room<COLS> m = {raw + (base - unaligned), base};
    if (threadIdx.x == 0) m.init();
    __syncthreads();
    if (threadIdx.x >= COMPUTERS) {
        fewer_registers<sizes<COLS>::FETCH_REGISTERS>();
        fetch_all<T>(a, m);
    } else {
        more_registers<sizes<COLS>::COMPUTE_REGISTERS>();
        compute_all<T, PLAIN>(a, m);
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

/* Rows of no sequence get 0: 8 columns of a head. */
template <typename T> static __device__ __forceinline__ void clear_piece(const attention_args &a, int64_t t, uint32_t head, int piece) {
    float zero[WIDE] = {};
    T *to = (T *)a.dqkv + (t * 3 * a.heads + head) * a.width + piece * WIDE;
    for (int part = 0; part < 3; part++) store<WIDE>(to + (int64_t)part * a.heads * a.width, zero);
}

/* The statistics of some rows and heads, by COLS / 8 threads each. */
template <typename T, int COLS> static __device__ __forceinline__ void form_statistics(const attention_args &a, int64_t block) {
    enum { PIECES = COLS / WIDE };
    uint32_t i = (uint32_t)((block * THREADS + threadIdx.x) / PIECES), heads = (uint32_t)a.heads, t = i / heads, all = (uint32_t)a.rows * heads;
    int piece = threadIdx.x % PIECES;
    float sum = 0;
    if (i < all && piece * WIDE < a.width) {
        float x[WIDE], y[WIDE];
        int64_t at = (int64_t)i * a.width + piece * WIDE;
        load<WIDE>((const T *)a.dctx + at, x), load<WIDE>((const T *)a.ctx + at, y);
#pragma unroll
        for (int k = 0; k < WIDE; k++) sum = fmaf(x[k], y[k], sum);
    }
#pragma unroll
    for (int lane = PIECES / 2; lane; lane /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, lane);
    if (i < all && (int)t >= a.seq[a.n] && !a.add && piece * WIDE < a.width) clear_piece<T>(a, t, i % heads, piece);
    if (piece || i >= all) return;
    float *statistic = a.statistic + i % heads * a.rows + t;
    statistic[0] = a.lse[i] * 1.44269504f;
    statistic[a.heads * a.rows] = sum / a.drop.scale;
}

/* What the gradient's kernel reads beside the operands: block 0 the order and the count, the others statistics. */
template <typename T, int COLS> static __global__ void __launch_bounds__(THREADS) prepare_kernel(attention_args a) {
    if (blockIdx.x) form_statistics<T, COLS>(a, blockIdx.x - 1);
    else if (a.order) rank_sequences(a);
    if (blockIdx.x == 0 && threadIdx.x == 0) *a.taken = 0;
}

template <typename T, int COLS> static void launch(const tri_call *call, attention_args a) {
    /* Heads of 128 columns have no registers for what it keeps: it spilled more and was slower. */
    auto *kernel = flash_din_kernel<T, COLS, false>;
    int processors = 1;
    if (COLS == 64 && a.width == COLS && !a.add) kernel = flash_din_kernel<T, COLS, COLS == 64>;
    if (a.n > MOST_ORDERED) a.order = NULL;
    a.mask = mask_keys_of(a.drop);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, tri__cuda(call)->device);
    prepare_kernel<T, COLS><<<1 + blocks_for(a.rows * a.heads * COLS / WIDE, THREADS), THREADS, 0, stream(call)>>>(a);
    record(call, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizes<COLS>::ALL), "attention_din");
    if (a.n > 0) kernel<<<(unsigned)min(processors, a.n * a.heads), THREADS, sizes<COLS>::ALL, stream(call)>>>(a);
    launched(call, "attention_din");
}

int tri__cuda_flash_din(const tri_call *call, const attention_args *a) {
    int dtype = call->dtype[0];
    if (!flash_fits(call, a, dtype)) return 0;
    if (dtype == TRI_BF16) a->width <= 64 ? launch<bf16, 64>(call, *a) : launch<bf16, 128>(call, *a);
    else a->width <= 64 ? launch<f16, 64>(call, *a) : launch<f16, 128>(call, *a);
    return 1;
}
