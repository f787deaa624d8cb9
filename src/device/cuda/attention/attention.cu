/* attention.cu - rows of attention over packed sequences, dense and block-sparse. 16-bit types use Hopper's tensor
 * cores (attention_forward.cu, attention_backward.cu; attention_tiles.cu, attention_tiles_din.cu), everything else
 * attention_plain.cuh. */
#include "device/cuda/attention/attention_operands.cuh"

template <typename T> static void attention(const tri_call *call) {
    OPERANDS(attention);
    tile_args t = {};
    t.a = args_of(call, ARG(seq), ARG(key), call->t[ARG(ctx)].cols);
    t.a.qkv = call->t[ARG(qkv)].data, t.a.ctx = call->t[ARG(ctx)].data, t.a.lse = data<float>(call, ARG(lse));
    if (t.a.rows == 0 || tri__cuda_flash(call, &t.a)) return;
    plain<T>(call, t, dense_scores<T>());
    launched(call, "attention");
}

template <typename T> static void attention_bits(const tri_call *call) {
    OPERANDS(attention);
    tile_args t = {};
    t.a = args_of(call, ARG(seq), ARG(key), call->t[ARG(ctx)].cols);
    t.a.qkv = call->t[ARG(qkv)].data, t.a.ctx = call->t[ARG(ctx)].data, t.a.lse = data<float>(call, ARG(lse));
    set_bits(call, ARG(bits), 0, &t.a);
    if (t.a.rows == 0 || tri__cuda_flash(call, &t.a)) return;
    if (t.a.bits) tri__cuda_draw_bits(call, &t.a);
    plain<T>(call, t, dense_scores<T>());
    launched(call, "attention_bits");
}

/* Keys and values in qkv. */
template <typename T> static void set_blocks(const tri_call *call, int blocks, tile_args *t) {
    int64_t H = (int64_t)t->a.heads * t->a.width;
    t->kv = (const T *)t->a.qkv + H, t->kv_stride = 3 * H;
    if (t->a.dqkv) t->dkv = (T *)t->a.dqkv + H, t->add_kv = t->a.add;
    t->blocks = data<int32_t>(call, blocks), t->block = call->attr->block, t->window = window_of(call);
}

template <typename T> static void attention_sparse(const tri_call *call) {
    OPERANDS(attention);
    tile_args t = {};
    t.a = args_of(call, ARG(seq), ARG(key), call->t[ARG(ctx)].cols);
    t.a.qkv = call->t[ARG(qkv)].data, t.a.ctx = call->t[ARG(ctx)].data, t.a.lse = data<float>(call, ARG(lse));
    set_blocks<T>(call, ARG(blocks), &t);
    if (t.a.rows == 0 || tri__cuda_tiles(call, &t, call->dtype[ARG(ctx)])) return;
    plain<T>(call, t, dense_scores<T>());
    launched(call, "attention_sparse");
}

template <typename T> static void attention_sparse_din(const tri_call *call) {
    OPERANDS(attention_din);
    tile_args t = {};
    t.a = args_of(call, ARG(seq), ARG(key), call->t[ARG(dctx)].cols);
    t.a.qkv = call->t[ARG(qkv)].data, t.a.dctx = call->t[ARG(dctx)].data, t.a.ctx = call->t[ARG(ctx)].data;
    t.a.lse = data<float>(call, ARG(lse)), t.a.dqkv = call->t[ARG(dqkv)].data, t.a.add = adds(call, ARG(dqkv));
    set_blocks<T>(call, ARG(blocks), &t);
    if (t.a.rows == 0 || tri__cuda_tiles_din(call, &t, call->dtype[ARG(dqkv)])) return;
    plain_din<T>(call, t, dense_scores<T>());
    launched(call, "attention_sparse_din");
}

/* The gradient. Returns whether partial sums over its rows, if they are asked for, are in scratch space. */
template <typename T> static int form_din(const tri_call *call, int sums) {
    OPERANDS(attention_din);
    tile_args t = {};
    t.a = args_of(call, ARG(seq), ARG(key), call->t[ARG(dctx)].cols);
    attention_args &a = t.a;
    a.qkv = call->t[ARG(qkv)].data, a.dctx = call->t[ARG(dctx)].data, a.ctx = call->t[ARG(ctx)].data;
    a.lse = data<float>(call, ARG(lse)), a.dqkv = call->t[ARG(dqkv)].data, a.add = adds(call, ARG(dqkv));
    set_bits(call, ARG(bits), 1, &a);
    int dtype = call->dtype[ARG(dqkv)];
    if (dtype != TRI_F32) share_scratch(call->work, &a, sums && flash_sums(call, &a, dtype));
    if (a.rows == 0 || tri__cuda_flash_din(call, &a, dtype)) return a.part && a.rows > 0;
    plain_din<T>(call, t, dense_scores<T>());
    return 0;
}

template <typename T> static void attention_din(const tri_call *call) {
    form_din<T>(call, 0);
    launched(call, "attention_din");
}

template <typename T> static void attention_din_db(const tri_call *call) {
    OPERANDS(attention_din);
    int64_t rows = call->t[ARG(dqkv)].rows, cols = call->t[ARG(dqkv)].cols;
    column_sums to = {{operand(call, ARG(db))}, {adds(call, ARG(db))}};
    if (form_din<T>(call, 1))
        end_columns(call, cols, ((int)call->t[ARG(seq)].rows - 1) * PARTS, 1, to);
    else sum_columns(call, rows, cols, sum_of<T>{data<T>(call, ARG(dqkv))}, aligned(call->t[ARG(dqkv)].data), to);
    launched(call, "attention_din_db");
}

TRI_CUDA_FAMILY(attention) = {
    TRI_CUDA_ROWS(TRI_OP_attention, attention, {}),
    TRI_CUDA_FACT_ROWS(TRI_FACT_BITS, TRI_OP_attention, attention_bits, {}),
    {TRI_OP_attention_din, TRI_F32, attention_din<float>, {}},
    {TRI_OP_attention_din, TRI_BF16, attention_din<bf16>, DIN_WORK},
    {TRI_OP_attention_din, TRI_F16, attention_din<f16>, DIN_WORK},
    {TRI_OP_attention_din, TRI_F32, attention_din_db<float>, COLUMN_WORK(1), TRI_FACT_DB},
    {TRI_OP_attention_din, TRI_BF16, attention_din_db<bf16>, DIN_DB_WORK, TRI_FACT_DB},
    {TRI_OP_attention_din, TRI_F16, attention_din_db<f16>, DIN_DB_WORK, TRI_FACT_DB},
    TRI_CUDA_FACT_ROWS(TRI_FACT_SPARSE, TRI_OP_attention, attention_sparse, {}),
    {TRI_OP_attention_din, TRI_F32, attention_sparse_din<float>, {}, TRI_FACT_SPARSE},
    {TRI_OP_attention_din, TRI_BF16, attention_sparse_din<bf16>, TILES_WORK, TRI_FACT_SPARSE},
    {TRI_OP_attention_din, TRI_F16, attention_sparse_din<f16>, TILES_WORK, TRI_FACT_SPARSE},
    {},
};
