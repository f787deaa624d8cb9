/* pool.c - one row per packed sequence: its first token, or the mean of its tokens (no sequence is empty), of which
 * this rank may have a run; and a rank's own rows of a matrix that all ranks have. */
#include "device/cpu/reference/reference.h"
#include "layout/runs.h"

/* This rank's rows of sequence s, among T, that are pooled: all, or its first token. */
static tri_run_rows rows_of(const tri_call *call, const int32_t *seq, int64_t s, int64_t T) {
    tri_run_rows own = tri__run_of(seq, s, call->attr->part, T, call->attr->members);
    if (!call->attr->mean && own.begin < own.end) own.end = own.begin + (own.place == 0);
    return own;
}

static double divisor(const tri_call *call, const int32_t *seq, int64_t s) {
    return call->attr->mean ? seq[s + 1] - seq[s] : 1;
}

/* dx = dy / the rows that y was made of, in these rows. */
static void pool_din(const tri_call *call) {
    OPERANDS(pool);
    const float *dy = f32(call, ARG(x));      /* [N,H] */
    const int32_t *seq = i32(call, ARG(seq)); /* [N+1] */
    int64_t N = call->t[ARG(x)].rows, H = call->t[ARG(x)].cols;
    clear(call, ARG(y)); /* rows that no sequence takes */
    for (int64_t s = 0; s < N; s++) {
        tri_run_rows own = rows_of(call, seq, s, call->t[ARG(y)].rows);
        for (int64_t t = own.begin; t < own.end; t++)
            for (int64_t c = 0; c < H; c++) store(call, ARG(y), t * H + c, dy[s * H + c] / divisor(call, seq, s));
    }
}

static void pool(const tri_call *call) {
    OPERANDS(pool);
    if (call->attr->back) {
        pool_din(call);
        return;
    }
    const float *x = f32(call, ARG(x));       /* [T,H] */
    const int32_t *seq = i32(call, ARG(seq)); /* [N+1] */
    int64_t N = call->t[ARG(y)].rows, H = call->t[ARG(y)].cols;
    for (int64_t s = 0; s < N; s++) {
        tri_run_rows own = rows_of(call, seq, s, call->t[ARG(x)].rows);
        for (int64_t c = 0; c < H; c++) {
            double sum = 0;
            for (int64_t t = own.begin; t < own.end; t++) sum += x[t * H + c];
            store(call, ARG(y), s * H + c, sum / divisor(call, seq, s));
        }
    }
}

/* And tokens_own, whose operands have the same places. */
static void tokens_whole_din(const tri_call *call) {
    OPERANDS(tokens_whole_din);
    int64_t n = call->t[ARG(dx)].rows * call->t[ARG(dx)].cols;
    const float *dy = f32(call, ARG(dy)) + call->attr->part * n; /* [T,H], from this rank's first row on */
    for (int64_t i = 0; i < n; i++) store(call, ARG(dx), i, dy[i]);
}

const tri_kernel_row tri__cpu_pool_reference[] = TRI_KERNEL_ROWS(
    TRI_KERNEL(pool), TRI_KERNEL(tokens_whole_din),
    {.op = TRI_OP_tokens_own, .dtype = TRI_F32, .run = tokens_whole_din});
