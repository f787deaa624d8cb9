/* linear.cu - dense layers and their gradients by cuBLASLt, which adds the bias as it multiplies. Our matrices are row-major and
 * the library's column-major: each is given as its transpose, so y = x w^T is asked for as y^T = w x^T. The library's GELU is
 * the tanh approximation, ours is exact, so it runs after the product. Sums are in fp32; TF32 is not used. */
#include "device/cuda/columns.cuh"
#include "device/cuda/gelu.cuh"
#include "device/cuda/map.cuh"
#include "device/cuda/wisdom.h"

#include <string.h>

enum { GUESSES = 8, TIMED_RUNS = 3 };

/* D = A B + beta D + bias, column-major. */
typedef struct product {
    tri_cuda_shape shape;
    const void *a, *b, *bias; /* bias [m] or NULL */
    void *d;
    int64_t lda, ldb;         /* ldd is m */
    int add;
    int tokens_in_k;          /* 1: k counts tokens, 0: n does */
} product;

typedef struct lt_product {
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t a, b, d;
} lt_product;

static cudaDataType_t type_of(int dtype) { return dtype == TRI_F32 ? CUDA_R_32F : dtype == TRI_BF16 ? CUDA_R_16BF : CUDA_R_16F; }

static int32_t alignment(const void *p) {
    for (int32_t bytes = 256; bytes > 1; bytes /= 2)
        if ((uintptr_t)p % (uintptr_t)bytes == 0) return bytes;
    return 1;
}

static void describe(const product *p, lt_product *lt) {
    const tri_cuda_shape *s = &p->shape;
    cublasOperation_t turned = CUBLAS_OP_T;
    cublasLtMatmulDescInit(&lt->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (s->a_turned) cublasLtMatmulDescSetAttribute(&lt->desc, CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof turned);
    if (s->b_turned) cublasLtMatmulDescSetAttribute(&lt->desc, CUBLASLT_MATMUL_DESC_TRANSB, &turned, sizeof turned);
    if (p->bias) {
        cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
        cublasLtMatmulDescSetAttribute(&lt->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
        cublasLtMatmulDescSetAttribute(&lt->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias, sizeof p->bias);
    }
    cublasLtMatrixLayoutInit(&lt->a, (cudaDataType_t)s->type, (uint64_t)(s->a_turned ? s->k : s->m), (uint64_t)(s->a_turned ? s->m : s->k),
                             p->lda);
    cublasLtMatrixLayoutInit(&lt->b, (cudaDataType_t)s->type, (uint64_t)(s->b_turned ? s->n : s->k), (uint64_t)(s->b_turned ? s->k : s->n),
                             p->ldb);
    cublasLtMatrixLayoutInit(&lt->d, (cudaDataType_t)s->out, (uint64_t)s->m, (uint64_t)s->n, s->m);
}

static cublasStatus_t multiply_by(tri_cuda *cuda, const product *p, lt_product *lt, const cublasLtMatmulAlgo_t *algo) {
    float one = 1, beta = p->add ? 1.0f : 0.0f;
    return cublasLtMatmul(cuda->blas, &lt->desc, &one, p->a, &lt->a, p->b, &lt->b, &beta, p->d, &lt->d, p->d, &lt->d, algo,
                          cuda->blas_work, cuda->blas_bytes, cuda->compute);
}

static int guesses(tri_cuda *cuda, const product *p, lt_product *lt, int n, cublasLtMatmulHeuristicResult_t *out) {
    cublasLtMatmulPreferenceOpaque_t preference;
    uint32_t align = (uint32_t)p->shape.align, sums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE; /* parts of a sum stay fp32 */
    int found = 0;
    cublasLtMatmulPreferenceInit(&preference);
    cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &cuda->blas_bytes, sizeof cuda->blas_bytes);
    cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof sums);
    static const cublasLtMatmulPreferenceAttributes_t which[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    for (int i = 0; i < 4; i++) cublasLtMatmulPreferenceSetAttribute(&preference, which[i], &align, sizeof align);
    cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(cuda->blas, &lt->desc, &lt->a, &lt->b, &lt->d, &lt->d, &preference, n, out, &found);
    return status == CUBLAS_STATUS_SUCCESS ? found : 0;
}

/* The milliseconds of one run; below 0 when it does not run. */
static float time_of(tri_cuda *cuda, const product *p, lt_product *lt, const cublasLtMatmulAlgo_t *algo, cudaEvent_t begin,
                     cudaEvent_t end) {
    float ms = -1;
    if (multiply_by(cuda, p, lt, algo) != CUBLAS_STATUS_SUCCESS) return -1;
    cudaEventRecord(begin, cuda->compute);
    for (int i = 0; i < TIMED_RUNS; i++) multiply_by(cuda, p, lt, algo);
    cudaEventRecord(end, cuda->compute);
    cudaEventSynchronize(end);
    return cudaEventElapsedTime(&ms, begin, end) == cudaSuccess ? ms / TIMED_RUNS : -1;
}

static int fastest(tri_cuda *cuda, const product *p, lt_product *lt, int n, const cublasLtMatmulHeuristicResult_t *from, float *best) {
    cudaEvent_t begin, end;
    int chosen = 0;
    if (cudaEventCreate(&begin) != cudaSuccess) return 0;
    if (cudaEventCreate(&end) == cudaSuccess) {
        for (int i = 0; i < n; i++) {
            float ms = time_of(cuda, p, lt, &from[i].algo, begin, end);
            if (ms > 0 && (*best == 0 || ms < *best)) *best = ms, chosen = i;
        }
        cudaEventDestroy(end);
    }
    cudaEventDestroy(begin);
    return chosen;
}

static uint64_t hash_of(const tri_cuda_shape *shape) { /* FNV-1a */
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < sizeof *shape; i++) hash = (hash ^ ((const unsigned char *)shape)[i]) * 0x100000001B3u;
    return hash ^ hash >> 32;
}

/* Numbers of tokens differ from step to step: those within a sixteenth of each other share an algorithm, so that few shapes are ever
 * asked for. No leading dimension depends on them, so what suits one suits the other. */
static product bucket_of(const product *p) {
    product like = *p;
    int64_t *tokens = p->tokens_in_k ? &like.shape.k : &like.shape.n, step = 1;
    while (32 * step <= *tokens) step *= 2;
    *tokens = (*tokens + step - 1) / step * step;
    return like;
}

/* Finds the algorithm of a shape; 0 when the library has none. A shape whose place is taken moves in. Only products that
 * overwrite can be timed: others would be added several times. */
static int choose(tri_cuda *cuda, const product *p, lt_product *lt, cublasLtMatmulAlgo_t *algo) {
    tri_cuda_wisdom *wisdom = cuda->wisdom;
    product like = bucket_of(p);
    lt_product like_lt;
    auto *at = wisdom ? &wisdom->at[hash_of(&like.shape) % TRI_CUDA_SHAPES] : nullptr;
    int times = wisdom && wisdom->timing && !p->add;
    if (at && memcmp(&at->shape, &like.shape, sizeof like.shape) == 0 && (at->ms > 0 || !times)) {
        *algo = at->algo;
        return 1;
    }
    cublasLtMatmulHeuristicResult_t found[GUESSES];
    describe(&like, &like_lt);
    int n = guesses(cuda, &like, &like_lt, times ? GUESSES : 1, found), chosen = 0;
    float ms = 0;
    if (n == 0) return 0;
    if (times) chosen = fastest(cuda, p, lt, n, found, &ms);
    *algo = found[chosen].algo;
    if (at) at->shape = like.shape, at->algo = *algo, at->ms = ms;
    return 1;
}

/* The library's first guess for just this shape. */
static cublasStatus_t multiply_as_guessed(tri_cuda *cuda, const product *p, lt_product *lt) {
    cublasLtMatmulHeuristicResult_t found;
    return guesses(cuda, p, lt, 1, &found) ? multiply_by(cuda, p, lt, &found.algo) : CUBLAS_STATUS_NOT_SUPPORTED;
}

static void multiply(const tri_call *call, product *p, const char *where) {
    tri_cuda *cuda = tri__cuda(call);
    cublasLtMatmulAlgo_t algo;
    lt_product lt;
    const void *operands[] = {p->a, p->b, p->d, p->bias};
    p->shape.bias = p->bias != NULL;
    p->shape.align = 256;
    for (int i = 0; i < 4; i++)
        if (alignment(operands[i]) < p->shape.align) p->shape.align = alignment(operands[i]);
    describe(p, &lt);
    cublasStatus_t status = choose(cuda, p, &lt, &algo) ? multiply_by(cuda, p, &lt, &algo) : CUBLAS_STATUS_NOT_SUPPORTED;
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) status = multiply_as_guessed(cuda, p, &lt);
    if (status != CUBLAS_STATUS_SUCCESS) record(call, cudaErrorNotSupported, where);
}

static product new_product(int64_t m, int64_t n, int64_t k, int type, int out) {
    product p;
    memset(&p, 0, sizeof p);
    p.shape.m = m, p.shape.n = n, p.shape.k = k;
    p.shape.type = type_of(type), p.shape.out = type_of(out);
    return p;
}

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
    forward(call, h, X, "linear_gelu");
    map1_on<gelu_op<T>, T, T>(call, elements(call, Y), data<T>(call, Y), h, 0, "linear_gelu");
}

/* dx [T,I] = dy [T,O] w [O,I] */
static void linear_din(const tri_call *call) {
    enum { DX, DY, W };
    int64_t rows = call->t[DY].rows, out = call->t[W].rows, in = call->t[W].cols;
    if (rows == 0) return;
    product p = new_product(in, rows, out, call->dtype[W], call->dtype[DX]);
    p.a = call->t[W].data, p.lda = in, p.b = call->t[DY].data, p.ldb = out, p.d = call->t[DX].data, p.add = adds(call, DX);
    multiply(call, &p, "linear_din");
}

/* dw [O,I] = dy [T,O]^T x [T,I] */
static void linear_dw(const tri_call *call) {
    enum { DW, DY, X };
    int64_t rows = call->t[DY].rows, out = call->t[DW].rows, in = call->t[DW].cols;
    if (rows == 0) {
        if (!adds(call, DW))
            record(call, cudaMemsetAsync(call->t[DW].data, 0, (size_t)(out * in) * (call->dtype[DW] == TRI_F32 ? 4 : 2), stream(call)),
                   "linear_dw");
        return;
    }
    product p = new_product(in, out, rows, call->dtype[X], call->dtype[DW]);
    p.shape.b_turned = 1, p.tokens_in_k = 1;
    p.a = call->t[X].data, p.lda = in, p.b = call->t[DY].data, p.ldb = out, p.d = call->t[DW].data, p.add = adds(call, DW);
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
    TRI_CUDA_ROWS(TRI_OP_bias_dw, bias_dw, COLUMN_WORK(1)),
    {},
};
