/* elastic.h - `train --elastic`: which meshes are possible with the ranks that are left. */
#ifndef TRI_CLI_ELASTIC_H
#define TRI_CLI_ELASTIC_H

#include "cli/launch.h"

#include <stdint.h>

/* What --elastic means under this launcher: rank 0, or the process that starts the ranks, says it in one line.
 * TRI_USAGE where --replicate-state or --min-ranks could not be honoured. */
tri_status tri__elastic_check(tri_cli *cli, const tri_settings *settings, const tri_launch *launch);
/* For tri_supervised: how many of `alive` ranks the best mesh that can be planned uses, and its stages and replicas; 0:
 * there is none. settings: tri_settings of the run. */
int tri__elastic_fit(void *settings, int alive, int32_t *stages, int32_t *replicas);

#endif
