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

static void heads_part(const tri_call *call) {
    OPERANDS(heads_part);
    to_narrow(call, ARG(y), ARG(x));
}

static void heads_part_din(const tri_call *call) {
    OPERANDS(heads_part_din);
    to_wide(call, ARG(dx), ARG(dy));
}

static void heads_join(const tri_call *call) {
    OPERANDS(heads_join);
    to_wide(call, ARG(y), ARG(x));
}

static void heads_join_din(const tri_call *call) {
    OPERANDS(heads_join_din);
    to_narrow(call, ARG(dx), ARG(dy));
}

static void heads_own(const tri_call *call) {
    OPERANDS(heads_own);
    int64_t N = call->t[ARG(y)].rows, H = call->t[ARG(y)].cols, C = call->t[ARG(x)].cols, at = call->attr->part * C;
    for (int64_t s = 0; s < N; s++)
        for (int64_t c = 0; c < H; c++)
            store(call, ARG(y), s * H + c, c >= at && c < at + C ? f32(call, ARG(x))[s * C + c - at] : 0);
}

static void heads_own_din(const tri_call *call) {
    OPERANDS(heads_own_din);
    int64_t N = call->t[ARG(dy)].rows, H = call->t[ARG(dy)].cols, C = call->t[ARG(dx)].cols, at = call->attr->part * C;
    for (int64_t s = 0; s < N; s++)
        for (int64_t c = 0; c < C; c++) store(call, ARG(dx), s * C + c, f32(call, ARG(dy))[s * H + at + c]);
}

const tri_kernel_row tri__cpu_heads_reference[] = {
    {.op = TRI_OP_heads_part, .dtype = TRI_F32, .run = heads_part},
    {.op = TRI_OP_heads_part_din, .dtype = TRI_F32, .run = heads_part_din},
    {.op = TRI_OP_heads_join, .dtype = TRI_F32, .run = heads_join},
    {.op = TRI_OP_heads_join_din, .dtype = TRI_F32, .run = heads_join_din},
    {.op = TRI_OP_heads_own, .dtype = TRI_F32, .run = heads_own},
    {.op = TRI_OP_heads_own_din, .dtype = TRI_F32, .run = heads_own_din},
    {.run = NULL},
};
