/* fusion.c - the branches side by side: columns of up to three matrices, and back. */
#include "device/cpu/reference/reference.h"

static int64_t width(const tri_call *call, int k) { return call->t[k].data ? call->t[k].cols : 0; }

static void concat(const tri_call *call) {
    enum { Y, A, B, C };
    int64_t N = call->t[Y].rows, cols = call->t[Y].cols, at = 0;
    for (int k = A; k <= C; at += width(call, k), k++)
        for (int64_t i = 0; i < N; i++)
            for (int64_t c = 0; c < width(call, k); c++)
                store(call, Y, i * cols + at + c, f32(call, k)[i * width(call, k) + c]);
}

/* A part whose gradient is left out keeps its columns: dy holds those of all parts, so its width must be given. */
static void concat_din(const tri_call *call) {
    enum { DA, DB, DC, DY };
    const float *dy = f32(call, DY); /* [N,Y] */
    int64_t N = call->t[DY].rows, cols = call->t[DY].cols, at = 0;
    for (int k = DA; k <= DC; at += call->t[k].cols, k++)
        for (int64_t i = 0; i < N; i++)
            for (int64_t c = 0; c < call->t[k].cols; c++)
                store(call, k, i * call->t[k].cols + c, dy[i * cols + at + c]);
}

const tri_kernel_row tri__cpu_fusion_reference[] = {
    {.op = TRI_OP_concat, .dtype = TRI_F32, .run = concat},
    {.op = TRI_OP_concat_din, .dtype = TRI_F32, .run = concat_din},
    {.run = NULL},
};
