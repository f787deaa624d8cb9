/* coded_report.h - says how a run sends less between replicas: what is coded (plan/pass_compress.c), who steps alone.
 * */
#ifndef TRI_ENGINE_CODED_REPORT_H
#define TRI_ENGINE_CODED_REPORT_H

#include "base/log.h"
#include "plan/plan.h"

/* Nothing where no code was asked for, no optimizer sends signs and no copies step alone. train: the training programs
 * of all ranks. */
void tri__coding_say(const tri_plan_in *in, const tri_classes *train, const tri_log *log);

#endif
