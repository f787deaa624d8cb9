/* device.c - a GPU as a device: its context, memory, copies, and the status of queued work. Kernels are in the files of
 * their families. */
#include "device/cuda/runtime/cuda.h"
#include "device/plugin.h"

enum {
    BLAS_BYTES = 32 << 20, /* cuBLASLt's workspace per lane, not in the plan; more gains nothing at BERT's shapes */
    STAGE_HEAD = 64,       /* bytes for the step before a run's inputs */
    AHEAD_BYTES =
        128 << 20, /* from offload memory: 2 ms of the bus, so that launch and copy latencies do not matter */
};

/* Whether there is a GPU, and it is older than Hopper: without FP8 products, and with attention that draws decisions
 * itself. */
static int is_older(void) {
    int major = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess) return major < 9;
    cudaGetLastError();
    return 0;
}

/* Lists of rows, which the Makefile finds (TRI_CUDA_FAMILY). */
#define X(family) extern const tri_kernel_row tri__cuda_##family[];
TRI_CUDA_FAMILIES(X)
#undef X

static void kernels(tri_kernel_table *table) {
    memset(table, 0, sizeof *table);
#define X(family) tri__kernel_table_add(table, tri__cuda_##family);
    TRI_CUDA_FAMILIES(X)
#undef X
    if (!is_older()) return;
    int fp8 = tri__op_variants(TRI_OP_fp8_cast); /* ops_fp8.def is the last part */
    for (int v = 0; v < tri__variant_count(); v++)
        if (v >= fp8 || tri__variant_row(v)->facts & (TRI_FACT_BITS | TRI_FACT_SCALED))
            memset(table->run[v], 0, sizeof *table->run);
}

static tri_status fail(const tri_core *core, cudaError_t error, const char *what) {
    return core->fail(tri__cuda_status(error), "the GPU cannot %s: %s", what, cudaGetErrorString(error));
}

/* Ranks take the GPUs of their machine round-robin; with more ranks than GPUs, several share one. */
static tri_status choose(const tri_core *core, int local, int *device) {
    int n = 0;
    cudaError_t error = cudaGetDeviceCount(&n);
    if (error == cudaErrorMemoryAllocation) return fail(core, error, "be looked for");
    if (error != cudaSuccess || n == 0)
        return core->fail(TRI_USAGE,
                          "--device cuda: there is no NVIDIA GPU that can be used (%s); --device cpu needs none",
                          error == cudaSuccess ? "none is visible" : cudaGetErrorString(error));
    *device = local % n;
    error = cudaSetDevice(*device);
    return error == cudaSuccess ? TRI_OK : fail(core, error, "be chosen");
}

static int count(void) {
    int n = 0;
    return cudaGetDeviceCount(&n) == cudaSuccess && n > 0 ? n : 1;
}

static tri_status room(const tri_core *core, int local, int64_t *bytes) {
    int device;
    size_t free_bytes = 0, all = 0;
    TRI_TRY(choose(core, local, &device));
    cudaError_t error = cudaMemGetInfo(&free_bytes, &all);
    if (error != cudaSuccess) return fail(core, error, "say how much memory is free");
    *bytes = (int64_t)free_bytes - TRI_LANES * BLAS_BYTES;
    return TRI_OK;
}

static void close_context(void *context) {
    tri_cuda *c = context;
    if (!c) return;
    tri__nccl_close(c);
    tri__cuda_copy_close(c);
    tri__cuda_keep_close(c);
    for (int i = 0; i < c->n_marks; i++) cudaEventDestroy(c->mark[i]);
    for (int i = 0; i < c->n_pulses; i++) cudaEventDestroy(c->pulse[i]);
    for (int i = 0; i < c->n_signals; i++) cudaEventDestroy(c->signal[i]);
    free(c->signal);
    free(c->pulse);
    free(c->mark);
    tri__cuda_products_close(c);
    tri__cuda_graphs_close(c);
    tri__cuda_gauges_close(c);
    if (c->inbox) cudaFree(c->inbox);
    for (int i = 0; i < 2; i++) {
        if (c->stage[i].at) cudaFreeHost(c->stage[i].at);
        if (c->stage[i].done) cudaEventDestroy(c->stage[i].done);
        if (c->span[i]) cudaEventDestroy(c->span[i]);
        if (c->copy[i]) cudaStreamDestroy(c->copy[i]);
    }
    for (int lane = 0; lane < TRI_LANES; lane++) {
        if (c->lane[lane].blas_work) cudaFree(c->lane[lane].blas_work);
        if (c->lane[lane].compute) cudaStreamDestroy(c->lane[lane].compute);
    }
    if (c->blas) cublasLtDestroy(c->blas);
    if (c->used) cudaEventDestroy(c->used);
    free(c);
}

static tri_status start_blas(tri_cuda *c) {
    cublasStatus_t error = cublasLtCreate(&c->blas);
    if (error == CUBLAS_STATUS_SUCCESS) return TRI_OK;
    return c->core->fail(error == CUBLAS_STATUS_ALLOC_FAILED ? TRI_RESOURCE : TRI_INTERNAL,
                         "cuBLASLt does not start on this GPU%s",
                         error == CUBLAS_STATUS_ALLOC_FAILED ? ": out of memory" : "");
}

static void name_device(tri_cuda *c) {
    struct cudaDeviceProp p;
    if (cudaGetDeviceProperties(&p, c->device) != cudaSuccess) return;
    snprintf(c->name, sizeof c->name, "cuda: %.60s, %d multiprocessors, %.0f GiB, compute capability %d.%d", p.name,
             p.multiProcessorCount, (double)p.totalGlobalMem / (1 << 30), p.major, p.minor);
}

/* The device and library that algorithms were timed on. */
static const char *kind(void *context) {
    tri_cuda *c = context;
    struct cudaDeviceProp p;
    if (!c->kind[0] && cudaGetDeviceProperties(&p, c->device) == cudaSuccess)
        snprintf(c->kind, sizeof c->kind, "%.60s, %d multiprocessors, cuBLASLt %zu", p.name, p.multiProcessorCount,
                 cublasLtGetVersion());
    return c->kind;
}

static void use_lane(void *context, int lane) {
    tri_cuda *c = context;
    c->compute = c->lane[lane].compute;
    c->blas_work = c->lane[lane].blas_work;
}

static cudaError_t make_streams(tri_cuda *c) {
    cudaError_t error = cudaEventCreateWithFlags(&c->used, cudaEventDisableTiming);
    for (int i = 0; i < 2 && error == cudaSuccess; i++)
        error = cudaStreamCreateWithFlags(&c->copy[i], cudaStreamNonBlocking);
    c->blas_bytes = BLAS_BYTES;
    for (int lane = 0; lane < TRI_LANES && error == cudaSuccess; lane++) {
        error = cudaStreamCreateWithFlags(&c->lane[lane].compute, cudaStreamNonBlocking);
        if (error == cudaSuccess) error = cudaMalloc(&c->lane[lane].blas_work, c->blas_bytes);
    }
    use_lane(c, 0);
    return error;
}

static cudaError_t make_stages(tri_cuda *c) {
    cudaError_t error = cudaMalloc((void **)&c->inbox, c->stage_bytes);
    for (int i = 0; i < 2 && error == cudaSuccess; i++) {
        error = cudaEventCreate(&c->span[i]);
        if (error == cudaSuccess) error = cudaEventCreateWithFlags(&c->stage[i].done, cudaEventDisableTiming);
        if (error == cudaSuccess) error = cudaMallocHost((void **)&c->stage[i].at, c->stage_bytes);
    }
    c->step = (uint32_t *)(void *)c->inbox;
    return error;
}

static tri_status open_context(const tri_core *core, int local, size_t inputs, void **context) {
    tri_cuda *c = calloc(1, sizeof *c);
    if (!c) return core->fail(TRI_RESOURCE, "out of memory for a GPU's context");
    *context = NULL;
    c->core = core;
    c->stage_bytes = STAGE_HEAD + inputs;
    tri_status status = choose(core, local, &c->device);
    if (status == TRI_OK && !(tri__cuda_products_open(c) && tri__cuda_graphs_open(c)))
        status = core->fail(TRI_RESOURCE, "out of memory for a GPU's context");
    if (status == TRI_OK) {
        name_device(c);
        cudaError_t error = make_streams(c);
        if (error == cudaSuccess) error = make_stages(c);
        if (error != cudaSuccess) status = fail(core, error, "open a context");
        else status = start_blas(c);
    }
    if (status != TRI_OK) close_context(c);
    else *context = c;
    return status;
}

static tri_status alloc(void *context, size_t bytes, void **out) {
    tri_cuda *c = context;
    *out = NULL;
    cudaError_t error = cudaMalloc(out, bytes ? bytes : 1);
    if (error == cudaSuccess) error = cudaMemset(*out, 0, bytes);
    if (error == cudaSuccess) error = cudaDeviceSynchronize(); /* our streams do not wait for the default one */
    if (error == cudaSuccess) return TRI_OK;
    cudaGetLastError(); /* reported here: clear it, so that the next launch does not report it */
    *out = NULL;
    return c->core->fail(
        TRI_RESOURCE,
        "cannot allocate %zu bytes on the GPU: %s; try a smaller batch, more microbatches or --recompute full", bytes,
        cudaGetErrorString(error));
}

static tri_status alloc_offload(void *context, const char *folder, size_t bytes, void **out) {
    tri_cuda *c = context;
    (void)folder;
    *out = NULL;
    cudaError_t error = cudaMallocHost(out, bytes ? bytes : 1);
    if (error != cudaSuccess) {
        cudaGetLastError();
        *out = NULL;
        return c->core->fail(TRI_RESOURCE,
                             "cannot reserve %zu bytes of the host's memory for what is offloaded: %s; offload less",
                             bytes, cudaGetErrorString(error));
    }
    tri__cuda_clear(*out, bytes);
    return TRI_OK;
}

static void release(void *context, void *memory, size_t bytes) {
    (void)context, (void)bytes;
    struct cudaPointerAttributes about;
    if (!memory || cudaPointerGetAttributes(&about, memory) != cudaSuccess) return;
    if (about.type == cudaMemoryTypeHost) cudaFreeHost(memory);
    else cudaFree(memory);
}

static const char *describe(void *context) { return context ? ((const tri_cuda *)context)->name : "cuda"; }

static tri_status finish(void *context) {
    tri_cuda *c = context;
    float ms = 0;
    if (c->spanning) tri__cuda_note(c, cudaEventRecord(c->span[1], c->compute), "a kernel");
    for (int lane = 0; lane < TRI_LANES; lane++)
        tri__cuda_note(c, cudaStreamSynchronize(c->lane[lane].compute), "a kernel");
    for (int i = 0; i < 2; i++) tri__cuda_note(c, cudaStreamSynchronize(c->copy[i]), "a copy of offload memory");
    if (c->spanning && c->error == cudaSuccess && cudaEventElapsedTime(&ms, c->span[0], c->span[1]) == cudaSuccess)
        c->worked += ms / 1e3;
    c->spanning = 0;
    if (c->error == cudaSuccess) return TRI_OK;
    tri_status status = c->core->fail(tri__cuda_status(c->error), "the GPU failed in %s: %s", c->where,
                                      cudaGetErrorString(c->error));
    c->error = cudaSuccess;
    return status;
}

int tri__cuda_has_event(cudaEvent_t **events, int *n, int number, unsigned flags) {
    if (number < *n) return 1;
    int wanted = number + 1 + number / 2;
    cudaEvent_t *more = realloc(*events, (size_t)wanted * sizeof *more);
    if (!more) return 0;
    *events = more;
    while (*n < wanted && cudaEventCreateWithFlags(&more[*n], flags) == cudaSuccess) ++*n;
    return number < *n;
}

static void signal_point(void *context, int number) {
    tri_cuda *c = context;
    if (tri__cuda_has_event(&c->signal, &c->n_signals, number, cudaEventDisableTiming))
        tri__cuda_note(c, cudaEventRecord(c->signal[number], c->compute), "a kernel");
    else tri__cuda_note(c, cudaErrorMemoryAllocation, "a lane's event");
}

static void await_point(void *context, int number) {
    tri_cuda *c = context;
    if (number < c->n_signals) tri__cuda_note(c, cudaStreamWaitEvent(c->compute, c->signal[number], 0), "a kernel");
}

static void mark_progress(void *context) {
    tri_cuda *c = context;
    if (!tri__cuda_has_event(&c->pulse, &c->n_pulses, c->pulses, cudaEventDisableTiming)) return;
    tri__cuda_note(c, cudaEventRecord(c->pulse[c->pulses++], c->compute), "a kernel");
}

static int is_idle(void *context, uint64_t *passed) {
    tri_cuda *c = context;
    int done = cudaStreamQuery(c->lane[0].compute) != cudaErrorNotReady; /* ordered after all lanes and transfers */
    while (c->reached < c->pulses && cudaEventQuery(c->pulse[c->reached]) != cudaErrorNotReady) c->reached++;
    *passed = c->passed + (uint64_t)c->reached;
    if (done) c->passed = *passed, c->pulses = c->reached = 0;
    return done;
}

static tri_status copy(void *context, void *to, const void *from, size_t bytes) {
    tri_cuda *c = context;
    if (bytes) tri__cuda_note(c, tri__cuda_copy(c, to, from, bytes), "a copy");
    return finish(c);
}

static tri_status fill(void *context, void *to, size_t bytes, tri_make *make, void *maker) {
    tri_cuda *c = context;
    tri__cuda_note(c, tri__cuda_fill(c, to, bytes, make, maker), "a copy");
    return finish(c);
}

/* The staging buffer of the next run's inputs, from its first byte on, once the GPU has read its previous contents. */
static char *stage(tri_cuda *c) {
    if (!c->stage_used) {
        tri__cuda_note(c, cudaEventSynchronize(c->stage[c->turn].done), "the last inputs' copy");
        c->stage_used = STAGE_HEAD;
    }
    return c->stage[c->turn].at;
}

static void stage_input(void *context, const void *from, size_t bytes) {
    tri_cuda *c = context;
    char *at = stage(c);
    TRI_ASSERT(c->stage_used + tri__input_bytes(bytes) <= c->stage_bytes);
    memcpy(at + c->stage_used, from, bytes);
    c->stage_used += tri__input_bytes(bytes);
}

static void begin_run(void *context, uint32_t step) {
    tri_cuda *c = context;
    char *at = stage(c);
    memcpy(at, &step, sizeof step);
    if (!c->spanning) tri__cuda_note(c, cudaEventRecord(c->span[0], c->compute), "a kernel");
    c->spanning = 1;
    tri__cuda_note(c, cudaMemcpyAsync(c->inbox, at, c->stage_used, cudaMemcpyHostToDevice, c->compute),
                   "the inputs' copy");
    tri__cuda_note(c, cudaEventRecord(c->stage[c->turn].done, c->compute), "the inputs' copy");
    c->turn = !c->turn;
    c->stage_used = c->inbox_taken = 0;
}

static void next_input(void *context, void *to, size_t bytes) {
    tri_cuda *c = context;
    const char *from = c->inbox + STAGE_HEAD + c->inbox_taken;
    tri__cuda_note(c, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, c->compute), "an input's copy");
    c->inbox_taken += tri__input_bytes(bytes);
}

static void mark(void *context, int index) {
    tri_cuda *c = context;
    if (!tri__cuda_has_event(&c->mark, &c->n_marks, index, cudaEventDefault)) return;
    tri__cuda_note(c, cudaEventRecord(c->mark[index], c->compute), "a profile's mark");
    c->last_mark = index;
    c->marking = 1;
}

void tri__cuda_time(tri_cuda *c, cudaEvent_t begin, cudaEvent_t end, tri_time *time) {
    float before[2]; /* ms to the last mark */
    cudaError_t error = cudaEventElapsedTime(&before[0], begin, c->mark[c->last_mark]);
    if (error == cudaSuccess) error = cudaEventElapsedTime(&before[1], end, c->mark[c->last_mark]);
    if (error == cudaSuccess)
        *time = (tri_time){c->marked - (double)before[0] / 1e3, c->marked - (double)before[1] / 1e3};
    else cudaGetLastError(); /* never recorded: clear the error, so that the next launch does not report it */
}

/* The host's clock and the GPU's are aligned at the last mark, which has just been reached. */
static void times(void *context, int n, tri_time *times) {
    tri_cuda *c = context;
    c->marked = tri__clock();
    c->marking = 0;
    for (int i = 0; i < n && i + 1 < c->n_marks; i++) tri__cuda_time(c, c->mark[i], c->mark[i + 1], &times[i]);
}

static double busy_seconds(void *context) {
    tri_cuda *c = context;
    double seconds = c->worked;
    c->worked = 0;
    return seconds;
}

static int64_t memory_used(void *context) {
    size_t free_bytes = 0, all = 0;
    (void)context;
    return cudaMemGetInfo(&free_bytes, &all) == cudaSuccess ? (int64_t)(all - free_bytes) : 0;
}

static const tri_async async = {
    .copy = copy, .fill = fill, .stage_input = stage_input, .begin_run = begin_run, .next_input = next_input,
    .finish = finish, .is_idle = is_idle, .mark_progress = mark_progress};
static const tri_queues queues = {.use = use_lane, .signal = signal_point, .await = await_point};
static const tri_offload offload = {.copy_post = tri__cuda_copy_post, .copy_wait = tri__cuda_copy_wait};
static const tri_keeping keeping = {
    .pin = tri__cuda_pin, .unpin = tri__cuda_unpin, .begin = tri__cuda_keep_begin, .post = tri__cuda_keep,
    .finish = tri__cuda_keep_finish};
static const tri_graphs graphs = {.begin = tri__cuda_capture, .end = tri__cuda_end_capture};
static const tri_peers peers = {
    .name = tri__nccl_name, .join = tri__nccl_join, .leave = tri__nccl_leave, .post = tri__nccl_post,
    .wait = tri__nccl_wait, .check = tri__nccl_check};
static const tri_timing timing = {
    .mark = mark, .times = times, .transfer_time = tri__nccl_time, .busy_seconds = busy_seconds,
    .hold = tri__cuda_hold};
static const tri_gauges gauges = {.read = tri__cuda_gauge};
static const tri_tuner tuner = {.kind = kind, .tune = tri__cuda_tune, .follow = tri__cuda_follow};

static const tri_device gpu = {
    .name = "cuda", .granule = 64, .lanes = TRI_LANES, .ahead = AHEAD_BYTES,
    .short_flops = 4e9,  /* 6 us of an H200: two launches */
    .mask_tokens = 129,  /* shorter ones: docs/internals/cuda.md */
    .kernels = kernels, .open = open_context, .close = close_context, .room = room, .count = count, .alloc = alloc,
    .free = release, .alloc_offload = alloc_offload, .memory_used = memory_used, .describe = describe,
    .async = &async, .queues = &queues, .offload = &offload, .keeping = &keeping, .graphs = &graphs, .peers = &peers,
    .timing = &timing, .tuner = &tuner, .gauges = &gauges};

extern const tri_cuda_plugin tri_cuda_plugin_table;
__attribute__((visibility("default"))) const tri_cuda_plugin tri_cuda_plugin_table = {
    .version = TRI_CUDA_PLUGIN_VERSION, .layout = TRI_PLUGIN_LAYOUT, .device = &gpu};
