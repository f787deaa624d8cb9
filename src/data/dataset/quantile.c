/* quantile.c - sklearn.preprocessing.QuantileTransformer(output_distribution="normal", n_quantiles=min(1000, n),
 * subsample=None):
 *   references  r_i = i / (m - 1)
 *   quantiles   q_i = numpy's linear percentile of r_i, made monotonic
 *   u(x) = (up + down) / 2, where up interpolates (q, r) at x, taking the last of equal q, and down the first;
 *          0 if x < q_0 + 1e-7; otherwise 1 if x > q_last - 1e-7
 *   y = inverse normal of u, clipped to the inverse of 1e-7 - 2^-52 and of 1 minus that */
#include "data/dataset/quantile.h"

#include "data/dataset/preprocess.h"

static const double BOUND = 1e-7; /* scikit-learn's BOUNDS_THRESHOLD */

static double reference(int i, int m) { return i == 0 ? 0 : i == m - 1 ? 1 : i * (1.0 / (m - 1)); }

void tri__quantiles_at(const double *sorted, int64_t n, int m, double *quantile) {
    for (int i = 0; i < m; i++) {
        double at = reference(i, m) * 100 / 100 * (double)(n - 1), part = at - floor(at); /* as numpy rounds it */
        int64_t low = (int64_t)floor(at), high = low + 1 < n ? low + 1 : n - 1;
        double step = sorted[high] - sorted[low];
        quantile[i] = part < 0.5 ? sorted[low] + step * part : sorted[high] - step * (1 - part);
        if (i && quantile[i] < quantile[i - 1]) quantile[i] = quantile[i - 1];
    }
}

int tri__quantiles_fit(const double *sorted, int64_t n, double *quantile) {
    int m = n < TRI_QUANTILES_MAX ? (int)n : TRI_QUANTILES_MAX;
    tri__quantiles_at(sorted, n, m, quantile);
    return m;
}

/* The number of quantiles below a value, or at most equal to it. */
static int rank(double value, const double *quantile, int m, int equal_too) {
    int low = 0, high = m;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (quantile[middle] < value || (equal_too && quantile[middle] == value)) low = middle + 1;
        else high = middle;
    }
    return low;
}

static double between(double value, const double *quantile, int m, int i) {
    double slope = (reference(i + 1, m) - reference(i, m)) / (quantile[i + 1] - quantile[i]);
    return slope * (value - quantile[i]) + reference(i, m);
}

/* Interpolates downwards from the quantile above, as numpy does with both axes negated. */
static double between_down(double value, const double *quantile, int m, int i) {
    double slope = (reference(i, m) - reference(i - 1, m)) / (quantile[i] - quantile[i - 1]);
    return reference(i, m) - slope * (quantile[i] - value);
}

static double uniform(double value, const double *quantile, int m) {
    if (value - BOUND < quantile[0]) return 0;
    if (value + BOUND > quantile[m - 1]) return 1;
    int last = rank(value, quantile, m, 1) - 1, first = rank(value, quantile, m, 0);
    double up = quantile[last] == value ? reference(last, m) : between(value, quantile, m, last);
    double down = quantile[first] == value ? reference(first, m) : between_down(value, quantile, m, first);
    return 0.5 * (up + down);
}

double tri__quantile_normal(double value, const double *quantile, int m) {
    double u = uniform(value, quantile, m), least = BOUND - DBL_EPSILON, most = 1 - least;
    return tri__normal_inverse(u < least ? least : u > most ? most : u);
}

static double polynomial(const double *c, double x) { /* of degree 7, highest first */
    double sum = c[0];
    for (int i = 1; i < 8; i++) sum = sum * x + c[i];
    return sum;
}

/* Rational approximations of AS 241, PPND16: numerator and denominator of the middle, the sides and the far tails. */
static const double middle[2][8] = {
    {2.5090809287301226727e+3, 3.3430575583588128105e+4, 6.7265770927008700853e+4, 4.5921953931549871457e+4,
     1.3731693765509461125e+4, 1.9715909503065514427e+3, 1.3314166789178437745e+2, 3.3871328727963666080e+0},
    {5.2264952788528545610e+3, 2.8729085735721942674e+4, 3.9307895800092710610e+4, 2.1213794301586595867e+4,
     5.3941960214247511077e+3, 6.8718700749205790830e+2, 4.2313330701600911252e+1, 1.0}};
static const double side[2][8] = {
    {7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e+0,
     3.64784832476320460504e+0, 5.76949722146069140550e+0, 4.63033784615654529590e+0, 1.42343711074968357734e+0},
    {1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
     6.89767334985100004550e-1, 1.67638483018380384940e+0, 2.05319162663775882187e+0, 1.0}};
static const double tail[2][8] = {
    {2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
     2.96560571828504891230e-1, 1.78482653991729133580e+0, 5.46378491116411436990e+0, 6.65790464350110377720e+0},
    {2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
     1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0}};

double tri__normal_inverse(double p) {
    double q = p - 0.5;
    if (fabs(q) <= 0.425) {
        double r = 0.180625 - q * q;
        return q * polynomial(middle[0], r) / polynomial(middle[1], r);
    }
    double r = sqrt(-log(q < 0 ? p : 1 - p));
    const double(*c)[8] = r <= 5 ? side : tail;
    r -= r <= 5 ? 1.6 : 5;
    double x = polynomial(c[0], r) / polynomial(c[1], r);
    return q < 0 ? -x : x;
}
