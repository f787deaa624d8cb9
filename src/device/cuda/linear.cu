/* linear.cu - dense layers and their gradients by cuBLASLt, which adds the bias as it multiplies. The library's GELU is
 * the tanh approximation, ours is exact, so it runs after the product where gelu_product.cu does not do both. */
#include "device/cuda/columns.cuh"
#include "device/cuda/gelu.cuh"
#include "device/cuda/gelu_product.cuh"
#include "device/cuda/map.cuh"
#include "device/cuda/product.cuh"

/* y [T,O] = x [T,I] w [O,I]^T + b [O] */
static void forward(const tri_call *call, void *y, int x, const char *where) {
    int w = x + 1, b = x + 2;
    int64_t rows = call->t[x].rows, out = call->t[w].rows, in = call->t[w].cols;
    if (rows == 0) return;
    product p = new_product(out, rows, in, call->dtype[w], call->dtype[w]);
    p.shape.a_turned = 1;
    p.a = call->t[w].data, p.lda = in, p.b = call->t[x].data, p.ldb = in, p.d = y, p.bias = call->t[b].data;
    multiply(call, &p, where);
}

static void linear(const tri_call *call) {
    enum { Y, X };
    forward(call, call->t[Y].data, X, "linear");
}

/* Without h the product lies in y and is overwritten there. */
template <typename T> static void linear_gelu(const tri_call *call) {
    enum { Y, H, X };
    T *h = data<T>(call, call->t[H].data ? H : Y); /* [T,O] */
    if (gelu_product(call)) return;
    forward(call, h, X, "linear_gelu");
    if (only_timed(call)) return;
    map1_on<gelu_op<T>, T, T>(call, elements(call, Y), data<T>(call, Y), h, 0, "linear_gelu");
}

/* dx [T,I] = dy [T,O] w [O,I] */
static void linear_din(const tri_call *call) {
    enum { DX, DY, W };
    int64_t rows = call->t[DY].rows, out = call->t[W].rows, in = call->t[W].cols;
    if (rows == 0) return;
    product p = new_product(in, rows, out, call->dtype[W], call->dtype[DX]);
    p.a = call->t[W].data, p.lda = in, p.b = call->t[DY].data, p.ldb = out, p.d = call->t[DX].data,
    p.shape.add = adds(call, DX);
    multiply(call, &p, "linear_din");
}

template <typename T> static void linear_gelu_din(const tri_call *call) {
    enum { DX, DB, DY, W, X };
    if (gelu_din_product(call)) return;
    tri_call product = *call, gelu = *call;
    product.acc = 0, product.t[1] = call->t[DY], product.t[2] = call->t[W];
    product.dtype[1] = call->dtype[DY], product.dtype[2] = call->dtype[W];
    linear_din(&product);
    if (only_timed(call)) return;
    gelu.t[2] = call->t[DX], gelu.t[3] = call->t[X];
    gelu.dtype[2] = call->dtype[DX], gelu.dtype[3] = call->dtype[X];
    call->table->run[TRI_OP_gelu_din_db][call->dtype[DX]](&gelu);
}

/* dw [O,I] = dy [T,O]^T x [T,I] */
static void linear_dw(const tri_call *call) {
    enum { DW, DY, X };
    int64_t rows = call->t[DY].rows, out = call->t[DW].rows, in = call->t[DW].cols;
    if (rows == 0) {
        if (!adds(call, DW))
            record(call,
                   cudaMemsetAsync(call->t[DW].data, 0, (size_t)(out * in) * (call->dtype[DW] == TRI_F32 ? 4 : 2),
                                   stream(call)),
                   "linear_dw");
        return;
    }
    product p = new_product(in, out, rows, call->dtype[X], call->dtype[DW]);
    p.shape.b_turned = 1, p.tokens_in_k = 1;
    p.a = call->t[X].data, p.lda = in, p.b = call->t[DY].data, p.ldb = out, p.d = call->t[DW].data,
    p.shape.add = adds(call, DW);
    multiply(call, &p, "linear_dw");
}

template <typename T> static void bias_dw(const tri_call *call) {
    enum { DB, DY };
    int64_t rows = call->t[DY].rows, cols = call->t[DY].cols;
    column_sums to = {{operand(call, DB)}, {adds(call, DB)}};
    sum_columns(call, rows, cols, sum_of<T>{data<T>(call, DY)}, aligned(call->t[DY].data), to);
    launched(call, "bias_dw");
}

#define ROWS(op, run) {op, TRI_F32, run, {}}, {op, TRI_BF16, run, {}}, {op, TRI_F16, run, {}}
const tri_kernel_row tri__cuda_linear[] = {
    ROWS(TRI_OP_linear, linear),
    ROWS(TRI_OP_linear_din, linear_din),
    ROWS(TRI_OP_linear_dw, linear_dw),
    TRI_CUDA_ROWS(TRI_OP_linear_gelu, linear_gelu, {}),
    TRI_CUDA_ROWS(TRI_OP_linear_gelu_din, linear_gelu_din, COLUMN_WORK(PART_SUMS)),
    TRI_CUDA_ROWS(TRI_OP_bias_dw, bias_dw, COLUMN_WORK(1)),
    {},
};
