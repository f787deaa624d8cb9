/* activation.c - GELU in both forms, SiLU, tanh and ReLU, element by element. NaN stays NaN: clipping detects it. */
#include "device/cpu/reference/gelu.h"
#include "device/cpu/reference/reference.h"

static int64_t count(const tri_call *call) { return call->t[0].rows * call->t[0].cols; }

static void gelu(const tri_call *call) {
    OPERANDS(gelu);
    const float *x = f32(call, ARG(x)); /* [T,H] */
    for (int64_t i = 0; i < count(call); i++) store(call, ARG(y), i, gelu_at(x[i]));
}

static void gelu_din(const tri_call *call) {
    OPERANDS(gelu_din);
    const float *dy = f32(call, ARG(dy)), *x = f32(call, ARG(x)); /* [T,H] */
    for (int64_t i = 0; i < count(call); i++) store(call, ARG(dx), i, dy[i] * gelu_slope(x[i]));
}

static void gelu_din_db(const tri_call *call) {
    OPERANDS(gelu_din_db);
    const float *dy = f32(call, ARG(dy)), *x = f32(call, ARG(x)); /* [T,H] */
    for (int64_t i = 0; i < count(call); i++) store(call, ARG(dx), i, dy[i] * gelu_slope(x[i]));
    sum_rows(call, ARG(db), f32(call, ARG(dx)), NULL, call->t[ARG(dx)].rows, call->t[ARG(dx)].cols);
}

static void gelu_tanh(const tri_call *call) {
    OPERANDS(gelu_tanh);
    const float *x = f32(call, ARG(x)); /* [T,H] */
    for (int64_t i = 0; i < count(call); i++) store(call, ARG(y), i, gelu_tanh_at(x[i]));
}

static void gelu_tanh_din(const tri_call *call) {
    OPERANDS(gelu_tanh_din);
    const float *dy = f32(call, ARG(dy)), *x = f32(call, ARG(x)); /* [T,H] */
    for (int64_t i = 0; i < count(call); i++) store(call, ARG(dx), i, dy[i] * gelu_tanh_slope(x[i]));
}

static void silu(const tri_call *call) {
    OPERANDS(silu);
    const float *x = f32(call, ARG(x)); /* [T,H] */
    for (int64_t i = 0; i < count(call); i++) store(call, ARG(y), i, silu_at(x[i]));
}

static void silu_din(const tri_call *call) {
    OPERANDS(silu_din);
    const float *dy = f32(call, ARG(dy)), *x = f32(call, ARG(x)); /* [T,H] */
    for (int64_t i = 0; i < count(call); i++) store(call, ARG(dx), i, dy[i] * silu_slope(x[i]));
}

static void tanh_(const tri_call *call) {
    OPERANDS(tanh);
    const float *x = f32(call, ARG(x)); /* [T,H] */
    for (int64_t i = 0; i < count(call); i++) store(call, ARG(y), i, tanh(x[i]));
}

static void tanh_din(const tri_call *call) {
    OPERANDS(tanh_din);
    const float *dy = f32(call, ARG(dy)), *y = f32(call, ARG(y)); /* [T,H] */
    for (int64_t i = 0; i < count(call); i++) store(call, ARG(dx), i, dy[i] * (1 - (double)y[i] * y[i]));
}

static void relu(const tri_call *call) {
    OPERANDS(relu);
    const float *x = f32(call, ARG(x)); /* [T,H] */
    for (int64_t i = 0; i < count(call); i++) store(call, ARG(y), i, x[i] < 0 ? 0 : x[i]);
}

static void relu_din(const tri_call *call) {
    OPERANDS(relu_din);
    const float *dy = f32(call, ARG(dy)), *y = f32(call, ARG(y)); /* [T,H] */
    for (int64_t i = 0; i < count(call); i++) store(call, ARG(dx), i, y[i] > 0 ? dy[i] : 0);
}

const tri_kernel_row tri__cpu_activation_reference[] = {
    {.op = TRI_OP_gelu, .dtype = TRI_F32, .run = gelu},
    {.op = TRI_OP_gelu_din, .dtype = TRI_F32, .run = gelu_din},
    {.op = TRI_OP_gelu_din_db, .dtype = TRI_F32, .run = gelu_din_db},
    {.op = TRI_OP_gelu_tanh, .dtype = TRI_F32, .run = gelu_tanh},
    {.op = TRI_OP_gelu_tanh_din, .dtype = TRI_F32, .run = gelu_tanh_din},
    {.op = TRI_OP_silu, .dtype = TRI_F32, .run = silu},
    {.op = TRI_OP_silu_din, .dtype = TRI_F32, .run = silu_din},
    {.op = TRI_OP_tanh, .dtype = TRI_F32, .run = tanh_},
    {.op = TRI_OP_tanh_din, .dtype = TRI_F32, .run = tanh_din},
    {.op = TRI_OP_relu, .dtype = TRI_F32, .run = relu},
    {.op = TRI_OP_relu_din, .dtype = TRI_F32, .run = relu_din},
    {.run = NULL},
};
