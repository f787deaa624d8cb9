/* attention_part.cu - attention of a run's queries to the keys of a run (device/cpu/reference/attention_part.c). 16-bit
 * types use Hopper's tensor cores (attention_tiles.cu, attention_tiles_din.cu). Here is the plain fallback, and what
 * first tokens need: a warp handles one head of one row, its lanes the columns, and meets the other rows one after the
 * other, in order. */
#include "device/cuda/attention/attention_tiles.cuh"

enum { THREADS = 128, ROWS = THREADS / WARP, EACH = MOST_WIDTH / WARP };
#define NO_KEYS (-1e30f)

/* The columns of a lane. */
template <typename T> static __device__ __forceinline__ void get(const T *row, int width, float (&x)[EACH]) {
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        int c = threadIdx.x % WARP + i * WARP;
        x[i] = c < width ? wide(row[c]) : 0.0f;
    }
}
template <typename T>
static __device__ __forceinline__ void put_row(T *row, int width, const float (&x)[EACH], float factor, int add) {
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        int c = threadIdx.x % WARP + i * WARP;
        if (c < width) row[c] = narrow<T>(x[i] * factor + (add ? wide(row[c]) : 0.0f));
    }
}
static __device__ __forceinline__ float dot(const float (&x)[EACH], const float (&y)[EACH]) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++) sum = fmaf(x[i], y[i], sum);
    return warp_sum(sum);
}
static __device__ __forceinline__ void add_row(float (&sum)[EACH], float weight, const float (&x)[EACH]) {
#pragma unroll
    for (int i = 0; i < EACH; i++) sum[i] = fmaf(weight, x[i], sum[i]);
}

/* The sequence of row t of a run; n: none. Chunks begin at seq[s] / ring + s, which rises. */
static __device__ __forceinline__ int sequence_of(const tile_args &a, int64_t t, int run) {
    int low = 0, high = a.n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (a.seq[middle] / a.ring + middle <= t) low = middle + 1;
        else high = middle;
    }
    if (low == 0) return a.n;
    tri_run_rows rows = tri__ring_run(a.seq, low - 1, run, a.ring);
    return t >= rows.begin && t < rows.end ? low - 1 : a.n;
}

/* Row u of the keys, or of the values. */
template <typename T>
static __device__ __forceinline__ const T *key_of(const tile_args &a, int64_t u, int h, int value) {
    return (const T *)a.kv + u * a.kv_stride + ((int64_t)value * a.heads + h) * a.width;
}
template <typename T> static __device__ __forceinline__ const T *query_of(const tile_args &a, int64_t t, int h) {
    return (const T *)a.qkv + (t * 3 * a.heads + h) * a.width;
}
/* The dropout factor of the weight that row `asks` of all runs gives to key u. */
static __device__ __forceinline__ float keeps(const tile_args &a, int64_t asks, int64_t u, int h) {
    if (!a.drop.threshold) return 1.0f;
    int place = a.key[2 * (a.part * a.rows + u) + 1];
    return kept(a.drop, a.key, asks, (uint32_t)((a.head + h) * a.max_len + place));
}

/* The blocks that a token at some place of its sequence meets, for tokens in ascending order. */
typedef struct listed {
    const int32_t *of, *end;
    int block; /* tokens; 0: it meets all */
    int64_t place, window;
} listed;

static __device__ __forceinline__ listed listed_of(const tile_args &a, int h, int64_t place, bool of_keys) {
    listed l = {NULL, NULL, 0, place, a.window};
    if (!a.blocks) return l;
    tri_block_lists lists = of_keys ? tri__blocks_of_keys(a.blocks, a.head + h)
                                    : tri__blocks_of_queries(a.blocks, a.head + h);
    l.of = lists.of + lists.at[place / a.block], l.end = lists.of + lists.at[place / a.block + 1], l.block = a.block;
    return l;
}
static __device__ __forceinline__ bool meets(listed &l, int64_t place) {
    if (!l.block) return true;
    if (place - l.place > l.window || l.place - place > l.window) return false;
    while (l.of < l.end && *l.of < place / l.block) l.of++;
    return l.of < l.end && *l.of == place / l.block;
}

/* Softmax over the keys of run attr.part, of a query that is the token at `place`; out: the context. Returns lse. */
template <typename T>
static __device__ float attend(const tile_args &a, const float (&q)[EACH], int64_t asks, int64_t place,
                               tri_run_rows keys, int h, float (&out)[EACH]) {
    float top = -INFINITY, sum = 0, k[EACH], v[EACH];
    listed l = listed_of(a, h, place, false);
    bool none = true;
#pragma unroll
    for (int i = 0; i < EACH; i++) out[i] = 0;
    for (int64_t u = keys.begin; u < keys.end; u++) {
        if (!meets(l, keys.place + u - keys.begin)) continue;
        none = false;
        get(key_of<T>(a, u, h, 0), a.width, k);
        get(key_of<T>(a, u, h, 1), a.width, v);
        float score = dot(q, k) * a.scale, larger = fmaxf(top, score), less = expf(top - larger),
              weight = expf(score - larger);
        sum = sum * less + weight;
#pragma unroll
        for (int i = 0; i < EACH; i++) out[i] *= less;
        add_row(out, weight * keeps(a, asks, u, h), v);
        top = larger;
    }
    if (none) return NO_KEYS;
#pragma unroll
    for (int i = 0; i < EACH; i++) out[i] /= sum;
    return top + logf(sum);
}

template <typename T> static __global__ void __launch_bounds__(THREADS) part_kernel(tile_args a) {
    int64_t i = (int64_t)blockIdx.x * ROWS + threadIdx.x / WARP, t = i / a.heads;
    if (t >= a.rows) return;
    int h = (int)(i % a.heads), s = sequence_of(a, t, a.run);
    float q[EACH], out[EACH] = {}, lse = 0;
    if (s < a.n) {
        get(query_of<T>(a, t, h), a.width, q);
        tri_run_rows own = tri__ring_run(a.seq, s, a.run, a.ring);
        lse = attend<T>(a, q, a.run * a.rows + t, own.place + t - own.begin, tri__ring_run(a.seq, s, a.part, a.ring), h,
                        out);
    }
    put_row((T *)a.ctx + i * a.width, a.width, out, 1.0f, 0);
    if (threadIdx.x % WARP == 0) a.lse[i] = lse;
}

/* For one weight: its value after dropout, and the gradient of the scaled score. */
static __device__ __forceinline__ float slope(const tile_args &a, const float (&q)[EACH], const float (&k)[EACH],
                                              const float (&v)[EACH], const float (&dctx)[EACH], float mean, float lse,
                                              float keep, float *weight) {
    float p = expf(dot(q, k) * a.scale - lse);
    *weight = p * keep;
    return p * (keep * dot(dctx, v) - mean);
}

/* The gradient of a query, row t, that is the token at `place`; its results are those of head i. */
template <typename T>
static __device__ __forceinline__ void sum_dq(const tile_args &a, int64_t t, int64_t i, int64_t asks, int64_t place,
                                              tri_run_rows keys, int h, float (&dq)[EACH]) {
    float q[EACH], k[EACH], v[EACH], dctx[EACH], ctx[EACH], weight;
    listed l = listed_of(a, h, place, false);
    get(query_of<T>(a, t, h), a.width, q);
    get((const T *)a.dctx + i * a.width, a.width, dctx);
    get((const T *)a.ctx + i * a.width, a.width, ctx);
    float mean = dot(dctx, ctx), lse = a.lse[i];
    for (int64_t u = keys.begin; u < keys.end; u++) {
        if (!meets(l, keys.place + u - keys.begin)) continue;
        get(key_of<T>(a, u, h, 0), a.width, k);
        get(key_of<T>(a, u, h, 1), a.width, v);
        add_row(dq, slope(a, q, k, v, dctx, mean, lse, keeps(a, asks, u, h), &weight), k);
    }
}

/* Writes it; those of keys and values in dqkv are 0. */
template <typename T>
static __device__ __forceinline__ void put_dq(const tile_args &a, int64_t t, int h, const float (&dq)[EACH]) {
    T *row = (T *)a.dqkv + (t * 3 * a.heads + h) * a.width;
    float none[EACH] = {};
    put_row(row, a.width, dq, a.scale, a.add);
    for (int part = 1; part < 3 && !a.add; part++)
        put_row(row + (int64_t)part * a.heads * a.width, a.width, none, 0.0f, 0);
}

template <typename T> static __global__ void __launch_bounds__(THREADS) part_dq_kernel(tile_args a) {
    int64_t i = (int64_t)blockIdx.x * ROWS + threadIdx.x / WARP, t = i / a.heads;
    if (t >= a.rows) return;
    int h = (int)(i % a.heads), s = sequence_of(a, t, a.run);
    float dq[EACH] = {};
    if (s < a.n) {
        tri_run_rows keys = tri__ring_run(a.seq, s, a.part, a.ring), own = tri__ring_run(a.seq, s, a.run, a.ring);
        sum_dq<T>(a, t, i, a.run * a.rows + t, own.place + t - own.begin, keys, h, dq);
    }
    put_dq<T>(a, t, h, dq);
}

/* Gradients of keys and values. */
template <typename T> static __global__ void __launch_bounds__(THREADS) part_dkv_kernel(tile_args a) {
    int64_t i = (int64_t)blockIdx.x * ROWS + threadIdx.x / WARP, u = i / a.heads;
    if (u >= a.rows) return;
    int h = (int)(i % a.heads), s = sequence_of(a, u, a.part);
    float q[EACH], k[EACH], v[EACH], dctx[EACH], ctx[EACH], dk[EACH] = {}, dv[EACH] = {}, weight;
    if (s < a.n) {
        tri_run_rows own = tri__ring_run(a.seq, s, a.run, a.ring), keys = tri__ring_run(a.seq, s, a.part, a.ring);
        listed l = listed_of(a, h, keys.place + u - keys.begin, true);
        get(key_of<T>(a, u, h, 0), a.width, k);
        get(key_of<T>(a, u, h, 1), a.width, v);
        for (int64_t t = own.begin; t < own.end; t++) {
            if (!meets(l, own.place + t - own.begin)) continue;
            int64_t at = t * a.heads + h;
            get(query_of<T>(a, t, h), a.width, q);
            get((const T *)a.dctx + at * a.width, a.width, dctx);
            get((const T *)a.ctx + at * a.width, a.width, ctx);
            float ds = slope(a, q, k, v, dctx, dot(dctx, ctx), a.lse[at], keeps(a, a.run * a.rows + t, u, h), &weight);
            add_row(dk, ds, q);
            add_row(dv, weight, dctx);
        }
    }
    T *row = (T *)a.dkv + u * a.kv_stride + (int64_t)h * a.width;
    put_row(row, a.width, dk, a.scale, a.add_kv);
    put_row(row + (int64_t)a.heads * a.width, a.width, dv, 1.0f, a.add_kv);
}

/* First tokens, a warp for a head of each: all runs of columns of y. */
template <typename T> static __global__ void __launch_bounds__(THREADS) first_kernel(tile_args a) {
    int64_t i = (int64_t)blockIdx.x * ROWS + threadIdx.x / WARP, s = i / a.heads;
    if (s >= a.n) return;
    int h = (int)(i % a.heads), each = a.heads * (a.width + 1);
    float q[EACH], out[EACH], none[EACH] = {}, *y = (float *)a.ctx + s * a.ring * each;
    get(query_of<T>(a, s, h), a.width, q);
    float lse = attend<T>(a, q, tri__ring_run(a.seq, s, 0, a.ring).begin, 0, tri__ring_run(a.seq, s, a.part, a.ring), h,
                          out);
    for (int run = 0; run < a.ring; run++, y += each) {
        put_row(y + h * a.width, a.width, run == a.part ? out : none, 1.0f, 0);
        if (threadIdx.x % WARP == 0) y[a.heads * a.width + h] = run == a.part ? lse : 0.0f;
    }
}

template <typename T> static __global__ void __launch_bounds__(THREADS) first_dq_kernel(tile_args a) {
    int64_t i = (int64_t)blockIdx.x * ROWS + threadIdx.x / WARP, s = i / a.heads;
    if (s >= a.n) return;
    int h = (int)(i % a.heads);
    float dq[EACH] = {};
    sum_dq<T>(a, s, i, tri__ring_run(a.seq, s, 0, a.ring).begin, 0, tri__ring_run(a.seq, s, a.part, a.ring), h, dq);
    put_dq<T>(a, s, h, dq);
}

/* Gradients of this run's keys and values; kv is in qkv. */
template <typename T> static __global__ void __launch_bounds__(THREADS) first_dkv_kernel(tile_args a) {
    int64_t i = (int64_t)blockIdx.x * ROWS + threadIdx.x / WARP, u = i / a.heads;
    if (u >= a.rows) return;
    int h = (int)(i % a.heads), s = sequence_of(a, u, a.part);
    float q[EACH] = {}, k[EACH], v[EACH], dctx[EACH] = {}, ctx[EACH], none[EACH] = {}, weight = 0, ds = 0;
    tri_run_rows keys = tri__ring_run(a.seq, s < a.n ? s : 0, a.part, a.ring);
    listed l = listed_of(a, h, 0, false);
    if (s < a.n && meets(l, keys.place + u - keys.begin)) {
        int64_t at = (int64_t)s * a.heads + h;
        get(query_of<T>(a, s, h), a.width, q);
        get(key_of<T>(a, u, h, 0), a.width, k);
        get(key_of<T>(a, u, h, 1), a.width, v);
        get((const T *)a.dctx + at * a.width, a.width, dctx);
        get((const T *)a.ctx + at * a.width, a.width, ctx);
        ds = slope(a, q, k, v, dctx, dot(dctx, ctx), a.lse[at],
                   keeps(a, tri__ring_run(a.seq, s, 0, a.ring).begin, u, h), &weight);
    }
    T *row = (T *)a.dkv + u * a.kv_stride + (int64_t)h * a.width; /* the query's columns */
    int64_t next = (int64_t)a.heads * a.width;
    if (!a.add_kv) put_row(row, a.width, none, 0.0f, 0);
    put_row(row + next, a.width, q, ds * a.scale, a.add_kv);
    put_row(row + 2 * next, a.width, dctx, weight, a.add_kv);
}

/* n heads of rows, each by `team` lanes of a warp, N columns at a time. */
template <typename T, int N>
static __global__ void __launch_bounds__(THREADS) join_kernel(int64_t n, int team, int width, T *ctx, float *lse,
                                                              const T *more, const float *logs) {
    int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / team;
    int lane = (int)threadIdx.x % team;
    float own = i < n ? lse[i] : 0.0f, other = i < n ? logs[i] : 0.0f, top = fmaxf(own, other);
    float w = expf(own - top), v = expf(other - top);
    __syncwarp(); /* all have read lse */
    if (i >= n) return;
    for (int c = lane * N; c < width; c += team * N) {
        float x[N], y[N];
        load<N>(ctx + i * width + c, x), load<N>(more + i * width + c, y);
#pragma unroll
        for (int k = 0; k < N; k++) x[k] = (w * x[k] + v * y[k]) / (w + v);
        store<N>(ctx + i * width + c, x);
    }
    if (lane == 0) lse[i] = top + logf(w + v);
}

template <typename T>
static __global__ void __launch_bounds__(THREADS) first_join_kernel(int64_t n, int heads, int width, int ring, T *ctx,
                                                                    float *lse, const float *y) {
    int64_t i = (int64_t)blockIdx.x * ROWS + threadIdx.x / WARP;
    if (i >= n) return;
    int h = (int)(i % heads), each = heads * (width + 1), at = heads * width + h;
    float top = -INFINITY, sum = 0;
    y += i / heads * ring * each;
    for (int run = 0; run < ring; run++) top = fmaxf(top, y[run * each + at]);
    for (int run = 0; run < ring; run++) sum += expf(y[run * each + at] - top);
    for (int c = threadIdx.x % WARP; c < width; c += WARP) {
        float total = 0;
        for (int run = 0; run < ring; run++) total += expf(y[run * each + at] - top) * y[run * each + h * width + c];
        ctx[i * width + c] = narrow<T>(total / sum);
    }
    if (lse && threadIdx.x % WARP == 0) lse[i] = top + logf(sum);
}

/* One block per row: the last G of D columns. */
template <typename T> static __global__ void kv_kernel(int64_t D, int64_t G, T *y, const T *x) {
    for (int64_t c = threadIdx.x; c < G; c += THREADS) y[blockIdx.x * G + c] = x[blockIdx.x * D + D - G + c];
}
template <typename T> static __global__ void kv_din_kernel(int64_t D, int64_t G, T *dx, const T *dy, int add) {
    for (int64_t c = threadIdx.x; c < D; c += THREADS) {
        float value = c < D - G ? 0.0f : wide(dy[blockIdx.x * G + c - (D - G)]);
        T *to = dx + blockIdx.x * D + c;
        *to = narrow<T>(add ? wide(*to) + value : value);
    }
}

/* A part's operands, without queries, keys and results; over present blocks, if there are any. */
static tile_args part_args(const tri_call *call, int seq, int blocks, int key, int64_t rows, int64_t cols) {
    tile_args a = tiles_of(call, args_of(call, seq, key, rows, cols), blocks);
    a.run = call->attr->run, a.part = call->attr->part, a.ring = call->attr->members;
    return a;
}

template <typename T> static void attention_part(const tri_call *call) {
    OPERANDS(attention_part);
    int64_t H = call->t[ARG(ctx)].cols;
    tile_args a = part_args(call, ARG(seq), ARG(blocks), ARG(key), call->t[ARG(ctx)].rows, H);
    a.qkv = GIVEN(qkv), a.kv = GIVEN(kv), a.kv_stride = 2 * H, a.ctx = GIVEN(ctx), a.lse = GIVEN(lse);
    if (!a.rows || !width_fits(call, a, "attention_part: heads of more than 256 columns")) return;
    if (tiles_fit(call, &a, call->dtype[ARG(ctx)])) { /* they write the rows of sequences alone */
        clear(call, ARG(ctx), "attention_part"), clear(call, ARG(lse), "attention_part");
        tri__cuda_tiles(call, &a, call->dtype[ARG(ctx)]);
    } else queue(call, "attention_part", part_kernel<T>, blocks_for(a.rows * a.heads, ROWS), THREADS, a);
}

template <typename T> static void attention_part_din(const tri_call *call) {
    OPERANDS(attention_part_din);
    int64_t H = call->t[ARG(dctx)].cols;
    tile_args a = part_args(call, ARG(seq), ARG(blocks), ARG(key), call->t[ARG(dctx)].rows, H);
    a.qkv = GIVEN(qkv), a.kv = GIVEN(kv), a.kv_stride = 2 * H, a.dctx = GIVEN(dctx), a.ctx = GIVEN(ctx);
    a.lse = GIVEN(lse), a.dqkv = GIVEN(dqkv), a.dkv = GIVEN(dkv);
    a.add = adds(call, ARG(dqkv)), a.add_kv = adds(call, ARG(dkv));
    if (!a.rows || !width_fits(call, a, "attention_part_din: heads of more than 256 columns")) return;
    if (tiles_fit(call, &a, call->dtype[ARG(dqkv)])) {
        clear(call, ARG(dqkv), "attention_part_din"), clear(call, ARG(dkv), "attention_part_din");
        tri__cuda_tiles_din(call, &a, call->dtype[ARG(dqkv)]);
        return;
    }
    queue(call, "attention_part_din", part_dq_kernel<T>, blocks_for(a.rows * a.heads, ROWS), THREADS, a);
    queue(call, "attention_part_din", part_dkv_kernel<T>, blocks_for(a.rows * a.heads, ROWS), THREADS, a);
}

/* Keys and values in qkv, whose rows are as long as those of queries. */
template <typename T>
static tile_args first_args(const tri_call *call, int q, int qkv, int seq, int blocks, int key) {
    int64_t H = call->t[qkv].cols / 3;
    tile_args a = part_args(call, seq, blocks, key, call->t[qkv].rows, H);
    a.qkv = call->t[q].data, a.kv = data<T>(call, qkv) + H, a.kv_stride = 3 * H;
    return a;
}

/* y has the place of ctx. */
template <typename T> static void attention_first_part(const tri_call *call) {
    OPERANDS(attention_part);
    tile_args a = first_args<T>(call, ARG(q), ARG(qkv), ARG(seq), ARG(blocks), ARG(key));
    a.ctx = GIVEN(ctx);
    if (!a.n || !width_fits(call, a, "attention_first_part: heads of more than 256 columns")) return;
    queue(call, "attention_first_part", first_kernel<T>, blocks_for((int64_t)a.n * a.heads, ROWS), THREADS, a);
}

/* dq has the place of dkv. */
template <typename T> static void attention_first_part_din(const tri_call *call) {
    OPERANDS(attention_part_din);
    const char *where = "attention_first_part_din";
    tile_args a = first_args<T>(call, ARG(q), ARG(qkv), ARG(seq), ARG(blocks), ARG(key));
    a.dctx = GIVEN(dctx), a.ctx = GIVEN(ctx), a.lse = GIVEN(lse);
    a.dqkv = GIVEN(dkv), a.dkv = GIVEN(dqkv), a.add_kv = adds(call, ARG(dqkv));
    if (!width_fits(call, a, "attention_first_part_din: heads of more than 256 columns")) return;
    if (a.n) queue(call, where, first_dq_kernel<T>, blocks_for((int64_t)a.n * a.heads, ROWS), THREADS, a);
    if (a.rows) queue(call, where, first_dkv_kernel<T>, blocks_for(a.rows * a.heads, ROWS), THREADS, a);
}

template <typename T> static void attention_join(const tri_call *call) {
    OPERANDS(attention_join);
    int64_t rows = elements(call, ARG(lse));
    int width = (int)(call->t[ARG(ctx)].cols / call->attr->heads), team = WARP;
    int is_wide = width % WIDE == 0 && aligned(call->t[ARG(ctx)].data, call->t[ARG(more)].data);
    while (is_wide && team > 1 && team / 2 * WIDE >= width) team /= 2;
    if (rows == 0) return;
    by_width(is_wide, [&](auto n) {
        queue(call, "attention_join", join_kernel<T, n>, blocks_for(rows * team, THREADS), THREADS, rows, team, width,
              GIVEN(ctx), GIVEN(lse), GIVEN(more), GIVEN(logs));
    });
}

template <typename T> static void attention_first_join(const tri_call *call) {
    OPERANDS(attention_first_join);
    int heads = call->attr->heads;
    int64_t n = call->t[ARG(ctx)].rows * heads;
    if (n)
        queue(call, "attention_first_join", first_join_kernel<T>, blocks_for(n, ROWS), THREADS, n, heads,
              (int)(call->t[ARG(ctx)].cols / heads), call->attr->members, GIVEN(ctx), GIVEN(lse), GIVEN(y));
}

template <typename T> static void kv_part(const tri_call *call) {
    OPERANDS(kv_part);
    int64_t to = call->t[ARG(y)].cols, from = call->t[ARG(x)].cols;
    unsigned rows = (unsigned)call->t[ARG(y)].rows;
    if (elements(call, ARG(y)) == 0) return;
    if (call->attr->back)
        queue(call, "kv_part", kv_din_kernel<T>, rows, THREADS, to, from, GIVEN(y), GIVEN(x), adds(call, ARG(y)));
    else queue(call, "kv_part", kv_kernel<T>, rows, THREADS, from, to, GIVEN(y), GIVEN(x));
}

/* To all keys, or to those of present blocks. */
#define ROWS(facts)                                                                                  \
    TRI_CUDA_FACT_ROWS(facts, TRI_OP_attention_part, attention_part, {}),                            \
        TRI_CUDA_HALF_ROWS(facts, TRI_OP_attention_part_din, attention_part_din, {}, TILES_WORK),    \
        TRI_CUDA_FACT_ROWS(facts | TRI_FACT_FIRST, TRI_OP_attention_part, attention_first_part, {}), \
        TRI_CUDA_FACT_ROWS(facts | TRI_FACT_FIRST, TRI_OP_attention_part_din, attention_first_part_din, {})

TRI_CUDA_FAMILY(attention_part) = {
    TRI_CUDA_ROWS(TRI_OP_kv_part, kv_part, {}),
    TRI_CUDA_ROWS(TRI_OP_attention_join, attention_join, {}),
    TRI_CUDA_ROWS(TRI_OP_attention_first_join, attention_first_join, {}),
    ROWS(TRI_FACT_NONE),
    ROWS(TRI_FACT_SPARSE),
    {},
};
