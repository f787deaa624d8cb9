/* kernel_double.c - see kernel_double.h. */
#include "tests/lib/kernel_double.h"

#include "device/operands.h"
#include "tests/lib/kernel_double_experts.h"
#include "tests/lib/kernel_double_fp8.h"

void double_embed_rows(const kernel_call *k, double *const *v) {
    for (int64_t t = 0, H = extent(k, 'H'); t < extent(k, 'T'); t++)
        for (int64_t c = 0; c < H; c++) {
            int64_t row = (int64_t)v[1][t] - k->attr.row0;
            v[0][t * H + c] = v[4][(int64_t)v[2][t] * H + c] + v[5][c];
            if (row >= 0 && row < extent(k, 'V')) v[0][t * H + c] += v[3][row * H + c];
        }
}

/* y, xhat, rstd from a row x. */
static void double_norm_row(const kernel_call *k, double *const *v, int64_t t, const double *x, const double *g,
                            const double *b) {
    int64_t H = extent(k, 'H');
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < H; c++) sum += x[c];
    for (int64_t c = 0; c < H; c++) squares += pow(x[c] - sum / (double)H, 2);
    v[5][t] = pow(squares / (double)H + (double)k->attr.eps, -0.5);
    for (int64_t c = 0; c < H; c++) {
        v[4][t * H + c] = (x[c] - sum / (double)H) * v[5][t];
        v[0][t * H + c] = v[4][t * H + c] * g[c] + (b ? b[c] : 0);
    }
}

/* y, q, transposed, most, xhat, rstd, x, res, g, b, key, s, sq */
static void double_norm(const kernel_call *k, double *const *v) {
    int64_t H = extent(k, 'H');
    double *x = calloc((size_t)H, sizeof *x);
    assert_non_null(x);
    for (int64_t t = 0; t < extent(k, 'T'); t++) {
        for (int64_t c = 0; c < H; c++)
            x[c] = !v[7] ? v[6][t * H + c]
                         : (v[11] ? v[11][0] : 1) * v[6][t * H + c] *
                                   mask_factor(k, (int64_t)v[10][2 * t], (int64_t)v[10][2 * t + 1], c) +
                               v[7][t * H + c];
        double_norm_row(k, v, t, x, v[8], v[9]);
    }
    if (v[1]) double_8_bits(k, 1, v[0], v[12][0], v[1], v[2], v[3]);
    free(x);
}

static void double_dropout(const kernel_call *k, double *const *v) {
    for (int64_t t = 0, H = extent(k, 'H'); t < extent(k, 'T'); t++)
        for (int64_t c = 0; c < H; c++)
            v[0][t * H + c] = v[1][t * H + c] * mask_factor(k, (int64_t)v[2][2 * t], (int64_t)v[2][2 * t + 1], c);
}

static void double_add(const kernel_call *k, double *const *v) {
    for (int64_t i = 0; i < operand_count(k, 0); i++) v[0][i] = v[1][i] + v[2][i];
}

static double double_activation(int act, double x) {
    switch (act) {
    case TRI_ACTIVATION_GELU: return x * (1 + erf(x / sqrt(2))) / 2;
    case TRI_ACTIVATION_GELU_TANH: return x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * pow(x, 3))));
    case TRI_ACTIVATION_RELU: return fmax(x, 0);
    case TRI_ACTIVATION_TANH: return 1 - 2 / (exp(2 * x) + 1);
    default: return x / (1 + exp(-x));
    }
}

/* The slope of an activation at x or, of one that is computed from the result, at y. */
static double double_slope(int act, double at) {
    const double step = 1e-5;
    switch (act) {
    case TRI_ACTIVATION_RELU: return at > 0;
    case TRI_ACTIVATION_TANH: return 1 - at * at;
    default: return (double_activation(act, at + step) - double_activation(act, at - step)) / (2 * step);
    }
}

/* Values of 8-bit factors are doubles here. */
static void double_linear(const kernel_call *k, double *const *v) {
    OPERANDS(linear);
    int64_t T = extent(k, 'T'), O = extent(k, 'O'), I = extent(k, 'I'), G = extent(k, 'G') ? extent(k, 'G') : 1;
    int act = k->attr.activation, experts = k->attr.experts;
    double *h = v[act ? ARG(h) : ARG(y)], *y = v[ARG(most)] ? calloc((size_t)(T * O) + 1, sizeof *y) : v[ARG(y)];
    assert_non_null(y);
    for (int64_t i = 0; i < T * O; i++) {
        int64_t t = i / O, o = i % O;
        if (experts) o += t / (T / (G * extent(k, 'C'))) % extent(k, 'C') * O;
        double scale = v[ARG(s)] ? v[ARG(s)][t] * v[ARG(ws)][o] : v[ARG(sx)] ? 1 / (v[ARG(sx)][0] * v[ARG(sw)][0]) : 1;
        double sum = v[ARG(b)] ? v[ARG(b)][o] : 0;
        for (int64_t c = 0; c < I; c++) sum += scale * v[ARG(x)][t * I + c] * v[ARG(w)][o * I + c];
        h[i] = v[ARG(from)] && v[ARG(from)][t] < 0 ? 0 : sum;
        if (act) y[i] = double_activation(act - 1, v[ARG(most)] ? (double)(float)h[i] : h[i]);
    }
    if (!v[ARG(most)]) return;
    double_8_bits(k, ARG(y), y, v[ARG(sq)][0], v[ARG(y)], v[ARG(transposed)], v[ARG(most)]);
    free(y);
}

/* Of those with an activation. */
static void double_linear_din(const kernel_call *k, double *const *v) {
    OPERANDS(linear_din);
    int64_t O = extent(k, 'O'), I = extent(k, 'I');
    for (int64_t i = 0; i < I; i++) v[ARG(db)][i] = 0;
    for (int64_t i = 0; i < operand_count(k, ARG(dx)); i++) {
        double dy = 0;
        for (int64_t c = 0; c < O; c++) dy += v[ARG(dy)][i / I * O + c] * v[ARG(w)][c * I + i % I];
        v[ARG(dx)][i] = dy * double_slope(k->attr.activation - 1, v[ARG(h)][i]);
        v[ARG(db)][i % I] += v[ARG(dx)][i];
    }
}

static void double_act(const kernel_call *k, double *const *v) {
    for (int64_t i = 0; i < operand_count(k, 0); i++) v[0][i] = double_activation(k->attr.activation - 1, v[1][i]);
}

static void double_gated(const kernel_call *k, double *const *v) {
    int64_t H = extent(k, 'H');
    for (int64_t i = 0; i < operand_count(k, 0); i++) {
        const double *x = v[1] + i / H * 2 * H;
        v[0][i] = double_activation(k->attr.act, x[i % H]) * x[H + i % H];
    }
}

/* A head's columns j and j + d/2 as a complex number, times exp(i angle); the angle in fp32, as in transformers. */
static void double_rope(const kernel_call *k, double *const *v) {
    int64_t D = extent(k, 'D'), A = extent(k, 'A'), d = D / 3 / A;
    for (int64_t i = 0; i < operand_count(k, 0); i++) v[0][i] = v[1][i];
    for (int64_t t = 0; t < extent(k, 'T'); t++)
        for (int64_t h = 0; h < 2 * A; h++)
            for (int64_t j = 0; j < d / 2; j++) {
                float power = (float)pow((double)k->attr.theta, (double)((float)(2 * j) / (float)d));
                float angle = (float)v[2][t] * (1 / power);
                double *re = v[0] + t * D + h * d + j, *im = re + d / 2, x = *re, y = *im;
                *re = x * cos((double)angle) - y * sin((double)angle);
                *im = y * cos((double)angle) + x * sin((double)angle);
            }
}

static void double_gate(const kernel_call *k, double *const *v) {
    for (int64_t i = 0; i < operand_count(k, 0); i++) v[0][i] = v[1][i] * (1 + tanh(v[2][i] / 2)) / 2;
}

/* The factor of row j of a column of numbers, from the definition of bins: their edges are 0, 1, 2, ... */
static double double_factor(const kernel_call *k, double *const *v, const double *words, double x, int64_t j) {
    int64_t count = (int64_t)words[TRI_COLUMN_COUNT], K = extent(k, 'K');
    if (x == (double)TRI_COLUMN_MISSING) return j == count;
    if (j == count) return 0;
    if (words[TRI_COLUMN_KIND] == TRI_COLUMN_PERIODIC) {
        double angle = 2 * acos(-1) * v[6][(int64_t)words[TRI_COLUMN_NUMBER] * K + j % K] * x;
        return j < K ? sin(angle) : cos(angle);
    }
    return x < (double)j && j > 0 ? 0 : x >= (double)j + 1 && j < count - 1 ? 1 : x - (double)j;
}

static void double_columns(const kernel_call *k, double *const *v) {
    int64_t H = extent(k, 'H'), C = extent(k, 'C');
    for (int64_t i = 0; i < operand_count(k, 0); i++) {
        int64_t cell = i / H, d = i % H;
        const double *words = v[2] + cell % C * TRI_COLUMN_WORDS;
        const double *numbers = v[1] + cell / C * extent(k, 'D') + (int64_t)words[TRI_COLUMN_AT], x = *numbers;
        int64_t first = (int64_t)words[TRI_COLUMN_FIRST];
        v[0][i] = v[5][cell % C * H + d];
        if (words[TRI_COLUMN_KIND] == TRI_COLUMN_HASHED) {
            for (int64_t j = 0; j < (int64_t)words[TRI_COLUMN_COUNT]; j++)
                v[0][i] += numbers[j] * v[4][(first + j) * H + d];
            continue;
        }
        if (words[TRI_COLUMN_KIND] == TRI_COLUMN_CATEGORY) {
            if (x < words[TRI_COLUMN_COUNT]) v[0][i] += v[4][(first + (int64_t)x) * H + d];
            continue;
        }
        for (int64_t j = 0; j < (int64_t)words[TRI_COLUMN_ROWS]; j++)
            v[0][i] += double_factor(k, v, words, x, j) * v[3][(first + j) * H + d];
        v[0][i] = fmax(v[0][i], 0);
    }
}

static void double_concat(const kernel_call *k, double *const *v) {
    int64_t A = extent(k, 'A'), B = extent(k, 'B'), C = extent(k, 'C');
    for (int64_t i = 0, at = 0; i < extent(k, 'N'); i++) {
        for (int64_t c = 0; c < A; c++) v[0][at++] = v[1][i * A + c];
        for (int64_t c = 0; c < B; c++) v[0][at++] = v[2][i * B + c];
        for (int64_t c = 0; c < C; c++) v[0][at++] = v[3][i * C + c];
    }
}

static void double_cross_entropy(const kernel_call *k, double *const *v) {
    int64_t C = extent(k, 'C');
    v[0][0] = 0;
    for (int64_t i = 0; i < extent(k, 'N'); i++) {
        int64_t label = (int64_t)v[3][i];
        double sum = 0;
        for (int64_t c = 0; c < C; c++) sum += exp(v[2][i * C + c]);
        for (int64_t c = 0; c < C; c++) v[1][i * C + c] = exp(v[2][i * C + c]) / sum;
        double p = v[1][i * C + label], s = (double)k->attr.smoothing, all = 0;
        double inv = v[5][0] * (k->attr.weighted ? v[6][i] : 1);
        for (int64_t c = 0; c < C; c++) all -= v[4][c] * log(v[1][i * C + c]);
        v[0][0] -= inv * pow(1 - p, (double)k->attr.gamma) * (1 - s) * v[4][label] * log(p);
        v[0][0] += inv * s / (double)C * all;
    }
}

static void double_regress(const kernel_call *k, double *const *v) {
    int64_t C = extent(k, 'C');
    double delta = (double)k->attr.delta;
    v[0][0] = 0;
    for (int64_t i = 0; i < extent(k, 'N') * C; i++) {
        double y = v[2][i], t = v[3][extent(k, 'J') > 1 ? i : i / C], q = v[4][i % C], d = fabs(y - t);
        const double losses[] = {d * d, d, d < delta ? 0.5 * d * d : delta * d - 0.5 * delta * delta, exp(y) - t * y,
                                 fmax(q * (t - y), (q - 1) * (t - y)),
                                 q * t * log1p(exp(-y)) + (1 - t) * log1p(exp(y))};
        v[1][i] = k->attr.loss == 3 ? exp(y) : k->attr.loss == 5 ? 1 / (1 + exp(-y)) : y;
        v[0][0] += v[5][0] * (k->attr.weighted ? v[6][i / C] : 1) * losses[k->attr.loss] / (double)C;
    }
}

static void double_accumulate(const kernel_call *k, double *const *v) {
    for (int64_t i = 0; i < operand_count(k, 1); i++) v[0][i] = v[1][i];
}

static void double_skip(const kernel_call *k, double *const *v) { double_accumulate(k, v); }

static void double_zero(const kernel_call *k, double *const *v) {
    for (int64_t i = 0; i < operand_count(k, 0); i++) v[0][i] = 0;
}

static void double_scale(const kernel_call *k, double *const *v) {
    for (int64_t i = 0; i < operand_count(k, 0); i++) v[0][i] = v[1][i] * v[2][0];
}

static void double_sumsq(const kernel_call *k, double *const *v) {
    v[0][0] = 0;
    for (int64_t i = 0; i < operand_count(k, 1); i++) v[0][0] += v[1][i] * v[1][i];
}

static void double_clip(const kernel_call *k, double *const *v) {
    double sum = 0;
    for (int64_t i = 0; i < operand_count(k, 3); i++) sum += v[3][i];
    v[2][0] = sqrt(sum) / v[4][0];
    v[0][0] = fmin(1, (double)k->attr.max_norm / (v[2][0] + 1e-6)) / v[4][0];
    v[1][0] = 1;
}

/* The learning rate of these elements. */
static double double_rate(const kernel_call *k, const double *hyper) { return hyper[0] * (double)k->attr.rate; }

/* torch.optim.AdamW and Adam, line by line (single tensor, not amsgrad). p, m, v, copy, g, hyper, coef */
static void double_adamw(const kernel_call *k, double *const *v) {
    double lr = double_rate(k, v[5]), c1 = v[5][1], c2 = v[5][2], b1 = k->attr.beta1, b2 = k->attr.beta2, *p = v[0],
           *m = v[1], *s = v[2], decay = k->attr.decay;
    for (int64_t i = 0; i < operand_count(k, 0); i++) {
        double g = v[4][i] * v[6][0];
        if (k->attr.coupled) g += decay * p[i];
        else p[i] *= 1 - lr * decay;
        m[i] += (g - m[i]) * (1 - b1);
        s[i] = s[i] * b2 + (1 - b2) * g * g;
        p[i] -= lr / c1 * (m[i] / (sqrt(s[i]) / sqrt(c2) + (double)k->attr.eps));
        if (v[3]) v[3][i] = p[i];
    }
}

/* torch.optim.SGD, without dampening. */
static void double_sgd(const kernel_call *k, double *const *v) {
    double b1 = k->attr.beta1, *p = v[0], *m = v[1];
    for (int64_t i = 0; i < operand_count(k, 0); i++) {
        double g = v[2][i] * v[4][0] + (double)k->attr.decay * p[i];
        if (m) m[i] = b1 * m[i] + g;
        p[i] -= double_rate(k, v[3]) * (!m ? g : k->attr.nesterov ? g + b1 * m[i] : m[i]);
    }
}

/* r of You et al., 2020, with the moments corrected for their beginning at 0; hyper [4]. */
static double double_lamb(const kernel_call *k, const double *hyper, double p, double m, double v) {
    return m / hyper[1] / (sqrt(v / hyper[2]) + (double)k->attr.eps) + (double)k->attr.decay * p;
}

static void double_lamb_moments(const kernel_call *k, double *const *v) {
    double b1 = k->attr.beta1, b2 = k->attr.beta2, squares[2] = {0}, *m = v[0], *s = v[1];
    for (int64_t i = 0; i < operand_count(k, 0); i++) {
        double g = v[4][i] * v[6][0], p = v[3][i];
        m[i] = b1 * m[i] + (1 - b1) * g;
        s[i] = b2 * s[i] + (1 - b2) * g * g;
        double r = double_lamb(k, v[5], p, m[i], s[i]);
        squares[0] += p * p, squares[1] += r * r;
    }
    for (int i = 0; i < 2 && v[2]; i++) v[2][i] = squares[i];
}

static double double_frozen(const kernel_call *k, double p, double m, double s, const double *hyper, double lr) {
    double step = m / hyper[1] / (sqrt(s / hyper[2]) + (double)k->attr.eps);
    return p * (1 - lr * (double)k->attr.decay) - lr * fmin(fmax(step, -1), 1);
}

/* p, m, v, hyper, average, factor, sums */
static void double_lamb_step(const kernel_call *k, double *const *v) {
    const double *sums = v[6];
    double lr = double_rate(k, v[3]);
    if (k->attr.frozen) lr *= fmin(v[4][0] * v[5][0], sqrt(sums[2] / sums[1]));
    else if (sums && sums[0] > 0 && sums[1] > 0) lr *= sqrt(sums[0] / sums[1]);
    for (int64_t i = 0; i < operand_count(k, 0); i++)
        if (k->attr.frozen) v[0][i] = double_frozen(k, v[0][i], v[1][i], v[2][i], v[3], lr);
        else v[0][i] -= lr * double_lamb(k, v[3], v[0][i], v[1][i], v[2][i]);
}

/* average, sums */
static void double_lamb_average(const kernel_call *k, double *const *v) {
    for (int64_t i = 0; i < operand_count(k, 0); i++)
        v[0][i] = 0.9 * v[0][i] + 0.1 * sqrt(v[1][2 * i] / v[1][2 * i + 1]);
}

/* fresh, most, sums, p, m, old, v, hyper: Li et al., 2021, with variances corrected for their beginning at 0. */
static void double_lamb_refresh(const kernel_call *k, double *const *v) {
    double b1 = k->attr.beta1, b2 = k->attr.beta2, eps = k->attr.eps, squares[3] = {0};
    const double *m = v[4], *hyper = v[7];
    v[1][0] = 0;
    for (int64_t i = 0; i < operand_count(k, 0); i++) {
        double g = (m[i] - b1 * v[5][i]) / (1 - b1), root = sqrt(v[6][i] / hyper[2]) + eps;
        v[0][i] = b2 * v[0][i] + (1 - b2) * g * g;
        double r = fmin(1, fmax(-1, m[i] / hyper[1] / root)), step = r + (double)k->attr.decay * v[3][i];
        squares[0] += r * r, squares[1] += step * step, squares[2] += v[3][i] * v[3][i];
        if (m[i] != 0) v[1][0] = fmax(v[1][0], root / (sqrt(v[0][i] / hyper[3]) + eps));
    }
    for (int i = 0; i < 3 && v[2]; i++) v[2][i] = squares[i];
}

/* factor, sums, most */
static void double_lamb_factor(const kernel_call *k, double *const *v) {
    for (int64_t i = 0; i < operand_count(k, 0); i++) {
        double part = fmin(1, sqrt(v[1][3 * i] / v[1][3 * i + 1])), last = v[0][i];
        double x = fmin(4, fmax(0.5, part * v[2][i] + 1 - part));
        v[0][i] = fmin(1.1 * last, fmax(0.9 * last, x));
    }
}

/* e, m, g, hyper, v, coef */
static void double_momentum(const kernel_call *k, double *const *v) {
    double b1 = k->attr.beta1, n = k->attr.members, *e = v[0], *m = v[1];
    for (int64_t i = 0; i < operand_count(k, 1); i++) {
        double g = (1 - b1) * v[5][0] * v[2][i];
        if (m[i] == 0) continue;
        if (k->attr.sent == 1) e[i] += (b1 * m[i] / n + g) / (v[4] ? sqrt(v[4][i]) + (double)k->attr.eps : 1);
        else m[i] = b1 * m[i] + (k->attr.sent ? n : 1) * g;
        if (k->attr.sent == 2) e[i] += v[3][3] * m[i] / n;
    }
}

/* anchor, p, m, v, hyper */
static void double_adamw_frozen(const kernel_call *k, double *const *v) {
    double *p = v[0] ? v[0] : v[1], lr = double_rate(k, v[4]) / (v[0] ? v[4][3] : 1);
    for (int64_t i = 0; i < operand_count(k, 1); i++)
        v[1][i] = p[i] = double_frozen(k, p[i], v[2][i], v[3][i], v[4], lr);
}

/* d, anchor, p */
static void double_local_delta(const kernel_call *k, double *const *v) {
    for (int64_t i = 0; i < operand_count(k, 0); i++) v[0][i] = v[1][i] - v[2][i];
}

/* m, d */
static void double_outer_step(const kernel_call *k, double *const *v) {
    double b1 = k->attr.beta1;
    for (int64_t i = 0; i < operand_count(k, 0); i++) {
        double x = v[1][i] / k->attr.members;
        v[0][i] = b1 * v[0][i] + x;
        v[1][i] = (double)k->attr.rate * (k->attr.nesterov ? x + b1 * v[0][i] : v[0][i]);
    }
}

/* anchor, p, d */
static void double_outer_take(const kernel_call *k, double *const *v) {
    for (int64_t i = 0; i < operand_count(k, 0); i++) v[1][i] = v[0][i] -= v[2][i];
}

static void double_commit(const kernel_call *k, double *const *v) {
    for (int64_t i = 0; i < operand_count(k, 0); i++) v[0][i] = v[1][i];
}

static void double_swap(const kernel_call *k, double *const *v) {
    for (int64_t i = 0; i < operand_count(k, 0); i++) {
        double a = v[0][i];
        v[0][i] = v[1][i], v[1][i] = a;
    }
}

/* y, p, factor */
static void double_average(const kernel_call *k, double *const *v) {
    for (int64_t i = 0; i < operand_count(k, 0); i++) v[0][i] += v[2][0] * (v[1][i] - v[0][i]);
}

static void double_cast(const kernel_call *k, double *const *v) {
    for (int64_t i = 0; i < operand_count(k, 0); i++) v[0][i] = v[1][i];
}

static double double_row_largest(const kernel_call *k, const double *x, int64_t t) {
    double largest = 0;
    for (int64_t i = 0, I = extent(k, 'I'); i < I; i++) largest = fmax(largest, fabs(x[t * I + i]));
    return largest;
}

static void double_row_max(const kernel_call *k, double *const *v) {
    for (int64_t t = 0; t < extent(k, 'T'); t++) v[0][t] = double_row_largest(k, v[1], t);
}

static double double_to_int8(double x) { return fmax(-127, fmin(127, rint(x))); }

/* As ops.def spells it: 1 / s and the product with it are fp32. */
static void double_quantize(const kernel_call *k, double *const *v) {
    int fp8 = k->attr.factors == TRI_FACTORS_FP8;
    double most = fp8 ? 448 : 127;
    int64_t T = extent(k, 'T'), I = extent(k, 'I');
    for (int64_t t = 0; t < T; t++) {
        double largest = v[3] ? 0 : double_row_largest(k, v[2], t);
        for (int64_t i = t; v[3] && i < extent(k, 'M'); i += T) largest = fmax(largest, v[3][i]);
        double s = v[1][t] = double_rounded((float)(largest / most), 16, 0);
        for (int64_t i = 0; i < I; i++) {
            float inverse = s > 0 ? (float)(1 / s) : 0, x = (float)v[2][t * I + i];
            v[0][t * I + i] = (fp8 ? double_to_e4m3 : double_to_int8)((double)(x * inverse));
        }
    }
}

/* The three tables with each row replaced by s * q; then embed. */
static void double_embed_int8(const kernel_call *k, double *const *v) {
    double *tables[TRI_MAX_ARGS] = {v[0], v[1], v[2]};
    int64_t H = extent(k, 'H');
    for (int a = 3; a < 6; a++) {
        int64_t rows = k->call.t[a].rows;
        tables[a] = calloc((size_t)(rows * H) + 1, sizeof(double));
        assert_non_null(tables[a]);
        for (int64_t r = 0; r < rows; r++) {
            double largest = 0;
            for (int64_t c = 0; c < H; c++) largest = fmax(largest, fabs(v[a][r * H + c]));
            double s = double_rounded((float)(largest / 127), 16, 0);
            for (int64_t c = 0; c < H; c++) {
                float inverse = s > 0 ? (float)(1 / s) : 0, x = (float)v[a][r * H + c];
                tables[a][r * H + c] = s * double_to_int8((double)(x * inverse));
            }
        }
    }
    double_embed_rows(k, tables);
    for (int a = 3; a < 6; a++) free(tables[a]);
}

static void double_embed(const kernel_call *k, double *const *v) {
    (k->attr.int8 ? double_embed_int8 : double_embed_rows)(k, v);
}

static void double_tokens_own(const kernel_call *k, double *const *v) {
    int64_t n = operand_count(k, 0);
    for (int64_t i = 0; i < n; i++) v[0][i] = v[1][k->attr.part * n + i];
}

double_op *const double_ops[TRI_OP_COUNT] = {
#define ROW(name) [TRI_OP_##name] = double_##name
    ROW(act),
    ROW(embed),
    ROW(norm),
    ROW(dropout),
    ROW(add),
    ROW(linear),
    ROW(linear_din),
    ROW(gated),
    ROW(rope),
    ROW(attention),
    ROW(pool),
    ROW(heads),
    ROW(heads_own),
    ROW(kv_part),
    ROW(attention_part),
    ROW(attention_join),
    ROW(attention_first_join),
    ROW(table),
    ROW(tokens_own),
    ROW(concat),
    ROW(gate),
    ROW(columns),
    ROW(cross_entropy),
    ROW(regress),
    ROW(sumsq),
    ROW(clip),
    ROW(adamw),
    ROW(cast),
    ROW(accumulate),
    ROW(sgd),
    ROW(lamb_moments),
    ROW(lamb_step),
    ROW(momentum),
    ROW(adamw_frozen),
    ROW(lamb_average),
    ROW(lamb_refresh),
    ROW(lamb_factor),
    ROW(local_delta),
    ROW(outer_step),
    ROW(outer_take),
    ROW(swap),
    ROW(average),
    ROW(commit),
    ROW(row_max),
    ROW(quantize),
    ROW(fp8_cast),
    ROW(fp8_cast_weights),
    ROW(fp8_turn),
    ROW(fp8_scales),
    ROW(fp8_check),
    ROW(fp8_history),
    ROW(scale),
    ROW(skip),
    ROW(zero),
    ROW(route),
    ROW(balance),
    ROW(dispatch),
    ROW(combine),
#undef ROW
};
