/* attention_first.cu - attention of each sequence's first token alone, dense or block-sparse, and its gradient. Bound
 * by memory: a block processes one head of one sequence and reads its keys and values once. A team of lanes, enough for
 * a head's columns, processes one key at a time with AHEAD of them in flight; each team has its own softmax, and all
 * are combined at the end, in an order fixed by the shape. */
#include "device/cuda/attention/attention_tiles.cuh"

enum { THREADS = 256, WARPS = THREADS / WARP, AHEAD = 4 };

/* A thread's position: lanes of a team hold N columns each, CHUNKS times. */
typedef struct place {
    int s, head, begin, length;   /* of this block; the sequence's rows */
    int keys;                     /* that its first token attends to */
    const int32_t *of;            /* their blocks; NULL: all rows */
    int team, teams, lane, index; /* lanes of a team, teams of the block; this thread's lane, and its team */
    uint32_t step, sample, query,
        feature; /* of random numbers: the step, the sequence, its first query, its first key */
} place;

template <int N> static __device__ __forceinline__ place place_of(const tile_args &a) {
    place p;
    p.s = blockIdx.x / a.heads, p.head = blockIdx.x % a.heads;
    p.begin = a.seq[p.s], p.length = p.s < a.n ? a.seq[p.s + 1] - p.begin : 0;
    p.keys = p.length, p.of = NULL;
    if (a.blocks && p.length > 0) {
        tri_block_lists lists = tri__blocks_of_queries(a.blocks, a.head + p.head);
        int length = min(p.length, a.window + 1);
        int last = tri__blocks_end(lists, 0, (length + a.block - 1) / a.block) - 1; /* it has at least block 0 */
        p.of = lists.of + lists.at[0];
        p.keys = (last - lists.at[0]) * a.block + min(a.block, length - lists.of[last] * a.block);
    }
    p.team = 1;
    while (p.team < WARP && p.team * N < a.width) p.team *= 2;
    p.teams = THREADS / p.team, p.lane = threadIdx.x % p.team, p.index = threadIdx.x / p.team;
    int drops = a.drop.threshold && p.length > 0;
    p.step = drops ? *a.drop.step : 0;
    p.sample = drops ? (uint32_t)a.key[2 * p.begin] : 0, p.query = drops ? (uint32_t)a.key[2 * p.begin + 1] : 0;
    p.feature = (uint32_t)((a.head + p.head) * a.max_len) + p.query;
    return p;
}

/* One thread's columns of a row of a head, in memory layout. */
template <typename T, int N, int CHUNKS> struct piece {
    pack<T, N> at[CHUNKS];
};
template <typename T, int N, int CHUNKS>
static __device__ __forceinline__ piece<T, N, CHUNKS> get(const place &p, int width, const T *row, int exists) {
    piece<T, N, CHUNKS> x;
#pragma unroll
    for (int i = 0; i < CHUNKS; i++) {
        int c = (p.lane + p.team * i) * N;
        x.at[i] = pack<T, N>{}; /* zeros */
        if (exists && c < width) x.at[i] = packed<N>(row + c);
    }
    return x;
}
template <typename T, int N, int CHUNKS>
static __device__ __forceinline__ void widen(const piece<T, N, CHUNKS> &x, float factor, float (&to)[CHUNKS * N]) {
#pragma unroll
    for (int i = 0; i < CHUNKS * N; i++) to[i] = x.at[i / N].at(i % N) * factor;
}
template <typename T, int N, int CHUNKS>
static __device__ __forceinline__ void put_row(const place &p, int width, T *row, const float (&x)[CHUNKS * N],
                                               float factor, int add) {
#pragma unroll
    for (int i = 0; i < CHUNKS; i++) {
        int c = (p.lane + p.team * i) * N;
        float part[N];
#pragma unroll
        for (int k = 0; k < N; k++) part[k] = x[i * N + k] * factor;
        if (c < width) put<N>(row + c, part, add);
    }
}

/* A thread's part of the dot product of two rows. */
template <typename T, int N, int CHUNKS>
static __device__ __forceinline__ float dot(const float (&x)[CHUNKS * N], const piece<T, N, CHUNKS> &y) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < CHUNKS * N; i++) sum = fmaf(x[i], y.at[i / N].at(i % N), sum);
    return sum;
}
template <typename T, int N, int CHUNKS>
static __device__ __forceinline__ void add_row(float (&sum)[CHUNKS * N], float weight, const piece<T, N, CHUNKS> &x) {
#pragma unroll
    for (int i = 0; i < CHUNKS * N; i++) sum[i] = fmaf(weight, x.at[i / N].at(i % N), sum[i]);
}
/* Sums over the lanes of a team. */
template <int K> static __device__ __forceinline__ void team_sum(const place &p, float (&x)[K]) {
    for (int lane = p.team / 2; lane; lane /= 2)
#pragma unroll
        for (int i = 0; i < K; i++) x[i] += __shfl_xor_sync(0xFFFFFFFFu, x[i], lane);
}

/* The head's columns of row t of qkv or dqkv: query (part 0), key (1), value (2). */
template <typename T>
static __device__ __forceinline__ T *part_of(const tile_args &a, T *base, int head, int64_t t, int part) {
    return base + ((t * 3 + part) * a.heads + head) * a.width;
}
/* The j-th key's row, from the sequence's first on. */
static __device__ __forceinline__ int row_at(const tile_args &a, const place &p, int j) {
    return p.of && j < p.keys ? p.of[j / a.block] * a.block + j % a.block : j;
}
/* Whether dropout keeps the weight of a row. */
static __device__ __forceinline__ int keeps(const tile_args &a, const place &p, int row) {
    uint32_t feature = p.feature + (uint32_t)row;
    return !a.drop.threshold || (kept_bits(a.drop, p.step, p.sample, p.query, feature / 8) >> (feature % 8) & 1);
}
/* The factor for sums relative to `top` when the maximum becomes `larger`; both may be -inf before the first sum. */
static __device__ __forceinline__ float shrink(float top, float larger) {
    return top == larger ? 1.0f : power_of_2(top - larger);
}

/* Combines the teams' sums [C] by columns: into out[width] of the block's shared memory, one row per warp. */
template <int N, int C>
static __device__ __forceinline__ void spread(const place &p, int width, const float (&sum)[C], float *out) {
    if (threadIdx.x % WARP < p.team)
#pragma unroll
        for (int i = 0; i < C; i++) {
            int c = (p.lane + p.team * (i / N)) * N + i % N;
            if (c < width) out[threadIdx.x / WARP * MOST_WIDTH + c] = sum[i];
        }
}

/* Combines the warps' results, out [WARPS,width], largest and total [WARPS], into one row of ctx. */
template <typename T>
static __device__ __forceinline__ void join_warps(const tile_args &a, const place &p, const float *out,
                                                  const float *largest, const float *total) {
    float top = -INFINITY, sum = 0;
    for (int w = 0; w < WARPS; w++) top = fmaxf(top, largest[w]);
    for (int w = 0; w < WARPS; w++) sum += total[w] * shrink(largest[w], top);
    int64_t row = (int64_t)p.s * a.heads + p.head;
    for (int c = threadIdx.x; c < a.width; c += THREADS) {
        float value = 0;
        for (int w = 0; w < WARPS; w++) value = fmaf(out[w * MOST_WIDTH + c], shrink(largest[w], top), value);
        ((T *)a.ctx)[row * a.width + c] = narrow<T>(value * (a.drop.scale / sum));
    }
    if (a.lse && threadIdx.x == 0) a.lse[row] = top * 0.6931471805599453f + logf(sum);
}

template <typename T, int N, int CHUNKS> static __global__ void __launch_bounds__(THREADS) first_kernel(tile_args a) {
    __shared__ float out_of[WARPS * MOST_WIDTH], largest[WARPS], total[WARPS];
    const T *qkv = (const T *)a.qkv;
    place p = place_of<N>(a);
    float q[CHUNKS * N], out[CHUNKS * N] = {}, top = -INFINITY, sum = 0;
    widen(get<T, N, CHUNKS>(p, a.width, part_of(a, qkv, p.head, p.begin, 0), 1), a.scale * 1.4426950408889634f, q);
    for (int base = p.index; base - p.index < p.keys; base += AHEAD * p.teams) {
        piece<T, N, CHUNKS> k[AHEAD], v[AHEAD];
        float score[AHEAD], before = top;
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            int j = base + u * p.teams;
            int64_t t = p.begin + row_at(a, p, j);
            k[u] = get<T, N, CHUNKS>(p, a.width, part_of(a, qkv, p.head, t, 1), j < p.keys);
            v[u] = get<T, N, CHUNKS>(p, a.width, part_of(a, qkv, p.head, t, 2), j < p.keys);
        }
#pragma unroll
        for (int u = 0; u < AHEAD; u++) score[u] = dot(q, k[u]);
        team_sum(p, score);
#pragma unroll
        for (int u = 0; u < AHEAD; u++) top = base + u * p.teams < p.keys ? fmaxf(top, score[u]) : top;
        float less = shrink(before, top);
        sum *= less;
#pragma unroll
        for (int i = 0; i < CHUNKS * N; i++) out[i] *= less;
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            int j = base + u * p.teams;
            float weight = j < p.keys ? power_of_2(score[u] - top) : 0.0f;
            sum += weight;
            add_row(out, keeps(a, p, row_at(a, p, j)) ? weight : 0.0f, v[u]);
        }
    }
    for (int lane = p.team; lane < WARP; lane *= 2) {
        float other = __shfl_xor_sync(0xFFFFFFFFu, top, lane), larger = fmaxf(top, other), less = shrink(top, larger);
        sum *= less, sum += __shfl_xor_sync(0xFFFFFFFFu, sum, lane);
#pragma unroll
        for (int i = 0; i < CHUNKS * N; i++) out[i] *= less, out[i] += __shfl_xor_sync(0xFFFFFFFFu, out[i], lane);
        top = larger;
    }
    spread<N>(p, a.width, out, out_of);
    if (threadIdx.x % WARP == 0) largest[threadIdx.x / WARP] = top, total[threadIdx.x / WARP] = sum;
    __syncthreads();
    join_warps<T>(a, p, out_of, largest, total);
}

/* Zeroes the head's columns of the rows [begin, end). */
template <typename T>
static __device__ __forceinline__ void clear_rows(const tile_args &a, const place &p, int64_t begin, int64_t end) {
    for (int64_t i = threadIdx.x; i < (end - begin) * 3 * a.width && !a.add; i += THREADS)
        part_of(a, (T *)a.dqkv, p.head, begin + i / (3 * a.width),
                (int)(i / a.width % 3))[i % a.width] = narrow<T>(0.0f);
}
/* Those of the sequence that its first token does not attend to. */
template <typename T> static __device__ __forceinline__ void clear_unlisted(const tile_args &a, const place &p) {
    int n = (p.keys + a.block - 1) / a.block, after = 0; /* blocks in the list; the row after the last one met */
    for (int i = 0; i <= n; i++) {
        int end = i < n ? p.of[i] * a.block : p.length;
        clear_rows<T>(a, p, p.begin + after, p.begin + end);
        if (i < n) after = row_at(a, p, min((i + 1) * a.block, p.keys) - 1) + 1;
    }
}

/* Blocks after those of the last sequence handle the padding rows. */
template <typename T, int N, int CHUNKS>
static __global__ void __launch_bounds__(THREADS) first_din_kernel(tile_args a) {
    __shared__ float dq_of[WARPS * MOST_WIDTH];
    const T *qkv = (const T *)a.qkv;
    T *dqkv = (T *)a.dqkv;
    place p = place_of<N>(a);
    if (p.s == a.n) {
        clear_rows<T>(a, p, p.begin, a.rows);
        return;
    }
    if (p.of) clear_unlisted<T>(a, p);
    int64_t row = (int64_t)p.s * a.heads + p.head;
    float q[CHUNKS * N], dctx[CHUNKS * N], dq[CHUNKS * N] = {}, none[CHUNKS * N] = {};
    widen(get<T, N, CHUNKS>(p, a.width, part_of(a, qkv, p.head, p.begin, 0), 1), 1.0f, q);
    widen(get<T, N, CHUNKS>(p, a.width, (const T *)a.dctx + row * a.width, 1), 1.0f, dctx);
    float mean[1] = {dot(dctx, get<T, N, CHUNKS>(p, a.width, (const T *)a.ctx + row * a.width, 1))};
    float to_powers = a.scale * 1.4426950408889634f, lse = a.lse[row] * 1.4426950408889634f;
    team_sum(p, mean);
    for (int base = p.index; base - p.index < p.keys; base += AHEAD * p.teams) {
        piece<T, N, CHUNKS> k[AHEAD], v[AHEAD];
        float score[AHEAD], dp[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            int j = base + u * p.teams;
            int64_t t = p.begin + row_at(a, p, j);
            k[u] = get<T, N, CHUNKS>(p, a.width, part_of(a, qkv, p.head, t, 1), j < p.keys);
            v[u] = get<T, N, CHUNKS>(p, a.width, part_of(a, qkv, p.head, t, 2), j < p.keys);
        }
#pragma unroll
        for (int u = 0; u < AHEAD; u++) score[u] = dot(q, k[u]), dp[u] = dot(dctx, v[u]);
        team_sum(p, score);
        team_sum(p, dp);
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            if (base + u * p.teams >= p.keys) continue;
            int j = row_at(a, p, base + u * p.teams);
            float weight = power_of_2(score[u] * to_powers - lse), factor = keeps(a, p, j) ? a.drop.scale : 0.0f;
            float ds = weight * (factor * dp[u] - mean[0]);
            add_row(dq, ds, k[u]);
            put_row<T, N, CHUNKS>(p, a.width, part_of(a, dqkv, p.head, p.begin + j, 1), q, ds * a.scale, a.add);
            put_row<T, N, CHUNKS>(p, a.width, part_of(a, dqkv, p.head, p.begin + j, 2), dctx, weight * factor, a.add);
            if (j > 0 && !a.add)
                put_row<T, N, CHUNKS>(p, a.width, part_of(a, dqkv, p.head, p.begin + j, 0), none, 0.0f, 0);
        }
    }
    for (int lane = p.team; lane < WARP; lane *= 2)
#pragma unroll
        for (int i = 0; i < CHUNKS * N; i++) dq[i] += __shfl_xor_sync(0xFFFFFFFFu, dq[i], lane);
    spread<N>(p, a.width, dq, dq_of);
    __syncthreads();
    for (int c = threadIdx.x; c < a.width; c += THREADS) {
        float value[1] = {0};
        for (int w = 0; w < WARPS; w++) value[0] += dq_of[w * MOST_WIDTH + c];
        value[0] *= a.scale;
        put<1>(part_of(a, dqkv, p.head, p.begin, 0) + c, value, a.add);
    }
}

template <typename T> static void attention_first(const tri_call *call) {
    OPERANDS(attention);
    tile_args a = tiles_of(call, forward_args(call), ARG(blocks));
    unsigned blocks = (unsigned)(a.n * a.heads);
    if (!blocks || !width_fits(call, a, "attention_first: heads of more than 256 columns")) return;
    by_width(a.width % WIDE == 0 && aligned(a.qkv), [&](auto n) {
        queue(call, "attention_first", first_kernel<T, n, MOST_WIDTH / WARP / n>, blocks, THREADS, a);
    });
}

template <typename T> static void attention_first_din(const tri_call *call) {
    OPERANDS(attention_din);
    tile_args a = tiles_of(call, din_args(call), ARG(blocks));
    unsigned blocks = (unsigned)((a.n + 1) * a.heads);
    if (!a.rows || !width_fits(call, a, "attention_first_din: heads of more than 256 columns")) return;
    by_width(a.width % WIDE == 0 && aligned(a.qkv, a.dctx, a.ctx, a.dqkv), [&](auto n) {
        queue(call, "attention_first_din", first_din_kernel<T, n, MOST_WIDTH / WARP / n>, blocks, THREADS, a);
    });
}

TRI_CUDA_FAMILY(attention_first) = {
    TRI_CUDA_FACT_ROWS(TRI_FACT_FIRST, TRI_OP_attention, attention_first, {}),
    TRI_CUDA_FACT_ROWS(TRI_FACT_FIRST, TRI_OP_attention_din, attention_first_din, {}),
    TRI_CUDA_FACT_ROWS(TRI_FACT_SPARSE | TRI_FACT_FIRST, TRI_OP_attention, attention_first, {}),
    TRI_CUDA_FACT_ROWS(TRI_FACT_SPARSE | TRI_FACT_FIRST, TRI_OP_attention_din, attention_first_din, {}),
    {},
};
