/* normal.h - vectorised normal random numbers: what base/normal.c compiles for each instruction set. It is inlined
 * there always, so that it has the instructions of the function around it. That one gives `roots`: square roots of x
 * [TRI_NORMAL_LANES], in place. (Compilers do not vectorise sqrt, as it may set errno.)
 *
 * The numbers are bitwise those of base/random.c, which uses the system's logarithm, sine and cosine. Here these are
 * polynomials (those of FreeBSD's msun, with errors below one unit in the last place) in loops over lanes. Results
 * whose rounding to float could depend on such errors, one in a hundred thousand, are counted; the caller then computes
 * them as base/random.c does. */
#include "base/random.h"

#include <math.h>
#include <string.h>

typedef void tri_normal_roots(double *x);
#define INLINE static inline __attribute__((always_inline))

INLINE double as_double(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE uint64_t as_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Converts an integer below 2^52 by adding an exponent whose last place is 1: few conversions have vector
 * instructions. */
INLINE double from_whole(uint64_t number) { return as_double(number | 0x4330000000000000) - 0x1p52; }

/* u = m * 2^k with m in [sqrt(1/2), sqrt(2)); the logarithm of m from its series in (m - 1) / (m + 1). */
INLINE double logarithm(double u) {
    const uint64_t root = 0x3fe6a09e00000000, one = 0x3ff0000000000000;
    uint64_t shifted = as_bits(u) + (one - root);
    double k = from_whole(shifted >> 52) - 1023, f = as_double((shifted & 0x000fffffffffffff) + root) - 1;
    double s = f / (2 + f), z = s * s, w = z * z, half = 0.5 * f * f;
    double even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
    double odd = z * (6.666666666666735130e-01 +
                      w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
    return k * 6.93147180369123816490e-01 - ((half - (s * (half + (even + odd)) + k * 1.90821492927058770002e-10)) - f);
}

/* Sine and cosine for |x| <= pi / 4. */
INLINE double sine(double x) {
    double z = x * x;
    double rest = 8.33333333332248946124e-03 +
                  z * (-1.98412698298579493134e-04 +
                       z * (2.75573137070700676789e-06 +
                            z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)));
    return x + x * z * (-1.66666666666666324348e-01 + z * rest);
}

INLINE double cosine(double x) {
    double z = x * x, half = 0.5 * z, near = 1 - half;
    double rest = 4.16666666666666019037e-02 +
                  z * (-1.38888888888741095749e-03 +
                       z * (2.48015872894767294178e-05 +
                            z * (-2.75573143513906633035e-07 +
                                 z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11))));
    return near + (((1 - near) - half) + z * z * rest);
}

/* Whether rounding to float could differ: the relative error is below 2^-49, here and in base/random.c. */
INLINE int is_doubtful(double value) { return (float)(value * (1 - 0x1p-46)) != (float)(value * (1 + 0x1p-46)); }

/* Turns counters [TRI_NORMAL_LANES] into random words, in place: word k of lane i is word[k][i] (tri__philox). */
INLINE void mix(uint32_t key0, uint32_t key1, uint64_t word[4][TRI_NORMAL_LANES]) {
    for (int round = 0; round < 10; round++, key0 += 0x9E3779B9u, key1 += 0xBB67AE85u)
        for (int i = 0; i < TRI_NORMAL_LANES; i++) {
            uint64_t a = 0xD2511F53u * (uint64_t)(uint32_t)word[0][i], b = 0xCD9E8D57u * (uint64_t)(uint32_t)word[2][i];
            word[0][i] = (b >> 32) ^ word[1][i] ^ key0, word[1][i] = (uint32_t)b;
            word[2][i] = (a >> 32) ^ word[3][i] ^ key1, word[3][i] = (uint32_t)a;
        }
}

/* Turns two words into two normals of a deviation, x and y [TRI_NORMAL_LANES]; returns how many are doubtful. */
INLINE int64_t box_muller(const uint64_t *first, const uint64_t *second, double deviation, float *x, float *y,
                          tri_normal_roots *roots) {
    double radius[TRI_NORMAL_LANES];
    int64_t doubts = 0;
    for (int i = 0; i < TRI_NORMAL_LANES; i++) radius[i] = -2.0 * logarithm((from_whole(first[i]) + 1.0) * 0x1p-32);
    roots(radius);
    for (int i = 0; i < TRI_NORMAL_LANES; i++) {
        double angle = 2.0 * M_PI * (from_whole(second[i]) * 0x1p-32);
        double shifted = angle * 6.36619772367581382433e-01 + 0x1.8p52,
               quarters = shifted - 0x1.8p52; /* of a turn: 0 to 4 */
        uint64_t quarter = as_bits(shifted);
        double rest = (angle - quarters * 1.57079632673412561417e+00) - quarters * 6.07710050650619224932e-11;
        double s = sine(rest), c = cosine(rest);
        double along = quarter & 1 ? s : c, across = quarter & 1 ? c : s;
        double u = deviation * (radius[i] * ((quarter + 1) & 2 ? -along : along)),
               v = deviation * (radius[i] * (quarter & 2 ? -across : across));
        x[i] = (float)u, y[i] = (float)v;
        doubts += is_doubtful(u) | is_doubtful(v) |
                  (fabs(rest) < 1e-10); /* so small a remainder has few significant digits left */
    }
    return doubts;
}

/* The normals of TRI_NORMAL_LANES groups of four elements, out [4 * TRI_NORMAL_LANES]; returns how many are
 * doubtful. */
INLINE int64_t draw(uint32_t seed, uint32_t id, float deviation, uint64_t group, float *out, tri_normal_roots *roots) {
    uint64_t word[4][TRI_NORMAL_LANES];
    float normal[4][TRI_NORMAL_LANES];
    for (int i = 0; i < TRI_NORMAL_LANES; i++)
        word[0][i] = (uint32_t)(group + i), word[1][i] = (group + i) >> 32, word[2][i] = 0, word[3][i] = 1;
    mix(seed, id, word);
    int64_t doubts = 0;
    for (int k = 0; k < 4; k += 2)
        doubts += box_muller(word[k], word[k + 1], deviation, normal[k], normal[k + 1], roots);
    for (int i = 0; i < TRI_NORMAL_LANES; i++)
        for (int k = 0; k < 4; k++) out[4 * i + k] = normal[k][i];
    return doubts;
}
