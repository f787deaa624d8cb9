/* attention_wide.cu - attention for heads of 65 to 128 columns on Hopper's tensor cores, without dropout or with
 * decisions that are known (Shah et al., 2024). Blocks are persistent. One warpgroup fetches; two have 64 queries each
 * of one head, and walk over the same keys, 128 at a time. As in attention_forward.cu, the next tile's scores and this
 * one's sums are queued together, and exponentials are computed while the latter run; the two groups take turns in
 * queueing, so that one's exponentials are computed while the other's products run. */
#include "device/cuda/attention/attention_softmax.cuh"
#include "device/cuda/product/groups.cuh"

enum {
    GROUP = 128,
    GROUPS = 2, /* that compute */
    COLS = 128,
    KEYS = 128,
    TILE = GROUPS * QUERIES,
    STAGES = 2, /* tiles of keys, and of values, there at a time */
    ALL_THREADS = (GROUPS + 1) * GROUP,
    COMPUTE_REGISTERS = 224, /* per thread; at most 65536 in total */
    FETCH_REGISTERS = 56,
};

struct sizes { /* layout of shared memory: bytes and offsets */
    enum {
        PANELS = COLS / PANEL,
        QUERY_PANEL = QUERIES * ROW_BYTES,
        QUERY_BYTES = PANELS * QUERY_PANEL, /* of a group */
        KEY_PANEL = KEYS * ROW_BYTES,
        KEY_BYTES = PANELS * KEY_PANEL,
        QUERIES_AT = 0,
        RESULTS_AT = QUERIES_AT + GROUPS * QUERY_BYTES, /* rows on their way to memory */
        KEYS_AT = RESULTS_AT + GROUPS * QUERY_BYTES,
        VALUES_AT = KEYS_AT + STAGES * KEY_BYTES,
        BARRIERS_AT = VALUES_AT + STAGES * KEY_BYTES,
        JOB_AT = BARRIERS_AT + (2 + 4 * STAGES) * 8,
        ALL = JOB_AT + 32 + ATOM_BYTES, /* and padding to align */
    };
};

#if TRI_HOPPER
/* A tile of queries of one head; the end is marked by one without rows. */
struct job {
    int head, s, begin, end, first;
};

/* A block's shared memory and its barriers. */
struct gates {
    char *memory;
    uint32_t base; /* its address */
    __device__ __forceinline__ job *next() const { return reinterpret_cast<job *>(memory + sizes::JOB_AT); }
    __device__ __forceinline__ uint32_t at(int i) const { return base + sizes::BARRIERS_AT + (uint32_t)i * 8; }
    __device__ __forceinline__ uint32_t queries_full() const { return at(0); }
    __device__ __forceinline__ uint32_t queries_empty() const { return at(1); }
    __device__ __forceinline__ uint32_t full(int values, int slot) const { return at(2 + 2 * values + slot); }
    __device__ __forceinline__ uint32_t empty(int values, int slot) const { return at(6 + 2 * values + slot); }
    __device__ __forceinline__ void init() const {
        barrier_init(queries_full(), GROUP), barrier_init(queries_empty(), GROUPS * GROUP);
        for (int i = 0; i < 2 * STAGES; i++) barrier_init(at(2 + i), GROUP), barrier_init(at(6 + i), GROUPS * GROUP);
    }
};

static __device__ __forceinline__ job job_of(const attention_args &a, int number, int tiles) {
    int tile = number % tiles;
    job j = {};
    j.head = number / tiles, j.s = sequence_of<TILE>(a.seq, a.n, tile), j.begin = a.seq[j.s];
    j.first = j.begin + (tile - (j.begin / TILE + j.s)) * TILE, j.end = j.s < a.n ? a.seq[j.s + 1] : (int)a.rows;
    return j;
}

/* Begins to fetch a tile of keys (part 1) or values (part 2). */
template <typename T>
static __device__ __forceinline__ void fetch(const attention_args &a, const job &j, int part, int n, uint32_t to) {
    int64_t H = (int64_t)a.heads * a.width;
    int key = j.begin + n * KEYS;
    copy_rows<T, COLS, KEYS, GROUP, true>((const T *)a.qkv + key * 3 * H + part * H + j.head * a.width, 3 * H, a.width,
                                          j.end - key, to, (int)threadIdx.x % GROUP);
}

/* What was begun last: barriers to arrive at when it is there; 0: none. */
struct pending {
    uint32_t tile, queries;
    __device__ __forceinline__ void announce() {
        show_to_matrix_units();
        if (queries) arrive(queries);
        if (tile) arrive(tile);
        tile = queries = 0;
    }
};

/* Fetches a tile of keys or values when its buffer is free; meanwhile the one before arrives. */
template <typename T>
static __device__ __forceinline__ void fetch_unit(const attention_args &a, const gates &g, const job &j, int values,
                                                  int n, ring<STAGES> &r, pending &last, uint32_t queries) {
    wait_for(g.empty(values, r.slot), r.lap ^ 1);
    fetch<T>(a, j, 1 + values, n,
             g.base + (values ? sizes::VALUES_AT : sizes::KEYS_AT) + (uint32_t)r.slot * sizes::KEY_BYTES);
    copy_commit();
    copy_wait<1>();
    last.announce();
    last = pending{g.full(values, r.slot), queries};
    r.advance();
}

/* All tiles of a block's jobs: keys are one tile ahead of values. */
template <typename T>
static __device__ __forceinline__ void fetch_all(const attention_args &a, const gates &g, int tiles) {
    ring<STAGES> key = {0, 0}, value = {0, 0};
    pending last = {0, 0};
    uint32_t lap = 1;
    int64_t H = (int64_t)a.heads * a.width;
    for (int number = (int)blockIdx.x; number < tiles * a.heads; number += (int)gridDim.x) {
        job j = job_of(a, number, tiles);
        if (j.first >= j.end || j.s == a.n) continue;
        int keys = (j.end - j.begin + KEYS - 1) / KEYS;
        wait_for(g.queries_empty(), lap);
        lap ^= 1;
        if (threadIdx.x % GROUP == 0) *g.next() = j;
#pragma unroll 1
        for (int w = 0; w < GROUPS; w++) {
            int first = j.first + w * QUERIES;
            copy_rows<T, COLS, QUERIES, GROUP>(
                (const T *)a.qkv + (first < j.end ? first : j.first) * 3 * H + j.head * a.width, 3 * H, a.width,
                j.end - first, g.base + sizes::QUERIES_AT + (uint32_t)w * sizes::QUERY_BYTES, (int)threadIdx.x % GROUP);
        }
        fetch_unit<T>(a, g, j, 0, 0, key, last, g.queries_full());
#pragma unroll 1
        for (int n = 0; n < keys; n++) {
            if (n + 1 < keys) fetch_unit<T>(a, g, j, 0, n + 1, key, last, 0);
            fetch_unit<T>(a, g, j, 1, n, value, last, 0);
        }
        copy_wait<0>(); /* the next job may have to wait for buffers */
        last.announce();
    }
    wait_for(g.queries_empty(), lap);
    if (threadIdx.x % GROUP == 0) *g.next() = job{};
    arrive(g.queries_full());
}

/* The scores of a tile of keys; the sums with a tile of values. */
template <typename T>
static __device__ __forceinline__ void queue_scores(uint32_t query, uint32_t keys, float (&score)[KEYS / 2]) {
    uint32_t query_tile = tile_at(query), key_tile = tile_at(keys);
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < COLS / 16; k++)
        wgmma<T>::template run<0, 0>(score, tile(query_tile, k / 4 * sizes::QUERY_PANEL + k % 4 * 32),
                                     tile(key_tile, k / 4 * sizes::KEY_PANEL + k % 4 * 32), k > 0);
    wgmma_commit();
}
template <typename T>
static __device__ __forceinline__ void queue_sums(const uint32_t (&weight)[KEYS / 32][2][4], uint32_t values,
                                                  float (&out)[COLS / 2]) {
    uint32_t value_tile = tile_at(values, sizes::KEY_PANEL);
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++)
        wgmma<T>::template run<1>(out, weight[k / 2][k % 2], tile(value_tile, k * 16 * ROW_BYTES), 1);
    wgmma_commit();
}

template <typename T, bool KEPT>
static __device__ __forceinline__ void form_kept(const float (&score)[KEYS / 2], const uint32_t (&bits)[2],
                                                 uint32_t (&weight)[KEYS / 32][2][4]) {
#pragma unroll
    for (int b = 0; b < KEYS / 32; b++) {
        form_weights<T>(score, b, weight[b]);
        if (KEPT) b % 2 ? drop_kept<1>(bits[b / 2], weight[b]) : drop_kept<0>(bits[b / 2], weight[b]);
    }
}

/* A thread's words of bits for a tile; `from`: its first, NULL if it has no queries. */
template <bool KEPT>
static __device__ __forceinline__ void get_bits(const uint32_t *from, int n, int tiles, uint32_t (&bits)[2]) {
#pragma unroll
    for (int i = 0; i < 2; i++) bits[i] = KEPT && from && 2 * n + i < tiles ? from[(2 * n + i) * TRI_MASK_WORDS] : 0;
}

/* Takes turns with the other group: its exponentials are computed while this one's products run. */
static __device__ __forceinline__ void turn_begin(int group) {
    asm volatile("bar.sync %0, 256;" ::"r"(1 + group) : "memory");
}
static __device__ __forceinline__ void turn_end(int group) {
    asm volatile("bar.arrive %0, 256;" ::"r"(1 + (group + 1) % GROUPS) : "memory");
}

/* Writes a group's rows; BYTES: also in 8 bits. */
template <typename T, bool BYTES>
static __device__ __forceinline__ void write_results(const attention_args &a, const job &j, int group, uint32_t room,
                                                     const float (&out)[COLS / 2], const float (&largest)[2],
                                                     float (&sum)[2], fp8_largest<T> &most) {
    int warp = threadIdx.x % GROUP / WARP, warp_row = j.first + group * QUERIES + warp * 16;
    int64_t H = (int64_t)a.heads * a.width;
    float factor[2];
    end_softmax(a, j.head, warp_row + (int)threadIdx.x % WARP / 4, j.end, largest, sum, factor);
    T *to = (T *)a.ctx + ((int64_t)warp_row * a.heads + j.head) * a.width;
    if (a.width == COLS) {
#pragma unroll
        for (int p = 0; p < COLS / PANEL; p++) {
            float half[PANEL / 2];
#pragma unroll
            for (int i = 0; i < PANEL / 2; i++) half[i] = out[p * (PANEL / 2) + i];
            uint32_t at = room + (uint32_t)(p * sizes::QUERY_PANEL + warp * 16 * ROW_BYTES);
            if constexpr (BYTES)
                write_both<T>(a, warp_row, j.head * COLS + p * PANEL, j.end - warp_row, half, factor, at, most);
            else write_whole_rows(half, factor, at, to + p * PANEL, H, j.end - warp_row);
        }
        return;
    }
    write_columns<T, COLS>(a, out, factor, to, j.end - warp_row);
}

/* A group's part of all jobs. */
template <typename T, bool KEPT, bool BYTES>
static __device__ __forceinline__ void attend_all(const attention_args &a, const gates &g) {
    int group = (int)__shfl_sync(0xFFFFFFFFu, threadIdx.x / GROUP, 0);
    ring<STAGES> key = {0, 0}, value = {0, 0};
    uint32_t query = g.base + sizes::QUERIES_AT + (uint32_t)group * sizes::QUERY_BYTES, lap = 0;
    float log2_scale = a.scale * 1.44269504f;
    fp8_largest<T> most;
    if (group == GROUPS - 1) turn_end(group);
    for (;; lap ^= 1) {
        wait_for(g.queries_full(), lap);
        job j = *g.next();
        if (j.end == 0) break;
        int length = j.end - j.begin, keys = (length + KEYS - 1) / KEYS,
            row = j.first + group * QUERIES + (int)threadIdx.x % GROUP / WARP * 16;
        const uint32_t *bits = NULL;
        if (KEPT && row < j.end) bits = bits_at(a, granule_of(j.s, j.begin, row), j.head, 0) + word_of_thread();
        softmax<COLS> of = {{}, {-INFINITY, -INFINITY}, {0, 0}};
        float score[KEYS / 2], before[2];
        uint32_t weight[KEYS / 32][2][4], kept[2];
        get_bits<KEPT>(bits, 0, a.tiles, kept);
        wait_for(g.full(0, key.slot), key.lap);
        turn_begin(group);
        queue_scores<T>(query, g.base + sizes::KEYS_AT + (uint32_t)key.slot * sizes::KEY_BYTES, score);
        turn_end(group);
        wgmma_wait<0>();
        pin(score);
        arrive(g.empty(0, key.slot));
        if (keys == 1) arrive(g.queries_empty());
        key.advance();
        hide(score, length);
        soften(score, before, of.largest, of.sum, log2_scale);
        for (int n = 1; n < keys; n++) {
            form_kept<T, KEPT>(score, kept, weight);
            get_bits<KEPT>(bits, n, a.tiles, kept);
            wait_for(g.full(0, key.slot), key.lap);
            turn_begin(group);
            queue_scores<T>(query, g.base + sizes::KEYS_AT + (uint32_t)key.slot * sizes::KEY_BYTES, score);
            wait_for(g.full(1, value.slot), value.lap);
            queue_sums<T>(weight, g.base + sizes::VALUES_AT + (uint32_t)value.slot * sizes::KEY_BYTES, of.out);
            turn_end(group);
            wgmma_wait<1>();
            pin(score);
            arrive(g.empty(0, key.slot));
            if (n == keys - 1) arrive(g.queries_empty());
            key.advance();
            hide(score, length - n * KEYS);
            soften(score, before, of.largest, of.sum, log2_scale);
            wgmma_wait<0>();
            pin(of.out);
            arrive(g.empty(1, value.slot));
            value.advance();
            rescale(of.out, before);
        }
        form_kept<T, KEPT>(score, kept, weight);
        wait_for(g.full(1, value.slot), value.lap);
        queue_sums<T>(weight, g.base + sizes::VALUES_AT + (uint32_t)value.slot * sizes::KEY_BYTES, of.out);
        wgmma_wait<0>();
        pin(of.out);
        arrive(g.empty(1, value.slot));
        value.advance();
        write_results<T, BYTES>(a, j, group, g.base + sizes::RESULTS_AT + (uint32_t)group * sizes::QUERY_BYTES, of.out,
                                of.largest, of.sum, most);
    }
    if (BYTES) raise(a.most, most.word());
    if (group == 0) turn_begin(0); /* pairs with the other's last end */
}

/* Zeroes padding rows. */
template <typename T> static __device__ __forceinline__ void clear_padding(const attention_args &a) {
    int64_t H = (int64_t)a.heads * a.width, first = a.seq[a.n], each = (int64_t)gridDim.x * GROUP,
            me = (int64_t)blockIdx.x * GROUP + threadIdx.x % GROUP;
    for (int64_t i = first * H + me; i < a.rows * H; i += each) ((T *)a.ctx)[i] = narrow<T>(0);
    for (int64_t i = first * H + me; i < a.rows * H && a.q; i += each) a.q[i] = 0;
    for (int64_t i = first * a.heads + me; i < a.rows * a.heads && a.lse; i += each) a.lse[i] = 0;
}
#endif

template <typename T, bool KEPT, bool BYTES>
static __global__ void __launch_bounds__(ALL_THREADS, 1) wide_kernel(attention_args a, int tiles) {
#if TRI_HOPPER
    extern __shared__ char raw[];
    uint32_t unaligned = shared_address(raw), base = (unaligned + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES;
    gates g = {raw + (base - unaligned), base};
    if (threadIdx.x == 0) g.init();
    __syncthreads();
    if (threadIdx.x / GROUP == GROUPS) {
        fewer_registers<FETCH_REGISTERS>();
        clear_padding<T>(a);
        fetch_all<T>(a, g, tiles);
    } else {
        more_registers<COMPUTE_REGISTERS>();
        attend_all<T, KEPT, BYTES>(a, g);
    }
#endif
}

template <typename T> static void launch(const tri_call *call, const attention_args &a, int tiles, int blocks) {
    auto *kernel = a.drop.threshold ? wide_kernel<T, true, false> : wide_kernel<T, false, false>;
    if (a.q) kernel = a.drop.threshold ? wide_kernel<T, true, true> : wide_kernel<T, false, true>;
    queue_sharing(call, "attention", kernel, (unsigned)blocks, ALL_THREADS, sizes::ALL, a, tiles);
}

static int tiles_of(const attention_args *a) { return (int)tiles_for<TILE>(a->rows, a->n); }

int tri__cuda_is_wide(const tri_call *call, const attention_args *a) {
    if (a->width <= 64 || (a->q && a->width < COLS)) return 0;
    return tiles_of(a) * (int64_t)a->heads >= 2 * processors_of(call) && (!a->drop.threshold || a->bits);
}

int tri__cuda_wide(const tri_call *call, const attention_args *a) {
    int tiles = tiles_of(a), blocks = processors_of(call);
    if (!tri__cuda_is_wide(call, a)) return 0;
    if (call->dtype[TRI_ARG(attention, ctx)] == TRI_BF16) launch<bf16>(call, *a, tiles, blocks);
    else launch<f16>(call, *a, tiles, blocks);
    return 1;
}
