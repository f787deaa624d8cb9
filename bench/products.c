/* products.c - times large fp32 products alternately, in one process: with packed panels and the kernel of this CPU,
 * and optionally with another library's sgemm_, which uses its own threads. Shapes are those of training: rows of x are
 * T tokens; forward is x w^T, dx is dy w, dw is dy^T x. Prints GFLOP/s, medians over the rounds and in parentheses the
 * best.
 *
 *   products [--threads N] [--rounds R] [--tokens T] [--simd avx2] [--library PATH]
 *
 * PyTorch's libtorch_cpu.so is such a library (MKL, on x86-64). */
#include "device/device.h"
#include "tests/lib/simd_sets.h"

#include "measure.h"

#include <dlfcn.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Column-major, as in Fortran. */
typedef void sgemm_call(const char *turn_a, const char *turn_b, const int *m, const int *n, const int *k,
                        const float *alpha, const float *a, const int *lda, const float *b, const int *ldb,
                        const float *beta, float *c, const int *ldc);

enum { MOST_ROUNDS = 101, WAYS = 2 };

static const struct {
    int out, in;
} layers[] = {{384, 384},  {1152, 384}, {1536, 384}, {384, 1536}, {512, 512}, {2048, 512},
              {512, 2048}, {768, 768},  {2304, 768}, {3072, 768}, {768, 3072}};
static const char *const kinds[] = {"forward", "dx", "dw"};

static sgemm_call *find(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    sgemm_call *call = NULL;
    if (library) *(void **)(void *)&call = dlsym(library, "sgemm_");
    if (!call) fprintf(stderr, "products: no sgemm_ in %s: %s\n", path, dlerror());
    return call;
}

static float *take(int64_t n) {
    void *memory;
    if (tri__device_find("cpu")->alloc(NULL, (size_t)n * sizeof(float), &memory) != TRI_OK) {
        fprintf(stderr, "products: out of memory\n");
        exit(1);
    }
    for (int64_t i = 0; i < n; i++) ((float *)memory)[i] = (float)((uint64_t)i * 2654435761u % 10007) / 50035 - 0.1f;
    return memory;
}

static void give(float *memory, int64_t n) { tri__device_find("cpu")->free(NULL, memory, (size_t)n * sizeof(float)); }

/* Rows of c are columns of its transpose: c^T = b^T a^T. */
static void call_library(sgemm_call *call, const tri_gemm *g) {
    int m = (int)g->m, n = (int)g->n, k = (int)g->k;
    float one = 1, none = 0;
    call(g->b_transposed ? "T" : "N", g->a_transposed ? "T" : "N", &n, &m, &k, &one, g->b, g->b_transposed ? &k : &n,
         g->a, g->a_transposed ? &m : &k, &none, g->c, &n);
}

/* Seconds of each method in each round, alternating. */
static void measure(const simd_set *set, const tri_gemm *g, sgemm_call *library, int rounds,
                    double seconds[WAYS][MOST_ROUNDS]) {
    for (int round = -1; round < rounds; round++)
        for (int way = 0; way < (library ? WAYS : WAYS - 1); way++) {
            double begin = bench_clock(g->threads);
            if (way == 0) set->gemm(g);
            else call_library(library, g);
            if (round >= 0) seconds[way][round] = bench_clock(g->threads) - begin;
        }
}

static void report(const simd_set *set, int64_t tokens, int64_t out, int64_t in, int kind, int threads, int rounds,
                   sgemm_call *library) {
    tri_gemm g = {.m = kind == 2 ? out : tokens,
                  .n = kind == 0 ? out : in,
                  .k = kind == 0   ? in
                       : kind == 1 ? out
                                   : tokens,
                  .a_transposed = kind == 2,
                  .b_transposed = kind == 0,
                  .threads = threads};
    tri_workspace size = TRI_GEMM_WORK;
    int64_t work = tri__workspace_bytes(&size, g.m, g.n, 0) / 4 + 1;
    float *a = take(g.m * g.k), *b = take(g.k * g.n), *w = take(work);
    static double seconds[WAYS][MOST_ROUNDS];
    g.a = a, g.b = b, g.c = take(g.m * g.n), g.work = w;
    measure(set, &g, library, rounds, seconds);
    double flops = 2.0 * (double)g.m * (double)g.n * (double)g.k / 1e9;
    printf("%-8s %5ld x %4ld x %5ld", kinds[kind], (long)g.m, (long)g.n, (long)g.k);
    for (int way = 0; way < (library ? WAYS : WAYS - 1); way++) {
        qsort(seconds[way], (size_t)rounds, sizeof(double), bench_ascending);
        printf("  %8.1f (%5.1f)", flops / seconds[way][rounds / 2], flops / seconds[way][0]);
    }
    printf("\n");
    fflush(stdout);
    give(a, g.m * g.k), give(b, g.k * g.n), give(g.c, g.m * g.n), give(w, work);
}

int main(int argc, char **argv) {
    int threads = 2, rounds = 15;
    int64_t tokens = 2048;
    sgemm_call *library = NULL;
    simd_set sets[SIMD_SETS_MOST], *set = &sets[find_sets(sets) - 1];
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--threads") == 0) threads = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--rounds") == 0) rounds = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--tokens") == 0) tokens = atoll(argv[i + 1]);
        else if (strcmp(argv[i], "--library") == 0 && !(library = find(argv[i + 1]))) return 66;
        else if (strcmp(argv[i], "--simd") == 0)
            while (set > sets && strcmp(set->name, argv[i + 1]) != 0) set--;
    }
    if (threads < 1 || rounds < 1 || rounds > MOST_ROUNDS || tokens < 1)
        return fprintf(stderr, "products: at least one thread, token and round, at most %d rounds\n", MOST_ROUNDS), 2;
    omp_set_num_threads(threads);
    printf("%s, %d threads, %d rounds\n%-8s %-20s  %16s%s\n", set->name, threads, rounds, "", "m x n x k",
           "packed", library ? "           library" : "");
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        for (int kind = 0; kind < 3; kind++)
            report(set, tokens, layers[i].out, layers[i].in, kind, threads, rounds, library);
    return 0;
}
