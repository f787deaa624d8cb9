/* fp8.c - tensors in 8 bits with one scale each, their products, and the producers that write them (ops_fp8.def). All
 * rows take every width of the computing type: factors are exact, sums are in double, and each result is rounded once
 * to its own type. */
#include "device/cpu/reference/any_width.h"
#include "numbers/float8.h"

static float from_8_bits(int dtype, uint8_t code) {
    return dtype == TRI_F8_E5M2 ? tri__from_e5m2(code) : tri__from_e4m3(code);
}

/* The larger of two magnitudes; NaN stays. */
static float larger(float most, float x) {
    float a = fabsf(x);
    return a > most || a != a ? a : most;
}

/* Writes element (t, c) of an 8-bit tensor [T,I], and of its transposed copy: either may be absent. */
static void put(const tri_call *call, int q, int transposed, int64_t t, int64_t c, float scaled) {
    int there = call->t[q].data ? q : transposed;
    uint8_t code = call->dtype[there] == TRI_F8_E5M2 ? tri__to_e5m2(scaled) : tri__to_e4m3(scaled);
    int64_t T = call->t[there].rows, I = call->t[there].cols;
    if (call->t[q].data) ((uint8_t *)call->t[q].data)[t * I + c] = code;
    if (call->t[transposed].data) ((uint8_t *)call->t[transposed].data)[c * T + t] = code;
}

static void fp8_cast(const tri_call *call) {
    OPERANDS(fp8_cast);
    float s = *f32(call, ARG(s)), *most = f32(call, ARG(most));
    int64_t T = call->t[ARG(x)].rows, I = call->t[ARG(x)].cols;
    for (int64_t t = 0; t < T; t++)
        for (int64_t c = 0; c < I; c++) {
            float x = load(call, ARG(x), t * I + c);
            put(call, ARG(q), ARG(transposed), t, c, x * s);
            if (most) *most = larger(*most, x);
        }
}

enum { WEIGHTS = 4, KINDS = 3 }; /* of a call; rows of history of a weight's product */

static void fp8_cast_weights(const tri_call *call) {
    OPERANDS(fp8_cast_weights);
    for (int k = 0; k < WEIGHTS; k++) {
        if (!call->t[ARG(a) + k].data) continue;
        tri_call one = {.op = TRI_OP_fp8_cast,
                        .t = {call->t[ARG(qa) + k], call->t[ARG(ta) + k], {f32(call, ARG(most)) + KINDS * k, 1, 1},
                              call->t[ARG(a) + k], {f32(call, ARG(s)) + KINDS * k, 1, 1}},
                        .dtype = {TRI_F8_E4M3, TRI_F8_E4M3, TRI_F32, call->dtype[ARG(a) + k], TRI_F32}};
        fp8_cast(&one);
    }
}

static void fp8_turn(const tri_call *call) {
    OPERANDS(fp8_turn);
    for (int k = 0; k < WEIGHTS; k++) {
        const tri_tensor *from = &call->t[ARG(a) + k];
        uint8_t *to = call->t[ARG(ta) + k].data;
        for (int64_t t = 0; t < from->rows && from->data && to; t++)
            for (int64_t c = 0; c < from->cols; c++)
                to[c * from->rows + t] = ((const uint8_t *)from->data)[t * from->cols + c];
    }
}

/* The largest power of two in 2^-60 .. 2^60 that keeps `largest` within `limit`. */
static float scale_of(float largest, float limit) {
    int a, b;
    int fits = frexpf(largest, &a) <= frexpf(limit, &b), power = b - a - !fits;
    return ldexpf(1, power > 60 ? 60 : power < -60 ? -60 : power);
}

static void fp8_scales(const tri_call *call) {
    OPERANDS(fp8_scales);
    static const float limit[] = {448, 448, 57344}, first[] = {0x1p8f, 0x1p3f, 0x1p20f};
    const float *history = f32(call, ARG(history)); /* [K,M] */
    int64_t K = call->t[ARG(history)].rows, M = call->t[ARG(history)].cols;
    for (int64_t k = 0; k < K; k++) {
        float largest = 0;
        for (int64_t i = 0; i < M; i++) largest = larger(largest, history[k * M + i]);
        f32(call, ARG(s))[k] = largest > 0 ? scale_of(largest, limit[k % 3]) : first[k % 3];
        f32(call, ARG(most))[k] = 0;
    }
}

static void fp8_check(const tri_call *call) {
    OPERANDS(fp8_check);
    for (int64_t k = 0; k < call->t[ARG(most)].cols; k++) *f64(call, ARG(sum)) += 0 * (double)f32(call, ARG(most))[k];
}

static void fp8_history(const tri_call *call) {
    OPERANDS(fp8_history);
    float *history = f32(call, ARG(history)); /* [K,M] */
    int64_t K = call->t[ARG(history)].rows, M = call->t[ARG(history)].cols;
    for (int64_t k = 0; k < K && *i32(call, ARG(apply)); k++) {
        memmove(history + k * M + 1, history + k * M, (size_t)(M - 1) * sizeof *history);
        history[k * M] = f32(call, ARG(most))[k];
    }
}

/* Row i of operand a times row j of operand b, both of n bytes, with the scales of both taken out. */
static double product(const tri_call *call, int a, int64_t i, int b, int64_t j, int64_t n, int sa, int sb) {
    const uint8_t *x = (const uint8_t *)call->t[a].data + i * n, *y = (const uint8_t *)call->t[b].data + j * n;
    double sum = 0;
    for (int64_t k = 0; k < n; k++)
        sum += (double)from_8_bits(call->dtype[a], x[k]) * from_8_bits(call->dtype[b], y[k]);
    return sum / ((double)*f32(call, sa) * *f32(call, sb));
}

static void linear_scaled(const tri_call *call) {
    OPERANDS(linear);
    int64_t T = call->t[ARG(x)].rows, O = call->t[ARG(w)].rows, I = call->t[ARG(w)].cols;
    for (int64_t t = 0; t < T; t++)
        for (int64_t o = 0; o < O; o++)
            save(call, ARG(y), t * O + o,
                 product(call, ARG(x), t, ARG(w), o, I, ARG(sx), ARG(sw)) +
                     (call->t[ARG(b)].data ? load(call, ARG(b), o) : 0));
}

static void linear_scaled_din(const tri_call *call) {
    OPERANDS(linear_din);
    int64_t T = call->t[ARG(dy)].rows, O = call->t[ARG(w)].rows, I = call->t[ARG(w)].cols;
    for (int64_t t = 0; t < T; t++)
        for (int64_t i = 0; i < I; i++)
            save(call, ARG(dx), t * I + i, product(call, ARG(dy), t, ARG(w), i, O, ARG(sdy), ARG(sw)));
}

static void linear_scaled_dw(const tri_call *call) {
    OPERANDS(linear_dw);
    int64_t T = call->t[ARG(dy)].rows, O = call->t[ARG(dw)].rows, I = call->t[ARG(dw)].cols;
    for (int64_t o = 0; o < O; o++)
        for (int64_t i = 0; i < I; i++)
            save(call, ARG(dw), o * I + i, product(call, ARG(dy), o, ARG(x), i, T, ARG(sdy), ARG(sx)));
}

/* ---- Producers that are other rows of the table, then a cast ---- */

#define TAKE(part, op, name)                                                            \
    ((part)->t[TRI_ARG(op, name)] = call->t[ARG(name)],                                 \
     (part)->dtype[TRI_ARG(op, name)] = call->dtype[ARG(name)],                         \
     (part)->acc |= (unsigned)adds(call, ARG(name)) << TRI_ARG(op, name))

static tri_call part_of(const tri_call *call, tri_op op) {
    tri_call part = *call;
    part.op = op, part.acc = 0;
    memset(part.t, 0, sizeof part.t);
    return part;
}

/* Casts a tensor of the computing type into operands q, transposed, most of the call, with the scale sq. */
static void cast_by(const tri_call *call, tri_tensor x, int type, int q, int transposed, int most, int sq) {
    OPERANDS(fp8_cast);
    tri_call cast = part_of(call, TRI_OP_fp8_cast);
    const int of[] = {q, transposed, most, -1, sq};
    for (int k = 0; k <= ARG(s); k++)
        if (k != ARG(x)) cast.t[k] = call->t[of[k]], cast.dtype[k] = call->dtype[of[k]];
    cast.t[ARG(x)] = x, cast.dtype[ARG(x)] = (uint8_t)type;
    tri__kernel(call->table, TRI_OP_fp8_cast, cast.attr, type)(&cast);
}

enum { ALIGN = 64 }; /* bytes */

/* Takes a tensor of the computing type from the scratch space. */
static tri_tensor take_scratch(char **scratch, int64_t rows, int64_t cols, int type) {
    tri_tensor taken = {*scratch, rows, cols};
    *scratch += ((size_t)(rows * cols) * tri__dtype_bytes((tri_dtype)type) + ALIGN - 1) / ALIGN * ALIGN;
    return taken;
}

static void give(tri_call *part, int k, tri_tensor t, int type) { part->t[k] = t, part->dtype[k] = (uint8_t)type; }

/* The dense layer of a call without its activation, and the activation, with the bias's gradient or without. */
static tri_attr layer_alone(const tri_call *call) {
    tri_attr attr = *call->attr;
    attr.activation = 0;
    return attr;
}
static tri_attr act_alone(const tri_call *call, int sums) {
    return (tri_attr){.activation = call->attr->activation, .sums = sums};
}

/* Scratch: y and, if it is absent, h; then that of a part. */
static void linear_act_scaled(const tri_call *call) {
    OPERANDS(linear);
    tri_call linear = part_of(call, TRI_OP_linear), act = part_of(call, TRI_OP_act);
    tri_attr layer = layer_alone(call), after = act_alone(call, 0);
    int type = call->dtype[ARG(b)];
    char *scratch = call->work;
    int64_t T = call->t[ARG(x)].rows, O = call->t[ARG(w)].rows;
    tri_tensor y = take_scratch(&scratch, T, O, type);
    tri_tensor h = call->t[ARG(h)].data ? call->t[ARG(h)] : take_scratch(&scratch, T, O, type);
    TAKE(&linear, linear, x), TAKE(&linear, linear, w), TAKE(&linear, linear, sx);
    TAKE(&linear, linear, sw), TAKE(&linear, linear, b);
    give(&linear, ARG(y), h, type);
    give(&act, TRI_ARG(act, y), y, type), give(&act, TRI_ARG(act, x), h, type);
    linear.work = act.work = scratch;
    linear.attr = &layer, act.attr = &after;
    tri__kernel(call->table, TRI_OP_linear, &layer, type)(&linear);
    tri__kernel(call->table, TRI_OP_act, &after, type)(&act);
    cast_by(call, y, type, ARG(y), ARG(transposed), ARG(most), ARG(sq));
}

/* Scratch: the gradient of y, which becomes that of h; then that of a part. */
static void linear_act_scaled_din(const tri_call *call) {
    OPERANDS(linear_din);
    tri_call linear = part_of(call, TRI_OP_linear_din), act = part_of(call, TRI_OP_act_din);
    tri_attr layer = layer_alone(call), after = act_alone(call, 1);
    int type = call->dtype[ARG(h)];
    char *scratch = call->work;
    tri_tensor g = take_scratch(&scratch, call->t[ARG(h)].rows, call->t[ARG(h)].cols, type);
    TAKE(&linear, linear_din, dy), TAKE(&linear, linear_din, w);
    TAKE(&linear, linear_din, sdy), TAKE(&linear, linear_din, sw);
    give(&linear, ARG(dx), g, type);
    TAKE(&act, act_din, db);
    give(&act, TRI_ARG(act_din, dx), g, type), give(&act, TRI_ARG(act_din, dy), g, type);
    give(&act, tri__slope_arg(&after), call->t[ARG(h)], type);
    linear.work = act.work = scratch;
    linear.attr = &layer, act.attr = &after;
    tri__kernel(call->table, TRI_OP_linear_din, &layer, type)(&linear);
    tri__kernel(call->table, TRI_OP_act_din, &after, type)(&act);
    cast_by(call, g, type, ARG(dx), ARG(transposed), ARG(most), ARG(sq));
}

/* Runs the call as the variant of these attributes that writes the computing type, and casts its result y. It has the
 * type of operand `like`; where it has the place of q also its shape, and is in scratch space, before the variant's. */
static void run_and_cast(const tri_call *call, tri_attr attr, int like, int y, int q, int transposed, int most,
                         int sq) {
    tri_call part = *call;
    tri_tensor x = call->t[y];
    int type = call->dtype[like];
    char *scratch = call->work;
    if (y == q) {
        x = take_scratch(&scratch, call->t[like].rows, call->t[like].cols, type);
        give(&part, y, x, type);
        part.work = scratch;
    }
    attr.scaled = 0, part.attr = &attr;
    tri__kernel(call->table, call->op, &attr, type)(&part);
    cast_by(call, x, type, q, transposed, most, sq);
}

static void norm_scaled(const tri_call *call) {
    OPERANDS(norm);
    run_and_cast(call, *call->attr, ARG(y), ARG(y), ARG(q), ARG(transposed), ARG(most), ARG(sq));
}

static void norm_scaled_din(const tri_call *call) {
    OPERANDS(norm_din);
    run_and_cast(call, *call->attr, ARG(dy), ARG(dx), ARG(dx), ARG(transposed), ARG(most), ARG(sq));
}

static void attention_scaled(const tri_call *call) {
    OPERANDS(attention);
    tri_attr attr = *call->attr;
    attr.mask = call->t[ARG(bits)].data != NULL;
    run_and_cast(call, attr, ARG(ctx), ARG(ctx), ARG(q), ARG(transposed), ARG(most), ARG(sq));
}

/* q has the place of dqkv. */
static void attention_scaled_din(const tri_call *call) {
    OPERANDS(attention_din);
    tri_attr attr = *call->attr;
    attr.sums = call->t[ARG(db)].data != NULL;
    run_and_cast(call, attr, ARG(qkv), ARG(dqkv), ARG(dqkv), ARG(transposed), ARG(most), ARG(sq));
}

static int64_t more(int64_t a, int64_t b) { return a > b ? a : b; }

/* The scratch space of two parts, one after the other, and of tensors beside it. Rows of 16 bits ask for fp32 copies of
 * a call's operands; `copied`: how often such tensors are operands of a part. */
static void set_work(tri_kernel_table *table, const char *op, const char *first, const char *second, int type,
                     int tensors, int copied) {
    const tri_workspace *a = &table->work[tri__variant_find(first)][type],
                        *b = &table->work[tri__variant_find(second)][type];
    int64_t half = more(a->half, b->half);
    int64_t beside = tensors * (int64_t)tri__dtype_bytes((tri_dtype)type) + copied * half;
    table->work[tri__variant_find(op)][type] =
        (tri_workspace){more(a->fixed, b->fixed) + (int64_t)tensors * ALIGN, more(a->row, b->row),
                        more(a->col, b->col), more(a->row_cols, b->row_cols) + beside, half};
}

void tri__cpu_fp8_parts(tri_kernel_table *table) {
    for (int type = TRI_F32; type <= TRI_F16; type++) {
#define TRI_ACTIVATION(NAME, name, ...)                                                            \
    set_work(table, "linear_" #name "_scaled", "linear_scaled", #name, type, 2, 2);                  \
    set_work(table, "linear_" #name "_scaled_din", "linear_scaled_din", #name "_din_db", type, 1, 2);
#include "program/activation.def"
        set_work(table, "dropout_add_norm_scaled", "dropout_add_norm", "fp8_cast", type, 0, 0);
        set_work(table, "dropout_add_norm_scaled_din", "dropout_add_norm_din", "fp8_cast", type, 1, 1);
        set_work(table, "attention_scaled", "attention", "attention_bits", type, 0, 0);
        set_work(table, "attention_scaled_din", "attention_din", "attention_din_db", type, 1, 1);
    }
}

#define ROWS(op_) TRI_WIDTH_ROWS(op_, op_, 0)
const tri_kernel_row tri__cpu_fp8_reference[] = TRI_KERNEL_ROWS(
    ROWS(fp8_cast), ROWS(fp8_cast_weights), ROWS(fp8_turn), ROWS(fp8_scales), ROWS(fp8_check), ROWS(fp8_history),
    TRI_WIDTH_ROWS(linear, linear_scaled, TRI_FACT_SCALED),
    TRI_WIDTH_ROWS(linear_din, linear_scaled_din, TRI_FACT_SCALED),
    TRI_WIDTH_ROWS(linear_dw, linear_scaled_dw, TRI_FACT_SCALED),
    TRI_WIDTH_ROWS(linear, linear_act_scaled, TRI_FACT_SCALED | TRI_FACT_ACT),
    TRI_WIDTH_ROWS(linear_din, linear_act_scaled_din, TRI_FACT_SCALED | TRI_FACT_ACT),
    TRI_WIDTH_ROWS(norm, norm_scaled, TRI_FACT_SCALED),
    TRI_WIDTH_ROWS(norm_din, norm_scaled_din, TRI_FACT_SCALED),
    TRI_WIDTH_ROWS(attention, attention_scaled, TRI_FACT_SCALED),
    TRI_WIDTH_ROWS(attention_din, attention_scaled_din, TRI_FACT_SCALED));
