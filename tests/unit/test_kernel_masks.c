/* test_kernel_masks.c - dropout makes exactly the decisions that base/random.h defines: every operation with dropout
 * gets operands that reveal its mask, and each decision is compared with an independent computation. */
#include "tests/lib/test.h"
#include "tests/lib/kernel_mask.h"

#include "base/random.h"
#include "device/operands.h"

typedef struct context {
    tri_kernel_table table;
    float p;
    int64_t kept, decided;
    int seen[TRI_VARIANTS];
} context;

static void set_all(kernel_call *k, const char *name, float value) {
    int a = kernel_arg(k, name);
    for (int64_t i = 0; i < operand_count(k, a); i++) ((float *)k->call.t[a].data)[i] = value;
    memcpy(k->before[a], k->block[a], k->bytes[a] + 2 * GUARD);
}

static void decide(context *all, const kernel_call *k, int drops, int shown_dropped) {
    if (drops != shown_dropped)
        kernel_call_fail(k, 0, drops ? "kept what is to be dropped" : "dropped what is to be kept");
    all->kept += !drops;
    all->decided++;
}

static const int32_t *keys(const kernel_call *k) { return k->call.t[kernel_arg(k, "key")].data; }

/* dropout, dropout_din: of ones, they give 0 or exactly 1 / (1 - p). */
static void show_plain(context *all, kernel_call *k) {
    set_all(k, k->attr.back ? "dy" : "x", 1);
    kernel_call_run(k, &all->table, 2);
    int64_t H = k->at.dim['H' - 'A'];
    for (int64_t i = 0; i < operand_count(k, 0); i++) {
        int32_t sample = keys(k)[i / H * 2], place = keys(k)[i / H * 2 + 1];
        decide(all, k, mask_drops(k, sample, place, i % H), kernel_value(k, 0, i) == 0);
        assert_true(kernel_value(k, 0, i) == (double)(float)mask_factor(k, sample, place, i % H));
    }
}

/* dropout_add_norm: of ones without a residual, a row holds two values: the lower one is what was dropped. */
static void show_norm(context *all, kernel_call *k) {
    set_all(k, "x", 1);
    set_all(k, "res", 0);
    kernel_call_run(k, &all->table, 2);
    int64_t H = k->at.dim['H' - 'A'];
    for (int64_t i = 0; i < operand_count(k, 0); i++) {
        double value = kernel_value(k, kernel_arg(k, "xhat"), i);
        if (fabs(value) > 1e-3) /* a row of one kind is all 0 */
            decide(all, k, mask_drops(k, keys(k)[i / H * 2], keys(k)[i / H * 2 + 1], i % H), value < 0);
    }
}

/* dropout_add_norm_scaled_din: q is 0 where dx is; numbers that are rounded to 0 decide nothing. */
static void show_norm_scaled_din(context *all, kernel_call *k) {
    OPERANDS(norm_din);
    kernel_call_run(k, &all->table, 2);
    int64_t H = k->at.dim['H' - 'A'];
    double s = kernel_value(k, ARG(s), 0), sq = kernel_value(k, ARG(sq), 0);
    for (int64_t i = 0; i < operand_count(k, ARG(dx)); i++) {
        if (fabs(s * sq * kernel_value(k, ARG(dres), i)) < 0x1p-15) continue;
        int drops = mask_drops(k, keys(k)[i / H * 2], keys(k)[i / H * 2 + 1], i % H);
        decide(all, k, drops, kernel_value(k, ARG(dx), i) == 0);
    }
}

/* dropout_add_norm_din: dx is dres after the mask and the factor. */
static void show_norm_din(context *all, kernel_call *k) {
    if (k->attr.scaled) {
        show_norm_scaled_din(all, k);
        return;
    }
    const int dx = TRI_ARG(norm_din, dx), dres = TRI_ARG(norm_din, dres);
    kernel_call_run(k, &all->table, 2);
    int64_t H = k->at.dim['H' - 'A'];
    double s = kernel_value(k, TRI_ARG(norm_din, s), 0);
    for (int64_t i = 0; i < operand_count(k, 0); i++) {
        int32_t sample = keys(k)[i / H * 2], place = keys(k)[i / H * 2 + 1];
        decide(all, k, mask_drops(k, sample, place, i % H), kernel_value(k, dx, i) == 0);
        double want = s * kernel_value(k, dres, i) * mask_factor(k, sample, place, i % H);
        assert_true(fabs(kernel_value(k, dx, i) - want) <= 1e-6 * fabs(want));
    }
}

/* Attention between rows that score alike, where row t of the value (or of dctx) is the unit vector of t's place: entry
 * c of row t is then the weight between t and the row at place c. Sequences are no longer than a head is wide. */
static void show_attention(context *all, kernel_call *k) {
    int backward = tri__variant_row(k->at.variant)->phase == TRI_PHASE_B;
    int64_t H = k->at.dim['H' - 'A'], heads = k->at.dim['A' - 'A'], d = H / heads;
    set_all(k, "qkv", 0);
    if (kernel_arg(k, "bias") >= 0) set_all(k, "bias", 0);
    if (backward) set_all(k, "dctx", 0);
    int64_t cols = backward ? H : 3 * H, from = backward ? 0 : 2 * H;
    int unit = kernel_arg(k, backward ? "dctx" : "qkv");
    const int32_t *key = keys(k); /* [T,2] */
    for (int64_t t = 0; t < k->at.dim['T' - 'A']; t++)
        for (int64_t h = 0; h < heads; h++)
            ((float *)k->call.t[unit].data)[t * cols + from + h * d + key[2 * t + 1]] = 1;
    memcpy(k->before[unit], k->block[unit], k->bytes[unit] + 2 * GUARD);
    if (backward) { /* of scores that are all 0 */
        int64_t t = 0;
        int lse = kernel_arg(k, "lse");
        for (int s = 0; k->at.lengths[s]; s++)
            for (int i = 0; i < k->at.lengths[s] * heads; i++)
                ((float *)k->call.t[lse].data)[t++] = logf((float)k->at.lengths[s]);
        memcpy(k->before[lse], k->block[lse], k->bytes[lse] + 2 * GUARD);
    }
    kernel_call_run(k, &all->table, 2);
    int64_t first = 0;
    for (int s = 0; k->at.lengths[s]; first += k->at.lengths[s++])
        for (int64_t at = 0; at < k->at.lengths[s] * heads * k->at.lengths[s]; at++) {
            int64_t n = k->at.lengths[s], row = at / (heads * n), h = at / n % heads, c = at % n;
            int64_t query = backward ? c : row, other = backward ? row : c; /* places */
            double got = kernel_value(
                k, 0, backward ? (first + row) * 3 * H + 2 * H + h * d + c : (first + row) * H + h * d + c);
            int64_t feature = (k->attr.head0 + h) * k->attr.max_len + other;
            decide(all, k, mask_drops(k, key[2 * first], query, feature), got == 0);
            double want = mask_factor(k, key[2 * first], query, feature) / (double)n;
            assert_true(fabs(got - want) <= (operand_dtype(k, 0) == TRI_F8_E5M2 ? 0.125 : 1e-5) * want);
        }
}

/* attention_bits: every bit of a pair of the sequence, where layout/mask_bits.h says. */
static void show_bits(context *all, kernel_call *k) {
    kernel_call_run(k, &all->table, 2);
    const int32_t *word = k->call.t[TRI_ARG(attention, bits)].data;
    int64_t heads = k->at.dim['A' - 'A'], tiles = (k->attr.max_len + 63) / 64, first = 0;
    for (int64_t s = 0; k->at.lengths[s]; first += k->at.lengths[s++])
        for (int64_t at = 0, n = k->at.lengths[s]; at < heads * n * n; at++) {
            int64_t h = at / (n * n), query = at / n % n, other = at % n, g = query % 8, c = other / 8 % 4;
            int64_t granule = first / 16 + s + query / 16, tile = (granule * heads + h) * tiles + other / 64;
            int64_t bit = other % 2 * 16 + other / 32 % 2 * 8 + query / 8 % 2 * 4 + other / 2 % 4;
            uint32_t got = (uint32_t)word[tile * 32 + c / 2 * 16 + g * 2 + c % 2];
            int64_t feature = (k->attr.head0 + h) * k->attr.max_len + other;
            decide(all, k, mask_drops(k, keys(k)[2 * first], query, feature), !(got >> bit & 1));
        }
}

/* attention_scaled, attention_scaled_din: as show_attention; bytes of the weights' gradients are 0 where those are. */
static void show_attention_scaled(context *all, kernel_call *k) {
    int sq = kernel_arg(k, "sq");
    *(float *)k->call.t[sq].data = 1;
    memcpy(k->before[sq], k->block[sq], k->bytes[sq] + 2 * GUARD);
    show_attention(all, k);
}

/* The same of first queries alone: entry c of row s of ctx is the weight of the row at place c; entry 0 of a row of dv
 * is its weight. */
static void show_first(context *all, kernel_call *k) {
    int backward = k->at.op == TRI_OP_attention_din;
    int64_t H = k->at.dim['H' - 'A'], heads = k->at.dim['A' - 'A'], d = H / heads, T = k->at.dim['T' - 'A'],
            N = k->at.dim['N' - 'A'];
    const int32_t *key = keys(k), *seq = k->call.t[kernel_arg(k, "seq")].data; /* [T,2] [N+1] */
    int unit = kernel_arg(k, backward ? "dctx" : "qkv");
    set_all(k, "qkv", 0);
    if (backward) set_all(k, "dctx", 0);
    for (int64_t i = 0; i < (backward ? N : T) * heads; i++) {
        int64_t row = i / heads, at = i % heads * d;
        ((float *)k->call.t[unit].data)[backward ? row * H + at : row * 3 * H + 2 * H + at + key[2 * row + 1]] = 1;
    }
    memcpy(k->before[unit], k->block[unit], k->bytes[unit] + 2 * GUARD);
    if (backward) { /* of scores that are all 0 */
        int lse = kernel_arg(k, "lse");
        for (int64_t i = 0; i < N * heads; i++)
            ((float *)k->call.t[lse].data)[i] = logf((float)k->at.lengths[i / heads]);
        memcpy(k->before[lse], k->block[lse], k->bytes[lse] + 2 * GUARD);
    }
    kernel_call_run(k, &all->table, 2);
    for (int64_t i = 0; i < N * heads; i++)
        for (int64_t s = i / heads, h = i % heads, c = 0; c < k->at.lengths[s]; c++) {
            double got = kernel_value(k, 0, backward ? (seq[s] + c) * 3 * H + 2 * H + h * d : s * H + h * d + c);
            int64_t feature = (k->attr.head0 + h) * k->attr.max_len + c;
            decide(all, k, mask_drops(k, key[2 * seq[s]], 0, feature), got == 0);
            double want = mask_factor(k, key[2 * seq[s]], 0, feature) / (double)k->at.lengths[s];
            assert_true(fabs(got - want) <= 1e-5 * want);
        }
}

/* Of a ring's runs: rows of a sequence are those with its sample; 0: of none. */
static int64_t rows_of(const kernel_call *k, int64_t run, int32_t sample) {
    int64_t n = 0, T = k->at.dim['T' - 'A'];
    for (int64_t t = 0; t < T; t++) n += keys(k)[2 * (run * T + t)] == sample;
    return n;
}

static void set_one(kernel_call *k, const char *name, int64_t at) {
    int arg = kernel_arg(k, name);
    ((float *)k->call.t[arg].data)[at] = 1;
    memcpy(k->before[arg], k->block[arg], k->bytes[arg] + 2 * GUARD);
}

/* lse of scores that are all 0, of rows of key (every `step`-th number is a sample), or of sequences; else NULL. */
static void set_sums(kernel_call *k, int64_t rows, const int32_t *sample, int64_t step) {
    int lse = kernel_arg(k, "lse");
    int64_t heads = k->at.dim['A' - 'A'];
    for (int64_t i = 0; i < rows * heads; i++) {
        int32_t s = sample ? sample[i / heads * step] - 100 : (int32_t)(i / heads);
        ((float *)k->call.t[lse].data)[i] = s < 0 ? 0 : logf((float)k->at.lengths[s]);
    }
    memcpy(k->before[lse], k->block[lse], k->bytes[lse] + 2 * GUARD);
}

/* As show_attention, between two runs. */
static void show_part(context *all, kernel_call *k) {
    int backward = k->at.op == TRI_OP_attention_part_din;
    int64_t H = k->at.dim['H' - 'A'], heads = k->at.dim['A' - 'A'], d = H / heads, T = k->at.dim['T' - 'A'];
    const int32_t *own = keys(k) + 2 * k->attr.run * T, *other = keys(k) + 2 * k->attr.part * T; /* [T,2] each */
    set_all(k, "qkv", 0), set_all(k, "kv", 0);
    if (backward) set_all(k, "dctx", 0), set_sums(k, T, own, 2);
    for (int64_t i = 0; i < T * heads; i++) {
        int64_t t = i / heads, at = i % heads * d;
        if (backward) set_one(k, "dctx", t * H + at + own[2 * t + 1]);
        else set_one(k, "kv", t * 2 * H + H + at + other[2 * t + 1]);
    }
    kernel_call_run(k, &all->table, 2);
    for (int64_t i = 0; i < T * T * heads; i++) {
        int64_t t = i / T / heads, u = i / heads % T, h = i % heads;
        int32_t sample = own[2 * t];
        if (!sample || other[2 * u] != sample) continue;
        int64_t n = backward ? k->at.lengths[sample - 100] : rows_of(k, k->attr.part, sample);
        int64_t feature = (k->attr.head0 + h) * k->attr.max_len + other[2 * u + 1];
        double got = backward ? kernel_value(k, 1, u * 2 * H + H + h * d + own[2 * t + 1])
                              : kernel_value(k, 0, t * H + h * d + other[2 * u + 1]);
        decide(all, k, mask_drops(k, sample, own[2 * t + 1], feature), got == 0);
        double want = mask_factor(k, sample, own[2 * t + 1], feature) / (double)n;
        assert_true(fabs(got - want) <= 1e-5 * want);
    }
}

/* As show_first, of the keys of a run. */
static void show_first_part(context *all, kernel_call *k) {
    int backward = k->at.op == TRI_OP_attention_part_din;
    int64_t H = k->at.dim['H' - 'A'], heads = k->at.dim['A' - 'A'], d = H / heads, T = k->at.dim['T' - 'A'],
            N = k->at.dim['N' - 'A'], run = k->attr.part * (H + heads), wide = k->attr.members * (H + heads);
    const int32_t *other = keys(k) + 2 * k->attr.part * T; /* [T,2] */
    set_all(k, "q", 0), set_all(k, "qkv", 0);
    if (backward) set_all(k, "dctx", 0), set_sums(k, N, NULL, 0);
    for (int64_t i = 0; i < (backward ? N : T) * heads; i++) {
        int64_t row = i / heads, at = i % heads * d;
        if (backward) set_one(k, "dctx", row * H + at);
        else set_one(k, "qkv", row * 3 * H + 2 * H + at + other[2 * row + 1]);
    }
    kernel_call_run(k, &all->table, 2);
    for (int64_t i = 0; i < T * heads; i++) {
        int64_t u = i / heads, h = i % heads, s = other[2 * u] - 100;
        if (s < 0) continue;
        int64_t n = backward ? k->at.lengths[s] : rows_of(k, k->attr.part, other[2 * u]);
        int64_t feature = (k->attr.head0 + h) * k->attr.max_len + other[2 * u + 1];
        double got = backward ? kernel_value(k, 0, u * 3 * H + 2 * H + h * d)
                              : kernel_value(k, 0, s * wide + run + h * d + other[2 * u + 1]);
        decide(all, k, mask_drops(k, other[2 * u], 0, feature), got == 0);
        double want = mask_factor(k, other[2 * u], 0, feature) / (double)n;
        assert_true(fabs(got - want) <= 1e-5 * want);
    }
}

static void show_any_attention(context *all, kernel_call *k) {
    if (k->attr.first) show_first(all, k);
    else if (k->attr.mask) show_bits(all, k);
    else (k->attr.scaled ? show_attention_scaled : show_attention)(all, k);
}

static void show_any_part(context *all, kernel_call *k) { (k->attr.first ? show_first_part : show_part)(all, k); }

static void mask_case(const kernel_case *at, void *opaque) {
    static void (*const shows[TRI_OP_COUNT])(context *, kernel_call *) = {
        [TRI_OP_dropout] = show_plain,
        [TRI_OP_norm] = show_norm,
        [TRI_OP_norm_din] = show_norm_din,
        [TRI_OP_attention] = show_any_attention,
        [TRI_OP_attention_din] = show_any_attention,
        [TRI_OP_attention_part] = show_any_part,
        [TRI_OP_attention_part_din] = show_any_part,
    };
    context *all = opaque;
    kernel_call k;
    kernel_call_open(&k, at, all->p, 0, 0);
    shows[at->op](all, &k);
    kernel_call_close(&k);
    all->seen[at->variant]++;
}

TEST(test_masks) {
    static const kernel_grid grids[] = {
        {NORMS_SCALED, "T=1,3,64 H=1,7,8,20,100"},
        {"dropout dropout_din dropout_add_norm dropout_add_norm_din", "T=1,3,64 H=1,7,8,20,100,384"},
        {ATTENTION, "L=1,2,3,4,8 A=1,3 E=17,64"},
        {ATTENTION_SCALED, "L=1,2,4 A=1,3 E=17,64"},
        {"attention_bits", "L=1,4,5,7 M=1 A=1,3 E=4"},
        {SPARSE, "L=1,2,4 W=0 A=1,3 E=17"}, /* two blocks at most, which attend to each other */
        {BIASED, "L=1,2,4 B=16 A=1,3 E=17"},
        {DISENTANGLED, "L=1,2,4 B=34 G=3 A=1,3 E=17"},
        {RING_ATTENTION, "L=1,2,4 J=2 Z=0,1 U=0,1 A=1,3 E=17"},
        {RING_SPARSE, "L=1,2,4 J=2 Z=0,1 U=0,1 W=0 A=1,3 E=17"},
    };
    static const char *const devices[] = {"cpu", "reference"};
    static const float rates[] = {0.1f, 0.3f, 0.5f, 0.9f};
    for (int i = 0; i < 8; i++) {
        context all = {.p = rates[i % 4]};
        tri__device_find(devices[i / 4])->kernels(&all.table);
        kernel_cases(grids, sizeof grids / sizeof *grids, mask_case, &all);
        double p = (double)rates[i % 4], n = (double)all.decided;
        assert_true(n > 100000);
        assert_true(fabs((double)all.kept / n - (1 - p)) < 0.01);
        for (int v = 0; v < tri__variant_count(); v++)
            if (tri__row_arg(tri__variant_row(v), "key") >= 0 && tri__variant_computes(v) && !all.seen[v])
                fail_msg("no case shows the mask of %s", tri__variant_row(v)->name);
    }
}

/* With p = 0 values pass through to the bit. */
TEST(test_nothing_dropped) {
    static const char *const devices[] = {"cpu", "reference"};
    for (int i = 0; i < 2; i++) {
        tri_kernel_table table;
        tri__device_find(devices[i])->kernels(&table);
        kernel_case at = {.op = TRI_OP_dropout, .variant = plain(TRI_OP_dropout)};
        at.dim['T' - 'A'] = 9, at.dim['H' - 'A'] = 21;
        kernel_call k;
        kernel_call_open(&k, &at, 0, 0, 0);
        kernel_call_run(&k, &table, 2);
        assert_memory_equal(k.call.t[0].data, k.call.t[1].data, k.bytes[0]);
        kernel_call_close(&k);
    }
}

/* Known answers of Random123 (kat_vectors, philox4x32 10), for our generator and for the one of this test. */
TEST(test_known_answers) {
    static const uint32_t rows[][10] = {
        /* counter, key, answer */
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420,
         0x24126ea1},
    };
    for (int i = 0; i < 3; i++) {
        const uint32_t *c = rows[i], *key = c + 4, *answer = c + 6;
        tri_random ours = tri__philox(key[0], key[1], c[0], c[1], c[2], c[3]);
        uint32_t again[4];
        philox_block(key, c, again);
        assert_memory_equal(ours.word, answer, 16);
        assert_memory_equal(again, answer, 16);
    }
}

int main(int argc, char **argv) { return run_listed(argc, argv, NULL, NULL); }
