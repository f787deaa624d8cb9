/* attention_relative.cu - rows of attention by distances (numbers/distance.h): MPNet's biases, DeBERTa's disentangled
 * attention, and the tables that their layers read. 16-bit types use Hopper's tensor cores (attention_relative.cuh),
 * everything else attention_plain.cuh, whose kernels find each distance's row of the table when they need it. */
#include "device/cuda/attention/attention_plain.cuh"
#include "device/cuda/attention/attention_relative_args.cuh"
#include "device/cuda/elementwise/map.cuh"

template <typename T, bool BIAS> struct relative_scores {
    enum { ROWS = !BIAS };
    relative_args t;
    __device__ __forceinline__ const T *entry(const attention_args &a, int head, int part, int distance) const {
        return (const T *)t.table + (((int64_t)table_row(t, distance) * 3 + part) * a.heads + head) * a.width;
    }
    __device__ __forceinline__ const T *with_key(const attention_args &a, int head, int distance) const {
        return t.terms & 1 ? entry(a, head, 1, distance) : NULL;
    }
    __device__ __forceinline__ const T *with_query(const attention_args &a, int head, int distance) const {
        return t.terms & 2 ? entry(a, head, 0, distance) : NULL;
    }
    __device__ __forceinline__ float at(const attention_args &a, int head, int64_t query, int64_t other) const {
        const T *q = part_of<T>(a, head, query, 0), *k = part_of<T>(a, head, other, 1);
        int distance = (int)(query - other);
        float sum = dot(q, k, a.width);
        if (BIAS)
            return sum * a.scale + wide(((const T *)t.table)[(int64_t)table_row(t, distance) * a.heads + head]);
        if (t.terms & 1) sum += dot(q, with_key(a, head, distance), a.width);
        if (t.terms & 2) sum += dot(k, with_query(a, head, distance), a.width);
        return sum * a.scale;
    }
};

/* The table's gradient: a block for a row and a head, whose warps take the queries in turn. */
template <typename T, bool BIAS> static __global__ void __launch_bounds__(THREADS) plain_table_kernel(relative_args t) {
    enum { WARPS = THREADS / WARP };
    __shared__ int low, high;
    __shared__ float sums[2][WARPS][MOST_WIDTH];
    const attention_args &a = t.a;
    relative_scores<T, BIAS> scores = {t};
    int row = blockIdx.x, head = blockIdx.y, warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    if (threadIdx.x == 0) low = 1 << 28, high = -(1 << 28);
    __syncthreads();
    for (int d = (int)threadIdx.x - t.far; d <= t.far; d += THREADS)
        if (table_row(t, d) == row) {
            atomicMin(&low, d == -t.far ? -(1 << 28) : d);
            atomicMax(&high, d == t.far ? 1 << 28 : d);
        }
    __syncthreads();
    double bias = 0;
    float dq[MOST_COLS] = {}, dk[MOST_COLS] = {};
    for (int s = 0; s < a.n; s++)
        for (int i = a.seq[s] + warp; i < a.seq[s + 1]; i += WARPS) {
            int begin = max(a.seq[s], i - high), end = min(a.seq[s + 1], i - low + 1); /* keys at these distances */
            for (int first = begin; first < end; first += WARP) {
                float unused, ds = 0;
                if (first + lane < end) weight_gradient<T>(a, scores, head, i, first + lane, &unused, &ds);
                float all = warp_sum(ds);
                bias += all;
                if (BIAS) continue;
                gather<T>(all, 1, a.width, [&](int) { return part_of<T>(a, head, i, 0); }, dk);
                gather<T>(
                    ds, min(WARP, end - first), a.width, [&](int k) { return part_of<T>(a, head, first + k, 1); }, dq);
            }
        }
    if constexpr (BIAS) {
        bias = block_sum(lane == 0 ? bias : 0.0);
        T *to = (T *)t.dtable + (int64_t)row * a.heads + head;
        if (threadIdx.x == 0) *to = narrow<T>((float)(bias + (t.add_table ? (double)wide(*to) : 0.0)));
    } else {
#pragma unroll
        for (int k = 0; k < MOST_COLS; k++)
            sums[0][warp][lane + WARP * k] = dq[k], sums[1][warp][lane + WARP * k] = dk[k];
        __syncthreads();
        T *to = (T *)t.dtable + ((int64_t)row * 3 * a.heads + head) * a.width;
        for (int i = threadIdx.x; i < 3 * a.width; i += THREADS) {
            int part = i / a.width, c = i % a.width;
            double sum = 0;
            for (int w = 0; w < WARPS && part < 2; w++) sum += sums[part][w][c];
            if (part == 2 || !(t.terms & (part ? 1 : 2))) sum = 0;
            T *at = to + (int64_t)part * a.heads * a.width + c;
            *at = narrow<T>((float)sum * a.scale + (t.add_table ? wide(*at) : 0.0f));
        }
    }
}

/* Lists the table's rows by distance. */
static __global__ void list_rows(relative_args t) {
    int d = (int)(blockIdx.x * blockDim.x + threadIdx.x) - t.far;
    if (d <= t.far) t.rows[d + t.far] = (int16_t)table_row(t, d);
}

/* Scratch: rows by distance; statistics, two floats for each row and head of at least 8 columns; sums of the table's
 * gradient. */
enum { ROW_BYTES_MOST = 2 * (2 * MOST_FAR + 2), SUM_BYTES = 25600 };
#define FORWARD_WORK {ROW_BYTES_MOST, 0, 0, 0, 0}
#define DIN_WORK {ROW_BYTES_MOST, 0, SUM_BYTES, 1, 0}

/* bias has the place of rel, and the gradient of either that of db. */
static relative_args relative_of(const tri_call *call, const attention_args &a, int table) {
    relative_args t = {};
    t.a = a;
    t.table = call->t[table].data, t.B = (int)call->t[table].rows;
    t.buckets = call->attr->buckets, t.reach = call->attr->reach, t.far = t.reach ? t.reach + 1 : t.buckets;
    t.terms = call->attr->score == TRI_SCORE_BIASED ? 0 : call->attr->terms;
    t.a.scale = 1.0f / sqrtf((float)(t.a.width * (1 + (t.terms & 1) + (t.terms >> 1 & 1))));
    return t;
}

/* Whether tensor cores can; then prepares their scratch space. */
static int prepare(const tri_call *call, relative_args *t, int dtype, int din) {
    int64_t cols = call->t[0].cols;
    if (!flash_fits(call, &t->a, dtype) || t->a.width > 64 || t->far > MOST_FAR || t->B > INT16_MAX) return 0;
    if (t->terms && !aligned(t->table)) return 0;
    if (din && !tri__cuda_relative_plan(t, SUM_BYTES * cols)) return 0;
    char *work = static_cast<char *>(call->work);
    t->rows = (int16_t *)work, t->part = (float *)(work + ROW_BYTES_MOST);
    t->a.statistic = t->part + SUM_BYTES * cols / 4;
    queue(call, "rows of distances", list_rows, blocks_for(2 * t->far + 1, THREADS), THREADS, *t);
    return 1;
}

/* The same call without tensor cores. */
static tile_args plain_args(const relative_args &t) {
    tile_args plain = {};
    static_cast<attention_args &>(plain) = t.a;
    return plain;
}

template <typename T, bool BIAS> static void attention_relative(const tri_call *call) {
    OPERANDS(attention);
    int dtype = call->dtype[ARG(ctx)];
    relative_args t = relative_of(call, forward_args(call), ARG(rel));
    if (t.a.rows == 0) return;
    if (prepare(call, &t, dtype, 0)) tri__cuda_relative(call, &t, dtype);
    else plain<T>(call, plain_args(t), relative_scores<T, BIAS>{t});
}

template <typename T, bool BIAS> static void attention_relative_din(const tri_call *call) {
    OPERANDS(attention_din);
    int dtype = call->dtype[ARG(dqkv)];
    relative_args t = relative_of(call, din_args(call), ARG(rel));
    t.dtable = GIVEN(db), t.add_table = adds(call, ARG(db));
    if (t.a.rows > 0 && prepare(call, &t, dtype, 1)) {
        tri__cuda_relative_din(call, &t, dtype);
        tri__cuda_relative_table(call, &t, dtype);
        return;
    }
    if (t.a.rows > 0) plain_din<T>(call, plain_args(t), relative_scores<T, BIAS>{t});
    if (t.B > 0 && t.a.width <= MOST_WIDTH)
        queue(call, "gradient of a table of distances", plain_table_kernel<T, BIAS>,
              dim3((unsigned)t.B, (unsigned)t.a.heads), THREADS, t);
}

template <typename T> static void biased(const tri_call *call) { attention_relative<T, true>(call); }
template <typename T> static void disentangled(const tri_call *call) { attention_relative<T, false>(call); }
template <typename T> static void biased_din(const tri_call *call) { attention_relative_din<T, true>(call); }
template <typename T> static void disentangled_din(const tri_call *call) { attention_relative_din<T, false>(call); }

template <typename T> static void table(const tri_call *call) {
    OPERANDS(table);
    const tri_tensor *y = &call->t[ARG(y)], *w = &call->t[ARG(w)];
    const T *from = data<T>(call, ARG(w)) + (w->rows - y->rows) / 2 * w->cols;
    map1_on<same_op, T, T>(call, elements(call, ARG(y)), data<T>(call, ARG(y)), from, 0, "table");
}

/* dw [V,H] = dy [B,H] in the middle rows; n elements of dw, of which dy has those from `first` on. */
template <typename T>
static __global__ void table_dw_kernel(int64_t n, int64_t first, int64_t count, loose dw, const T *dy, int add) {
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < n) loose_put(dw, i, i >= first && i < first + count ? wide(dy[i - first]) : 0.0f, add);
}
template <typename T> static void table_dw(const tri_call *call) {
    OPERANDS(table);
    int64_t n = elements(call, ARG(y)), count = elements(call, ARG(w));
    int64_t first = (call->t[ARG(y)].rows - call->t[ARG(w)].rows) / 2 * call->t[ARG(y)].cols;
    queue_each(call, "table_dw", table_dw_kernel<T>, n, THREADS, first, count, GIVEN(y), GIVEN(w), adds(call, ARG(y)));
}

#define ROWS(facts, forward, din)                                              \
    TRI_CUDA_HALF_ROWS(facts, TRI_OP_attention, forward, {}, FORWARD_WORK),    \
        TRI_CUDA_HALF_ROWS(facts, TRI_OP_attention_din, din, {}, DIN_WORK)

TRI_CUDA_FAMILY(attention_relative) = {
    TRI_CUDA_ROWS(TRI_OP_table, table, {}),
    TRI_CUDA_FACT_ROWS(TRI_FACT_WEIGHT, TRI_OP_table, table_dw, {}),
    ROWS(TRI_FACT_RELATIVE | TRI_FACT_BIAS, biased, biased_din),
    ROWS(TRI_FACT_RELATIVE, disentangled, disentangled_din),
    {},
};
