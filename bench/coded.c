/* coded.c - coding and expanding numbers for their way between ranks (numbers/coded.h), beside memcpy: for each code,
 * from and to fp32, bf16 and fp16, with and without error feedback. Rates count all bytes read and written, of a copy
 * as well (read once, written once); runs of both take turns, and the median is printed, with the share of memcpy's
 * rate. The last column compares the numbers' own bytes a second with the bytes that memcpy copies.
 *
 *   coded [--threads N] [--seconds S a row] [CODE ...] */
#include "device/device.h"
#include "numbers/coded.h"
#include "numbers/float16.h"

#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct buffers {
    size_t bytes;              /* of numbers in fp32 */
    float *x, *e, *mask;
    uint16_t *half[2];         /* bf16, fp16 */
    uint8_t *q;
    char *from, *to;           /* memcpy's */
} buffers;

/* Rows of the table; members: rows of q. */
typedef struct kind {
    const char *name;
    tri_op op;
    tri_dtype type;
    int feedback, mask, members; /* mask: and no x */
} kind;

static const kind kinds[] = {
    {"code fp32", TRI_OP_pack, TRI_F32, 0, 0, 1},
    {"code fp32, feedback", TRI_OP_pack, TRI_F32, 1, 0, 1},
    {"code bf16", TRI_OP_pack, TRI_BF16, 0, 0, 1},
    {"code bf16, feedback", TRI_OP_pack, TRI_BF16, 1, 0, 1},
    {"code fp16", TRI_OP_pack, TRI_F16, 0, 0, 1},
    {"code the error, mask", TRI_OP_pack, TRI_F32, 1, 1, 1},
    {"expand to fp32", TRI_OP_unpack, TRI_F32, 0, 0, 1},
    {"expand to bf16", TRI_OP_unpack, TRI_BF16, 0, 0, 1},
    {"expand to fp16", TRI_OP_unpack, TRI_F16, 0, 0, 1},
    {"sum of 2 in fp32", TRI_OP_unpack, TRI_F32, 0, 0, 2},
    {"sum of 8 in fp32", TRI_OP_unpack, TRI_F32, 0, 0, 8},
    {"momentum", TRI_OP_momentum_out, TRI_F32, 0, 1, 1},
};
enum { KINDS = sizeof kinds / sizeof *kinds, MOST_ROWS = 8, MOST = 400, SHORT = 4 << 20 };

/* Aligned as the device's memory is. */
static void *take(size_t bytes) {
    void *memory;
    if (tri__device_find("cpu")->alloc(NULL, bytes, &memory) != TRI_OK) {
        fprintf(stderr, "coded: out of memory\n");
        exit(1);
    }
    return memory;
}

static buffers buffers_open(size_t bytes) {
    size_t n = bytes / sizeof(float), rows = MOST_ROWS * (size_t)tri__coded_bytes(TRI_CODE_BF16, (int64_t)n);
    buffers b = {.bytes = bytes,
                 .x = take(bytes),
                 .e = take(bytes),
                 .mask = take(bytes),
                 .half = {take(bytes / 2), take(bytes / 2)},
                 .q = take(rows),
                 .from = take(bytes),
                 .to = take(bytes)};
    uint64_t state = 1;
    for (size_t i = 0; i < n; i++) { /* about normal */
        double sum = -4;
        for (int k = 0; k < 8; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            sum += (double)(state >> 33) * 0x1p-31;
        }
        b.x[i] = (float)(sum * 1e-3), b.e[i] = (float)(sum * 1e-4), b.mask[i] = 1;
        b.half[0][i] = tri__to_bf16(b.x[i]), b.half[1][i] = tri__to_f16(b.x[i]);
    }
    memset(b.from, 1, bytes), memset(b.to, 2, bytes);
    return b;
}

/* The call, and the bytes that it reads and writes. */
static tri_call call_of(const buffers *b, const kind *k, const tri_attr *attr, int threads, double *bytes) {
    tri_code code = (tri_code)attr->code;
    int64_t n = (int64_t)(b->bytes / sizeof(float)), row = tri__coded_bytes(code, n);
    int wide = k->type == TRI_F32, no_x = k->op == TRI_OP_pack && k->mask;
    double numbers = (double)n * (no_x ? 0 : wide ? 4 : 2), all = (double)n * 4;
    void *data = wide ? (void *)b->x : b->half[k->type == TRI_F16];
    tri_call call = {.op = k->op, .attr = attr, .threads = threads};
    call.t[k->op == TRI_OP_pack ? 0 : 1] = (tri_tensor){b->q, k->members, row};
    if (k->op == TRI_OP_pack) {
        call.t[TRI_ARG(pack, x)] = (tri_tensor){no_x ? NULL : data, 1, n};
        call.dtype[TRI_ARG(pack, x)] = (uint8_t)k->type;
        call.t[TRI_ARG(pack, e)] = (tri_tensor){k->feedback ? b->e : NULL, 1, n};
        call.t[TRI_ARG(pack, mask)] = (tri_tensor){k->mask ? b->mask : NULL, 1, n};
    } else {
        static int32_t apply = 1;
        call.t[0] = (tri_tensor){k->mask ? b->mask : data, 1, n};
        call.dtype[0] = (uint8_t)k->type;
        call.t[k->op == TRI_OP_unpack ? 2 : 3] = (tri_tensor){&apply, 1, 1};
    }
    *bytes = numbers + (k->feedback ? 2 * all : 0) + (k->mask ? all : 0) + (double)(k->members * row);
    return call;
}

static double median(double *sample, int n) {
    qsort(sample, (size_t)n, sizeof *sample, bench_ascending);
    return sample[n / 2];
}

/* Median seconds of a call and of a copy, in turns. Short ones are repeated. */
static void time_both(const buffers *b, const tri_call *call, tri_kernel *run, double seconds, double *one,
                      double *copy) {
    static double a[MOST], c[MOST];
    int n = 0, threads = call->threads, times = b->bytes < SHORT ? 16 : 1;
    double end = bench_clock(threads) + seconds;
    run(call);
    do {
        double begin = bench_clock(threads);
        for (int i = 0; i < times; i++) run(call);
        a[n] = (bench_clock(threads) - begin) / times;
        begin = bench_clock(threads);
        for (int i = 0; i < times; i++) {
            memcpy(b->to, b->from, b->bytes);
            __asm__ volatile("" ::"r"(b->to) : "memory");
        }
        c[n++] = (bench_clock(threads) - begin) / times;
    } while (n < MOST && (n < 5 || bench_clock(threads) < end));
    *one = median(a, n), *copy = median(c, n);
}

static int wanted(const char *name, char **names, int n) {
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0) return 1;
    return n == 0;
}

int main(int argc, char **argv) {
    static const size_t sizes[] = {64 << 20, 1 << 20};
    int threads = 1, at = 1;
    double seconds = 0.2;
    for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
        if (strcmp(argv[at], "--threads") == 0) threads = atoi(argv[at + 1]);
        else if (strcmp(argv[at], "--seconds") == 0) seconds = atof(argv[at + 1]);
        else return fprintf(stderr, "coded: unknown option %s\n", argv[at]), 64;
    }
    tri_kernel_table table;
    tri__device_find("cpu")->kernels(&table);
    printf("%s, %d threads\n", tri__device_find("cpu")->describe(NULL), threads);
    printf("%-6s %-22s %6s %9s %7s %7s %6s %6s\n", "code", "what", "MB", "median us", "GB/s", "memcpy", "share",
           "own");
    for (int s = 0; s < 2; s++) {
        buffers b = buffers_open(sizes[s]);
        for (int code = TRI_CODE_BF16; code < TRI_CODE_COUNT; code++)
            for (int k = 0; k < KINDS && wanted(tri__code_name((tri_code)code), argv + at, argc - at); k++) {
                if (kinds[k].mask && code != TRI_CODE_SIGNS) continue;
                tri_attr attr = {.sums = kinds[k].op == TRI_OP_unpack && kinds[k].members > 1, .code = code};
                double bytes, one, copy, numbers = (double)b.bytes * (kinds[k].type == TRI_F32 ? 1 : 0.5);
                tri_call call = call_of(&b, &kinds[k], &attr, threads, &bytes);
                tri_kernel *run = tri__kernel(&table, kinds[k].op, &attr, kinds[k].type);
                time_both(&b, &call, run, seconds, &one, &copy);
                printf("%-6s %-22s %6zu %9.1f %7.2f %7.2f %6.2f %6.2f\n", tri__code_name((tri_code)code), kinds[k].name,
                       b.bytes >> 20, one * 1e6, bytes / one / 1e9, 2 * (double)b.bytes / copy / 1e9,
                       bytes / one / (2 * (double)b.bytes / copy), numbers / one / ((double)b.bytes / copy));
                fflush(stdout);
            }
    }
    return 0;
}
