/* join_parts.h - shared by join.c (the first world of an MPI job) and next.c (those after it). */
#pragma once

#include "comm/mpi/mpi.h"
#include "comm/mpi/plugin.h"

/* What ranks exchange. */
typedef struct tri_card {
    char machine[160]; /* equal if a descriptor can be passed and a process be watched */
    uint64_t random;
    int32_t failed;    /* a tri_status; in the first round that of a rank which cannot even begin */
    char text[444];    /* why it failed */
    /* Of a world that follows others: */
    int32_t was;       /* rank in the world before; -1: it was a spare */
    int32_t ranks, stages, replicas; /* of the mesh that this rank would choose: that of the first counts */
    int32_t generation;
    int64_t committed; /* as in tri_control */
} tri_card;

typedef struct tri_joining {
    const tri_mpi_plugin *plugin;
    const tri_stop *stop;
    const tri_launch *launch; /* NULL: of a world that follows others, whose ranks report elsewhere */
    double seconds;      /* in which ranks meet */
    double deadline;     /* of the current gather */
    void *state;
    int rank, size;      /* among the ranks of the job that live */
    int members;         /* of the world: the first ones; the others are spares */
    int outlives;        /* as of the world */
    int opened;          /* a world has taken ownership of the plug-in's state */
    tri_card mine, said; /* sent in the two rounds; in use by MPI when a round was given up, until close or shrink */
    tri_card *all;       /* [size] received in the last round */
    tri_nodes nodes;
    int *here, n_here;   /* world ranks of this machine */
} tri_joining;

/* A call of the plug-in as a status: "MPI failed to <what>: ...". */
tri_status tri__mpi_try(const tri_mpi_plugin *plugin, int error, const char *what);
/* The first round: `mine`, to which the machine is added, from all ranks to all. */
tri_status tri__joining_cards(tri_joining *join);
/* Makes and opens the world of the first `members` ranks; the others only take part in the second round, and get no
 * world. */
tri_status tri__joining_world(tri_joining *join, const tri_ranks *how, const tri_launch *launch, tri_world **world);
void tri__joining_free(tri_joining *join);
/* NULL: MPI did not bring this world's ranks together. */
const tri_mpi_plugin *tri__mpi_plugin_of(const tri_world *world);
