/* kernel_double_fp8.c - see kernel_double_fp8.h. */
#include "tests/lib/kernel_double_fp8.h"

#include "device/operands.h"

double double_rounded(double x, int bits, double least) {
    int exponent;
    if (x == 0) return 0;
    frexp(x, &exponent);
    double unit = fmax(ldexp(1, exponent - bits), least);
    return rint(x / unit) * unit;
}

double double_to_e4m3(double x) { return fmax(-448, fmin(448, double_rounded(x, 4, 0x1p-9))); }
static double double_to_e5m2(double x) { return fmax(-57344, fmin(57344, double_rounded(x, 3, 0x1p-16))); }

void double_8_bits(const kernel_call *k, int arg, const double *x, double s, double *q, double *transposed,
                   double *most) {
    int64_t T = k->call.t[arg].rows, I = k->call.t[arg].cols;
    int is_gradient = operand_dtype(k, arg) == TRI_F8_E5M2;
    for (int64_t i = 0; i < T * I; i++) {
        double rounded = (double)(float)x[i];
        double code = is_gradient ? double_to_e5m2(rounded * s) : double_to_e4m3(rounded * s);
        if (q) q[i] = code;
        if (transposed) transposed[i % I * T + i / I] = code;
        if (most) *most = fmax(*most, fabs(rounded));
    }
}

void double_fp8_cast(const kernel_call *k, double *const *v) {
    double_8_bits(k, 0, v[3], v[4][0], v[0], v[1], v[2]);
}

void double_fp8_cast_weights(const kernel_call *k, double *const *v) {
    for (int w = 0; w < 4; w++)
        if (v[9 + w]) double_8_bits(k, 9 + w, v[9 + w], v[13][3 * w], v[w], v[4 + w], &v[8][3 * w]);
}

void double_fp8_turn(const kernel_call *k, double *const *v) {
    for (int w = 0; w < 4; w++) {
        int64_t rows = k->call.t[4 + w].rows, cols = k->call.t[4 + w].cols;
        for (int64_t i = 0; i < rows * cols && v[4 + w] && v[w]; i++) v[w][i % cols * rows + i / cols] = v[4 + w][i];
    }
}

void double_fp8_scales(const kernel_call *k, double *const *v) {
    static const double first[] = {256, 8, 1 << 20}, limit[] = {448, 448, 57344};
    int64_t M = extent(k, 'M');
    for (int64_t row = 0; row < extent(k, 'K'); row++) {
        double largest = 0;
        for (int64_t i = 0; i < M; i++) largest = fmax(largest, v[2][row * M + i]);
        v[0][row] = largest > 0 ? exp2(fmin(60, fmax(-60, floor(log2(limit[row % 3] / largest))))) : first[row % 3];
        v[1][row] = 0;
    }
}

void double_fp8_check(const kernel_call *k, double *const *v) { (void)k, (void)v; }

void double_fp8_history(const kernel_call *k, double *const *v) {
    int64_t M = extent(k, 'M');
    for (int64_t row = 0; row < extent(k, 'K') && v[2][0] != 0; row++)
        for (int64_t i = M - 1; i >= 0; i--) v[0][row * M + i] = i ? v[0][row * M + i - 1] : v[1][row];
}

void double_attention(const kernel_call *k, double *const *v) {
    OPERANDS(attention);
    (k->attr.first ? double_attend_first : double_attend_all)(k, v);
    if (k->attr.mask) double_mask(k, v[ARG(bits)]);
    if (k->attr.scaled)
        double_8_bits(k, ARG(q), v[ARG(ctx)], v[ARG(sq)][0], v[ARG(q)], v[ARG(transposed)], v[ARG(most)]);
}
