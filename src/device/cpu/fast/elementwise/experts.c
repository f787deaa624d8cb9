/* experts.c - rows on their way to experts and back: each output row is written by one thread, its sums in order. */
#include "device/cpu/fast/runtime/call.h"

enum { ENOUGH = 1 << 14, LANES = 16 }; /* elements that justify more than one thread; partial sums of a dot product */

/* to = (add ? to : 0) + factor * x */
static void put_row(int64_t n, float *to, const float *x, float factor, int add) {
    if (add)
        for (int64_t i = 0; i < n; i++) to[i] += factor * x[i];
    else
        for (int64_t i = 0; i < n; i++) to[i] = factor * x[i];
}

static float dot(int64_t n, const float *a, const float *b) {
    float part[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) part[k] += a[i + k] * b[i + k];
    for (; i < n; i++) part[0] += a[i] * b[i];
    for (int k = 0; k < LANES; k++) sum += part[k];
    return sum;
}

/* Row r of operand `to` [R,H] = the row from[r] / K of x, times weight[from[r]] if there are weights; 0 in an empty
 * place. */
static void spread(const tri_call *call, int to, const float *x, const int32_t *from, int64_t K, const float *weight) {
    int64_t R = call->t[to].rows, H = call->t[to].cols;
    int add = adds(call, to);
#pragma omp parallel for schedule(static) num_threads(threads_for(call, R * H, ENOUGH))
    for (int64_t r = 0; r < R; r++) {
        float *row = f32(call, to) + r * H;
        if (from[r] >= 0) put_row(H, row, x + from[r] / K * H, weight ? weight[from[r]] : 1, add);
        else if (!add) memset(row, 0, (size_t)H * sizeof *row);
    }
}

/* Row t of operand `to` [T,H] = the sum, in order of j, of rows choice[t,j] of x that are places, times weight[t,j] if
 * there are weights. */
static void gather(const tri_call *call, int to, const float *x, const int32_t *choice, int64_t K,
                   const float *weight) {
    int64_t T = call->t[to].rows, H = call->t[to].cols;
#pragma omp parallel for schedule(static) num_threads(threads_for(call, K * T * H, ENOUGH))
    for (int64_t t = 0; t < T; t++) {
        float *row = f32(call, to) + t * H;
        int add = adds(call, to);
        for (int64_t i = t * K; i < (t + 1) * K; i++) {
            if (choice[i] < 0) continue;
            put_row(H, row, x + choice[i] * H, weight ? weight[i] : 1, add);
            add = 1;
        }
        if (!add) memset(row, 0, (size_t)H * sizeof *row);
    }
}

static void dispatch(const tri_call *call) {
    OPERANDS(dispatch);
    spread(call, ARG(y), f32(call, ARG(x)), i32(call, ARG(from)), call->t[ARG(choice)].cols, NULL);
}

static void dispatch_din(const tri_call *call) {
    OPERANDS(dispatch_din);
    gather(call, ARG(dx), f32(call, ARG(dy)), i32(call, ARG(choice)), call->t[ARG(choice)].cols, NULL);
}

static void combine(const tri_call *call) {
    OPERANDS(combine);
    gather(call, ARG(y), f32(call, ARG(x)), i32(call, ARG(choice)), call->t[ARG(choice)].cols, f32(call, ARG(weight)));
}

static void combine_din(const tri_call *call) {
    OPERANDS(combine_din);
    const float *dy = f32(call, ARG(dy)), *x = f32(call, ARG(x)); /* [T,H] [R,H] */
    const int32_t *choice = i32(call, ARG(choice));               /* [T,K] */
    float *dweight = f32(call, ARG(dweight));                     /* [T,K] */
    int64_t H = call->t[ARG(dy)].cols, K = call->t[ARG(choice)].cols, n = elements(call, ARG(choice));
    spread(call, ARG(dx), dy, i32(call, ARG(from)), K, f32(call, ARG(weight)));
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n * H, ENOUGH))
    for (int64_t i = 0; i < n; i++) {
        float d = choice[i] < 0 ? 0 : dot(H, dy + i / K * H, x + choice[i] * H);
        dweight[i] = adds(call, ARG(dweight)) ? dweight[i] + d : d;
    }
}

TRI_FAST_ROWS(experts) = TRI_KERNEL_ROWS(
    TRI_KERNEL(dispatch), TRI_KERNEL(dispatch_din), TRI_KERNEL(combine), TRI_KERNEL(combine_din));
