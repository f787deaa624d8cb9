/* cast.cu - converts a tensor to another type, rounding to nearest; also the gradient through 8-bit rounding. */
#include "device/cuda/elementwise/map.cuh"

template <typename Y> static void cast_to(const tri_call *call) {
    OPERANDS(cast); /* quantize_din has them in this order, too */
    if (call->dtype[ARG(x)] == TRI_F32) map1<same_op, Y, float>(call, ARG(y), ARG(x), "cast");
    else if (call->dtype[ARG(x)] == TRI_BF16) map1<same_op, Y, bf16>(call, ARG(y), ARG(x), "cast");
    else map1<same_op, Y, f16>(call, ARG(y), ARG(x), "cast");
}

static void cast(const tri_call *call) {
    OPERANDS(cast);
    if (call->dtype[ARG(y)] == TRI_F32) cast_to<float>(call);
    else if (call->dtype[ARG(y)] == TRI_BF16) cast_to<bf16>(call);
    else cast_to<f16>(call);
}

#define ROWS(op) {op, TRI_F32, cast, {}}, {op, TRI_BF16, cast, {}}, {op, TRI_F16, cast, {}}
TRI_CUDA_FAMILY(cast) = {
    ROWS(TRI_OP_cast),
    ROWS(TRI_OP_quantize_din),
    {},
};
