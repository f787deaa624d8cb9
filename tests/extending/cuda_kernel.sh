#!/usr/bin/env bash
# cuda_kernel.sh - a GPU kernel: one file with the function and its rows. Compiled with nvcc, where that is, alone:
# all of the plug-in takes minutes.
most=1

add() {
    cat >src/device/cuda/elementwise/gate_rows.cu <<'END'
/* gate_rows.cu - y = x / (1 + exp(-z)). */
#include "device/cuda/elementwise/map.cuh"

struct gate_op {
    static __device__ __forceinline__ float at(float x, float z) { return x / (1.0f + expf(-z)); }
};

template <typename T> static void gate(const tri_call *call) {
    OPERANDS(gate);
    map2<gate_op, T>(call, ARG(y), ARG(x), ARG(z), "gate");
}

TRI_CUDA_FAMILY(gate_rows) = {
    TRI_CUDA_ROWS(TRI_OP_gate, gate, {}),
    {},
};
END
}

# The kernel compiles, and the plug-in's table asks for its rows by the name that they have.
use() {
    if ! grep -q '^NVCC := .' ../build/found.mk; then
        echo "cuda_kernel.sh: left out, there is no nvcc here"
        return
    fi
    local of=build/src/device/cuda
    make -C .. CFLAGS=-O0 CUDA_ARCH='-gencode arch=compute_90a,code=sm_90a' "$of/elementwise/gate_rows.cu.o" \
        "$of/runtime/device.c.o" >cuda.log 2>&1 || { tail -n 20 cuda.log >&2; exit 1; }
    nm "../$of/elementwise/gate_rows.cu.o" | grep -q ' [DRd] tri__cuda_gate_rows$' &&
        nm "../$of/runtime/device.c.o" | grep -q ' U tri__cuda_gate_rows$'
}
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
