/* scaled_norm.cu - dropout_add_norm and its gradient for layers in 8 bits (ops_fp8.def). */
#include "device/cuda/columns.cuh"
#include "device/cuda/fp8.cuh"

template <typename T> static void dropout_add_norm_scaled(const tri_call *call) {
    OPERANDS(dropout_add_norm_scaled);
    fp8_tensor to = fp8_operands(call, ARG(y), ARG(q), ARG(turned), ARG(most), ARG(sq));
    tri_call norm = *call;
    static const struct { int to, from; } same[] = {
#define SAME(name) {TRI_ARG(dropout_add_norm, name), TRI_ARG(dropout_add_norm_scaled, name)}
        SAME(y), SAME(xhat), SAME(rstd), SAME(x), SAME(res), SAME(g), SAME(b), SAME(key), SAME(s)};
#undef SAME
    for (auto k : same) norm.t[k.to] = call->t[k.from], norm.dtype[k.to] = call->dtype[k.from];
    norm.acc = 0;
    call->table->run[TRI_OP_dropout_add_norm][call->dtype[ARG(y)]](&norm);
    fp8_cast_to<T>(call, to, data<T>(call, ARG(y)), 0);
}

/* Rows of dx pass through the workspace. */
template <typename T> static void dropout_add_norm_scaled_din(const tri_call *call) {
    OPERANDS(dropout_add_norm_scaled_din);
    fp8_tensor to = fp8_operands(call, ARG(dy), ARG(q), ARG(turned), ARG(most), ARG(sq));
    fp8_run run = fp8_run_of<T>(call, to.cols);
    int64_t first = 0, rows = to.rows, each = rows < run.most ? rows : run.most;
    static const struct { int to, from, rows; } same[] = {
#define SAME(name, rows) {TRI_ARG(dropout_add_norm_din, name), TRI_ARG(dropout_add_norm_scaled_din, name), rows}
        SAME(dres, 1), SAME(dg, 0), SAME(db, 0), SAME(dbias, 0), SAME(dy, 1), SAME(xhat, 1), SAME(rstd, 1), SAME(g, 0),
        SAME(key, 1), SAME(s, 0)};
#undef SAME
    do {
        tri_call norm = *call;
        int64_t n = rows - first < each ? rows - first : each;
        norm.acc = 0;
        for (auto k : same) {
            if (k.rows) put_rows(&norm, k.to, call, k.from, first, n);
            else norm.t[k.to] = call->t[k.from], norm.dtype[k.to] = call->dtype[k.from];
            int sum = !k.rows && first > 0 && (k.from == ARG(dg) || k.from == ARG(db) || k.from == ARG(dbias));
            norm.acc |= (unsigned)(adds(call, k.from) || sum) << k.to;
        }
        norm.t[TRI_ARG(dropout_add_norm_din, dx)] = tri_tensor{run.at, n, to.cols};
        norm.dtype[TRI_ARG(dropout_add_norm_din, dx)] = call->dtype[ARG(dy)];
        call->table->run[TRI_OP_dropout_add_norm_din][call->dtype[ARG(dy)]](&norm);
        fp8_cast_to<T>(call, fp8_rows(to, first, n), (const T *)run.at, 0);
        first += n;
    } while (first < rows);
}

const tri_kernel_row tri__cuda_scaled_norm[] = {
    TRI_CUDA_ROWS(TRI_OP_dropout_add_norm_scaled, dropout_add_norm_scaled, {}),
    TRI_CUDA_ROWS(TRI_OP_dropout_add_norm_scaled_din, dropout_add_norm_scaled_din, COLUMN_WORK(3)),
    {},
};
