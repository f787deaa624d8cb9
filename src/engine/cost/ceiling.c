/* ceiling.c - times one large matrix product on a device. */
#include "engine/cost/ceiling.h"

#include "numbers/float16.h"

enum { OPERANDS = 4 };
static const int operand[OPERANDS] = {TRI_ARG(linear, y), TRI_ARG(linear, x), TRI_ARG(linear, w), TRI_ARG(linear, b)};

typedef struct product {
    const tri_device *device;
    void *context;
    tri_kernel_table table;
    tri_call call;
    tri_attr attr;
    size_t bytes[OPERANDS], work_bytes;
} product;

/* Random numbers in -1 .. 1: a block of `block` numbers, repeated. */
static tri_status fill(product *p, int k, tri_dtype dtype) {
    enum { BLOCK = 1 << 20 };
    size_t bytes = p->bytes[k];
    TRI_OWNED(tri__free_at) char *from = malloc(bytes);
    if (!from) return tri__fail(TRI_RESOURCE, "out of memory");
    size_t width = tri__dtype_bytes(dtype), n = bytes / width;
    uint32_t random = (uint32_t)k + 1;
    for (size_t i = 0; i < n && i < BLOCK; i++) {
        random = random * 1664525u + 1013904223u;
        float value = (float)(int32_t)random * 0x1p-31f;
        uint16_t half = dtype == TRI_BF16 ? tri__to_bf16(value) : tri__to_f16(value);
        memcpy(from + i * width, width == 2 ? (void *)&half : (void *)&value, width);
    }
    for (size_t at = BLOCK * width; at < bytes; at += BLOCK * width)
        memcpy(from + at, from, bytes - at < BLOCK * width ? bytes - at : BLOCK * width);
    if (p->device->async) TRI_TRY(p->device->async->copy(p->context, p->call.t[operand[k]].data, from, bytes));
    else memcpy(p->call.t[operand[k]].data, from, bytes);
    return TRI_OK;
}

static tri_status prepare(product *p, const tri_ceiling_product *of) {
    const tri_device *d = p->device;
    tri_dtype dtype = of->dtype;
    int64_t n = of->n, rows[OPERANDS] = {n, n, n, 1};
    p->call = (tri_call){
        .op = TRI_OP_linear, .table = &p->table, .attr = &p->attr, .threads = of->threads, .context = p->context};
    for (int k = 0; k < OPERANDS; k++) {
        p->bytes[k] = (size_t)rows[k] * (size_t)n * tri__dtype_bytes(dtype);
        p->call.t[operand[k]] = (tri_tensor){NULL, rows[k], n};
        p->call.dtype[operand[k]] = (uint8_t)dtype;
        TRI_TRY(d->alloc(p->context, p->bytes[k], &p->call.t[operand[k]].data));
        TRI_TRY(fill(p, k, dtype));
    }
    int64_t halves = tri__dtype_bytes(dtype) == 2 ? 3 * n * n + n : 0;
    const tri_workspace *work = &p->table.work[tri__variant(TRI_OP_linear, &p->attr)][dtype];
    p->work_bytes = (size_t)tri__workspace_bytes(work, n, n, halves);
    return d->alloc(p->context, p->work_bytes, &p->call.work);
}

static tri_status time_products(product *p, tri_kernel *run, const tri_ceiling_product *of, tri_time *times) {
    const tri_async *async = p->device->async;
    const tri_timing *timing = p->device->timing;
    for (int i = 0; i < of->warmup; i++) run(&p->call);
    for (int i = 0; i < of->timed; i++) {
        if (async) timing->mark(p->context, i);
        times[i].begin = tri__clock();
        run(&p->call);
        times[i].end = tri__clock();
    }
    if (!async) return TRI_OK;
    timing->mark(p->context, of->timed);
    TRI_TRY(async->finish(p->context));
    timing->times(p->context, of->timed, times);
    return TRI_OK;
}

static int shorter(const void *a, const void *b) {
    const tri_time *x = a, *y = b;
    double difference = (x->end - x->begin) - (y->end - y->begin);
    return (difference > 0) - (difference < 0);
}

tri_status tri__ceiling(const tri_device *device, const tri_ceiling_product *of, double *flops) {
    tri_time times[TRI_CEILING_TIMED] = {{0}};
    double n = of->n;
    int at = of->shortest ? 0 : of->timed / 2;
    TRI_OWNED(tri__free_at) product *p = calloc(1, sizeof *p);
    *flops = 0;
    TRI_ASSERT(of->timed > 0 && of->timed <= TRI_CEILING_TIMED);
    if (!p) return tri__fail(TRI_RESOURCE, "out of memory");
    p->device = device;
    device->kernels(&p->table);
    tri_kernel *run = tri__kernel(&p->table, TRI_OP_linear, &p->attr, of->dtype);
    tri_status status = run ? device->open(&tri__core, 0, 0, &p->context) : TRI_OK;
    if (run && status == TRI_OK) status = prepare(p, of);
    if (run && status == TRI_OK) status = time_products(p, run, of, times);
    if (run && status == TRI_OK) {
        qsort(times, (size_t)of->timed, sizeof *times, shorter);
        *flops = 2 * n * n * n / (times[at].end - times[at].begin);
    }
    for (int k = 0; k < OPERANDS; k++) device->free(p->context, p->call.t[operand[k]].data, p->bytes[k]);
    device->free(p->context, p->call.work, p->work_bytes);
    device->close(p->context);
    return status;
}
