/* coded.c - numbers on their way between ranks in fewer bits (layout/coded.h): the bytes of the plain rows, block by
 * block, threads over blocks. Whole blocks of fp32 and bf16 are coded in place; others pass through a buffer. */
#include "device/cpu/coded.h"
#include "device/cpu/convert.h"
#include "device/cpu/fast/call.h"

#include <math.h>
#include <string.h>

enum { BLOCK = TRI_CODE_BLOCK, ENOUGH = 1 << 14, TASK = 32, CHUNK = 16384 }; /* elements; blocks; elements */

static int applies(const tri_call *call, int apply) { return !call->t[apply].data || *i32(call, apply); }

static void *at_element(const tri_call *call, int k, int64_t i) {
    return (char *)call->t[k].data + i * (int64_t)tri__dtype_bytes((tri_dtype)call->dtype[k]);
}

static int64_t blocks_of(int64_t n) { return (n + BLOCK - 1) / BLOCK; }
static int64_t at_most(int64_t n, int64_t limit) { return n < limit ? n : limit; }

/* Parts of a vector of K elements, in tasks of TASK blocks each. */
typedef struct tasks {
    int64_t K, parts, each; /* each: tasks of a part, at most */
} tasks;
/* Blocks `first` to end - 1 of part k, whose elements are `of`. */
typedef struct task {
    int64_t part, first, end;
    tri_range of;
} task;

static tasks tasks_of(int64_t K, int64_t parts) {
    int64_t blocks = blocks_of(tri__range_count(tri__shard(K, (int)parts, 0)));
    return (tasks){K, parts, (blocks + TASK - 1) / TASK};
}

static task task_at(const tasks *all, int64_t i) {
    task at = {.part = i / all->each, .first = i % all->each * TASK};
    at.of = tri__shard(all->K, (int)all->parts, (int)at.part);
    at.end = at_most(at.first + TASK, blocks_of(tri__range_count(at.of)));
    return at;
}

/* Where the numbers of a block are, and buffers for those that are not whole or of another type. */
typedef struct packing {
    tri_coded_in in;
    float *e, t[BLOCK], part[3][BLOCK]; /* e NULL: none */
} packing;

/* n elements of an operand from `at` on: in place, or in `buffer`, filled up with zeros. NULL if it is left out. */
static float *whole(const tri_call *call, int k, int64_t at, int64_t n, float *buffer) {
    if (!call->t[k].data) return NULL;
    if (n == BLOCK && call->dtype[k] == TRI_F32) return f32(call, k) + at;
    tri__widen(call->dtype[k], n, at_element(call, k, at), buffer);
    memset(buffer + n, 0, (size_t)(BLOCK - n) * sizeof *buffer);
    return buffer;
}

/* Returns what is coded, [BLOCK]. */
static const float *gather_block(const tri_call *call, int64_t at, int64_t n, packing *p) {
    OPERANDS(pack);
    int in_place = n == BLOCK && call->t[ARG(x)].data && call->dtype[ARG(x)] == TRI_BF16;
    p->e = whole(call, ARG(e), at, n, p->part[1]);
    p->in = (tri_coded_in){.half = in_place ? at_element(call, ARG(x), at) : NULL,
                           .x = in_place ? NULL : whole(call, ARG(x), at, n, p->part[0]),
                           .e = p->e,
                           .mask = whole(call, ARG(mask), at, n, p->part[2]),
                           .factor = f32(call, ARG(scale)) ? *f32(call, ARG(scale)) : 1};
    if (p->in.x && !p->e && !p->in.mask) return p->in.x;
    tri__simd()->coded_take(&p->in, p->t);
    return p->t;
}

/* The scale of signs: n elements of t, and zeros. */
static float mean_of(const float *t, const float *mask, int64_t n) {
    double sums[16];
    int count = mask ? 0 : (int)n;
    for (int64_t i = 0; mask && i < n; i++) count += mask[i] != 0;
    tri__simd()->coded_sums(t, sums);
    return tri__code_mean(sums, count);
}

/* Codes elements `at` to at + n - 1. */
static void pack_block(const tri_call *call, const tri_coded_row *row, int64_t block, int64_t at, int64_t n,
                       packing *p) {
    OPERANDS(pack);
    const tri_simd *simd = tri__simd();
    const float *t = gather_block(call, at, n, p);
    tri_code code = row->code;
    uint8_t *payload = tri__coded_payload(row, block);
    float largest = code == TRI_CODE_SIGNS ? 0 : simd->largest(BLOCK, t), scale = 1;
    if (code == TRI_CODE_SIGNS) scale = mean_of(t, p->in.mask, n);
    else if (code != TRI_CODE_BF16) scale = tri__code_scale(code, largest);
    if (code != TRI_CODE_BF16) row->scale[block] = scale;
    if (!isfinite(scale) || largest != largest) { /* e stays */
        memset(payload, 0, (size_t)tri__code_payload(code));
        for (int64_t i = 0; i < n; i++) tri__encode(code, payload, i, t[i], scale);
        return;
    }
    int keeps = p->e && tri__code_finite(code, largest, scale);
    simd->encode[code](&(tri_coded_out){.t = t,
                                        .scale = scale,
                                        .payload = payload,
                                        .e = keeps ? p->e : NULL,
                                        .mask = p->in.mask,
                                        .after = 1 / p->in.factor});
    if (keeps && n < BLOCK) memcpy(f32(call, ARG(e)) + at, p->e, (size_t)n * sizeof(float));
}

/* Zeros after what a row holds: room for payloads and scales of a larger part, and its end. */
static void clear_ends(const tri_call *call, int q, const tasks *all) {
    for (int64_t k = 0; k < all->parts; k++) {
        tri_coded_row row = tri__coded_row_of(call, q, k);
        int64_t blocks = blocks_of(tri__range_count(tri__shard(all->K, (int)all->parts, (int)k)));
        uint8_t *payload = tri__coded_payload(&row, blocks), *scales = (uint8_t *)row.scale,
                *end = row.payload + call->t[q].cols;
        uint8_t *after = row.code == TRI_CODE_BF16 ? scales : scales + blocks * (int64_t)sizeof(float);
        memset(payload, 0, (size_t)(scales - payload));
        memset(after, 0, (size_t)(end - after));
    }
}

static void pack(const tri_call *call) {
    OPERANDS(pack);
    if (!applies(call, ARG(apply))) return;
    int64_t K = elements(call, call->t[ARG(x)].data ? ARG(x) : ARG(e));
    tasks all = tasks_of(K, call->t[ARG(q)].rows);
    clear_ends(call, ARG(q), &all);
#pragma omp parallel for schedule(static) num_threads(threads_for(call, K, ENOUGH))
    for (int64_t i = 0; i < all.parts * all.each; i++) {
        task at = task_at(&all, i);
        tri_coded_row row = tri__coded_row_of(call, ARG(q), at.part);
        packing p;
        for (int64_t block = at.first; block < at.end; block++) {
            int64_t begin = at.of.begin + block * BLOCK;
            pack_block(call, &row, block, begin, at_most(at.of.end - begin, BLOCK), &p);
        }
    }
}

/* y [BLOCK] = what a block stands for, or y += it. */
static void decode_block(const tri_coded_row *row, int64_t block, float *y, int add) {
    const uint8_t *payload = tri__coded_payload(row, block);
    float scale = tri__coded_scale(row, block);
    if (isfinite(scale)) tri__simd()->decode[row->code](payload, scale, y, add);
    else
        for (int64_t i = 0; i < BLOCK; i++) {
            float value = tri__decode(row->code, payload, i, scale);
            y[i] = add ? y[i] + value : value;
        }
}

/* n elements of operand y from `at` on. */
static void save_block(const tri_call *call, int y, int64_t at, int64_t n, const float *from) {
    if (n == BLOCK && call->dtype[y] == TRI_BF16) tri__simd()->coded_to_bf16(from, at_element(call, y, at));
    else tri__narrow(call->dtype[y], n, from, at_element(call, y, at));
}

static void unpack(const tri_call *call) {
    OPERANDS(unpack);
    int64_t K = elements(call, ARG(y));
    tasks all = tasks_of(K, call->t[ARG(q)].rows);
#pragma omp parallel for schedule(static) num_threads(threads_for(call, K, ENOUGH))
    for (int64_t i = 0; i < all.parts * all.each; i++) {
        task at = task_at(&all, i);
        tri_coded_row row = tri__coded_row_of(call, ARG(q), at.part);
        for (int64_t block = at.first; block < at.end; block++) {
            float buffer[BLOCK];
            int64_t begin = at.of.begin + block * BLOCK, n = at_most(at.of.end - begin, BLOCK);
            int in_place = n == BLOCK && call->dtype[ARG(y)] == TRI_F32;
            decode_block(&row, block, in_place ? f32(call, ARG(y)) + begin : buffer, 0);
            if (!in_place) save_block(call, ARG(y), begin, n, buffer);
        }
    }
}

static void unpack_sum(const tri_call *call) {
    OPERANDS(unpack_sum);
    int64_t K = elements(call, ARG(y)), M = call->t[ARG(q)].rows, blocks = blocks_of(K);
    if (!applies(call, ARG(apply))) return;
#pragma omp parallel for schedule(static) num_threads(threads_for(call, K * M, ENOUGH))
    for (int64_t block = 0; block < blocks; block++) {
        float total[BLOCK], old[BLOCK];
        int64_t begin = block * BLOCK, n = at_most(K - begin, BLOCK);
        for (int64_t k = 0; k < M; k++) {
            tri_coded_row row = tri__coded_row_of(call, ARG(q), k);
            decode_block(&row, block, total, k > 0);
        }
        if (adds(call, ARG(y))) {
            const float *y = whole(call, ARG(y), begin, n, old);
            for (int64_t i = 0; i < BLOCK; i++) total[i] += y[i];
        }
        save_block(call, ARG(y), begin, n, total);
    }
}

static void momentum_in(const tri_call *call) {
    OPERANDS(momentum_in);
    double kept = (double)call->attr->beta1 / call->attr->members,
           fresh = (1 - (double)call->attr->beta1) * *f32(call, ARG(coef));
    int64_t K = elements(call, ARG(e));
    if (!applies(call, ARG(apply))) return;
#pragma omp parallel for schedule(static) num_threads(threads_for(call, K, ENOUGH))
    for (int64_t at = 0; at < K; at += BLOCK) {
        float buffer[BLOCK];
        int64_t n = at_most(K - at, BLOCK);
        const float *g = whole(call, ARG(g), at, n, buffer);
        tri__simd()->momentum(n, f32(call, ARG(e)) + at, f32(call, ARG(m)) + at, g, kept, fresh);
    }
}

/* Where m is not 0. */
static void replace(int64_t n, const float *value, float *m) {
    for (int64_t i = 0; i < n; i++) {
        float size = fabsf(value[i]),
              fresh = copysignf(size < TRI_LEAST_MOMENTUM ? TRI_LEAST_MOMENTUM : size, value[i]);
        m[i] = m[i] != 0 ? fresh : m[i];
    }
}

static void momentum_out(const tri_call *call) {
    OPERANDS(momentum_out);
    int64_t K = elements(call, ARG(m));
    tasks all = tasks_of(K, call->t[ARG(q)].rows);
    if (!applies(call, ARG(apply))) return;
#pragma omp parallel for schedule(static) num_threads(threads_for(call, K, ENOUGH))
    for (int64_t i = 0; i < all.parts * all.each; i++) {
        task at = task_at(&all, i);
        tri_coded_row row = tri__coded_row_of(call, ARG(q), at.part);
        for (int64_t block = at.first; block < at.end; block++) {
            float value[BLOCK];
            int64_t begin = at.of.begin + block * BLOCK;
            decode_block(&row, block, value, 0);
            replace(at_most(at.of.end - begin, BLOCK), value, f32(call, ARG(m)) + begin);
        }
    }
}

static void adamw_frozen(const tri_call *call) {
    OPERANDS(adamw_frozen);
    const float *hyper = f32(call, ARG(hyper)); /* [4] */
    int64_t K = elements(call, ARG(p));
    if (!applies(call, ARG(apply))) return;
#pragma omp parallel for schedule(static) num_threads(threads_for(call, K, ENOUGH))
    for (int64_t at = 0; at < K; at += CHUNK) {
        tri_update_run a = {.p = f32(call, ARG(p)) + at,
                       .m = f32(call, ARG(m)) + at,
                       .v = f32(call, ARG(v)) + at,
                       .lr = hyper[0],
                       .c1 = hyper[1],
                       .c2 = hyper[2],
                       .eps = call->attr->eps,
                       .decay = call->attr->decay};
        tri__simd()->adamw_frozen(&a, at_most(K - at, CHUNK));
    }
}

#define ROWS(op_) \
    {.op = TRI_OP_##op_, .dtype = TRI_F32, .run = op_}, {.op = TRI_OP_##op_, .dtype = TRI_BF16, .run = op_}, \
    {.op = TRI_OP_##op_, .dtype = TRI_F16, .run = op_}
const tri_kernel_row tri__cpu_coded_fast[] = {
    ROWS(pack), ROWS(unpack), ROWS(unpack_sum), ROWS(momentum_in), ROWS(momentum_out), ROWS(adamw_frozen),
    {.run = NULL},
};
