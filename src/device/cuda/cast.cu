/* cast.cu - converts a tensor to another type, rounding to nearest. */
#include "device/cuda/map.cuh"

template <typename Y> static void cast_to(const tri_call *call) {
    OPERANDS(cast);
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

const tri_kernel_row tri__cuda_cast[] = {
    {TRI_OP_cast, TRI_F32, cast, {}},
    {TRI_OP_cast, TRI_BF16, cast, {}},
    {TRI_OP_cast, TRI_F16, cast, {}},
    {},
};
