/* expert_rows.h - the rows of one expert among those of all: attr.groups * attr.members equal runs, run i of expert
 * i % members; of each run those that have a token. */
#pragma once

#include "device/cpu/fast/runtime/call.h"

typedef struct tri_expert_rows {
    const int32_t *from;  /* [rows] below 0: no token; NULL: all have one */
    int64_t each, stride; /* rows of a run; from the beginning of an expert's run to that of its next */
    int64_t groups;       /* runs of an expert */
} tri_expert_rows;

/* Of `rows` rows in all; from: an operand. */
static inline tri_expert_rows tri__expert_rows(const tri_call *call, int64_t rows, int from) {
    int64_t groups = call->attr->groups ? call->attr->groups : 1, each = rows / (groups * call->attr->members);
    return (tri_expert_rows){i32(call, from), each, each * call->attr->members, groups};
}

/* Lists at most `most` rows of expert e, the first of which is the *next-th of its runs, and moves *next beyond them;
 * returns how many. list NULL: counts them. */
static inline int64_t tri__expert_rows_list(const tri_expert_rows *of, int64_t e, int64_t *next, int64_t most,
                                            int32_t *list) {
    int64_t n = 0, end = of->groups * of->each;
    for (; *next < end && n < most; ++*next) {
        int64_t row = *next / of->each * of->stride + e * of->each + *next % of->each;
        if (of->from && of->from[row] < 0) continue;
        if (list) list[n] = (int32_t)row;
        n++;
    }
    return n;
}

static inline int64_t tri__expert_rows_count(const tri_expert_rows *of, int64_t e) {
    return tri__expert_rows_list(of, e, &(int64_t){0}, INT64_MAX, NULL);
}

/* Rows of operand k, of elements of so many bytes, that have no token become 0, unless the rest is added to what is
 * there. */
static inline void tri__expert_rows_clear(const tri_call *call, int k, const tri_expert_rows *of, size_t bytes) {
    int64_t rows = call->t[k].rows, row = call->t[k].cols * (int64_t)bytes;
    if (!of->from || !call->t[k].data || adds(call, k)) return;
#pragma omp parallel for schedule(static) num_threads(threads_for(call, rows * row, 1 << 16))
    for (int64_t r = 0; r < rows; r++)
        if (of->from[r] < 0) memset((char *)call->t[k].data + r * row, 0, (size_t)row);
}
