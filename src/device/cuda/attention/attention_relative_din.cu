/* attention_relative_din.cu - the gradients of queries, keys and values in attention by distances
 * (attention_relative.cuh), in two kernels of one warpgroup per tile and head, as attention_tiles_din.cu: a tile of 64
 * queries meets all keys, and a tile of 64 keys all queries. Nothing is summed across blocks; of biases' gradients each
 * tile of queries has sums by distance. */
#include "device/cuda/attention/attention_relative.cuh"
#include "device/cuda/attention/attention_slopes.cuh"

/* A tile of 64 rows of a head: `first` in its sequence, of `length` rows from `begin` on. */
typedef struct relative_place {
    int head, begin, length, first, is_padding;
    uint32_t sample, query, feature; /* of random numbers: the sequence, its first query and key */
} relative_place;

static __device__ __forceinline__ relative_place place_here(const attention_args &a) {
    int s = sequence_of<TILE>(a.seq, a.n, blockIdx.x), begin = a.seq[s];
    relative_place at = {(int)blockIdx.y, begin, (s < a.n ? a.seq[s + 1] : (int)a.rows) - begin,
                         ((int)blockIdx.x - (begin / TILE + s)) * TILE, s == a.n, 0, 0, 0};
    if (a.drop.threshold && s < a.n && at.first < at.length) {
        at.sample = (uint32_t)a.key[2 * begin], at.query = (uint32_t)a.key[2 * begin + 1];
        at.feature = first_feature(a, at.head) + at.query;
    }
    return at;
}

/* Zeroes padding rows. */
template <typename T> static __device__ void clear_tile(const attention_args &a, const relative_place &at) {
    int64_t first = at.begin + at.first, rows = min(TILE, at.length - at.first), H = (int64_t)a.heads * a.width;
    for (int64_t i = threadIdx.x; i < rows * 3 * a.width && !a.add; i += THREADS)
        ((T *)a.dqkv)[(first + i / (3 * a.width)) * 3 * H + i / a.width % 3 * H + at.head * a.width + i % a.width] =
            narrow<T>(0);
}

/* The statistics of a tile of queries, two threads for each: to shared memory, and to scratch space for the kernels
 * that follow. */
template <typename T>
static __device__ __forceinline__ void form_statistics(const attention_args &a, const relative_place &at, float *to) {
    int number = (int)threadIdx.x / 2;
    bool exists = at.first + number < at.length;
    int64_t row = at.begin + at.first + (exists ? number : 0), head = row * a.heads + at.head;
    float sum = 0, x[WIDE], y[WIDE];
    for (int c = (int)threadIdx.x % 2 * WIDE; c < a.width; c += 2 * WIDE) {
        load<WIDE>((const T *)a.dctx + head * a.width + c, x), load<WIDE>((const T *)a.ctx + head * a.width + c, y);
#pragma unroll
        for (int k = 0; k < WIDE; k++) sum = fmaf(x[k], y[k], sum);
    }
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
    float value = !exists ? 0.0f : threadIdx.x % 2 ? sum / a.drop.scale : a.lse[head] * 1.44269504f;
    to[threadIdx.x % 2 * TILE + number] = value;
    if (exists) a.statistic[(threadIdx.x % 2 * (int64_t)a.heads + at.head) * a.rows + row] = value;
}

#if TRI_HOPPER
/* Adds factors times the rows of a tile. */
template <typename T>
static __device__ __forceinline__ void add_product(const uint32_t (&factor)[4][4], uint32_t rows, float (&to)[32]) {
    uint32_t b = tile_at(rows, TILE_BYTES);
#pragma unroll
    for (int k = 0; k < 4; k++) wgmma<T>::template run<1>(to, factor[k], tile(b, k * 16 * ROW_BYTES), 1);
}
/* Adds the own elements, which are gradients by now, times the own band, whose halves are at `low` and `high`. */
template <typename T>
static __device__ __forceinline__ void add_band(const room<false> &m, uint32_t low, uint32_t high, float (&to)[32]) {
    uint32_t a = tile_at(m.base + sizes<false>::OWN_AT), b[2] = {tile_at(low, TILE_BYTES), tile_at(high, TILE_BYTES)};
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < BAND / 16; k++)
        wgmma<T>::template run<0, 1>(to, tile(a, k / 4 * TILE_BYTES + k % 4 * 32),
                                     tile(b[k / 4], k % 4 * 16 * ROW_BYTES), 1);
    wgmma_commit();
}
/* Gradients take the places of the own products. */
template <typename T, bool KEYS> static __device__ __forceinline__ void put_own(const float (&slope)[32], char *own) {
#pragma unroll
    for (int i = 0; i < 32; i++) {
        spot s = spot_of<KEYS>(i);
        *reinterpret_cast<T *>(own + own_at(s.row, s.m)) = narrow<T>(slope[i]);
    }
}

/* Writes a tile's rows from accumulators, or adds to them, as put_tile of attention_tiles.cuh. */
template <typename T>
static __device__ __forceinline__ void put_rows(const attention_args &a, const float (&d)[32], float factor, T *to,
                                                int left, uint32_t room) {
    int lane = threadIdx.x % WARP, c = lane % 4 * 2, warp_row = (int)threadIdx.x / WARP * 16;
    int64_t stride = (int64_t)3 * a.heads * a.width;
    to += warp_row * stride, left -= warp_row;
    if (a.width == 64 && !a.add) {
        write_whole_rows(d, {factor, factor}, room + (uint32_t)(warp_row * ROW_BYTES), to, stride, left);
        return;
    }
    to += lane / 4 * stride + c, left -= lane / 4;
#pragma unroll
    for (int h = 0; h < 2; h++, to += 8 * stride)
#pragma unroll
        for (int j = 0; j < 8; j++)
            if (8 * j + c < a.width && left > 8 * h) {
                float value[2] = {d[4 * j + 2 * h] * factor, d[4 * j + 2 * h + 1] * factor};
                put<2>(to + 8 * j, value, a.add);
            }
}

/* Begins to fetch 64 rows of two operands. */
template <typename T, bool TURNS>
static __device__ __forceinline__ void fetch_two(const attention_args &a, const T *first, const T *second,
                                                 int64_t second_stride, int left, uint32_t to) {
    int64_t H = (int64_t)a.heads * a.width;
    copy_rows<T, 64, TILE, THREADS, TURNS>(first, 3 * H, a.width, left, to, (int)threadIdx.x);
    copy_rows<T, 64, TILE, THREADS, TURNS>(second, second_stride, a.width, left, to + TILE_BYTES, (int)threadIdx.x);
}

/* Scores of a tile become those with biases or terms. */
template <typename T, bool KEYS, bool BIAS>
static __device__ __forceinline__ void add_relative(const relative_args &t, const room<BIAS> &m, int n,
                                                    float (&score)[32]) {
    typedef sizes<BIAS> size;
    if constexpr (BIAS) add_biases<KEYS>(m.biases(n), score);
    else add_terms<T, KEYS>(t, m.memory + size::OWN_AT, m.memory + size::CROSS_AT, score);
}

/* Scores of half a tile of queries and gradients of its weights become gradients of scores, without the factor of
 * dropout's scale. x: decisions of the thread's two rows for its 8 keys, of which `valid` exist. */
template <bool DROP>
static __device__ __forceinline__ void form_slopes(float (&score)[32], const float (&dweight)[32], int half,
                                                   const float (&statistic)[2][2], const uint32_t (&x)[2][4], int valid,
                                                   float log2_scale) {
#pragma unroll
    for (int i = 16 * half; i < 16 * half + 16; i++) {
        int j = i / 4 % 4, h = i / 2 % 2, e = i % 2;
        float p = power_of_2(fmaf(score[i], log2_scale, -statistic[h][0])), d = dweight[i];
        if (DROP && !(x[h][j] & (e ? 0x80000000u : 0x8000u))) d = 0;
        score[i] = 2 * j + e < valid ? p * (d - statistic[h][1]) : 0.0f;
    }
}

/* Adds a tile's gradients of scores by distance, from `band` on: a thread has one distance. Sums of those that share
 * the last bucket are added by warps. */
static __device__ __forceinline__ void sum_distances(const relative_args &t, const room<true> &m,
                                                     const float (&slope)[32], int band) {
    typedef sizes<true> size;
    int lane = threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, number = threadIdx.x, distance = band + number;
    float *slopes = reinterpret_cast<float *>(m.memory + size::SLOPES_AT),
          *sums = reinterpret_cast<float *>(m.memory + size::SUMS_AT), sum = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int b = i / 2, h = i % 2;
        float *to = slopes + (warp * 16 + lane / 4 + 8 * h) * size::SLOPE_ROW + 32 * b + lane % 4 * 8;
        const float *from = slope + 16 * b + 2 * h;
        *reinterpret_cast<float4 *>(to) = make_float4(from[0], from[1], from[4], from[5]);
        *reinterpret_cast<float4 *>(to + 4) = make_float4(from[8], from[9], from[12], from[13]);
    }
    __syncthreads();
#pragma unroll 8
    for (int row = 0; row < TILE; row++) {
        int key = row + 63 - number;
        sum += key >= 0 && key < TILE ? slopes[row * size::SLOPE_ROW + key] : 0.0f;
    }
    float before = warp_sum(distance <= -t.far ? sum : 0.0f), after = warp_sum(distance >= t.far ? sum : 0.0f);
    if (abs(distance) < t.far) sums[distance + t.far] += sum;
    if (lane == 0) sums[2 * MOST_NEAR + 2 * warp] += before, sums[2 * MOST_NEAR + 2 * warp + 1] += after;
}

template <typename T, int DROP, bool BIAS>
static __device__ __forceinline__ void sum_dq(const relative_args &t, const relative_place &at, const decisions &drop,
                                              const room<BIAS> &m, const float (&statistic)[2][2], float (&dq)[32]) {
    typedef sizes<BIAS> size;
    const attention_args &a = t.a;
    int64_t H = (int64_t)a.heads * a.width;
    const T *from = (const T *)a.qkv + at.begin * 3 * H + H + at.head * a.width;
    int tiles = (at.length + TILE - 1) / TILE, band = at.first - (TILE - 1), c = threadIdx.x % 4;
    fetch_two<T, true>(a, from, from + H, 3 * H, at.length, m.stage(0));
    if constexpr (BIAS) m.biases(0)[threadIdx.x] = bias_at<T>(t, at.head, band);
    else {
        fetch_half<T, false>(t, at.head, 0, band, m);
        fetch_band<T, THREADS>(t, at.head, 0, band, m.base + size::CROSS_AT);
    }
    copy_commit();
    for (int n = 0; n < tiles; n++, band -= TILE) {
        float score[32], dweight[32];
        uint32_t factor[4][4], x[2][4] = {};
        int more = n + 1 < tiles;
        copy_wait<0>();
        show_to_matrix_units();
        __syncthreads(); /* the tile has arrived, and the previous one is no longer read */
        begin_rows<T>(m.base, m.stage(n), score);
        begin_rows<T>(m.base + TILE_BYTES, m.stage(n) + TILE_BYTES, dweight);
        from += TILE * 3 * H;
        if (more) fetch_two<T, true>(a, from, from + H, 3 * H, at.length - (n + 1) * TILE, m.stage(n + 1));
        if constexpr (BIAS)
            if (more) m.biases(n + 1)[threadIdx.x] = bias_at<T>(t, at.head, band - TILE);
        if constexpr (!BIAS) {
            if (more) fetch_half<T, false>(t, at.head, n + 1, band - TILE, m);
            form_terms<T, false>(m, n, m.stage(n));
        }
        wgmma_wait<0>();
        pin(score);
        pin(dweight);
        add_relative<T, false>(t, m, n, score);
#pragma unroll
        for (int b = 0; b < 2; b++) {
            int key = n * TILE + 32 * b + c * 8;
            if (DROP) decide<DROP == 1>(a, drop, key, x);
            form_slopes<DROP != 0>(score, dweight, b, statistic, x, at.length - key, a.scale * 1.44269504f);
#pragma unroll
            for (int k = 0; k < 2; k++) as_factor<T>(score, 2 * b + k, factor[2 * b + k]);
        }
        if constexpr (BIAS) sum_distances(t, m, score, band);
        else {
            if (t.terms & 1) put_own<T, false>(score, m.memory + size::OWN_AT);
            show_to_matrix_units();
            __syncthreads(); /* gradients are there, and products of keys are no longer read */
            if (more) fetch_band<T, THREADS>(t, at.head, 0, band - TILE, m.base + size::CROSS_AT);
        }
        wgmma_begin();
        add_product<T>(factor, m.stage(n), dq);
        wgmma_commit();
        if constexpr (!BIAS)
            if (t.terms & 1) add_band<T>(m, m.half(n), m.half(n - 1), dq);
        wgmma_wait<0>();
        pin(dq);
        copy_commit();
    }
}
#endif

/* Writes this block's sums of biases by distance. `sums` NULL: 0. */
static __device__ __forceinline__ void put_sums(const relative_args &t, const float *sums) {
    int n = 2 * t.far + 1;
    float *to = t.part + ((int64_t)blockIdx.x * t.a.heads + blockIdx.y) * n;
    for (int i = threadIdx.x; i < n; i += THREADS) {
        float sum = 0;
        int is_end = i == n - 1;
        if (sums && i > 0 && !is_end) sum = sums[i];
        else if (sums)
            for (int w = 0; w < THREADS / WARP; w++) sum += sums[2 * MOST_NEAR + 2 * w + is_end];
        to[i] = sum;
    }
}

template <typename T, int DROP, bool BIAS>
static __global__ void __launch_bounds__(THREADS, BIAS ? 3 : 2) dq_kernel(relative_args t) {
#if TRI_HOPPER
    extern __shared__ char raw[];
    const attention_args &a = t.a;
    relative_place at = place_here(a);
    if (at.first >= at.length || at.is_padding) {
        if (at.first < at.length) clear_tile<T>(a, at);
        if (BIAS) put_sums(t, NULL);
        return;
    }
    room<BIAS> m(raw);
    float *sums = reinterpret_cast<float *>(m.memory + sizes<BIAS>::SUMS_AT);
    for (int i = threadIdx.x; BIAS && i < 2 * MOST_NEAR + 8; i += THREADS) sums[i] = 0;
    int64_t H = (int64_t)a.heads * a.width, row = at.begin + at.first;
    fetch_two<T, false>(a, (const T *)a.qkv + row * 3 * H + at.head * a.width,
                        (const T *)a.dctx + row * H + at.head * a.width, H, at.length - at.first, m.base);
    float dq[32] = {}, statistic[2][2],
          *statistics = reinterpret_cast<float *>(m.memory + sizes<BIAS>::STATISTICS_AT);
    form_statistics<T>(a, at, statistics);
    __syncwarp(); /* a warp's rows are its own */
#pragma unroll
    for (int i = 0; i < 4; i++)
        statistic[i / 2][i % 2] =
            statistics[i % 2 * TILE + (int)threadIdx.x / WARP * 16 + (int)threadIdx.x % WARP / 4 + i / 2 * 8];
    decisions drop = {};
    if (DROP) drop = decisions_at(a, at.sample, at.query + (uint32_t)at.first, at.feature);
    if (DROP && !mask_is_even(a, drop.feature)) sum_dq<T, 2 * DROP, BIAS>(t, at, drop, m, statistic, dq);
    else sum_dq<T, DROP, BIAS>(t, at, drop, m, statistic, dq);
    put_rows<T>(a, dq, a.scale * a.drop.scale, (T *)a.dqkv + row * 3 * H + at.head * a.width, at.length - at.first,
                m.base);
    __syncthreads();
    if (BIAS) put_sums(t, sums);
#endif
}

#if TRI_HOPPER
/* Begins to fetch 64 queries from `first` on, their dctx and statistics. */
template <typename T, bool BIAS>
static __device__ __forceinline__ void fetch_queries(const attention_args &a, const relative_place &at,
                                                     const room<BIAS> &m, int n) {
    typedef sizes<BIAS> size;
    int64_t H = (int64_t)a.heads * a.width, row = at.begin + n * TILE;
    int number = (int)threadIdx.x % TILE, left = at.length - n * TILE;
    fetch_two<T, false>(a, (const T *)a.qkv + row * 3 * H + at.head * a.width,
                        (const T *)a.dctx + row * H + at.head * a.width, H, left, m.stage(n));
    const float *from = a.statistic + ((int64_t)threadIdx.x / TILE * a.heads + at.head) * a.rows + row;
    copy_4(m.base + size::STATISTICS_AT + (uint32_t)((n & 1) * size::STATISTIC_BYTES) + threadIdx.x * 4,
           number < left ? from + number : from, number < left);
}

/* Draws the decisions of the tile's keys for 64 queries: each thread for one query and 32 keys. */
static __device__ __forceinline__ void draw_decisions(const attention_args &a, const mask_start &start,
                                                      const relative_place &at, int n, uint2 *to) {
    int number = (int)threadIdx.x % TILE, lane = threadIdx.x % WARP, key = (int)threadIdx.x / TILE * WARP;
    attention_place place = {};
    place.sample = at.sample, place.query = at.query, place.feature = at.feature;
    uint32_t word = decide_keys(a, start, place, n * TILE + number, at.first + key);
    reinterpret_cast<uint32_t *>(to + key + lane % 16 * 2 + lane / 16)[number / WARP] = turn_bits(word);
}

template <typename T, int DROP, bool BIAS>
static __device__ __forceinline__ void sum_keys(const relative_args &t, const relative_place &at, const room<BIAS> &m,
                                                float (&dk)[32], float (&dv)[32]) {
    typedef sizes<BIAS> size;
    const attention_args &a = t.a;
    mask_start start = mask_start_of(a.drop);
    int tiles = (at.length + TILE - 1) / TILE, band = -at.first - (TILE - 1), lane = threadIdx.x % WARP;
    int row = (int)threadIdx.x / WARP * 16 + lane / 4;
    uint2 *decided = reinterpret_cast<uint2 *>(m.memory + size::DECISIONS_AT);
    fetch_queries<T>(a, at, m, 0);
    if constexpr (BIAS) m.biases(0)[threadIdx.x] = bias_at<T>(t, at.head, band);
    else {
        fetch_half<T, true>(t, at.head, 0, band, m);
        fetch_band<T, THREADS>(t, at.head, 1, band, m.base + size::CROSS_AT);
    }
    copy_commit();
    if (DROP) draw_decisions(a, start, at, 0, decided);
    for (int n = 0; n < tiles; n++, band += TILE) {
        const float *statistic =
            reinterpret_cast<float *>(m.memory + size::STATISTICS_AT + (n & 1) * size::STATISTIC_BYTES);
        float score[32], dweight[32];
        uint32_t weight[4][4], slope[4][4];
        uint2 kept[2];
        int more = n + 1 < tiles, queries = at.length - n * TILE;
        copy_wait<0>();
        show_to_matrix_units();
        __syncthreads(); /* the tile and its decisions have arrived, and the previous one is no longer read */
        begin_rows<T>(m.base, m.stage(n), score);
        begin_rows<T>(m.base + TILE_BYTES, m.stage(n) + TILE_BYTES, dweight);
        if (more) fetch_queries<T>(a, at, m, n + 1);
        if constexpr (BIAS)
            if (more) m.biases(n + 1)[threadIdx.x] = bias_at<T>(t, at.head, band + TILE);
        if (DROP && more) draw_decisions(a, start, at, n + 1, decided + (~n & 1) * TILE);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            uint2 both = DROP ? decided[(n & 1) * TILE + row + 8 * h] : make_uint2(~0u, ~0u);
            kept[h] = make_uint2(both.x >> lane % 4 * 2, both.y >> lane % 4 * 2);
        }
        if constexpr (!BIAS) {
            if (more) fetch_half<T, true>(t, at.head, n + 1, band + TILE, m);
            form_terms<T, true>(m, n, m.stage(n));
        }
        wgmma_wait<0>();
        pin(score);
        pin(dweight);
        add_relative<T, true>(t, m, n, score);
        exponentiate(score, statistic, a.scale * 1.44269504f);
        differentiate(score, dweight, statistic, kept, at.length - at.first - row);
        if (queries < TILE) {
#pragma unroll
            for (int i = 0; i < 32; i++)
                if (i / 4 * 8 + lane % 4 * 2 + i % 2 >= queries) score[i] = dweight[i] = 0;
        }
#pragma unroll
        for (int k = 0; k < 4; k++) as_factor<T>(score, k, weight[k]), as_factor<T>(dweight, k, slope[k]);
        if constexpr (!BIAS) {
            if (t.terms & 2) put_own<T, true>(dweight, m.memory + size::OWN_AT);
            show_to_matrix_units();
            __syncthreads(); /* gradients are there, and products of queries are no longer read */
            if (more) fetch_band<T, THREADS>(t, at.head, 1, band + TILE, m.base + size::CROSS_AT);
        }
        wgmma_begin();
        add_product<T>(weight, m.stage(n) + TILE_BYTES, dv);
        add_product<T>(slope, m.stage(n), dk);
        wgmma_commit();
        if constexpr (!BIAS)
            if (t.terms & 2) add_band<T>(m, m.half(n - 1), m.half(n), dk);
        wgmma_wait<0>();
        pin(dk);
        pin(dv);
        copy_commit();
    }
}
#endif

template <typename T, int DROP, bool BIAS>
static __global__ void __launch_bounds__(THREADS, BIAS ? 3 : 2) dkv_kernel(relative_args t) {
#if TRI_HOPPER
    extern __shared__ char raw[];
    const attention_args &a = t.a;
    relative_place at = place_here(a);
    if (at.is_padding || at.first >= at.length) return;
    room<BIAS> m(raw);
    int64_t H = (int64_t)a.heads * a.width, row = at.begin + at.first;
    const T *from = (const T *)a.qkv + row * 3 * H + H + at.head * a.width;
    fetch_two<T, false>(a, from, from + H, 3 * H, at.length - at.first, m.base);
    float dk[32] = {}, dv[32] = {};
    sum_keys<T, DROP, BIAS>(t, at, m, dk, dv);
    T *to = (T *)a.dqkv + row * 3 * H + H + at.head * a.width;
    put_rows<T>(a, dk, a.scale * a.drop.scale, to, at.length - at.first, m.base);
    put_rows<T>(a, dv, a.drop.scale, to + H, at.length - at.first, m.base + TILE_BYTES);
#endif
}

template <typename T, int DROP, bool BIAS> static void launch(const tri_call *call, relative_args t) {
    const char *where = "gradient of attention by distances";
    void (*kernels[2])(relative_args) = {dq_kernel<T, DROP, BIAS>, dkv_kernel<T, DROP, BIAS>};
    dim3 grid(tiles_for<TILE>(t.a.rows, t.a.n), (unsigned)t.a.heads);
    t.a.mask = mask_keys_of(t.a.drop);
    for (int i = 0; i < 2; i++) {
        record(call,
               cudaFuncSetAttribute(kernels[i], cudaFuncAttributeMaxDynamicSharedMemorySize, sizes<BIAS>::ALL), where);
        kernels[i]<<<grid, THREADS, sizes<BIAS>::ALL, stream(call)>>>(t);
    }
    launched(call, where);
}

template <typename T> static void launch_kind(const tri_call *call, const relative_args *t) {
    int drop = t->a.drop.threshold > 0;
    if (t->terms) drop ? launch<T, 1, false>(call, *t) : launch<T, 0, false>(call, *t);
    else drop ? launch<T, 1, true>(call, *t) : launch<T, 0, true>(call, *t);
}

void tri__cuda_relative_din(const tri_call *call, const relative_args *t, int dtype) {
    dtype == TRI_BF16 ? launch_kind<bf16>(call, t) : launch_kind<f16>(call, t);
}
