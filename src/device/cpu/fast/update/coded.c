/* coded.c - numbers on their way between ranks in fewer bits (numbers/coded.h): the bytes of the plain rows, block by
 * block, threads over blocks. Whole blocks of fp32 and bf16 are coded in place; others pass through a buffer in the
 * first-level cache. */
#include "device/cpu/coded.h"
#include "device/cpu/convert.h"
#include "device/cpu/fast/runtime/call.h"
#include "device/cpu/fast/update/simd_coded.h"

/* Elements of a block; those that justify more than one thread; blocks of a task, and of a run, whose numbers stay in
 * the first-level cache; elements of other work. */
enum { BLOCK = TRI_CODE_BLOCK, ENOUGH = 1 << 14, TASK = 32, RUN = 8, CHUNK = 16384 };

static int applies(const tri_call *call, int apply) { return !call->t[apply].data || *i32(call, apply); }

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

/* A run of whole blocks, or one that is filled up with zeros: where its numbers are, in place or in buffers. */
typedef struct run {
    int64_t at, n, blocks; /* elements; n < BLOCK: of one block */
    tri_coded_in in;
    const float *t;        /* [blocks,BLOCK]; NULL: coded from in.half */
    float *e;              /* NULL: none */
    float scale[RUN], largest[RUN], sum[RUN * BLOCK], part[3][BLOCK];
} run;

/* As tri__widen and tri__narrow, whole blocks by vectors. */
static void widen_blocks(int dtype, int64_t n, const void *from, float *to) {
    int64_t fast = dtype == TRI_F16 ? n / BLOCK * BLOCK : 0;
    if (fast) simd_coded_from_f16(fast, from, to);
    tri__widen(dtype, n - fast, (const uint16_t *)from + fast, to + fast);
}
static void narrow_blocks(int dtype, int64_t n, const float *from, void *to) {
    int64_t fast = dtype == TRI_F32 ? 0 : n / BLOCK * BLOCK;
    if (fast) simd_coded_to_half(fast, from, to, dtype == TRI_BF16);
    tri__narrow(dtype, n - fast, from + fast, (uint16_t *)to + fast);
}

/* n elements of an operand from `at` on: in place, or in `buffer`, filled up with zeros. NULL if it is left out. */
static float *whole(const tri_call *call, int k, int64_t at, int64_t n, float *buffer) {
    if (!call->t[k].data) return NULL;
    if (n >= BLOCK && call->dtype[k] == TRI_F32) return f32(call, k) + at;
    int64_t blocks = blocks_of(n);
    widen_blocks(call->dtype[k], n, at_element(call, k, at), buffer);
    memset(buffer + n, 0, (size_t)(blocks * BLOCK - n) * sizeof *buffer);
    return buffer;
}

/* Finds, or makes, what is coded. */
static void gather_run(const tri_call *call, run *r) {
    OPERANDS(pack);
    int has_x = call->t[ARG(x)].data != NULL, in_place = r->n >= BLOCK && has_x && call->dtype[ARG(x)] == TRI_BF16;
    r->e = whole(call, ARG(e), r->at, r->n, r->part[1]);
    r->in = (tri_coded_in){.half = in_place ? at_element(call, ARG(x), r->at) : NULL,
                           .x = in_place ? NULL : whole(call, ARG(x), r->at, r->n, r->sum),
                           .e = r->e,
                           .mask = whole(call, ARG(mask), r->at, r->n, r->part[2]),
                           .factor = f32(call, ARG(scale)) ? *f32(call, ARG(scale)) : 1};
    int as_is = !r->e && !r->in.mask, is_signs = call->attr->code == TRI_CODE_SIGNS;
    if (as_is && r->in.x) r->t = r->in.x;
    else if (as_is && r->in.half && !is_signs) r->t = NULL;
    else r->t = r->sum;
    if (r->t == r->sum && !(as_is && r->in.x) && !is_signs)
        simd_coded_take(&r->in, r->blocks, r->sum, r->largest);
}

/* Block k of the run in signs: its scale. */
static float signs_block(run *r, int64_t k, uint8_t *payload) {
    int64_t at = k * BLOCK;
    double sums[16];
    tri_coded_in in = {.x = r->in.x ? r->in.x + at : NULL, .half = r->in.half ? r->in.half + at : NULL,
                       .e = r->in.e ? r->in.e + at : NULL, .mask = r->in.mask ? r->in.mask + at : NULL,
                       .factor = r->in.factor};
    int64_t open = simd_coded_signs(&in, r->sum + at, payload + k * tri__code_payload(TRI_CODE_SIGNS), sums);
    return tri__code_mean(sums, (double)(in.mask ? open : at_most(r->n - at, BLOCK)));
}

/* Scales of all blocks, and the payload of signs; returns whether all are finite, and all errors can be kept. */
static int scale_run(tri_code code, run *r, uint8_t *payload) {
    int finite = 1;
    if (code == TRI_CODE_SIGNS) memset(r->largest, 0, sizeof r->largest);
    else if (!r->t) simd_coded_largest_bf16(r->blocks, r->in.half, r->largest);
    else if (r->t != r->sum || r->t == r->in.x) simd_coded_largest(r->blocks, r->t, r->largest);
    for (int64_t k = 0; k < r->blocks; k++) {
        if (code == TRI_CODE_SIGNS) r->scale[k] = signs_block(r, k, payload);
        else r->scale[k] = code == TRI_CODE_BF16 ? 1 : tri__code_scale(code, r->largest[k]);
        finite = finite && tri__code_finite(code, r->largest[k], r->scale[k]);
    }
    return finite;
}

/* Blocks `first` to end - 1 of the run; all are finite, and their errors are kept. */
static void encode_run(tri_code code, const run *r, int64_t first, int64_t end, int keeps, uint8_t *payload) {
    int64_t at = first * BLOCK;
    encode_by[code](&(tri_coded_out){.blocks = end - first, .t = r->t ? r->t + at : NULL,
                                     .half = r->t ? NULL : r->in.half + at, .scale = r->scale + first,
                                     .payload = payload + first * tri__code_payload(code),
                                     .e = keeps && r->e ? r->e + at : NULL,
                                     .mask = r->in.mask ? r->in.mask + at : NULL, .after = 1 / r->in.factor});
}

/* The same one by one, where some may not be finite. */
static void encode_singly(tri_code code, const run *r, uint8_t *payload) {
    for (int64_t k = 0; k < r->blocks; k++) {
        uint8_t *to = payload + k * tri__code_payload(code);
        if (isfinite(r->scale[k]) && r->largest[k] == r->largest[k]) {
            encode_run(code, r, k, k + 1, tri__code_finite(code, r->largest[k], r->scale[k]), payload);
            continue;
        }
        memset(to, 0, (size_t)tri__code_payload(code));
        for (int64_t i = 0; i < BLOCK; i++) {
            float t = r->t ? r->t[k * BLOCK + i] : tri__from_bf16(r->in.half[k * BLOCK + i]);
            if (k * BLOCK + i < r->n) tri__encode(code, to, i, t, r->scale[k]);
        }
    }
}

/* Codes the run into blocks of the row from `block` on. */
static void pack_run(const tri_call *call, const tri_coded_row *row, int64_t block, run *r) {
    OPERANDS(pack);
    tri_code code = row->code;
    gather_run(call, r);
    uint8_t *payload = tri__coded_payload(row, block);
    if (scale_run(code, r, payload)) encode_run(code, r, 0, r->blocks, 1, payload);
    else encode_singly(code, r, payload);
    if (code != TRI_CODE_BF16) memcpy(row->scale + block, r->scale, (size_t)r->blocks * sizeof(float));
    if (r->e == r->part[1]) memcpy(f32(call, ARG(e)) + r->at, r->e, (size_t)r->n * sizeof(float));
}

/* Whole blocks in runs of RUN, or what is left of the part: from block `first` of a task on. */
static run *next_run(const task *at, int64_t first, run *r) {
    int64_t left = at->of.end - at->of.begin - first * BLOCK, limit = (at->end - first) * BLOCK;
    r->at = at->of.begin + first * BLOCK;
    r->n = at_most(at_most(left, limit), RUN * BLOCK);
    if (r->n >= BLOCK) r->n = r->n / BLOCK * BLOCK;
    r->blocks = blocks_of(r->n);
    return r;
}

/* Zeros after what a row holds: room for payloads and scales of a larger part, and its end. */
static void clear_ends(const tri_call *call, int q, int64_t K) {
    int parts = (int)call->t[q].rows;
    for (int k = 0; k < parts; k++) {
        tri_coded_row row = tri__coded_row_of(call, q, k);
        int64_t blocks = blocks_of(tri__range_count(tri__shard(K, parts, k)));
        uint8_t *payload = tri__coded_payload(&row, blocks), *scales = (uint8_t *)row.scale,
                *end = row.payload + call->t[q].cols;
        uint8_t *after = row.code == TRI_CODE_BF16 ? scales : scales + blocks * (int64_t)sizeof(float);
        memset(payload, 0, (size_t)(scales - payload));
        memset(after, 0, (size_t)(end - after));
    }
}

/* Each run of blocks of each row q, which has a part of K elements. */
static void each_run(const tri_call *call, int q, int64_t K,
                     void (*take)(const tri_call *call, const tri_coded_row *row, int64_t block, run *r)) {
    tasks all = tasks_of(K, call->t[q].rows);
#pragma omp parallel for schedule(static) num_threads(threads_for(call, K, ENOUGH))
    for (int64_t i = 0; i < all.parts * all.each; i++) {
        task at = task_at(&all, i);
        tri_coded_row row = tri__coded_row_of(call, q, at.part);
        run r;
        for (int64_t block = at.first; block < at.end; block += r.blocks)
            take(call, &row, block, next_run(&at, block, &r));
    }
}

static void pack(const tri_call *call) {
    OPERANDS(pack);
    if (!applies(call, ARG(apply))) return;
    int64_t K = elements(call, call->t[ARG(x)].data ? ARG(x) : ARG(e));
    clear_ends(call, ARG(q), K);
    each_run(call, ARG(q), K, pack_run);
}

/* y [blocks,BLOCK] = what blocks of a row stand for, or y += it. */
static void decode_run(const tri_coded_row *row, int64_t block, int64_t blocks, void *y, tri_coded_to to) {
    const uint8_t *payload = tri__coded_payload(row, block);
    float none[RUN], *scale = row->code == TRI_CODE_BF16 ? none : row->scale + block, *wide = y;
    int finite = 1;
    for (int64_t k = 0; k < blocks; k++) none[k] = 1, finite = finite && isfinite(scale[k]);
    if (finite) decode_by[row->code](blocks, payload, scale, y, to);
    for (int64_t i = 0; !finite && i < blocks * BLOCK; i++) {
        float value = tri__decode(row->code, payload + i / BLOCK * tri__code_payload(row->code), i % BLOCK,
                                  scale[i / BLOCK]);
        if (to == TRI_TO_BF16) ((uint16_t *)y)[i] = tri__to_bf16(value);
        else if (to == TRI_TO_F16) ((uint16_t *)y)[i] = tri__to_f16(value);
        else if (to == TRI_TO_MOMENTUM) simd_coded_replace(1, &value, wide + i);
        else wide[i] = to == TRI_TO_SUM ? wide[i] + value : value;
    }
}

static void unpack_run(const tri_call *call, const tri_coded_row *row, int64_t block, run *r) {
    OPERANDS(unpack);
    tri_dtype type = (tri_dtype)call->dtype[ARG(y)];
    tri_coded_to to = type == TRI_BF16 ? TRI_TO_BF16 : type == TRI_F16 ? TRI_TO_F16 : TRI_TO_F32;
    void *y = at_element(call, ARG(y), r->at);
    int in_place = r->n >= BLOCK;
    decode_run(row, block, r->blocks, in_place ? y : r->sum, in_place ? to : TRI_TO_F32);
    if (!in_place) narrow_blocks(type, r->n, r->sum, y);
}

static void unpack(const tri_call *call) {
    OPERANDS(unpack);
    each_run(call, ARG(q), elements(call, ARG(y)), unpack_run);
}

/* y = the rows' sum, or y += it: n elements from `block` on, whole blocks or less than one. */
static void sum_run(const tri_call *call, int64_t block, int64_t n) {
    OPERANDS(unpack);
    int type = call->dtype[ARG(y)], add = adds(call, ARG(y)), in_place = n >= BLOCK && type == TRI_F32 && !add;
    float buffer[2][RUN * BLOCK], *total = in_place ? f32(call, ARG(y)) + block * BLOCK : buffer[0];
    for (int64_t k = 0; k < call->t[ARG(q)].rows; k++) {
        tri_coded_row row = tri__coded_row_of(call, ARG(q), k);
        decode_run(&row, block, blocks_of(n), total, k ? TRI_TO_SUM : TRI_TO_F32);
    }
    if (in_place) return;
    void *y = at_element(call, ARG(y), block * BLOCK);
    float *before = type == TRI_F32 ? y : buffer[1];
    if (add && type != TRI_F32) widen_blocks(type, n, y, before);
    for (int64_t i = 0; add && i < n; i++) total[i] += before[i];
    narrow_blocks(type, n, total, y);
}

static void unpack_sum(const tri_call *call) {
    OPERANDS(unpack);
    int64_t K = elements(call, ARG(y)), whole_blocks = K / BLOCK;
    if (!applies(call, ARG(apply))) return;
#pragma omp parallel for schedule(static) num_threads(threads_for(call, K * call->t[ARG(q)].rows, ENOUGH))
    for (int64_t block = 0; block < whole_blocks; block += RUN)
        sum_run(call, block, at_most(whole_blocks - block, RUN) * BLOCK);
    if (K % BLOCK) sum_run(call, whole_blocks, K % BLOCK);
}

/* m, g: [n] each, at most RUN * BLOCK */
static void add_gradient(int64_t n, float *m, const float *g, double change, double fresh) {
    float value[RUN * BLOCK];
    memcpy(value, m, (size_t)n * sizeof *m);
    simd_momentum(&(tri_momentum_run){.e = value, .m = m, .g = g, .kept = change, .fresh = fresh}, n);
    simd_coded_replace(n, value, m);
}

/* With e, a copy's own, whose gradient stands for that of all copies. */
static void momentum(const tri_call *call) {
    OPERANDS(momentum);
    float *e = f32(call, ARG(e)); /* [K]; may be NULL */
    double members = e ? call->attr->members : 1, change = (double)call->attr->beta1 - 1,
           fresh = -change * members * *f32(call, ARG(coef)), share = e ? f32(call, ARG(hyper))[3] / members : 0;
    int64_t K = elements(call, ARG(m));
    if (!applies(call, ARG(apply))) return;
#pragma omp parallel for schedule(static) num_threads(threads_for(call, K, ENOUGH))
    for (int64_t at = 0; at < K; at += RUN * BLOCK) {
        float buffer[RUN * BLOCK], *m = f32(call, ARG(m)) + at;
        int64_t n = at_most(K - at, RUN * BLOCK);
        const float *g = whole(call, ARG(g), at, n, buffer);
        add_gradient(n, m, g, change, fresh);
        if (e) simd_momentum(&(tri_momentum_run){.e = e + at, .m = m, .g = g, .kept = share}, n);
    }
}

static void momentum_in(const tri_call *call) {
    OPERANDS(momentum);
    double kept = (double)call->attr->beta1 / call->attr->members,
           fresh = (1 - (double)call->attr->beta1) * *f32(call, ARG(coef));
    const float *v = f32(call, ARG(v)); /* [K]; may be NULL */
    int64_t K = elements(call, ARG(e));
    if (!applies(call, ARG(apply))) return;
#pragma omp parallel for schedule(static) num_threads(threads_for(call, K, ENOUGH))
    for (int64_t at = 0; at < K; at += RUN * BLOCK) {
        float buffer[RUN * BLOCK];
        int64_t n = at_most(K - at, RUN * BLOCK);
        const float *g = whole(call, ARG(g), at, n, buffer);
        tri_momentum_run part = {.e = f32(call, ARG(e)) + at, .m = f32(call, ARG(m)) + at, .g = g, .kept = kept,
                                 .fresh = fresh, .eps = call->attr->eps};
        if (v) part.v = v + at;
        simd_momentum(&part, n);
    }
}

static void momentum_out_run(const tri_call *call, const tri_coded_row *row, int64_t block, run *r) {
    OPERANDS(momentum_out);
    const float *v = f32(call, ARG(v)); /* [K]; may be NULL */
    float *m = f32(call, ARG(m)) + r->at;
    int in_place = r->n >= BLOCK && !v;
    decode_run(row, block, r->blocks, in_place ? m : r->sum, in_place ? TRI_TO_MOMENTUM : TRI_TO_F32);
    if (v) simd_momentum_unit(r->n, v + r->at, call->attr->eps, r->sum);
    if (!in_place) simd_coded_replace(r->n, r->sum, m);
}

static void momentum_out(const tri_call *call) {
    OPERANDS(momentum_out);
    if (applies(call, ARG(apply))) each_run(call, ARG(q), elements(call, ARG(m)), momentum_out_run);
}

static void adamw_frozen(const tri_call *call) {
    OPERANDS(adamw_frozen);
    const float *hyper = f32(call, ARG(hyper)); /* [4] */
    const tri_attr *attr = call->attr;
    tri_update_run run = {.p = f32(call, attr->meet ? ARG(anchor) : ARG(p)), .m = f32(call, ARG(m)),
                          .v = f32(call, ARG(v)), .lr = hyper[0] * tri__rate_factor(attr), .c1 = hyper[1],
                          .c2 = hyper[2], .eps = attr->eps, .decay = attr->decay};
    int64_t K = elements(call, ARG(p));
    if (!applies(call, ARG(apply))) return;
    if (attr->meet) run.lr /= hyper[3];
#pragma omp parallel for schedule(static) num_threads(threads_for(call, K, ENOUGH))
    for (int64_t at = 0; at < K; at += CHUNK) {
        tri_update_run a = run;
        int64_t n = at_most(K - at, CHUNK);
        a.p += at, a.m += at, a.v += at;
        simd_adamw_frozen(&a, n);
        if (attr->meet) memcpy(f32(call, ARG(p)) + at, a.p, (size_t)n * sizeof(float));
    }
}

#define ROWS(op_) TRI_WIDTH_ROWS(op_, op_, 0)
TRI_FAST_ROWS(coded) = TRI_KERNEL_ROWS(
    ROWS(pack), ROWS(unpack), TRI_WIDTH_ROWS(unpack, unpack_sum, TRI_FACT_SUM), ROWS(momentum),
    TRI_WIDTH_ROWS(momentum, momentum_in, TRI_FACT_SENT),
    TRI_WIDTH_ROWS(momentum, momentum, TRI_FACT_SENT | TRI_FACT_OWN), ROWS(momentum_out), ROWS(adamw_frozen));
