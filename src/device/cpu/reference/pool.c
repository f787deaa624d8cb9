/* pool.c - one row per packed sequence: its first token, or the mean of its tokens (no sequence is empty), of which
 * this rank may have a run; and a rank's own rows of a matrix that all ranks have. */
#include "device/cpu/reference/reference.h"

/* The first of a rank's T rows among all. */
static int64_t first_row(const tri_call *call, int64_t T) { return call->attr->part * T; }

static int64_t within(int64_t t, int64_t T) { return t < 0 ? 0 : t > T ? T : t; }

static void pool_first(const tri_call *call) {
    OPERANDS(pool_first);
    const float *x = f32(call, ARG(x));       /* [T,H] */
    const int32_t *seq = i32(call, ARG(seq)); /* [N+1] */
    int64_t N = call->t[ARG(y)].rows, H = call->t[ARG(y)].cols, T = call->t[ARG(x)].rows, first = first_row(call, T);
    for (int64_t s = 0; s < N; s++) {
        int64_t t = seq[s] - first;
        for (int64_t c = 0; c < H; c++) store(call, ARG(y), s * H + c, t >= 0 && t < T ? x[t * H + c] : 0);
    }
}

static void pool_first_din(const tri_call *call) {
    OPERANDS(pool_first_din);
    float *dx = f32(call, ARG(dx));           /* [T,H] */
    const float *dy = f32(call, ARG(dy));     /* [N,H] */
    const int32_t *seq = i32(call, ARG(seq)); /* [N+1] */
    int64_t N = call->t[ARG(dy)].rows, H = call->t[ARG(dy)].cols, T = call->t[ARG(dx)].rows, first = first_row(call, T);
    clear(call, ARG(dx));
    for (int64_t s = 0; s < N; s++) {
        int64_t t = seq[s] - first;
        for (int64_t c = 0; c < H && t >= 0 && t < T; c++) dx[t * H + c] += dy[s * H + c];
    }
}

static void pool_mean(const tri_call *call) {
    OPERANDS(pool_mean);
    const float *x = f32(call, ARG(x));       /* [T,H] */
    const int32_t *seq = i32(call, ARG(seq)); /* [N+1] */
    int64_t N = call->t[ARG(y)].rows, H = call->t[ARG(y)].cols, T = call->t[ARG(x)].rows, first = first_row(call, T);
    for (int64_t s = 0; s < N; s++)
        for (int64_t c = 0; c < H; c++) {
            double sum = 0;
            for (int64_t t = within(seq[s] - first, T), end = within(seq[s + 1] - first, T); t < end; t++)
                sum += x[t * H + c];
            store(call, ARG(y), s * H + c, sum / (seq[s + 1] - seq[s]));
        }
}

static void pool_mean_din(const tri_call *call) {
    OPERANDS(pool_mean_din);
    const float *dy = f32(call, ARG(dy));     /* [N,H] */
    const int32_t *seq = i32(call, ARG(seq)); /* [N+1] */
    int64_t N = call->t[ARG(dy)].rows, T = call->t[ARG(dx)].rows, H = call->t[ARG(dy)].cols;
    int64_t first = first_row(call, T);
    for (int64_t s = 0; s < N; s++)
        for (int64_t t = within(seq[s] - first, T), end = within(seq[s + 1] - first, T); t < end; t++)
            for (int64_t c = 0; c < H; c++)
                store(call, ARG(dx), t * H + c, (double)dy[s * H + c] / (seq[s + 1] - seq[s]));
    for (int64_t i = within(seq[N] - first, T) * H; i < T * H; i++) store(call, ARG(dx), i, 0); /* padding rows */
}

static void tokens_whole_din(const tri_call *call) {
    OPERANDS(tokens_whole_din);
    int64_t n = call->t[ARG(dx)].rows * call->t[ARG(dx)].cols;
    const float *dy = f32(call, ARG(dy)) + call->attr->part * n; /* [T,H], from this rank's first row on */
    for (int64_t i = 0; i < n; i++) store(call, ARG(dx), i, dy[i]);
}

const tri_kernel_row tri__cpu_pool_reference[] = {
    {.op = TRI_OP_pool_first, .dtype = TRI_F32, .run = pool_first},
    {.op = TRI_OP_pool_first_din, .dtype = TRI_F32, .run = pool_first_din},
    {.op = TRI_OP_pool_mean, .dtype = TRI_F32, .run = pool_mean},
    {.op = TRI_OP_pool_mean_din, .dtype = TRI_F32, .run = pool_mean_din},
    {.op = TRI_OP_tokens_whole_din, .dtype = TRI_F32, .run = tokens_whole_din},
    {.run = NULL},
};
