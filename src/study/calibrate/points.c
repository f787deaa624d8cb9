/* points.c - from times of instructions to curves. */
#include "study/calibrate/calibrate_parts.h"

#include "base/sort.h"
#include "sim/sizes.h"

double tri__median(double *values, int n) {
    tri__sort_doubles(values, n);
    return values[n / 2];
}

/* The order of their curves; 0: they are of one. */
static int compare_curves(const tri_sample *a, const tri_sample *b) {
    const int x[] = {a->variant, (int)a->dtype, a->threads, a->adds, (int)a->code},
              y[] = {b->variant, (int)b->dtype, b->threads, b->adds, (int)b->code};
    for (size_t k = 0; k < sizeof x / sizeof *x; k++)
        if (x[k] != y[k]) return x[k] < y[k] ? -1 : 1;
    return 0;
}

/* Where samples differ, apart from their times. */
static int compare(const tri_sample *a, const tri_sample *b) {
    int order = compare_curves(a, b);
    for (int k = 0; k < TRI_SIZES && !order; k++) order = (a->size[k] > b->size[k]) - (a->size[k] < b->size[k]);
    return order;
}

static int by_place(const void *a, const void *b) { return compare(a, b); }

/* The sample of a size, new if there is none; NULL: out of memory. */
static tri_sample *find(tri_samples *all, const tri_sample *like) {
    for (int i = 0; i < all->n; i++)
        if (compare(&all->at[i], like) == 0) return &all->at[i];
    if (!tri__grow(&all->at, &all->room, (size_t)all->n + 1, sizeof *all->at)) return NULL;
    all->at[all->n] = *like;
    return &all->at[all->n++];
}

tri_status tri__samples_put(tri_samples *samples, const tri_sample *like, double *seconds, int n) {
    tri_sample *at = find(samples, like);
    if (!at) return tri__fail(TRI_RESOURCE, "out of memory");
    (void)tri__median(seconds, n);
    at->seconds += seconds[(n - 1) / 2];
    at->spread += (seconds[3 * n / 4] - seconds[n / 4]) / 2;
    at->n++;
    return TRI_OK;
}

tri_status tri__samples_add(tri_samples *samples, const tri_trial *trial, int threads, const tri_time *times,
                            int steps) {
    const tri_program *program = trial->program[TRI_TRAIN];
    int n = program->n_instrs;
    TRI_OWNED(tri__free_at) double *took = malloc((size_t)steps * sizeof *took);
    if (!took) return tri__fail(TRI_RESOURCE, "out of memory");
    for (int i = 0; i < n; i++) {
        const tri_instr *instr = &program->instr[i];
        if (tri__op_queue((tri_op)instr->op) != TRI_QUEUE_COMPUTE) continue;
        tri_sample like = {.variant = tri__variant((tri_op)instr->op, &instr->attr),
                           .dtype = tri__instr_dtype(program, instr), .threads = threads,
                           .adds = tri__instr_adds(instr), .code = tri__instr_code(instr)};
        tri__instr_sizes(program, instr, &trial->feed[0].counts, like.size);
        for (int s = 0; s < steps; s++) {
            const tri_time *time = &times[(size_t)s * (size_t)n + (size_t)i];
            took[s] = time->end - time->begin;
        }
        TRI_TRY(tri__samples_put(samples, &like, took, steps));
    }
    return TRI_OK;
}

void tri__samples_curves(tri_samples *samples, tri_arena *arena, tri_hardware *out) {
    qsort(samples->at, (size_t)samples->n, sizeof *samples->at, by_place);
    out->kernel = tri__arena_alloc(arena, (size_t)samples->n * sizeof *out->kernel);
    out->n_kernels = 0;
    for (int i = 0, end; i < samples->n; i = end) {
        const tri_sample *first = &samples->at[i];
        tri_kernel_curve *curve = &out->kernel[out->n_kernels++];
        for (end = i; end < samples->n && compare_curves(first, &samples->at[end]) == 0;) end++;
        *curve = (tri_kernel_curve){
            .variant = first->variant, .dtype = first->dtype, .threads = first->threads, .adds = first->adds,
            .code = first->code, .n = end - i};
        curve->point = tri__arena_alloc(arena, (size_t)curve->n * sizeof *curve->point);
        for (int k = 0; k < curve->n; k++) {
            const tri_sample *from = &samples->at[i + k];
            curve->point[k].seconds = from->seconds / from->n;
            curve->point[k].spread = from->spread / from->n;
            memcpy(curve->point[k].size, from->size, sizeof from->size);
        }
    }
}

/* FLOP/s of the fastest point of an operation with one thread; 0: it has none. */
static double best_rate(const tri_hardware *h, const char *name, tri_dtype dtype) {
    double best = 0;
    int variant = tri__variant_find(name);
    for (int i = 0; i < h->n_kernels; i++) {
        const tri_kernel_curve *c = &h->kernel[i];
        if (c->variant != variant || c->dtype != dtype || c->threads > 1) continue;
        for (int k = 0; k < c->n; k++) {
            const double *size = c->point[k].size;
            double flops = tri__op_is_attention(tri__variant_row(variant)) ? 4 * size[0] * size[1] * size[2] * size[3]
                                                  : 2 * size[0] * size[1] * size[2];
            best = fmax(best, flops / c->point[k].seconds);
        }
    }
    return best;
}

/* Bytes a second of operations that only move data, where it does not fit into a cache; the shortest call. */
static void find_memory(tri_hardware *h) {
    static const struct {
        const char *name;
        double bytes; /* of an element */
    } movers[] = {{"sumsq", 4}, {"adamw", 28}, {"bias_dw", 4}};
    h->bytes = 0, h->launch = 1;
    for (int i = 0; i < h->n_kernels; i++) {
        const tri_kernel_curve *c = &h->kernel[i];
        for (int k = 0; k < c->n && c->threads <= 1; k++) {
            const tri_kernel_point *p = &c->point[k];
            h->launch = fmin(h->launch, p->seconds);
            for (size_t m = 0; m < sizeof movers / sizeof *movers; m++) {
                double bytes = movers[m].bytes * p->size[0] * p->size[1];
                if (c->variant == tri__variant_find(movers[m].name) && c->dtype == TRI_F32 && bytes > 1 << 20)
                    h->bytes = fmax(h->bytes, bytes / p->seconds);
            }
        }
    }
}

void tri__curves_rates(tri_hardware *out) {
    double half = best_rate(out, "linear", TRI_BF16), cores = fmax(1, out->cores);
    out->f32 = best_rate(out, "linear", TRI_F32);
    out->half = half > 0 ? half : out->f32;
    out->attention = out->cores ? best_rate(out, "attention", TRI_F32) / out->f32
                                : best_rate(out, "attention", TRI_BF16) / out->half;
    out->peak[TRI_F32] = cores * out->f32;
    out->peak[TRI_BF16] = out->peak[TRI_F16] = cores * half;
    out->peak[TRI_I8] = cores * best_rate(out, "linear_int8", TRI_F32);
    find_memory(out);
}
