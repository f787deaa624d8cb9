/* heads.c - heads of a rank's tokens, against tokens of a rank's heads (reference/heads.c): runs of columns, copied or
 * added by all threads. */
#include "device/cpu/fast/runtime/call.h"

#include <string.h>

enum { ENOUGH = 1 << 14 }; /* elements */

static void move(float *restrict to, const float *restrict from, int64_t n, int add) {
    if (!add) memcpy(to, from, (size_t)n * sizeof *to);
    else
        for (int64_t i = 0; i < n; i++) to[i] += from[i];
}

/* Operand `to` from operand `from`; one of them, `wide`, has the heads of a rank's tokens. */
static void exchange(const tri_call *call, int to, int from, int wide) {
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

static void heads_part(const tri_call *call) {
    OPERANDS(heads_part);
    exchange(call, ARG(y), ARG(x), ARG(x));
}

static void heads_part_din(const tri_call *call) {
    OPERANDS(heads_part_din);
    exchange(call, ARG(dx), ARG(dy), ARG(dx));
}

static void heads_join(const tri_call *call) {
    OPERANDS(heads_join);
    exchange(call, ARG(y), ARG(x), ARG(y));
}

static void heads_join_din(const tri_call *call) {
    OPERANDS(heads_join_din);
    exchange(call, ARG(dx), ARG(dy), ARG(dy));
}

TRI_FAST_ROWS(heads) = {
    {.op = TRI_OP_heads_part, .dtype = TRI_F32, .run = heads_part},
    {.op = TRI_OP_heads_part_din, .dtype = TRI_F32, .run = heads_part_din},
    {.op = TRI_OP_heads_join, .dtype = TRI_F32, .run = heads_join},
    {.op = TRI_OP_heads_join_din, .dtype = TRI_F32, .run = heads_join_din},
    {.run = NULL},
};
