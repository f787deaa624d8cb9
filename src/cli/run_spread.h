/* run_spread.h - the figures of several runs side by side: of folds or seeds, with their mean and spread. */
#ifndef TRI_CLI_RUN_SPREAD_H
#define TRI_CLI_RUN_SPREAD_H

#include "cli/cli.h"

/* {list: members, mean, spread} of members [{.., figures: {name: number}}], whose reference it takes. spread is the
 * standard deviation of a sample; both are null where a member lacks the figure. NULL: out of memory. */
tri_json *tri__members_json(const char *list, tri_json *members);
/* A row for each member, its title the value of `title` ("fold", "folder"), then with `moments` mean and spread.
 * Nothing where there are no figures. */
tri_status tri__members_print(const tri_cli *cli, const tri_json *facts, const char *list, const char *title,
                              int moments);

#endif
