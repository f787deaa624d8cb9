/* dropout.c - dropout (its decisions are those of base/random.h) and the sum of a residual connection. */
#include "device/cpu/reference/reference.h"

/* Both directions multiply by the same mask: y = x * keep, dx = dy * keep. */
static void dropout(const tri_call *call) {
    enum { Y, X, KEY };
    const float *x = f32(call, X);       /* [T,H] */
    const int32_t *key = i32(call, KEY); /* [T,2] */
    int64_t T = call->t[Y].rows, H = call->t[Y].cols;
    for (int64_t t = 0; t < T; t++)
        for (int64_t c = 0; c < H; c++)
            store(call, Y, t * H + c, x[t * H + c] * keep(call, key, t, c));
}

static void add(const tri_call *call) {
    enum { Y, A, B };
    const float *a = f32(call, A), *b = f32(call, B); /* [T,H] */
    int64_t n = call->t[Y].rows * call->t[Y].cols;
    for (int64_t i = 0; i < n; i++) store(call, Y, i, (double)a[i] + b[i]);
}

static void add_din(const tri_call *call) {
    enum { DA, DB, DY };
    const float *dy = f32(call, DY); /* [T,H] */
    int64_t n = call->t[DY].rows * call->t[DY].cols;
    for (int64_t i = 0; i < n; i++) {
        store(call, DA, i, dy[i]);
        store(call, DB, i, dy[i]);
    }
}

const tri_kernel_row tri__cpu_dropout_reference[] = {
    {.op = TRI_OP_dropout, .dtype = TRI_F32, .run = dropout},
    {.op = TRI_OP_dropout_din, .dtype = TRI_F32, .run = dropout},
    {.op = TRI_OP_add, .dtype = TRI_F32, .run = add},
    {.op = TRI_OP_add_din, .dtype = TRI_F32, .run = add_din},
    {.run = NULL},
};
