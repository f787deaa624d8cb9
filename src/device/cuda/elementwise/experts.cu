/* experts.cu - mixtures of experts: routing with a capacity in each sequence, the balancing loss, and rows on their way
 * to experts and back. Sums and places are in a fixed order. */
#include "device/cuda/runtime/common.cuh"

enum { THREADS = 256, WARPS = THREADS / WARP };

/* The expert of a choice: of a row, one of `each` of every expert, or of a choice without a place. */
static __device__ __forceinline__ int64_t expert_of(int32_t choice, int64_t each) {
    return choice < 0 ? -1 - (int64_t)choice : choice / each;
}

/* The most probable expert but for `except`; of equal ones the first, where nothing is a number too. */
template <typename T> static __device__ __forceinline__ int best(const T *logits, int C, int except) {
    int found = except == 0;
    for (int e = found + 1; e < C; e++)
        if (e != except && wide(logits[e]) > wide(logits[found])) found = e;
    return found;
}

/* A thread per token: probabilities, and choices as if none had a place. */
template <typename T>
static __global__ void choose_kernel(int64_t tokens, int C, int K, float *probs, int32_t *choice, float *weight,
                                     const T *logits, const int32_t *last) {
    int64_t t = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (t >= tokens) return;
    const T *row = logits + t * C; /* [C] */
    int none = t >= *last, chosen[2] = {0, 0};
    for (int j = 0; j < K && !none; j++) chosen[j] = best(row, C, j ? chosen[0] : -1);
    double most = wide(row[chosen[0]]), sum = 0, both = 0;
    for (int e = 0; e < C && !none; e++) sum += exp(wide(row[e]) - most);
    for (int e = 0; e < C && probs; e++) probs[t * C + e] = none ? 0.0f : (float)(exp(wide(row[e]) - most) / sum);
    for (int j = 0; j < K && !none; j++) both += exp(wide(row[chosen[j]]) - most);
    for (int j = 0; j < K; j++) {
        choice[t * K + j] = -1 - chosen[j];
        weight[t * K + j] = none ? 0.0f : (float)(exp(wide(row[chosen[j]]) - most) / (K > 1 ? both : sum));
    }
}

/* A warp per sequence and expert: gives the expert's places to first choices in the order of tokens, then to second
 * ones. Other warps replace choices of other experts meanwhile: neither what was there nor what comes is this one's. */
static __global__ void place_kernel(int64_t sequences, int C, int K, int64_t each, int32_t *choice, int32_t *from,
                                    const int32_t *seq, const int32_t *places) {
    int64_t at = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP, s = at / C;
    int e = (int)(at % C), lane = threadIdx.x % WARP;
    if (s >= sequences) return;
    int64_t place = e * each + places[s], end = e * each + places[s + 1];
    for (int j = 0; j < K; j++)
        for (int64_t t0 = seq[s]; t0 < seq[s + 1]; t0 += WARP) {
            int64_t i = (t0 + lane) * K + j;
            int own = t0 + lane < seq[s + 1] && choice[i] == -1 - e;
            unsigned all = __ballot_sync(0xFFFFFFFFu, own);
            int64_t r = place + __popc(all & ((1u << lane) - 1));
            if (own && r < end) choice[i] = (int32_t)r, from[r] = (int32_t)i;
            place += __popc(all);
        }
}

template <typename T> static void route(const tri_call *call) {
    OPERANDS(route);
    int64_t tokens = call->t[ARG(logits)].rows, n = call->t[ARG(seq)].rows - 1, rows = call->t[ARG(from)].rows;
    int C = (int)call->t[ARG(logits)].cols, K = (int)call->t[ARG(choice)].cols;
    const int32_t *seq = GIVEN(seq);
    int32_t *choice = GIVEN(choice), *from = GIVEN(from);
    if (rows) record(call, cudaMemsetAsync(from, 0xFF, (size_t)rows * sizeof *from, stream(call)), "route"); /* -1 */
    if (tokens == 0) return;
    queue(call, "route", choose_kernel<T>, blocks_for(tokens, THREADS), THREADS, tokens, C, K, GIVEN(probs), choice,
          GIVEN(weight), GIVEN(logits), seq + n);
    if (n)
        queue(call, "route", place_kernel, blocks_for(n * C, WARPS), THREADS, n, C, K, rows / C, choice, from, seq,
              GIVEN(places));
}

/* A thread per token. */
template <typename T>
static __global__ void route_din_kernel(int64_t tokens, int C, int K, int64_t each, T *dlogits, const float *dprobs,
                                        const float *dweight, const float *probs, const int32_t *choice, int add) {
    int64_t t = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (t >= tokens) return;
    const float *p = probs + t * C, *dp = dprobs + t * C, *dw = dweight + t * K;
    int64_t a = expert_of(choice[t * K], each), b = K > 1 ? expert_of(choice[t * K + 1], each) : -1;
    double ga = dw[0], gb = 0, dot = 0;
    if (K > 1) {
        double sum = (double)p[a] + p[b], g = sum > 0 ? ((double)dw[0] - dw[1]) / (sum * sum) : 0;
        ga = g * p[b], gb = -g * p[a];
    }
    for (int e = 0; e < C; e++) dot += p[e] * (dp[e] + (e == a ? ga : 0) + (e == b ? gb : 0));
    for (int e = 0; e < C; e++) {
        float value[1] = {(float)(p[e] * (dp[e] + (e == a ? ga : 0) + (e == b ? gb : 0) - dot))};
        put<1>(dlogits + t * C + e, value, add);
    }
}

template <typename T> static void route_din(const tri_call *call) {
    OPERANDS(route_din);
    int64_t C = call->t[ARG(probs)].cols, each = C ? call->t[ARG(from)].rows / C : 0;
    queue_each(call, "route_din", route_din_kernel<T>, call->t[ARG(probs)].rows, THREADS, (int)C,
               (int)call->t[ARG(choice)].cols, each, GIVEN(dlogits), GIVEN(dprobs), GIVEN(dweight), GIVEN(probs),
               GIVEN(choice), adds(call, ARG(dlogits)));
}

/* First choices of expert e among the tokens of a sequence, by a warp: every lane gets the number. */
static __device__ __forceinline__ int first_choices(const int32_t *choice, int K, int begin, int end, int e,
                                                    int64_t each) {
    int n = 0;
    for (int t = begin + (int)threadIdx.x % WARP; t < end; t += WARP)
        n += expert_of(choice[(int64_t)t * K], each) == e;
    return warp_sum(n);
}

/* One block: its warps take turns at sequences, and their sums are added in a fixed order. */
static __global__ void __launch_bounds__(4 * THREADS)
    balance_kernel(int64_t sequences, int C, int K, int64_t each, double *sums, const float *probs,
                   const int32_t *choice, const int32_t *seq, const double *inv, double rate, int add) {
    int lane = threadIdx.x % WARP;
    double loss = 0, dropped = 0;
    for (int64_t s = threadIdx.x / WARP; s < sequences; s += blockDim.x / WARP) {
        int begin = seq[s], end = seq[s + 1];
        double length = end - begin;
        for (int e = 0; e < C; e++) {
            double sum = 0;
            for (int t = begin + lane; t < end; t += WARP) sum += probs[(int64_t)t * C + e];
            sum = warp_sum(sum);
            double term = (double)C * first_choices(choice, K, begin, end, e, each) / length * sum / length;
            if (lane == 0) loss += term;
        }
        for (int t = begin + lane; t < end; t += WARP) {
            int placed = 0;
            for (int j = 0; j < K; j++) placed |= choice[(int64_t)t * K + j] >= 0;
            dropped += !placed;
        }
    }
    loss = block_sum(loss);
    dropped = block_sum(dropped);
    if (threadIdx.x) return;
    sums[0] = (add ? sums[0] : 0) + rate * *inv * loss;
    sums[1] = (add ? sums[1] : 0) + dropped;
}

static void balance(const tri_call *call) {
    OPERANDS(balance);
    int64_t C = call->t[ARG(probs)].cols;
    queue(call, "balance", balance_kernel, 1, 4 * THREADS, call->t[ARG(seq)].rows - 1, (int)C,
          (int)call->t[ARG(choice)].cols, call->t[ARG(from)].rows / C, GIVEN(sums), GIVEN(probs), GIVEN(choice),
          GIVEN(seq), GIVEN(inv), call->attr->rate, adds(call, ARG(sums)));
}

/* A warp per sequence and expert. */
static __global__ void balance_din_kernel(int64_t sequences, int C, int K, int64_t each, float *dprobs,
                                          const int32_t *choice, const int32_t *seq, const double *inv,
                                          const float *scale, double rate, int add) {
    int64_t at = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP, s = at / C;
    int e = (int)(at % C);
    if (s >= sequences) return;
    int begin = seq[s], end = seq[s + 1];
    double length = end - begin, factor = rate * *inv * (scale ? *scale : 1.0f) * C;
    float d = (float)(factor * first_choices(choice, K, begin, end, e, each) / (length * length));
    for (int t = begin + (int)threadIdx.x % WARP; t < end; t += WARP) {
        float *to = dprobs + (int64_t)t * C + e;
        *to = add ? *to + d : d;
    }
}

static void balance_din(const tri_call *call) {
    OPERANDS(balance_din);
    int64_t C = call->t[ARG(dprobs)].cols, n = call->t[ARG(seq)].rows - 1;
    clear(call, ARG(dprobs), "balance_din"); /* rows of no sequence */
    if (n && C)
        queue(call, "balance_din", balance_din_kernel, blocks_for(n * C, WARPS), THREADS, n, (int)C,
              (int)call->t[ARG(choice)].cols, call->t[ARG(from)].rows / C, GIVEN(dprobs), GIVEN(choice),
              GIVEN(seq), GIVEN(inv), GIVEN(scale), call->attr->rate, adds(call, ARG(dprobs)));
}

/* Row r of to [R,H] = the row from[r] / K of x, times weight[from[r]] where there are weights; 0 in an empty place.
 * N columns a thread. */
template <typename T, int N>
static __global__ void spread_kernel(int64_t rows, int H, int K, T *to, const T *x, const int32_t *from,
                                     const float *weight, int add) {
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, across = H / N, r = i / across, c = i % across * N;
    if (r >= rows) return;
    int32_t f = from[r];
    float value[N] = {};
    if (f >= 0) load<N>(x + (int64_t)(f / K) * H + c, value);
    float w = weight && f >= 0 ? weight[f] : 1.0f;
#pragma unroll
    for (int k = 0; k < N; k++) value[k] *= w;
    put<N>(to + r * H + c, value, add);
}

/* Row t of to [T,H] = the sum, in order of j, of rows choice[t,j] of x that are places, times weight[t,j] where there
 * are weights. */
template <typename T, int N>
static __global__ void gather_kernel(int64_t rows, int H, int K, T *to, const T *x, const int32_t *choice,
                                     const float *weight, int add) {
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, across = H / N, t = i / across, c = i % across * N;
    if (t >= rows) return;
    float sum[N] = {};
    for (int j = 0; j < K; j++) {
        int32_t r = choice[t * K + j];
        if (r < 0) continue;
        float value[N], w = weight ? weight[t * K + j] : 1.0f;
        load<N>(x + (int64_t)r * H + c, value);
#pragma unroll
        for (int k = 0; k < N; k++) sum[k] = fmaf(w, value[k], sum[k]);
    }
    put<N>(to + t * H + c, sum, add);
}

/* A warp per choice: dweight = dot(dy[t], x[choice]), 0 without a place. */
template <typename T>
static __global__ void dweight_kernel(int64_t choices, int H, int K, float *dweight, const T *dy, const T *x,
                                      const int32_t *choice, int add) {
    int64_t i = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    if (i >= choices) return;
    int32_t r = choice[i];
    const T *a = dy + i / K * H, *b = x + (int64_t)(r < 0 ? 0 : r) * H;
    float sum = 0;
    for (int c = (int)threadIdx.x % WARP; c < H && r >= 0; c += WARP) sum = fmaf(wide(a[c]), wide(b[c]), sum);
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0) dweight[i] = add ? dweight[i] + sum : sum;
}

/* Moves rows to operand `to` from operand x, by the index `by`, with weights or NULL: SPREAD to experts, from [rows of
 * `to`], or gathered from them, choice [T,K]. */
template <typename T, bool SPREAD>
static void move_rows(const tri_call *call, const char *name, int to, int x, int by, int K, const float *weight) {
    int64_t rows = call->t[to].rows, H = call->t[to].cols;
    if (rows * H == 0) return;
    by_width(H % WIDE == 0 && aligned(call->t[to].data, call->t[x].data), [&](auto n) {
        queue(call, name, SPREAD ? spread_kernel<T, n> : gather_kernel<T, n>, blocks_for(rows * (H / n), THREADS),
              THREADS, rows, (int)H, K, data<T>(call, to), data<T>(call, x), data<int32_t>(call, by), weight,
              adds(call, to));
    });
}

template <typename T> static void dispatch(const tri_call *call) {
    OPERANDS(dispatch);
    move_rows<T, true>(call, "dispatch", ARG(y), ARG(x), ARG(from), (int)call->t[ARG(choice)].cols, nullptr);
}

template <typename T> static void dispatch_din(const tri_call *call) {
    OPERANDS(dispatch_din);
    move_rows<T, false>(call, "dispatch_din", ARG(dx), ARG(dy), ARG(choice), (int)call->t[ARG(choice)].cols, nullptr);
}

template <typename T> static void combine(const tri_call *call) {
    OPERANDS(combine);
    move_rows<T, false>(call, "combine", ARG(y), ARG(x), ARG(choice), (int)call->t[ARG(choice)].cols, GIVEN(weight));
}

template <typename T> static void combine_din(const tri_call *call) {
    OPERANDS(combine_din);
    int64_t choices = elements(call, ARG(choice));
    int K = (int)call->t[ARG(choice)].cols;
    move_rows<T, true>(call, "combine_din", ARG(dx), ARG(dy), ARG(from), K, GIVEN(weight));
    if (choices)
        queue(call, "combine_din", dweight_kernel<T>, blocks_for(choices, WARPS), THREADS, choices,
              (int)call->t[ARG(dy)].cols, K, GIVEN(dweight), GIVEN(dy), GIVEN(x), GIVEN(choice),
              adds(call, ARG(dweight)));
}

TRI_CUDA_FAMILY(experts) = {
    TRI_CUDA_ROWS(TRI_OP_route, route, {}),
    TRI_CUDA_ROWS(TRI_OP_route_din, route_din, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_balance, balance, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_balance_din, balance_din, {}),
    TRI_CUDA_ROWS(TRI_OP_dispatch, dispatch, {}),
    TRI_CUDA_ROWS(TRI_OP_dispatch_din, dispatch_din, {}),
    TRI_CUDA_ROWS(TRI_OP_combine, combine, {}),
    TRI_CUDA_ROWS(TRI_OP_combine_din, combine_din, {}),
    {},
};
