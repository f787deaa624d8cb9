/* elastic.h - `train --elastic`: which meshes are possible with the ranks that are left. */
#ifndef TRI_CLI_ELASTIC_H
#define TRI_CLI_ELASTIC_H

#include "settings/settings.h"

#include <stdint.h>

/* For tri_supervised: how many of `alive` ranks the best mesh that can be planned uses, and its stages and replicas; 0:
 * there is none. settings: tri_settings of the run. */
int tri__elastic_fit(void *settings, int alive, int32_t *stages, int32_t *replicas);

#endif
