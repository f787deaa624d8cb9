/* linear.cu - dense layers and their gradients: few rows by narrow_product.cu, else by cuBLASLt, with fused bias. The
 * library's GELU is the tanh approximation, ours is exact, so it runs after the product unless fused_product.cu or
 * gelu_product.cu does both. */
#include "device/cuda/elementwise/columns.cuh"
#include "device/cuda/product/fused_product.cuh"
#include "device/cuda/elementwise/activation.cuh"
#include "device/cuda/product/gelu_product.cuh"
#include "device/cuda/elementwise/map.cuh"
#include "device/cuda/product/product.cuh"

/* y [T,O] = x [T,I] w [O,I]^T + b [O]; the operands w and b follow x, as in linear */
static void forward(const tri_call *call, void *y, int x, const char *where) {
    OPERANDS(linear);
    int w = x + ARG(w) - ARG(x), b = x + ARG(b) - ARG(x);
    int64_t rows = call->t[x].rows, out = call->t[w].rows, in = call->t[w].cols;
    if (rows == 0) return;
    product p = new_product(out, rows, in, call->dtype[w], call->dtype[w]);
    p.shape.a_turned = 1;
    p.a = call->t[w].data, p.lda = in, p.b = call->t[x].data, p.ldb = in, p.d = y, p.bias = call->t[b].data;
    multiply(call, &p, where);
}

static void linear(const tri_call *call) {
    OPERANDS(linear);
    dense_layer of = {ARG(y), -1, ARG(x), -1, ARG(w), -1, ARG(b), 0};
    if (narrow_product(call, &of, "linear")) return;
    forward(call, call->t[ARG(y)].data, ARG(x), "linear");
}

/* Without h the product is stored in y and overwritten there. */
template <typename T> static void linear_gelu(const tri_call *call) {
    OPERANDS(linear_gelu);
    T *h = data<T>(call, call->t[ARG(h)].data ? ARG(h) : ARG(y)); /* [T,O] */
    dense_layer of = {ARG(y), ARG(h), ARG(x), -1, ARG(w), -1, ARG(b), 1};
    if (fused_product(call, &of, "linear_gelu") || narrow_product(call, &of, "linear_gelu")) return;
    forward(call, h, ARG(x), "linear_gelu");
    if (only_timed(call)) return;
    map1_on<act_op<TRI_ACTIVATION_GELU, T>, T, T>(call, elements(call, ARG(y)), data<T>(call, ARG(y)), h, 0,
                                                  "linear_gelu");
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

/* Operand k of `to` becomes operand `from` of `call`. */
static void put(tri_call *to, int k, const tri_call *call, int from) {
    to->t[k] = call->t[from], to->dtype[k] = call->dtype[from];
}

template <typename T> static void linear_gelu_din(const tri_call *call) {
    OPERANDS(linear_gelu_din);
    if (gelu_din_product(call)) return;
    tri_call product = *call, gelu = *call;
    product.acc = 0;
    put(&product, TRI_ARG(linear_din, dy), call, ARG(dy));
    put(&product, TRI_ARG(linear_din, w), call, ARG(w));
    linear_din(&product);
    if (only_timed(call)) return;
    tri_attr attr = {};
    attr.activation = 1 + TRI_ACTIVATION_GELU, attr.sums = 1;
    gelu.op = TRI_OP_act_din, gelu.attr = &attr;
    put(&gelu, TRI_ARG(act_din, dy), call, ARG(dx));
    put(&gelu, TRI_ARG(act_din, x), call, ARG(x));
    tri__kernel(call->table, gelu.op, &attr, call->dtype[ARG(dx)])(&gelu);
}

/* dw [O,I] = dy [T,O]^T x [T,I] */
static void linear_dw(const tri_call *call) {
    OPERANDS(linear_dw);
    int64_t rows = call->t[ARG(dy)].rows, out = call->t[ARG(dw)].rows, in = call->t[ARG(dw)].cols;
    if (rows == 0) {
        if (!adds(call, ARG(dw)))
            record(call,
                   cudaMemsetAsync(call->t[ARG(dw)].data, 0,
                                   (size_t)(out * in) * (call->dtype[ARG(dw)] == TRI_F32 ? 4 : 2), stream(call)),
                   "linear_dw");
        return;
    }
    product p = new_product(in, out, rows, call->dtype[ARG(x)], call->dtype[ARG(dw)]);
    p.shape.b_turned = 1, p.tokens_in_k = 1;
    p.a = call->t[ARG(x)].data, p.lda = in, p.b = call->t[ARG(dy)].data, p.ldb = out, p.d = call->t[ARG(dw)].data,
    p.shape.add = adds(call, ARG(dw));
    multiply(call, &p, "linear_dw");
}

template <typename T> static void bias_dw(const tri_call *call) {
    OPERANDS(bias_dw);
    int64_t rows = call->t[ARG(dy)].rows, cols = call->t[ARG(dy)].cols;
    column_sums to = {{operand(call, ARG(db))}, {adds(call, ARG(db))}};
    sum_columns(call, rows, cols, sum_of<T>{data<T>(call, ARG(dy))}, aligned(call->t[ARG(dy)].data), to);
    launched(call, "bias_dw");
}

TRI_CUDA_FAMILY(linear) = {
    TRI_CUDA_SAME_ROWS(TRI_OP_linear, linear, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_linear_din, linear_din, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_linear_dw, linear_dw, {}),
    TRI_CUDA_ROWS(TRI_OP_linear_gelu, linear_gelu, {}),
    TRI_CUDA_ROWS(TRI_OP_linear_gelu_din, linear_gelu_din, COLUMN_WORK(PART_SUMS)),
    TRI_CUDA_ROWS(TRI_OP_bias_dw, bias_dw, COLUMN_WORK(1)),
    {},
};
