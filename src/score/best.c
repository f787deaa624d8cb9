/* best.c - figures of a validation by the names of --best-by. */
#include "score/best.h"

static const struct {
    const char *name, *key;
    size_t at; /* in tri_scores */
    int falls; /* 1: less is better */
    int tasks; /* 1: of classes; 2: of numbers; 4: of several labels */
} rows[] = {
#define TRI_FIGURE(id, word, key, field, falls, tasks) {word, key, offsetof(tri_scores, field), falls, tasks},
#include "score/figures.def"
};

const char *tri__best_name(tri_best_by by) { return rows[by].name; }

const char *tri__best_key(tri_best_by by) { return rows[by].key; }

int tri__best_of_task(tri_best_by by, int task) {
    return rows[by].tasks >> (task == TRI_TASK_LABELS ? 2 : task != TRI_TASK_CLASSES) & 1;
}

double tri__best_figure(tri_best_by by, const tri_scores *scores) {
    return *(const double *)((const char *)scores + rows[by].at);
}

int tri__best_beats(tri_best_by by, double figure, double best) {
    if (!isfinite(figure)) return 0;
    return isnan(best) || (rows[by].falls ? figure < best : figure > best);
}
