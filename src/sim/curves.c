/* curves.c - between points a kernel's time is interpolated as its ratio to a smooth roofline, in logarithms of sizes:
 * a plane fitted to all points, in which near ones weigh much more, never above or below all of them. Outside of the
 * points the nearest ratio holds, so that times keep growing with the work. */
#include "sim/sizes.h"

enum { TERMS = TRI_SIZES + 1 };
#define SLOPE_DOUBT 0.01  /* of the weights: planes through few points stay flat */
#define SAME_POINT 1e-4   /* square of a distance in log2 of sizes that does not matter */

/* Seconds by rates alone; only its shape matters. */
static double smooth_roofline(const tri_hardware *h, const tri_kernel_curve *curve, const double *size) {
    const tri_op_row *row = tri__variant_row(curve->variant);
    tri_dtype dtype = curve->dtype;
    const char *name[TRI_SIZES];
    int n = tri__op_sizes(row, name);
    double bytes = (double)tri__dtype_bytes(dtype), rate = dtype == TRI_F32 ? h->f32 : h->half, flops, moved;
    if (tri__op_is_attention(row)) {
        flops = 4 * size[0] * size[1] * size[2] * size[3], moved = 4 * size[0] * size[2] * size[3];
    } else if (tri__op_is_product(row)) {
        flops = 2 * size[0] * size[1] * size[2] * tri__product_imbalance(curve, size);
        moved = size[0] * size[1] + size[0] * size[2] + size[1] * size[2];
    } else {
        flops = 0, moved = size[1] * (n == 3 ? size[0] + size[2] : size[0]);
    }
    return h->launch + flops / rate + moved * bytes / h->bytes;
}

/* Solves the equations m x = y of n unknowns; x[0]. */
static double first_unknown(double m[TERMS][TERMS], double y[TERMS], int n) {
    for (int i = n - 1; i > 0; i--) /* eliminates from the last, so that the first remains */
        for (int row = 0; row < i; row++) {
            double factor = m[row][i] / m[i][i];
            for (int k = 0; k < n; k++) m[row][k] -= factor * m[i][k];
            y[row] -= factor * y[i];
        }
    return y[0] / m[0][0];
}

/* log of seconds over the roofline, at the point `at` (log2 of sizes). */
static double fitted(const tri_hardware *h, const tri_kernel_curve *curve, const double *at, int sizes) {
    double m[TERMS][TERMS] = {{0}}, y[TERMS] = {0}, all = 0, least = INFINITY, most = -INFINITY;
    for (int i = 0; i < curve->n; i++) {
        const tri_kernel_point *p = &curve->point[i];
        double term[TERMS] = {1}, distance = SAME_POINT,
               ratio = log(p->seconds / smooth_roofline(h, curve, p->size));
        for (int k = 0; k < sizes; k++) term[k + 1] = log2(p->size[k]) - at[k], distance += term[k + 1] * term[k + 1];
        double weight = 1 / (distance * distance);
        all += weight, least = fmin(least, ratio), most = fmax(most, ratio);
        for (int a = 0; a <= sizes; a++) {
            for (int b = 0; b <= sizes; b++) m[a][b] += weight * term[a] * term[b];
            y[a] += weight * term[a] * ratio;
        }
    }
    for (int k = 1; k <= sizes; k++) m[k][k] += SLOPE_DOUBT * all;
    return fmax(least, fmin(most, first_unknown(m, y, sizes + 1)));
}

/* The ratio at the sizes or, outside of the curve's box, at its border. */
static double seconds_by(const tri_hardware *h, const tri_kernel_curve *curve, const tri_kernel_call *call) {
    const char *name[TRI_SIZES];
    double at[TRI_SIZES];
    int sizes = tri__op_sizes(tri__variant_row(curve->variant), name);
    for (int k = 0; k < sizes; k++) {
        double least = curve->point[0].size[k], most = least;
        for (int i = 1; i < curve->n; i++)
            least = fmin(least, curve->point[i].size[k]), most = fmax(most, curve->point[i].size[k]);
        at[k] = log2(fmax(least, fmin(most, call->size[k])));
    }
    return exp(fitted(h, curve, at, sizes)) * smooth_roofline(h, curve, call->size);
}

/* Of the curves of an operation, those of the nearest numbers of threads, not more and not fewer than the call's. */
static void nearest(const tri_hardware *h, const tri_kernel_call *call, int adds,
                    const tri_kernel_curve *found[2]) {
    found[0] = found[1] = NULL;
    for (int i = 0; i < h->n_kernels; i++) {
        const tri_kernel_curve *c = &h->kernel[i];
        if (c->variant != call->variant || c->dtype != call->dtype || c->adds != adds) continue;
        if (c->code != call->code) continue;
        if (c->threads <= call->threads && (!found[0] || c->threads > found[0]->threads)) found[0] = c;
        if (c->threads >= call->threads && (!found[1] || c->threads < found[1]->threads)) found[1] = c;
    }
    if (!found[0]) found[0] = found[1];
    if (!found[1]) found[1] = found[0];
}

/* Between two numbers of threads: interpolated in their logarithms. */
static double seconds_of(const tri_hardware *h, const tri_kernel_call *call, int adds) {
    const tri_kernel_curve *found[2];
    nearest(h, call, adds, found);
    if (!found[0]) return -1;
    double fewer = seconds_by(h, found[0], call);
    if (found[0] == found[1]) return fewer;
    double share = log((double)call->threads / fmax(1, found[0]->threads)) /
                   log(found[1]->threads / fmax(1, found[0]->threads));
    return fewer * pow(seconds_by(h, found[1], call) / fewer, share);
}

double tri__curve_seconds(const tri_hardware *h, const tri_kernel_call *call) {
    double seconds = seconds_of(h, call, call->adds);
    if (seconds < 0) seconds = seconds_of(h, call, !call->adds);
    if (seconds < 0 && (call->dtype == TRI_F16 || call->dtype == TRI_BF16)) { /* kernels of 16 bits are alike */
        tri_kernel_call other = *call;
        other.dtype = call->dtype == TRI_F16 ? TRI_BF16 : TRI_F16;
        seconds = seconds_of(h, &other, call->adds);
    }
    const tri_op_row *row = tri__variant_row(call->variant);
    if (seconds < 0 && row->like >= 0) {
        tri_kernel_call like = *call;
        like.variant = row->like;
        if (tri__row_is_fp8(row) && like.dtype == TRI_F32) like.dtype = TRI_BF16; /* that of its result */
        seconds = row->times * tri__curve_seconds(h, &like);
    }
    return seconds < 0 ? -1 : seconds;
}
