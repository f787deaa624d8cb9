/* test_fp8.c - 8-bit tensors of training to the bit: the two types, casts and their transposed copies, maxima, scales
 * from a history, and products of them. */
#include "device/operands.h"
#include "tests/lib/test.h"
#include "tests/lib/kernel_call.h"

static const char *const devices[] = {"cpu", "reference"};
static const tri_dtype types[] = {TRI_F32, TRI_BF16, TRI_F16};

static void run(const tri_kernel_table *table, tri_call *call, tri_dtype type) {
    int variant = tri__variant(call->op, call->attr);
    int64_t work = tri__workspace_bytes(&table->work[variant][type], call->t[0].rows, call->t[0].cols, 0);
    call->table = table, call->threads = 2, call->work = calloc(1, (size_t)work + 64);
    assert_non_null(call->work);
    table->run[variant][type](call);
    free(call->work);
}

TEST(test_e5m2) {
    for (int code = 0; code < 256; code++) {
        float value = tri__from_e5m2((uint8_t)code);
        int magnitude = code & 0x7F, e = magnitude >> 2, fraction = code & 3;
        if (magnitude >= 0x7C) { /* an infinity, or none */
            assert_true(magnitude == 0x7C ? isinf(value) : isnan(value));
            assert_int_equal(tri__to_e5m2(value), magnitude == 0x7C ? (code & 0x80) | 0x7B : 0x7F);
            continue;
        }
        double want = (e ? ldexp(4 + fraction, e - 17) : ldexp(fraction, -16)) * (code & 0x80 ? -1 : 1);
        assert_true((double)value == want && (signbit(value) != 0) == (code >= 0x80));
        assert_int_equal(tri__to_e5m2(value), code);
        if (magnitude == 0x7B) continue;
        float next = tri__from_e5m2((uint8_t)(code + 1)), middle = (value + next) / 2;
        assert_int_equal(tri__to_e5m2(middle), code + (code & 1));
        assert_int_equal(tri__to_e5m2(nextafterf(middle, value)), code);
        assert_int_equal(tri__to_e5m2(nextafterf(middle, next)), code + 1);
    }
    assert_int_equal(tri__to_e5m2(1e9f), 0x7B);
    assert_int_equal(tri__to_e5m2(61439.9f), 0x7B);
    assert_int_equal(tri__to_e5m2(-INFINITY), 0xFB);
}

enum { T = 16, I = 5 };

/* Casts x [T,I], of `type`; q and transposed may be NULL. */
static void cast(const tri_kernel_table *table, tri_dtype type, tri_dtype to, void *x, float s, uint8_t *q,
                 uint8_t *transposed, float *most) {
    OPERANDS(fp8_cast);
    tri_call call = {.op = TRI_OP_fp8_cast,
                     .t = {{q, T, I}, {transposed, T, I}, {most, 1, 1}, {x, T, I}, {&s, 1, 1}},
                     .dtype = {(uint8_t)to, (uint8_t)to, TRI_F32, (uint8_t)type, TRI_F32}};
    assert_int_equal(ARG(s), 4);
    run(table, &call, type);
}

static float narrowed(tri_dtype type, float x) {
    return type == TRI_BF16 ? tri__from_bf16(tri__to_bf16(x)) : type == TRI_F16 ? tri__from_f16(tri__to_f16(x)) : x;
}

static void store(tri_dtype type, void *to, int i, float x) {
    if (type == TRI_BF16) ((uint16_t *)to)[i] = tri__to_bf16(x);
    else if (type == TRI_F16) ((uint16_t *)to)[i] = tri__to_f16(x);
    else ((float *)to)[i] = x;
}

/* Every byte is that of the conversion of x * s, in rows and in columns; most is only ever raised. */
TEST(test_cast) {
    for (int d = 0; d < 2; d++)
        for (int i = 0; i < 6; i++) {
            tri_kernel_table table;
            tri__device_find(devices[d])->kernels(&table);
            tri_dtype type = types[i / 2], to = i % 2 ? TRI_F8_E5M2 : TRI_F8_E4M3;
            float x[T * I], wide[T * I], most = 0.5f, high = 100, largest = 0, s = i % 2 ? 0x1p13f : 0x1p6f;
            uint8_t q[T * I], transposed[T * I], alone[T * I];
            uint64_t random = 3;
            for (int k = 0; k < T * I; k++) {
                wide[k] = narrowed(type, (float)uniform(&random, -9, 9)); /* some saturate */
                store(type, x, k, wide[k]);
                largest = fmaxf(largest, fabsf(wide[k]));
            }
            cast(&table, type, to, x, s, q, transposed, &most);
            cast(&table, type, to, x, s, NULL, alone, &high);
            assert_memory_equal(transposed, alone, sizeof transposed);
            assert_true(most == largest && high == 100);
            int saturated = 0;
            for (int k = 0; k < T * I; k++) {
                uint8_t want = i % 2 ? tri__to_e5m2(wide[k] * s) : tri__to_e4m3(wide[k] * s);
                assert_int_equal(q[k], want);
                assert_int_equal(transposed[k % I * T + k / I], want);
                saturated += (want & 0x7F) == (i % 2 ? 0x7B : 0x7E);
            }
            assert_true(saturated > 0 && saturated < T * I);
        }
}

/* A tensor of zeros raises nothing. What is not finite shows in most, and stays there. */
TEST(test_cast_of_extremes) {
    for (int d = 0; d < 2; d++) {
        tri_kernel_table table;
        tri__device_find(devices[d])->kernels(&table);
        float x[T * I] = {0}, most = 0;
        uint8_t q[T * I];
        cast(&table, TRI_F32, TRI_F8_E4M3, x, 0x1p60f, q, NULL, &most);
        assert_true(most == 0);
        for (int k = 0; k < T * I; k++) assert_int_equal(q[k], 0);
        x[7] = -INFINITY;
        cast(&table, TRI_F32, TRI_F8_E5M2, x, 1, q, NULL, &most);
        assert_true(isinf(most) && q[7] == 0xFB && q[8] == 0);
        x[7] = NAN;
        most = 0;
        cast(&table, TRI_F32, TRI_F8_E5M2, x, 1, q, NULL, &most);
        assert_true(isnan(most) && q[7] == 0x7F && q[8] == 0);
        x[7] = 3;
        cast(&table, TRI_F32, TRI_F8_E5M2, x, 1, q, NULL, &most);
        assert_true(isnan(most));
    }
}

enum { K = 6, M = 4 };

static void scales(const tri_kernel_table *table, float *history, float *s, float *most) {
    tri_call call = {.op = TRI_OP_fp8_scales, .t = {{s, 1, K}, {most, 1, K}, {history, K, M}}};
    run(table, &call, TRI_F32);
}

static void keep_history(const tri_kernel_table *table, float *history, float *most, int32_t apply) {
    tri_call call = {.op = TRI_OP_fp8_history, .t = {{history, K, M}, {most, 1, K}, {&apply, 1, 1}}};
    run(table, &call, TRI_F32);
}

/* Before there is a history each kind of tensor has a first scale; after M steps the oldest maximum is forgotten. */
TEST(test_history) {
    for (int d = 0; d < 2; d++) {
        tri_kernel_table table;
        tri__device_find(devices[d])->kernels(&table);
        float history[K * M] = {0}, s[K], most[K] = {1, 2, 3, 4, 5, 6};
        scales(&table, history, s, most);
        static const float first[K] = {256, 8, 0x1p20f, 256, 8, 0x1p20f};
        for (int k = 0; k < K; k++) assert_true(s[k] == first[k] && most[k] == 0);
        most[0] = 448, most[1] = 448.1f, most[2] = 57344, most[3] = 0, most[4] = 1e-30f, most[5] = 1e30f;
        keep_history(&table, history, most, 1);
        scales(&table, history, s, most);
        static const float then[K] = {1, 0.5f, 1, 256, 0x1p60f, 0x1p-60f};
        for (int k = 0; k < K; k++) assert_true(s[k] == then[k] && history[k * M + 1] == 0);
        float before[K * M];
        memcpy(before, history, sizeof before);
        most[0] = NAN;
        keep_history(&table, history, most, 0);
        assert_memory_equal(history, before, sizeof before);
        for (int step = 1; step <= M; step++) {
            for (int k = 0; k < K; k++) most[k] = (float)step;
            keep_history(&table, history, most, 1);
            scales(&table, history, s, most);
            assert_true(s[0] == (step < M ? 1 : 64)); /* 448 / 4 */
        }
        static const float row[M] = {4, 3, 2, 1};
        assert_memory_equal(history, row, sizeof row);
    }
}

TEST(test_check) {
    static const float last[] = {7, INFINITY, NAN};
    for (int d = 0; d < 2; d++)
        for (int i = 0; i < 3; i++) {
            tri_kernel_table table;
            tri__device_find(devices[d])->kernels(&table);
            float most[] = {0, 1e38f, last[i]};
            double sum = 2.5;
            tri_call call = {.op = TRI_OP_fp8_check, .t = {{&sum, 1, 1}, {most, 1, 3}}};
            run(&table, &call, TRI_F32);
            assert_true(i ? isnan(sum) : sum == 2.5);
        }
}

/* Gradients of a product against sums in double over the numbers that the bytes stand for. */
static void product_case(const kernel_case *at, void *context) {
    const tri_kernel_table *table = context;
    int is_din = at->op == TRI_OP_linear_din;
    const tri_op_row *row = tri__variant_row(at->variant);
    int a = tri__row_arg(row, "dy"), b = tri__row_arg(row, is_din ? "w" : "x"), sa = tri__row_arg(row, "sdy"),
        sb = tri__row_arg(row, is_din ? "sw" : "sx");
    for (int i = 0; i < 6; i++) {
        kernel_call k;
        kernel_call_open_mixed(&k, at, types[i / 2], i % 2 ? TRI_F32 : types[i / 2], 0, i % 2, 0);
        kernel_call before = k;
        before.call.t[0].data = k.before[0] + GUARD;
        kernel_call_run(&k, table, 2);
        int64_t rows = k.call.t[0].rows, cols = k.call.t[0].cols, n = extent(&k, is_din ? 'O' : 'T');
        double scale = kernel_value(&k, sa, 0) * kernel_value(&k, sb, 0);
        for (int64_t e = 0; e < rows * cols; e++) {
            double sum = 0;
            for (int64_t j = 0; j < n; j++)
                sum += kernel_value(&k, a, e / cols * n + j) * kernel_value(&k, b, e % cols * n + j);
            double want = sum / scale + (k.call.acc & 1 ? kernel_value(&before, 0, e) : 0);
            tri_dtype type = operand_dtype(&k, 0);
            assert_true(kernel_value(&k, 0, e) == (double)narrowed(type, (float)want));
        }
        kernel_call_close(&k);
    }
}

TEST(test_products) {
    static const kernel_grid grids[] = {{"linear_scaled_din linear_scaled_dw", "T=0,1,16,32 O=1,16,48 I=1,16,20"}};
    for (int d = 0; d < 2; d++) {
        tri_kernel_table table;
        tri__device_find(devices[d])->kernels(&table);
        kernel_cases(grids, 1, product_case, &table);
    }
}

/* ---- Fused operations against the operations one by one, to the bit ---- */

/* Operand `name` of a call, for an operand of another. */
static void hand_over(tri_call *to, const char *as, const kernel_call *from, const char *name) {
    int a = tri__row_arg(tri__call_row(to), as), b = tri__row_arg(tri__variant_row(from->at.variant), name);
    assert_true(a >= 0 && b >= 0);
    to->t[a] = from->call.t[b], to->dtype[a] = from->call.dtype[b];
}

static void set_operand(tri_call *to, const char *as, tri_tensor t, tri_dtype type) {
    int a = tri__row_arg(tri__call_row(to), as);
    assert_true(a >= 0);
    to->t[a] = t, to->dtype[a] = (uint8_t)type;
}

static void run_with(const tri_kernel_table *table, tri_call *call, tri_dtype type) {
    int64_t halves = 0;
    for (int a = 0; a < TRI_MAX_ARGS; a++)
        if (call->t[a].data && tri__dtype_bytes((tri_dtype)call->dtype[a]) == 2)
            halves += call->t[a].rows * call->t[a].cols;
    int variant = tri__variant(call->op, call->attr);
    int64_t work = tri__workspace_bytes(&table->work[variant][type], call->t[0].rows, call->t[0].cols, halves);
    call->table = table, call->threads = 2;
    call->work = aligned_alloc(64, ((size_t)work + 127) / 64 * 64);
    assert_non_null(call->work);
    table->run[variant][type](call);
    free(call->work);
}

/* Casts `x` as the fused call did, and expects its bytes. */
static void expect_cast(const tri_kernel_table *table, const kernel_call *fused, const char *scale_name, void *x) {
    const tri_op_row *row = tri__variant_row(fused->at.variant);
    int q = tri__row_arg(row, "q"), t = tri__row_arg(row, "transposed"), most = tri__row_arg(row, "most");
    size_t n = fused->bytes[q];
    uint8_t *made[2] = {calloc(n + 1, 1), calloc(n + 1, 1)};
    float largest = *(const float *)(const void *)(fused->before[most] + GUARD);
    tri_call cast = {.op = TRI_OP_fp8_cast};
    tri_tensor of = fused->call.t[q];
    tri_dtype type = (tri_dtype)fused->call.dtype[q];
    set_operand(&cast, "q", (tri_tensor){made[0], of.rows, of.cols}, type);
    set_operand(&cast, "transposed", (tri_tensor){made[1], of.rows, of.cols}, type);
    set_operand(&cast, "most", (tri_tensor){&largest, 1, 1}, TRI_F32);
    set_operand(&cast, "x", (tri_tensor){x, of.rows, of.cols}, fused->type);
    hand_over(&cast, "s", fused, scale_name);
    run_with(table, &cast, fused->type);
    assert_memory_equal(made[0], fused->call.t[q].data, n);
    assert_memory_equal(made[1], fused->call.t[t].data, n);
    assert_true(largest == *(const float *)fused->call.t[most].data);
    free(made[0]), free(made[1]);
}

static void expect_same(const kernel_call *fused, const char *name, const void *made) {
    int a = tri__row_arg(tri__variant_row(fused->at.variant), name);
    if (memcmp(made, fused->call.t[a].data, fused->bytes[a]) != 0)
        kernel_call_fail(fused, a, "is not that of the parts");
}

typedef struct parts {
    tri_kernel_table table;
    tri_dtype type;
} parts;

static void act_case(const kernel_case *at, void *context) {
    parts *p = context;
    int back = at->op == TRI_OP_linear_din;
    kernel_call k;
    kernel_call_open_mixed(&k, at, p->type, TRI_F32, 0, 0, 0);
    kernel_call_run(&k, &p->table, 2);
    int64_t rows = k.call.t[0].rows, cols = k.call.t[0].cols;
    void *h = calloc((size_t)(rows * cols) + 1, 4), *y = calloc((size_t)(rows * cols) + 1, 4);
    float *db = calloc((size_t)cols, sizeof *db);
    tri_tensor product = {h, rows, cols}, result = {y, rows, cols};
    int slope = (tri__variant_row(at->variant)->facts & TRI_FACT_RESULT) != 0;
    tri_call linear = {.op = at->op, .attr = &(tri_attr){.factors = TRI_FACTORS_SCALED}},
             act = {.op = back ? TRI_OP_act_din : TRI_OP_act,
                    .attr = &(tri_attr){.activation = k.attr.activation, .sums = back}};
    set_operand(&linear, back ? "dx" : "y", product, p->type);
    hand_over(&linear, back ? "dy" : "x", &k, back ? "dy" : "x");
    hand_over(&linear, "w", &k, "w");
    hand_over(&linear, back ? "sdy" : "sx", &k, back ? "sdy" : "sx");
    hand_over(&linear, "sw", &k, "sw");
    if (!back) hand_over(&linear, "b", &k, "b");
    run_with(&p->table, &linear, p->type);
    set_operand(&act, back ? "dx" : "y", result, p->type);
    set_operand(&act, back ? "dy" : "x", product, p->type);
    if (back) set_operand(&act, "db", (tri_tensor){db, 1, cols}, TRI_F32);
    if (back) hand_over(&act, slope ? "y" : "x", &k, slope ? "y" : "h");
    run_with(&p->table, &act, p->type);
    expect_same(&k, back ? "db" : "h", back ? (void *)db : h);
    expect_cast(&p->table, &k, "sq", y);
    kernel_call_close(&k);
    free(h), free(y), free(db);
}

static void norm_case(const kernel_case *at, void *context) {
    parts *p = context;
    int back = at->op == TRI_OP_norm_din;
    kernel_call k, norm;
    kernel_case of = *at;
    of.variant = tri__variant(of.op, &(tri_attr){.residual = 1});
    kernel_call_open_mixed(&k, at, p->type, TRI_F32, 0.1f, 0, 0);
    kernel_call_open_mixed(&norm, &of, p->type, TRI_F32, 0.1f, 0, 0);
    kernel_call_run(&k, &p->table, 2);
    const tri_op_row *row = tri__variant_row(of.variant);
    for (int a = 0; a < row->n_args; a++)
        if (tri__access_reads(row->arg[a].access)) hand_over(&norm.call, row->arg[a].name, &k, row->arg[a].name);
    run_with(&p->table, &norm.call, p->type);
    for (int a = back; a < row->n_args; a++) /* dx has become q */
        if (tri__access_writes(row->arg[a].access)) expect_same(&k, row->arg[a].name, norm.call.t[a].data);
    expect_cast(&p->table, &k, "sq", norm.call.t[0].data);
    kernel_call_close(&k), kernel_call_close(&norm);
}

/* attention_scaled is attention or attention_bits, attention_scaled_din attention_din_db, then a cast. */
static void attention_case(const kernel_case *at, void *context) {
    parts *p = context;
    int back = at->op == TRI_OP_attention_din;
    kernel_call k, whole;
    kernel_case of = *at;
    of.variant = tri__variant(at->op, &(tri_attr){.sums = back, .mask = !back && at->dim['M' - 'A']});
    kernel_call_open_mixed(&k, at, p->type, TRI_F32, 0.1f, 0, 0);
    kernel_call_open_mixed(&whole, &of, p->type, TRI_F32, 0.1f, 0, 0);
    kernel_call_run(&k, &p->table, 2);
    const tri_op_row *row = tri__variant_row(of.variant);
    for (int a = 0; a < row->n_args; a++)
        if (tri__access_reads(row->arg[a].access))
            hand_over(&whole.call, row->arg[a].name, &k, row->arg[a].name);
    run_with(&p->table, &whole.call, p->type);
    for (int a = back; a < row->n_args; a++) /* dqkv has become q */
        if (tri__access_writes(row->arg[a].access)) expect_same(&k, row->arg[a].name, whole.call.t[a].data);
    expect_cast(&p->table, &k, "sq", whole.call.t[0].data);
    kernel_call_close(&k), kernel_call_close(&whole);
}

TEST(test_fused) {
    static const kernel_grid acts[] = {{"linear{act}_scaled linear{act}_scaled_din", "T=0,1,16,32 O=16,20 I=16,33"}};
    static const kernel_grid norm[] = {{NORMS_SCALED, "T=0,1,16,32 H=16,20,100"}};
    static const kernel_grid attention[] = {{ATTENTION_SCALED, "L=0,2,4,5 A=2 E=16,20"},
                                            {ATTENTION_SCALED, "L=2,5 X=3 M=1 A=2 E=20"}};
    for (int i = 0; i < 6; i++) {
        parts p = {.type = types[i / 2]};
        tri__device_find(devices[i % 2])->kernels(&p.table);
        kernel_cases(acts, 1, act_case, &p);
        kernel_cases(norm, 1, norm_case, &p);
        kernel_cases(attention, 2, attention_case, &p);
    }
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
