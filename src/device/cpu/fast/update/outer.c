/* outer.c - the operations of copies that step alone, and averages, by all threads: the plain rows on pieces of the
 * elements, which memory bounds. */
#include "device/cpu/cpu.h"
#include "device/cpu/fast/runtime/call.h"

enum { CHUNK = 16384, ENOUGH = 1 << 14 }; /* floats */

static void in_pieces(const tri_call *call) {
    const tri_kernel_row *row = tri__cpu_outer_reference;
    while (row->op != call->op) row++;
    int64_t n = call->t[0].cols;
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t at = 0; at < n; at += CHUNK) {
        tri_call part = *call;
        for (int k = 0; k < TRI_MAX_ARGS; k++) /* all but single numbers have n elements; with n = 1: one piece */
            if (part.t[k].data && part.t[k].cols == n)
                part.t[k] = (tri_tensor){f32(call, k) + at, 1, n - at < CHUNK ? n - at : CHUNK};
        row->run(&part);
    }
}

TRI_FAST_ROWS(outer) = TRI_KERNEL_ROWS(
    {.op = TRI_OP_local_delta, .dtype = TRI_F32, .run = in_pieces},
    {.op = TRI_OP_outer_step, .dtype = TRI_F32, .run = in_pieces},
    {.op = TRI_OP_outer_take, .dtype = TRI_F32, .run = in_pieces},
    {.op = TRI_OP_swap, .dtype = TRI_F32, .run = in_pieces},
    {.op = TRI_OP_average, .dtype = TRI_F32, .run = in_pieces});
