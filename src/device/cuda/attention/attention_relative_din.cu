/* attention_relative_din.cu - the gradients of queries, keys and values in attention by distances
 * (attention_relative.cuh), in two kernels of one warpgroup per tile and head, as attention_tiles_din.cu: a tile of 64
 * queries meets all keys, and a tile of 64 keys all queries. Nothing is summed across blocks; of biases' gradients each
 * tile of queries has sums by distance. */
#include "device/cuda/attention/attention_loops_din.cuh"
#include "device/cuda/attention/attention_relative.cuh"

/* The tile of this thread block. */
[[maybe_unused]] static __device__ __forceinline__ tile_place place_here(const attention_args &a) {
    int s = sequence_of<TILE>(a.seq, a.n, blockIdx.x), begin = a.seq[s];
    tile_place at = {};
    at.head = (int)blockIdx.y, at.query_row = at.key_row = begin;
    at.queries = at.keys = (s < a.n ? a.seq[s + 1] : (int)a.rows) - begin;
    at.first = ((int)blockIdx.x - (begin / TILE + s)) * TILE, at.is_padding = s == a.n;
    if (a.drop.threshold && s < a.n && at.first < at.queries) {
        at.sample = (uint32_t)a.key[2 * begin], at.query = (uint32_t)a.key[2 * begin + 1];
        at.key = first_feature(a, at.head) + at.query;
    }
    return at;
}

#if TRI_HOPPER
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

/* All keys of the tile's sequence; `band` is that of the current tile. */
template <typename T, bool BIAS> struct distant_keys : distant_tiles<T, BIAS> {
    typedef sizes<BIAS> size;
    enum { EARLY = 0 };
    __device__ __forceinline__ uint32_t stage(int n) const { return this->m.stage(n); }
    template <int DROP> __device__ __forceinline__ void fetch(int n, uint32_t (&)[2][2][4]) {
        this->from += (int64_t)TILE * 3 * this->t.a.heads * this->t.a.width;
        if (n + 1 < this->tiles) this->fetch_tile(n + 1, this->band - TILE);
        if constexpr (!BIAS) form_terms<T, false>(this->m, n, this->m.stage(n));
    }
    __device__ __forceinline__ void add(int n, float (&score)[32]) const {
        add_relative<T, false>(this->t, this->m, n, score);
    }
    __device__ __forceinline__ met_keys met(int n, int half) const {
        int valid = this->length - this->key(n, half);
        return met_keys{0, {0, 0}, {valid, valid}};
    }
    __device__ __forceinline__ void slopes(int n, const float (&score)[32]) const {
        if constexpr (BIAS) sum_distances(this->t, this->m, score, this->band);
        else {
            if (this->t.terms & 1) put_own<T, false>(score, this->m.memory + size::OWN_AT);
            show_to_matrix_units();
            __syncthreads(); /* gradients are there, and products of keys are no longer read */
            if (n + 1 < this->tiles) this->fetch_cross(this->band - TILE);
        }
    }
    __device__ __forceinline__ void more(int n, float (&dq)[32]) const {
        if constexpr (!BIAS)
            if (this->t.terms & 1) add_band<T>(this->m, this->m.half(n), this->m.half(n - 1), dq);
    }
    __device__ __forceinline__ void end() {
        copy_commit();
        this->band -= TILE;
    }
};
#endif

/* Writes this block's sums of biases by distance. `sums` NULL: 0. */
[[maybe_unused]] static __device__ __forceinline__ void put_sums(const relative_args &t, const float *sums) {
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
    tile_place at = place_here(a);
    if (at.first >= at.queries || at.is_padding) {
        if (at.first < at.queries) clear_tile<T>(a, at);
        if (BIAS) put_sums(t, NULL);
        return;
    }
    room<BIAS> m(raw);
    float *sums = reinterpret_cast<float *>(m.memory + sizes<BIAS>::SUMS_AT);
    for (int i = threadIdx.x; BIAS && i < 2 * MOST_NEAR + 8; i += THREADS) sums[i] = 0;
    int64_t H = (int64_t)a.heads * a.width, row = at.query_row + at.first;
    fetch_two<T, false>(a, (const T *)a.qkv + row * 3 * H + at.head * a.width,
                        (const T *)a.dctx + row * H + at.head * a.width, H, at.queries - at.first, m.base);
    float dq[32] = {}, statistic[2][2],
          *statistics = reinterpret_cast<float *>(m.memory + sizes<BIAS>::STATISTICS_AT);
    form_statistics<T>(a, at, statistics);
    take_statistics(statistics, statistic);
    decisions drop = {};
    if (DROP) drop = decisions_at(a, at.sample, at.query + (uint32_t)at.first, at.key);
    distant_keys<T, BIAS> meets = {{t, m, (const T *)a.qkv + at.key_row * 3 * H + H + at.head * a.width, at.head,
                                    at.keys, (at.keys + TILE - 1) / TILE, at.first - (TILE - 1)}};
    meets.begin();
    if (DROP && !mask_is_even(a, drop.feature)) sum_dq<T, 64, 2 * DROP>(a, drop, meets, m.base, statistic, dq);
    else sum_dq<T, 64, DROP>(a, drop, meets, m.base, statistic, dq);
    put_tile<T, 64>(dq, a.scale * a.drop.scale, (T *)a.dqkv + row * 3 * H + at.head * a.width, 3 * H,
                    at.queries - at.first, a.width, a.add, m.base);
    __syncthreads();
    if (BIAS) put_sums(t, sums);
#endif
}

#if TRI_HOPPER
/* All queries of the tile's sequence. */
template <typename T, bool BIAS> struct distant_queries {
    typedef sizes<BIAS> size;
    const relative_args &t;
    const tile_place &at;
    const mask_start &start;
    const room<BIAS> &m;
    int tiles, band; /* band: the first distance to the next tile to fetch */

    __device__ __forceinline__ uint32_t stage(int n) const { return m.stage(n); }
    __device__ __forceinline__ const float *statistic(int n) const {
        return reinterpret_cast<float *>(m.memory + size::STATISTICS_AT + (n & 1) * size::STATISTIC_BYTES);
    }
    __device__ __forceinline__ uint2 *decided(int n) const {
        return reinterpret_cast<uint2 *>(m.memory + size::DECISIONS_AT) + (n & 1) * TILE;
    }
    __device__ __forceinline__ void draw(int n) const {
        draw_decisions(t.a, start, at, n * TILE + (int)threadIdx.x % TILE, decided(n));
    }
    /* Begins to fetch the n-th tile's queries, their dctx and statistics, and biases. */
    __device__ __forceinline__ void fetch_tile(int n) const {
        const attention_args &a = t.a;
        int64_t H = (int64_t)a.heads * a.width, row = at.query_row + n * TILE;
        int number = (int)threadIdx.x % TILE, left = at.queries - n * TILE;
        fetch_two<T, false>(a, (const T *)a.qkv + row * 3 * H + at.head * a.width,
                            (const T *)a.dctx + row * H + at.head * a.width, H, left, m.stage(n));
        const float *from = a.statistic + ((int64_t)threadIdx.x / TILE * a.heads + at.head) * a.rows + row;
        copy_4(m.base + size::STATISTICS_AT + (uint32_t)((n & 1) * size::STATISTIC_BYTES) + threadIdx.x * 4,
               number < left ? from + number : from, number < left);
        if constexpr (BIAS) m.biases(n)[threadIdx.x] = bias_at<T>(t, at.head, band);
    }
    template <int DROP> __device__ __forceinline__ void begin() const {
        fetch_tile(0);
        if constexpr (!BIAS) {
            fetch_half<T, true>(t, at.head, 0, band, m);
            fetch_band<T, THREADS>(t, at.head, 1, band, m.base + size::CROSS_AT);
        }
        copy_commit();
        if (DROP) draw(0);
    }
    template <int DROP> __device__ __forceinline__ void fetch(int n) {
        band += TILE;
        if (n + 1 < tiles) fetch_tile(n + 1);
        if (DROP && n + 1 < tiles) draw(n + 1);
    }
    __device__ __forceinline__ void weigh(int n, float (&score)[32], float (&dweight)[32]) const {
        if constexpr (!BIAS) {
            if (n + 1 < tiles) fetch_half<T, true>(t, at.head, n + 1, band, m);
            form_terms<T, true>(m, n, m.stage(n));
        }
        wgmma_wait<0>();
        pin(score);
        pin(dweight);
        add_relative<T, true>(t, m, n, score);
        exponentiate(score, statistic(n), t.a.scale * 1.44269504f);
    }
    __device__ __forceinline__ void hide(int n, float (&score)[32], float (&dweight)[32]) const {
        int lane = threadIdx.x % WARP, queries = at.queries - n * TILE;
        if (queries >= TILE) return;
#pragma unroll
        for (int i = 0; i < 32; i++)
            if (i / 4 * 8 + lane % 4 * 2 + i % 2 >= queries) score[i] = dweight[i] = 0;
    }
    __device__ __forceinline__ void slopes(int n, const float (&dweight)[32]) const {
        if constexpr (!BIAS) {
            if (t.terms & 2) put_own<T, true>(dweight, m.memory + size::OWN_AT);
            show_to_matrix_units();
            __syncthreads(); /* gradients are there, and products of queries are no longer read */
            if (n + 1 < tiles) fetch_band<T, THREADS>(t, at.head, 1, band, m.base + size::CROSS_AT);
        }
    }
    __device__ __forceinline__ void more(int n, float (&dk)[32]) const {
        if constexpr (!BIAS)
            if (t.terms & 2) add_band<T>(m, m.half(n - 1), m.half(n), dk);
    }
    __device__ __forceinline__ void end() const { copy_commit(); }
};
#endif

template <typename T, int DROP, bool BIAS>
static __global__ void __launch_bounds__(THREADS, BIAS ? 3 : 2) dkv_kernel(relative_args t) {
#if TRI_HOPPER
    extern __shared__ char raw[];
    const attention_args &a = t.a;
    tile_place at = place_here(a);
    if (at.is_padding || at.first >= at.keys) return;
    room<BIAS> m(raw);
    int64_t H = (int64_t)a.heads * a.width, row = at.key_row + at.first;
    const T *from = (const T *)a.qkv + row * 3 * H + H + at.head * a.width;
    fetch_two<T, false>(a, from, from + H, 3 * H, at.keys - at.first, m.base);
    key_sums<64> of = {};
    mask_start start = mask_start_of(a.drop);
    distant_queries<T, BIAS> meets = {t, at, start, m, (at.queries + TILE - 1) / TILE, -at.first - (TILE - 1)};
    meets.template begin<DROP>();
    sum_keys<T, 64, DROP>(meets, m.base,
                          at.keys - at.first - (int)threadIdx.x / WARP * 16 - (int)threadIdx.x % WARP / 4, of);
    T *to = (T *)a.dqkv + row * 3 * H + H + at.head * a.width;
    put_tile<T, 64>(of.dk, a.scale * a.drop.scale, to, 3 * H, at.keys - at.first, a.width, a.add, m.base);
    put_tile<T, 64>(of.dv, a.drop.scale, to + H, 3 * H, at.keys - at.first, a.width, a.add, m.base + TILE_BYTES);
#endif
}

void tri__cuda_relative_din(const tri_call *call, const relative_args *t, int dtype) {
    const char *where = "gradient of attention by distances";
    dim3 grid(tiles_for<TILE>(t->a.rows, t->a.n), (unsigned)t->a.heads);
    relative_args with = *t;
    with.a.mask = mask_keys_of(t->a.drop);
    by_kind(t, dtype, [&](auto x, auto drop, auto bias) {
        queue_sharing(call, where, dq_kernel<decltype(x), drop, bias>, grid, THREADS, sizes<bias>::ALL, with);
        queue_sharing(call, where, dkv_kernel<decltype(x), drop, bias>, grid, THREADS, sizes<bias>::ALL, with);
    });
}
