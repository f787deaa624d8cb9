/* attention.cu - rows of attention over packed sequences, dense and block-sparse. 16-bit types use Hopper's tensor
 * cores (attention_forward.cu, attention_backward.cu; attention_tiles.cu, attention_tiles_din.cu), everything else
 * attention_plain.cuh. */
#include "device/cuda/attention/attention_operands.cuh"

/* Keys and values in qkv; with the blocks of an operand. */
template <typename T> static tile_args whole_args(const tri_call *call, const attention_args &a, int blocks) {
    tile_args t = tiles_of(call, a, blocks);
    int64_t H = (int64_t)a.heads * a.width;
    t.kv = (const T *)a.qkv + H, t.kv_stride = 3 * H;
    if (a.dqkv) t.dkv = (T *)a.dqkv + H, t.add_kv = a.add;
    return t;
}

template <typename T> static void attention(const tri_call *call) {
    OPERANDS(attention);
    tile_args t = whole_args<T>(call, forward_args(call), ARG(blocks));
    set_bits(call, ARG(bits), 0, &t);
    if (t.rows == 0) return;
    if (t.blocks ? tri__cuda_tiles(call, &t, call->dtype[ARG(ctx)]) : tri__cuda_flash(call, &t)) return;
    if (t.bits) tri__cuda_draw_bits(call, &t);
    plain<T>(call, t, dense_scores<T>());
}

/* Sums over rows, if they are asked for, are those of the tensor cores' partial ones, where scratch space has these. */
template <typename T> static void attention_din(const tri_call *call) {
    OPERANDS(attention_din);
    tile_args t = whole_args<T>(call, din_args(call), ARG(blocks));
    int dtype = call->dtype[ARG(dqkv)], sums = call->t[ARG(db)].data != NULL, done = t.rows == 0;
    column_sums to = {{GIVEN(db)}, {adds(call, ARG(db))}};
    set_bits(call, ARG(bits), 1, &t);
    if (dtype != TRI_F32 && !t.blocks) share_scratch(call->work, &t, sums && flash_sums(call, &t, dtype));
    if (!done) done = t.blocks ? tri__cuda_tiles_din(call, &t, dtype) : tri__cuda_flash_din(call, &t, dtype);
    if (!done) plain_din<T>(call, t, dense_scores<T>());
    if (!sums) return;
    if (done && t.sums && t.rows > 0) end_columns(call, call->t[ARG(dqkv)].cols, t.n * PARTS, 1, to);
    else
        sum_columns(call, t.rows, call->t[ARG(dqkv)].cols, sum_of<T>{GIVEN(dqkv)}, aligned(call->t[ARG(dqkv)].data),
                    to);
}

TRI_CUDA_FAMILY(attention) = {
    TRI_CUDA_ROWS(TRI_OP_attention, attention, {}),
    TRI_CUDA_FACT_ROWS(TRI_FACT_BITS, TRI_OP_attention, attention, {}),
    TRI_CUDA_FACT_ROWS(TRI_FACT_SPARSE, TRI_OP_attention, attention, {}),
    TRI_CUDA_HALF_ROWS(0, TRI_OP_attention_din, attention_din, {}, DIN_WORK),
    TRI_CUDA_HALF_ROWS(TRI_FACT_DB, TRI_OP_attention_din, attention_din, COLUMN_WORK(1), DIN_DB_WORK),
    TRI_CUDA_HALF_ROWS(TRI_FACT_SPARSE, TRI_OP_attention_din, attention_din, {}, TILES_WORK),
    {},
};
