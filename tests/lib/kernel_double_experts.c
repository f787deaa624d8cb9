/* kernel_double_experts.c - see kernel_double_experts.h. */
#include "tests/lib/kernel_double_experts.h"

/* How many experts are ahead of expert e for a token. */
static int64_t double_rank(const double *logits, int64_t C, int64_t e) {
    int64_t ahead = 0;
    for (int64_t o = 0; o < C; o++) ahead += logits[o] > logits[e] || (logits[o] == logits[e] && o < e);
    return ahead;
}

void double_route(const kernel_call *k, double *const *v) {
    int64_t T = extent(k, 'T'), C = extent(k, 'C'), K = extent(k, 'K'), R = extent(k, 'R');
    for (int64_t r = 0; r < R; r++) v[2][r] = -1;
    for (int64_t t = 0, s = 0; t < T; t++) {
        const double *logits = v[4] + t * C;
        double sum = 0, chosen = 0;
        while (s < extent(k, 'N') && t >= (int64_t)v[5][s + 1]) s++;
        int none = s == extent(k, 'N');
        for (int64_t e = 0; e < C; e++) sum += exp(logits[e]);
        for (int64_t e = 0; e < C; e++) v[3][t * C + e] = none ? 0 : exp(logits[e]) / sum;
        for (int64_t j = 0; j < K && none; j++) v[0][t * K + j] = -1, v[1][t * K + j] = 0;
        for (int64_t e = 0; e < C && !none; e++)
            if (double_rank(logits, C, e) < K) chosen += v[3][t * C + e];
        for (int64_t e = 0; e < C && !none; e++) {
            int64_t j = double_rank(logits, C, e), before = 0;
            if (j >= K) continue;
            v[1][t * K + j] = K > 1 ? v[3][t * C + e] / chosen : v[3][t * C + e];
            for (int64_t o = (int64_t)v[5][s]; o < (int64_t)v[5][s + 1]; o++) {
                int64_t rank = double_rank(v[4] + o * C, C, e);
                before += rank < j || (rank == j && o < t);
            }
            int64_t row = e * (R / C) + (int64_t)v[6][s] + before;
            int placed = before < (int64_t)(v[6][s + 1] - v[6][s]);
            v[0][t * K + j] = (double)(placed ? row : -1 - e);
            if (placed) v[2][row] = (double)(t * K + j);
        }
    }
}

void double_balance(const kernel_call *k, double *const *v) {
    int64_t C = extent(k, 'C'), K = extent(k, 'K'), each = extent(k, 'R') / C;
    v[0][0] = v[0][1] = 0;
    for (int64_t s = 0; s < extent(k, 'N'); s++) {
        int64_t begin = (int64_t)v[4][s], end = (int64_t)v[4][s + 1];
        double n = (double)(end - begin);
        for (int64_t t = begin; t < end; t++) {
            int64_t first = (int64_t)v[2][t * K], e = first < 0 ? -1 - first : first / each;
            for (int64_t o = begin; o < end; o++)
                v[0][0] += (double)k->attr.rate * v[5][0] * (double)C * v[1][o * C + e] / (n * n);
            v[0][1] += first < 0 && (K == 1 || v[2][t * K + 1] < 0);
        }
    }
}

void double_dispatch(const kernel_call *k, double *const *v) {
    int64_t H = extent(k, 'H'), K = extent(k, 'K');
    for (int64_t i = 0; i < operand_count(k, 0); i++) v[0][i] = 0;
    for (int64_t i = 0; i < extent(k, 'T') * K; i++)
        for (int64_t c = 0; c < H && v[2][i] >= 0; c++) v[0][(int64_t)v[2][i] * H + c] = v[1][i / K * H + c];
}

void double_combine(const kernel_call *k, double *const *v) {
    int64_t H = extent(k, 'H'), K = extent(k, 'K');
    for (int64_t i = 0; i < operand_count(k, 0); i++) v[0][i] = 0;
    for (int64_t r = 0; r < extent(k, 'R'); r++) {
        int64_t i = (int64_t)v[4][r];
        for (int64_t c = 0; c < H && i >= 0; c++) v[0][i / K * H + c] += v[3][i] * v[1][r * H + c];
    }
}
