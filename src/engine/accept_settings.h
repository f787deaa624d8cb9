/* accept_settings.h - whether settings can be carried out. */
#pragma once

#include "settings/settings.h"

/* TRI_USAGE when this build cannot do what the settings ask, or values contradict each other. TRI_NOINPUT when the
 * folder to resume from does not exist. */
tri_status tri__engine_accept(const tri_settings *settings);
/* The same for eval and predict. */
tri_status tri__infer_accept(const tri_settings *settings);
/* The rest of it, when the number of the run's steps is known: whether each kind of step has its place in the run
 * (plan/step_kinds.h). */
tri_status tri__accept_steps(const tri_settings *settings, int64_t steps);
/* Part of it: TRI_USAGE when --precision or --quantize is not one of training. */
tri_status tri__accept_precision(const tri_settings *settings);
/* --folds and --seeds are several runs, which src/cli starts one by one: TRI_USAGE where one session should be all. */
tri_status tri__accept_single(const tri_settings *settings);
