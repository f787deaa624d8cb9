/* cuda_kernels.c - times the kernel rows of a GPU one by one, on the shapes of a training step in bf16, and adds them
 * up to a step: median milliseconds of a call, TFLOP/s, TB/s of operands, and the milliseconds of all its calls in a
 * step.
 *
 *   cuda_kernels [base128|base512|large512|large384|oneb|long] [--tokens N] [--dropout P] [--window W] [--block B]
 *                [OPERATION ...]
 *
 * Default: all operations of base512 with dropout 0.1. --tokens: rows of dense layers instead of the model's (other
 * operations need whole sequences); bench/cudnn.py is the comparison for attention without dropout. --window and
 * --block: of block-sparse attention; 256 and 64 tokens. Parts of attention are those of a ring of two, whose sequences
 * are twice as long as the model's. Optimizers and codes are timed on 100 million elements. */
#include "base/arena.h"
#include "device/device.h"
#include "numbers/coded.h"
#include "numbers/float16.h"
#include "layout/mask_bits.h"
#include "model/pattern.h"

#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RUNS = 9,
    BATCH = 10,
    NOISE = 1 << 20
}; /* timed batches of calls; elements of noise, repeated to fill operands */

typedef struct model {
    const char *name;
    int branches, layers;
    int64_t width, heads, inner, samples, length, words;
} model;

static const model models[] = {
    {"base128", 2, 12, 768, 12, 3072, 256, 128, 30522},
    {"base512", 2, 12, 768, 12, 3072, 64, 512, 30522},
    {"large512", 2, 24, 1024, 16, 4096, 32, 512, 30522},
    {"large384", 1, 24, 1024, 16, 4096, 128, 384, 30522},
    {"oneb", 1, 24, 2048, 16, 8192, 16, 1024, 30522},
    {"long", 1, 12, 768, 12, 3072, 22, 4096, 30522}, /* twice as many heads of sequences as processors */
};

/* dims: a letter and its extent: t tokens, h width, q 3 width, i inner, s samples + 1, n samples, a heads, k parameters
 * of a layer, m words of a row of masks, b words of blocks, r rows of a ring's run, p those of both, u 2 width, else a
 * number. F: a code, which gives B. -mask: that operand is left out. */
typedef struct shape {
    const char *op, *dims;
    int layer, step;   /* calls per layer; calls per branch outside of layers */
    unsigned acc;
    int wide_sums;     /* gradients of weights in fp32 */
} shape;

#define CODED(F) \
    {"pack", "K100000000 M2 F" F " -mask", 0, 0, 0, 1}, {"pack", "K100000000 M2 F" F " -e -mask", 0, 0, 0, 1}, \
        {"unpack", "K100000000 M2 F" F, 0, 0, 0, 1}, {"unpack_sum", "K50000000 M2 F" F, 0, 0, 0, 1}, \
        {"unpack_sum", "K12500000 M8 F" F, 0, 0, 0, 1}

static const shape shapes[] = {
    {"embed", "Tt Hh Vw P512 Y2", 0, 1, 0, 0},
    {"norm", "Tt Hh", 0, 1, 0, 0},
    {"dropout", "Tt Hh", 0, 1, 0, 0},
    {"linear", "Tt Oq Ih", 1, 0, 0, 0},
    {"attention_bits", "Tt Hh Dq Aa Ss Mm", 1, 0, 0, 0},
    {"attention", "Tt Hh Dq Aa Ss", 0, 0, 0, 0},
    {"linear", "Tt Oh Ih", 1, 0, 0, 0},
    {"dropout_add_norm", "Tt Hh", 2, 0, 0, 0},
    {"linear_gelu", "Tt Oi Ih", 1, 0, 0, 0},
    {"linear", "Tt Oh Ii", 1, 0, 0, 0},
    {"dropout_add_norm_din", "Tt Hh", 2, 1, 0, 1},
    {"norm_dw", "Tt Hh", 0, 0, 0, 1},
    {"linear_dw", "Tt Oh Ii", 1, 0, 0, 1},
    {"linear_gelu_din", "Tt Oh Ii", 1, 0, 0, 1},
    {"linear_din", "Tt Oh Ii", 0, 0, 0, 0},
    {"gelu_din_db", "Tt Hi", 0, 0, 0, 1},
    {"gelu_din", "Tt Hi", 0, 0, 0, 0},
    {"linear_din", "Tt Oi Ih", 1, 0, 1, 0},
    {"linear_dw", "Tt Oi Ih", 1, 0, 0, 1},
    {"linear_din", "Tt Oh Ih", 1, 0, 0, 0},
    {"linear_dw", "Tt Oh Ih", 1, 0, 0, 1},
    {"attention_din_db", "Tt Hh Dq Aa Ss Mm", 1, 0, 0, 1},
    {"attention_din_db", "Tt Hh Dq Aa Ss -bits", 0, 0, 0, 1},
    {"attention_din", "Tt Hh Dq Aa Ss Mm", 0, 0, 0, 0},
    {"attention_din", "Tt Hh Dq Aa Ss -bits", 0, 0, 0, 0},
    {"linear_din", "Tt Oq Ih", 1, 0, 1, 0},
    {"linear_dw", "Tt Oq Ih", 1, 0, 0, 1},
    {"bias_dw", "Tt Oq", 0, 0, 0, 1},
    {"dropout_din", "Tt Hh", 0, 1, 0, 0},
    {"norm_din", "Tt Hh", 0, 0, 0, 0},
    {"embed_dw", "Tt Hh Vw P512 Y2", 0, 1, 0, 1},
    {"sumsq", "Kk", 1, 0, 0, 1},
    {"adamw_copy", "Kk", 1, 0, 0, 1},
    {"attention_first", "Nn Tt Hh Dq Aa Ss", 0, 0, 0,
     0}, /* of the last layer, which is counted as if it made all rows */
    {"attention_first_din", "Nn Tt Hh Dq Aa Ss", 0, 0, 0, 0},
    /* of long sequences */
    {"attention_sparse", "Tt Hh Dq Aa Ss Kb", 0, 0, 0, 0},
    {"attention_sparse_din", "Tt Hh Dq Aa Ss Kb", 0, 0, 0, 0},
    {"attention_part", "Tr Hh Dq Gu Aa Ss Kp", 0, 0, 0, 0},
    {"attention_part_din", "Tr Hh Dq Gu Aa Ss Kp", 0, 0, 0, 0},
    {"attention_join", "Tr Hh Aa", 0, 0, 0, 0},
    /* of other encoders; G: attr.terms */
    {"rope", "Tt Dq Aa", 0, 0, 0, 0},
    {"rope_din", "Tt Dq Aa", 0, 0, 0, 0},
    {"gated", "Tt Hh Du", 0, 0, 0, 0},
    {"gated_din", "Tt Hh Du", 0, 0, 0, 0},
    {"attention_biased", "Tt Hh Dq Aa Ss B32", 0, 0, 0, 0},
    {"attention_biased_din", "Tt Hh Dq Aa Ss B32", 0, 0, 0, 0},
    {"attention_disentangled", "Tt Hh Dq Aa Ss B512 G3", 0, 0, 0, 0},
    {"attention_disentangled_din", "Tt Hh Dq Aa Ss B512 G3", 0, 0, 0, 0},
    /* of inference and quantisation-aware training */
    {"quantize_int8", "Tt Ih", 0, 0, 0, 0},
    {"quantize_int8", "Tt Ii", 0, 0, 0, 0},
    {"linear_int8", "Tt Oq Ih", 0, 0, 0, 0},
    {"linear_int8", "Tt Oh Ih", 0, 0, 0, 0},
    {"linear_gelu_int8", "Tt Oi Ih", 0, 0, 0, 0},
    {"linear_int8", "Tt Oh Ii", 0, 0, 0, 0},
    {"linear_fp8", "Tt Oq Ih", 0, 0, 0, 0},
    {"linear_fp8", "Tt Oh Ih", 0, 0, 0, 0},
    {"linear_gelu_fp8", "Tt Oi Ih", 0, 0, 0, 0},
    {"linear_fp8", "Tt Oh Ii", 0, 0, 0, 0},
    {"linear_int8_din", "Tt Oi Ih", 0, 0, 0, 0},
    {"linear_int8_dw", "Tt Oi Ih", 0, 0, 0, 1},
    /* of training in 8 bits */
    {"fp8_cast", "Tt Ih", 0, 0, 0, 0},
    {"fp8_cast", "Tt Iq", 0, 0, 0, 0},
    {"fp8_cast", "Tt Ii", 0, 0, 0, 0},
    {"fp8_cast", "Tq Ih", 0, 0, 0, 0}, /* a layer's weights one by one, at once, an eighth of them, and transposed */
    {"fp8_cast", "Th Ih", 0, 0, 0, 0},
    {"fp8_cast", "Ti Ih", 0, 0, 0, 0},
    {"fp8_cast", "Th Ii", 0, 0, 0, 0},
    {"fp8_cast_weights", "Tq Ih Oh Hh Ni Ch Bh Di M10", 0, 0, 0, 0},
    {"fp8_cast_weights", "T1 I884736 M1 -ta -tb -tc -td", 0, 0, 0, 0},
    {"fp8_turn", "Tq Ih Oh Hh Ni Ch Bh Di", 0, 0, 0, 0},
    {"linear_scaled", "Tt Oq Ih", 0, 0, 0, 0},
    {"linear_scaled", "Tt Oh Ih", 0, 0, 0, 0},
    {"linear_scaled", "Tt Oi Ih", 0, 0, 0, 0},
    {"linear_scaled", "Tt Oh Ii", 0, 0, 0, 0},
    {"linear_gelu_scaled", "Tt Oi Ih", 0, 0, 0, 0},
    {"attention_scaled", "Tt Hh Dq Aa Ss Mm", 0, 0, 0, 0},
    {"attention_scaled", "Tt Hh Dq Aa Ss -bits", 0, 0, 0, 0},
    {"attention_scaled_din", "Tt Hh Dq Aa Ss Mm", 0, 0, 0, 1},
    {"attention_scaled_din", "Tt Hh Dq Aa Ss -bits", 0, 0, 0, 1},
    {"dropout_add_norm_scaled", "Tt Hh", 0, 0, 0, 0},
    {"dropout_add_norm_scaled_din", "Tt Hh", 0, 0, 0, 1},
    {"linear_gelu_scaled_din", "Tt Oh Ii", 0, 0, 0, 1},
    {"linear_scaled_din", "Tt Oh Ii", 0, 0, 0, 0},
    {"linear_scaled_din", "Tt Oi Ih", 0, 0, 1, 0},
    {"linear_scaled_din", "Tt Oh Ih", 0, 0, 0, 0},
    {"linear_scaled_din", "Tt Oq Ih", 0, 0, 1, 0},
    {"linear_scaled_dw", "Tt Oh Ii", 0, 0, 0, 1},
    {"linear_scaled_dw", "Tt Oi Ih", 0, 0, 0, 1},
    {"linear_scaled_dw", "Tt Oh Ih", 0, 0, 0, 1},
    {"linear_scaled_dw", "Tt Oq Ih", 0, 0, 0, 1},
    /* of other optimizers, and of transfers in fewer bits */
    {"adamw", "K100000000", 0, 0, 0, 1},
    {"adam", "K100000000", 0, 0, 0, 1},
    {"sgd", "K100000000", 0, 0, 0, 1},
    {"lamb_moments", "K100000000", 0, 0, 0, 1},
    {"lamb_step", "K100000000", 0, 0, 0, 1},
    {"momentum_in", "K100000000", 0, 0, 0, 1},
    {"momentum_alone", "K100000000", 0, 0, 0, 1},
    {"adamw_frozen", "K100000000", 0, 0, 0, 1},
    {"adamw_meet", "K100000000", 0, 0, 0, 1},
    {"momentum_out", "K100000000 M2 F5", 0, 0, 0, 1},
    {"local_delta", "K100000000", 0, 0, 0, 1},
    {"outer_step", "K100000000", 0, 0, 0, 1},
    {"outer_take", "K100000000", 0, 0, 0, 1},
    {"swap", "K100000000", 0, 0, 0, 1},
    {"average", "K100000000", 0, 0, 0, 1},
    CODED("1"),
    CODED("2"),
    CODED("3"),
    CODED("4"),
    CODED("5"),
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

typedef struct bench {
    const tri_device *device;
    void *context;
    tri_kernel_table table;
    const model *of;
    int64_t tokens;               /* 0: the model's */
    float dropout;
    const char *op[32];           /* requested operations; n_ops 0: all */
    int n_ops;
    int64_t window, block;
    tri_blocks blocks;            /* word NULL: the window has all keys */
    void *noise[TRI_DTYPE_COUNT]; /* [NOISE] on the host; NULL for types that have none */
} bench;

static void fail(const char *what) {
    fprintf(stderr, "cuda_kernels: %s: %s\n", what, tri_error());
    exit(1);
}

static int64_t extent(const bench *b, const shape *at, char letter) {
    const model *m = b->of;
    if (letter >= '0' && letter <= '9') return letter - '0';
    if (letter == 'B' && strchr(at->dims, 'F'))
        return tri__coded_row((tri_code)extent(b, at, 'F'), extent(b, at, 'K'),
                              strcmp(at->op, "unpack_sum") == 0 ? 1 : (int)extent(b, at, 'M'));
    for (const char *d = at->dims; d; d = strchr(d, ' '), d = d ? d + 1 : NULL) {
        if (*d != letter) continue;
        switch (d[1]) {
        case 't': return b->tokens ? b->tokens : m->samples * m->length;
        case 'h': return m->width;
        case 'q': return 3 * m->width;
        case 'i': return m->inner;
        case 's': return m->samples + 1;
        case 'n': return m->samples;
        case 'a': return m->heads;
        case 'w': return m->words;
        case 'm': return tri__mask_width(m->heads, m->length);
        case 'b': return b->blocks.n;
        case 'r': return m->samples * m->length + m->samples;
        case 'p': return 2 * (m->samples * m->length + m->samples);
        case 'u': return 2 * m->width;
        case 'k': return 4 * m->width * m->width + 2 * m->width * m->inner;
        default: return strtoll(d + 1, NULL, 10);
        }
    }
    return 0;
}

static void make_noise(bench *b) {
    float *wide = malloc(NOISE * sizeof *wide);
    uint16_t *half = malloc(NOISE * sizeof *half);
    uint8_t *byte = malloc(NOISE);
    if (!wide || !half || !byte) exit(1);
    uint32_t state = 1;
    for (int i = 0; i < NOISE; i++) {
        state = state * 1664525u + 1013904223u;
        wide[i] = (float)(state >> 8) * 0x1p-23f - 1.0f;
        half[i] = tri__to_bf16(wide[i]);
        byte[i] = (uint8_t)(state >> 24 & 0xBF); /* as e4m3 or e5m2: no NaN */
    }
    b->noise[TRI_F32] = wide;
    b->noise[TRI_BF16] = half;
    b->noise[TRI_I8] = b->noise[TRI_F8_E4M3] = b->noise[TRI_F8_E5M2] = byte;
}

static void copy_in(bench *b, void *to, const void *from, size_t bytes) {
    if (b->device->async->copy(b->context, to, from, bytes) != TRI_OK) fail("copy");
}

/* Integers by name; real numbers are noise. */
static void fill(bench *b, const shape *at, const char *name, tri_dtype dtype, const tri_tensor *t) {
    int ring = strncmp(at->op, "attention_part", 14) == 0;
    int64_t n = t->rows * t->cols, size = (int64_t)tri__dtype_bytes(dtype);
    if (dtype == TRI_F32 && n == 1 && name[0] == 's') { /* a scale */
        const float scale = 16;
        copy_in(b, t->data, &scale, sizeof scale);
        return;
    }
    if (dtype != TRI_I32) {
        for (int64_t i = 0; i < n && b->noise[dtype]; i += NOISE)
            copy_in(b, (char *)t->data + i * size, b->noise[dtype], (size_t)((n - i < NOISE ? n - i : NOISE) * size));
        return;
    }
    int32_t *whole = malloc((size_t)n * sizeof *whole);
    int64_t length = b->of->length;
    if (!whole) exit(1);
    for (int64_t i = 0; i < n; i++) {
        if (strcmp(name, "ids") == 0) whole[i] = (int32_t)((uint64_t)i * 2654435761u % (uint64_t)b->of->words);
        else if (strcmp(name, "pos") == 0) whole[i] = (int32_t)(i % length % 512);
        else if (strcmp(name, "blocks") == 0) whole[i] = b->blocks.word[i];
        else if (strcmp(name, "key") == 0 && ring) whole[i] = (int32_t)(i % 2 ? 0 : i / 2);
        else if (strcmp(name, "key") == 0) whole[i] = (int32_t)(i % 2 ? i / 2 % length : i / 2 / length);
        else if (strcmp(name, "seq") == 0) whole[i] = (int32_t)(i * length * (1 + ring));
        else whole[i] = 1;
    }
    copy_in(b, t->data, whole, (size_t)n * sizeof *whole);
    free(whole);
}

/* Median seconds of a call, over batches of calls between two marks. */
static double seconds_of(bench *b, tri_kernel *run, const tri_call *call) {
    double seconds[RUNS];
    for (int r = -1; r < RUNS; r++) {
        tri_time time;
        b->device->async->begin_run(b->context, 1);
        b->device->timing->mark(b->context, 0);
        for (int i = 0; i < BATCH; i++) run(call);
        b->device->timing->mark(b->context, 1);
        if (b->device->async->finish(b->context) != TRI_OK) fail(tri__call_row(call)->name);
        b->device->timing->times(b->context, 1, &time);
        if (r >= 0) seconds[r] = (time.end - time.begin) / BATCH;
    }
    qsort(seconds, RUNS, sizeof *seconds, bench_ascending);
    return seconds[RUNS / 2];
}

/* Times a shape; returns the milliseconds of all its calls in a step. */
static double time_shape(bench *b, const shape *at) {
    int variant = tri__variant_find(at->op);
    const tri_op_row *row = tri__variant_row(variant);
    const model *m = b->of;
    tri_attr attr = {.p = b->dropout,
                     .eps = 1e-12f,
                     .id = 7,
                     .heads = (int32_t)m->heads,
                     .max_len = (int32_t)m->length,
                     .beta1 = 0.9f,
                     .beta2 = 0.999f,
                     .decay = 0.01f,
                     .code = (int32_t)extent(b, at, 'F'),
                     .members = 2,
                     .part = 1,
                     .theta = 10000,
                     .buckets = (int32_t)extent(b, at, 'B'),
                     .reach = (int32_t)extent(b, at, 'B') == 32 ? 128 : 512,
                     .terms = (int32_t)extent(b, at, 'G'),
                     .block = (int32_t)b->block};
    tri__variant_set(variant, &attr);
    tri_call call = {.op = row->op,
                     .attr = &attr,
                     .acc = at->acc,
                     .seed = 1,
                     .step = 1,
                     .context = b->context,
                     .table = &b->table};
    tri_dims dims = {{0}};
    double bytes = 0;
    int64_t halves = 0;
    size_t size[TRI_MAX_ARGS] = {0};
    char left_out[32];
    for (char letter = 'A'; letter <= 'Z'; letter++) dims.of[letter - 'A'] = (double)extent(b, at, letter);
    dims.of['Q' - 'A'] = (double)(m->samples * m->length) *
                         (strstr(at->dims, "Kb") ? b->blocks.keys : (double)m->length);
    for (int k = 0; k < row->n_args; k++) {
        tri_tensor *t = &call.t[k];
        int type = row->arg[k].dtype;
        tri_dtype dtype = type >= 0 ? (tri_dtype)type
                          : call.op == TRI_OP_fp8_cast && k != TRI_ARG(fp8_cast, x) ? TRI_F8_E4M3
                          : type == TRI_DTYPE_ANY && strcmp(row->arg[k].name, "copy") != 0 && at->wide_sums ? TRI_F32
                                                                                                            : TRI_BF16;
        t->rows = extent(b, at, row->arg[k].dims[0]), t->cols = extent(b, at, strchr(row->arg[k].dims, ',')[1]);
        call.dtype[k] = (uint8_t)dtype;
        snprintf(left_out, sizeof left_out, " -%s", row->arg[k].name);
        if (strstr(at->dims, left_out) || t->rows * t->cols == 0) continue;
        size[k] = (size_t)(t->rows * t->cols) * tri__dtype_bytes(dtype);
        if (b->device->alloc(b->context, size[k], &t->data) != TRI_OK) fail(at->op);
        fill(b, at, row->arg[k].name, dtype, t);
        if (tri__dtype_bytes(dtype) == 2) halves += t->rows * t->cols;
        bytes += (double)(row->arg[k].access == TRI_ACCESS_G ? size[0] / 3 : size[k]) *
                 (row->arg[k].access == TRI_ACCESS_U || at->acc >> k & 1 ? 2 : 1);
    }
    tri_dtype type = halves ? TRI_BF16 : TRI_F32;
    const tri_workspace *work = &b->table.work[variant][type];
    size_t scratch = (size_t)tri__workspace_bytes(work, call.t[0].rows, call.t[0].cols, halves);
    if (b->device->alloc(b->context, scratch + 64, &call.work) != TRI_OK) fail("scratch");
    double seconds = seconds_of(b, b->table.run[variant][type], &call),
           all = seconds * 1e3 * m->branches * (at->layer * m->layers + at->step);
    printf("%-22s %-30s %9.4f ms %8.1f TFLOP/s %7.2f TB/s %9.3f ms a step\n", at->op, at->dims, seconds * 1e3,
           row->flops(&dims, row) / seconds * 1e-12, bytes / seconds * 1e-12, all);
    for (int k = 0; k < row->n_args; k++)
        if (call.t[k].data) b->device->free(b->context, call.t[k].data, size[k]);
    b->device->free(b->context, call.work, scratch + 64);
    return all;
}

static int wanted(const bench *b, const char *op) {
    for (int i = 0; i < b->n_ops; i++)
        if (strcmp(b->op[i], op) == 0) return 1;
    return b->n_ops == 0;
}

static void read_words(bench *b, int argc, char **argv) {
    b->of = &models[1];
    b->dropout = 0.1f;
    b->window = 256, b->block = 64;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        int is_model = 0;
        for (size_t m = 0; m < sizeof models / sizeof *models; m++)
            if (strcmp(models[m].name, word) == 0) b->of = &models[m], is_model = 1;
        if (is_model) continue;
        if (strcmp(word, "--tokens") == 0 && i + 1 < argc) b->tokens = strtoll(argv[++i], NULL, 10);
        else if (strcmp(word, "--dropout") == 0 && i + 1 < argc) b->dropout = strtof(argv[++i], NULL);
        else if (strcmp(word, "--window") == 0 && i + 1 < argc) b->window = strtoll(argv[++i], NULL, 10);
        else if (strcmp(word, "--block") == 0 && i + 1 < argc) b->block = strtoll(argv[++i], NULL, 10);
        else if (tri__variant_find(word) >= 0 && b->n_ops < 32) b->op[b->n_ops++] = word;
        else {
            fprintf(stderr,
                    "cuda_kernels: '%s' is no model (base128, base512, large512, large384, oneb, long), option or "
                    "operation\n",
                    word);
            exit(2);
        }
    }
}

int main(int argc, char **argv) {
    static bench b;
    read_words(&b, argc, argv);
    if (tri__device_get("cuda", &b.device) != TRI_OK) fail("no GPU");
    if (b.device->open(&tri__core, 0, 1 << 20, &b.context) != TRI_OK) fail("no GPU");
    b.device->kernels(&b.table);
    make_noise(&b);
    tri_arena arena;
    if (tri__arena_open(&arena, 1 << 26) != TRI_OK) fail("blocks");
    tri_pattern pattern = {.mode = TRI_PATTERN_WINDOW, .block = b.block, .window = b.window};
    b.blocks = tri__pattern_blocks(&arena, &pattern, b.of->length, b.of->heads, 0);
    double all = 0;
    printf("%s\n", b.of->name);
    for (int i = 0; i < SHAPES; i++)
        if (wanted(&b, shapes[i].op) && (b.blocks.word || !strchr(shapes[i].dims, 'b')))
            all += time_shape(&b, &shapes[i]);
    printf("%-22s %9.3f ms\n", "sum", all);
    free(b.noise[TRI_F32]);
    free(b.noise[TRI_BF16]);
    free(b.noise[TRI_I8]);
    b.device->close(b.context);
    tri__arena_close(&arena);
    return 0;
}
