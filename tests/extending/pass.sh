#!/usr/bin/env bash
# pass.sh - a pass: its file and its row.
most=2

add() {
    cat >src/plan/pass_inputs.c <<'END'
/* pass_inputs.c - pass: the inputs of a microbatch stand before everything that it computes. */
#include "plan/pass.h"

tri_status tri__pass_inputs(tri_pass *pass) {
    int n;
    const tri_instr *from = tri__take_instrs(pass->program, &n);
    tri_builder to = {.arena = pass->arena, .program = pass->program};
    for (int others = 0; others < 2; others++)
        for (int i = 0; i < n; i++)
            if ((from[i].op != TRI_OP_input) == others) tri__build_copy(&to, &from[i]);
    return TRI_OK;
}
END
    row src/plan/passes.def 'TRI_PASS(schedule,' \
        'TRI_PASS(inputs, TENSOR, "puts inputs before what is computed", pass->training, "training")'
}

# It is listed, and shows what it does; the checker accepts what later passes make of it, on any mesh; a run trains.
use() {
    "$trident" plan --config base.json --print-after help >passes.txt 2>&1
    grep -q '^ *inputs .*puts inputs before' passes.txt || exit 1
    "$trident" plan --config base.json --world-size 2 --print-after inputs >after.txt 2>/dev/null || exit 1
    awk '$1 ~ /^[0-9]+$/ { late += $2 == "input" && seen; seen += $2 != "input" }
        END { exit !seen || late }' after.txt || exit 1
    "$trident" plan --config base.json --world-size 8 --pp-size 2 --tp-size 2 --shard zero3 --check >check.log 2>&1 ||
        { cat check.log >&2; exit 1; }
    train inputs
    train inputs-two --nproc-per-node 2 --batch-size 4 --num-microbatches 2
}
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
