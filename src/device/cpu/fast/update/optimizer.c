/* optimizer.c - the optimizers: elements by threads, in any order; LAMB's sums of squares in double, over blocks fixed
 * by the length. */
#include "device/cpu/cpu.h"
#include "device/cpu/fast/elementwise/simd_half.h"
#include "device/cpu/fast/runtime/call.h"
#include "device/cpu/fast/update/simd_optimizer.h"
#include "numbers/trust.h"

enum { BLOCKS = 64, CHUNK = 16384, ENOUGH = 1 << 14, GRAIN = 64 }; /* floats; blocks of sums are multiples of GRAIN */

/* Indices of operands; -1: the operation has none. */
typedef struct places {
    int p, m, v, g, hyper, coef;
} places;

static float *operand(const tri_call *call, int k) { return k < 0 ? NULL : f32(call, k); }

static tri_update_run run_of(const tri_call *call, const places *at) {
    const tri_attr *attr = call->attr;
    const float *hyper = f32(call, at->hyper);
    return (tri_update_run){.p = operand(call, at->p), .m = operand(call, at->m), .v = operand(call, at->v),
                            .g = operand(call, at->g), .coef = at->coef < 0 ? 1 : *f32(call, at->coef),
                            .lr = hyper[0] * tri__rate_factor(attr), .c1 = hyper[1], .c2 = hyper[2],
                            .beta1 = attr->beta1, .beta2 = attr->beta2, .eps = attr->eps, .decay = attr->decay,
                            .nesterov = attr->nesterov, .ratio = 1};
}

/* The same run from element i on. */
static tri_update_run from(const tri_update_run *run, int64_t i) {
    tri_update_run rest = *run;
    rest.p += i;
    if (run->m) rest.m += i;
    if (run->v) rest.v += i;
    if (run->g) rest.g += i;
    if (run->fresh) rest.fresh += i;
    return rest;
}

static void each_chunk(const tri_call *call, const tri_update_run *run, int64_t n,
                       void (*update)(const tri_update_run *run, int64_t n)) {
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < n; i += CHUNK) {
        tri_update_run chunk = from(run, i);
        update(&chunk, n - i < CHUNK ? n - i : CHUNK);
    }
}

static void adamw(const tri_call *call) {
    OPERANDS(adamw);
    if (!*i32(call, ARG(apply))) return;
    tri_update_run run = run_of(call, &(places){ARG(p), ARG(m), ARG(v), ARG(g), ARG(hyper), ARG(coef)});
    each_chunk(call, &run, elements(call, ARG(p)), call->attr->coupled ? simd_adam : simd_adamw);
}

/* With bf16 weights, by pieces that stay in a thread's cache between the update and the rounded copy. */
static void adamw_copy(const tri_call *call) {
    OPERANDS(adamw);
    enum { PIECE = 2048 };
    int64_t n = elements(call, ARG(p));
    int type = call->dtype[ARG(g)];
    if (!*i32(call, ARG(apply))) return;
    if (call->dtype[ARG(copy)] != TRI_BF16 || (type != TRI_BF16 && type != TRI_F32)) {
        tri__cpu_half_row(call);
        return;
    }
    tri_update_run all = run_of(call, &(places){ARG(p), ARG(m), ARG(v), -1, ARG(hyper), ARG(coef)});
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t size = n - i < PIECE ? n - i : PIECE;
        float wide[PIECE];
        tri_update_run run = from(&all, i);
        run.g = wide;
        if (type == TRI_BF16) simd_widen(size, bf16(call, ARG(g)) + i, wide);
        else run.g = f32(call, ARG(g)) + i;
        simd_adamw(&run, size);
        simd_narrow(size, run.p, bf16(call, ARG(copy)) + i);
    }
}

static void sgd(const tri_call *call) {
    OPERANDS(sgd);
    if (!*i32(call, ARG(apply))) return;
    tri_update_run run = run_of(call, &(places){ARG(p), ARG(m), -1, ARG(g), ARG(hyper), ARG(coef)});
    each_chunk(call, &run, elements(call, ARG(p)), simd_sgd);
}

/* An update with sums, where run->sums is not NULL, over blocks fixed by the length: `each` numbers of a block. The
 * operand, if it is there, gets the first n of their sums. */
static void each_block(const tri_call *call, const tri_update_run *run, int64_t length, int each,
                       void (*update)(const tri_update_run *run, int64_t n), int sums, int n) {
    int64_t size = ((length + BLOCKS - 1) / BLOCKS + GRAIN - 1) / GRAIN * GRAIN;
    double *part = call->work; /* [BLOCKS,each] */
#pragma omp parallel for schedule(static) num_threads(threads_for(call, length, ENOUGH))
    for (int64_t i = 0; i < BLOCKS; i++) {
        int64_t begin = i * size < length ? i * size : length, end = length - begin < size ? length : begin + size;
        tri_update_run block = from(run, begin);
        if (run->sums) block.sums = memset(part + each * i, 0, (size_t)each * sizeof *part);
        update(&block, end - begin);
    }
    for (int k = 0; k < n && f64(call, sums); k++) {
        double total = adds(call, sums) ? f64(call, sums)[k] : 0;
        for (int64_t i = 0; i < BLOCKS; i++) total += part[each * i + k];
        f64(call, sums)[k] = total;
    }
}

/* If apply is 0, moments stay, and the sums are those of what they were. */
static void lamb_moments(const tri_call *call) {
    OPERANDS(lamb_moments);
    tri_update_run run = run_of(call, &(places){ARG(p), ARG(m), ARG(v), ARG(g), ARG(hyper), ARG(coef)});
    if (!*i32(call, ARG(apply))) run.g = NULL;
    run.sums = f64(call, ARG(sums)); /* whether they are wanted */
    each_block(call, &run, elements(call, ARG(p)), 2, simd_lamb_moments, ARG(sums), 2);
}

static void lamb_step(const tri_call *call) {
    OPERANDS(lamb_step);
    if (!*i32(call, ARG(apply))) return;
    const double *sums = f64(call, ARG(sums)); /* [2], may be NULL; frozen: [3] */
    int frozen = call->attr->frozen;
    tri_update_run run = run_of(call, &(places){ARG(p), ARG(m), ARG(v), -1, ARG(hyper), -1});
    if (frozen) run.ratio = (float)tri__frozen_ratio(*f32(call, ARG(average)), *f32(call, ARG(factor)), sums);
    else if (sums && sums[0] > 0 && sums[1] > 0) run.ratio = (float)sqrt(sums[0] / sums[1]);
    each_chunk(call, &run, elements(call, ARG(p)), frozen ? simd_lamb_frozen : simd_lamb_step);
}

/* If apply is 0, the variance stays, and the sums are those of what it was. */
static void lamb_refresh(const tri_call *call) {
    OPERANDS(lamb_refresh);
    const double *part = call->work; /* [BLOCKS,4] */
    tri_update_run run = run_of(call, &(places){ARG(p), ARG(m), ARG(v), ARG(old), ARG(hyper), -1});
    run.fresh = f32(call, ARG(fresh)), run.c = f32(call, ARG(hyper))[3], run.sums = call->work;
    if (!*i32(call, ARG(apply))) run.g = NULL;
    each_block(call, &run, elements(call, ARG(p)), 4, simd_lamb_refresh, ARG(sums), 3);
    double most = 0;
    for (int64_t i = 0; i < BLOCKS; i++) most = fmax(most, part[4 * i + 3]);
    *f64(call, ARG(most)) = most;
}

TRI_FAST_ROWS(optimizer) = TRI_KERNEL_ROWS(
    TRI_KERNEL(adamw),
    {.op = TRI_OP_adamw, .dtype = TRI_F32, .run = adamw, .facts = TRI_FACT_COUPLED},
    {.op = TRI_OP_adamw, .dtype = TRI_BF16, .run = adamw_copy, .work = TRI_AS_HALF, .facts = TRI_FACT_COPY},
    TRI_KERNEL(sgd),
    {.op = TRI_OP_lamb_moments, .dtype = TRI_F32, .run = lamb_moments, .work = {.fixed = BLOCKS * 16}},
    TRI_KERNEL(lamb_step),
    {.op = TRI_OP_lamb_refresh, .dtype = TRI_F32, .run = lamb_refresh, .work = {.fixed = BLOCKS * 32}});
