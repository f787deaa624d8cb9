/* attention_relative.cuh - shared by the tensor core kernels of attention by distances: MPNet's biases, and DeBERTa's
 * disentangled attention.
 *
 * A tile of 64 queries meets 64 keys at 127 distances, a band: of the disentangled terms, queries are
 * multiplied with the band's keys and keys with the band's queries, [64, 128] each, whose element (row, m) belongs to
 * the pair at distance first + m. In gradients each pair's goes back to its element, and the two products are
 * transposed. Distances that share a row of the table have it several times in a band, so that nothing is searched or
 * summed by buckets before the very end. */
#pragma once

#include "device/cuda/attention/attention_loops.cuh"
#include "device/cuda/attention/attention_relative_args.cuh"
#include "device/cuda/attention/attention_tiles.cuh"

enum {
    BAND = 128,
    TILE_BYTES = TILE * ROW_BYTES,
    BAND_BYTES = BAND * ROW_BYTES,   /* of 64 columns; as many as [64, 128] products */
    CROSS_ROW = 2 * BAND + 16,       /* bytes; 16 more, for banks */
    CROSS_BYTES = TILE * CROSS_ROW,
};

/* Layout of shared memory: the tile's own rows of two operands, two stages of two operands of the other, and for terms
 * three halves of the own rows' bands, the others' band or products, and the own products. Bands of adjacent tiles have
 * half of their distances in common. */
template <bool BIAS> struct sizes {
    enum {
        STAGE_BYTES = 2 * TILE_BYTES,
        STAGES_AT = 2 * TILE_BYTES,
        BAND_AT = STAGES_AT + 2 * STAGE_BYTES,
        CROSS_AT = BAND_AT + (BIAS ? 0 : 3 * TILE_BYTES),
        OWN_AT = CROSS_AT + (BIAS ? 0 : CROSS_BYTES),
        STATISTICS_AT = OWN_AT + (BIAS ? 0 : BAND_BYTES), /* two stages of [2, TILE] floats */
        STATISTIC_BYTES = 2 * TILE * 4,
        DECISIONS_AT = STATISTICS_AT + 2 * STATISTIC_BYTES, /* two stages of [TILE, 2 words] */
        DECISION_BYTES = TILE * 8,
        BIASES_AT = DECISIONS_AT + 2 * DECISION_BYTES, /* two stages of a band */
        SLOPES_AT = BIASES_AT + 2 * BAND * 4,          /* of biases: [TILE, SLOPE_ROW] floats */
        SLOPE_ROW = TILE + 4,                          /* 4 more, for banks */
        SUMS_AT = SLOPES_AT + (BIAS ? TILE * SLOPE_ROW * 4 : 0), /* by distance, then of far ones by warp and sign */
        ALL = SUMS_AT + (BIAS ? (2 * MOST_NEAR + 8) * 4 : 0) + ATOM_BYTES, /* and padding to align */
    };
};

#if TRI_HOPPER
/* Begins to fetch ROWS of a band, for distances from `first` on, by N threads: the table's queries (part 0) or keys
 * (1). */
template <typename T, int N, int ROWS = BAND>
static __device__ __forceinline__ void fetch_band(const relative_args &t, int head, int part, int first, uint32_t to) {
    enum { PIECES = TILE / WIDE };
    int row = (int)threadIdx.x / PIECES, piece = (int)threadIdx.x % PIECES;
    int64_t stride = (int64_t)3 * t.a.heads * t.a.width;
    const T *from = (const T *)t.table + ((int64_t)part * t.a.heads + head) * t.a.width;
#pragma unroll
    for (int i = 0; i < ROWS; i += N / PIECES) {
        int valid = piece * WIDE < t.a.width;
        copy_16(to + piece_at(row + i, piece),
                valid ? from + listed_row(t, first + row + i) * stride + piece * WIDE : from, valid);
    }
}

/* This thread's bias of a band, as an addend of products. */
template <typename T>
static __device__ __forceinline__ float bias_at(const relative_args &t, int head, int first) {
    int row = listed_row(t, first + (int)threadIdx.x % BAND);
    return wide(((const T *)t.table)[(int64_t)row * t.a.heads + head]) / t.a.scale;
}

/* The offset of element (row, m) of products with a band, two panels of [64, 64]. */
static __device__ __forceinline__ uint32_t own_at(int row, int m) {
    return (uint32_t)((m >> 6) * TILE_BYTES + (m & 7) * 2) + piece_at(row, m >> 3 & 7);
}

/* Stores the products of this warpgroup's rows with half of their band. Elements of no pair are 0, in gradients, too.
 */
template <typename T, bool KEYS>
static __device__ __forceinline__ void store_own(float (&x)[32], int half, uint32_t to) {
    int lane = threadIdx.x % WARP, warp_row = (int)threadIdx.x % THREADS / WARP * 16;
#pragma unroll
    for (int i = 0; i < 32; i++) {
        int row = warp_row + lane / 4 + i / 2 % 2 * 8, m = half * TILE + i / 4 * 8 + lane % 4 * 2 + i % 2;
        if ((unsigned)(KEYS ? m + row - 63 : m - row) >= TILE) x[i] = 0;
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
        uint32_t four[4];
        as_factor<T>(x, k, four);
        store_matrices(to + (uint32_t)(half * TILE_BYTES) + piece_at(warp_row + lane % 16, k * 2 + lane / 16), four);
    }
}

/* Stores the products of the other tile's rows with theirs. */
template <typename T> static __device__ __forceinline__ void store_cross(const float (&x)[64], char *to) {
    int lane = threadIdx.x % WARP, row = (int)threadIdx.x / WARP * 16 + lane / 4;
#pragma unroll
    for (int j = 0; j < 16; j++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            *reinterpret_cast<uint32_t *>(to + (row + 8 * h) * CROSS_ROW + (8 * j + lane % 4 * 2) * 2) =
                pair_of(T(), x[4 * j + 2 * h], x[4 * j + 2 * h + 1]);
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

/* Adds a band's biases, or both terms, to scores. */
template <bool KEYS> static __device__ __forceinline__ void add_biases(const float *biases, float (&score)[32]) {
#pragma unroll
    for (int i = 0; i < 32; i++) score[i] += biases[spot_of<KEYS>(i).m];
}
template <typename T, bool KEYS>
static __device__ __forceinline__ void add_terms(const relative_args &t, const char *own, const char *cross,
                                                 float (&score)[32]) {
    if (t.terms & (KEYS ? 2 : 1)) {
#pragma unroll
        for (int i = 0; i < 32; i++) {
            spot s = spot_of<KEYS>(i);
            score[i] += wide(*reinterpret_cast<const T *>(own + own_at(s.row, s.m)));
        }
    }
    if (t.terms & (KEYS ? 1 : 2)) {
#pragma unroll
        for (int i = 0; i < 32; i++) {
            spot s = spot_of<KEYS>(i);
            score[i] += wide(*reinterpret_cast<const T *>(cross + s.cross * CROSS_ROW + s.m * 2));
        }
    }
}

/* A block's shared memory. */
template <bool BIAS> struct room {
    char *memory;
    uint32_t base; /* its address */
    __device__ __forceinline__ room(char *raw) {
        uint32_t unaligned = shared_address(raw);
        base = (unaligned + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES, memory = raw + (base - unaligned);
    }
    __device__ __forceinline__ uint32_t stage(int n) const {
        return base + sizes<BIAS>::STAGES_AT + (uint32_t)(n & 1) * sizes<BIAS>::STAGE_BYTES;
    }
    /* The half of the own band that comes with the n-th tile; the other is that of the tile before. */
    __device__ __forceinline__ uint32_t half(int n) const {
        return base + sizes<BIAS>::BAND_AT + (uint32_t)((n + 3) % 3 * TILE_BYTES);
    }
    __device__ __forceinline__ float *biases(int n) const {
        return reinterpret_cast<float *>(memory + sizes<BIAS>::BIASES_AT) + (n & 1) * BAND;
    }
};

/* Begins to fetch 64 rows of two operands. */
template <typename T, bool TURNS>
static __device__ __forceinline__ void fetch_two(const attention_args &a, const T *first, const T *second,
                                                 int64_t second_stride, int left, uint32_t to) {
    int64_t H = (int64_t)a.heads * a.width;
    copy_rows<T, 64, TILE, THREADS, TURNS>(first, 3 * H, a.width, left, to, (int)threadIdx.x);
    copy_rows<T, 64, TILE, THREADS, TURNS>(second, second_stride, a.width, left, to + TILE_BYTES, (int)threadIdx.x);
}

/* Begins to fetch the own band's half for the n-th tile, whose band begins at distance `band`: the lower one for tiles
 * of queries, which meet keys in order, the upper one for tiles of keys. The first tile needs both. */
template <typename T, bool KEYS>
static __device__ __forceinline__ void fetch_half(const relative_args &t, int head, int n, int band,
                                                  const room<false> &m) {
    fetch_band<T, THREADS, TILE>(t, head, KEYS ? 0 : 1, KEYS ? band + TILE : band, m.half(n));
    if (n == 0) fetch_band<T, THREADS, TILE>(t, head, KEYS ? 0 : 1, KEYS ? band : band + TILE, m.half(-1));
}

/* Of the n-th tile: the products of both with their bands, own ones and those of the other tile, whose rows are at
 * `other`. On return the former are in place for this warp, the latter for all. */
template <typename T, bool KEYS>
static __device__ __forceinline__ void form_terms(const room<false> &m, int n, uint32_t other) {
    typedef sizes<false> size;
    float low[32], high[32], x[64];
    begin_product<T, 64>(m.base, m.half(KEYS ? n - 1 : n), low);
    begin_product<T, 64>(m.base, m.half(KEYS ? n : n - 1), high);
    wgmma_wait<0>();
    pin(low);
    pin(high);
    store_own<T, KEYS>(low, 0, m.base + size::OWN_AT);
    store_own<T, KEYS>(high, 1, m.base + size::OWN_AT);
    begin_product<T, 64>(other, m.base + size::CROSS_AT, x); /* not before: registers do not allow it */
    wgmma_wait<0>();
    pin(x);
    __syncthreads(); /* the band is no longer read: the products take its place */
    store_cross<T>(x, m.memory + size::CROSS_AT);
    __syncthreads();
}

/* Scores of a tile become those with biases or terms. */
template <typename T, bool KEYS, bool BIAS>
static __device__ __forceinline__ void add_relative(const relative_args &t, const room<BIAS> &m, int n,
                                                    float (&score)[32]) {
    typedef sizes<BIAS> size;
    if constexpr (BIAS) add_biases<KEYS>(m.biases(n), score);
    else add_terms<T, KEYS>(t, m.memory + size::OWN_AT, m.memory + size::CROSS_AT, score);
}

/* Of a tile of queries, all keys of its sequence, of `length` rows. `from`: the row of the next key to fetch; `band`:
 * the first distance to a tile. */
template <typename T, bool BIAS> struct distant_tiles {
    typedef sizes<BIAS> size;
    const relative_args &t;
    const room<BIAS> &m;
    const T *from;
    int head, length, tiles, band;

    __device__ __forceinline__ void look(int) const {}
    __device__ __forceinline__ int key(int n, int half) const {
        return n * TILE + 32 * half + (int)threadIdx.x % 4 * 8;
    }
    /* Begins to fetch the n-th tile, but for the cross band. */
    __device__ __forceinline__ void fetch_tile(int n, int band) const {
        int64_t H = (int64_t)t.a.heads * t.a.width;
        fetch_two<T, true>(t.a, from, from + H, 3 * H, length - n * TILE, m.stage(n));
        if constexpr (BIAS) m.biases(n)[threadIdx.x] = bias_at<T>(t, head, band);
        else fetch_half<T, false>(t, head, n, band, m);
    }
    __device__ __forceinline__ void fetch_cross(int band) const {
        if constexpr (!BIAS) fetch_band<T, THREADS>(t, head, 0, band, m.base + size::CROSS_AT);
    }
    __device__ __forceinline__ void begin() const {
        fetch_tile(0, band);
        fetch_cross(band);
        copy_commit();
    }
};
#endif

/* run(T(), DROP, BIAS) with the constants of a call. */
template <class F> static void by_kind(const relative_args *t, int dtype, F run) {
    by_half(dtype, [&](auto x) {
        by_flag(t->a.drop.threshold > 0,
                [&](auto drop) { by_flag(!t->terms, [&](auto bias) { run(x, drop, bias); }); });
    });
}
