/* rope.c - rotary positions of queries and keys, and the gradient: turned back. */
#include "device/cpu/reference/reference.h"
#include "numbers/rope.h"

/* Operand 0 = operand 1 with each head of its first two thirds turned, by `sign` times the angle of its row. */
static void turn(const tri_call *call, int sign) {
    OPERANDS(rope); /* same order as rope_din */
    const float *x = f32(call, ARG(x));         /* [T,D] */
    const int32_t *pos = i32(call, ARG(pos));   /* [T] */
    int64_t T = call->t[ARG(y)].rows, D = call->t[ARG(y)].cols, d = D / 3 / call->attr->heads;
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

static void rope(const tri_call *call) { turn(call, 1); }
static void rope_din(const tri_call *call) { turn(call, -1); }

const tri_kernel_row tri__cpu_rope_reference[] = {
    {.op = TRI_OP_rope, .dtype = TRI_F32, .run = rope},
    {.op = TRI_OP_rope_din, .dtype = TRI_F32, .run = rope_din},
    {.run = NULL},
};
