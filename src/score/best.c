/* best.c - figures of a validation by the names of --best-by. */
#include "score/best.h"

#include <math.h>
#include <stddef.h>

static const struct {
    const char *name, *key;
    size_t at; /* in tri_scores */
    int falls; /* 1: less is better */
} rows[] = {
    [TRI_BEST_LOSS] = {"loss", "valid_loss", offsetof(tri_scores, loss), 1},
    [TRI_BEST_ACCURACY] = {"accuracy", "accuracy", offsetof(tri_scores, accuracy), 0},
    [TRI_BEST_F1] = {"f1", "f1_macro", offsetof(tri_scores, f1_macro), 0},
    [TRI_BEST_PR_AUC] = {"pr_auc", "pr_auc", offsetof(tri_scores, pr_auc), 0},
    [TRI_BEST_ROC_AUC] = {"roc_auc", "roc_auc", offsetof(tri_scores, roc_auc), 0},
};

const char *tri__best_name(tri_best_by by) { return rows[by].name; }

const char *tri__best_key(tri_best_by by) { return rows[by].key; }

double tri__best_figure(tri_best_by by, const tri_scores *scores) {
    return *(const double *)((const char *)scores + rows[by].at);
}

int tri__best_beats(tri_best_by by, double figure, double best) {
    if (!isfinite(figure)) return 0;
    return isnan(best) || (rows[by].falls ? figure < best : figure > best);
}
