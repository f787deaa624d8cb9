/* join.h - becoming a rank of a job that a launcher started. */
#pragma once

#include "comm/launchers/environment.h"
#include "comm/world/world.h"

/* tri_world_join for a launcher that has been detected already. */
tri_status tri__world_join_launch(const tri_ranks *how, const tri_launch *launch, tri_world **world);
