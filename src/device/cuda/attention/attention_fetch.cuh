/* attention_fetch.cuh - shared by the warpgroups of attention's gradient (attention_backward.cu): their roles, the
 * layout of shared memory, their steps, and the group that fetches tiles and draws dropout decisions. */
#pragma once

#include "device/cuda/attention/attention_mask.cuh"
#include "device/cuda/product/groups.cuh"

enum {
    GROUP = 128,
    QUERIES = 64,
    KEYS = 128,
    GROUP_KEYS = 64,
    WARPS = GROUP / WARP,
};

/* Roles of the warpgroups: two compute. Heads of up to 64 columns leave registers for a third that computes dq. The
 * last fetches. */
template <int COLS> struct roles {
    enum {
        DQ_GROUP = 2,
        FETCH_GROUP = COLS == 64 ? 3 : 2,
        THREADS = (FETCH_GROUP + 1) * GROUP,
        DQ_APART = FETCH_GROUP != DQ_GROUP,
        DECIDERS = 1 + DQ_APART, /* groups that draw decisions */
        COMPUTE_REGISTERS = COLS == 64 ? 176 : 232, /* per thread; at most 65536 in total */
        DQ_REGISTERS = 96,
        FETCH_REGISTERS = COLS == 64 ? 64 : 40,
    };
};

template <int COLS> struct sizes { /* layout of shared memory: bytes and offsets */
    enum {
        STAGES = 3,                      /* tiles of queries there at a time */
        KEY_STAGES = COLS == 64 ? 3 : 1, /* tiles of keys */
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
        OWN_SUMS_AT = STATISTICS_AT + STAGES * STATISTIC_BYTES,
        OWN_SUMS = COLS == 64 ? 3 * GROUP : 3 * 2 * GROUP, /* fours of numbers */
        DQ_ROWS_AT = (OWN_SUMS_AT + OWN_SUMS * 16 + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES, /* on their way */
        PLACES_AT = DQ_ROWS_AT + QUERY_BYTES,
        BARRIERS_AT = PLACES_AT + KEY_STAGES * (int)sizeof(attention_place),
        NEXT_AT = BARRIERS_AT + (2 * STAGES + 2 * KEY_STAGES + 4) * 8,
        ALL = NEXT_AT + 8 + ATOM_BYTES, /* and padding to align */
    };
};

[[maybe_unused]] static __device__ __forceinline__ attention_place place_of(const attention_args &a, int s, int head) {
    attention_place at = {head, a.seq[s], a.seq[s + 1], a.seq[s], 0, 0, 0, s};
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
    __device__ __forceinline__ uint32_t empty(int stage) const { return full(size::STAGES + stage); }
    __device__ __forceinline__ uint32_t keys_full(int stage) const { return full(2 * size::STAGES + stage); }
    __device__ __forceinline__ uint32_t keys_empty(int stage) const {
        return full(2 * size::STAGES + size::KEY_STAGES + stage);
    }
    __device__ __forceinline__ uint32_t slopes_full(uint32_t tile) const {
        return full(2 * size::STAGES + 2 * size::KEY_STAGES) + tile % 2 * 8;
    }
    __device__ __forceinline__ uint32_t slopes_empty(uint32_t tile) const { return slopes_full(tile) + 2 * 8; }
    /* [KEYS, 2]: a key's bits for queries 0 to 31, and 32 to 63 */
    __device__ __forceinline__ uint2 *decisions(int stage) const {
        return reinterpret_cast<uint2 *>(memory + size::DECISIONS_AT + stage * size::DECISION_BYTES);
    }
    /* The same as words of layout/mask_bits.h, where they are kept: [KEYS / 64, QUERIES / 16, 32] */
    __device__ __forceinline__ uint32_t bits(int stage) const {
        return base + size::DECISIONS_AT + (uint32_t)(stage * size::DECISION_BYTES);
    }
    __device__ __forceinline__ float *statistics(int stage) const { /* [2, QUERIES] */
        return reinterpret_cast<float *>(memory + size::STATISTICS_AT + stage * size::STATISTIC_BYTES);
    }
    /* Private to each thread that writes gradients: its sums over the rows of a head so far, of `which` columns. */
    __device__ __forceinline__ float4 *own_sums(int which) const {
        return reinterpret_cast<float4 *>(memory + size::OWN_SUMS_AT) + which * (2 * GROUP) + threadIdx.x;
    }
    /* Rows of dq that a warp stages: of 64 columns, by which group of two writes them. */
    __device__ __forceinline__ uint32_t dq_rows(uint32_t part) const {
        return base + size::DQ_ROWS_AT + part * size::QUERY_PANEL + threadIdx.x % GROUP / WARP * (16 * ROW_BYTES);
    }
    __device__ __forceinline__ attention_place *tile(int stage) const {
        return reinterpret_cast<attention_place *>(memory + size::PLACES_AT) + stage;
    }
    __device__ __forceinline__ int *next() const { return reinterpret_cast<int *>(memory + size::NEXT_AT); }

    __device__ __forceinline__ void init(bool draws) const {
        typedef roles<COLS> role;
        for (int i = 0; i < size::STAGES; i++)
            barrier_init(full(i), (draws ? role::DECIDERS : 1) * GROUP), barrier_init(empty(i), 2 * GROUP);
        for (int i = 0; i < size::KEY_STAGES; i++)
            barrier_init(keys_full(i), GROUP), barrier_init(keys_empty(i), (2 + role::DQ_APART) * GROUP);
        for (int i = 0; i < 2; i++)
            barrier_init(slopes_full(i), 2 * GROUP), barrier_init(slopes_empty(i), (role::DQ_APART ? 1 : 2) * GROUP);
    }
};

/* A tile of queries with a tile of keys, in the order in which groups process them. */
template <int COLS> struct step {
    attention_place at;
    int query; /* its first, relative to the sequence */
    ring<sizes<COLS>::STAGES> stage;
    ring<sizes<COLS>::KEY_STAGES> key;
    uint32_t number; /* number of steps before it */

    __device__ __forceinline__ bool exists() const { return at.begin < at.end; }
    __device__ __forceinline__ bool begins_keys() const { return query == 0; }
    __device__ __forceinline__ bool ends_keys() const { return at.begin + query + QUERIES >= at.end; }
    /* Advances; when new keys begin, `at` is still that of the previous step. */
    __device__ __forceinline__ void advance() {
        if (ends_keys()) key.advance(), query = 0;
        else query += QUERIES;
        number++, stage.advance();
    }
    /* Reads the step's position, once its keys have arrived; at the end `at` has no rows. */
    __device__ __forceinline__ void look(const room<COLS> &m) {
        if (!begins_keys()) return;
        wait_for(m.keys_full(key.slot), key.lap);
        at = *m.tile(key.slot);
    }
};

/* Decisions of a step, for its keys from `first` on: each thread draws for one query and 32 keys, or for 128 keys twice
 * 32. */
template <int COLS, int NUMBER>
static __device__ __forceinline__ void decide_step(const attention_args &a, const mask_start &start,
                                                   const room<COLS> &m, const attention_place &at, int first_query,
                                                   int stage, int first) {
    int thread = threadIdx.x % GROUP, query = thread % QUERIES, lane = threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < NUMBER / (2 * WARP); i++) {
        int key = first + (2 * i + thread / QUERIES) * WARP;
        uint32_t word = decide_keys(a, start, at, first_query + query, at.first_key + key);
        uint32_t *to = reinterpret_cast<uint32_t *>(m.decisions(stage) + key + lane % 16 * 2 + lane / 16);
        to[query / WARP] = turn_bits(word);
    }
}

/* Begins to fetch the 64 queries from `query` on, their dctx and statistics. */
template <typename T, int COLS, bool KEPT>
static __device__ __forceinline__ void fetch_queries(const attention_args &a, const room<COLS> &m,
                                                     const attention_place &at, int query, int stage) {
    typedef sizes<COLS> size;
    int64_t H = (int64_t)a.heads * a.width, first = at.begin + query;
    int thread = threadIdx.x % GROUP, left = at.end - at.begin - query;
    uint32_t to = m.base + (uint32_t)(stage * size::QUERY_BYTES);
    copy_rows<T, COLS, QUERIES, GROUP>((const T *)a.qkv + first * 3 * H + at.head * a.width, 3 * H, a.width, left,
                                       to + size::QUERIES_AT, thread);
    copy_rows<T, COLS, QUERIES, GROUP>((const T *)a.dctx + first * H + at.head * a.width, H, a.width, left,
                                       to + size::DCTX_AT, thread);
    int row = thread % QUERIES;
    const float *statistic = a.statistic + (thread / QUERIES * a.heads + at.head) * a.rows + first;
    copy_4(shared_address(m.statistics(stage) + thread), row < left ? statistic + row : statistic, row < left);
    if (KEPT && thread < size::DECISION_BYTES / 16) {
        int tile = thread / 32, granule = thread / 8 % 4; /* of the 2 and 4 in the step, if they exist */
        int exists = granule * TRI_MASK_QUERIES < left && at.first_key + tile * TRI_MASK_KEYS < at.end;
        if (!exists) tile = granule = 0;
        const uint32_t *words = bits_at(a, granule_of(at.sequence, at.begin, (int)first) + granule, at.head,
                                        (at.first_key - at.begin) / TRI_MASK_KEYS + tile);
        copy_16(m.bits(stage) + (uint32_t)thread * 16, words + thread % 8 * 4, exists);
    }
}

template <typename T, int COLS>
static __device__ __forceinline__ void fetch_keys(const attention_args &a, const room<COLS> &m,
                                                  const attention_place &at, int stage) {
    typedef sizes<COLS> size;
    int64_t H = (int64_t)a.heads * a.width;
    const T *from = (const T *)a.qkv + at.first_key * 3 * H + H + at.head * a.width;
    uint32_t to = m.base + (uint32_t)(stage * size::KEY_BYTES);
    int thread = threadIdx.x % GROUP;
    copy_rows<T, COLS, KEYS, GROUP>(from, 3 * H, a.width, at.end - at.first_key, to + size::KEYS_AT, thread);
    copy_rows<T, COLS, KEYS, GROUP>(from + H, 3 * H, a.width, at.end - at.first_key, to + size::VALUES_AT, thread);
    if (thread == 0) *m.tile(stage) = at;
}

/* One head of one sequence. */
template <typename T, int COLS, bool KEPT>
static __device__ __forceinline__ void fetch_head(const attention_args &a, const mask_start &start, const room<COLS> &m,
                                                  attention_place &at, ring<sizes<COLS>::STAGES> &stage,
                                                  ring<sizes<COLS>::KEY_STAGES> &key) {
    for (at.first_key = at.begin; at.first_key < at.end; at.first_key += KEYS, key.advance()) {
        wait_for(m.keys_empty(key.slot), key.lap ^ 1);
        fetch_keys<T>(a, m, at, key.slot);
        for (int query = 0; query < at.end - at.begin; query += QUERIES, stage.advance()) {
            wait_for(m.empty(stage.slot), stage.lap ^ 1);
            fetch_queries<T, COLS, KEPT>(a, m, at, query, stage.slot);
            copy_commit();
            if (!KEPT && a.drop.threshold)
                decide_step<COLS, KEYS / roles<COLS>::DECIDERS>(a, start, m, at, query, stage.slot, 0);
            copy_wait<0>();
            show_to_matrix_units();
            if (query == 0) arrive(m.keys_full(key.slot));
            arrive(m.full(stage.slot));
        }
    }
}

/* Heads of sequences: the first by block index, the others dynamically; a place without rows marks the end. */
template <typename T, int COLS, bool KEPT>
static __device__ __forceinline__ void fetch_all(const attention_args &a, const room<COLS> &m) {
    mask_start start = mask_start_of(a.drop);
    ring<sizes<COLS>::STAGES> stage = {0, 0};
    ring<sizes<COLS>::KEY_STAGES> key = {0, 0};
    int after = 0;
    for (int job = (int)blockIdx.x; job < a.n * a.heads; job = *m.next()) {
        int s = job / a.heads, head = job % a.heads;
        attention_place at = a.order ? a.order[s] : place_of(a, s, 0);
        at.head = head;
        at.feature += (uint32_t)(head * a.max_len);
        if (threadIdx.x % GROUP == 0) after = atomicAdd(a.taken, 1) + (int)gridDim.x;
        fetch_head<T, COLS, KEPT>(a, start, m, at, stage, key);
        group_sync(1); /* all threads have read the previous number */
        if (threadIdx.x % GROUP == 0) *m.next() = after;
        group_sync(1);
    }
    wait_for(m.keys_empty(key.slot), key.lap ^ 1);
    if (threadIdx.x % GROUP == 0) *m.tile(key.slot) = attention_place{};
    arrive(m.keys_full(key.slot));
}
#endif
