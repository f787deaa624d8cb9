/* product.cu - products by cuBLASLt: the algorithm for a shape is the one found by timing (wisdom), or else the
 * library's first guess, and is looked up once. */
#include "device/cuda/product/product.cuh"

enum {
    SHAPES = 4096,      /* entries of the table */
    CANDIDATES = 16, ROUNDS = 5, MOST_RUNS = 16,
    NOISE_THREADS = 256
};
#define WORTH_FLOPS 1e9 /* smaller products take microseconds with any algorithm */
#define WORTH_GAIN 0.98 /* of the first guess's time: smaller differences are noise */
#define SAMPLE_MS 0.2f  /* minimum duration of a timed batch of runs, up to MOST_RUNS */

/* Algorithms in use. */
struct tri_cuda_choices {
    struct {
        tri_product_shape shape; /* m = 0: empty */
        int batch;
        cublasLtMatmulAlgo_t algo;
    } at[SHAPES];
    tri_wisdom known; /* by timing */
};
static_assert(sizeof(cublasLtMatmulAlgo_t) == TRI_ALGORITHM_WORDS * sizeof(uint64_t), "algorithms are kept as words");

typedef struct lt_product {
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t a, b, d;
} lt_product;

static cudaDataType_t type_of(int dtype) {
    switch (dtype) {
    case TRI_F32: return CUDA_R_32F;
    case TRI_BF16: return CUDA_R_16BF;
    case TRI_I8: return CUDA_R_8I;
    case TRI_I32: return CUDA_R_32I;
    case TRI_F8_E4M3: return CUDA_R_8F_E4M3;
    case TRI_F8_E5M2: return CUDA_R_8F_E5M2;
    default: return CUDA_R_16F;
    }
}
static size_t workspace_of(const tri_cuda *cuda, const product *p) { return cuda->blas_bytes - p->taken; }

static int32_t alignment(const void *p) {
    for (int32_t bytes = 256; bytes > 1; bytes /= 2)
        if ((uintptr_t)p % (uintptr_t)bytes == 0) return bytes;
    return 1;
}

product new_product(int64_t m, int64_t n, int64_t k, int type, int out) {
    product p;
    memset(&p, 0, sizeof p);
    p.shape.m = m, p.shape.n = n, p.shape.k = k;
    p.shape.type = type, p.shape.out = out;
    p.ldd = m;
    return p;
}

static void describe_batch(cublasLtMatrixLayoutOpaque_t *layout, int32_t batch, int64_t next) {
    cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
    cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &next, sizeof next);
}

static void describe(const product *p, lt_product *lt) {
    const tri_product_shape *s = &p->shape;
    cublasOperation_t op_t = CUBLAS_OP_T;
    int b_type = s->b_type ? s->b_type : s->type;
    int8_t fast_sums = !p->tokens_in_k; /* of 8 bits, as the matrix instructions make them; over tokens in fp32 */
    if (s->type == TRI_I8) cublasLtMatmulDescInit(&lt->desc, CUBLAS_COMPUTE_32I, CUDA_R_32I);
    else cublasLtMatmulDescInit(&lt->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (s->type == TRI_F8_E4M3) {
        cublasLtMatmulDescSetAttribute(&lt->desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast_sums, sizeof fast_sums);
        if (p->factor)
            cublasLtMatmulDescSetAttribute(&lt->desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &p->factor,
                                           sizeof p->factor);
    }
    if (s->a_transposed) cublasLtMatmulDescSetAttribute(&lt->desc, CUBLASLT_MATMUL_DESC_TRANSA, &op_t, sizeof op_t);
    if (s->b_transposed) cublasLtMatmulDescSetAttribute(&lt->desc, CUBLASLT_MATMUL_DESC_TRANSB, &op_t, sizeof op_t);
    if (p->bias) {
        cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
        cublasLtMatmulDescSetAttribute(&lt->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
        cublasLtMatmulDescSetAttribute(&lt->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias, sizeof p->bias);
    }
    uint64_t m = (uint64_t)s->m, n = (uint64_t)s->n, k = (uint64_t)s->k;
    cublasLtMatrixLayoutInit(&lt->a, type_of(s->type), s->a_transposed ? k : m, s->a_transposed ? m : k, p->lda);
    cublasLtMatrixLayoutInit(&lt->b, type_of(b_type), s->b_transposed ? n : k, s->b_transposed ? k : n, p->ldb);
    cublasLtMatrixLayoutInit(&lt->d, type_of(s->out), m, n, p->ldd);
    if (!p->batch) return;
    describe_batch(&lt->a, p->batch, p->next_a);
    describe_batch(&lt->b, p->batch, p->next_b);
    describe_batch(&lt->d, p->batch, p->next_d);
}

static cublasStatus_t multiply_by(tri_cuda *cuda, const product *p, lt_product *lt, const cublasLtMatmulAlgo_t *algo) {
    float one = 1, beta = p->shape.add ? 1.0f : 0.0f;
    int32_t whole_one = 1, whole_beta = 0;
    int whole = p->shape.type == TRI_I8;
    return cublasLtMatmul(cuda->blas, &lt->desc, whole ? (const void *)&whole_one : &one, p->a, &lt->a, p->b, &lt->b,
                          whole ? (const void *)&whole_beta : &beta, p->d, &lt->d, p->d, &lt->d, algo, cuda->blas_work,
                          workspace_of(cuda, p), cuda->compute);
}

static int guesses(tri_cuda *cuda, const product *p, lt_product *lt, int n, cublasLtMatmulHeuristicResult_t *out) {
    cublasLtMatmulPreferenceOpaque_t preference;
    /* Where columns are tokens, one sum makes an element: parts would depend on the number of tokens, and with it the
     * last bits of each. Elsewhere partial sums stay fp32. */
    uint32_t align = (uint32_t)p->shape.align,
             sums = p->tokens_in_k ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_NONE;
    size_t workspace = workspace_of(cuda, p);
    int found = 0;
    cublasLtMatmulPreferenceInit(&preference);
    cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                         sizeof workspace);
    cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof sums);
    static const cublasLtMatmulPreferenceAttributes_t which[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    for (int i = 0; i < 4; i++) cublasLtMatmulPreferenceSetAttribute(&preference, which[i], &align, sizeof align);
    cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(cuda->blas, &lt->desc, &lt->a, &lt->b, &lt->d, &lt->d,
                                                           &preference, n, out, &found);
    return status == CUBLAS_STATUS_SUCCESS ? found : 0;
}

/* ---- Choosing ---- */

static uint64_t hash_of(const tri_product_shape *shape) { /* FNV-1a */
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < sizeof *shape; i++) hash = (hash ^ ((const unsigned char *)shape)[i]) * 0x100000001B3u;
    return hash ^ hash >> 32;
}

static int64_t *tokens_of(product *p) { return p->tokens_in_k ? &p->shape.k : &p->shape.n; }

/* Numbers of tokens differ from step to step: those that round up to the same multiple of a power of 2 share an
 * algorithm, so that few shapes are looked up; `parts` multiples per octave. No leading dimension depends on them, so
 * they suit the same algorithm. */
static int64_t step_of(int64_t tokens, int64_t parts) {
    int64_t step = 1;
    while (2 * parts * step < tokens) step *= 2;
    return step;
}
enum { FINE = 16, COARSE = 4 }; /* parts: without timing, with timing */
/* For few tokens the library has algorithms that sum in another order: a row's bits would depend on their number. */
enum { LEAST_TOKENS = 64 };
static product bucket_of(const product *p, int64_t parts) {
    product like = *p;
    int64_t *tokens = tokens_of(&like);
    if (!p->tokens_in_k && *tokens < LEAST_TOKENS) *tokens = LEAST_TOKENS;
    int64_t step = step_of(*tokens, parts);
    *tokens = (*tokens + step - 1) / step * step;
    return like;
}

/* The algorithm found by timing, if the library supports it. */
static int recall(tri_cuda *cuda, const product *p, lt_product *lt, cublasLtMatmulAlgo_t *algo) {
    product like = bucket_of(p, COARSE);
    const tri_wisdom_entry *entry = tri__wisdom_find(&cuda->choices->known, &like.shape);
    cublasLtMatmulHeuristicResult_t result;
    if (!entry || p->batch) return 0; /* batches were not timed */
    memcpy(algo, entry->algorithm, sizeof *algo);
    return cublasLtMatmulAlgoCheck(cuda->blas, &lt->desc, &lt->a, &lt->b, &lt->d, &lt->d, algo, &result) ==
               CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= cuda->blas_bytes;
}

/* Finds the algorithm of a shape; 0 if the library has none. A shape replaces another in the same entry. */
static int choose(tri_cuda *cuda, const product *p, lt_product *lt, cublasLtMatmulAlgo_t *algo) {
    product like = bucket_of(p, FINE);
    auto *at = &cuda->choices->at[(hash_of(&like.shape) + (uint64_t)like.batch) % SHAPES];
    if (memcmp(&at->shape, &like.shape, sizeof like.shape) == 0 && at->batch == like.batch) {
        *algo = at->algo;
        return 1;
    }
    if (!recall(cuda, p, lt, algo)) {
        cublasLtMatmulHeuristicResult_t found;
        lt_product like_lt;
        describe(&like, &like_lt);
        if (!guesses(cuda, &like, &like_lt, 1, &found)) return 0;
        *algo = found.algo;
    }
    at->shape = like.shape, at->batch = like.batch, at->algo = *algo;
    return 1;
}

/* ---- Timing ---- */

typedef struct candidate {
    const cublasLtMatmulAlgo_t *algo;
    float ms[ROUNDS]; /* per run, sorted */
    int runs;         /* per batch; 0: it does not run */
} candidate;

/* Milliseconds per run in a batch; negative if it does not run. */
static float time_batch(tri_cuda *cuda, const product *p, lt_product *lt, const candidate *c, cudaEvent_t begin,
                        cudaEvent_t end) {
    float ms = -1;
    cudaEventRecord(begin, cuda->compute);
    for (int i = 0; i < c->runs; i++)
        if (multiply_by(cuda, p, lt, c->algo) != CUBLAS_STATUS_SUCCESS) return -1;
    cudaEventRecord(end, cuda->compute);
    if (cudaEventSynchronize(end) != cudaSuccess || cudaEventElapsedTime(&ms, begin, end) != cudaSuccess) return -1;
    return ms / (float)c->runs;
}

static void insert(float *sorted, int n, float value) {
    for (; n > 0 && sorted[n - 1] > value; n--) sorted[n] = sorted[n - 1];
    sorted[n] = value;
}

/* Candidates alternate, so that temporary slowdowns of the GPU affect all. Each runs once first, and then gets as many
 * runs as make its batches long enough for the clock. */
static void race(tri_cuda *cuda, const product *p, lt_product *lt, candidate *c, int n, cudaEvent_t begin,
                 cudaEvent_t end) {
    for (int i = 0; i < n; i++) {
        c[i].runs = 1;
        float ms = time_batch(cuda, p, lt, &c[i], begin, end);
        if (ms >= 0) ms = time_batch(cuda, p, lt, &c[i], begin, end);
        c[i].runs = ms < 0 ? 0 : ms * MOST_RUNS <= SAMPLE_MS ? (int)MOST_RUNS : 1 + (int)(SAMPLE_MS / ms);
    }
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < n; i++) {
            float ms = c[i].runs ? time_batch(cuda, p, lt, &c[i], begin, end) : -1;
            if (ms < 0) c[i].runs = 0;
            else insert(c[i].ms, round, ms);
        }
}

/* The fastest by its median, if it gains enough over the first guess. */
static int winner(const candidate *c, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (c[i].runs && (!c[best].runs || c[i].ms[ROUNDS / 2] < c[best].ms[ROUNDS / 2])) best = i;
    return c[0].runs && c[best].ms[ROUNDS / 2] > (float)WORTH_GAIN * c[0].ms[ROUNDS / 2] ? 0 : best;
}

static void time_shape(tri_cuda *cuda, const product *p, const product *like, cudaEvent_t begin, cudaEvent_t end) {
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    candidate c[CANDIDATES];
    lt_product lt;
    describe(like, &lt);
    int n = guesses(cuda, like, &lt, CANDIDATES, found);
    for (int i = 0; i < n; i++) c[i].algo = &found[i].algo;
    describe(p, &lt);
    race(cuda, p, &lt, c, n, begin, end);
    int best = n ? winner(c, n) : 0;
    if (!n || !c[best].runs) return;
    tri_wisdom_entry entry;
    memset(&entry, 0, sizeof entry);
    entry.shape = like->shape;
    memcpy(entry.algorithm, c[best].algo, sizeof entry.algorithm);
    entry.guess_us = c[0].runs ? 1e3f * c[0].ms[ROUNDS / 2] : 0;
    entry.best_us = 1e3f * c[best].ms[ROUNDS / 2];
    tri__wisdom_add(cuda->tuned, &entry);
}

/* Times a product for numbers of tokens from all down to a quarter. */
static void time_product(tri_cuda *cuda, const product *p) {
    product like = bucket_of(p, COARSE), at = *p;
    int64_t most = *tokens_of(&at), tokens = *tokens_of(&like);
    cudaEvent_t begin, end;
    if (cudaEventCreate(&begin) != cudaSuccess) return;
    if (cudaEventCreate(&end) == cudaSuccess) {
        for (; tokens > 0 && 4 * tokens > most; tokens -= step_of(tokens, COARSE)) {
            *tokens_of(&like) = tokens;
            *tokens_of(&at) = tokens < most ? tokens : most;
            if (2.0 * (double)at.shape.m * (double)at.shape.n * (double)at.shape.k < WORTH_FLOPS) break;
            if (!tri__wisdom_find(cuda->tuned, &like.shape)) time_shape(cuda, &at, &like, begin, end);
        }
        cudaEventDestroy(end);
    }
    cudaEventDestroy(begin);
}

/* ---- Multiplying ---- */

/* The library's first guess for exactly this shape. */
static cublasStatus_t multiply_as_guessed(tri_cuda *cuda, const product *p, lt_product *lt) {
    cublasLtMatmulHeuristicResult_t found;
    return guesses(cuda, p, lt, 1, &found) ? multiply_by(cuda, p, lt, &found.algo) : CUBLAS_STATUS_NOT_SUPPORTED;
}

int try_multiply(const tri_call *call, product *p) {
    tri_cuda *cuda = tri__cuda(call);
    cublasLtMatmulAlgo_t algo;
    lt_product lt;
    int bytes = (int)tri__dtype_bytes((tri_dtype)p->shape.type), out = (int)tri__dtype_bytes((tri_dtype)p->shape.out);
    const void *operands[] = {p->a, p->b, p->d, p->bias, (const void *)(p->next_a * bytes),
                              (const void *)(p->next_b * bytes), (const void *)(p->next_d * out)};
    p->shape.bias = p->bias != NULL;
    p->shape.align = 256;
    for (const void *operand : operands)
        if (alignment(operand) < p->shape.align) p->shape.align = alignment(operand);
    if (only_timed(call)) {
        time_product(cuda, p);
        return 1;
    }
    describe(p, &lt);
    cublasStatus_t status = choose(cuda, p, &lt, &algo) ? multiply_by(cuda, p, &lt, &algo)
                                                        : CUBLAS_STATUS_NOT_SUPPORTED;
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE)
        status = multiply_as_guessed(cuda, p, &lt);
    return status == CUBLAS_STATUS_SUCCESS;
}

void multiply(const tri_call *call, product *p, const char *where) {
    if (!try_multiply(call, p)) record(call, cudaErrorNotSupported, where);
}

/* ---- What follows ---- */

static tri_call part_of(const tri_call *call, tri_op op, const tri_attr *attr) {
    tri_call part = *call;
    part.op = op, part.attr = attr, part.acc = 0;
    for (tri_tensor &t : part.t) t = tri_tensor{};
    return part;
}

void activate(const tri_call *call, const tri_tensor &y, const tri_tensor &h, int type) {
    OPERANDS(act);
    tri_attr attr = {};
    attr.activation = call->attr->activation;
    tri_call part = part_of(call, TRI_OP_act, &attr);
    part.t[ARG(y)] = y, part.t[ARG(x)] = h;
    part.dtype[ARG(y)] = part.dtype[ARG(x)] = (uint8_t)type;
    tri__kernel(call->table, TRI_OP_act, &attr, type)(&part);
}

void activate_din(const tri_call *call, const tri_tensor &dx, const tri_tensor &from, int type, int db, int add,
                  void *work) {
    OPERANDS(act_din);
    tri_attr attr = {};
    attr.activation = call->attr->activation, attr.sums = 1;
    tri_call part = part_of(call, TRI_OP_act_din, &attr);
    part.acc = (unsigned)add << ARG(db), part.work = work;
    part.t[ARG(dx)] = part.t[ARG(dy)] = dx, part.t[tri__slope_arg(&attr)] = from, part.t[ARG(db)] = call->t[db];
    part.dtype[ARG(dx)] = part.dtype[ARG(dy)] = part.dtype[tri__slope_arg(&attr)] = (uint8_t)type;
    part.dtype[ARG(db)] = call->dtype[db];
    tri__kernel(call->table, TRI_OP_act_din, &attr, type)(&part);
}

/* ---- Called by the host side ---- */

int tri__cuda_products_open(tri_cuda *cuda) {
    cuda->choices = static_cast<tri_cuda_choices *>(calloc(1, sizeof *cuda->choices));
    return cuda->choices != NULL;
}

void tri__cuda_products_close(tri_cuda *cuda) { free(cuda->choices); }

void tri__cuda_follow(void *context, const tri_wisdom *wisdom) {
    tri_cuda *cuda = static_cast<tri_cuda *>(context);
    memset(cuda->choices, 0, sizeof *cuda->choices);
    cuda->choices->known = *wisdom;
    tri__cuda_forget(cuda);
}

/* Numbers in -1 .. 1: with zeros the GPU draws less power and runs faster than in training. */
template <typename T> static __global__ void make_noise(int64_t n, T *x) {
    int64_t i = (int64_t)blockIdx.x * NOISE_THREADS + threadIdx.x;
    if (i < n) x[i] = narrow<T>((float)((uint32_t)i * 2654435761u >> 8) * 0x1p-23f - 1.0f);
}

static void make_noise_of(const tri_call *call, int k) {
    by_type(call->dtype[k], [&](auto x) {
        queue_each(call, "noise", make_noise<decltype(x)>, elements(call, k), NOISE_THREADS, given{call, k});
    });
}

void tri__cuda_tune(void *context, const tri_call *call, tri_kernel *row, tri_wisdom *wisdom) {
    tri_cuda *cuda = static_cast<tri_cuda *>(context);
    tri_op op = call->op;
    if (op != TRI_OP_linear && op != TRI_OP_linear_din && op != TRI_OP_linear_dw) return;
    if (call->attr->factors || call->attr->experts || (op == TRI_OP_linear_din && call->attr->activation)) return;
    for (int k = 0; k < TRI_MAX_ARGS; k++)
        if (call->t[k].data && elements(call, k)) make_noise_of(call, k);
    cuda->tuned = wisdom;
    row(call);
    cuda->tuned = NULL;
    for (int k = 0; k < TRI_MAX_ARGS; k++) {
        size_t bytes = (size_t)elements(call, k) * tri__dtype_bytes((tri_dtype)call->dtype[k]);
        if (call->t[k].data && bytes)
            record(call, cudaMemsetAsync(call->t[k].data, 0, bytes, stream(call)), "clearing what was timed");
    }
}
