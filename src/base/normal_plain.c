/* normal_plain.c - normal random numbers with the baseline instruction set. */
#include "base/normal.h"

static inline void roots(double *x) {
    for (int i = 0; i < TRI_NORMAL_LANES; i++) x[i] = sqrt(x[i]);
}

int64_t tri__normal_plain(uint32_t seed, uint32_t id, float deviation, uint64_t group, float *out) {
    return draw(seed, id, deviation, group, out);
}
