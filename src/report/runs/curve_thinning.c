/* curve_thinning.c - long curves with few points. The steps are cut into equal buckets of which the smallest and the
 * largest value stay, in their order: no spike is lost, however short. */
#include "report/runs/run_parts.h"

double tri__curve_value(double value) { return strtod(TRI_TEXT(32, "%.6g", value), NULL); }

/* value[i * stride] belongs to step[i * stride]. */
typedef struct curve {
    const double *step, *value;
    int64_t stride;
    tri_json *steps, *values; /* written */
    int exact;                /* not thinned: values keep all their digits */
} curve;

static double at(const curve *c, int64_t i) { return c->value[i * c->stride]; }
static double step_at(const curve *c, int64_t i) { return c->step[i * c->stride]; }

static void put(const curve *c, int64_t i) {
    tri__json_append_new(c->steps, tri__json_integer((tri_json_int)step_at(c, i)));
    tri__json_append_new(c->values, tri__json_real(c->exact ? at(c, i) : tri__curve_value(at(c, i))));
}

/* The extremes among points [begin, end). */
static void put_extremes(const curve *c, int64_t begin, int64_t end) {
    int64_t low = -1, high = -1;
    for (int64_t i = begin; i < end; i++) {
        if (!isfinite(at(c, i))) continue;
        if (low < 0 || at(c, i) < at(c, low)) low = i;
        if (high < 0 || at(c, i) > at(c, high)) high = i;
    }
    if (low < 0) return;
    put(c, low < high ? low : high);
    if (low != high) put(c, low < high ? high : low);
}

/* First and last stay as they are; the buckets are of what is between them. */
static void put_thinned(const curve *c, int64_t first, int64_t last, int64_t buckets) {
    double width = (step_at(c, last) - step_at(c, first)) / (double)buckets;
    int64_t begin = first + 1;
    put(c, first);
    for (int64_t k = 1; k <= buckets && begin < last; k++) {
        double until = step_at(c, first) + width * (double)k;
        int64_t end = begin;
        while (end < last && (k == buckets || step_at(c, end) < until)) end++;
        put_extremes(c, begin, end);
        begin = end;
    }
    put(c, last);
}

tri_json *tri__thin_curve(const double *step, const double *value, int64_t n, int64_t stride, int most) {
    int64_t finite = 0, first = -1, last = -1;
    curve c = {.step = step, .value = value, .stride = stride, .steps = tri__json_array(), .values = tri__json_array()};
    for (int64_t i = 0; i < n; i++)
        if (isfinite(at(&c, i))) first = first < 0 ? i : first, last = i, finite++;
    c.exact = finite <= most || finite < 4;
    if (!c.exact) put_thinned(&c, first, last, most > 4 ? (most - 2) / 2 : 1);
    for (int64_t i = 0; i < n && c.exact; i++)
        if (isfinite(at(&c, i))) put(&c, i);
    return tri__json_pack("{s:o, s:o, s:I}", "step", c.steps, "value", c.values, "of", (tri_json_int)finite);
}
