/* attention_bytes.cuh - results of attention on Hopper's tensor cores in 8 bits (ops_fp8.def): a warp's 16 rows of 64
 * columns of an accumulator, rounded to the computing type and then to bytes, in rows and transposed.
 *
 * A column's 16 rows are 16 bytes of `transposed`: the warp writes them if they are aligned, which is where a sequence
 * begins at a multiple of 16, and has all of them. The other rows are transposed afterwards (attention_scaled.cu). */
#pragma once

#include "device/cuda/attention/attention.cuh"
#include "device/cuda/product/fp8.cuh"
#include "device/cuda/product/wgmma.cuh"

enum { TURN_ROWS = 16, BYTES_ROOM = 2048 }; /* of shared memory, per warp */

/* Rounds a thread's part of an accumulator, of which `left` rows exist from the warp's first on. bytes[j]: columns
 * 8 j + 2 c and the next of row g, then of row g + 8 (as_factor has the layout). sum[2 j + e]: the two rows' numbers of
 * a column, as rounded to T. */
template <typename Q, typename T>
static __device__ __forceinline__ void form_bytes(const float (&d)[32], const float (&factor)[2], float s, int left,
                                                  fp8_largest<T> &most, uint32_t (&bytes)[8], float (&sum)[16]) {
    int row = threadIdx.x % WARP / 4;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        uint32_t two[2];
        float x[2][2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            two[h] = pair_of(T(), d[4 * j + 2 * h] * factor[h], d[4 * j + 2 * h + 1] * factor[h]);
            if (row + 8 * h >= left) two[h] = 0;
            most.see(two[h]);
            x[h][0] = wide_half(T(), two[h], 0), x[h][1] = wide_half(T(), two[h], 1);
        }
        sum[2 * j] = x[0][0] + x[1][0], sum[2 * j + 1] = x[0][1] + x[1][1];
        bytes[j] = quantized<Q>::four(x[0][0], x[0][1], x[1][0], x[1][1], s);
    }
}

/* Writes those bytes: the warp's first row is row t, the first column `column` of `cols`. `room`: BYTES_ROOM bytes that
 * no thread uses any more: rows [16, 64], 16-byte pieces permuted, then columns [64, 16]. */
static __device__ __forceinline__ void write_bytes(const attention_args &a, const uint32_t (&bytes)[8], uint32_t room,
                                                   int t, int64_t column, int64_t cols, int left) {
    int lane = threadIdx.x % WARP;
    bool transposes = a.transposed && t % TURN_ROWS == 0 && left >= TURN_ROWS;
    uint32_t columns = room + BYTES_ROOM / 2;
    auto piece = [&](int row, int number) { return room + (uint32_t)(row * 64 + ((number ^ (row >> 1 & 3)) << 4)); };
    __syncwarp();
#pragma unroll
    for (int k = 0; k < 2; k++) { /* pairs of two neighbouring 8 columns, as they come: c's of one, c's of the other */
        uint32_t four[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            four[i] = __byte_perm(bytes[4 * k + i / 2 * 2], bytes[4 * k + i / 2 * 2 + 1], i % 2 ? 0x7632 : 0x5410);
        store_matrices(piece(lane % 16, 2 * k + lane / 16), four);
    }
#pragma unroll
    for (int k = 0; k < 2 && transposes; k++) { /* rows g and g + 8 of a column side by side */
        uint32_t four[4];
#pragma unroll
        for (int i = 0; i < 4; i++) four[i] = __byte_perm(bytes[4 * k + i], 0, 0x3120);
        store_transposed(columns + (uint32_t)(32 * k + lane) * 16, four);
    }
    __syncwarp();
    uint8_t *to = a.q + (t + lane / 4) * cols + column + lane % 4 * 16;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        uint4 x = load_16(piece(8 * i + lane / 4, lane % 4));
        if (8 * i + lane / 4 < left)
            *reinterpret_cast<uint4 *>(to + 8 * i * cols) =
                uint4{__byte_perm(x.x, x.y, 0x5410), __byte_perm(x.z, x.w, 0x5410), __byte_perm(x.x, x.y, 0x7632),
                      __byte_perm(x.z, x.w, 0x7632)};
    }
    to = a.transposed + (column + lane) * a.rows + t;
#pragma unroll
    for (int i = 0; i < 2 && transposes; i++) {
        uint4 x = load_16(columns + (uint32_t)(32 * i + lane) * 16);
        *reinterpret_cast<uint4 *>(to + 32 * i * a.rows) =
            uint4{__byte_perm(x.x, x.y, 0x6420), __byte_perm(x.z, x.w, 0x6420), __byte_perm(x.x, x.y, 0x7531),
                  __byte_perm(x.z, x.w, 0x7531)};
    }
}
