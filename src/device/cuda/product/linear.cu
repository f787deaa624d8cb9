/* linear.cu - dense layers and their gradients: few rows by narrow_product.cu, else by cuBLASLt, with fused bias. The
 * library's GELU is the tanh approximation, ours is exact, and it lacks other activations: they run after the product
 * unless fused_product.cu or act_product.cu does both. */
#include "device/cuda/elementwise/columns.cuh"
#include "device/cuda/product/act_product.cuh"
#include "device/cuda/product/fused_product.cuh"
#include "device/cuda/product/product.cuh"

/* y [T,O] = x [T,I] w [O,I]^T + b [O] */
static void multiply_layer(const tri_call *call, void *y, const char *where) {
    OPERANDS(linear);
    int64_t rows = call->t[ARG(x)].rows, out = call->t[ARG(w)].rows, in = call->t[ARG(w)].cols;
    if (rows == 0) return;
    product p = new_product(out, rows, in, call->dtype[ARG(w)], call->dtype[ARG(w)]);
    p.shape.a_transposed = 1;
    p.a = call->t[ARG(w)].data, p.lda = in, p.b = call->t[ARG(x)].data, p.ldb = in, p.d = y;
    p.bias = call->t[ARG(b)].data;
    multiply(call, &p, where);
}

static void linear(const tri_call *call) {
    OPERANDS(linear);
    if (!narrow_product(call, "linear")) multiply_layer(call, call->t[ARG(y)].data, "linear");
}

/* Without h the product is stored in y and overwritten there. */
static void linear_act(const tri_call *call) {
    OPERANDS(linear);
    if (fused_product(call, "linear_act") || narrow_product(call, "linear_act")) return;
    int h = call->t[ARG(h)].data ? ARG(h) : ARG(y);
    multiply_layer(call, call->t[h].data, "linear_act");
    if (!only_timed(call)) activate(call, call->t[ARG(y)], call->t[h], call->dtype[ARG(y)]);
}

/* dx [T,I] = dy [T,O] w [O,I] */
static void linear_din(const tri_call *call) {
    OPERANDS(linear_din);
    int64_t rows = call->t[ARG(dy)].rows, out = call->t[ARG(w)].rows, in = call->t[ARG(w)].cols;
    if (rows == 0) return;
    product p = new_product(in, rows, out, call->dtype[ARG(w)], call->dtype[ARG(dx)]);
    p.a = call->t[ARG(w)].data, p.lda = in, p.b = call->t[ARG(dy)].data, p.ldb = out, p.d = call->t[ARG(dx)].data,
    p.shape.add = adds(call, ARG(dx));
    multiply(call, &p, "linear_din");
}

static void linear_act_din(const tri_call *call) {
    OPERANDS(linear_din);
    if (act_din_product(call)) return;
    tri_call product = *call;
    product.acc = 0;
    linear_din(&product);
    if (only_timed(call)) return;
    activate_din(call, call->t[ARG(dx)], call->t[ARG(h)], call->dtype[ARG(dx)], ARG(db), adds(call, ARG(db)),
                 call->work);
}

/* dw [O,I] = dy [T,O]^T x [T,I] */
static void linear_dw(const tri_call *call) {
    OPERANDS(linear_dw);
    int64_t rows = call->t[ARG(dy)].rows, out = call->t[ARG(dw)].rows, in = call->t[ARG(dw)].cols;
    if (rows == 0) {
        clear(call, ARG(dw), "linear_dw");
        return;
    }
    product p = new_product(in, out, rows, call->dtype[ARG(x)], call->dtype[ARG(dw)]);
    p.shape.b_transposed = 1, p.tokens_in_k = 1;
    p.a = call->t[ARG(x)].data, p.lda = in, p.b = call->t[ARG(dy)].data, p.ldb = out, p.d = call->t[ARG(dw)].data,
    p.shape.add = adds(call, ARG(dw));
    multiply(call, &p, "linear_dw");
}

template <typename T> static void bias_dw(const tri_call *call) {
    OPERANDS(bias_dw);
    int64_t rows = call->t[ARG(dy)].rows, cols = call->t[ARG(dy)].cols;
    column_sums to = {{operand(call, ARG(db))}, {adds(call, ARG(db))}};
    sum_columns(call, rows, cols, sum_of<T>{data<T>(call, ARG(dy))}, aligned(call->t[ARG(dy)].data), to);
}

TRI_CUDA_FAMILY(linear) = {
    TRI_CUDA_SAME_ROWS(TRI_OP_linear, linear, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_linear_din, linear_din, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_linear_dw, linear_dw, {}),
    TRI_CUDA_SAME_FACT_ROWS(TRI_FACT_ACT, TRI_OP_linear, linear_act, {}),
    TRI_CUDA_SAME_FACT_ROWS(TRI_FACT_ACT, TRI_OP_linear_din, linear_act_din, COLUMN_WORK(PART_SUMS)),
    TRI_CUDA_ROWS(TRI_OP_bias_dw, bias_dw, COLUMN_WORK(1)),
    {},
};
