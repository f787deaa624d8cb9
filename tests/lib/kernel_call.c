/* kernel_call.c - see kernel_call.h. */
#include "tests/lib/kernel_call.h"

#include "base/hash.h"

uint64_t next_random(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

tri_dtype operand_dtype(const kernel_call *k, int arg) {
    int dtype = tri__variant_row(k->at.variant)->arg[arg].dtype;
    if (dtype == TRI_DTYPE_F8) return k->at.dim['G' - 'A'] ? TRI_F8_E5M2 : TRI_F8_E4M3;
    return dtype == TRI_DTYPE_COMPUTE ? k->type : dtype == TRI_DTYPE_ANY ? k->loose : (tri_dtype)dtype;
}
static int64_t operand_extent(const kernel_case *at, const char *dim) {
    return *dim >= 'A' && *dim <= 'Z' ? at->dim[*dim - 'A'] : strtol(dim, NULL, 10);
}

/* Real operands are uniform in a range that suits them; those not listed are in -1 .. 1. */
static const struct { const char *name; double low, high; } kernel_ranges[] = {
    {"rstd", 0.5, 1.5}, {"v", 0, 1},     {"cw", 0.5, 2},     {"probs", 0, 1},    {"coef", 0.7, 0.8},
    {"hyper", 0.1, 0.2}, {"logits", -9, 9}, {"inv", 0.1, 0.2}, {"sums", 3, 5},  {"scale", 1, 2},
    {"fresh", 0, 1},     {"most", 0.3, 6}, {"average", 0.3, 2}, {"factor", 0.4, 4},
};

/* Scales of FP8 training, which are powers of two; what is quantised is of the order of 1, and some of it saturates. */
static float power_of_two(const kernel_call *k, int arg) {
    static const struct { const char *name; int power; } scales[] = {
        {"s", 8}, {"sq", 8}, {"sx", 3}, {"sw", -2}, {"sdy", 1}};
    const tri_op_row *row = tri__variant_row(k->at.variant);
    const tri_operand *operand = &row->arg[arg];
    if (!kernel_case_fp8(&k->at) || !tri__access_reads(operand->access) || operand->optional) return 0;
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        if (strcmp(operand->name, scales[i].name) == 0)
            return ldexpf(1, scales[i].power + (i < 2 && row->phase == TRI_PHASE_B ? 6 : 0) +
                                 (int)(k->random % 3)); /* e5m2 has a larger range */
    return 0;
}

/* Scales of quantised factors: the operands s and ws that are read. */
static int is_scale(const kernel_call *k, int arg) {
    const tri_operand *operand = &tri__variant_row(k->at.variant)->arg[arg];
    return (strcmp(operand->name, "s") == 0 || strcmp(operand->name, "ws") == 0) &&
           tri__access_reads(operand->access);
}

/* Operands whose zeros mask elements. */
static int is_mask(const kernel_call *k, int arg) {
    switch (k->at.op) {
    case TRI_OP_pack: return arg == TRI_ARG(pack, mask);
    case TRI_OP_momentum: return arg == TRI_ARG(momentum, m);
    case TRI_OP_momentum_out: return arg == TRI_ARG(momentum_out, m);
    case TRI_OP_adamw_frozen: return arg == TRI_ARG(adamw_frozen, m);
    case TRI_OP_lamb_refresh: return arg == TRI_ARG(lamb_refresh, m);
    default: return 0;
    }
}

static void fill_real(kernel_call *k, int arg) {
    const tri_operand *operand = &tri__variant_row(k->at.variant)->arg[arg];
    double low = -1, high = 1;
    for (size_t i = 0; i < sizeof kernel_ranges / sizeof *kernel_ranges; i++)
        if (strcmp(operand->name, kernel_ranges[i].name) == 0) low = kernel_ranges[i].low, high = kernel_ranges[i].high;
    if (is_scale(k, arg)) low = 0.002, high = 0.02;
    if (arg == TRI_ARG(quantize, m) && k->at.op == TRI_OP_quantize) low = 0, high = 1.5; /* maxima, some too small */
    static const tri_op curved[] = {TRI_OP_act, TRI_OP_act_din, TRI_OP_gated, TRI_OP_gated_din, TRI_OP_gate,
                                    TRI_OP_gate_din};
    for (size_t i = 0; i < sizeof curved / sizeof *curved; i++)
        if (k->at.op == curved[i]) low = -7, high = 7;
    tri_dtype dtype = operand_dtype(k, arg);
    int scale = is_scale(k, arg), mask = is_mask(k, arg), power = power_of_two(k, arg) != 0;
    for (int64_t i = 0; i < operand_count(k, arg); i++) {
        double value = uniform(&k->random, low, high);
        void *data = k->call.t[arg].data;
        switch (dtype) {
        case TRI_F64: ((double *)data)[i] = value; break;
        case TRI_BF16: ((uint16_t *)data)[i] = tri__to_bf16((float)value); break;
        case TRI_F16: ((uint16_t *)data)[i] = tri__to_f16((float)value); break;
        case TRI_F8_E4M3: ((uint8_t *)data)[i] = tri__to_e4m3((float)value); break;
        case TRI_F8_E5M2: ((uint8_t *)data)[i] = tri__to_e5m2((float)value); break;
        default: ((float *)data)[i] = (float)value;
        }
        if (scale) ((float *)data)[i] = (float)((int)(value * 0x1p20) * 0x1p-20); /* few significant bits */
        if (mask && i % 5 == 0) ((float *)data)[i] = 0;
        if (power) ((float *)data)[i] = power_of_two(k, arg);
        if (k->at.op == TRI_OP_fp8_scales && arg == TRI_ARG(fp8_scales, history)) /* of all sizes; some rows are 0 */
            ((float *)data)[i] = i / k->call.t[arg].cols % 4 == 3
                                     ? 0
                                     : ldexpf(fabsf((float)value), (int)(i / k->call.t[arg].cols * 37 % 140) - 70);
    }
}

static void fill_bytes(kernel_call *k, int arg) {
    int8_t *out = k->call.t[arg].data;
    for (int64_t i = 0; i < operand_count(k, arg); i++) out[i] = (int8_t)(next_random(&k->random) % 255 - 127);
}

/* Rows of random numbers in the call's code. */
static void fill_coded(kernel_call *k, int arg) {
    tri_kernel_table table;
    tri__device_find("reference")->kernels(&table);
    const tri_tensor *q = &k->call.t[arg];
    int64_t K = k->at.dim['K' - 'A'];
    float *x = malloc((size_t)K * sizeof *x + 1);
    assert_non_null(x);
    for (int64_t row = 0; row < q->rows; row++) {
        tri_range part = tri__shard(K, (int)q->rows, (int)row);
        if (k->attr.sums) part = (tri_range){0, K};
        for (int64_t i = 0; i < tri__range_count(part); i++) x[i] = (float)uniform(&k->random, -1, 1);
        tri_call call = {.op = TRI_OP_pack, .attr = &k->attr};
        call.t[TRI_ARG(pack, q)] = (tri_tensor){(char *)q->data + row * q->cols, 1, q->cols};
        call.t[TRI_ARG(pack, x)] = (tri_tensor){x, 1, tri__range_count(part)};
        table.run[plain(TRI_OP_pack)][TRI_F32](&call);
    }
    free(x);
}

/* Data rows of samples are 100, 101, ...; without sequences every seventh row begins a sample. */
static void fill_keys(kernel_call *k, int32_t *key) {
    int64_t T = k->at.dim['T' - 'A'], t = 0;
    for (int32_t s = 0; k->at.lengths && k->at.lengths[s]; s++)
        for (int32_t place = 0; place < k->at.lengths[s]; place++, t++) key[2 * t] = 100 + s, key[2 * t + 1] = place;
    for (; t < T; t++) key[2 * t] = (int32_t)(100 + t / 7), key[2 * t + 1] = (int32_t)(t % 7);
}

/* The same of all runs of a ring. */
static void fill_ring_keys(kernel_call *k, int32_t *key) {
    int64_t ring = k->at.dim['J' - 'A'], T = k->at.dim['T' - 'A'], first = 0;
    memset(key, 0, (size_t)(2 * ring * T) * sizeof *key);
    for (int32_t s = 0; k->at.lengths[s]; first += k->at.lengths[s++]) {
        int64_t chunk = (k->at.lengths[s] + ring - 1) / ring;
        for (int32_t place = 0; place < k->at.lengths[s]; place++) {
            int64_t t = place / chunk * T + first / ring + s + place % chunk;
            key[2 * t] = 100 + s, key[2 * t + 1] = place;
        }
    }
}

/* First places of sequences, or of all tokens where there are none, in an expert's rows; and the number of places. */
static void fill_places(const kernel_call *k, int32_t *out) {
    out[0] = 0;
    for (int64_t s = 0; s < k->at.dim['N' - 'A']; s++)
        out[s + 1] = out[s] + (int32_t)kernel_capacity(&k->at, k->at.lengths[s]);
    if (!k->at.lengths) out[1] = (int32_t)kernel_capacity(&k->at, k->at.dim['T' - 'A']);
}

/* Places from a bin before the first to one behind the last, indices of known and unknown categories, numbers that are
 * missing, and hashed texts. */
static void fill_cells(kernel_call *k, float *out) {
    int64_t C = extent(k, 'C');
    int32_t words[64 * TRI_COLUMN_WORDS];
    kernel_case at = k->at;
    assert_true(C <= 64);
    kernel_columns(&at, words);
    for (int64_t i = 0; i < extent(k, 'N') * C; i++) {
        const int32_t *of = words + i % C * TRI_COLUMN_WORDS;
        int32_t count = of[TRI_COLUMN_COUNT];
        float *to = out + i / C * extent(k, 'D') + of[TRI_COLUMN_AT];
        uint64_t random = next_random(&k->random);
        if (of[TRI_COLUMN_KIND] == TRI_COLUMN_HASHED)
            for (int j = 0; j < count; j++) to[j] = random >> j & 1 ? (float)uniform(&k->random, -1, 1) : 0;
        else if (of[TRI_COLUMN_KIND] == TRI_COLUMN_CATEGORY) *to = (float)(random % (uint64_t)(count + 1));
        else if (of[TRI_COLUMN_ROWS] > count && random % 4 == 0) *to = TRI_COLUMN_MISSING;
        else if (of[TRI_COLUMN_KIND] == TRI_COLUMN_PERIODIC) *to = (float)uniform(&k->random, -2, 2);
        else *to = (float)uniform(&k->random, -1, count + 1);
    }
}

/* The gradient of attention reads what attention_bits wrote. */
static void fill_mask(kernel_call *k, int bits) {
    tri_kernel_table table;
    tri__device_find("reference")->kernels(&table);
    int variant = tri__variant_find("attention_bits");
    tri_attr attr = k->attr;
    tri__variant_set(variant, &attr);
    tri_call call = {.op = TRI_OP_attention, .attr = &attr, .seed = k->call.seed, .step = k->call.step};
    const tri_op_row *row = tri__variant_row(variant);
    int64_t T = extent(k, 'T'), H = extent(k, 'H');
    memset(k->call.t[bits].data, 0, k->bytes[bits]);
    for (int a = 0; a < row->n_args; a++) {
        int from = kernel_arg(k, row->arg[a].name);
        if (row->arg[a].access && from >= 0) call.t[a] = k->call.t[from];
    }
    if (k->attr.p == 0 || !call.t[TRI_ARG(attention, key)].data) return;
    /* ctx, lse and qkv may be of 16 bits: here all are 0 */
    float *zero = calloc((size_t)(T * (4 * H + k->attr.heads) + H + 1), sizeof *zero);
    assert_non_null(zero);
    call.t[TRI_ARG(attention, ctx)].data = zero;
    call.t[TRI_ARG(attention, lse)].data = zero + T * H;
    call.t[TRI_ARG(attention, qkv)].data = zero + T * H + T * k->attr.heads;
    call.work = calloc((size_t)tri__workspace_bytes(&table.work[variant][TRI_F32], T, H, 0) + 1, 1);
    table.run[variant][TRI_F32](&call);
    free(call.work), free(zero);
}

static void fill_integers(kernel_call *k, int arg) {
    const char *name = tri__variant_row(k->at.variant)->arg[arg].name;
    int32_t *out = k->call.t[arg].data;
    if (strcmp(name, "key") == 0 && kernel_case_rings(&k->at)) {
        fill_ring_keys(k, out);
        return;
    }
    if (strcmp(name, "key") == 0) {
        fill_keys(k, out);
        return;
    }
    if (strcmp(name, "bits") == 0) {
        fill_mask(k, arg);
        return;
    }
    if (strcmp(name, "places") == 0) {
        fill_places(k, out);
        return;
    }
    if (strcmp(name, "words") == 0) {
        kernel_case at = k->at;
        kernel_columns(&at, out);
        return;
    }
    if (strcmp(name, "blocks") == 0) {
        memcpy(out, k->at.blocks, k->bytes[arg]);
        return;
    }
    static const char limits[][2][8] = {{"ids", "V"}, {"pos", "P"}, {"labels", "C"}};
    int64_t limit = 0;
    for (int i = 0; i < 3; i++)
        if (strcmp(name, limits[i][0]) == 0) limit = k->at.dim[limits[i][1][0] - 'A'];
    if (strcmp(name, "ids") == 0) limit += 2 * k->attr.row0; /* ids below and above the table's range */
    for (int64_t i = 0; i < operand_count(k, arg); i++) {
        if (limit) out[i] = (int32_t)(next_random(&k->random) % (uint64_t)limit);
        else if (strcmp(name, "seq") == 0) out[i] = i ? out[i - 1] + k->at.lengths[i - 1] : 0;
        else if (strcmp(name, "from") == 0) out[i] = i % 4 == 1 ? -1 : (int32_t)i;
        else out[i] = 1; /* apply */
    }
}

/* The gradient of attention reads what attention of the same keys, scores and rows wrote. */
static void fill_attention(kernel_call *k) {
    tri_kernel_table table;
    tri__device_find("reference")->kernels(&table);
    int variant = tri__variant(TRI_OP_attention, &k->attr);
    const tri_op_row *row = tri__variant_row(variant);
    tri_call call = {.op = TRI_OP_attention, .attr = &k->attr, .seed = k->call.seed, .step = k->call.step};
    for (int a = 0; a < row->n_args; a++)
        if (row->arg[a].access) call.t[a] = k->call.t[kernel_arg(k, row->arg[a].name)];
    const tri_tensor *ctx = &call.t[TRI_ARG(attention, ctx)];
    call.work = calloc((size_t)tri__workspace_bytes(&table.work[variant][TRI_F32], ctx->rows, ctx->cols, 0) + 1, 1);
    table.run[variant][TRI_F32](&call);
    free(call.work);
}

/* Operations of experts read what route wrote for random logits. */
static void fill_routed(kernel_call *k) {
    int32_t seq[MAX_SEQUENCES + 1] = {0}, places[MAX_SEQUENCES + 1];
    int64_t T = k->at.dim['T' - 'A'], C = k->at.dim['C' - 'A'], K = k->at.dim['K' - 'A'], R = k->at.dim['R' - 'A'];
    int64_t n = k->at.lengths ? k->at.dim['N' - 'A'] : 1;
    for (int64_t s = 0; s < n; s++) seq[s + 1] = seq[s] + (k->at.lengths ? k->at.lengths[s] : (int32_t)T);
    fill_places(k, places);
    float *logits = malloc((size_t)(T * C + 1) * sizeof *logits);
    void *out[4] = {malloc((size_t)(T * K) * 4 + 4), malloc((size_t)(T * K) * 4 + 4), malloc((size_t)R * 4 + 4),
                    malloc((size_t)(T * C) * 4 + 4)};
    assert_true(logits && out[0] && out[1] && out[2] && out[3]);
    for (int64_t i = 0; i < T * C; i++) logits[i] = (float)uniform(&k->random, -3, 3);
    tri_kernel_table table;
    tri__device_find("reference")->kernels(&table);
    tri_call call = {.op = TRI_OP_route,
                     .attr = &k->attr,
                     .t = {{out[0], T, K}, {out[1], T, K}, {out[2], R, 1}, {out[3], T, C}, {logits, T, C},
                           {seq, n + 1, 1}, {places, n + 1, 1}}};
    table.run[plain(TRI_OP_route)][TRI_F32](&call);
    for (int a = 0; a < 4; a++) {
        int to = kernel_arg(k, plain_row(TRI_OP_route)->arg[a].name);
        if (to >= 0 && k->call.t[to].data) memcpy(k->call.t[to].data, out[a], k->bytes[to]);
        free(out[a]);
    }
    free(logits);
}

/* Dense layers of experts read zeros in empty places. */
static void fill_empty(kernel_call *k) {
    int from = kernel_arg(k, "from");
    for (int a = 0; a < tri__variant_row(k->at.variant)->n_args && k->block[from]; a++) {
        const tri_operand *operand = &tri__variant_row(k->at.variant)->arg[a];
        if (a == from || operand->dims[0] != 'T' || !tri__access_reads(operand->access)) continue;
        size_t row = (size_t)k->call.t[a].cols * tri__dtype_bytes(operand_dtype(k, a));
        for (int64_t r = 0; r < k->call.t[a].rows; r++)
            if (((const int32_t *)k->call.t[from].data)[r] < 0)
                memset((char *)k->call.t[a].data + (size_t)r * row, 0, row);
    }
}

/* Buckets of relative-position attention: a table of 20 biases has rows of none; the longest sequences of a case reach
 * all of 40 buckets, others the middle ones. */
static int32_t kernel_buckets(const kernel_case *at) {
    return tri__variant_row(at->variant)->facts & TRI_FACT_BIAS ? 16 : 40;
}

/* attr.smoothing and attr.gamma by G. */
static const float loss_forms[][2] = {{0, 0}, {0.1f, 0}, {0, 2}, {0, 0.5f}};

void kernel_call_open_mixed(kernel_call *k, const kernel_case *at, tri_dtype type, tri_dtype loose, float p,
                            unsigned acc, unsigned left_out) {
    const tri_op_row *row = tri__variant_row(at->variant);
    int rings = kernel_case_rings(at);
    *k = (kernel_call){.at = *at, .type = type, .loose = loose, .random = tri__hash64(1, row->name, strlen(row->name))};
    k->attr = (tri_attr){.p = tri__row_arg(row, "key") >= 0 ? p : 0,
                         .eps = 1e-5f,
                         .id = 0xABCD0123u,
                         .heads = (int32_t)at->dim[0],
                         .head0 = 3,
                         .max_len = KERNEL_LONGEST,
                         .buckets = kernel_buckets(at),
                         .reach = 60,
                         .terms = (int32_t)at->dim['G' - 'A'],
                         .block = at->blocks ? (int32_t)at->pattern->block : 0,
                         .window = at->blocks ? kernel_windows[at->dim['W' - 'A']] : 0,
                         .theta = 10000,
                         .act = (int32_t)at->dim['Y' - 'A'],
                         .row0 = 3,
                         .pad = 6,
                         .pad_position = 3,
                         .part = kernel_case_pools(at) ? (int32_t)at->dim['Z' - 'A']
                                 : rings ? (int32_t)at->dim['U' - 'A']
                                         : 1,
                         .run = rings ? (int32_t)at->dim['Z' - 'A'] : 0,
                         .groups = kernel_case_experts(at) ? (int32_t)at->dim['G' - 'A']
                                   : at->dim['D' - 'A'] % 9 ? 1 : 3,
                         .max_norm = 1,
                         .beta1 = 0.9f,
                         .beta2 = 0.999f,
                         .decay = 0.01f,
                         .code = (int32_t)at->dim['F' - 'A'],
                         .members = kernel_case_experts(at) ? (int32_t)at->dim['C' - 'A']
                                    : rings || kernel_case_pools(at) ? (int32_t)at->dim['J' - 'A'] : 3,
                         .nesterov = at->dim['K' - 'A'] & 1,
                         .rate = 0.7f};
    tri__variant_set(at->variant, &k->attr);
    if (at->op == TRI_OP_cross_entropy || at->op == TRI_OP_cross_entropy_din)
        k->attr.smoothing = loss_forms[at->dim['G' - 'A']][0], k->attr.gamma = loss_forms[at->dim['G' - 'A']][1];
    if (at->op == TRI_OP_regress || at->op == TRI_OP_regress_din)
        k->attr.loss = (int32_t)at->dim['G' - 'A'], k->attr.delta = 0.7f;
    k->call = (tri_call){.op = at->op, .acc = acc, .attr = &k->attr, .seed = 42, .step = 7};
    for (int a = 0; a < row->n_args; a++) {
        const tri_operand *operand = &row->arg[a];
        tri_tensor *t = &k->call.t[a];
        if (!operand->access) continue;
        t->rows = operand_extent(at, operand->dims);
        t->cols = operand_extent(at, strchr(operand->dims, ',') + 1);
        int none = t->cols == 0 || (strchr("MPVB", operand->dims[0]) && t->rows == 0);
        if ((left_out >> a & 1) || (operand->optional && none)) continue;
        k->call.dtype[a] = (uint8_t)operand_dtype(k, a);
        k->bytes[a] = (size_t)(t->rows * t->cols) * tri__dtype_bytes(operand_dtype(k, a));
        k->block[a] = malloc(k->bytes[a] + 2 * GUARD);
        k->before[a] = malloc(k->bytes[a] + 2 * GUARD);
        assert_true(k->block[a] && k->before[a]);
        memset(k->block[a], GUARD_BYTE, k->bytes[a] + 2 * GUARD);
        t->data = k->block[a] + GUARD;
        int reads = tri__access_reads(operand->access) || (acc >> a & 1);
        if (!reads) memset(t->data, 0xFF, k->bytes[a]);
        else if (operand_dtype(k, a) == TRI_I32) fill_integers(k, a);
        else if (operand_dtype(k, a) == TRI_I8) fill_bytes(k, a);
        else if (operand_dtype(k, a) == TRI_U8) fill_coded(k, a);
        else if (kernel_case_columns(at) && strcmp(operand->name, "x") == 0) fill_cells(k, t->data);
        else fill_real(k, a);
    }
    if (at->op == TRI_OP_attention_din && !k->attr.scaled && type == TRI_F32) fill_attention(k);
    if (at->op > TRI_OP_route && at->op <= TRI_OP_combine_din) fill_routed(k);
    if (kernel_case_is(at, TRI_FACT_EXPERTS)) fill_empty(k);
    for (int a = 0; a < row->n_args; a++)
        if (k->block[a]) memcpy(k->before[a], k->block[a], k->bytes[a] + 2 * GUARD);
}

void kernel_call_open_as(kernel_call *k, const kernel_case *at, tri_dtype type, float p, unsigned acc,
                         unsigned left_out) {
    kernel_call_open_mixed(k, at, type, type, p, acc, left_out);
}

void kernel_call_close(kernel_call *k) {
    for (int a = 0; a < TRI_MAX_ARGS; a++) {
        free(k->block[a]);
        free(k->before[a]);
    }
}

void kernel_call_copy(kernel_call *k, const kernel_call *from) {
    *k = *from;
    k->call.attr = &k->attr;
    for (int a = 0; a < TRI_MAX_ARGS; a++) {
        if (!from->block[a]) continue;
        size_t bytes = from->bytes[a] + 2 * GUARD;
        k->block[a] = malloc(bytes), k->before[a] = malloc(bytes);
        assert_true(k->block[a] && k->before[a]);
        memcpy(k->block[a], from->block[a], bytes), memcpy(k->before[a], from->before[a], bytes);
        k->call.t[a].data = k->block[a] + GUARD;
    }
}

void kernel_call_fail(const kernel_call *k, int arg, const char *what) {
    char text[160];
    fail_msg("%s, p=%g acc=%u threads=%d: operand %s: %s", kernel_case_text(&k->at, text), (double)k->attr.p,
             k->call.acc, k->call.threads, tri__variant_row(k->at.variant)->arg[arg].name, what);
}

tri_dtype kernel_call_row(const kernel_call *k, const tri_kernel_table *table, size_t *scratch) {
    const tri_op_row *row = tri__variant_row(k->at.variant);
    int64_t halves = 0;
    for (int a = 0; a < row->n_args; a++)
        if (k->block[a] && tri__dtype_bytes(operand_dtype(k, a)) == 2) halves += operand_count(k, a);
    tri_dtype type = halves ? k->type : TRI_F32;
    const tri_workspace *work = &table->work[k->at.variant][type];
    *scratch = (size_t)tri__workspace_bytes(work, k->call.t[0].rows, k->call.t[0].cols, halves);
    assert_non_null(table->run[k->at.variant][type]);
    return type;
}

void kernel_call_check(const kernel_call *k, const char *space) {
    const tri_op_row *row = tri__variant_row(k->at.variant);
    for (int i = 0; i < GUARD; i++)
        if (space[i] != (char)GUARD_BYTE) kernel_call_fail(k, 0, "wrote past its scratch space");
    for (int a = 0; a < row->n_args; a++) {
        if (!k->block[a]) continue;
        if (memcmp(k->block[a], k->before[a], GUARD) != 0) kernel_call_fail(k, a, "wrote before its beginning");
        size_t end = GUARD + k->bytes[a];
        if (memcmp(k->block[a] + end, k->before[a] + end, GUARD) != 0) kernel_call_fail(k, a, "wrote past its end");
        if (!tri__access_writes(row->arg[a].access) && memcmp(k->block[a], k->before[a], end) != 0)
            kernel_call_fail(k, a, "is an input and was changed");
    }
}

void kernel_call_run(kernel_call *k, const tri_kernel_table *table, int threads) {
    size_t scratch;
    tri_dtype type = kernel_call_row(k, table, &scratch);
    char *space = aligned_alloc(64, (scratch + GUARD + 63) / 64 * 64);
    assert_non_null(space);
    size_t most = 1 << 19, end = scratch + GUARD < most ? scratch + GUARD : most;
    memset(space, GUARD_BYTE, end);
    memset(space + scratch + GUARD - end, GUARD_BYTE, end);
    k->call.work = space;
    k->call.threads = threads;
    k->call.table = table;
    table->run[k->at.variant][type](&k->call);
    kernel_call_check(k, space + scratch);
    free(space);
}

void kernel_call_equalise(kernel_call *wide, kernel_call *half) {
    const tri_op_row *row = tri__variant_row(wide->at.variant);
    for (int a = 0; a < row->n_args; a++) {
        if (!wide->block[a] || !(tri__access_reads(row->arg[a].access) || (wide->call.acc >> a & 1))) continue;
        int rounds = tri__dtype_bytes(operand_dtype(half, a)) == 2;
        for (int64_t i = 0; i < operand_count(wide, a) && rounds; i++) {
            float *x = (float *)wide->call.t[a].data + i;
            uint16_t *y = (uint16_t *)half->call.t[a].data + i;
            *y = half->type == TRI_BF16 ? tri__to_bf16(*x) : tri__to_f16(*x);
            *x = half->type == TRI_BF16 ? tri__from_bf16(*y) : tri__from_f16(*y);
        }
        if (!rounds) memcpy(half->block[a], wide->block[a], half->bytes[a] + GUARD);
        memcpy(half->before[a], half->block[a], half->bytes[a] + 2 * GUARD);
        memcpy(wide->before[a], wide->block[a], wide->bytes[a] + 2 * GUARD);
    }
}

double kernel_value(const kernel_call *k, int arg, int64_t i) {
    const void *data = k->call.t[arg].data;
    switch (operand_dtype(k, arg)) {
    case TRI_BF16: return tri__from_bf16(((const uint16_t *)data)[i]);
    case TRI_F16: return tri__from_f16(((const uint16_t *)data)[i]);
    case TRI_F64: return ((const double *)data)[i];
    case TRI_I32: return ((const int32_t *)data)[i];
    case TRI_I8: return ((const int8_t *)data)[i];
    case TRI_U8: return ((const uint8_t *)data)[i];
    case TRI_F8_E4M3: return tri__from_e4m3(((const uint8_t *)data)[i]);
    case TRI_F8_E5M2: return tri__from_e5m2(((const uint8_t *)data)[i]);
    default: return ((const float *)data)[i];
    }
}

double kernel_step_8_bits(const kernel_call *k, int arg, double value) {
    int exponent;
    frexp(value, &exponent);
    switch (operand_dtype(k, arg)) {
    case TRI_F8_E4M3: return fmax(ldexp(1, exponent - 4), 0x1p-9);
    case TRI_F8_E5M2: return fmax(ldexp(1, exponent - 3), 0x1p-16);
    default: return 0;
    }
}

int kernel_call_spoil(kernel_call *k) {
    const tri_op_row *row = tri__variant_row(k->at.variant);
    static const char *const names[] = {"x", "a", "qkv", "logits", "dy", "dctx", "probs", "values"};
    int arg = -1;
    for (int i = 0; i < 8; i++) {
        int found = tri__row_arg(row, names[i]);
        if (found >= 0 && tri__access_reads(row->arg[found].access)) arg = found;
    }
    assert_true(arg >= 0);
    memset(k->call.t[arg].data, 0xFF, k->bytes[arg]);
    memcpy(k->before[arg], k->block[arg], k->bytes[arg] + GUARD);
    return arg;
}

void kernel_call_expect_spoilt(const kernel_call *k, int arg) {
    int shows = 0;
    for (int64_t i = 0; i < operand_count(k, 0); i++) shows |= isnan(kernel_value(k, 0, i));
    if (!shows) kernel_call_fail(k, arg, "is not a number, and the result does not show it");
}
