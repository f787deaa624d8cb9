/* run_spread.c - mean and spread of the figures of several runs. */
#include "job/several.h"

/* Mean and standard deviation (of a sample: divided by n - 1) of a figure over all runs; null where one lacks it. */
static void add_moments(const tri_json *runs, const char *figure, tri_json *mean, tri_json *spread) {
    double sum = 0, squares = 0, n = (double)tri__json_size(runs);
    int whole = 1;
    tri__json_items(runs, run) {
        const tri_json *value = tri__json_get(tri__json_get(run, "figures"), figure);
        whole &= tri__json_is_number(value);
        sum += whole ? tri__json_number_value(value) : 0;
    }
    tri__json_items(runs, run) {
        double value = tri__number_in(tri__json_get(run, "figures"), figure);
        squares += (value - sum / n) * (value - sum / n);
    }
    tri__json_set_new(mean, figure, whole ? tri__json_real(sum / n) : tri__json_null());
    tri__json_set_new(spread, figure, whole && n > 1 ? tri__json_real(sqrt(squares / (n - 1))) : tri__json_null());
}

/* Whether a member of the figures is a number in some run; others are labels and decisions. */
static int is_figure(const tri_json *runs, const char *name) {
    tri__json_items(runs, run) if (tri__json_is_number(tri__json_get(tri__json_get(run, "figures"), name))) return 1;
    return 0;
}

tri_json *tri__members_json(const char *list, tri_json *members) {
    tri_json *mean = tri__json_object(), *spread = tri__json_object();
    tri__json_members(tri__json_get(tri__json_at(members, 0), "figures"), m)
        if (is_figure(members, m->key)) add_moments(members, m->key, mean, spread);
    return tri__json_pack("{s:o, s:o, s:o}", list, members, "mean", mean, "spread", spread);
}
