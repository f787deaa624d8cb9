/* attention_bytes.cuh - results of attention on Hopper's tensor cores in 8 bits (ops_fp8.def): a warp's 16 rows of 64
 * columns of an accumulator, rounded to the computing type and then to bytes, in rows and turned.
 *
 * A column's 16 rows are 16 bytes of `turned`: the warp writes them if they are aligned, which is where a sequence
 * begins at a multiple of 16, and has all of them. The other rows are turned afterwards (attention_scaled.cu). */
#ifndef TRI_DEVICE_CUDA_ATTENTION_BYTES_CUH
#define TRI_DEVICE_CUDA_ATTENTION_BYTES_CUH

#include "device/cuda/attention.cuh"
#include "device/cuda/fp8.cuh"
#include "device/cuda/wgmma.cuh"

enum { TURN_ROWS = 16 };

/* Turns rows in the computing type that begin at row t, of which `left` exist; the first column of the 64 is `column`,
 * of `cols`. `room`: the 2 KiB where rows were staged, which no thread reads any more; [64 columns, 16 rows]. */
template <typename Q, typename T>
static __device__ __forceinline__ void turn_rows(const attention_args &a, const float (&d)[32],
                                                 const float (&factor)[2], uint32_t room, int t, int64_t column,
                                                 int left, float s) {
    int lane = threadIdx.x % WARP;
    if (!a.turned || t % TURN_ROWS || left < TURN_ROWS) return;
    float scaled[32];
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 32; i++) scaled[i] = d[i] * factor[i / 2 % 2];
    int c = lane / 16 * 8 + lane % 8; /* the column, of 16, whose piece this thread gives the address of */
    uint32_t to = room + (uint32_t)(c * 32 + ((lane / 8 % 2 ^ (c >> 2 & 1)) << 4));
#pragma unroll
    for (int k = 0; k < 4; k++) {
        uint32_t four[4];
        as_factor<T>(scaled, k, four);
        store_turned(to + (uint32_t)(k * 16 * 32), four);
    }
    __syncwarp();
    uint32_t from = room + (uint32_t)(lane * 32), second = (uint32_t)(lane >> 2 & 1) << 4;
#pragma unroll
    for (int i = 0; i < 2; i++, from += WARP * 32) {
        uint4 low = load_16(from + second), high = load_16(from + (second ^ 16));
        uint2 first = eight_bytes<Q>(*reinterpret_cast<pack<T, WIDE> *>(&low), s),
              last = eight_bytes<Q>(*reinterpret_cast<pack<T, WIDE> *>(&high), s);
        *reinterpret_cast<uint4 *>(a.turned + (column + lane + i * WARP) * a.rows + t) =
            uint4{first.x, first.y, last.x, last.y};
    }
}

/* Writes rows in bytes, as staged in `room`, and turned; passes each thread's 8 columns to `see` first. */
template <typename Q, typename T, class See>
static __device__ __forceinline__ void write_bytes(const attention_args &a, const float (&d)[32],
                                                   const float (&factor)[2], uint32_t room, int t, int64_t column,
                                                   int64_t cols, int left, See see) {
    float s = *a.sq;
    uint8_t *to = a.q + t * cols + column + threadIdx.x % 8 * WIDE;
    stage_rows<T>(d, factor, room);
    visit_rows(room, left, [&](int row, uint4 x) {
        const pack<T, WIDE> &eight = *reinterpret_cast<pack<T, WIDE> *>(&x);
        see(row, eight);
        *reinterpret_cast<uint2 *>(to + row * cols) = eight_bytes<Q>(eight, s);
    });
    turn_rows<Q, T>(a, d, factor, room, t, column, left, s);
}

#endif
