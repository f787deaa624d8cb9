/* attention_backward.cu - the gradient of attention on Hopper's tensor cores. Blocks are persistent: each processes
 * many heads of sequences, the keys 128 at a time, and for each such tile the queries, 64 at a time (a step). One
 * warpgroup fetches tiles and draws dropout decisions; two compute, 64 keys each. Scores are transposed (keys by
 * queries), so that weights and their gradients are register operands of the products for dv and dk; those of dq go
 * through shared memory, since dq needs the gradients of both groups. If registers allow, a fourth group computes dq,
 * and draws half of the decisions. dq is accumulated over the tiles of keys in scratch space by the same threads in the
 * same order: the order of additions is fixed, and results are bitwise reproducible. If sums over output rows are
 * requested, each warp that writes computes a partial sum of a head. */
#include "device/cuda/attention/attention_bytes.cuh"
#include "device/cuda/attention/attention_fetch.cuh"
#include "device/cuda/attention/attention_slopes.cuh"

typedef attention_place place;

/* How dqkv is written. PLAIN: heads have all COLS columns and dqkv is overwritten, so that columns need no bounds
 * checks. BYTES: the same, in 8 bits alone. */
enum { ANY, PLAIN, BYTES };

#if TRI_HOPPER
/* A thread's columns are `column` and the next, and those 8, 16, ... further; its rows are the first and the one 8
 * further; `left` rows exist from the first on. */

/* The sum of earlier key tiles for row h of a tile's dq. */
template <int OUT, int N>
static __device__ __forceinline__ void load_dq(const attention_args &a, const float *sum, int left, int column, int h,
                                               float2 (&before)[N]) {
    sum += (int64_t)8 * h * a.heads * a.width;
#pragma unroll
    for (int j = 0; j < N; j++)
        before[j] = left > 8 * h && (OUT != ANY || column + 8 * j < a.width)
                        ? __ldcg(reinterpret_cast<const float2 *>(sum + 8 * j))
                        : make_float2(0, 0);
}
template <int N>
static __device__ __forceinline__ void add_before(float (&dq)[4 * N], int h, const float2 (&before)[N]) {
#pragma unroll
    for (int j = 0; j < N; j++) dq[4 * j + 2 * h] += before[j].x, dq[4 * j + 2 * h + 1] += before[j].y;
}

/* Stores this tile's part of dq, or adds it to the sum of earlier key tiles. */
template <int OUT, int N>
static __device__ __forceinline__ void add_dq(const attention_args &a, const float (&dq)[N], float *sum, int left,
                                              int column, int is_first) {
#pragma unroll
    for (int h = 0; h < 2; h++, sum += (int64_t)8 * a.heads * a.width) {
        if (left <= 8 * h) return;
        if (is_first) {
#pragma unroll
            for (int j = 0; j < N / 4; j++)
                if (OUT != ANY || column + 8 * j < a.width)
                    *reinterpret_cast<float2 *>(sum + 8 * j) = make_float2(dq[4 * j + 2 * h], dq[4 * j + 2 * h + 1]);
        } else {
#pragma unroll
            for (int j = 0; j < N / 4; j++)
                if (OUT != ANY || column + 8 * j < a.width)
                    add_behind(sum + 8 * j, dq[4 * j + 2 * h], dq[4 * j + 2 * h + 1]);
        }
    }
}

/* Writes two rows of N / 4 groups of 8 columns: of dq (part 0), dk (1) or dv (2); the first is row t. */
template <typename T, int OUT, int N>
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
            if (OUT == PLAIN) store<2>(row + 8 * j, value);
            else if (column + 8 * j < a.width) put<2>(row + 8 * j, value, a.add);
        }
    }
}

/* Adds the sums of two lanes whose numbers differ in the bit `step`: the lane with the bit set keeps those of the upper
 * half. */
template <int N> static __device__ __forceinline__ void exchange(const float (&x)[2 * N], int step, float (&to)[N]) {
    bool upper = threadIdx.x & step;
#pragma unroll
    for (int k = 0; k < N; k++) {
        float given = __shfl_xor_sync(0xFFFFFFFFu, upper ? x[k] : x[N + k], step);
        to[k] = (upper ? x[N + k] : x[k]) + given;
    }
}

/* Accumulators of one tile of 128 keys, and the scores of the current step. */
template <int COLS> struct sums {
    float dk[COLS / 2], dv[COLS / 2], score[32], dweight[32];
};

template <typename T, int COLS> struct products {
    typedef sizes<COLS> size;
    const attention_args &a;
    const room<COLS> &m;
    uint32_t group; /* which of the two; warp-uniform, and known to the compiler as such */

    /* Begins a product of this warpgroup's keys or values and a step's queries or dctx, given their positions:
     * transposed, keys by queries. */
    __device__ __forceinline__ void begin_transposed(const step<COLS> &now, int keys_at, int queries_at,
                                                     float (&to)[32]) const {
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
        begin_transposed(now, size::KEYS_AT, size::QUERIES_AT, score);
    }
    __device__ __forceinline__ void begin_dweights(const step<COLS> &now, float (&dweight)[32]) const {
        begin_transposed(now, size::VALUES_AT, size::DCTX_AT, dweight);
    }
    /* Begins dv += weights^T dctx and dk += gradients of scores^T q, with the two factors in registers. The first
     * product of a key tile overwrites. */
    __device__ __forceinline__ void begin_key_sums(const step<COLS> &now, const uint32_t (&weight)[4][4],
                                                   const uint32_t (&slope)[4][4], float (&dk)[COLS / 2],
                                                   float (&dv)[COLS / 2]) const {
        uint32_t stage = m.base + (uint32_t)(now.stage.slot * size::QUERY_BYTES);
        uint32_t query = tile_at(stage + size::QUERIES_AT, size::QUERY_PANEL),
                 dctx = tile_at(stage + size::DCTX_AT, size::QUERY_PANEL);
        wgmma_begin();
#pragma unroll
        for (int k = 0; k < 4; k++)
            wgmma<T>::template run<1>(dv, weight[k], tile(dctx, k * 16 * ROW_BYTES), k > 0 || now.query);
#pragma unroll
        for (int k = 0; k < 4; k++)
            wgmma<T>::template run<1>(dk, slope[k], tile(query, k * 16 * ROW_BYTES), k > 0 || now.query);
        wgmma_commit();
    }
    /* Stores gradients of scores of this warp's 16 keys, for both groups, in [keys, queries] of shared memory, once
     * those of two steps before have been read. */
    __device__ __forceinline__ void share(const step<COLS> &now, const uint32_t (&slope)[4][4]) const {
        int lane = threadIdx.x % WARP, row = threadIdx.x / WARP * 16 + lane % 16, piece = lane / 16;
        wait_for(m.slopes_empty(now.number), (now.number / 2 + 1) % 2);
#pragma unroll
        for (int k = 0; k < 4; k++)
            store_matrices(m.base + size::SLOPES_AT + now.number % 2 * size::SLOPE_BYTES + piece_at(row, 2 * k + piece),
                           slope[k]);
        show_to_matrix_units();
        arrive(m.slopes_full(now.number));
    }
};

/* Advances to the next step, once its tiles have arrived. */
template <int COLS> static __device__ __forceinline__ void go_on(const room<COLS> &m, step<COLS> &now) {
    now.look(m);
    if (now.exists()) wait_for(m.full(now.stage.slot), now.stage.lap);
}

/* Begins dq = gradients of scores * k of a step, for 64 of the head's columns, once both groups have computed those
 * gradients. */
template <typename T, int COLS>
static __device__ __forceinline__ void begin_dq(const room<COLS> &m, const step<COLS> &of, uint32_t part,
                                                float (&dq)[32]) {
    typedef sizes<COLS> size;
    uint32_t slope = tile_at(m.base + size::SLOPES_AT + of.number % 2 * size::SLOPE_BYTES),
             key = tile_at(m.base + size::KEYS_AT + (uint32_t)(of.key.slot * size::KEY_BYTES) + part * size::KEY_PANEL);
    wait_for(m.slopes_full(of.number), of.number / 2 % 2);
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++)
        wgmma<T>::template run<1, 1>(dq, tile(slope, k * 16 * ROW_BYTES), tile(key, k * 16 * ROW_BYTES), k > 0);
    wgmma_commit();
}

/* Writes a warp's 16 rows of 64 columns in bytes; the first is row t, the columns begin `column` after dq's of the
 * head. sum: over the thread's two rows. */
template <typename T>
static __device__ __forceinline__ void put_bytes(const attention_args &a, const place &at, int64_t column,
                                                 const float (&d)[32], float factor, uint32_t room, int t,
                                                 fp8_largest<T> &most, float (&sum)[16]) {
    uint32_t bytes[8];
    form_bytes<e5m2>(d, {factor, factor}, __ldg(a.sq), at.end - t, most, bytes, sum);
    write_bytes(a, bytes, room, t, column + at.head * a.width, (int64_t)3 * a.heads * a.width, at.end - t);
}

/* Accumulates a thread's four sums over rows while a head is processed: keeps them, or at the end stores them at `to`,
 * two by two: in this warp's part of the head's sums (`row` of PARTS). */
template <int COLS, class To>
static __device__ __forceinline__ void sum_further(const attention_args &a, const room<COLS> &m, const place &at,
                                                   int which, const float (&four)[4], int is_first, int is_last,
                                                   int row, To to) {
    float4 own = is_first ? make_float4(0, 0, 0, 0) : *m.own_sums(which);
    own.x += four[0], own.y += four[1], own.z += four[2], own.w += four[3];
    if (!is_last) {
        *m.own_sums(which) = own;
        return;
    }
    float *part = a.sums + ((int64_t)at.sequence * PARTS + row) * 3 * a.heads * COLS + at.head * COLS;
    *reinterpret_cast<float2 *>(part + to(0)) = make_float2(own.x, own.y);
    *reinterpret_cast<float2 *>(part + to(1)) = make_float2(own.z, own.w);
}

/* The sums of a step's dq as written: two parts per warp. sixteen: columns 8 j + 2 (lane % 4) + e over two rows;
 * `part`: which 64 columns. */
template <int COLS>
static __device__ __forceinline__ void sum_dq(const attention_args &a, const room<COLS> &m, const step<COLS> &of,
                                              uint32_t part, const float (&sixteen)[16]) {
    int lane = threadIdx.x % WARP, column = (int)part * PANEL + lane / 8 * 16 + lane % 4 * 2;
    float eight[8], four[4]; /* in the end of `column`, the next, and those 8 further */
    exchange(sixteen, 16, eight), exchange(eight, 8, four);
    sum_further(a, m, of.at, COLS == 64 ? 0 : 2, four, of.query == 0, of.ends_keys(),
                (int)threadIdx.x % GROUP / WARP * 2 + lane / 4 % 2, [&](int half) { return column + 8 * half; });
}
template <typename T>
static __device__ __forceinline__ void sum_rows(const float (&dq)[32], float factor, int left, float (&sixteen)[16]) {
#pragma unroll
    for (int i = 0; i < 16; i++) {
        float first = wide(narrow<T>(dq[i / 2 * 4 + i % 2] * factor)),
              second = wide(narrow<T>(dq[i / 2 * 4 + 2 + i % 2] * factor));
        sixteen[i] = (left > 0 ? first : 0.0f) + (left > 8 ? second : 0.0f);
    }
}

/* Adds a step's dq to its sum; writes it with the last tile of keys. `part`: which 64 columns. */
template <typename T, int OUT, int COLS>
static __device__ __forceinline__ void put_dq(const attention_args &a, const room<COLS> &m, const step<COLS> &of,
                                              uint32_t part, float (&dq)[32], fp8_largest<T> &most) {
    int lane = threadIdx.x % WARP, row = of.at.begin + of.query + threadIdx.x % GROUP / WARP * 16 + lane / 4;
    int column = (int)part * PANEL + lane % 4 * 2, left = of.at.end - row, is_first = of.at.first_key == of.at.begin;
    float *sum = a.dq + ((int64_t)row * a.heads + of.at.head) * a.width + column;
    if (of.at.first_key + KEYS >= of.at.end) {
#pragma unroll
        for (int h = 0; h < 2 && !is_first; h++) {
            float2 before[8];
            load_dq<OUT>(a, sum, left, column, h, before);
            add_before(dq, h, before);
        }
        float factor = a.scale * a.drop.scale, sixteen[16];
        if constexpr (OUT == BYTES)
            put_bytes(a, of.at, (int)part * PANEL, dq, factor, m.dq_rows(part),
                      of.at.begin + of.query + (int)threadIdx.x % GROUP / WARP * 16, most, sixteen);
        else write_rows<T, OUT>(a, of.at, 0, row, column, dq, factor);
        if (OUT != ANY && a.sums) {
            if (OUT == PLAIN) sum_rows<T>(dq, factor, left, sixteen);
            sum_dq(a, m, of, part, sixteen);
        }
    } else add_dq<OUT>(a, dq, sum, left, column, is_first);
}

/* Writes an accumulator's rows of dk (part 1) or dv (2) and sums what was written, as rounded; the first is row t. Of
 * COLS columns those of `panel`. */
template <typename T, int OUT, int COLS>
static __device__ __forceinline__ void write_and_sum(const attention_args &a, const place &at, int part, int panel,
                                                     const float (&d)[COLS / 2], float factor, uint32_t room, int t,
                                                     fp8_largest<T> &most, float (&sum)[2]) {
    float half[32];
    int64_t H = (int64_t)a.heads * a.width, column = part * H + panel * PANEL;
#pragma unroll
    for (int i = 0; i < 32; i++) half[i] = d[panel * 32 + i];
    if constexpr (OUT == BYTES) {
        float sixteen[16], eight[8], four[4];
        put_bytes(a, at, column, half, factor, room, t, most, sixteen);
        exchange(sixteen, 16, eight), exchange(eight, 8, four), exchange(four, 4, sum);
    } else {
        float seen[WIDE] = {}, four[4];
        write_whole_rows(half, {factor, factor}, room, (T *)a.dqkv + t * 3 * H + column + at.head * a.width, 3 * H,
                         at.end - t, [&](const pack<T, WIDE> &eight) {
#pragma unroll
                             for (int k = 0; k < WIDE; k++) seen[k] += eight.at(k);
                         });
        exchange(seen, 16, four), exchange(four, 8, sum);
    }
}

/* Writes the complete sums of a tile of keys; `slot` is its position. Its values are no longer needed: rows are staged
 * there, each warp's in its own. */
template <typename T, int OUT, int COLS>
static __device__ __forceinline__ void put_key_sums(const attention_args &a, const room<COLS> &m, const place &at,
                                                    int slot, const sums<COLS> &of, fp8_largest<T> &most) {
    int t = at.first_key + (int)threadIdx.x / WARP * 16;
    float key_factor = a.scale * a.drop.scale, value_factor = a.drop.scale;
    if constexpr (OUT != ANY) {
        typedef sizes<COLS> size;
        uint32_t values = m.base + size::VALUES_AT + (uint32_t)(slot * size::KEY_BYTES) +
                          threadIdx.x / WARP * (16 * ROW_BYTES);
        int lane = threadIdx.x % WARP;
        int column = OUT == BYTES ? lane / 4 * 8 + lane % 4 * 2 : lane % 8 * 8 + lane / 8 * 2;
#pragma unroll
        for (int p = 0; p < COLS / PANEL; p++) {
            float dk[2], dv[2]; /* sums over the warp's rows: of columns `column` and the next */
            write_and_sum<T, OUT, COLS>(a, at, 1, p, of.dk, key_factor, values, t, most, dk);
            write_and_sum<T, OUT, COLS>(a, at, 2, p, of.dv, value_factor, values, t, most, dv);
            if (!a.sums) continue;
            sum_further(a, m, at, p, {dk[0], dk[1], dv[0], dv[1]}, at.first_key == at.begin,
                        at.first_key + KEYS >= at.end, (int)threadIdx.x / WARP,
                        [&](int part) { return (1 + part) * a.heads * COLS + p * PANEL + column; });
        }
    } else {
        t += threadIdx.x % WARP / 4;
        write_rows<T, OUT>(a, at, 1, t, threadIdx.x % 4 * 2, of.dk, key_factor);
        write_rows<T, OUT>(a, at, 2, t, threadIdx.x % 4 * 2, of.dv, value_factor);
    }
}

/* The decisions for a thread's two keys. Loaded ahead of their use. */
template <int COLS>
static __device__ __forceinline__ void get_decisions(const attention_args &a, const room<COLS> &m,
                                                     const step<COLS> &now, uint2 (&to)[2]) {
    int row = threadIdx.x / WARP * 16 + threadIdx.x % WARP / 4;
#pragma unroll
    for (int h = 0; h < 2; h++)
        to[h] = a.drop.threshold ? m.decisions(now.stage.slot)[row + 8 * h] : make_uint2(~0u, ~0u);
}

/* Turns the scores of a step and the gradients of its weights into its factors: weights after dropout and gradients of
 * scores. The latter product may still be in flight. */
template <typename T, int COLS, bool KEPT>
static __device__ __forceinline__ void form_factors(const products<T, COLS> &w, const step<COLS> &now,
                                                    const uint2 (&decisions)[2], sums<COLS> &to,
                                                    uint32_t (&weight)[4][4], uint32_t (&slope)[4][4]) {
    int lane = threadIdx.x % WARP, row = threadIdx.x / WARP * 16 + lane / 4; /* the thread's first key in the tile */
    int left = now.at.end - now.at.first_key - row;
    const float *statistic = w.m.statistics(now.stage.slot);
    exponentiate(to.score, statistic, w.a.scale * 1.44269504f);
    if (KEPT) { /* of each granule of queries, the words of its queries 2 (lane % 4) + e and of this thread's keys */
        uint32_t at = w.m.bits(now.stage.slot) + threadIdx.x / GROUP * (4 * 4 * TRI_MASK_WORDS) +
                      threadIdx.x / WARP % 2 * 64 + lane % 4 * 16;
        uint32_t own = 1u << (threadIdx.x / (2 * WARP) % 2 * 8 + lane / 8 + lane / 4 % 2 * 16);
        uint4 word[4];
#pragma unroll
        for (int i = 0; i < 4; i++) word[i] = load_16(at + (uint32_t)i * (4 * TRI_MASK_WORDS));
        wgmma_wait<0>();
        pin(to.dweight);
        differentiate(
            to.score, to.dweight, statistic,
            [&](int j, int h, int e) {
                const uint4 &four = word[j / 2];
                return (e ? (h ? four.w : four.z) : (h ? four.y : four.x)) & (own << (j % 2 * 4));
            },
            left);
    } else {
        uint2 kept[2];
#pragma unroll
        for (int h = 0; h < 2; h++)
            kept[h] = make_uint2(decisions[h].x >> lane % 4 * 2, decisions[h].y >> lane % 4 * 2);
        wgmma_wait<0>();
        pin(to.dweight);
        differentiate(to.score, to.dweight, statistic, kept, left);
    }
#pragma unroll
    for (int k = 0; k < 4; k++) as_factor<T>(to.score, k, weight[k]), as_factor<T>(to.dweight, k, slope[k]);
}

/* Draws the decisions for the second group's keys, up to those of step `limit`. */
static __device__ __forceinline__ void decide_ahead(const attention_args &a, const mask_start &start, const room<64> &m,
                                                    step<64> &ahead, uint32_t limit) {
    for (; ahead.number < limit; ahead.advance()) {
        ahead.look(m);
        if (!ahead.exists()) return;
        wait_for(m.empty(ahead.stage.slot), ahead.stage.lap ^ 1);
        decide_step<64, GROUP_KEYS>(a, start, m, ahead.at, ahead.query, ahead.stage.slot, GROUP_KEYS);
        arrive(m.full(ahead.stage.slot));
    }
}

/* dq of all steps, by a separate group. While its product runs it draws decisions for the step after the next: not
 * earlier, or it would wait for tiles whose buffers this step's product has not released yet. */
template <typename T, int OUT, bool KEPT>
static __device__ __forceinline__ void form_dq(const attention_args &a, const room<64> &m) {
    mask_start start = mask_start_of(a.drop);
    step<64> now = {}, ahead = {};
    bool draws = !KEPT && a.drop.threshold;
    fp8_largest<T> most;
    if (draws) decide_ahead(a, start, m, ahead, 2);
    for (now.look(m); now.exists(); now.advance(), now.look(m)) {
        float dq[32];
        begin_dq<T>(m, now, 0, dq);
        if (draws) decide_ahead(a, start, m, ahead, now.number + 3);
        wgmma_wait<0>();
        pin(dq);
        arrive(m.slopes_empty(now.number));
        if (now.ends_keys()) arrive(m.keys_empty(now.key.slot));
        put_dq<T, OUT>(a, m, now, 0, dq, most);
    }
    if (OUT == BYTES) raise(a.most, most.word());
}

/* All steps, for heads of up to 64 columns: products of a step are still in flight while the next begins. */
template <typename T, int OUT, bool KEPT>
static __device__ __forceinline__ void compute_all(const attention_args &a, const room<64> &m) {
    products<T, 64> w = {a, m, __shfl_sync(0xFFFFFFFFu, threadIdx.x / GROUP, 0)};
    step<64> now = {}, before = {};
    sums<64> to;
    fp8_largest<T> most;
    go_on(m, now);
    w.begin_scores(now, to.score);
    while (now.exists()) {
        uint32_t weight[4][4], slope[4][4];
        uint2 decisions[2];
        if (!KEPT) get_decisions(a, m, now, decisions);
        wgmma_wait<0>();
        pin(to.score);
        pin(to.dk);
        pin(to.dv);
        w.begin_dweights(now, to.dweight);
        if (now.number) {
            arrive(m.empty(before.stage.slot));
            if (now.begins_keys()) {
                put_key_sums<T, OUT>(a, m, before.at, before.key.slot, to, most);
                arrive(m.keys_empty(before.key.slot));
            }
        }
        form_factors<T, 64, KEPT>(w, now, decisions, to, weight, slope);
        w.share(now, slope);
        w.begin_key_sums(now, weight, slope, to.dk, to.dv);
        before = now;
        now.advance();
        go_on(m, now);
        w.begin_scores(now, to.score); /* after the last step a redundant product, whose result is not used */
    }
    wgmma_wait<0>();
    pin(to.score);
    pin(to.dk);
    pin(to.dv);
    if (now.number) put_key_sums<T, OUT>(a, m, before.at, before.key.slot, to, most);
    if (OUT == BYTES) raise(a.most, most.word());
}

/* The same for heads of up to 128 columns, which leave no registers for two steps at a time, nor for a group that
 * computes dq. */
template <typename T, int OUT, bool KEPT>
static __device__ __forceinline__ void compute_all(const attention_args &a, const room<128> &m) {
    products<T, 128> w = {a, m, __shfl_sync(0xFFFFFFFFu, threadIdx.x / GROUP, 0)};
    step<128> now = {};
    sums<128> to;
    fp8_largest<T> most;
    for (go_on(m, now); now.exists(); now.advance(), go_on(m, now)) {
        uint32_t weight[4][4], slope[4][4];
        uint2 decisions[2];
        float dq[32];
        w.begin_scores(now, to.score);
        w.begin_dweights(now, to.dweight);
        if (!KEPT) get_decisions(a, m, now, decisions);
        wgmma_wait<1>();
        pin(to.score);
        form_factors<T, 128, KEPT>(w, now, decisions, to, weight, slope);
        w.share(now, slope);
        w.begin_key_sums(now, weight, slope, to.dk, to.dv);
        begin_dq<T>(m, now, w.group, dq);
        wgmma_wait<0>();
        pin(dq);
        pin(to.dk);
        pin(to.dv);
        arrive(m.slopes_empty(now.number));
        arrive(m.empty(now.stage.slot));
        put_dq<T, OUT>(a, m, now, w.group, dq, most);
        if (!now.ends_keys()) continue;
        if (OUT == ANY) arrive(m.keys_empty(now.key.slot));
        put_key_sums<T, OUT>(a, m, now.at, now.key.slot, to, most);
        if (OUT != ANY) arrive(m.keys_empty(now.key.slot));
    }
    if (OUT == BYTES) raise(a.most, most.word());
}
#endif

template <typename T, int COLS, int OUT, bool KEPT>
static __global__ void __launch_bounds__(roles<COLS>::THREADS, 1) flash_din_kernel(attention_args a) {
#if TRI_HOPPER
    typedef roles<COLS> role;
    extern __shared__ char raw[];
    uint32_t unaligned = shared_address(raw), base = (unaligned + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES;
    room<COLS> m = {raw + (base - unaligned), base};
    if (threadIdx.x == 0) m.init(!KEPT && a.drop.threshold);
    __syncthreads();
    if (threadIdx.x / GROUP == role::FETCH_GROUP) {
        fewer_registers<role::FETCH_REGISTERS>();
        fetch_all<T, COLS, KEPT>(a, m);
    } else if (threadIdx.x / GROUP == role::DQ_GROUP) {
        if constexpr (role::DQ_APART) {
            fewer_registers<role::DQ_REGISTERS>();
            form_dq<T, OUT, KEPT>(a, m);
        }
    } else {
        more_registers<role::COMPUTE_REGISTERS>();
        compute_all<T, OUT, KEPT>(a, m);
    }
#endif
}

enum { PREPARE_THREADS = 256 };

/* Sorts the sequences by length, ties by index. */
static __device__ __forceinline__ void rank_sequences(const attention_args &a) {
    for (int s = threadIdx.x; s < a.n; s += PREPARE_THREADS) {
        int length = a.seq[s + 1] - a.seq[s], rank = 0;
        for (int o = 0; o < a.n; o++) {
            int other = a.seq[o + 1] - a.seq[o];
            rank += other > length || (other == length && o < s);
        }
        a.order[rank] = place_of(a, s, 0);
    }
}

/* Zeroes padding rows: 8 columns of a head. */
template <typename T>
static __device__ __forceinline__ void clear_piece(const attention_args &a, int64_t t, uint32_t head, int piece) {
    float zero[WIDE] = {};
    int64_t at = (t * 3 * a.heads + head) * a.width + piece * WIDE, H = (int64_t)a.heads * a.width;
    for (int part = 0; part < 3; part++, at += H) {
        if (a.q) *reinterpret_cast<uint2 *>(a.q + at) = uint2{0, 0};
        else store<WIDE>((T *)a.dqkv + at, zero);
    }
}

/* The statistics of some rows and heads, by COLS / 8 threads each. */
template <typename T, int COLS>
static __device__ __forceinline__ void form_statistics(const attention_args &a, int64_t block) {
    enum { PIECES = COLS / WIDE };
    uint32_t i = (uint32_t)((block * PREPARE_THREADS + threadIdx.x) / PIECES), heads = (uint32_t)a.heads;
    uint32_t t = i / heads, all = (uint32_t)a.rows * heads;
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

/* Empty sequences have no block to write their part. */
static __device__ __forceinline__ void clear_empty_parts(const attention_args &a) {
    int64_t D = PARTS * 3 * (int64_t)a.heads * a.width;
    for (int s = threadIdx.x; s < a.n; s += PREPARE_THREADS)
        for (int64_t c = 0; c < D && a.seq[s] == a.seq[s + 1]; c++) a.sums[s * D + c] = 0;
}

/* Prepares the gradient kernel's additional inputs: block 0 the order and the counter, the others statistics. */
template <typename T, int COLS>
static __global__ void __launch_bounds__(PREPARE_THREADS) prepare_kernel(attention_args a) {
    if (blockIdx.x) form_statistics<T, COLS>(a, blockIdx.x - 1);
    else if (a.order) rank_sequences(a);
    if (blockIdx.x == 0 && threadIdx.x == 0) *a.taken = 0;
    if (blockIdx.x == 0 && a.sums) clear_empty_parts(a);
}

template <typename T, int COLS> static void launch(const tri_call *call, attention_args a) {
    enum { WHOLE = COLS == 64 ? PLAIN : ANY }; /* with heads of 128 columns it spilled more and was slower */
    auto *kernel = a.bits ? flash_din_kernel<T, COLS, ANY, true> : flash_din_kernel<T, COLS, ANY, false>;
    if (COLS == 64 && a.width == COLS && !a.add)
        kernel = a.bits ? flash_din_kernel<T, COLS, WHOLE, true> : flash_din_kernel<T, COLS, WHOLE, false>;
    if (a.q) kernel = flash_din_kernel<T, COLS, BYTES, false>;
    if (a.q && a.bits) kernel = flash_din_kernel<T, COLS, COLS == 64 ? BYTES : ANY, true>;
    if (a.n > MOST_ORDERED) a.order = NULL;
    a.mask = mask_keys_of(a.drop);
    queue(call, "attention_din", prepare_kernel<T, COLS>,
          1 + blocks_for(a.rows * a.heads * COLS / WIDE, PREPARE_THREADS), PREPARE_THREADS, a);
    if (a.n > 0)
        queue_sharing(call, "attention_din", kernel, (unsigned)min(processors_of(call), a.n * a.heads),
                      roles<COLS>::THREADS, sizes<COLS>::ALL, a);
}

int tri__cuda_flash_din(const tri_call *call, const attention_args *a, int dtype) {
    /* Bytes of 128 columns: with bits registers spill, and it is slower than a cast afterwards. */
    int in_bytes = a->width == 64 || (a->width == 128 && !a->bits);
    if (!flash_fits(call, a, dtype) || (a->q && !in_bytes)) return 0;
    if (dtype == TRI_BF16) a->width <= 64 ? launch<bf16, 64>(call, *a) : launch<bf16, 128>(call, *a);
    else a->width <= 64 ? launch<f16, 64>(call, *a) : launch<f16, 128>(call, *a);
    return 1;
}
