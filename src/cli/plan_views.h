/* plan_views.h - what `trident plan` and `trident simulate` print in addition to tables of memory, from the facts of
 * study/study.h. */
#pragma once

#include "cli/cli.h"

/* The step as text: a row per rank, letters F, B, W, U with the microbatch's number after the first, dots where it is
 * idle. */
tri_status tri__print_timeline(const tri_cli *cli, const tri_json *simulation);
/* tri__output_check of --svg and --attention-map; words [n_words]: files of programs. */
tri_status tri__pictures_check(const tri_settings *settings, const char *const *words, int n_words);
/* The step as an SVG picture, to the file of --svg. Does nothing without --svg. */
tri_status tri__write_timeline(const tri_settings *settings, const tri_json *simulation);
/* The patterns of attention as an SVG picture, to the file of --attention-map. Does nothing without it. */
tri_status tri__write_map(const tri_settings *settings);
/* How each rank spends its time, and the activations it holds. */
tri_status tri__print_spent(const tri_cli *cli, const tri_json *simulation);
tri_status tri__print_params(const tri_cli *cli, const tri_json *params);
