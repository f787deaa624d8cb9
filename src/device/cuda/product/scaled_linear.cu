/* scaled_linear.cu - dense layers of training in 8 bits and their gradients (ops_fp8.def). Both factors of every
 * product are contiguous along the summed dimension, as Hopper's tensor cores want them. Products are cuBLASLt's; those
 * that an activation follows are our own (scaled_product.cu) where shapes suit. For widths and alignments that the
 * library does not take there is a plain kernel. */
#include "device/cuda/product/product.cuh"
#include "device/cuda/product/scaled_product.cuh"

enum {
    PLAIN_COLS = 32,
    PLAIN_ROWS = 8,
    FACTOR_BYTES = 64 /* of scratch: the products' factor comes first */
};

/* 1 / (a * b), exact: both are powers of two. */
static __global__ void factor_kernel(float *factor, const float *a, const float *b) { *factor = 1.0f / *a / *b; }

static __device__ __forceinline__ float wide_byte(const void *x, int64_t i, int type) {
    if (type == TRI_F8_E4M3) return (float)((const e4m3 *)x)[i];
    return (float)((const e5m2 *)x)[i];
}

static __global__ void plain_kernel(scaled_layer a, loose y, loose b) {
    int64_t c = (int64_t)blockIdx.y * PLAIN_COLS + threadIdx.x, t = (int64_t)blockIdx.x * PLAIN_ROWS + threadIdx.y;
    if (c >= a.cols || t >= a.rows) return;
    float sum = 0;
    for (int64_t i = 0; i < a.in; i++)
        sum = fmaf(wide_byte(a.x, t * a.in + i, a.x_type), wide_byte(a.w, c * a.in + i, a.w_type), sum);
    sum = sum / *a.sx / *a.sw;
    loose_put(y, t * a.cols + c, b.data ? sum + loose_load(b, c) : sum, a.add);
}

/* The library takes widths in multiples of 16, and biases of 16 bits. 0: it cannot, and nothing was written. */
static int by_library(const tri_call *call, const scaled_layer &a) {
    float *factor = static_cast<float *>(call->work);
    if (a.in % 16 || a.cols % 16 || a.rows % 16 || !aligned(a.x, a.w, a.y, a.b) || (a.b && a.y_type == TRI_F32))
        return 0;
    product p = new_product(a.cols, a.rows, a.in, a.w_type, a.y_type);
    p.shape.a_transposed = 1, p.shape.add = a.add, p.tokens_in_k = a.tokens_in_sum;
    p.shape.b_type = a.x_type == a.w_type ? 0 : a.x_type;
    p.a = a.w, p.lda = a.in, p.b = a.x, p.ldb = a.in, p.d = a.y, p.bias = a.b, p.factor = factor, p.taken = a.taken;
    queue(call, "factor", factor_kernel, 1, 1, factor, a.sx, a.sw);
    return try_multiply(call, &p);
}

static void multiply_scaled(const tri_call *call, const scaled_layer &a, const char *where) {
    if (a.rows * a.cols == 0) return;
    if (!scaled_product(call, &a, where) && !by_library(call, a))
        queue(call, where, plain_kernel, dim3(blocks_for(a.rows, PLAIN_ROWS), blocks_for(a.cols, PLAIN_COLS)),
              dim3(PLAIN_COLS, PLAIN_ROWS), a, loose{a.y, a.y_type}, loose{const_cast<void *>(a.b), a.y_type});
}

/* The layer of three operands and their scales, without its shape and bias. */
static scaled_layer layer_of(const tri_call *call, int y, int x, int w, int sx, int sw) {
    scaled_layer a = {};
    a.x = call->t[x].data, a.w = call->t[w].data, a.y = call->t[y].data;
    a.sx = data<const float>(call, sx), a.sw = data<const float>(call, sw);
    a.x_type = call->dtype[x], a.w_type = call->dtype[w], a.y_type = call->dtype[y], a.add = adds(call, y);
    return a;
}

/* y [T,O] = x [T,I] w [O,I]^T / (sx * sw) + b [O] */
static void linear_scaled(const tri_call *call) {
    OPERANDS(linear);
    scaled_layer a = layer_of(call, ARG(y), ARG(x), ARG(w), ARG(sx), ARG(sw));
    a.b = call->t[ARG(b)].data;
    a.rows = call->t[ARG(x)].rows, a.cols = call->t[ARG(w)].rows, a.in = call->t[ARG(w)].cols;
    multiply_scaled(call, a, "linear_scaled");
}

/* dx [T,I] = dy [T,O] w [O,I] / (sdy * sw); w has its columns. */
static void linear_scaled_din(const tri_call *call) {
    OPERANDS(linear_din);
    scaled_layer a = layer_of(call, ARG(dx), ARG(dy), ARG(w), ARG(sdy), ARG(sw));
    a.rows = call->t[ARG(dy)].rows, a.cols = call->t[ARG(w)].cols, a.in = call->t[ARG(w)].rows;
    multiply_scaled(call, a, "linear_scaled_din");
}

/* dw [O,I] = dy [T,O]^T x [T,I] / (sdy * sx); dy and x have their columns. */
static void linear_scaled_dw(const tri_call *call) {
    OPERANDS(linear_dw);
    scaled_layer a = layer_of(call, ARG(dw), ARG(dy), ARG(x), ARG(sdy), ARG(sx));
    a.rows = call->t[ARG(dw)].rows, a.cols = call->t[ARG(dw)].cols, a.in = call->t[ARG(dy)].rows, a.tokens_in_sum = 1;
    if (a.in == 0) clear(call, ARG(dw), "linear_scaled_dw");
    else multiply_scaled(call, a, "linear_scaled_dw");
}

/* ---- With an activation ---- */

/* Without h its rows pass through the workspace. */
template <typename T> static void linear_act_scaled(const tri_call *call) {
    OPERANDS(linear);
    fp8_tensor to = fp8_operands(call, ARG(y), ARG(y), ARG(transposed), ARG(most), ARG(sq));
    scaled_layer a = layer_of(call, ARG(h), ARG(x), ARG(w), ARG(sx), ARG(sw));
    int64_t rows = to.rows;
    T *h = data<T>(call, ARG(h));
    a.b = call->t[ARG(b)].data, a.cols = to.cols, a.in = call->t[ARG(w)].cols, a.add = 0;
    a.y_type = call->dtype[ARG(b)];
    if (rows * a.cols == 0) return;
    a.rows = rows;
    if (scaled_act_product(call, &a, to, "linear_act_scaled")) return;
    fp8_run run = fp8_run_of<T>(call, a.cols);
    int64_t most = h ? rows : run.most;
    for (int64_t first = 0; first < rows; first += most) {
        T *y = h ? h : (T *)run.at;
        a.rows = rows - first < most ? rows - first : most;
        a.x = data<char>(call, ARG(x)) + first * a.in, a.y = y, a.taken = h ? 0 : run.taken;
        multiply_scaled(call, a, "linear_act_scaled");
        fp8_cast_to<T>(call, fp8_rows(to, first, a.rows), y, call->attr->activation);
    }
}

/* The gradient's rows pass through the workspace. */
template <typename T> static void linear_act_scaled_din(const tri_call *call) {
    OPERANDS(linear_din);
    fp8_tensor to = fp8_operands(call, ARG(dx), ARG(dx), ARG(transposed), ARG(most), ARG(sq));
    fp8_run run = fp8_run_of<T>(call, to.cols);
    scaled_layer a = layer_of(call, ARG(h), ARG(dy), ARG(w), ARG(sdy), ARG(sw));
    int64_t first = 0, rows = to.rows;
    char *work = static_cast<char *>(call->work) + FACTOR_BYTES;
    a.rows = rows, a.cols = to.cols, a.in = call->t[ARG(w)].rows, a.add = 0;
    int parts = scaled_act_din_product(call, &a, to, (float *)work, "linear_act_scaled_din");
    if (parts) {
        tri_call sums = *call;
        sums.work = work;
        end_columns(&sums, to.cols, parts, 1, {{GIVEN(db)}, {adds(call, ARG(db))}});
        return;
    }
    a.y = run.at, a.taken = run.taken;
    do {
        a.rows = rows - first < run.most ? rows - first : run.most;
        a.x = data<char>(call, ARG(dy)) + first * a.in;
        multiply_scaled(call, a, "linear_act_scaled_din");
        tri_tensor h = call->t[ARG(h)];
        h.data = data<T>(call, ARG(h)) + first * h.cols, h.rows = a.rows;
        activate_din(call, tri_tensor{run.at, a.rows, a.cols}, h, call->dtype[ARG(h)], ARG(db),
                     adds(call, ARG(db)) || first > 0, work);
        fp8_cast_to<T>(call, fp8_rows(to, first, a.rows), (const T *)run.at, 0);
        first += a.rows;
    } while (first < rows);
}

#define FACTOR_WORK {FACTOR_BYTES, 0, 0, 0, 0}
TRI_CUDA_FAMILY(scaled_linear) = {
    TRI_CUDA_SAME_FACT_ROWS(TRI_FACT_SCALED, TRI_OP_linear, linear_scaled, FACTOR_WORK),
    TRI_CUDA_SAME_FACT_ROWS(TRI_FACT_SCALED, TRI_OP_linear_din, linear_scaled_din, FACTOR_WORK),
    TRI_CUDA_SAME_FACT_ROWS(TRI_FACT_SCALED, TRI_OP_linear_dw, linear_scaled_dw, FACTOR_WORK),
    TRI_CUDA_FACT_ROWS(TRI_FACT_SCALED | TRI_FACT_ACT, TRI_OP_linear, linear_act_scaled, FACTOR_WORK),
    TRI_CUDA_FACT_ROWS(TRI_FACT_SCALED | TRI_FACT_ACT, TRI_OP_linear_din, linear_act_scaled_din,
                       {FACTOR_BYTES, 0, 4 * ACT_MOST_PARTS, 0, 0}),
    {},
};
