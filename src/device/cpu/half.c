/* half.c - rows of 16-bit types. Their inputs are exact in fp32; they compute as the fp32 row does and round each
 * output once, to nearest. Most run the fp32 row on fp32 copies of their 16-bit operands. Rows whose operands are whole
 * tables or all the weights of a unit, where copies would be as large, work piece by piece.
 *
 * Operands of both widths may occur in one call: gradients of weights may be fp32 when everything else is 16-bit. */
#include "device/cpu/convert.h"
#include "device/cpu/cpu.h"
#include "device/cpu/fast/runtime/call.h"

enum { PIECE = 2048, ENOUGH = 1 << 15, ALIGN = 64 }; /* elements; elements; bytes */

static int is_half(int dtype) { return dtype == TRI_BF16 || dtype == TRI_F16; }

static int64_t piece_size(int64_t n, int64_t at) { return n - at < PIECE ? n - at : PIECE; }

static void widen_operand(const tri_call *call, int k, float *to) {
    int64_t n = elements(call, k);
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < n; i += PIECE) tri__widen(call->dtype[k], piece_size(n, i), at_element(call, k, i), to + i);
}

static void narrow_operand(const tri_call *call, int k, const float *from) {
    int64_t n = elements(call, k);
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < n; i += PIECE)
        tri__narrow(call->dtype[k], piece_size(n, i), from + i, at_element(call, k, i));
}

static size_t aligned(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

/* Scratch: the fp32 row's, one float per element of 16-bit operands, and alignment. */
static void through_f32(const tri_call *call) {
    const tri_op_row *row = tri__call_row(call);
    tri_call wide = *call;
    char *scratch = call->work;
    for (int k = 0; k < row->n_args; k++) {
        if (!call->t[k].data || !is_half(call->dtype[k])) continue;
        wide.t[k].data = scratch;
        wide.dtype[k] = TRI_F32;
        scratch += aligned((size_t)elements(call, k) * sizeof(float));
        if (tri__access_reads(row->arg[k].access) || adds(call, k)) widen_operand(call, k, wide.t[k].data);
    }
    wide.work = scratch;
    tri__kernel(call->table, call->op, call->attr, TRI_F32)(&wide);
    for (int k = 0; k < row->n_args; k++)
        if (wide.t[k].data != call->t[k].data && tri__access_writes(row->arg[k].access))
            narrow_operand(call, k, wide.t[k].data);
}

static void cast(const tri_call *call) {
    OPERANDS(cast);
    int64_t n = elements(call, ARG(y));
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < n; i += PIECE) {
        float wide[PIECE];
        tri__widen(call->dtype[ARG(x)], piece_size(n, i), at_element(call, ARG(x), i), wide);
        tri__narrow(call->dtype[ARG(y)], piece_size(n, i), wide, at_element(call, ARG(y), i));
    }
}

/* h is rounded before the activation, as in the unfused operations: y may be recomputed from h alone. */
static void linear_act(const tri_call *call) {
    OPERANDS(linear);
    char *scratch = call->work;
    tri_tensor h = {call->t[ARG(h)].data, call->t[ARG(y)].rows, call->t[ARG(y)].cols};
    if (!h.data) {
        h.data = scratch;
        scratch += aligned((size_t)elements(call, ARG(y)) * sizeof(uint16_t));
    }
    tri_call linear = *call, act = *call;
    tri_attr layer = *call->attr, after = {.activation = layer.activation};
    int type = call->dtype[ARG(y)];
    layer.activation = 0;
    act.op = TRI_OP_act;
    linear.attr = &layer, act.attr = &after;
    linear.work = act.work = scratch;
    linear.t[ARG(h)].data = NULL;
    linear.t[ARG(y)] = act.t[TRI_ARG(act, x)] = h;
    act.dtype[TRI_ARG(act, x)] = (uint8_t)type;
    tri__kernel(call->table, TRI_OP_linear, &layer, type)(&linear);
    tri__kernel(call->table, TRI_OP_act, &after, type)(&act);
}

/* Runs `op` on these operands of the call only: rows may test which operands are present. */
static void run_part(const tri_call *call, tri_op op, tri_attr attr, int n, const int *operand) {
    tri_call part = *call;
    int type = TRI_F32;
    part.op = op, part.attr = &attr, part.acc = 0;
    memset(part.t, 0, sizeof part.t);
    for (int k = 0; k < n; k++) {
        if (operand[k] < 0) continue;
        part.t[k] = call->t[operand[k]], part.dtype[k] = call->dtype[operand[k]];
        part.acc |= (unsigned)adds(call, operand[k]) << k;
        if (is_half(part.dtype[k])) type = part.dtype[k];
    }
    tri__kernel(call->table, op, &attr, type)(&part);
}

/* Sums the rounded gradients, as the unfused operations do. */
static void act_din_db(const tri_call *call) {
    OPERANDS(act_din);
    tri_attr attr = *call->attr;
    attr.sums = 0;
    run_part(call, TRI_OP_act_din, attr, 5, (int[]){ARG(dx), -1, ARG(dy), ARG(x), ARG(y)});
    run_part(call, TRI_OP_bias_dw, attr, 2, (int[]){ARG(db), ARG(dx)});
}

/* The next two work for any type. The product is stored in dx. */
static void linear_act_din(const tri_call *call) {
    OPERANDS(linear_din);
    tri_attr layer = *call->attr, after = {.activation = layer.activation, .sums = 1};
    tri_call product = *call;
    int type = call->dtype[ARG(dx)], at_x = tri__slope_arg(&after) == TRI_ARG(act_din, x);
    layer.activation = 0;
    product.attr = &layer, product.acc = 0;
    product.t[ARG(db)].data = product.t[ARG(h)].data = NULL;
    tri__kernel(call->table, TRI_OP_linear_din, &layer, type)(&product);
    run_part(call, TRI_OP_act_din, after, 5,
             (int[]){ARG(dx), ARG(db), ARG(dx), at_x ? ARG(h) : -1, at_x ? -1 : ARG(h)});
}

static void attention_din_db(const tri_call *call) {
    OPERANDS(attention_din);
    tri_attr attr = *call->attr;
    attr.sums = 0;
    run_part(call, TRI_OP_attention_din, attr, 12,
             (int[]){ARG(dqkv), -1, -1, -1, ARG(dctx), ARG(qkv), -1, ARG(ctx), ARG(lse), ARG(seq), -1, ARG(key)});
    run_part(call, TRI_OP_bias_dw, *call->attr, 2, (int[]){ARG(db), ARG(dqkv)});
}

static void dropout_add_norm_din(const tri_call *call) {
    OPERANDS(norm_din);
    tri_call rest = *call;
    rest.t[ARG(dbias)].data = NULL;
    through_f32(&rest);
    if (call->t[ARG(dbias)].data) run_part(call, TRI_OP_bias_dw, *call->attr, 2, (int[]){ARG(dbias), ARG(dx)});
}

/* n columns of a table's row, from column c on, as fp32; zeros if the row does not exist. */
static void table_row(const tri_call *call, int table, int64_t row, int64_t c, int64_t n, float *to) {
    if (!call->t[table].data || row < 0 || row >= call->t[table].rows) memset(to, 0, (size_t)n * sizeof *to);
    else tri__widen(call->dtype[table], n, at_element(call, table, row * call->t[table].cols + c), to);
}

static void embed(const tri_call *call) {
    OPERANDS(embed);
    const int32_t *ids = i32(call, ARG(ids)), *pos = i32(call, ARG(pos)); /* [T] */
    int64_t rows = call->t[ARG(y)].rows, h = call->t[ARG(y)].cols;
#pragma omp parallel for schedule(static) num_threads(threads_for(call, rows * h, ENOUGH))
    for (int64_t t = 0; t < rows; t++)
        for (int64_t c = 0; c < h; c += PIECE) {
            float word[PIECE], position[PIECE], sort[PIECE];
            int64_t n = piece_size(h, c);
            table_row(call, ARG(word), (int64_t)ids[t] - call->attr->row0, c, n, word);
            table_row(call, ARG(position), pos[t], c, n, position);
            table_row(call, ARG(type), 0, c, n, sort);
            for (int64_t i = 0; i < n; i++) word[i] += position[i] + sort[i];
            tri__narrow(call->dtype[ARG(y)], n, word, at_element(call, ARG(y), t * h + c));
        }
}

enum { TABLE_ROWS = 256 }; /* rows of a table that are summed in fp32 at a time */

/* sum[row of t] += dy[t] in token order, for tokens whose row is in [first, first + n), except those whose index + 1 is
 * `pad`. index NULL: row 0. */
static void scatter(const tri_call *call, int dy, const int32_t *index, int32_t pad, int64_t first, int64_t n,
                    float *sum) {
    int64_t rows = call->t[dy].rows, h = call->t[dy].cols;
    for (int64_t t = 0; t < rows; t++) {
        int64_t row = (index ? index[t] : 0) - first;
        if (row < 0 || row >= n || (index && index[t] + 1 == pad)) continue;
        const uint16_t *from = at_element(call, dy, t * h); /* [h] */
        float *to = sum + row * h;                          /* [h] */
        if (call->dtype[dy] == TRI_BF16)
            for (int64_t i = 0; i < h; i++) to[i] += tri__from_bf16(from[i]);
        else if (call->dtype[dy] == TRI_F16)
            for (int64_t i = 0; i < h; i++) to[i] += tri__from_f16(from[i]);
        else
            for (int64_t i = 0; i < h; i++) to[i] += ((const float *)(const void *)from)[i];
    }
}

static void embed_dw(const tri_call *call) {
    OPERANDS(embed_dw);
    const int32_t *index[] = {i32(call, ARG(ids)), i32(call, ARG(pos)), NULL}; /* [T] */
    const int32_t pad[] = {call->attr->pad, call->attr->pad_position, 0};
    int64_t h = call->t[ARG(dy)].cols;
    for (int k = ARG(dword); k <= ARG(dtype); k++)
        for (int64_t first = 0; call->t[k].data && first < call->t[k].rows; first += TABLE_ROWS) {
            int64_t n = call->t[k].rows - first < TABLE_ROWS ? call->t[k].rows - first : TABLE_ROWS;
            float *sum = call->work; /* [n,h] */
            if (adds(call, k)) tri__widen(call->dtype[k], n * h, at_element(call, k, first * h), sum);
            else memset(sum, 0, (size_t)(n * h) * sizeof *sum);
            scatter(call, ARG(dy), index[k], pad[k], first + (k == ARG(dword) ? call->attr->row0 : 0), n, sum);
            tri__narrow(call->dtype[k], n * h, sum, at_element(call, k, first * h));
        }
}

/* skip has its operands in this order, too. */
static void accumulate(const tri_call *call) {
    OPERANDS(accumulate);
    int64_t n = elements(call, ARG(y));
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t i = 0; i < n; i += PIECE) {
        float sum[PIECE], more[PIECE];
        int64_t size = piece_size(n, i);
        tri__widen(call->dtype[ARG(x)], size, at_element(call, ARG(x), i), more);
        if (adds(call, ARG(y))) {
            tri__widen(call->dtype[ARG(y)], size, at_element(call, ARG(y), i), sum);
            for (int64_t j = 0; j < size; j++) more[j] += sum[j];
        }
        tri__narrow(call->dtype[ARG(y)], size, more, at_element(call, ARG(y), i));
    }
}

enum { SUM_BLOCKS = 64 };

static void sumsq(const tri_call *call) {
    OPERANDS(sumsq);
    int64_t n = elements(call, ARG(x)), size = (n + SUM_BLOCKS - 1) / SUM_BLOCKS;
    double *part = call->work, total = adds(call, ARG(sum)) ? *f64(call, ARG(sum)) : 0; /* part [SUM_BLOCKS] */
#pragma omp parallel for schedule(static) num_threads(threads_for(call, n, ENOUGH))
    for (int64_t block = 0; block < SUM_BLOCKS; block++) {
        int64_t end = (block + 1) * size < n ? (block + 1) * size : n;
        part[block] = 0;
        for (int64_t i = block * size; i < end; i += PIECE) {
            float wide[PIECE];
            tri__widen(call->dtype[ARG(x)], piece_size(end, i), at_element(call, ARG(x), i), wide);
            for (int64_t j = 0; j < piece_size(end, i); j++) part[block] += (double)wide[j] * wide[j];
        }
    }
    for (int64_t block = 0; block < SUM_BLOCKS; block++) total += part[block];
    *f64(call, ARG(sum)) = total;
}

enum { UPDATE_PIECE = 1 << 18 }; /* elements; scratch holds their gradients as fp32, then the fp32 row's own */

/* Elements [i, i + size) of an operand. */
static tri_tensor piece_of(const tri_call *call, int k, int64_t i, int64_t size) {
    return (tri_tensor){at_element(call, k, i), 1, size};
}

/* Elements [i, i + size) of an update, by the fp32 row; its sums are added to by all but the first piece. */
static void update_piece(const tri_call *call, int64_t i, int64_t size) {
    const tri_op_row *row = tri__call_row(call);
    tri_call part = *call;
    part.work = (char *)call->work + sizeof(float) * UPDATE_PIECE;
    for (int k = 0; k < row->n_args; k++) {
        if (!call->t[k].data) continue;
        if (!tri__row_is_flat(row, k)) {
            if (i && row->arg[k].access == TRI_ACCESS_A) part.acc |= 1u << k;
            continue;
        }
        part.t[k] = piece_of(call, k, i, size);
        if (!is_half(call->dtype[k])) continue;
        tri_call gradient = {.t = {part.t[k]}, .dtype = {call->dtype[k]}, .threads = call->threads};
        widen_operand(&gradient, 0, call->work);
        part.t[k].data = call->work;
        part.dtype[k] = TRI_F32;
    }
    tri__kernel(call->table, call->op, call->attr, TRI_F32)(&part);
}

static int64_t update_size(int64_t n, int64_t i) { return n - i < UPDATE_PIECE ? n - i : UPDATE_PIECE; }

/* An update of fp32 weights, of which only the gradient may have 16 bits. */
static void update(const tri_call *call) {
    int64_t n = elements(call, tri__row_arg(tri__call_row(call), "g"));
    for (int64_t i = 0; i == 0 || i < n; i += UPDATE_PIECE) update_piece(call, i, update_size(n, i));
}

static void adamw_copy(const tri_call *call) {
    OPERANDS(adamw);
    int64_t n = elements(call, ARG(p));
    tri_call plain = *call;
    tri_attr attr = *call->attr;
    if (!*i32(call, ARG(apply))) return;
    plain.attr = &attr, attr.copy = 0, plain.t[ARG(copy)].data = NULL;
    for (int64_t i = 0; i < n; i += UPDATE_PIECE) {
        update_piece(&plain, i, update_size(n, i));
        tri_call copy = {.t = {piece_of(call, ARG(copy), i, update_size(n, i))}, .dtype = {call->dtype[ARG(copy)]},
                         .threads = call->threads};
        narrow_operand(&copy, 0, f32(call, ARG(p)) + i);
    }
}

static const tri_kernel_row any_width[] = TRI_KERNEL_ROWS(
    {.op = TRI_OP_cast, .run = cast},
    {.op = TRI_OP_adamw, .run = adamw_copy, .work = {.fixed = 4 * UPDATE_PIECE}, .facts = TRI_FACT_COPY});
static const tri_kernel_row by_pieces[] = TRI_KERNEL_ROWS(
    {.op = TRI_OP_embed, .run = embed},
    {.op = TRI_OP_embed_dw, .run = embed_dw, .work = {.col = 4 * TABLE_ROWS}},
    {.op = TRI_OP_accumulate, .run = accumulate},
    {.op = TRI_OP_skip, .run = accumulate},
    {.op = TRI_OP_sumsq, .run = sumsq, .work = {.fixed = 8 * SUM_BLOCKS}});

static void add_as(tri_kernel_table *table, const tri_kernel_row *rows, tri_dtype dtype) {
    for (; rows->run; rows++) tri__kernel_table_put(table, rows, dtype);
}

void tri__cpu_half_row(const tri_call *call) {
    switch (call->op) {
    case TRI_OP_linear: call->attr->activation ? linear_act(call) : through_f32(call); return;
    case TRI_OP_act_din: call->attr->sums ? act_din_db(call) : through_f32(call); return;
    case TRI_OP_linear_din: call->attr->activation ? linear_act_din(call) : through_f32(call); return;
    case TRI_OP_norm_din: call->attr->residual ? dropout_add_norm_din(call) : through_f32(call); return;
    case TRI_OP_adamw: adamw_copy(call); return;
    default: through_f32(call);
    }
}

void tri__cpu_half_rows(tri_kernel_table *table) {
    add_as(table, any_width, TRI_F32);
    for (int dtype = TRI_BF16; dtype <= TRI_F16; dtype++) {
        for (int v = 0; v < tri__variant_count(); v++) {
            const tri_op_row *row = tri__variant_row(v);
            if (!table->run[v][TRI_F32] || table->run[v][dtype]) continue; /* some rows take any width */
            int updates = row->phase == TRI_PHASE_U && tri__row_arg(row, "g") >= 0;
            table->run[v][dtype] = updates ? update : through_f32;
            table->work[v][dtype] = table->work[v][TRI_F32];
            table->work[v][dtype].fixed += updates ? (int64_t)sizeof(float) * UPDATE_PIECE : TRI_MAX_ARGS * ALIGN;
            if (!updates) table->work[v][dtype].half = sizeof(float);
        }
        add_as(table, any_width, (tri_dtype)dtype);
        add_as(table, by_pieces, (tri_dtype)dtype);
        tri__kernel_table_run(table, TRI_OP_act_din, TRI_FACT_ACT | TRI_FACT_DB, (tri_dtype)dtype, act_din_db);
        tri__kernel_table_run(table, TRI_OP_norm_din, 0, (tri_dtype)dtype, dropout_add_norm_din);
        for (int v = tri__op_variants(TRI_OP_linear), n = tri__op_variant_count(TRI_OP_linear); n; n--, v++) {
            unsigned facts = tri__kernel_facts(v) & ~TRI_FACT_EXPERTS;
            if (facts != TRI_FACT_ACT || !table->run[v][TRI_F32]) continue;
            table->run[v][dtype] = linear_act;
            table->work[v][dtype].row_cols += 6; /* h, if it is absent, and its fp32 copy */
        }
    }
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* The parts run in sequence and share scratch space. `copies`: additional fp32 copies of the first operand, beyond
 * those that the parts' own rows count. */
static void add_parts(tri_kernel_table *table, const char *op, tri_kernel *run, const char *first, const char *second,
                      int copies) {
    int v = tri__variant_find(op);
    for (int dtype = TRI_F32; dtype <= TRI_F16; dtype++) {
        const tri_workspace *a = &table->work[tri__variant_find(first)][dtype],
                            *b = &table->work[tri__variant_find(second)][dtype];
        int64_t row_cols = larger(a->row_cols, b->row_cols) + (is_half(dtype) ? copies * (int64_t)sizeof(float) : 0);
        table->run[v][dtype] = run;
        table->work[v][dtype] = (tri_workspace){larger(a->fixed, b->fixed), larger(a->row, b->row),
                                                 larger(a->col, b->col), row_cols, larger(a->half, b->half)};
    }
}

void tri__cpu_part_rows(tri_kernel_table *table) {
#define TRI_ACTIVATION(NAME, name, ...) /* dx is both read and written */ \
    add_parts(table, "linear_" #name "_din", linear_act_din, "linear_din", #name "_din_db", 1);
#include "program/activation.def"
    add_parts(table, "attention_din_db", attention_din_db, "attention_din", "bias_dw", 0);
}
