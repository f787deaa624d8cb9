/* heads.c - heads of a rank's tokens, against tokens of a rank's heads (reference/heads.c): runs of columns, copied or
 * added by all threads. */
#include "device/cpu/fast/runtime/call.h"

enum { ENOUGH = 1 << 14 }; /* elements */

static void move(float *restrict to, const float *restrict from, int64_t n, int add) {
    if (!add) memcpy(to, from, (size_t)n * sizeof *to);
    else
        for (int64_t i = 0; i < n; i++) to[i] += from[i];
}

/* y from x; one of them, `wide`, has the heads of a rank's tokens. */
static void heads(const tri_call *call) {
    OPERANDS(heads);
    enum { to = ARG(y), from = ARG(x) };
    int wide = call->attr->join != call->attr->back ? to : from;
    int64_t R = call->t[wide].rows, D = call->t[wide].cols, n = call->attr->members, G = D / n;
    int64_t groups = call->attr->groups, part = G / groups;
#pragma omp parallel for schedule(static) num_threads(threads_for(call, R * D, ENOUGH))
    for (int64_t t = 0; t < R; t++)
        for (int64_t k = 0; k < n; k++)
            for (int64_t g = 0; g < groups; g++) {
                int64_t apart = (k * R + t) * G + g * part, beside = t * D + (g * n + k) * part;
                move(f32(call, to) + (to == wide ? beside : apart), f32(call, from) + (from == wide ? beside : apart),
                     part, adds(call, to));
            }
}

TRI_FAST_ROWS(heads) = TRI_KERNEL_ROWS(TRI_KERNEL(heads));
