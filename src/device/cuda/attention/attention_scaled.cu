/* attention_scaled.cu - rows of attention for layers in 8 bits, and of its gradient (ops_fp8.def). On Hopper the
 * kernels write bytes themselves (attention_bytes.cuh), and transpose what is aligned; a kernel here transposes the
 * rest, reading bytes. Other widths and alignments are the operation of the same name, and a cast. */
#include "device/cuda/attention/attention_bytes.cuh"
#include "device/cuda/attention/attention_operands.cuh"

enum {
    TURN_THREADS = 256,
    TURN_TILE = 128,     /* rows of a block, and columns at a time: a warp has 32 rows by 64 columns, a thread 8 by 8 */
    TURN_TILES = 4,      /* of a block, side by side */
    LEAST_ROWS = 12288,  /* with fewer, of which some are to be transposed, a cast is faster */
    SCRATCH_ALIGN = 256, /* bytes */
};

/* Whether attention has transposed the 16 rows from `row` on, as attention_bytes.cuh says. */
static __device__ __forceinline__ bool is_transposed(const int32_t *seq, int n, int row) {
    int s = warp_search(n, [&](int s) { return seq[s] <= row; }); /* n: the row is padding */
    return s < n && seq[s] % TURN_ROWS == 0 && seq[s + 1] >= row + TURN_ROWS;
}

static __global__ void __launch_bounds__(TURN_THREADS)
    turn_kernel(fp8_tensor of, const int32_t *seq, int n, int across) {
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int first = (int)(blockIdx.x / across) * TURN_TILE + warp / 2 * 32;
    bool done[2] = {is_transposed(seq, n, first), is_transposed(seq, n, first + TURN_ROWS)};
    int64_t t = first + lane / 8 * WIDE, c = (int64_t)(blockIdx.x % across) * (TURN_TILES * TURN_TILE) + warp % 2 * 64 +
                                             lane % 8 * WIDE;
    if (t >= of.rows || done[lane / 16]) return;
#pragma unroll
    for (int i = 0; i < TURN_TILES; i++, c += TURN_TILE) {
        uint2 row[WIDE];
        if (c >= of.cols) return;
#pragma unroll
        for (int k = 0; k < WIDE; k++) row[k] = *reinterpret_cast<const uint2 *>(of.q + (t + k) * of.cols + c);
        turn_8(row);
#pragma unroll
        for (int k = 0; k < WIDE; k++) *reinterpret_cast<uint2 *>(of.transposed + (c + k) * of.between + t) = row[k];
    }
}

/* Whether all sequences have the most tokens, a multiple of 16: kernels transpose them themselves. */
static int are_full(const attention_args &a) {
    return a.max_len % TURN_ROWS == 0 && a.n * (int64_t)a.max_len == a.rows;
}

static void turn_rest(const tri_call *call, const fp8_tensor &to, const attention_args &a) {
    if (!to.transposed || are_full(a)) return;
    unsigned across = blocks_for(to.cols, TURN_TILES * TURN_TILE);
    queue(call, "attention_scaled", turn_kernel, blocks_for(to.rows, TURN_TILE) * across, TURN_THREADS, to, a.seq, a.n,
          (int)across);
}

/* Gives the kernels where bytes go; 0: they cannot write them there, or not as fast. */
static int set_bytes(const fp8_tensor &to, attention_args *a) {
    a->q = to.q, a->transposed = to.transposed, a->most = to.most, a->sq = to.s;
    return to.rows % TURN_ROWS == 0 && aligned(to.q) && aligned(to.transposed) &&
           (to.rows >= LEAST_ROWS || are_full(*a));
}

/* ---- Forward ---- */

template <typename T> static int attend_in_bytes(const tri_call *call, const fp8_tensor &to) {
    OPERANDS(attention);
    attention_args a = forward_args(call);
    set_bits(call, ARG(bits), 0, &a);
    if (!set_bytes(to, &a) || !tri__cuda_flash(call, &a)) return 0;
    turn_rest(call, to, a);
    return 1;
}

template <typename T> static void attention_scaled(const tri_call *call) {
    OPERANDS(attention);
    fp8_tensor to = fp8_operands(call, ARG(ctx), ARG(q), ARG(transposed), ARG(most), ARG(sq));
    if (to.rows == 0) return;
    if (attend_in_bytes<T>(call, to)) return;
    tri_call part = *call;
    tri_attr attr = *call->attr;
    attr.scaled = 0, attr.mask = call->t[ARG(bits)].data != NULL, part.attr = &attr;
    tri__kernel(call->table, call->op, &attr, call->dtype[ARG(ctx)])(&part);
    fp8_cast_to<T>(call, to, data<T>(call, ARG(ctx)), 0);
}

/* ---- Gradient ---- */

/* Sums over rows, if they are asked for, are partial ones of the kernel: without them nothing is done. */
template <typename T> static int attend_din_in_bytes(const tri_call *call, const fp8_tensor &to) {
    OPERANDS(attention_din);
    int dtype = call->dtype[ARG(dctx)], sums = call->t[ARG(db)].data != NULL;
    attention_args a = din_args(call);
    a.dqkv = NULL, a.add = 0; /* in 8 bits alone */
    set_bits(call, ARG(bits), 1, &a);
    if (!set_bytes(to, &a) || dtype == TRI_F32) return 0;
    share_scratch(call->work, &a, sums);
    if ((sums && !a.sums) || !tri__cuda_flash_din(call, &a, dtype)) return 0;
    turn_rest(call, to, a);
    if (sums) end_columns(call, to.cols, a.n * PARTS, 1, {{operand(call, ARG(db))}, {adds(call, ARG(db))}});
    return 1;
}

/* q has the place of dqkv. Otherwise dqkv passes through the scratch space. */
template <typename T> static void attention_scaled_din(const tri_call *call) {
    OPERANDS(attention_din);
    fp8_tensor to = fp8_operands(call, ARG(qkv), ARG(dqkv), ARG(transposed), ARG(most), ARG(sq));
    if (to.rows > 0 && attend_din_in_bytes<T>(call, to)) return;
    tri_call part = *call;
    tri_attr attr = *call->attr;
    T *dqkv = static_cast<T *>(call->work);
    int64_t bytes = to.rows * to.cols * (int64_t)sizeof(T);
    part.work = static_cast<char *>(call->work) + (bytes + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN;
    part.t[ARG(dqkv)] = tri_tensor{dqkv, to.rows, to.cols}, part.dtype[ARG(dqkv)] = call->dtype[ARG(dctx)];
    attr.scaled = 0, attr.sums = call->t[ARG(db)].data != NULL, part.attr = &attr;
    tri__kernel(call->table, call->op, &attr, call->dtype[ARG(dctx)])(&part);
    fp8_cast_to<T>(call, to, dqkv, 0);
}

#define SCALED_WORK(bytes) \
    {SCRATCH_ALIGN + (MOST_ORDERED + 1) * sizeof(attention_place), 0, 4 * COLUMN_SMS * COLUMN_EACH, bytes, 0}
TRI_CUDA_FAMILY(attention_scaled) = {
    TRI_CUDA_FACT_ROWS(TRI_FACT_SCALED, TRI_OP_attention, attention_scaled, {}),
    TRI_CUDA_FACT_ROWS(TRI_FACT_SCALED, TRI_OP_attention_din, attention_scaled_din, SCALED_WORK(4)),
    {},
};
