/* halving.c - the rungs of successive halving. */
#include "job/sweep.h"

int tri__rungs(int trials, int64_t epochs, int factor, tri_rung out[static TRI_RUNGS_MAX]) {
    int64_t share = 1;
    int n = 1;
    int64_t most = trials < epochs ? trials : epochs;
    for (; factor > 1 && n < TRI_RUNGS_MAX && share * factor <= most; n++) share *= factor;
    for (int i = 0; i < n; i++) {
        out[i] = (tri_rung){.epochs = epochs / share, .trials = trials};
        for (int k = 0; k < i; k++) out[i].trials /= factor;
        share /= factor;
    }
    return n;
}
