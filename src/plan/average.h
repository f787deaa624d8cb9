/* average.h - averaged weights (average.c): what planning asks. */
#pragma once

#include "plan/optimizer.h"

/* TRI_USAGE where copies of the model take local steps: while they do there are no common weights to average. */
tri_status tri__average_check(const tri_plan_in *in);
/* For `update`, after the optimizer: the averages, and the state `live`. */
void tri__average_emit(tri_updating *up);
