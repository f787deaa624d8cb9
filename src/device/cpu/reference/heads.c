/* heads.c - heads of all tokens of a rank's run, against all tokens of a rank's heads: the layouts that ranks of
 * context parallelism exchange. A row of the wide matrix [R, members * G] is `groups` times all heads side by side; run
 * k of the narrow one [members * R, G] has the k-th part of them. Also a rank's heads, with zeros for the other ranks',
 * to be summed. */
#include "device/cpu/reference/reference.h"

/* Where the element (t, c) of the wide matrix is in the narrow one. */
static int64_t narrow_at(const tri_call *call, int64_t R, int64_t D, int64_t t, int64_t c) {
    int64_t n = call->attr->members, each = D / call->attr->groups, part = each / n;
    int64_t group = c / each, k = c % each / part;
    return (k * R + t) * (D / n) + group * part + c % part;
}

static void to_narrow(const tri_call *call, int narrow, int wide) {
    int64_t R = call->t[wide].rows, D = call->t[wide].cols;
    for (int64_t t = 0; t < R; t++)
        for (int64_t c = 0; c < D; c++)
            store(call, narrow, narrow_at(call, R, D, t, c), f32(call, wide)[t * D + c]);
}

static void to_wide(const tri_call *call, int wide, int narrow) {
    int64_t R = call->t[wide].rows, D = call->t[wide].cols;
    for (int64_t t = 0; t < R; t++)
        for (int64_t c = 0; c < D; c++)
            store(call, wide, t * D + c, f32(call, narrow)[narrow_at(call, R, D, t, c)]);
}

static void heads(const tri_call *call) {
    OPERANDS(heads);
    if (call->attr->join != call->attr->back) to_wide(call, ARG(y), ARG(x));
    else to_narrow(call, ARG(y), ARG(x));
}

static void heads_own(const tri_call *call) {
    OPERANDS(heads_own);
    int64_t N = call->t[ARG(y)].rows, to = call->t[ARG(y)].cols, from = call->t[ARG(x)].cols;
    int64_t shift = call->attr->back ? call->attr->part * to : -call->attr->part * from;
    for (int64_t s = 0; s < N; s++)
        for (int64_t c = 0; c < to; c++) {
            int64_t at = c + shift;
            store(call, ARG(y), s * to + c, at >= 0 && at < from ? f32(call, ARG(x))[s * from + at] : 0);
        }
}

const tri_kernel_row tri__cpu_heads_reference[] = TRI_KERNEL_ROWS(TRI_KERNEL(heads), TRI_KERNEL(heads_own));
