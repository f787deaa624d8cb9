#!/usr/bin/env bash
# optimizer.sh - an optimizer with an operation of its own (Lion, Chen et al., 2023): a row of optimizers.def, a row of
# ops.def, a CPU kernel. For GPUs one more: its kernel in src/device/cuda/update/optimizers.cu.
most=3

add() {
    local kernels=src/device/cpu/reference/optimizer.c
    row src/plan/optimizer/optimizers.def 'TRI_OPTIMIZER(LAMB' \
        'TRI_OPTIMIZER(LION, "lion", TRI_TAKES_BETAS, EACH(lion, {"m", "exp_avg."}))'
    row src/program/ops.def 'TRI_OP(sgd,' 'TRI_OP(lion, U, 8 * K, "",
       "g *= coef; u = sign(beta1 * m + (1 - beta1) * g); p -= lr * (u + decay * p); m = beta2 * m + (1 - beta2) * g",
       ROW(.like = {{"adamw", 1}}), U(p, "1,K", F32), U(m, "1,K", F32), R(g, "1,K", ANY), R(hyper, "1,4", F32),
       R(coef, "1,1", F32), R(apply, "1,1", I32))'
    row $kernels 'static void sgd(' 'static void lion(const tri_call *call) {
    OPERANDS(lion);
    if (!*i32(call, ARG(apply))) return;
    float *p = f32(call, ARG(p)), *m = f32(call, ARG(m)); /* [K] */
    const float *g = f32(call, ARG(g));                   /* [K] */
    double lr = rate_of(call, f32(call, ARG(hyper))), coef = *f32(call, ARG(coef));
    double b1 = call->attr->beta1, b2 = call->attr->beta2;
    int64_t K = call->t[ARG(p)].rows * call->t[ARG(p)].cols;
    for (int64_t i = 0; i < K; i++) {
        double u = b1 * m[i] + (1 - b1) * g[i] * coef;
        p[i] = (float)(p[i] - lr * ((u > 0) - (u < 0) + call->attr->decay * p[i]));
        m[i] = (float)(b2 * m[i] + (1 - b2) * g[i] * coef);
    }
}
'
    row $kernels '    TRI_KERNEL(adamw)' '    TRI_KERNEL(lion),'
}

use() {
    "$trident" train --help all | grep -q 'adamw, adam, lion, lamb' || exit 1
    train one --optimizer lion --shard none
    train shards --optimizer lion --nproc-per-node 2 --batch-size 4 --shard zero2
    "$trident" plan --config base.json --optimizer lion --world-size 2 --shard zero3 --precision bf16 --check \
        >plan.log 2>&1 || { cat plan.log >&2; exit 1; }
    train bf16 --optimizer lion --precision bf16
    # A checkpoint has its state: a run that is resumed ends as one that was not.
    train whole --optimizer lion --max-steps 0 --epochs 2
    train resumed --optimizer lion --max-steps 0 --epochs 2 --until-epoch 1
    [ "$("$trident" digest whole)" != "$("$trident" digest resumed)" ] || exit 1
    train resumed --optimizer lion --max-steps 0 --epochs 2
    [ "$("$trident" digest whole)" = "$("$trident" digest resumed)" ] || exit 1
    "$trident" train --optimizer lion --momentum 0.5 --config base.json --data-path data 2>&1 |
        grep -q 'has a meaning with --optimizer sgd only' || exit 1
    "$trident" simulate --config base.json --world-size 2 --optimizer lion --hardware cpu --quiet >/dev/null || exit 1
}
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
