/* interval.c - Wilson's interval, and what follows from it for F1. */
#include "score/interval.h"

#include <math.h>

const tri_interval tri__interval_none = {NAN, NAN};

tri_interval tri__interval_share(int64_t hits, int64_t n) {
    static const double z = 1.959963984540054; /* 2.5 % of a normal variable are above */
    if (!n) return tri__interval_none;
    double rows = (double)n, p = (double)hits / rows, middle = p + z * z / (2 * rows);
    double half = z * sqrt(p * (1 - p) / rows + z * z / (4 * rows * rows)), all = 1 + z * z / rows;
    return (tri_interval){hits ? fmax((middle - half) / all, 0) : 0, hits < n ? fmin((middle + half) / all, 1) : 1};
}

tri_interval tri__interval_f1(int64_t hits, int64_t either) {
    tri_interval j = tri__interval_share(hits, either);
    return (tri_interval){2 * j.low / (1 + j.low), 2 * j.high / (1 + j.high)};
}
