/* sparse.c - block-sparse attention beside dense attention: one sequence, forward and gradient, in turn, in one
 * process. Prints the median time of each, their quotient, and how many pairs of query and key the pattern leaves; exit
 * 1 where both directions together are less than TARGET times as fast (--target 0: none).
 *
 *   sparse [--threads N] [--length T] [--heads A] [--head-size E] [--dropout P] [--seconds S] [--target X]
 *          [--device cpu|reference] [--window W] [--attention longformer|bigbird|fixed|FILE]
 *
 * W: tokens of the window, half on each side; 256 if left out. */
#include "base/arena.h"
#include "device/device.h"
#include "model/pattern.h"

#include "measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    int64_t threads, length, heads, size, window;
    double dropout, seconds, target;
    const char *device, *attention;
} options;

/* All operands of both operations, by their names. */
static const struct { const char *name; char rows; int width; size_t bytes; } operands[] = {
    {"ctx", 'T', 1, 4},  {"dctx", 'T', 1, 4}, {"qkv", 'T', 3, 4}, {"dqkv", 'T', 3, 4},
    {"lse", 'A', 0, 4},  {"key", 'K', 0, 4},  {"seq", 'S', 0, 4},
};
enum { OPERANDS = sizeof operands / sizeof *operands };

typedef struct bench {
    options is;
    tri_tensor t[OPERANDS];
    tri_blocks blocks;
    tri_attr attr[2]; /* dense, sparse */
    tri_kernel_table table;
} bench;

static void *take(size_t bytes) {
    void *memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (!memory) fprintf(stderr, "sparse: out of memory\n"), exit(1);
    memset(memory, 0, bytes);
    return memory;
}

static void fill(bench *b) {
    int64_t T = b->is.length, H = b->is.heads * b->is.size;
    for (int k = 0; k < OPERANDS; k++) {
        tri_tensor *t = &b->t[k];
        t->rows = operands[k].rows == 'S' ? 2 : T;
        t->cols = operands[k].rows == 'A' ? b->is.heads
                  : operands[k].rows == 'K' ? 2
                  : operands[k].rows == 'S' ? 1 : operands[k].width * H;
        t->data = take((size_t)(t->rows * t->cols) * 4);
        for (int64_t i = 0; i < t->rows * t->cols; i++) {
            if (operands[k].width) ((float *)t->data)[i] = (float)((uint64_t)i * 2654435761u % 10007) / 5003.5f - 1;
            if (operands[k].rows == 'K') ((int32_t *)t->data)[i] = (int32_t)(i % 2 ? i / 2 : 7);
            if (operands[k].rows == 'S') ((int32_t *)t->data)[i] = (int32_t)(i * T);
        }
    }
}

static tri_call call_of(const bench *b, tri_op op, const tri_attr *attr) {
    const tri_op_row *row = tri__op_row(op, attr);
    tri_call call = {.op = op, .attr = attr, .seed = 1, .step = 2, .threads = (int)b->is.threads,
                     .table = &b->table};
    for (int a = 0; a < row->n_args; a++) {
        if (!row->arg[a].access) continue;
        for (int k = 0; k < OPERANDS; k++)
            if (strcmp(operands[k].name, row->arg[a].name) == 0) call.t[a] = b->t[k];
        if (strcmp(row->arg[a].name, "blocks") == 0) call.t[a] = (tri_tensor){b->blocks.word, b->blocks.n, 1};
    }
    const tri_workspace *work = &b->table.work[tri__variant(op, attr)][TRI_F32];
    call.work = take((size_t)tri__workspace_bytes(work, call.t[0].rows, call.t[0].cols, 0));
    return call;
}

/* Median seconds of dense [0] and sparse [1] calls, in turn. */
static void time_both(const bench *b, tri_op op, double median[2]) {
    enum { MOST = 100 };
    double sample[2][MOST];
    tri_call call[2] = {call_of(b, op, &b->attr[0]), call_of(b, op, &b->attr[1])};
    int n = 0;
    for (double spent = 0; n < MOST && (n < 3 || spent < b->is.seconds); n++)
        for (int k = 0; k < 2; k++) {
            double begin = bench_clock(call[k].threads);
            tri__kernel(&b->table, op, &b->attr[k], TRI_F32)(&call[k]);
            sample[k][n] = bench_clock(call[k].threads) - begin;
            spent += sample[k][n];
        }
    for (int k = 0; k < 2; k++) {
        qsort(sample[k], (size_t)n, sizeof *sample[k], bench_ascending);
        median[k] = sample[k][n / 2];
        free(call[k].work);
    }
}

static double number(const char *name, const char *text) {
    char *end;
    double value = text ? strtod(text, &end) : -1;
    if (!text || *end || value < 0) fprintf(stderr, "sparse: %s needs a number\n", name), exit(2);
    return value;
}

static options read_options(int argc, char **argv) {
    options is = {2, 4096, 4, 64, 256, 0.1, 2, 8, "cpu", "window"};
    for (int i = 1; i < argc; i += 2) {
        const char *name = argv[i], *text = argv[i + 1];
        if (strcmp(name, "--threads") == 0) is.threads = (int64_t)number(name, text);
        else if (strcmp(name, "--length") == 0) is.length = (int64_t)number(name, text);
        else if (strcmp(name, "--heads") == 0) is.heads = (int64_t)number(name, text);
        else if (strcmp(name, "--head-size") == 0) is.size = (int64_t)number(name, text);
        else if (strcmp(name, "--window") == 0) is.window = (int64_t)number(name, text);
        else if (strcmp(name, "--dropout") == 0) is.dropout = number(name, text);
        else if (strcmp(name, "--seconds") == 0) is.seconds = number(name, text);
        else if (strcmp(name, "--target") == 0) is.target = number(name, text);
        else if (strcmp(name, "--device") == 0 && text) is.device = text;
        else if (strcmp(name, "--attention") == 0 && text) is.attention = text;
        else fprintf(stderr, "sparse: %s is not an option\n", name), exit(2);
    }
    return is;
}

int main(int argc, char **argv) {
    static const tri_op ops[2] = {TRI_OP_attention, TRI_OP_attention_din};
    bench b = {.is = read_options(argc, argv)};
    tri_pattern pattern;
    tri_arena arena;
    const tri_device *device = tri__device_find(b.is.device);
    if (!device || tri__pattern_load(b.is.attention, &pattern) != TRI_OK || tri__arena_open(&arena, 1 << 26) != TRI_OK)
        return fprintf(stderr, "sparse: %s\n", device ? tri_error() : "no such device"), 2;
    if (strcmp(b.is.attention, "window") == 0) pattern.window = b.is.window;
    if (tri__pattern_is_random(&pattern) && pattern.seed < 0) pattern.seed = 0;
    b.blocks = tri__pattern_blocks(&arena, &pattern, b.is.length, b.is.heads, 0);
    if (!b.blocks.word) return fprintf(stderr, "sparse: the pattern has all blocks\n"), 2;
    b.attr[0] = b.attr[1] = (tri_attr){.p = (float)b.is.dropout, .id = 7, .heads = (int32_t)b.is.heads,
                        .max_len = (int32_t)b.is.length, .block = (int32_t)pattern.block};
    b.attr[1].sparse = 1;
    device->kernels(&b.table);
    fill(&b);
    double sum[2] = {0}, median[2];
    if (strcmp(b.is.attention, "window") == 0) printf("%lld tokens: ", (long long)b.is.window);
    printf(
        "%s of %lld tokens, blocks of %lld: %.0f keys a query, 1 / %.2f of all; %lld heads of %lld, dropout %g, %lld "
        "threads\n",
        b.is.attention, (long long)b.is.length, (long long)pattern.block, b.blocks.keys,
        (double)b.is.length / b.blocks.keys, (long long)b.is.heads, (long long)b.is.size, b.is.dropout,
        (long long)b.is.threads);
    for (int k = 0; k < 2; k++) {
        time_both(&b, ops[k], median);
        printf("%-9s dense %9.3f ms   sparse %9.3f ms   %5.2f times as fast\n", k ? "gradient" : "forward",
               1e3 * median[0], 1e3 * median[1], median[0] / median[1]);
        for (int j = 0; j < 2; j++) sum[j] += median[j];
    }
    printf("%-9s dense %9.3f ms   sparse %9.3f ms   %5.2f times as fast\n", "both", 1e3 * sum[0], 1e3 * sum[1],
           sum[0] / sum[1]);
    for (int k = 0; k < OPERANDS; k++) free(b.t[k].data);
    tri__arena_close(&arena);
    return sum[0] / sum[1] < b.is.target;
}
