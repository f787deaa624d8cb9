/* codes.c - times of pack, unpack, unpack_sum and momentum_out for every code: a rank alone sends nothing, so
 * these operations are in none of the programs that kernels.c runs. */
#include "study/calibrate/calibrate_parts.h"

#include "numbers/float16.h"

enum { TRIES = 5, SIZES = 3, MEMBERS = 2 };
static const int64_t sizes[SIZES] = {1 << 14, 1 << 18, 1 << 23}; /* elements */

/* Calls that are timed, of fp32 and of bf16. Signs keep the error of a masked momentum, other codes that of x. */
static const struct kind {
    tri_op op;
    int keeps, sums;             /* errors; rows */
} kinds[] = {{TRI_OP_pack, 0, 0}, {TRI_OP_pack, 1, 0}, {TRI_OP_unpack, 0, 0}, {TRI_OP_unpack, 0, 1},
             {TRI_OP_momentum_out, 0, 0}};
enum { KINDS = sizeof kinds / sizeof *kinds };

typedef struct numbers {
    float *x, *e, *m, *v;        /* [n] */
    uint16_t *half;              /* [n] bf16 */
    uint8_t *q;                  /* [MEMBERS] rows of any code */
    int32_t apply;
} numbers;

static void drop(numbers *of) {
    TRI_FREE(of->x, of->e, of->m, of->v, of->half, of->q);
}

static int64_t bytes_of(int64_t n) { return n * 18 + MEMBERS * tri__coded_bytes(TRI_CODE_BF16, n); }

static tri_status make(numbers *of, int64_t n) {
    size_t count = (size_t)n;
    *of = (numbers){.apply = 1, .x = malloc(count * sizeof *of->x), .e = malloc(count * sizeof *of->e),
                    .m = malloc(count * sizeof *of->m), .v = malloc(count * sizeof *of->v),
                    .half = malloc(count * sizeof *of->half),
                    .q = aligned_alloc(64, (size_t)(MEMBERS * tri__coded_bytes(TRI_CODE_BF16, n)))};
    if (!of->x || !of->e || !of->m || !of->v || !of->half || !of->q)
        return tri__fail(TRI_RESOURCE, "no memory for %lld numbers to be coded", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        of->x[i] = (float)((int32_t)((uint32_t)i * 2654435761u) >> 8) * 1e-9f;
        of->e[i] = of->x[i] * 0.5f, of->m[i] = of->v[i] = 1, of->half[i] = tri__to_bf16(of->x[i]);
    }
    return TRI_OK;
}

static tri_call call_of(numbers *of, const struct kind *kind, tri_dtype dtype, int64_t n, const tri_attr *attr,
                        int threads) {
    tri_call call = {.op = kind->op, .attr = attr, .threads = threads};
    tri_code code = (tri_code)attr->code;
    tri_tensor vector = {dtype == TRI_F32 ? (void *)of->x : of->half, 1, n};
    tri_tensor rows = {of->q, kind->sums ? MEMBERS : 1, tri__coded_bytes(code, n)};
    if (kind->op == TRI_OP_pack) {
        int masked = kind->keeps && code == TRI_CODE_SIGNS;
        call.t[TRI_ARG(pack, q)] = rows;
        call.t[TRI_ARG(pack, x)] = (tri_tensor){masked ? NULL : vector.data, 1, n};
        call.t[TRI_ARG(pack, e)] = (tri_tensor){kind->keeps ? of->e : NULL, 1, n};
        call.t[TRI_ARG(pack, mask)] = (tri_tensor){masked ? of->m : NULL, 1, n};
        call.dtype[TRI_ARG(pack, x)] = (uint8_t)dtype;
        return call;
    }
    call.t[0] = vector, call.t[1] = rows, call.dtype[0] = (uint8_t)dtype;
    if (kind->op == TRI_OP_momentum_out) {
        call.t[TRI_ARG(momentum_out, m)].data = of->m;
        call.t[TRI_ARG(momentum_out, v)] = (tri_tensor){of->v, 1, n};
        call.t[TRI_ARG(momentum_out, apply)] = (tri_tensor){&of->apply, 1, 1};
    }
    return call;
}

/* One call of all ranks at the same time. */
static tri_status time_call(const tri_call *call, tri_kernel *run, int keeps, tri_samples *samples) {
    double took[TRIES];
    int vector = call->op == TRI_OP_pack ? TRI_ARG(pack, x) : 0;
    for (int i = 0; i < TRIES; i++) {
        double begin = tri__clock();
        run(call);
        took[i] = tri__clock() - begin;
    }
    tri_sample like = {.variant = tri__variant(call->op, call->attr), .dtype = (tri_dtype)call->dtype[vector],
                       .threads = call->threads, .adds = keeps, .code = (tri_code)call->attr->code};
    like.size[0] = call->attr->sums ? MEMBERS : 1, like.size[1] = (double)call->t[vector].cols;
    return samples ? tri__samples_put(samples, &like, took, TRIES) : TRI_OK;
}

static void time_size(tri_team *team, int rank, const tri_kernel_table *table, int64_t n, numbers *of) {
    static const tri_dtype types[] = {TRI_F32, TRI_BF16};
    for (int i = 0; i < 2 * KINDS * TRI_CODE_COUNT; i++) {
        tri_dtype dtype = types[i % 2];
        const struct kind *kind = &kinds[i / 2 % KINDS];
        tri_attr attr = {.sums = kind->sums, .code = i / 2 / KINDS};
        int is_momentum = kind->op == TRI_OP_momentum_out;
        if (attr.code == TRI_CODE_NONE) continue;
        if (is_momentum && (attr.code != TRI_CODE_SIGNS || dtype != TRI_F32)) continue;
        tri_call call = call_of(of, kind, dtype, n, &attr, team->threads);
        tri_kernel *run = tri__kernel(table, kind->op, call.attr, dtype);
        run(&call); /* touches memory */
        if (!tri__team_goes_on(team)) return;
        team->status[rank] = time_call(&call, run, kind->keeps, rank ? NULL : team->samples);
    }
}

/* How many sizes are timed, by rank 0's clock and the memory that is left: took: seconds of the size before. */
static int sizes_for(const tri_team *team, int next, double took, double left) {
    if (next && took * (double)(sizes[next] / sizes[next - 1]) > left) return next;
    double bytes = (double)bytes_of(sizes[next]) * team->ranks;
    return bytes < 0.5 * (double)tri__memory_available() ? next + 1 : next;
}

void tri__time_codes(tri_team *team, int rank) {
    TRI_OWNED(tri__free_at) tri_kernel_table *table = malloc(sizeof *table);
    tri_status *status = &team->status[rank];
    double begin = tri__clock(), took = 0;
    *status = table ? TRI_OK : tri__fail(TRI_RESOURCE, "out of memory");
    if (table) team->asked->device->kernels(table);
    for (int i = 0; i < SIZES; i++) {
        double from = tri__clock();
        numbers of = {0};
        if (rank == 0) team->code_sizes = sizes_for(team, i, took, team->seconds - (from - begin));
        if (!tri__team_goes_on(team) || team->code_sizes <= i) break;
        *status = make(&of, sizes[i]);
        if (tri__team_goes_on(team)) time_size(team, rank, table, sizes[i], &of);
        drop(&of);
        took = tri__clock() - from;
    }
}
