#!/usr/bin/env bash
# cpu_kernel.sh - a fast CPU kernel: one file with the function and its row, compiled for each instruction set.
most=1

add() {
    cat >src/device/cpu/fast/elementwise/concat.c <<'END'
/* concat.c - branches side by side: every row is one work item. */
#include "device/cpu/fast/runtime/call.h"
#include "device/cpu/fast/runtime/simd.h"

#include <stdio.h>

#define TEXT(isa) TEXT_OF(isa)
#define TEXT_OF(isa) #isa

SIMD void simd_copy(int64_t n, const float *x, float *y) { BY_VECTORS(n, put(y + i, left, get(x + i, left))); }

static void concat(const tri_call *call) {
    OPERANDS(concat);
    int64_t rows = call->t[ARG(y)].rows, cols = call->t[ARG(y)].cols;
    fprintf(stderr, "concat: its own kernel for %s\n", TEXT(TRI_ISA));
#pragma omp parallel for schedule(static) num_threads(threads_for(call, rows * cols, 1 << 14))
    for (int64_t t = 0; t < rows; t++)
        for (int64_t k = ARG(a), at = 0; k <= ARG(c); k++)
            if (call->t[k].data) {
                simd_copy(call->t[k].cols, f32(call, (int)k) + t * call->t[k].cols, f32(call, ARG(y)) + t * cols + at);
                at += call->t[k].cols;
            }
}

TRI_FAST_ROWS(concat) = TRI_KERNEL_ROWS(TRI_KERNEL(concat));
END
}

# The kernel says that it ran; the loss is that of the reference kernels.
use() {
    train fast && train reference --device reference
    grep -q 'concat: its own kernel for' fast.log && ! grep -q concat reference.log || exit 1
    local run
    for run in fast reference; do
        sed -n 's/.*"event":"train".*"loss":\([0-9.]\{6\}\).*/\1/p' "$run/metrics.jsonl" >"$run.losses"
    done
    [ -s fast.losses ] && cmp fast.losses reference.losses
}
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
