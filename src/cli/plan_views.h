/* plan_views.h - what `trident plan` and `trident simulate` print beside tables of memory, from the facts of
 * study/views.h. */
#ifndef TRI_CLI_PLAN_VIEWS_H
#define TRI_CLI_PLAN_VIEWS_H

#include "cli/cli.h"

/* The step as text: a row a rank, letters F, B, W, U with the microbatch's number after the first, dots where it
 * computes nothing. */
tri_status tri__print_timeline(const tri_cli *cli, const tri_json *simulation);
/* The step as an SVG picture, to the file of --svg: a regular file is replaced, as by `predict --output`. Without --svg
 * nothing. */
tri_status tri__write_timeline(const tri_settings *settings, const tri_json *simulation);
/* What each rank spends its time on, and how much it holds. */
tri_status tri__print_spent(const tri_cli *cli, const tri_json *simulation);
tri_status tri__print_params(const tri_cli *cli, const tri_json *params);

#endif
