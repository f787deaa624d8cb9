/* rope.c - rotary positions: cosines and sines are computed once for each position, as far as the positions are below
 * the number of rows, else once for each row; all heads share them. */
#include "device/cpu/fast/runtime/call.h"
#include "numbers/rope.h"

enum { ENOUGH = 1 << 13 }; /* elements */

/* Whether the table's rows are positions. */
static int by_position(const int32_t *pos, int64_t rows) {
    for (int64_t t = 0; t < rows; t++)
        if (pos[t] < 0 || pos[t] >= rows) return 0;
    return 1;
}

/* Cosines and sines [half] each of one position. */
static void angles(float theta, int32_t pos, int64_t half, double sign, float *to) {
    for (int64_t j = 0; j < half; j++) {
        double angle = (double)tri__rope_angle(pos, tri__rope_turn(theta, j, 2 * half));
        to[j] = (float)cos(angle), to[half + j] = (float)(sign * sin(angle));
    }
}

/* One head's columns, x and y [2 * half]. */
static void turn_head(const float *restrict x, const float *restrict cosine, const float *restrict sine, int64_t half,
                      float *restrict y, int acc) {
    for (int64_t j = 0; j < half; j++) {
        float a = x[j] * cosine[j] - x[half + j] * sine[j], b = x[half + j] * cosine[j] + x[j] * sine[j];
        y[j] = acc ? y[j] + a : a, y[half + j] = acc ? y[half + j] + b : b;
    }
}

static void turn_row(const float *restrict x, const float *table, int64_t heads, int64_t half, float *restrict y,
                     int acc) {
    int64_t wide = heads * 2 * half; /* of query, key or value */
    for (int64_t c = 0; c < 2 * wide; c += 2 * half) turn_head(x + c, table, table + half, half, y + c, acc);
    if (acc)
        for (int64_t c = 2 * wide; c < 3 * wide; c++) y[c] += x[c];
    else memcpy(y + 2 * wide, x + 2 * wide, (size_t)wide * sizeof *y);
}

/* y = x rotated, or dx = dy rotated back. */
static void rope(const tri_call *call) {
    OPERANDS(rope);
    double sign = call->attr->back ? -1 : 1;
    const int32_t *pos = i32(call, ARG(pos));
    int64_t rows = call->t[ARG(y)].rows, D = call->t[ARG(y)].cols, heads = call->attr->heads, half = D / heads / 6;
    int shares = by_position(pos, rows);
    float *table = call->work; /* [rows, 2 * half] */
    int64_t used = rows;
    if (shares) {
        used = 0;
        for (int64_t t = 0; t < rows; t++) used = pos[t] >= used ? pos[t] + 1 : used;
    }
#pragma omp parallel num_threads(threads_for(call, rows * D, ENOUGH))
    {
#pragma omp for schedule(static)
        for (int64_t i = 0; i < used; i++)
            angles(call->attr->theta, shares ? (int32_t)i : pos[i], half, sign, table + i * 2 * half);
#pragma omp for schedule(static)
        for (int64_t t = 0; t < rows; t++)
            turn_row(f32(call, ARG(x)) + t * D, table + (shares ? pos[t] : t) * 2 * half, heads, half,
                     f32(call, ARG(y)) + t * D, adds(call, ARG(y)));
    }
}

/* Scratch: a third of a row's columns, or less, in fp32. */
TRI_FAST_ROWS(rope) = TRI_KERNEL_ROWS({.op = TRI_OP_rope, .dtype = TRI_F32, .run = rope, .work = {.row_cols = 2}});
