/* linear_experts.cu - dense layers of experts and their gradients: the experts' rows are equal runs, so one call of
 * cuBLASLt makes the products of all. Which rows have a token only the GPU knows: those that have none are 0 and are
 * multiplied, too. The result begins as the bias, which is added in fp32 as the product is. */
#include "device/cuda/product/product.cuh"

enum { THREADS = 256, PARTS = 16 /* of an expert's rows, that are summed apart */ };

/* The rows of a call: groups * members equal runs. */
typedef struct runs {
    int members, groups;
    int64_t each; /* rows of a run */
} runs;

static runs runs_of(const tri_call *call, int64_t rows) {
    int groups = call->attr->groups ? call->attr->groups : 1;
    return runs{call->attr->members, groups, rows / (groups * call->attr->members)};
}

/* The product of each group of runs, by one call of the library for all experts, or one each; a, b and d are those of
 * the first group, or, of gradients of weights, d is the same for all, and the groups are added in order. */
static void multiply_groups(const tri_call *call, const runs &of, product p, const char *where) {
    int bytes = (int)tri__dtype_bytes((tri_dtype)p.shape.type), out = (int)tri__dtype_bytes((tri_dtype)p.shape.out);
    const char *a = (const char *)p.a, *b = (const char *)p.b;
    char *d = (char *)p.d;
    p.batch = of.members;
    for (int g = 0; g < of.groups; g++) {
        int64_t further = g * p.batch;
        p.a = p.tokens_in_k ? a + further * p.next_a * bytes : a, p.b = b + further * p.next_b * bytes;
        p.d = p.tokens_in_k ? d : d + further * p.next_d * out;
        if (p.tokens_in_k && g) p.shape.add = 1;
        if (try_multiply(call, &p)) continue;
        product one = p;
        one.batch = 0, one.next_a = one.next_b = one.next_d = 0;
        for (int i = 0; i < p.batch; i++) {
            one.a = (const char *)p.a + i * p.next_a * bytes;
            one.b = (const char *)p.b + i * p.next_b * bytes;
            one.d = (char *)p.d + i * p.next_d * out;
            multiply(call, &one, where);
        }
    }
}

/* y [T,O] = the bias of each row's expert; 0 in a row without a token. N columns a thread. */
template <typename T, int N>
static __global__ void bias_kernel(int64_t rows, int O, int members, int64_t each, T *y, const T *b,
                                   const int32_t *from) {
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, across = O / N, r = i / across, c = i % across * N;
    if (r >= rows) return;
    float value[N] = {};
    if (!from || from[r] >= 0) load<N>(b + r / each % members * O + c, value);
    store<N>(y + r * O + c, value);
}

template <typename T>
static void begin_with_bias(const tri_call *call, const runs &of, int64_t O, T *y, const T *b, const int32_t *from,
                            const char *where) {
    int64_t rows = of.members * of.groups * of.each;
    by_width(O % WIDE == 0 && aligned(y, b), [&](auto n) {
        queue(call, where, bias_kernel<T, n>, blocks_for(rows * (O / n), THREADS), THREADS, rows, (int)O, of.members,
              of.each, y, b, from);
    });
}

/* y [T,O] = x [T,I] w [O,I]^T + b [O], an expert's */
template <typename T> static void forward(const tri_call *call, T *y, const char *where) {
    OPERANDS(linear);
    int x = ARG(x), w = ARG(w), b = ARG(b), from = ARG(from);
    int64_t in = call->t[x].cols, out = call->t[0].cols;
    runs of = runs_of(call, call->t[x].rows);
    if (of.each == 0 || out == 0) return;
    if (call->t[b].data)
        begin_with_bias<T>(call, of, out, y, data<T>(call, b), data<int32_t>(call, from), where);
    product p = new_product(out, of.each, in, call->dtype[w], call->dtype[w]);
    p.shape.a_transposed = 1, p.shape.add = call->t[b].data != NULL;
    p.a = call->t[w].data, p.lda = in, p.next_a = out * in;
    p.b = call->t[x].data, p.ldb = in, p.next_b = of.each * in;
    p.d = y, p.next_d = of.each * out;
    multiply_groups(call, of, p, where);
}

template <typename T> static void linear_experts(const tri_call *call) {
    OPERANDS(linear);
    forward<T>(call, data<T>(call, ARG(y)), "linear_experts");
}

/* Without h the product is stored in y and overwritten there. */
template <typename T> static void linear_experts_act(const tri_call *call) {
    OPERANDS(linear);
    int h = call->t[ARG(h)].data ? ARG(h) : ARG(y);
    forward<T>(call, data<T>(call, h), "linear_experts_act");
    activate(call, call->t[ARG(y)], call->t[h], call->dtype[ARG(y)]);
}

/* dx [T,I] = dy [T,O] w [O,I], an expert's */
static void linear_experts_din(const tri_call *call) {
    OPERANDS(linear_din);
    int64_t in = call->t[ARG(dx)].cols, out = call->t[ARG(dy)].cols;
    runs of = runs_of(call, call->t[ARG(dy)].rows);
    if (of.each == 0) return;
    product p = new_product(in, of.each, out, call->dtype[ARG(w)], call->dtype[ARG(dx)]);
    p.shape.add = adds(call, ARG(dx));
    p.a = call->t[ARG(w)].data, p.lda = in, p.next_a = out * in;
    p.b = call->t[ARG(dy)].data, p.ldb = out, p.next_b = of.each * out;
    p.d = call->t[ARG(dx)].data, p.next_d = of.each * in;
    multiply_groups(call, of, p, "linear_experts_din");
}

/* dw [O,I] = dy [T,O]^T x [T,I], an expert's; its runs are added in order */
static void linear_experts_dw(const tri_call *call) {
    OPERANDS(linear_dw);
    int64_t in = call->t[ARG(x)].cols, out = call->t[ARG(dy)].cols;
    runs of = runs_of(call, call->t[ARG(dy)].rows);
    if (of.each == 0) {
        clear(call, ARG(dw), "linear_experts_dw");
        return;
    }
    product p = new_product(in, out, of.each, call->dtype[ARG(x)], call->dtype[ARG(dw)]);
    p.shape.b_transposed = 1, p.tokens_in_k = 1, p.shape.add = adds(call, ARG(dw));
    p.a = call->t[ARG(x)].data, p.lda = in, p.next_a = of.each * in;
    p.b = call->t[ARG(dy)].data, p.ldb = out, p.next_b = of.each * out;
    p.d = call->t[ARG(dw)].data, p.next_d = out * in;
    multiply_groups(call, of, p, "linear_experts_dw");
}

/* part [members, PARTS, O]: a thread sums a column over a part of an expert's rows, in order. blockIdx.y is the part,
 * blockIdx.z the expert. */
template <typename T>
static __global__ void bias_parts_kernel(runs of, int O, const T *dy, float *part) {
    int c = (int)(blockIdx.x * blockDim.x + threadIdx.x), e = (int)blockIdx.z;
    int64_t rows = of.groups * of.each, size = (rows + PARTS - 1) / PARTS, begin = blockIdx.y * size;
    int64_t end = begin + size < rows ? begin + size : rows;
    if (c >= O) return;
    float sum = 0;
#pragma unroll 4
    for (int64_t i = begin; i < end; i++)
        sum += wide(dy[((i / of.each * of.members + e) * of.each + i % of.each) * O + c]);
    part[((int64_t)e * PARTS + blockIdx.y) * O + c] = sum;
}

static __global__ void bias_end_kernel(int64_t n, int O, const float *part, loose db, int add) {
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    double total = add ? loose_load(db, i) : 0.0;
    for (int p = 0; p < PARTS; p++) total += part[(i / O * PARTS + p) * O + i % O];
    loose_put(db, i, (float)total, 0);
}

template <typename T> static void bias_experts_dw(const tri_call *call) {
    OPERANDS(bias_dw);
    int64_t O = call->t[ARG(dy)].cols, n = elements(call, ARG(db));
    runs of = runs_of(call, call->t[ARG(dy)].rows);
    float *part = static_cast<float *>(call->work);
    if (n == 0) return;
    queue(call, "bias_experts_dw", bias_parts_kernel<T>,
          dim3(blocks_for(O, THREADS / 2), PARTS, (unsigned)of.members), THREADS / 2, of, (int)O, GIVEN(dy), part);
    queue(call, "bias_experts_dw", bias_end_kernel, blocks_for(n, THREADS), THREADS, n, (int)O, part, GIVEN(db),
          adds(call, ARG(db)));
}

TRI_CUDA_FAMILY(linear_experts) = {
    TRI_CUDA_FACT_ROWS(TRI_FACT_EXPERTS, TRI_OP_linear, linear_experts, {}),
    TRI_CUDA_FACT_ROWS(TRI_FACT_EXPERTS | TRI_FACT_ACT, TRI_OP_linear, linear_experts_act, {}),
    TRI_CUDA_SAME_FACT_ROWS(TRI_FACT_EXPERTS, TRI_OP_linear_din, linear_experts_din, {}),
    TRI_CUDA_SAME_FACT_ROWS(TRI_FACT_EXPERTS, TRI_OP_linear_dw, linear_experts_dw, {}),
    TRI_CUDA_FACT_ROWS(TRI_FACT_EXPERTS, TRI_OP_bias_dw, bias_experts_dw, {0, 0, 0, 4 * PARTS, 0}),
    {},
};
