/* attention_relative_args.cuh - operands of attention by distances (numbers/distance.h), and the table's row for each.
 */
#pragma once

#include "device/cuda/attention/attention.cuh"
#include "numbers/distance.h"

enum { MOST_FAR = 2047, MOST_NEAR = 256 }; /* tokens, on tensor cores: of terms; of biases, in gradients */

typedef struct relative_args {
    attention_args a;    /* scale: of the sum of all products */
    const void *table;   /* [B,heads] biases; [B,3H] rq | rk | unused */
    void *dtable;
    int16_t *rows;       /* scratch: [2 far + 1] the table's row for distances -far .. far; further ones are as these */
    float *part; /* scratch: sums of the table's gradients: of biases by tiles of queries, [heads, 2 far + 1] each
                  * (attention_relative_din.cu); else attention_relative_table.cu's */
    int B, buckets, reach, far;
    int terms;           /* 0: biases; 1 queries with the band's keys, 2 keys with its queries, 3 both */
    int add_table;       /* dtable is added to */
    int sides, splits;   /* of the sums: diagonals of tiles beside the main one; parts of that one */
} relative_args;

/* Tensor core kernels, for 16-bit types and heads of up to 64 columns: ctx and lse; dqkv and statistics; dtable, which
 * needs these. And how the sums of the latter are cut, to fit in that many bytes; 0: they do not.
 * attention_relative_forward.cu, attention_relative_din.cu, attention_relative_table.cu */
void tri__cuda_relative(const tri_call *call, const relative_args *t, int dtype);
void tri__cuda_relative_din(const tri_call *call, const relative_args *t, int dtype);
void tri__cuda_relative_table(const tri_call *call, const relative_args *t, int dtype);
int tri__cuda_relative_plan(relative_args *t, int64_t bytes);

/* The table's row for a distance query - key. A band has distances that no pair has, and the table no row for. */
static __device__ __forceinline__ int table_row(const relative_args &t, int distance) {
    int row = t.terms ? tri__bucket_log(distance, t.buckets, t.reach) - (t.buckets - t.B) / 2
                      : tri__bucket_t5(-distance, t.buckets, t.reach);
    return max(0, min(row, t.B - 1));
}
static __device__ __forceinline__ int listed_row(const relative_args &t, int distance) {
    return t.rows[max(-t.far, min(t.far, distance)) + t.far];
}
