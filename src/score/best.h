/* best.h - which validation of a run is the best: --best-by. */
#pragma once

#include "score/metrics.h"
#include "settings/settings.h"

/* "pr_auc", as the option has it; and as an `epoch` event has it: f1 is there f1_macro, loss valid_loss. */
const char *tri__best_name(tri_best_by by);
const char *tri__best_key(tri_best_by by);
int tri__best_of_task(tri_best_by by, int task); /* whether a task has this figure: TRI_TASK_CLASSES, ... */
/* NaN: it is not defined for these rows. */
double tri__best_figure(tri_best_by by, const tri_scores *scores);
/* Whether a figure beats the best so far (NaN: none yet). A loss falls, the others rise; a tie leaves the earlier one,
 * and what is not finite is never better. */
int tri__best_beats(tri_best_by by, double figure, double best);
