/* pool.c - one row per packed sequence: its first token, or the mean of its tokens (no sequence is empty), of which
 * this rank may have a run; and a rank's own rows of a matrix that all ranks have. */
#include "device/cpu/reference/reference.h"
#include "layout/runs.h"

/* This rank's rows of sequence s, among T. */
static tri_run_rows rows_of(const tri_call *call, const int32_t *seq, int64_t s, int64_t T) {
    return tri__run_of(seq, s, call->attr->part, T, call->attr->members);
}

static int has_first(tri_run_rows run) { return run.place == 0 && run.begin < run.end; }

static void pool_first(const tri_call *call) {
    OPERANDS(pool_first);
    const float *x = f32(call, ARG(x));       /* [T,H] */
    const int32_t *seq = i32(call, ARG(seq)); /* [N+1] */
    int64_t N = call->t[ARG(y)].rows, H = call->t[ARG(y)].cols;
    for (int64_t s = 0; s < N; s++) {
        tri_run_rows own = rows_of(call, seq, s, call->t[ARG(x)].rows);
        for (int64_t c = 0; c < H; c++) store(call, ARG(y), s * H + c, has_first(own) ? x[own.begin * H + c] : 0);
    }
}

static void pool_first_din(const tri_call *call) {
    OPERANDS(pool_first_din);
    float *dx = f32(call, ARG(dx));           /* [T,H] */
    const float *dy = f32(call, ARG(dy));     /* [N,H] */
    const int32_t *seq = i32(call, ARG(seq)); /* [N+1] */
    int64_t N = call->t[ARG(dy)].rows, H = call->t[ARG(dy)].cols;
    clear(call, ARG(dx));
    for (int64_t s = 0; s < N; s++) {
        tri_run_rows own = rows_of(call, seq, s, call->t[ARG(dx)].rows);
        for (int64_t c = 0; c < H && has_first(own); c++) dx[own.begin * H + c] += dy[s * H + c];
    }
}

static void pool_mean(const tri_call *call) {
    OPERANDS(pool_mean);
    const float *x = f32(call, ARG(x));       /* [T,H] */
    const int32_t *seq = i32(call, ARG(seq)); /* [N+1] */
    int64_t N = call->t[ARG(y)].rows, H = call->t[ARG(y)].cols;
    for (int64_t s = 0; s < N; s++) {
        tri_run_rows own = rows_of(call, seq, s, call->t[ARG(x)].rows);
        for (int64_t c = 0; c < H; c++) {
            double sum = 0;
            for (int64_t t = own.begin; t < own.end; t++) sum += x[t * H + c];
            store(call, ARG(y), s * H + c, sum / (seq[s + 1] - seq[s]));
        }
    }
}

static void pool_mean_din(const tri_call *call) {
    OPERANDS(pool_mean_din);
    const float *dy = f32(call, ARG(dy));     /* [N,H] */
    const int32_t *seq = i32(call, ARG(seq)); /* [N+1] */
    int64_t N = call->t[ARG(dy)].rows, H = call->t[ARG(dy)].cols;
    clear(call, ARG(dx)); /* rows of no sequence */
    for (int64_t s = 0; s < N; s++) {
        tri_run_rows own = rows_of(call, seq, s, call->t[ARG(dx)].rows);
        for (int64_t t = own.begin; t < own.end; t++)
            for (int64_t c = 0; c < H; c++)
                store(call, ARG(dx), t * H + c, (double)dy[s * H + c] / (seq[s + 1] - seq[s]));
    }
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
