/* fast.c - chooses the instruction set, and adds its rows. */
#include "device/cpu/fast/runtime/fast.h"

#include <stddef.h>

typedef const tri_kernel_row *const lists[]; /* end with NULL */
#if defined(__x86_64__)
extern lists tri__cpu_fast_lists_sse2, tri__cpu_fast_lists_avx2, tri__cpu_fast_lists_avx512,
    tri__cpu_fast_lists_avx512_bf16;
#elif defined(__aarch64__)
extern lists tri__cpu_fast_lists_neon;
#endif

/* Lists of the best instruction set that this CPU has, and its name. */
static const tri_kernel_row *const *choose(const char **name) {
#if defined(__x86_64__)
    int avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
    *name = avx512 ? "avx512" : "avx2";
    if (avx512 && __builtin_cpu_supports("avx512bf16")) return tri__cpu_fast_lists_avx512_bf16;
    if (avx512) return tri__cpu_fast_lists_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return tri__cpu_fast_lists_avx2;
    *name = "sse2";
    return tri__cpu_fast_lists_sse2;
#elif defined(__aarch64__)
    *name = "neon";
    return tri__cpu_fast_lists_neon;
#else
    static lists none = {NULL};
    *name = "plain C";
    return none;
#endif
}

void tri__cpu_fast_rows(tri_kernel_table *table) {
    const char *name;
    for (const tri_kernel_row *const *list = choose(&name); *list; list++)
        for (const tri_kernel_row *row = *list; row->run; row++)
            if (!row->work.half) tri__kernel_table_put(table, row, row->dtype);
}

void tri__cpu_fast_half_rows(tri_kernel_table *table) {
    const char *name;
    for (const tri_kernel_row *const *list = choose(&name); *list; list++)
        for (const tri_kernel_row *row = *list; row->run; row++)
            if (row->work.half) tri__kernel_table_run(table, row->op, row->facts, row->dtype, row->run);
}

const char *tri__cpu_fast_name(void) {
    const char *name;
    choose(&name);
    return name;
}
