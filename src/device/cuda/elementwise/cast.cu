/* cast.cu - converts a tensor to another type, rounding to nearest; also the gradient through 8-bit rounding. */
#include "device/cuda/elementwise/map.cuh"

static void cast(const tri_call *call) {
    OPERANDS(cast); /* quantize_din has them in this order, too */
    by_type(call->dtype[ARG(y)], [&](auto y) {
        by_type(call->dtype[ARG(x)], [&](auto x) {
            map1<same_op, decltype(y), decltype(x)>(call, ARG(y), ARG(x), "cast");
        });
    });
}

TRI_CUDA_FAMILY(cast) = {
    TRI_CUDA_SAME_ROWS(TRI_OP_cast, cast, {}),
    TRI_CUDA_SAME_ROWS(TRI_OP_quantize_din, cast, {}),
    {},
};
