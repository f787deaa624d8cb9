/* attention_relative_table.cu - the gradient of the table in attention by distances (attention_relative.cuh): sums over
 * all pairs of a distance, of all sequences. A block of two warpgroups has a diagonal of tiles, whose pairs have the
 * same band of distances, and every n-th sequence: gradients of the band stay in its registers. Parts of blocks are
 * added in double, by rows of the table. Which pairs a block has depends on the shapes alone. Those of biases come from
 * attention_relative_din.cu. */
#include "device/cuda/attention/attention_relative.cuh"

enum { PAIR_THREADS = 2 * THREADS };

/* Parts of the diagonal that is `side` tiles beside the main one, and parts before it, of all. */
static __host__ __device__ __forceinline__ int splits_of(int splits, int side) {
    int n = splits / (1 + (side < 0 ? -side : side));
    return n < 1 ? 1 : n;
}
static __host__ __device__ __forceinline__ int units_before(int splits, int sides, int side) {
    int n = 0;
    for (int s = -sides; s < side; s++) n += splits_of(splits, s);
    return n;
}

/* Layout of shared memory: two stages of queries, keys, values and dctx, both bands, and products of both with their
 * bands, whose places gradients take. */
struct pair_sizes {
    enum {
        STAGE_BYTES = 4 * TILE_BYTES,
        BANDS_AT = 2 * STAGE_BYTES,
        PRODUCTS_AT = BANDS_AT + 2 * BAND_BYTES,
        STATISTICS_AT = PRODUCTS_AT + 2 * BAND_BYTES, /* two stages of [2, TILE] floats */
        STATISTIC_BYTES = 2 * TILE * 4,
        DECISIONS_AT = STATISTICS_AT + 2 * STATISTIC_BYTES, /* [TILE, 2 words] */
        ALL = DECISIONS_AT + TILE * 8 + ATOM_BYTES,         /* and padding to align */
    };
};

/* A pair of tiles on the block's diagonal: tile `query` of sequence s and tile `query` - side. */
typedef struct tile_pair {
    int s, side, query; /* s = n: there is none */
    int begin, length;
} tile_pair;

/* The next that exists. Diagonals further than those that are counted one by one belong to the last: step. */
[[maybe_unused]] static __device__ __forceinline__ void find_pair(const relative_args &t, tile_pair &p, int first_side,
                                                                  int step, int splits) {
    for (; p.s < t.a.n; p.s += splits, p.side = first_side, p.query = max(first_side, 0)) {
        p.begin = t.a.seq[p.s], p.length = t.a.seq[p.s + 1] - p.begin;
        int tiles = (p.length + TILE - 1) / TILE;
        for (; abs(p.side) < tiles; p.side += step, p.query = max(p.side, 0)) {
            if (p.query < tiles && p.query - p.side < tiles) return;
            if (step == 0) break;
        }
    }
}

#if TRI_HOPPER
/* Begins to fetch a pair's four tiles and statistics. */
template <typename T>
static __device__ __forceinline__ void fetch_pair(const relative_args &t, const tile_pair &p, int head, uint32_t base,
                                                  int n) {
    typedef pair_sizes size;
    const attention_args &a = t.a;
    int64_t H = (int64_t)a.heads * a.width, query = p.begin + p.query * TILE, key = query - p.side * TILE;
    int left = p.length - p.query * TILE, keys_left = left + p.side * TILE, thread = threadIdx.x;
    uint32_t to = base + (uint32_t)((n & 1) * size::STAGE_BYTES);
    const T *qkv = (const T *)a.qkv + head * a.width, *from = qkv + key * 3 * H + H;
    copy_rows<T, 64, TILE, PAIR_THREADS>(qkv + query * 3 * H, 3 * H, a.width, left, to, thread);
    copy_rows<T, 64, TILE, PAIR_THREADS>(from, 3 * H, a.width, keys_left, to + TILE_BYTES, thread);
    copy_rows<T, 64, TILE, PAIR_THREADS>(from + H, 3 * H, a.width, keys_left, to + 2 * TILE_BYTES, thread);
    copy_rows<T, 64, TILE, PAIR_THREADS>((const T *)a.dctx + query * H + head * a.width, H, a.width, left,
                                         to + 3 * TILE_BYTES, thread);
    if (thread >= 2 * TILE) return;
    int number = thread % TILE;
    const float *statistic = a.statistic + ((int64_t)thread / TILE * a.heads + head) * a.rows + query;
    copy_4(base + size::STATISTICS_AT + (uint32_t)((n & 1) * size::STATISTIC_BYTES + thread * 4),
           number < left ? statistic + number : statistic, number < left);
}

/* Draws a pair's decisions: each thread of the first group for one query and 32 keys. */
static __device__ __forceinline__ void draw_decisions(const relative_args &t, const mask_start &start,
                                                      const tile_pair &p, int head, uint2 *to) {
    const attention_args &a = t.a;
    attention_place place = {};
    place.sample = (uint32_t)a.key[2 * p.begin], place.query = (uint32_t)a.key[2 * p.begin + 1];
    place.feature = first_feature(a, head) + place.query;
    draw_tile(a, start, place, p.query * TILE + (int)threadIdx.x % TILE, (p.query - p.side) * TILE, to);
}

/* Accumulator element i of a group: 64 keys by 32 queries. */
static __device__ __forceinline__ void pair_at(int i, int *key, int *query) {
    int lane = threadIdx.x % WARP;
    *key = (int)threadIdx.x % THREADS / WARP * 16 + lane / 4 + i / 2 % 2 * 8;
    *query = (int)threadIdx.x / THREADS * 32 + i / 4 * 8 + lane % 4 * 2 + i % 2;
}

/* Turns scores and gradients of weights into gradients of scores, without the factor of dropout's scale. */
template <bool DROP>
static __device__ __forceinline__ void form_slopes(const relative_args &t, const tile_pair &p, const float *statistic,
                                                   const uint2 *decided, float (&score)[16],
                                                   const float (&dweight)[16]) {
    int queries = p.length - p.query * TILE, keys = queries + p.side * TILE;
#pragma unroll
    for (int i = 0; i < 16; i++) {
        int key, query;
        pair_at(i, &key, &query);
        float w = power_of_2(fmaf(score[i], t.a.scale * 1.44269504f, -statistic[query])), d = dweight[i];
        if (DROP && !((query / 32 ? decided[key].y : decided[key].x) >> query % 32 & 1)) d = 0;
        score[i] = key < keys && query < queries ? w * (d - statistic[TILE + query]) : 0.0f;
    }
}

/* Of terms: adds products with bands to scores. Both are [64, 128] by own_at, of queries and of keys. */
template <typename T>
static __device__ __forceinline__ void add_products(const relative_args &t, const char *products, float (&score)[16]) {
#pragma unroll
    for (int i = 0; i < 16; i++) {
        int key, query;
        pair_at(i, &key, &query);
        int m = query - key + 63;
        if (t.terms & 1) score[i] += wide(*reinterpret_cast<const T *>(products + own_at(query, m)));
        if (t.terms & 2) score[i] += wide(*reinterpret_cast<const T *>(products + BAND_BYTES + own_at(key, m)));
    }
}
template <typename T> static __device__ __forceinline__ void put_slopes(const float (&slope)[16], char *products) {
#pragma unroll
    for (int i = 0; i < 16; i++) {
        int key, query;
        pair_at(i, &key, &query);
        int m = query - key + 63;
        *reinterpret_cast<T *>(products + own_at(query, m)) = narrow<T>(slope[i]);
        *reinterpret_cast<T *>(products + BAND_BYTES + own_at(key, m)) = narrow<T>(slope[i]);
    }
}

/* Adds a pair's gradients to the group's: the first has those of the band's keys, the other those of its queries. */
template <typename T, int DROP>
static __device__ __forceinline__ void sum_pair(const relative_args &t, const tile_pair &p, int n, char *memory,
                                                uint32_t base, float (&sums)[2][32]) {
    typedef pair_sizes size;
    uint32_t here = base + (uint32_t)((n & 1) * size::STAGE_BYTES), group = threadIdx.x / THREADS;
    uint32_t own = base + size::PRODUCTS_AT + group * BAND_BYTES, rows = tile_at(here + group * TILE_BYTES, TILE_BYTES);
    float score[16], dweight[16], low[32], high[32];
    const float *statistic = reinterpret_cast<float *>(memory + size::STATISTICS_AT + (n & 1) * size::STATISTIC_BYTES);
    char *products = memory + size::PRODUCTS_AT;
    begin_product<T, 64>(here + TILE_BYTES, here + group * (32 * ROW_BYTES), score);
    begin_product<T, 64>(here + 2 * TILE_BYTES, here + 3 * TILE_BYTES + group * (32 * ROW_BYTES), dweight);
    begin_product<T, 64>(here + group * TILE_BYTES, base + size::BANDS_AT + group * BAND_BYTES, low);
    begin_product<T, 64>(here + group * TILE_BYTES, base + size::BANDS_AT + group * BAND_BYTES + TILE_BYTES, high);
    wgmma_wait<0>();
    pin(low);
    pin(high);
    pin(score);
    pin(dweight);
    if (group) store_own<T, true>(low, 0, own), store_own<T, true>(high, 1, own);
    else store_own<T, false>(low, 0, own), store_own<T, false>(high, 1, own);
    __syncthreads();
    add_products<T>(t, products, score);
    form_slopes<DROP != 0>(t, p, statistic, reinterpret_cast<uint2 *>(memory + size::DECISIONS_AT), score, dweight);
    put_slopes<T>(score, products);
    show_to_matrix_units();
    __syncthreads();
    wgmma_begin();
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int k = 0; k < 4; k++)
            wgmma<T>::template run<1, 1>(sums[half],
                                         tile(tile_at(own + (uint32_t)(half * TILE_BYTES), TILE_BYTES),
                                              k * 16 * ROW_BYTES),
                                         tile(rows, k * 16 * ROW_BYTES), 1);
    wgmma_commit();
    wgmma_wait<0>();
    pin(sums[0]);
    pin(sums[1]);
}

/* A block's part: [units, heads] of [2, BAND, width]. */
static __device__ __forceinline__ void put_part(const relative_args &t, int64_t unit, const float (&sums)[2][32]) {
    int lane = threadIdx.x % WARP, c = lane % 4 * 2, row = (int)threadIdx.x % THREADS / WARP * 16 + lane / 4;
    float *to = t.part + (unit * 2 + threadIdx.x / THREADS) * BAND * t.a.width;
#pragma unroll
    for (int i = 0; i < 64; i += 2)
        if (i / 4 % 8 * 8 + c < t.a.width)
            *reinterpret_cast<float2 *>(to + (i / 32 * 64 + row + i / 2 % 2 * 8) * t.a.width + i / 4 % 8 * 8 + c) =
                make_float2(sums[i / 32][i % 32], sums[i / 32][i % 32 + 1]);
}
#endif

template <typename T, int DROP>
static __global__ void __launch_bounds__(PAIR_THREADS, 1) pairs_kernel(relative_args t) {
#if TRI_HOPPER
    typedef pair_sizes size;
    extern __shared__ char raw[];
    uint32_t unaligned = shared_address(raw), base = (unaligned + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES;
    char *memory = raw + (base - unaligned);
    int head = blockIdx.y, side = -t.sides, split = blockIdx.x;
    for (; split >= splits_of(t.splits, side); side++) split -= splits_of(t.splits, side);
    int step = side == t.sides && side ? 1 : side == -t.sides && side ? -1 : 0, splits = splits_of(t.splits, side);
    mask_start start = mask_start_of(t.a.drop);
    float sums[2][32] = {};
    tile_pair now = {split, side, max(side, 0), 0, 0};
    find_pair(t, now, side, step, splits);
    fetch_band<T, PAIR_THREADS>(t, head, 1, side * TILE - 63, base + size::BANDS_AT);
    fetch_band<T, PAIR_THREADS>(t, head, 0, side * TILE - 63, base + size::BANDS_AT + BAND_BYTES);
    if (now.s < t.a.n) fetch_pair<T>(t, now, head, base, 0);
    copy_commit();
    for (int n = 0; now.s < t.a.n; n++) {
        tile_pair next = now;
        next.query++;
        find_pair(t, next, side, step, splits);
        __syncthreads(); /* the decisions before are no longer read, nor the tiles */
        if (DROP && threadIdx.x < THREADS)
            draw_decisions(t, start, now, head, reinterpret_cast<uint2 *>(memory + size::DECISIONS_AT));
        copy_wait<0>();
        show_to_matrix_units();
        __syncthreads(); /* the tiles have arrived */
        if (next.s < t.a.n) fetch_pair<T>(t, next, head, base, n + 1);
        copy_commit();
        sum_pair<T, DROP>(t, now, n, memory, base, sums);
        now = next;
    }
    copy_wait<0>();
    put_part(t, (int64_t)blockIdx.x * t.a.heads + head, sums);
#endif
}

/* Distances of a row of the table: [low, high], none if low > high; without bounds where further ones are the same. */
static __device__ __forceinline__ void distances_of(const relative_args &t, int row, int *low, int *high) {
    __shared__ int least, most;
    if (threadIdx.x == 0) least = INT32_MAX, most = INT32_MIN;
    __syncthreads();
    for (int d = (int)threadIdx.x - t.far; d <= t.far; d += (int)blockDim.x)
        if (t.rows[d + t.far] == row) atomicMin(&least, d), atomicMax(&most, d);
    __syncthreads();
    *low = least > most ? 1 << 28 : least == -t.far ? -(1 << 28) : least;
    *high = least > most ? -(1 << 28) : most == t.far ? 1 << 28 : most;
}

/* Adds the parts of a row of the table. Blocks: [B, heads]; 128 threads: the columns of keys, then those of queries. */
template <typename T> static __global__ void __launch_bounds__(THREADS) table_kernel(relative_args t) {
    int row = blockIdx.x, head = blockIdx.y, width = t.a.width, c = threadIdx.x % TILE, of_queries = threadIdx.x / TILE;
    int low, high, unit = 0;
    double sum = 0;
    distances_of(t, row, &low, &high);
    if (c >= width) return;
    for (int side = -t.sides; side <= t.sides; side++) {
        int n = splits_of(t.splits, side), first = max(low - side * TILE + 63, 0);
        int last = min(high - side * TILE + 63, BAND - 2);
        for (int split = 0; split < n && first <= last; split++) {
            int64_t part = ((int64_t)(unit + split) * t.a.heads + head) * 2 + of_queries;
            for (int m = first; m <= last; m++) sum += t.part[(part * BAND + m) * width + c];
        }
        unit += n;
    }
    int64_t H = (int64_t)t.a.heads * width;
    T *to = (T *)t.dtable + row * 3 * H + head * width + c;
    if (!of_queries && !t.add_table) to[2 * H] = narrow<T>(0);
    if (!of_queries) to += H;
    float value = t.terms & (of_queries ? 2 : 1) ? (float)sum * t.a.scale * t.a.drop.scale : 0.0f;
    *to = narrow<T>(value + (t.add_table ? wide(*to) : 0.0f));
}

/* Adds the sums of tiles of queries for a bias. Blocks: [B, heads]. */
template <typename T> static __global__ void __launch_bounds__(THREADS) bias_kernel(relative_args t, int tiles) {
    int row = blockIdx.x, head = blockIdx.y, low, high, n = 2 * t.far + 1;
    double sum = 0;
    distances_of(t, row, &low, &high);
    low = max(low, -t.far), high = min(high, t.far);
    for (int tile = threadIdx.x; tile < tiles; tile += THREADS)
        for (int d = low; d <= high; d++) sum += t.part[((int64_t)tile * t.a.heads + head) * n + d + t.far];
    sum = block_sum(sum);
    T *to = (T *)t.dtable + (int64_t)row * t.a.heads + head;
    if (threadIdx.x == 0) *to = narrow<T>((float)(sum * t.a.drop.scale + (t.add_table ? (double)wide(*to) : 0.0)));
}

void tri__cuda_relative_table(const tri_call *call, const relative_args *t, int dtype) {
    const char *where = "gradient of a table of distances";
    dim3 grid((unsigned)t->B, (unsigned)t->a.heads),
        pairs((unsigned)units_before(t->splits, t->sides, t->sides + 1), (unsigned)t->a.heads);
    relative_args with = *t;
    with.a.mask = mask_keys_of(t->a.drop);
    by_half(dtype, [&](auto x) {
        if (t->terms)
            by_flag(t->a.drop.threshold > 0, [&](auto drop) {
                queue_sharing(call, where, pairs_kernel<decltype(x), drop>, pairs, PAIR_THREADS, pair_sizes::ALL, with);
            });
        if (t->B > 0 && t->terms) queue(call, where, table_kernel<decltype(x)>, grid, THREADS, *t);
        else if (t->B > 0)
            queue(call, where, bias_kernel<decltype(x)>, grid, THREADS, *t, (int)tiles_for<TILE>(t->a.rows, t->a.n));
    });
}

int tri__cuda_relative_plan(relative_args *t, int64_t bytes) {
    int64_t most = (t->a.rows + TILE - 1) / TILE - 1, sides = (t->far + 2 * TILE - 2) / TILE;
    int64_t each = (int64_t)t->a.heads * 2 * BAND * t->a.width * 4;
    if (!t->terms)
        return t->far <= MOST_NEAR &&
               (int64_t)tiles_for<TILE>(t->a.rows, t->a.n) * t->a.heads * (2 * t->far + 1) * 4 <= bytes;
    t->sides = (int)(most < sides ? most : sides);
    for (t->splits = 16; t->splits > 0; t->splits /= 2)
        if (units_before(t->splits, t->sides, t->sides + 1) * each <= bytes) return 1;
    return 0;
}
