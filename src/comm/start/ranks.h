/* ranks.h - tri_ranks_run: runs a function on n ranks of this machine. Threads (ranks.c), or forks with a supervising
 * parent (forks.c). */
#pragma once

#include "comm/world/world.h"

/* What all ranks share. */
typedef struct tri_ranks_job {
    tri_segment segment;
    tri_rank_main *main;
    void *argument;
} tri_ranks_job;

/* One rank from start to end: opens its world, runs main, makes its failure everyone's, leaves. */
tri_status tri__ranks_one(const tri_ranks_job *job, int local);
tri_status tri__ranks_forks(tri_ranks_job *job);
