/* reduce.c - reduces n vectors to one: a plain row for each element type, and SIMD rows for the sums of training (f32,
 * bf16), which read every input and write every output in one pass. All arm64 and x86-64 CPUs have 16-byte vectors, and
 * they are faster than memory.
 *
 * Every row adds an element's inputs one after the other, in the order of `in`, which is that of the group's members;
 * only elements are divided among vectors, tasks and threads. So a sum has the same bits whoever computes it. */
#include "comm/ops/reduce.h"

#include "numbers/float8.h"

#define NAME f32
#define ELEMENT float
#include "comm/ops/reduce_body.h"

#define NAME f64
#define ELEMENT double
#include "comm/ops/reduce_body.h"

#define NAME bf16
#define ELEMENT uint16_t
#define WORK float
#define LOAD tri__from_bf16
#define SAVE tri__to_bf16
#include "comm/ops/reduce_body.h"

#define NAME f16
#define ELEMENT uint16_t
#define WORK float
#define LOAD tri__from_f16
#define SAVE tri__to_f16
#include "comm/ops/reduce_body.h"

#define NAME i32
#define ELEMENT int32_t
#define UNSIGNED uint32_t
#include "comm/ops/reduce_body.h"

#define NAME i64
#define ELEMENT int64_t
#define UNSIGNED uint64_t
#include "comm/ops/reduce_body.h"

#define NAME u8
#define ELEMENT uint8_t
#include "comm/ops/reduce_body.h"

#define NAME i8
#define ELEMENT int8_t
#define UNSIGNED uint8_t
#include "comm/ops/reduce_body.h"

#define NAME f8
#define ELEMENT uint8_t
#define WORK float
#define LOAD tri__from_e4m3
#define SAVE tri__to_e4m3
#include "comm/ops/reduce_body.h"

#define NAME f8e5
#define ELEMENT uint8_t
#define WORK float
#define LOAD tri__from_e5m2
#define SAVE tri__to_e5m2
#include "comm/ops/reduce_body.h"

typedef void row(tri_reduction reduction, int n, const void *const *in, int n_out, void *const *out, int64_t first,
                 int64_t count);
static row *const rows[TRI_DTYPE_COUNT] = {
#define X(upper, lower, bytes) [TRI_##upper] = reduce_##lower,
    TRI_DTYPES(X)
#undef X
};

typedef void onto_row(tri_reduction reduction, const void *before, int n, const void *const *in, int of, int n_out,
                      void *const *out, int64_t count);
static onto_row *const onto_rows[TRI_DTYPE_COUNT] = {
#define X(upper, lower, bytes) [TRI_##upper] = onto_##lower,
    TRI_DTYPES(X)
#undef X
};

void tri__reduce_plain(tri_dtype dtype, tri_reduction reduction, int n, const void *const *in, int n_out,
                       void *const *out, int64_t count) {
    rows[dtype](reduction, n, in, n_out, out, 0, count);
}

#define INLINE static inline __attribute__((always_inline))
enum {
    WIDE = 4,  /* vectors per step: one cache line of each input */
    AHEAD = 32 /* cache lines of prefetch distance for writing: one request to the core that owns a line instead of two.
                  Halves the time */
};
typedef float vf __attribute__((vector_size(16), aligned(4), may_alias));
typedef uint32_t vu __attribute__((vector_size(16), aligned(2), may_alias));

/* Sums `steps` cache lines. */
INLINE void sum_f32(int n, const void *const *in, int n_out, void *const *out, int64_t steps) {
    for (int64_t i = 0; i < steps * WIDE; i += WIDE) {
        vf sum[WIDE];
        for (int j = 0; j < n_out; j++) __builtin_prefetch((const vf *)out[j] + i + AHEAD * WIDE, 1);
        for (int v = 0; v < WIDE; v++) sum[v] = ((const vf *)in[0])[i + v];
        for (int k = 1; k < n; k++)
            for (int v = 0; v < WIDE; v++) sum[v] += ((const vf *)in[k])[i + v];
        for (int j = 0; j < n_out; j++)
            for (int v = 0; v < WIDE; v++) ((vf *)out[j])[i + v] = sum[v];
    }
}

/* Rounds as tri__to_bf16: the result is in the upper 16 bits of each lane; the lower ones are undefined. */
INLINE vu round_bf16(vf x) {
    vu bits = (vu)x, number = (vu)(x == x);
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & number) | (~number & 0x7FC00000);
}

/* Two elements share a lane: the even one is its lower half. */
INLINE void sum_bf16(int n, const void *const *in, int n_out, void *const *out, int64_t steps) {
    for (int64_t i = 0; i < steps * WIDE; i += WIDE) {
        vf even[WIDE], odd[WIDE];
        for (int j = 0; j < n_out; j++) __builtin_prefetch((const vu *)out[j] + i + AHEAD * WIDE, 1);
        for (int v = 0; v < WIDE; v++) {
            vu x = ((const vu *)in[0])[i + v];
            even[v] = (vf)(x << 16), odd[v] = (vf)(x & 0xFFFF0000);
        }
        for (int k = 1; k < n; k++)
            for (int v = 0; v < WIDE; v++) {
                vu x = ((const vu *)in[k])[i + v];
                even[v] += (vf)(x << 16), odd[v] += (vf)(x & 0xFFFF0000);
            }
        for (int v = 0; v < WIDE; v++) {
            vu result = (round_bf16(odd[v]) & 0xFFFF0000) | round_bf16(even[v]) >> 16;
            for (int j = 0; j < n_out; j++) ((vu *)out[j])[i + v] = result;
        }
    }
}

INLINE void sum_lines(tri_dtype dtype, int n, const void *const *in, int n_out, void *const *out, int64_t steps) {
    if (dtype == TRI_F32) sum_f32(n, in, n_out, out, steps);
    else sum_bf16(n, in, n_out, out, steps);
}

/* Compiled separately for the usual numbers of inputs and outputs, so that pointers stay in registers. */
INLINE void sum_few(tri_dtype dtype, int n, const void *const *in, int n_out, void *const *out, int64_t steps) {
    const void *from[4];
    void *to[4];
    for (int k = 0; k < n; k++) from[k] = in[k];
    for (int j = 0; j < n_out; j++) to[j] = out[j];
    sum_lines(dtype, n, from, n_out, to, steps);
}

INLINE void sum_by_number(tri_dtype dtype, int n, const void *const *in, int n_out, void *const *out, int64_t steps) {
    if (n == 2 && n_out == 2) sum_few(dtype, 2, in, 2, out, steps);
    else if (n == 2 && n_out == 1) sum_few(dtype, 2, in, 1, out, steps);
    else if (n == 3 && n_out == 3) sum_few(dtype, 3, in, 3, out, steps);
    else if (n == 3 && n_out == 1) sum_few(dtype, 3, in, 1, out, steps);
    else if (n == 4 && n_out == 4) sum_few(dtype, 4, in, 4, out, steps);
    else if (n == 4 && n_out == 1) sum_few(dtype, 4, in, 1, out, steps);
    else sum_lines(dtype, n, in, n_out, out, steps);
}

void tri__reduce(tri_dtype dtype, tri_reduction reduction, int n, const void *const *in, int n_out, void *const *out,
                 int64_t count) {
    int64_t steps = 0, a_line = 64 / (int64_t)tri__dtype_bytes(dtype);
    if (reduction == TRI_SUM && (dtype == TRI_F32 || dtype == TRI_BF16)) steps = count / a_line;
    if (dtype == TRI_F32) sum_by_number(TRI_F32, n, in, n_out, out, steps);
    else if (dtype == TRI_BF16) sum_by_number(TRI_BF16, n, in, n_out, out, steps);
    rows[dtype](reduction, n, in, n_out, out, steps * a_line, count);
}

void tri__reduce_onto(tri_dtype dtype, tri_reduction reduction, const void *before, int n, const void *const *in,
                      int of, int n_out, void *const *out, int64_t count) {
    enum { MOST = 64 };
    const void *all[MOST + 1] = {before}; /* a sum of fp32 so far is one more input, before the others */
    if (dtype != TRI_F32 || reduction != TRI_SUM || n > MOST) {
        onto_rows[dtype](reduction, before, n, in, of, n_out, out, count);
        return;
    }
    for (int k = 0; k < n; k++) all[k + 1] = in[k];
    tri__reduce(dtype, reduction, n + (before != NULL), before ? all : all + 1, n_out, out, count);
}
