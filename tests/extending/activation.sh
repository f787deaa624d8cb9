#!/usr/bin/env bash
# activation.sh - an activation: a row, and a formula with its slope. Every device computes it, in every type.
most=2

add() {
    row src/program/activation.def '#undef' 'TRI_ACTIVATION(MISH, mish, 30, 40, 0, "mish")'
    awk '/case TRI_ACTIVATION_COUNT/ {
            if (!n++) print "    case TRI_ACTIVATION_MISH: return x * tanh(log1p(exp(x)));"
            else print "    case TRI_ACTIVATION_MISH:\n        s = tanh(log1p(exp(at)));\n" \
                       "        return dy * (s + at * (1 - s * s) * logistic_at(at));"
        } { print }' src/device/activation.h >new && mv new src/device/activation.h
}

# The slope is that of the formula, by central differences; the fast kernels compute what the reference ones do.
use() {
    cat >slope.c <<'END'
#include "device/activation.h"
int main(void) {
    for (double x = -6; x <= 6; x += 0.371) {
        double a = activation_at(TRI_ACTIVATION_MISH, x + 1e-5), b = activation_at(TRI_ACTIVATION_MISH, x - 1e-5);
        if (fabs((a - b) / 2e-5 - activation_din(TRI_ACTIVATION_MISH, 1, x)) > 1e-8) return 1;
    }
    return 0;
}
END
    cc -I"$scratch/src" -I"$scratch/include" slope.c -o slope -lm && ./slope || exit 1
    local act device
    for act in mish gelu; do
        sed "s/\"model_type\": \"bert\"/&, \"hidden_act\": \"$act\"/g" bert.json >"$act.json"
        for device in cpu reference; do train "$act-$device" --config "$act.json" --device $device; done
    done
    losses() { sed -n 's/.*"event":"train".*"loss":\([0-9.]*\).*/\1/p' "$1/metrics.jsonl" | cut -c 1-6 | tr '\n' ' '; }
    [ "$(losses mish-cpu)" = "$(losses mish-reference)" ] && [ "$(losses mish-cpu)" != "$(losses gelu-cpu)" ]
}
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
