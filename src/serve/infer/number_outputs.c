/* number_outputs.c - a row's values as its answer. */
#include "serve/infer/number_outputs.h"

/* Of quantiles all are part of the answer. */
static int levels_of(const tri_opened *o) { return o->numbers.level ? o->numbers.n : 0; }

int tri__outputs(const tri_opened *o) {
    if (!tri__preprocess_is_number(o->preprocess)) return o->preprocess->n_classes;
    return 1 + levels_of(o) + 2 * (o->decision.interval.share > 0);
}

tri_status tri__output_names(const tri_opened *o, char ***names) {
    static const char *const end[] = {"low", "high"};
    int n = tri__outputs(o), levels = levels_of(o), numbers = tri__preprocess_is_number(o->preprocess);
    TRI_TRY(TRI_NEW(*names, n, "the names of predictions"));
    for (int c = 0; c < n; c++) {
        const char *name = !numbers        ? o->preprocess->label[c]
                           : !c            ? "prediction"
                           : c <= levels   ? o->preprocess->label[c - 1]
                                           : end[c - levels - 1];
        if (!((*names)[c] = strdup(name))) return tri__fail(TRI_RESOURCE, "out of memory for the names of predictions");
    }
    return TRI_OK;
}

void tri__output_rows(const tri_opened *o, float *values, int64_t n, float *answers) {
    const tri_number_set *set = &o->numbers;
    tri__number_sort(set, values, n);
    for (int64_t i = 0; i < n; i++, values += set->n) {
        tri_interval is = tri__conformal_of(&o->decision.interval, set, values);
        *answers++ = (float)tri__number_point(set, values);
        for (int c = 0; c < levels_of(o); c++) *answers++ = (float)set->in_units(set->scale, (double)values[c]);
        if (o->decision.interval.share > 0) *answers++ = (float)is.low, *answers++ = (float)is.high;
    }
}
