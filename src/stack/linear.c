/* linear.c - the objective, and L-BFGS (Nocedal and Wright, algorithm 7.4), whose memory is a ring of differences. */
#include "stack/linear.h"

enum { MEMORY = 10, STEPS = 1000, HALVINGS = 40 };
static const double TOLERANCE = 1e-8, DECREASE = 1e-4; /* of the largest gradient; of Armijo's rule */

/* The features of a row, one after the other, then the 1 of the bias; 0: there are no more. *i begins at 0. */
static int next_feature(const tri_matrix *x, int64_t row, int64_t *i, int64_t *feature, double *value) {
    int64_t sparse = x->start[row] + *i - x->n_dense, left = x->start[row + 1] - sparse;
    if (*i < x->n_dense) *feature = *i, *value = (double)x->dense[row * x->n_dense + *i];
    else if (left > 0) *feature = x->n_dense + x->index[sparse], *value = (double)x->value[sparse];
    else *feature = x->n_dense + x->n_sparse, *value = 1;
    if (isnan(*value)) *value = 0; /* missing: the mean */
    ++*i;
    return left >= 0;
}

void tri__linear_row(const tri_linear_head *m, const tri_matrix *x, int64_t row, double *margins) {
    int64_t feature, k = m->n_outputs;
    double value;
    memset(margins, 0, (size_t)k * sizeof *margins);
    for (int64_t i = 0; next_feature(x, row, &i, &feature, &value);)
        for (int64_t c = 0; c < k; c++) margins[c] += value * m->at[feature * k + c];
}

void tri__linear_link(double *z, int n_classes) {
    double most = -INFINITY, sum = 0;
    if (n_classes == 2) z[1] = z[0], z[0] = 0;
    for (int c = 0; c < n_classes; c++) most = fmax(most, z[c]);
    for (int c = 0; c < n_classes; c++) sum += z[c] = exp(z[c] - most);
    for (int c = 0; c < n_classes; c++) z[c] /= sum;
}

double tri__linear_objective(const tri_linear_head *m, const tri_matrix *x, double penalty, double *gradient) {
    int64_t k = m->n_outputs, weights = m->n_features * k, feature;
    double loss = 0, total = 0, squares = 0, value;
    double z[TRI_STACK_CLASSES + 1]; /* of one row: its margins, then its residuals */
    for (int64_t i = 0; i < x->n; i++) total += (double)x->weight[i];
    memset(gradient, 0, (size_t)(weights + k) * sizeof *gradient);
    for (int64_t row = 0; row < x->n; row++) {
        double weight = (double)x->weight[row] / total, y = (double)x->y[row];
        tri__linear_row(m, x, row, z);
        tri__linear_link(z, x->n_classes);
        if (x->n_classes) loss -= weight * log(fmax(z[(int)y], DBL_MIN)), z[(int)y] -= 1;
        else z[0] -= y, loss += weight * z[0] * z[0] / 2;
        if (x->n_classes == 2) z[0] = z[1];
        for (int64_t i = 0; next_feature(x, row, &i, &feature, &value);)
            for (int64_t c = 0; c < k; c++) gradient[feature * k + c] += value * weight * z[c];
    }
    for (int64_t i = 0; i < weights; i++) {
        squares += m->at[i] * m->at[i];
        gradient[i] += penalty / total * m->at[i];
    }
    return loss + penalty / total * squares / 2;
}

static double dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static void add(double *to, double factor, const double *from, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] += factor * from[i];
}

/* All of [n]; steps and changes [MEMORY, n] of the last steps and gradients, where step s is at s % MEMORY. */
typedef struct search {
    int64_t n;
    double *gradient, *next, *was, *direction, *step, *change;
    double product[MEMORY]; /* of step and change */
    int made;               /* steps */
} search;

/* direction = -(approximate inverse Hessian) gradient */
static void choose_direction(search *s) {
    double factor[MEMORY];
    int first = s->made < MEMORY ? 0 : s->made - MEMORY;
    for (int64_t i = 0; i < s->n; i++) s->direction[i] = -s->gradient[i];
    for (int k = s->made - 1; k >= first; k--) {
        int64_t at = k % MEMORY * s->n;
        factor[k % MEMORY] = dot(s->step + at, s->direction, s->n) / s->product[k % MEMORY];
        add(s->direction, -factor[k % MEMORY], s->change + at, s->n);
    }
    int64_t last = (s->made + MEMORY - 1) % MEMORY;
    const double *change = s->change + last * s->n;
    double scale = s->made ? s->product[last] / dot(change, change, s->n)
                           : 1 / fmax(sqrt(dot(s->gradient, s->gradient, s->n)), 1);
    for (int64_t i = 0; i < s->n; i++) s->direction[i] *= scale;
    for (int k = first; k < s->made; k++) {
        int64_t at = k % MEMORY * s->n;
        double back = dot(s->change + at, s->direction, s->n) / s->product[k % MEMORY];
        add(s->direction, factor[k % MEMORY] - back, s->step + at, s->n);
    }
}

/* Takes a step that lowers the objective enough; 0: there is none. */
static int take_step(search *s, tri_linear_head *m, const tri_matrix *x, double penalty, double *objective) {
    double slope = dot(s->gradient, s->direction, s->n), length = 1, now;
    memcpy(s->was, m->at, (size_t)s->n * sizeof *s->was);
    for (int i = 0;; i++, length /= 2) {
        if (i == HALVINGS) {
            memcpy(m->at, s->was, (size_t)s->n * sizeof *s->was);
            return 0;
        }
        for (int64_t j = 0; j < s->n; j++) m->at[j] = s->was[j] + length * s->direction[j];
        now = tri__linear_objective(m, x, penalty, s->next);
        if (now <= *objective + DECREASE * length * slope) break;
    }
    int64_t slot = s->made % MEMORY, at = slot * s->n;
    for (int64_t j = 0; j < s->n; j++) {
        s->step[at + j] = m->at[j] - s->was[j];
        s->change[at + j] = s->next[j] - s->gradient[j];
    }
    s->product[slot] = dot(s->step + at, s->change + at, s->n);
    int moved = s->product[slot] > 0;
    double *swap = s->gradient;
    s->gradient = s->next, s->next = swap, *objective = now;
    s->made += moved;
    return moved;
}

tri_status tri__linear_fit(tri_linear_head *m, const tri_matrix *x, double penalty) {
    TRI_OWNED(tri__free_at) double *block = NULL;
    search s = {.n = ((int64_t)m->n_features + 1) * m->n_outputs};
    TRI_TRY(TRI_NEW(block, (4 + 2 * MEMORY) * s.n, "a linear model's search"));
    s.gradient = block, s.next = block + s.n, s.was = block + 2 * s.n, s.direction = block + 3 * s.n;
    s.step = block + 4 * s.n, s.change = s.step + MEMORY * s.n;
    double objective = tri__linear_objective(m, x, penalty, s.gradient), largest;
    for (int i = 0; i < STEPS; i++) {
        largest = 0;
        for (int64_t j = 0; j < s.n; j++) largest = fmax(largest, fabs(s.gradient[j]));
        if (largest <= TOLERANCE) break;
        choose_direction(&s);
        if (!take_step(&s, m, x, penalty, &objective)) break;
    }
    return isfinite(objective) ? TRI_OK : tri__fail(TRI_NOTFINITE, "a linear head's loss is not finite");
}
