/* rope.c - rotary positions of queries and keys, and the gradient: rotated back. */
#include "device/cpu/reference/reference.h"
#include "numbers/rope.h"

/* y = x with each head of its first two thirds rotated by the angle of its row; of a gradient rotated back. */
static void rope(const tri_call *call) {
    OPERANDS(rope);
    const float *x = f32(call, ARG(x));         /* [T,D] */
    const int32_t *pos = i32(call, ARG(pos));   /* [T] */
    int64_t T = call->t[ARG(y)].rows, D = call->t[ARG(y)].cols, d = D / 3 / call->attr->heads;
    int sign = call->attr->back ? -1 : 1;
    for (int64_t i = 0; i < T * D; i++) {
        int64_t c = i % D, j = c % d % (d / 2), first = c % d < d / 2;
        if (c >= D / 3 * 2) {
            store(call, ARG(y), i, x[i]);
            continue;
        }
        double angle = (double)tri__rope_angle(pos[i / D], tri__rope_turn(call->attr->theta, j, d)) * sign;
        double other = first ? -(double)x[i + d / 2] : (double)x[i - d / 2];
        store(call, ARG(y), i, x[i] * cos(angle) + other * sin(angle));
    }
}

const tri_kernel_row tri__cpu_rope_reference[] = TRI_KERNEL_ROWS(TRI_KERNEL(rope));
