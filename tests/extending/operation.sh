#!/usr/bin/env bash
# operation.sh - an operation with its adjoint: the rows, the reference kernels, and the model that it is used in.
most=3

add() {
    row src/program/ops.def 'TRI_OP(concat,' 'TRI_OP(softsign, F, 3 * T * H, "softsign_din", "y = x / (1 + |x|)",
       ROW(.split = TRI_SPLIT_SAME), W(y, "T,H"), R(x, "T,H"))
TRI_OP(softsign_din, B, 4 * T * H, "", "dx = dy / (1 + |x|)^2", ROW(), A(dx, "T,H"), R(dy, "T,H"), R(x, "T,H"))'
    row src/device/cpu/reference/fusion.c 'const tri_kernel_row' 'static void softsign(const tri_call *call) {
    OPERANDS(softsign);
    const float *x = f32(call, ARG(x)); /* [T,H] */
    int64_t n = call->t[ARG(y)].rows * call->t[ARG(y)].cols;
    for (int64_t i = 0; i < n; i++) store(call, ARG(y), i, x[i] / (1 + fabs((double)x[i])));
}

static void softsign_din(const tri_call *call) {
    OPERANDS(softsign_din);
    const float *dy = f32(call, ARG(dy)), *x = f32(call, ARG(x)); /* [T,H] */
    int64_t n = call->t[ARG(dx)].rows * call->t[ARG(dx)].cols;
    for (int64_t i = 0; i < n; i++) store(call, ARG(dx), i, dy[i] / pow(1 + fabs((double)x[i]), 2));
}
'
    row src/device/cpu/reference/fusion.c '    TRI_KERNEL(concat),' \
        '    TRI_KERNEL(softsign), TRI_KERNEL(softsign_din),'
    row src/model/tabular.c '    return tri__forward_activation(' \
        '    int y = tri__forward_slot(f, samples, C, "softsign");
    TRI_BUILD(&f->build, softsign, (tri_attr){0}, y, h);
    h = y;'
}

# The planner adds the adjoint, splits it, and the checker proves both; 16-bit rows come by themselves.
use() {
    "$trident" plan --config base.json --print-program 0 >program.txt 2>&1
    grep -q '^[0-9]* softsign  *tabular.softsign#0\[N,16\] <- tabular.linear#0' program.txt &&
        grep -q '^[0-9]* softsign_din  *d.tabular.linear#0' program.txt || exit 1
    "$trident" plan --config base.json --world-size 4 --tp-size 2 --shard zero2 --check >softsign.log 2>&1 ||
        { cat softsign.log >&2; exit 1; }
    train softsign
    train softsign-16 --precision bf16 --nproc-per-node 2 --batch-size 4
}
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
