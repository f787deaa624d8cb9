/* matrix.c - how good answers are to rows of a matrix, whatever head gave them. */
#include "stack/matrix.h"

double tri__matrix_loss(const tri_matrix *e, const float *answer, int width) {
    double sum = 0, total = 0;
    for (int64_t i = 0; i < e->n; i++) {
        int y = (int)e->y[i];
        double one = (double)answer[i * width], p = width > 1 ? (double)answer[i * width + y] : y ? one : 1 - one,
               off = (double)e->y[i] - one;
        sum += (double)e->weight[i] * (e->n_classes ? -log(fmax(p, (double)FLT_MIN)) : off * off);
        total += (double)e->weight[i];
    }
    return sum / total;
}
