/* wgmma.cuh - Hopper's matrix instructions on tiles in shared memory. Four warps multiply together; products are
 * asynchronous until wgmma_wait. A tile is panels of 64 columns (128 bytes), each [rows, 64], with 16-byte pieces
 * permuted within a row by the row's number, for the instructions' 128-byte swizzle. Panels begin at multiples of 1024
 * bytes. */
#pragma once

#include "device/cuda/runtime/common.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define TRI_HOPPER 1
#else
#define TRI_HOPPER 0
#endif

enum { PANEL = 64, ROW_BYTES = 128, ATOM_BYTES = 1024 }; /* columns; bytes of a panel's row; 8 rows */

/* The offset of the 16-byte piece `piece` (of 8) of a panel's row. */
static __device__ __forceinline__ uint32_t piece_at(int row, int piece) {
    return (uint32_t)(row * ROW_BYTES + ((piece ^ (row & 7)) << 4));
}

static __device__ __forceinline__ uint32_t shared_address(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Copies 16 bytes to shared memory asynchronously; `valid` 0 writes zeros instead. */
static __device__ __forceinline__ void copy_16(uint32_t to, const void *from, int valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0) : "memory");
}
static __device__ __forceinline__ void copy_4(uint32_t to, const void *from, int valid) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(valid ? 4 : 0) : "memory");
}
static __device__ __forceinline__ uint4 load_16(uint32_t from) {
    uint4 x;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "r"(from)
                 : "memory");
    return x;
}
/* These may be moved across other accesses, but not before `settled` has returned their address. */
static __device__ __forceinline__ float2 load_8(uint32_t from) {
    float2 x;
    asm("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(from));
    return x;
}
static __device__ __forceinline__ uint32_t load_4(uint32_t from) {
    uint32_t x;
    asm("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(from));
    return x;
}
static __device__ __forceinline__ uint32_t settled(uint32_t address) {
    asm volatile("" : "+r"(address)::"memory");
    return address;
}
/* Another order of rows, 32 at a time: the pairs of rows of 4 groups of 8 alternate. A tile of keys in this order gives
 * each thread, in the scores' accumulators, whole groups of 8 keys: accumulator element 4 j + 2 h + e of thread c of 4
 * belongs to key 8 (c + 4 (j / 4)) + 2 (j % 4) + e. */
static constexpr __host__ __device__ int by_turns(int row) {
    return (row & ~31) | (row >> 1 & 3) << 3 | (row >> 3 & 3) << 1 | (row & 1);
}

/* The offset `rows` rows after the piece at `at`, in either order; the two rows' numbers have no bit in common. */
template <bool TURNS> static __device__ __forceinline__ uint32_t row_further(uint32_t at, int rows) {
    int further = TURNS ? by_turns(rows) : rows;
    return (at ^ (uint32_t)(further & 7) << 4) + (uint32_t)(further * ROW_BYTES);
}

/* Begins to copy ROWS rows of a head's columns to a tile, by THREADS threads of which this is number `thread`; `from`
 * is the first row, with a row stride of `stride` elements. Zeros for rows from `left` on and columns from `width` on.
 * TURNS: rows in that other order. */
template <typename T, int COLS, int ROWS, int THREADS, bool TURNS = false>
static __device__ __forceinline__ void copy_rows(const T *from, int64_t stride, int width, int left, uint32_t to,
                                                 int thread) {
    enum { PIECES = COLS / WIDE, STEP = THREADS / PIECES }; /* per row; rows at a time, 8 or 16 */
    int row = thread / PIECES, piece = thread % PIECES;
    const T *source = from + row * stride + piece * WIDE;
    uint32_t at = to + (uint32_t)(piece / 8 * ROWS * ROW_BYTES) + piece_at(TURNS ? by_turns(row) : row, piece % 8);
    int rows = piece * WIDE < width ? left - row : 0;
    if (left >= ROWS && width == COLS) { /* the common case, with half the instructions */
#pragma unroll
        for (int i = 0; i < ROWS / STEP; i++, source += STEP * stride)
            copy_16(row_further<TURNS>(at, i * STEP), source, 1);
    } else {
#pragma unroll
        for (int i = 0; i < ROWS / STEP; i++, source += STEP * stride)
            copy_16(row_further<TURNS>(at, i * STEP), rows > i * STEP ? source : from, rows > i * STEP);
    }
}
static __device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT> static __device__ __forceinline__ void copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}
/* This thread's writes to shared memory are visible to matrix instructions after the next barrier. */
static __device__ __forceinline__ void show_to_matrix_units() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* The descriptor of a tile that begins at `address`, and of the tile `bytes` after it. 8-row groups are 1024 bytes
 * apart. If columns are along the summed dimension, each panel is a tile; transposed (rows along the summed dimension),
 * panels are `panel` bytes apart. */
static __device__ __forceinline__ uint32_t tile_at(uint32_t address, uint32_t panel = 16) {
    return (address & 0x3FFFF) >> 4 | (panel >> 4) << 16;
}
static __device__ __forceinline__ uint64_t tile(uint32_t at, int bytes) {
    enum { BETWEEN_GROUPS = ATOM_BYTES >> 4, SWIZZLE_128 = 1 << 30 };
    return (uint64_t)(BETWEEN_GROUPS | SWIZZLE_128) << 32 | (at + (uint32_t)(bytes >> 4));
}

static __device__ __forceinline__ void wgmma_begin() {
#if TRI_HOPPER
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
static __device__ __forceinline__ void wgmma_commit() {
#if TRI_HOPPER
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
template <int LEFT> static __device__ __forceinline__ void wgmma_wait() {
#if TRI_HOPPER
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
#endif
}
/* Keeps the compiler from moving uses of accumulators across waits. */
template <int N> static __device__ __forceinline__ void pin(float (&d)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}

/* The same for words that are computed while products run. */
template <int N> static __device__ __forceinline__ void pin(uint32_t (&x)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+r"(x[i])::"memory");
}

#define D4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D16(d, i) D4(d, i), D4(d, i + 4), D4(d, i + 8), D4(d, i + 12)
#define R8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define R16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define R32 R16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define R64 \
    R32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%" \
        "58,%59," \
        "%60,%61,%62,%63"

#define R128 \
    R64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%" \
        "90,%91," \
        "%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%" \
        "115," \
        "%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

/* One instruction: d [64, N] (+)= A [64, 16] B [16, N]; `a` and `b` descriptors, or `a` 4 registers of pairs. TA and
 * TB: transposed. */
#define WGMMA_SS(n, type, regs, da, db, acc, ta, tb, ...) \
    asm volatile("{.reg .pred p; setp.ne.b32 p, %" acc ", 0; wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type \
                 "." type " {" regs "}, %" da ", %" db ", p, 1, 1, %" ta ", %" tb ";}" \
                 : __VA_ARGS__ \
                 : "l"(a), "l"(b), "r"(add), "n"(TA), "n"(TB))
#define WGMMA_RS(n, type, regs, a0, a1, a2, a3, db, acc, tb, ...) \
    asm volatile("{.reg .pred p; setp.ne.b32 p, %" acc ", 0; wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type \
                 "." type " {" regs "}, {%" a0 ",%" a1 ",%" a2 ",%" a3 "}, %" db ", p, 1, 1, %" tb ";}" \
                 : __VA_ARGS__ \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(TB))

template <typename T> struct wgmma;
#define WGMMA_TYPE(T, type) \
    template <> struct wgmma<T> { \
        template <int TA, int TB> \
        static __device__ __forceinline__ void run(float (&d)[8], uint64_t a, uint64_t b, int add) { \
            WGMMA_SS("16", type, R8, "8", "9", "10", "11", "12", D4(d, 0), D4(d, 4)); \
        } \
        template <int TA, int TB> \
        static __device__ __forceinline__ void run(float (&d)[16], uint64_t a, uint64_t b, int add) { \
            WGMMA_SS("32", type, R16, "16", "17", "18", "19", "20", D16(d, 0)); \
        } \
        template <int TA, int TB> \
        static __device__ __forceinline__ void run(float (&d)[32], uint64_t a, uint64_t b, int add) { \
            WGMMA_SS("64", type, R32, "32", "33", "34", "35", "36", D16(d, 0), D16(d, 16)); \
        } \
        template <int TA, int TB> \
        static __device__ __forceinline__ void run(float (&d)[64], uint64_t a, uint64_t b, int add) { \
            WGMMA_SS("128", type, R64, "64", "65", "66", "67", "68", D16(d, 0), D16(d, 16), D16(d, 32), D16(d, 48)); \
        } \
        template <int TA, int TB> \
        static __device__ __forceinline__ void run(float (&d)[128], uint64_t a, uint64_t b, int add) { \
            WGMMA_SS("256", type, R128, "128", "129", "130", "131", "132", D16(d, 0), D16(d, 16), D16(d, 32), \
                     D16(d, 48), D16(d, 64), D16(d, 80), D16(d, 96), D16(d, 112)); \
        } \
        template <int TB> \
        static __device__ __forceinline__ void run(float (&d)[32], const uint32_t (&a)[4], uint64_t b, int add) { \
            WGMMA_RS("64", type, R32, "32", "33", "34", "35", "36", "37", "38", D16(d, 0), D16(d, 16)); \
        } \
        template <int TB> \
        static __device__ __forceinline__ void run(float (&d)[64], const uint32_t (&a)[4], uint64_t b, int add) { \
            WGMMA_RS("128", type, R64, "64", "65", "66", "67", "68", "69", "70", D16(d, 0), D16(d, 16), D16(d, 32), \
                     D16(d, 48)); \
        } \
    }
/* The same with 8-bit factors, both with columns along the summed dimension: d [64, N] (+)= A [64, 32] B [32, N]. Sums
 * are int32, as words, or fp32. */
#define WGMMA_8_RUN(sum, size, n, types, regs, da, db, acc, scales, ...) \
    template <int TA, int TB> \
    static __device__ __forceinline__ void run(sum (&d)[size], uint64_t a, uint64_t b, int add) { \
        static_assert(TA == 0 && TB == 0, "8-bit factors cannot be transposed"); \
        asm volatile("{.reg .pred p; setp.ne.b32 p, %" acc ", 0; wgmma.mma_async.sync.aligned.m64n" n "k32." types \
                     " {" regs "}, %" da ", %" db ", p" scales ";}" \
                     : __VA_ARGS__ \
                     : "l"(a), "l"(b), "r"(add)); \
    }
#define E4(reg, d, i) reg(d[i]), reg(d[i + 1]), reg(d[i + 2]), reg(d[i + 3])
#define E16(reg, d, i) E4(reg, d, i), E4(reg, d, i + 4), E4(reg, d, i + 8), E4(reg, d, i + 12)
#define E64(reg, d, i) E16(reg, d, i), E16(reg, d, i + 16), E16(reg, d, i + 32), E16(reg, d, i + 48)
#define WGMMA_8(T, sum, reg, types, scales) \
    template <> struct wgmma<T> { \
        WGMMA_8_RUN(sum, 8, "16", types, R8, "8", "9", "10", scales, E4(reg, d, 0), E4(reg, d, 4)) \
        WGMMA_8_RUN(sum, 16, "32", types, R16, "16", "17", "18", scales, E16(reg, d, 0)) \
        WGMMA_8_RUN(sum, 32, "64", types, R32, "32", "33", "34", scales, E16(reg, d, 0), E16(reg, d, 16)) \
        WGMMA_8_RUN(sum, 64, "128", types, R64, "64", "65", "66", scales, E64(reg, d, 0)) \
        WGMMA_8_RUN(sum, 128, "256", types, R128, "128", "129", "130", scales, E64(reg, d, 0), E64(reg, d, 64)) \
    }
#if TRI_HOPPER
WGMMA_TYPE(bf16, "bf16");
WGMMA_TYPE(f16, "f16");
WGMMA_8(int8_t, uint32_t, "+r", "s32.s8.s8", "");
WGMMA_8(e4m3, float, "+f", "f32.e4m3.e4m3", ", 1, 1");
WGMMA_8(e5m2, float, "+f", "f32.e5m2.e4m3", ", 1, 1"); /* only A: a gradient by weights */
#endif

/* Four 8 x 8 matrices of 16-bit values to shared memory; thread 8 i + r gives the address of row r of matrix i. */
static __device__ __forceinline__ void store_matrices(uint32_t to, const uint32_t (&a)[4]) {
#if __CUDA_ARCH__ >= 900
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a[0]), "r"(a[1]),
                 "r"(a[2]), "r"(a[3])
                 : "memory");
#endif
}

/* The same, each matrix transposed. */
static __device__ __forceinline__ void store_transposed(uint32_t to, const uint32_t (&a)[4]) {
#if __CUDA_ARCH__ >= 900
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a[0]),
                 "r"(a[1]), "r"(a[2]), "r"(a[3])
                 : "memory");
#endif
}

/* Adds two values to memory, ordered after this thread's previous additions there. */
static __device__ __forceinline__ void add_behind(float *to, float x, float y) {
#if __CUDA_ARCH__ >= 900
    asm volatile("red.relaxed.gpu.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(x), "f"(y) : "memory");
#endif
}

/* Columns 16 k .. 16 k + 15 of an accumulator, as the A operand of a product. Accumulator element (row g + 8 h, column
 * 8 j + 2 c + e) is d[4 j + 2 h + e], for thread 4 g + c of the warp that has these 16 rows. */
template <typename T, int N>
static __device__ __forceinline__ void as_factor(const float (&d)[N], int k, uint32_t (&a)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i++) a[i] = pair_of(T(), d[8 * k + 2 * i], d[8 * k + 2 * i + 1]);
}

/* Stages this warp's 16 rows of 64 columns of an accumulator, rounded to T, in 16 rows of a tile in shared memory that
 * begin at `room`. factor[h]: of rows g + 8 h. */
template <typename T>
static __device__ __forceinline__ void stage_rows(const float (&d)[32], const float (&factor)[2], uint32_t room) {
    int lane = threadIdx.x % WARP;
    float scaled[32];
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 32; i++) scaled[i] = d[i] * factor[i / 2 % 2];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        uint32_t four[4];
        as_factor<T>(scaled, k, four);
        store_matrices(room + piece_at(lane % 16, 2 * k + lane / 16), four);
    }
    __syncwarp();
}

/* Gives those rows, of which `left` exist, to visit(row, eight): a thread always has the same 8 columns, from 8 *
 * (lane % 8) on, of every fourth row. */
template <class Visit> static __device__ __forceinline__ void visit_rows(uint32_t room, int left, Visit visit) {
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int row = 0; row < 16; row += 4)
        if (row + lane / 8 < left)
            visit(row + lane / 8, load_16(room + piece_at(row + lane / 8, lane % 8)));
}

/* Writes them as whole rows of 128 bytes; `to` is the first row, with a row stride of `stride` elements. A thread
 * passes what it has written to `see`. */
template <typename T, class See>
static __device__ __forceinline__ void write_whole_rows(const float (&d)[32], const float (&factor)[2], uint32_t room,
                                                        T *to, int64_t stride, int left, See see) {
    stage_rows<T>(d, factor, room);
    to += threadIdx.x % WARP / 8 * stride + threadIdx.x % 8 * WIDE;
    visit_rows(room, left, [&](int, uint4 eight) {
        *reinterpret_cast<uint4 *>(to) = eight;
        to += 4 * stride;
        see(*reinterpret_cast<pack<T, WIDE> *>(&eight));
    });
}
template <typename T>
static __device__ __forceinline__ void write_whole_rows(const float (&d)[32], const float (&factor)[2], uint32_t room,
                                                        T *to, int64_t stride, int left) {
    write_whole_rows(d, factor, room, to, stride, left, [](const pack<T, WIDE> &) {});
}
