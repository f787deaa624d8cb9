/* attention_score.cuh - which score attention's loops give a query and a key on tensor cores: their product alone, with
 * a bias of their distance, or with the terms of disentangled attention (attention_relative.cuh).
 *
 * A loop calls begin() once, then for each tile that it meets form() while products run, add() to scores, and without
 * a gradient release(). With one, collect() takes the gradients of scores and sum() adds what they give to that of the
 * tile's own rows; before and after all of a tile of queries come clear() and end(). */
#ifndef TRI_DEVICE_CUDA_ATTENTION_ATTENTION_SCORE_CUH
#define TRI_DEVICE_CUDA_ATTENTION_ATTENTION_SCORE_CUH

#include "device/cuda/attention/attention_relative.cuh"
#include <type_traits>

enum { DOT, BIAS, TERMS };

template <int KIND> using score_args = std::conditional_t<KIND == DOT, tile_args, relative_args>;

/* Shared memory: FORWARD_BYTES without a gradient, BYTES with one. */
template <int KIND> struct score_room {
    enum { FORWARD_BYTES = 0, BYTES = 0 };
};
template <> struct score_room<BIAS> {
    enum {
        SLOPES_AT = 2 * BAND * 4, /* after two stages of a band: [TILE, SLOPE_ROW] floats */
        SLOPE_ROW = TILE + 4,     /* 4 more, for banks */
        SUMS_AT = SLOPES_AT + TILE * SLOPE_ROW * 4, /* by distance, then of far ones by warp and sign */
        FORWARD_BYTES = SLOPES_AT,
        BYTES = SUMS_AT + (2 * MOST_NEAR + 8) * 4,
    };
};
/* Three halves of the own rows' bands, of which adjacent tiles have half of the distances in common; the others' band,
 * whose place their products take; and the own products, whose places gradients take. */
template <> struct score_room<TERMS> {
    enum {
        CROSS_ROW = 2 * BAND + 16, /* bytes; 16 more, for banks */
        CROSS_AT = 3 * TILE_BYTES,
        OWN_AT = CROSS_AT + TILE * CROSS_ROW,
        BYTES = OWN_AT + BAND_BYTES,
        FORWARD_BYTES = BYTES,
    };
};

#if TRI_HOPPER
/* KEYS: of a tile of keys, which meets queries. */
template <typename T, bool KEYS, int KIND> struct score {
    __device__ __forceinline__ score() {}
    __device__ __forceinline__ score(const tile_args &, const tile_place &, char *, uint32_t) {}
    __device__ __forceinline__ void clear() const {}
    __device__ __forceinline__ void begin() const {}
    __device__ __forceinline__ void form(int, bool, uint32_t, uint32_t) const {}
    __device__ __forceinline__ void add(int, float (&)[32]) const {}
    __device__ __forceinline__ void release(int, bool) const {}
    __device__ __forceinline__ void collect(int, bool, const float (&)[32]) const {}
    template <int N> __device__ __forceinline__ void sum(int, float (&)[N]) const {}
    __device__ __forceinline__ void end() const {}
    static __device__ __forceinline__ void put_none(const tile_args &) {}
};

/* The first distance of the n-th tile's band. */
template <bool KEYS> static __device__ __forceinline__ int band_of(const tile_place &at, int n) {
    return KEYS ? n * TILE - at.first - (TILE - 1) : at.first - n * TILE - (TILE - 1);
}

/* Where accumulator element i of a tile of queries, by keys in turns, or of a tile of keys, by queries, is: its row,
 * the other one's in its tile, and its element in a band. */
typedef struct spot {
    int row, cross, m;
} spot;
template <bool KEYS> static __device__ __forceinline__ spot spot_of(int i) {
    int lane = threadIdx.x % WARP, c = lane % 4;
    spot s;
    s.row = (int)threadIdx.x / WARP * 16 + lane / 4 + i / 2 % 2 * 8, s.cross = i / 4 * 8 + c * 2 + i % 2;
    s.m = KEYS ? s.cross - s.row + 63 : s.row - (i / 16 * 32 + c * 8 + i / 4 % 4 * 2 + i % 2) + 63;
    return s;
}

/* Biases. Of their gradients each tile of queries has sums by distance, which attention_relative_table.cu adds. */
template <typename T, bool KEYS> struct score<T, KEYS, BIAS> : score_room<BIAS> {
    const relative_args &t;
    const tile_place &at;
    float *biases, *slopes, *sums;
    __device__ __forceinline__ score(const relative_args &args, const tile_place &place, char *memory, uint32_t)
        : t(args), at(place), biases(reinterpret_cast<float *>(memory)),
          slopes(reinterpret_cast<float *>(memory + SLOPES_AT)), sums(reinterpret_cast<float *>(memory + SUMS_AT)) {}

    __device__ __forceinline__ void clear() const {
        for (int i = threadIdx.x; i < 2 * MOST_NEAR + 8; i += THREADS) sums[i] = 0;
    }
    /* This thread's bias of a band, as an addend of products. */
    __device__ __forceinline__ void fetch(int n) const {
        int row = listed_row(t, band_of<KEYS>(at, n) + (int)threadIdx.x);
        biases[(n & 1) * BAND + threadIdx.x] =
            wide(((const T *)t.table)[(int64_t)row * t.a.heads + at.head]) / t.a.scale;
    }
    __device__ __forceinline__ void begin() const { fetch(0); }
    __device__ __forceinline__ void form(int n, bool more, uint32_t, uint32_t) const {
        if (more) fetch(n + 1);
    }
    __device__ __forceinline__ void add(int n, float (&score)[32]) const {
#pragma unroll
        for (int i = 0; i < 32; i++) score[i] += biases[(n & 1) * BAND + spot_of<KEYS>(i).m];
    }
    __device__ __forceinline__ void release(int, bool) const {}
    /* Adds a tile's gradients of scores by distance: a thread has one. Sums of those that share the last bucket are
     * added by warps. */
    __device__ __forceinline__ void collect(int n, bool, const float (&slope)[32]) const {
        if (KEYS) return;
        int lane = threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, number = threadIdx.x;
        int distance = band_of<KEYS>(at, n) + number;
        float sum = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int b = i / 2, h = i % 2;
            float *to = slopes + (warp * 16 + lane / 4 + 8 * h) * SLOPE_ROW + 32 * b + lane % 4 * 8;
            const float *from = slope + 16 * b + 2 * h;
            *reinterpret_cast<float4 *>(to) = make_float4(from[0], from[1], from[4], from[5]);
            *reinterpret_cast<float4 *>(to + 4) = make_float4(from[8], from[9], from[12], from[13]);
        }
        __syncthreads();
#pragma unroll 8
        for (int row = 0; row < TILE; row++) {
            int key = row + 63 - number;
            sum += key >= 0 && key < TILE ? slopes[row * SLOPE_ROW + key] : 0.0f;
        }
        float before = warp_sum(distance <= -t.far ? sum : 0.0f), after = warp_sum(distance >= t.far ? sum : 0.0f);
        if (abs(distance) < t.far) sums[distance + t.far] += sum;
        if (lane == 0) sums[2 * MOST_NEAR + 2 * warp] += before, sums[2 * MOST_NEAR + 2 * warp + 1] += after;
    }
    template <int N> __device__ __forceinline__ void sum(int, float (&)[N]) const {}
    __device__ __forceinline__ void end() const {
        if (KEYS) return;
        __syncthreads();
        put_sums(t, sums);
    }
    static __device__ __forceinline__ void put_none(const relative_args &t) { put_sums(t, NULL); }
    /* Writes this block's sums by distance. `sums` NULL: 0. */
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
};

/* Disentangled attention. */
template <typename T, bool KEYS> struct score<T, KEYS, TERMS> : score_room<TERMS> {
    enum { OWN_PART = KEYS ? 0 : 1, OWN_TERM = KEYS ? 2 : 1 }; /* queries meet the table's keys, keys its queries */
    const relative_args &t;
    const tile_place &at;
    char *memory;
    uint32_t base; /* its address */
    __device__ __forceinline__ score(const relative_args &args, const tile_place &place, char *room, uint32_t address)
        : t(args), at(place), memory(room), base(address) {}

    /* The half of the own band that comes with the n-th tile; the other is that of the tile before. Of tiles of
     * queries, which meet keys in order, the lower one, of tiles of keys the upper one. The first tile needs both. */
    __device__ __forceinline__ uint32_t half(int n) const { return base + (uint32_t)((n + 3) % 3 * TILE_BYTES); }
    __device__ __forceinline__ void fetch_half(int n) const {
        int band = band_of<KEYS>(at, n);
        fetch_band<T, THREADS, TILE>(t, at.head, OWN_PART, KEYS ? band + TILE : band, half(n));
        if (n == 0) fetch_band<T, THREADS, TILE>(t, at.head, OWN_PART, KEYS ? band : band + TILE, half(-1));
    }
    __device__ __forceinline__ void fetch_cross(int n) const {
        fetch_band<T, THREADS>(t, at.head, 1 - OWN_PART, band_of<KEYS>(at, n), base + CROSS_AT);
    }
    __device__ __forceinline__ void clear() const {}
    __device__ __forceinline__ void begin() const { fetch_half(0), fetch_cross(0); }
    /* The products of both tiles, whose rows are at `own` and `other`, with their bands. On return the former are in
     * place for this warp, the latter for all. */
    __device__ __forceinline__ void form(int n, bool more, uint32_t own, uint32_t other) const {
        float low[32], high[32], x[64];
        if (more) fetch_half(n + 1);
        begin_product<T, 64>(own, half(KEYS ? n - 1 : n), low);
        begin_product<T, 64>(own, half(KEYS ? n : n - 1), high);
        wgmma_wait<0>();
        pin(low);
        pin(high);
        store_own<T, KEYS>(low, 0, base + OWN_AT);
        store_own<T, KEYS>(high, 1, base + OWN_AT);
        begin_product<T, 64>(other, base + CROSS_AT, x); /* not before: registers do not allow it */
        wgmma_wait<0>();
        pin(x);
        __syncthreads(); /* the band is no longer read: the products take its place */
        int lane = threadIdx.x % WARP, row = (int)threadIdx.x / WARP * 16 + lane / 4;
        char *to = memory + CROSS_AT;
#pragma unroll
        for (int j = 0; j < 16; j++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                *reinterpret_cast<uint32_t *>(to + (row + 8 * h) * CROSS_ROW + (8 * j + lane % 4 * 2) * 2) =
                    pair_of(T(), x[4 * j + 2 * h], x[4 * j + 2 * h + 1]);
        __syncthreads();
    }
    __device__ __forceinline__ void add(int, float (&score)[32]) const {
        if (t.terms & OWN_TERM) {
#pragma unroll
            for (int i = 0; i < 32; i++) {
                spot s = spot_of<KEYS>(i);
                score[i] += wide(*reinterpret_cast<const T *>(memory + OWN_AT + own_at(s.row, s.m)));
            }
        }
        if (t.terms & (3 - OWN_TERM)) {
#pragma unroll
            for (int i = 0; i < 32; i++) {
                spot s = spot_of<KEYS>(i);
                score[i] += wide(*reinterpret_cast<const T *>(memory + CROSS_AT + s.cross * CROSS_ROW + s.m * 2));
            }
        }
    }
    __device__ __forceinline__ void release(int n, bool more) const {
        __syncthreads(); /* the others' products are no longer read */
        if (more) fetch_cross(n + 1);
    }
    __device__ __forceinline__ void collect(int n, bool more, const float (&slope)[32]) const {
        if (t.terms & OWN_TERM) {
#pragma unroll
            for (int i = 0; i < 32; i++) {
                spot s = spot_of<KEYS>(i);
                *reinterpret_cast<T *>(memory + OWN_AT + own_at(s.row, s.m)) = narrow<T>(slope[i]);
            }
        }
        show_to_matrix_units();
        release(n, more); /* gradients are there, too */
    }
    /* Adds the own gradients times the own band. */
    __device__ __forceinline__ void sum(int n, float (&to)[32]) const {
        if (!(t.terms & OWN_TERM)) return;
        uint32_t a = tile_at(base + OWN_AT), b[2] = {tile_at(half(KEYS ? n - 1 : n), TILE_BYTES),
                                                     tile_at(half(KEYS ? n : n - 1), TILE_BYTES)};
        wgmma_begin();
#pragma unroll
        for (int k = 0; k < BAND / 16; k++)
            wgmma<T>::template run<0, 1>(to, tile(a, k / 4 * TILE_BYTES + k % 4 * 32),
                                         tile(b[k / 4], k % 4 * 16 * ROW_BYTES), 1);
        wgmma_commit();
    }
    __device__ __forceinline__ void end() const {}
    static __device__ __forceinline__ void put_none(const relative_args &) {}
};
#endif

#endif
