/* test_coded.c - numbers coded for their way between ranks: rows of device "cpu" give the bytes of the reference rows,
 * whatever they are given and on any number of threads; and both have the properties that compressed transfers rely on.
 */
#include "device/cpu/coded.h"
#include "tests/lib/test.h"
#include "tests/lib/kernel_call.h"

static const char *const devices[] = {"cpu", "reference"};
static const tri_dtype types[] = {TRI_F32, TRI_BF16, TRI_F16};

/* A vector of K numbers in M rows of B bytes. */
typedef struct coded_case {
    tri_code code;
    int64_t K, M, B;
    tri_dtype type; /* of x and y */
    tri_attr attr;
    float *x, *e, *mask, *y;
    void *x_typed, *y_typed;
    uint8_t *q;
    float factor;
    int32_t apply;
} coded_case;

static void *room(size_t bytes) {
    void *memory = calloc(1, bytes + 64);
    assert_non_null(memory);
    return memory;
}

static void case_open(coded_case *c, tri_code code, int64_t K, int64_t M, tri_dtype type) {
    *c = (coded_case){.code = code, .K = K, .M = M, .type = type, .factor = 1, .apply = 1};
    c->attr = (tri_attr){.code = (int32_t)code, .members = (int32_t)M, .beta1 = 0.9f};
    c->B = tri__coded_row(code, K, (int)M);
    size_t bytes = (size_t)K * sizeof(float);
    c->x = room(bytes), c->e = room(bytes), c->mask = room(bytes), c->y = room(bytes);
    c->x_typed = room(bytes), c->y_typed = room(bytes);
    c->q = room((size_t)(c->M * c->B));
    for (int64_t i = 0; i < K; i++) c->mask[i] = 1;
}

static void case_close(coded_case *c) {
    free(c->x), free(c->e), free(c->mask), free(c->y), free(c->x_typed), free(c->y_typed), free(c->q);
}

static void to_type(tri_dtype type, int64_t n, const float *from, void *to) {
    for (int64_t i = 0; i < n; i++)
        if (type == TRI_BF16) ((uint16_t *)to)[i] = tri__to_bf16(from[i]);
        else if (type == TRI_F16) ((uint16_t *)to)[i] = tri__to_f16(from[i]);
        else ((float *)to)[i] = from[i];
}

static float value_of(tri_dtype type, const void *from, int64_t i) {
    if (type == TRI_BF16) return tri__from_bf16(((const uint16_t *)from)[i]);
    if (type == TRI_F16) return tri__from_f16(((const uint16_t *)from)[i]);
    return ((const float *)from)[i];
}

static void run(const tri_kernel_table *table, tri_op op, const tri_attr *attr, int threads, const tri_tensor *t, int n,
                int any, tri_dtype type, unsigned acc) {
    tri_call call = {.op = op, .table = table, .attr = attr, .threads = threads, .acc = acc};
    for (int k = 0; k < n; k++) {
        call.t[k] = t[k];
        call.dtype[k] = (uint8_t)(k == any ? type : TRI_F32);
    }
    tri__kernel(table, op, attr, type)(&call);
}

enum { WITH_X = 1, WITH_E = 2, WITH_MASK = 4, WITH_SCALE = 8 };

static void pack(const tri_kernel_table *table, coded_case *c, unsigned with, int threads) {
    to_type(c->type, c->K, c->x, c->x_typed);
    const tri_tensor t[] = {{c->q, c->M, c->B},
                            {with & WITH_E ? c->e : NULL, 1, c->K},
                            {with & WITH_X ? c->x_typed : NULL, 1, c->K},
                            {with & WITH_MASK ? c->mask : NULL, 1, c->K},
                            {with & WITH_SCALE ? &c->factor : NULL, 1, 1},
                            {&c->apply, 1, 1}};
    run(table, TRI_OP_pack, &c->attr, threads, t, 6, TRI_ARG(pack, x), c->type, 0);
}

static void unpack(const tri_kernel_table *table, coded_case *c, int threads) {
    const tri_tensor t[] = {{c->y_typed, 1, c->K}, {c->q, c->M, c->B}};
    run(table, TRI_OP_unpack, &c->attr, threads, t, 2, 0, c->type, 0);
    for (int64_t i = 0; i < c->K; i++) c->y[i] = value_of(c->type, c->y_typed, i);
}

typedef struct tables {
    tri_kernel_table cpu, reference;
} tables;

static tables *tables_open(void) {
    tables *all = room(sizeof *all);
    tri__device_find("cpu")->kernels(&all->cpu);
    tri__device_find("reference")->kernels(&all->reference);
    return all;
}

/* Numbers of many kinds, a kind for each block: see the cases. */
static float nasty(uint64_t *random, int kind) {
    double u = uniform(random, -1, 1);
    uint64_t bits = next_random(random);
    switch (kind) {
    case 0: return (float)u;
    case 1: return (float)(u * pow(2, uniform(random, -149, 127)));             /* all sizes in one block */
    case 2: return tri__float_of_bits((uint32_t)(bits & 0x807FFFFFu));          /* denormal */
    case 3: return (float)(int)(u * 20) * 0.5f;                                 /* ties */
    case 4: return bits % 3 ? 0.0f : -0.0f;
    case 5: return (float)(u * 3.4028e38);                                      /* nearly infinite */
    case 6: return bits % 100 == 0 ? NAN : (float)u;
    case 7: return bits % 100 == 0 ? INFINITY : bits % 100 == 1 ? -INFINITY : (float)u;
    case 8: return tri__float_of_bits((uint32_t)bits);                          /* anything */
    case 9: return (float)(u * 1e-30);                                          /* below the smallest scale, nearly */
    case 10: return bits % 50 ? (float)(u * 1e-4) : (float)(u * 448);           /* subnormals of e4m3 */
    default: return bits % 200 ? 0.0f : (float)u;
    }
}
enum { KINDS = 12 };

static void fill_nasty(float *x, int64_t n, uint64_t *random) {
    int kind = 0;
    for (int64_t i = 0; i < n; i++) {
        if (i % 128 == 0) kind = (int)(next_random(random) % KINDS);
        x[i] = nasty(random, kind);
    }
}

static void same_numbers(const char *what, const coded_case *a, const coded_case *b, const void *x, const void *y,
                         tri_dtype type) {
    for (int64_t i = 0; i < a->K; i++) {
        float p = value_of(type, x, i), q = value_of(type, y, i);
        if (tri__bits_of_float(p) != tri__bits_of_float(q) && !(isnan(p) && isnan(q)))
            fail_msg("%s, K=%lld M=%lld type %d: %s[%lld] is %a, not %a; x %a, mask %g, factor %a",
                     tri__code_name(a->code), (long long)a->K, (long long)b->M, type, what, (long long)i, (double)p,
                     (double)q, (double)a->x[i], (double)a->mask[i], (double)a->factor);
    }
}

static void copy_case(coded_case *to, const coded_case *from) {
    size_t bytes = (size_t)from->K * sizeof(float);
    case_open(to, from->code, from->K, from->M, from->type);
    memcpy(to->x, from->x, bytes), memcpy(to->e, from->e, bytes), memcpy(to->mask, from->mask, bytes);
    to->factor = from->factor;
    memset(to->q, 0xEE, (size_t)(to->M * to->B)); /* all of it is written */
}

/* One case on both devices and 1 to 3 threads. */
static void same_bytes(const tables *all, coded_case *c, unsigned with) {
    coded_case want;
    copy_case(&want, c);
    pack(&all->reference, &want, with, 1);
    unpack(&all->reference, &want, 1);
    for (int threads = 1; threads <= 3; threads++) {
        coded_case got;
        copy_case(&got, c);
        pack(&all->cpu, &got, with, threads);
        for (int64_t i = 0; i < got.M * got.B; i++)
            if (got.q[i] != want.q[i])
                fail_msg("%s, K=%lld M=%lld with %u, type %d, %d threads: byte %lld of row %lld is %d, not %d",
                         tri__code_name(c->code), (long long)c->K, (long long)c->M, with, c->type, threads,
                         (long long)(i % c->B), (long long)(i / c->B), got.q[i], want.q[i]);
        same_numbers("e", &got, &want, got.e, want.e, TRI_F32);
        unpack(&all->cpu, &got, threads);
        same_numbers("y", &got, &want, got.y_typed, want.y_typed, c->type);
        case_close(&got);
    }
    case_close(&want);
}

static void random_case(coded_case *c, tri_code code, uint64_t *random) {
    static const int64_t sizes[] = {0, 1, 15, 17, 255, 256, 257, 511, 700, 2048, 5000};
    int64_t K = next_random(random) % 2 ? sizes[next_random(random) % 11] : (int64_t)(next_random(random) % 3000);
    if (next_random(random) % 40 == 0) K = 20000; /* several threads */
    case_open(c, code, K, 1 + (int64_t)(next_random(random) % (next_random(random) % 4 ? 4 : 17)),
              types[next_random(random) % 3]);
    fill_nasty(c->x, K, random);
    for (int64_t i = 0; i < K; i++) {
        c->e[i] = next_random(random) % 50 ? (float)uniform(random, -1, 1) : 0;
        c->mask[i] = next_random(random) % 4 ? (float)uniform(random, -1, 1) : 0;
    }
    if (next_random(random) % 4 == 0) fill_nasty(c->e, K, random);
    if (K > 600) memset(c->mask + 100, 0, 500 * sizeof(float)); /* a block with nothing but masked elements */
    c->factor = next_random(random) % 2 ? 65536 : (float)uniform(random, 0.1, 10);
}

TEST(test_bytes_of_the_reference) {
    tables *all = tables_open();
    uint64_t random = 7;
    for (int n = 0; n < 1200; n++) {
        coded_case c;
        random_case(&c, (tri_code)(TRI_CODE_BF16 + n % 5), &random);
        unsigned with = (unsigned)(next_random(&random) % 16);
        same_bytes(all, &c, with & (WITH_X | WITH_E) ? with : with | WITH_X);
        case_close(&c);
    }
    free(all);
}

/* Every fp32 number of some binades, and every tie between two codes: rounding is that of the plain row. */
TEST(test_every_quotient) {
    static const tri_code codes[] = {TRI_CODE_INT8, TRI_CODE_INT4, TRI_CODE_FP8};
    tables *all = tables_open();
    for (int k = 0; k < 3; k++) {
        coded_case c;
        float most = tri__code_most(codes[k]);
        case_open(&c, codes[k], 256 * 256, 1, TRI_F32);
        for (int64_t i = 0; i < c.K; i++) {
            uint64_t random = (uint64_t)i;
            uint8_t byte = (uint8_t)(i / 2 % 256);
            float a = tri__from_e4m3(byte & 0x7F), b = tri__from_e4m3((uint8_t)((byte & 0x7F) + 1));
            double middle = codes[k] == TRI_CODE_FP8 ? ((double)a + b) / 2 : (double)(byte % 128) + 0.5;
            float x = (float)(isnan(middle) || middle > most ? 0 : byte < 128 ? middle : -middle);
            int64_t near = (int64_t)(next_random(&random) % 3) - 1; /* the tie itself, or the number next to it */
            c.x[i] = i % 256 == 0 ? most : tri__float_of_bits((uint32_t)((int64_t)tri__bits_of_float(x) + near));
        }
        same_bytes(all, &c, WITH_X);
        same_bytes(all, &c, WITH_X | WITH_E);
        case_close(&c);
    }
    free(all);
}

/* What was decoded is coded as the same bytes, and its error is 0. */
TEST(test_round_trip) {
    for (int d = 0; d < 2; d++) {
        tri_kernel_table table;
        tri__device_find(devices[d])->kernels(&table);
        uint64_t random = 3;
        for (int n = 0; n < 100; n++) {
            coded_case c;
            case_open(&c, (tri_code)(TRI_CODE_BF16 + n % 5), 1 + (int64_t)(next_random(&random) % 3000),
                      1 + (int64_t)(next_random(&random) % 5), TRI_F32);
            for (int64_t i = 0; i < c.K; i++) c.x[i] = nasty(&random, i / 256 % 2 ? 0 : 3);
            pack(&table, &c, WITH_X, 2);
            unpack(&table, &c, 2);
            size_t bytes = (size_t)(c.M * c.B);
            uint8_t *first = room(bytes);
            memcpy(first, c.q, bytes);
            memset(c.q, 0xEE, bytes);
            memcpy(c.x, c.y, (size_t)c.K * sizeof(float));
            pack(&table, &c, WITH_X, 2); /* without e: -0 + 0 is 0 */
            assert_memory_equal(first, c.q, bytes);
            pack(&table, &c, WITH_X | WITH_E, 2);
            for (int64_t i = 0; i < c.K; i++) assert_true(c.e[i] == 0);
            free(first);
            case_close(&c);
        }
    }
}

/* No element is further from what it is coded as than half a step, or for signs than the code can say. */
TEST(test_errors_are_small) {
    static const double most[] = {0, 0x1p-8, 0.5 / 127, 0.5 / 7, 0x1p-4, 0}; /* of the block's largest */
    tri_kernel_table table;
    tri__device_find("cpu")->kernels(&table);
    for (int code = TRI_CODE_BF16; code < TRI_CODE_SIGNS; code++) {
        coded_case c;
        uint64_t random = 9;
        case_open(&c, (tri_code)code, 2560, 1, TRI_F32);
        for (int64_t i = 0; i < c.K; i++) c.x[i] = (float)uniform(&random, -2, 2);
        pack(&table, &c, WITH_X, 1);
        unpack(&table, &c, 1);
        for (int64_t i = 0; i < c.K; i++) assert_true(fabs((double)c.y[i] - (double)c.x[i]) <= 2.001 * most[code]);
        case_close(&c);
    }
}

/* Over 200 steps, what was decoded and the error that is left add up to what was given: nothing is lost. */
TEST(test_error_feedback) {
    enum { STEPS = 200, K = 1100 };
    static double given[K], received[K], sizes[K];
    for (int n = 0; n < 20; n++) { /* devices, codes, with and without a scale */
        tri_kernel_table table;
        tri__device_find(devices[n % 2])->kernels(&table);
        coded_case c;
        uint64_t random = 11;
        case_open(&c, (tri_code)(TRI_CODE_BF16 + n / 2 % 5), K, 3, n < 10 ? TRI_F32 : TRI_BF16);
        memset(given, 0, sizeof given), memset(received, 0, sizeof received), memset(sizes, 0, sizeof sizes);
        c.factor = 1024;
        for (int step = 0; step < STEPS; step++) {
            for (int i = 0; i < K; i++)
                c.x[i] = value_of(TRI_BF16,
                                  (uint16_t[]){tri__to_bf16((float)(uniform(&random, -1, 1) + 0.1 * (i % 7)))}, 0);
            pack(&table, &c, WITH_X | WITH_E | (n % 4 < 2 ? WITH_SCALE : 0u), 2);
            c.type = TRI_F32; /* y in full */
            unpack(&table, &c, 2);
            c.type = n < 10 ? TRI_F32 : TRI_BF16;
            for (int i = 0; i < K; i++) {
                given[i] += (double)c.x[i], received[i] += (double)c.y[i];
                sizes[i] += fabs((double)c.x[i]) + fabs((double)c.y[i]);
            }
        }
        double scale = n % 4 < 2 ? 1024 : 1;
        for (int i = 0; i < K; i++) {
            assert_true(isfinite(c.e[i]));
            assert_true(fabs(received[i] + scale * (double)c.e[i] - given[i]) <= 1e-6 * sizes[i]);
            /* ... and the error does not grow with the steps. */
            assert_true(fabs(scale * (double)c.e[i]) < (c.code == TRI_CODE_SIGNS ? 60 : 1));
        }
        case_close(&c);
    }
}

/* A block that is not finite says so, leaves its errors as they were, and touches no other block. */
TEST(test_not_finite) {
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int n = 0; n < 30; n++) {
        tri_kernel_table table;
        tri__device_find(devices[n % 2])->kernels(&table);
        coded_case c;
        uint64_t random = 5;
        case_open(&c, (tri_code)(TRI_CODE_BF16 + n / 2 % 5), 1000, 1, TRI_F32);
        for (int64_t i = 0; i < c.K; i++) c.x[i] = (float)uniform(&random, -1, 1), c.e[i] = 0.25f;
        c.x[300] = bad[n / 10];
        pack(&table, &c, WITH_X | WITH_E, 2);
        unpack(&table, &c, 2);
        int shows = 0;
        for (int64_t i = 0; i < c.K; i++) {
            int inside = i / 256 == 1;
            assert_true(isfinite(c.e[i]));
            if (inside) assert_true(c.e[i] == 0.25f);
            else assert_true(isfinite(c.y[i]));
            shows += inside && !isfinite(c.y[i]);
        }
        assert_int_equal(shows, c.code == TRI_CODE_BF16 ? 1 : 256);
        case_close(&c);
    }
}

/* Masked elements are no part of the scale, and have no error; a block of them has scale 0. */
TEST(test_mask) {
    for (int d = 0; d < 2; d++) {
        tri_kernel_table table;
        tri__device_find(devices[d])->kernels(&table);
        coded_case c;
        case_open(&c, TRI_CODE_SIGNS, 600, 1, TRI_F32);
        for (int i = 0; i < 600; i++) {
            c.mask[i] = i < 256 ? i % 2 == 0 : i < 512 ? 0 : 1e-30f;
            c.e[i] = i % 2 == 0 ? (i % 4 ? -2.0f : 2.0f) : 1e6f;
        }
        pack(&table, &c, WITH_E | WITH_MASK, 1);
        tri_call call = {.attr = &c.attr};
        call.t[0] = (tri_tensor){c.q, 1, c.B};
        tri_coded_row row = tri__coded_row_of(&call, 0, 0);
        assert_true(row.scale[0] == 2 && row.scale[1] == 0 && row.scale[2] == (44 * 1e6f + 44 * 2) / 88);
        for (int i = 0; i < 512; i++) assert_true(c.e[i] == 0);
        for (int i = 0; i < 256; i++) assert_int_equal(row.payload[i / 8] >> i % 8 & 1, i % 4 == 2);
        case_close(&c);
    }
}

/* apply = 0: nothing is read or written. */
TEST(test_no_step) {
    static const char *const ops[] = {"pack",         "unpack_sum",   "momentum",       "momentum_in",
                                      "momentum_out", "adamw_frozen", "momentum_alone", "adamw_meet"};
    for (int n = 0; n < 16; n++) {
        tri_kernel_table table;
        tri__device_find(devices[n % 2])->kernels(&table);
        kernel_case at = {.variant = tri__variant_find(ops[n / 2])};
        at.op = tri__variant_row(at.variant)->op;
        at.dim['K' - 'A'] = 777, at.dim['M' - 'A'] = 3, at.dim['F' - 'A'] = TRI_CODE_SIGNS;
        at.dim['B' - 'A'] = tri__coded_bytes(TRI_CODE_SIGNS, 777);
        kernel_call k;
        kernel_call_open(&k, &at, 0, 0, 0);
        int apply = tri__row_arg(tri__variant_row(at.variant), "apply");
        *(int32_t *)k.call.t[apply].data = 0;
        memcpy(k.before[apply], k.block[apply], k.bytes[apply] + GUARD);
        kernel_call_run(&k, &table, 2);
        for (int a = 0; a < tri__variant_row(at.variant)->n_args; a++)
            if (k.block[a]) assert_memory_equal(k.block[a], k.before[a], k.bytes[a] + 2 * GUARD);
        kernel_call_close(&k);
    }
}

/* The sum of rows is that of their numbers in order, in fp32, and does not depend on threads. A shorter part lies in
 * rows of the largest one's length. */
TEST(test_sums) {
    enum { M = 5 };
    tables *all = tables_open();
    uint64_t random = 21;
    for (int n = 0; n < 300; n++) {
        coded_case c, part;
        int64_t K = (int64_t)(next_random(&random) % (n % 30 ? 1500 : 9000));
        tri_code code = (tri_code)(TRI_CODE_BF16 + n % 5);
        case_open(&c, code, K, 1, types[n / 5 % 3]);
        int64_t B = tri__coded_bytes(code, K + (int64_t)(next_random(&random) % 600));
        uint8_t *q = room((size_t)(M * B));
        float *want = room((size_t)K * sizeof *want);
        unsigned acc = n / 15 % 2;
        for (int k = 0; k < M; k++) {
            case_open(&part, code, K, 1, TRI_F32);
            free(part.q);
            part.q = q + k * B, part.B = B;
            if (n % 4 == 0) fill_nasty(part.x, K, &random);
            else
                for (int64_t i = 0; i < K; i++) part.x[i] = (float)uniform(&random, -1, 1);
            pack(&all->cpu, &part, WITH_X, 1);
            unpack(&all->reference, &part, 1);
            for (int64_t i = 0; i < K; i++) want[i] = k ? want[i] + part.y[i] : part.y[i];
            part.q = NULL;
            case_close(&part);
        }
        for (int64_t i = 0; i < K; i++) c.x[i] = (float)uniform(&random, -1, 1);
        to_type(c.type, K, c.x, c.x_typed);
        for (int64_t i = 0; i < K && acc; i++) want[i] += value_of(c.type, c.x_typed, i);
        to_type(c.type, K, want, c.e);
        tri_attr sum = c.attr;
        sum.sums = 1;
        for (int threads = 0; threads <= 3; threads++) { /* 0: the reference */
            to_type(c.type, K, c.x, c.y_typed);
            const tri_tensor t[] = {{c.y_typed, 1, K}, {q, M, B}, {&c.apply, 1, 1}};
            run(threads ? &all->cpu : &all->reference, TRI_OP_unpack, &sum, threads, t, 3, 0, c.type, acc);
            same_numbers("sum", &c, &c, c.y_typed, c.e, c.type);
        }
        free(q), free(want);
        case_close(&c);
    }
    free(all);
}

/* The momentum: elements that never had a gradient stay out of it, and none that had becomes 0. */
TEST(test_momentum) {
    enum { K = 700 };
    for (int d = 0; d < 2; d++) {
        tri_kernel_table table;
        tri__device_find(devices[d])->kernels(&table);
        coded_case c;
        case_open(&c, TRI_CODE_SIGNS, K, 2, TRI_F32);
        for (int i = 0; i < K; i++) c.x[i] = i < 352 ? (i % 2 ? 1.0f : -1.0f) * 1e-42f : (float)(i % 5) - 2.2f;
        pack(&table, &c, WITH_X, 1);
        unpack(&table, &c, 1);
        for (int i = 0; i < K; i++) c.mask[i] = i % 3 ? 5.0f : 0; /* m */
        float v[K];
        for (int i = 0; i < K; i++) v[i] = (float)(i % 7) * 0.3f;
        for (int scaled = 0; scaled < 2; scaled++) {
            tri_attr attr = c.attr;
            attr.eps = 0.5f;
            const tri_tensor t[] = {{c.mask, 1, K}, {c.q, 2, c.B}, {scaled ? v : NULL, 1, K}, {&c.apply, 1, 1}};
            run(&table, TRI_OP_momentum_out, &attr, 2, t, 4, 0, TRI_F32, 0);
            for (int i = 0; i < K; i++) {
                float value = scaled ? c.y[i] * (sqrtf(v[i]) + 0.5f) : c.y[i];
                float least = fabsf(value) < 0x1p-100f ? copysignf(0x1p-100f, value) : value;
                assert_true(c.mask[i] == (i % 3 ? least : 0));
            }
        }
        case_close(&c);
    }
}

/* Rows of every count hold their blocks and scales, in whole pieces of 64 bytes. */
TEST(test_layout) {
    for (int code = TRI_CODE_BF16; code < TRI_CODE_COUNT; code++)
        for (int64_t n = 0; n < 20000; n += n < 600 ? 1 : 251) {
            int64_t bytes = tri__coded_bytes((tri_code)code, n), blocks = (n + 255) / 256;
            int64_t scales = tri__coded_scales((tri_code)code, bytes), width = code == TRI_CODE_BF16 ? 0 : 4;
            assert_true(bytes % 64 == 0 && scales % 32 == 0);
            assert_true(scales >= blocks * tri__code_payload((tri_code)code) && scales + blocks * width <= bytes);
            assert_true(bytes < blocks * (tri__code_payload((tri_code)code) + width) + 64);
            for (int members = 1; members < 9; members += 3)
                assert_true(tri__coded_row((tri_code)code, n, members) * members >= bytes - 64 * members);
        }
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
