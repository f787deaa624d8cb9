/* run_spread.h - the figures of several runs side by side: of folds or seeds, with their mean and spread. */
#ifndef TRI_JOB_RUN_SPREAD_H
#define TRI_JOB_RUN_SPREAD_H

#include "base/json.h"

/* {list: members, mean, spread} of members [{.., figures: {name: number}}], whose reference it takes. spread is the
 * standard deviation of a sample; both are null where a member lacks the figure. NULL: out of memory. */
tri_json *tri__members_json(const char *list, tri_json *members);

#endif
