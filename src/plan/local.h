/* local.h - copies of the model that take local steps and synchronise every N steps (pass_local.c): what other passes
 * ask. */
#pragma once

#include "plan/optimizer.h"

/* Whether the program is of such steps. */
int tri__takes_local_steps(const tri_pass *pass);
/* For `shard`, which has resolved hybrids: TRI_USAGE where there are no copies that could take them. */
tri_status tri__local_check(const tri_pass *pass);
/* For copies that take them, this one being `copy`: the state of each one's own weights; the slots of the anchor. */
void tri__local_weights(tri_pass *pass, int copy, int copies);
void tri__local_anchor(tri_pass *pass, tri_builder *build);
/* For `update`: clipping limits a copy's own gradients to this many times the norm that is asked for; 1: no local
 * steps. */
double tri__local_norm_factor(const tri_pass *pass);
/* For `update`: all copies apply a step or none does, whichever copy's norm (of `sums`, which this rank's copy has
 * used) is not finite. */
void tri__local_agree(tri_updating *up, int sums);
