/* fast.c - chooses the instruction set, and adds its rows. */
#include "device/cpu/fast/runtime/fast.h"

#include "device/cpu/fast/runtime/isa.h"

/* The names that users read. */
#define NAME_sse2 "sse2"
#define NAME_avx2 "avx2"
#define NAME_avx512 "avx512"
#define NAME_avx512_bf16 "avx512"
#define NAME_neon "neon"

typedef const tri_kernel_row *const lists[]; /* end with NULL */
#define X(isa) extern lists tri__cpu_fast_lists_##isa;
TRI_ISAS(X)
#undef X

/* Lists of the best instruction set that this CPU has, of those that were compiled (Makefile: ISAS), and its name. */
static const tri_kernel_row *const *choose(const char **name) {
    static lists none = {NULL};
    const tri_kernel_row *const *best = none;
    *name = "plain C";
#define X(isa) \
    if (HAS_##isa) best = tri__cpu_fast_lists_##isa, *name = NAME_##isa;
    TRI_ISAS(X) /* the best last */
#undef X
    return best;
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
