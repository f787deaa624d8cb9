/* attention_tiles.cuh - shared by the tensor core kernels of attention where a tile of 64 rows meets other rows by a
 * list: block-sparse attention (layout/blocks.h), and parts of a ring (layout/runs.h). The other rows are counted in
 * granules of 16, which lie in one block each. A warp has 16 rows of the tile, of one block, or in a ring of two, as
 * chunks begin anywhere. What the warps need is listed together, with two bits for each, and fetched four granules at a
 * time, wherever they are: neighbouring blocks become one tile, and so do scattered ones. */
#pragma once

#include "device/cuda/attention/attention.cuh"
#include "device/cuda/product/wgmma.cuh"
#include "layout/blocks.h"
#include "layout/runs.h"

enum {
    TILE = 64,
    GRANULE = 16,
    TILE_WARPS = 4,
    LISTED = 512, /* granules that are looked at together */
    WORDS = LISTED / 32,
    NO_WINDOW = 1 << 28, /* tokens: further than any key */
};

struct tile_args : attention_args {
    const void *kv;        /* keys, from the first one's column on; values are heads * width columns further */
    void *dkv;             /* their gradients, likewise */
    int64_t kv_stride;     /* columns of a row of kv and dkv */
    const int32_t *blocks; /* NULL: all */
    int block;             /* tokens */
    int window;            /* a query's furthest key, in tokens; NO_WINDOW: any */
    int ring, run, part;   /* layout/runs.h: queries are of `run`, keys of `part`; ring 0: all rows are here */
    int add_kv;            /* dkv is added to */
};

/* With the blocks of an operand, if there are any. */
static inline tile_args tiles_of(const tri_call *call, const attention_args &a, int blocks) {
    tile_args t = {};
    static_cast<attention_args &>(t) = a;
    t.blocks = data<int32_t>(call, blocks), t.block = call->attr->block;
    t.window = call->attr->window ? call->attr->window : NO_WINDOW;
    return t;
}

/* attention_tiles.cu, attention_tiles_din.cu: 0 if they do not support this call or device. The gradient has scratch
 * space for statistics. */
int tri__cuda_tiles(const tri_call *call, const tile_args *args, int dtype);
int tri__cuda_tiles_din(const tri_call *call, const tile_args *args, int dtype);
/* Scratch of the gradient: two floats for each row and head of at least 8 columns; bytes per 16-bit element of dqkv. */
#define TILES_WORK {0, 0, 0, 1, 0}

/* A tile of one head: 64 rows from `first` on, relative to their sequence, of queries or of keys. */
typedef struct tile_place {
    int head, first, queries, keys; /* of the sequence: numbers of rows */
    int query_row, key_row;         /* where they begin */
    uint32_t sample, query, key;    /* of random numbers: the sequence, its first query and its first key */
    int place;                      /* the first of the tile's side, of all that are here, in its sequence */
    int lead, base;                 /* of the other side: it begins `lead` rows after granule `base` of its sequence */
    int is_padding;                 /* rows from query_row on, up to the end, belong to no sequence */
} tile_place;

static __device__ __forceinline__ int first_row(const tile_args &t, int s) {
    return t.ring ? t.seq[s] / t.ring + s : t.seq[s];
}

/* The sequence of a tile, or n. Tiles are numbered as in attention.cuh. */
static __device__ __forceinline__ int sequence_at(const tile_args &t, int number) {
    return warp_search(t.n, [&](int s) { return first_row(t, s) / TILE + s <= number; });
}

/* The tile of this thread block; first >= the number of its rows: none. RING: t.ring is not 0; without one all warps
 * are within blocks, and nothing leads. */
template <bool RING> static __device__ __forceinline__ tile_place tile_here(const tile_args &t, bool of_keys) {
    const attention_args &a = t;
    int number = (int)blockIdx.x / a.heads, low = sequence_at(t, number);
    tile_place at = {};
    at.head = (int)blockIdx.x % a.heads;
    at.query_row = at.key_row = first_row(t, low);
    at.first = (number - (at.query_row / TILE + low)) * TILE;
    at.is_padding = low == a.n;
    if (at.is_padding) at.queries = RING ? 0 : (int)a.rows - at.query_row;
    else if (RING) {
        tri_run_rows q = tri__ring_run(a.seq, low, t.run, t.ring), k = tri__ring_run(a.seq, low, t.part, t.ring);
        int64_t other = of_keys ? q.place : k.place;
        at.queries = (int)(q.end - q.begin), at.keys = (int)(k.end - k.begin);
        at.place = (int)(of_keys ? k.place : q.place), at.lead = (int)(other % TILE);
        at.base = (int)(other / TILE) * (TILE / GRANULE);
    } else at.queries = at.keys = a.seq[low + 1] - a.seq[low];
    if (a.drop.threshold && at.first < (of_keys ? at.keys : at.queries) && at.queries && at.keys) {
        const int32_t *query = a.key + 2 * (t.run * a.rows + at.query_row);
        at.sample = (uint32_t)query[0], at.query = (uint32_t)query[1];
        at.key = first_feature(a, at.head) + (uint32_t)a.key[2 * (t.part * a.rows + at.key_row) + 1];
    }
    return at;
}

/* What a tile's warps meet: entries are 256 * granule + two bits for each warp, ascending, padded with 0 to whole
 * tiles. Bit w: the first rows of warp w, up to the end of their block; bit 4 + w: the others. */
typedef struct tile_list {
    int32_t entry[LISTED];
    uint32_t bits[2 * TILE_WARPS][WORDS], any[WORDS];
    int before[WORDS]; /* entries of the words before */
    int count;
} tile_list;

/* Where a warp is in the lists of its blocks. */
typedef struct tile_cursor {
    const int32_t *of[2], *end[2]; /* of the first rows' block, and of the others' */
    int split;                     /* the first of the others, of 16; 16: there are none */
    int lead, base;                /* of the rows that are listed, as in tile_place */
    bool exists;                   /* the warp has rows */
} tile_cursor;

/* rows: of the side that the tile is of. */
template <bool RING>
static __device__ __forceinline__ tile_cursor cursor_of(const tile_args &t, const tile_place &at, bool of_keys,
                                                        int rows) {
    int row = at.first + (int)threadIdx.x / WARP * GRANULE, place = at.place + row;
    tile_cursor c = {{NULL, NULL}, {NULL, NULL}, GRANULE, at.lead, at.base, row < rows};
    if (!t.blocks || !c.exists) return c;
    tri_block_lists lists = of_keys ? tri__blocks_of_keys(t.blocks, t.head + at.head)
                                    : tri__blocks_of_queries(t.blocks, t.head + at.head);
    int block = place / t.block;
    c.of[0] = lists.of + lists.at[block], c.end[0] = lists.of + lists.at[block + 1];
    if (RING) c.split = min(GRANULE, (block + 1) * t.block - place);
    if (c.split < GRANULE && row + c.split < rows)
        c.of[1] = lists.of + lists.at[block + 1], c.end[1] = lists.of + lists.at[block + 2];
    return c;
}

/* This warp's bits of the granules from `from` on, of `granules`: of its first rows, or of the others. */
static __device__ __forceinline__ void mark_granules(const tile_args &t, tile_cursor &c, int others, int from,
                                                     int granules, uint32_t *bits) {
    int lane = threadIdx.x % WARP, each = t.block / GRANULE, seen = 0;
    if (lane < WORDS) bits[lane] = t.blocks || others || !c.exists ? 0 : ~0u;
    __syncwarp();
    if (!c.of[others]) return;
    for (const int32_t *of = c.of[others] + lane; of < c.end[others] && *of * each - c.base < from + LISTED;
         of += WARP, seen++) {
        int first = *of * each - c.base - from;
        if (first >= 0 && first + from < granules) atomicOr(&bits[first / 32], ((1u << each) - 1) << first % 32);
    }
    c.of[others] += __reduce_add_sync(0xFFFFFFFFu, (unsigned)seen);
}

/* Of 32 granules from `first` on those in [lead, granules). */
static __device__ __forceinline__ uint32_t granules_there(int first, int lead, int granules) {
    int left = granules - first, skipped = lead - first;
    uint32_t there = left >= 32 ? ~0u : left <= 0 ? 0 : (1u << left) - 1;
    return skipped >= 32 ? 0 : skipped <= 0 ? there : there & ~((1u << skipped) - 1);
}

/* Lists the granules from `from` on, of `granules`, that this tile's warps meet; all threads, together. */
template <bool RING>
static __device__ __forceinline__ void list_granules(const tile_args &t, tile_cursor &c, int from, int granules,
                                                     tile_list &list) {
    enum { BITS = RING ? 2 * TILE_WARPS : TILE_WARPS };
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    __syncthreads(); /* the list before is no longer read */
    mark_granules(t, c, 0, from, granules, list.bits[warp]);
    if (RING) mark_granules(t, c, 1, from, granules, list.bits[TILE_WARPS + warp]);
    __syncthreads();
    if (warp == 0) {
        uint32_t any = 0;
        for (int w = 0; w < BITS; w++) any |= list.bits[w][lane % WORDS];
        any &= granules_there(from + lane * 32, c.lead / GRANULE, granules);
        int own = lane < WORDS ? __popc(any) : 0, sum = own;
#pragma unroll
        for (int step = 1; step < WORDS; step *= 2) {
            int below = __shfl_up_sync(0xFFFFFFFFu, sum, step);
            if (lane >= step) sum += below;
        }
        if (lane < WORDS) list.any[lane] = any, list.before[lane] = sum - own;
        if (lane == WORDS - 1) list.count = sum;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int granule = (int)threadIdx.x * 4 + i, word = granule / 32, bit = granule % 32;
        if (!(list.any[word] >> bit & 1)) continue;
        int entry = (from + granule) << 8;
        for (int w = 0; w < BITS; w++) entry |= (int)(list.bits[w][word] >> bit & 1) << w;
        list.entry[list.before[word] + __popc(list.any[word] & ((1u << bit) - 1))] = entry;
    }
    int pad = list.count + (int)threadIdx.x;
    if (pad < (list.count + 3) / 4 * 4) list.entry[pad] = 0;
    __syncthreads();
}

/* The four entries of tile n. */
static __device__ __forceinline__ int4 entries_of(const tile_list &list, int n) {
    return reinterpret_cast<const int4 *>(list.entry)[n];
}
static __device__ __forceinline__ int entry_of(int4 four, int i) {
    return i < 2 ? (i == 0 ? four.x : four.y) : i == 2 ? four.z : four.w;
}
/* The row of an entry, from the beginning of the first granule on. */
static __device__ __forceinline__ int row_of(int entry) { return entry >> 8 << 4; }
/* Of the thread's row h of two (g and g + 8 of the warp's): whether it meets an entry. */
static __device__ __forceinline__ bool is_met(int entry, int h, int split) {
    int row = (int)threadIdx.x % WARP / 4 + 8 * h;
    return entry >> (threadIdx.x / WARP + (row >= split ? TILE_WARPS : 0)) & 1;
}

/* Of 8 keys of a tile of queries: which of them the thread's two rows meet, by their number among them; and the first
 * one's number, from the first granule on. */
typedef struct met_keys {
    int key, first[2], valid[2];
} met_keys;

/* Those in half b of a tile, of which the thread has every fourth group of 8 (by_turns). */
static __device__ __forceinline__ met_keys keys_met(const tile_args &t, const tile_place &at, int4 four, int b,
                                                    int split) {
    int c = threadIdx.x % 4, entry = c / 2 ? entry_of(four, 2 * b + 1) : entry_of(four, 2 * b);
    int row = at.place + at.first + (int)threadIdx.x / WARP * GRANULE + (int)threadIdx.x % WARP / 4;
    met_keys of;
    of.key = row_of(entry) + c % 2 * 8;
    int gap = row - at.base * GRANULE - of.key; /* of the first row from the first key */
#pragma unroll
    for (int h = 0; h < 2; h++) {
        of.first[h] = max(at.lead - of.key, gap + 8 * h - t.window);
        of.valid[h] = is_met(entry, h, split) ? min(at.lead + at.keys - of.key, gap + 8 * h + t.window + 1) : 0;
    }
    return of;
}

/* As copy_rows, where granules are those of the entries; `from` is the first of the rows that exist, of `rows`, `lead`
 * after the first granule's beginning. */
template <typename T, int COLS, bool TURNS>
static __device__ __forceinline__ void copy_granules(const T *from, int64_t stride, int width, int lead, int rows,
                                                     int4 four, uint32_t to) {
    enum { PIECES = COLS / WIDE, STEP = TILE_WARPS * WARP / PIECES }; /* per row; rows at a time, 8 or 16 */
    int row = (int)threadIdx.x / PIECES, piece = (int)threadIdx.x % PIECES;
    uint32_t at = to + (uint32_t)(piece / 8 * TILE * ROW_BYTES) + piece_at(TURNS ? by_turns(row) : row, piece % 8);
#pragma unroll
    for (int i = 0; i < TILE / STEP; i++) {
        int r = row_of(entry_of(four, i * STEP / GRANULE)) + i * STEP % GRANULE + row - lead;
        bool valid = r >= 0 && r < rows && piece * WIDE < width;
        copy_16(row_further<TURNS>(at, i * STEP), valid ? from + r * stride + piece * WIDE : from, valid);
    }
}

/* Begins to fetch the keys and values of four entries. */
template <typename T, int COLS>
static __device__ __forceinline__ void fetch_listed(const tile_args &t, const tile_place &at, int4 four, uint32_t keys,
                                                    uint32_t values) {
    const T *from = (const T *)t.kv + at.key_row * t.kv_stride + at.head * t.width;
    copy_granules<T, COLS, true>(from, t.kv_stride, t.width, at.lead, at.keys, four, keys);
    copy_granules<T, COLS, true>(from + (int64_t)t.heads * t.width, t.kv_stride, t.width, at.lead, at.keys, four,
                                 values);
}

/* Writes a tile's 64 rows of a head from accumulators, or adds to them: this warp's 16. `to`: the tile's first row, of
 * which `left` exist; `room`: 64 rows of a tile in shared memory that nothing reads any more. */
template <typename T, int COLS>
static __device__ __forceinline__ void put_tile(const float (&d)[COLS / 2], float factor, T *to, int64_t stride,
                                                int left, int width, int add, uint32_t room) {
    int lane = threadIdx.x % WARP, c = lane % 4 * 2, warp_row = (int)threadIdx.x / WARP * GRANULE;
    to += warp_row * stride, left -= warp_row;
    if constexpr (COLS == 64)
        if (width == COLS && !add) {
            write_whole_rows(d, {factor, factor}, room + (uint32_t)(warp_row * ROW_BYTES), to, stride, left);
            return;
        }
    to += lane / 4 * stride + c, left -= lane / 4;
#pragma unroll
    for (int h = 0; h < 2; h++, to += 8 * stride)
#pragma unroll
        for (int j = 0; j < COLS / 8; j++)
            if (8 * j + c < width && left > 8 * h) {
                float value[2] = {d[4 * j + 2 * h] * factor, d[4 * j + 2 * h + 1] * factor};
                put<2>(to + 8 * j, value, add);
            }
}

/* Whether the kernels support a call: also rows of kv in 16-byte pieces, and warps within blocks. */
static inline int tiles_fit(const tri_call *call, const tile_args *t, int dtype) {
    return flash_fits(call, t, dtype) && aligned(t->kv, t->dkv) && t->kv_stride % WIDE == 0 &&
           (!t->blocks || t->block == 16 || t->block == 32 || t->block == 64);
}
static inline unsigned tile_blocks(const tile_args *t) {
    return tiles_for<TILE>(t->rows, t->n) * (unsigned)t->heads;
}

/* run(T(), COLS, DROP, RING) with the constants of a call. */
template <class F> static void by_kind(const tile_args *t, int dtype, F run) {
    by_half(dtype, [&](auto x) {
        by_flag(t->drop.threshold > 0, [&](auto drop) {
            by_flag(t->ring, [&](auto ring) {
                if (t->width <= 64) run(x, std::integral_constant<int, 64>(), drop, ring);
                else run(x, std::integral_constant<int, 128>(), drop, ring);
            });
        });
    });
}
