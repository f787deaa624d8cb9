/* hardware_target.c - a target as data: the rows of a device's kernel table, their scratch space, its granule and
 * lanes. "kernels" has the types, each with its operations; the list of an operation is its workspace: fixed, row, col,
 * row_cols, half of tri_workspace, without the zeros at its end. */
#include "sim/hardware_keys.h"

enum { TERMS = 5 };

static const struct {
    const char *key;
    double max;
} figures[] = {{"granule", 1 << 20}, {"short_flops", 1e21}, {"ahead", 1e18},
               {"lanes", TRI_LANES}, {"flops", 1e21},       {"bytes", 1e18},
               {"mask_tokens", 1 << 20}};
enum { FIGURES = sizeof figures / sizeof *figures };

static tri_json *row_json(const tri_workspace *work) {
    const int64_t terms[TERMS] = {work->fixed, work->row, work->col, work->row_cols, work->half};
    tri_json *list = tri__json_array();
    int n = TERMS;
    while (n > 0 && terms[n - 1] == 0) n--;
    for (int i = 0; i < n; i++) tri__json_append_new(list, tri__json_integer(terms[i]));
    return list;
}

tri_json *tri__target_json(const tri_target *t) {
    const double values[FIGURES] = {t->granule, t->short_flops, (double)t->ahead, t->lanes, t->flops, t->bytes,
                                    t->mask_tokens};
    tri_json *root = tri__json_object(), *kernels = tri__json_object();
    for (int i = 0; i < FIGURES; i++)
        if (values[i] != 0) tri__json_set_new(root, figures[i].key, tri__json_real(values[i]));
    for (int dtype = 0; dtype < TRI_DTYPE_COUNT; dtype++) {
        tri_json *rows = tri__json_object();
        for (int v = 0; v < tri__variant_count(); v++)
            if (t->has[v][dtype]) tri__json_set_new(rows, tri__variant_row(v)->name, row_json(&t->work[v][dtype]));
        tri__json_set_filled(kernels, tri__dtype_name((tri_dtype)dtype), rows);
    }
    tri__json_set_new(root, "kernels", kernels);
    return root;
}

static tri_status read_figures(const char *name, const tri_json *value, double figure[static FIGURES]) {
    const char *known[FIGURES + 1] = {[FIGURES] = "kernels"};
    for (int i = 0; i < FIGURES; i++) known[i] = figures[i].key;
    TRI_TRY(tri__hardware_refuse(name, "target", value, known, FIGURES + 1));
    for (int i = 0; i < FIGURES; i++) {
        const tri_json *number = tri__json_get(value, figures[i].key);
        figure[i] = tri__json_number_value(number);
        if (number && (!tri__json_is_number(number) || figure[i] < 0 || figure[i] > figures[i].max))
            return tri__fail(TRI_DATA, "%s: target.%s has to be a number from 0 to %g", name, figures[i].key,
                             figures[i].max);
    }
    return TRI_OK;
}

static tri_status read_row(const char *name, const char *dtype, const char *op, const tri_json *list,
                           tri_workspace *work) {
    int64_t *const terms[TERMS] = {&work->fixed, &work->row, &work->col, &work->row_cols, &work->half};
    int fits = tri__json_is_array(list) && tri__json_size(list) <= TERMS;
    tri__json_each(list, i, term) {
        double x = tri__json_number_value(term);
        fits = fits && tri__json_is_integer(term) && x >= 0 && x <= 1e12;
        if (fits) *terms[i] = tri__json_integer_value(term);
    }
    if (fits) return TRI_OK;
    return tri__fail(TRI_DATA, "%s: target.kernels.%s.%s has to be a list of at most %d whole numbers from 0 on", name,
                     dtype, op, TERMS);
}

static tri_status read_rows(const char *name, const char *dtype, const tri_json *rows, tri_target *target) {
    int at = tri__dtype_find(dtype);
    if (at < 0 || !tri__json_is_object(rows))
        return tri__fail(TRI_DATA, "%s: target.kernels.%s has to be a type with an object {...} of operations", name,
                         dtype);
    tri__json_members(rows, m) {
        int variant = tri__variant_find(m->key);
        if (variant < 0)
            return tri__fail(TRI_DATA, "%s: target.kernels.%s: there is no operation %s", name, dtype, m->key);
        TRI_TRY(read_row(name, dtype, m->key, m->value, &target->work[variant][at]));
        target->has[variant][at] = 1;
    }
    return TRI_OK;
}

tri_status tri__target_read(tri_arena *arena, const char *name, const tri_json *value, const char *device,
                            const tri_target **out) {
    double figure[FIGURES];
    tri_target *target = tri__arena_alloc(arena, sizeof *target);
    tri_json *kernels = tri__json_get(value, "kernels");
    TRI_TRY(read_figures(name, value, figure));
    *target = (tri_target){.name = device, .granule = (int)figure[0], .short_flops = figure[1],
                           .ahead = (int64_t)figure[2], .lanes = (int)figure[3], .flops = figure[4], .bytes = figure[5],
                           .mask_tokens = (int)figure[6]};
    if (!tri__json_is_object(kernels))
        return tri__fail(TRI_DATA, "%s: target.kernels is missing: an object {...} of types", name);
    tri__json_members(kernels, m) TRI_TRY(read_rows(name, m->key, m->value, target));
    *out = target;
    return TRI_OK;
}
