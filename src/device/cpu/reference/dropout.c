/* dropout.c - dropout (decisions from base/random.h), the sum of a residual connection, and the factor of what is added
 * to it. */
#include "device/cpu/reference/reference.h"

/* Both directions multiply by the same mask: y = x * keep, dx = dy * keep. */
static void dropout(const tri_call *call) {
    OPERANDS(dropout);
    const float *x = f32(call, ARG(x));       /* [T,H] */
    const int32_t *key = i32(call, ARG(key)); /* [T,2] */
    int64_t T = call->t[ARG(y)].rows, H = call->t[ARG(y)].cols;
    for (int64_t t = 0; t < T; t++)
        for (int64_t c = 0; c < H; c++)
            store(call, ARG(y), t * H + c, x[t * H + c] * keep(call, key, t, c));
}

static void add(const tri_call *call) {
    OPERANDS(add);
    const float *a = f32(call, ARG(a)), *b = f32(call, ARG(b)); /* [T,H] */
    int64_t n = call->t[ARG(y)].rows * call->t[ARG(y)].cols;
    for (int64_t i = 0; i < n; i++) store(call, ARG(y), i, (double)a[i] + b[i]);
}

static void add_din(const tri_call *call) {
    OPERANDS(add_din);
    const float *dy = f32(call, ARG(dy)); /* [T,H] */
    int64_t n = call->t[ARG(dy)].rows * call->t[ARG(dy)].cols;
    for (int64_t i = 0; i < n; i++) {
        store(call, ARG(da), i, dy[i]);
        store(call, ARG(db), i, dy[i]);
    }
}

/* Both directions: y = s * x, dx = s * dy. */
static void scale(const tri_call *call) {
    OPERANDS(scale);
    const float *x = f32(call, ARG(x)); /* [T,H] */
    double s = *f32(call, ARG(s));
    int64_t n = call->t[ARG(y)].rows * call->t[ARG(y)].cols;
    for (int64_t i = 0; i < n; i++) store(call, ARG(y), i, s * x[i]);
}

const tri_kernel_row tri__cpu_dropout_reference[] = TRI_KERNEL_ROWS(
    TRI_KERNEL(dropout), TRI_KERNEL(add), TRI_KERNEL(add_din), TRI_KERNEL(scale));
