/* activation.cu - GELU, tanh and ReLU, element by element; linear.cu uses the GELU too. */
#include "device/cuda/map.cuh"
#include "device/cuda/gelu.cuh"

struct tanh_op {
    static __device__ float at(float x) { return tanhf(x); }
};
struct relu_op { /* what is no number stays so */
    static __device__ float at(float x) { return x < 0 ? 0 : x; }
};
struct tanh_din_op {
    static __device__ float at(float dy, float y) { return dy * (1 - y * y); }
};
struct relu_din_op {
    static __device__ float at(float dy, float y) { return y > 0 ? dy : 0; }
};

template <typename T> static void gelu(const tri_call *call) { map1<gelu_op<T>, T, T>(call, 0, 1, "gelu"); }
template <typename T> static void gelu_din(const tri_call *call) { map2<gelu_din_op<T>, T>(call, "gelu_din"); }
template <typename T> static void tanh_(const tri_call *call) { map1<tanh_op, T, T>(call, 0, 1, "tanh"); }
template <typename T> static void tanh_din(const tri_call *call) { map2<tanh_din_op, T>(call, "tanh_din"); }
template <typename T> static void relu(const tri_call *call) { map1<relu_op, T, T>(call, 0, 1, "relu"); }
template <typename T> static void relu_din(const tri_call *call) { map2<relu_din_op, T>(call, "relu_din"); }

const tri_kernel_row tri__cuda_activation[] = {
    TRI_CUDA_ROWS(TRI_OP_gelu, gelu, {}),
    TRI_CUDA_ROWS(TRI_OP_gelu_din, gelu_din, {}),
    TRI_CUDA_ROWS(TRI_OP_tanh, tanh_, {}),
    TRI_CUDA_ROWS(TRI_OP_tanh_din, tanh_din, {}),
    TRI_CUDA_ROWS(TRI_OP_relu, relu, {}),
    TRI_CUDA_ROWS(TRI_OP_relu_din, relu_din, {}),
    {},
};
