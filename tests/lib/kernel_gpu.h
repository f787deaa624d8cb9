/* kernel_gpu.h - one call of one kernel of the CUDA plug-in, and its results beside those of device "reference".
 *
 * Tolerance, fp32: as test_kernels.c. 16-bit types: a few roundings of the type's mantissa. Operations of integers and
 * codes have one result: the same bits, rounded once to 16-bit types. Sums of 8-bit products have fewer bits than
 * fp32. Of 8-bit floating-point numbers as many may differ by one step as the rounding of what they are made from moves
 * across a boundary: 1 % of fp32, 10 % of 16-bit types. Attention's gradients in 8 bits go beyond the largest number
 * here, and differences of them are smaller than the errors of 16-bit types: test_cuda_fp8.c compares them with
 * attention's. */
#ifndef TESTS_KERNEL_GPU_H
#define TESTS_KERNEL_GPU_H

#include "tests/lib/kernel_parts.h"
#include "base/clock.h"
#include "numbers/quantized.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PLACE = 256, ROOM = 512 << 20 }; /* bytes: alignment of operands; device memory for one call */
enum { MOST_SHARES = 8 };

static const tri_dtype types[] = {TRI_F32, TRI_BF16, TRI_F16};

typedef struct gpu {
    const tri_device *device;
    void *context;
    tri_kernel_table table, reference;
    char *memory, *stage; /* [ROOM] on the device, on the host */
    tri_dtype type;
    int turn, seen[TRI_VARIANTS];
    int differ; /* cases in which a row depended on others */
    int few, own;
    const char *ops;             /* --ops: only operations with this in their name; NULL: all */
    int share, shares, n_tried;  /* --share; shares 0: it was not given */
} gpu;

/* What a test of kernels is asked for:
 *   --few | --own      as the test's comment says
 *   --only TEST        that one alone, and patterns
 *   --ops TEXT         operations with this in their name
 *   --share I/N        every N-th case from I on (run_shares)
 * Returns 0 at an argument that is none of them. */
static inline int read_arguments(gpu *g, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--few") == 0) g->few = 1;
        else if (strcmp(argv[i], "--own") == 0) g->few = g->own = 1;
        else if (strcmp(argv[i], "--only") == 0) cmocka_set_test_filter(value), i++;
        else if (strcmp(argv[i], "--ops") == 0) g->ops = value, i++;
        else if (strcmp(argv[i], "--share") == 0 && sscanf(value, "%d/%d", &g->share, &g->shares) == 2 &&
                 g->share >= 0 && g->share < g->shares) i++;
        else return 0;
    }
    return 1;
}

/* Into how many processes a whole test is cut: most of its time are the reference's rows, on one core each. */
static inline int shares_of(const gpu *g) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN) / 2;
    return g->shares || g->few || cores < 2 ? 1 : cores < MOST_SHARES ? (int)cores : MOST_SHARES;
}

/* Copies what a process printed, and closes it. */
static inline void tell(FILE *printed) {
    char line[512];
    rewind(printed);
    while (fgets(line, sizeof line, printed)) fputs(line, stdout);
    fclose(printed);
}

/* Runs this program `n` times side by side, with --share I/N, and tells what the first one printed, and those that
 * failed. Returns the exit code. Called before anything of the GPU is in use. */
static inline int run_shares(int argc, char **argv, int n) {
    FILE *printed[MOST_SHARES];
    pid_t child[MOST_SHARES];
    double begin = tri__clock(), seconds[MOST_SHARES];
    int code[MOST_SHARES] = {0}, worst = 0;
    for (int i = 0; i < n; i++) {
        assert_non_null(printed[i] = tmpfile());
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (child[i]) continue;
        char text[32], *more[16] = {NULL};
        assert_true(argc + 3 < 16);
        snprintf(text, sizeof text, "%d/%d", i, n);
        memcpy(more, argv, (size_t)argc * sizeof *argv);
        more[argc] = "--share", more[argc + 1] = text;
        dup2(fileno(printed[i]), 1), dup2(1, 2);
        execv("/proc/self/exe", more);
        _exit(127);
    }
    for (int left = n, status; left; left--) {
        pid_t ended = wait(&status);
        for (int i = 0; i < n; i++)
            if (child[i] == ended)
                code[i] = WIFEXITED(status) ? WEXITSTATUS(status) : 1, seconds[i] = tri__clock() - begin;
    }
    for (int i = 0; i < n; i++) {
        if (code[i] != 77) printf("share %d of %d: exit %d, %.1f s\n", i, n, code[i], seconds[i]);
        if (i == 0 || (code[i] && code[i] != 77)) tell(printed[i]);
        else fclose(printed[i]);
        if (code[i] && worst != 1) worst = code[i] == 77 ? 77 : 1;
    }
    return worst;
}

/* Whether this process tries the next case; one that it leaves to others counts as seen. */
static inline int is_asked(gpu *g, int variant) {
    if (g->ops && !strstr(tri__variant_row(variant)->name, g->ops)) return g->seen[variant]++, 0;
    if (g->shares < 2 || g->n_tried++ % g->shares == g->share) return 1;
    g->seen[variant]++;
    return 0;
}

/* Where each block of a call goes, in bytes from the beginning: its operand lies at a multiple of PLACE, or `elements`
 * further. */
typedef struct places {
    size_t block[TRI_MAX_ARGS], work, end;
} places;

static inline places place(const kernel_call *k, int elements, size_t scratch) {
    places at = {.work = 0};
    size_t used = PLACE;
    for (int a = 0; a < TRI_MAX_ARGS; a++) {
        if (!k->block[a]) continue;
        at.block[a] = used + (size_t)elements * tri__dtype_bytes(operand_dtype(k, a)) - GUARD;
        used = (at.block[a] + k->bytes[a] + 3 * GUARD + PLACE) / PLACE * PLACE;
    }
    at.work = used;
    at.end = used + scratch + GUARD;
    assert_true(at.end <= ROOM);
    return at;
}

/* As kernel_call_run, with everything on the device. */
static inline void run_on_gpu(gpu *g, kernel_call *k, int elements) {
    size_t scratch;
    tri_dtype type = kernel_call_row(k, &g->table, &scratch);
    places at = place(k, elements, scratch);
    tri_call call = k->call;
    for (int a = 0; a < TRI_MAX_ARGS; a++) {
        if (!k->block[a]) continue;
        memcpy(g->stage + at.block[a], k->block[a], k->bytes[a] + 2 * GUARD);
        call.t[a].data = g->memory + at.block[a] + GUARD;
    }
    memset(g->stage + at.work, GUARD_BYTE, scratch + GUARD);
    call.work = g->memory + at.work;
    call.table = &g->table;
    call.context = g->context;
    assert_int_equal(g->device->async->copy(g->context, g->memory, g->stage, at.end), TRI_OK);
    g->device->async->begin_run(g->context, call.step);
    g->table.run[k->at.variant][type](&call);
    if (g->device->async->finish(g->context) != TRI_OK) kernel_call_fail(k, 0, tri_error());
    assert_int_equal(g->device->async->copy(g->context, g->stage, g->memory, at.end), TRI_OK);
    for (int a = 0; a < TRI_MAX_ARGS; a++)
        if (k->block[a]) memcpy(k->block[a], g->stage + at.block[a], k->bytes[a] + 2 * GUARD);
    kernel_call_check(k, g->stage + at.work + scratch);
}

/* |a - b| <= relative |b| + of_largest max |b| for each element, and a step of 8 bits where both are rounded to it;
 * ||a - b|| <= whole ||b||; of max |b| and ||b|| at least KERNEL_SMALL, of a sum of what the operation wrote at least
 * the sum of sizes. */
typedef struct tolerance {
    double relative, of_largest, whole;
} tolerance;

static inline tolerance tolerance_of(const kernel_case *at, tri_dtype type) {
    const tri_op_row *row = tri__variant_row(at->variant);
    tri_op op = row->op;
    if (tri__row_is_fp8(row))
        return type == TRI_F32 ? (tolerance){1e-2, 2e-3, 2e-3} : (tolerance){2e-2, 6e-3, 2e-2};
    if (type == TRI_F32 && op == TRI_OP_linear && kernel_case_is(at, TRI_FACT_FP8))
        return (tolerance){1e-2, 2e-3, 2e-3};
    if (type == TRI_BF16 && (op == TRI_OP_attention_din || op == TRI_OP_attention_part_din) &&
        !(row->facts & (TRI_FACT_FIRST | TRI_FACT_SCALED)))
        return (tolerance){2e-2, 4e-3, 1e-2}; /* dv: weights are rounded, and terms may cancel */
    if (type == TRI_BF16 && op == TRI_OP_attention && (row->facts & TRI_FACT_RELATIVE) && !(row->facts & TRI_FACT_BIAS))
        return (tolerance){2e-2, 4e-3, 1e-2}; /* scores of positions are rounded before they are added */
    if (type == TRI_BF16 && op == TRI_OP_linear_dw && kernel_case_is(at, TRI_FACT_EXPERTS))
        return (tolerance){2e-2, 6e-3, 1e-2}; /* a 16-bit dw is rounded after each group of an expert's rows */
    if (type == TRI_F32) return (tolerance){1e-4, 1e-5, 1e-5};
    return type == TRI_BF16 ? (tolerance){2e-2, 2e-3, 1e-2} : (tolerance){2e-3, 1e-3, 1e-3};
}

static inline void compare(const kernel_call *got, const kernel_call *want, int arg, tolerance limit) {
    double difference = 0, norm = 0, least = fmax(KERNEL_SMALL, kernel_sum_scale(want, arg)), largest = least;
    int64_t n = operand_count(want, arg), steps = 0, most_steps = 1 + n / (got->type == TRI_F32 ? 100 : 10);
    char text[160];
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(kernel_value(want, arg, i)));
    for (int64_t i = 0; i < n; i++) {
        double a = kernel_value(got, arg, i), b = kernel_value(want, arg, i);
        double step = kernel_step_8_bits(want, arg, fmax(fabs(a), fabs(b)));
        if (a != b && fabs(a - b) <= step) {
            if (++steps > most_steps) kernel_call_fail(got, arg, "too much of it is rounded differently");
            continue;
        }
        if (!(fabs(a - b) <= limit.relative * fabs(b) + limit.of_largest * largest + step)) {
            snprintf(text, sizeof text, "%s: element %lld is %.9g, not %.9g", tri__dtype_name(got->type), (long long)i,
                     a, b);
            kernel_call_fail(got, arg, text);
        }
        difference += (a - b) * (a - b), norm += b * b;
    }
    snprintf(text, sizeof text, "%s: the whole tensor is off by %.3g of its norm", tri__dtype_name(got->type),
             sqrt(difference / fmax(norm, 1e-300)));
    if (sqrt(difference) > limit.whole * fmax(sqrt(norm), least)) kernel_call_fail(got, arg, text);
}

/* Whether an operand has one result, whatever computes it. */
static inline int is_exact(const kernel_case *at, int arg) {
    tri_op op = at->op;
    if (op == TRI_OP_pack || op == TRI_OP_unpack || op == TRI_OP_momentum_out) return 1;
    if (op == TRI_OP_route && (arg == TRI_ARG(route, choice) || arg == TRI_ARG(route, from))) return 1;
    if (op == TRI_OP_dispatch || (op >= TRI_OP_fp8_cast && op <= TRI_OP_fp8_history)) return 1;
    if (op == TRI_OP_linear && kernel_case_is(at, TRI_FACT_QUANT) && !kernel_case_is(at, TRI_FACT_FP8))
        return !kernel_case_is(at, TRI_FACT_ACT) || arg == TRI_ARG(linear, h);
    return kernel_case_is(at, TRI_FACT_INT8) || op == TRI_OP_row_max || op == TRI_OP_quantize;
}

static inline void compare_bits(const kernel_call *got, const kernel_call *want, int arg) {
    char text[160];
    for (int64_t i = 0; i < operand_count(want, arg); i++) {
        double a = kernel_value(got, arg, i), b = kernel_value(want, arg, i);
        if (operand_dtype(want, arg) == TRI_F32) b = tri__rounded(operand_dtype(got, arg), (float)b);
        if (a == b || (isnan(a) && isnan(b))) continue;
        snprintf(text, sizeof text, "%s: element %lld is %.9g, not %.9g", tri__dtype_name(got->type), (long long)i, a,
                 b);
        kernel_call_fail(got, arg, text);
    }
}

static inline void try_variant(gpu *g, const kernel_case *at, tri_dtype loose, float p, unsigned acc,
                               unsigned left_out) {
    const tri_op_row *row = tri__variant_row(at->variant);
    kernel_call want, got[3]; /* aligned, again, not aligned */
    kernel_call_open(&want, at, p, acc, left_out);
    if (g->type == TRI_F32) kernel_call_copy(&got[0], &want);
    else {
        kernel_call_open_mixed(&got[0], at, g->type, loose, p, acc, left_out);
        kernel_call_equalise(&want, &got[0]);
    }
    for (int i = 1; i < 3; i++) kernel_call_copy(&got[i], &got[0]);
    kernel_call_run(&want, &g->reference, 1);
    for (int i = 0; i < 3; i++) run_on_gpu(g, &got[i], i == 2);
    for (int a = 0; a < row->n_args; a++) {
        if (!tri__access_writes(row->arg[a].access) || !got[0].block[a]) continue;
        for (int i = 0; i < 3 && is_exact(at, a); i += 2) compare_bits(&got[i], &want, a);
        int is_compared = g->type == TRI_F32 ||
                          (!kernel_sums_rounded(at->variant, a) &&
                           (at->op != TRI_OP_attention_din || !(row->facts & TRI_FACT_SCALED)));
        for (int i = 0; i < 3 && is_compared; i += 2)
            compare(&got[i], &want, a, tolerance_of(at, g->type));
        if (memcmp(got[0].block[a], got[1].block[a], got[0].bytes[a] + GUARD) != 0)
            kernel_call_fail(&got[1], a, "differs from the first run");
    }
    for (int i = 0; i < 3; i++) kernel_call_close(&got[i]);
    kernel_call_close(&want);
}

/* All ways of calling one case: dropout off and on, all sums into operands off and on, optional outputs there and left
 * out; without dropout also keys and a factor. */
static inline void try_case(const kernel_case *at, void *context) {
    gpu *g = context;
    if (!is_asked(g, at->variant)) return;
    const tri_op_row *row = tri__variant_row(at->variant);
    unsigned sums = 0, optional = 0;
    int loose = 0, key = kernel_case_arg(at, "key");
    for (int a = 0; a < row->n_args; a++) {
        if (row->arg[a].access == TRI_ACCESS_A) sums |= 1u << a;
        if (row->arg[a].access == TRI_ACCESS_A && row->arg[a].dtype == TRI_DTYPE_ANY) loose = 1;
        if (tri__access_writes(row->arg[a].access) && row->arg[a].optional) optional |= 1u << a;
    }
    if (at->op == TRI_OP_concat_din) optional = 0; /* a part that is left out has no columns */
    for (int on = 0; on <= (key >= 0); on++) {
        unsigned keys = on ? 0 : kernel_case_spare(at);
        float p = on ? 0.3f : 0;
        try_variant(g, at, g->type, p, 0, keys);
        if (sums) try_variant(g, at, g->type, p, sums, keys);
        if (optional) try_variant(g, at, g->type, p, 0, keys | optional);
        if (loose && g->type != TRI_F32) try_variant(g, at, TRI_F32, p, on ? 0 : sums, keys);
    }
    g->seen[at->variant]++;
}

static inline int open_gpu(gpu *g) {
    if (tri__device_get("cuda", &g->device) != TRI_OK) return 0;
    if (g->device->open(&tri__core, 0, 1 << 20, &g->context) != TRI_OK) return 0;
    g->device->kernels(&g->table);
    tri__device_find("reference")->kernels(&g->reference);
    g->stage = malloc(ROOM);
    return g->stage && g->device->alloc(g->context, ROOM, (void **)&g->memory) == TRI_OK;
}

static inline void close_gpu(gpu *g) {
    g->device->free(g->context, g->memory, ROOM);
    g->device->close(g->context);
    free(g->stage);
}

#endif
