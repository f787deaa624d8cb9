/* tiles.c - how threads divide a product: in tiles of its output, as many threads at a time as there are.
 * With three tiles two threads take as long as with four. The size of tiles is the one that explains best how much
 * slower several threads are than their number promises. */
#include "study/calibrate/calibrate_parts.h"

#include "sim/sizes.h"

#define LARGE 2e6      /* FLOPs from which kernels use all their threads */
#define BETTER 0.8     /* of the unexplained time: tiles that leave more are not believed */

static const double sides[] = {0, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024}; /* 0: not divided that way */
enum { SIDES = sizeof sides / sizeof *sides };

/* The point of equal size, measured with one thread; NULL. */
static const tri_kernel_point *alone(const tri_hardware *h, const tri_kernel_curve *like, const tri_kernel_point *at) {
    for (int i = 0; i < h->n_kernels; i++) {
        const tri_kernel_curve *c = &h->kernel[i];
        if (c->variant != like->variant || c->dtype != like->dtype) continue;
        if (c->adds != like->adds || c->threads != 1) continue;
        for (int k = 0; k < c->n; k++)
            if (memcmp(c->point[k].size, at->size, sizeof at->size) == 0) return &c->point[k];
    }
    return NULL;
}

/* The sum over points of what tiles do not explain. */
static double unexplained(const tri_hardware *h, const tri_kernel_curve *curve) {
    double sum = 0;
    for (int k = 0; k < curve->n; k++) {
        const tri_kernel_point *p = &curve->point[k], *one = alone(h, curve, p);
        if (!one || 2 * p->size[0] * p->size[1] * p->size[2] < LARGE) continue;
        sum += fabs(log(p->seconds * curve->threads / one->seconds / tri__product_imbalance(curve, p->size)));
    }
    return sum;
}

void tri__curves_tiles(tri_hardware *out) {
    for (int i = 0; i < out->n_kernels; i++) {
        tri_kernel_curve *curve = &out->kernel[i];
        double none = unexplained(out, curve), best = BETTER * none;
        int rows = 0, cols = 0;
        if (curve->threads < 2 || !tri__op_is_product(tri__variant_row(curve->variant))) continue;
        for (int k = 1; k < SIDES * SIDES; k++) {
            curve->tile[0] = (int)sides[k / SIDES], curve->tile[1] = (int)sides[k % SIDES];
            double left = unexplained(out, curve);
            if (left < best) best = left, rows = curve->tile[0], cols = curve->tile[1];
        }
        curve->tile[0] = rows, curve->tile[1] = cols;
    }
}
